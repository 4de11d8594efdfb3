//! Masks of all frames: workers create them, the calling thread renames the files and writes the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Instant;

use gausset_io::atomic::{Overwrite, UnnamedFile};
use gausset_io::text::counted;
use gausset_io::{catch_panic, ownership};
use gausset_pano::convert::DecodedFrame;
use gausset_pano::split::Skipped;
use gausset_prof::{StageTime, StageTimer};

use super::files::{self, PURPOSE};
use super::finish::finish_frame;
use super::frame::{Detections, FrameError, FrameMasks, Plans, StopFlag, Worker};
use super::frame_reader::{self, FrameReader};
use super::input::MaskInput;
use super::manifest::{MANIFEST, Manifest, ManifestEntry};
use super::queue::{Queue, ReadyFrame};
use super::report::MaskResult;
use super::stages::{WorkerStage, times};
use super::{MaskJob, frame, photo};
use crate::frame_selection::broken_video;
use crate::{CountedItem, Event, Failure, Host, records};

/// A message from a worker to the calling thread.
enum Message {
    Made(usize, Result<Box<WrittenFrame>, WorkerError>),
    /// The worker has ended; time per stage.
    Ended(Vec<StageTime>),
}

/// Why a frame, or all remaining frames, have no mask.
enum WorkerError {
    Trouble(FrameError),
    Failed(Failure),
}

/// Files under temporary names, and the manifest line of the frame.
struct WrittenFrame {
    files: Vec<UnnamedFile>,
    line: ManifestEntry,
}

/// State shared by the workers.
struct Shared<'a> {
    job: &'a MaskJob<'a>,
    manifest: &'a Manifest,
    queue: Queue<Detections>,
    reading: FrameReader<'a>,
    plans: Plans,
    host: StopFlag<'a>,
}

