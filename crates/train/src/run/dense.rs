//! Dense initialisation: points from the depth maps of the training images, appended to those of the dataset.
//!
//! ```text
//! training images, poses, points with their tracks ─▶ stereo ─▶ dense points ─▶ splats after the sparse ones
//!                                                          ├─▶ background points ─▶ splats after those
//!                                                          └─▶ RUN/depth/0012_NAME.npy, if they are kept
//! ```
//! A dense splat: mean = the point; scale of all axes = the point's ([`DensePoint::scale`]) times `--initial-scale`;
//! opacity = that of all initial splats; SH 0 = the colour of its pixel, divided by the gain of the image if training
//! starts with gains; rotation identity. Random splats are replaced: they fill regions where nothing is known.
//!
//! A splat of the background is the same, with a colour and a scale that come from a cell of directions
//! ([`BackgroundPoint`]). There is none without dense points, or where the background of the images is cut out.
//!
//! The result is a function of dataset, seed and depth map size. Less memory makes the maps smaller, so the size is
//! recorded, and a run that resumes without a checkpoint computes the same points.

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::{Exec, Pool, SimdLevel, dispatch_level};
use gausset_core::Splats;
use gausset_core::engine::EngineError;
use gausset_io::atomic::{FileSystem, Overwrite, write_atomic};
use gausset_io::dataset::{Dataset, DatasetKind, Loader, init};
use gausset_io::npy;
use gausset_io::run_folder::{DEPTH_MARKER, RunFolder, depth_folder};
use gausset_io::{output_names, ownership, text};
use gausset_stereo::{
    BackgroundOptions, BackgroundPoint, DensePoint, Depths, PointOptions, SearchCube, StereoOptions,
    StereoScene, StereoView, background_points, dense_points, depth_maps, largest_side, memory_needed,
};

use super::TrainError;
use super::corrections::Corrections;
use super::prepare::{self, LOOKAHEAD};
use crate::block::Block;
use crate::config::TrainConfig;
use crate::events::{Event, StereoReport};
use crate::gains::Gains;
use crate::memory::MemoryPlan;
use crate::option_values::InitPoints;
use crate::warning::RunWarning;

/// Fraction of `--max-splats` that dense points may take initially; the rest is for the points of the dataset and for
/// density control.
const MAX_DENSE_FRACTION: f64 = 0.5;
/// Fraction of `--max-splats` that the background may take.
const MAX_BACKGROUND_FRACTION: f64 = 0.25;
/// Fraction that it may take of what the points of the dataset leave; dense points make room for it.
const MAX_BACKGROUND_FRACTION_LEFT: f64 = 0.5;

/// Inputs of a dense initialisation.
pub(super) struct DenseStart<'a> {
    pub(super) config: &'a TrainConfig,
    /// The block that the run trains, if it trains one.
    pub(super) block: Option<&'a Block>,
    pub(super) loader: &'a Loader,
    pub(super) memory: &'a MemoryPlan,
    pub(super) corrections: &'a Corrections,
    /// Gains of the rows of the corrections.
    pub(super) gains: &'a Gains,
    /// Whether the background may have points: false for a run that has started without them.
    pub(super) has_background: bool,
    pub(super) stop: &'a AtomicBool,
}

/// What a dense initialisation has added, besides the splats.
pub(super) struct DenseResult {
    pub(super) depths: Depths,
    /// Number of splats in the background.
    pub(super) background: usize,
}

/// Input of stereo: the training views and the points of the dataset.
struct StereoInput {
    views: Vec<StereoView>,
    points: Vec<[f64; 3]>,
    visible: Vec<Vec<u32>>,
    cube: SearchCube,
}

