//! Which frames of a film were taken.

use gausset_pano::selection::{Reason, Select, Selection};

/// What was chosen of a film.
#[derive(Clone, Debug, PartialEq)]
pub struct FramesChosen {
    /// By what.
    pub select: Select,
    /// Degrees of parallax between neighbours, by space.
    pub step: Option<f64>,
    /// Metres that such a step stands for where a track tells the way.
    pub step_metres: Option<f64>,
    /// Frames a second, by time.
    pub fps: Option<f64>,
    /// Frames that are taken.
    pub kept: usize,
    /// Frames of the film.
    pub frames: usize,
    /// Why the others are not, and how many.
    pub dropped: Vec<(Reason, usize)>,
}

impl FramesChosen {
    /// What a selection has chosen.
    #[must_use]
    pub fn of(selection: &Selection) -> Self {
        let header = &selection.header;
        Self {
            select: header.select,
            step: header.used_step,
            step_metres: header.step_metres,
            fps: header.fps,
            kept: header.kept,
            frames: header.frames,
            dropped: selection.reasons(false).into_iter().collect(),
        }
    }
}