/// Creates all masks; `others` says what to do with masks made with other options.
pub(super) fn mask_folder(
    job: &MaskJob<'_>,
    others: Overwrite,
    done: &mut MaskResult,
    host: &mut Host<'_>,
) -> Result<(), Failure> {
    let folder = job.options.output.as_path();
    let overwrite = if job.options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let frames = job.input.frames();
    let names = (0..frames.len()).flat_map(|index| job.input.names(index));
    let below: BTreeSet<PathBuf> = names.flat_map(|names| files::folders(&names)).collect();
    let _lock = records::claim(folder, PURPOSE, below, overwrite, host)?;
    ownership::check_inside(folder, Path::new(MANIFEST))?;
    let manifest = Manifest::read(folder, frames);
    if others == Overwrite::Refuse && manifest.has_other_options(&job.options_hash) {
        return Err(records::other_settings(folder));
    }
    if let MaskInput::Panoramas(source) = job.input {
        source.write_selection(folder)?;
    }
    let mut lines: BTreeMap<usize, ManifestEntry> = BTreeMap::new();
    let mut to_do = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        match manifest.finished(&job.settings_of(index), frame) {
            Some(line) if !job.options.force => {
                lines.insert(index, line);
            }
            _ => to_do.push(index),
        }
    }
    let edited: Vec<&String> = lines.values().flat_map(|line| manifest.edited(line)).collect();
    if let Some(first) = edited.first() {
        let files = counted(edited.len() as u64, "file");
        let line = format!(
            "{}: {files} changed since made (the first: {first}); kept, redone with ⟨force⟩",
            folder.display()
        );
        host.warn("masks", line);
    }
    done.resumed = lines.len();
    host.report(Event::Begun {
        item: CountedItem::Frames,
        done: lines.len() as u64,
        total: frames.len() as u64,
    });
    let queue = Queue::new(frames.len(), &to_do, job.neighbours, job.bounds.ahead);
    let threads = job.bounds.workers.clamp(1, queue.analysis_count().max(1));
    let (reading, plans, view) = (FrameReader::new(), Plans::default(), StopFlag::of(host));
    let shared = Shared { job, manifest: &manifest, queue, reading, plans, host: view };
    let (started, mut workers, mut sync) = (Instant::now(), Vec::new(), StageTime::default());
    let (send, receive) = mpsc::channel::<Message>();
    let ended = std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, shared) = (send.clone(), &shared);
            scope.spawn(move || {
                let mut worker = Worker::new();
                run_worker(shared, &mut worker, &send);
                // If the job has failed, nothing receives the message.
                let _ = send.send(Message::Ended(worker.ledger.end()));
            });
        }
        drop(send);
        let mut ended = Ok(());
        for told in receive {
            let (index, made) = match told {
                Message::Made(index, made) => (index, made),
                Message::Ended(spent) => {
                    workers.push(spent);
                    continue;
                }
            };
            if ended.is_err() {
                continue;
            }
            let mut ledger = StageTimer::<WorkerStage>::start();
            ledger.switch_to(WorkerStage::Write);
            let frame = &frames[index];
            let finished = match made {
                Ok(made) => {
                    let WrittenFrame { files, line } = *made;
                    files::named(folder, files, &line, manifest.earlier_entry(frame)).and_then(|()| {
                        lines.insert(index, line);
                        manifest.write(frames, &lines)
                    })
                }
                // The frame has finished masks already; it was analysed only for its neighbours.
                Err(WorkerError::Trouble(FrameError::Frame(_))) if lines.contains_key(&index) => Ok(()),
                Err(WorkerError::Trouble(FrameError::Frame(reason))) => {
                    host.warn("frames", format!("{reason}; skipped"));
                    done.skipped.push(Skipped { frame: frame.stem.clone(), reason });
                    Ok(())
                }
                Err(WorkerError::Trouble(FrameError::Model(error))) => Err(error.into()),
                Err(WorkerError::Trouble(FrameError::Broken(error))) => Err(broken_video(error)),
                Err(WorkerError::Failed(failure)) => Err(failure),
                Err(WorkerError::Trouble(FrameError::Stopped | FrameError::End)) => Ok(()),
            };
            ledger.end().into_iter().for_each(|spent| sync += spent);
            if finished.is_err() {
                shared.queue.end();
                ended = finished;
                continue;
            }
            host.report(Event::Done { done: (lines.len() + done.skipped.len()) as u64, views_per_s: None });
        }
        ended
    });
    host.report(Event::Ended);
    done.times = times(&workers, started.elapsed().as_secs_f64(), sync);
    done.limit = done.times.bottleneck();
    ended?;
    done.is_cancelled = host.is_stopping() && lines.len() + done.skipped.len() < frames.len();
    done.skipped.sort_by(|a, b| a.frame.cmp(&b.frame));
    sum_up(done, lines.values());
    let alone = lines.values().filter(|line| line.is_alone).count();
    if alone > 0 {
        let all = lines.len();
        host.warn(
            "over time",
            format!("{alone} of {all} frames have no temporal check: the camera rotation to their neighbours is unknown"),
        );
    }
    if done.is_cancelled {
        return Ok(());
    }
    // Names of files stay theirs: a second folder of photographs adds to the masks of the first.
    if job.input.is_video() {
        manifest.finish(&lines)?;
    } else {
        manifest.write(frames, &lines)?;
    }
    if lines.is_empty() {
        let first = done.skipped.first().map_or_else(|| "no frame".to_owned(), |s| s.reason.clone());
        let path = job.options.input.display();
        return Err(Failure::new(
            "frames",
            format!("{path}: frames: none could be used (the first: {first})"),
        ));
    }
    Ok(())
}

/// Sums up the manifest lines.
fn sum_up<'a>(done: &mut MaskResult, lines: impl Iterator<Item = &'a ManifestEntry>) {
    done.frames = 0;
    for line in lines {
        done.frames += 1;
        done.with_finds += usize::from(line.detections > 0);
        done.detections += line.detections;
        done.dropped += line.dropped;
        done.removed_mean += line.removed;
        for find in &line.finds {
            *done.classes.entry(find.class.clone()).or_default() += 1;
            done.filled += usize::from(find.is_filled);
        }
        if line.removed > done.removed_worst {
            done.removed_worst = line.removed;
            done.worst = Some(line.frame.clone());
        }
    }
    done.removed_mean /= done.frames.max(1) as f64;
}

