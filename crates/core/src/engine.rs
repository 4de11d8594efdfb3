//! The one seam between policy and device.
//!
//! The trainer decides (which view, which rates, which density rule); an engine executes and keeps the parameters
//! where they are. Everything an engine needs for a step is in the arguments, so a step can be replayed; two engines
//! given the same inputs agree within the tolerances of the fixtures.
//!
//! Exposure and pose corrections are *rows of named groups inside the engine's state* ([`ExtraGroup`]): a step names
//! the rows it uses and the rates to move them with, so that nothing has to be read back between steps.

use std::sync::Arc;

use crate::constants::{DSSIM_WEIGHT, NEAR_PLANE, TILE_SIZE};
use crate::{Camera, Pose, Splats, TargetImage};

/// A training view: a target picture with the camera that should reproduce it.
#[derive(Clone, Debug)]
pub struct TrainView {
    /// Index of the view in the dataset, for messages and for caches.
    pub index: u32,
    /// Name of the picture, for messages.
    pub name: Arc<str>,
    /// Intrinsics at the size of `target`.
    pub camera: Camera,
    /// `camera_from_world` before any learned correction.
    pub pose: Pose,
    /// The picture; its size is the camera's.
    pub target: Arc<TargetImage>,
    /// Row of the `gains` group, or of the `exposure` group where the state has that, if colours of this view are
    /// corrected.
    pub exposure_row: Option<u32>,
    /// Row of the `vignetting` group, if the vignetting of this camera is learned.
    pub vignetting_row: Option<u32>,
    /// Row of the `pose` group, if the pose of this view is refined.
    pub pose_row: Option<u32>,
    /// Pose of this camera in the rig that the row moves, `camera_from_rig`; `None`: the row moves the camera itself.
    pub camera_from_rig: Option<Pose>,
}

/// Name of the group of gains: 3 values a row, the natural logarithm of a factor on each channel of the rendered colour.
/// After an update of a row the mean over all rows is taken off each of them, channel by channel, so that the gains of
/// all pictures together change nothing (the gauge: what all share belongs to the splats).
pub const GAIN_GROUP: &str = "gains";
/// Name of the group of vignetting: 3 values a row, `a` in `1 + a1 r² + a2 r⁴ + a3 r⁶`, r the distance from the principal
/// point in half diagonals of the picture.
pub const VIGNETTING_GROUP: &str = "vignetting";
/// Name of the group of exposure corrections of version 0.1: 12 values a row, a row-major 3x4 affine on the rendered
/// colour.
pub const EXPOSURE_GROUP: &str = "exposure";
/// Name of the group of pose corrections: 6 values a row, a twist `(rho, phi)` multiplied from the left to
/// `camera_from_world`, or to `rig_from_world` of the rig that the camera belongs to.
pub const POSE_GROUP: &str = "pose";
/// Name of the group of the sky: one row of [`SKY_WIDTH`] values, the coefficients of spherical harmonics up to degree 2
/// of the colour behind all splats, `[coefficient][channel]`.
pub const SKY_GROUP: &str = "sky";
/// Values of a sky.
pub const SKY_WIDTH: usize = 27;

/// Learning rates of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Means, scene units.
    pub means: f32,
    /// Log scales.
    pub log_scales: f32,
    /// Quaternions.
    pub quats: f32,
    /// Opacity logits.
    pub opacity_logits: f32,
    /// SH coefficient 0.
    pub sh_dc: f32,
    /// All other SH coefficients.
    pub sh_rest: f32,
}

/// Which splats Adam moves in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdamMode {
    /// Every splat, one clock per group: moments decay and parameters keep moving where the gradient is zero.
    #[default]
    Dense,
    /// Only splats with a non-zero gradient in this step, each with a clock of its own; others are frozen.
    Sparse,
}

/// Which density statistic a step accumulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GradientStatistic {
    /// None.
    #[default]
    Off,
    /// Norm of the summed screen-space gradient (Kerbl et al. 2023).
    Signed,
    /// Norm of the per-axis sums of absolute pixel gradients (Ye et al. 2024, AbsGS).
    Absolute,
}

/// Langevin noise on the means after the update (Kheradmand et al. 2024, eq. 12).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Factor on `Σ z`: noise rate x the current rate of the means.
    pub scale: f32,
    /// Opacity around which the noise fades: `sigmoid(-100 (opacity - fade))`.
    pub opacity_fade: f32,
}

/// Rates of a group of per-view corrections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorrectionRates {
    /// Learning rate of the first half of a row (`rho`, scene units; for exposure: all of it).
    pub first: f32,
    /// Learning rate of the second half of a row (`phi`, radians; for exposure: not used).
    pub second: f32,
    /// Share by which a row is pulled back to its identity each step (decoupled weight decay, not scaled by the rate).
    pub decay: f32,
}

