//! Events of a run, as data for progress bars, viewers and reports.

use std::path::PathBuf;

use gausset_core::engine::{DeviceInfo, StepReport};
use serde::{Deserialize, Serialize};

use crate::eval::{EvalReport, Scores, Trust};
use crate::memory::MemoryPlan;
use crate::warning::{RunWarning, SkippedImage, is_zero};

/// An event of a run. Serialises with its name under `event`; see [`Event::to_json`].
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Stereo has started to compute depth maps of this many training images, before the run starts.
    StereoBegun {
        /// Number of training images.
        views: usize,
    },
    /// Stereo has finished depth maps and points.
    StereoDone(StereoReport),
    /// Everything is loaded and the first step follows. Sent once, before step 0 or the first resumed step.
    Started(RunStart),
    /// Some steps have finished.
    Progress(RunProgress),
    /// The set of splats has changed since the last such event.
    Density {
        /// Finished steps of the run.
        step: u64,
        /// Current number of splats.
        splats: u64,
        /// New splats: cloned, split or grown.
        added: u64,
        /// Splats that were removed, or cleared out of free space.
        pruned: u64,
        /// Dead splats that were relocated to living ones.
        relocated: u64,
    },
    /// A problem that does not stop the run.
    Warning(RunWarning),
    /// Held-out views were rendered and scored.
    Evaluated {
        /// Finished steps at the evaluation.
        step: u64,
        /// Scores of all views, and their means.
        report: EvalReport,
    },
    /// A checkpoint was written to disk.
    Checkpointed {
        /// Finished steps that it contains.
        step: u64,
        /// Size of the file in bytes.
        bytes: u64,
        /// Seconds spent writing it.
        seconds: f64,
    },
    /// `splats.ply` was written to disk.
    Exported {
        /// Finished steps after which it was written.
        step: u64,
        /// The file, `RUN/splats.ply`.
        path: PathBuf,
        /// Number of splats in it.
        splats: u64,
        /// Number of splats left out because a parameter is not finite.
        dropped: u64,
        /// Size of the file in bytes.
        bytes: u64,
    },
    /// The run is paused until it is asked to resume.
    Paused {
        /// Finished steps; none follow until it resumes.
        step: u64,
    },
    /// The run has resumed after a pause.
    Resumed {
        /// Finished steps: the same as at the pause.
        step: u64,
    },
    /// All steps are done and all files are written.
    Finished(RunSummary),
}

impl Event {
    /// Version of the format of [`Event::to_json`]; it increases when a field changes its meaning.
    pub const SCHEMA: u32 = 1;

    /// The event as one line of JSON, `{"schema":1,"event":"progress",…}`.
    ///
    /// ```
    /// use gausset_train::Event;
    ///
    /// let event = Event::Checkpointed { step: 7000, bytes: 1_000, seconds: 0.5 };
    /// let line = r#"{"schema":1,"event":"checkpointed","step":7000,"bytes":1000,"seconds":0.5}"#;
    /// assert_eq!(event.to_json(), line);
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Line<'a> {
            schema: u32,
            #[serde(flatten)]
            event: &'a Event,
        }
        // The event contains only structs and numbers, all of which JSON can represent.
        serde_json::to_string(&Line { schema: Self::SCHEMA, event: self }).unwrap_or_default()
    }
}

/// Result of stereo before a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StereoReport {
    /// Number of training images with a depth map.
    pub views: usize,
    /// Fraction of the pixels whose depth other views confirm.
    pub confirmed: f64,
    /// Mean number of views that agree on such a pixel.
    pub views_per_point: f64,
    /// Number of dense points that the run starts with.
    pub points: usize,
    /// Number of points in the background that it starts with as well.
    pub background: usize,
}

