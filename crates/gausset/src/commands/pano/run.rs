//! `gausset pano run`: from panoramas to a splat, in stages that can be resumed.
//!
//! ```text
//! DIR/align/   views for alignment (ring8), poses.json, sparse/0
//! DIR/train/   views for training (cube6) with the same rig poses, sparse/0
//! DIR/run/     the training run: splats.ply, eval/
//! ```

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_io::atomic::{Disk, Overwrite, refuse_existing};
use gausset_io::dataset::colmap::{ColmapPoint, ModelFormat};
use gausset_io::dataset::scene_extent;
use gausset_pano::export::Poses;
use gausset_pano::layout::Layout;
use gausset_pano::shell::far_points;
use gausset_pano::split::{Description, Naming, OnError};
use gausset_train::{Exposure, InitPoints, MemoryLimit, Quality, TrainConfig, TrainOptions};
use serde::Serialize;
use serde_json::{Value, json};

use super::align::{self, ToolArgs};
use super::export;
use super::split::{self, ChoiceArgs, SplitArgs};
use super::views::{ViewArgs, layout_parser};
use crate::Ending;
use crate::commands::{stages, training};
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Signal};
use crate::numbers::counted;

const AFTER_HELP: &str = "\
Examples:
  gausset pano run walk/ -o out/                   out/run/splats.ply, out/run/eval/
  gausset pano run walk/ -o out/ --crop-bottom 35 --quality fast
The same command goes on where it was interrupted.";

/// Widest views for alignment: more pixels cost matching time and registered nothing more.
const ALIGN_SIDE: u32 = 960;
/// Frames below which every fourth is held out instead of every eighth.
const FEW_FRAMES: usize = 16;

/// Arguments of `pano run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    /// Panoramas, as for `pano split`.
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// Folder for everything.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Views to train on.
    #[arg(
        long, value_name = "LAYOUT", default_value = "cube6", hide_possible_values = true, help_heading = "Views",
        value_parser = layout_parser()
    )]
    train_layout: Layout,
    /// Side of a view to train on, px [default: a quarter of the panorama's width].
    #[arg(long, value_name = "PX", help_heading = "Views", value_parser = clap::value_parser!(u32).range(16..=16_384))]
    train_size: Option<u32>,
    /// Mask everything within so many degrees of straight down: tripod, operator.
    #[arg(long, value_name = "DEG", default_value_t = 0.0, help_heading = "Views")]
    crop_bottom: f64,
    /// Folder with a mask per frame (0 = remove).
    #[arg(long, value_name = "DIR", help_heading = "Views")]
    masks: Option<PathBuf>,
    /// A program that writes a mask per frame, as for `pano split`.
    #[arg(long, value_name = "COMMAND", conflicts_with = "masks", help_heading = "Views")]
    mask_command: Option<String>,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    tool: ToolArgs,
    #[command(flatten)]
    effort: EffortArgs,
    /// Every n-th frame is held out [default: 4, from 16 frames on 8].
    #[arg(long, value_name = "N", help_heading = "Training")]
    test_every: Option<u32>,
    /// Replace what DIR holds: train anew, on new views where other options ask for them.
    #[arg(long)]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// How much work the training is.
#[derive(Clone, Debug, Args)]
pub(crate) struct EffortArgs {
    /// Preset: fast|default|best.
    #[arg(
        long, value_name = "PRESET", default_value = "default", hide_possible_values = true, help_heading = "Training",
        value_parser = PossibleValuesParser::new(Quality::WORDS).try_map(|word| word.parse::<Quality>())
    )]
    quality: Quality,
    /// Steps [default: the preset's].
    #[arg(long, value_name = "N", help_heading = "Training")]
    steps: Option<u64>,
    /// Largest number of splats [default: the preset's].
    #[arg(long, value_name = "N", help_heading = "Training")]
    max_splats: Option<u64>,
    /// Which points splats start from: auto|sfm|dense, as `gausset train` takes it [default: the preset's].
    #[arg(
        long, value_name = "POINTS", help_heading = "Training", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(InitPoints::WORDS).try_map(|word| word.parse::<InitPoints>())
    )]
    init_points: Option<InitPoints>,
    /// Seed of the training.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Training")]
    seed: u64,
}

