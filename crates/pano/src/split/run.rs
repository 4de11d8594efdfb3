//! The whole split: workers cut frames, and the calling thread syncs, renames and records them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gausset_io::atomic::{Disk, FileSystem, Overwrite};
use gausset_io::owned;
use gausset_prof::Spent;

use super::budget::Budget;
use super::demand::threads_within;
use super::error::{LeftOut, SplitError, write_error};
use super::files::{self, Cut};
use super::masks;
use super::plans::Plans;
use super::record::{self, ManifestLine, claim};
use super::report::{Event, Report, Skipped};
use super::settings::{OnError, Settings, Work};
use super::shared::Shared;
use super::stages::StageTimes;
use super::turns::Turns;
use super::worker::{self, Told};
use crate::frames::SourceFrame;
use crate::grade::{self, Grade};

/// Splits frames into views in `folder`.
///
/// # Errors
/// No frame can be used, a file cannot be written, or a frame fails with [`OnError::Stop`].
pub fn split(
    frames: &[SourceFrame],
    settings: &Settings,
    work: &Work,
    folder: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event),
) -> Result<Report, SplitError> {
    record::numbers_differ(settings, frames)?;
    let hash = record::settings_hash(settings);
    claim(folder, if work.force { Overwrite::Replace } else { Overwrite::Refuse })?;
    record::make_folders(settings, folder)?;
    let (finished, todo) = record::find_todo(frames, settings, work, folder, &hash);
    let mut lines: BTreeMap<usize, ManifestLine> = finished;
    let mut report = Report { resumed: lines.len(), ..Report::default() };
    let mut skipped: BTreeMap<usize, String> = BTreeMap::new();
    // While frames are redone, the manifest lists only frames whose files are valid.
    record::write_manifest(folder, lines.values())?;
    let mut manifest = record::Manifest::open(folder)?;
    let shared = Shared {
        frames,
        settings,
        work,
        folder,
        hash: &hash,
        stop,
        failed: AtomicBool::new(false),
        turns: Turns::new(&todo),
        plans: Plans::new(settings, work.threads),
        budget: Budget::new(work.budget),
        grade: (!settings.colouring.is_neutral()).then(|| Grade::new(settings.colouring.clone(), [1.0; 3])),
    };
    if shared.grade.is_some() {
        shared.budget.charge(grade::MOST_BYTES);
    }
    let started = Instant::now();
    let threads = threads_within(&shared, &todo)?.clamp(1, todo.len().max(1));
    let mut failure = None;
    let (mut workers, mut sync) = (Vec::new(), Spent::default());
    std::thread::scope(|scope| {
        // Bounded: workers wait if syncing cannot keep up.
        let (sender, receiver) = mpsc::sync_channel::<Told>(threads + 2);
        for _ in 0..threads {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || worker::work(shared, &sender));
        }
        drop(sender);
        let mut new = 0;
        let next = || {
            let _waits = gausset_prof::span("wait: workers");
            receiver.recv()
        };
        while let Ok(first) = next() {
            // All finished frames share one sync.
            let mut cuts: Vec<Cut> = Vec::new();
            for told in std::iter::once(first).chain(receiver.try_iter().take(threads)) {
                match told {
                    Told::Cut(cut) => cuts.push(*cut),
                    Told::Skipped(LeftOut { index, reason }) => {
                        let frame = frames[index].stem.clone();
                        skipped.insert(index, reason.clone());
                        if work.on_error == OnError::Stop {
                            shared.failed.store(true, Ordering::Relaxed);
                            failure.get_or_insert(SplitError::Stopped(reason.clone()));
                        }
                        tell(Event::Skipped(Skipped { frame, reason }));
                    }
                    Told::Failed(error) => {
                        shared.failed.store(true, Ordering::Relaxed);
                        failure.get_or_insert(error);
                    }
                    Told::Ended(worker) => workers.push(worker),
                }
            }
            let span = gausset_prof::span("sync");
            let finishing = (Instant::now(), gausset_prof::thread_cpu());
            let finished = if cuts.is_empty() { Ok(()) } else { files::finish(&mut cuts, &mut manifest) };
            match finished {
                Ok(()) => {
                    new += cuts.len();
                    lines.extend(cuts.into_iter().map(|cut| (cut.index, cut.line)));
                }
                Err(error) => {
                    shared.failed.store(true, Ordering::Relaxed);
                    failure.get_or_insert(error);
                }
            }
            sync += since(finishing);
            drop(span);
            let views_per_s = (new * settings.views.len()) as f64 / started.elapsed().as_secs_f64().max(1e-9);
            tell(Event::Frame { done: lines.len() + skipped.len(), all: frames.len(), views_per_s });
        }
    });
    report.times = StageTimes::of(&workers, started.elapsed().as_secs_f64(), sync);
    // Leftovers of mask commands, usually none. A folder that Gausset did not create is kept.
    let _ = owned::remove(&folder.join(masks::MASK_FOLDER), masks::MASK_FOLDER_PURPOSE);
    if let Some(error) = failure {
        return Err(error);
    }
    report.is_cancelled = stop.load(Ordering::Relaxed);
    report.frames = lines.len();
    report.views = lines.len() * settings.views.len();
    report.skipped = skipped
        .iter()
        .map(|(&i, reason)| Skipped { frame: frames[i].stem.clone(), reason: reason.clone() })
        .collect();
    if report.is_cancelled {
        return Ok(report);
    }
    if lines.is_empty() {
        let path = frames.first().and_then(|f| f.files.first()).map(|f| f.parent().unwrap_or(f).to_owned());
        let first = report.skipped.first().map_or_else(|| "no frame".to_owned(), |s| s.reason.clone());
        return Err(SplitError::Nothing { path: path.unwrap_or_default(), first });
    }
    let (images, masks) = record::subfolders(settings, folder);
    for folder in images.iter().chain(&masks).filter(|folder| folder.is_dir()) {
        Disk.sync_folder(folder).map_err(write_error(folder, "sync"))?;
    }
    record::write_manifest(folder, lines.values())?;
    record::describe(settings, frames, &lines, folder)?;
    Ok(report)
}

/// Wall and CPU time of the calling thread since then.
fn since((wall, cpu): (Instant, Option<Duration>)) -> Spent {
    let now = gausset_prof::thread_cpu();
    let cpu_s = now.zip(cpu).map_or(0.0, |(now, then)| now.saturating_sub(then).as_secs_f64());
    Spent { wall_s: wall.elapsed().as_secs_f64(), cpu_s }
}
