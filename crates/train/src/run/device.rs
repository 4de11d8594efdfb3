//! The device of a run: its engine, its memory, what it reports (mean losses for the log, signs of trouble), its errors.

use std::collections::VecDeque;
use std::slice::from_ref;
use std::time::Instant;

use gausset_core::Splats;
use gausset_core::engine::{
    CorrectionGroup, DeviceInfo, Engine, EngineError, RenderOptions, StepParams, StepReport, TrainState,
    TrainView,
};
use gausset_io::dataset::Dataset;
use gausset_io::text;
use serde::{Deserialize, Serialize};

use super::TrainError;
use crate::config::TrainConfig;
use crate::memory::MemoryPlan;
use crate::warning::RunWarning;

/// Training views on which the duration of a run is predicted.
pub(super) const TIMED_VIEWS: usize = 4;
/// Minimum number of steps that are timed together.
const MIN_TIMED_STEPS: usize = TIMED_VIEWS - 1;
/// Minimum seconds of timing, because a device with several steps in flight needs many to show its speed.
const MIN_TIMED_SECONDS: f64 = 0.05;
/// Maximum number of steps that are timed together.
const MAX_TIMED_STEPS: usize = 32;
/// Reports in the running median of mean losses.
const MEDIAN_REPORTS: usize = 101;
/// Minimum number of reports for a median.
const MIN_MEDIAN_REPORTS: usize = 5;
/// Loss, in medians, that counts as an explosion if it lasts for [`EXPLOSION_STEPS`].
const EXPLOSION_FACTOR: f64 = 10.0;
/// Steps that a high loss must last.
const EXPLOSION_STEPS: u64 = 50;

/// What takes a part of the memory besides the training.
#[derive(Clone, Copy, Debug)]
pub(super) struct BesideTraining {
    pub(super) has_viewer: bool,
    pub(super) has_evaluation: bool,
}

/// The device that trains, and what is known of it.
pub(super) struct Device {
    engine: Box<dyn Engine>,
    beside: BesideTraining,
    memory: MemoryPlan,
    monitor: ReportMonitor,
    /// Number of splats without the sky, once the engine holds the splats of `splats.ply`; the splats after them are
    /// the sky.
    exported_splats: Option<u32>,
}

impl Device {
    /// A device for a run of this configuration that starts with `splats` splats, not loaded yet. Returns an error if
    /// memory does not suffice.
    pub(super) fn new(
        engine: Box<dyn Engine>,
        beside: BesideTraining,
        config: &TrainConfig,
        dataset: &Dataset,
        splats: u64,
    ) -> Result<Self, TrainError> {
        let memory = plan_memory(config, dataset, &*engine, beside, splats)?;
        Ok(Self { engine, beside, memory, monitor: ReportMonitor::default(), exported_splats: None })
    }

    /// A device that only renders `splats` splats, for the end of a run that is trained in blocks. Returns an error if
    /// memory does not suffice.
    pub(super) fn for_rendering(
        engine: Box<dyn Engine>,
        has_viewer: bool,
        config: &TrainConfig,
        dataset: &Dataset,
        splats: u64,
    ) -> Result<Self, TrainError> {
        let limit = config.max_memory_bytes();
        let plan = MemoryPlan::predict_rendering(&config.recipe, dataset, splats, limit, &*engine);
        let beside = BesideTraining { has_viewer, has_evaluation: true };
        let memory = fitting_plan(plan, beside, dataset, splats)?;
        Ok(Self { engine, beside, memory, monitor: ReportMonitor::new(splats), exported_splats: None })
    }

    /// Loads the state with which the run begins or resumes; `monitor` holds the sums of its earlier reports. Returns an
    /// error if the engine cannot hold the state.
    pub(super) fn load(&mut self, state: TrainState, monitor: ReportMonitor) -> Result<(), EngineError> {
        self.monitor = monitor;
        self.engine.limit_memory(self.memory.device_bytes());
        self.engine.load(state)
    }

    /// Plans the memory again, for a changed configuration or number of splats. Returns an error if it does not suffice.
    pub(super) fn replan_memory(
        &mut self,
        config: &TrainConfig,
        dataset: &Dataset,
        splats: u64,
    ) -> Result<(), TrainError> {
        self.memory = plan_memory(config, dataset, &*self.engine, self.beside, splats)?;
        self.engine.limit_memory(self.memory.device_bytes());
        Ok(())
    }

    /// The engine.
    pub(super) fn engine(&mut self) -> &mut dyn Engine {
        &mut *self.engine
    }

    /// Facts about the device.
    pub(super) fn describe(&self) -> DeviceInfo {
        self.engine.describe()
    }

    /// The memory of the run.
    pub(super) fn memory(&self) -> &MemoryPlan {
        &self.memory
    }

    /// Sums over the reports so far.
    pub(super) fn monitor(&self) -> &ReportMonitor {
        &self.monitor
    }

    /// Mean loss and changes to the set of splats since the last call; `None` if no step was reported.
    pub(super) fn take_sums(&mut self) -> Option<(f64, SetChanges)> {
        let loss = self.monitor.take_mean_loss()?;
        Some((loss, std::mem::take(&mut self.monitor.changes)))
    }

