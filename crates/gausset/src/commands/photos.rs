//! `gausset align` and `gausset run` for ordinary photographs and video: structure from motion, and from pictures to a
//! splat.
//!
//! ```text
//! video ─▶ OUTPUT/frames/ (the sharpest of each period) ┐
//! photographs ──────────────────────────────────────────┴▶ OUTPUT/sparse/0 ─▶ OUTPUT/run/
//! ```
//! Frames and model have a marker of ours and a record of what they were made with ([`super::stages`]). What has no
//! marker is somebody else's: frames are never put among it, a model only with `--force`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use gausset_compute::{VectorLevel, level};
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError};
use gausset_io::dataset::CameraModel;
use gausset_io::draft::Draft;
use gausset_io::owned;
use gausset_pano::split::{list_frames, video_frames};
use gausset_pano::video::{Choice, Footage, Video, extract};
use gausset_sfm::align::{Cameras, Job};
use gausset_sfm::model::{FrameImages, Model};
use gausset_sfm::{Aligned, Progress};
use gausset_train::{TrainConfig, TrainOptions};
use serde::Serialize;
use serde_json::{Value, json};

use super::pano::align::{ToolArgs, tell_progress};
use super::pano::run::EffortArgs;
use super::pano::split::{self, parse_positive};
use super::{stages, training};
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
    /// Replace the model that DIR holds, whoever made it, and frames that were taken with other options.
    #[arg(long)]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the photographs were taken.
#[derive(Clone, Debug, Args)]
struct LensArgs {
    /// Camera model of COLMAP.
    #[arg(long, value_name = "MODEL", default_value = "SIMPLE_RADIAL", help_heading = "Photographs", value_parser = parse_camera_model)]
    camera_model: CameraModel,
    /// All photographs are of one camera at one focal length.
    #[arg(long, help_heading = "Photographs")]
    single_camera: bool,
    /// Names follow the way of the camera: match neighbours only, from 121 photographs on.
    #[arg(long, help_heading = "Photographs")]
    sequence: bool,
    /// Folder of masks NAME.png (0 = ignore).
    #[arg(long, value_name = "DIR", help_heading = "Photographs")]
    masks: Option<PathBuf>,
    /// Video: pictures per second; of each period the sharpest frame is taken [default: 2].
    #[arg(long, value_name = "FPS", help_heading = "Photographs", value_parser = parse_positive)]
    fps: Option<f64>,
    /// Video: first second [default: 0].
    #[arg(long, value_name = "S", help_heading = "Photographs")]
    start: Option<f64>,
    /// Video: last second.
    #[arg(long, value_name = "S", help_heading = "Photographs", value_parser = parse_positive)]
    end: Option<f64>,
    /// Video: at most so many pictures, spread evenly [default: 300].
    #[arg(long, value_name = "N", help_heading = "Photographs", value_parser = clap::value_parser!(u32).range(1..))]
    max_frames: Option<u32>,
}

impl LensArgs {
    fn fps(&self) -> f64 {
        self.fps.unwrap_or(2.0)
    }

    fn start(&self) -> f64 {
        self.start.unwrap_or(0.0)
    }

    fn max_frames(&self) -> u32 {
        self.max_frames.unwrap_or(300)
    }

