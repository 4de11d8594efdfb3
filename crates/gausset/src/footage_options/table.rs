//! The table of all options of footage.
//!
//! A row consists of `/// help`, name, type and properties ([`super::row::OptionRow`]); a field without properties is a
//! group of options. To add an option, add its row here and use its value; see CONTRIBUTING.md, "An option of footage".

use std::ffi::OsStr;
use std::path::PathBuf;

use gausset_pano::cube::Face;
use gausset_pano::selection::SelectBy;
use serde_json::Value;

use super::row::{GroupField, NestedGroup, OptionGroup, OptionInfo, OptionRow, field, option, option_groups};
use super::words::StereoLayout;
use crate::panos::{SourceProjection, TrackOptions};

const POSITIVE: &str = "a number above 0, at most 1000000";

fn is_positive(value: &Option<f64>) -> bool {
    value.is_some_and(|v| v.is_finite() && v > 0.0 && v <= 1e6)
}

option_groups! {
    /// Criterion of the frame selection, as given by the user.
    SelectionOptions under "Frames" {
        /// Video: frame selection by space (equal parallax), time or all [default: space, with --fps time].
        select: Option<SelectBy> = option("select", "HOW", None).help_lists_words();
        /// Video: parallax between selected frames, degrees [default: 4].
        step: Option<f64> = option("step", "DEG", None)
            .range("0.1..90 degrees", |v| v.is_some_and(|v| (0.1..=90.0).contains(&v))).rare();
    }

    /// Options about the projection of a source; the rest is derived from the image size.
    ProjectionOptions under "Frames" {
        /// Projection of the input: equirect|cross|strip|faces [default: by aspect ratio].
        from: Option<SourceProjection> = option("from", "SHAPE", None).help_lists_words().rare();
        /// Strip: order of its faces, row by row; r, l, u, d, f, b = right, left, up, down, front, back [default:
        /// rludfb].
        faces: Option<[Face; 6]> = option("from-faces", "ORDER", None).rare();
        /// Strip: clockwise quarter turns of each face [default: 000000].
        turns: Option<[u8; 6]> = option("from-turns", "TURNS", None).rare();
    }

    /// Options that select and interpret frames.
    FrameOptions under "Frames" {
        /// Use every N-th frame.
        every: u32 = option("every", "N", 1).within(1, u32::MAX).rare().always_recorded();
        /// Criterion of the frame selection.
        select: SelectionOptions;
        /// Video: frames per second, selected by time.
        fps: Option<f64> = option("fps", "FPS", None).range(POSITIVE, is_positive);
        /// Video: start time in seconds.
        start: f64 = option("start", "S", 0.0).always_recorded();
        /// Video: end time in seconds.
        end: Option<f64> = option("end", "S", None).range(POSITIVE, is_positive);
        /// Video: use the sharpest of N neighbouring frames.
        sharpest_of: u32 = option("sharpest-of", "N", 1).within(1, 1000).rare().always_recorded();
        /// Stereo layout of the frames: tb (top-bottom; the upper eye is used).
        stereo: Option<StereoLayout> = option("stereo", "HOW", None).rare();
        /// Lens file for dual-fisheye frames (docs/reference/pano.md).
        lens: Option<PathBuf> = option("lens", "FILE", None).rare();
        /// Maximum number of frames, spaced by parallax for a video and evenly for a folder.
        max_frames: Option<u32> = option("max-frames", "N", None).within(1, u32::MAX);
        /// Projection of the frames.
        shape: ProjectionOptions;
        /// Video: GPS track, for motion that the images do not show.
        track: Option<TrackOptions>;
    }
}
