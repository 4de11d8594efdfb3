//! The streaming splitter: frames in, encoded views out.
//!
//! ```text
//! worker: take the next frame ─▶ read ─▶ decode needed rows ─▶ per view: remap ▸ encode band by band ─▶ NAME.part
//!                                                              last view written ─▶ rename all ─▶ manifest line
//! ```
//! One worker has one frame in its hands, with buffers that it keeps; frames are handed out in order; the next ones are
//! announced to the system (`fadvise`) so that a cold disk reads ahead. A byte budget bounds what is in flight. A frame
//! that fails is named and skipped, and leaves nothing behind. `pano.jsonl` remembers finished frames by name, length,
//! time of change and a hash of the settings: a run that starts again goes on where it was, with the same bytes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::Instant;

use gausset_compute::Pool;
use gausset_compute::fearless_simd::Level;
use gausset_io::atomic::{Disk, WriteError, plain_reason, write_atomic};
use serde::{Deserialize, Serialize};

use crate::cutter::{CutError, Cutter, Format, Plan, Times};
use crate::geometry::View;
use crate::jpeg::Decoder;
use crate::load::{self, Limits, Opened};
use crate::metadata::{Metadata, Position};
use crate::plane::{Colour, Frame, FrameShape, Plane};
use crate::projection::{Equirect, Projection};
use crate::rig;
use crate::video::{Reader, Video};

/// Name of the manifest in the output folder.
pub const MANIFEST: &str = "pano.jsonl";
/// Name of the description of the split.
pub const DESCRIPTION: &str = "pano.json";
/// Part of the settings hash: changes when the same input would give other bytes.
const BYTES_VERSION: u32 = 1;

/// How files are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naming {
    /// `images/view00/FRAME.jpg`: COLMAP sees the views of a frame as one moment of a rig.
    #[default]
    Rig,
    /// `images/frame_00000_cam_00.jpg`.
    Flat,
}

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
    /// Limits on source pictures.
    pub limits: Limits,
    /// The frames are those of this video.
    pub video: Option<Video>,
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
    /// Redo finished frames.
    pub force: bool,
    /// Bytes in flight, all frames together.
    pub budget: u64,
}

/// A source of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Name in the output: letters, digits, `.`, `-`, `_`.
    pub stem: String,
    /// The picture, or both streams' pictures of one moment.
    pub files: Vec<PathBuf>,
    /// Length of the files.
    pub bytes: u64,
    /// Time of the last change, seconds since 1970.
    pub modified: u64,
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
    /// CPU seconds of the parts of the work: read, decode, remap, encode, write.
    pub seconds: [f64; 5],
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
    /// A file of the description could not be written.
    #[error(transparent)]
    Atomic(#[from] WriteError),
}

/// Lists the frames of a folder: JPEG, PNG and TIFF files in byte order, masks left out.
///
/// # Errors
/// The folder cannot be read, holds no picture, or two files whose names are the same without extension and case.
pub fn list_frames(folder: &Path) -> Result<Vec<SourceFrame>, SplitError> {
    let input = |what: String| SplitError::Input(format!("{}: {what}", folder.display()));
    let entries = fs::read_dir(folder).map_err(|e| input(format!("folder: {}", plain_reason(&e))))?;
    let mut names: Vec<OsString> = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|e| input(format!("folder: {}", plain_reason(&e))))?.file_name());
    }
    names.sort();
    let mut frames: Vec<SourceFrame> = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for name in names {
        let path = folder.join(&name);
        let name = name.to_string_lossy().into_owned();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        let is_mask = stem.ends_with("_mask") || has_picture_extension(Path::new(&stem));
        if name.starts_with('.') || !is_picture(&extension) || is_mask {
            continue;
        }
        frames.push(source_frame(&stem, vec![path]));
        if let Some(twin) = seen.insert(plain_stem(&stem).to_lowercase(), name.clone()) {
            return Err(input(format!(
                "frames: {twin} and {name} would get the same name (expected names that differ without extension and case); rename one"
            )));
        }
    }
    if frames.is_empty() {
        return Err(input("frames: none found (expected .jpg, .png or .tif files)".to_owned()));
    }
    Ok(frames)
}

fn is_picture(extension: &str) -> bool {
    matches!(extension, "jpg" | "jpeg" | "png" | "tif" | "tiff")
}

fn has_picture_extension(path: &Path) -> bool {
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| is_picture(&e.to_ascii_lowercase()))
}

/// The frames of a video: names and the facts that tell whether it has changed.
#[must_use]
pub fn video_frames(video: &Video) -> Vec<SourceFrame> {
    let one = source_frame("frame", vec![video.path.clone()]);
    (0..video.frames).map(|k| SourceFrame { stem: format!("frame_{k:06}"), ..one.clone() }).collect()
}

