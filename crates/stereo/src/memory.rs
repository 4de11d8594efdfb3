//! Memory of stereo.
//!
//! Per pixel of a depth map, for all views at once: texels 4 + 1 (the quarter is the image at half size), colours 3,
//! masks 2.25, inverse depth and score 8 + 2, the surface to refine and the one behind its edges 1 + 1, support 3 (and
//! 0.75 at half size), the depth map 4: 30 bytes, of which at most 26.25 exist at the same time. Per thread, the buffers of
//! the kernel for a band of rows, counted for [`ASSUMED_THREADS`] threads: the size of the maps must not depend on the actual
//! number. Images passed in by the caller are not included; there is one at a time.

use crate::StereoView;
use crate::sweep::{BAND_ROWS, scratch_bytes_per_column};

/// Bytes per pixel of the depth maps.
const BYTES_PER_PIXEL: u64 = 28;
/// Number of threads that is assumed; each further thread takes 0.6 MB at 400 px.
const ASSUMED_THREADS: u64 = 16;
/// Minimum longest side of depth maps that are made smaller to fit into memory, in px.
const MIN_SIDE: u32 = 48;

/// Integer factor by which an image is downsampled for its longest side to be at most `longest_side`.
pub(crate) fn factor(view: &StereoView, longest_side: u32) -> u32 {
    view.camera.width.max(view.camera.height).div_ceil(longest_side.max(1))
}

/// Peak bytes for depth maps of these views.
#[must_use]
pub fn required_bytes(views: &[StereoView], longest_side: u32) -> u64 {
    let pixels = |view: &StereoView| {
        let factor = factor(view, longest_side);
        u64::from(view.camera.width / factor) * u64::from(view.camera.height / factor)
    };
    let columns = u64::from(longest_side).next_multiple_of(16);
    let scratch = columns * scratch_bytes_per_column(BAND_ROWS);
    views.iter().map(pixels).sum::<u64>() * BYTES_PER_PIXEL + scratch * ASSUMED_THREADS
}

/// The largest side, at most `wanted`, that fits into memory; `None` if none does.
#[must_use]
pub fn largest_side(views: &[StereoView], wanted: u32, limit: u64) -> Option<u32> {
    let mut side = wanted;
    while required_bytes(views, side) > limit {
        side = side * 7 / 8;
        if side < MIN_SIDE {
            return None;
        }
    }
    Some(side)
}
