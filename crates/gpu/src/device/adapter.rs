//! Selecting and opening an adapter.

use std::sync::Arc;

use gausset_core::engine::EngineError;

use super::failure::{FailureNote, block_on, one_line};
use super::{Gpu, KernelCache, Shared, backend, kernel_cache};

/// Which adapter to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdapterChoice {
    /// The best one: a discrete GPU before an integrated one, and a software adapter only if there is no other.
    #[default]
    Best,
    /// A part of the adapter's name, or its index in the list of all adapters.
    Named(String),
}

/// The kind of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU in the CPU, with shared memory.
    Integrated,
    /// A fraction of a GPU in a virtual machine.
    Virtual,
    /// Any other kind.
    Other,
    /// A software renderer on the CPU.
    Software,
}

/// Description of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// Name of the adapter.
    pub name: String,
    /// Its kind.
    pub kind: AdapterKind,
    /// The graphics API: `Vulkan`, `Metal`, `Dx12`.
    pub backend: String,
    /// Driver and its version.
    pub driver: String,
    /// Bytes of device-local memory, if known. If the device [`shares`](Self::shares_memory) the machine's memory, this
    /// is a part of it.
    pub memory_bytes: Option<u64>,
}

impl GpuInfo {
    fn from_adapter(adapter: &wgpu::Adapter) -> Self {
        let info = adapter.get_info();
        let kind = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
            wgpu::DeviceType::Other => AdapterKind::Other,
            wgpu::DeviceType::Cpu => AdapterKind::Software,
        };
        let driver = format!("{} {}", info.driver, info.driver_info).trim().to_owned();
        let memory_bytes = backend::device_memory_bytes(adapter);
        Self { name: info.name, kind, backend: format!("{:?}", info.backend), driver, memory_bytes }
    }

    /// Name for messages and for the record of a run: adapter, API, driver.
    #[must_use]
    pub fn full_name(&self) -> String {
        let what = if self.kind == AdapterKind::Software { " (software)" } else { "" };
        format!("{}{what}, {}, {}", self.name, self.backend, self.driver)
    }

    /// The index of the adapter with this full name; if the driver or the API has changed, the one that is most alike.
    #[must_use]
    pub fn find(all: &[Self], full_name: &str) -> Option<usize> {
        let with =
            |is_it: &dyn Fn(&str, &Self) -> bool| all.iter().position(|info| is_it(&info.full_name(), info));
        let api = |name: &str, info: &Self| {
            name.strip_suffix(&info.driver).is_some_and(|s| full_name.starts_with(s))
        };
        with(&|name, _| name == full_name)
            .or_else(|| with(&api))
            .or_else(|| with(&|_, info| full_name.starts_with(&info.name)))
    }

    /// Whether it shares the memory of the machine.
    #[must_use]
    pub fn shares_memory(&self) -> bool {
        matches!(self.kind, AdapterKind::Software | AdapterKind::Integrated)
    }
}

/// Why no adapter was selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum AdapterError {
    #[error(
        "no adapter: neither Vulkan nor Metal nor DirectX 12 shows one (expected a GPU with its driver, or a software \
         adapter such as Mesa's lavapipe)"
    )]
    None,
    #[error("no adapter is called `{wanted}` (expected one of {})", list_adapters(.all))]
    Unknown { wanted: String, all: Vec<GpuInfo> },
    #[error("`{wanted}` matches {fits} adapters (use an index: {})", list_adapters(.all))]
    Ambiguous { wanted: String, fits: usize, all: Vec<GpuInfo> },
    #[error("{name}: {found} {what} (expected at least {needed})")]
    Lacks { name: String, what: &'static str, found: u32, needed: u32 },
    #[error("{name}: {reason}")]
    Refused { name: String, reason: String },
}

impl From<AdapterError> for EngineError {
    fn from(error: AdapterError) -> Self {
        Self::DeviceFailed(error.to_string())
    }
}

/// Lists adapters with their indices.
fn list_adapters(infos: &[GpuInfo]) -> String {
    let name = |(number, info): (usize, &GpuInfo)| format!("{number}: {} ({})", info.name, info.backend);
    infos.iter().enumerate().map(name).collect::<Vec<_>>().join(", ")
}

fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    // The default flags check indirect calls with additional kernels, one for each dispatch; the arguments here come
    // from our own planning kernels.
    descriptor.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(descriptor)
}

fn adapters() -> Vec<wgpu::Adapter> {
    block_on(instance().enumerate_adapters(wgpu::Backends::all()))
}

/// A number below this is an index, even if no adapter has it; others may be a part of a name, such as `4090`.
const MAX_INDEX: usize = 64;