/// How pictures are made: what the renderer needs besides camera and splats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RenderOptions {
    /// SH degree in use; higher stored coefficients are ignored.
    pub sh_degree: u8,
    /// Colour behind the splats.
    pub background: [f32; 3],
    /// Opacity compensation for splats smaller than a pixel (Yu et al. 2024, Mip-Splatting's 2D filter as in gsplat).
    pub antialiased: bool,
    /// Longest list of a tile, nearest first; 0 = no limit.
    pub max_splats_per_tile: u32,
    /// A splat is dropped unless its camera-space depth is greater than this (scene units).
    pub near_plane: f64,
    /// Splats left out at random; training only, and not part of the reference renderer.
    pub dropout: Option<Dropout>,
    /// Whether the sky of the state ([`SKY_GROUP`]) is added to `background`.
    pub sky: bool,
    /// Only the first so many splats are drawn; `None` = all. What follows in a saved scene may be its sky.
    pub only_first: Option<u32>,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            sh_degree: 3,
            background: [0.0; 3],
            antialiased: false,
            max_splats_per_tile: 0,
            near_plane: NEAR_PLANE,
            dropout: None,
            sky: false,
            only_first: None,
        }
    }
}

/// Splats left out of a picture at random, so that few views are not learnt by heart (Park et al. 2025, DropGaussian).
///
/// Which ones is a function of the seed, the step and the index of a splat; a splat left out gets no gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Share of the splats, in 0..1.
    pub share: f32,
    /// Seed of the run.
    pub seed: u64,
    /// Number of the step.
    pub step: u64,
}

/// Everything that one step needs besides its view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepParams {
    /// Number of the step, from 0. Names the step in errors and is the counter of its random numbers.
    pub step: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Rendering; `background` is the step's colour, composited under target and render alike.
    pub render: RenderOptions,
    /// Share of D-SSIM in the loss.
    pub dssim_weight: f32,
    /// Learning rates.
    pub rates: Rates,
    /// Which splats move.
    pub adam: AdamMode,
    /// Weight of the mean opacity in the loss (MCMC: 0.01; 0 = off).
    pub opacity_regularisation: f32,
    /// Weight of the mean scale over splats and axes in the loss (MCMC: 0.01; 0 = off).
    pub scale_regularisation: f32,
    /// Noise on the means after the update.
    pub noise: Option<Noise>,
    /// Density statistic to accumulate.
    pub statistic: GradientStatistic,
    /// Rates of the exposure row of the view; `None` leaves it as it is (it is still applied).
    pub exposure: Option<CorrectionRates>,
    /// Rates of the vignetting row of the view; `None` leaves it as it is (it is still applied).
    pub vignetting: Option<CorrectionRates>,
    /// Rates of the pose row of the view; `None` leaves it as it is (it is still applied).
    pub pose: Option<CorrectionRates>,
    /// Rates of the sky where the step is rendered with it; `None` leaves it as it is.
    pub sky: Option<CorrectionRates>,
}

impl StepParams {
    /// A step that renders with `render` and moves parameters with `rates`; everything optional is off.
    #[must_use]
    pub fn new(step: u64, seed: u64, render: RenderOptions, rates: Rates) -> Self {
        Self {
            step,
            seed,
            render,
            dssim_weight: DSSIM_WEIGHT,
            rates,
            adam: AdamMode::Dense,
            opacity_regularisation: 0.0,
            scale_regularisation: 0.0,
            noise: None,
            statistic: GradientStatistic::Off,
            exposure: None,
            vignetting: None,
            pose: None,
            sky: None,
        }
    }

    /// The same step under another number: its random numbers are others.
    #[must_use]
    pub fn numbered(mut self, step: u64) -> Self {
        self.step = step;
        if let Some(dropout) = &mut self.render.dropout {
            dropout.step = step;
        }
        self
    }
}

/// A change of the set of splats, given as data.
///
/// Random draws are counter-based: they depend on the seed, the step and the splats' ids or order, never on threads.
/// New splats are appended behind the kept ones, which stay in order; with `reorder` the result is then sorted along a
/// Morton curve (ties: order before sorting). The order of splats is part of the state.
#[derive(Clone, Debug, PartialEq)]
pub enum DensityRule {
    /// Adaptive density control (Kerbl et al. 2023, section 5).
    Classic(ClassicRule),
    /// Relocation and growth (Kheradmand et al. 2024).
    Mcmc(McmcRule),
    /// Lowers every opacity to at most `max_opacity` and zeroes the moments of the opacity logits.
    ResetOpacity {
        /// Highest opacity afterwards.
        max_opacity: f32,
    },
    /// Space that is known to be empty is cleared.
    FreeSpace(FreeSpaceRule),
}

