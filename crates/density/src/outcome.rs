//! Counters of a density rule.

use gausset_core::engine::StepReport;

/// Number of splats that a density rule changed, by kind of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DensityOutcome {
    /// Splats to which a copy was added (classic).
    pub cloned: u64,
    /// Splats replaced by two smaller ones (classic).
    pub split: u64,
    /// Splats removed for opacity, scale or screen radius (classic).
    pub pruned: u64,
    /// Dead splats relocated to living ones (MCMC).
    pub relocated: u64,
    /// Splats added by growth (MCMC).
    pub added: u64,
    /// Splats removed because a parameter was not finite.
    pub non_finite: u64,
}

impl DensityOutcome {
    /// Adds these counters to the report of an engine.
    pub fn add_to(&self, report: &mut StepReport) {
        report.cloned += self.cloned;
        report.split += self.split;
        report.pruned += self.pruned + self.non_finite;
        report.relocated += self.relocated;
        report.added += self.added;
    }
}
