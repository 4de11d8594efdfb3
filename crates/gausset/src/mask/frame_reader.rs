//! Reads frames: from files by any worker, from the pipe of a video by one worker at a time.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use gausset_pano::convert::{self, DecodeStep, DecodedFrame};
use gausset_pano::frames::SourceFrame;
use gausset_pano::plane::Frame;
use gausset_pano::sphere_video::SphereVideo;
use gausset_pano::video;

use super::MaskJob;
use super::frame::{FrameError, StopFlag, Worker};
use super::input::MaskInput;
use super::queue::Queue;
use super::stages::WorkerStage;
use crate::panos::source::Footage;

/// The ffmpeg process of a video.
enum Pipe<'a> {
    Closed,
    Open(Box<video::FrameReader<'a>>),
    /// After an error no more frames are read.
    Broken,
}

/// Source of decoded frames.
pub(super) struct FrameReader<'a> {
    pipe: Mutex<Pipe<'a>>,
}

/// Index of the next frame, and the decoded frame if it comes from a video.
pub(super) type Next = (usize, Result<Option<DecodedFrame>, FrameError>);

impl<'a> FrameReader<'a> {
    pub(super) fn new() -> Self {
        Self { pipe: Mutex::new(Pipe::Closed) }
    }

    /// Takes the next frame from the queue, and reads it if it comes from a video.
    pub(super) fn next<T>(
        &self,
        job: &MaskJob<'_>,
        queue: &Queue<T>,
        worker: &mut Worker,
        host: &StopFlag<'a>,
    ) -> Option<Next> {
        worker.ledger.switch_to(WorkerStage::Turn);
        let is_over = || host.stop.load(Ordering::Relaxed);
        let film = match job.input {
            MaskInput::Panoramas(source) => source.film.as_ref(),
            _ => None,
        };
        let Some(film) = film else { return queue.next(is_over).map(|index| (index, Ok(None))) };
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let index = queue.next(is_over)?;
        worker.ledger.switch_to(WorkerStage::Read);
        Some((index, read(film, index, &mut pipe, job, host).map(Some)))
    }
}

fn read<'a>(
    film: &SphereVideo,
    index: usize,
    pipe: &mut Pipe<'a>,
    job: &MaskJob<'_>,
    host: &StopFlag<'a>,
) -> Result<DecodedFrame, FrameError> {
    if matches!(pipe, Pipe::Closed) {
        *pipe = Pipe::Broken;
        let reader = film.video.start(host.stop).map_err(FrameError::Broken)?;
        *pipe = Pipe::Open(Box::new(reader));
    }
    let Pipe::Open(reader) = pipe else { return Err(FrameError::End) };
    let mut frame = Frame::default();
    match reader.read_frame(&film.video, index, &[], job.level, &mut frame) {
        Ok(true) => Ok(film.to_moment(frame)),
        Ok(false) => Err(FrameError::End),
        Err(error) => {
            *pipe = Pipe::Broken;
            // An error after a stop request is not a broken video.
            let is_stopped = host.stop.load(Ordering::Relaxed);
            Err(if is_stopped { FrameError::Stopped } else { FrameError::Broken(error) })
        }
    }
}

/// Reads a frame from image files.
pub(super) fn of_files(
    source: &Footage,
    frame: &SourceFrame,
    job: &MaskJob<'_>,
    worker: &mut Worker,
) -> Result<DecodedFrame, FrameError> {
    let Footage { projection, is_stereo, limits, .. } = source;
    let mut begins = |step| {
        worker.ledger.switch_to(if step == DecodeStep::Read {
            WorkerStage::Read
        } else {
            WorkerStage::Decode
        });
    };
    let read = convert::decode_frame_with_progress(
        &frame.files,
        projection.as_ref(),
        *is_stereo,
        limits,
        job.level,
        &mut begins,
    );
    read.map_err(|e| FrameError::Frame(e.to_string()))
}
