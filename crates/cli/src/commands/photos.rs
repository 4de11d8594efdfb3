//! `gausset align` and `gausset run` for photographs and video: structure from motion alone, or followed by training.

use std::path::PathBuf;

use clap::Args;
use gausset::Host;
use gausset::panos::SelectionOptions;
use gausset::photos::{self, CaptureOptions, PairOption, PhotoAlignment, PhotoOptions};
use gausset_io::dataset::CameraModel;
use gausset_train::{RunSummary, TrainOptions};
use serde::Serialize;

use super::overwrite;
use super::pano::align::{AlignerArgs, ToolArgs};
use super::training::{RunOutputArgs, exit_status, training_status};
use super::viewer::ViewerArgs;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::event_log;
use crate::events::{run_job, run_job_with_viewer};
use crate::exit::Status;
use crate::footage::FootageArgs;
use crate::interrupt::Interrupt;
use crate::options::{ExtraOptionArgs, OptionArgs, RunCommand};
use crate::value_parsers::parse_positive;
use crate::{EarlyExit, describe};

const ALIGN_HELP: &str = "\
Examples:
  gausset align photos/ -o scene/
  gausset train scene/ --images photos/ -o run/
No other program is needed. Where the built-in aligner registers less than 90 % of the photographs,
COLMAP is tried as well, if it is installed (pip install pycolmap).";

const RUN_HELP: &str = "\
Examples:
  gausset run photos/ -o scene/            writes scene/run/splats.ply and scene/run/eval/
  gausset run walk.mp4 -o scene/ --fps 3 --quality fast
  gausset run photos/ -o scene/ -- --refine-poses --time-budget 10m    training options after --
The same command resumes an interrupted run.";

/// Arguments of `align`.
#[derive(Clone, Debug, Args)]
#[command(after_help = ALIGN_HELP)]
pub(crate) struct AlignArgs {
    /// Folder of photographs, or a video (through ffmpeg).
    #[arg(value_name = "PHOTOS")]
    photos: PathBuf,
    /// Output folder for the COLMAP model (sparse/0).
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    lens: PhotoArgs,
    #[command(flatten)]
    aligner: AlignerArgs,
    #[command(flatten)]
    tool: ToolArgs,
    /// Replace an existing model in DIR, also one of another program, and frames extracted with other options.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Exit with code 1 if fewer photographs register: a number, or a fraction such as 0.9.
    #[arg(long, value_name = "N|FRACTION", value_parser = MinRegistered::parse)]
    min_registered: Option<MinRegistered>,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many photographs must register.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MinRegistered {
    Fraction(f64),
    Count(usize),
}

impl MinRegistered {
    fn parse(text: &str) -> Result<Self, String> {
        let refused =
            || format!("expected a number of photographs, or a fraction such as 0.9, found `{text}`");
        if let Ok(count) = text.parse() {
            return Ok(Self::Count(count));
        }
        let fraction = text.parse().ok().filter(|fraction| (0.0..=1.0).contains(fraction));
        fraction.map(Self::Fraction).ok_or_else(refused)
    }

    fn is_met_by(self, alignment: &PhotoAlignment) -> bool {
        match self {
            Self::Count(count) => alignment.registered >= count,
            Self::Fraction(fraction) => {
                alignment.registered as f64 >= fraction * alignment.photographs as f64
            }
        }
    }
}

/// Whether enough photographs are registered; prints a line if not.
fn are_enough_registered(wanted: Option<MinRegistered>, found: &PhotoAlignment, console: &Console) -> bool {
    let is_met = wanted.is_none_or(|wanted| wanted.is_met_by(found));
    if !is_met {
        let PhotoAlignment { registered, photographs, .. } = found;
        console.warn(
            "the result",
            format!("registered: {registered} of {photographs} (expected more: --min-registered)"),
        );
    }
    is_met
}

/// The result of `run` as a JSON object: that of the alignment, and that of the training.
#[derive(Debug, Serialize)]
struct PhotoRunResult<'a> {
    #[serde(flatten)]
    alignment: &'a PhotoAlignment,
    #[serde(flatten)]
    training: &'a RunSummary,
    /// Number of photographs that the alignment or the training could not read.
    unreadable: usize,
}

/// Arguments about cameras, masks and video frames.
#[derive(Clone, Debug, Args)]
struct PhotoArgs {
    /// Camera model, by its name in COLMAP: OPENCV suits wide-angle lenses, OPENCV_FISHEYE fisheye lenses.
    #[arg(long, value_name = "MODEL", default_value = "SIMPLE_RADIAL", help_heading = "Photographs", value_parser = parse_camera_model)]
    camera_model: CameraModel,
    /// All photographs were taken with one camera at one focal length.
    #[arg(long, help_heading = "Photographs")]
    single_camera: bool,
    /// Pairs to match: auto, all, or a file with two names a line, as matches_importer of COLMAP takes them.
    #[arg(long, value_name = "auto|all|FILE", default_value = "auto", help_heading = "Photographs")]
    pairs: PathBuf,
    /// Photographs are sorted along the camera path: of more than 25 (COLMAP: 120), match mainly neighbours.
    #[arg(long, help_heading = "Photographs")]
    sequence: bool,
    /// Folder of masks NAME.png (black = ignore).
    #[arg(long, value_name = "DIR", help_heading = "Photographs")]
    masks: Option<PathBuf>,
    #[command(flatten)]
    select: FootageArgs<SelectionOptions>,
    /// Video: frames per second; the sharpest frame around each time is used.
    #[arg(long, value_name = "FPS", help_heading = "Photographs", value_parser = parse_positive)]
    fps: Option<f64>,
    /// Video: start time in seconds [default: 0].
    #[arg(long, value_name = "S", help_heading = "Photographs")]
    start: Option<f64>,
    /// Video: end time in seconds.
    #[arg(long, value_name = "S", help_heading = "Photographs", value_parser = parse_positive)]
    end: Option<f64>,
    /// Video: maximum number of frames, spaced by parallax [default: 300].
    #[arg(long, value_name = "N", help_heading = "Photographs", value_parser = clap::value_parser!(u32).range(1..))]
    max_frames: Option<u32>,
}

