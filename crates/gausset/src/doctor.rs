//! Lists the compute devices, checks them, and estimates what a training needs on each; lists the outside programs that
//! jobs use.

use std::path::Path;
use std::sync::Arc;

use gausset_core::engine::Engine;
use gausset_io::atomic::{Disk, FileSystem};
use gausset_io::dataset::{self, Dataset};
use gausset_train::{MemoryPlan, TrainConfig, TrainOptions, predict_run};
use serde::Serialize;

use crate::device::{Device, DeviceOptions};
pub use crate::external_tools::ExternalTool;
use crate::{Failure, Host};

/// A GPU or software renderer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Adapter {
    /// Number to pass to `--device`.
    pub number: usize,
    /// Name, as its driver reports it.
    pub name: String,
    /// Kind: `discrete`, `integrated`, `virtual`, `other` or `software`.
    pub kind: &'static str,
    /// Graphics API: `Vulkan`, `Metal` or `Dx12`.
    pub backend: String,
    /// Driver with its version.
    pub driver: String,
    /// Bus address, which distinguishes identical GPUs; may be empty.
    pub bus: String,
    /// Dedicated memory in bytes; `None` if it shares the machine's memory or does not report it.
    pub memory_bytes: Option<u64>,
    /// Largest storage buffer of a kernel in bytes.
    pub buffer_bytes: u64,
    /// Whether it has timestamp queries, which the profiler needs for stages on the GPU.
    pub has_timestamps: bool,
    /// Why it cannot be used; `None` if a small training step gives the expected results.
    pub fault: Option<String>,
    /// Estimate for the training on a given dataset; `None` without a dataset or with a fault.
    pub training: Option<TrainingEstimate>,
}

/// Estimated needs of a training with default options on one device, without optional dense initial points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingEstimate {
    /// Host memory needed with the maximum number of splats, in bytes.
    pub memory: u64,
    /// Host memory that it may use, in bytes.
    pub memory_limit: u64,
    /// Device memory needed, in bytes.
    pub device_memory: u64,
    /// Whether the needs fit both limits.
    pub fits: bool,
    /// Largest number of splats that fits in memory.
    pub possible_splats: Option<u64>,
    /// Predicted time of all steps in seconds; `None` if it could not be predicted.
    pub seconds: Option<f64>,
    /// Why the prediction failed, if it did.
    pub fault: Option<String>,
}

/// The training to estimate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EstimatedTraining {
    /// Number of training images.
    pub pictures: usize,
    /// Width and height of the largest image in pixels.
    pub largest: [u32; 2],
    /// Number of steps.
    pub steps: u64,
    /// Maximum number of splats.
    pub max_splats: u64,
}

/// Report of [`examine()`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DoctorReport {
    /// The training to estimate, if a dataset was given.
    pub question: Option<EstimatedTraining>,
    /// Name of the CPU with the SIMD level in use.
    pub processor: String,
    /// Number of CPU threads that a job uses by default.
    pub threads: usize,
    /// Physical memory in bytes, where the system reports it.
    pub memory_bytes: Option<u64>,
    /// Free disk space of the working folder in bytes, where the system reports it.
    pub free_disk_bytes: Option<u64>,
    /// Outside programs and libraries, found or not.
    pub tools: Vec<ExternalTool>,
    /// Estimate of that training on the CPU.
    pub training: Option<TrainingEstimate>,
    /// Adapters, ordered by number.
    pub adapters: Vec<Adapter>,
    /// Number of the adapter that `--device gpu` selects.
    pub chosen: Option<usize>,
    /// Why that adapter was selected, or why there is none.
    pub reason: String,
    /// What `--device auto` selects, in words.
    pub automatic: String,
    /// Components that this machine seems to lack.
    pub missing: Vec<String>,
}

