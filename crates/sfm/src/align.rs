//! An alignment: its input, its result, and one attempt by COLMAP. `ladder.rs` decides which attempts are made.
//!
//! Measured on real walks (five and eight panoramas metres apart): views without nearest-view masks, pairs of the same
//! frame skipped, fixed intrinsics and a fixed rig register everything; masks, cube faces or no rig do not.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::reconstruction::PanoView;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError, write_atomic};
use gausset_io::input::absolute;
use gausset_io::ownership;
use gausset_process::{OutputStream, ProcessError, Program};
use serde::{Deserialize, Serialize};

pub use crate::align_error::AlignError;
use crate::attempt::{Attempt, ImportedFiles, Mapper, Matcher, STAGES, SingleMapper};
use crate::ladder::{self, Recipe};
use crate::matches::{ImagePair, ImportedMatches};
use crate::model::{CheckedModel, FrameImages};
use crate::pair_list::PairChoice;
use crate::tool::{AlignmentTool, DRIVER};
use crate::{built_in, masks, resume, work_cache};

/// Fewest panoramas and fewest photographs that are aligned.
const MIN_PANORAMAS: usize = 2;
const MIN_PHOTOGRAPHS: usize = 3;
/// Largest number of frames of which every pair is matched.
const EXHAUSTIVE_FRAMES: usize = 25;
/// Largest number of single images of which every pair is matched.
const EXHAUSTIVE_IMAGES: usize = 120;
/// Number of neighbours on each side with which an image of a sequence is matched.
const SEQUENCE_OVERLAP: u32 = 10;
/// Name of COLMAP's database.
pub(crate) const DATABASE: &str = "database.db";
/// Name of the file that lists the images for the executable.
const IMAGE_LIST: &str = "images.txt";
/// Name of the file that lists the pairs to match.
const PAIR_LIST: &str = "pairs.txt";
/// Kind of folder that the marker file of the work folder names.
pub(crate) const WORK_FOLDER_KIND: &str = "alignment";

/// Input and options of an alignment.
#[derive(Clone, Debug)]
pub struct AlignJob {
    /// Folder of the images.
    pub image_folder: PathBuf,
    /// The masks (0 = ignore), by the names of their images ([`crate::masks_in`] finds those named `NAME.png`).
    pub masks: BTreeMap<String, PathBuf>,
    /// Whether masks are black where pixels are kept.
    pub invert_masks: bool,
    /// Files with the metadata of images that have none themselves, by the names of the images.
    pub metadata: BTreeMap<String, PathBuf>,
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
    /// Features are extracted from images whose longest side is reduced to this, px.
    pub max_image_size: u32,
    /// Which pairs are matched; of panoramas [`PairChoice::Auto`].
    pub pairs: PairChoice,
    /// Whether neighbours in the list were taken in succession.
    pub is_sequence: bool,
    /// Position of each frame on the ground by GPS, metres east and north of any origin; empty if none is known. Only
    /// the built-in aligner of photographs uses it, to choose pairs.
    pub ground_positions: Vec<Option<[f64; 2]>>,
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
    /// Folder for databases and raw models. It is created; a folder that Gausset did not create is refused. What an
    /// interrupted alignment of the same images with the same settings left there is used again. It is removed when the
    /// alignment has succeeded, or has registered nothing.
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
    /// `features`, `pairs` (the built-in aligner), `matching` or `mapping`.
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
    /// What is known of each frame besides its pose, in the order of the job; empty if nothing is.
    pub frames: Vec<FrameFacts>,
}

/// What an aligner knows of a frame besides its pose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameFacts {
    /// Number of features.
    pub features: Option<usize>,
    /// Number of frames with which it was matched.
    pub tried: Option<usize>,
    /// Indices of the frames that share a verified match with it, in ascending order.
    pub partners: Option<Vec<usize>>,
}

/// Refuses fewer frames than can be aligned. Panoramas see all around, so two suffice.
///
/// # Errors
/// There are fewer.
pub fn check_frame_count(images: &Path, frames: usize, is_panorama: bool) -> Result<(), AlignError> {
    let least = if is_panorama { MIN_PANORAMAS } else { MIN_PHOTOGRAPHS };
    if frames < least {
        return Err(AlignError::TooFewFrames { images: images.to_owned(), frames, least });
    }
    Ok(())
}

