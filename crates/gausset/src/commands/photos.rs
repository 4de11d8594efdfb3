//! `gausset align` and `gausset run` for ordinary photographs: structure from motion, and from pictures to a splat.

use std::path::{Path, PathBuf};

use clap::Args;
use gausset_io::atomic::Overwrite;
use gausset_io::lock::FolderLock;
use gausset_io::run_folder::{checkpoints_folder, splats_path};
use gausset_pano::split::list_frames;
use gausset_sfm::align::{Cameras, Job};
use gausset_sfm::model::{FrameImages, Model};
use gausset_sfm::{Aligned, Progress};
use gausset_train::{TrainConfig, TrainOptions, resumable_config};
use serde::Serialize;

use super::pano::align::{ToolArgs, tell_progress};
use super::training::{self, Place};
use crate::Ending;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Signal};
use crate::numbers::{counted, grouped};
use crate::table;

const ALIGN_HELP: &str = "\
Examples:
  gausset align photos/ -o scene/
  gausset train scene/ --images photos/ -o run/
COLMAP does the work: pip install pycolmap, or colmap 3.12 or later in PATH.";

const RUN_HELP: &str = "\
Example:
  gausset run photos/ -o scene/            scene/run/splats.ply, scene/run/eval/
The same command goes on where it was interrupted.";

/// Arguments of `align`.
#[derive(Clone, Debug, Args)]
#[command(after_help = ALIGN_HELP)]
pub(crate) struct AlignArgs {
    /// Folder of photographs.
    #[arg(value_name = "PHOTOS")]
    photos: PathBuf,
    /// Folder for the model (sparse/0).
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    lens: LensArgs,
    #[command(flatten)]
    tool: ToolArgs,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the photographs were taken.
#[derive(Clone, Debug, Args)]
struct LensArgs {
    /// Camera model of COLMAP.
    #[arg(long, value_name = "MODEL", default_value = "SIMPLE_RADIAL", help_heading = "Photographs")]
    camera_model: String,
    /// All photographs are of one camera at one focal length.
    #[arg(long, help_heading = "Photographs")]
    single_camera: bool,
    /// Names follow the way of the camera: match neighbours only, from 121 photographs on.
    #[arg(long, help_heading = "Photographs")]
    sequence: bool,
    /// Folder of masks NAME.png (0 = ignore).
    #[arg(long, value_name = "DIR", help_heading = "Photographs")]
    masks: Option<PathBuf>,
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArgs {
    /// Folder of photographs.
    #[arg(value_name = "PHOTOS")]
    photos: PathBuf,
    /// Folder for everything.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    lens: LensArgs,
    #[command(flatten)]
    tool: ToolArgs,
    /// Steps of the training.
    #[arg(long, value_name = "N", default_value_t = 7000, help_heading = "Training")]
    steps: u64,
    /// Largest number of splats.
    #[arg(long, value_name = "N", default_value_t = 500_000, help_heading = "Training")]
    max_splats: u64,
    /// Longest side of a picture in px; larger ones are downscaled.
    #[arg(long, value_name = "PX", default_value_t = 1600, help_heading = "Training")]
    max_resolution: u32,
    /// Seed of the training.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Training")]
    seed: u64,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// The result: a stable contract, as of `pano align`.
#[derive(Clone, Debug, Serialize)]
struct Facts {
    frames: usize,
    registered: usize,
    points: usize,
    mean_reprojection_px: f64,
    unregistered: Vec<String>,
}

impl Facts {
    fn table(&self, folder: &Path) -> String {
        let all = counted(self.frames as u64, "photograph");
        let mut rows = vec![
            ("photographs", format!("{} of {all} registered", self.registered)),
            ("points", grouped(self.points as u64)),
            ("error", format!("{:.3} px (mean reprojection)", self.mean_reprojection_px)),
            ("model", folder.join("sparse").join("0").display().to_string()),
        ];
        if !self.unregistered.is_empty() {
            rows.push(("missing", counted(self.unregistered.len() as u64, "photograph")));
        }
        table::facts(&rows)
    }
}

/// Runs `align`.
pub(crate) fn run_align(args: &AlignArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    match align(&args.photos, &args.output, &args.lens, &args.tool, &interrupt, console) {
        Ok(facts) => {
            console.object_or(&facts, || facts.table(&args.output))?;
            Ok(Status::done(!facts.unregistered.is_empty()))
        }
        Err(_) if interrupt.signal().is_some() => stopped(&interrupt),
        Err(failure) => Err(failure.into()),
    }
}

fn stopped(interrupt: &Interrupt) -> Result<Status, Ending> {
    Ok(Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt)))
}

/// The photographs as moments of their own.
fn photographs(folder: &Path) -> Result<Vec<FrameImages>, Failure> {
    let name = |path: &PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned());
    let frames = list_frames(folder)?;
    Ok(frames
        .iter()
        .filter_map(|frame| frame.files.first().and_then(name))
        .map(|name| FrameImages { name: name.clone(), images: vec![name] })
        .collect())
}

