//! A worker: the next frame, from its file to the names of its views.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

use gausset_compute::Pool;
use gausset_io::guard;

use super::budget::{Budget, Reservation};
use super::files::{Cut, ViewFiles};
use super::record::ManifestLine;
use super::source::SourceFrame;
use super::{PartSeconds, Settings, SplitError, Work, masks};
use crate::cutter::{CutError, CutView, Cutter, Format, Plan, Times};
use crate::geometry::{View, levelled};
use crate::jpeg::Decoder;
use crate::load::{self, Opened};
use crate::metadata::{Metadata, Position};
use crate::plane::{Frame, FrameShape};
use crate::projection::{Equirect, Projection};
use crate::video::{Reader, Video};

pub(super) enum Told {
    Cut(Box<Cut>, PartSeconds),
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
    pub(super) budget: Budget,
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
            let (_, old) = plans.remove(0);
            self.budget.discharge(old.table_bytes() as u64);
        }
        self.budget.charge(plan.table_bytes() as u64);
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
    let mut reservation = Reservation::none(&shared.budget);
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
        if shared.settings.video.is_none() {
            let needed = match demand(shared, index) {
                Ok(needed) => needed,
                Err(reason) => {
                    if sender.send(Told::Skipped { index, reason }).is_err() {
                        return;
                    }
                    continue;
                }
            };
            if needed > reservation.bytes() {
                bench = Bench::default();
                reservation.renew(needed);
            }
        }
        let told = match guard::run(|| one_frame(shared, index, &mut bench)) {
            Ok(Err(FrameError::Frame(_))) if shared.stop.load(Ordering::Relaxed) => return,
            Ok(Ok(Some((cut, seconds)))) => Told::Cut(Box::new(cut), seconds),
            Ok(Ok(None)) => return,
            Ok(Err(FrameError::Frame(reason))) => Told::Skipped { index, reason },
            Ok(Err(FrameError::Fatal(error))) => Told::Failed(error),
            Err(panic) => {
                bench = Bench::default();
                let frame = &shared.frames[index];
                let file = frame.files.first().map(|f| f.display().to_string()).unwrap_or_default();
                let reason =
                    format!("{file}: picture: internal error while it was split ({panic}); please report it");
                Told::Skipped { index, reason }
            }
        };
        if shared.settings.video.is_none() && shared.budget.is_wanted() {
            bench = Bench::default();
            reservation.release();
        }
        if sender.send(told).is_err() {
            return;
        }
    }
}

/// Bytes that a frame in files takes from its file to its encoded views.
pub(super) fn demand(shared: &Shared<'_>, index: usize) -> Result<u64, String> {
    let (settings, frame) = (shared.settings, &shared.frames[index]);
    let (mut bytes, mut planes, mut pixels) = (0, 0, 0);
    for file in &frame.files {
        let demand = load::demand(file, &settings.limits).map_err(|e| e.to_string())?;
        bytes += demand.bytes;
        planes += demand.planes;
        pixels += demand.pixels;
    }
    if frame.files.len() > 1 {
        // The parts stay beside the whole.
        bytes += planes;
    }
    bytes += masks::demand(settings, frame, pixels) + view_bytes(settings);
    let largest = shared.budget.largest();
    if bytes <= largest {
        return Ok(bytes);
    }
    let file = frame.files.first().map(|f| f.display().to_string()).unwrap_or_default();
    // What a frame takes grows with its pixels.
    let side = (pixels as f64 * largest as f64 / bytes as f64 / 2.0).sqrt() as u64 / 16 * 16;
    Err(format!(
        "{file}: memory: cutting it takes {} (expected at most {}); raise --max-memory, or make it smaller: {}x{side} px of this kind fit",
        gausset_io::units::bytes(bytes),
        gausset_io::units::bytes(largest),
        2 * side
    ))
}

/// Bytes of the buffers of one view: pixels and file.
fn view_bytes(settings: &Settings) -> u64 {
    let pixels = settings.views.iter().map(|v| u64::from(v.width) * u64::from(v.height)).max().unwrap_or(0);
    let each = if settings.format == Format::Png { 9 } else { 3 };
    each * pixels + (1 << 20)
}

