//! Extracts frames of a video as image files, for training on ordinary footage.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::fearless_simd::Level;
use gausset_io::atomic::{Disk, write_atomic};
use gausset_jpeg::encode_frame;
use gausset_jpeg::plane::Frame;

use super::error::VideoError;
use super::open::Video;

/// JPEG quality of extracted frames.
const JPEG_QUALITY: u8 = 95;

/// Writes at most `most` frames of a video, evenly spaced, as JPEG files `frame_NNNNNN.jpg`. Calls `tell` with the
/// number of frames written so far, and returns their total number.
///
/// # Errors
/// ffmpeg fails or delivers nothing, or an image cannot be written. Setting `stop` ends the extraction early without an
/// error.
pub fn extract(
    video: &Video,
    folder: &Path,
    max_frames: usize,
    level: Level,
    stop: &AtomicBool,
    on_frame: &mut dyn FnMut(usize),
) -> Result<usize, VideoError> {
    let video = &video.clone().limited_to(max_frames);
    let mut reader = video.start(stop)?;
    let mut frame = Frame::default();
    let all = [[-1, i32::MAX / 2]; 3];
    for index in 0..video.frames {
        if stop.load(Ordering::Relaxed) || !reader.read_frame(video, index, &all, level, &mut frame)? {
            return Ok(index);
        }
        let path = folder.join(format!("frame_{index:06}.jpg"));
        let picture = encode_frame(&frame, JPEG_QUALITY, level);
        write_atomic(&Disk, &path, |file| file.write_all(&picture))?;
        on_frame(index + 1);
    }
    Ok(video.frames)
}