/// Joins the pictures `NAME_track0` and `NAME_track5` of GoPro MAX streams to frames; `None` when these are none.
#[must_use]
pub fn eac_pairs(frames: &[SourceFrame]) -> Option<Vec<SourceFrame>> {
    let mut pairs = Vec::new();
    for first in frames {
        if let Some(name) = first.stem.strip_suffix("_track0") {
            let other = format!("{name}_track5");
            let second = frames.iter().find(|f| f.stem == other)?;
            pairs.push(source_frame(name, [first.files.clone(), second.files.clone()].concat()));
        } else if !first.stem.ends_with("_track5") {
            return None;
        }
    }
    (!pairs.is_empty()).then_some(pairs)
}

/// A frame of these files, with their length and time.
#[must_use]
pub fn source_frame(stem: &str, files: Vec<PathBuf>) -> SourceFrame {
    let (mut bytes, mut modified) = (0, 0);
    for file in &files {
        if let Ok(info) = fs::metadata(file) {
            bytes += info.len();
            let time = info.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
            modified = modified.max(time.map_or(0, |t| t.as_secs()));
        }
    }
    SourceFrame { stem: plain_stem(stem), files, bytes, modified }
}

/// A name that every program reads: other characters become `_`.
fn plain_stem(stem: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = stem.chars().take(120).map(|c| if plain(c) { c } else { '_' }).collect();
    let name = name.trim_start_matches('.').to_owned();
    if name.is_empty() { "frame".to_owned() } else { name }
}

/// A line of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestLine {
    /// Name of the frame.
    pub frame: String,
    /// Name of the source file.
    pub source: String,
    /// Its length.
    pub bytes: u64,
    /// Its time of change.
    pub modified: u64,
    /// Hash of the settings.
    pub settings: String,
    /// Length of each view's file.
    pub views: Vec<u64>,
    /// Latitude, longitude (degrees) and altitude (m), when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gps: Option<[f64; 3]>,
}

/// Reads a manifest; lines that are damaged are left out.
#[must_use]
pub fn read_manifest(folder: &Path) -> Vec<ManifestLine> {
    let path = folder.join(MANIFEST);
    let is_small = fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() < 1 << 30);
    let text = if is_small { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The description of a split: what alignment and training need to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The views.
    pub views: Vec<DescribedView>,
    /// How files are named.
    pub naming: Naming,
    /// Extension of the views.
    pub extension: String,
    /// Names of the frames, in order.
    pub frames: Vec<String>,
}

/// A view in a [`Description`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DescribedView {
    /// Name, also of its folder.
    pub name: String,
    /// Degrees.
    pub yaw: f64,
    /// Degrees.
    pub pitch: f64,
    /// Degrees.
    pub roll: f64,
    /// Degrees.
    pub hfov: f64,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
}

impl DescribedView {
    /// The view.
    #[must_use]
    pub fn view(&self) -> View {
        let Self { name, yaw, pitch, roll, hfov, width, height } = self.clone();
        View { name, yaw, pitch, roll, hfov, width, height }
    }
}

impl Description {
    /// Reads the description of the split in a folder.
    ///
    /// # Errors
    /// One line.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(DESCRIPTION);
        let error = |what: String| format!("{}: {what}", path.display());
        let info = fs::metadata(&path).map_err(|e| {
            error(format!("file: {} (expected the folder of `gausset pano split`)", plain_reason(&e)))
        })?;
        if !info.is_file() || info.len() > 64 << 20 {
            return Err(error("file: is not a description of at most 64 MiB".to_owned()));
        }
        let bytes = fs::read(&path).map_err(|e| error(format!("read: {}", plain_reason(&e))))?;
        let found: Self =
            serde_json::from_slice(&bytes).map_err(|e| error(format!("line {}: {e}", e.line())))?;
        for (k, view) in found.views.iter().enumerate() {
            crate::layout::check_view(&view.view()).map_err(|what| error(format!("view {k}: {what}")))?;
        }
        if found.views.is_empty() {
            return Err(error("views: none".to_owned()));
        }
        if let Some(bad) = found.frames.iter().find(|f| **f != plain_stem(f)) {
            return Err(error(format!("frames: {bad:?} is no name of a frame")));
        }
        Ok(found)
    }

    /// The views.
    #[must_use]
    pub fn view_list(&self) -> Vec<View> {
        self.views.iter().map(DescribedView::view).collect()
    }

    /// Name of a picture relative to `images/`.
    #[must_use]
    pub fn picture_name(&self, frame: usize, view: usize) -> String {
        picture_name(self.naming, &self.frames[frame], frame, &self.views[view].name, view, &self.extension)
    }
}

