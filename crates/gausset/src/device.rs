//! Device selection and engine construction.

#[cfg(feature = "gpu")]
use std::path::Path;

use gausset_compute::SimdLevel;
use gausset_core::engine::Engine;
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_io::splat::ReadLimits;

use crate::failure::Failure;
#[cfg(feature = "gpu")]
use crate::host::Event;
use crate::host::Host;
#[cfg(feature = "gpu")]
use crate::{device_selection, kernel_cache};

/// A requested device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// For a new training, a discrete GPU or an integrated GPU faster than the CPU; otherwise the CPU. A resumed
    /// training keeps its device.
    #[default]
    Auto,
    /// The CPU, which every machine has.
    Cpu,
    /// The best GPU.
    Gpu,
    /// The GPU with this number, or whose name contains this text.
    Named(&'static str),
}

/// An engine and, if there is one, a warning for the user.
type EngineWithWarning = (Box<dyn Engine>, Option<String>);

/// Device and its settings. Results are identical at all SIMD levels, and equal up to rounding on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Device that trains or renders.
    pub device: Device,
    /// SIMD level of the CPU.
    pub level: SimdLevel,
    /// Limit of GPU memory in bytes; `None` = nine tenths of the GPU's own memory.
    pub gpu_memory: Option<u64>,
}

impl DeviceOptions {
    /// Opens the engine with this many threads (0 = all). Its memory limit is half of the machine's memory, unless
    /// another limit is set.
    ///
    /// # Errors
    /// The CPU lacks the SIMD level; there is no such GPU, or this program was built without GPU support.
    pub fn engine(self, threads: usize) -> Result<Box<dyn Engine>, Failure> {
        Ok(self.open(threads)?.0)
    }

    /// As [`Self::engine`], and warns if another device is faster.
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

    /// Opens the engine for a training and, if it was chosen automatically, returns the reason. A new run chooses among
    /// all devices; a resumed one gets the device of the run (kind and name).
    pub(crate) fn engine_for_training(
        self,
        threads: usize,
        run: Option<(&str, &str)>,
        host: &mut Host<'_>,
    ) -> Result<(Box<dyn Engine>, Option<String>), Failure> {
        if self.device != Device::Auto {
            return Ok((self.engine_for(threads, host)?, None));
        }
        match run {
            None if self.gpu_memory.is_some() => Ok((self.engine_for(threads, host)?, None)),
            Some(("cpu", _)) => Ok((self.engine_for(threads, host)?, None)),
            Some((_, name)) => Ok((self.engine_of_run(threads, name, host)?, None)),
            None => self.choose_engine(threads, host),
        }
    }

    /// Opens the GPU of a resumed run; falls back to the CPU with a warning.
    fn engine_of_run(
        self,
        threads: usize,
        name: &str,
        host: &mut Host<'_>,
    ) -> Result<Box<dyn Engine>, Failure> {
        match self.with_recorded_gpu(name).engine_for(threads, host) {
            Err(failure) => {
                host.warn(
                    "the device",
                    format!("{name}: not available ({failure}); the run continues on the CPU"),
                );
                Self { gpu_memory: None, ..self }.engine_for(threads, host)
            }
            engine => engine,
        }
    }

    /// Selects the GPU with the recorded name, or the best GPU if it is gone.
    #[cfg(feature = "gpu")]
    fn with_recorded_gpu(self, recorded: &str) -> Self {
        let place = gausset_gpu::GpuInfo::find(&gausset_gpu::Gpu::list(), recorded);
        Self { device: place.map_or(Device::Gpu, device_number), ..self }
    }

    #[cfg(not(feature = "gpu"))]
    fn with_recorded_gpu(self, _recorded: &str) -> Self {
        Self { device: Device::Gpu, ..self }
    }

    #[cfg(feature = "gpu")]
    fn choose_engine(
        self,
        threads: usize,
        host: &mut Host<'_>,
    ) -> Result<(Box<dyn Engine>, Option<String>), Failure> {
        let choice = device_selection::choose_device(&mut LocalDevices { options: self, threads });
        if let Some(reason) = &choice.reason {
            host.report(Event::DeviceChosen(reason.clone()));
        }
        let device = choice.adapter.map_or(Device::Cpu, device_number);
        Ok((Self { device, ..self }.engine_for(threads, host)?, choice.reason))
    }

