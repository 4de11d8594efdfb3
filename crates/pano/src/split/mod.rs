//! The streaming splitter: frames in, encoded views out.
//!
//! ```text
//! worker: take the next frame ─▶ read ─▶ decode needed rows ─▶ per view: remap ▸ encode band by band ─▶ .tmp-…
//! caller: frames whose last view is written ─▶ one sync for all ─▶ rename ─▶ manifest lines, synced
//! ```
//! One worker has one frame in its hands, with buffers that it keeps; frames are handed out in order; the next ones are
//! announced to the system (`fadvise`) so that a cold disk reads ahead. A byte budget, counted from the headers, bounds
//! what is in flight. A frame that fails is named and skipped, and leaves nothing behind. `pano.jsonl` remembers finished frames by name, length,
//! time of change, a hash of its mask and one of the settings: a run that starts again goes on where it was, with the same bytes.
//!
//! `source`: what there is to split; `record`: what stays beside the views; `worker`: one frame at a time; `files`: its
//! files; `budget`: bytes in flight; `masks`.

mod budget;
mod files;
mod masks;
mod record;
mod source;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use gausset_compute::fearless_simd::Level;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError, plain_reason};
use gausset_io::owned::{self, OwnedError};
use serde::Serialize;

use self::files::Cut;
pub use self::masks::{MaskCommand, MaskFile};
pub use self::record::{
    DESCRIPTION, Description, MANIFEST, ManifestLine, Naming, claim, is_ours, read_manifest,
};
pub use self::source::{SourceFrame, eac_pairs, list_frames, source_frame, video_frames};
use self::worker::{Shared, Told};
use crate::cutter::Format;
use crate::geometry::View;
use crate::load::Limits;
use crate::projection::Projection;
use crate::video::Video;

/// What to do with a frame that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Name it, leave it out, go on.
    #[default]
    Skip,
    /// Stop.
    Stop,
}

/// Everything that decides what is written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The views.
    pub views: Vec<View>,
    /// How they are written.
    pub format: Format,
    /// How files are named.
    pub naming: Naming,
    /// Degrees around the nadir that are masked.
    pub crop_bottom: f64,
    /// Turn panoramas level by what GPano says.
    pub level_gpano: bool,
    /// How every frame shows the sphere; `None` = equirectangular, by its own size and GPano.
    pub projection: Option<Projection>,
    /// Folder with masks of frames.
    pub masks: Option<PathBuf>,
    /// What makes masks, instead of a folder.
    pub mask_command: Option<MaskCommand>,
    /// Pictures show two eyes, one above the other; the upper one is taken.
    pub is_stereo: bool,
    /// Limits on source pictures.
    pub limits: Limits,
    /// The frames are those of this video.
    pub video: Option<Video>,
}

impl Settings {
    /// These views in that format, and nothing out of the ordinary: frames are panoramas in files, without masks.
    #[must_use]
    pub fn new(views: Vec<View>, format: Format) -> Self {
        Self {
            views,
            format,
            naming: Naming::Rig,
            crop_bottom: 0.0,
            level_gpano: false,
            projection: None,
            masks: None,
            mask_command: None,
            is_stereo: false,
            limits: Limits::default(),
            video: None,
        }
    }
}

/// How the work is done; no influence on the bytes.
#[derive(Clone, Debug)]
pub struct Work {
    /// Worker threads.
    pub threads: usize,
    /// Vector level.
    pub level: Level,
    /// What to do with bad frames.
    pub on_error: OnError,
    /// Redo finished frames, and write among files of somebody else.
    pub force: bool,
    /// Bytes of frames in flight and of tables, all together; a frame that takes more is left out.
    pub budget: u64,
}

/// What happens; told on the calling thread.
#[derive(Clone, Debug)]
pub enum Event {
    /// A frame is finished: (finished, all).
    Frame {
        /// Frames finished or skipped so far.
        done: usize,
        /// Frames in all.
        all: usize,
        /// Views per second so far.
        views_per_s: f64,
    },
    /// A frame was left out.
    Skipped(Skipped),
}

