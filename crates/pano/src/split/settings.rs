//! What is asked of a split: what decides the bytes, and how the work is done.

use std::path::PathBuf;

use gausset_compute::fearless_simd::Level;
use serde::{Deserialize, Serialize};

use super::mask_command::MaskCommand;
use crate::cutter::Format;
use crate::equalise::Equalise;
use crate::film::Film;
use crate::geometry::View;
use crate::grade::Colouring;
use crate::lens_views::LensViews;
use crate::load::Limits;
use crate::projection::Projection;

/// What to do with a frame that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Name it, leave it out, go on.
    #[default]
    Skip,
    /// Stop the whole split.
    Stop,
}

/// How files are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naming {
    /// `images/view00/FRAME.jpg`: COLMAP sees the views of a frame as one moment of a rig.
    #[default]
    Rig,
    /// `images/frame_00000_cam_00.jpg`.
    Flat,
}

/// Which number a frame has in [`Naming::Flat`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Its place among the frames, from 0.
    #[default]
    Order,
    /// The last number in the name of its source; its place where there is none.
    Source,
}

/// Everything that decides what is written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The views that each frame is cut into.
    pub views: Vec<View>,
    /// Of frames of two lenses that are cut apart, where `views` come from: [`LensViews::of_both`].
    pub lenses: Option<LensViews>,
    /// How they are written.
    pub format: Format,
    /// How files are named.
    pub naming: Naming,
    /// Which numbers flat names have.
    pub numbering: Numbering,
    /// Degrees around the nadir that are masked.
    pub crop_bottom: f64,
    /// Turn panoramas level by what GPano says.
    pub level_gpano: bool,
    /// How every frame shows the sphere; `None` = equirectangular, by its own size and GPano.
    pub projection: Option<Projection>,
    /// Folder with masks of frames.
    pub masks: Option<PathBuf>,
    /// What makes masks, instead of a folder.
    pub mask_command: Option<MaskCommand>,
    /// Pictures show two eyes, one above the other; the upper one is taken.
    pub is_stereo: bool,
    /// Limits on source pictures.
    pub limits: Limits,
    /// The frames are those of this film.
    pub film: Option<Film>,
    /// What is done to the colours.
    pub colouring: Colouring,
    /// What is made alike before.
    pub equalise: Equalise,
    /// With [`Equalise::Frames`], factors of red, green and blue for each frame.
    pub frame_gains: Vec<[f64; 3]>,
}

impl Settings {
    /// These views in that format, and nothing out of the ordinary: frames are panoramas in files, without masks.
    #[must_use]
    pub fn new(views: Vec<View>, format: Format) -> Self {
        Self {
            views,
            lenses: None,
            format,
            naming: Naming::Rig,
            numbering: Numbering::Order,
            crop_bottom: 0.0,
            level_gpano: false,
            projection: None,
            masks: None,
            mask_command: None,
            is_stereo: false,
            limits: Limits::default(),
            film: None,
            colouring: Colouring::default(),
            equalise: Equalise::Off,
            frame_gains: Vec::new(),
        }
    }

    /// How frames show the sphere, where that is known of all of them.
    pub(super) fn projection(&self) -> Option<Projection> {
        self.film.as_ref().map(Film::projection).or_else(|| self.projection.clone())
    }

    /// The views of a frame, or of a lens that is a frame of its own.
    pub(super) fn views_of_frame(&self) -> &[View] {
        self.lenses.as_ref().map_or(&self.views, |lenses| &lenses.views)
    }

    /// Whether colours are changed at all.
    pub(super) fn has_colours(&self) -> bool {
        !self.colouring.is_neutral() || self.equalise != Equalise::Off
    }
}

/// How the work is done; no influence on the bytes.
#[derive(Clone, Debug)]
pub struct Work {
    /// Worker threads.
    pub threads: usize,
    /// Vector level.
    pub level: Level,
    /// What to do with bad frames.
    pub on_error: OnError,
    /// Redo finished frames, and write among files of somebody else.
    pub force: bool,
    /// Bytes of frames in flight and of tables, all together; a frame that takes more is left out.
    pub budget: u64,
}
