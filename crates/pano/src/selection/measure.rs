//! The first pass: every frame of a film, small and grey, in order.

use std::sync::atomic::{AtomicBool, Ordering};

use super::record::Line;
use super::small::{Shows, SmallFrames, small_size};
use crate::motion::{Grey, Optics, Scout};
use crate::video::{Times, Video, VideoError};

/// Measures the frames of a film between start and end, taken at these times; `tell` gets how many are done. What stopped
/// early has fewer lines.
///
/// # Errors
/// ffmpeg fails.
pub fn measure(
    video: &Video,
    shows: &Shows,
    times: &Times,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(usize),
) -> Result<Vec<Line>, VideoError> {
    let size = small_size(shows, video.size);
    let [width, height] = size.map(|side| side as usize);
    let optics = match shows {
        Shows::Pinhole => Optics::pinhole(width, height),
        Shows::Sphere | Shows::Folded(_) => Optics::sphere(width, height),
    };
    let mut frames = SmallFrames::start(video, shows, size, true, stop)?;
    let (mut scout, mut picture) = (Scout::new(optics), Grey::default());
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) && frames.read(video, &mut picture.data)? {
        (picture.width, picture.height) = (width, height);
        scout.look(&mut picture);
        done += 1;
        tell(done);
    }
    Ok(scout.finish().iter().enumerate().map(|(k, sight)| Line::of(k, times.of(k), sight)).collect())
}
