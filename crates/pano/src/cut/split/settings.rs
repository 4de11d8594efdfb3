//! Settings of a split: those that determine the bytes, and those that do not.

use std::path::PathBuf;

use gausset_compute::fearless_simd::Level;
use serde::{Deserialize, Serialize};

use super::mask_command::MaskCommand;
use crate::cut::cutter::Format;
use crate::cut::equalise::Equalise;
use crate::cut::grade::Colouring;
use crate::source::load::ImageLimits;
use crate::source::sphere_video::SphereVideo;
use crate::sphere::geometry::View;
use crate::sphere::lens_views::LensViews;
use crate::sphere::projection::Projection;

/// How to handle a frame that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Report it, skip it, and continue.
    #[default]
    Skip,
    /// Stop the whole split.
    Stop,
}

/// Naming scheme of the output files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naming {
    /// `images/view00/FRAME.jpg`: COLMAP treats the views of a frame as one rig frame.
    #[default]
    Rig,
    /// `images/frame_00000_cam_00.jpg`.
    Flat,
}

/// The number of a frame in [`Naming::Flat`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Its index among the frames, from 0.
    #[default]
    Order,
    /// The last number in the name of its source; its index if there is none.
    Source,
}

/// All settings that determine the output.
#[derive(Clone, Debug)]
pub struct SplitSettings {
    /// The views that each frame is cut into.
    pub views: Vec<View>,
    /// Set if the two lenses of each frame are cut separately; `views` then comes from [`LensViews::all_views`].
    pub lenses: Option<LensViews>,
    /// File format of the views.
    pub format: Format,
    /// Naming scheme of the files.
    pub naming: Naming,
    /// Numbering of flat names.
    pub numbering: Numbering,
    /// Masked angle around the nadir, degrees.
    pub crop_bottom: f64,
    /// Level panoramas by the pitch and roll in their GPano metadata.
    pub level_gpano: bool,
    /// The projection of all frames; `None` = equirectangular, by the size and GPano metadata of each.
    pub projection: Option<Projection>,
    /// Folder with masks of the frames.
    pub masks: Option<PathBuf>,
    /// A command that makes masks, instead of a folder.
    pub mask_command: Option<MaskCommand>,
    /// Images are stacked stereo; the upper eye is used.
    pub is_stereo: bool,
    /// Limits on source images.
    pub limits: ImageLimits,
    /// The video from which the frames are taken, if any.
    pub video: Option<SphereVideo>,
    /// Colour settings.
    pub colouring: Colouring,
    /// Equalisation before the colour settings.
    pub equalise: Equalise,
    /// With [`Equalise::Frames`]: gains of red, green and blue per frame.
    pub frame_gains: Vec<[f64; 3]>,
}

impl SplitSettings {
    /// Default settings for these views: frames are panoramas in files, without masks.
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
            limits: ImageLimits::default(),
            video: None,
            colouring: Colouring::default(),
            equalise: Equalise::Off,
            frame_gains: Vec::new(),
        }
    }

    /// The projection that all frames share, if there is one.
    pub(super) fn projection(&self) -> Option<Projection> {
        self.video.as_ref().map(SphereVideo::projection).or_else(|| self.projection.clone())
    }

    /// The views of a frame, or of one lens if lenses are cut separately.
    pub(super) fn views_per_frame(&self) -> &[View] {
        self.lenses.as_ref().map_or(&self.views, |lenses| &lenses.views)
    }

    /// Whether colours of frames change: by a setting, or by the fall-off of lenses.
    pub(super) fn changes_frames(&self) -> bool {
        let has_vignetting = |p| matches!(p, Projection::Fisheye(lenses) if lenses.has_vignetting());
        self.has_colours() || self.projection().is_some_and(has_vignetting)
    }

    /// Whether any setting changes colours.
    pub(super) fn has_colours(&self) -> bool {
        !self.colouring.is_neutral() || self.equalise != Equalise::Off
    }
}

/// Settings that do not change the bytes.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Number of worker threads.
    pub threads: usize,
    /// SIMD level.
    pub level: Level,
    /// How to handle frames that cannot be used.
    pub on_error: OnError,
    /// Redo finished frames, and write even into a folder that Gausset did not create.
    pub force: bool,
    /// Memory budget in bytes for frames in flight and tables together; a frame that needs more is skipped.
    pub memory_budget: u64,
}
