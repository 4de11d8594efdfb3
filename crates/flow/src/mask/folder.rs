//! Masks of all frames: workers create them, the calling thread renames the files and writes the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Instant;

use gausset_io::atomic::{Overwrite, Unnamed};
use gausset_io::{guard, owned};
use gausset_pano::convert::Moment;
use gausset_pano::selection::FILE;
use gausset_pano::split::Skipped;
use gausset_prof::{Ledger, Spent};

use super::files::{self, PURPOSE};
use super::finish::finish;
use super::frame::{HostView, Looked, Outcome, Plans, Trouble, Worker};
use super::input::Input;
use super::manifest::{Line, MANIFEST, Manifest};
use super::queue::{Queue, Ready};
use super::reading::{self, Reading};
use super::report::Masked;
use super::stages::{Doing, times};
use super::{Job, frame, photo};
use crate::{Event, Failure, Host, Part, records};

/// A message from a worker to the calling thread.
enum Told {
    Made(usize, Result<Box<Made>, Stop>),
    /// The worker has ended; time per stage.
    Ended(Vec<Spent>),
}

/// Why a frame, or all remaining frames, have no mask.
enum Stop {
    Trouble(Trouble),
    Failed(Failure),
}

/// Files under temporary names, and the manifest line of the frame.
struct Made {
    files: Vec<Unnamed>,
    line: Line,
}

/// State shared by the workers.
struct Shared<'a> {
    job: &'a Job<'a>,
    manifest: &'a Manifest,
    queue: Queue<Looked>,
    reading: Reading<'a>,
    plans: Plans,
    host: HostView<'a>,
}