#[derive(Deserialize)]
struct DriverLine {
    event: String,
    kind: Option<String>,
    name: Option<String>,
    what: Option<String>,
    /// Largest number of features of an image.
    most: Option<u64>,
    /// Number of verified pairs, and names of the images that have none.
    verified: Option<u64>,
    without: Option<Vec<String>>,
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
    if job.known_poses.is_none() {
        check_frame_count(&job.image_folder, job.frames.len(), !job.views.is_empty())?;
    }
    if *tool == AlignmentTool::BuiltIn {
        let aligned = built_in::align(job, stop, tell);
        // Features stay until the same job resumes, or another one replaces them.
        let is_interrupted = matches!(&aligned, Err(error) if !matches!(error, AlignError::NoFrameRegistered { .. }))
            && (work_cache::has_features(&job.work_folder) || resume::has_database(&job.work_folder));
        let is_over = matches!(&aligned, Ok(_) | Err(AlignError::NoFrameRegistered { .. }));
        let is_kept = is_interrupted || is_over && job.keep_work_folder;
        if !is_kept && job.work_folder.exists() {
            remove_work_folder(&job.work_folder);
        }
        return aligned;
    }
    let pairs = pair_list_text(job)?;
    ownership::claim_folder(&Disk, &job.work_folder, WORK_FOLDER_KIND, Overwrite::Refuse)?;
    if let Some(pairs) = pairs {
        write_atomic(&Disk, &job.work_folder.join(PAIR_LIST), |file| file.write_all(pairs.as_bytes()))?;
    }
    write_atomic(&Disk, &job.work_folder.join(IMAGE_LIST), |file| {
        image_names(job).iter().try_for_each(|name| writeln!(file, "{name}"))
    })?;
    let aligned = masks::complete_masks(job, stop).and_then(|()| ladder::climb(job, tool, stop, tell));
    // Databases are large. They are kept for another job or until the same job resumes, if there is something to resume.
    let is_kept = match &aligned {
        Ok(_) => job.keep_work_folder,
        Err(AlignError::NoFrameRegistered { .. }) => false,
        Err(_) => resume::has_database(&job.work_folder),
    };
    if !is_kept {
        remove_work_folder(&job.work_folder);
    }
    aligned
}

/// The list of pairs for COLMAP, which splits a line at its first space; `None` if pairs are not listed.
fn pair_list_text(job: &AlignJob) -> Result<Option<String>, AlignError> {
    let Some(pairs) = listed_pairs(job) else { return Ok(None) };
    let name = |frame: usize| &job.frames[frame].images[0];
    match pairs.as_flattened().iter().map(|&frame| name(frame)).find(|name| !is_readable_in_list(name)) {
        Some(name) => Err(AlignError::PairName { name: name.clone() }),
        None => Ok(Some(pairs.iter().map(|&[a, b]| [name(a), " ", name(b), "\n"].concat()).collect())),
    }
}

fn is_readable_in_list(name: &str) -> bool {
    !name.contains(' ') && name.trim() == name && !name.starts_with('#')
}

/// The pairs that COLMAP gets as a list: given ones, and those of a sequence of photographs whose names have another
/// order as bytes, in which COLMAP would match it (`10.jpg` before `2.jpg`).
fn listed_pairs(job: &AlignJob) -> Option<Cow<'_, [[usize; 2]]>> {
    if let PairChoice::Listed(pairs) = &job.pairs {
        return Some(Cow::Borrowed(pairs));
    }
    let names = || job.frames.iter().map(|frame| &frame.images[0]);
    let is_out_of_order = is_matched_in_sequence(job) && job.rig_config.is_none() && !names().is_sorted();
    (is_out_of_order && names().all(|name| is_readable_in_list(name)))
        .then(|| Cow::Owned(sequence_pairs(job.frames.len())))
}

fn is_matched_in_sequence(job: &AlignJob) -> bool {
    let limit = if job.rig_config.is_some() { EXHAUSTIVE_FRAMES } else { EXHAUSTIVE_IMAGES };
    job.pairs == PairChoice::Auto && job.is_sequence && job.frames.len() > limit
}

/// The pairs of COLMAP's sequential matcher: neighbours, and those at distances of powers of two.
fn sequence_pairs(count: usize) -> Vec<[usize; 2]> {
    let distances: BTreeSet<usize> =
        (0..SEQUENCE_OVERLAP).flat_map(|k| [k as usize + 1, 1usize << k]).collect();
    let of = |a: usize| distances.iter().map(move |by| [a, a + by]).filter(|[_, b]| *b < count);
    (0..count).flat_map(of).collect()
}

/// Removes the work folder of an alignment. Failing to remove it does no harm.
pub fn remove_work_folder(folder: &Path) {
    if let Err(error) = ownership::remove(folder, WORK_FOLDER_KIND) {
        tracing::warn!("{error}");
    }
}

