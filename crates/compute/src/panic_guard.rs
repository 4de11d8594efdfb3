//! Panics that are caught and reported as errors: of decoders, models and graphics drivers.
//!
//! The program's panic hook exits the process, because a run without one of its threads would wait for it for ever. A
//! hook cannot know whether a panic will be caught, so guarded threads announce it: a hook calls [`is_active`] and does
//! nothing if it is true.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread is caught and reported as an error.
#[must_use]
pub fn is_active() -> bool {
    ACTIVE.try_with(Cell::get).unwrap_or(false)
}

/// Runs work that may panic. Data that the work modified must not be used after a panic.
///
/// # Errors
/// The payload of the panic.
pub fn catch<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
    let before = ACTIVE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    ACTIVE.set(before);
    result
}