    #[cfg(not(feature = "gpu"))]
    fn choose_engine(
        self,
        threads: usize,
        host: &mut Host<'_>,
    ) -> Result<(Box<dyn Engine>, Option<String>), Failure> {
        Ok((self.engine_for(threads, host)?, None))
    }

    fn open(self, threads: usize) -> Result<EngineWithWarning, Failure> {
        if self.gpu_memory.is_some() && matches!(self.device, Device::Auto | Device::Cpu) {
            let what = "⟨max-gpu-memory⟩: needs a GPU (expected ⟨device = gpu⟩ or a GPU's name)";
            return Err(Failure::usage(what));
        }
        let (mut engine, warning) = match self.device {
            Device::Auto | Device::Cpu => (self.cpu(threads)?, None),
            Device::Gpu => self.gpu(threads, None)?,
            Device::Named(name) => self.gpu(threads, Some(name))?,
        };
        engine.limit_memory(ReadLimits::default().memory_bytes);
        Ok((engine, warning))
    }

    fn cpu(self, threads: usize) -> Result<Box<dyn Engine>, Failure> {
        Ok(Box::new(CpuEngine::new(CpuOptions { threads, level: self.level })?))
    }

    #[cfg(feature = "gpu")]
    fn gpu(self, threads: usize, name: Option<&str>) -> Result<EngineWithWarning, Failure> {
        use gausset_gpu::{AdapterChoice, AdapterKind, Gpu, GpuEngine, GpuOptions};
        let choice = name.map_or(AdapterChoice::Best, |name| AdapterChoice::Named(name.to_owned()));
        let resident = || gausset_compute::machine::resident_memory(None);
        let before = resident();
        let gpu = Gpu::open_with(&choice, kernel_cache::user_cache())?;
        gpu.self_test()?;
        // Estimate of the driver's memory. If opening raised the peak of the process, the increase is what the driver
        // needs to compile. It is doubled for kernels compiled later and commands in flight. Measured with lavapipe
        // (Mesa 22.3): 116 MiB when opened, 230 MiB after ten steps of a small training.
        let driver_bytes = 2 * match (before, resident()) {
            (Some(before), Some(after)) if after.peak > before.peak => after.peak - before.now,
            (Some(before), Some(after)) => after.now.saturating_sub(before.now),
            _ => 0,
        };
        // Save the kernels that most runs need, even if this run fails.
        gpu.keep_kernels();
        let info = gpu.info();
        let is_software = info.kind == AdapterKind::Software;
        let warning =
            is_software.then(|| format!("{} is a software renderer: ⟨device = cpu⟩ is faster", info.name));
        let memory_limit = self.gpu_memory;
        let options = GpuOptions { threads, memory_limit, driver_bytes, ..GpuOptions::default() };
        let engine = GpuEngine::new(&gpu, options);
        Ok((Box::new(engine.with_helper(self.cpu(threads)?)), warning))
    }

    #[cfg(not(feature = "gpu"))]
    fn gpu(self, _threads: usize, _name: Option<&str>) -> Result<EngineWithWarning, Failure> {
        Err(Failure::new("device", "this program was built without GPU support (feature `gpu`)"))
    }
}

/// The adapter with this number. The string is leaked at most once per adapter opened.
#[cfg(feature = "gpu")]
pub(crate) fn device_number(number: usize) -> Device {
    Device::Named(number.to_string().leak())
}

/// Time limit of a benchmark on each of the two devices.
#[cfg(feature = "gpu")]
const BENCHMARK_TIME: std::time::Duration = std::time::Duration::from_millis(500);

/// Whether a GPU may be present, without loading a driver: on Linux each GPU has a device node.
#[cfg(feature = "gpu")]
fn has_hardware(devices: &Path) -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    // NVIDIA's driver, WSL, and phones with Adreno and Mali.
    let nodes = ["nvidiactl", "dxg", "kgsl-3d0", "mali0"];
    let renders = devices.join("dri").read_dir().into_iter().flatten().flatten();
    nodes.iter().any(|node| devices.join(node).exists())
        || renders.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("renderD"))
}

