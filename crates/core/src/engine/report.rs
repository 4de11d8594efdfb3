//! What an engine says about itself and about the steps that it has done.

/// What happened since the last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Steps executed.
    pub steps: u64,
    /// Sum of their losses (picture loss only, without regularisation).
    pub loss_sum: f64,
    /// Loss of the last of them.
    pub last_loss: f64,
    /// Splats now.
    pub splats: u64,
    /// Splats drawn in the last step.
    pub visible: u64,
    /// Entries of all tile lists in the last step.
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
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// For people: `CPU, 2 threads, AVX-512`.
    pub name: String,
    /// Kind, for `config.toml`: `cpu`.
    pub kind: String,
    /// Threads used, if that means something.
    pub threads: usize,
    /// Whether the same inputs give the same bytes whatever the threads and the vector level.
    pub deterministic: bool,
}