/// Analyses frames, and finishes those that become ready.
fn run_worker(shared: &Shared<'_>, worker: &mut Worker, send: &mpsc::Sender<Message>) {
    let Shared { job, queue, reading, host, .. } = shared;
    while let Some((index, moment)) = reading.next(job, queue, worker, host) {
        let looked =
            moment.and_then(|moment| catch_panic(shared, index, || analyse(shared, index, moment, worker)));
        let (seen, told) = match looked {
            Ok(Analysis::Sphere(looked)) => (Some(*looked), None),
            Ok(Analysis::Photograph(outcome)) => (None, Some(write_frame(shared, index, *outcome, worker))),
            Err(error @ FrameError::Broken(_)) => {
                // The frames before it stay unfinished: they need it as a neighbour.
                let _ = send.send(Message::Made(index, Err(WorkerError::Trouble(error))));
                return;
            }
            Err(trouble) => (None, Some(Err(WorkerError::Trouble(trouble)))),
        };
        if told.is_some_and(|told| send.send(Message::Made(index, told)).is_err()) {
            return;
        }
        for ready in queue.store(index, seen) {
            if host.stop.load(Ordering::Relaxed) {
                return;
            }
            let finished = catch_panic(shared, ready.index, || finish_frame(job, &ready, worker));
            let ReadyFrame { index, .. } = ready;
            let told =
                finished.map_err(WorkerError::Trouble).and_then(|o| write_frame(shared, index, o, worker));
            queue.finished(index);
            let sent =
                worker.ledger.run_in_stage(WorkerStage::Queue, || send.send(Message::Made(index, told)));
            if sent.is_err() {
                return;
            }
        }
    }
}

/// Turns a panic into an error of the frame, so that the job continues.
fn catch_panic<T>(
    shared: &Shared<'_>,
    index: usize,
    work: impl FnOnce() -> Result<T, FrameError>,
) -> Result<T, FrameError> {
    catch_panic::catch(work).unwrap_or_else(|breakdown| {
        let frame = &shared.job.input.frames()[index].stem;
        Err(FrameError::Frame(format!("{frame}: frame: unusable: {breakdown}")))
    })
}

/// Result of analysing a frame.
enum Analysis {
    Sphere(Box<Detections>),
    /// A photograph is complete, because it has no neighbouring frames.
    Photograph(Box<FrameMasks>),
}

fn analyse(
    shared: &Shared<'_>,
    index: usize,
    moment: Option<DecodedFrame>,
    worker: &mut Worker,
) -> Result<Analysis, FrameError> {
    let Shared { job, plans, host, .. } = shared;
    let frame = &job.input.frames()[index];
    let looked = match job.input {
        MaskInput::Panoramas(source) => {
            let moment = match moment {
                Some(moment) => moment,
                None => frame_reader::of_files(source, frame, job, worker)?,
            };
            frame::panorama(job, index, moment, plans, worker, host)?
        }
        MaskInput::Photographs(..) => {
            return photo::photograph(job, frame, worker, host).map(|o| Analysis::Photograph(Box::new(o)));
        }
        MaskInput::Views(_, description, _) => frame::views(job, description, frame, worker, host)?,
    };
    Ok(Analysis::Sphere(Box::new(looked)))
}

/// Encodes and writes the files of a frame under temporary names.
fn write_frame(
    shared: &Shared<'_>,
    index: usize,
    outcome: FrameMasks,
    worker: &mut Worker,
) -> Result<Box<WrittenFrame>, WorkerError> {
    let Shared { job, manifest, .. } = shared;
    let source = &job.input.frames()[index];
    worker.ledger.switch_to(WorkerStage::Encode);
    let files = files::encoded(job, index, &outcome).map_err(WorkerError::Trouble)?;
    worker.ledger.switch_to(WorkerStage::Write);
    let unnamed = files::written(job, &files, manifest.earlier_entry(source)).map_err(WorkerError::Failed)?;
    let lengths = files.iter().map(|(name, bytes)| (name.display().to_string(), bytes.len() as u64));
    let line = ManifestEntry {
        frame: source.stem.clone(),
        bytes: source.bytes,
        modified: source.modified,
        settings: job.settings_of(index),
        options: job.options_hash.clone(),
        engine: job.segmenter.map_or_else(String::new, |segmenter| segmenter.engine().to_owned()),
        model: job.segmenter.map_or_else(String::new, |segmenter| segmenter.hash().to_owned()),
        detections: outcome.finds.len(),
        finds: outcome.finds,
        dropped: outcome.dropped,
        is_alone: outcome.is_unchecked,
        removed: (outcome.removed * 1e6).round() / 1e6,
        files: lengths.collect(),
    };
    Ok(Box::new(WrittenFrame { files: unnamed, line }))
}