/// The index of the requested adapter.
fn choose(infos: &[GpuInfo], choice: &AdapterChoice) -> Result<usize, AdapterError> {
    if infos.is_empty() {
        return Err(AdapterError::None);
    }
    let AdapterChoice::Named(wanted) = choice else {
        let best = (0..infos.len()).min_by_key(|&i| infos[i].kind);
        return Ok(best.unwrap_or(0));
    };
    let part = wanted.to_lowercase();
    let is_wanted = |i: &usize| match wanted.parse::<usize>() {
        Ok(number) if number < MAX_INDEX => number == *i,
        _ => infos[*i].name.to_lowercase().contains(&part),
    };
    let fits: Vec<usize> = (0..infos.len()).filter(is_wanted).collect();
    let (wanted, all) = (wanted.clone(), infos.to_vec());
    // Each graphics API lists the same adapter.
    let is_listed_again = |(at, &i): (usize, &usize)| {
        infos[i].name == infos[fits[0]].name
            && fits[..at].iter().all(|&earlier| infos[earlier].backend != infos[i].backend)
    };
    match fits[..] {
        [first, ..] if fits.iter().enumerate().all(is_listed_again) => Ok(first),
        [] => Err(AdapterError::Unknown { wanted, all }),
        _ => Err(AdapterError::Ambiguous { wanted, fits: fits.len(), all }),
    }
}

/// The device for `--device auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutomaticDevice {
    /// The CPU: there is no adapter, or none that is known to be hardware.
    Cpu,
    /// The adapter with this index, without a measurement: a GPU with its own memory.
    DiscreteGpu(usize),
    /// The adapter with this index if a measurement shows that it is faster than the CPU.
    Benchmarked(usize),
}

impl AutomaticDevice {
    /// Selects among these adapters: the first discrete GPU; else the first integrated or virtual GPU, which is to be
    /// measured; never a software renderer or an adapter of unknown kind.
    #[must_use]
    pub fn select_from(infos: &[GpuInfo]) -> Self {
        let first = |kind: AdapterKind| infos.iter().position(|info| info.kind == kind);
        let measured = || first(AdapterKind::Integrated).or_else(|| first(AdapterKind::Virtual));
        match first(AdapterKind::Discrete) {
            Some(card) => Self::DiscreteGpu(card),
            None => measured().map_or(Self::Cpu, Self::Benchmarked),
        }
    }

    /// The adapter to use, given the time of a step on the CPU and on the adapter in ms; `None` is the CPU.
    /// `adapter_ms` is `None` if the step failed or was not measured. The adapter must be faster by at least a tenth.
    ///
    /// ```
    /// use gausset_gpu::AutomaticDevice;
    ///
    /// let integrated = AutomaticDevice::Benchmarked(0);
    /// assert_eq!(integrated.after_benchmark(100.0, Some(50.0)), Some(0));
    /// assert_eq!(integrated.after_benchmark(100.0, Some(95.0)), None);
    /// ```
    #[must_use]
    pub fn after_benchmark(self, processor_ms: f64, adapter_ms: Option<f64>) -> Option<usize> {
        match (self, adapter_ms) {
            (Self::DiscreteGpu(number), _) => Some(number),
            (Self::Benchmarked(number), Some(ms)) if ms > 0.0 && ms < 0.9 * processor_ms => Some(number),
            _ => None,
        }
    }
}

/// The limit by which an adapter does not meet the kernels' requirements, if any.
fn unmet_requirement(name: &str, limits: &wgpu::Limits) -> Option<AdapterError> {
    let needs = [
        ("storage buffers of a kernel", limits.max_storage_buffers_per_shader_stage, 8),
        ("bytes of workgroup memory", limits.max_compute_workgroup_storage_size, 16_384),
        ("threads of a workgroup", limits.max_compute_invocations_per_workgroup, 256),
    ];
    let lacking = needs.into_iter().find(|&(_, found, needed)| found < needed);
    lacking.map(|(what, found, needed)| AdapterError::Lacks { name: name.to_owned(), what, found, needed })
}

/// An adapter as shown by `gausset doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterReport {
    /// Description of the adapter.
    pub info: GpuInfo,
    /// PCI bus id, if known: distinguishes equal GPUs.
    pub bus: String,
    /// Largest buffer of a kernel, bytes.
    pub buffer_bytes: u64,
    /// Whether it has timestamps to time its kernels.
    pub has_timestamps: bool,
    /// The requirement of the kernels that it does not meet, if any.
    pub unmet_requirement: Option<String>,
}

