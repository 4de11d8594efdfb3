//! The tasks in flight: steps and density rules, as the protocol sees them.

use gausset_core::engine::{EngineError, StepReport, TrainView};

use crate::device::{DeviceMemory, ImageKey, Upload};
use crate::in_flight::{Status, UnitQueue};
use crate::layout::Buffer;
use crate::record::{Job, Rule, flag, halt, status};
use crate::schedule::Unit;
use crate::state::HostState;
use crate::unit::{self, LossScale};

/// A step, with everything needed to submit it again.
#[derive(Debug)]
pub(crate) struct StepTask {
    pub(crate) view: TrainView,
    pub(crate) step: u64,
    pub(crate) job: Job,
    pub(crate) unit: Unit,
    pub(crate) scale: LossScale,
}

impl StepTask {
    /// The key of its image.
    fn image_key(&self) -> Option<ImageKey> {
        Some((self.view.index, self.view.downscale))
    }
}

/// A density rule, or a part of one.
#[derive(Debug)]
pub(crate) struct RuleTask {
    pub(crate) job: Job,
    pub(crate) rule: Rule,
    pub(crate) unit: Unit,
    /// Upload of a free-space rule.
    pub(crate) words: Vec<u32>,
}

/// A task in flight.
#[derive(Debug)]
pub(crate) enum Task {
    /// A step.
    Step(Box<StepTask>),
    /// A density rule.
    Rule(Box<RuleTask>),
    /// A view of a free-space rule that follows later.
    Rays(Box<RuleTask>),
}

/// The parts of the engine that tasks in flight use.
pub(crate) struct Tasks<'a> {
    pub(crate) memory: &'a mut DeviceMemory,
    pub(crate) state: &'a mut HostState,
    pub(crate) report: &'a mut StepReport,
}

impl UnitQueue for Tasks<'_> {
    type Unit = Task;

    fn submit(&mut self, task: &Task, number: u32, lifts: bool) -> Result<(), EngineError> {
        let lifted = if lifts { flag::LIFTS } else { 0 };
        let unit = number;
        let step = match task {
            Task::Step(step) => step,
            Task::Rule(ruled) | Task::Rays(ruled) => {
                let RuleTask { job, rule, unit: dispatches, words } = &**ruled;
                let job = Job { unit, flags: job.flags | lifted, splats: self.state.splats as u32, ..*job };
                let upload = Upload {
                    to: Buffer::FreeSpace,
                    name: None,
                    bytes: 4 * words.len() as u64,
                    words: &|all| all.extend_from_slice(words),
                };
                let upload = (!words.is_empty()).then_some(&upload);
                return self.memory.submit(&job, Some(rule), upload, dispatches);
            }
        };
        // The host's last known number, for profiles; the device may be ahead.
        let splats = self.state.splats as u32;
        let job = Job { unit, splats, flags: step.job.flags | lifted, ..step.job };
        let target = &step.view.target;
        let picture = Upload {
            to: Buffer::Picture,
            name: step.image_key(),
            bytes: unit::image_bytes(target),
            words: &|words| unit::image_words(target, words),
        };
        self.memory.submit(&job, None, Some(&picture), &step.unit)
    }

    fn take(&mut self, wait: bool) -> Result<Option<Status>, EngineError> {
        self.memory.take_status(wait)
    }

    fn enlarge_buffers(&mut self, task: &Task, status: &Status) -> Result<(), EngineError> {
        if status[status::HALT] == halt::SPLATS {
            let most = match task {
                Task::Rule(ruled) => u64::from(ruled.rule.max_splats),
                Task::Step(_) | Task::Rays(_) => 0,
            };
            return self.memory.grow_splats(u64::from(status[status::SPLATS]), most);
        }
        let (view, job, what) = match task {
            Task::Step(step) => (step.image_key(), &step.job, format!("view `{}`", step.view.name)),
            Task::Rule(ruled) => (None, &ruled.job, "a density rule".to_owned()),
            Task::Rays(ruled) => (None, &ruled.job, "a free-space view".to_owned()),
        };
        self.memory.check_visible(&|| what.clone(), status)?;
        let entries = u64::from(status[status::ENTRIES]);
        self.memory.ensure_list_capacity(view, job.tile_rows(), &|| what.clone(), entries)
    }

    fn on_done(&mut self, task: &Task, status: &Status) {
        let of = |word: usize| u64::from(status[word]);
        let report = &mut *self.report;
        let step = match task {
            Task::Step(step) => step,
            Task::Rays(_) => return,
            Task::Rule(_) => {
                self.state.splats = status[status::SPLATS] as usize;
                self.state.next_id = status[status::NEXT_ID];
                report.cloned += of(status::CLONED);
                report.split += of(status::SPLIT);
                report.pruned += of(status::PRUNED);
                report.relocated += of(status::RELOCATED);
                report.added += of(status::ADDED);
                report.cleared += of(status::CLEARED);
                return;
            }
        };
        self.memory.splits.record_longest(step.image_key(), status[status::LONGEST]);
        let loss = loss_of(&step.scale, status);
        self.state.group_clock += 1;
        report.steps += 1;
        report.loss_sum += loss;
        report.last_step = Some(step.step);
        report.last_loss = loss;
        report.visible = of(status::VISIBLE);
        report.intersections = of(status::ENTRIES);
        report.cap_hits += of(status::CUT_TILES);
        report.capped_steps += u64::from(status[status::CUT_TILES] > 0);
        report.skipped_updates += of(status::SKIPPED);
        report.dead_splats = of(status::DEAD);
    }

    fn failure(&self, task: &Task, status: &Status) -> EngineError {
        let Task::Step(step) = task else {
            return EngineError::DeviceFailed("a density rule halted for a loss".to_owned());
        };
        let (loss, view) = (loss_of(&step.scale, status), step.view.name.to_string());
        EngineError::NonFiniteLoss { step: step.step, view, loss }
    }
}

fn loss_of(scale: &LossScale, words: &Status) -> f64 {
    scale.loss(f32::from_bits(words[status::ABSOLUTE]), f32::from_bits(words[status::SSIM]))
}
