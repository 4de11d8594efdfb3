//! What happens in a run: events as data, for progress bars, viewers and reports.

use std::path::PathBuf;
use std::sync::Arc;

use gausset_core::engine::{DeviceInfo, Rendering, StepReport};
use serde::{Deserialize, Serialize};

use crate::eval::{EvalReport, Scores, Trust};
use crate::memory::MemoryPlan;
use crate::warning::{RunWarning, SkippedPicture, is_zero};

/// Something that happened in a run. Serialises with its name under `event`; see [`Event::to_json`].
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Depth maps are being made of so many training pictures, before the run starts.
    StereoBegun {
        /// Training pictures.
        views: usize,
    },
    /// They are made, and points of them.
    StereoDone(StereoReport),
    /// Everything is loaded; the next thing is a step. Comes once, before step 0 or the first resumed step.
    Started(Started),
    /// Some steps are done.
    Progress(Progress),
    /// The set of splats has changed since this was told last.
    Density {
        /// Finished steps.
        step: u64,
        /// Splats now.
        splats: u64,
        /// Splats that are new: cloned, split off, grown.
        added: u64,
        /// Splats that were removed, or cleared out of free space.
        pruned: u64,
        /// Dead splats that were moved to living ones.
        relocated: u64,
    },
    /// Something a person should know though the run goes on.
    Warning(RunWarning),
    /// Held-out views were rendered and scored.
    Evaluated {
        /// Finished steps.
        step: u64,
        /// The scores.
        report: EvalReport,
    },
    /// A checkpoint is on the device.
    Checkpointed {
        /// Finished steps.
        step: u64,
        /// Length of the file.
        bytes: u64,
        /// Seconds that it took.
        seconds: f64,
    },
    /// `splats.ply` is on the device.
    Exported {
        /// Finished steps.
        step: u64,
        /// The file.
        path: PathBuf,
        /// Splats in it.
        splats: u64,
        /// Splats left out, because a parameter is not finite.
        dropped: u64,
        /// Length of the file.
        bytes: u64,
    },
    /// A view that was asked for.
    Picture {
        /// Of the request.
        id: u64,
        /// Finished steps.
        step: u64,
        /// The view; left out where an event is text.
        #[serde(skip)]
        picture: Arc<Rendering>,
    },
    /// A view that was asked for and cannot be rendered.
    NoPicture {
        /// Of the request.
        id: u64,
        /// Finished steps.
        step: u64,
        /// Why, as one line.
        reason: String,
    },
    /// No step is done until somebody asks to go on.
    Paused {
        /// Finished steps.
        step: u64,
    },
    /// Steps are done again.
    Resumed {
        /// Finished steps.
        step: u64,
    },
    /// All steps are done and everything is written.
    Finished(Summary),
}

impl Event {
    /// Number of the form of [`Event::to_json`]: another one where what a program reads has changed its meaning.
    pub const SCHEMA: u32 = 1;

    /// The event as one line of JSON, `{"schema":1,"event":"progress",…}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            schema: u32,
            #[serde(flatten)]
            event: &'a Event,
        }
        // Structs and numbers alone: there is nothing that JSON cannot hold.
        serde_json::to_string(&Line { schema: Self::SCHEMA, event: self }).unwrap_or_default()
    }
}

/// What stereo has found before a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StereoReport {
    /// Training pictures with a depth map.
    pub views: usize,
    /// Share of the pixels whose depth other views confirm.
    pub confirmed: f64,
    /// Mean number of views that agree on such a pixel.
    pub views_per_point: f64,
    /// Points that the run starts with.
    pub points: usize,
}

