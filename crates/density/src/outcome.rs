//! What a rule reports.

/// What a density rule did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DensityOutcome {
    /// Splats to which a copy was added (classic).
    pub cloned: u64,
    /// Splats replaced by two smaller ones (classic).
    pub split: u64,
    /// Splats removed for opacity, scale or screen radius (classic).
    pub pruned: u64,
    /// Dead splats moved to living ones (MCMC).
    pub relocated: u64,
    /// Splats added by growth (MCMC).
    pub added: u64,
    /// Splats removed because a parameter was not finite.
    pub non_finite: u64,
}
