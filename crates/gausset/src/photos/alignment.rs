//! Summary of a photo alignment.

use std::path::PathBuf;

use serde::Serialize;

/// Summary of a photo alignment; the JSON form is a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhotoAlignment {
    /// Number of photographs.
    pub frames: usize,
    /// Number of photographs with a pose.
    pub registered: usize,
    /// Number of landmarks.
    pub points: usize,
    /// Mean reprojection error in pixels.
    pub mean_reprojection_px: f64,
    /// Names of the photographs without a pose.
    pub unregistered: Vec<String>,
    /// Folder of the model.
    #[serde(skip)]
    pub model: PathBuf,
}
