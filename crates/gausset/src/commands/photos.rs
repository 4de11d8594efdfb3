//! `gausset align` and `gausset run` for ordinary photographs and video: structure from motion, and from pictures to a
//! splat.
//!
//! ```text
//! video ─▶ OUTPUT/frames/ (the sharpest of each period) ┐
//! photographs ──────────────────────────────────────────┴▶ OUTPUT/sparse/0 ─▶ OUTPUT/run/
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use gausset_compute::{VectorLevel, level};
use gausset_io::lock::FolderLock;
use gausset_io::run_folder::splats_path;
use gausset_pano::split::{list_frames, video_frames};
use gausset_pano::video::{Choice, Footage, Video, extract};
use gausset_sfm::align::{Cameras, Job};
use gausset_sfm::model::{FrameImages, Model};
use gausset_sfm::{Aligned, Progress};
use gausset_train::TrainOptions;
use serde::Serialize;

use super::pano::align::{ToolArgs, tell_progress};
use super::pano::run::EffortArgs;
use super::pano::split::{self, parse_positive};
use super::training;
use crate::Ending;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Signal};
use crate::numbers::{counted, grouped};
use crate::progress::Reporter;
use crate::table;

const ALIGN_HELP: &str = "\
Examples:
  gausset align photos/ -o scene/
  gausset train scene/ --images photos/ -o run/
COLMAP does the work: pip install pycolmap, or colmap 3.12 or later in PATH.";

const RUN_HELP: &str = "\
Examples:
  gausset run photos/ -o scene/            scene/run/splats.ply, scene/run/eval/
  gausset run walk.mp4 -o scene/ --fps 3 --quality fast
The same command goes on where it was interrupted.";

