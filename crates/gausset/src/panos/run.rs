//! From panoramas to a splat, in resumable stages.
//!
//! ```text
//! DIR/masks/   masks of the panoramas, if any are created
//! DIR/align/   views for alignment (ring8), poses.json, sparse/0
//! DIR/train/   views for training (cube6) with the same rig poses, sparse/0
//! DIR/sphere/  replaces train/ if whole panoramas are trained on
//! DIR/run/     the training run: splats.ply, eval/
//! ```

use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, Overwrite, check_free};
use gausset_io::dataset::colmap::{ColmapPoint, ModelFormat};
use gausset_io::dataset::{Georeference, scene_extent};
use gausset_pano::export::AlignedPoses;
use gausset_pano::far_points::far_points;
use gausset_pano::layout::Layout;
use gausset_pano::selection::SelectBy;
use gausset_pano::split::SplitDescription;
use gausset_sfm::align::check_frame_count;
use gausset_train::{Blocks, Exposure, Panoramas, Quality, TrainConfig, TrainOptions};
use serde_json::{Value, json};

use super::align;
use super::alignment::PanoAlignment;
use super::mask_options::MaskStatistics;
use super::model;
use super::prior_knowledge::PriorKnowledge;
use super::source::{Footage, is_image_extension};
use super::sphere;
use super::split::{self, LensArrangement, Levelling, SplitOptions};
use super::track::TrackOptions;
use crate::aligner::{AlignerOptions, TOOL_TIMEOUT};
use crate::footage_options::{
    ColourOptions, FrameMaskOptions, FrameOptions, MaskingOptions, OptionGroup, TrainViewOptions, ViewOptions,
};
use crate::training::{self, RunSettings, Trained};
use crate::{Event, Failure, Host, Stage, records};

/// Maximum width of the views for alignment. More pixels cost matching time and did not register more frames.
const MAX_ALIGN_SIDE: u32 = 960;
/// Below this number of frames, every fourth is held out instead of every eighth.
const FEW_FRAMES: usize = 16;
/// Folder of created masks in the output folder.
const MASKS: &str = "masks";
/// File name of the record of options in the output folder.
const RECORD: &str = "pano_run.json";
/// Value of `made-by` in the record.
const MADE_BY: &str = "gausset pano run";

/// Options of [`run()`].
#[derive(Clone, Debug)]
pub struct PanoOptions {
    /// Input footage, as for a split.
    pub input: PathBuf,
    /// Folder of all results of the job.
    pub output: PathBuf,
    /// Views for training.
    pub views: TrainViewOptions,
    /// Masks of the frames; created ones are kept in `masks/` of the output folder. The Python of the alignment options
    /// is used.
    pub masking: FrameMaskOptions,
    /// Colour options.
    pub colours: ColourOptions,
    /// Which frames of the input are used.
    pub frames: FrameOptions,
    /// Aligner and its options.
    pub tool: AlignerOptions,
    /// Prior knowledge for the alignment.
    pub known: PriorKnowledge,
    /// Training options. By default every fourth frame is held out (every eighth from 16 frames on), and exposure and
    /// poses are optimised, one of each per panorama.
    pub training: TrainOptions,
    /// Whether existing results may be replaced.
    pub overwrite: Overwrite,
    /// Threads of the split; 0 = all CPU threads.
    pub threads: u32,
}

impl PanoOptions {
    /// Input footage and output folder, with defaults for everything else.
    #[must_use]
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            input: input.into(),
            output: output.into(),
            views: TrainViewOptions::default(),
            masking: FrameMaskOptions::default(),
            colours: ColourOptions::default(),
            frames: FrameOptions::default(),
            tool: AlignerOptions::default(),
            known: PriorKnowledge::default(),
            training: TrainOptions::default(),
            overwrite: Overwrite::Refuse,
            threads: 0,
        }
    }
}

/// Result of [`run()`].
#[derive(Debug)]
pub struct PanoRun {
    /// Summary of the alignment.
    pub alignment: PanoAlignment,
    /// Statistics of the masks, if they were created.
    pub masked: Option<MaskStatistics>,
    /// Result of the training.
    pub trained: Trained,
    /// Whether frames were skipped by the split.
    pub has_skipped: bool,
}

/// Results of the stages before training.
struct AlignedInput {
    alignment: PanoAlignment,
    masked: Option<MaskStatistics>,
    has_skipped: bool,
}

/// Folders of the stages.
struct StageFolders {
    align: PathBuf,
    /// Views for training, or the model of whole panoramas.
    train: PathBuf,
    run: PathBuf,
}

