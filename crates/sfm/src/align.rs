//! The recipes: features, matching, mapping; and which to try next when too few frames are registered.
//!
//! Measured on real walks (five and eight panoramas metres apart): views without nearest-view masks, pairs of the same
//! frame skipped, fixed intrinsics and a fixed rig register everything; masks, cube faces or no rig do not. The ladder
//! when fewer than 80 % of the frames are registered: twice the features; affine shapes; fewer matches per pair.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::reconstruction::PanoView;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError, write_atomic};
use gausset_io::image::ImageError;
use gausset_io::input::absolute;
use gausset_io::ownership::{self, OwnershipError};
use gausset_process::{OutputStream, ProcessError, Program};
use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, ImportedFiles, Mapper, Matcher, STAGES, SingleMapper};
use crate::built_in;
use crate::masks;
use crate::matches::{ImagePair, ImportedMatches};
use crate::model::{CheckedModel, FrameImages, ModelError};
use crate::tool::{AlignmentTool, DRIVER};

/// Fraction of registered frames at which no further recipe is tried.
const ENOUGH_REGISTERED: f64 = 0.8;
/// Largest number of frames of which every pair is matched.
const EXHAUSTIVE_FRAMES: usize = 25;
/// Largest number of single images of which every pair is matched.
const EXHAUSTIVE_IMAGES: usize = 120;
/// Number of neighbours on each side with which an image of a sequence is matched.
const SEQUENCE_OVERLAP: u32 = 10;
/// Name of COLMAP's database.
const DATABASE: &str = "database.db";
/// Name of the file that lists the images for the executable.
const IMAGE_LIST: &str = "images.txt";
/// Kind of folder that the marker file of the work folder names.
const WORK_FOLDER_KIND: &str = "alignment";

/// Input and options of an alignment.
#[derive(Clone, Debug)]
pub struct AlignJob {
    /// Folder of the images.
    pub image_folder: PathBuf,
    /// Folder of the masks (`NAME.png`, 0 = ignore), if there is one.
    pub mask_folder: Option<PathBuf>,
    /// The frames and their images, in order.
    pub frames: Vec<FrameImages>,
    /// `rig_config.json`, if the images of a frame form a rig.
    pub rig_config: Option<PathBuf>,
    /// Viewing directions of the images of a frame, in their order, if they are views of panoramas. Only the built-in
    /// aligner uses them.
    pub views: Vec<PanoView>,
    /// Camera model of COLMAP.
    pub camera_model: String,
    /// Camera parameters, if known; they are then not refined.
    pub camera_params: Option<String>,
    /// Which images share a camera.
    pub cameras: CameraSharing,
    /// Whether neighbours in the list were taken in succession.
    pub is_sequence: bool,
    /// A model with the poses of all images, if these are known: files and their contents. The poses are then kept and
    /// points are triangulated. Needs pycolmap ([`AlignError::NeedsPython`]).
    pub known_poses: Option<Vec<(&'static str, Vec<u8>)>>,
    /// Whether bundle adjustment refines poses and points from the known poses, instead of keeping the poses.
    pub refine_known_poses: bool,
    /// Position priors of the refinement, in the world of the known poses.
    pub priors: Vec<PositionPrior>,
    /// Keypoints and matches to import; COLMAP only verifies them. Needs pycolmap.
    pub imported_matches: Option<ImportedMatches>,
    /// Whether the work folder is kept, so that another job can use its database ([`Alignment::database`]).
    pub keep_work_folder: bool,
    /// Mapper that reconstructs a model from the matches. Ignored for known poses, whose points are triangulated.
    pub mapper: Mapper,
    /// Folder for databases and raw models. It is created, or emptied if an earlier run created it; a folder that
    /// Gausset did not create is refused. It is removed when the alignment has succeeded.
    pub work_folder: PathBuf,
    /// Number of threads.
    pub threads: usize,
    /// Random seed of COLMAP and of RANSAC.
    pub seed: u32,
    /// COLMAP is stopped if it prints nothing for this long.
    pub silence_limit: Duration,
}

/// Position prior of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct PositionPrior {
    /// Name of the image.
    pub image: String,
    /// Its position.
    pub position: [f64; 3],
    /// Standard deviation of each coordinate.
    pub deviation: f64,
}

/// Which images share a camera.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CameraSharing {
    /// Those of one folder.
    PerFolder,
    /// All images share one camera.
    Single,
    /// COLMAP decides by size and EXIF data.
    Auto,
}

