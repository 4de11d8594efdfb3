//! Reads frames in order, from image files or from a video through ffmpeg.

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::fearless_simd::Level;
use gausset_pano::convert::{self, Moment};
use gausset_pano::film::Film;
use gausset_pano::plane::Frame;
use gausset_pano::video::{Reader, VideoError};

use super::source::Source;
use crate::Failure;

/// Why a frame could not be read.
pub(super) enum Trouble {
    /// This frame is unusable and skipped.
    Frame(String),
    /// The video has no more frames; `Some` reason if it is broken.
    End(Option<String>),
    Stopped,
    Fatal(Failure),
}

/// Reads the frames of a source in order.
pub(super) struct Moments<'a> {
    source: &'a Source,
    level: Level,
    stop: &'a AtomicBool,
    /// The running ffmpeg process of a video.
    reader: Option<Reader<'a>>,
}

impl<'a> Moments<'a> {
    pub(super) fn new(source: &'a Source, level: Level, stop: &'a AtomicBool) -> Self {
        Self { source, level, stop, reader: None }
    }

    /// Reads frame `index`; indices must ascend.
    pub(super) fn read(&mut self, index: usize) -> Result<Moment, Trouble> {
        let Source { frames, projection, film, is_stereo, limits, .. } = self.source;
        let Some(film) = film else {
            let Some(frame) = frames.get(index) else { return Err(Trouble::End(None)) };
            let read = convert::read(&frame.files, projection.as_ref(), *is_stereo, limits, self.level);
            return read.map_err(|e| Trouble::Frame(e.to_string()));
        };
        let mut frame = Frame::default();
        match self.of_film(film, index, &mut frame) {
            Ok(true) => Ok(film.moment(frame)),
            Ok(false) => Err(Trouble::End(None)),
            // An error after a stop request is not a broken video.
            Err(_) if self.stop.load(Ordering::Relaxed) => Err(Trouble::Stopped),
            Err(error) => Err(Trouble::End(Some(error.to_string()))),
        }
    }

    fn of_film(&mut self, film: &'a Film, index: usize, frame: &mut Frame) -> Result<bool, VideoError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(film.video.start(self.stop)?),
        };
        reader.read(&film.video, index, &[], self.level, frame)
    }
}