/// What a run starts with.
#[derive(Clone, Debug, Serialize)]
pub struct Started {
    /// The device.
    pub device: DeviceInfo,
    /// Finished steps: 0 for a new run.
    pub step: u64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Pictures to train on.
    pub train_images: usize,
    /// Pictures held out.
    pub test_images: usize,
    /// Splats now.
    pub splats: u64,
    /// One line on where they came from.
    pub start: String,
    /// Size of the scene in scene units.
    pub scene_extent: f64,
    /// Memory that the run will need at most.
    pub memory: MemoryPlan,
    /// Seconds that the run may take, if that was limited; the steps are then as many as are expected to fit.
    pub time_budget: Option<f64>,
    /// Seconds that the steps will take, if that was measured ([`crate::Run::predict_time`]).
    pub predicted_seconds: Option<f64>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Progress {
    /// Finished steps.
    pub step: u64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Mean loss of the steps since the last progress.
    pub loss: f64,
    /// Splats now.
    pub splats: u64,
    /// Steps per second, lately.
    pub it_per_s: f64,
    /// Bytes of memory that the program has, where the system tells.
    pub memory: Option<u64>,
    /// Of a run with a time budget: the seconds that it has used of it, and the budget.
    pub budget: Option<[f64; 2]>,
    /// Seconds to the end at the present pace, with the splats that are still to come; `None` before there is a pace.
    pub seconds_left: Option<f64>,
    /// Everything the device counted since the last progress.
    pub report: StepReport,
}

/// The result of a run in numbers: `{"kind":"run", …}`, a stable contract for scripts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Always `run`.
    pub kind: String,
    /// Finished steps.
    pub steps: u64,
    /// Splats.
    pub splats: u64,
    /// Wall seconds of training, over all sittings, without evaluation.
    pub seconds: f64,
    /// CPU seconds of the same.
    pub cpu_seconds: f64,
    /// Mean PSNR of the held-out views in dB; `None` when it was not measured or is infinite.
    pub psnr: Option<f64>,
    /// Mean SSIM of the same.
    #[serde(default)]
    pub ssim: Option<f64>,
    /// Means of the other scores.
    #[serde(flatten)]
    pub scores: Scores,
    /// How far they can be trusted.
    #[serde(flatten)]
    pub trust: Trust,
    /// Tiles whose list was cut by `--max-splats-per-tile`, over all steps; left out where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_tiles: u64,
}

impl Summary {
    /// The value of `kind`.
    pub const KIND: &str = "run";

    /// Of a run that has done nothing yet.
    pub(crate) fn of_nothing() -> Self {
        Self {
            kind: Self::KIND.to_owned(),
            steps: 0,
            splats: 0,
            seconds: 0.0,
            cpu_seconds: 0.0,
            psnr: None,
            ssim: None,
            scores: Scores::default(),
            trust: Trust::default(),
            cut_tiles: 0,
        }
    }
}

/// How a call of [`crate::Run::train`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All steps are done.
    Finished,
    /// It was asked to stop; a checkpoint was saved.
    Stopped,
}

/// What a call of [`crate::Run::train`] did.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The run in numbers, so far.
    pub summary: Summary,
    /// Scores of the held-out views, if the run finished and there are some.
    pub evaluation: Option<EvalReport>,
    /// Pictures that turned out to be unreadable.
    pub skipped: Vec<SkippedPicture>,
}

impl Outcome {
    /// Of a run that was asked to stop before it could begin: there is nothing to save.
    #[must_use]
    pub fn not_begun() -> Self {
        Self { end: End::Stopped, summary: Summary::of_nothing(), evaluation: None, skipped: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_event_is_a_line_of_json_with_its_name_and_the_number_of_its_form() {
        let picture = Arc::new(Rendering::default());
        let warning = RunWarning::DamagedCheckpoint("step_000007.ckpt: checksum: \"wrong\"".to_owned());
        let events = [
            Event::StereoBegun { views: 3 },
            Event::StereoDone(StereoReport { views: 3, confirmed: 0.5, views_per_point: 4.0, points: 9 }),
            Event::Warning(warning),
            Event::Evaluated {
                step: 5,
                report: EvalReport::of(crate::Split::Test, crate::SsimDefinition::default(), Vec::new()),
            },
            Event::Checkpointed { step: 5, bytes: 7, seconds: 0.1 },
            Event::Exported { step: 5, path: "run/splats.ply".into(), splats: 1, dropped: 0, bytes: 7 },
            Event::Picture { id: 4, step: 5, picture },
            Event::NoPicture { id: 4, step: 5, reason: "too large".to_owned() },
            Event::Paused { step: 5 },
            Event::Resumed { step: 5 },
            Event::Density { step: 5, splats: 9, added: 2, pruned: 1, relocated: 3 },
            Event::Finished(Summary::of_nothing()),
        ];
        let lines: Vec<Value> = events
            .iter()
            .map(|event| {
                let line = event.to_json();
                assert!(!line.contains('\n'));
                serde_json::from_str(&line).unwrap()
            })
            .collect();
        assert!(lines.iter().all(|line| line["schema"] == Event::SCHEMA));
        let names: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
        let expected = [
            "stereo_begun",
            "stereo_done",
            "warning",
            "evaluated",
            "checkpointed",
            "exported",
            "picture",
            "no_picture",
            "paused",
            "resumed",
            "density",
            "finished",
        ];
        assert_eq!(names, expected);
        assert_eq!(lines[2]["kind"], "damaged_checkpoint");
        assert!(lines[2]["line"].as_str().is_some_and(|line| line.starts_with("step_000007.ckpt")));
        assert_eq!(lines[11]["kind"], "run");
    }
}
