//! The recipe: features, matching, mapping; and what to try when too few frames register.
//!
//! Measured on real walks (five and eight panoramas metres apart): views without nearest-view masks, pairs of the same
//! frame skipped, fixed intrinsics and a fixed rig register everything; masks, cube faces or no rig do not. The ladder
//! when fewer than 80 % of the frames register: twice the features; affine shapes; fewer matches per pair.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_process::{ProcessError, Program, Stream};
use serde::{Deserialize, Serialize};

use crate::model::{FrameImages, Model};
use crate::tool::{DRIVER, Tool};

/// Share of the frames that is enough.
const ENOUGH: f64 = 0.8;
/// Frames up to which every pair is matched.
const EXHAUSTIVE_FRAMES: usize = 25;
/// Single pictures up to which every pair is matched.
const EXHAUSTIVE_PICTURES: usize = 120;

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
    /// Folder for databases and raw models; made, and emptied of what an earlier run left.
    pub work: PathBuf,
    /// Threads.
    pub threads: usize,
    /// Seed.
    pub seed: u32,
    /// How long COLMAP may say nothing.
    pub silence: Duration,
}

/// Which pictures share a camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    Model(String),
    /// No frame got a pose.
    #[error("{}: frames: none of {frames} could be aligned; the pictures need more overlap or texture", images.display())]
    Nothing {
        /// The pictures.
        images: PathBuf,
        /// How many frames there were.
        frames: usize,
    },
    /// The work folder cannot be used.
    #[error("{}: {action}: {reason}", path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// Why.
        reason: String,
    },
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

/// The job as the driver reads it.
#[derive(Serialize)]
struct DriverJob<'a> {
    images: &'a Path,
    masks: Option<&'a Path>,
    database: PathBuf,
    models: PathBuf,
    rig_config: Option<&'a Path>,
    camera_model: &'a str,
    camera_params: &'a str,
    camera_mode: &'static str,
    max_features: u32,
    affine_shape: bool,
    matcher: &'static str,
    overlap: u32,
    min_matches: u32,
    fixed_intrinsics: bool,
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
        if registered as f64 >= ENOUGH * job.frames.len() as f64 {
            break;
        }
        tracing::info!("{registered} of {} frames with recipe {rung}", job.frames.len());
    }
    best.ok_or_else(|| {
        failure
            .unwrap_or_else(|| AlignError::Nothing { images: job.images.clone(), frames: job.frames.len() })
    })
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
    let io = |path: &Path, action| {
        let path = path.to_owned();
        move |e: std::io::Error| AlignError::Folder {
            path,
            action,
            reason: gausset_io::atomic::plain_reason(&e),
        }
    };
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(io(folder, "empty"))?;
    }
    std::fs::create_dir_all(folder).map_err(io(folder, "folder"))?;
    let limit = if job.rig_config.is_some() { EXHAUSTIVE_FRAMES } else { EXHAUSTIVE_PICTURES };
    let is_exhaustive = job.frames.len() <= limit || !job.is_sequence;
    let driver_job = DriverJob {
        images: &job.images,
        masks: job.masks.as_deref(),
        database: folder.join("database.db"),
        models: folder.join("models"),
        rig_config: job.rig_config.as_deref(),
        camera_model: &job.camera_model,
        camera_params: job.camera_params.as_deref().unwrap_or_default(),
        camera_mode: match job.cameras {
            Cameras::PerFolder => "per-folder",
            Cameras::Single => "single",
            Cameras::Auto => "auto",
        },
        max_features: recipe.max_features,
        affine_shape: recipe.affine_shape,
        matcher: if is_exhaustive { "exhaustive" } else { "sequential" },
        overlap: 10,
        min_matches: recipe.min_matches,
        fixed_intrinsics: job.camera_params.is_some(),
        threads: job.threads,
        seed: job.seed,
    };
    match tool {
        Tool::Python { python, .. } => {
            let script = folder.join("driver.py");
            let description = folder.join("job.json");
            std::fs::write(&script, DRIVER).map_err(io(&script, "write"))?;
            let text = serde_json::to_string_pretty(&driver_job).unwrap_or_default();
            std::fs::write(&description, text).map_err(io(&description, "write"))?;
            let program = Program::new(python).file(&script).file(&description).silence(job.silence);
            watch(&program, rung, None, stop, tell)?;
        }
        Tool::Colmap { program, .. } => {
            let models = &driver_job.models;
            std::fs::create_dir_all(models).map_err(io(models, "folder"))?;
            for (stage, arguments) in commands(&driver_job) {
                let mut command = Program::new(program).silence(job.silence);
                for argument in arguments {
                    command = command.arg(argument);
                }
                watch(&command, rung, Some(stage), stop, tell)?;
            }
        }
    }
    Model::best(&driver_job.models, &job.frames).map_err(AlignError::Model)
}

