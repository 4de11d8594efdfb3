//! Frames of a video as pictures: what ordinary footage is trained from.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::fearless_simd::Level;
use gausset_io::atomic::{Disk, write_atomic};

use super::error::VideoError;
use super::open::Video;
use crate::jpeg::encode_frame;
use crate::plane::Frame;

/// Quality of pictures made of frames.
const PICTURE_QUALITY: u8 = 95;

/// Writes the frames of a video as JPEG pictures `frame_NNNNNN.jpg`, at most `most`, spread evenly over the film; `tell`
/// gets how many there are. Returns their number.
///
/// # Errors
/// ffmpeg fails or delivers nothing, a picture cannot be written. `stop` ends it early, without error.
pub fn extract(
    video: &Video,
    folder: &Path,
    most: usize,
    level: Level,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(usize),
) -> Result<usize, VideoError> {
    let video = &video.clone().at_most(most);
    let mut reader = video.start(stop)?;
    let mut frame = Frame::default();
    let all = [[-1, i32::MAX / 2]; 3];
    for index in 0..video.frames {
        if stop.load(Ordering::Relaxed) || !reader.read(video, index, &all, level, &mut frame)? {
            return Ok(index);
        }
        let path = folder.join(format!("frame_{index:06}.jpg"));
        let picture = encode_frame(&frame, PICTURE_QUALITY, level);
        write_atomic(&Disk, &path, |file| file.write_all(&picture))?;
        tell(index + 1);
    }
    Ok(video.frames)
}