impl DenseStart<'_> {
    /// Longest side of the depth maps of a new run; `None` if the run uses none, or if they are optional and not possible:
    /// a warning says why if they should be kept.
    pub(super) fn map_side(
        &self,
        start: &init::InitialSplats,
        events: &mut dyn FnMut(Event),
    ) -> Result<Option<u32>, TrainError> {
        if let Some(given) = self.block.and_then(|block| block.memory) {
            return Ok(given.stereo_side);
        }
        let (config, dataset) = (self.config, self.loader.dataset());
        if !is_wanted(config) {
            return Ok(None);
        }
        let error = match possible_side(config, dataset, self.memory, taken(start)) {
            Ok(side) => return Ok(Some(side)),
            Err(error) => error,
        };
        if config.recipe.start.points == InitPoints::Dense {
            return Err(error);
        }
        if config.outputs.keep_depth {
            let why = match error {
                TrainError::NoDensePoints { why, .. } => why,
                TrainError::StereoMemory { needed, limit } => {
                    format!("they would need about {needed} of memory (expected at most {limit})")
                }
                other => other.to_string(),
            };
            let line = format!("⟨keep-depth⟩: there are no depth maps: {why}");
            events(Event::Warning(RunWarning::Note(line)));
        }
        Ok(None)
    }

    /// Adds dense points and background points to the initial splats, from depth maps of size `side`.
    pub(super) fn add_to(
        &self,
        start: &mut init::InitialSplats,
        side: u32,
        events: &mut dyn FnMut(Event),
    ) -> Result<DenseResult, TrainError> {
        let dataset = self.loader.dataset();
        let training = self.stereo_input()?;
        if memory_needed(&training.views, side) > self.memory.stereo_budget() {
            return Err(memory_error(self.memory, &training.views, side));
        }
        events(Event::StereoBegun { views: training.views.len() });
        let train = &dataset.split.train;
        let mut is_cut_out = dataset.kind == DatasetKind::Blender;
        let mut unreadable = None;
        let mut picture = |view: usize| {
            self.loader.prefetch(&train[view..train.len().min(view + LOOKAHEAD)]);
            let picture = match self.loader.get(train[view]) {
                Ok(picture) => picture,
                Err(skipped) => {
                    // Training itself warns of it.
                    unreadable = unreadable.take().or(Some(skipped).filter(|it| it.reason.is_unreadable()));
                    return None;
                }
            };
            is_cut_out |= picture.alpha.is_some();
            Some(picture)
        };
        let options =
            StereoOptions { longest_side: side, memory_bytes: u64::MAX, ..StereoOptions::default() };
        let level = dispatch_level(SimdLevel::Auto)
            .ok_or_else(|| EngineError::InvalidInput("this CPU has no supported SIMD level".to_owned()))?;
        let pool = Pool::new(self.config.threads());
        let scene = training.scene();
        let depths = depth_maps(&scene, &mut picture, &options, Exec { pool: &pool, level }, self.stop);
        let depths = depths.ok_or(TrainError::Stopped)?;
        if let Some(skipped) = unreadable.filter(|_| self.block.is_some_and(Block::reads_all)) {
            return Err(TrainError::unreadable_in_block(dataset, &skipped));
        }
        let is_asked_for = self.config.recipe.start.points == InitPoints::Dense;
        let count =
            if depths.verdict.has_points || is_asked_for { max_points(self.config, taken(start)) } else { 0 };
        let wanted = PointOptions { count, seed: self.config.recipe.seed };
        let mut points = dense_points(&scene, &depths, &wanted, &pool);
        let mut background = Vec::new();
        if self.has_background && !is_cut_out && !points.is_empty() {
            background = self.background(start, &points, &training.views, &depths);
            let room = self.room(start) - background.len();
            if points.len() > room {
                points = dense_points(&scene, &depths, &PointOptions { count: room, ..wanted }, &pool);
            }
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(TrainError::Stopped);
        }
        let (views, verdict) = (count_maps(&depths), depths.verdict);
        if points.is_empty() && is_asked_for {
            return Err(no_points_error(
                self.config,
                format!(
                    "stereo found no points (expected surfaces that three images see from more than 3 degrees \
                 apart, found {:.1} % of the pixels confirmed in {views} of {} images)",
                    100.0 * verdict.confirmed_fraction,
                    train.len()
                ),
            ));
        }
        events(Event::StereoDone(StereoReport {
            views,
            confirmed: verdict.confirmed_fraction,
            views_per_point: verdict.views_per_point,
            points: points.len(),
            background: background.len(),
        }));
        if !points.is_empty() {
            self.add_points(start, &points, &background);
        }
        Ok(DenseResult { depths, background: background.len() })
    }

    /// Number of splats that the points of the dataset leave.
    fn room(&self, start: &init::InitialSplats) -> usize {
        most(self.config).saturating_sub(taken(start)) as usize
    }

    /// Background points for a scene with these dense points.
    fn background(
        &self,
        start: &init::InitialSplats,
        points: &[DensePoint],
        views: &[StereoView],
        depths: &Depths,
    ) -> Vec<BackgroundPoint> {
        let sparse: &[[f32; 3]] = if start.is_random { &[] } else { &start.splats.means };
        let dense = points.iter().map(|point| point.position.map(|v| v as f32));
        let positions: Vec<[f32; 3]> = sparse.iter().copied().chain(dense).collect();
        let log_gains: Vec<[f64; 3]> = (0..views.len()).map(|view| self.log_gain(view)).collect();
        let most = MAX_BACKGROUND_FRACTION * most(self.config) as f64;
        let count = most.min(MAX_BACKGROUND_FRACTION_LEFT * self.room(start) as f64) as usize;
        background_points(
            views,
            depths,
            &BackgroundOptions { points: &positions, log_gains: &log_gains, count },
        )
    }

    fn stereo_input(&self) -> Result<StereoInput, TrainError> {
        let dataset = self.loader.dataset();
        let tracks = dataset.read_tracks(prepare::tracks_budget(self.config, self.block))?;
        // Without tracks, visibility comes from projecting the points.
        let visible = match tracks.is_empty() {
            true => Vec::new(),
            false => dataset.split.train.iter().map(|&index| tracks.points_of(index).to_vec()).collect(),
        };
        let init::InitialCube { centre, half_side } = init::initial_cube(dataset);
        Ok(StereoInput {
            views: views(dataset),
            points: dataset.points.iter().map(|point| point.position).collect(),
            visible,
            cube: SearchCube { centre, half_side },
        })
    }

    fn add_points(
        &self,
        start: &mut init::InitialSplats,
        points: &[DensePoint],
        background: &[BackgroundPoint],
    ) {
        let recipe = &self.config.recipe;
        if start.is_random {
            start.splats = Splats::with_capacity(recipe.sh_degree, points.len() + background.len());
            start.note = format!("{} splats from stereo (the dataset has no points)", points.len());
        } else {
            start.note += &format!(", {} from stereo", points.len());
        }
        if !background.is_empty() {
            start.note += &format!(", {} in the background", background.len());
        }
        let opacity_logit = init::opacity_logit(recipe.start.opacity as f32);
        let mut coefficients = vec![0.0; start.splats.sh_stride()];
        let dense = points.iter().map(|point| {
            let gain = self.log_gain(point.view as usize);
            let colour: [f32; 3] =
                std::array::from_fn(|c| (f64::from(point.colour[c]) / (255.0 * libm::exp(gain[c]))) as f32);
            (point.position, colour, point.scale)
        });
        let background = background.iter().map(|point| (point.position, point.colour, point.scale));
        for (position, colour, scale) in dense.chain(background) {
            coefficients[..3].copy_from_slice(&colour.map(gausset_core::sh::dc_from_colour));
            let log_scale = libm::log(f64::from(scale) * recipe.start.scale) as f32;
            let mean = position.map(|v| v as f32);
            start.splats.push(mean, [log_scale; 3], [1.0, 0.0, 0.0, 0.0], opacity_logit, &coefficients);
        }
    }

    /// Log gain of a training view; 0 if training starts without gains.
    fn log_gain(&self, view: usize) -> [f64; 3] {
        let row = self.corrections.exposure_row(view).map(|row| row as usize);
        row.and_then(|row| self.gains.rows.get(row).copied().flatten()).unwrap_or_default()
    }
}

