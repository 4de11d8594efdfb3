//! Measures the buffer copy rate of the device, as a reference for the rates of its kernels.

use std::time::{Duration, Instant};

use gausset_core::engine::EngineError;

use super::DeviceMemory;
use super::mapping::wait;

/// Bytes of a copy: beyond all common caches.
const BYTES: u64 = 128 << 20;
/// Minimum duration of a measurement.
const MIN_DURATION: Duration = Duration::from_millis(20);
/// Maximum number of copies of a measurement.
const MAX_COPIES: u32 = 1024;

impl DeviceMemory {
    /// Bytes read and written per second by buffer copies. The buffers are freed afterwards.
    ///
    /// # Errors
    /// Returns an error if there is no memory for two of them, or if the device fails.
    pub(crate) fn copy_rate(&mut self) -> Result<f64, EngineError> {
        let free = self.limit().saturating_sub(self.sizes().total_bytes()) / 4;
        let most = self.gpu.max_buffer_bytes();
        let bytes = BYTES.min(most).min(free.max(1 << 20)) / 16 * 16;
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let [from, to] =
            [self.create_buffer("a copy", bytes, usage)?, self.create_buffer("a copy", bytes, usage)?];
        let gpu = self.gpu.clone();
        let seconds = |copies: u32| {
            let started = Instant::now();
            let index = gpu.guarded("copying", 0, |device, queue| {
                let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                for copy in 0..copies {
                    let (from, to) = if copy % 2 == 0 { (&from, &to) } else { (&to, &from) };
                    encoder.copy_buffer_to_buffer(from, 0, to, 0, bytes);
                }
                queue.submit([encoder.finish()])
            })?;
            wait(&gpu, Some(index))?;
            Ok::<_, EngineError>(started.elapsed().as_secs_f64())
        };
        // The first copies touch the memory; a single copy is timed to subtract the waiting time.
        seconds(2)?;
        let alone = seconds(1)?;
        let mut copies = 2;
        let mut together = seconds(copies)?;
        while together < MIN_DURATION.as_secs_f64() && copies < MAX_COPIES {
            copies *= 2;
            together = seconds(copies)?;
        }
        for _ in 0..2 {
            together = together.min(seconds(copies)?);
        }
        let [whole, difference] = [together / f64::from(copies), (together - alone) / f64::from(copies - 1)];
        // If the difference is much smaller, other work disturbed the measurement.
        let seconds = if difference > 0.5 * whole { difference } else { whole };
        Ok(2.0 * bytes as f64 / seconds)
    }
}
