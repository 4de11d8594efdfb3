//! A worker: processes one frame after another, within the memory budget.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use gausset_io::guard;
use gausset_prof::Ledger;

use super::budget::Reservation;
use super::demand::demand;
use super::error::{FrameError, LeftOut, SplitError};
use super::files::Cut;
use super::frame::{Buffers, cut};
use super::plans::Key;
use super::shared::Shared;
use super::stages::{Doing, WorkerTime};
use crate::cutter::Times;
use crate::film::Film;

/// A message from a worker to the calling thread.
pub(super) enum Told {
    Cut(Box<Cut>),
    Skipped(LeftOut),
    Failed(SplitError),
    /// The worker has ended, with its time per stage.
    Ended(WorkerTime),
}

/// Cuts frames until none is left or the split stops.
pub(super) fn work(shared: &Shared<'_>, sender: &mpsc::SyncSender<Told>) {
    let (mut ledger, mut cut) = (Ledger::begin(), Times::default());
    frames(shared, sender, &mut ledger, &mut cut);
    let ended = Told::Ended(WorkerTime { spent: ledger.end(), cut });
    // If the split has failed, the receiver may be gone.
    let _ = sender.send(ended);
}

fn frames(
    shared: &Shared<'_>,
    sender: &mpsc::SyncSender<Told>,
    ledger: &mut Ledger<Doing>,
    times: &mut Times,
) {
    let mut buffers = Buffers::default();
    let mut reservation = Reservation::none(&shared.budget);
    while !shared.is_over() {
        let next = match &shared.settings.film {
            Some(film) => next_of_film(shared, film, &mut buffers, ledger),
            None => next_of_files(shared, &mut buffers, &mut reservation, ledger),
        };
        let told = match next {
            Ok(None) => return,
            Err(left_out) => Told::Skipped(left_out),
            Ok(Some(index)) => match cut_guarded(shared, index, &mut buffers, (ledger, times)) {
                Some(told) => told,
                None => return,
            },
        };
        // Another worker waits for memory: drop the buffers first, then release their reservation.
        if shared.settings.film.is_none() && shared.budget.is_wanted() {
            buffers = Buffers::default();
            reservation.release();
        }
        if ledger.during(Doing::Queue, || sender.send(told)).is_err() {
            return;
        }
    }
}

/// Takes the next frame in files, and waits until the budget admits it.
fn next_of_files(
    shared: &Shared<'_>,
    buffers: &mut Buffers,
    reservation: &mut Reservation<'_>,
    ledger: &mut Ledger<Doing>,
) -> Result<Option<usize>, LeftOut> {
    ledger.turn_to(Doing::Read);
    let Some((index, ahead)) = shared.turns.take(shared.work.threads.max(1)) else { return Ok(None) };
    // The frame that this worker will probably get next.
    ahead.iter().flat_map(|&ahead| &shared.frames[ahead].files).for_each(|file| read_ahead(file));
    match demand(shared, index) {
        Err(error) => return Err(LeftOut { index, reason: error.to_string() }),
        Ok(needed) if needed > reservation.bytes() => {
            *buffers = Buffers::default();
            ledger.during(Doing::Memory, || reservation.renew(needed));
        }
        Ok(_) => {}
    }
    Ok(Some(index))
}

/// Reads the next frame of a video into the buffers.
fn next_of_film(
    shared: &Shared<'_>,
    film: &Film,
    buffers: &mut Buffers,
    ledger: &mut Ledger<Doing>,
) -> Result<Option<usize>, LeftOut> {
    let plan = ledger.during(Doing::Tables, || shared.plans.get(Key::of_film(film), &shared.budget));
    let own = shared.rows(&plan);
    // A mask command needs the whole frame, and a cube is folded as a whole.
    let whole = shared.settings.mask_command.is_some() || film.cube.is_some();
    let all = [[if film.cube.is_some() { 0 } else { -1 }, i32::MAX / 2]; 3];
    let rows = if whole { all.as_slice() } else { own.as_slice() };
    let Buffers { frame, unfolded, .. } = buffers;
    let into = (if film.cube.is_some() { &mut *unfolded } else { &mut *frame }, &mut *ledger);
    match shared.turns.read(&film.video, shared.stop, rows, shared.work.level, into) {
        // A stream that was stopped on request is not an error.
        Err(_) if shared.stop.load(Ordering::Relaxed) => Ok(None),
        next => {
            if let (Some(cube), Ok(Some(_))) = (&film.cube, &next) {
                ledger.during(Doing::Decode, || cube.fold(unfolded, frame));
            }
            next
        }
    }
}

/// Cuts a frame; `None` if the split stops. A panic skips the frame and does not end the split.
fn cut_guarded(
    shared: &Shared<'_>,
    index: usize,
    buffers: &mut Buffers,
    (ledger, times): (&mut Ledger<Doing>, &mut Times),
) -> Option<Told> {
    match guard::run(|| cut(shared, index, buffers, (&mut *ledger, &mut *times))) {
        Ok(Err(FrameError::Frame(_))) if shared.stop.load(Ordering::Relaxed) => None,
        Ok(Ok(cut)) => cut.map(|cut| Told::Cut(Box::new(cut))),
        Ok(Err(FrameError::Frame(reason))) => Some(Told::Skipped(LeftOut { index, reason })),
        Ok(Err(FrameError::Fatal(error))) => Some(Told::Failed(error)),
        Err(panic) => {
            *buffers = Buffers::default();
            let frame = &shared.frames[index];
            let file = frame.files.first().map(|f| f.display().to_string()).unwrap_or_default();
            let reason =
                format!("{file}: picture: internal error while splitting ({panic}); please report it");
            Some(Told::Skipped(LeftOut { index, reason }))
        }
    }
}

/// Hints the system to read the file ahead; the result is not used.
fn read_ahead(file: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(file) = gausset_io::input::open(file, gausset_io::input::STREAMED) {
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}