/// A camera, real or not, with points that are known to be seen from there: the ways to them are free.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeView {
    /// Intrinsics; the size decides how fine the test is.
    pub camera: Camera,
    /// `camera_from_world`.
    pub pose: Pose,
    /// World positions of the points.
    pub points: Vec<[f32; 3]>,
}

/// A ball of empty space around a place where a camera was or passed by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bubble {
    /// World position of the centre.
    pub centre: [f32; 3],
    /// Radius in scene units.
    pub radius: f32,
}

/// Makes splats transparent that hang close in front of cameras, where nothing can be.
///
/// *Bubbles*: a splat whose mean lies in one, at the distance `d` from its centre, is condemned unless one of `cameras`
/// sees it from closer than `near d`: what stands close to where cameras were must have been seen from close.
///
/// *Rays*:
///
/// from each view the light of each point is followed. Where a splat takes a share `w` (its blending weight) of that
/// light, and its density along the ray is largest within `reach` of the way, `w` speaks *against* it; elsewhere, up to
/// as far behind the point, it speaks *for* it. A splat against which enough points speak, and more than for it, gets an
/// opacity at which it is dead; MCMC moves it elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeSpaceRule {
    /// The views.
    pub views: Arc<[FreeView]>,
    /// Share of the way from a camera to a point that is free.
    pub reach: f32,
    /// Points that condemn a splat ...
    pub points: u32,
    /// ... if the weights against it are at least this together, and more than those for it.
    pub weight: f32,
    /// Space around cameras and between them.
    pub bubbles: Arc<[Bubble]>,
    /// The training cameras with their poses `camera_from_world`.
    pub cameras: Arc<[(Camera, Pose)]>,
    /// How much farther than the nearest bubble's centre a camera may be that confirms a splat.
    pub near: f32,
}

/// Thresholds of adaptive density control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassicRule {
    /// Seed of the run.
    pub seed: u64,
    /// Step at which the rule is applied: the counter of its random numbers.
    pub step: u64,
    /// Splats whose mean statistic (NDC-scaled, see [`DensityStatistics`]) is greater grow.
    pub gradient_threshold: f32,
    /// Largest scale up to which a growing splat is cloned; above, it is split in two.
    pub clone_scale_limit: f32,
    /// Factor by which the scales of the two halves shrink.
    pub split_shrink: f32,
    /// Splats of lower opacity are removed.
    pub prune_opacity: f32,
    /// Splats with a larger scale (scene units) are removed.
    pub prune_scale: Option<f32>,
    /// Splats with a larger screen radius (px) since the last rule are removed.
    pub prune_screen: Option<f32>,
    /// No growth beyond this number; the largest statistics grow first.
    pub max_splats: u64,
    /// Sort the result along a Morton curve.
    pub reorder: bool,
}

/// Parameters of relocation and growth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct McmcRule {
    /// Seed of the run.
    pub seed: u64,
    /// Step at which the rule is applied: the counter of its random numbers.
    pub step: u64,
    /// Splats of at most this opacity are dead and are moved to living ones.
    pub dead_opacity: f32,
    /// The set grows by this factor...
    pub growth: f32,
    /// ...up to this number.
    pub max_splats: u64,
    /// This share of the splats, those with the longest axes, are split along that axis instead of being copied when
    /// they are drawn once; 0 = none.
    pub split_largest: f32,
    /// Sort the result along a Morton curve.
    pub reorder: bool,
}

/// Adam moments of a [`Splats`]: the same shapes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    /// First moments.
    pub m: Splats,
    /// Second moments.
    pub v: Splats,
}

/// Statistics that density control reads, per splat, since they were last cleared (by [`DensityRule::Classic`]).
///
/// The statistic of a step is the norm of `(dL/du · W/2, dL/dv · H/2)`: the gradient of the projected mean in
/// normalised device coordinates, loss averaged over pixels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DensityStatistics {
    /// Sum of the statistic over the steps in which the splat was visible.
    pub gradient_sum: Vec<f32>,
    /// Number of those steps.
    pub visible_steps: Vec<u32>,
    /// Largest screen radius in px.
    pub max_radius: Vec<f32>,
}

