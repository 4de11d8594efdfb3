//! Work queue: which worker analyses which frame, and when a frame can be finished.
//!
//! Frames are analysed in order. A frame is finished by the worker that analyses the last of its neighbours. Workers
//! therefore never wait for each other, except when they are too far ahead.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a worker that is too far ahead sleeps before it checks for the end of the job.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The frames of a job. `T` is the analysis of one frame.
pub(super) struct Queue<T> {
    /// Number of neighbours on each side that a frame depends on.
    reach: usize,
    frames: usize,
    /// Frames to analyse, ascending: those to be finished and their neighbours.
    looks: Vec<usize>,
    /// Maximum number of frames in progress, counted from the oldest unfinished one.
    most: usize,
    state: Mutex<QueueState<T>>,
    moved: Condvar,
}

struct QueueState<T> {
    next: usize,
    /// Analyses by frame; `None` = unusable, or no longer needed.
    seen: BTreeMap<usize, Option<Arc<T>>>,
    /// Frames still to be finished.
    open: BTreeSet<usize>,
    /// Frames being finished by a worker.
    begun: BTreeSet<usize>,
    /// Analyses in progress, as indices into `looks`.
    looking: BTreeSet<usize>,
    is_over: bool,
}

/// A frame ready to be finished, with the analyses of its neighbours.
pub(super) struct ReadyFrame<T> {
    pub(super) index: usize,
    /// Analyses of the neighbours and the frame itself, in order; `None` = unusable.
    pub(super) neighbours: Vec<Option<Arc<T>>>,
    /// Index of the first of these frames.
    pub(super) first: usize,
}

impl<T> Queue<T> {
    /// A queue that finishes the frames `to_do` of `frames`. It holds at most `most + 2 reach` analyses.
    pub(super) fn new(frames: usize, to_do: &[usize], reach: usize, most: usize) -> Self {
        let around = |index: usize| neighbourhood(index, reach, frames);
        let looks: BTreeSet<usize> = to_do.iter().flat_map(|&index| around(index)).collect();
        Self {
            reach,
            frames,
            looks: looks.into_iter().collect(),
            most: most.max(1),
            state: Mutex::new(QueueState {
                next: 0,
                seen: BTreeMap::new(),
                open: to_do.iter().copied().collect(),
                begun: BTreeSet::new(),
                looking: BTreeSet::new(),
                is_over: false,
            }),
            moved: Condvar::new(),
        }
    }

    /// Number of frames to analyse.
    pub(super) fn analysis_count(&self) -> usize {
        self.looks.len()
    }

    /// The next frame to analyse; waits while too far ahead, and returns `None` at the end.
    pub(super) fn next(&self, is_over: impl Fn() -> bool) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.is_over || is_over() || state.next >= self.looks.len() {
                return None;
            }
            if state.next < self.oldest(&state) + self.most {
                break;
            }
            let waited = self.moved.wait_timeout(state, POLL_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let place = state.next;
        state.next += 1;
        state.looking.insert(place);
        Some(self.looks[place])
    }

    /// Stores the analysis of a frame; the caller must finish the frames returned.
    pub(super) fn store(&self, index: usize, seen: Option<T>) -> Vec<ReadyFrame<T>> {
        let mut state = self.lock();
        if let Ok(place) = self.looks.binary_search(&index) {
            state.looking.remove(&place);
        }
        let is_usable = seen.is_some();
        state.seen.insert(index, seen.map(Arc::new));
        if !is_usable {
            self.release(&mut state, index);
        }
        let mut ready = Vec::new();
        for near in neighbourhood(index, self.reach, self.frames) {
            let all = neighbourhood(near, self.reach, self.frames);
            let is_ready = state.open.contains(&near)
                && !state.begun.contains(&near)
                && all.clone().all(|other| state.seen.contains_key(&other));
            if is_ready {
                state.begun.insert(near);
                let first = *all.start();
                let around = all.map(|other| state.seen[&other].clone()).collect();
                ready.push(ReadyFrame { index: near, neighbours: around, first });
            }
        }
        self.moved.notify_all();
        ready
    }

    /// Marks a frame as finished.
    pub(super) fn finished(&self, index: usize) {
        let mut state = self.lock();
        state.begun.remove(&index);
        self.release(&mut state, index);
        self.moved.notify_all();
    }

    /// Position in `looks` of the oldest frame in progress.
    fn oldest(&self, state: &QueueState<T>) -> usize {
        let finishing = state.begun.first().map(|index| self.looks.partition_point(|look| look < index));
        let looking = state.looking.first().copied();
        looking.into_iter().chain(finishing).min().unwrap_or(state.next)
    }