/// The machine that this program runs on.
#[cfg(feature = "gpu")]
struct LocalDevices {
    options: DeviceOptions,
    threads: usize,
}

#[cfg(feature = "gpu")]
impl LocalDevices {
    /// Milliseconds per step; `None` if the device cannot be opened or fails.
    fn step_ms(&self, device: Device) -> Option<f64> {
        let mut engine = DeviceOptions { device, ..self.options }.engine(self.threads).ok()?;
        gausset_gpu::benchmark::step_ms(&mut *engine, BENCHMARK_TIME).ok()
    }
}

#[cfg(feature = "gpu")]
impl device_selection::DeviceProbe for LocalDevices {
    fn adapters(&mut self) -> Vec<gausset_gpu::GpuInfo> {
        // Loading drivers costs memory, and some print to the terminal: skip it on machines without a GPU.
        if has_hardware(Path::new("/dev")) { gausset_gpu::Gpu::list() } else { Vec::new() }
    }

    fn fault(&mut self, number: usize) -> Option<String> {
        let device = device_number(number);
        DeviceOptions { device, ..self.options }.engine(self.threads).err().map(|failure| failure.to_string())
    }

    fn cpu_step_ms(&mut self) -> Option<f64> {
        self.step_ms(Device::Cpu)
    }

    fn adapter_step_ms(&mut self, number: usize) -> Option<f64> {
        self.step_ms(device_number(number))
    }
}

/// Resolves a thread count: 0 = one per CPU thread.
#[must_use]
pub fn thread_count(wanted: u32) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    }
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use gausset_gpu::Gpu;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn drivers_are_asked_only_where_a_gpu_has_a_node() {
        let devices = tempfile::tempdir().unwrap();
        let node = |name: &str| {
            let path = devices.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, b"").unwrap();
            path
        };
        assert!(!has_hardware(devices.path()));
        // A display without a renderer.
        node("dri/card0");
        assert!(!has_hardware(devices.path()));
        for name in ["dri/renderD128", "nvidiactl", "dxg"] {
            let path = node(name);
            assert!(has_hardware(devices.path()), "{name}");
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_training_that_goes_on_keeps_its_device_unless_somebody_names_another() {
        let Some(here) = Gpu::list().into_iter().next() else {
            return gausset_testkit::skip_for_gpu("a_training_that_goes_on_keeps_its_device", "no adapter");
        };
        let stop = Arc::new(AtomicBool::new(false));
        let of = |device: Device, kind: &str, name: &str| {
            let mut events = drop::<Event>;
            let mut host = Host::new(&stop, &mut events);
            // A memory limit is that of the run's GPU.
            let gpu_memory = (kind == "gpu" && device == Device::Auto).then_some(1 << 30);
            let options = DeviceOptions { device, gpu_memory, ..DeviceOptions::default() };
            let (engine, reason) = options.engine_for_training(1, Some((kind, name)), &mut host).unwrap();
            assert_eq!(reason, None);
            engine.describe().kind
        };
        let recorded = format!("{}, Vulkan, a driver of then", here.name);
        assert_eq!(of(Device::Auto, "gpu", &recorded), "gpu");
        assert_eq!(of(Device::Auto, "gpu", "a card that is gone, Vulkan"), "gpu", "another one");
        assert_eq!(of(Device::Auto, "cpu", "CPU, 2 threads"), "cpu");
        assert_eq!(of(Device::Cpu, "gpu", &recorded), "cpu");
    }

    #[test]
    fn a_trial_ends_and_says_how_long_a_step_takes() {
        let mut engine = DeviceOptions { device: Device::Cpu, ..DeviceOptions::default() }.engine(1).unwrap();
        let ms = gausset_gpu::benchmark::step_ms(&mut *engine, std::time::Duration::ZERO).unwrap();
        assert!(ms > 0.0 && ms.is_finite(), "{ms}");
    }
}
