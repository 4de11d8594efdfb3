//! The memory budget of all frames in flight, shared by the workers.
//!
//! A worker reserves the memory of its frame before it reads a pixel of it, and keeps the reservation, with its
//! buffers, for the next frame. A worker that waits holds no reservation, and a worker that sees another one waiting
//! releases its reservation after its frame, so no worker waits forever. Memory that stays allocated for the whole run,
//! such as the tables of the views, is charged without waiting.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A count of bytes that workers share.
pub(super) struct MemoryBudget {
    state: Mutex<BudgetState>,
    changed: Condvar,
    total: u64,
}

#[derive(Default)]
struct BudgetState {
    reserved: u64,
    charged: u64,
    waiting: usize,
}

impl MemoryBudget {
    pub(super) fn new(all: u64) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), total: all }
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most that one frame may take: the budget minus charged bytes.
    pub(super) fn available(&self) -> u64 {
        self.total.saturating_sub(self.state().charged)
    }

    /// Whether a worker waits for memory.
    pub(super) fn has_waiting(&self) -> bool {
        self.state().waiting > 0
    }

    /// Counts bytes that stay allocated, without waiting.
    pub(super) fn charge(&self, bytes: u64) {
        self.state().charged += bytes;
    }

    /// Subtracts bytes that were charged.
    pub(super) fn discharge(&self, bytes: u64) {
        let mut state = self.state();
        state.charged = state.charged.saturating_sub(bytes);
        self.changed.notify_all();
    }

    /// Waits until this many bytes are free, or no other worker holds a reservation. The latter admits a frame that
    /// exceeds the budget alone.
    fn reserve(&self, bytes: u64) {
        let mut state = self.state();
        state.waiting += 1;
        while state.reserved > 0 && state.reserved + state.charged + bytes > self.total {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.reserved += bytes;
    }

    fn release(&self, bytes: u64) {
        self.state().reserved -= bytes;
        self.changed.notify_all();
    }
}

/// The reservation of a worker; released on drop.
pub(super) struct Reservation<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl<'a> Reservation<'a> {
    pub(super) fn new(budget: &'a MemoryBudget) -> Self {
        Self { budget, bytes: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Releases everything. The caller must have dropped its buffers.
    pub(super) fn release(&mut self) {
        if self.bytes > 0 {
            self.budget.release(std::mem::take(&mut self.bytes));
        }
    }

    /// Replaces the reservation, waiting for memory. The caller must have dropped its buffers.
    pub(super) fn replace(&mut self, bytes: u64) {
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
        let (budget, used, most) = (MemoryBudget::new(100), AtomicU64::new(0), AtomicU64::new(0));
        budget.charge(10);
        assert_eq!(budget.available(), 90);
        std::thread::scope(|scope| {
            for worker in 0..4u64 {
                let (budget, used, most) = (&budget, &used, &most);
                scope.spawn(move || {
                    let mut mine = Reservation::new(budget);
                    let mut own = 0;
                    for turn in 0..200u64 {
                        let wanted = 1 + (worker * 37 + turn * 53) % 90;
                        if wanted > mine.bytes() {
                            used.fetch_sub(own, Ordering::SeqCst);
                            mine.replace(wanted);
                            own = wanted;
                            most.fetch_max(used.fetch_add(own, Ordering::SeqCst) + own, Ordering::SeqCst);
                        }
                        std::thread::yield_now();
                        if budget.has_waiting() {
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