impl PhotoArgs {
    fn options(&self) -> CaptureOptions {
        CaptureOptions {
            camera_model: self.camera_model,
            single_camera: self.single_camera,
            pairs: PairOption::from_argument(&self.pairs),
            sequence: self.sequence,
            masks: self.masks.clone(),
            // An option of training.
            invert_masks: false,
            select: self.select.0.clone(),
            fps: self.fps,
            start: self.start,
            end: self.end,
            max_frames: self.max_frames,
        }
    }
}

fn parse_camera_model(text: &str) -> Result<CameraModel, String> {
    CameraModel::from_name(text).ok_or_else(|| {
        let known = CameraModel::ALL.map(CameraModel::name).join(", ");
        format!("expected one of {known}, found `{text}`")
    })
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArgs {
    /// Folder of photographs, or a video (through ffmpeg).
    #[arg(value_name = "PHOTOS")]
    photos: PathBuf,
    /// Output folder for frames, model and run.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    lens: PhotoArgs,
    #[command(flatten)]
    aligner: AlignerArgs,
    #[command(flatten)]
    tool: ToolArgs,
    #[command(flatten)]
    options: OptionArgs<RunCommand>,
    #[command(flatten)]
    more: ExtraOptionArgs,
    /// Replace existing results in DIR; redo frames and model if their options changed, and train again.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Exit with code 1 if fewer photographs register: a number, or a fraction such as 0.9.
    #[arg(long, value_name = "N|FRACTION", value_parser = MinRegistered::parse)]
    min_registered: Option<MinRegistered>,
    /// Exit with code 1 if the PSNR of the held-out images is lower.
    #[arg(long, value_name = "DB")]
    min_psnr: Option<f64>,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    records: RunOutputArgs,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    viewer: ViewerArgs,
}

/// Runs `align`.
pub(crate) fn run_align(args: &AlignArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let options = PhotoOptions {
        lens: args.lens.options(),
        tool: args.aligner.tool_options(&args.tool, 0),
        overwrite: overwrite(args.force),
        ..PhotoOptions::new(&args.photos, &args.output)
    };
    match run_job(&interrupt, console, |host| photos::align(&options, host)) {
        Ok(alignment) => {
            console.json_or_summary(&alignment, || describe::photo_alignment(&alignment))?;
            let is_enough = are_enough_registered(args.min_registered, &alignment, console);
            Ok(Status::done(!alignment.left_out.is_empty() || !is_enough))
        }
        Err(failure) => exit_status(failure, &interrupt),
    }
}

/// Whether the PSNR is reached; prints a line if not.
fn is_psnr_reached(least: Option<f64>, found: Option<f64>, console: &Console) -> bool {
    let is_reached = least.is_none_or(|least| found.is_some_and(|found| found >= least));
    if let (false, Some(least)) = (is_reached, least) {
        let found = found.map_or_else(|| "not measured".to_owned(), |psnr| format!("{psnr:.2} dB"));
        console.warn("the result", format!("PSNR: {found} (expected at least {least} dB: --min-psnr)"));
    }
    is_reached
}

/// Runs `run`.
pub(crate) fn run(args: &RunArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let options = PhotoOptions {
        lens: args.lens.options(),
        tool: args.aligner.tool_options(&args.tool, args.compute.threads),
        overwrite: overwrite(args.force),
        ..PhotoOptions::new(&args.photos, &args.output)
    };
    let given = args.more.merge(args.options.clone())?;
    let training = TrainOptions { threads: Some(args.compute.threads), ..given };
    let conditions = args.records.apply_to(args.compute.device.conditions(), console)?;
    let mut viewer = args.viewer.start(&args.output, &interrupt, console)?;
    let job = |host: &mut Host<'_>| photos::run(&options, &training, conditions, host);
    let done = run_job_with_viewer(&interrupt, console, viewer.as_mut(), job);
    let (alignment, trained) = match done {
        Ok(done) => done,
        Err(failure) => {
            console.log_event(|| failure.is_stopped().then(event_log::stopped_line));
            return exit_status(failure, &interrupt);
        }
    };
    let status = training_status(&trained, &interrupt, console);
    let result = PhotoRunResult {
        alignment: &alignment,
        training: &trained.outcome.summary,
        unreadable: alignment.unreadable() + trained.skipped,
    };
    // The alignment was printed when it ended.
    console.json_or_summary(&result, || describe::trained(&trained, console.is_verbose()))?;
    let is_enough = are_enough_registered(args.min_registered, &alignment, console)
        && is_psnr_reached(args.min_psnr, trained.outcome.summary.psnr, console);
    let is_partial = !is_enough || !alignment.left_out.is_empty() && !trained.allow_missing;
    Ok(if status == Status::Done { Status::done(is_partial) } else { status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_has_a_point_and_a_number_has_none() {
        assert_eq!(MinRegistered::parse("12"), Ok(MinRegistered::Count(12)));
        assert_eq!(MinRegistered::parse("1"), Ok(MinRegistered::Count(1)));
        assert_eq!(MinRegistered::parse("0.9"), Ok(MinRegistered::Fraction(0.9)));
        assert!(["1.5", "-1", "nan", "most"].iter().all(|text| MinRegistered::parse(text).is_err()));
    }
}
