//! Summary of a panorama alignment.

use std::path::PathBuf;

use gausset_pano::export::{AlignedPoses, Georeference};
use gausset_pano::lens_pose::LensRelation;
use serde::Serialize;

use super::compare::PoseComparison;

/// Summary of a panorama alignment; the JSON form is a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PanoAlignment {
    /// Number of panoramas.
    pub frames: usize,
    /// Number of panoramas with a pose.
    pub registered: usize,
    /// Description of the aligner.
    pub tool: String,
    /// Number of landmarks.
    pub points: u64,
    /// Mean reprojection error in pixels.
    pub mean_reprojection_px: f64,
    /// Mean number of observations per landmark.
    pub track_length: f64,
    /// Whether the unit is a metre, determined by GPS.
    pub is_metric: bool,
    /// Names of the panoramas without a pose.
    pub unregistered: Vec<String>,
    /// Georeference of the model, if a GPS track was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earth: Option<Georeference>,
    /// Relative pose of two lenses that were aligned as separate frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lenses: Option<LensRelation>,
    /// Errors against reference poses, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<PoseComparison>,
    /// Folder of the COLMAP model.
    #[serde(skip)]
    pub model: PathBuf,
}

impl PanoAlignment {
    /// Summarises the poses of views, whose model is in this folder.
    #[must_use]
    pub fn new(poses: &AlignedPoses, model: PathBuf) -> Self {
        Self {
            frames: poses.frames.len(),
            registered: poses.registered_frames(),
            tool: poses.tool.clone(),
            points: poses.points,
            mean_reprojection_px: poses.mean_reprojection_px,
            track_length: poses.track_length,
            is_metric: poses.is_metric,
            unregistered: unregistered(poses),
            earth: poses.earth.clone(),
            lenses: poses.lenses.clone(),
            reference: None,
            model,
        }
    }
}

/// Names of frames without a pose.
pub(super) fn unregistered(poses: &AlignedPoses) -> Vec<String> {
    poses.frames.iter().filter(|f| f.rotation.is_none()).map(|f| f.name.clone()).collect()
}
