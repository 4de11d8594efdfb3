//! Failures of a device, as values.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use gausset_compute::panic_guard;
use gausset_core::engine::EngineError;

use super::Gpu;

/// The first asynchronous failure: an uncaptured error or a lost device.
#[derive(Debug, Default)]
pub(super) struct FailureNote(Mutex<Option<String>>);

impl FailureNote {
    /// Stores a note unless there is one already.
    pub(super) fn note(&self, what: String) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(what);
    }

    fn first(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Waits for a future of wgpu: on native devices it is ready immediately, or after a poll of the device.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// The first line of a message.
pub(super) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

impl Gpu {
    /// An error of the device, with its name.
    pub(super) fn error(&self, what: &str) -> EngineError {
        EngineError::DeviceFailed(format!("{}: {}", self.shared.info.name, one_line(what)))
    }

    /// Returns an error if the device has failed.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        match self.shared.notes.first() {
            Some(what) => Err(self.error(&what)),
            None => Ok(()),
        }
    }

    /// Whether a test requested that this allocation fails; counts down to it.
    fn is_refused(&self) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        let counted = self.shared.refused.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        counted == Ok(1)
    }

    /// Runs an operation between error scopes; `bytes` is the size that it allocates, for the message.
    pub(super) fn guarded<T>(
        &self,
        what: &str,
        bytes: u64,
        action: impl FnOnce(&wgpu::Device, &wgpu::Queue) -> T,
    ) -> Result<T, EngineError> {
        self.check()?;
        let shared = &*self.shared;
        let out_of_memory = || EngineError::OutOfMemory {
            what: format!("{what} on {}", shared.info.name),
            needed: bytes,
            limit: 0,
        };
        if bytes > 0 && self.is_refused() {
            return Err(out_of_memory());
        }
        let outcome = panic_guard::catch(|| {
            let memory = shared.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
            let internal = shared.device.push_error_scope(wgpu::ErrorFilter::Internal);
            let validation = shared.device.push_error_scope(wgpu::ErrorFilter::Validation);
            let value = action(&shared.device, &shared.queue);
            let errors = [block_on(validation.pop()), block_on(internal.pop()), block_on(memory.pop())];
            (value, errors.into_iter().flatten().next())
        });
        match outcome {
            Ok((value, None)) => self.check().map(|()| value),
            Ok((_, Some(wgpu::Error::OutOfMemory { .. }))) => Err(out_of_memory()),
            Ok((_, Some(error))) => Err(self.error(&format!("{what}: {error}"))),
            Err(panic) => {
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("unknown");
                let text = format!("{what}: {text}");
                shared.notes.note(text.clone());
                Err(self.error(&text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::AdapterChoice;
    use crate::test_device::gpu;

    #[test]
    fn a_panic_of_the_driver_is_announced_and_an_error_of_all_later_calls() {
        if gpu("a_panic_of_the_driver_is_announced_and_an_error_of_all_later_calls").is_none() {
            return;
        }
        // A separate device: the others continue to work.
        let gpu = Gpu::open(&AdapterChoice::Best).expect("it was opened before");
        let failed = gpu.guarded("waiting", 0, |_, _| {
            assert!(panic_guard::is_active());
            panic!("the device\nis lost");
        });
        let Err::<(), _>(EngineError::DeviceFailed(what)) = &failed else { panic!("{failed:?}") };
        assert!(what.ends_with("waiting: the device; is lost"), "{what}");
        assert_eq!((gpu.check().as_ref(), panic_guard::is_active()), (failed.as_ref(), false));
    }
}
