//! Arguments that select the compute device: `--device`, `--simd`, `--threads`.

use std::ffi::OsStr;

use clap::Args;
use clap::builder::{
    PossibleValue, PossibleValuesParser, RangedI64ValueParser, StringValueParser, TypedValueParser,
};
use gausset::Failure;
use gausset::device::{Device, DeviceOptions};
use gausset::training::RunSettings;
use gausset_compute::SimdLevel;
use gausset_core::engine::Engine;
use gausset_field::Compute;
use gausset_train::MemoryLimit;

/// The parser of devices. Its possible values are for completion scripts; any part of a GPU's name is accepted, too.
#[derive(Clone, Copy, Debug)]
struct DeviceParser;

impl TypedValueParser for DeviceParser {
    type Value = Device;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Device, clap::Error> {
        StringValueParser::new().try_map(|text| parse_device(&text)).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["auto", "cpu", "gpu"].into_iter().map(PossibleValue::new)))
    }
}

fn parse_device(text: &str) -> Result<Device, String> {
    match text {
        "auto" => Ok(Device::Auto),
        "cpu" => Ok(Device::Cpu),
        "gpu" => Ok(Device::Gpu),
        // No adapter has such a name, but users try them.
        "" | "cuda" | "vulkan" | "metal" | "dx12" => {
            Err(format!("expected auto|cpu|gpu, or a part of a GPU's name, found `{text}`"))
        }
        // Leaked: arguments live as long as the program.
        name => Ok(Device::Named(name.to_owned().leak())),
    }
}

/// A parser for the names of SIMD levels.
pub(crate) fn level_parser() -> impl TypedValueParser<Value = SimdLevel> {
    PossibleValuesParser::new(SimdLevel::ALL.map(SimdLevel::level_name))
        .map(|name| SimdLevel::ALL.into_iter().find(|level| level.level_name() == name).unwrap_or_default())
}

/// The compute device and its limits. The result does not depend on the SIMD level.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DeviceArgs {
    /// Compute device: auto, cpu, gpu, or part of a GPU's name.
    #[arg(
        long, value_name = "DEVICE", default_value = "auto", value_parser = DeviceParser,
        hide_possible_values = true, help_heading = "Machine"
    )]
    device: Device,
    /// SIMD instruction set: auto|avx512|avx2|fallback.
    #[arg(
        long, value_name = "LEVEL", default_value = "auto", value_parser = level_parser(),
        hide_possible_values = true, help_heading = "Machine"
    )]
    simd: SimdLevel,
    /// GPU memory limit (such as 4GiB); auto = 90 % of the GPU's own memory.
    #[arg(
        long, value_name = "SIZE", default_value = "auto", value_parser = str::parse::<MemoryLimit>,
        help_heading = "Machine"
    )]
    max_gpu_memory: MemoryLimit,
}

impl DeviceArgs {
    /// The options that select the device.
    pub(crate) const fn options(self) -> DeviceOptions {
        let gpu_memory = match self.max_gpu_memory {
            MemoryLimit::Auto => None,
            MemoryLimit::Bytes(bytes) => Some(bytes),
        };
        DeviceOptions { device: self.device, level: self.simd, gpu_memory }
    }

    /// Training conditions on this device. Time counts from the start of the program.
    pub(crate) fn conditions(self) -> RunSettings {
        RunSettings { started: *crate::STARTED, ..RunSettings::for_device(self.options()) }
    }
}

/// The largest number of threads, as for a training.
const MAX_THREADS: i64 = 1024;

/// A parser for numbers of threads.
pub(crate) fn threads_parser() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=MAX_THREADS)
}

/// SIMD level and number of threads, for commands that compute on the CPU only. The result does not depend on them.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct MachineArgs {
    /// SIMD instruction set: auto|avx512|avx2|fallback.
    #[arg(
        long, value_name = "LEVEL", default_value = "auto", value_parser = level_parser(),
        hide_possible_values = true, help_heading = "Machine"
    )]
    pub(crate) simd: SimdLevel,
    /// Number of threads; 0 = all CPU cores.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads_parser(), help_heading = "Machine")]
    pub(crate) threads: u32,
}

impl MachineArgs {
    /// The pool and the SIMD level for fields.
    ///
    /// # Errors
    /// The CPU does not support the SIMD level.
    pub(crate) fn compute(self) -> Result<Compute, Failure> {
        gausset::fields::compute(self.threads, self.simd)
    }
}

/// [`DeviceArgs`] with the number of threads, for commands in which it is no training option.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ComputeArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Number of threads; 0 = all CPU cores.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads_parser(), help_heading = "Machine")]
    pub(crate) threads: u32,
}

impl ComputeArgs {
    /// Creates the engine of the selected device.
    ///
    /// # Errors
    /// The CPU does not support the SIMD level, or there is no GPU.
    pub(crate) fn engine(self) -> Result<Box<dyn Engine>, Failure> {
        self.device.options().engine(self.threads as usize)
    }
}
