//! `gausset pano split`: panoramas to perspective views.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_compute::level;
use gausset_io::atomic::{FileSystem, Overwrite};
use gausset_io::lock::FolderLock;
use gausset_io::units;
use gausset_pano::cutter::Format;
use gausset_pano::eac::Eac;
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::load::{self, Limits};
use gausset_pano::projection::Projection;
use gausset_pano::split::{
    self, Event, MaskCommand, Naming, OnError, PartSeconds, Report, Settings, Skipped, SourceFrame,
    SplitError, Work,
};
use gausset_pano::video::{Choice, Footage, Video};
use gausset_train::MemoryLimit;
use serde::Serialize;

use super::views::ViewArgs;
use crate::Ending;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Signal};
use crate::numbers::{counted, duration, grouped, three_digits};
use crate::progress::Reporter;
use crate::table;

const AFTER_HELP: &str = "\
Examples:
  gausset pano split walk/ -o work/
  gausset pano split walk/ -o work/ --layout cube6 --size 1024 --crop-bottom 35
  gausset pano split walk/ -o work/ --dry-run          frames, views, disk, time; writes nothing
Finished frames are kept: the same command goes on after an interruption.";

/// Seconds for which ffmpeg or a mask command may say nothing.
pub(crate) const SILENCE: u64 = 120;

/// Arguments of `pano split`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SplitArgs {
    /// A folder of panoramas (JPEG, PNG, TIFF), of GoPro MAX stream pairs, or a video (through ffmpeg).
    #[arg(value_name = "INPUT")]
    pub(crate) input: PathBuf,
    /// Folder for the views.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) views: ViewArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Mask everything within so many degrees of straight down: tripod, operator.
    #[arg(long, value_name = "DEG", default_value_t = 0.0, help_heading = "Views")]
    pub(crate) crop_bottom: f64,
    /// Folder with a mask per frame (0 = remove) [default: INPUT/masks].
    #[arg(long, value_name = "DIR", help_heading = "Views")]
    pub(crate) masks: Option<PathBuf>,
    /// A program that writes a mask per frame, with its arguments; {frame} and {mask} stand for the picture and for the
    /// PNG to write (0 = remove).
    #[arg(long, value_name = "COMMAND", conflicts_with = "masks", help_heading = "Views")]
    pub(crate) mask_command: Option<String>,
    /// Turn panoramas level: gpano = by the pitch and roll that their metadata say.
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(["gpano"]), help_heading = "Views")]
    pub(crate) level: Option<String>,
    /// Kind of the views: jpg|png.
    #[arg(
        long, value_name = "FORMAT", default_value = "jpg", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["jpg", "png"])
    )]
    pub(crate) format: String,
    /// JPEG quality [default: 95].
    #[arg(long, value_name = "Q", help_heading = "Files", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) quality: Option<u8>,
    /// Names: rig (viewNN/FRAME.jpg, a rig for COLMAP) or flat (frame_NNNNN_cam_NN.jpg).
    #[arg(
        long, value_name = "NAMING", default_value = "rig", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["rig", "flat"])
            .map(|w| if w == "flat" { Naming::Flat } else { Naming::Rig })
    )]
    pub(crate) naming: Naming,
    /// What to do with a frame that cannot be used: skip|stop.
    #[arg(
        long, value_name = "HOW", default_value = "skip", hide_possible_values = true, help_heading = "Files",
        value_parser = PossibleValuesParser::new(["skip", "stop"])
            .map(|w| if w == "stop" { OnError::Stop } else { OnError::Skip })
    )]
    pub(crate) on_error: OnError,
    /// Redo frames that are finished, and write among files of somebody else.
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    /// Seconds for which an outside program (ffmpeg, mask command) may say nothing.
    #[arg(long, value_name = "S", default_value_t = SILENCE, help_heading = "Files", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) tool_timeout: u64,
    /// Largest panorama, as WIDTHxHEIGHT px.
    #[arg(long, value_name = "WxH", default_value = "16384x8192", value_parser = parse_size, help_heading = "Files")]
    pub(crate) max_side: [u32; 2],
    /// Longest file of a frame, MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256, help_heading = "Files")]
    pub(crate) max_file: u64,
    /// Memory to stay within: 4GiB, 512MiB, bytes; auto = a quarter of the machine's, at most 2GiB.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = str::parse::<MemoryLimit>, help_heading = "Machine")]
    pub(crate) max_memory: MemoryLimit,
    /// Say what would be done; write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
}