impl EffortArgs {
    /// The training options that they are.
    pub(crate) fn options(&self) -> TrainOptions {
        TrainOptions {
            quality: Some(self.quality),
            steps: self.steps,
            max_splats: self.max_splats,
            init_points: self.init_points,
            seed: Some(self.seed),
            ..TrainOptions::default()
        }
    }
}

/// The result.
#[derive(Debug, Serialize)]
struct Ran<'a> {
    frames: usize,
    registered: usize,
    points: u64,
    mean_reprojection_px: f64,
    training: &'a gausset_train::Summary,
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let stopped = || Ok(Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt)));
    let overwrite = stages::overwrite(args.force);
    // A mistake in the options or a tool that is missing is told before the work begins.
    TrainConfig::resolve(&TrainOptions { data: Some(args.output.clone()), ..args.effort.options() }, None)
        .map_err(Failure::from)?;
    let align_folder = args.output.join("align");
    let known = align::finished(&align_folder, &args.tool);
    if known.is_none() {
        match args.tool.find(&interrupt) {
            Err(_) if interrupt.signal().is_some() => return stopped(),
            other => other?,
        };
    }
    let cut = split_args(args, align_folder.clone(), Layout::Ring8, None);
    let side = match split::natural_side_of(&cut, &interrupt) {
        Err(_) if interrupt.signal().is_some() => return stopped(),
        other => other?.min(ALIGN_SIDE),
    };
    let _lock = stages::lock(&args.output)?;
    let is_anew = claim(args, overwrite)?;
    console.note("cutting views for alignment");
    let cut = split_args(args, align_folder.clone(), Layout::Ring8, Some(side));
    let report = split::perform(&SplitArgs { force: is_anew, ..cut }, &interrupt, console)?;
    if report.is_cancelled {
        return stopped();
    }
    let has_skipped = !report.skipped.is_empty();
    let poses = match align::finished(&align_folder, &args.tool) {
        Some(poses) => poses,
        None => match align::perform(&align_folder, &args.tool, overwrite, &interrupt, console) {
            Err(_) if interrupt.signal().is_some() => return stopped(),
            other => other?,
        },
    };
    console.note(align::describe(&poses, &align_folder).trim_end());
    console.note("cutting views for training");
    let train_folder = args.output.join("train");
    let cut = split_args(args, train_folder.clone(), args.train_layout, args.train_size);
    let report = split::perform(&SplitArgs { force: is_anew, ..cut }, &interrupt, console)?;
    if report.is_cancelled {
        return stopped();
    }
    let description = Description::read(&train_folder).map_err(|e| Failure::new("frames", e))?;
    let mut points = export::points_of(&align_folder)?;
    let far = far_points(&train_folder, &description, &poses, &points);
    if !far.is_empty() {
        console.note(format!("start: {} far away where there is sky", counted(far.len() as u64, "point")));
    }
    let extent = extent(&poses, &points);
    points.extend(far);
    let model = stages::claim_model(&train_folder, overwrite)?;
    export::write_colmap(&model, &description, &poses, &points, ModelFormat::Binary)?;
    let trained = train(args, &poses, train_folder, extent, &interrupt, console)?;
    let result = Ran {
        frames: poses.frames.len(),
        registered: poses.registered(),
        points: poses.points,
        mean_reprojection_px: poses.mean_reprojection_px,
        training: &trained.outcome.summary,
    };
    console.object_or(&result, || align::describe(&poses, &align_folder) + &trained.table())?;
    if matches!(trained.status, Status::Interrupted(_)) {
        return Ok(trained.status);
    }
    let is_partial =
        has_skipped || poses.registered() < poses.frames.len() || trained.status == Status::Skipped;
    Ok(Status::done(is_partial))
}

/// Size of the scene, from cameras and points without those far away: what rates are told in.
fn extent(poses: &Poses, points: &[ColmapPoint]) -> f64 {
    let centres: Vec<[f64; 3]> = poses.frames.iter().filter_map(|f| Some(f.pose()?.centre())).collect();
    let points: Vec<[f64; 3]> = points.iter().map(|p| p.position).collect();
    scene_extent(&centres, &points)
}

