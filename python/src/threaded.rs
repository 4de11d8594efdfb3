//! Objects with threads, which do not survive a fork of the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gausset::Failure;

use crate::error::argument;

/// An object with threads, for the process that has made it: a child could only wait for them.
pub(crate) struct Threaded<T> {
    value: Arc<Mutex<T>>,
    process: u32,
}

impl<T> Threaded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Arc::new(Mutex::new(value)), process: std::process::id() }
    }

    /// The object, alone. `name` is that of its class.
    ///
    /// # Errors
    /// This process is a child of the one that has made it.
    pub(crate) fn lock(&self, name: &str) -> Result<MutexGuard<'_, T>, Failure> {
        if self.process != std::process::id() {
            let found = format!("a {name} from before the fork (expected one that this process has made)");
            return Err(argument(found));
        }
        Ok(self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Drop for Threaded<T> {
    fn drop(&mut self) {
        // To drop it would wait for its threads.
        if self.process != std::process::id() {
            std::mem::forget(Arc::clone(&self.value));
        }
    }
}
