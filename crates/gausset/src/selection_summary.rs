//! Summary of a frame selection.

use gausset_pano::selection::{FrameReason, SelectBy, Selection};

/// Summary of a frame selection.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectionSummary {
    /// Criterion by which frames were selected.
    pub select: SelectBy,
    /// Parallax between neighbouring frames in degrees, for selection by space.
    pub step: Option<f64>,
    /// Metres that this parallax corresponds to, if a GPS track is given.
    pub step_metres: Option<f64>,
    /// Frames per second, for selection by time.
    pub fps: Option<f64>,
    /// Number of frames selected.
    pub kept: usize,
    /// Number of frames in the video.
    pub frames: usize,
    /// Number of rejected frames per reason.
    pub dropped: Vec<(FrameReason, usize)>,
}

impl SelectionSummary {
    /// Summarises a selection.
    #[must_use]
    pub fn new(selection: &Selection) -> Self {
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
