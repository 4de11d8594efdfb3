//! Which device computes, and how.

use gausset_compute::VectorLevel;
use gausset_core::engine::Engine;
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_io::splat::ReadLimits;

use crate::failure::Failure;
use crate::host::Host;

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
    /// The GPU of which this is a part of the name, or the number.
    Named(&'static str),
}

/// An engine, and what a person should know of it.
type Opened = (Box<dyn Engine>, Option<String>);

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
        Ok(self.open(threads)?.0)
    }

    /// The same, with a warning where another device is faster.
    ///
    /// # Errors
    /// Those of [`Self::engine`].
    pub fn engine_for(self, threads: usize, host: &mut Host<'_>) -> Result<Box<dyn Engine>, Failure> {
        let (engine, warning) = self.open(threads)?;
        if let Some(line) = warning {
            host.warn("the device", line);
        }
        Ok(engine)
    }

    fn open(self, threads: usize) -> Result<Opened, Failure> {
        let (mut engine, warning) = match self.device {
            Device::Auto | Device::Cpu => (self.processor(threads)?, None),
            Device::Gpu => self.gpu(threads, None)?,
            Device::Named(name) => self.gpu(threads, Some(name))?,
        };
        engine.limit_memory(ReadLimits::default().memory_bytes);
        Ok((engine, warning))
    }

    fn processor(self, threads: usize) -> Result<Box<dyn Engine>, Failure> {
        Ok(Box::new(CpuEngine::new(CpuOptions { threads, level: self.level })?))
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, threads: usize, name: Option<&str>) -> Result<Opened, Failure> {
        use gausset_gpu::{AdapterChoice, AdapterKind, Gpu, GpuEngine, GpuOptions};
        let choice = name.map_or(AdapterChoice::Best, |name| AdapterChoice::Named(name.to_owned()));
        let gpu = Gpu::open(&choice)?;
        let info = gpu.info();
        let is_software = info.kind == AdapterKind::Software;
        let warning =
            is_software.then(|| format!("{} is a software device: ⟨device = cpu⟩ is faster", info.name));
        let engine = GpuEngine::new(&gpu, GpuOptions { threads, ..GpuOptions::default() });
        Ok((Box::new(engine.with_helper(self.processor(threads)?)), warning))
    }

    #[cfg(not(feature = "gpu"))]
    fn gpu(self, _threads: usize, _name: Option<&str>) -> Result<Opened, Failure> {
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