/// Lists and tests all devices. With a dataset, also estimates its training on each, from a few steps.
///
/// # Errors
/// A dataset that cannot be opened or trained on.
pub fn examine(data: Option<&Path>, host: &mut Host<'_>) -> Result<DoctorReport, Failure> {
    let scene = data.map(|data| TrainingCase::open(data, host)).transpose()?;
    let mut examined = without_driver_lines(gpus);
    examined.threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    examined.memory_bytes = gausset_compute::machine::memory_bytes();
    examined.free_disk_bytes = Disk.free_space(Path::new(".")).ok();
    examined.tools = ExternalTool::all(host.stop());
    let on = |device: Device| DeviceOptions { device, ..DeviceOptions::default() }.engine(0);
    let cpu = on(Device::Cpu);
    examined.processor = match &cpu {
        Ok(engine) => engine.describe().name,
        Err(failure) => failure.to_string(),
    };
    let Some(scene) = scene else { return Ok(examined) };
    examined.training = Some(scene.estimate(cpu, host));
    for adapter in examined.adapters.iter_mut().filter(|adapter| adapter.fault.is_none()) {
        adapter.training = Some(scene.estimate(on(Device::Named(adapter.number.to_string().leak())), host));
    }
    examined.question = Some(scene.training_case());
    Ok(examined)
}

/// Calls `look` while stderr goes nowhere: drivers and their loaders print lines there that say nothing about a fault.
#[cfg(unix)]
fn without_driver_lines<T>(look: impl FnOnce() -> T) -> T {
    use rustix::fs::{Mode, OFlags};
    let nowhere = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    let kept = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3);
    let (Ok(nowhere), Ok(kept)) = (nowhere, kept) else { return look() };
    if rustix::stdio::dup2_stderr(nowhere).is_err() {
        return look();
    }
    let seen = look();
    // If this fails, later lines are lost, and nothing else.
    let _ = rustix::stdio::dup2_stderr(kept);
    seen
}

#[cfg(not(unix))]
fn without_driver_lines<T>(look: impl FnOnce() -> T) -> T {
    look()
}

/// A dataset and its default training configuration.
struct TrainingCase {
    config: TrainConfig,
    dataset: Arc<Dataset>,
}

impl TrainingCase {
    fn open(data: &Path, host: &mut Host<'_>) -> Result<Self, Failure> {
        let options = TrainOptions { data: Some(data.to_owned()), ..TrainOptions::default() };
        let first = TrainConfig::resolve(&options, None)?;
        let dataset = dataset::open(data, &first.open_options())?;
        crate::training::warn_about_dataset(&dataset, host);
        Ok(Self { config: TrainConfig::resolve_for(&options, &dataset)?, dataset: Arc::new(dataset) })
    }

    fn training_case(&self) -> EstimatedTraining {
        let sizes = self.dataset.images.iter().map(|image| [image.camera.width, image.camera.height]);
        EstimatedTraining {
            pictures: self.dataset.split.train.len(),
            largest: sizes.max_by_key(|[w, h]| u64::from(*w) * u64::from(*h)).unwrap_or_default(),
            steps: self.config.recipe.steps,
            max_splats: self.config.recipe.max_splats,
        }
    }

    fn estimate(&self, engine: Result<Box<dyn Engine>, Failure>, host: &Host<'_>) -> TrainingEstimate {
        let foreseen = engine
            .and_then(|mut engine| Ok(predict_run(&self.config, &self.dataset, &mut *engine, host.stop())?));
        let of = |memory: MemoryPlan, seconds: Option<f64>| TrainingEstimate {
            memory: memory.total(),
            memory_limit: memory.limit,
            device_memory: memory.device,
            fits: memory.fits(),
            possible_splats: memory.max_fitting_splats(),
            seconds,
            fault: None,
        };
        match foreseen {
            Ok(foreseen) => of(foreseen.memory, foreseen.seconds),
            Err(failure) => {
                TrainingEstimate { fault: Some(failure.to_string()), ..of(MemoryPlan::default(), None) }
            }
        }
    }
}

#[cfg(not(feature = "gpu"))]
fn gpus() -> DoctorReport {
    DoctorReport {
        reason: "this program was built without GPU support (feature `gpu`)".to_owned(),
        automatic: "the CPU".to_owned(),
        ..DoctorReport::default()
    }
}

