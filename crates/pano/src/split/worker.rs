//! A worker: the next frame, from its file to the names of its views.

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::Instant;

use gausset_compute::Pool;
use gausset_io::image::encode::{PngPixels, png};

use super::record::{ManifestLine, name_of};
use super::source::SourceFrame;
use super::{Settings, SplitError, Work, masks, write_error};
use crate::cutter::{CutError, CutView, Cutter, Plan, Times};
use crate::geometry::{View, levelled};
use crate::jpeg::Decoder;
use crate::load::{self, Opened};
use crate::metadata::{Metadata, Position};
use crate::plane::{Frame, FrameShape};
use crate::projection::{Equirect, Projection};
use crate::video::{Reader, Video};

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

pub(super) enum Told {
    Done { index: usize, line: ManifestLine, seconds: [f64; 5] },
    Skipped { index: usize, reason: String },
    Failed(SplitError),
}

pub(super) struct Shared<'a> {
    frames: &'a [SourceFrame],
    todo: &'a [usize],
    next: AtomicUsize,
    pub(super) settings: &'a Settings,
    pub(super) work: &'a Work,
    pub(super) folder: &'a Path,
    hash: &'a str,
    plans: Mutex<Vec<(Key, Arc<Plan>)>>,
    budget: Budget,
    /// The caller's flag, or our own after a failure.
    pub(super) stop: &'a AtomicBool,
    pub(super) failed: AtomicBool,
    /// The running ffmpeg; whoever holds the lock reads the next frame.
    reader: Mutex<Option<Reader<'a>>>,
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

impl<'a> Shared<'a> {
    pub(super) fn new(
        frames: &'a [SourceFrame],
        todo: &'a [usize],
        settings: &'a Settings,
        work: &'a Work,
        folder: &'a Path,
        hash: &'a str,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            frames,
            todo,
            next: AtomicUsize::new(0),
            settings,
            work,
            folder,
            hash,
            plans: Mutex::default(),
            budget: Budget::new(work.budget),
            stop,
            failed: AtomicBool::new(false),
            reader: Mutex::new(None),
        }
    }

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

/// Buffers of a worker.
#[derive(Default)]
pub(super) struct Bench {
    file: Vec<u8>,
    decoder: Decoder,
    pub(super) frame: Frame,
    parts: Vec<Frame>,
    pub(super) mask: Frame,
    cutter: Cutter,
}