/// A group of per-view corrections with its moments: `rows × width` values each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraGroup {
    /// [`GAIN_GROUP`], [`VIGNETTING_GROUP`], [`EXPOSURE_GROUP`], [`POSE_GROUP`] or [`SKY_GROUP`].
    pub name: String,
    /// Values per row.
    pub width: u32,
    /// Current values.
    pub values: Vec<f32>,
    /// First moments.
    pub m: Vec<f32>,
    /// Second moments.
    pub v: Vec<f32>,
    /// Updates that each row has received.
    pub clocks: Vec<u32>,
}

impl ExtraGroup {
    /// A group of `rows` copies of `identity` with zero moments.
    #[must_use]
    pub fn new(name: &str, identity: &[f32], rows: usize) -> Self {
        let values: Vec<f32> = identity.iter().copied().cycle().take(identity.len() * rows).collect();
        Self {
            name: name.to_owned(),
            width: identity.len() as u32,
            m: vec![0.0; values.len()],
            v: vec![0.0; values.len()],
            clocks: vec![0; rows],
            values,
        }
    }

    /// Gains of 1.
    #[must_use]
    pub fn gains(rows: usize) -> Self {
        Self::new(GAIN_GROUP, &[0.0; 3], rows)
    }

    /// Cameras without vignetting.
    #[must_use]
    pub fn vignetting(rows: usize) -> Self {
        Self::new(VIGNETTING_GROUP, &[0.0; 3], rows)
    }

    /// Identity exposures.
    #[must_use]
    pub fn exposures(rows: usize) -> Self {
        Self::new(EXPOSURE_GROUP, &[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], rows)
    }

    /// Zero twists.
    #[must_use]
    pub fn poses(rows: usize) -> Self {
        Self::new(POSE_GROUP, &[0.0; 6], rows)
    }

    /// A grey sky.
    #[must_use]
    pub fn sky() -> Self {
        Self::new(SKY_GROUP, &[0.0; SKY_WIDTH], 1)
    }

    /// The values of one row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[f32] {
        let w = self.width as usize;
        &self.values[row * w..(row + 1) * w]
    }
}

/// The whole state that a device holds: what a checkpoint keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainState {
    /// Parameters, in the engine's order.
    pub splats: Splats,
    /// Adam moments.
    pub moments: Moments,
    /// Updates that each splat has received ([`AdamMode::Sparse`]).
    pub clocks: Vec<u32>,
    /// Updates that all splats have received ([`AdamMode::Dense`]).
    pub group_clock: u64,
    /// Identity of each splat: the counter of its random numbers.
    pub ids: Vec<u32>,
    /// Identity that the next new splat gets.
    pub next_id: u32,
    /// Density statistics.
    pub statistics: DensityStatistics,
    /// Corrections per view.
    pub extras: Vec<ExtraGroup>,
}

impl TrainState {
    /// The state before the first step: zero moments, clocks and statistics, ids in order.
    #[must_use]
    pub fn new(splats: Splats, extras: Vec<ExtraGroup>) -> Self {
        let n = splats.len();
        let zeros = Splats::zeros(splats.sh_degree, n);
        Self {
            splats,
            moments: Moments { m: zeros.clone(), v: zeros },
            clocks: vec![0; n],
            group_clock: 0,
            ids: (0..n as u32).collect(),
            next_id: n as u32,
            statistics: DensityStatistics {
                gradient_sum: vec![0.0; n],
                visible_steps: vec![0; n],
                max_radius: vec![0.0; n],
            },
            extras,
        }
    }

    /// The group of a name.
    #[must_use]
    pub fn extra(&self, name: &str) -> Option<&ExtraGroup> {
        self.extras.iter().find(|g| g.name == name)
    }
}

/// What happened since the last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Steps executed.
    pub steps: u64,
    /// Sum of their losses (picture loss only, without regularisation).
    pub loss_sum: f64,
    /// Loss of the last of them.
    pub last_loss: f64,
    /// Splats now.
    pub splats: u64,
    /// Splats drawn in the last step.
    pub visible: u64,
    /// Entries of all tile lists in the last step.
    pub intersections: u64,
    /// Tiles whose list was cut by `max_splats_per_tile`, over all steps.
    pub cap_hits: u64,
    /// Steps with such a tile.
    pub capped_steps: u64,
    /// Updates skipped because a gradient was not finite.
    pub skipped_updates: u64,
    /// Splats that are dead because a parameter is not finite, now.
    pub dead_splats: u64,
    /// Splats cloned.
    pub cloned: u64,
    /// Splats split in two.
    pub split: u64,
    /// Splats removed.
    pub pruned: u64,
    /// Dead splats moved to living ones.
    pub relocated: u64,
    /// Splats cleared out of free space ([`DensityRule::FreeSpace`]).
    pub cleared: u64,
    /// Splats added by growth ([`DensityRule::Mcmc`]).
    pub added: u64,
}

