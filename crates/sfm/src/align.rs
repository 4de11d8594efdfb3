//! The recipe: features, matching, mapping; and what to try when too few frames register.
//!
//! Measured on real walks (five and eight panoramas metres apart): views without nearest-view masks, pairs of the same
//! frame skipped, fixed intrinsics and a fixed rig register everything; masks, cube faces or no rig do not. The ladder
//! when fewer than 80 % of the frames register: twice the features; affine shapes; fewer matches per pair.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError, write_atomic};
use gausset_io::owned::{self, OwnedError};
use gausset_process::{ProcessError, Program, Stream};
use serde::{Deserialize, Serialize};

use crate::model::{FrameImages, Model, ModelError};
use crate::tool::{DRIVER, Tool};

/// Share of the frames that is enough.
const ENOUGH: f64 = 0.8;
/// Frames up to which every pair is matched.
const EXHAUSTIVE_FRAMES: usize = 25;
/// Single pictures up to which every pair is matched.
const EXHAUSTIVE_PICTURES: usize = 120;
/// Neighbours on each side that a picture of a sequence is matched with.
const SEQUENCE_OVERLAP: u32 = 10;
/// What the marker of the work folder says.
const WORK: &str = "alignment";

/// What is to be aligned.
#[derive(Clone, Debug)]
pub struct Job {
    /// Folder of the pictures.
    pub images: PathBuf,
    /// Folder of the masks (`NAME.png`, 0 = ignore), if there is one.
    pub masks: Option<PathBuf>,
    /// The moments and their pictures, in order.
    pub frames: Vec<FrameImages>,
    /// `rig_config.json`, when pictures of a frame form a rig.
    pub rig_config: Option<PathBuf>,
    /// Camera model of COLMAP.
    pub camera_model: String,
    /// Its parameters, when they are known; they are then not refined.
    pub camera_params: Option<String>,
    /// Which pictures share a camera.
    pub cameras: Cameras,
    /// Whether neighbours in the list were taken one after the other.
    pub is_sequence: bool,
    /// A model with the poses of all pictures, when these are known: files and their contents. Poses are then kept as they
    /// are and points are triangulated. Only pycolmap can ([`AlignError::NeedsPython`]).
    pub known: Option<Vec<(&'static str, Vec<u8>)>>,
    /// Folder for databases and raw models. It is made, or was made by an earlier run and is emptied; a folder of
    /// somebody else is refused. It is removed when the alignment has succeeded.
    pub work: PathBuf,
    /// Threads.
    pub threads: usize,
    /// Seed.
    pub seed: u32,
    /// How long COLMAP may say nothing.
    pub silence: Duration,
}

/// Which pictures share a camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cameras {
    /// Those of a folder.
    PerFolder,
    /// All.
    Single,
    /// As COLMAP finds.
    Auto,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// `features`, `matching` or `mapping`.
    pub stage: String,
    /// Parts done.
    pub done: u64,
    /// Parts in all; 0 = not known.
    pub all: u64,
    /// Which recipe of the ladder, from 0.
    pub rung: usize,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Aligned {
    /// The best model.
    pub model: Model,
    /// Which recipe made it, from 0.
    pub rung: usize,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum AlignError {
    /// COLMAP failed.
    #[error("COLMAP: {0}")]
    Process(#[from] ProcessError),
    /// COLMAP said what is wrong.
    #[error("COLMAP: {stage}: {what}")]
    Colmap {
        /// The stage.
        stage: String,
        /// Its words.
        what: String,
    },
    /// What it wrote makes no sense.
    #[error("COLMAP: model: {0}")]
    Model(#[from] ModelError),
    /// No frame got a pose.
    #[error("{}: frames: none of {frames} could be aligned; the pictures need more overlap or texture", images.display())]
    Nothing {
        /// The pictures.
        images: PathBuf,
        /// How many frames there were.
        frames: usize,
    },
    /// The work folder cannot be used.
    #[error(transparent)]
    Folder(#[from] OwnedError),
    /// Known poses, and no pycolmap: the executable has no way to say which picture is which.
    #[error("COLMAP: points for known poses need pycolmap; install it with: pip install pycolmap")]
    NeedsPython,
    /// A path that cannot be handed to Python.
    #[error(
        "{}: name: is not UTF-8, in which pycolmap is told its files; choose another name, or the executable (⟨colmap⟩)",
        path.display()
    )]
    Name {
        /// The path.
        path: PathBuf,
    },
}

impl From<WriteError> for AlignError {
    fn from(error: WriteError) -> Self {
        Self::Folder(error.into())
    }
}

/// One recipe of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recipe {
    max_features: u32,
    affine_shape: bool,
    min_matches: u32,
}

const LADDER: [Recipe; 4] = [
    Recipe { max_features: 8192, affine_shape: false, min_matches: 15 },
    Recipe { max_features: 16_384, affine_shape: false, min_matches: 15 },
    Recipe { max_features: 16_384, affine_shape: true, min_matches: 15 },
    Recipe { max_features: 16_384, affine_shape: true, min_matches: 10 },
];

/// Which pictures are matched with which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Matcher {
    /// All with all.
    Exhaustive,
    /// Neighbours in the list.
    Sequential,
}

/// One attempt, as the driver reads it. All paths are absolute: COLMAP runs in another folder.
#[derive(Debug, Serialize)]
struct Attempt {
    images: PathBuf,
    masks: Option<PathBuf>,
    database: PathBuf,
    models: PathBuf,
    rig_config: Option<PathBuf>,
    camera_model: String,
    camera_params: String,
    camera_mode: Cameras,
    max_features: u32,
    affine_shape: bool,
    matcher: Matcher,
    overlap: u32,
    min_matches: u32,
    fixed_intrinsics: bool,
    /// Folder of the model with known poses.
    known: Option<PathBuf>,
    threads: usize,
    seed: u32,
}
#[derive(Deserialize)]
struct DriverLine {
    event: String,
    name: Option<String>,
    what: Option<String>,
}

/// Aligns pictures; `tell` hears about progress.
///
/// # Errors
/// COLMAP fails, says nothing for too long, or registers nothing; the work folder cannot be used.
pub fn align(
    job: &Job,
    tool: &Tool,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Aligned, AlignError> {
    if job.known.is_some() && matches!(tool, Tool::Colmap { .. }) {
        return Err(AlignError::NeedsPython);
    }
    // What an earlier run left would be read as its result.
    owned::remove(&job.work, WORK)?;
    owned::claim(&Disk, &job.work, WORK, Overwrite::Refuse)?;
    let mut best: Option<Aligned> = None;
    let mut failure = None;
    for (rung, recipe) in LADDER.iter().enumerate() {
        let folder = job.work.join(format!("rung{rung}"));
        let result = attempt(job, tool, *recipe, rung, &folder, stop, tell);
        match result {
            Ok(Some(model)) => {
                let worth = |m: &Model| (m.frames.len(), m.colmap.points.len());
                if best.as_ref().is_none_or(|b| worth(&model) > worth(&b.model)) {
                    best = Some(Aligned { model, rung });
                }
            }
            Ok(None) => {}
            Err(error @ AlignError::Process(ProcessError::Stopped { .. })) => return Err(error),
            Err(error) if rung == 0 => return Err(error),
            // The first recipe ran; a later one that fails takes nothing away.
            Err(error) => failure = Some(error),
        }
        let registered = best.as_ref().map_or(0, |b| b.model.frames.len());
        // With known poses another recipe finds more points, but no more frames.
        if job.known.is_some() || registered as f64 >= ENOUGH * job.frames.len() as f64 {
            break;
        }
        tracing::info!("{registered} of {} frames with recipe {rung}", job.frames.len());
    }
    let aligned = best.ok_or_else(|| {
        failure
            .unwrap_or_else(|| AlignError::Nothing { images: job.images.clone(), frames: job.frames.len() })
    })?;
    // Databases are large and of no further use; the model is in memory. One that cannot be removed does no harm.
    if let Err(error) = owned::remove(&job.work, WORK) {
        tracing::warn!("{error}");
    }
    Ok(aligned)
}

/// Runs one recipe in an empty folder; the best model it makes.
fn attempt(
    job: &Job,
    tool: &Tool,
    recipe: Recipe,
    rung: usize,
    folder: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Option<Model>, AlignError> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = absolute(folder);
    let limit = if job.rig_config.is_some() { EXHAUSTIVE_FRAMES } else { EXHAUSTIVE_PICTURES };
    let is_exhaustive = job.frames.len() <= limit || !job.is_sequence;
    let attempt = Attempt {
        images: absolute(&job.images),
        masks: job.masks.as_deref().map(absolute),
        database: folder.join("database.db"),
        models: folder.join("models"),
        rig_config: job.rig_config.as_deref().map(absolute),
        camera_model: job.camera_model.clone(),
        camera_params: job.camera_params.clone().unwrap_or_default(),
        camera_mode: job.cameras,
        max_features: recipe.max_features,
        affine_shape: recipe.affine_shape,
        matcher: if is_exhaustive { Matcher::Exhaustive } else { Matcher::Sequential },
        overlap: SEQUENCE_OVERLAP,
        min_matches: recipe.min_matches,
        fixed_intrinsics: job.camera_params.is_some(),
        known: job.known.as_ref().map(|_| folder.join("known")),
        threads: job.threads,
        seed: job.seed,
    };
    Disk.create_folder(&attempt.models).map_err(|source| WriteError::Io {
        path: attempt.models.clone(),
        action: "folder",
        source,
    })?;
    for (name, bytes) in job.known.iter().flatten() {
        let known = folder.join("known");
        Disk.create_folder(&known).map_err(|source| WriteError::Io {
            path: known.clone(),
            action: "folder",
            source,
        })?;
        write_atomic(&Disk, &known.join(name), |file| file.write_all(bytes))?;
    }
    match tool {
        Tool::Python { python, .. } => {
            let description = folder.join("job.json");
            let text = attempt.to_json()?;
            write_atomic(&Disk, &description, |file| file.write_all(text.as_bytes()))?;
            let program = Program::new(python).arg("-c").arg(DRIVER).file(&description).silence(job.silence);
            watch(&program, rung, None, stop, tell)?;
        }
        Tool::Colmap { program, .. } => {
            for (stage, arguments) in attempt.commands() {
                let mut command = Program::new(program).silence(job.silence);
                for argument in arguments {
                    command = command.arg(argument);
                }
                watch(&command, rung, Some(stage), stop, tell)?;
            }
        }
    }
    Ok(Model::best(&attempt.models, &job.frames)?)
}

impl Attempt {
    /// As the driver reads it: JSON is UTF-8, so all names have to be.
    fn to_json(&self) -> Result<String, AlignError> {
        let paths = [Some(&self.images), self.masks.as_ref(), Some(&self.models), self.rig_config.as_ref()];
        if let Some(path) = paths.into_iter().flatten().find(|path| path.to_str().is_none()) {
            return Err(AlignError::Name { path: path.clone() });
        }
        serde_json::to_string_pretty(self).map_err(|e| {
            let (path, source) = (self.models.clone(), std::io::Error::other(e));
            WriteError::Io { path, action: "describe", source }.into()
        })
    }

    /// The calls of the executable that do what the driver does. Paths keep their bytes.
    fn commands(&self) -> Vec<(&'static str, Vec<OsString>)> {
        let path = |path: &Path| path.as_os_str().to_owned();
        let text = |value: &str| OsString::from(value);
        let number = |value: u64| OsString::from(value.to_string());
        let flag = |yes: bool| number(u64::from(yes));
        let call = |command: &str, options: Vec<(&str, OsString)>| -> Vec<OsString> {
            let options = options.into_iter().flat_map(|(name, value)| [format!("--{name}").into(), value]);
            std::iter::once(text(command)).chain(options).collect()
        };
        let threads = || number(self.threads as u64);
        let mut features = vec![
            ("database_path", path(&self.database)),
            ("image_path", path(&self.images)),
            ("ImageReader.camera_model", text(&self.camera_model)),
            ("FeatureExtraction.num_threads", threads()),
            ("FeatureExtraction.use_gpu", flag(false)),
            ("SiftExtraction.max_num_features", number(self.max_features.into())),
            ("SiftExtraction.estimate_affine_shape", flag(self.affine_shape)),
        ];
        match self.camera_mode {
            Cameras::PerFolder => features.push(("ImageReader.single_camera_per_folder", flag(true))),
            Cameras::Single => features.push(("ImageReader.single_camera", flag(true))),
            Cameras::Auto => {}
        }
        if !self.camera_params.is_empty() {
            features.push(("ImageReader.camera_params", text(&self.camera_params)));
        }
        if let Some(masks) = &self.masks {
            features.push(("ImageReader.mask_path", path(masks)));
        }
        let mut out = vec![("features", call("feature_extractor", features))];
        if let Some(rig) = &self.rig_config {
            let options = vec![("database_path", path(&self.database)), ("rig_config_path", path(rig))];
            out.push(("features", call("rig_configurator", options)));
        }
        let mut matching = vec![
            ("database_path", path(&self.database)),
            ("FeatureMatching.num_threads", threads()),
            ("FeatureMatching.use_gpu", flag(false)),
        ];
        if self.rig_config.is_some() {
            matching.push(("FeatureMatching.rig_verification", flag(true)));
            matching.push(("FeatureMatching.skip_image_pairs_in_same_frame", flag(true)));
        }
        let matcher = match self.matcher {
            Matcher::Exhaustive => "exhaustive_matcher",
            Matcher::Sequential => {
                matching.push(("SequentialMatching.overlap", number(self.overlap.into())));
                "sequential_matcher"
            }
        };
        out.push(("matching", call(matcher, matching)));
        let mut mapping = vec![
            ("database_path", path(&self.database)),
            ("image_path", path(&self.images)),
            ("output_path", path(&self.models)),
            ("Mapper.num_threads", threads()),
            ("Mapper.min_num_matches", number(self.min_matches.into())),
            ("Mapper.ba_refine_focal_length", flag(!self.fixed_intrinsics)),
            ("Mapper.ba_refine_extra_params", flag(!self.fixed_intrinsics)),
            ("default_random_seed", number(self.seed.into())),
        ];
        if self.rig_config.is_some() {
            mapping.push(("Mapper.ba_refine_sensor_from_rig", flag(false)));
        }
        out.push(("mapping", call("mapper", mapping)));
        out
    }
}

/// Runs a program and makes progress of what it says.
fn watch(
    program: &Program,
    rung: usize,
    stage: Option<&str>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress),
) -> Result<(), AlignError> {
    let mut progress = Progress { stage: stage.unwrap_or("start").to_owned(), done: 0, all: 0, rung };
    if stage.is_some() {
        tell(&progress);
    }
    let mut said = None;
    let mut on_line = |stream, line: &str| {
        let event = (stream == Stream::Out).then(|| serde_json::from_str::<DriverLine>(line).ok()).flatten();
        match event {
            Some(DriverLine { event, name: Some(name), .. }) if event == "stage" => {
                progress = Progress { stage: name, done: 0, all: 0, rung };
                tell(&progress);
            }
            Some(DriverLine { event, what, .. }) if event == "error" || event == "absent" => said = what,
            Some(_) => {}
            None => {
                if let Some((done, all)) = parse_progress(line) {
                    (progress.done, progress.all) = (done, all.max(progress.all));
                    tell(&progress);
                }
            }
        }
    };
    let result = program.run(stop, &mut on_line);
    match (result, said) {
        (Err(ProcessError::Failed { .. }), Some(what)) => {
            Err(AlignError::Colmap { stage: progress.stage, what })
        }
        (Err(error), _) => Err(error.into()),
        (Ok(_), _) => Ok(()),
    }
}

/// `… [7/40] …`, `… [2/5, 1/5] …`, `Registering frame #3 (num_reg_frames=4)`: how far a stage is.
fn parse_progress(line: &str) -> Option<(u64, u64)> {
    if let Some(rest) = line.split("num_reg_").nth(1) {
        let number = rest.split('=').nth(1)?;
        return leading_number(number).map(|done| (done, 0));
    }
    if !(line.contains("Processed") || line.contains("Matching") || line.contains("Processing")) {
        return None;
    }
    // Glog's own prefix has no brackets; the last pair is the counter.
    let inside = line.rsplit('[').next()?;
    let (done, rest) = inside.split_once('/')?;
    Some((done.trim().parse().ok()?, leading_number(rest)?))
}

fn leading_number(text: &str) -> Option<u64> {
    let digits: String = text.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt_in(folder: &Path) -> Attempt {
        Attempt {
            images: folder.join("images"),
            masks: None,
            database: folder.join("database.db"),
            models: folder.join("models"),
            rig_config: None,
            camera_model: "PINHOLE".to_owned(),
            camera_params: String::new(),
            camera_mode: Cameras::PerFolder,
            max_features: 1,
            affine_shape: false,
            matcher: Matcher::Sequential,
            overlap: 10,
            min_matches: 15,
            fixed_intrinsics: false,
            threads: 1,
            seed: 0,
            known: None,
        }
    }

    #[test]
    fn the_driver_reads_the_words_that_it_knows() {
        let job: serde_json::Value =
            serde_json::from_str(&attempt_in(Path::new("/w")).to_json().unwrap()).unwrap();
        assert_eq!((&job["camera_mode"], &job["matcher"]), (&"per-folder".into(), &"sequential".into()));
        for name in DRIVER.split("job[\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(job.get(name).is_some(), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_not_utf8_keeps_its_bytes_or_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let folder = PathBuf::from(OsString::from_vec(b"/data/caf\xe9".to_vec()));
        let attempt = attempt_in(&folder);
        for (stage, arguments) in attempt.commands() {
            assert!(arguments.contains(&attempt.database.clone().into_os_string()), "{stage}");
        }
        let refusal = attempt.to_json().unwrap_err().to_string();
        assert!(refusal.contains("caf\u{fffd}/images: name: is not UTF-8"), "{refusal}");
    }

    #[cfg(unix)]
    #[test]
    fn a_work_folder_of_somebody_else_is_left_alone_and_our_own_is_emptied() {
        let root = tempfile::tempdir().unwrap();
        let job = Job {
            images: root.path().join("images"),
            masks: None,
            frames: Vec::new(),
            rig_config: None,
            camera_model: "PINHOLE".to_owned(),
            camera_params: None,
            cameras: Cameras::Auto,
            is_sequence: false,
            work: root.path().join("sfm"),
            threads: 1,
            seed: 0,
            known: None,
            silence: Duration::from_secs(60),
        };
        let run = |program: &str| {
            let tool = Tool::Colmap { program: program.into(), version: "3.12".to_owned() };
            align(&job, &tool, &AtomicBool::new(false), &mut |_| {}).map(|_| ()).unwrap_err()
        };
        let known = Job { known: Some(Vec::new()), ..job.clone() };
        let tool = Tool::Colmap { program: "/bin/true".into(), version: "3.12".to_owned() };
        let refusal = align(&known, &tool, &AtomicBool::new(false), &mut |_| {}).map(|_| ()).unwrap_err();
        assert!(matches!(refusal, AlignError::NeedsPython), "{refusal}");
        let thesis = job.work.join("thesis.txt");
        std::fs::create_dir(&job.work).unwrap();
        std::fs::write(&thesis, "years").unwrap();
        let refusal = run("/bin/true");
        assert!(matches!(refusal, AlignError::Folder(OwnedError::NotOurs { .. })), "{refusal}");
        assert_eq!(std::fs::read(&thesis).unwrap(), b"years");
        std::fs::remove_dir_all(&job.work).unwrap();
        // A program that fails leaves its work to be looked at; the next attempt begins with an empty folder.
        assert!(matches!(run("/bin/false"), AlignError::Process(ProcessError::Failed { .. })));
        let left = job.work.join("rung3");
        std::fs::create_dir(&left).unwrap();
        assert!(matches!(run("/bin/false"), AlignError::Process(ProcessError::Failed { .. })));
        assert!(!left.exists() && job.work.join("rung0").is_dir());
    }

    #[test]
    fn what_colmap_logs_becomes_progress() {
        let p = parse_progress;
        assert_eq!(
            p("I20261121 15:48:01.1 7 feature_extraction.cc:255] Processed file [3/40]"),
            Some((3, 40))
        );
        assert_eq!(p("I20261121 15:48:01.1 7 matching.cc:20] Processing block [1/1, 1/1]"), Some((1, 1)));
        assert_eq!(
            p("I20261121 incremental_pipeline.cc:40] Registering image #3 (num_reg_frames=4)"),
            Some((4, 0))
        );
        assert_eq!(p("Elapsed time: 0.1 [minutes]"), None);
    }
}