    /// Refuses what only a video listens to.
    fn check_photographs(&self) -> Result<(), Failure> {
        let of_video = [
            ("--fps", self.fps.is_some()),
            ("--start", self.start.is_some()),
            ("--end", self.end.is_some()),
            ("--max-frames", self.max_frames.is_some()),
        ];
        match of_video.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::new(
                "option",
                format!("{option}: has no effect on a folder of photographs; leave it out, or name a video"),
            )),
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
    /// Replace what DIR holds: train anew, on a new model and new frames where other options ask for them.
    #[arg(long)]
    force: bool,
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
            ("model", stages::model_folder(folder).display().to_string()),
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
    let scene = Scene {
        photos: &args.photos,
        output: &args.output,
        lens: &args.lens,
        tool: &args.tool,
        overwrite: stages::overwrite(args.force),
        interrupt: &interrupt,
        console,
    };
    let aligned = scene.source().and_then(|source| {
        let _lock = stages::lock(&args.output)?;
        let pictures = scene.pictures(source)?;
        scene.align(&pictures, &photographs(&pictures.folder)?)
    });
    match aligned {
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

/// Name of the folder of frames in that of the command, and what its marker says.
const FRAMES: &str = "frames";
/// What the frames were taken with, in their folder.
const FRAMES_RECORD: &str = "frames.json";

/// Photographs or a video to be aligned, and where to.
struct Scene<'a> {
    photos: &'a Path,
    output: &'a Path,
    lens: &'a LensArgs,
    tool: &'a ToolArgs,
    overwrite: Overwrite,
    interrupt: &'a Interrupt,
    console: &'a Console,
}

/// Where the pictures come from.
enum Source {
    Photographs,
    Video(Box<Video>),
}

/// The pictures of one camera or more.
struct Pictures {
    folder: PathBuf,
    /// Frames of one video: one camera, neighbours in time.
    is_video: bool,
}

impl Scene<'_> {
    /// Looks at what was given, before anything is written.
    fn source(&self) -> Result<Source, Failure> {
        if !self.photos.is_file() {
            photographs(self.photos)?;
            self.lens.check_photographs()?;
            return Ok(Source::Photographs);
        }
        let choice = Choice {
            footage: Footage::Ordinary,
            fps: Some(self.lens.fps()),
            start: self.lens.start(),
            end: self.lens.end,
            sharpest_of: 0,
            is_stereo: false,
        };
        let silence = Duration::from_secs(self.tool.tool_timeout.unwrap_or(split::SILENCE));
        let video = Video::open(self.photos, choice, [16_384, 16_384], silence, self.interrupt.stop());
        Ok(Source::Video(Box::new(video.map_err(|e| Failure::new("video", e))?)))
    }

    /// Where the pictures are, or will be once they were taken from the video.
    fn picture_folder(&self) -> PathBuf {
        if self.photos.is_file() { self.output.join(FRAMES) } else { self.photos.to_owned() }
    }

    /// The folder as it is, or the frames of a video, which are written to `output/frames` first.
    fn pictures(&self, source: Source) -> Result<Pictures, Failure> {
        let folder = self.picture_folder();
        let Source::Video(video) = source else { return Ok(Pictures { folder, is_video: false }) };
        let record = self.frames_record(&video);
        if !owned::is_ours(&folder, FRAMES) {
            refuse_frames_of_others(&folder)?;
        } else {
            let known = stages::read_record(&folder.join(FRAMES_RECORD)).unwrap_or_default();
            let differences = stages::differences(&known, &record);
            if differences.is_empty() {
                return Ok(Pictures { folder, is_video: true });
            }
            if self.overwrite == Overwrite::Refuse {
                return Err(stages::made_of_others(&folder, &differences));
            }
        }
        // A COLMAP that is missing is told before the work begins.
        self.tool.find(self.interrupt)?;
        let draft = Draft::new(&Disk, self.output, FRAMES)?;
        self.take_frames(&video, draft.path())?;
        stages::write_record(&draft.path().join(FRAMES_RECORD), &record)?;
        draft.publish(&Disk, &folder)?;
        Ok(Pictures { folder, is_video: true })
    }

    /// What frames depend on, under the names of the options.
    fn frames_record(&self, video: &Video) -> Value {
        let source = video_frames(video).into_iter().next();
        json!({
            "video": self.photos.file_name().map(|name| name.to_string_lossy()),
            "video-bytes": source.as_ref().map(|s| s.bytes),
            "video-modified": source.as_ref().map(|s| s.modified),
            "fps": self.lens.fps(),
            "start": self.lens.start(),
            "end": self.lens.end,
            "max-frames": self.lens.max_frames(),
        })
    }

