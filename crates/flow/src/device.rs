//! Which device computes, and how.

use gausset_compute::VectorLevel;
use gausset_core::engine::Engine;
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_io::splat::ReadLimits;

use crate::failure::Failure;
use crate::host::Host;
#[cfg(feature = "gpu")]
use crate::kernel_files;

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

/// Where a GPU engine applies the rules that change the set of splats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuDensity {
    /// On the processor: the whole state comes back and goes up again.
    Host,
    /// On the GPU.
    Device,
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
    /// Bytes of a GPU's memory that may be used; `None` = nine tenths of what is its own.
    pub gpu_memory: Option<u64>,
    /// Where a GPU applies density rules, if somebody has said so; not a thing to say of the processor.
    pub density: Option<GpuDensity>,
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
        if self.gpu_memory.is_some() && matches!(self.device, Device::Auto | Device::Cpu) {
            let what =
                "⟨max-gpu-memory⟩ is the limit of a GPU (expected ⟨device = gpu⟩ or a GPU's name with it)";
            return Err(Failure::usage(what));
        }
        let (mut engine, warning) = match self.device {
            Device::Auto | Device::Cpu if self.density.is_some() => {
                let what =
                    "⟨gpu-density⟩: has no effect on the processor; leave it out, or take ⟨device = gpu⟩";
                return Err(Failure::usage(what));
            }
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
        use gausset_gpu::{AdapterChoice, AdapterKind, DensityOn, Gpu, GpuEngine, GpuOptions};
        let choice = name.map_or(AdapterChoice::Best, |name| AdapterChoice::Named(name.to_owned()));
        let gpu = Gpu::open_with(&choice, kernel_files::of_user())?;
        gpu.self_test()?;
        // What most runs need, whatever becomes of this one.
        gpu.keep_kernels();
        let info = gpu.info();
        let is_software = info.kind == AdapterKind::Software;
        let warning =
            is_software.then(|| format!("{} is a software device: ⟨device = cpu⟩ is faster", info.name));
        let memory_limit = self.gpu_memory;
        let density = match self.density {
            None => DensityOn::default(),
            Some(GpuDensity::Host) => DensityOn::Host,
            Some(GpuDensity::Device) => DensityOn::Device,
        };
        let engine =
            GpuEngine::new(&gpu, GpuOptions { threads, memory_limit, density, ..GpuOptions::default() });
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
