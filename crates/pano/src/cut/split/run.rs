//! The whole split: workers cut frames, and the calling thread syncs, renames and records them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gausset_io::atomic::{Disk, FileSystem, Overwrite};
use gausset_io::ownership;
use gausset_prof::StageTime;

use super::budget::MemoryBudget;
use super::error::{SkippedFrame, SplitError, write_error};
use super::files::{self, WrittenFrame};
use super::masks;
use super::memory_estimate::threads_within_budget;
use super::plans::PlanCache;
use super::queue::FrameQueue;
use super::record::{self, ManifestLine, claim};
use super::report::{Skipped, SplitEvent, SplitReport};
use super::settings::{OnError, SplitSettings, WorkerSettings};
use super::shared::SharedState;
use super::stages::StageTimes;
use super::worker::{self, WorkerMessage};
use crate::cut::grade::{self, Grade};
use crate::source::frames::SourceFrame;

/// Splits frames into views in `folder`.
///
/// # Errors
/// No frame can be used, a file cannot be written, or a frame fails with [`OnError::Stop`].
pub fn split(
    frames: &[SourceFrame],
    settings: &SplitSettings,
    work: &WorkerSettings,
    folder: &Path,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(SplitEvent),
) -> Result<SplitReport, SplitError> {
    record::check_unique_numbers(settings, frames)?;
    let hash = record::settings_hash(settings);
    claim(folder, if work.force { Overwrite::Replace } else { Overwrite::Refuse })?;
    record::make_folders(settings, folder)?;
    let earlier = record::own_files(folder);
    let (finished, todo) = record::split_by_state(frames, settings, work, folder, &hash);
    let mut lines: BTreeMap<usize, ManifestLine> = finished;
    let mut report = SplitReport { resumed: lines.len(), ..SplitReport::default() };
    let mut skipped: BTreeMap<usize, String> = BTreeMap::new();
    if !todo.is_empty() && record::has_other_settings(folder, settings) {
        record::remove_description(folder)?;
    }
    // While frames are redone, the manifest lists only frames whose files are valid.
    record::write_manifest(folder, lines.values())?;
    let mut manifest = record::ManifestWriter::open(folder)?;
    let shared = SharedState {
        frames,
        settings,
        work,
        folder,
        hash: &hash,
        stop,
        failed: AtomicBool::new(false),
        queue: FrameQueue::new(&todo),
        plans: PlanCache::new(settings, work.threads),
        budget: MemoryBudget::new(work.memory_budget),
        grade: (!settings.colouring.is_neutral()).then(|| Grade::new(settings.colouring.clone(), [1.0; 3])),
    };
    if shared.grade.is_some() {
        shared.budget.charge(grade::MAX_BYTES);
    }
    let started = Instant::now();
    let threads = threads_within_budget(&shared, &todo)?.clamp(1, todo.len().max(1));
    let mut failure = None;
    let (mut workers, mut sync) = (Vec::new(), StageTime::default());
    std::thread::scope(|scope| {
        // Bounded: workers wait if syncing cannot keep up.
        let (sender, receiver) = mpsc::sync_channel::<WorkerMessage>(threads + 2);
        for _ in 0..threads {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || worker::run_worker(shared, &sender));
        }
        drop(sender);
        let mut new = 0;
        let next = || {
            let _waits = gausset_prof::span("wait: workers");
            receiver.recv()
        };
        while let Ok(first) = next() {
            // All finished frames share one sync.
            let mut cuts: Vec<WrittenFrame> = Vec::new();
            for message in std::iter::once(first).chain(receiver.try_iter().take(threads)) {
                match message {
                    WorkerMessage::Cut(cut) => cuts.push(*cut),
                    WorkerMessage::Skipped(SkippedFrame { index, reason }) => {
                        let frame = frames[index].stem.clone();
                        skipped.insert(index, reason.clone());
                        if work.on_error == OnError::Stop {
                            shared.failed.store(true, Ordering::Relaxed);
                            failure.get_or_insert(SplitError::Stopped(reason.clone()));
                        }
                        on_event(SplitEvent::Skipped(Skipped { frame, reason }));
                    }
                    WorkerMessage::Failed(error) => {
                        shared.failed.store(true, Ordering::Relaxed);
                        failure.get_or_insert(error);
                    }
                    WorkerMessage::Ended(worker) => workers.push(worker),
                }
            }
            let span = gausset_prof::span("sync");
            let finishing = (Instant::now(), gausset_prof::thread_cpu());
            let finished =
                if cuts.is_empty() { Ok(()) } else { files::name_and_record(&mut cuts, &mut manifest) };
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
            sync += spent_since(finishing);
            drop(span);
            let views_per_s = (new * settings.views.len()) as f64 / started.elapsed().as_secs_f64().max(1e-9);
            on_event(SplitEvent::Frame {
                done: lines.len() + skipped.len(),
                total: frames.len(),
                views_per_s,
            });
        }
    });
    report.times = StageTimes::from_workers(&workers, started.elapsed().as_secs_f64(), sync);
    // Leftovers of mask commands, usually none. A folder that Gausset did not create is kept.
    let _ = ownership::remove(&folder.join(masks::MASK_FOLDER), masks::MASK_FOLDER_PURPOSE);
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
        return Err(SplitError::NoFrames { path: path.unwrap_or_default(), first });
    }
    let (images, masks) = record::subfolders(settings, folder);
    for folder in images.iter().chain(&masks).filter(|folder| folder.is_dir()) {
        Disk.sync_folder(folder).map_err(write_error(folder, "sync"))?;
    }
    record::write_manifest(folder, lines.values())?;
    record::write_description(settings, frames, &lines, folder, earlier)?;
    Ok(report)
}

/// Wall and CPU time of the calling thread since then.
fn spent_since((wall, cpu): (Instant, Option<Duration>)) -> StageTime {
    let now = gausset_prof::thread_cpu();
    let cpu_s = now.zip(cpu).map_or(0.0, |(now, then)| now.saturating_sub(then).as_secs_f64());
    StageTime { wall_s: wall.elapsed().as_secs_f64(), cpu_s }
}
