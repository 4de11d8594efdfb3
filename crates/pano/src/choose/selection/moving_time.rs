//! Time during which the camera moves, and how often a frame is kept in it at least.
//!
//! A step of parallax says little where all is far away, or near the point that the camera moves to. So a video gives at
//! least one frame per second of motion, or [`FEWEST_FRAMES`] in all if that is less; at rest it gives none.

use super::record::FrameRecord;

/// Longest time of motion between two kept frames, seconds, for videos with less than [`FEWEST_FRAMES`] seconds of it.
const MAX_INTERVAL: f64 = 1.0;
/// Number of frames that suffices for any video.
const FEWEST_FRAMES: f64 = 40.0;
/// The camera is at rest from one frame to another if that is this long, seconds,
const REST_SECONDS: f64 = 1.0;
/// and the parallax between them is below this, degrees: a fifth of a pixel of the measured images of a panorama, a
/// pixel of an ordinary image; corners are found more exactly.
const REST_PARALLAX: f64 = 0.06;

/// Time in motion, in intervals after which a frame is kept.
pub(super) struct MovingTime {
    /// Intervals of motion up to each frame.
    pub(super) intervals: Vec<f64>,
    /// Whether the camera is at rest from the previous frame on.
    pub(super) at_rest: Vec<bool>,
}

impl MovingTime {
    pub(super) fn new(lines: &[FrameRecord]) -> Self {
        let at_rest = rests(lines);
        let mut seconds = vec![0.0; lines.len()];
        for k in 1..lines.len() {
            let moving = if at_rest[k] { 0.0 } else { (lines[k].time - lines[k - 1].time).max(0.0) };
            seconds[k] = seconds[k - 1] + moving;
        }
        let all = seconds.last().copied().unwrap_or(0.0);
        let interval = MAX_INTERVAL.max(all / FEWEST_FRAMES);
        Self { intervals: seconds.iter().map(|seconds| seconds / interval).collect(), at_rest }
    }
}

/// Marks the frames that end an interval in which the camera was at rest.
fn rests(lines: &[FrameRecord]) -> Vec<bool> {
    let mut at_rest = vec![false; lines.len()];
    let (mut from, mut marked) = (0, 1);
    for k in 1..lines.len() {
        // The shortest stretch of frames up to this one that is long enough.
        while from + 1 < k && lines[k].time - lines[from + 1].time >= REST_SECONDS {
            from += 1;
        }
        let is_known = lines[k].parallax.is_some() && (lines[from].parallax.is_some() || from == 0);
        let stays = (lines[k].path - lines[from].path).abs() < REST_PARALLAX;
        let is_long = lines[k].time - lines[from].time >= REST_SECONDS || (from == 0 && k + 1 == lines.len());
        if is_known && stays && is_long {
            let first = marked.max(from + 1);
            at_rest[first.min(k)..=k].fill(true);
            marked = k + 1;
        }
        at_rest[k] |= lines[k].duplicate;
    }
    at_rest
}
