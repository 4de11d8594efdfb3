//! `gausset pano align`: poses of panoramas by structure from motion.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use gausset_core::Pose;
use gausset_io::atomic::{Disk, Overwrite, refuse_existing, write_atomic};
use gausset_io::draft::Draft;
use gausset_io::input;
use gausset_io::lock::FolderLock;
use gausset_io::owned::{self, OwnedError};
use gausset_pano::export::{FramePose, Poses};
use gausset_pano::rig;
use gausset_pano::split::{Description, MANIFEST, Naming, read_manifest};
use gausset_sfm::align::{Cameras, Job};
use gausset_sfm::model::{FrameImages, Model};
use gausset_sfm::{AlignError, Progress, Tool, ToolError, gps};
use serde::Serialize;

use crate::Ending;
use crate::commands::stages;
use crate::console::Console;
use crate::exit::Status;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Signal};
use crate::numbers::{counted, grouped, three_digits};
use crate::table;

const AFTER_HELP: &str = "\
Examples:
  gausset pano align work/                     work/ is the folder of `gausset pano split`
  gausset pano align work/ --python ~/venv/bin/python
COLMAP does the work: pip install pycolmap, or colmap 3.12 or later in PATH.";

/// Arguments of `pano align`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct AlignArgs {
    /// Folder of `gausset pano split`.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) tool: ToolArgs,
    /// Replace the model and the poses that DIR holds, whoever made them.
    #[arg(long)]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Seconds for which COLMAP may say nothing: matching many pictures takes long without a word.
const COLMAP_SILENCE: u64 = 1800;

/// Which COLMAP, and how it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ToolArgs {
    /// Python that has pycolmap [default: $GAUSSET_PYTHON, then python3 in PATH].
    #[arg(long, value_name = "PROGRAM", help_heading = "COLMAP")]
    pub(crate) python: Option<PathBuf>,
    /// The colmap executable, 3.12 or later, instead of pycolmap.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "python", help_heading = "COLMAP")]
    pub(crate) colmap: Option<PathBuf>,
    /// Seconds for which an outside program may say nothing [default: 1800 for COLMAP, 120 for others].
    #[arg(long, value_name = "S", help_heading = "COLMAP", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) tool_timeout: Option<u64>,
    /// Seed of the alignment.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "COLMAP")]
    pub(crate) sfm_seed: u32,
    /// Threads of the alignment; 0 = all processors. With one, it is repeatable.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "COLMAP")]
    pub(crate) sfm_threads: u32,
}

impl ToolArgs {
    pub(crate) fn find(&self, interrupt: &Interrupt) -> Result<Tool, Failure> {
        Ok(Tool::find(self.python.as_deref(), self.colmap.as_deref(), interrupt.stop())?)
    }

    pub(crate) fn threads(&self) -> usize {
        match self.sfm_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n as usize,
        }
    }

    pub(crate) fn silence(&self) -> Duration {
        Duration::from_secs(self.tool_timeout.unwrap_or(COLMAP_SILENCE))
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::new("colmap", error)
    }
}

impl From<AlignError> for Failure {
    fn from(error: AlignError) -> Self {
        match error {
            AlignError::Nothing { .. } => Self::new("align", error),
            AlignError::Folder(OwnedError::NotOurs { .. }) => Self::new("exists", error),
            AlignError::Folder(_) => Self::new("write", error),
            _ => Self::new("colmap", error),
        }
    }
}

/// The result: a stable contract.
#[derive(Debug, Serialize)]
struct Aligned {
    frames: usize,
    registered: usize,
    points: u64,
    mean_reprojection_px: f64,
    track_length: f64,
    is_metric: bool,
    unregistered: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &AlignArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let overwrite = stages::overwrite(args.force);
    let poses = match perform(&args.folder, &args.tool, overwrite, &interrupt, console) {
        Ok(poses) => poses,
        Err(_) if interrupt.signal().is_some() => {
            return Ok(Status::Interrupted(interrupt.signal().unwrap_or(Signal::Interrupt)));
        }
        Err(failure) => return Err(failure.into()),
    };
    let missing = unregistered(&poses);
    let result = Aligned {
        frames: poses.frames.len(),
        registered: poses.registered(),
        points: poses.points,
        mean_reprojection_px: poses.mean_reprojection_px,
        track_length: poses.track_length,
        is_metric: poses.is_metric,
        unregistered: missing.clone(),
    };
    console.object_or(&result, || describe(&poses, &args.folder))?;
    Ok(Status::done(!missing.is_empty()))
}