fn picture_name(
    naming: Naming,
    stem: &str,
    frame: usize,
    view_name: &str,
    view: usize,
    extension: &str,
) -> String {
    match naming {
        Naming::Rig => format!("{view_name}/{stem}.{extension}"),
        Naming::Flat => format!("frame_{frame:05}_cam_{view:02}.{extension}"),
    }
}

/// A count of bytes that workers share.
struct Budget {
    free: Mutex<u64>,
    changed: Condvar,
    all: u64,
}

impl Budget {
    fn new(all: u64) -> Self {
        Self { free: Mutex::new(all), changed: Condvar::new(), all }
    }

    /// Waits until so much is free (or everything, for a frame larger than the budget).
    fn take(&self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.all);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free < bytes {
            free = self.changed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= bytes;
        bytes
    }

    fn give(&self, bytes: u64) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        self.changed.notify_all();
    }
}

enum Told {
    Done { index: usize, line: ManifestLine, seconds: [f64; 5] },
    Skipped { index: usize, reason: String },
    Failed(SplitError),
}

struct Shared<'a> {
    frames: &'a [SourceFrame],
    todo: &'a [usize],
    next: AtomicUsize,
    settings: &'a Settings,
    work: &'a Work,
    folder: &'a Path,
    hash: &'a str,
    plans: Mutex<Vec<(Key, Arc<Plan>)>>,
    budget: Budget,
    /// The caller's flag, or our own after a failure.
    stop: &'a AtomicBool,
    failed: AtomicBool,
    /// The running ffmpeg; whoever holds the lock reads the next frame.
    reader: Mutex<Option<Reader>>,
}

/// What a plan is good for.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    projection: Projection,
    shape: FrameShape,
    level: [f64; 2],
}

/// Plans that are kept; frames of one folder are usually alike.
const PLANS_KEPT: usize = 2;

impl Shared<'_> {
    fn plan(&self, key: Key) -> Arc<Plan> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = plans.iter().find(|(k, _)| *k == key) {
            return Arc::clone(plan);
        }
        // Built under the lock: other workers would build the same.
        let pool = Pool::new(self.work.threads);
        let views = levelled(&self.settings.views, key.level);
        let plan = Arc::new(Plan::new(
            views,
            self.settings.format,
            &key.projection,
            key.shape.clone(),
            self.settings.crop_bottom,
            &pool,
        ));
        tracing::debug!(
            "tables: {} of {} bytes for {} views",
            plan.table_count(),
            plan.table_bytes(),
            plan.views.len()
        );
        if plans.len() >= PLANS_KEPT {
            plans.remove(0);
        }
        plans.push((key, Arc::clone(&plan)));
        plan
    }
}

/// Views as seen by a panorama whose camera had this pitch and roll (degrees): angles of the same directions.
fn levelled(views: &[View], [pitch, roll]: [f64; 2]) -> Vec<View> {
    if pitch == 0.0 && roll == 0.0 {
        return views.to_vec();
    }
    use crate::geometry::{rotation_x, rotation_z};
    use gausset_core::se3::{mul, transpose};
    // level_from_pano = Rx(pitch) Rz(roll); a view of the level panorama looks at its inverse in the stored one.
    let pano_from_level = transpose(&mul(&rotation_x(pitch), &rotation_z(roll)));
    views
        .iter()
        .map(|view| {
            let r = mul(&pano_from_level, &view.pano_from_camera());
            let (yaw, pitch, roll) = angles(&r);
            View { yaw, pitch, roll, ..view.clone() }
        })
        .collect()
}