/// Which frames.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ChoiceArgs {
    /// Every n-th frame.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Frames", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) every: u32,
    /// Video: frames per second.
    #[arg(long, value_name = "FPS", help_heading = "Frames", value_parser = parse_positive)]
    pub(crate) fps: Option<f64>,
    /// Video: first second.
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "Frames")]
    pub(crate) start: f64,
    /// Video: last second.
    #[arg(long, value_name = "S", help_heading = "Frames", value_parser = parse_positive)]
    pub(crate) end: Option<f64>,
    /// Video: of so many neighbouring frames, the sharpest.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Frames", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) sharpest_of: u32,
    /// Two eyes, one above the other; the upper one is taken (tb).
    #[arg(long, value_name = "HOW", help_heading = "Frames", value_parser = PossibleValuesParser::new(["tb"]))]
    pub(crate) stereo: Option<String>,
    /// Frames of two fisheye circles, described by a lens file (docs/pano.md).
    #[arg(long, value_name = "FILE", help_heading = "Frames")]
    pub(crate) lens: Option<PathBuf>,
    /// At most so many frames, spread evenly.
    #[arg(long, value_name = "N", help_heading = "Frames", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_frames: Option<u32>,
}

pub(crate) fn parse_positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0 && *v <= 1e6);
    value.ok_or_else(|| format!("expected a number above 0, found `{text}`"))
}

fn parse_size(text: &str) -> Result<[u32; 2], String> {
    let sides = text.split_once('x').and_then(|(w, h)| Some([w.parse().ok()?, h.parse().ok()?]));
    sides
        .filter(|[w, h]: &[u32; 2]| (16..=32_768).contains(w) && (16..=32_768).contains(h))
        .ok_or_else(|| format!("expected WIDTHxHEIGHT of 16..32768 px, found `{text}`"))
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct Result_ {
    frames: usize,
    views: usize,
    skipped: Vec<Skipped>,
    /// Wall seconds of the parts of the work, all workers together.
    seconds: PartSeconds,
}

/// What will be done: a stable contract of `--dry-run --json`.
#[derive(Debug, Serialize)]
struct Forecast {
    frames: usize,
    views: usize,
    view_width: u32,
    view_height: u32,
    /// Bytes of the views.
    disk_bytes: u64,
    /// CPU seconds.
    cpu_seconds: f64,
}

/// Bytes of a pixel of a view at quality 95, as the preflight counts them.
const BYTES_PER_PIXEL: f64 = 0.35;
/// CPU time of a pixel of a view, decoding included, seconds.
const SECONDS_PER_PIXEL: f64 = 12e-9;

impl From<SplitError> for Failure {
    fn from(error: SplitError) -> Self {
        match error {
            SplitError::Input(_) | SplitError::Nothing { .. } | SplitError::Stopped(_) => {
                Self::new("frames", error)
            }
            SplitError::Write { .. } | SplitError::NotOurs(_) => Self::new("write", error),
            SplitError::Atomic(error) => error.into(),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &SplitArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    if args.dry_run {
        let (frames, settings) = prepare(args, &interrupt)?;
        return forecast(&frames, &settings, console);
    }
    let report = perform(args, &interrupt, console)?;
    let result = Result_ {
        frames: report.frames,
        views: report.views,
        skipped: report.skipped.clone(),
        seconds: report.seconds,
    };
    console.object_or(&result, || describe(&report, args))?;
    if report.is_cancelled {
        return Ok(Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt)));
    }
    Ok(Status::done(!report.skipped.is_empty()))
}

/// Splits, with progress and warnings.
pub(crate) fn perform(args: &SplitArgs, interrupt: &Interrupt, console: &Console) -> Result<Report, Failure> {
    let (frames, settings) = match prepare(args, interrupt) {
        Err(_) if interrupt.signal().is_some() => {
            return Ok(Report { is_cancelled: true, ..Report::default() });
        }
        other => other?,
    };
    let folder = args.output.as_path();
    let budget = budget(args.max_memory)?;
    split::claim(folder, if args.force { Overwrite::Replace } else { Overwrite::Refuse })?;
    let lock = FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))?;
    if let Some(note) = &lock.note {
        console.warn("the folder", note);
    }
    check_space(folder, &frames, &settings)?;
    let threads = match args.compute.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n as usize,
    };
    let level = level(args.compute.device.level())
        .ok_or_else(|| Failure::new("device", "--simd: this processor does not have it"))?;
    let work = Work { threads, level, on_error: args.on_error, force: args.force, budget };
    let mut reporter = Reporter::start(console, "frame", 0, frames.len() as u64);
    let report =
        split::split(&frames, &settings, &work, folder, interrupt.stop(), &mut |event| match event {
            Event::Frame { done, views_per_s, .. } => {
                reporter.at(done as u64, || format!("{} views/s", three_digits(views_per_s)));
            }
            Event::Skipped(skipped) => console.warn("frames", format!("{}; skipped", skipped.reason)),
        });
    reporter.finish();
    let report = report?;
    if report.is_cancelled {
        console.note("stopped; the same command goes on with the frames that are left");
    }
    Ok(report)
}

