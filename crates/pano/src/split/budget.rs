//! The bytes that workers share, so that all frames in flight stay within a limit.
//!
//! A worker reserves what its frame takes before it reads a pixel of it, and keeps the reservation with its buffers for
//! the next frame. A worker that has to wait holds nothing, and one that sees somebody waiting lets go after its frame:
//! nobody waits for ever. What stays for the whole run, the tables of the views, is charged without waiting.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A count of bytes that workers share.
pub(super) struct Budget {
    state: Mutex<State>,
    changed: Condvar,
    all: u64,
}

#[derive(Default)]
struct State {
    reserved: u64,
    charged: u64,
    waiting: usize,
}

impl Budget {
    pub(super) fn new(all: u64) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), all }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one frame may take: everything but what was charged.
    pub(super) fn largest(&self) -> u64 {
        self.all.saturating_sub(self.state().charged)
    }

    /// Whether a worker waits for others to let go.
    pub(super) fn is_wanted(&self) -> bool {
        self.state().waiting > 0
    }

    /// Counts bytes that stay, without waiting.
    pub(super) fn charge(&self, bytes: u64) {
        self.state().charged += bytes;
    }

    /// Takes bytes that were charged off the count.
    pub(super) fn discharge(&self, bytes: u64) {
        let mut state = self.state();
        state.charged = state.charged.saturating_sub(bytes);
        self.changed.notify_all();
    }

    /// Waits until so much is free, or nobody holds anything.
    fn reserve(&self, bytes: u64) {
        let mut state = self.state();
        state.waiting += 1;
        while state.reserved > 0 && state.reserved + state.charged + bytes > self.all {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.reserved += bytes;
    }

    fn give(&self, bytes: u64) {
        self.state().reserved -= bytes;
        self.changed.notify_all();
    }
}

/// What a worker has reserved; given back when it goes.
pub(super) struct Reservation<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl<'a> Reservation<'a> {
    pub(super) fn none(budget: &'a Budget) -> Self {
        Self { budget, bytes: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lets everything go. The caller holds no buffers any more.
    pub(super) fn release(&mut self) {
        if self.bytes > 0 {
            self.budget.give(std::mem::take(&mut self.bytes));
        }
    }

    /// Waits for so much. The caller holds no buffers.
    pub(super) fn renew(&mut self, bytes: u64) {
        self.release();
        self.budget.reserve(bytes);
        self.bytes = bytes;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn all_together_stay_within_the_budget_and_everybody_gets_a_turn() {
        let (budget, used, most) = (Budget::new(100), AtomicU64::new(0), AtomicU64::new(0));
        budget.charge(10);
        assert_eq!(budget.largest(), 90);
        std::thread::scope(|scope| {
            for worker in 0..4u64 {
                let (budget, used, most) = (&budget, &used, &most);
                scope.spawn(move || {
                    let mut mine = Reservation::none(budget);
                    let mut own = 0;
                    for turn in 0..200u64 {
                        let wanted = 1 + (worker * 37 + turn * 53) % 90;
                        if wanted > mine.bytes() {
                            used.fetch_sub(own, Ordering::SeqCst);
                            mine.renew(wanted);
                            own = wanted;
                            most.fetch_max(used.fetch_add(own, Ordering::SeqCst) + own, Ordering::SeqCst);
                        }
                        std::thread::yield_now();
                        if budget.is_wanted() {
                            used.fetch_sub(own, Ordering::SeqCst);
                            own = 0;
                            mine.release();
                        }
                    }
                    used.fetch_sub(own, Ordering::SeqCst);
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 90, "{most:?}");
        assert_eq!(budget.state().reserved, 0);
    }
}
