//! Which device computes, and how: `--device`, `--simd`, `--threads`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use gausset_compute::VectorLevel;
use gausset_core::engine::Engine;
use gausset_flow::Failure;
use gausset_flow::device::{Device, DeviceOptions, GpuDensity};
use gausset_flow::training::Conditions;
use gausset_train::MemoryLimit;

fn parse_device(text: &str) -> Result<Device, String> {
    match text {
        "auto" => Ok(Device::Auto),
        "cpu" => Ok(Device::Cpu),
        "gpu" => Ok(Device::Gpu),
        // What no adapter is called, and people try.
        "" | "cuda" | "vulkan" | "metal" | "dx12" => {
            Err(format!("expected auto|cpu|gpu, or a part of a GPU's name, found `{text}`"))
        }
        // Arguments live as long as the program.
        name => Ok(Device::Named(name.to_owned().leak())),
    }
}

/// The parser of vector levels, which knows their names.
fn level_parser() -> impl TypedValueParser<Value = VectorLevel> {
    PossibleValuesParser::new(VectorLevel::ALL.map(VectorLevel::name))
        .map(|name| VectorLevel::ALL.into_iter().find(|level| level.name() == name).unwrap_or_default())
}

/// Which device, and how it computes. The result is the same with each of them.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DeviceArgs {
    /// What computes: auto|cpu|gpu|a GPU's name.
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = parse_device, help_heading = "Machine")]
    device: Device,
    /// Vector instructions: auto|avx512|avx2|fallback.
    #[arg(
        long, value_name = "LEVEL", default_value = "auto", value_parser = level_parser(),
        hide_possible_values = true, help_heading = "Machine"
    )]
    simd: VectorLevel,
    /// Memory of a GPU to stay within; auto = 90 % of what is its own.
    #[arg(
        long, value_name = "SIZE", default_value = "auto", value_parser = str::parse::<MemoryLimit>,
        help_heading = "Machine"
    )]
    max_gpu_memory: MemoryLimit,
    /// Where a GPU changes the set of splats: host|device. A way out, and the one to compare with.
    #[arg(
        long, value_name = "WHERE", hide = true,
        value_parser = PossibleValuesParser::new(["host", "device"]).map(|word| match word.as_str() {
            "host" => GpuDensity::Host,
            _ => GpuDensity::Device,
        })
    )]
    gpu_density: Option<GpuDensity>,
}

impl DeviceArgs {
    /// The device.
    pub(crate) const fn options(self) -> DeviceOptions {
        let gpu_memory = match self.max_gpu_memory {
            MemoryLimit::Auto => None,
            MemoryLimit::Bytes(bytes) => Some(bytes),
        };
        DeviceOptions { device: self.device, level: self.simd, gpu_memory, density: self.gpu_density }
    }

    /// How a training is done on it; its time counts from the start of the program.
    pub(crate) fn conditions(self) -> Conditions {
        Conditions { started: *crate::STARTED, ..Conditions::on(self.options()) }
    }

    /// The vector level that was asked for.
    pub(crate) const fn level(self) -> VectorLevel {
        self.simd
    }
}

/// [`DeviceArgs`] with the number of threads, for commands that have no other use for it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ComputeArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Threads; 0 = all processors.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Machine")]
    pub(crate) threads: u32,
}

impl ComputeArgs {
    /// The engine.
    ///
    /// # Errors
    /// This processor lacks the vector level; there is no GPU.
    pub(crate) fn engine(self) -> Result<Box<dyn Engine>, Failure> {
        self.device.options().engine(self.threads as usize)
    }
}
