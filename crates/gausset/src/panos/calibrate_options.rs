//! Options of the calibration of two fisheye lenses.

use std::path::PathBuf;

use gausset_compute::SimdLevel;

use crate::footage_options::LensWords;

/// Radius of the image circles, given by the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CircleRadius {
    /// Percent of half the shorter side of one lens' part of the frame.
    Percent(f64),
    /// Pixels.
    Pixels(f64),
}

/// Options of [`super::calibrate::calibrate()`].
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
    /// A folder of images, an image, or a video (read by ffmpeg).
    pub input: PathBuf,
    /// Output lens file.
    pub output: PathBuf,
    /// Lens file with the initial calibration.
    pub lens: Option<PathBuf>,
    /// Words in which the file names of both lenses differ; `None` = the usual ones.
    pub pair: Option<LensWords>,
    /// Radius of the image circles; `None` = detected in the images.
    pub circle_radius: Option<CircleRadius>,
    /// Poses of the frames, in any format that a comparison reads.
    pub poses: Option<PathBuf>,
    /// Maximum number of frames, evenly spaced; with poses, evenly spaced runs of neighbours.
    pub max_frames: u32,
    /// Video: start in seconds.
    pub start: f64,
    /// Video: end in seconds.
    pub end: Option<f64>,
    /// Replace an existing lens file.
    pub force: bool,
    /// Threads; 0 = all CPU threads.
    pub threads: u32,
    /// SIMD level of the CPU.
    pub simd: SimdLevel,
}