    /// Takes the report of the steps since the last one: of all steps, or of those that are finished. Adds it to the
    /// sums after `step` finished steps, and warns of problems. Returns an error if a step has failed.
    pub(super) fn take_report(
        &mut self,
        wait: Wait,
        step: u64,
        warn: &mut dyn FnMut(RunWarning),
    ) -> Result<StepReport, EngineError> {
        let report = match wait {
            Wait::AllSteps => self.engine.flush()?,
            Wait::No => self.engine.poll()?,
        };
        self.monitor.add_report(step, &report, warn);
        Ok(report)
    }

    /// Seconds per step, from a few steps on `views` that leave no trace: the state is read back before them and
    /// restored after them. `None` if they fail, because they will fail again in training.
    ///
    /// # Errors
    /// A view does not fit into memory; the state cannot be read back or restored.
    pub(super) fn time_steps(
        &mut self,
        views: &[TrainView],
        params: &StepParams,
        last_checkpoint: Option<u64>,
    ) -> Result<Option<f64>, TrainError> {
        let state = self.engine.save()?;
        match measure_step_seconds(&mut *self.engine, views, params) {
            Err(error @ EngineError::OutOfMemory { .. }) => Err(self.error(error, last_checkpoint)),
            outcome => {
                self.engine.load(state)?;
                Ok(outcome.ok().flatten())
            }
        }
    }

    /// Replaces the state with the splats of `splats.ply`: those of the scene, then those of the sky. No step may
    /// follow.
    pub(super) fn load_exported(
        &mut self,
        splats: Splats,
        corrections: Vec<CorrectionGroup>,
        sky: usize,
    ) -> Result<(), EngineError> {
        let scene = (splats.len() - sky) as u32;
        self.engine.limit_memory(self.memory.device_bytes());
        self.engine.load_splats(splats, corrections)?;
        self.exported_splats = Some(scene);
        Ok(())
    }

    /// Number of splats without the sky, once the device holds the splats of `splats.ply`.
    pub(super) fn exported_splats(&self) -> Option<u32> {
        self.exported_splats
    }

    /// Options of a render of what the device holds: a sky that was converted to splats must not be drawn a second
    /// time.
    pub(super) fn render_options(&self, options: RenderOptions) -> RenderOptions {
        RenderOptions { sky: options.sky && self.exported_splats.is_none(), ..options }
    }

    /// An error of the engine as an error of the run, with the step of the last checkpoint.
    pub(super) fn error(&self, source: EngineError, checkpoint: Option<u64>) -> TrainError {
        match source {
            EngineError::NonFiniteLoss { .. } => TrainError::NonFiniteLoss { source, checkpoint },
            source if source.is_device_failure() => TrainError::Device { source, checkpoint },
            EngineError::OutOfMemory { .. } => {
                TrainError::View { setting: self.memory.setting_for(&source), source }
            }
            other => other.into(),
        }
    }
}

/// What a report waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// All steps so far.
    AllSteps,
    /// Nothing: the report is of the steps that are finished.
    No,
}

/// Predicts the memory of a run and returns an error if it does not fit.
fn plan_memory(
    config: &TrainConfig,
    dataset: &Dataset,
    engine: &dyn Engine,
    beside: BesideTraining,
    splats: u64,
) -> Result<MemoryPlan, TrainError> {
    let plan = MemoryPlan::predict(&config.recipe, dataset, splats, config.max_memory_bytes(), engine);
    fitting_plan(plan, beside, dataset, splats)
}

/// The plan with what is beside the training. Returns an error if it does not fit.
fn fitting_plan(
    plan: MemoryPlan,
    BesideTraining { has_viewer, has_evaluation }: BesideTraining,
    dataset: &Dataset,
    splats: u64,
) -> Result<MemoryPlan, TrainError> {
    let plan = if has_evaluation { plan } else { plan.without_evaluation() };
    let plan = if has_viewer { plan.with_viewer(dataset) } else { plan };
    if plan.fits() {
        return Ok(plan);
    }
    let [needed, limit] = plan.shortage();
    Err(TrainError::Memory {
        setting: plan.setting(),
        needed: text::format_bytes(needed),
        splats: plan.splat_count,
        limit: text::format_bytes(limit),
        advice: plan.advice(dataset, splats),
    })
}

/// Seconds per step on `views`, which are repeated, with a single wait after all steps; `None` if there are no views.
///
/// # Errors
/// Errors of the device.
pub(super) fn measure_step_seconds(
    engine: &mut dyn Engine,
    views: &[TrainView],
    params: &StepParams,
) -> Result<Option<f64>, EngineError> {
    let Some(first) = views.first() else { return Ok(None) };
    // The first step allocates buffers and is not timed.
    engine.step(from_ref(first), &[], params)?;
    engine.flush()?;
    let (started, mut steps) = (Instant::now(), 0);
    for view in views.iter().cycle().skip(1).take(MAX_TIMED_STEPS) {
        if steps >= MIN_TIMED_STEPS && started.elapsed().as_secs_f64() >= MIN_TIMED_SECONDS {
            break;
        }
        engine.step(from_ref(view), &[], params)?;
        steps += 1;
    }
    engine.flush()?;
    Ok(Some(started.elapsed().as_secs_f64() / steps as f64))
}

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
    fn add_report(&mut self, step: u64, report: &StepReport, warn: &mut dyn FnMut(RunWarning)) {
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
    fn take_mean_loss(&mut self) -> Option<f64> {
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
