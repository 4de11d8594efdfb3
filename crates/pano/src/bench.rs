//! The splitter on procedural frames, measured: what `gausset bench pano` runs.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gausset_compute::Pool;
use gausset_compute::fearless_simd::Level;
use gausset_io::atomic::{Disk, FileSystem, name_together, write_atomic, write_unnamed};

use crate::cutter::{CutError, CutJob, CutView, Cutter, Format, Plan, Times};
use crate::geometry::View;
use crate::jpeg::Decoder;
use crate::layout::Layout;
use crate::load::{self, Limits};
use crate::plane::Frame;
use crate::projection::{Equirect, Projection};

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Width of the panoramas, px.
    pub width: usize,
    /// Different panoramas.
    pub frames: usize,
    /// How often each is split; the fastest counts.
    pub repeats: usize,
    /// JPEG quality of panoramas and views.
    pub quality: u8,
}

/// CPU milliseconds per view of the parts of the work, of the fastest pass over all frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Reading files.
    pub read: f64,
    /// Decoding.
    pub decode: f64,
    /// Sampling.
    pub remap: f64,
    /// Encoding.
    pub encode: f64,
    /// Writing files.
    pub write: f64,
    /// All of it, by the process clock.
    pub total: f64,
    /// Views a pass.
    pub views: usize,
    /// Wall seconds of the fastest pass.
    pub wall_seconds: f64,
    /// Milliseconds of building the tables, once.
    pub tables: f64,
}

/// Makes `frames` panoramas in `folder` if they are not there, and splits them into views beside them, one thread.
///
/// # Errors
/// One line: a file cannot be written or read.
pub fn measure(
    options: &Options,
    folder: &Path,
    level: Level,
    cpu_seconds: &dyn Fn() -> f64,
) -> Result<Measured, String> {
    let pool = Pool::with_all_cores();
    let out = folder.join("views");
    Disk.create_folder(&out)
        .map_err(|e| format!("{}: folder: {}", out.display(), gausset_io::atomic::plain_reason(&e)))?;
    let mut files = Vec::new();
    for k in 0..options.frames {
        let path = folder.join(format!("pano_{k:02}.jpg"));
        if !path.is_file() {
            let bytes = crate::synthetic::detailed(options.width, options.quality, k as u32, level, &pool);
            write_atomic(&Disk, &path, |file| file.write_all(&bytes)).map_err(|e| e.to_string())?;
        }
        files.push(path);
    }
    let width = options.width as u32;
    let projection = Projection::Equirect(Equirect::whole(width, width / 2));
    let side = Layout::Ring8.natural_side(width, None);
    let views = Layout::Ring8.views(side, side, None);
    let count = views.len();
    let limits = Limits { width: 32_768, height: 16_384, ..Limits::default() };
    let first =
        load::open(files.first().ok_or("no frames")?, &limits, Vec::new()).map_err(|e| e.to_string())?;
    let shape = first.shape().ok_or("the panorama is no baseline JPEG")?;
    let started = Instant::now();
    let plan = Plan::new(views, Format::Jpeg(options.quality), &projection, shape, 0.0, &pool);
    let tables = 1e3 * started.elapsed().as_secs_f64();
    drop(first);
    let (mut decoder, mut frame, mut cutter, mut buffer) =
        (Decoder::default(), Frame::default(), Cutter::default(), Vec::new());
    let never = AtomicBool::new(false);
    let mut best: Option<Measured> = None;
    for _ in 0..options.repeats.max(1) {
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        let mut m = Measured { tables, views: files.len() * count, ..Measured::default() };
        for (k, file) in files.iter().enumerate() {
            let mut clock = cpu_seconds();
            let mut lap = || {
                let now = cpu_seconds();
                let spent = 1e3 * (now - clock);
                clock = now;
                spent
            };
            let mut opened = load::open(file, &limits, buffer).map_err(|e| e.to_string())?;
            m.read += lap();
            opened.decode(level, &mut decoder, &plan.rows, &mut frame).map_err(|e| e.to_string())?;
            m.decode += lap();
            let mut times = Times::default();
            let mut write = 0.0;
            let mut written = Vec::new();
            let mut receive = |view: CutView<'_>| {
                let started = cpu_seconds();
                let path = out.join(format!("{k:02}_{:02}.jpg", view.index));
                written.push(write_unnamed(&path, view.picture).map_err(|e| e.to_string())?);
                write += 1e3 * (cpu_seconds() - started);
                Ok::<(), String>(())
            };
            let segments = |v: &View| opened.metadata.segments(v, "f");
            let (frame, cancel) = (&mut frame, &never);
            let job = CutJob { level, plan: &plan, frame, mask: None, cancel, segments: &segments };
            cutter.cut(job, &mut times, &mut receive).map_err(|e| match e {
                CutError::Receiver(what) | CutError::Encoding(what) => what,
                CutError::Cancelled => "cancelled".to_owned(),
            })?;
            // Wall times share out the CPU time of the loop.
            let spent = lap() - write;
            let share = times.remap / (times.remap + times.encode).max(1e-12);
            m.remap += spent * share;
            m.encode += spent * (1.0 - share);
            name_together(written).map_err(|e| e.to_string())?;
            m.write += write + lap();
            buffer = std::mem::take(&mut opened.data);
        }
        m.total = 1e3 * (cpu_seconds() - cpu);
        m.wall_seconds = wall.elapsed().as_secs_f64();
        let views = m.views as f64;
        for value in [&mut m.read, &mut m.decode, &mut m.remap, &mut m.encode, &mut m.write, &mut m.total] {
            *value /= views;
        }
        if best.is_none_or(|b| m.total < b.total) {
            best = Some(m);
        }
    }
    best.ok_or_else(|| "nothing was measured".to_owned())
}