/// Yaw, pitch and roll (degrees) of a rotation `Ry Rx Rz`.
#[must_use]
pub fn angles(r: &gausset_core::se3::Mat3) -> (f64, f64, f64) {
    // Third column: (sin yaw cos pitch, -sin pitch, cos yaw cos pitch).
    let pitch = libm::atan2(-r[1][2], libm::sqrt(r[1][0] * r[1][0] + r[1][1] * r[1][1]));
    if pitch.abs() > 89.999_f64.to_radians() {
        // Straight up or down: the yaw says everything.
        let yaw = libm::atan2(-r[2][0], r[0][0]);
        return (yaw.to_degrees(), pitch.to_degrees(), 0.0);
    }
    let yaw = libm::atan2(r[0][2], r[2][2]);
    let roll = libm::atan2(r[1][0], r[1][1]);
    (yaw.to_degrees(), pitch.to_degrees(), roll.to_degrees())
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
    let hash = settings_hash(settings);
    make_folders(settings, folder)?;
    let (finished, todo) = find_todo(frames, settings, work, folder, &hash);
    let mut lines: BTreeMap<usize, ManifestLine> = finished;
    let mut report = Report { resumed: lines.len(), ..Report::default() };
    let mut skipped: BTreeMap<usize, String> = BTreeMap::new();
    // Only what is true stays in the manifest while frames are redone.
    write_manifest(folder, lines.values())?;
    let shared = Shared {
        frames,
        todo: &todo,
        next: AtomicUsize::new(0),
        settings,
        work,
        folder,
        hash: &hash,
        plans: Mutex::default(),
        budget: Budget::new(work.budget),
        stop,
        failed: AtomicBool::new(false),
        reader: Mutex::new(None),
    };
    let started = Instant::now();
    let threads = work.threads.clamp(1, todo.len().max(1));
    let mut failure = None;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<Told>(threads + 2);
        for _ in 0..threads {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || worker(shared, &sender));
        }
        drop(sender);
        let mut new = 0;
        for told in receiver {
            match told {
                Told::Done { index, line, seconds } => {
                    if let Err(error) = append_line(folder, &line) {
                        shared.failed.store(true, Ordering::Relaxed);
                        failure.get_or_insert(error);
                    }
                    lines.insert(index, line);
                    new += 1;
                    for (sum, s) in report.seconds.iter_mut().zip(seconds) {
                        *sum += s;
                    }
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
            let views_per_s = (new * settings.views.len()) as f64 / started.elapsed().as_secs_f64().max(1e-9);
            tell(Event::Frame { done: lines.len() + skipped.len(), all: frames.len(), views_per_s });
        }
    });
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
    write_manifest(folder, lines.values())?;
    describe(settings, frames, &lines, folder)?;
    Ok(report)
}

fn settings_hash(settings: &Settings) -> String {
    let Settings { views, format, naming, crop_bottom, level_gpano, projection, masks, limits: _, video } =
        settings;
    let video = video.as_ref().map(|v| (&v.choice, v.eac, v.size));
    let text = format!(
        "{BYTES_VERSION} {views:?} {format:?} {naming:?} {crop_bottom} {level_gpano} {projection:?} {masks:?} {video:?}"
    );
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

fn write_error<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(std::io::Error) -> SplitError + 'a {
    move |e| SplitError::Write { path: path.to_owned(), action, reason: plain_reason(&e) }
}

fn make_folders(settings: &Settings, folder: &Path) -> Result<(), SplitError> {
    let images = folder.join("images");
    let make = |path: &Path| fs::create_dir_all(path).map_err(write_error(path, "folder"));
    make(&images)?;
    if settings.naming == Naming::Rig {
        for view in &settings.views {
            make(&images.join(&view.name))?;
        }
    }
    Ok(())
}

/// Frames that are finished with these settings, and the others.
fn find_todo(
    frames: &[SourceFrame],
    settings: &Settings,
    work: &Work,
    folder: &Path,
    hash: &str,
) -> (BTreeMap<usize, ManifestLine>, Vec<usize>) {
    let known: BTreeMap<String, ManifestLine> =
        read_manifest(folder).into_iter().map(|line| (line.frame.clone(), line)).collect();
    let (mut finished, mut todo) = (BTreeMap::new(), Vec::new());
    for (index, frame) in frames.iter().enumerate() {
        let line = known.get(&frame.stem).filter(|line| {
            !work.force
                && line.settings == hash
                && line.bytes == frame.bytes
                && line.modified == frame.modified
                && line.views.len() == settings.views.len()
                && line.views.iter().enumerate().all(|(view, &bytes)| {
                    let path = folder.join("images").join(name_of(settings, frame, index, view));
                    fs::metadata(path).is_ok_and(|m| m.len() == bytes)
                })
        });
        match line {
            Some(line) => {
                finished.insert(index, line.clone());
            }
            None => todo.push(index),
        }
    }
    (finished, todo)
}

fn name_of(settings: &Settings, frame: &SourceFrame, index: usize, view: usize) -> String {
    let extension = settings.format.extension();
    picture_name(settings.naming, &frame.stem, index, &settings.views[view].name, view, extension)
}

fn write_manifest<'a>(
    folder: &Path,
    lines: impl Iterator<Item = &'a ManifestLine>,
) -> Result<(), SplitError> {
    let text: String = lines.filter_map(|line| serde_json::to_string(line).ok()).map(|l| l + "\n").collect();
    write_atomic(&Disk, &folder.join(MANIFEST), |file| file.write_all(text.as_bytes()))?;
    Ok(())
}

fn append_line(folder: &Path, line: &ManifestLine) -> Result<(), SplitError> {
    let path = folder.join(MANIFEST);
    let text = serde_json::to_string(line).unwrap_or_default() + "\n";
    let mut file =
        File::options().append(true).create(true).open(&path).map_err(write_error(&path, "open"))?;
    file.write_all(text.as_bytes()).map_err(write_error(&path, "write"))
}

