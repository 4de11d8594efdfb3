//! Requests of pages, and jobs for the renderer.

use std::time::Instant;

use gausset_core::{Camera, Pose};

use crate::budget::Reservation;
use crate::protocol::{FrameContent, MAX_FRAME_PIXELS, ViewRequest};

/// A request of a page.
#[derive(Clone, Debug)]
pub enum Request {
    /// A view, with the camera in the size to render, and its pose.
    View(Box<ViewRequest>, Camera, Pose),
    /// The photograph of a camera, of limited size.
    Photo {
        /// Id of the request; returned with the photograph.
        id: u32,
        /// Index of the camera.
        camera: usize,
        /// Longer side, px, at most.
        side: u32,
    },
}

impl Request {
    /// Whether it replaces the view that the page shows.
    pub(crate) fn replaces_view(&self) -> bool {
        matches!(self, Self::View(view, ..) if !view.aside)
    }

    /// Whether it needs a photograph.
    pub(crate) fn needs_photo(&self) -> bool {
        match self {
            Self::View(view, ..) => view.what == FrameContent::Error,
            Self::Photo { .. } => true,
        }
    }

    /// Whether its size must not change.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Self::View(view, ..) if view.exact)
    }

    /// Largest number of pixels of the frame.
    pub(crate) fn pixels(&self) -> u64 {
        match self {
            Self::View(_, camera, _) => camera.pixels() as u64,
            Self::Photo { side, .. } => (u64::from(*side) * u64::from(*side)).min(MAX_FRAME_PIXELS),
        }
    }

    /// Reduces the size to at most this many pixels.
    pub(crate) fn limited_to(self, pixels: u64) -> Self {
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

/// A request that a renderer has taken.
#[derive(Debug)]
pub struct RenderJob {
    /// Number of the page.
    pub page: u64,
    /// What the page requested.
    pub request: Request,
    /// When it was requested.
    pub requested_at: Instant,
    /// Whether it repeats a view because the splats have changed.
    pub is_repeat: bool,
    /// Memory that is reserved for it.
    pub(crate) reserved: Reservation,
}
