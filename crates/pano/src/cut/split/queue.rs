//! Assigns frames to workers, in order; for a video, one worker at a time reads from the pipe.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use gausset_compute::fearless_simd::Level;
use gausset_jpeg::plane::Frame;
use gausset_prof::StageTimer;

use super::stages::WorkerStage;
use crate::source::video::{FrameReader, Video, VideoError};

/// The remaining frames, by index, in order.
pub(super) struct FrameQueue<'a> {
    remaining: &'a [usize],
    next: AtomicUsize,
    /// The running ffmpeg; the worker that holds the lock reads the next frame.
    reader: Mutex<Option<FrameReader<'a>>>,
}

impl<'a> FrameQueue<'a> {
    pub(super) fn new(todo: &'a [usize]) -> Self {
        Self { remaining: todo, next: AtomicUsize::new(0), reader: Mutex::new(None) }
    }

    /// Takes the next frame, together with the frame that will be taken `ahead` calls later.
    pub(super) fn take(&self, ahead: usize) -> Option<(usize, Option<usize>)> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.remaining.get(turn).map(|&index| (index, self.remaining.get(turn + ahead).copied()))
    }

    /// Takes the next frame of a video and reads `rows` of its planes; `None` at the end. A failure ends the split,
    /// because the stream cannot be resumed.
    pub(super) fn read(
        &self,
        video: &Video,
        stop: &'a AtomicBool,
        rows: &[[i32; 2]],
        level: Level,
        (frame, ledger): (&mut Frame, &mut StageTimer<WorkerStage>),
    ) -> Result<Option<usize>, VideoError> {
        ledger.switch_to(WorkerStage::Turn);
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.switch_to(WorkerStage::Read);
        let Some((index, _)) = self.take(0) else { return Ok(None) };
        // No other worker starts ffmpeg again.
        let broken = |_: &VideoError| self.next.store(usize::MAX / 2, Ordering::Relaxed);
        if reader.is_none() {
            *reader = Some(video.start(stop).inspect_err(broken)?);
        }
        let Some(running) = reader.as_mut() else { return Ok(None) };
        let is_there = running.read_frame(video, index, rows, level, frame).inspect_err(broken)?;
        Ok(is_there.then_some(index))
    }
}