/// Names of frames without a pose.
pub(crate) fn unregistered(poses: &Poses) -> Vec<String> {
    poses.frames.iter().filter(|f| f.rotation.is_none()).map(|f| f.name.clone()).collect()
}

/// The facts of an alignment, for people.
pub(crate) fn describe(poses: &Poses, folder: &Path) -> String {
    let mut rows = vec![
        (
            "frames",
            format!("{} of {} registered", poses.registered(), counted(poses.frames.len() as u64, "frame")),
        ),
        (
            "points",
            format!(
                "{}, seen in {} views on average",
                grouped(poses.points),
                three_digits(poses.track_length)
            ),
        ),
        ("error", format!("{:.3} px (mean reprojection)", poses.mean_reprojection_px)),
        ("scale", if poses.is_metric { "metres, by GPS".to_owned() } else { "arbitrary".to_owned() }),
        ("model", folder.join("sparse").join("0").display().to_string()),
    ];
    let missing = unregistered(poses);
    if !missing.is_empty() {
        rows.push(("missing", missing.join(", ")));
    }
    table::facts(&rows)
}

/// Name of the file of the poses.
const POSES: &str = "poses.json";

/// File of the poses.
pub(crate) fn poses_path(folder: &Path) -> PathBuf {
    folder.join(POSES)
}

