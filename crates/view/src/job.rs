//! What a page wants to have drawn.

use std::time::Instant;

use gausset_core::{Camera, Pose};

use crate::protocol::ViewRequest;

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
#[derive(Clone, Debug)]
pub struct Job {
    /// The page.
    pub page: u64,
    /// What.
    pub ask: Ask,
    /// When it was asked for.
    pub asked: Instant,
    /// Whether it was drawn before and is drawn again because the splats have changed.
    pub renewed: bool,
}