    fn take_frames(&self, video: &Video, folder: &Path) -> Result<(), Failure> {
        let most = self.lens.max_frames() as usize;
        let expected = video.frames.min(most) as u64;
        self.console.note(format!("taking about {} from the video", counted(expected, "frame")));
        let level = level(VectorLevel::Auto).ok_or_else(|| Failure::new("device", "no vector level"))?;
        let mut reporter = Reporter::start(self.console, "frame", 0, expected);
        let taken = extract(video, folder, most, level, self.interrupt.stop(), &mut |done| {
            reporter.at(done as u64, String::new);
        });
        reporter.finish();
        let taken = taken.map_err(|e| Failure::new("video", e))?;
        if self.interrupt.signal().is_some() {
            return Err(Failure::new("video", "stopped"));
        }
        if taken == 0 {
            let video = self.photos.display();
            return Err(Failure::new("video", format!("{video}: video: gave no frame")));
        }
        Ok(())
    }

    fn cameras(&self, pictures: &Pictures) -> Cameras {
        if self.lens.single_camera || pictures.is_video { Cameras::Single } else { Cameras::Auto }
    }

    fn is_sequence(&self, pictures: &Pictures) -> bool {
        self.lens.sequence || pictures.is_video
    }

    /// What a model depends on, under the names of the options.
    fn model_record(&self, pictures: &Pictures, frames: &[FrameImages]) -> Value {
        json!({
            "photographs": frames.iter().map(|frame| &frame.name).collect::<Vec<_>>(),
            "camera-model": self.lens.camera_model.name(),
            "single-camera": self.cameras(pictures) == Cameras::Single,
            "sequence": self.is_sequence(pictures),
            "masks": self.lens.masks.as_deref().map(stages::place),
            "sfm-seed": self.tool.sfm_seed,
        })
    }

    /// The model of these photographs that is there, if it was made with these options. A whole model that somebody
    /// else made of them serves as well.
    fn known_model(&self, pictures: &Pictures, frames: &[FrameImages]) -> Result<Option<Model>, Failure> {
        let folder = stages::model_folder(self.output);
        if owned::is_ours(&folder, stages::MODEL) {
            // Written last: without it the model may be half of one.
            let Some(known) = stages::read_record(&folder.join(stages::MODEL_RECORD)) else {
                return Ok(None);
            };
            let differences = stages::differences(&known, &self.model_record(pictures, frames));
            if !differences.is_empty() {
                let refused = self.overwrite == Overwrite::Refuse;
                return if refused { Err(stages::made_of_others(&folder, &differences)) } else { Ok(None) };
            }
        }
        Ok(Model::read(&folder, frames).ok().filter(|model| !model.frames.is_empty()))
    }

    /// Aligns photographs and writes the model to `output/sparse/0`. Whoever calls holds the lock of `output`.
    fn align(&self, pictures: &Pictures, frames: &[FrameImages]) -> Result<Facts, Failure> {
        stages::may_write_model(self.output, self.overwrite)?;
        let tool = self.tool.find(self.interrupt)?;
        self.console.note(format!(
            "aligning {} with {}",
            counted(frames.len() as u64, "photograph"),
            tool.describe()
        ));
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // Databases are large and of no use afterwards: the folder goes when this is done, whatever comes of it.
        let work = Draft::new(&Disk, &absolute(self.output), stages::WORK)?;
        let job = Job {
            images: absolute(&pictures.folder),
            masks: self.lens.masks.as_deref().map(absolute),
            frames: frames.to_vec(),
            rig_config: None,
            camera_model: self.lens.camera_model.name().to_owned(),
            camera_params: None,
            cameras: self.cameras(pictures),
            is_sequence: self.is_sequence(pictures),
            work: work.path().join("colmap"),
            threads: self.tool.threads(),
            seed: self.tool.sfm_seed,
            silence: self.tool.silence(),
        };
        let mut told = String::new();
        let mut tell = |progress: &Progress| tell_progress(progress, &mut told, self.console);
        let Aligned { model, .. } = gausset_sfm::align(&job, &tool, self.interrupt.stop(), &mut tell)?;
        self.write_model(&model, frames, &self.model_record(pictures, frames))?;
        let facts = facts_of(&model, frames);
        for name in &facts.unregistered {
            self.console.warn("photographs", format!("{name}: photograph: did not register"));
        }
        Ok(facts)
    }

