//! Reads frames in order, from image files or from a video through ffmpeg.

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::fearless_simd::Level;
use gausset_pano::convert::{self, DecodedFrame};
use gausset_pano::plane::Frame;
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::video::{FrameReader, VideoError};

use super::source::Footage;
use crate::Failure;

/// Why a frame could not be read.
pub(super) enum ReadFailure {
    /// This frame is unusable and skipped.
    Frame(String),
    /// The video has no more frames.
    End,
    /// The video cannot be read further.
    Broken(VideoError),
    Stopped,
    Fatal(Failure),
}

/// Reads the frames of a source in order.
pub(super) struct SourceFrames<'a> {
    source: &'a Footage,
    level: Level,
    stop: &'a AtomicBool,
    /// The running ffmpeg process of a video.
    reader: Option<FrameReader<'a>>,
}

impl<'a> SourceFrames<'a> {
    pub(super) fn new(source: &'a Footage, level: Level, stop: &'a AtomicBool) -> Self {
        Self { source, level, stop, reader: None }
    }

    /// Reads frame `index`; indices must ascend.
    pub(super) fn read(&mut self, index: usize) -> Result<DecodedFrame, ReadFailure> {
        let Footage { frames, projection, film, is_stereo, limits, .. } = self.source;
        let Some(film) = film else {
            let Some(frame) = frames.get(index) else { return Err(ReadFailure::End) };
            let read =
                convert::decode_frame(&frame.files, projection.as_ref(), *is_stereo, limits, self.level);
            return read.map_err(|e| ReadFailure::Frame(e.to_string()));
        };
        let mut frame = Frame::default();
        match self.read_video(film, index, &mut frame) {
            Ok(true) => Ok(film.to_moment(frame)),
            Ok(false) => Err(ReadFailure::End),
            // An error after a stop request is not a broken video.
            Err(_) if self.stop.load(Ordering::Relaxed) => Err(ReadFailure::Stopped),
            Err(error) => Err(ReadFailure::Broken(error)),
        }
    }

    fn read_video(
        &mut self,
        film: &'a SphereVideo,
        index: usize,
        frame: &mut Frame,
    ) -> Result<bool, VideoError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(film.video.start(self.stop)?),
        };
        reader.read_frame(&film.video, index, &[], self.level, frame)
    }
}