/// The frames and what is to be done with them.
pub(crate) fn prepare(
    args: &SplitArgs,
    interrupt: &Interrupt,
) -> Result<(Vec<SourceFrame>, Settings), Failure> {
    if !(0.0..=90.0).contains(&args.crop_bottom) {
        return Err(Failure::usage(format!(
            "--crop-bottom: expected 0..90 degrees, found {}",
            args.crop_bottom
        )));
    }
    let [width, height] = args.max_side;
    let limits = Limits { width, height, bytes: args.max_file.saturating_mul(1 << 20) };
    let Found { frames, around, projection, video } = find_frames(args, &limits, interrupt)?;
    let is_stereo = args.choice.stereo.is_some();
    let is_eac =
        matches!(projection, Some(Projection::Eac(_))) || video.as_ref().is_some_and(|v| v.eac.is_some());
    if is_stereo && projection.is_some() {
        return Err(Failure::usage("--stereo: is for panoramas (found other frames)"));
    }
    let mask_command = match &args.mask_command {
        Some(_) if is_eac => {
            return Err(Failure::usage(
                "--mask-command: is for panoramas and fisheyes (found GoPro MAX streams)",
            ));
        }
        Some(text) => {
            let command = MaskCommand::parse(text, Duration::from_secs(args.tool_timeout));
            Some(command.map_err(|what| Failure::usage(format!("--mask-command: {what}")))?)
        }
        None => None,
    };
    let views = args.views.views(around)?;
    let format = match (args.format.as_str(), args.quality) {
        ("png", None) => Format::Png,
        ("png", Some(_)) => {
            return Err(Failure::usage(
                "--quality: has no effect on PNG; leave it out, or take --format jpg",
            ));
        }
        (_, quality) => Format::Jpeg(quality.unwrap_or(95)),
    };
    let settings = Settings {
        views,
        format,
        naming: args.naming,
        crop_bottom: args.crop_bottom,
        level_gpano: args.level.is_some(),
        projection,
        masks: args.masks.clone(),
        mask_command,
        is_stereo: is_stereo && video.is_none(),
        limits,
        video,
    };
    Ok((frames, settings))
}

/// What the input is.
struct Found {
    frames: Vec<SourceFrame>,
    /// Pixels around the horizon.
    around: u32,
    projection: Option<Projection>,
    video: Option<Video>,
}