/// Arguments of `align`.
#[derive(Clone, Debug, Args)]
#[command(after_help = ALIGN_HELP)]
pub(crate) struct AlignArgs {
    /// Folder of photographs, or a video (through ffmpeg).
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
    /// Video: pictures per second; of each period the sharpest frame is taken.
    #[arg(long, value_name = "FPS", default_value_t = 2.0, help_heading = "Photographs", value_parser = parse_positive)]
    fps: f64,
    /// Video: first second.
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "Photographs")]
    start: f64,
    /// Video: last second.
    #[arg(long, value_name = "S", help_heading = "Photographs", value_parser = parse_positive)]
    end: Option<f64>,
    /// Video: at most so many pictures.
    #[arg(long, value_name = "N", default_value_t = 300, help_heading = "Photographs", value_parser = clap::value_parser!(u32).range(1..))]
    max_frames: u32,
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArgs {
    /// Folder of photographs, or a video (through ffmpeg).
    #[arg(value_name = "PHOTOS")]
    photos: PathBuf,
    /// Folder for everything.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    lens: LensArgs,
    #[command(flatten)]
    tool: ToolArgs,
    #[command(flatten)]
    effort: EffortArgs,
    /// Longest side of a picture in px, larger ones are downscaled [default: the preset's].
    #[arg(long, value_name = "PX", help_heading = "Training")]
    max_resolution: Option<u32>,
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
    let done = Pictures::of(&args.photos, &args.output, &args.lens, &args.tool, &interrupt, console)
        .and_then(|pictures| align(&pictures, &args.output, &args.lens, &args.tool, &interrupt, console));
    match done {
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

/// The pictures of one camera or more.
struct Pictures {
    folder: PathBuf,
    /// Frames of one video: one camera, neighbours in time.
    is_video: bool,
}

impl Pictures {
    /// The folder as it is, or the frames of a video, which are written to `output/frames` first.
    fn of(
        photos: &Path,
        output: &Path,
        lens: &LensArgs,
        tool: &ToolArgs,
        interrupt: &Interrupt,
        console: &Console,
    ) -> Result<Self, Failure> {
        if !photos.is_file() {
            return Ok(Self { folder: photos.to_owned(), is_video: false });
        }
        // A COLMAP that is missing is told before the work begins.
        tool.find(interrupt)?;
        let choice = Choice {
            footage: Footage::Ordinary,
            fps: Some(lens.fps),
            start: lens.start,
            end: lens.end,
            sharpest_of: 0,
            is_stereo: false,
        };
        let silence = Duration::from_secs(tool.tool_timeout.unwrap_or(split::SILENCE));
        let video = Video::open(photos, choice, [16_384, 16_384], silence, interrupt.stop())
            .map_err(|e| Failure::new("video", e))?;
        let folder = output.join("frames");
        // What the frames depend on: a folder with the same is used again.
        let source = video_frames(&video).into_iter().next();
        let stamp =
            format!("{:?} {:?} {}", video.choice, source.map(|s| (s.bytes, s.modified)), lens.max_frames);
        let stamp_path = folder.join("frames.txt");
        if std::fs::read_to_string(&stamp_path).is_ok_and(|known| known == stamp) {
            return Ok(Self { folder, is_video: true });
        }
        let io = |path: &Path, action: &'static str| {
            let place = format!("{}: {action}", path.display());
            move |e: std::io::Error| {
                Failure::new("write", format!("{place}: {}", gausset_io::atomic::plain_reason(&e)))
            }
        };
        let part = output.join("frames.part");
        for old in [&part, &folder] {
            if old.exists() {
                std::fs::remove_dir_all(old).map_err(io(old, "empty"))?;
            }
        }
        std::fs::create_dir_all(&part).map_err(io(&part, "folder"))?;
        let expected = video.frames.min(lens.max_frames as usize);
        console.note(format!("taking about {} from the video", counted(expected as u64, "frame")));
        let level = level(VectorLevel::Auto).ok_or_else(|| Failure::new("device", "no vector level"))?;
        let mut reporter = Reporter::start(console, "frame", 0, expected as u64);
        let taken = extract(&video, &part, lens.max_frames as usize, level, interrupt.stop(), &mut |done| {
            reporter.at(done as u64, String::new);
        });
        reporter.finish();
        let taken = taken.map_err(|e| Failure::new("video", e))?;
        if interrupt.signal().is_some() {
            return Err(Failure::new("video", "stopped"));
        }
        if taken == 0 {
            return Err(Failure::new("video", format!("{}: video: gave no frame", photos.display())));
        }
        std::fs::write(part.join("frames.txt"), stamp).map_err(io(&part, "write"))?;
        std::fs::rename(&part, &folder).map_err(io(&folder, "rename"))?;
        Ok(Self { folder, is_video: true })
    }
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
    pictures: &Pictures,
    output: &Path,
    lens: &LensArgs,
    tool: &ToolArgs,
    interrupt: &Interrupt,
    console: &Console,
) -> Result<Facts, Failure> {
    let frames = photographs(&pictures.folder)?;
    let found = tool.find(interrupt)?;
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
    let job = Job {
        images: absolute(&pictures.folder),
        masks: lens.masks.as_deref().map(absolute),
        frames,
        rig_config: None,
        camera_model: lens.camera_model.clone(),
        camera_params: None,
        cameras: if lens.single_camera || pictures.is_video { Cameras::Single } else { Cameras::Auto },
        is_sequence: lens.sequence || pictures.is_video,
        work: absolute(output).join("sfm"),
        threads: tool.threads(),
        seed: tool.sfm_seed,
        silence: tool.silence(),
    };
    let mut told = String::new();
    let mut tell = |progress: &Progress| tell_progress(progress, &mut told, console);
    let Aligned { model, .. } = gausset_sfm::align(&job, &found, interrupt.stop(), &mut tell)?;
    model.write(&output.join("sparse").join("0"), &job.frames)?;
    let facts = facts_of(&model, &job.frames);
    for name in &facts.unregistered {
        console.warn("photographs", format!("{name}: photograph: did not register"));
    }
    Ok(facts)
}

/// Runs `run`.
pub(crate) fn run(args: &RunArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let pictures = match Pictures::of(&args.photos, &args.output, &args.lens, &args.tool, &interrupt, console)
    {
        Err(_) if interrupt.signal().is_some() => return stopped(&interrupt),
        other => other?,
    };
    let model = args.output.join("sparse").join("0");
    let frames = photographs(&pictures.folder)?;
    // A model that is there and is one of these photographs is used again.
    let facts = match Model::read(&model, &frames) {
        Ok(known) if !known.frames.is_empty() => facts_of(&known, &frames),
        _ => match align(&pictures, &args.output, &args.lens, &args.tool, &interrupt, console) {
            Err(_) if interrupt.signal().is_some() => return stopped(&interrupt),
            other => other?,
        },
    };
    console.note(facts.table(&args.output).trim_end());
    let folder = args.output.join("run");
    let options = TrainOptions {
        data: Some(args.output.clone()),
        images: Some(pictures.folder),
        masks: args.lens.masks.clone(),
        max_resolution: args.max_resolution,
        threads: Some(args.compute.threads),
        ..args.effort.options()
    };
    let device = args.compute.device;
    let trained = training::fresh_or_resumed(folder.clone(), &options, device, &interrupt, console)?;
    let Some(trained) = trained else {
        console.result(&splats_path(&folder).display().to_string())?;
        return Ok(Status::done(!facts.unregistered.is_empty()));
    };
    console.object_or(&trained.outcome.summary, || facts.table(&args.output) + &trained.table())?;
    match trained.status {
        Status::Done => Ok(Status::done(!facts.unregistered.is_empty())),
        other => Ok(other),
    }
}
