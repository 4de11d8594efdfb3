//! What a page wants to have drawn.

use std::time::Instant;

use gausset_core::{Camera, Pose};

use crate::budget::Reserved;
use crate::protocol::{MAX_FRAME_PIXELS, ViewRequest, What};

/// What somebody who draws is asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A view, with its camera as large as it is to be drawn, and its pose.
    View(Box<ViewRequest>, Camera, Pose),
    /// The photograph of a camera, as large as this at most.
    Photo {
        /// Comes back.
        id: u32,
        /// Number of the camera.
        camera: usize,
        /// Longer side in px.
        side: u32,
    },
}

impl Ask {
    /// Whether it is what the page shows from now on.
    pub(crate) fn is_shown(&self) -> bool {
        matches!(self, Self::View(view, ..) if !view.aside)
    }

    /// Whether it needs a photograph.
    pub(crate) fn needs_photo(&self) -> bool {
        match self {
            Self::View(view, ..) => view.what == What::Error,
            Self::Photo { .. } => true,
        }
    }

    /// Whether its size may not change.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Self::View(view, ..) if view.exact)
    }

    /// Pixels of the frame, at most.
    pub(crate) fn pixels(&self) -> u64 {
        match self {
            Self::View(_, camera, _) => camera.pixels() as u64,
            Self::Photo { side, .. } => (u64::from(*side) * u64::from(*side)).min(MAX_FRAME_PIXELS),
        }
    }

    /// The same with so many pixels at most.
    pub(crate) fn within(self, pixels: u64) -> Self {
        if self.pixels() <= pixels {
            return self;
        }
        match self {
            Self::View(view, camera, pose) => {
                let factor = (pixels as f64 / camera.pixels() as f64).sqrt();
                let side = |side: u32| ((f64::from(side) * factor) as u32).max(1);
                Self::View(view, camera.resized(side(camera.width), side(camera.height)), pose)
            }
            Self::Photo { id, camera, .. } => {
                Self::Photo { id, camera, side: u32::try_from(pixels.isqrt()).unwrap_or(u32::MAX) }
            }
        }
    }

    /// Id of the request.
    #[must_use]
    pub fn id(&self) -> u32 {
        match self {
            Self::View(view, ..) => view.id,
            Self::Photo { id, .. } => *id,
        }
    }
}

/// Something to draw for a page.
#[derive(Debug)]
pub struct Job {
    /// The page.
    pub page: u64,
    /// What.
    pub ask: Ask,
    /// When it was asked for.
    pub asked: Instant,
    /// Whether it was drawn before and is drawn again because the splats have changed.
    pub renewed: bool,
    /// Memory that is counted for it.
    pub(crate) reserved: Reserved,
}