/// Writes what the next steps need: the description and, for a rig, its configuration for COLMAP.
fn describe(
    settings: &Settings,
    frames: &[SourceFrame],
    lines: &BTreeMap<usize, ManifestLine>,
    folder: &Path,
) -> Result<(), SplitError> {
    let views = settings.views.iter().map(|v| DescribedView {
        name: v.name.clone(),
        yaw: v.yaw,
        pitch: v.pitch,
        roll: v.roll,
        hfov: v.hfov,
        width: v.width,
        height: v.height,
    });
    let description = Description {
        views: views.collect(),
        naming: settings.naming,
        extension: settings.format.extension().to_owned(),
        frames: lines.keys().map(|&i| frames[i].stem.clone()).collect(),
    };
    let text = serde_json::to_string_pretty(&description).unwrap_or_default();
    write_atomic(&Disk, &folder.join(DESCRIPTION), |file| file.write_all(text.as_bytes()))?;
    if settings.naming == Naming::Rig {
        let text = rig::rig_config(&settings.views);
        write_atomic(&Disk, &folder.join("rig_config.json"), |file| file.write_all(text.as_bytes()))?;
    }
    Ok(())
}

/// Buffers of a worker.
#[derive(Default)]
struct Bench {
    file: Vec<u8>,
    decoder: Decoder,
    frame: Frame,
    parts: Vec<Frame>,
    mask: Frame,
    cutter: Cutter,
}

fn worker(shared: &Shared<'_>, sender: &mpsc::SyncSender<Told>) {
    let mut bench = Bench::default();
    loop {
        if shared.stop.load(Ordering::Relaxed) || shared.failed.load(Ordering::Relaxed) {
            return;
        }
        let index = if let Some(video) = &shared.settings.video {
            match next_of_video(shared, video, &mut bench) {
                Ok(Some(index)) => index,
                Ok(None) => return,
                Err((index, reason)) => {
                    // What is broken stays broken: the frames before it are kept.
                    shared.next.store(usize::MAX / 2, Ordering::Relaxed);
                    let _ = sender.send(Told::Skipped { index, reason });
                    return;
                }
            }
        } else {
            let turn = shared.next.fetch_add(1, Ordering::Relaxed);
            let Some(&index) = shared.todo.get(turn) else { return };
            announce(shared, turn);
            index
        };
        let frame = &shared.frames[index];
        // Compressed data, planes, one view at a time.
        let estimate = match &shared.settings.video {
            Some(video) => 3 * u64::from(video.size[0]) * u64::from(video.size[1]),
            None => frame.bytes.saturating_mul(4),
        };
        let taken = shared.budget.take(estimate);
        let result = catch_unwind(AssertUnwindSafe(|| one_frame(shared, index, &mut bench)));
        shared.budget.give(taken);
        let told = match result {
            Ok(Ok(Some((line, seconds)))) => Told::Done { index, line, seconds },
            Ok(Ok(None)) => return,
            Ok(Err(FrameError::Frame(reason))) => Told::Skipped { index, reason },
            Ok(Err(FrameError::Fatal(error))) => Told::Failed(error),
            Err(_) => {
                bench = Bench::default();
                let file = frame.files.first().map(|f| f.display().to_string()).unwrap_or_default();
                Told::Skipped {
                    index,
                    reason: format!("{file}: picture: internal error while it was split; please report it"),
                }
            }
        };
        let is_over = !matches!(told, Told::Done { .. });
        if is_over {
            remove_parts(shared, index);
        }
        if sender.send(told).is_err() {
            return;
        }
    }
}

/// Reads the next frame of a video into the bench; `None` at its end.
fn next_of_video(
    shared: &Shared<'_>,
    video: &Video,
    bench: &mut Bench,
) -> Result<Option<usize>, (usize, String)> {
    let plan = video_plan(shared, video);
    let mut reader = shared.reader.lock().unwrap_or_else(PoisonError::into_inner);
    let turn = shared.next.fetch_add(1, Ordering::Relaxed);
    let Some(&index) = shared.todo.get(turn) else { return Ok(None) };
    if reader.is_none() {
        let started = video.start().map_err(|e| (index, format!("{}: video: {e}", video.path.display())))?;
        *reader = Some(started);
    }
    let Some(running) = reader.as_mut() else { return Ok(None) };
    match running.read(video, index, &plan.rows, &mut bench.frame) {
        Ok(true) => Ok(Some(index)),
        Ok(false) => Ok(None),
        Err(reason) => Err((index, reason)),
    }
}

