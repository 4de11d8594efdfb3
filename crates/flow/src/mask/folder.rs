//! Masks of all frames: workers, files, the manifest.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use gausset_io::atomic::{Disk, FileSystem, Overwrite, name_together, write_atomic, write_unnamed};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::lock::FolderLock;
use gausset_io::{guard, input, owned};
use gausset_pano::frames::SourceFrame;
use gausset_pano::sphere_mask::REMOVED;
use gausset_pano::split::Skipped;
use gausset_segment::ENGINE;
use serde::{Deserialize, Serialize};

use super::frame::{HostView, Outcome, Plans, Trouble, Worker};
use super::input::Input;
use super::report::{Masked, MaskedFind, StageSeconds};
use super::{Job, Modes, frame, photo};
use crate::{Event, Failure, Host, Part, device};

/// What makes a folder of masks ours.
const PURPOSE: &str = "masks";
/// Name of the manifest in it.
const MANIFEST: &str = "masks.jsonl";
/// Longest manifest that is read.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;
/// Folder of the cut-outs, beside the masks.
const CUTOUTS: &str = "cutouts";

/// A line of the manifest: a frame that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    frame: String,
    /// Length of its pictures, and when they were changed.
    bytes: u64,
    modified: u64,
    /// Hash of what decides the bytes: model, engine, description, options.
    settings: String,
    engine: String,
    model: String,
    detections: usize,
    finds: Vec<MaskedFind>,
    /// Share of the sphere, or of the photograph, that is removed.
    removed: f64,
    /// Files that were written, with their lengths.
    files: BTreeMap<String, u64>,
}

/// A frame that a worker is done with.
type Sent = (usize, Result<Made, Trouble>, StageSeconds);

/// Files and a line for the manifest.
struct Made {
    files: Vec<(PathBuf, Vec<u8>)>,
    line: Line,
}

pub(super) fn all(job: &Job<'_>, done: &mut Masked, host: &mut Host<'_>) -> Result<(), Failure> {
    let folder = job.options.output.as_path();
    let overwrite = if job.options.force { Overwrite::Replace } else { Overwrite::Refuse };
    owned::claim(&Disk, folder, PURPOSE, overwrite)?;
    let lock = FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))?;
    if let Some(note) = &lock.note {
        host.warn("the folder", note);
    }
    owned::stays_inside(folder, Path::new(MANIFEST))?;
    let manifest = Manifest::read(folder);
    let frames = job.input.frames();
    let mut lines: BTreeMap<usize, Line> = BTreeMap::new();
    let mut to_do = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        match manifest.finished(job, frame) {
            Some(line) if !job.options.force => {
                lines.insert(index, line);
            }
            _ => to_do.push(index),
        }
    }
    done.resumed = lines.len();
    let total = frames.len() as u64;
    host.report(Event::Begun { part: Part::Frames, done: lines.len() as u64, total });
    let (next, give_up) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, receive) = mpsc::channel::<Sent>();
    let plans = Plans::default();
    let threads = device::threads(job.options.threads).clamp(1, to_do.len().max(1));
    let view = HostView::of(host);
    let ended = std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, plans, next, give_up, to_do, view) =
                (send.clone(), &plans, &next, &give_up, &to_do, &view);
            scope.spawn(move || {
                let mut worker = Worker::default();
                while let Some(&index) = to_do.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if give_up.load(Ordering::Relaxed) || view.stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let made = guard::run(|| made(job, index, plans, &mut worker, view));
                    let made = made.unwrap_or_else(|breakdown| {
                        let what = format!("{}: frame: cannot be used: {breakdown}", frames[index].stem);
                        Err(Trouble::Frame(what))
                    });
                    if send.send((index, made, std::mem::take(&mut worker.seconds))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut ended = Ok(());
        for (index, made, seconds) in receive {
            done.seconds.add(&seconds);
            if ended.is_err() {
                continue;
            }
            let finished = match made {
                Ok(made) => write(job, made, manifest.known.get(&frames[index].stem)).and_then(|line| {
                    lines.insert(index, line);
                    manifest.write(frames, &lines)
                }),
                Err(Trouble::Frame(reason)) => {
                    host.warn("frames", format!("{reason}; skipped"));
                    done.skipped.push(Skipped { frame: frames[index].stem.clone(), reason });
                    Ok(())
                }
                Err(Trouble::Model(error)) => Err(error.into()),
                Err(Trouble::Stopped) => Ok(()),
            };
            if finished.is_err() {
                give_up.store(true, Ordering::Relaxed);
                ended = finished;
                continue;
            }
            host.report(Event::Done { done: (lines.len() + done.skipped.len()) as u64, views_per_s: None });
        }
        ended
    });
    host.report(Event::Ended);
    ended?;
    done.is_cancelled = host.is_stopping() && lines.len() + done.skipped.len() < frames.len();
    done.skipped.sort_by(|a, b| a.frame.cmp(&b.frame));
    sum_up(done, lines.values());
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

/// What the lines say together.
fn sum_up<'a>(done: &mut Masked, lines: impl Iterator<Item = &'a Line>) {
    done.frames = 0;
    for line in lines {
        done.frames += 1;
        done.with_finds += usize::from(line.detections > 0);
        done.detections += line.detections;
        done.removed_mean += line.removed;
        for find in &line.finds {
            *done.classes.entry(find.class.clone()).or_default() += 1;
        }
        if line.removed > done.removed_worst {
            done.removed_worst = line.removed;
            done.worst = Some(line.frame.clone());
        }
    }
    done.removed_mean /= done.frames.max(1) as f64;
}

