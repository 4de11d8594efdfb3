//! First pass: measures every frame of a video, small and grey, in order.

use std::sync::atomic::{AtomicBool, Ordering};

use super::record::Line;
use super::small::{Shows, SmallFrames, small_size};
use crate::motion::{Grey, Optics, Scout};
use crate::video::{Times, Video, VideoError};

/// Measures the frames of a video between start and end; `times` are their time stamps. The callback receives the
/// number of frames done after each one. If `stop` is set, the result has fewer lines.
///
/// # Errors
/// ffmpeg cannot be started or fails.
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
