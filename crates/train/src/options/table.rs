//! The table of all options of a training run.
//!
//! A row consists of `/// help`, name, type and properties ([`super::row::OptionRow`]). To add an option, add its row here
//! and use its value in the recipe (`crates/train/src/recipe/`); see CONTRIBUTING.md, "A training option". Files list the
//! options in the order of the rows.

use std::ffi::OsStr;
use std::path::PathBuf;

use gausset_core::constants::MIN_NEAR_PLANE;
use gausset_core::sh;

use super::fields::{key, options};
use super::row::OptionHeading::{Corrections, Data, Density, Loss, Machine, Model, Run, Start};
use super::row::{OptionInfo, ValueRange, listed, unlisted};
use super::value::OptionValue;
use crate::block::Blocks;
use crate::config::{ConfigError, Requirement, TrainConfig};
use crate::option_values::{
    Adam, Alpha, Background, Exposure, FreeSpace, InitPoints, MemoryLimit, NearPlane, Panoramas, Quality,
    RandomBackground, SpzFrame, Strategy, TimeBudget, Up,
};
use crate::plan::StepPlan;
use crate::recipe::{DensityRules, ExposureRecipe, PoseRecipe};

const FRACTION: ValueRange<f64> = ValueRange::new("0..1", |v| (0.0..=1.0).contains(v));
const NON_NEGATIVE: ValueRange<f64> = ValueRange::new("0 or more", |&v| v >= 0.0);
const NEAR_DISTANCE: ValueRange<NearPlane> = ValueRange::new(
    "auto, or 0.000001 or more",
    |v| !matches!(v, NearPlane::Distance(d) if *d < MIN_NEAR_PLANE),
);
const POSITIVE: ValueRange<f64> = ValueRange::new("more than 0", |&v| v > 0.0);
/// Limit of steps and splats. Random number streams index steps below 2^48, and splats have 32-bit ids; a run of 10^9
/// steps takes a year on any machine.
const COUNT_LIMIT: ValueRange<u64> = ValueRange::new("1..1000000000", |v| (1..=1_000_000_000).contains(v));