/// A rendered view. Buffers are rows first; `color` has 3 interleaved channels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendering {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// Colour over the background, not clamped.
    pub color: Vec<f32>,
    /// `1 - transmittance`.
    pub alpha: Vec<f32>,
    /// `Σ weight · camera z`; divide by `alpha` for the expected depth.
    pub depth: Vec<f32>,
    /// Splats blended.
    pub count: Vec<u32>,
    /// Tiles whose list was cut by `max_splats_per_tile`.
    pub cut_tiles: u64,
}

/// A pixel and a depth there: how much is blended in front of it?
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrontQuery {
    /// Column and row.
    pub pixel: [u32; 2],
    /// Camera z, scene units.
    pub depth: f32,
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// For people: `CPU, 2 threads, AVX-512`.
    pub name: String,
    /// Kind, for `config.toml`: `cpu`.
    pub kind: String,
    /// Threads used, if that means something.
    pub threads: usize,
    /// Whether the same inputs give the same bytes whatever the threads and the vector level.
    pub deterministic: bool,
}

/// Why a device could not do what it was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The loss of a step was NaN or infinite; parameters are those before the step.
    #[error(
        "step {step}: loss on view `{view}` is {loss} (expected finite); parameters are as before this step"
    )]
    NonFiniteLoss {
        /// Step.
        step: u64,
        /// View.
        view: String,
        /// Value found.
        loss: f64,
    },
    /// Inputs that do not fit together.
    #[error("{0}")]
    BadInput(String),
    /// More memory than allowed or available.
    #[error("{what} would need {} of memory (expected at most {})", mebibytes(*needed), mebibytes(*limit))]
    OutOfMemory {
        /// What was to be allocated.
        what: String,
        /// Bytes.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A device that can train and render splats.
pub trait Engine: Send {
    /// What it is.
    fn describe(&self) -> DeviceInfo;

    /// Bytes that the state and the buffers of a view may take from now on: a view that would need more is an error, before
    /// anything is allocated for it. A device with memory of its own keeps to that instead.
    fn limit_memory(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Replaces the whole state.
    ///
    /// # Errors
    /// Arrays that do not fit together, too little memory.
    fn load(&mut self, state: TrainState) -> Result<(), EngineError>;

    /// Reads the whole state back and changes nothing: `load(save())` is the identity.
    ///
    /// # Errors
    /// The device failed.
    fn save(&mut self) -> Result<TrainState, EngineError>;

    /// Reads the groups of corrections back: small beside the whole state, of which it is a part.
    ///
    /// # Errors
    /// The device failed.
    fn corrections(&mut self) -> Result<Vec<ExtraGroup>, EngineError> {
        Ok(self.save()?.extras)
    }

    /// Enqueues one training step on a view; `next` is a hint. May return before the step ran.
    ///
    /// # Errors
    /// Inputs that do not fit together, a failed earlier step.
    fn step(
        &mut self,
        view: &TrainView,
        next: Option<&TrainView>,
        params: &StepParams,
    ) -> Result<(), EngineError>;

    /// Applies a density rule; enqueued like a step.
    ///
    /// # Errors
    /// Too little memory, a failed earlier step.
    fn densify(&mut self, rule: &DensityRule) -> Result<(), EngineError>;

    /// Waits for everything enqueued and reports on it.
    ///
    /// # Errors
    /// [`EngineError::NonFiniteLoss`] of the first step that had one; steps behind it were not executed.
    fn flush(&mut self) -> Result<StepReport, EngineError>;

    /// Renders the current splats.
    ///
    /// # Errors
    /// Too little memory, a failed earlier step.
    fn render(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
    ) -> Result<Rendering, EngineError>;

    /// For each query the sum of the weights of the splats that are blended at the centre of its pixel and whose camera
    /// z is less than its depth; 0 outside the picture. `None` from a device that cannot tell.
    ///
    /// # Errors
    /// Too little memory, a failed earlier step.
    fn weight_in_front(
        &mut self,
        camera: &Camera,
        pose: &Pose,
        options: &RenderOptions,
        queries: &[FrontQuery],
    ) -> Result<Option<Vec<f32>>, EngineError> {
        let _ = (camera, pose, options, queries);
        Ok(None)
    }
}

/// Tiles of an image of that size, for the capacity of per-tile arrays.
#[must_use]
pub fn tile_count(width: u32, height: u32) -> usize {
    width.div_ceil(TILE_SIZE) as usize * height.div_ceil(TILE_SIZE) as usize
}
