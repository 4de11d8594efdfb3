//! Runs work on untrusted input that may panic, and turns a panic into an error of that input.
//!
//! The program's panic hook exits the process, because a run without one of its threads would wait for it for ever. A
//! hook cannot know whether a panic will be caught, so guarded threads announce it: a hook calls [`is_active`] and does
//! nothing if it is true.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
}

/// Why guarded work returned no result: the message of its panic, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CaughtPanic(pub String);

/// Whether a panic of this thread is caught and reported as an error.
#[must_use]
pub fn is_active() -> bool {
    ACTIVE.try_with(Cell::get).unwrap_or(false)
}

/// Runs work that may panic. Data that the work modified must not be used after a panic.
///
/// # Errors
/// The work panicked.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, CaughtPanic> {
    let before = ACTIVE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    ACTIVE.set(before);
    result.map_err(|payload| CaughtPanic(crate::text::one_line(message(payload.as_ref()))))
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_and_guards_can_be_nested() {
        let outer = catch(|| {
            assert_eq!(catch(|| 7), Ok(7));
            // The inner guard has ended, the outer one has not.
            assert!(is_active());
            let inner: Result<(), CaughtPanic> = catch(|| panic!("line one\nline {}", 2));
            assert_eq!(inner, Err(CaughtPanic("line one line 2".to_owned())));
            is_active()
        });
        assert_eq!(outer, Ok(true));
        assert!(!is_active());
    }
}