    fn write_model(&self, model: &Model, frames: &[FrameImages], record: &Value) -> Result<(), Failure> {
        let folder = stages::claim_model(self.output, self.overwrite)?;
        let path = folder.join(stages::MODEL_RECORD);
        let is_ours = owned::is_ours(&folder, stages::MODEL);
        if is_ours && path.is_file() {
            // While files of two models stand side by side nothing says that they are one.
            let failed = |source| WriteError::Io { path: path.clone(), action: "remove", source };
            Disk.remove(&path).map_err(failed)?;
        }
        model.write(&folder, frames)?;
        if is_ours {
            stages::write_record(&path, record)?;
        }
        Ok(())
    }
}

/// Frames go into a folder of ours only: what else is there would be taken for frames of the video.
fn refuse_frames_of_others(folder: &Path) -> Result<(), Failure> {
    if folder.symlink_metadata().is_err() {
        return Ok(());
    }
    let names = Disk.list(folder).unwrap_or_default();
    let found = names.first().map_or_else(|| "none of ours".to_owned(), |name| name.display().to_string());
    let line = format!(
        "{}: folder: was not made by gausset (expected none, or one with frames of this video, found {found}); move it away, or choose another folder with -o",
        folder.display()
    );
    Err(Failure::new("exists", line))
}

/// The photographs as moments of their own.
fn photographs(folder: &Path) -> Result<Vec<FrameImages>, Failure> {
    let of_file = |path: &PathBuf| match path.file_name().and_then(|name| name.to_str()) {
        // COLMAP's database and our records know names as text.
        Some(name) if !name.contains(char::is_control) => Ok(name.to_owned()),
        _ => {
            let (folder, name) = (folder.display(), path.file_name().unwrap_or_default());
            let line = format!("{folder}: photograph {name:?}: has a name that is no plain text; rename it");
            Err(Failure::new("frames", line))
        }
    };
    let frames = list_frames(folder)?;
    let names = frames.iter().filter_map(|frame| frame.files.first().map(of_file));
    names.map(|name| name.map(|name| FrameImages { name: name.clone(), images: vec![name] })).collect()
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

/// Runs `run`.
pub(crate) fn run(args: &RunArgs, console: &Console) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let overwrite = stages::overwrite(args.force);
    let scene = Scene {
        photos: &args.photos,
        output: &args.output,
        lens: &args.lens,
        tool: &args.tool,
        overwrite,
        interrupt: &interrupt,
        console,
    };
    let options = TrainOptions {
        data: Some(args.output.clone()),
        images: Some(scene.picture_folder()),
        masks: args.lens.masks.clone(),
        max_resolution: args.max_resolution,
        threads: Some(args.compute.threads),
        ..args.effort.options()
    };
    // A mistake in the options is told before the work begins.
    TrainConfig::resolve(&options, None).map_err(Failure::from)?;
    let aligned = scene.source().and_then(|source| {
        let lock = stages::lock(&args.output)?;
        stages::stay_inside(&args.output, &["run"])?;
        let pictures = scene.pictures(source)?;
        let frames = photographs(&pictures.folder)?;
        // A model that is there and is one of these photographs is used again.
        let facts = match scene.known_model(&pictures, &frames)? {
            Some(known) => facts_of(&known, &frames),
            None => scene.align(&pictures, &frames)?,
        };
        Ok((facts, lock))
    });
    let (facts, _lock) = match aligned {
        Err(_) if interrupt.signal().is_some() => return stopped(&interrupt),
        other => other?,
    };
    console.note(facts.table(&args.output).trim_end());
    let folder = args.output.join("run");
    let device = args.compute.device;
    let trained = training::fresh_or_resumed(folder, &options, overwrite, device, &interrupt, console)?;
    console.object_or(&trained.outcome.summary, || facts.table(&args.output) + &trained.table())?;
    match trained.status {
        Status::Done => Ok(Status::done(!facts.unregistered.is_empty())),
        other => Ok(other),
    }
}
