//! A worker: processes one frame after another, within the memory budget.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use gausset_io::catch_panic;
use gausset_prof::StageTimer;

use super::budget::Reservation;
use super::error::{FrameError, SkippedFrame, SplitError};
use super::files::WrittenFrame;
use super::frame::{WorkerBuffers, process_frame};
use super::memory_estimate::frame_bytes;
use super::plans::PlanKey;
use super::shared::SharedState;
use super::stages::{WorkerStage, WorkerTime};
use crate::cut::cutter::CutTimes;
use crate::source::sphere_video::SphereVideo;
use crate::source::video::VideoError;

/// A message from a worker to the calling thread.
pub(super) enum WorkerMessage {
    Cut(Box<WrittenFrame>),
    Skipped(SkippedFrame),
    Failed(SplitError),
    /// The worker has ended, with its time per stage.
    Ended(WorkerTime),
}

/// Cuts frames until none is left or the split stops.
pub(super) fn run_worker(shared: &SharedState<'_>, sender: &mpsc::SyncSender<WorkerMessage>) {
    let (mut ledger, mut cut) = (StageTimer::start(), CutTimes::default());
    process_frames(shared, sender, &mut ledger, &mut cut);
    let ended = WorkerMessage::Ended(WorkerTime { spent: ledger.end(), cut });
    // If the split has failed, the receiver may be gone.
    let _ = sender.send(ended);
}

fn process_frames(
    shared: &SharedState<'_>,
    sender: &mpsc::SyncSender<WorkerMessage>,
    ledger: &mut StageTimer<WorkerStage>,
    times: &mut CutTimes,
) {
    let mut buffers = WorkerBuffers::default();
    let mut reservation = Reservation::new(&shared.budget);
    while !shared.should_stop() {
        let next = match &shared.settings.video {
            Some(film) => next_from_video(shared, film, &mut buffers, ledger)
                .map_err(|error| WorkerMessage::Failed(error.into())),
            None => next_from_files(shared, &mut buffers, &mut reservation, ledger)
                .map_err(WorkerMessage::Skipped),
        };
        let told = match next {
            Ok(None) => return,
            Err(message) => message,
            Ok(Some(index)) => match process_guarded(shared, index, &mut buffers, (ledger, times)) {
                Some(told) => told,
                None => return,
            },
        };
        // Another worker waits for memory: drop the buffers first, then release their reservation.
        if shared.settings.video.is_none() && shared.budget.has_waiting() {
            buffers = WorkerBuffers::default();
            reservation.release();
        }
        if ledger.run_in_stage(WorkerStage::Queue, || sender.send(told)).is_err() {
            return;
        }
    }
}

/// Takes the next frame in files, and waits until the budget admits it.
fn next_from_files(
    shared: &SharedState<'_>,
    buffers: &mut WorkerBuffers,
    reservation: &mut Reservation<'_>,
    ledger: &mut StageTimer<WorkerStage>,
) -> Result<Option<usize>, SkippedFrame> {
    ledger.switch_to(WorkerStage::Read);
    let Some((index, ahead)) = shared.queue.take(shared.work.threads.max(1)) else { return Ok(None) };
    // The frame that this worker will probably get next.
    ahead.iter().flat_map(|&ahead| &shared.frames[ahead].files).for_each(|file| read_ahead(file));
    match frame_bytes(shared, index) {
        Err(error) => return Err(SkippedFrame { index, reason: error.to_string() }),
        Ok(needed) if needed > reservation.bytes() => {
            *buffers = WorkerBuffers::default();
            ledger.run_in_stage(WorkerStage::Memory, || reservation.replace(needed));
        }
        Ok(_) => {}
    }
    Ok(Some(index))
}

/// Reads the next frame of a video into the buffers.
fn next_from_video(
    shared: &SharedState<'_>,
    film: &SphereVideo,
    buffers: &mut WorkerBuffers,
    ledger: &mut StageTimer<WorkerStage>,
) -> Result<Option<usize>, VideoError> {
    let plan = ledger.run_in_stage(WorkerStage::Tables, || {
        shared.plans.get_or_build(PlanKey::for_video(film), &shared.budget)
    });
    let own = shared.rows_to_decode(&plan);
    // A mask command needs the whole frame, and a cube is folded as a whole.
    let whole = shared.settings.mask_command.is_some() || film.cube.is_some();
    let all = [[if film.cube.is_some() { 0 } else { -1 }, i32::MAX / 2]; 3];
    let rows = if whole { all.as_slice() } else { own.as_slice() };
    let WorkerBuffers { frame, unfolded, .. } = buffers;
    let into = (if film.cube.is_some() { &mut *unfolded } else { &mut *frame }, &mut *ledger);
    match shared.queue.read(&film.video, shared.stop, rows, shared.work.level, into) {
        // A stream that was stopped on request is not an error.
        Err(_) if shared.stop.load(Ordering::Relaxed) => Ok(None),
        next => {
            if let (Some(cube), Ok(Some(_))) = (&film.cube, &next) {
                ledger.run_in_stage(WorkerStage::Decode, || cube.fold(unfolded, frame));
            }
            next
        }
    }
}

/// Cuts a frame; `None` if the split stops. A panic skips the frame and does not end the split.
fn process_guarded(
    shared: &SharedState<'_>,
    index: usize,
    buffers: &mut WorkerBuffers,
    (ledger, times): (&mut StageTimer<WorkerStage>, &mut CutTimes),
) -> Option<WorkerMessage> {
    match catch_panic::catch(|| process_frame(shared, index, buffers, (&mut *ledger, &mut *times))) {
        Ok(Err(FrameError::Frame(_))) if shared.stop.load(Ordering::Relaxed) => None,
        Ok(Ok(cut)) => cut.map(|cut| WorkerMessage::Cut(Box::new(cut))),
        Ok(Err(FrameError::Frame(reason))) => Some(WorkerMessage::Skipped(SkippedFrame { index, reason })),
        Ok(Err(FrameError::Fatal(error))) => Some(WorkerMessage::Failed(error)),
        Err(panic) => {
            *buffers = WorkerBuffers::default();
            let frame = &shared.frames[index];
            let file = frame.files.first().map(|f| f.display().to_string()).unwrap_or_default();
            let reason =
                format!("{file}: picture: internal error while splitting ({panic}); please report it");
            Some(WorkerMessage::Skipped(SkippedFrame { index, reason }))
        }
    }
}

/// Hints the system to read the file ahead; the result is not used.
fn read_ahead(file: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(file) = gausset_io::input::open(file, gausset_io::input::NO_LIMIT) {
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}
