//! Results of the mask job; their JSON forms are stable contracts.

use std::collections::BTreeMap;

use gausset_pano::split::{Skipped, StageTimes};
use gausset_segment::Segmenter;
use serde::{Deserialize, Serialize};

use super::MaskJob;
use crate::panos::static_foreground::StaticMasks;

/// A detection that is masked in a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetectionRecord {
    /// Name of the class.
    pub class: String,
    /// Confidence, 0 to 1.
    pub score: f64,
    /// Yaw of its centre in degrees, to the right of the centre of the panorama.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yaw: Option<f64>,
    /// Pitch of its centre in degrees above the horizon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pitch: Option<f64>,
    /// Area before dilation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub square_degrees: Option<f64>,
    /// Area in a photograph before dilation, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pixels: Option<usize>,
    /// Whether it was filled in from neighbouring frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_filled: bool,
}

/// Result of the mask job or a dry run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MaskResult {
    schema: u32,
    kind: &'static str,
    /// Noun for one frame: `panorama`, `photograph` or `frame`.
    pub of: &'static str,
    /// Number of finished frames.
    pub frames: usize,
    /// Number of frames finished earlier.
    pub resumed: usize,
    /// Number of frames with a detection.
    pub with_finds: usize,
    /// Number of detections in all frames.
    pub detections: usize,
    /// Number of detections per class.
    pub classes: BTreeMap<String, usize>,
    /// Masked fraction of the sphere, or of the photograph; mean over the frames.
    pub removed_mean: f64,
    /// Largest masked fraction.
    pub removed_worst: f64,
    /// Name of the frame with the largest masked fraction.
    pub worst: Option<String>,
    /// Inference engine; this and the fields about the model are empty without a model.
    pub engine: &'static str,
    /// Number of concurrent frames.
    pub workers: usize,
    /// XXH3 hash of the model file.
    pub model: String,
    /// Width and height of the model input in pixels.
    pub input: [usize; 2],
    /// Names of the classes to detect.
    pub looked_for: Vec<String>,
    /// Fraction of the sphere covered by the static foreground and its shadow; `None` if it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still_share: Option<f64>,
    /// Source of the model description.
    pub explanation: String,
    /// Number of detections filled in from neighbouring frames.
    pub filled: usize,
    /// Number of weak detections dropped because no neighbouring frame confirms them.
    pub dropped: usize,
    /// Number of neighbouring frames on each side that were used.
    pub temporal: usize,
    /// Time per stage.
    pub times: StageTimes,
    /// The slowest stage, which limits the speed.
    pub limit: &'static str,
    /// Frames that were left out, each with the reason.
    pub skipped: Vec<Skipped>,
    /// Whether this is a dry run, which writes nothing.
    pub is_dry_run: bool,
    /// Whether the job was asked to stop.
    #[serde(skip)]
    pub is_cancelled: bool,
}

impl MaskResult {
    pub(super) fn new(job: &MaskJob<'_>) -> Self {
        Self {
            schema: 1,
            kind: "mask",
            of: job.input.kind().noun(),
            frames: job.input.frames().len(),
            resumed: 0,
            with_finds: 0,
            detections: 0,
            classes: BTreeMap::new(),
            removed_mean: 0.0,
            removed_worst: 0.0,
            worst: None,
            engine: job.segmenter.map_or("", Segmenter::engine),
            workers: job.bounds.workers,
            model: job.segmenter.map_or_else(String::new, |s| s.hash().to_owned()),
            input: job.segmenter.map_or([0; 2], Segmenter::size),
            looked_for: job.segmenter.map_or_else(Vec::new, |s| s.wanted().map(str::to_owned).collect()),
            explanation: job.segmenter.map_or_else(String::new, |s| s.explanation.clone()),
            still_share: job.still.filter(|_| job.options.still_patch).map(StaticMasks::covered_fraction),
            filled: 0,
            dropped: 0,
            temporal: job.neighbours,
            times: StageTimes::default(),
            limit: "",
            skipped: Vec::new(),
            is_dry_run: false,
            is_cancelled: false,
        }
    }
}