impl Gpu {
    /// All adapters with their limits, in index order, and the index of the best one.
    #[must_use]
    pub fn adapter_reports() -> (Vec<AdapterReport>, Option<usize>) {
        let report = |adapter: &wgpu::Adapter| {
            let (info, limits) = (GpuInfo::from_adapter(adapter), adapter.limits());
            AdapterReport {
                bus: adapter.get_info().device_pci_bus_id,
                buffer_bytes: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
                has_timestamps: adapter.features().contains(wgpu::Features::TIMESTAMP_QUERY),
                unmet_requirement: unmet_requirement(&info.name, &limits).map(|lacking| lacking.to_string()),
                info,
            }
        };
        let all: Vec<AdapterReport> = adapters().iter().map(report).collect();
        let infos: Vec<GpuInfo> = all.iter().map(|report| report.info.clone()).collect();
        (all, choose(&infos, &AdapterChoice::Best).ok())
    }

    /// All adapters, in index order.
    #[must_use]
    pub fn list() -> Vec<GpuInfo> {
        adapters().iter().map(GpuInfo::from_adapter).collect()
    }

    /// Opens an adapter.
    ///
    /// # Errors
    /// [`EngineError::DeviceFailed`] if there is no adapter, if the requested one does not exist, or if it does not meet the
    /// requirements.
    pub fn open(choice: &AdapterChoice) -> Result<Self, EngineError> {
        Self::open_with(choice, None)
    }

