//! Buffers that are mapped by the host, and waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use gausset_core::engine::EngineError;

use super::Gpu;

const PENDING: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;

/// Timeout for a callback that another thread is about to call.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(60);

/// A buffer that is being mapped by the host.
#[derive(Debug)]
pub(super) struct Mapping {
    buffer: wgpu::Buffer,
    bytes: u64,
    state: Arc<AtomicU8>,
}

/// Requests mapping of the first bytes of a buffer, once the submitted work is done.
pub(super) fn map(
    gpu: &Gpu,
    buffer: &wgpu::Buffer,
    bytes: u64,
    mode: wgpu::MapMode,
) -> Result<Mapping, EngineError> {
    let state = Arc::new(AtomicU8::new(PENDING));
    let told = Arc::clone(&state);
    gpu.guarded("mapping", 0, |_, _| {
        buffer.map_async(mode, 0..bytes, move |outcome| {
            told.store(if outcome.is_ok() { READY } else { FAILED }, Ordering::Release);
        });
    })?;
    Ok(Mapping { buffer: buffer.clone(), bytes, state })
}

/// Waits for a submission, or for all of them.
pub(super) fn wait(gpu: &Gpu, submission_index: Option<wgpu::SubmissionIndex>) -> Result<(), EngineError> {
    let kind = wgpu::PollType::Wait { submission_index, timeout: None };
    let outcome = gpu.guarded("waiting", 0, |device, _| device.poll(kind).map_err(|err| err.to_string()))?;
    outcome.map(drop).map_err(|what| gpu.error(&what))
}

/// Runs the callbacks of finished work, without waiting.
pub(super) fn poll(gpu: &Gpu) -> Result<(), EngineError> {
    gpu.guarded("asking", 0, |device, _| {
        let _ = device.poll(wgpu::PollType::Poll);
    })
}

impl Mapping {
    /// Whether the mapping has succeeded or failed.
    pub(super) fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) != PENDING
    }

    /// Waits until the buffer is mapped.
    pub(super) fn wait_mapped(&self, gpu: &Gpu) -> Result<(), EngineError> {
        // Another thread that polls the same device may have taken our callback and not called it yet.
        let since = Instant::now();
        while !self.is_done() && since.elapsed() < CALLBACK_TIMEOUT {
            wait(gpu, None)?;
            std::thread::yield_now();
        }
        if self.state.load(Ordering::Acquire) == READY {
            return Ok(());
        }
        Err(gpu.error("a device buffer could not be mapped"))
    }

    /// Passes the bytes to `take` and unmaps the buffer.
    pub(super) fn finish(self, gpu: &Gpu, take: impl FnOnce(&[u8])) -> Result<(), EngineError> {
        self.wait_mapped(gpu)?;
        let outcome = gpu.guarded("reading", 0, |_, _| {
            let view = self.buffer.get_mapped_range(0..self.bytes).map_err(|err| err.to_string())?;
            take(&view);
            drop(view);
            self.buffer.unmap();
            Ok::<(), String>(())
        })?;
        outcome.map_err(|what| gpu.error(&what))
    }
}