/// Progress of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlignProgress {
    /// `features`, `matching` or `mapping`.
    pub stage: String,
    /// Units of work done.
    pub done: u64,
    /// Units of work in total; 0 if not known.
    pub total: u64,
    /// Index of the recipe in the ladder, from 0.
    pub recipe: usize,
}

/// Result of an alignment.
#[derive(Clone, Debug)]
pub struct Alignment {
    /// The best model.
    pub model: CheckedModel,
    /// Index of the recipe that made it, from 0.
    pub recipe: usize,
    /// The database of that recipe, if the work folder is kept.
    pub database: Option<PathBuf>,
}

/// Why an alignment failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlignError {
    /// The COLMAP process failed.
    #[error("COLMAP: {0}")]
    Process(#[from] ProcessError),
    /// COLMAP reported an error.
    #[error("COLMAP: {stage}: {message}")]
    Colmap {
        /// Stage in which it failed.
        stage: String,
        /// Message of COLMAP.
        message: String,
    },
    /// The model that COLMAP wrote is invalid.
    #[error("COLMAP: model: {0}")]
    Model(#[from] ModelError),
    /// No frame was registered.
    #[error("{}: frames: none of {frames} could be aligned; the images need more overlap or texture", images.display())]
    NoFrameRegistered {
        /// Folder of the images.
        images: PathBuf,
        /// Number of frames.
        frames: usize,
    },
    /// The work folder cannot be used.
    #[error(transparent)]
    WorkFolder(#[from] OwnershipError),
    /// Known poses or matches without pycolmap: the executable cannot be told which image is which.
    #[error("COLMAP: known poses and matches need pycolmap; install it with: pip install pycolmap")]
    NeedsPython,
    /// A database of matches that does not fit the images.
    #[error("{}: {problem}", path.display())]
    Matches {
        /// The database.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// An image that the built-in aligner cannot read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// An image that does not have the size of its view.
    #[error(
        "{}: size: {}x{} px (expected {}x{}, the size of its view); split again",
        path.display(), found[0], found[1], expected[0], expected[1]
    )]
    ImageSize {
        /// The image.
        path: PathBuf,
        /// Its width and height.
        found: [u32; 2],
        /// Those of its view.
        expected: [u32; 2],
    },
    /// More frames than the built-in aligner supports.
    #[error(
        "frames: {frames} are too many for the built-in aligner (expected at most {limit}); use fewer, or ⟨aligner = colmap⟩"
    )]
    TooManyFrames {
        /// Number of frames.
        frames: usize,
        /// Largest number of frames.
        limit: usize,
    },
    /// The caller set the stop flag.
    #[error("stopped")]
    Stopped,
    /// A path that cannot be passed to Python.
    #[error(
        "{}: name: is not UTF-8, which pycolmap needs; choose another name, or use the executable (⟨colmap⟩)",
        path.display()
    )]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
}