#[cfg(feature = "gpu")]
fn gpus() -> DoctorReport {
    use gausset_gpu::{AdapterChoice, AdapterKind, AutomaticDevice, Gpu};
    let (reports, chosen) = Gpu::adapter_reports();
    let infos: Vec<_> = reports.iter().map(|report| report.info.clone()).collect();
    let automatic = match AutomaticDevice::select_from(&infos) {
        AutomaticDevice::Cpu => "the CPU".to_owned(),
        AutomaticDevice::DiscreteGpu(number) => {
            format!(
                "number {number}, a discrete GPU, for trainings; the CPU for other jobs, or if the GPU fails its self-test"
            )
        }
        AutomaticDevice::Benchmarked(number) => format!(
            "the CPU, or number {number} for a new training if a one-second benchmark finds it faster"
        ),
    };
    let adapter = |(number, report): (usize, gausset_gpu::AdapterReport)| {
        let choice = AdapterChoice::Named(number.to_string());
        let tested = || Gpu::open(&choice).and_then(|gpu| gpu.self_test()).err().map(|err| err.to_string());
        Adapter {
            number,
            kind: match report.info.kind {
                AdapterKind::Discrete => "discrete",
                AdapterKind::Integrated => "integrated",
                AdapterKind::Virtual => "virtual",
                AdapterKind::Other => "other",
                AdapterKind::Software => "software",
            },
            memory_bytes: report.info.memory_bytes.filter(|_| !report.info.shares_memory()),
            name: report.info.name,
            backend: report.info.backend,
            driver: report.info.driver,
            bus: report.bus,
            buffer_bytes: report.buffer_bytes,
            has_timestamps: report.has_timestamps,
            fault: report.unmet_requirement.or_else(tested),
            training: None,
        }
    };
    let adapters: Vec<Adapter> = reports.into_iter().enumerate().map(adapter).collect();
    let reason = match chosen.map(|number| adapters[number].kind) {
        None => "no adapter found through Vulkan, Metal or DirectX 12".to_owned(),
        Some("software") => "the only adapter; ⟨device = cpu⟩ is faster".to_owned(),
        Some(_) if adapters.len() == 1 => "the only adapter".to_owned(),
        Some("discrete") => "the first discrete GPU".to_owned(),
        Some(_) => "there is no discrete GPU".to_owned(),
    };
    let has_hardware = adapters.iter().any(|adapter| adapter.kind != "software");
    let missing = if has_hardware { Vec::new() } else { missing_components() };
    DoctorReport { adapters, chosen, reason, automatic, missing, ..DoctorReport::default() }
}

/// Components that Linux lacks, if no hardware GPU was found.
#[cfg(all(feature = "gpu", target_os = "linux"))]
fn missing_components() -> Vec<String> {
    use std::path::Path;
    let mut missing = Vec::new();
    let has_entry = |folder: &str, start: &str, end: &str| {
        let entries = Path::new(folder).read_dir().into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.starts_with(start) && name.ends_with(end))
    };
    let libraries =
        ["/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64"];
    if !libraries.iter().any(|folder| has_entry(folder, "libvulkan.so", "")) {
        missing.push("the Vulkan loader, libvulkan.so.1 (Debian: apt install libvulkan1)".to_owned());
    }
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].iter().any(|name| std::env::var_os(name).is_some());
    let icds = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];
    if !named && !icds.iter().any(|folder| has_entry(folder, "", ".json")) {
        let what = "a driver's ICD file in /usr/share/vulkan/icd.d or /etc/vulkan/icd.d, or one named by VK_DRIVER_FILES";
        missing.push(what.to_owned());
    }
    let is_nvidia = Path::new("/dev/nvidiactl").exists();
    let nodes = Path::new("/dev/dri").read_dir().into_iter().flatten().flatten();
    let nodes: Vec<_> =
        nodes.filter(|node| node.file_name().to_string_lossy().starts_with("renderD")).collect();
    if nodes.is_empty() && !is_nvidia {
        missing.push("a GPU: neither /dev/dri/renderD* nor /dev/nvidiactl exists".to_owned());
    }
    let capabilities = std::env::var("NVIDIA_DRIVER_CAPABILITIES").unwrap_or_default();
    if is_nvidia
        && !capabilities.is_empty()
        && !["graphics", "all"].iter().any(|word| capabilities.contains(word))
    {
        let what =
            format!("`graphics` in NVIDIA_DRIVER_CAPABILITIES of this container (found {capabilities})");
        missing.push(what);
    }
    missing
}

#[cfg(all(feature = "gpu", not(target_os = "linux")))]
fn missing_components() -> Vec<String> {
    Vec::new()
}
