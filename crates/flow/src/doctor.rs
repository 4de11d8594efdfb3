//! What there is to compute with, what is wrong with it, and what a training would take on it.

use std::path::Path;
use std::sync::Arc;

use gausset_core::engine::Engine;
use gausset_io::dataset::{self, Dataset};
use gausset_train::{MemoryPlan, TrainConfig, TrainOptions, foresee};
use serde::Serialize;

use crate::device::{Device, DeviceOptions};
use crate::{Failure, Host};

/// A GPU, or a program in its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Adapter {
    /// Number, for `--device`.
    pub number: usize,
    /// Name.
    pub name: String,
    /// `discrete`, `integrated`, `virtual`, `other`, `software`.
    pub kind: &'static str,
    /// Interface: `Vulkan`, `Metal`, `Dx12`.
    pub backend: String,
    /// Driver with its version.
    pub driver: String,
    /// Place on the bus, which tells equal cards apart; may be empty.
    pub bus: String,
    /// Memory of its own, bytes: `null` where it shares the machine's, or does not say.
    pub memory_bytes: Option<u64>,
    /// Largest buffer of a kernel, bytes.
    pub buffer_bytes: u64,
    /// Whether the profiler can see its stages.
    pub has_timestamps: bool,
    /// Whether a small training step gives the results that are expected: `null`, or what is wrong.
    pub fault: Option<String>,
    /// What a training would take, if one was asked about and there is no fault.
    pub training: Option<Prospect>,
}

/// What a training with default options would take on a device, without the dense points that it may begin with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prospect {
    /// Memory of the machine that it would take with all splats, bytes, …
    pub memory: u64,
    /// … of so many that it may take; and …
    pub memory_limit: u64,
    /// … of the device's own.
    pub device_memory: u64,
    /// Whether there is that much.
    pub fits: bool,
    /// Most splats that there is memory for.
    pub possible_splats: Option<u64>,
    /// Seconds of its steps, if they could be predicted.
    pub seconds: Option<f64>,
    /// Why they could not, if something failed.
    pub fault: Option<String>,
}

/// The training that was asked about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Question {
    /// Training pictures.
    pub pictures: usize,
    /// Width and height of the largest in px.
    pub largest: [u32; 2],
    /// Steps.
    pub steps: u64,
    /// Splats at most.
    pub max_splats: u64,
}

/// All devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Examined {
    /// The training that was asked about, if one was.
    pub question: Option<Question>,
    /// The processor, with the vector instructions that are used.
    pub processor: String,
    /// What that training would take on it.
    pub training: Option<Prospect>,
    /// GPUs by their numbers.
    pub adapters: Vec<Adapter>,
    /// The one that `--device gpu` takes …
    pub chosen: Option<usize>,
    /// … and why, or why there is none.
    pub reason: String,
    /// What could be taken where no device is named. It is the processor so far: no hardware has been run.
    pub automatic: String,
    /// What seems to be missing on this machine.
    pub missing: Vec<String>,
}

/// Looks for devices and tries each of them, with a few steps on a dataset if there is one to ask about.
///
/// # Errors
/// A dataset that cannot be opened, or not be trained on.
pub fn examine(data: Option<&Path>, host: &mut Host<'_>) -> Result<Examined, Failure> {
    let scene = data.map(|data| Scene::open(data, host)).transpose()?;
    let mut examined = gpus();
    let on = |device: Device| DeviceOptions { device, ..DeviceOptions::default() }.engine(0);
    let cpu = on(Device::Cpu);
    examined.processor = match &cpu {
        Ok(engine) => engine.describe().name,
        Err(failure) => failure.to_string(),
    };
    let Some(scene) = scene else { return Ok(examined) };
    examined.training = Some(scene.prospect(cpu, host));
    for adapter in examined.adapters.iter_mut().filter(|adapter| adapter.fault.is_none()) {
        adapter.training = Some(scene.prospect(on(Device::Named(adapter.number.to_string().leak())), host));
    }
    examined.question = Some(scene.question());
    Ok(examined)
}

/// A dataset with the default options for it.
struct Scene {
    config: TrainConfig,
    dataset: Arc<Dataset>,
}

