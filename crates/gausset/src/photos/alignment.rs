//! Summary of a photo alignment.

use std::path::PathBuf;

use gausset_io::dataset::Georeference;
use serde::Serialize;

/// A photograph that has no pose or cannot be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Summary of a photo alignment; the JSON form is a stable contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhotoAlignment {
    /// Version of this form, 1.
    pub schema: u32,
    /// Output folder.
    pub folder: PathBuf,
    /// Number of photographs.
    pub photographs: usize,
    /// The same number, by its earlier name.
    pub frames: usize,
    /// Number of photographs with a pose.
    pub registered: usize,
    /// Number of landmarks.
    pub points: usize,
    /// Mean reprojection error in pixels.
    pub mean_reprojection_px: f64,
    /// Names of the photographs without a pose.
    pub unregistered: Vec<String>,
    /// The photographs that were left out, and why: those without a pose, then those that cannot be read.
    pub left_out: Vec<LeftOut>,
    /// Place of the model on the earth, if GPS positions of three or more photographs fit it.
    pub georeference: Option<Georeference>,
    /// Folder of the model.
    #[serde(skip)]
    pub model: PathBuf,
}

impl PhotoAlignment {
    /// Version of the JSON form.
    pub const SCHEMA: u32 = 1;

    /// Number of photographs that cannot be read.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.left_out.len().saturating_sub(self.unregistered.len())
    }
}