options! {
    /// Dataset: a folder with a COLMAP model or `transforms.json`, or the JSON file itself.
    data: PathBuf = unlisted()
        .range(ValueRange::new("the folder of a dataset", |_| true)).field(|c| &mut c.data.path).may_change_on_resume();
    /// Folder of the images, if it differs from the one named by the dataset.
    images: PathBuf = listed(Data, "DIR").optional_field(|c| &mut c.data.images).may_change_on_resume();
    /// Folder of the masks (black = ignore), if it is not `masks`, `mask` or `segmentation`.
    masks: PathBuf = listed(Data, "DIR").optional_field(|c| &mut c.data.masks).may_change_on_resume();
    /// Invert the masks: white = ignore.
    invert_masks: bool = listed(Data, "BOOL").default(false).field(|c| &mut c.data.invert_masks);
    /// Folder of the COLMAP model, if it is not `sparse/0` or `sparse`.
    sparse: PathBuf = listed(Data, "DIR").optional_field(|c| &mut c.data.sparse).needs(&[Requirement::Folder]).may_change_on_resume();
    /// Splats or points used for initialisation instead of the dataset's points: a file, or a run.
    init: PathBuf = listed(Data, "FILE").optional_field(|c| &mut c.data.init).needs(&[Requirement::WholeScene]);
    /// Axes of an SPZ file that does not specify them: as-is (as in PLY) or rub (x right, y up, z back); as-is by default.
    spz_frame: SpzFrame = listed(Data, "AXES")
        .optional_field(|c| &mut c.data.spz_frame).needs(&[Requirement::InitFile]).help_lists_words();
    /// Allow image names that point outside the image folder (by `..` or absolute paths).
    allow_outside: bool = listed(Data, "BOOL").default(false).field(|c| &mut c.data.allow_outside);
    /// Exit with code 0 instead of 1 if images are missing or unreadable; they are still counted and reported.
    allow_missing: bool = listed(Data, "BOOL")
        .default(false).field(|c| &mut c.data.allow_missing).may_change_on_resume();
    /// Hold out every N-th image for evaluation; 0 = none.
    test_every: u32 = listed(Data, "N").default(8).field(|c| &mut c.data.test_every);
    /// Maximum image side in px; larger images are downscaled, 0 = no limit.
    max_resolution: u32 = listed(Data, "PX").field(|c| &mut c.data.max_resolution);
    /// Use of the images' alpha channel: composite on the background, or mask.
    alpha: Alpha = listed(Data, "MEANING").default(Alpha::Composite).field(|c| &mut c.data.alpha);
    /// How panoramas are trained: cube (as six cube faces) or sphere (directly, CPU only); held-out panoramas are
    /// always evaluated as cube faces.
    panoramas: Panoramas = listed(Data, "ROUTE")
        .default(Panoramas::Cube).field(|c| &mut c.data.panoramas);
    /// Colour behind the splats: auto|sky|black|white|R,G,B in 0..1; sky = learnt for each direction; auto =
    /// sky for 40 photographs and more, white for Blender-style data, else black.
    background: Background = listed(Data, "COLOUR").default(Background::Auto).field(|c| &mut c.background);
    /// Random background colour in each step, so that splats cannot imitate the background: auto|always|never; auto =
    /// if the dataset has no points; the default is always for fewer than 40 images.
    random_background: RandomBackground = listed(Data, "WHEN")
        .field(|c| &mut c.recipe.random_background).bare_value("always").help_lists_words();
    /// Remove splats from known free space in front of the cameras: auto|off; auto = if the points of the dataset
    /// determine it.
    free_space: FreeSpace = listed(Density, "WHEN")
        .default(FreeSpace::Auto).field(|c| &mut c.recipe.free_space)
        .help_lists_words().shown_after("density-every");

    /// Quality preset: fast, default or best; sets the steps, splats and image sizes that are not given.
    quality: Quality = listed(Run, "SCALE")
        .default(Quality::Default).field(|c| &mut c.quality).help_lists_words();
    /// Number of training steps; all schedules scale with it. The default preset uses 7,000 for small images (400x400),
    /// 3,500 for larger ones (800x600), and at least 3,000; best uses three times as many, at most 30,000; fast uses
    /// 1,400.
    steps: u64 = listed(Run, "N")
        .range(COUNT_LIMIT).accessors(|c| Some(c.plan.end()), |c, steps| c.set_plan(StepPlan::identity(steps)))
        .needs(&[Requirement::FixedSteps]);
    /// Time limit of the run, such as 90s or 5m; steps and splats are chosen to meet it.
    time_budget: TimeBudget = listed(Run, "TIME")
        .default(TimeBudget::None).field(|c| &mut c.time_budget).needs(&[Requirement::WholeScene]);
    /// Schedule of a run with a time budget; only its config.toml holds it, so that the run can be repeated.
    plan: StepPlan = unlisted()
        .accessors(|c| c.custom_plan(), |c, plan| c.set_plan(plan)).optional().needs(&[Requirement::FixedSteps]);
    /// Train the scene in N blocks, one after the other, and merge them: for sets that memory does not hold as a whole;
    /// auto = as few blocks as memory allows, off = as a whole.
    blocks: Blocks = listed(Run, "N").default(Blocks::Off).field(|c| &mut c.blocks);
    /// Random seed.
    seed: u64 = listed(Run, "N")
        .default(0).range(ValueRange::new("0..2^63-1", |&v| v <= i64::MAX as u64)).field(|c| &mut c.recipe.seed);
    /// Initial downscale factor of coarse-to-fine training (1, 2, 4 or 8).
    coarse_factor: u32 = listed(Run, "N")
        .range(ValueRange::new("1, 2, 4 or 8", |v| matches!(v, 1 | 2 | 4 | 8)))
        .field(|c| &mut c.recipe.coarse.factor);
    /// Fraction of the run after which images have full resolution.
    coarse_until: f64 = listed(Run, "FRACTION")
        .range(FRACTION).field(|c| &mut c.recipe.coarse.until).needs(&[Requirement::CoarseImages]);
    /// Density control: mcmc (relocation) or classic (clone, split, prune).
    strategy: Strategy = listed(Model, "STRATEGY")
        .default(Strategy::Mcmc)
        .accessors(|c| Some(c.recipe.strategy()), |c, strategy| c.recipe.density.rules = DensityRules::for_strategy(strategy));
    /// Maximum number of splats; for few or small images the default is one per 40 pixels.
    max_splats: u64 = listed(Model, "N").range(COUNT_LIMIT).field(|c| &mut c.recipe.max_splats);
    /// Maximum number of splats before a time budget lowered it, from which the initial points were chosen; only a run's
    /// config.toml holds it, so that the run can be repeated.
    start_max_splats: u64 = unlisted()
        .range(COUNT_LIMIT).optional_field(|c| &mut c.recipe.start.max_splats).needs(&[Requirement::FixedSteps]);
    /// Maximum degree of spherical harmonics (view-dependent colour), 0..3.
    sh_degree: u8 = listed(Model, "DEGREE")
        .default(sh::MAX_DEGREE).range(ValueRange::new("0..3", |&v| v <= sh::MAX_DEGREE))
        .field(|c| &mut c.recipe.sh_degree);
    /// Compensate the opacity of splats smaller than a pixel, for views at other distances.
    antialiased: bool = listed(Model, "BOOL").default(false).field(|c| &mut c.recipe.antialiased);
    /// Maximum number of splats per 16x16 px tile, nearest first; 0 = no limit.
    max_splats_per_tile: u32 = listed(Model, "N").default(0).field(|c| &mut c.recipe.max_splats_per_tile);
    /// Near plane: minimum distance of drawn splats from the camera, scene units; auto = a fifth of the distance of the
    /// nearest points, and half of that in training.
    near_plane: NearPlane = listed(Model, "DISTANCE")
        .default(NearPlane::Auto).range(NEAR_DISTANCE).field(|c| &mut c.recipe.near_plane);
    /// Fraction of splats dropped at random in each step against overfitting; the default is 0.1 for fewer than 40
    /// images.
    dropout: f64 = listed(Loss, "SHARE")
        .range(ValueRange::new("0 or more, less than 1", |v| (0.0..1.0).contains(v)))
        .field(|c| &mut c.recipe.dropout).shown_after("scale-regularisation");
    /// Initial points: sfm = points of the dataset; dense = also points from stereo on the training images, or an
    /// error if stereo finds none; auto = dense if stereo finds enough points.
    init_points: InitPoints = listed(Model, "POINTS")
        .default(InitPoints::Auto).field(|c| &mut c.recipe.start.points)
        .needs(&[Requirement::ChoiceOfPoints]).help_lists_words();
    /// Number of random initial splats if the dataset has no points; the default preset uses 20,000 for an object
    /// without background (Blender-style data).
    initial_splats: u64 = listed(Start, "N")
        .range(ValueRange::new("1..100000000", |v| (1..=100_000_000).contains(v)))
        .field(|c| &mut c.recipe.start.random_splats).needs(&[Requirement::NoFile, Requirement::OtherPoints]);
    /// Initial opacity of splats from points, 0..1.
    initial_opacity: f64 = listed(Start, "OPACITY")
        .range(ValueRange::new("more than 0, less than 1", |&v| v as f32 > 0.0 && (v as f32) < 1.0))
        .field(|c| &mut c.recipe.start.opacity);
    /// Initial scale of splats as a multiple of the distance to their neighbours.
    initial_scale: f64 = listed(Start, "FACTOR").range(POSITIVE).field(|c| &mut c.recipe.start.scale);
    /// Weight of D-SSIM in the loss, 0..1; the rest is L1.
    dssim_weight: f64 = listed(Loss, "SHARE").default(0.2).range(FRACTION).field(|c| &mut c.recipe.loss.dssim_weight);
    /// Weight of opacity regularisation (mean opacity) in the loss.
    opacity_regularisation: f64 = listed(Loss, "WEIGHT")
        .range(NON_NEGATIVE).field(|c| &mut c.recipe.loss.opacity_regularisation);
    /// Fraction of the run after which opacity regularisation is off.
    opacity_regularisation_until: f64 = listed(Loss, "FRACTION")
        .range(FRACTION).field(|c| &mut c.recipe.loss.opacity_regularisation_until).needs(&[Requirement::OpacityRegularisation]);
    /// Weight of scale regularisation (mean scale) in the loss.
    scale_regularisation: f64 = listed(Loss, "WEIGHT")
        .range(NON_NEGATIVE).field(|c| &mut c.recipe.loss.scale_regularisation);

    /// Splats that Adam updates: all (dense) or those with a gradient (sparse).
    adam: Adam = listed(Loss, "FORM")
        .default(Adam::Dense).accessors(|c| Some(c.recipe.adam.into()), |c, adam| c.recipe.adam = adam.into());
    /// Initial learning rate of the means, scene extents.
    lr_means: f64 = listed(Loss, "RATE").range(POSITIVE).field(|c| &mut c.recipe.rates.means);
    /// Final learning rate of the means, scene extents.
    lr_means_final: f64 = listed(Loss, "RATE").range(POSITIVE).field(|c| &mut c.recipe.rates.means_final);
    /// Learning rate of the log scales.
    lr_scales: f64 = listed(Loss, "RATE").range(NON_NEGATIVE).field(|c| &mut c.recipe.rates.scales);
    /// Learning rate of the quaternions.
    lr_quats: f64 = listed(Loss, "RATE").range(NON_NEGATIVE).field(|c| &mut c.recipe.rates.quats);
    /// Learning rate of the opacity logits.
    lr_opacities: f64 = listed(Loss, "RATE").range(NON_NEGATIVE).field(|c| &mut c.recipe.rates.opacities);
    /// Learning rate of SH coefficient 0 (base colour).
    lr_sh_dc: f64 = listed(Loss, "RATE").range(NON_NEGATIVE).field(|c| &mut c.recipe.rates.sh_dc);
    /// Learning rate of the other SH coefficients.
    lr_sh_rest: f64 = listed(Loss, "RATE")
        .range(NON_NEGATIVE).field(|c| &mut c.recipe.rates.sh_rest).needs(&[Requirement::ShDegree]);

    /// Fraction of the run after which density control begins.
    density_from: f64 = listed(Density, "FRACTION")
        .default(1.0 / 60.0).range(FRACTION).field(|c| &mut c.recipe.density.from);
    /// Fraction of the run at which density control ends; 0 = the set of splats never changes.
    density_until: f64 = listed(Density, "FRACTION").range(FRACTION).field(|c| &mut c.recipe.density.until);
    /// Steps between density control updates; 0 = 100, fewer in short runs.
    density_every: u64 = listed(Density, "N").default(0).field(|c| &mut c.recipe.density.every);
    /// Classic: mean screen gradient above which splats are cloned or split [default with --abs-grad: 0.0008].
    grow_gradient: f64 = listed(Density, "GRADIENT")
        .range(NON_NEGATIVE).section_field(|c| Some(&mut c.recipe.density.rules.classic()?.grow_gradient))
        .needs(&[Requirement::Classic]);
    /// Classic: use absolute pixel gradients for growth.
    abs_grad: bool = listed(Density, "BOOL")
        .default(false).section_field(|c| Some(&mut c.recipe.density.rules.classic()?.absolute_gradient))
        .needs(&[Requirement::Classic]);
    /// Classic: size above which splats are split instead of cloned, scene extents.
    clone_scale: f64 = listed(Density, "SCALE")
        .default(0.01).range(NON_NEGATIVE)
        .section_field(|c| Some(&mut c.recipe.density.rules.classic()?.clone_scale)).needs(&[Requirement::Classic]);
    /// Classic: opacity below which splats are removed.
    prune_opacity: f64 = listed(Density, "OPACITY")
        .default(0.005).range(FRACTION).section_field(|c| Some(&mut c.recipe.density.rules.classic()?.prune_opacity))
        .needs(&[Requirement::Classic]);
    /// Classic: size above which splats are removed after the first opacity reset, scene extents.
    prune_scale: f64 = listed(Density, "SCALE")
        .default(0.1).range(POSITIVE).section_field(|c| Some(&mut c.recipe.density.rules.classic()?.prune_scale))
        .needs(&[Requirement::Classic]);
    /// Classic: screen radius above which splats are removed, px; 0 = off.
    prune_screen: f64 = listed(Density, "PX")
        .default(0.0).range(NON_NEGATIVE)
        .section_field(|c| Some(&mut c.recipe.density.rules.classic()?.prune_screen)).needs(&[Requirement::Classic]);
    /// Classic: fraction of the run between opacity resets; 0 = never.
    opacity_reset_every: f64 = listed(Density, "FRACTION")
        .default(0.1).range(FRACTION).section_field(|c| Some(&mut c.recipe.density.rules.classic()?.reset_every))
        .needs(&[Requirement::Classic]);
    /// MCMC: growth factor per update, 1..2; by default --max-splats is reached after 0.4 of the run, or with fewer
    /// than 40 images when density control ends.
    growth: f64 = listed(Density, "FACTOR")
        .default(1.05).range(ValueRange::new("1..2", |v| (1.0..=2.0).contains(v)))
        .section_field(|c| Some(&mut c.recipe.density.rules.mcmc()?.growth)).needs(&[Requirement::Mcmc]);
    /// MCMC: fraction of the splats, those with the longest axes, that are split along that axis instead of copied;
    /// the default is 0 for fewer than 40 images.
    split_largest: f64 = listed(Density, "SHARE")
        .range(FRACTION).section_field(|c| Some(&mut c.recipe.density.rules.mcmc()?.split_largest))
        .needs(&[Requirement::Mcmc]);
    /// MCMC: noise on the means, as a multiple of their learning rate.
    noise: f64 = listed(Density, "FACTOR")
        .default(5e4).range(NON_NEGATIVE).section_field(|c| Some(&mut c.recipe.density.rules.mcmc()?.noise))
        .needs(&[Requirement::Mcmc]);

    /// Exposure compensation by gains per image, for photographs with automatic exposure: auto|on|off;
    /// auto = on if the points shared by images differ in brightness.
    exposure: Exposure = listed(Corrections, "WHEN")
        .default(Exposure::Auto)
        .accessors(|c| Some(c.recipe.exposure_mode()), |c, mode| c.recipe.exposure = ExposureRecipe::for_mode(mode))
        .bare_value("on").allow_space().help_lists_words();
    /// Initial learning rate of exposure compensation, for 100 visits per image; it is raised for fewer visits.
    lr_exposure: f64 = listed(Corrections, "RATE")
        .default(2e-3).range(POSITIVE).section_field(|c| Some(&mut c.recipe.exposure.as_mut()?.rate))
        .needs(&[Requirement::Exposure]);
    /// Final learning rate of exposure compensation.
    lr_exposure_final: f64 = listed(Corrections, "RATE")
        .default(2e-4).range(POSITIVE).section_field(|c| Some(&mut c.recipe.exposure.as_mut()?.rate_final))
        .needs(&[Requirement::Exposure]);
    /// Learn the vignetting of each camera.
    vignetting: bool = listed(Corrections, "BOOL")
        .default(false).field(|c| &mut c.recipe.vignetting);
    /// Refine the camera poses.
    refine_poses: bool = listed(Corrections, "BOOL")
        .default(false)
        .accessors(|c| Some(c.recipe.poses.is_some()), |c, yes| c.recipe.poses = yes.then(PoseRecipe::default))
        .needs(&[Requirement::KnownPoses]);
    /// Learning rate of the poses: radians for rotation, scene extents for position; implies --refine-poses.
    lr_poses: f64 = listed(Corrections, "RATE")
        .default(1e-5).range(NON_NEGATIVE).section_field(|c| Some(&mut c.recipe.poses.as_mut()?.rate))
        .needs(&[Requirement::KnownPoses, Requirement::Poses]);

    /// Scene extent in scene units; 0 = from the cameras.
    scene_extent: f64 = listed(Data, "LENGTH")
        .default(0.0).range(NON_NEGATIVE).field(|c| &mut c.data.scene_extent);
    /// Axis that is rotated to up in the saved scene: auto|x|y|z|-x|-y|-z|none; auto = up direction of the cameras.
    up: Up = listed(Run, "AXIS").default(Up::Auto).field(|c| &mut c.up).help_lists_words();

    /// Number of threads; 0 = all CPU cores. Results do not depend on it.
    threads: u32 = listed(Machine, "N")
        .default(0).range(ValueRange::new("0..1024", |&v| v <= 1024)).field(|c| &mut c.limits.threads)
        .may_change_on_resume();
    /// Memory limit (4GiB, 512MiB or bytes); auto = half of the machine's memory.
    max_memory: MemoryLimit = listed(Machine, "SIZE")
        .default(MemoryLimit::Auto).field(|c| &mut c.limits.max_memory).may_change_on_resume();
    /// Steps between checkpoints; 0 = by time only.
    checkpoint_every: u64 = listed(Run, "N")
        .default(1_000).field(|c| &mut c.outputs.checkpoint_every).may_change_on_resume();
    /// Seconds between checkpoints; 0 = by steps only.
    checkpoint_seconds: u64 = listed(Run, "S")
        .default(300).field(|c| &mut c.outputs.checkpoint_seconds).may_change_on_resume();
    /// Steps between evaluations on the held-out images; 0 = at the end only.
    eval_every: u64 = listed(Run, "N")
        .default(0).field(|c| &mut c.outputs.eval_every).needs(&[Requirement::HeldOut, Requirement::WholeScene]).may_change_on_resume();
    /// Steps between exports of `splats.ply`; 0 = at the end only.
    export_every: u64 = listed(Run, "N")
        .default(0).field(|c| &mut c.outputs.export_every).needs(&[Requirement::WholeScene]).may_change_on_resume();
    /// Keep the depth maps of dense initialisation, as NumPy arrays in RUN/depth.
    keep_depth: bool = listed(Run, "BOOL")
        .default(false).field(|c| &mut c.outputs.keep_depth).needs(&[Requirement::DepthForPoints, Requirement::DepthMaps, Requirement::WholeScene]);
}
