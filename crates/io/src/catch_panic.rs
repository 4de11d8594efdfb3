//! Runs work on untrusted input that may panic, and turns a panic into an error of that input.

use std::any::Any;

use gausset_compute::panic_guard;
pub use gausset_compute::panic_guard::is_active;

/// Why guarded work returned no result: the message of its panic, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CaughtPanic(pub String);

/// Runs work that may panic. Data that the work modified must not be used after a panic.
///
/// # Errors
/// The work panicked.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, CaughtPanic> {
    panic_guard::catch(work).map_err(|payload| CaughtPanic(crate::text::one_line(message(payload.as_ref()))))
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
