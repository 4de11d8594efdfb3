//! What an engine says about itself and about the steps that it has done.

use serde::Serialize;

/// What happened since the last report ([`Engine::flush`](super::Engine::flush), [`Engine::poll`](super::Engine::poll)).
///
/// Sums and counts start again after each report; what describes the last step or the splats now does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StepReport {
    /// Steps executed.
    pub steps: u64,
    /// Sum of their losses (picture loss only, without regularisation).
    pub loss_sum: f64,
    /// Number of the last step that was executed ([`StepParams::step`](super::StepParams)), since a state was loaded.
    pub last_step: Option<u64>,
    /// Loss of that step.
    pub last_loss: f64,
    /// Splats now.
    pub splats: u64,
    /// Splats drawn in that step.
    pub visible: u64,
    /// Entries of all its tile lists.
    pub intersections: u64,
    /// Tiles whose list was cut by `max_splats_per_tile`, over all steps.
    pub cap_hits: u64,
    /// Steps with such a tile.
    pub capped_steps: u64,
    /// Updates skipped because a gradient was not finite.
    pub skipped_updates: u64,
    /// Splats that are dead because a parameter is not finite, now.
    pub dead_splats: u64,
    /// Splats cloned.
    pub cloned: u64,
    /// Splats split in two.
    pub split: u64,
    /// Splats removed.
    pub pruned: u64,
    /// Dead splats moved to living ones.
    pub relocated: u64,
    /// Splats cleared out of free space ([`DensityRule::FreeSpace`](super::DensityRule::FreeSpace)).
    pub cleared: u64,
    /// Splats added by growth ([`DensityRule::Mcmc`](super::DensityRule::Mcmc)).
    pub added: u64,
    /// Density rules that the processor applied because the device holds the splats in a way that its own do not work on.
    pub host_rules: u64,
}

impl StepReport {
    /// Hands over what is to be told, of so many splats: sums and counts start again, what describes the last step stays.
    #[must_use]
    pub fn take(&mut self, splats: usize) -> Self {
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

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// For people: `CPU, 2 threads, AVX-512`.
    pub name: String,
    /// Kind, for `config.toml`: `cpu`.
    pub kind: String,
    /// Threads used, if that means something.
    pub threads: usize,
    /// Stable name of the vector level that kernels run at: `avx512`, `avx2`, `fallback`; empty if that means nothing.
    pub level: String,
    /// Whether the same inputs give the same bytes whatever the threads and the vector level.
    pub deterministic: bool,
}

/// How large a scene is, for a prediction of what it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SceneSize {
    /// Splats of the state.
    pub splats: u64,
    /// Degree of their stored SH coefficients.
    pub sh_degree: u8,
    /// Pixels of the largest picture.
    pub pixels: u64,
}

/// Bytes in one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// Parameters, moments, clocks and statistics of the splats.
    pub state: u64,
    /// Buffers of a step. What a view takes in lists is an estimate: it follows from the splats that are seen.
    pub working: u64,
}

impl MemoryUse {
    /// Both together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.state + self.working
    }
}

/// What training takes. Each part grows evenly with the number of splats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryNeed {
    /// In the memory of the machine.
    pub host: MemoryUse,
    /// In memory of the device's own; nothing where it has none.
    pub device: MemoryUse,
    /// Bytes of the device's own memory that may be used; `None` where it has none.
    pub limit: Option<u64>,
}