fn find_frames(args: &SplitArgs, limits: &Limits, interrupt: &Interrupt) -> Result<Found, Failure> {
    let ChoiceArgs { fps, start, end, sharpest_of, stereo, lens, .. } = &args.choice;
    let is_stereo = stereo.is_some();
    let is_picture = |e: &std::ffi::OsStr| {
        ["jpg", "jpeg", "png", "tif", "tiff"].iter().any(|known| e.eq_ignore_ascii_case(known))
    };
    if args.input.is_file() && args.input.extension().is_some_and(is_picture) {
        let stem = args.input.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let frames = vec![split::source_frame(&stem, vec![args.input.clone()])];
        let around = width_of_first(&frames, limits, is_stereo)?;
        return Ok(Found { frames, around, projection: None, video: None });
    }
    if args.input.is_file() {
        if lens.is_some() {
            return Err(Failure::usage(
                "--lens: is for folders of pictures (expected a folder, found a file)",
            ));
        }
        if !(start.is_finite() && *start >= 0.0) {
            return Err(Failure::usage(format!("--start: expected a number from 0 on, found {start}")));
        }
        let choice = Choice {
            footage: Footage::Panorama,
            fps: *fps,
            start: *start,
            end: *end,
            sharpest_of: *sharpest_of,
            is_stereo,
        };
        let silence = Duration::from_secs(args.tool_timeout);
        let limits = [limits.width, limits.height];
        let video = Video::open(&args.input, choice, limits, silence, interrupt.stop())
            .map_err(|e| Failure::new("video", e))?;
        let around = match &video.eac {
            Some(eac) => 4 * eac.face_side(),
            None => video.size[0],
        };
        let video = match args.choice.max_frames {
            Some(most) => video.at_most(most as usize),
            None => video,
        };
        let frames = split::video_frames(&video);
        if args.choice.every != 1 {
            return Err(Failure::usage("--every: is for folders of pictures; say --fps for a video"));
        }
        return Ok(Found { frames, around, projection: None, video: Some(video) });
    }
    if fps.is_some() || end.is_some() || *start != 0.0 || *sharpest_of != 1 {
        return Err(Failure::usage("--fps, --start, --end, --sharpest-of: are for videos (found a folder)"));
    }
    let listed = split::list_frames(&args.input)?;
    if let Some(lens) = lens {
        let fisheye = DualFisheye::read(lens).map_err(|e| Failure::new("views", e))?;
        let around = fisheye.pixels_around();
        let projection = Some(Projection::Fisheye(fisheye));
        return Ok(Found { frames: choose(listed, &args.choice), around, projection, video: None });
    }
    if let Some(pairs) = split::eac_pairs(&listed) {
        let frames = choose(pairs, &args.choice);
        let file = &frames[0].files[0];
        let opened = load::open(file, limits, Vec::new()).map_err(|e| Failure::new("frames", e))?;
        let [w, h] = opened.size;
        let eac = Eac::of_stream(w, h).ok_or_else(|| {
            let file = file.display();
            Failure::new(
                "frames",
                format!(
                    "{file}: picture: {w}x{h} px is no GoPro MAX stream (expected 4096x1344 or 2272x736)"
                ),
            )
        })?;
        let around = 4 * eac.face_side();
        return Ok(Found { frames, around, projection: Some(Projection::Eac(eac)), video: None });
    }
    let frames = choose(listed, &args.choice);
    let around = width_of_first(&frames, limits, is_stereo)?;
    Ok(Found { frames, around, projection: None, video: None })
}

/// Side that the views of these arguments have by default.
pub(crate) fn natural_side_of(args: &SplitArgs, interrupt: &Interrupt) -> Result<u32, Failure> {
    let (_, settings) = prepare(args, interrupt)?;
    Ok(settings.views.first().map_or(16, |view| view.width))
}

fn choose(frames: Vec<SourceFrame>, choice: &ChoiceArgs) -> Vec<SourceFrame> {
    let frames: Vec<SourceFrame> = frames.into_iter().step_by(choice.every as usize).collect();
    match choice.max_frames.map(|n| n as usize) {
        Some(most) if most < frames.len() => {
            let all = frames.len();
            (0..most).map(|k| frames[k * all / most].clone()).collect()
        }
        _ => frames,
    }
}

