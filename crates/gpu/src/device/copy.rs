//! How fast the device copies from buffer to buffer: what its kernels' rates are set against.

use std::time::{Duration, Instant};

use gausset_core::engine::EngineError;

use super::Memory;
use super::mapping::wait;

/// Bytes of a copy: beyond all caches of today.
const BYTES: u64 = 128 << 20;
/// A measurement is at least so long, ...
const LEAST: Duration = Duration::from_millis(20);
/// ... but not of more copies.
const MOST_COPIES: u32 = 1024;

impl Memory {
    /// Bytes read and written per second by copies of buffers, after which they are let go.
    ///
    /// # Errors
    /// There is no memory for two of them; the device fails.
    pub(crate) fn copy_rate(&mut self) -> Result<f64, EngineError> {
        let free = self.limit().saturating_sub(self.sizes().total()) / 4;
        let most = self.gpu.most_bytes_of_a_buffer();
        let bytes = BYTES.min(most).min(free.max(1 << 20)) / 16 * 16;
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let [from, to] = [self.made("a copy", bytes, usage)?, self.made("a copy", bytes, usage)?];
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
        // The first touches the memory; a single one is mostly waiting, which is not counted.
        seconds(2)?;
        let alone = seconds(1)?;
        let mut copies = 2;
        let mut together = seconds(copies)?;
        while together < LEAST.as_secs_f64() && copies < MOST_COPIES {
            copies *= 2;
            together = seconds(copies)?;
        }
        for _ in 0..2 {
            together = together.min(seconds(copies)?);
        }
        let [whole, difference] = [together / f64::from(copies), (together - alone) / f64::from(copies - 1)];
        // Where they differ by more than waiting, something else was going on.
        let seconds = if difference > 0.5 * whole { difference } else { whole };
        Ok(2.0 * bytes as f64 / seconds)
    }
}
