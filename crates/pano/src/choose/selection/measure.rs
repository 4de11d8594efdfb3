//! First pass: measures every frame of a video, small and grey, in order.

use std::sync::atomic::{AtomicBool, Ordering};

use super::record::FrameRecord;
use super::small_frames::{FrameContent, SmallFrames, small_size};
use crate::choose::motion::{GreyImage, MotionEstimator, SmallProjection};
use crate::source::video::{FrameTimes, Video, VideoError};

/// Measures the frames of a video between start and end; `times` are their time stamps. The callback receives the
/// number of frames done after each one. If `stop` is set, the result has fewer lines.
///
/// # Errors
/// ffmpeg cannot be started or fails.
pub fn measure_frames(
    video: &Video,
    shows: &FrameContent,
    times: &FrameTimes,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(usize),
) -> Result<Vec<FrameRecord>, VideoError> {
    let size = small_size(shows, video.size);
    let [width, height] = size.map(|side| side as usize);
    let optics = match shows {
        FrameContent::Pinhole => SmallProjection::pinhole(width, height),
        FrameContent::Sphere | FrameContent::Projected(_) => SmallProjection::sphere(width, height),
    };
    let mut frames = SmallFrames::start(video, shows, size, true, stop)?;
    let (mut scout, mut picture) = (MotionEstimator::new(optics), GreyImage::default());
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) && frames.read(video, &mut picture.data)? {
        (picture.width, picture.height) = (width, height);
        scout.add_frame(&mut picture);
        done += 1;
        tell(done);
    }
    Ok(scout
        .finish()
        .iter()
        .enumerate()
        .map(|(k, sight)| FrameRecord::new(k, times.seconds(k), sight))
        .collect())
}
