//! The order of training views: shuffled epochs without replacement.
//!
//! Epoch `e` is a permutation of all training views, a function of (seed, e) alone, so a [`Cursor`] is two numbers and
//! any position can be restored. An unreadable view keeps its position in every permutation and is skipped: the order
//! of the others does not depend on when it was detected.

use gausset_compute::rng;
use serde::{Deserialize, Serialize};

/// A position in the order of the views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    /// Epoch, from 0: a pass over all views.
    pub epoch: u64,
    /// Position in its permutation.
    pub position: u64,
}

/// The order of the training views, with a cursor in it.
///
/// ```
/// use gausset_train::views::{Cursor, ViewOrder};
///
/// let order = ViewOrder::new(1, 5, Cursor::default());
/// // Each view occurs once in the first epoch.
/// let mut views: Vec<usize> = order.upcoming(5).collect();
/// views.sort_unstable();
/// assert_eq!(views, [0, 1, 2, 3, 4]);
/// ```
#[derive(Clone, Debug)]
pub struct ViewOrder {
    seed: u64,
    cursor: Cursor,
    /// Permutations of the cursor's epoch and of the next one.
    epochs: [Vec<u32>; 2],
    /// Which views are skipped.
    skipped: Vec<bool>,
}

/// The permutation of an epoch.
fn permutation(seed: u64, epoch: u64, views: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..views as u32).collect();
    rng::shuffle(&mut order, seed, rng::stream::VIEWS, epoch);
    order
}

impl ViewOrder {
    /// The order of `views` training views, starting at `cursor`. A position past the end of its epoch is its end.
    #[must_use]
    pub fn new(seed: u64, views: usize, cursor: Cursor) -> Self {
        let epochs = [permutation(seed, cursor.epoch, views), permutation(seed, cursor.epoch + 1, views)];
        let mut order = Self { seed, cursor, epochs, skipped: vec![false; views] };
        order.skip_unusable();
        order
    }

    /// The current view; `None` if every view is skipped.
    #[must_use]
    pub fn current(&self) -> Option<usize> {
        self.epochs[0].get(self.cursor.position as usize).map(|&view| view as usize)
    }

    /// Position of [`Self::current`].
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Advances to the next view.
    pub fn advance(&mut self) {
        self.cursor.position += 1;
        self.skip_unusable();
    }

    /// Skips a view from now on.
    pub fn skip(&mut self, view: usize) {
        if let Some(skipped) = self.skipped.get_mut(view) {
            *skipped = true;
        }
        self.skip_unusable();
    }

    /// Number of skipped views.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped.iter().filter(|&&skipped| skipped).count()
    }

    /// Up to `count` views starting with the current one, at most to the end of the next epoch.
    pub fn upcoming(&self, count: usize) -> impl Iterator<Item = usize> + '_ {
        let here = self.epochs[0].iter().skip(self.cursor.position as usize);
        let views = here.chain(&self.epochs[1]).map(|&view| view as usize);
        views.filter(|&view| !self.skipped[view]).take(count)
    }

    /// Moves the cursor to the next view that is not skipped, which may be the current one.
    fn skip_unusable(&mut self) {
        if self.skipped.iter().all(|&skipped| skipped) {
            self.cursor.position = self.skipped.len() as u64;
            return;
        }
        loop {
            match self.current() {
                Some(view) if !self.skipped[view] => return,
                Some(_) => self.cursor.position += 1,
                None => {
                    self.cursor = Cursor { epoch: self.cursor.epoch + 1, position: 0 };
                    self.epochs.swap(0, 1);
                    self.epochs[1] = permutation(self.seed, self.cursor.epoch + 1, self.skipped.len());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(order: &mut ViewOrder, count: usize) -> Vec<usize> {
        (0..count)
            .map(|_| {
                let view = order.current().unwrap();
                order.advance();
                view
            })
            .collect()
    }

    #[test]
    fn every_epoch_shows_every_view_once_in_another_order() {
        let mut order = ViewOrder::new(5, 7, Cursor::default());
        let epochs: Vec<Vec<usize>> = (0..4).map(|_| take(&mut order, 7)).collect();
        for epoch in &epochs {
            let mut sorted = epoch.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..7).collect::<Vec<_>>());
        }
        assert_ne!(epochs[0], epochs[1]);
        assert_eq!(order.cursor(), Cursor { epoch: 4, position: 0 });
    }

    #[test]
    fn an_order_that_starts_at_a_cursor_goes_on_as_if_it_had_never_stopped() {
        let mut whole = ViewOrder::new(9, 5, Cursor::default());
        take(&mut whole, 13);
        let mut resumed = ViewOrder::new(9, 5, whole.cursor());
        assert_eq!(take(&mut whole, 20), take(&mut resumed, 20));
        // A cursor at the end of an epoch equals the beginning of the next.
        let at_end = ViewOrder::new(9, 5, Cursor { epoch: 0, position: 5 });
        assert_eq!(at_end.cursor(), Cursor { epoch: 1, position: 0 });
    }

    #[test]
    fn a_skipped_view_does_not_change_the_order_of_the_others() {
        let mut all = ViewOrder::new(1, 6, Cursor::default());
        let expected: Vec<usize> = take(&mut all, 30).into_iter().filter(|&view| view != 2).collect();
        let mut early = ViewOrder::new(1, 6, Cursor::default());
        early.skip(2);
        assert_eq!(take(&mut early, 25), expected);
        // Noticed when its turn comes.
        let mut late = ViewOrder::new(1, 6, Cursor::default());
        let mut seen = Vec::new();
        while seen.len() < 25 {
            match late.current().unwrap() {
                2 => late.skip(2),
                view => {
                    seen.push(view);
                    late.advance();
                }
            }
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn upcoming_views_are_those_that_come() {
        let mut order = ViewOrder::new(3, 4, Cursor { epoch: 2, position: 2 });
        order.skip(1);
        let upcoming: Vec<usize> = order.upcoming(4).collect();
        assert_eq!(take(&mut order, 4), upcoming);
    }

    #[test]
    fn an_order_without_usable_views_ends() {
        assert_eq!(ViewOrder::new(0, 0, Cursor::default()).current(), None);
        let mut order = ViewOrder::new(0, 2, Cursor::default());
        order.skip(0);
        order.skip(1);
        assert_eq!(order.current(), None);
    }
}