impl From<WriteError> for AlignError {
    fn from(error: WriteError) -> Self {
        Self::WorkFolder(error.into())
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

#[derive(Deserialize)]
struct DriverLine {
    event: String,
    kind: Option<String>,
    name: Option<String>,
    what: Option<String>,
}

/// Aligns images; `tell` is called with the progress.
///
/// # Errors
/// COLMAP fails, prints nothing for too long, or registers nothing; or the work folder cannot be used.
pub fn align(
    job: &AlignJob,
    tool: &AlignmentTool,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<Alignment, AlignError> {
    if (job.known_poses.is_some() || job.imported_matches.is_some())
        && !matches!(tool, AlignmentTool::Pycolmap { .. })
    {
        return Err(AlignError::NeedsPython);
    }
    if *tool == AlignmentTool::BuiltIn {
        return built_in::align(job, stop, tell);
    }
    // Files that an earlier run left would be read as results of this one.
    ownership::remove(&job.work_folder, WORK_FOLDER_KIND)?;
    ownership::claim_folder(&Disk, &job.work_folder, WORK_FOLDER_KIND, Overwrite::Refuse)?;
    write_atomic(&Disk, &job.work_folder.join(IMAGE_LIST), |file| {
        image_names(job).iter().try_for_each(|name| writeln!(file, "{name}"))
    })?;
    let masks = match &job.mask_folder {
        Some(masks) => {
            masks::complete_masks(masks, &job.image_folder, &job.frames, &job.work_folder.join("masks"))?
        }
        None => None,
    };
    let job = &AlignJob { mask_folder: masks, ..job.clone() };
    let mut best: Option<Alignment> = None;
    let mut failure = None;
    for (rung, recipe) in LADDER.iter().enumerate() {
        let folder = job.work_folder.join(format!("rung{rung}"));
        let result = run_recipe(job, tool, *recipe, rung, &folder, stop, tell);
        match result {
            Ok(Some(model)) => {
                if best.as_ref().is_none_or(|b| sort_key(&model) > sort_key(&b.model)) {
                    best = Some(Alignment {
                        model,
                        recipe: rung,
                        database: job.keep_work_folder.then(|| folder.join(DATABASE)),
                    });
                }
            }
            Ok(None) => {}
            Err(error @ AlignError::Process(ProcessError::Stopped { .. })) => return Err(error),
            Err(error) if rung == 0 => return Err(error),
            // The first recipe succeeded; a later one that fails does not discard its model.
            Err(error) => failure = Some(error),
        }
        // With known poses another recipe finds more points, but no more frames. Imported matches are the same in all
        // recipes.
        if job.known_poses.is_some()
            || job.imported_matches.is_some()
            || has_enough_frames(best.as_ref().map(|b| &b.model), job)
        {
            break;
        }
        let registered = best.as_ref().map_or(0, |b| b.model.image_of_frame.len());
        tracing::info!("{registered} of {} frames with recipe {rung}", job.frames.len());
    }
    let aligned = best.ok_or_else(|| {
        failure.unwrap_or_else(|| AlignError::NoFrameRegistered {
            images: job.image_folder.clone(),
            frames: job.frames.len(),
        })
    })?;
    // Databases are large and no longer needed, as the model is in memory. Failing to remove one does no harm.
    if !job.keep_work_folder
        && let Err(error) = ownership::remove(&job.work_folder, WORK_FOLDER_KIND)
    {
        tracing::warn!("{error}");
    }
    Ok(aligned)
}

/// Runs one recipe in an empty folder and returns the best model that its mappers make.
fn run_recipe(
    job: &AlignJob,
    tool: &AlignmentTool,
    recipe: Recipe,
    rung: usize,
    folder: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<Option<CheckedModel>, AlignError> {
    let folder = absolute(folder);
    let first =
        Attempt { given: write_imported_matches(job, &folder)?, ..attempt_of_recipe(job, recipe, &folder) };
    if let Some(known) = &first.known {
        create_folder(known)?;
        for (name, bytes) in job.known_poses.iter().flatten() {
            write_atomic(&Disk, &known.join(name), |file| file.write_all(bytes))?;
        }
    }
    // Points of known poses are triangulated once, so only one mapper runs.
    let mappers = if job.known_poses.is_some() { Mapper::Incremental } else { job.mapper }.sequence();
    let mut best: Option<CheckedModel> = None;
    for (run, &mapper) in mappers.iter().enumerate() {
        let attempt = Attempt {
            mapper,
            models: folder.join(if run == 0 { "models".to_owned() } else { format!("models{run}") }),
            stages: if run == 0 { &STAGES } else { &STAGES[2..] },
            ..first.clone()
        };
        create_folder(&attempt.models)?;
        let found = run_attempt(&attempt, job, tool, rung, &folder, stop, tell)
            .and_then(|()| Ok(CheckedModel::best(&attempt.models, &job.frames)?));
        best = match found {
            Ok(model) => better_model(best, model),
            Err(error @ AlignError::Process(ProcessError::Stopped { .. })) => return Err(error),
            Err(error) if run == 0 => return Err(error),
            // The first mapper succeeded; a later one that fails does not discard its model.
            Err(error) => {
                tracing::warn!("{error}");
                best
            }
        };
        if has_enough_frames(best.as_ref(), job) {
            break;
        }
    }
    Ok(best)
}

/// Writes imported keypoints and matches to the files that the driver reads.
fn write_imported_matches(job: &AlignJob, folder: &Path) -> Result<Option<ImportedFiles>, AlignError> {
    let given = match &job.imported_matches {
        None => return Ok(None),
        Some(ImportedMatches::Database(path)) => {
            return Ok(Some(ImportedFiles::Database { database: absolute(path) }));
        }
        Some(ImportedMatches::Matches(given)) => given,
    };
    create_folder(folder)?;
    let (keypoints, matches) = (folder.join("keypoints.f32"), folder.join("matches.u32"));
    let (mut pictures, mut pairs, mut row) = (Vec::new(), Vec::new(), 0);
    write_atomic(&Disk, &keypoints, |file| {
        for (name, list) in &given.keypoints {
            pictures.push((name.clone(), row, row + list.len()));
            row += list.len();
            for v in list.as_flattened() {
                file.write_all(&v.to_le_bytes())?;
            }
        }
        Ok(())
    })?;
    row = 0;
    write_atomic(&Disk, &matches, |file| {
        for ImagePair { names: [a, b], matches } in &given.pairs {
            pairs.push((a.clone(), b.clone(), row, row + matches.len()));
            row += matches.len();
            for v in matches.as_flattened() {
                file.write_all(&v.to_le_bytes())?;
            }
        }
        Ok(())
    })?;
    Ok(Some(ImportedFiles::Lists { keypoints, matches, pictures, pairs }))
}

/// Sort key of models: number of frames, then number of points.
fn sort_key(model: &CheckedModel) -> (usize, usize) {
    (model.image_of_frame.len(), model.colmap.points.len())
}

fn better_model(a: Option<CheckedModel>, b: Option<CheckedModel>) -> Option<CheckedModel> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if sort_key(&b) > sort_key(&a) { b } else { a }),
        (a, b) => a.or(b),
    }
}

fn has_enough_frames(model: Option<&CheckedModel>, job: &AlignJob) -> bool {
    model.map_or(0, |model| model.image_of_frame.len()) as f64 >= ENOUGH_REGISTERED * job.frames.len() as f64
}

fn create_folder(path: &Path) -> Result<(), AlignError> {
    Disk.create_folder(path)
        .map_err(|source| WriteError::Io { path: path.to_owned(), action: "folder", source }.into())
}

/// Names of all images, in the order in which COLMAP lists a folder.
fn image_names(job: &AlignJob) -> Vec<String> {
    let mut names: Vec<String> = job.frames.iter().flat_map(|frame| frame.images.clone()).collect();
    names.sort_unstable();
    names
}

/// The attempt that runs a recipe for these images in an absolute folder.
fn attempt_of_recipe(job: &AlignJob, recipe: Recipe, folder: &Path) -> Attempt {
    let limit = if job.rig_config.is_some() { EXHAUSTIVE_FRAMES } else { EXHAUSTIVE_IMAGES };
    let is_exhaustive = job.frames.len() <= limit || !job.is_sequence;
    Attempt {
        images: absolute(&job.image_folder),
        image_names: image_names(job),
        image_list: absolute(&job.work_folder).join(IMAGE_LIST),
        masks: job.mask_folder.as_deref().map(absolute),
        database: folder.join(DATABASE),
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
        mapper: SingleMapper::Incremental,
        stages: &STAGES,
        fixed_intrinsics: job.camera_params.is_some(),
        known: job.known_poses.as_ref().map(|_| folder.join("known")),
        refine: job.refine_known_poses,
        priors: job.priors.iter().map(|p| (p.image.clone(), p.position, p.deviation)).collect(),
        given: None,
        frame_of: frame_indices(job),
        threads: job.threads,
        seed: job.seed,
    }
}

/// Frame index of each image; empty unless a database is imported.
fn frame_indices(job: &AlignJob) -> BTreeMap<String, usize> {
    if !matches!(job.imported_matches, Some(ImportedMatches::Database(_))) {
        return BTreeMap::new();
    }
    let of = |(at, frame): (usize, &FrameImages)| {
        frame.images.iter().map(move |name| (name.clone(), at)).collect::<Vec<_>>()
    };
    job.frames.iter().enumerate().flat_map(of).collect()
}

/// Runs COLMAP as an attempt describes.
fn run_attempt(
    attempt: &Attempt,
    job: &AlignJob,
    tool: &AlignmentTool,
    rung: usize,
    folder: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<(), AlignError> {
    match tool {
        AlignmentTool::Pycolmap { python, .. } => {
            let description = folder.join("job.json");
            let text = attempt.to_json()?;
            write_atomic(&Disk, &description, |file| file.write_all(text.as_bytes()))?;
            let program = Program::new(python)
                .arg("-c")
                .arg(DRIVER)
                .file(&description)
                .silence_limit(job.silence_limit);
            run_with_progress(&program, rung, None, stop, tell).map_err(|error| {
                match (error, &job.imported_matches) {
                    (AlignError::Matches { problem: what, .. }, Some(ImportedMatches::Database(path))) => {
                        AlignError::Matches { path: path.clone(), problem: what }
                    }
                    (error, _) => error,
                }
            })
        }
        AlignmentTool::ColmapExecutable { program, .. } => {
            attempt.commands().into_iter().try_for_each(|(stage, arguments)| {
                let program = arguments
                    .into_iter()
                    .fold(Program::new(program).silence_limit(job.silence_limit), |program, argument| {
                        program.arg(argument)
                    });
                run_with_progress(&program, rung, Some(stage), stop, tell)
            })
        }
        // `align` has already handled it.
        AlignmentTool::BuiltIn => Ok(()),
    }
}

/// Runs a program and reports its output as progress.
fn run_with_progress(
    program: &Program,
    rung: usize,
    stage: Option<&str>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<(), AlignError> {
    let mut progress =
        AlignProgress { stage: stage.unwrap_or("start").to_owned(), done: 0, total: 0, recipe: rung };
    if stage.is_some() {
        tell(&progress);
    }
    let (mut said, mut is_of_matches) = (None, false);
    let mut on_line = |stream, line: &str| {
        let event =
            (stream == OutputStream::Out).then(|| serde_json::from_str::<DriverLine>(line).ok()).flatten();
        match event {
            Some(DriverLine { event, name: Some(name), .. }) if event == "stage" => {
                progress = AlignProgress { stage: name, done: 0, total: 0, recipe: rung };
                tell(&progress);
            }
            Some(DriverLine { event, what, kind, .. }) if event == "error" || event == "absent" => {
                (said, is_of_matches) = (what, kind.as_deref() == Some("matches"));
            }
            Some(_) => {}
            None => {
                if let Some((done, all)) = parse_progress(line) {
                    (progress.done, progress.total) = (done, all.max(progress.total));
                    tell(&progress);
                }
            }
        }
    };
    let result = program.run(stop, &mut on_line);
    match (result, said) {
        (Err(ProcessError::Failed { .. }), Some(what)) if is_of_matches => {
            Err(AlignError::Matches { path: PathBuf::new(), problem: what })
        }
        (Err(ProcessError::Failed { .. }), Some(what)) => {
            Err(AlignError::Colmap { stage: progress.stage, message: what })
        }
        (Err(error), _) => Err(error.into()),
        (Ok(_), _) => Ok(()),
    }
}

/// Parses `… [7/40] …`, `… [2/5, 1/5] …` or `Registering frame #3 (num_reg_frames=4)` to (done, total).
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

    #[cfg(unix)]
    #[test]
    fn a_work_folder_of_somebody_else_is_left_alone_and_our_own_is_emptied() {
        let root = tempfile::tempdir().unwrap();
        let job = AlignJob {
            image_folder: root.path().join("images"),
            mask_folder: None,
            frames: Vec::new(),
            rig_config: None,
            views: Vec::new(),
            camera_model: "PINHOLE".to_owned(),
            camera_params: None,
            cameras: CameraSharing::Auto,
            is_sequence: false,
            work_folder: root.path().join("sfm"),
            threads: 1,
            seed: 0,
            known_poses: None,
            refine_known_poses: false,
            priors: Vec::new(),
            imported_matches: None,
            keep_work_folder: false,
            mapper: Mapper::Incremental,
            silence_limit: Duration::from_secs(60),
        };
        let run = |program: &str| {
            let tool =
                AlignmentTool::ColmapExecutable { program: program.into(), version: "3.12".to_owned() };
            align(&job, &tool, &AtomicBool::new(false), &mut |_| {}).map(|_| ()).unwrap_err()
        };
        let known = AlignJob { known_poses: Some(Vec::new()), ..job.clone() };
        let tool =
            AlignmentTool::ColmapExecutable { program: "/bin/true".into(), version: "3.12".to_owned() };
        let refusal = align(&known, &tool, &AtomicBool::new(false), &mut |_| {}).map(|_| ()).unwrap_err();
        assert!(matches!(refusal, AlignError::NeedsPython), "{refusal}");
        let thesis = job.work_folder.join("thesis.txt");
        std::fs::create_dir(&job.work_folder).unwrap();
        std::fs::write(&thesis, "years").unwrap();
        let refusal = run("/bin/true");
        assert!(
            matches!(refusal, AlignError::WorkFolder(OwnershipError::ThirdPartyFiles { .. })),
            "{refusal}"
        );
        assert_eq!(std::fs::read(&thesis).unwrap(), b"years");
        std::fs::remove_dir_all(&job.work_folder).unwrap();
        // A program that fails leaves its files for inspection; the next attempt begins with an empty folder.
        assert!(matches!(run("/bin/false"), AlignError::Process(ProcessError::Failed { .. })));
        let left = job.work_folder.join("rung3");
        std::fs::create_dir(&left).unwrap();
        assert!(matches!(run("/bin/false"), AlignError::Process(ProcessError::Failed { .. })));
        assert!(!left.exists() && job.work_folder.join("rung0").is_dir());
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