/// The files of a frame, in memory.
fn made(
    job: &Job<'_>,
    index: usize,
    plans: &Plans,
    worker: &mut Worker,
    host: &HostView<'_>,
) -> Result<Made, Trouble> {
    let source = &job.input.frames()[index];
    let outcome = match job.input {
        Input::Panoramas(_) => frame::panorama(job, (index, source), plans, worker, host)?,
        Input::Photographs(_) => photo::photograph(job, source, worker, host)?,
        Input::Views(description, _) => frame::views(job, description, source, worker, host)?,
    };
    let started = Instant::now();
    let names = job.input.names(index);
    let files = encoded(job, &names, &outcome)
        .map_err(|what| Trouble::Frame(format!("{}: mask: {what}", source.stem)))?;
    worker.seconds.write += started.elapsed().as_secs_f64();
    let lengths = files.iter().map(|(name, bytes)| (name.display().to_string(), bytes.len() as u64));
    let line = Line {
        frame: source.stem.clone(),
        bytes: source.bytes,
        modified: source.modified,
        settings: job.settings.clone(),
        engine: job.segmenter.map_or_else(String::new, |_| ENGINE.to_owned()),
        model: job.segmenter.map_or_else(String::new, |segmenter| segmenter.hash().to_owned()),
        detections: outcome.finds.len(),
        finds: outcome.finds,
        removed: (outcome.removed * 1e6).round() / 1e6,
        files: lengths.collect(),
    };
    Ok(Made { files, line })
}