impl StageFolders {
    fn new(options: &PanoOptions) -> Self {
        let folder = |name: &str| options.output.join(name);
        let train = folder(if trains_on_spheres(options) { "sphere" } else { "train" });
        Self { align: folder("align"), train, run: folder("run") }
    }
}

/// Runs the whole pipeline from panoramas to a splat. The same call resumes after a stop.
///
/// # Errors
/// As [`split::split`], [`align::align`] and [`training::train`]; the job was asked to stop before training.
pub fn run(options: &PanoOptions, conditions: RunSettings, host: &mut Host<'_>) -> Result<PanoRun, Failure> {
    let folders = StageFolders::new(options);
    check_options(options, &folders, host)?;
    let mut cut = split_options(options, &folders.align, alignment_views(options), conditions);
    let source = cut.open(host)?;
    check_frame_count(&options.input, source.frames.len(), true)?;
    if trains_on_spheres(options) {
        sphere::check(options, &source)?;
    }
    cut.views.lens_views(&source)?;
    let natural = cut.views.views(source.panorama_width)?.first().map_or(16, |view| view.width);
    cut.views.size = Some(natural.min(MAX_ALIGN_SIDE));
    let _folder = records::OutputFolder::new(&options.output);
    let _lock = records::lock(&options.output)?;
    let is_new = Disk.info(&options.output.join(RECORD)).is_ok_and(|found| found.is_none());
    cut.force = claim(options)?;
    let masked = create_masks(options, &cut, &source, is_new, host)?;
    cut.masking.masks = match masked {
        Some(_) => Some(options.output.join(MASKS)),
        None => options.masking.masks.clone(),
    };
    let has_skipped = cut_views(&cut, &source, Stage::CutForAlignment, host)?;
    let poses = match earlier_poses(options, &folders)? {
        Some(poses) => poses,
        None => align::align_anew(&folders.align, &options.known, &options.tool, options.overwrite, host)?,
    };
    let alignment = PanoAlignment::new(&poses, records::model_folder(&folders.align));
    host.report(Event::PanosAligned(Box::new(alignment.clone())));
    let extent = if trains_on_spheres(options) {
        write_spheres(options, &folders, cut.masking.masks, &source, &poses, host)?
    } else {
        cut.output.clone_from(&folders.train);
        cut.views = training_views(options);
        cut_views(&cut, &source, Stage::CutForTraining, host)?;
        write_model(options, &folders, &poses, host)?
    };
    train(options, &folders, AlignedInput { alignment, masked, has_skipped }, extent, conditions, host)
}

/// Whether whole panoramas are trained on instead of views.
fn trains_on_spheres(options: &PanoOptions) -> bool {
    options.training.panoramas == Some(Panoramas::Sphere)
}

/// Reports mistakes in the options and missing tools before the work begins.
fn check_options(options: &PanoOptions, folders: &StageFolders, host: &mut Host<'_>) -> Result<(), Failure> {
    options.masking.removal.check()?;
    TrainConfig::resolve(&training_options(options, &folders.train, None), None)?;
    options.known.check(options.tool.aligner)?;
    if options.views.lenses.lenses == LensArrangement::Separate && options.views.layout != Layout::Cube6 {
        return Err(Failure::usage(
            "⟨lenses = separate⟩: has a fixed layout (found ⟨train-layout⟩); leave one of both out",
        ));
    }
    if earlier_poses(options, folders)?.is_none() {
        options.tool.find(options.known.needs_colmap(), host)?;
    }
    Ok(())
}

/// The poses of an earlier alignment with the same options.
fn earlier_poses(options: &PanoOptions, folders: &StageFolders) -> Result<Option<AlignedPoses>, Failure> {
    align::earlier_poses(&folders.align, &options.tool, &options.known, options.overwrite)
}

/// The views for alignment.
fn alignment_views(options: &PanoOptions) -> ViewOptions {
    let lenses = options.views.lenses.lenses;
    ViewOptions { layout: Layout::Ring8, size: None, lenses, ..ViewOptions::default() }
}

/// The views for training.
fn training_views(options: &PanoOptions) -> ViewOptions {
    let lenses = options.views.lenses.lenses;
    let layout = match lenses {
        LensArrangement::Together => options.views.layout,
        LensArrangement::Separate => Layout::Ring8,
    };
    ViewOptions { layout, size: options.views.size, lenses, ..ViewOptions::default() }
}