    /// Ends the queue: no further frame is started.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.moved.notify_all();
    }

    /// Closes a frame and releases analyses that no open frame needs.
    fn release(&self, state: &mut QueueState<T>, index: usize) {
        state.open.remove(&index);
        for near in neighbourhood(index, self.reach, self.frames) {
            let is_needed =
                neighbourhood(near, self.reach, self.frames).any(|other| state.open.contains(&other));
            if let (false, Some(seen)) = (is_needed, state.seen.get_mut(&near)) {
                *seen = None;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A frame and its neighbours within `reach`.
fn neighbourhood(index: usize, reach: usize, frames: usize) -> RangeInclusive<usize> {
    index.saturating_sub(reach)..=(index + reach).min(frames.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_ready_once_its_neighbours_were_seen() {
        let queue: Queue<usize> = Queue::new(10, &[2, 3, 8], 1, 6);
        assert_eq!(queue.looks, [1, 2, 3, 4, 7, 8, 9]);
        let next = || queue.next(|| false).unwrap();
        let looked: Vec<usize> = (0..3).map(|_| next()).collect();
        assert_eq!(looked, [1, 2, 3]);
        assert!(queue.store(3, Some(3)).is_empty() && queue.store(1, Some(1)).is_empty());
        let ready = queue.store(2, Some(2));
        let of = |ready: &ReadyFrame<usize>| {
            ready.neighbours.iter().map(|seen| seen.as_deref().copied()).collect::<Vec<_>>()
        };
        assert_eq!((ready.len(), ready[0].index, ready[0].first), (1, 2, 1));
        assert_eq!(of(&ready[0]), [Some(1), Some(2), Some(3)]);
        queue.finished(2);
        // Frame 4 is unusable and has no analysis; frame 2 is still needed.
        let ready = queue.store(next(), None);
        assert_eq!((ready[0].index, of(&ready[0])), (3, vec![Some(2), Some(3), None]));
        queue.finished(3);
        assert!(queue.lock().seen.iter().all(|(index, seen)| *index >= 7 || seen.is_none()));
    }

    #[test]
    fn a_frame_that_cannot_be_used_is_not_finished() {
        let queue: Queue<usize> = Queue::new(3, &[0, 1, 2], 1, 10);
        let order: Vec<usize> = (0..3).map(|_| queue.next(|| false).unwrap()).collect();
        assert_eq!((order, queue.next(|| false)), (vec![0, 1, 2], None));
        assert!(queue.store(1, None).is_empty());
        assert_eq!(queue.store(0, Some(0))[0].index, 0);
        assert_eq!(queue.store(2, Some(2))[0].index, 2);
    }

    #[test]
    fn no_more_is_held_than_was_said_however_slowly_frames_are_finished() {
        for reach in 0..4 {
            let (to_do, most) = ((0..40).collect::<Vec<usize>>(), 3);
            let queue: Queue<usize> = Queue::new(to_do.len(), &to_do, reach, most);
            let (mut ready, mut done) = (Vec::new(), 0);
            while done < to_do.len() {
                let asked = std::cell::Cell::new(0);
                let gives_up = || asked.replace(asked.get() + 1) > 0;
                match queue.next(gives_up) {
                    Some(index) => ready.extend(queue.store(index, Some(index))),
                    // The queue is full: finish the newest frame.
                    None => {
                        let held = queue.lock().seen.values().flatten().count();
                        assert!(held <= most + 2 * reach, "{held} with {reach}");
                        queue.finished(ready.pop().unwrap().index);
                        done += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn nobody_is_far_ahead_of_the_slowest_and_an_end_is_an_end() {
        let to_do: Vec<usize> = (0..100).collect();
        let queue: Queue<usize> = Queue::new(100, &to_do, 0, 4);
        let slow = queue.next(|| false).unwrap();
        for _ in 0..3 {
            let index = queue.next(|| false).unwrap();
            assert_eq!(queue.store(index, Some(index)).len(), 1);
            queue.finished(index);
        }
        let asked = std::cell::Cell::new(0);
        let gives_up = || {
            asked.set(asked.get() + 1);
            asked.get() > 2
        };
        assert_eq!(queue.next(gives_up), None);
        queue.store(slow, Some(slow));
        queue.finished(slow);
        assert_eq!(queue.next(|| false), Some(4));
        queue.end();
        assert_eq!(queue.next(|| false), None);
    }
}
