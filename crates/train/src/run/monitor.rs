//! Watches the reports of the device: mean losses for the log, and signs of trouble.

use std::collections::VecDeque;

use gausset_core::engine::StepReport;
use serde::{Deserialize, Serialize};

use crate::warning::RunWarning;

/// Reports in the running median of mean losses.
const MEDIAN_REPORTS: usize = 101;
/// Minimum number of reports for a median.
const MIN_MEDIAN_REPORTS: usize = 5;
/// Loss, in medians, that counts as an explosion if it lasts for [`EXPLOSION_STEPS`].
const EXPLOSION_FACTOR: f64 = 10.0;
/// Steps that a high loss must last.
const EXPLOSION_STEPS: u64 = 50;

/// Changes to a set of splats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SetChanges {
    /// New splats: cloned, split or grown.
    pub(super) added: u64,
    /// Splats that were removed, or cleared out of free space.
    pub(super) pruned: u64,
    /// Dead splats that were relocated to living ones.
    pub(super) relocated: u64,
}

impl SetChanges {
    /// The changes in a report.
    pub(super) const fn from_report(report: &StepReport) -> Self {
        let StepReport { cloned, split, added, pruned, cleared, relocated, .. } = *report;
        Self { added: cloned + split + added, pruned: pruned + cleared, relocated }
    }

    /// Whether nothing has changed.
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, more: Self) {
        self.added += more.added;
        self.pruned += more.pruned;
        self.relocated += more.relocated;
    }
}

/// Sums over the reports.
#[derive(Debug, Default)]
pub(super) struct ReportMonitor {
    /// Sum of the losses since the last line of the log.
    pub(super) loss_sum: f64,
    /// Steps since the last line of the log.
    pub(super) loss_steps: u64,
    /// Updates skipped since the start of the run.
    pub(super) skipped_updates: u64,
    /// Tiles whose splat list was truncated since the start of the run.
    pub(super) cut_tiles: u64,
    /// Steps with such a tile since the start of the run.
    pub(super) cut_steps: u64,
    /// Current number of splats.
    pub(super) splats: u64,
    /// Splats drawn in the last reported step.
    pub(super) visible: u64,
    /// Changes to the set of splats since the last line of the log.
    pub(super) changes: SetChanges,
    recent: VecDeque<f64>,
    high_steps: u64,
    warned_explosion: bool,
    warned_dead: bool,
    warned_skipped: bool,
    warned_host_rules: bool,
}

impl ReportMonitor {
    /// A watch before the first report.
    pub(super) fn new(splats: u64) -> Self {
        Self { splats, ..Self::default() }
    }

    /// Adds a report after `step` finished steps, and warns of problems.
    pub(super) fn add_report(&mut self, step: u64, report: &StepReport, warn: &mut dyn FnMut(RunWarning)) {
        self.loss_sum += report.loss_sum;
        self.loss_steps += report.steps;
        self.skipped_updates += report.skipped_updates;
        self.cut_tiles = self.cut_tiles.saturating_add(report.cap_hits);
        self.cut_steps = self.cut_steps.saturating_add(report.capped_steps);
        self.splats = report.splats;
        self.visible = report.visible;
        self.changes.add(SetChanges::from_report(report));
        if report.dead_splats > 0 && !self.warned_dead {
            self.warned_dead = true;
            warn(RunWarning::DeadSplats { step, count: report.dead_splats });
        }
        if self.skipped_updates > 0 && !self.warned_skipped {
            self.warned_skipped = true;
            warn(RunWarning::SkippedUpdates { step, count: self.skipped_updates });
        }
        if report.host_rules > 0 && !self.warned_host_rules {
            self.warned_host_rules = true;
            warn(RunWarning::HostDensityControl { step, count: report.splats });
        }
        if report.steps > 0 {
            self.watch_loss(step, report.loss_sum / report.steps as f64, report.steps, warn);
        }
    }

    /// Warning at the end of a run of `steps` steps if a limit has truncated tile lists.
    pub(super) fn truncation_warning(&self, limit: u32, steps: u64) -> Option<RunWarning> {
        let (tiles, cut_steps) = (self.cut_tiles, self.cut_steps);
        (tiles > 0).then_some(RunWarning::TruncatedLists { limit, tiles, cut_steps, steps })
    }

    /// Warns once when the loss stays far above its running median.
    fn watch_loss(&mut self, step: u64, loss: f64, steps: u64, warn: &mut dyn FnMut(RunWarning)) {
        let mut sorted: Vec<f64> = self.recent.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY);
        if sorted.len() < MIN_MEDIAN_REPORTS || loss <= EXPLOSION_FACTOR * median {
            self.high_steps = 0;
            self.recent.push_back(loss);
            if self.recent.len() > MEDIAN_REPORTS {
                self.recent.pop_front();
            }
            return;
        }
        self.high_steps += steps;
        if self.high_steps >= EXPLOSION_STEPS && !self.warned_explosion {
            self.warned_explosion = true;
            let factor = EXPLOSION_FACTOR;
            warn(RunWarning::LossExplosion { step, loss, median, factor, steps: self.high_steps });
        }
    }

    /// The mean loss since the last line of the log; resets the sum.
    pub(super) fn take_mean_loss(&mut self) -> Option<f64> {
        let mean = (self.loss_steps > 0).then(|| self.loss_sum / self.loss_steps as f64);
        (self.loss_sum, self.loss_steps) = (0.0, 0);
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(watch: &mut ReportMonitor, losses: &[f64]) -> Vec<String> {
        let mut lines = Vec::new();
        for (i, &loss) in losses.iter().enumerate() {
            let report = StepReport { steps: 10, loss_sum: 10.0 * loss, splats: 3, ..StepReport::default() };
            watch.add_report(10 * (i as u64 + 1), &report, &mut |warning| lines.push(warning.to_string()));
        }
        lines
    }

    #[test]
    fn a_loss_that_explodes_and_stays_is_told_once() {
        let mut losses = vec![0.1; 20];
        losses.extend([2.0; 20]);
        let lines = feed(&mut ReportMonitor::default(), &losses);
        assert_eq!(
            lines,
            [
                "step 250: loss is 2.0000, more than 10 times the median of 0.1000 for 50 steps; the rates may be too high"
            ]
        );
    }

    #[test]
    fn a_loss_that_jumps_and_comes_back_is_not_told() {
        let mut losses = vec![0.1; 20];
        losses.extend([2.0, 2.0, 2.0, 2.0, 0.1]);
        losses.extend([2.0, 2.0, 2.0, 2.0, 0.1]);
        assert!(feed(&mut ReportMonitor::default(), &losses).is_empty());
    }

    #[test]
    fn rules_that_the_processor_takes_over_are_told_once() {
        let (mut watch, mut lines) = (ReportMonitor::default(), Vec::new());
        for (step, host_rules) in [(10, 0), (20, 1), (30, 1)] {
            let report = StepReport { splats: 3_000_000, host_rules, ..StepReport::default() };
            watch.add_report(step, &report, &mut |warning| lines.push(warning.to_string()));
        }
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("step 20: 3000000 splats exceed one binding"), "{}", lines[0]);
    }

    #[test]
    fn the_mean_loss_is_that_of_all_steps_since_the_last_line() {
        let mut watch = ReportMonitor::default();
        feed(&mut watch, &[0.1, 0.3]);
        assert!((watch.take_mean_loss().unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(watch.take_mean_loss(), None);
    }
}
