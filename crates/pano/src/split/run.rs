//! The split as a whole: workers cut, the calling thread finishes what they cut.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use gausset_io::atomic::{Disk, FileSystem, Overwrite};
use gausset_io::owned;

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
use super::turns::Turns;
use super::worker::{self, Told};
use crate::frames::SourceFrame;
use crate::grade::{self, Grade};

/// Splits frames into views in `folder`.
///
/// # Errors
/// No frame can be used, a file cannot be written, or a bad frame with [`OnError::Stop`].
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
    // Only what is true stays in the manifest while frames are redone.
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
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<Told>(threads + 2);
        for _ in 0..threads {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || worker::work(shared, &sender));
        }
        drop(sender);
        let mut new = 0;
        while let Ok(first) = receiver.recv() {
            // All that is there is brought to the device together.
            let mut cuts: Vec<Cut> = Vec::new();
            for told in std::iter::once(first).chain(receiver.try_iter().take(threads)) {
                match told {
                    Told::Cut(cut, seconds) => {
                        cuts.push(*cut);
                        report.seconds.add(seconds);
                    }
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
                }
            }
            let finishing = Instant::now();
            match files::finish(&mut cuts, &mut manifest) {
                Ok(()) => {
                    new += cuts.len();
                    lines.extend(cuts.into_iter().map(|cut| (cut.index, cut.line)));
                }
                Err(error) => {
                    shared.failed.store(true, Ordering::Relaxed);
                    failure.get_or_insert(error);
                }
            }
            report.seconds.write += finishing.elapsed().as_secs_f64();
            let views_per_s = (new * settings.views.len()) as f64 / started.elapsed().as_secs_f64().max(1e-9);
            tell(Event::Frame { done: lines.len() + skipped.len(), all: frames.len(), views_per_s });
        }
    });
    // What mask commands left; usually there is nothing. One that is not ours stays.
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