/// The calls of the executable that do what the driver does.
fn commands(job: &DriverJob<'_>) -> Vec<(&'static str, Vec<String>)> {
    let text = |path: &Path| path.display().to_string();
    let pairs = |list: &[(&str, String)]| -> Vec<String> {
        list.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]).collect()
    };
    let threads = job.threads.to_string();
    let flag = |yes: bool| i32::from(yes).to_string();
    let mut features = vec![
        ("database_path", text(&job.database)),
        ("image_path", text(job.images)),
        ("ImageReader.camera_model", job.camera_model.to_owned()),
        ("FeatureExtraction.num_threads", threads.clone()),
        ("FeatureExtraction.use_gpu", flag(false)),
        ("SiftExtraction.max_num_features", job.max_features.to_string()),
        ("SiftExtraction.estimate_affine_shape", flag(job.affine_shape)),
    ];
    match job.camera_mode {
        "per-folder" => features.push(("ImageReader.single_camera_per_folder", flag(true))),
        "single" => features.push(("ImageReader.single_camera", flag(true))),
        _ => {}
    }
    if !job.camera_params.is_empty() {
        features.push(("ImageReader.camera_params", job.camera_params.to_owned()));
    }
    if let Some(masks) = job.masks {
        features.push(("ImageReader.mask_path", text(masks)));
    }
    let mut out = vec![("features", [vec!["feature_extractor".to_owned()], pairs(&features)].concat())];
    if let Some(rig) = job.rig_config {
        let arguments = pairs(&[("database_path", text(&job.database)), ("rig_config_path", text(rig))]);
        out.push(("features", [vec!["rig_configurator".to_owned()], arguments].concat()));
    }
    let mut matching = vec![
        ("database_path", text(&job.database)),
        ("FeatureMatching.num_threads", threads.clone()),
        ("FeatureMatching.use_gpu", flag(false)),
    ];
    if job.rig_config.is_some() {
        matching.push(("FeatureMatching.rig_verification", flag(true)));
        matching.push(("FeatureMatching.skip_image_pairs_in_same_frame", flag(true)));
    }
    let matcher = if job.matcher == "exhaustive" { "exhaustive_matcher" } else { "sequential_matcher" };
    if job.matcher != "exhaustive" {
        matching.push(("SequentialMatching.overlap", job.overlap.to_string()));
    }
    out.push(("matching", [vec![matcher.to_owned()], pairs(&matching)].concat()));
    let refine = flag(!job.fixed_intrinsics);
    let mut mapping = vec![
        ("database_path", text(&job.database)),
        ("image_path", text(job.images)),
        ("output_path", text(&job.models)),
        ("Mapper.num_threads", threads),
        ("Mapper.min_num_matches", job.min_matches.to_string()),
        ("Mapper.ba_refine_focal_length", refine.clone()),
        ("Mapper.ba_refine_extra_params", refine),
        ("default_random_seed", job.seed.to_string()),
    ];
    if job.rig_config.is_some() {
        mapping.push(("Mapper.ba_refine_sensor_from_rig", flag(false)));
    }
    out.push(("mapping", [vec!["mapper".to_owned()], pairs(&mapping)].concat()));
    out
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