/// Creates the masks of the frames, if they are wanted.
fn create_masks(
    options: &PanoOptions,
    cut: &SplitOptions,
    source: &Footage,
    is_new: bool,
    host: &mut Host<'_>,
) -> Result<Option<MaskStatistics>, Failure> {
    if !options.masking.removal.is_wanted() {
        return Ok(None);
    }
    let mut removal = options.masking.removal.clone();
    removal.engine.python.clone_from(&options.tool.python);
    let masking = FrameMaskOptions { removal, ..cut.masking.clone() };
    let removing = SplitOptions { masking, ..cut.clone() };
    let folder = options.output.join(MASKS);
    let made = split::create_masks(source, &folder, &removing, Overwrite::Replace, host);
    let share = made.inspect_err(|failure| {
        // Nothing was made with this model yet, so another model must not count as a changed option.
        if is_new && failure.code == "model" {
            let _ = Disk.remove(&options.output.join(RECORD));
        }
    })?;
    let share = share.ok_or_else(Failure::stopped)?;
    host.report(Event::Masked(share.clone()));
    Ok(Some(share))
}

/// Cuts views; returns whether frames were skipped.
fn cut_views(
    cut: &SplitOptions,
    source: &Footage,
    stage: Stage,
    host: &mut Host<'_>,
) -> Result<bool, Failure> {
    host.stage(stage);
    let report = split::split_source(cut, source, host)?;
    if report.is_cancelled {
        return Err(Failure::stopped());
    }
    // The times of a split that was resumed whole say nothing.
    if report.frames > report.resumed {
        host.report(Event::Cut(report.times));
    }
    Ok(!report.skipped.is_empty())
}

/// Writes the model of whole panoramas; returns the scene extent.
fn write_spheres(
    options: &PanoOptions,
    folders: &StageFolders,
    masks: Option<PathBuf>,
    source: &Footage,
    poses: &AlignedPoses,
    host: &mut Host<'_>,
) -> Result<f64, Failure> {
    let known = model::points_of(&folders.align)?;
    let (points, extent) = with_far_points(&folders.align, known, poses, host)?;
    let masking = FrameMaskOptions { masks, ..options.masking.clone() };
    let with_masks = PanoOptions { masking, ..options.clone() };
    sphere::write(&with_masks, &folders.train, source, poses, points)?;
    copy_georeference(&folders.align, &records::model_folder(&folders.train))?;
    Ok(extent)
}

/// Trains on the prepared views.
fn train(
    options: &PanoOptions,
    folders: &StageFolders,
    prepared: AlignedInput,
    extent: f64,
    conditions: RunSettings,
    host: &mut Host<'_>,
) -> Result<PanoRun, Failure> {
    let training = TrainOptions {
        scene_extent: Some(extent),
        ..training_options(options, &folders.train, Some(prepared.alignment.registered))
    };
    let run = folders.run.clone();
    let trained = training::start_or_resume(run, &training, options.overwrite, conditions, host)?;
    let AlignedInput { alignment, masked, has_skipped } = prepared;
    Ok(PanoRun { alignment, masked, trained, has_skipped })
}

/// Writes the model of the views for training; returns the scene extent.
fn write_model(
    options: &PanoOptions,
    folders: &StageFolders,
    poses: &AlignedPoses,
    host: &mut Host<'_>,
) -> Result<f64, Failure> {
    let description = SplitDescription::read(&folders.train).map_err(|e| Failure::new("frames", e))?;
    let known = model::points_of(&folders.align)?;
    let (points, extent) = with_far_points(&folders.train, known, poses, host)?;
    let folder = records::claim_model(&folders.train, options.overwrite)?;
    model::write_colmap(&folder, &description, poses, &points, ModelFormat::Binary)?;
    copy_georeference(&folders.align, &folder)?;
    Ok(extent)
}

/// Copies the georeference of the aligned model to another model in the same coordinates.
fn copy_georeference(aligned: &Path, model: &Path) -> Result<(), Failure> {
    let place = Georeference::read(&records::model_folder(aligned)).ok().flatten();
    Ok(records::write_georeference(model, place.as_ref())?)
}

/// The landmarks, plus far points in the direction of the sky with colours of the views in a folder. Also returns the
/// scene extent, the unit of learning rates, which excludes the far points.
fn with_far_points(
    views: &Path,
    mut points: Vec<ColmapPoint>,
    poses: &AlignedPoses,
    host: &mut Host<'_>,
) -> Result<(Vec<ColmapPoint>, f64), Failure> {
    let description = SplitDescription::read(views).map_err(|e| Failure::new("frames", e))?;
    let far = far_points(views, &description, poses, &points);
    if !far.is_empty() {
        host.report(Event::FarPoints(far.len()));
    }
    let extent = extent(poses, &points);
    points.extend(far);
    Ok((points, extent))
}