fn video_plan(shared: &Shared<'_>, video: &Video) -> Arc<Plan> {
    let [w, h] = video.size;
    let projection = match video.eac {
        Some(eac) => Projection::Eac(eac),
        None => Projection::Equirect(Equirect::whole(w, h)),
    };
    shared.plan(Key { projection, shape: video.shape(), level: [0.0, 0.0] })
}

/// Asks the system to read the frame that this worker will probably get after the present one.
fn announce(shared: &Shared<'_>, turn: usize) {
    let ahead = shared.todo.get(turn + shared.work.threads.max(1));
    for file in ahead.iter().flat_map(|&&index| &shared.frames[index].files) {
        if let Ok(file) = File::open(file) {
            // A hint: nothing depends on it.
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::WillNeed);
        }
    }
}

enum FrameError {
    /// This frame cannot be used.
    Frame(String),
    /// Nothing can be written any more.
    Fatal(SplitError),
}

fn part_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

fn mask_path(folder: &Path, name: &str) -> PathBuf {
    folder.join("masks").join(format!("{name}.png"))
}

fn remove_parts(shared: &Shared<'_>, index: usize) {
    for view in 0..shared.settings.views.len() {
        let name = name_of(shared.settings, &shared.frames[index], index, view);
        for path in [shared.folder.join("images").join(&name), mask_path(shared.folder, &name)] {
            let _ = fs::remove_file(part_path(&path));
        }
    }
}

type Finished = (ManifestLine, [f64; 5]);

/// One frame, from its file to the names of its views; `None` when it was cancelled.
fn one_frame(shared: &Shared<'_>, index: usize, bench: &mut Bench) -> Result<Option<Finished>, FrameError> {
    let source = &shared.frames[index];
    let settings = shared.settings;
    let mut seconds = [0.0; 5];
    let mut clock = Instant::now();
    let mut lap = |seconds: &mut [f64; 5], part: usize| {
        seconds[part] += clock.elapsed().as_secs_f64();
        clock = Instant::now();
    };
    let bad = |e: load::LoadError| FrameError::Frame(e.to_string());
    let (plan, metadata) = if let Some(video) = &settings.video {
        (video_plan(shared, video), Metadata::default())
    } else if let [file] = source.files.as_slice() {
        let mut opened = load::open(file, &settings.limits, std::mem::take(&mut bench.file)).map_err(bad)?;
        lap(&mut seconds, 0);
        let key = key_of(settings, &opened, file)?;
        let plan = decode(shared, key, &mut opened, bench)?;
        bench.file = std::mem::take(&mut opened.data);
        (plan, opened.metadata)
    } else {
        stacked(shared, source, bench, &mut seconds)?
    };
    lap(&mut seconds, 1);
    let has_mask = load_mask(shared, source, bench)?;
    let folder = shared.folder;
    let Bench { cutter, frame, mask, .. } = bench;
    let mask = has_mask.then(|| {
        mask.planes[0].pad(plan.wraps);
        &mask.planes[0]
    });
    let mut times = Times::default();
    let mut written: Vec<(PathBuf, bool)> = Vec::new();
    let mut sizes = vec![0u64; settings.views.len()];
    let mut write_seconds = 0.0;
    // The orientation of the views in the file is that of the layout, not that of a levelled panorama.
    let mut segments = |view: &View| {
        let named = settings.views.iter().find(|v| v.name == view.name).unwrap_or(view);
        metadata.segments(named, &source.stem)
    };
    let mut receive = |view: crate::cutter::CutView<'_>| -> Result<(), SplitError> {
        let started = Instant::now();
        let name = name_of(settings, source, index, view.index);
        let path = folder.join("images").join(&name);
        let part = part_path(&path);
        fs::write(&part, view.picture).map_err(write_error(&path, "write"))?;
        sizes[view.index] = view.picture.len() as u64;
        written.push((path, false));
        let mask = mask_path(folder, &name);
        if let Some(pixels) = view.mask {
            if let Some(parent) = mask.parent() {
                fs::create_dir_all(parent).map_err(write_error(parent, "folder"))?;
            }
            let size = &settings.views[view.index];
            let png = gausset_io::image::encode::png(
                size.width,
                size.height,
                gausset_io::image::encode::PngPixels::Grey8(pixels),
                &[],
            )
            .unwrap_or_default();
            fs::write(part_path(&mask), png).map_err(write_error(&mask, "write"))?;
            written.push((mask, false));
        } else {
            written.push((mask, true));
        }
        write_seconds += started.elapsed().as_secs_f64();
        Ok(())
    };
    let level = shared.work.level;
    let cut = cutter.cut(level, &plan, frame, mask, shared.stop, &mut times, &mut segments, &mut receive);
    match cut {
        Ok(()) => {}
        Err(CutError::Cancelled) => {
            remove_parts(shared, index);
            return Ok(None);
        }
        Err(CutError::Receiver(error)) => return Err(FrameError::Fatal(error)),
    }
    let started = Instant::now();
    for (path, is_stale) in &written {
        if *is_stale {
            // A mask of an earlier run with other settings.
            let _ = fs::remove_file(path);
        } else {
            fs::rename(part_path(path), path)
                .map_err(|e| FrameError::Fatal(write_error(path, "rename")(e)))?;
        }
    }
    seconds[2] = times.remap;
    seconds[3] = times.encode;
    seconds[4] = write_seconds + started.elapsed().as_secs_f64();
    let gps =
        metadata.position().map(|Position { latitude, longitude, altitude }| [latitude, longitude, altitude]);
    let name = source.files.first().and_then(|f| f.file_name()).map(|n| n.to_string_lossy().into_owned());
    let line = ManifestLine {
        frame: source.stem.clone(),
        source: name.unwrap_or_default(),
        bytes: source.bytes,
        modified: source.modified,
        settings: shared.hash.to_owned(),
        views: sizes,
        gps,
    };
    Ok(Some((line, seconds)))
}

