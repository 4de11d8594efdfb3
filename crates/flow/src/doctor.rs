//! What there is to compute with, and what is wrong with it.

use serde::Serialize;

/// A GPU, or a program in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// Largest buffer of a kernel, bytes.
    pub buffer_bytes: u64,
    /// Whether the profiler can see its stages.
    pub has_timestamps: bool,
    /// Whether a small training step gives the results that are expected: `null`, or what is wrong.
    pub fault: Option<String>,
}

/// All devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examined {
    /// The processor, with the vector instructions that are used.
    pub processor: String,
    /// GPUs by their numbers.
    pub adapters: Vec<Adapter>,
    /// The one that `--device gpu` takes …
    pub chosen: Option<usize>,
    /// … and why, or why there is none.
    pub reason: String,
    /// What seems to be missing on this machine.
    pub missing: Vec<String>,
}

/// Looks for devices and tries each of them.
#[must_use]
pub fn examine() -> Examined {
    let mut examined = gpus();
    let engine = crate::device::DeviceOptions::default().engine(0);
    examined.processor = engine.map_or_else(|failure| failure.to_string(), |engine| engine.describe().name);
    examined
}

#[cfg(not(feature = "gpu"))]
fn gpus() -> Examined {
    Examined {
        reason: "this program was built without GPUs (feature `gpu`)".to_owned(),
        ..Examined::default()
    }
}

#[cfg(feature = "gpu")]
fn gpus() -> Examined {
    use gausset_gpu::{AdapterChoice, AdapterKind, Gpu};
    let (reports, chosen) = Gpu::survey();
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
            name: report.info.name,
            backend: report.info.backend,
            driver: report.info.driver,
            bus: report.bus,
            buffer_bytes: report.buffer_bytes,
            has_timestamps: report.has_timestamps,
            fault: report.lacks.or_else(tested),
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
    Examined { adapters, chosen, reason, missing, ..Examined::default() }
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