/// State of a run at its start.
#[derive(Clone, Debug, Serialize)]
pub struct RunStart {
    /// The device that trains.
    pub device: DeviceInfo,
    /// Finished steps: 0 for a new run.
    pub step: u64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Number of training images.
    pub train_images: usize,
    /// Number of held-out images.
    pub test_images: usize,
    /// Current number of splats.
    pub splats: u64,
    /// One line on the origin of the splats.
    pub start: String,
    /// Size of the scene in scene units.
    pub scene_extent: f64,
    /// Predicted maximum memory of the run.
    pub memory: MemoryPlan,
    /// Time budget in seconds, if there is one; the number of steps is then chosen to fit.
    pub time_budget: Option<f64>,
    /// Predicted seconds for the steps, if measured ([`crate::Run::predict_time`]).
    pub predicted_seconds: Option<f64>,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RunProgress {
    /// Finished steps of the run, at most `steps`.
    pub step: u64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Mean loss of the steps since the last progress event.
    pub loss: f64,
    /// Current number of splats.
    pub splats: u64,
    /// Recent steps per second.
    pub it_per_s: f64,
    /// Resident memory of the process in bytes, where the system reports it.
    pub memory: Option<u64>,
    /// With a time budget: seconds used of it, and the budget in seconds.
    pub budget: Option<[f64; 2]>,
    /// Estimated seconds to the end, including splats that will be added; `None` before the speed is known.
    pub seconds_left: Option<f64>,
    /// Counters of the device since the last progress event.
    pub report: StepReport,
}

/// The summary of a run: `{"kind":"run", …}`, a stable contract for scripts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Kind of the JSON object: always `run`.
    pub kind: String,
    /// Finished steps of the run.
    pub steps: u64,
    /// Number of splats.
    pub splats: u64,
    /// Wall seconds of training over all sessions, without evaluation.
    pub seconds: f64,
    /// CPU seconds of training over all sessions.
    pub cpu_seconds: f64,
    /// Wall seconds in training steps over all sessions, without checkpoints and exports; 0 if unknown.
    #[serde(default)]
    pub step_seconds: f64,
    /// Mean PSNR of the held-out views in dB; `None` if not measured or infinite.
    pub psnr: Option<f64>,
    /// Mean SSIM of the held-out views.
    #[serde(default)]
    pub ssim: Option<f64>,
    /// Means of the further scores.
    #[serde(flatten)]
    pub scores: Scores,
    /// Scores that show how far the result can be trusted.
    #[serde(flatten)]
    pub trust: Trust,
    /// Tiles whose list was truncated by `--max-splats-per-tile`, over all steps; omitted if zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_tiles: u64,
    /// Whether the result was not rendered, because memory does not suffice; omitted if it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unscored: bool,
}

impl RunSummary {
    /// The value of `kind`.
    pub const KIND: &str = "run";

    /// Steps per second of time in steps, as [`RunProgress::it_per_s`] over the whole run; of the whole time where the
    /// time in steps is unknown. `None` before the first step.
    #[must_use]
    pub fn it_per_s(&self) -> Option<f64> {
        let seconds = if self.step_seconds > 0.0 { self.step_seconds } else { self.seconds };
        (self.steps > 0 && seconds > 0.0).then(|| self.steps as f64 / seconds)
    }

    /// The summary of a run before its first step.
    pub(crate) fn empty() -> Self {
        Self {
            kind: Self::KIND.to_owned(),
            steps: 0,
            splats: 0,
            seconds: 0.0,
            cpu_seconds: 0.0,
            step_seconds: 0.0,
            psnr: None,
            ssim: None,
            scores: Scores::default(),
            trust: Trust::default(),
            cut_tiles: 0,
            unscored: false,
        }
    }
}

/// How a call of [`crate::Run::train`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All steps are done.
    Finished,
    /// The run was asked to stop; a checkpoint was saved.
    Stopped,
}

/// Outcome of a call of [`crate::Run::train`].
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// How the call ended.
    pub end: RunEnd,
    /// Summary of the run so far.
    pub summary: RunSummary,
    /// Scores of the held-out views, if the run finished and there are held-out views.
    pub evaluation: Option<EvalReport>,
    /// Images that could not be read.
    pub skipped: Vec<SkippedImage>,
}

impl RunOutcome {
    /// Outcome of a run that was asked to stop before its first step; there is nothing to save.
    #[must_use]
    pub fn before_start() -> Self {
        Self { end: RunEnd::Stopped, summary: RunSummary::empty(), evaluation: None, skipped: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_event_is_a_line_of_json_with_its_name_and_the_number_of_its_form() {
        let warning = RunWarning::DamagedCheckpoint("step_000007.ckpt: checksum: \"wrong\"".to_owned());
        let events = [
            Event::StereoBegun { views: 3 },
            Event::StereoDone(StereoReport {
                views: 3,
                confirmed: 0.5,
                views_per_point: 4.0,
                points: 9,
                background: 0,
            }),
            Event::Warning(warning),
            Event::Evaluated {
                step: 5,
                report: EvalReport::new(crate::Split::Test, crate::SsimDefinition::default(), Vec::new()),
            },
            Event::Checkpointed { step: 5, bytes: 7, seconds: 0.1 },
            Event::Exported { step: 5, path: "run/splats.ply".into(), splats: 1, dropped: 0, bytes: 7 },
            Event::Paused { step: 5 },
            Event::Resumed { step: 5 },
            Event::Density { step: 5, splats: 9, added: 2, pruned: 1, relocated: 3 },
            Event::Finished(RunSummary::empty()),
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
            "paused",
            "resumed",
            "density",
            "finished",
        ];
        assert_eq!(names, expected);
        assert_eq!(lines[2]["kind"], "damaged_checkpoint");
        assert!(lines[2]["line"].as_str().is_some_and(|line| line.starts_with("step_000007.ckpt")));
        assert_eq!(lines[9]["kind"], "run");
    }
}
