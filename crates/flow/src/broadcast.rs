//! Broadcasts events to several receivers without blocking the sender.
//!
//! Each receiver has a bounded queue. A receiver that falls behind loses the oldest events and learns how many.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Events that one receiver has not yet taken.
struct Queue<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    capacity: usize,
}

struct State<T> {
    events: VecDeque<Arc<T>>,
    lost: u64,
    is_closed: bool,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Poisoning is harmless: no code under this lock can panic with the queue half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending end.
pub struct Broadcast<T> {
    listeners: Mutex<Vec<Weak<Queue<T>>>>,
}

impl<T> Default for Broadcast<T> {
    fn default() -> Self {
        Self { listeners: Mutex::default() }
    }
}

impl<T> Broadcast<T> {
    /// Adds a receiver of all events sent from now on. Its queue holds `capacity` events (at least one); when it is
    /// full, the oldest event is dropped.
    pub fn listen(&self, capacity: usize) -> Listener<T> {
        let state = State { events: VecDeque::new(), lost: 0, is_closed: false };
        let queue =
            Arc::new(Queue { state: Mutex::new(state), arrived: Condvar::new(), capacity: capacity.max(1) });
        self.listeners().push(Arc::downgrade(&queue));
        Listener(queue)
    }

    /// Sends an event to all receivers. Never waits for a receiver.
    pub fn send(&self, event: T) {
        let event = Arc::new(event);
        self.listeners().retain(|listener| {
            let Some(queue) = listener.upgrade() else { return false };
            let mut state = queue.lock();
            if state.events.len() == queue.capacity {
                state.events.pop_front();
                state.lost += 1;
            }
            state.events.push_back(Arc::clone(&event));
            queue.arrived.notify_all();
            true
        });
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Weak<Queue<T>>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Broadcast<T> {
    fn drop(&mut self) {
        for queue in self.listeners().iter().filter_map(Weak::upgrade) {
            queue.lock().is_closed = true;
            queue.arrived.notify_all();
        }
    }
}

/// A receiving end.
pub struct Listener<T>(Arc<Queue<T>>);

/// Result of taking from a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// The oldest event in the queue.
    Event(Arc<T>),
    /// Number of events lost since the previous call.
    Lost(u64),
    /// The queue is empty for now.
    Nothing,
    /// The queue is empty and the sender is gone.
    Closed,
}

impl<T> Listener<T> {
    /// Takes the oldest event without waiting.
    #[must_use]
    pub fn take(&self) -> Heard<T> {
        Self::next(&mut self.0.lock())
    }

    /// Takes the oldest event; waits up to `timeout` for one.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Heard<T> {
        let deadline = Instant::now() + timeout;
        let mut state = self.0.lock();
        loop {
            let heard = Self::next(&mut state);
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(heard, Heard::Nothing) || left.is_zero() {
                return heard;
            }
            (state, _) = self.0.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn next(state: &mut State<T>) -> Heard<T> {
        match std::mem::take(&mut state.lost) {
            0 => match state.events.pop_front() {
                Some(event) => Heard::Event(event),
                None if state.is_closed => Heard::Closed,
                None => Heard::Nothing,
            },
            lost => Heard::Lost(lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(listener: &Listener<u32>) -> Vec<Heard<u32>> {
        let mut all = vec![listener.take()];
        while !matches!(all[all.len() - 1], Heard::Nothing | Heard::Closed) {
            all.push(listener.take());
        }
        all
    }

    #[test]
    fn a_slow_listener_loses_the_oldest_events_and_is_told_how_many() {
        let broadcast = Broadcast::default();
        let (slow, fast) = (broadcast.listen(2), broadcast.listen(100));
        (0..5).for_each(|event| broadcast.send(event));
        let event = |event| Heard::Event(Arc::new(event));
        assert_eq!(heard(&slow), [Heard::Lost(3), event(3), event(4), Heard::Nothing]);
        assert_eq!(heard(&fast).len(), 6);
        // A late receiver gets only events sent after it was added.
        let late = broadcast.listen(2);
        broadcast.send(9);
        assert_eq!(heard(&late), [event(9), Heard::Nothing]);
    }

    #[test]
    fn who_went_away_is_forgotten_and_who_waits_is_told_of_the_end() {
        let broadcast = Broadcast::default();
        drop(broadcast.listen(4));
        broadcast.send(1);
        assert_eq!(broadcast.listeners().len(), 0);
        let waiting = broadcast.listen(4);
        assert_eq!(waiting.wait(Duration::from_millis(1)), Heard::Nothing);
        let waits = std::thread::spawn(move || waiting.wait(Duration::from_secs(60)));
        drop(broadcast);
        assert_eq!(waits.join().unwrap(), Heard::<u32>::Closed);
    }
}
