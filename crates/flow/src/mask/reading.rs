//! Reads frames: from files by any worker, from the pipe of a video by one worker at a time.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use gausset_pano::convert::{self, Moment, Step};
use gausset_pano::film::Film;
use gausset_pano::frames::SourceFrame;
use gausset_pano::plane::Frame;
use gausset_pano::video;

use super::Job;
use super::frame::{HostView, Trouble, Worker};
use super::input::Input;
use super::queue::Queue;
use super::stages::Doing;
use crate::panos::source::Source;

/// The ffmpeg process of a video.
enum Pipe<'a> {
    Closed,
    Open(Box<video::Reader<'a>>),
    /// After an error no more frames are read.
    Broken,
}

/// Source of decoded frames.
pub(super) struct Reading<'a> {
    pipe: Mutex<Pipe<'a>>,
}

/// Index of the next frame, and the decoded frame if it comes from a video.
pub(super) type Next = (usize, Result<Option<Moment>, Trouble>);

impl<'a> Reading<'a> {
    pub(super) fn new() -> Self {
        Self { pipe: Mutex::new(Pipe::Closed) }
    }

    /// Takes the next frame from the queue, and reads it if it comes from a video.
    pub(super) fn next<T>(
        &self,
        job: &Job<'_>,
        queue: &Queue<T>,
        worker: &mut Worker,
        host: &HostView<'a>,
    ) -> Option<Next> {
        worker.ledger.turn_to(Doing::Turn);
        let is_over = || host.stop.load(Ordering::Relaxed);
        let film = match job.input {
            Input::Panoramas(source) => source.film.as_ref(),
            _ => None,
        };
        let Some(film) = film else { return queue.next(is_over).map(|index| (index, Ok(None))) };
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let index = queue.next(is_over)?;
        worker.ledger.turn_to(Doing::Read);
        Some((index, read(film, index, &mut pipe, job, host).map(Some)))
    }
}

fn read<'a>(
    film: &Film,
    index: usize,
    pipe: &mut Pipe<'a>,
    job: &Job<'_>,
    host: &HostView<'a>,
) -> Result<Moment, Trouble> {
    if matches!(pipe, Pipe::Closed) {
        *pipe = Pipe::Broken;
        let reader = film.video.start(host.stop).map_err(|e| Trouble::Frame(e.to_string()))?;
        *pipe = Pipe::Open(Box::new(reader));
    }
    let Pipe::Open(reader) = pipe else { return Err(Trouble::End) };
    let mut frame = Frame::default();
    match reader.read(&film.video, index, &[], job.level, &mut frame) {
        Ok(true) => Ok(film.moment(frame)),
        Ok(false) => Err(Trouble::End),
        Err(error) => {
            *pipe = Pipe::Broken;
            // An error after a stop request is not a broken video.
            let is_stopped = host.stop.load(Ordering::Relaxed);
            Err(if is_stopped { Trouble::Stopped } else { Trouble::Frame(error.to_string()) })
        }
    }
}

/// Reads a frame from image files.
pub(super) fn of_files(
    source: &Source,
    frame: &SourceFrame,
    job: &Job<'_>,
    worker: &mut Worker,
) -> Result<Moment, Trouble> {
    let Source { projection, is_stereo, limits, .. } = source;
    let mut begins = |step| {
        worker.ledger.turn_to(if step == Step::Read { Doing::Read } else { Doing::Decode });
    };
    let read =
        convert::read_in_steps(&frame.files, projection.as_ref(), *is_stereo, limits, job.level, &mut begins);
    read.map_err(|e| Trouble::Frame(e.to_string()))
}