fn facts_of(model: &Model, frames: &[FrameImages]) -> Facts {
    let missing = (0..frames.len()).filter(|index| !model.frames.contains_key(index));
    Facts {
        frames: frames.len(),
        registered: model.frames.len(),
        points: model.colmap.points.len(),
        mean_reprojection_px: model.mean_reprojection(),
        unregistered: missing.map(|index| frames[index].name.clone()).collect(),
    }
}

/// Aligns photographs and writes the model to `output/sparse/0`.
fn align(
    photos: &Path,
    output: &Path,
    lens: &LensArgs,
    tool: &ToolArgs,
    interrupt: &Interrupt,
    console: &Console,
) -> Result<Facts, Failure> {
    let frames = photographs(photos)?;
    let found = tool.find()?;
    let folder_error = |e: std::io::Error| {
        let reason = gausset_io::atomic::plain_reason(&e);
        Failure::new("write", format!("{}: folder: {reason}", output.display()))
    };
    std::fs::create_dir_all(output).map_err(folder_error)?;
    let _lock = FolderLock::acquire(output).map_err(|e| Failure::new("in-use", e))?;
    console.note(format!(
        "aligning {} with {}",
        counted(frames.len() as u64, "photograph"),
        found.describe()
    ));
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let work = absolute(output).join("sfm");
    let job = Job {
        images: absolute(photos),
        masks: lens.masks.as_deref().map(absolute),
        frames,
        rig_config: None,
        camera_model: lens.camera_model.clone(),
        camera_params: None,
        cameras: if lens.single_camera { Cameras::Single } else { Cameras::Auto },
        is_sequence: lens.sequence,
        work: work.clone(),
        threads: tool.threads(),
        seed: tool.sfm_seed,
        silence: tool.silence(),
    };
    let mut told = String::new();
    let mut tell = |progress: &Progress| tell_progress(progress, &mut told, console);
    let Aligned { model, .. } = gausset_sfm::align(&job, &found, interrupt.stop(), &mut tell)?;
    model.write(&output.join("sparse").join("0"), &job.frames)?;
    // Databases are large and of no further use.
    let _ = std::fs::remove_dir_all(&work);
    let facts = facts_of(&model, &job.frames);
    for name in &facts.unregistered {
        console.warn("photographs", format!("{name}: photograph: did not register"));
    }
    Ok(facts)
}

/// Runs `run`.
pub(crate) fn run(args: &RunArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let model = args.output.join("sparse").join("0");
    let frames = photographs(&args.photos)?;
    // A model that is there and is one of these photographs is used again.
    let facts = match Model::read(&model, &frames) {
        Ok(known) if !known.frames.is_empty() => facts_of(&known, &frames),
        _ => match align(&args.photos, &args.output, &args.lens, &args.tool, &interrupt, console) {
            Err(_) if interrupt.signal().is_some() => return stopped(&interrupt),
            other => other?,
        },
    };
    console.note(facts.table(&args.output).trim_end());
    let folder = args.output.join("run");
    if splats_path(&folder).is_file() && folder.join("eval").is_dir() {
        console.note("the training is finished already");
        console.result(&splats_path(&folder).display().to_string())?;
        return Ok(Status::done(!facts.unregistered.is_empty()));
    }
    let has_checkpoint = std::fs::read_dir(checkpoints_folder(&folder)).is_ok_and(|mut d| d.next().is_some());
    let threads = Some(args.compute.threads);
    let (config, place) = if has_checkpoint {
        let only = TrainOptions { threads, ..TrainOptions::default() };
        (resumable_config(&folder, &only).map_err(Failure::from)?, Place::Resume(folder))
    } else {
        let options = TrainOptions {
            data: Some(args.output.clone()),
            images: Some(args.photos.clone()),
            masks: args.lens.masks.clone(),
            steps: Some(args.steps),
            max_splats: Some(args.max_splats),
            max_resolution: Some(args.max_resolution),
            seed: Some(args.seed),
            threads,
            ..TrainOptions::default()
        };
        let config = TrainConfig::resolve(&options, None).map_err(Failure::from)?;
        (config, Place::New(folder, Overwrite::Replace))
    };
    let job = training::Job { config, place, device: args.compute.device, profile: false };
    let trained = training::train(job, &interrupt, console)?;
    console.object_or(&trained.outcome.summary, || facts.table(&args.output) + &trained.table())?;
    match trained.status {
        Status::Done => Ok(Status::done(!facts.unregistered.is_empty())),
        other => Ok(other),
    }
}
