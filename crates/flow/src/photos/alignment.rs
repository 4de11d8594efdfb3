//! What an alignment of photographs gave.

use std::path::PathBuf;

use serde::Serialize;

/// An alignment of photographs: a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhotoAlignment {
    /// Photographs.
    pub frames: usize,
    /// Those with a pose.
    pub registered: usize,
    /// Points of the model.
    pub points: usize,
    /// Mean reprojection error, px.
    pub mean_reprojection_px: f64,
    /// Names of the photographs without a pose.
    pub unregistered: Vec<String>,
    /// Folder of the model.
    #[serde(skip)]
    pub model: PathBuf,
}