/// Bytes that a worker takes for frames of a video.
pub(super) fn video_demand(settings: &Settings, video: &Video) -> u64 {
    let pixels = u64::from(video.size[0]) * u64::from(video.size[1]);
    let mask = if settings.mask_command.is_some() { masks::MADE_BYTES * pixels } else { 0 };
    // Planes of 4:2:0 with their padding, and halves of them.
    pixels * 17 / 8 + mask + view_bytes(settings)
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
        read_ahead(file);
    }
}

/// A hint to the system: nothing depends on it.
fn read_ahead(file: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(file) = gausset_io::input::open(file, gausset_io::input::STREAMED) {
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

pub(super) enum FrameError {
    /// This frame cannot be used.
    Frame(String),
    /// Nothing can be written any more.
    Fatal(SplitError),
}

/// Breaks down on a frame of this name if the environment asks for it, so that a test can see what a person would.
#[cfg(debug_assertions)]
fn rehearse(frame: &str) {
    let is_due = std::env::var_os("GAUSSET_REHEARSE_BREAKDOWN").is_some_and(|name| name == frame);
    assert!(!is_due, "this is a rehearsal");
}

#[cfg(not(debug_assertions))]
const fn rehearse(_frame: &str) {}

/// One frame, from its file to its views, which wait for their names; `None` when it was cancelled.
fn one_frame(
    shared: &Shared<'_>,
    index: usize,
    bench: &mut Bench,
) -> Result<Option<(Cut, PartSeconds)>, FrameError> {
    let source = &shared.frames[index];
    let settings = shared.settings;
    rehearse(&source.stem);
    let mut seconds = PartSeconds::default();
    let started = Instant::now();
    let bad = |e: load::LoadError| FrameError::Frame(e.to_string());
    let (plan, metadata) = if let Some(video) = &settings.video {
        (video_plan(shared, video), Metadata::default())
    } else if let [file] = source.files.as_slice() {
        let mut opened = load::open(file, &settings.limits, std::mem::take(&mut bench.file)).map_err(bad)?;
        seconds.read = started.elapsed().as_secs_f64();
        let key = key_of(settings, &opened, file)?;
        let plan = decode(shared, key, &mut opened, bench)?;
        bench.file = std::mem::take(&mut opened.data);
        (plan, opened.metadata)
    } else {
        stacked(shared, source, bench, &mut seconds)?
    };
    let found = masks::load(shared, source, bench)?;
    seconds.decode = started.elapsed().as_secs_f64() - seconds.read;
    let Bench { cutter, frame, mask, .. } = bench;
    let mask = (!matches!(found, masks::Found::Nowhere)).then(|| {
        mask.planes[0].pad(plan.wraps);
        &mask.planes[0]
    });
    // The orientation of the views in the file is that of the layout, not that of a levelled panorama.
    let mut segments = |view: &View| {
        let named = settings.views.iter().find(|v| v.name == view.name).unwrap_or(view);
        metadata.segments(named, &source.stem)
    };
    let mut files = ViewFiles::new(settings, shared.folder, source, index);
    let mut receive = |view: CutView<'_>| files.write(&view);
    let mut times = Times::default();
    let level = shared.work.level;
    match cutter.cut(level, &plan, frame, mask, shared.stop, &mut times, &mut segments, &mut receive) {
        Ok(()) => {}
        Err(CutError::Cancelled) => return Ok(None),
        Err(CutError::Receiver(error)) => return Err(FrameError::Fatal(error)),
        Err(CutError::Encoding(what)) => {
            return Err(FrameError::Frame(format!("{}: view: cannot be encoded: {what}", source.stem)));
        }
    }
    (seconds.remap, seconds.encode, seconds.write) = (times.remap, times.encode, files.seconds);
    let gps =
        metadata.position().map(|Position { latitude, longitude, altitude }| [latitude, longitude, altitude]);
    let name = source.files.first().and_then(|f| f.file_name()).map(|n| n.to_string_lossy().into_owned());
    let line = ManifestLine {
        frame: source.stem.clone(),
        source: name.unwrap_or_default(),
        bytes: source.bytes,
        modified: source.modified,
        settings: shared.hash.to_owned(),
        views: files.views,
        gps,
        mask: match found {
            masks::Found::File(file) => Some(file),
            masks::Found::Nowhere | masks::Found::Made => None,
        },
        masks: Some(files.masks),
    };
    Ok(Some((Cut { index, line, files: files.files, without: files.without }, seconds)))
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
    seconds: &mut PartSeconds,
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
        seconds.read += started.elapsed().as_secs_f64();
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