/// A frame that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The frame.
    pub frame: String,
    /// `FILE: PLACE: what is wrong`.
    pub reason: String,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Frames that are there now, with those of earlier runs.
    pub frames: usize,
    /// Views of these frames.
    pub views: usize,
    /// Frames that were there before.
    pub resumed: usize,
    /// Frames left out, in order.
    pub skipped: Vec<Skipped>,
    /// Whether it was stopped.
    pub is_cancelled: bool,
    /// Where the time went.
    pub seconds: PartSeconds,
}

/// Wall seconds that workers spent on the parts of the work, all workers together. Waiting counts: for the disk, for a
/// mask command, for a processor that others use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PartSeconds {
    /// Reading files.
    pub read: f64,
    /// Decoding pictures and masks.
    pub decode: f64,
    /// Sampling.
    pub remap: f64,
    /// Encoding views.
    pub encode: f64,
    /// Writing files, and bringing them to the device.
    pub write: f64,
}

impl PartSeconds {
    fn add(&mut self, other: Self) {
        self.read += other.read;
        self.decode += other.decode;
        self.remap += other.remap;
        self.encode += other.encode;
        self.write += other.write;
    }
}

/// Why the work could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// Something in the input is wrong as a whole.
    #[error("{0}")]
    Input(String),
    /// No frame could be used.
    #[error("{}: frames: none could be used (the first: {first})", path.display())]
    Nothing {
        /// The input.
        path: PathBuf,
        /// The first reason.
        first: String,
    },
    /// With [`OnError::Stop`].
    #[error("{0}")]
    Stopped(String),
    /// A file could not be written.
    #[error("{}: {action}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// Why.
        reason: String,
    },
    /// The output folder holds files of somebody else.
    #[error(transparent)]
    NotOurs(#[from] OwnedError),
    /// A file of the description could not be written.
    #[error(transparent)]
    Atomic(#[from] WriteError),
}

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
    let shared = Shared::new(frames, &todo, settings, work, folder, &hash, stop);
    let started = Instant::now();
    let threads = threads_within(&shared, &todo)?.clamp(1, todo.len().max(1));
    let mut failure = None;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<Told>(threads + 2);
        for _ in 0..threads {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || worker::worker(shared, &sender));
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
                    Told::Skipped { index, reason } => {
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

/// Frames of a folder that are looked at before the work begins.
const FRAMES_LOOKED_AT: usize = 4;

/// How many workers the budget allows, by the first frames. Where a later one takes more, workers wait for each other.
fn threads_within(shared: &Shared<'_>, todo: &[usize]) -> Result<usize, SplitError> {
    let (settings, work) = (shared.settings, shared.work);
    let Some(video) = &settings.video else {
        let first = todo.iter().take(FRAMES_LOOKED_AT);
        // One that cannot be read is told when its turn comes.
        let each = first.filter_map(|&index| worker::demand(shared, index).ok()).max();
        return Ok(each.map_or(work.threads, |each| work.threads.min((work.budget / each.max(1)) as usize)));
    };
    let [width, height] = video.size.map(u64::from);
    // What comes through the pipe, and the sharpest of its neighbours so far.
    let shared = 3 * width * height;
    let each = worker::video_demand(settings, video);
    if work.budget < shared + each {
        return Err(SplitError::Input(format!(
            "{}: memory: cutting frames of {width}x{height} px takes {} (expected at most {}); raise --max-memory",
            video.path.display(),
            gausset_io::units::bytes(shared + each),
            gausset_io::units::bytes(work.budget),
        )));
    }
    Ok(work.threads.min(((work.budget - shared) / each) as usize))
}

fn write_error<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(std::io::Error) -> SplitError + 'a {
    move |e| SplitError::Write { path: path.to_owned(), action, reason: plain_reason(&e) }
}
