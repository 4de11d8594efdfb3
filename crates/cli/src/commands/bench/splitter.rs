//! Timing of the parts of panorama splitting, on procedural panoramas.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gausset::Failure;
use gausset_compute::Pool;
use gausset_compute::fearless_simd::Level;
use gausset_io::atomic::{Disk, FileSystem, commit_all, plain_reason, write_atomic, write_uncommitted};
use gausset_jpeg::{Decoder, encode_planes};
use gausset_pano::cutter::{CutError, CutJob, CutTimes, CutView, Cutter, Format, Plan};
use gausset_pano::geometry::View;
use gausset_pano::grade::{Colouring, Grade, rows_with_chroma};
use gausset_pano::layout::Layout;
use gausset_pano::load::{self, ImageLimits};
use gausset_pano::look::ColourSettings;
use gausset_pano::plane::Frame;
use gausset_pano::projection::{Equirect, Projection};
use gausset_scenes::panorama::detailed;

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitterOptions {
    /// Width of the panoramas, px.
    pub(super) width: usize,
    /// Number of different panoramas.
    pub(super) frames: usize,
    /// Number of passes over them; the fastest is reported.
    pub(super) repeats: usize,
    /// JPEG quality of panoramas and views.
    pub(super) quality: u8,
    /// Colour adjustments.
    pub(super) look: ColourSettings,
}

/// CPU time per view of each part in ms, for the fastest pass over all panoramas.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SplitterMeasurement {
    /// Reading files.
    pub(super) read: f64,
    /// Decoding JPEG.
    pub(super) decode: f64,
    /// Adjusting colours.
    pub(super) colour: f64,
    /// Resampling to views.
    pub(super) remap: f64,
    /// Encoding JPEG.
    pub(super) encode: f64,
    /// Writing files.
    pub(super) write: f64,
    /// The whole pass, by the CPU clock of the thread.
    pub(super) total: f64,
    /// Number of views per pass.
    pub(super) views: usize,
}

/// Creates the panoramas in `folder` if they do not exist, and splits them into `folder/views` on one thread.
///
/// # Errors
/// A file cannot be written or read.
pub(super) fn measure(
    options: &SplitterOptions,
    folder: &Path,
    level: Level,
) -> Result<SplitterMeasurement, Failure> {
    let cpu_seconds = || gausset_prof::thread_cpu().map_or(f64::NAN, |time| time.as_secs_f64());
    let pool = Pool::with_all_cores();
    let out = folder.join("views");
    Disk.create_folder(&out)
        .map_err(|e| failed(format!("{}: folder: {}", out.display(), plain_reason(&e))))?;
    let mut files = Vec::new();
    for k in 0..options.frames {
        let path = folder.join(format!("pano_{}_{k:02}.jpg", options.width));
        if !path.is_file() {
            let planes = detailed(options.width, k as u32, &pool);
            let bytes = encode_planes(options.width, &planes, options.quality, level);
            write_atomic(&Disk, &path, |file| file.write_all(&bytes)).map_err(failed)?;
        }
        files.push(path);
    }
    let width = options.width as u32;
    let projection = Projection::Equirect(Equirect::whole(width, width / 2));
    let side = Layout::Ring8.native_view_side(width, None);
    let views = Layout::Ring8.views(side, side, None);
    let count = views.len();
    let limits = ImageLimits { width: 32_768, height: 16_384, ..ImageLimits::default() };
    let open = |file: &Path, buffer| load::load(file, &limits, buffer).map_err(failed);
    let first = files.first().map(|file| open(file, Vec::new())).transpose()?;
    let shape = first.and_then(|first| first.shape());
    let shape = shape.ok_or_else(|| failed("the panorama is no baseline JPEG"))?;
    let plan = Plan::new(views, Format::Jpeg(options.quality), &projection, shape, 0.0, &pool);
    let (mut decoder, mut frame, mut cutter, mut buffer) =
        (Decoder::default(), Frame::default(), Cutter::default(), Vec::new());
    let colouring = Colouring { look: options.look, lut: None };
    let grade = (!colouring.is_neutral()).then(|| Grade::new(colouring, [1.0; 3]));
    let rows =
        if grade.is_some() { rows_with_chroma(&plan.rows, &plan.shape.sizes) } else { plan.rows.clone() };
    let never = AtomicBool::new(false);
    let mut best: Option<SplitterMeasurement> = None;
    for _ in 0..options.repeats.max(1) {
        let cpu = cpu_seconds();
        let mut m = SplitterMeasurement { views: files.len() * count, ..SplitterMeasurement::default() };
        for (k, file) in files.iter().enumerate() {
            let mut clock = cpu_seconds();
            let mut lap = || {
                let now = cpu_seconds();
                let spent = 1e3 * (now - clock);
                clock = now;
                spent
            };
            let mut opened = open(file, buffer)?;
            m.read += lap();
            let decoded = opened.decode(level, &mut decoder, &rows, &mut frame);
            decoded.map_err(failed)?;
            m.decode += lap();
            if let Some(grade) = &grade {
                grade.apply(&mut frame);
                m.colour += lap();
            }
            let mut times = CutTimes::default();
            let mut write = 0.0;
            let mut written = Vec::new();
            let mut receive = |view: CutView<'_>| {
                let started = cpu_seconds();
                let path = out.join(format!("{k:02}_{:02}.jpg", view.index));
                written.push(write_uncommitted(&path, view.encoded).map_err(failed)?);
                write += 1e3 * (cpu_seconds() - started);
                Ok::<(), Failure>(())
            };
            let segments = |v: &View| opened.metadata.view_segments(v, "f");
            let (frame, cancel) = (&mut frame, &never);
            let job = CutJob { level, plan: &plan, frame, mask: None, cancel, segments: &segments };
            cutter.cut(job, &mut times, &mut receive).map_err(|e| match e {
                CutError::Receiver(failure) => failure,
                CutError::Encoding(what) => failed(what),
                CutError::Cancelled => failed("cancelled"),
            })?;
            // The CPU time of the loop is divided in proportion to the wall times of sampling and encoding.
            let spent = lap() - write;
            let share = times.remap / (times.remap + times.encode).max(1e-12);
            m.remap += spent * share;
            m.encode += spent * (1.0 - share);
            commit_all(written).map_err(failed)?;
            m.write += write + lap();
            buffer = std::mem::take(&mut opened.data);
        }
        m.total = 1e3 * (cpu_seconds() - cpu);
        let views = m.views as f64;
        for value in [
            &mut m.read,
            &mut m.decode,
            &mut m.colour,
            &mut m.remap,
            &mut m.encode,
            &mut m.write,
            &mut m.total,
        ] {
            *value /= views;
        }
        if best.is_none_or(|b| m.total < b.total) {
            best = Some(m);
        }
    }
    best.ok_or_else(|| failed("nothing was measured"))
}

/// A failure to write a file or to read it back.
fn failed(what: impl ToString) -> Failure {
    Failure::new("write", what)
}