/// Pixels around the horizon in the first frame that can be read.
fn width_of_first(frames: &[SourceFrame], limits: &Limits, is_stereo: bool) -> Result<u32, Failure> {
    let mut first_error = None;
    for file in frames.iter().flat_map(|frame| &frame.files) {
        let found = load::open(file, limits, Vec::new()).map_err(|e| e.to_string()).and_then(|opened| {
            opened.equirect(is_stereo).map_err(|what| format!("{}: {what}", file.display()))
        });
        match found {
            Ok(equirect) => return Ok(Projection::Equirect(equirect).pixels_around()),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Err(Failure::new("frames", first_error.unwrap_or_else(|| "frames: none found".to_owned())))
}

fn disk_bytes(frames: &[SourceFrame], settings: &Settings) -> u64 {
    let pixels: u64 = settings.views.iter().map(|v| u64::from(v.width) * u64::from(v.height)).sum();
    let factor = if settings.format == Format::Png { 6.0 } else { 1.0 };
    (frames.len() as f64 * pixels as f64 * BYTES_PER_PIXEL * factor) as u64
}

fn check_space(folder: &Path, frames: &[SourceFrame], settings: &Settings) -> Result<(), Failure> {
    let needed = disk_bytes(frames, settings);
    let free = gausset_io::atomic::Disk.free_space(folder).unwrap_or(u64::MAX);
    if free < needed {
        let (needed, free) = (units::bytes(needed), units::bytes(free));
        return Err(Failure::new(
            "write",
            format!(
                "{}: free space: too little room (expected about {needed}, found {free}); free some space or choose another folder",
                folder.display()
            ),
        ));
    }
    Ok(())
}

/// Least that `--max-memory` may be.
const LEAST_MEMORY: u64 = 64 << 20;
/// What the program itself takes, beside frames and tables.
const PROGRAM_MEMORY: u64 = 24 << 20;

/// Bytes for frames and tables.
fn budget(limit: MemoryLimit) -> Result<u64, Failure> {
    match limit {
        MemoryLimit::Auto => Ok(quarter_of_the_machine()),
        MemoryLimit::Bytes(bytes) if bytes < LEAST_MEMORY => {
            let (least, found) = (units::bytes(LEAST_MEMORY), units::bytes(bytes));
            Err(Failure::usage(format!("--max-memory: expected at least {least}, found {found}")))
        }
        MemoryLimit::Bytes(bytes) => Ok(bytes - PROGRAM_MEMORY),
    }
}

/// A quarter of the machine's memory, at most 2 GiB.
fn quarter_of_the_machine() -> u64 {
    let all = gausset_compute::machine::memory_bytes().unwrap_or(4 << 30);
    (all / 4).clamp(LEAST_MEMORY, 2 << 30)
}

fn forecast(frames: &[SourceFrame], settings: &Settings, console: &Console) -> Result<Status, Ending> {
    let pixels: u64 = settings.views.iter().map(|v| u64::from(v.width) * u64::from(v.height)).sum();
    let forecast = Forecast {
        frames: frames.len(),
        views: frames.len() * settings.views.len(),
        view_width: settings.views.first().map_or(0, |v| v.width),
        view_height: settings.views.first().map_or(0, |v| v.height),
        disk_bytes: disk_bytes(frames, settings),
        cpu_seconds: frames.len() as f64 * pixels as f64 * SECONDS_PER_PIXEL,
    };
    console.object_or(&forecast, || {
        table::facts(&[
            ("frames", grouped(forecast.frames as u64)),
            (
                "views",
                format!(
                    "{} of {}x{} px",
                    grouped(forecast.views as u64),
                    forecast.view_width,
                    forecast.view_height
                ),
            ),
            ("disk", format!("about {}", units::bytes(forecast.disk_bytes))),
            ("CPU time", format!("about {}", duration(forecast.cpu_seconds))),
        ])
    })?;
    Ok(Status::Done)
}

fn describe(report: &Report, args: &SplitArgs) -> String {
    let mut rows = vec![
        ("frames", counted(report.frames as u64, "frame")),
        ("views", counted(report.views as u64, "view")),
        ("folder", args.output.display().to_string()),
    ];
    let PartSeconds { read, decode, remap, encode, write } = report.seconds;
    if report.frames > report.resumed {
        let parts =
            [("read", read), ("decode", decode), ("remap", remap), ("encode", encode), ("write", write)];
        let parts = parts.map(|(name, seconds)| format!("{name} {}", three_digits(seconds)));
        rows.push(("seconds", format!("{} (all workers together)", parts.join(", "))));
    }
    if report.resumed > 0 {
        rows.push(("kept", format!("{} from before", counted(report.resumed as u64, "frame"))));
    }
    if !report.skipped.is_empty() {
        rows.push(("skipped", counted(report.skipped.len() as u64, "frame")));
    }
    table::facts(&rows)
}
