//! Which device computes, and how.

use gausset_compute::VectorLevel;
use gausset_core::engine::Engine;
use gausset_cpu::{CpuEngine, CpuOptions, LevelMissing};
use gausset_io::splat::ReadLimits;

/// A device that can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The best there is.
    #[default]
    Auto,
    /// The processor.
    Cpu,
}

/// Which device, and how it computes. The result is the same with each of them.
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
    /// This processor lacks the vector level.
    pub fn engine(self, threads: usize) -> Result<Box<dyn Engine>, LevelMissing> {
        match self.device {
            Device::Auto | Device::Cpu => {
                let mut engine = CpuEngine::new(CpuOptions { threads, level: self.level })?;
                engine.limit_memory(ReadLimits::default().memory_bytes);
                Ok(Box::new(engine))
            }
        }
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
