//! Broadcasts events to several receivers without blocking the sender.
//!
//! Each receiver has a bounded queue. A receiver that falls behind loses the oldest events and learns how many.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Events that one receiver has not yet taken.
struct Queue<T> {
    state: Mutex<QueueState<T>>,
    arrived: Condvar,
    capacity: usize,
}

struct QueueState<T> {
    events: VecDeque<Arc<T>>,
    lost: u64,
    is_closed: bool,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        // Poisoning is harmless: no code under this lock can panic with the queue half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending end.
///
/// ```
/// use gausset::broadcast::{Broadcast, Received};
///
/// let sender = Broadcast::default();
/// let receiver = sender.subscribe(1);
/// sender.send("first");
/// sender.send("second");
/// // The queue holds one event: the older one is lost.
/// assert_eq!(receiver.try_recv(), Received::Lost(1));
/// assert_eq!(receiver.try_recv(), Received::Event(std::sync::Arc::new("second")));
/// ```
pub struct Broadcast<T> {
    receivers: Mutex<Vec<Weak<Queue<T>>>>,
}

impl<T> Default for Broadcast<T> {
    fn default() -> Self {
        Self { receivers: Mutex::default() }
    }
}

impl<T> Broadcast<T> {
    /// Adds a receiver of all events sent from now on. Its queue holds `capacity` events (at least one); when it is
    /// full, the oldest event is dropped.
    pub fn subscribe(&self, capacity: usize) -> Receiver<T> {
        let state = QueueState { events: VecDeque::new(), lost: 0, is_closed: false };
        let queue =
            Arc::new(Queue { state: Mutex::new(state), arrived: Condvar::new(), capacity: capacity.max(1) });
        self.receivers().push(Arc::downgrade(&queue));
        Receiver(queue)
    }

    /// Sends an event to all receivers. Never waits for a receiver.
    pub fn send(&self, event: T) {
        let event = Arc::new(event);
        self.receivers().retain(|listener| {
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

    fn receivers(&self) -> MutexGuard<'_, Vec<Weak<Queue<T>>>> {
        self.receivers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Broadcast<T> {
    fn drop(&mut self) {
        for queue in self.receivers().iter().filter_map(Weak::upgrade) {
            queue.lock().is_closed = true;
            queue.arrived.notify_all();
        }
    }
}

/// A receiving end.
pub struct Receiver<T>(Arc<Queue<T>>);

/// Result of taking from a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// The oldest event in the queue.
    Event(Arc<T>),
    /// Number of events lost since the previous call.
    Lost(u64),
    /// The queue is empty for now.
    Nothing,
    /// The queue is empty and the sender is gone.
    Closed,
}

impl<T> Receiver<T> {
    /// Takes the oldest event without waiting.
    #[must_use]
    pub fn try_recv(&self) -> Received<T> {
        Self::next(&mut self.0.lock())
    }

    /// Takes the oldest event; waits up to `timeout` for one.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Received<T> {
        let deadline = Instant::now() + timeout;
        let mut state = self.0.lock();
        loop {
            let heard = Self::next(&mut state);
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(heard, Received::Nothing) || left.is_zero() {
                return heard;
            }
            (state, _) = self.0.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn next(state: &mut QueueState<T>) -> Received<T> {
        match std::mem::take(&mut state.lost) {
            0 => match state.events.pop_front() {
                Some(event) => Received::Event(event),
                None if state.is_closed => Received::Closed,
                None => Received::Nothing,
            },
            lost => Received::Lost(lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(listener: &Receiver<u32>) -> Vec<Received<u32>> {
        let mut all = vec![listener.try_recv()];
        while !matches!(all[all.len() - 1], Received::Nothing | Received::Closed) {
            all.push(listener.try_recv());
        }
        all
    }

    #[test]
    fn a_slow_listener_loses_the_oldest_events_and_is_told_how_many() {
        let broadcast = Broadcast::default();
        let (slow, fast) = (broadcast.subscribe(2), broadcast.subscribe(100));
        (0..5).for_each(|event| broadcast.send(event));
        let event = |event| Received::Event(Arc::new(event));
        assert_eq!(heard(&slow), [Received::Lost(3), event(3), event(4), Received::Nothing]);
        assert_eq!(heard(&fast).len(), 6);
        // A late receiver gets only events sent after it was added.
        let late = broadcast.subscribe(2);
        broadcast.send(9);
        assert_eq!(heard(&late), [event(9), Received::Nothing]);
    }

    #[test]
    fn who_went_away_is_forgotten_and_who_waits_is_told_of_the_end() {
        let broadcast = Broadcast::default();
        drop(broadcast.subscribe(4));
        broadcast.send(1);
        assert_eq!(broadcast.receivers().len(), 0);
        let waiting = broadcast.subscribe(4);
        assert_eq!(waiting.recv_timeout(Duration::from_millis(1)), Received::Nothing);
        let waits = std::thread::spawn(move || waiting.recv_timeout(Duration::from_secs(60)));
        drop(broadcast);
        assert_eq!(waits.join().unwrap(), Received::<u32>::Closed);
    }
}