/// Longest manifest of a split that is looked at.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// What an alignment depends on.
fn fingerprint(folder: &Path, tool: &ToolArgs) -> String {
    let manifest = input::read(&folder.join(MANIFEST), MAX_MANIFEST_BYTES).unwrap_or_default();
    let mut text = manifest;
    text.extend(format!("seed {}", tool.sfm_seed).bytes());
    // FNV-1a: this is a name, not a checksum.
    let hash =
        text.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

/// The poses of an earlier alignment of the same views.
pub(crate) fn finished(folder: &Path, tool: &ToolArgs) -> Option<Poses> {
    let poses = Poses::read(&poses_path(folder)).ok()?;
    (poses.input == fingerprint(folder, tool)).then_some(poses)
}

/// Aligns the views in a folder and writes `sparse/0` and `poses.json`.
pub(crate) fn perform(
    folder: &Path,
    args: &ToolArgs,
    overwrite: Overwrite,
    interrupt: &Interrupt,
    console: &Console,
) -> Result<Poses, Failure> {
    let description = Description::read(folder).map_err(|e| Failure::new("frames", e))?;
    if description.naming != Naming::Rig {
        return Err(Failure::usage(format!(
            "{}: names: are flat, so COLMAP cannot know which views belong together (expected --naming rig); split again",
            folder.display()
        )));
    }
    let tool = args.find(interrupt)?;
    let _lock = FolderLock::acquire(folder).map_err(|e| Failure::new("in-use", e))?;
    let (model_folder, poses_file) = (stages::model_folder(folder), poses_path(folder));
    stages::may_write_model(folder, overwrite)?;
    stages::stay_inside(folder, &[POSES])?;
    if !owned::is_ours(&model_folder, stages::MODEL) {
        refuse_existing(&Disk, &poses_file, overwrite)?;
    }
    console.note(format!(
        "aligning {} with {}",
        counted(description.frames.len() as u64, "frame"),
        tool.describe()
    ));
    let frames: Vec<FrameImages> = (0..description.frames.len())
        .map(|frame| FrameImages {
            name: description.frames[frame].clone(),
            images: (0..description.views.len()).map(|view| description.picture_name(frame, view)).collect(),
        })
        .collect();
    let views = &description.views;
    let first = &views[0];
    let f = first.focal();
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let masks = absolute.join("masks");
    let work = Draft::new(&Disk, &absolute, stages::WORK)?;
    let job = Job {
        images: absolute.join("images"),
        masks: masks.is_dir().then_some(masks),
        frames,
        rig_config: Some(absolute.join("rig_config.json")),
        camera_model: "PINHOLE".to_owned(),
        camera_params: Some(format!(
            "{f},{f},{},{}",
            0.5 * f64::from(first.width),
            0.5 * f64::from(first.height)
        )),
        cameras: Cameras::PerFolder,
        is_sequence: true,
        work: work.path().join("colmap"),
        threads: args.threads(),
        seed: args.sfm_seed,
        silence: args.silence(),
    };
    let mut told = String::new();
    let mut tell = |progress: &Progress| tell_progress(progress, &mut told, console);
    let aligned = gausset_sfm::align(&job, &tool, interrupt.stop(), &mut tell)?;
    let mut model = aligned.model;
    let is_metric = set_scale(&mut model, &description, folder, console);
    let poses = poses_of(&model, &description, &tool, fingerprint(folder, args), is_metric)?;
    stages::claim_model(folder, overwrite)?;
    model.write(&model_folder, &job.frames)?;
    let text = serde_json::to_string_pretty(&poses).unwrap_or_default();
    write_atomic(&Disk, &poses_file, |file| file.write_all(text.as_bytes()))?;
    for name in unregistered(&poses) {
        console.warn("frames", format!("{name}: frame: did not register"));
    }
    Ok(poses)
}

/// One line a stage, and one for each tenth of it.
pub(crate) fn tell_progress(progress: &Progress, told: &mut String, console: &Console) {
    let Progress { stage, done, all, rung } = progress;
    let again = if *rung > 0 { format!(", recipe {}", rung + 1) } else { String::new() };
    let line = match (done, all) {
        (0, _) => format!("{stage}{again}"),
        (_, 0) => format!("{stage}{again}: {done} registered"),
        (done, all) => format!("{stage}{again}: {} %", 100 * done * 10 / all / 100 * 10),
    };
    if *told != line {
        console.note(&line);
        *told = line;
    }
}

/// Sets the scale to metres where GPS allows it.
fn set_scale(model: &mut Model, description: &Description, folder: &Path, console: &Console) -> bool {
    let manifest = read_manifest(folder);
    let mut centres = Vec::new();
    let mut positions = Vec::new();
    for (&frame, &image) in &model.frames {
        let line = manifest.iter().find(|line| line.frame == description.frames[frame]);
        if let Some(position) = line.and_then(|line| line.gps) {
            centres.push(model.pose(image).centre());
            positions.push(position);
        }
    }
    match gps::fit(&centres, &positions) {
        Some(fit) if fit.is_good() => {
            let (count, residual) = (fit.count, three_digits(fit.residual));
            console.note(format!(
                "scale from GPS: {count} positions, {residual} m from the fit (root mean square)"
            ));
            model.scale(fit.scale);
            true
        }
        Some(_) => {
            console.note("scale: GPS positions scatter too much to tell it");
            false
        }
        None => false,
    }
}

fn poses_of(
    model: &Model,
    description: &Description,
    tool: &Tool,
    input: String,
    is_metric: bool,
) -> Result<Poses, Failure> {
    let views = &description.views;
    let frame = |(index, name): (usize, &String)| {
        let pose: Option<Pose> = model.frames.get(&index).and_then(|&image| {
            let own = &model.colmap.images[image].name;
            let view = (0..views.len()).find(|&view| description.picture_name(index, view) == *own)?;
            Some(rig::pano_from_world(&views[view], &model.pose(image)))
        });
        FramePose {
            name: name.clone(),
            rotation: pose.map(|p| p.quaternion()),
            translation: pose.map(|p| p.translation),
        }
    };
    Ok(Poses {
        tool: tool.describe(),
        input,
        is_metric,
        points: model.colmap.points.len() as u64,
        mean_reprojection_px: model.mean_reprojection(),
        track_length: model.track_length(),
        frames: description.frames.iter().enumerate().map(frame).collect(),
    })
}