/// Masks as PNG, and cut-outs where they are wanted. A mask that keeps everything is no file.
fn encoded(job: &Job<'_>, names: &[PathBuf], outcome: &Outcome) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let mut files = Vec::new();
    let modes = job.options.modes;
    // The mask ends where the soft edge begins.
    let removed = if job.options.feather > 0.0 { 1 } else { REMOVED };
    let hardened = |mask: &[u8]| mask.iter().map(|k| if *k < removed { 0 } else { 255 }).collect::<Vec<u8>>();
    for (index, (mask, [w, h])) in outcome.masks.iter().enumerate() {
        let hard = hardened(mask);
        let is_needed = job.options.empty_masks || hard.contains(&0);
        if modes != Modes::Cutouts && is_needed {
            let bytes = png(*w as u32, *h as u32, PngPixels::Grey8(&hard), &[]).map_err(|e| e.to_string())?;
            files.push((names[index].clone(), bytes));
        }
        if let Some(rgb) = outcome.rgb.get(index) {
            let alpha = if job.options.feather > 0.0 { mask } else { &hard };
            let pixels: Vec<u8> =
                rgb.chunks_exact(3).zip(alpha).flat_map(|(p, &a)| [p[0], p[1], p[2], a]).collect();
            let bytes =
                png(*w as u32, *h as u32, PngPixels::Rgba8(&pixels), &[]).map_err(|e| e.to_string())?;
            files.push((
                Path::new(CUTOUTS).join(names[index].with_extension("")).with_extension("png"),
                bytes,
            ));
        }
    }
    Ok(files)
}

/// Writes the files of a frame, and removes those of an earlier mask that are no longer wanted.
fn write(job: &Job<'_>, made: Made, before: Option<&Line>) -> Result<Line, Failure> {
    let folder = job.options.output.as_path();
    let overwrite =
        if job.options.force || before.is_some() { Overwrite::Replace } else { Overwrite::Refuse };
    let mut unnamed = Vec::new();
    for (path, bytes) in &made.files {
        owned::stays_inside(folder, path)?;
        let whole = folder.join(path);
        if !owned::is_ours(folder, PURPOSE) {
            gausset_io::atomic::refuse_existing(&Disk, &whole, overwrite)?;
        }
        if let Some(parent) = whole.parent() {
            Disk.create_folder(parent).map_err(|source| gausset_io::atomic::WriteError::Io {
                path: parent.to_owned(),
                action: "create folder",
                source,
            })?;
        }
        unnamed.push(write_unnamed(&whole, bytes)?);
    }
    name_together(unnamed)?;
    for name in before.into_iter().flat_map(|line| line.files.keys()) {
        let path = Path::new(name);
        if !made.line.files.contains_key(name) && owned::stays_inside(folder, path).is_ok() {
            let _ = Disk.remove(&folder.join(path));
        }
    }
    Ok(made.line)
}

/// What is known of a folder from before.
struct Manifest {
    folder: PathBuf,
    known: BTreeMap<String, Line>,
}

impl Manifest {
    fn read(folder: &Path) -> Self {
        let text = input::read_to_string(&folder.join(MANIFEST), MAX_MANIFEST_BYTES).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        Self { folder: folder.to_owned(), known: lines.map(|line| (line.frame.clone(), line)).collect() }
    }

    /// The line of a frame whose masks are there as they would be made again.
    fn finished(&self, job: &Job<'_>, frame: &SourceFrame) -> Option<Line> {
        let line = self.known.get(&frame.stem)?;
        let is_same =
            line.bytes == frame.bytes && line.modified == frame.modified && line.settings == job.settings;
        let is_there = |(name, length): (&String, &u64)| {
            owned::stays_inside(&self.folder, Path::new(name)).is_ok()
                && Disk.info(&self.folder.join(name)).ok().flatten().is_some_and(|info| info.bytes == *length)
        };
        (is_same && line.files.iter().all(is_there)).then(|| line.clone())
    }

    /// Writes the lines that are done, in the order of the frames; what was finished before and comes later in `frames`
    /// stays known, should this be interrupted.
    fn write(&self, frames: &[SourceFrame], lines: &BTreeMap<usize, Line>) -> Result<(), Failure> {
        let later = frames.iter().enumerate().filter(|(index, _)| !lines.contains_key(index));
        let later = later.filter_map(|(_, frame)| self.known.get(&frame.stem));
        let text: String = lines
            .values()
            .chain(later)
            .filter_map(|line| serde_json::to_string(line).ok())
            .map(|line| line + "\n")
            .collect();
        Ok(write_atomic(&Disk, &self.folder.join(MANIFEST), |file| file.write_all(text.as_bytes()))?)
    }
}
