//! `gausset align` and `gausset run` for photographs and video: structure from motion alone, or followed by training.

use std::path::PathBuf;

use clap::Args;
use gausset::Host;
use gausset::panos::SelectionOptions;
use gausset::photos::{self, CaptureOptions, PhotoOptions};
use gausset_io::dataset::CameraModel;
use gausset_train::TrainOptions;

use super::overwrite;
use super::pano::align::ToolArgs;
use super::training::{RunOutputArgs, exit_status, summary_json, training_status};
use super::viewer::ViewerArgs;
use crate::console::Console;
use crate::device::ComputeArgs;
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
Requires COLMAP: pip install pycolmap, or colmap 3.12 or later in PATH.";

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
    tool: ToolArgs,
    /// Replace an existing model in DIR, also one of another program, and frames extracted with other options.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments about cameras, masks and video frames.
#[derive(Clone, Debug, Args)]
struct PhotoArgs {
    /// COLMAP camera model.
    #[arg(long, value_name = "MODEL", default_value = "SIMPLE_RADIAL", help_heading = "Photographs", value_parser = parse_camera_model)]
    camera_model: CameraModel,
    /// All photographs were taken with one camera at one focal length.
    #[arg(long, help_heading = "Photographs")]
    single_camera: bool,
    /// Photographs are sorted along the camera path: match neighbours only, if there are more than 120.
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
            sequence: self.sequence,
            masks: self.masks.clone(),
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
    tool: ToolArgs,
    #[command(flatten)]
    options: OptionArgs<RunCommand>,
    #[command(flatten)]
    more: ExtraOptionArgs,
    /// Replace existing results in DIR; redo frames and model if their options changed, and train again.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
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
        tool: args.tool.options(),
        overwrite: overwrite(args.force),
        ..PhotoOptions::new(&args.photos, &args.output)
    };
    match run_job(&interrupt, console, |host| photos::align(&options, host)) {
        Ok(alignment) => {
            console.json_or_summary(&alignment, || describe::photo_alignment(&alignment))?;
            Ok(Status::done(!alignment.unregistered.is_empty()))
        }
        Err(failure) => exit_status(failure, &interrupt),
    }
}

/// Runs `run`.
pub(crate) fn run(args: &RunArgs, console: &Console) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let options = PhotoOptions {
        lens: args.lens.options(),
        tool: args.tool.options(),
        overwrite: overwrite(args.force),
        ..PhotoOptions::new(&args.photos, &args.output)
    };
    let given = args.more.merge(args.options.clone())?;
    let training = TrainOptions { threads: Some(args.compute.threads), ..given };
    let conditions = args.records.apply_to(args.compute.device.conditions());
    let mut viewer = args.viewer.start(&args.output, &interrupt, console)?;
    let job = |host: &mut Host<'_>| photos::run(&options, &training, conditions, host);
    let done = run_job_with_viewer(&interrupt, console, viewer.as_mut(), job);
    let (alignment, trained) = match done {
        Ok(done) => done,
        Err(failure) => return exit_status(failure, &interrupt),
    };
    let status = training_status(&trained, &interrupt, console);
    console.json_or_summary(&summary_json(&trained), || {
        describe::photo_alignment(&alignment) + describe::trained(&trained, console.is_verbose())
    })?;
    let is_partial = !alignment.unregistered.is_empty() && !trained.allow_missing;
    Ok(if status == Status::Done { Status::done(is_partial) } else { status })
}
