//! Watches the reports of the device: mean losses for the log, and signs that something goes wrong.

use std::collections::VecDeque;

use gausset_core::engine::StepReport;
use serde::{Deserialize, Serialize};

use crate::warning::RunWarning;

/// Reports whose mean losses make the running median.
const MEDIAN_REPORTS: usize = 101;
/// Reports before a median means something.
const FEWEST_REPORTS: usize = 5;
/// A loss of so many medians …
const EXPLOSION_FACTOR: f64 = 10.0;
/// … for so many steps is an explosion.
const EXPLOSION_STEPS: u64 = 50;

/// How a set of splats has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Changes {
    /// Splats that are new: cloned, split off, grown.
    pub(super) added: u64,
    /// Splats that were removed, or cleared out of free space.
    pub(super) pruned: u64,
    /// Dead splats that were moved to living ones.
    pub(super) relocated: u64,
}

impl Changes {
    /// What a report tells of them.
    pub(super) const fn of(report: &StepReport) -> Self {
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

/// What the reports have added up to.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Sum of the losses since the last line of the log.
    pub(super) loss_sum: f64,
    /// Steps since the last line of the log.
    pub(super) loss_steps: u64,
    /// Updates skipped since the start of the run.
    pub(super) skipped_updates: u64,
    /// Tiles whose list was cut since the start of the run …
    pub(super) cut_tiles: u64,
    /// … and steps with such a tile.
    pub(super) cut_steps: u64,
    /// Splats now.
    pub(super) splats: u64,
    /// Splats drawn in the last step that was told of.
    pub(super) visible: u64,
    /// How the set of splats has changed since the last line of the log.
    pub(super) changes: Changes,
    recent: VecDeque<f64>,
    high_steps: u64,
    told_explosion: bool,
    told_dead: bool,
    told_skipped: bool,
    told_host_rules: bool,
}

impl Watch {
    /// Nothing was reported yet.
    pub(super) fn new(splats: u64) -> Self {
        Self { splats, ..Self::default() }
    }

    /// Takes in a report after `step` finished steps.
    pub(super) fn take_in(&mut self, step: u64, report: &StepReport, warn: &mut dyn FnMut(RunWarning)) {
        self.loss_sum += report.loss_sum;
        self.loss_steps += report.steps;
        self.skipped_updates += report.skipped_updates;
        self.cut_tiles = self.cut_tiles.saturating_add(report.cap_hits);
        self.cut_steps = self.cut_steps.saturating_add(report.capped_steps);
        self.splats = report.splats;
        self.visible = report.visible;
        self.changes.add(Changes::of(report));
        if report.dead_splats > 0 && !self.told_dead {
            self.told_dead = true;
            warn(RunWarning::DeadSplats { step, count: report.dead_splats });
        }
        if self.skipped_updates > 0 && !self.told_skipped {
            self.told_skipped = true;
            warn(RunWarning::SkippedUpdates { step, count: self.skipped_updates });
        }
        if report.host_rules > 0 && !self.told_host_rules {
            self.told_host_rules = true;
            warn(RunWarning::HostRules { step, count: report.splats });
        }
        if report.steps > 0 {
            self.watch_loss(step, report.loss_sum / report.steps as f64, report.steps, warn);
        }
    }

    /// What is said at the end of a run of so many steps about lists that a limit has cut.
    pub(super) fn cut_lists(&self, limit: u32, steps: u64) -> Option<RunWarning> {
        let (tiles, cut_steps) = (self.cut_tiles, self.cut_steps);
        (tiles > 0).then_some(RunWarning::CutLists { limit, tiles, cut_steps, steps })
    }

    /// Warns once when the loss stays far above its running median.
    fn watch_loss(&mut self, step: u64, loss: f64, steps: u64, warn: &mut dyn FnMut(RunWarning)) {
        let mut sorted: Vec<f64> = self.recent.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY);
        if sorted.len() < FEWEST_REPORTS || loss <= EXPLOSION_FACTOR * median {
            self.high_steps = 0;
            self.recent.push_back(loss);
            if self.recent.len() > MEDIAN_REPORTS {
                self.recent.pop_front();
            }
            return;
        }
        self.high_steps += steps;
        if self.high_steps >= EXPLOSION_STEPS && !self.told_explosion {
            self.told_explosion = true;
            let factor = EXPLOSION_FACTOR;
            warn(RunWarning::LossExplosion { step, loss, median, factor, steps: self.high_steps });
        }
    }

    /// The mean loss since the last line of the log, which begins anew.
    pub(super) fn take_mean_loss(&mut self) -> Option<f64> {
        let mean = (self.loss_steps > 0).then(|| self.loss_sum / self.loss_steps as f64);
        (self.loss_sum, self.loss_steps) = (0.0, 0);
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(watch: &mut Watch, losses: &[f64]) -> Vec<String> {
        let mut lines = Vec::new();
        for (i, &loss) in losses.iter().enumerate() {
            let report = StepReport { steps: 10, loss_sum: 10.0 * loss, splats: 3, ..StepReport::default() };
            watch.take_in(10 * (i as u64 + 1), &report, &mut |warning| lines.push(warning.to_string()));
        }
        lines
    }

    #[test]
    fn a_loss_that_explodes_and_stays_is_told_once() {
        let mut losses = vec![0.1; 20];
        losses.extend([2.0; 20]);
        let lines = feed(&mut Watch::default(), &losses);
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
        assert!(feed(&mut Watch::default(), &losses).is_empty());
    }

    #[test]
    fn rules_that_the_processor_takes_over_are_told_once() {
        let (mut watch, mut lines) = (Watch::default(), Vec::new());
        for (step, host_rules) in [(10, 0), (20, 1), (30, 1)] {
            let report = StepReport { splats: 3_000_000, host_rules, ..StepReport::default() };
            watch.take_in(step, &report, &mut |warning| lines.push(warning.to_string()));
        }
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("step 20: 3000000 splats are more than one binding"), "{}", lines[0]);
    }

    #[test]
    fn the_mean_loss_is_that_of_all_steps_since_the_last_line() {
        let mut watch = Watch::default();
        feed(&mut watch, &[0.1, 0.3]);
        assert!((watch.take_mean_loss().unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(watch.take_mean_loss(), None);
    }
}