fn extent(poses: &AlignedPoses, points: &[ColmapPoint]) -> f64 {
    let centres: Vec<[f64; 3]> = poses.frames.iter().filter_map(|f| Some(f.pose()?.centre())).collect();
    let points: Vec<[f64; 3]> = points.iter().map(|p| p.position).collect();
    scene_extent(&centres, &points)
}

/// Claims the output folder for these options before anything in it changes; returns whether existing views must be
/// redone.
fn claim(options: &PanoOptions) -> Result<bool, Failure> {
    let PanoOptions { output, overwrite, .. } = options;
    let path = output.join(RECORD);
    records::refuse_links_out(output, &[RECORD, MASKS, "align", "train", "sphere", "run"])?;
    let record = options_record(options);
    let known = records::read_record(&path).filter(|known| known["made-by"] == MADE_BY);
    if known.is_none() {
        check_free(&Disk, &path, *overwrite)?;
    }
    let is_new = known.is_none();
    let differences = known.map(|known| records::differences(&known, &record)).unwrap_or_default();
    if !differences.is_empty() && *overwrite == Overwrite::Refuse {
        return Err(records::other_options(output, &differences));
    }
    records::write_record(&path, &record)?;
    Ok(*overwrite == Overwrite::Replace && (is_new || !differences.is_empty()))
}

/// Record of everything that the results depend on, by option name.
fn options_record(options: &PanoOptions) -> Value {
    let PanoOptions { views, masking, colours, frames, training, .. } = options;
    let mut all = json!({
        "made-by": MADE_BY,
        "input": records::canonical_path(&options.input),
        "panoramas": training.panoramas.filter(|route| *route != Panoramas::Cube).map(|route| route.word()),
        "sfm-seed": options.tool.seed,
        "mapper": options.tool.non_default_mapper(),
        "aligner": options.tool.non_default_aligner(),
        "quality": training.quality.unwrap_or(Quality::Default).word(),
        "steps": training.steps,
        "max-splats": training.max_splats,
        "seed": training.seed.unwrap_or(0),
        "test-every": training.test_every,
    });
    let known = options.known.record().to_vec();
    let footage = [views.record(), masking.record(), colours.record(), frames.record(), known];
    for (key, value) in footage.into_iter().flatten() {
        all[key] = value;
    }
    all
}

/// The training options, with defaults that depend on the number of registered panoramas.
fn training_options(options: &PanoOptions, data: &Path, registered: Option<usize>) -> TrainOptions {
    let every = match registered {
        Some(registered) if registered < 3 => 0,
        Some(registered) if registered < FEW_FRAMES => 4,
        _ => 8,
    };
    let images = trains_on_spheres(options).then(|| sphere::image_folder(options));
    let own = TrainOptions { data: Some(data.to_owned()), images, ..options.training.clone() };
    let is_whole = own.blocks.is_none_or(|blocks| blocks == Blocks::Off);
    own.or(TrainOptions {
        test_every: Some(every),
        // One per panorama: its views were taken at the same time.
        exposure: Some(Exposure::On),
        refine_poses: Some(is_whole),
        ..TrainOptions::default()
    })
}

/// The GPS track, if it affects frame selection: a video with selection by space.
fn selection_track(options: &PanoOptions) -> Option<TrackOptions> {
    let is_film = options.input.is_file() && !options.input.extension().is_some_and(is_image_extension);
    let wanted = options.frames.select.select;
    let by_space = wanted.map_or(options.frames.fps.is_none() && options.frames.sharpest_of == 1, |select| {
        select == SelectBy::Space
    });
    options.known.track.clone().filter(|_| is_film && by_space)
}

/// Given poses, and the training on whole panoramas, are those of the panoramas as they are stored.
fn levelling(options: &PanoOptions) -> Levelling {
    if trains_on_spheres(options) || options.known.poses.is_some() { Levelling::Off } else { Levelling::Auto }
}

fn split_options(
    options: &PanoOptions,
    output: &Path,
    views: ViewOptions,
    conditions: RunSettings,
) -> SplitOptions {
    SplitOptions {
        views,
        frames: FrameOptions { track: selection_track(options), ..options.frames.clone() },
        masking: FrameMaskOptions { removal: MaskingOptions::default(), ..options.masking.clone() },
        colours: options.colours.clone(),
        level: levelling(options),
        tool_timeout: options.tool.timeout.unwrap_or(TOOL_TIMEOUT),
        threads: options.threads,
        simd: conditions.device.level,
        ..SplitOptions::new(&options.input, output)
    }
}
