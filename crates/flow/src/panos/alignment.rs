//! What an alignment of panoramas gave.

use std::path::{Path, PathBuf};

use gausset_pano::export::{Earth, Poses};
use gausset_pano::lens_pose::LensRelation;
use serde::Serialize;

use super::compare::Compared;
use crate::records;

/// An alignment of panoramas: a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PanoAlignment {
    /// Panoramas.
    pub frames: usize,
    /// Those with a pose.
    pub registered: usize,
    /// What aligned them.
    pub tool: String,
    /// Points of the model.
    pub points: u64,
    /// Mean reprojection error, px.
    pub mean_reprojection_px: f64,
    /// Mean number of views that see a point.
    pub track_length: f64,
    /// Whether one unit is a metre, by GPS.
    pub is_metric: bool,
    /// Names of the panoramas without a pose.
    pub unregistered: Vec<String>,
    /// Where the world is on the earth, by a track that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earth: Option<Earth>,
    /// How two lenses stand to each other that were aligned each for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lenses: Option<LensRelation>,
    /// What the poses are off from others that were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Compared>,
    /// Folder of the model.
    #[serde(skip)]
    pub model: PathBuf,
}

impl PanoAlignment {
    /// What the poses of the views in a folder say.
    #[must_use]
    pub fn of(poses: &Poses, folder: &Path) -> Self {
        Self {
            frames: poses.frames.len(),
            registered: poses.registered(),
            tool: poses.tool.clone(),
            points: poses.points,
            mean_reprojection_px: poses.mean_reprojection_px,
            track_length: poses.track_length,
            is_metric: poses.is_metric,
            unregistered: unregistered(poses),
            earth: poses.earth.clone(),
            lenses: poses.lenses.clone(),
            reference: None,
            model: records::model_folder(folder),
        }
    }
}

/// Names of frames without a pose.
pub(super) fn unregistered(poses: &Poses) -> Vec<String> {
    poses.frames.iter().filter(|f| f.rotation.is_none()).map(|f| f.name.clone()).collect()
}
