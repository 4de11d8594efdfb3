//! Which device computes, and how.

use gausset_compute::VectorLevel;
use gausset_core::engine::Engine;
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_io::splat::ReadLimits;

use crate::failure::Failure;

/// A device that can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The best there is.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// The best GPU.
    Gpu,
}

/// Which device, and how it computes. The result is the same with all vector instructions, and up to rounding on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// What computes.
    pub device: Device,
    /// Vector instructions of the processor.
    pub level: VectorLevel,
}

impl DeviceOptions {
    /// The engine with so many threads, 0 = all. It may take half of the machine's memory, unless somebody sets another
    /// limit.
    ///
    /// # Errors
    /// This processor lacks the vector level; there is no GPU, or this program was built without.
    pub fn engine(self, threads: usize) -> Result<Box<dyn Engine>, Failure> {
        let mut engine: Box<dyn Engine> = match self.device {
            Device::Auto | Device::Cpu => self.processor(threads)?,
            Device::Gpu => self.gpu(threads)?,
        };
        engine.limit_memory(ReadLimits::default().memory_bytes);
        Ok(engine)
    }

    fn processor(self, threads: usize) -> Result<Box<dyn Engine>, Failure> {
        Ok(Box::new(CpuEngine::new(CpuOptions { threads, level: self.level })?))
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, threads: usize) -> Result<Box<dyn Engine>, Failure> {
        use gausset_gpu::{AdapterChoice, Gpu, GpuEngine, GpuOptions};
        let gpu = Gpu::open(&AdapterChoice::Best)?;
        let engine = GpuEngine::new(&gpu, GpuOptions { threads, ..GpuOptions::default() });
        Ok(Box::new(engine.with_helper(self.processor(threads)?)))
    }

    #[cfg(not(feature = "gpu"))]
    fn gpu(self, _threads: usize) -> Result<Box<dyn Engine>, Failure> {
        Err(Failure::new("device", "this program was built without GPUs (feature `gpu`)"))
    }
}

/// So many threads, 0 = one for each processor.
#[must_use]
pub fn threads(wanted: u32) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    }
}