/// Longest side of the depth maps of a run that starts with so many splats from points; `None` if it uses none, or if they
/// are optional and not possible.
pub(super) fn side(
    config: &TrainConfig,
    dataset: &Dataset,
    memory: &MemoryPlan,
    taken: u64,
) -> Result<Option<u32>, TrainError> {
    if !is_wanted(config) {
        return Ok(None);
    }
    match possible_side(config, dataset, memory, taken) {
        Err(error) if config.recipe.start.points == InitPoints::Dense => Err(error),
        side => Ok(side.ok()),
    }
}

/// Whether the run starts with dense points, if it can.
fn is_wanted(config: &TrainConfig) -> bool {
    config.recipe.start.points != InitPoints::Sfm && config.data.init.is_none()
}

/// Longest side of the depth maps, or why there can be none.
fn possible_side(
    config: &TrainConfig,
    dataset: &Dataset,
    memory: &MemoryPlan,
    taken: u64,
) -> Result<u32, TrainError> {
    if max_points(config, taken) == 0 {
        let why = format!(
            "dense points do not fit (expected fewer points in the dataset than ⟨max-splats⟩ {}, found {taken})",
            config.recipe.max_splats
        );
        return Err(no_points_error(config, why));
    }
    let (views, options) = (views(dataset), StereoOptions::default());
    if views.iter().any(|view| !view.camera.is_pinhole()) {
        let why = "stereo does not support panoramas (expected ⟨panoramas = cube⟩)";
        return Err(no_points_error(config, why.to_owned()));
    }
    let budget = options.memory_bytes.min(memory.stereo_budget());
    largest_side(&views, options.longest_side, budget)
        .ok_or_else(|| memory_error(memory, &views, options.longest_side))
}