/// Writes imported keypoints and matches to the files that the driver reads.
pub(crate) fn write_imported_matches(
    job: &AlignJob,
    folder: &Path,
) -> Result<Option<ImportedFiles>, AlignError> {
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

pub(crate) fn create_folder(path: &Path) -> Result<(), AlignError> {
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
pub(crate) fn attempt_of_recipe(job: &AlignJob, recipe: Recipe, folder: &Path) -> Attempt {
    let matcher = match listed_pairs(job) {
        Some(_) => Matcher::Listed,
        None if is_matched_in_sequence(job) => Matcher::Sequential,
        None => Matcher::Exhaustive,
    };
    Attempt {
        images: absolute(&job.image_folder),
        image_names: image_names(job),
        image_list: absolute(&job.work_folder).join(IMAGE_LIST),
        masks: masks::folder_for_colmap(job).as_deref().map(absolute),
        database: folder.join(DATABASE),
        models: folder.join("models"),
        rig_config: job.rig_config.as_deref().map(absolute),
        camera_model: job.camera_model.clone(),
        camera_params: job.camera_params.clone().unwrap_or_default(),
        camera_mode: job.cameras,
        max_features: recipe.max_features,
        max_image_size: job.max_image_size,
        affine_shape: recipe.affine_shape,
        matcher,
        overlap: SEQUENCE_OVERLAP,
        pair_list: absolute(&job.work_folder).join(PAIR_LIST),
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

/// What the stages of an attempt report; the executable reports nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct StageFacts {
    /// Largest number of features of an image.
    pub(crate) most_features: Option<u64>,
    /// Number of verified pairs.
    pub(crate) verified_pairs: Option<u64>,
    /// Names of the images without a verified pair.
    pub(crate) without_pair: Vec<String>,
}

/// Runs COLMAP as an attempt describes.
pub(crate) fn run_attempt(
    attempt: &Attempt,
    job: &AlignJob,
    tool: &AlignmentTool,
    rung: usize,
    folder: &Path,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<StageFacts, AlignError> {
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
            attempt.commands().into_iter().try_fold(StageFacts::default(), |_, (stage, arguments)| {
                let program = arguments
                    .into_iter()
                    .fold(Program::new(program).silence_limit(job.silence_limit), |program, argument| {
                        program.arg(argument)
                    });
                run_with_progress(&program, rung, Some(stage), stop, tell)
            })
        }
        // `align` has already handled it.
        AlignmentTool::BuiltIn => Ok(StageFacts::default()),
    }
}

/// Runs a program and reports its output as progress.
fn run_with_progress(
    program: &Program,
    rung: usize,
    stage: Option<&str>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&AlignProgress),
) -> Result<StageFacts, AlignError> {
    let mut progress =
        AlignProgress { stage: stage.unwrap_or("start").to_owned(), done: 0, total: 0, recipe: rung };
    if stage.is_some() {
        tell(&progress);
    }
    let (mut said, mut is_of_matches) = (None, false);
    let mut facts = StageFacts::default();
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
            Some(DriverLine { most, verified, without, .. }) => {
                facts.most_features = most.or(facts.most_features);
                facts.verified_pairs = verified.or(facts.verified_pairs);
                facts.without_pair.extend(without.into_iter().flatten());
            }
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
        (Ok(_), _) => Ok(facts),
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
pub(crate) mod tests {
    use gausset_io::ownership::OwnershipError;

    use super::*;
    use crate::ladder::LADDER;

    fn three_frames() -> Vec<FrameImages> {
        let frame = |name: &str| FrameImages { name: name.to_owned(), images: vec![name.to_owned()] };
        ["a.jpg", "b.jpg", "c.jpg"].map(frame).into()
    }

    /// A job of photographs in a folder.
    pub(crate) fn job_in(root: &Path, frames: Vec<FrameImages>) -> AlignJob {
        AlignJob {
            image_folder: root.join("images"),
            masks: BTreeMap::new(),
            invert_masks: false,
            metadata: BTreeMap::new(),
            frames,
            rig_config: None,
            views: Vec::new(),
            camera_model: "PINHOLE".to_owned(),
            camera_params: None,
            cameras: CameraSharing::Auto,
            max_image_size: 2400,
            pairs: PairChoice::Auto,
            is_sequence: false,
            ground_positions: Vec::new(),
            work_folder: root.join("sfm"),
            threads: 1,
            seed: 0,
            known_poses: None,
            refine_known_poses: false,
            priors: Vec::new(),
            imported_matches: None,
            keep_work_folder: false,
            mapper: Mapper::Incremental,
            silence_limit: Duration::from_secs(60),
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_work_folder_of_third_parties_is_left_alone_and_our_own_resumes_with_the_same_input() {
        let root = tempfile::tempdir().unwrap();
        let job = job_in(root.path(), three_frames());
        let run = |program: &str| {
            let tool =
                AlignmentTool::ColmapExecutable { program: program.into(), version: "3.13".to_owned() };
            align(&job, &tool, &AtomicBool::new(false), &mut |_| {}).map(|_| ()).unwrap_err()
        };
        let known = AlignJob { known_poses: Some(Vec::new()), ..job.clone() };
        let tool =
            AlignmentTool::ColmapExecutable { program: "/bin/true".into(), version: "3.13".to_owned() };
        let refusal = align(&known, &tool, &AtomicBool::new(false), &mut |_| {}).map(|_| ()).unwrap_err();
        assert!(matches!(refusal, AlignError::NeedsPython), "{refusal}");
        // COLMAP would read another name in a list of pairs: refused before any work.
        let mut spaced = AlignJob { pairs: PairChoice::Listed(vec![[0, 1]]), ..job.clone() };
        spaced.frames[1].images[0] = "b c.jpg".to_owned();
        let refusal = align(&spaced, &tool, &AtomicBool::new(false), &mut |_| {}).map(|_| ()).unwrap_err();
        assert!(refusal.to_string().contains("\"b c.jpg\""), "{refusal}");
        assert!(!job.work_folder.exists());
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
        // A program that fails without a database leaves nothing; a database stays until the same job resumes.
        assert!(matches!(run("/bin/false"), AlignError::Process(ProcessError::Failed { .. })));
        assert!(!job.work_folder.exists());
        let database = job.work_folder.join("features0").join(DATABASE);
        let interrupted = |job: &AlignJob| {
            resume::prepare(job, &tool, LADDER[0], &job.work_folder.join("features0")).unwrap();
        };
        ownership::claim_folder(&Disk, &job.work_folder, WORK_FOLDER_KIND, Overwrite::Refuse).unwrap();
        interrupted(&job);
        std::fs::write(&database, "features").unwrap();
        assert!(matches!(run("/bin/false"), AlignError::Process(ProcessError::Failed { .. })));
        assert_eq!(std::fs::read(&database).unwrap(), b"features");
        // Another setting, other pairs, or another picture under the same name: features are made again.
        let other = AlignJob { pairs: PairChoice::Listed(vec![[0, 1]]), ..job.clone() };
        for changed in [&other, &AlignJob { pairs: PairChoice::Listed(vec![[0, 2]]), ..other.clone() }] {
            interrupted(changed);
            assert!(!database.exists());
            std::fs::write(&database, "features").unwrap();
            interrupted(changed);
            assert!(database.exists());
        }
        interrupted(&AlignJob { seed: 1, ..job.clone() });
        assert!(!database.exists());
        std::fs::write(&database, "features").unwrap();
        std::fs::create_dir(&job.image_folder).unwrap();
        std::fs::write(job.image_folder.join("a.jpg"), "a picture").unwrap();
        interrupted(&AlignJob { seed: 1, ..job.clone() });
        assert!(!database.exists());
    }

    #[test]
    fn colmap_matches_a_sequence_in_the_order_of_its_numbers() {
        let matcher = |names: &dyn Fn(usize) -> String| {
            let frame = |k: usize| FrameImages { name: names(k), images: vec![names(k)] };
            let job = job_in(Path::new("in"), (1..=121).map(frame).collect());
            let job = AlignJob { is_sequence: true, ..job };
            let attempt = attempt_of_recipe(&job, LADDER[0], Path::new("in"));
            (attempt.matcher, pair_list_text(&job).unwrap())
        };
        let (listed, text) = matcher(&|k| format!("{k}.jpg"));
        assert_eq!(listed, Matcher::Listed);
        let text = text.unwrap();
        let has = |pair: &str| text.lines().any(|line| line == pair);
        assert!(["2.jpg 3.jpg", "9.jpg 19.jpg", "1.jpg 65.jpg"].into_iter().all(has));
        assert!(!has("1.jpg 12.jpg") && !text.contains("122"));
        assert_eq!(matcher(&|k| format!("{k:03}.jpg")), (Matcher::Sequential, None));
        // COLMAP does not read such names in a list.
        assert_eq!(matcher(&|k| format!("a {k}.jpg")), (Matcher::Sequential, None));
    }

    #[test]
    fn one_or_two_photographs_and_one_panorama_are_refused_at_once() {
        let refusal = |count, is_panorama| {
            check_frame_count(Path::new("in"), count, is_panorama).map_err(|error| error.to_string())
        };
        assert_eq!(
            refusal(2, false),
            Err("in: frames: 2 cannot be aligned (expected at least 3, from different places)".to_owned())
        );
        assert!(refusal(1, true).is_err() && refusal(2, true).is_ok() && refusal(3, false).is_ok());
    }

    #[test]
    fn pictures_without_a_verified_match_are_counted_and_named() {
        let unmatched: Vec<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        let error = AlignError::NoFrameRegistered { images: "in".into(), frames: 6, unmatched };
        let line = error.to_string();
        assert!(
            line.contains("none of 6") && line.contains("4 share no verified match with another: a, b, c, …"),
            "{line}"
        );
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
