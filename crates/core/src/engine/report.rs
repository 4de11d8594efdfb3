//! What an engine reports about itself and about its finished steps.

use serde::Serialize;

/// What happened since the last report ([`Engine::flush`](super::Engine::flush), [`Engine::poll`](super::Engine::poll)).
///
/// Sums and counts restart after each report; fields that describe the last step or the current splats do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StepReport {
    /// Number of steps executed.
    pub steps: u64,
    /// Sum of their losses (image loss only, without regularisation).
    pub loss_sum: f64,
    /// Number of the last step that was executed ([`StepParams::step`](super::StepParams)), since a state was loaded.
    pub last_step: Option<u64>,
    /// Loss of that step.
    pub last_loss: f64,
    /// Current number of splats.
    pub splats: u64,
    /// Splats visible in that step.
    pub visible: u64,
    /// Entries of all its tile lists.
    pub intersections: u64,
    /// Tiles whose list was cut by `max_splats_per_tile`, over all steps.
    pub cap_hits: u64,
    /// Steps with such a tile.
    pub capped_steps: u64,
    /// Updates skipped because a gradient was not finite.
    pub skipped_updates: u64,
    /// Current number of splats that are dead because a parameter is not finite.
    pub dead_splats: u64,
    /// Splats to which a copy was added ([`DensityRule::Classic`](super::DensityRule::Classic)).
    pub cloned: u64,
    /// Splats split in two.
    pub split: u64,
    /// Splats removed by pruning, or because a parameter was not finite.
    pub pruned: u64,
    /// Dead splats moved to living ones.
    pub relocated: u64,
    /// Splats made transparent in free space ([`DensityRule::FreeSpace`](super::DensityRule::FreeSpace)).
    pub cleared: u64,
    /// Splats added by growth ([`DensityRule::Mcmc`](super::DensityRule::Mcmc)).
    pub added: u64,
    /// Density rules that ran on the CPU, because the device's own rules do not support how it currently holds the
    /// splats.
    pub host_rules: u64,
}

impl StepReport {
    /// Takes the report out, with `splats` as the current number: sums and counts restart, fields about the last step
    /// stay.
    #[must_use]
    pub fn take_report(&mut self, splats: usize) -> Self {
        let report = Self { splats: splats as u64, ..*self };
        *self = Self {
            last_step: report.last_step,
            last_loss: report.last_loss,
            visible: report.visible,
            intersections: report.intersections,
            dead_splats: report.dead_splats,
            ..Self::default()
        };
        report
    }
}

/// Description of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// For messages: `CPU, 2 threads, AVX-512`.
    pub name: String,
    /// Kind, for `config.toml`: `cpu`.
    pub kind: String,
    /// Number of CPU threads used, if that applies to the device.
    pub threads: usize,
    /// Stable name of the SIMD level of the kernels: `avx512`, `avx2`, `fallback`; empty if it does not apply.
    pub level: String,
}

/// Size of a scene, for memory estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SceneSize {
    /// Splats of the state.
    pub splats: u64,
    /// Degree of their stored SH coefficients.
    pub sh_degree: u8,
    /// Pixels of the largest image.
    pub pixels: u64,
}

/// Bytes used in one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryBytes {
    /// Parameters, moments, clocks and statistics of the splats.
    pub state: u64,
    /// Buffers of a step. The part for a view's tile lists is an estimate: it depends on the visible splats.
    pub working: u64,
}

impl MemoryBytes {
    /// Sum of both.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.state + self.working
    }
}

/// Memory that training needs. Each part grows linearly with the number of splats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryEstimate {
    /// In host memory.
    pub host: MemoryBytes,
    /// In the device's own memory; zero if it has none.
    pub device: MemoryBytes,
    /// Bytes of the device's own memory that may be used; `None` if it has none.
    pub limit: Option<u64>,
}