    /// Opens an adapter, with a cache for its compiled kernels.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_with(
        choice: &AdapterChoice,
        files: Option<Arc<dyn KernelCache>>,
    ) -> Result<Self, EngineError> {
        let adapters = adapters();
        let infos: Vec<GpuInfo> = adapters.iter().map(GpuInfo::from_adapter).collect();
        let place = choose(&infos, choice)?;
        let (adapter, info) = (&adapters[place], infos[place].clone());
        let available = adapter.limits();
        if let Some(lacking) = unmet_requirement(&info.name, &available) {
            return Err(lacking.into());
        }
        // The default limits of WebGPU, so that the same kernels run everywhere, with buffers as large as the adapter
        // allows.
        let limits = wgpu::Limits {
            max_buffer_size: available.max_buffer_size,
            max_storage_buffer_binding_size: available.max_storage_buffer_binding_size,
            ..wgpu::Limits::defaults()
        };
        let limits = limits.or_worse_values_from(&available);
        let wanted = wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS
            | wgpu::Features::PIPELINE_CACHE;
        let features = adapter.features() & wanted;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("gausset"),
            required_features: features,
            required_limits: limits.clone(),
            ..wgpu::DeviceDescriptor::default()
        };
        let opened = block_on(adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|err| AdapterError::Refused {
            name: info.name.clone(),
            reason: one_line(&err.to_string()),
        })?;
        let notes = Arc::new(FailureNote::default());
        let for_errors = Arc::clone(&notes);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| for_errors.note(error.to_string())));
        let for_loss = Arc::clone(&notes);
        device.set_device_lost_callback(move |reason, what| {
            for_loss.note(format!("the device is lost ({reason:?}): {what}"));
        });
        let tick = features.contains(wgpu::Features::TIMESTAMP_QUERY).then(|| queue.get_timestamp_period());
        let shared = Shared {
            device,
            queue,
            info,
            limits,
            tick_ns: tick,
            notes,
            modules: std::sync::Mutex::default(),
            pipelines: std::sync::Mutex::default(),
            kernel_cache: std::sync::OnceLock::new(),
            refused: std::sync::atomic::AtomicU64::new(0),
        };
        let gpu = Self { shared: Arc::new(shared) };
        let kept = files.and_then(|files| kernel_cache::open(&gpu, &adapter.get_info(), files));
        gpu.shared.kernel_cache.get_or_init(|| kept);
        Ok(gpu)
    }

    /// Smallest subgroup size: for tests.
    #[cfg(test)]
    pub(crate) fn subgroup_size(&self) -> u32 {
        self.shared.device.adapter_info().subgroup_min_size
    }

    /// Makes the allocation with this number, counted from 1, fail as on a driver without memory. Returns whether a
    /// failure set earlier has occurred. For tests.
    #[doc(hidden)]
    pub fn refuse_allocation(&self, number: u64) -> bool {
        self.shared.refused.swap(number, std::sync::atomic::Ordering::Relaxed) == 0
    }

    /// Destroys the device, as a driver may: for tests.
    #[doc(hidden)]
    pub fn destroy(&self) {
        self.shared.device.destroy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, kind: AdapterKind) -> GpuInfo {
        GpuInfo {
            name: name.to_owned(),
            kind,
            backend: "Vulkan".to_owned(),
            driver: String::new(),
            memory_bytes: None,
        }
    }

    #[test]
    fn the_best_adapter_is_a_card_and_never_software_where_there_is_another() {
        let all = [
            info("llvmpipe", AdapterKind::Software),
            info("Intel Arc", AdapterKind::Integrated),
            info("NVIDIA H200", AdapterKind::Discrete),
            info("NVIDIA H200", AdapterKind::Discrete),
        ];
        assert_eq!(choose(&all, &AdapterChoice::Best), Ok(2));
        assert_eq!(choose(&all[..2], &AdapterChoice::Best), Ok(1));
        assert_eq!(choose(&all[..1], &AdapterChoice::Best), Ok(0));
        let named = |name: &str| choose(&all, &AdapterChoice::Named(name.to_owned()));
        assert_eq!((named("arc"), named("3")), (Ok(1), Ok(3)));
        let refused = |outcome: Result<usize, AdapterError>| outcome.expect_err("refused").to_string();
        let what = refused(named("h200"));
        assert!(what.contains("matches 2 adapters") && what.contains("3: NVIDIA"), "{what}");
        assert!(refused(named("radeon")).contains("expected one of 0: llvmpipe"));
        // An index that no adapter has is not a part of a name; larger numbers are.
        assert!(refused(named("20")).starts_with("no adapter is called `20`"));
        assert_eq!(
            (named("200").is_err(), choose(&all[..3], &AdapterChoice::Named("200".to_owned()))),
            (true, Ok(2))
        );
        // Vulkan and DirectX 12 list the same card.
        let dx12 = GpuInfo { backend: "Dx12".to_owned(), ..all[2].clone() };
        let of = |all: &[GpuInfo]| choose(all, &AdapterChoice::Named("nvidia".to_owned()));
        assert_eq!(of(&[all[0].clone(), all[2].clone(), dx12.clone()]), Ok(1));
        assert!(of(&[all[2].clone(), all[3].clone(), dx12.clone(), dx12]).is_err(), "two cards");
        assert_eq!(choose(&[], &AdapterChoice::Best), Err(AdapterError::None));
    }

    #[test]
    fn the_adapter_of_a_run_is_found_by_its_whole_name_then_by_its_api_then_by_its_name() {
        let of = |name: &str, backend: &str, driver: &str| GpuInfo {
            backend: backend.to_owned(),
            driver: driver.to_owned(),
            ..info(name, AdapterKind::Discrete)
        };
        let all = [of("RTX", "Dx12", "1"), of("RTX", "Vulkan", "1"), of("RTX", "Vulkan", "2")];
        let found = |name: &str| GpuInfo::find(&all, name);
        assert_eq!((found("RTX, Vulkan, 2"), found("RTX, Vulkan, 3")), (Some(2), Some(1)));
        assert_eq!((found("RTX, Metal, 1"), found("Arc, Vulkan, 1")), (Some(0), None));
    }

    #[test]
    fn who_names_no_device_gets_a_card_or_what_is_faster_and_never_software() {
        use AdapterKind::{Discrete, Integrated, Other, Software, Virtual};
        let among = |kinds: &[AdapterKind]| {
            AutomaticDevice::select_from(
                &kinds.iter().map(|&kind| info("an adapter", kind)).collect::<Vec<_>>(),
            )
        };
        for none in [&[][..], &[Software], &[Software, Software, Other], &[Other]] {
            assert_eq!(among(none), AutomaticDevice::Cpu, "{none:?}");
        }
        assert_eq!(among(&[Software, Integrated, Discrete, Discrete]), AutomaticDevice::DiscreteGpu(2));
        assert_eq!(among(&[Virtual, Software, Integrated]), AutomaticDevice::Benchmarked(2));
        assert_eq!(among(&[Software, Virtual]), AutomaticDevice::Benchmarked(1));
        let measured = AutomaticDevice::Benchmarked(3);
        assert_eq!(
            (measured.after_benchmark(10.0, Some(8.9)), measured.after_benchmark(10.0, Some(9.1))),
            (Some(3), None)
        );
        let nothing = [None, Some(0.0), Some(f64::NAN), Some(f64::INFINITY)];
        assert!(nothing.into_iter().all(|ms| measured.after_benchmark(10.0, ms).is_none()));
        assert_eq!(AutomaticDevice::DiscreteGpu(1).after_benchmark(10.0, None), Some(1));
        assert_eq!(AutomaticDevice::Cpu.after_benchmark(10.0, Some(0.1)), None);
    }
}