/// Name of the record of what a folder was made with.
const RECORD: &str = "pano_run.json";
/// What stands in it under `made-by`.
const MADE_BY: &str = "gausset pano run";

/// Takes the folder for these options, before anything in it is touched: whether its views are to be made anew.
fn claim(args: &RunArgs, overwrite: Overwrite) -> Result<bool, Failure> {
    let path = args.output.join(RECORD);
    stages::stay_inside(&args.output, &[RECORD, "align", "train", "run"])?;
    let record = made_with(args);
    let known = stages::read_record(&path).filter(|known| known["made-by"] == MADE_BY);
    if known.is_none() {
        refuse_existing(&Disk, &path, overwrite)?;
    }
    let is_new = known.is_none();
    let differences = known.map(|known| stages::differences(&known, &record)).unwrap_or_default();
    if !differences.is_empty() && overwrite == Overwrite::Refuse {
        return Err(stages::made_of_others(&args.output, &differences));
    }
    stages::write_record(&path, &record)?;
    Ok(overwrite == Overwrite::Replace && (is_new || !differences.is_empty()))
}

/// Everything that decides what the command makes, under the names of the options.
fn made_with(args: &RunArgs) -> Value {
    let RunArgs { choice, effort, .. } = args;
    let place = |path: &Option<PathBuf>| path.as_deref().map(stages::place);
    json!({
        "made-by": MADE_BY,
        "input": stages::place(&args.input),
        "train-layout": args.train_layout.name(),
        "train-size": args.train_size,
        "crop-bottom": args.crop_bottom,
        "masks": place(&args.masks),
        "mask-command": args.mask_command,
        "every": choice.every,
        "fps": choice.fps,
        "start": choice.start,
        "end": choice.end,
        "sharpest-of": choice.sharpest_of,
        "stereo": choice.stereo,
        "lens": place(&choice.lens),
        "max-frames": choice.max_frames,
        "sfm-seed": args.tool.sfm_seed,
        "quality": effort.quality.word(),
        "steps": effort.steps,
        "max-splats": effort.max_splats,
        "seed": effort.seed,
        "test-every": args.test_every,
    })
}

/// Trains on the views.
fn train(
    args: &RunArgs,
    poses: &Poses,
    data: PathBuf,
    extent: f64,
    interrupt: &Interrupt,
    console: &Console,
) -> Result<training::Trained, Failure> {
    let folder = args.output.join("run");
    let registered = poses.registered();
    let every = match args.test_every {
        Some(every) => every,
        None if registered < 3 => 0,
        None if registered < FEW_FRAMES => 4,
        None => 8,
    };
    let options = TrainOptions {
        data: Some(data),
        test_every: Some(every),
        scene_extent: Some(extent),
        // One of each per panorama: its views share the moment.
        exposure: Some(Exposure::On),
        refine_poses: Some(true),
        threads: Some(args.compute.threads),
        ..args.effort.options()
    };
    let overwrite = stages::overwrite(args.force);
    training::fresh_or_resumed(folder, &options, overwrite, args.compute.device, interrupt, console)
}

fn split_args(args: &RunArgs, output: PathBuf, layout: Layout, size: Option<u32>) -> SplitArgs {
    SplitArgs {
        input: args.input.clone(),
        output,
        views: ViewArgs { layout, views: None, size, fov: None, rotate: 0.0 },
        choice: args.choice.clone(),
        crop_bottom: args.crop_bottom,
        masks: args.masks.clone(),
        mask_command: args.mask_command.clone(),
        level: None,
        format: "jpg".to_owned(),
        quality: None,
        naming: Naming::Rig,
        on_error: OnError::Skip,
        force: false,
        tool_timeout: args.tool.tool_timeout.unwrap_or(split::SILENCE),
        max_side: [16_384, 8_192],
        max_file: 256,
        max_memory: MemoryLimit::Auto,
        dry_run: false,
        json: args.json,
        compute: args.compute,
    }
}