fn key_of(settings: &Settings, opened: &Opened, file: &Path) -> Result<(Projection, [f64; 2]), FrameError> {
    let [width, height] = opened.size;
    let frame_error = |what: String| FrameError::Frame(format!("{}: {what}", file.display()));
    let swaps = opened.metadata.orientation >= 5;
    let [width, height] = if swaps { [height, width] } else { [width, height] };
    let projection = match &settings.projection {
        Some(projection) => {
            let [w, h] = projection.canvas();
            if [width, height] != [w, h] {
                return Err(frame_error(format!(
                    "picture: {width}x{height} px (expected {w}x{h}, as the lens file says)"
                )));
            }
            projection.clone()
        }
        None => Projection::Equirect(opened.metadata.equirect(width, height).map_err(frame_error)?),
    };
    let level = match opened.metadata.gpano {
        Some(gpano) if settings.level_gpano => [gpano.pitch, gpano.roll],
        _ => [0.0, 0.0],
    };
    Ok((projection, level))
}

/// Decodes a picture into the bench's frame, with the plan for its shape.
fn decode(
    shared: &Shared<'_>,
    (projection, level): (Projection, [f64; 2]),
    opened: &mut Opened,
    bench: &mut Bench,
) -> Result<Arc<Plan>, FrameError> {
    let bad = |e: load::LoadError| FrameError::Frame(e.to_string());
    if let Some(shape) = opened.shape() {
        let plan = shared.plan(Key { projection, shape, level });
        opened.decode(shared.work.level, &mut bench.decoder, &plan.rows, &mut bench.frame).map_err(bad)?;
        return Ok(plan);
    }
    opened.decode(shared.work.level, &mut bench.decoder, &[], &mut bench.frame).map_err(bad)?;
    let shape = bench.frame.shape();
    Ok(shared.plan(Key { projection, shape, level }))
}

/// Decodes the pictures of one moment and stacks them below each other.
fn stacked(
    shared: &Shared<'_>,
    source: &SourceFrame,
    bench: &mut Bench,
    seconds: &mut [f64; 5],
) -> Result<(Arc<Plan>, Metadata), FrameError> {
    let settings = shared.settings;
    let Some(projection) = &settings.projection else {
        return Err(FrameError::Frame(format!(
            "{}: frame: has several pictures, but no projection is given",
            source.stem
        )));
    };
    let bad = |e: load::LoadError| FrameError::Frame(e.to_string());
    let mut metadata = Metadata::default();
    let [width, height] = projection.canvas();
    bench.parts.resize_with(source.files.len(), Frame::default);
    for (file, part) in source.files.iter().zip(&mut bench.parts) {
        let started = Instant::now();
        let mut opened = load::open(file, &settings.limits, std::mem::take(&mut bench.file)).map_err(bad)?;
        seconds[0] += started.elapsed().as_secs_f64();
        let expected = [width, height / source.files.len() as u32];
        if opened.size != expected {
            let ([w, h], [ew, eh]) = (opened.size, expected);
            return Err(FrameError::Frame(format!(
                "{}: picture: {w}x{h} px (expected {ew}x{eh})",
                file.display()
            )));
        }
        let all = [[0, i32::MAX / 2]; 3];
        opened.decode(shared.work.level, &mut bench.decoder, &all, part).map_err(bad)?;
        bench.file = std::mem::take(&mut opened.data);
        metadata = opened.metadata;
    }
    stack(&bench.parts, &mut bench.frame).ok_or_else(|| {
        FrameError::Frame(format!("{}: frame: its pictures are of different kinds", source.stem))
    })?;
    let key = Key { projection: projection.clone(), shape: bench.frame.shape(), level: [0.0, 0.0] };
    Ok((shared.plan(key), metadata))
}