impl Scene {
    fn open(data: &Path, host: &mut Host<'_>) -> Result<Self, Failure> {
        let options = TrainOptions { data: Some(data.to_owned()), ..TrainOptions::default() };
        let first = TrainConfig::resolve(&options, None)?;
        let dataset = dataset::open(data, &first.open_options())?;
        crate::training::warn_of(&dataset, host);
        Ok(Self { config: TrainConfig::resolve_for(&options, &dataset)?, dataset: Arc::new(dataset) })
    }

    fn question(&self) -> Question {
        let sizes = self.dataset.images.iter().map(|image| [image.camera.width, image.camera.height]);
        Question {
            pictures: self.dataset.split.train.len(),
            largest: sizes.max_by_key(|[w, h]| u64::from(*w) * u64::from(*h)).unwrap_or_default(),
            steps: self.config.recipe.steps,
            max_splats: self.config.recipe.max_splats,
        }
    }

    fn prospect(&self, engine: Result<Box<dyn Engine>, Failure>, host: &Host<'_>) -> Prospect {
        let foreseen = engine
            .and_then(|mut engine| Ok(foresee(&self.config, &self.dataset, &mut *engine, host.stop())?));
        let of = |memory: MemoryPlan, seconds: Option<f64>| Prospect {
            memory: memory.total(),
            memory_limit: memory.limit,
            device_memory: memory.device,
            fits: memory.fits(),
            possible_splats: memory.possible_splats(),
            seconds,
            fault: None,
        };
        match foreseen {
            Ok(foreseen) => of(foreseen.memory, foreseen.seconds),
            Err(failure) => Prospect { fault: Some(failure.to_string()), ..of(MemoryPlan::default(), None) },
        }
    }
}

#[cfg(not(feature = "gpu"))]
fn gpus() -> Examined {
    Examined {
        reason: "this program was built without GPUs (feature `gpu`)".to_owned(),
        automatic: "the processor".to_owned(),
        ..Examined::default()
    }
}

#[cfg(feature = "gpu")]
fn gpus() -> Examined {
    use gausset_gpu::{AdapterChoice, AdapterKind, Automatic, Gpu};
    let (reports, chosen) = Gpu::survey();
    let infos: Vec<_> = reports.iter().map(|report| report.info.clone()).collect();
    let automatic = match Automatic::among(&infos) {
        Automatic::Processor => "the processor".to_owned(),
        Automatic::Card(number) => {
            format!(
                "number {number}, a card, for trainings; the processor for other jobs, or if the card fails its self-test"
            )
        }
        Automatic::Measured(number) => format!(
            "the processor, or number {number} where a training begins and a measurement of a second finds it faster"
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
            fault: report.lacks.or_else(tested),
            training: None,
        }
    };
    let adapters: Vec<Adapter> = reports.into_iter().enumerate().map(adapter).collect();
    let reason = match chosen.map(|number| adapters[number].kind) {
        None => "no adapter: neither Vulkan nor Metal nor DirectX 12 shows one".to_owned(),
        Some("software") => "there is no other; ⟨device = cpu⟩ is faster".to_owned(),
        Some(_) if adapters.len() == 1 => "there is no other".to_owned(),
        Some("discrete") => "the first card with memory of its own".to_owned(),
        Some(_) => "no card with memory of its own is there".to_owned(),
    };
    let has_hardware = adapters.iter().any(|adapter| adapter.kind != "software");
    let missing = if has_hardware { Vec::new() } else { missing() };
    Examined { adapters, chosen, reason, automatic, missing, ..Examined::default() }
}

/// What Linux lacks where no hardware shows up.
#[cfg(all(feature = "gpu", target_os = "linux"))]
fn missing() -> Vec<String> {
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
        let what = "a driver's ICD file in /usr/share/vulkan/icd.d or /etc/vulkan/icd.d, or VK_DRIVER_FILES that names one";
        missing.push(what.to_owned());
    }
    let is_nvidia = Path::new("/dev/nvidiactl").exists();
    let nodes = Path::new("/dev/dri").read_dir().into_iter().flatten().flatten();
    let nodes: Vec<_> =
        nodes.filter(|node| node.file_name().to_string_lossy().starts_with("renderD")).collect();
    if nodes.is_empty() && !is_nvidia {
        missing.push("a GPU: there is neither /dev/dri/renderD* nor /dev/nvidiactl".to_owned());
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
fn missing() -> Vec<String> {
    Vec::new()
}
