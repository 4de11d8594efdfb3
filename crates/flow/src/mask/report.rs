//! What was found and done: stable contracts.

use std::collections::BTreeMap;

use gausset_pano::split::{Skipped, StageTimes};
use gausset_segment::Segmenter;
use serde::{Deserialize, Serialize};

use super::Job;
use crate::panos::still::StillMasks;

/// Something that is removed in a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaskedFind {
    /// Its class.
    pub class: String,
    /// How sure the model is, 0 to 1.
    pub score: f64,
    /// Direction of its middle, degrees to the right of the middle of the panorama.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yaw: Option<f64>,
    /// Degrees above the horizon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pitch: Option<f64>,
    /// Its area before it grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub square_degrees: Option<f64>,
    /// Its area in a photograph before it grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pixels: Option<usize>,
    /// Whether only the frames around it have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_filled: bool,
}

/// What was done, or would be.
#[derive(Clone, Debug, Serialize)]
pub struct Masked {
    schema: u32,
    kind: &'static str,
    /// What the frames are.
    pub of: &'static str,
    /// Frames that are done now, or would be.
    pub frames: usize,
    /// Frames that were done before.
    pub resumed: usize,
    /// Frames in which something was found.
    pub with_finds: usize,
    /// Finds of all frames.
    pub detections: usize,
    /// How many of each class.
    pub classes: BTreeMap<String, usize>,
    /// Mean over the frames of the share of the sphere, or of the photograph, that is removed.
    pub removed_mean: f64,
    /// The largest of these shares.
    pub removed_worst: f64,
    /// The frame that it is of.
    pub worst: Option<String>,
    /// What ran the model; nothing of this where there is none.
    pub engine: &'static str,
    /// Frames that are under way at once.
    pub workers: usize,
    /// Hash (XXH3) of the model.
    pub model: String,
    /// Width and height of its input, px.
    pub input: [usize; 2],
    /// What is looked for.
    pub looked_for: Vec<String>,
    /// Share of the sphere that rides along with the camera, with its shadow; `None` where it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still_share: Option<f64>,
    /// Where the description of the model came from.
    pub explanation: String,
    /// Finds that frames around a frame have and it missed.
    pub filled: usize,
    /// Weak finds that no frame around theirs knows.
    pub dropped: usize,
    /// Frames before and behind that have a say in a frame.
    pub temporal: usize,
    /// Where the time went.
    pub times: StageTimes,
    /// The stage that limits.
    pub limit: &'static str,
    /// Frames left out.
    pub skipped: Vec<Skipped>,
    /// Whether nothing was written because nothing was to be.
    pub is_dry_run: bool,
    /// Whether it was stopped.
    #[serde(skip)]
    pub is_cancelled: bool,
}

impl Masked {
    pub(super) fn new(job: &Job<'_>) -> Self {
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
            still_share: job.still.filter(|_| job.options.still_patch).map(StillMasks::share),
            filled: 0,
            dropped: 0,
            temporal: job.reach,
            times: StageTimes::default(),
            limit: "",
            skipped: Vec::new(),
            is_dry_run: false,
            is_cancelled: false,
        }
    }
}