/// Puts frames of equal shape below each other.
#[must_use]
pub fn stack(parts: &[Frame], out: &mut Frame) -> Option<()> {
    let first = parts.first()?;
    if parts.iter().any(|p| p.shape() != first.shape()) {
        return None;
    }
    out.colour = first.colour;
    out.alpha = None;
    out.planes.resize_with(first.planes.len(), Plane::default);
    for (index, plane) in out.planes.iter_mut().enumerate() {
        let (width, height) = (first.planes[index].width, first.planes[index].height);
        let all = height * parts.len();
        plane.reshape(width, all, [0, all as i32]);
        for (k, part) in parts.iter().enumerate() {
            for y in 0..height {
                plane.row_mut((k * height + y) as i32).copy_from_slice(part.planes[index].row(y as i32));
            }
        }
    }
    Some(())
}

/// Decodes the mask of a frame, if it has one, into the bench.
fn load_mask(shared: &Shared<'_>, source: &SourceFrame, bench: &mut Bench) -> Result<bool, FrameError> {
    if shared.settings.video.is_some() {
        return Ok(false);
    }
    let Some(file) = source.files.first() else { return Ok(false) };
    let Some(path) = find_mask(file, &source.stem, shared.settings.masks.as_deref()) else {
        return Ok(false);
    };
    let picture = gausset_io::image::decode_mask_file(&path).map_err(|e| FrameError::Frame(e.to_string()))?;
    let (w, h) = (bench.frame.planes[0].width, bench.frame.planes[0].height);
    if (picture.width as usize, picture.height as usize) != (w, h) {
        let (mw, mh) = (picture.width, picture.height);
        return Err(FrameError::Frame(format!(
            "{}: mask: {mw}x{mh} px (expected {w}x{h}, the size of the frame)",
            path.display()
        )));
    }
    bench.mask.colour = Colour::Grey;
    bench.mask.planes.resize_with(1, Plane::default);
    let plane = &mut bench.mask.planes[0];
    plane.reshape(w, h, [-1, h as i32]);
    for (y, row) in picture.keep.chunks_exact(w).enumerate() {
        plane.row_mut(y as i32).copy_from_slice(row);
    }
    Ok(true)
}

/// `DIR/NAME.png`, `DIR/STEM.png`, `DIR/STEM_mask.png` in the folder of masks, or beside the frame.
fn find_mask(file: &Path, stem: &str, masks: Option<&Path>) -> Option<PathBuf> {
    let name = file.file_name()?.to_string_lossy().into_owned();
    let own = file.file_stem()?.to_string_lossy().into_owned();
    let beside = file.parent()?;
    let folders = [masks.map(Path::to_owned), Some(beside.join("masks"))];
    let in_folders = folders.into_iter().flatten().flat_map(|folder| {
        [format!("{name}.png"), format!("{own}.png"), format!("{own}_mask.png"), format!("{stem}.png")]
            .map(|candidate| folder.join(candidate))
    });
    let beside = [format!("{name}.png"), format!("{own}_mask.png")].map(|candidate| beside.join(candidate));
    in_folders.chain(beside).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_undo_rotations() {
        for (yaw, pitch, roll) in [(0.0, 0.0, 0.0), (100.0, 30.0, -20.0), (-170.0, -80.0, 179.0)] {
            let (y, p, r) = angles(&crate::geometry::rotation(yaw, pitch, roll));
            assert!((y - yaw).abs() + (p - pitch).abs() + (r - roll).abs() < 1e-9);
        }
        // Straight up: yaw and roll turn about the same axis.
        let r = crate::geometry::rotation(30.0, 90.0, 0.0);
        let (y, p, roll) = angles(&r);
        let again = crate::geometry::rotation(y, p, roll);
        assert!((0..3).all(|i| (0..3).all(|j| (again[i][j] - r[i][j]).abs() < 1e-9)));
    }

    #[test]
    fn names_are_plain_and_twins_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b c.JPG", "a.png", "a_mask.png", "x.jpg.png", ".hidden.jpg", "notes.txt"] {
            fs::write(folder.path().join(name), b"x").unwrap();
        }
        let stems: Vec<String> = list_frames(folder.path()).unwrap().into_iter().map(|f| f.stem).collect();
        assert_eq!(stems, ["a", "b_c"]);
        fs::write(folder.path().join("A.jpg"), b"x").unwrap();
        let message = list_frames(folder.path()).unwrap_err().to_string();
        assert!(message.contains("A.jpg and a.png would get the same name"), "{message}");
    }
}