/// Maximum number of splats when the run was started.
fn most(config: &TrainConfig) -> u64 {
    let recipe = &config.recipe;
    recipe.start.max_splats.unwrap_or(recipe.max_splats)
}

/// Number of initial splats that stay beside dense points: random ones do not.
fn taken(start: &init::InitialSplats) -> u64 {
    if start.is_random { 0 } else { start.splats.len() as u64 }
}

/// Maximum number of dense points.
fn max_points(config: &TrainConfig, taken: u64) -> usize {
    let most = most(config);
    ((MAX_DENSE_FRACTION * most as f64) as u64).min(most.saturating_sub(taken)) as usize
}

fn no_points_error(config: &TrainConfig, why: String) -> TrainError {
    TrainError::NoDensePoints { path: config.data.path.clone(), why }
}

fn memory_error(memory: &MemoryPlan, views: &[StereoView], side: u32) -> TrainError {
    TrainError::StereoMemory {
        needed: text::format_bytes(memory_needed(views, side)),
        limit: text::format_bytes(memory.stereo_budget()),
    }
}

impl StereoInput {
    fn scene(&self) -> StereoScene<'_> {
        let Self { views, points, visible, cube } = self;
        StereoScene { views, points, visible_points: visible, cube: Some(*cube) }
    }
}

/// The training views at training resolution.
fn views(dataset: &Dataset) -> Vec<StereoView> {
    let images = dataset.split.train.iter().map(|&index| &dataset.images[index]);
    images.map(|image| StereoView { camera: image.camera, pose: image.pose }).collect()
}

/// Number of views with a depth map.
fn count_maps(depths: &Depths) -> usize {
    depths.maps.iter().filter(|map| map.camera.is_some()).count()
}

/// Writes depth maps into the run folder, except those that exist: f32 in scene units along the optical axis, NaN =
/// unknown, in the format of `render --depth npy`.
pub(super) fn write_depth_maps(
    fs: &dyn FileSystem,
    folder: &RunFolder,
    dataset: &Dataset,
    depths: &Depths,
) -> Result<(), TrainError> {
    let folder = depth_folder(folder.root());
    let file_name = |(position, &index): (usize, &usize)| {
        format!("{position:04}_{}.npy", output_names::flat_name(&dataset.images[index].name))
    };
    let files: Vec<String> = dataset.split.train.iter().enumerate().map(file_name).collect();
    ownership::claim_for_files(fs, &folder, DEPTH_MARKER, &files, Overwrite::Replace)?;
    for (name, map) in files.iter().zip(&depths.maps) {
        let (Some(camera), path) = (map.camera, folder.join(name)) else { continue };
        if path.is_file() {
            continue;
        }
        let in_scene_units = |&depth: &f32| (f64::from(depth) * dataset.normalisation.unit) as f32;
        let known = |depth: &f32| if *depth > 0.0 { in_scene_units(depth) } else { f32::NAN };
        let shape = [camera.height as usize, camera.width as usize];
        write_atomic(fs, &path, |file| npy::write(file, &shape, map.depth.iter().map(known)))?;
    }
    Ok(())
}