pub(super) fn worker(shared: &Shared<'_>, sender: &mpsc::SyncSender<Told>) {
    let mut bench = Bench::default();
    loop {
        if shared.stop.load(Ordering::Relaxed) || shared.failed.load(Ordering::Relaxed) {
            return;
        }
        let index = if let Some(video) = &shared.settings.video {
            match next_of_video(shared, video, &mut bench) {
                Ok(Some(index)) => index,
                Ok(None) => return,
                // What ended because it was to stop is not broken.
                Err(_) if shared.stop.load(Ordering::Relaxed) => return,
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
            Ok(Err(FrameError::Frame(_))) if shared.stop.load(Ordering::Relaxed) => {
                remove_parts(shared, index);
                return;
            }
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
        let started =
            video.start(shared.stop).map_err(|e| (index, format!("{}: video: {e}", video.path.display())))?;
        *reader = Some(started);
    }
    let Some(running) = reader.as_mut() else { return Ok(None) };
    // A mask command sees the whole frame.
    let all = [[-1, i32::MAX / 2]; 3];
    let rows = if shared.settings.mask_command.is_some() { &all } else { plan.rows.as_slice() };
    match running.read(video, index, rows, shared.work.level, &mut bench.frame) {
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

pub(super) enum FrameError {
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

pub(super) fn remove_parts(shared: &Shared<'_>, index: usize) {
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
    let has_mask = masks::load(shared, source, bench)?;
    let Bench { cutter, frame, mask, .. } = bench;
    let mask = has_mask.then(|| {
        mask.planes[0].pad(plan.wraps);
        &mask.planes[0]
    });
    // The orientation of the views in the file is that of the layout, not that of a levelled panorama.
    let mut segments = |view: &View| {
        let named = settings.views.iter().find(|v| v.name == view.name).unwrap_or(view);
        metadata.segments(named, &source.stem)
    };
    let mut files = ViewFiles::new(shared, index);
    let mut receive = |view: CutView<'_>| files.write(&view);
    let mut times = Times::default();
    let level = shared.work.level;
    match cutter.cut(level, &plan, frame, mask, shared.stop, &mut times, &mut segments, &mut receive) {
        Ok(()) => {}
        Err(CutError::Cancelled) => {
            remove_parts(shared, index);
            return Ok(None);
        }
        Err(CutError::Receiver(error)) => return Err(FrameError::Fatal(error)),
        Err(CutError::Encoding(what)) => {
            return Err(FrameError::Frame(format!("{}: view: cannot be encoded: {what}", source.stem)));
        }
    }
    files.name_all().map_err(FrameError::Fatal)?;
    [seconds[2], seconds[3], seconds[4]] = [times.remap, times.encode, files.seconds];
    let gps =
        metadata.position().map(|Position { latitude, longitude, altitude }| [latitude, longitude, altitude]);
    let name = source.files.first().and_then(|f| f.file_name()).map(|n| n.to_string_lossy().into_owned());
    let line = ManifestLine {
        frame: source.stem.clone(),
        source: name.unwrap_or_default(),
        bytes: source.bytes,
        modified: source.modified,
        settings: shared.hash.to_owned(),
        views: files.sizes,
        gps,
    };
    Ok(Some((line, seconds)))
}

/// The files of a frame's views: written as `NAME.part`, named together when the last one is there.
struct ViewFiles<'w, 'a> {
    shared: &'w Shared<'a>,
    index: usize,
    /// Names that wait for their files, and masks of an earlier run with other settings, which go.
    waiting: Vec<(PathBuf, Waiting)>,
    /// Bytes of each picture.
    sizes: Vec<u64>,
    /// Time spent on writing.
    seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    ForItsFile,
    ForRemoval,
}

impl<'w, 'a> ViewFiles<'w, 'a> {
    fn new(shared: &'w Shared<'a>, index: usize) -> Self {
        Self { shared, index, waiting: Vec::new(), sizes: vec![0; shared.settings.views.len()], seconds: 0.0 }
    }

    fn write(&mut self, view: &CutView<'_>) -> Result<(), SplitError> {
        let started = Instant::now();
        let Shared { settings, frames, folder, .. } = self.shared;
        let name = name_of(settings, &frames[self.index], self.index, view.index);
        let path = folder.join("images").join(&name);
        fs::write(part_path(&path), view.picture).map_err(write_error(&path, "write"))?;
        self.sizes[view.index] = view.picture.len() as u64;
        self.waiting.push((path, Waiting::ForItsFile));
        let mask = mask_path(folder, &name);
        if let Some(pixels) = view.mask {
            if let Some(parent) = mask.parent() {
                fs::create_dir_all(parent).map_err(write_error(parent, "folder"))?;
            }
            let size = &settings.views[view.index];
            let png = png(size.width, size.height, PngPixels::Grey8(pixels), &[]).map_err(|e| {
                SplitError::Write { path: mask.clone(), action: "encode", reason: e.to_string() }
            })?;
            fs::write(part_path(&mask), png).map_err(write_error(&mask, "write"))?;
            self.waiting.push((mask, Waiting::ForItsFile));
        } else {
            self.waiting.push((mask, Waiting::ForRemoval));
        }
        self.seconds += started.elapsed().as_secs_f64();
        Ok(())
    }

    fn name_all(&mut self) -> Result<(), SplitError> {
        let started = Instant::now();
        for (path, waiting) in &self.waiting {
            match waiting {
                Waiting::ForItsFile => {
                    fs::rename(part_path(path), path).map_err(write_error(path, "rename"))?;
                }
                Waiting::ForRemoval => {
                    let _ = fs::remove_file(path);
                }
            }
        }
        self.seconds += started.elapsed().as_secs_f64();
        Ok(())
    }
}

fn key_of(settings: &Settings, opened: &Opened, file: &Path) -> Result<(Projection, [f64; 2]), FrameError> {
    let frame_error = |what: String| FrameError::Frame(format!("{}: {what}", file.display()));
    let [width, height] = opened.upright_size();
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
        None => Projection::Equirect(opened.equirect(settings.is_stereo).map_err(frame_error)?),
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
    let is_stereo = shared.settings.is_stereo;
    if let Some(mut shape) = opened.shape() {
        if is_stereo {
            shape.sizes.iter_mut().for_each(|size| size[1] /= 2);
        }
        let plan = shared.plan(Key { projection, shape, level });
        opened.decode(shared.work.level, &mut bench.decoder, &plan.rows, &mut bench.frame).map_err(bad)?;
        if is_stereo {
            bench.frame.keep_upper_half();
        }
        return Ok(plan);
    }
    opened.decode(shared.work.level, &mut bench.decoder, &[], &mut bench.frame).map_err(bad)?;
    if is_stereo {
        bench.frame.keep_upper_half();
    }
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
    bench.frame.stack(&bench.parts).ok_or_else(|| {
        FrameError::Frame(format!("{}: frame: its pictures are of different kinds", source.stem))
    })?;
    let key = Key { projection: projection.clone(), shape: bench.frame.shape(), level: [0.0, 0.0] };
    Ok((shared.plan(key), metadata))
}