/// Creates all masks; `others` says what to do with masks made with other options.
pub(super) fn all(
    job: &Job<'_>,
    others: Overwrite,
    done: &mut Masked,
    host: &mut Host<'_>,
) -> Result<(), Failure> {
    let folder = job.options.output.as_path();
    let overwrite = if job.options.force { Overwrite::Replace } else { Overwrite::Refuse };
    let frames = job.input.frames();
    let names = (0..frames.len()).flat_map(|index| job.input.names(index));
    let below: BTreeSet<PathBuf> = names.flat_map(|names| files::folders(&names)).collect();
    let _lock = records::claim(folder, PURPOSE, below, overwrite, host)?;
    owned::stays_inside(folder, Path::new(MANIFEST))?;
    let manifest = Manifest::read(folder);
    if others == Overwrite::Refuse && manifest.is_of_others(&job.asked) {
        return Err(records::made_otherwise(folder));
    }
    if let Input::Panoramas(source) = job.input
        && let Some(selection) = &source.selection
    {
        owned::stays_inside(folder, Path::new(FILE))?;
        selection.write(&folder.join(FILE), Overwrite::Replace)?;
    }
    let mut lines: BTreeMap<usize, Line> = BTreeMap::new();
    let mut to_do = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        match manifest.finished(&job.settings_of(index), frame) {
            Some(line) if !job.options.force => {
                lines.insert(index, line);
            }
            _ => to_do.push(index),
        }
    }
    done.resumed = lines.len();
    host.report(Event::Begun { part: Part::Frames, done: lines.len() as u64, total: frames.len() as u64 });
    let queue = Queue::new(frames.len(), &to_do, job.reach, job.bounds.ahead);
    let threads = job.bounds.workers.clamp(1, queue.looks().max(1));
    let (reading, plans, view) = (Reading::new(), Plans::default(), HostView::of(host));
    let shared = Shared { job, manifest: &manifest, queue, reading, plans, host: view };
    let (started, mut workers, mut sync) = (Instant::now(), Vec::new(), Spent::default());
    let (send, receive) = mpsc::channel::<Told>();
    let ended = std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, shared) = (send.clone(), &shared);
            scope.spawn(move || {
                let mut worker = Worker::new();
                work(shared, &mut worker, &send);
                // If the job has failed, nothing receives the message.
                let _ = send.send(Told::Ended(worker.ledger.end()));
            });
        }
        drop(send);
        let mut ended = Ok(());
        for told in receive {
            let (index, made) = match told {
                Told::Made(index, made) => (index, made),
                Told::Ended(spent) => {
                    workers.push(spent);
                    continue;
                }
            };
            if ended.is_err() {
                continue;
            }
            let mut ledger = Ledger::<Doing>::begin();
            ledger.turn_to(Doing::Write);
            let frame = &frames[index];
            let finished = match made {
                Ok(made) => {
                    let Made { files, line } = *made;
                    files::named(folder, files, &line, manifest.known(frame)).and_then(|()| {
                        lines.insert(index, line);
                        manifest.write(frames, &lines)
                    })
                }
                // The frame has finished masks already; it was analysed only for its neighbours.
                Err(Stop::Trouble(Trouble::Frame(_))) if lines.contains_key(&index) => Ok(()),
                Err(Stop::Trouble(Trouble::Frame(reason))) => {
                    host.warn("frames", format!("{reason}; skipped"));
                    done.skipped.push(Skipped { frame: frame.stem.clone(), reason });
                    Ok(())
                }
                Err(Stop::Trouble(Trouble::Model(error))) => Err(error.into()),
                Err(Stop::Failed(failure)) => Err(failure),
                Err(Stop::Trouble(Trouble::Stopped | Trouble::End)) => Ok(()),
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
    done.limit = done.times.limit();
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
    manifest.write(&[], &lines)?;
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
fn sum_up<'a>(done: &mut Masked, lines: impl Iterator<Item = &'a Line>) {
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
fn work(shared: &Shared<'_>, worker: &mut Worker, send: &mpsc::Sender<Told>) {
    let Shared { job, queue, reading, host, .. } = shared;
    while let Some((index, moment)) = reading.next(job, queue, worker, host) {
        let looked = moment.and_then(|moment| guarded(shared, index, || look(shared, index, moment, worker)));
        let (seen, told) = match looked {
            Ok(Seen::Sphere(looked)) => (Some(*looked), None),
            Ok(Seen::Photograph(outcome)) => (None, Some(made(shared, index, *outcome, worker))),
            Err(trouble) => (None, Some(Err(Stop::Trouble(trouble)))),
        };
        if told.is_some_and(|told| send.send(Told::Made(index, told)).is_err()) {
            return;
        }
        for ready in queue.put(index, seen) {
            if host.stop.load(Ordering::Relaxed) {
                return;
            }
            let finished = guarded(shared, ready.index, || finish(job, &ready, worker));
            let Ready { index, .. } = ready;
            let told = finished.map_err(Stop::Trouble).and_then(|o| made(shared, index, o, worker));
            queue.finished(index);
            let sent = worker.ledger.during(Doing::Queue, || send.send(Told::Made(index, told)));
            if sent.is_err() {
                return;
            }
        }
    }
}

/// Turns a panic into an error of the frame, so that the job continues.
fn guarded<T>(
    shared: &Shared<'_>,
    index: usize,
    work: impl FnOnce() -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    guard::run(work).unwrap_or_else(|breakdown| {
        let frame = &shared.job.input.frames()[index].stem;
        Err(Trouble::Frame(format!("{frame}: frame: unusable: {breakdown}")))
    })
}

/// Result of analysing a frame.
enum Seen {
    Sphere(Box<Looked>),
    /// A photograph is complete, because it has no neighbouring frames.
    Photograph(Box<Outcome>),
}

fn look(
    shared: &Shared<'_>,
    index: usize,
    moment: Option<Moment>,
    worker: &mut Worker,
) -> Result<Seen, Trouble> {
    let Shared { job, plans, host, .. } = shared;
    let frame = &job.input.frames()[index];
    let looked = match job.input {
        Input::Panoramas(source) => {
            let moment = match moment {
                Some(moment) => moment,
                None => reading::of_files(source, frame, job, worker)?,
            };
            frame::panorama(job, index, moment, plans, worker, host)?
        }
        Input::Photographs(_) => {
            return photo::photograph(job, frame, worker, host).map(|o| Seen::Photograph(Box::new(o)));
        }
        Input::Views(_, description, _) => frame::views(job, description, frame, worker, host)?,
    };
    Ok(Seen::Sphere(Box::new(looked)))
}

/// Encodes and writes the files of a frame under temporary names.
fn made(shared: &Shared<'_>, index: usize, outcome: Outcome, worker: &mut Worker) -> Result<Box<Made>, Stop> {
    let Shared { job, manifest, .. } = shared;
    let source = &job.input.frames()[index];
    worker.ledger.turn_to(Doing::Encode);
    let files = files::encoded(job, &job.input.names(index), &outcome)
        .map_err(|what| Stop::Trouble(Trouble::Frame(format!("{}: mask: {what}", source.stem))))?;
    worker.ledger.turn_to(Doing::Write);
    let unnamed = files::written(job, &files, manifest.known(source)).map_err(Stop::Failed)?;
    let lengths = files.iter().map(|(name, bytes)| (name.display().to_string(), bytes.len() as u64));
    let line = Line {
        frame: source.stem.clone(),
        bytes: source.bytes,
        modified: source.modified,
        settings: job.settings_of(index),
        options: job.asked.clone(),
        engine: job.segmenter.map_or_else(String::new, |segmenter| segmenter.engine().to_owned()),
        model: job.segmenter.map_or_else(String::new, |segmenter| segmenter.hash().to_owned()),
        detections: outcome.finds.len(),
        finds: outcome.finds,
        dropped: outcome.dropped,
        is_alone: outcome.is_alone,
        removed: (outcome.removed * 1e6).round() / 1e6,
        files: lengths.collect(),
    };
    Ok(Box::new(Made { files: unnamed, line }))
}
