//! The table of options: every option of a training run, once.
//!
//! A row is `/// help`, name, type, and what else is known about the option ([`super::row::Row`]). To add an option, add
//! its row here and use its value where it has its place (`crates/train/src/recipe/`): CONTRIBUTING.md, "Add an
//! option". The order of the rows is the order in files.

use std::ffi::OsStr;
use std::path::PathBuf;

use gausset_core::constants::{MIN_NEAR_PLANE, NEAR_PLANE};
use gausset_core::sh;

use super::fields::{key, options};
use super::row::Heading::{Corrections, Data, Density, Loss, Machine, Model, Run, Start};
use super::row::{OptionInfo, Range, common, detail, hidden};
use super::value::Value;
use crate::config::{ConfigError, Needs, TrainConfig};
use crate::plan::Plan;
use crate::recipe::{DensityRules, ExposureRecipe, PoseRecipe};
use crate::words::{
    Adam, Alpha, Background, Exposure, FreeSpace, InitPoints, MemoryLimit, Panoramas, Quality,
    RandomBackground, Strategy, TimeBudget, Up,
};

const SHARE: Range<f64> = Range::of("0..1", |v| (0.0..=1.0).contains(v));
const AT_LEAST_ZERO: Range<f64> = Range::of("0 or more", |&v| v >= 0.0);
const POSITIVE: Range<f64> = Range::of("more than 0", |&v| v > 0.0);
/// Random numbers count steps below 2^48, and splats have 32-bit ids; a run of 10^9 steps takes a year on any machine.
const UP_TO_A_BILLION: Range<u64> = Range::of("1..1000000000", |v| (1..=1_000_000_000).contains(v));

options! {
    /// The dataset: a folder with a COLMAP model or `transforms.json`, or the JSON file.
    data: PathBuf = hidden()
        .range(Range::of("the folder of a dataset", |_| true)).at(|c| &mut c.data.path).free_on_resume();
    /// Folder of the pictures, if it is not where the dataset says.
    images: PathBuf = detail(Data, "DIR").at_optional(|c| &mut c.data.images);
    /// Folder of the masks (black = ignore), if it is not `masks`.
    masks: PathBuf = detail(Data, "DIR").at_optional(|c| &mut c.data.masks);
    /// Folder of the COLMAP model, if it is not `sparse/0` or `sparse`.
    sparse: PathBuf = detail(Data, "DIR").at_optional(|c| &mut c.data.sparse).needs(&[Needs::Folder]);
    /// Splats or points (PLY) to start from, instead of the dataset's points.
    init: PathBuf = detail(Data, "FILE").at_optional(|c| &mut c.data.init);
    /// Take pictures whose names lead out of the picture folder (by `..` or as absolute paths).
    allow_outside: bool = detail(Data, "BOOL").default(false).at(|c| &mut c.data.allow_outside);
    /// Pictures that are absent or cannot be read are no reason for exit code 1; they are counted and told as ever.
    allow_missing: bool = detail(Data, "BOOL")
        .default(false).at(|c| &mut c.data.allow_missing).free_on_resume();
    /// Hold out every N-th picture for evaluation; 0 = none.
    test_every: u32 = common(Data, "N").default(8).at(|c| &mut c.data.test_every);
    /// Longest side of a picture in px; larger ones are downscaled, 0 = no limit.
    max_resolution: u32 = common(Data, "PX").at(|c| &mut c.data.max_resolution);
    /// What the alpha of pictures means: composite on the background, or mask.
    alpha: Alpha = detail(Data, "MEANING").default(Alpha::Composite).at(|c| &mut c.data.alpha);
    /// Panoramas as cube (the six faces of each) or sphere (as they are; the processor alone can); held-out ones are
    /// faces on both roads.
    panoramas: Panoramas = detail(Data, "ROUTE")
        .default(Panoramas::Cube).at(|c| &mut c.data.panoramas);
    /// Colour behind the splats: auto|sky|black|white|R,G,B in 0..1; sky = learnt for each direction; auto =
    /// sky for 40 photographs and more, white for Blender-style data, else black.
    background: Background = detail(Data, "COLOUR").default(Background::Auto).at(|c| &mut c.background);
    /// Another background colour each step, so that no splat can pretend to be it: auto|always|never; auto =
    /// where training starts from random splats; always where there are fewer than 40 pictures.
    random_background: RandomBackground = detail(Data, "WHEN")
        .at(|c| &mut c.recipe.random_background).bare("always").words_in_help();
    /// Keep space empty that is known to be empty, close in front of cameras: auto|off; auto = where the
    /// points of the dataset tell.
    free_space: FreeSpace = detail(Density, "WHEN")
        .default(FreeSpace::Auto).at(|c| &mut c.recipe.free_space)
        .words_in_help().shown_after("density-every");

    /// The recipe at three scales: fast, default or best. It sets steps, splats and picture sizes that are
    /// not given.
    quality: Quality = common(Run, "SCALE")
        .default(Quality::Default).at(|c| &mut c.quality).words_in_help();
    /// Steps of the whole run; all schedules scale with it. The default preset takes 7,000 for small pictures
    /// (400x400), 3,500 for larger ones (800x600), never fewer than 3,000; the best one three times as many,
    /// at most 30,000; the fast one 1,400.
    steps: u64 = common(Run, "N")
        .range(UP_TO_A_BILLION).choice(|c| Some(c.plan.end()), |c, steps| c.set_plan(Plan::even(steps)))
        .needs(&[Needs::OwnSteps]);
    /// Finish in this time, for instance 90s or 5m; finds steps and splats that fit, and keeps to it.
    time_budget: TimeBudget = common(Run, "TIME").default(TimeBudget::None).at(|c| &mut c.time_budget);
    /// Repeat the decisions of a run with a time budget, as its config.toml has them.
    plan: Plan = detail(Run, "PLAN")
        .choice(|c| c.uneven_plan(), |c, plan| c.set_plan(plan)).optional().needs(&[Needs::OwnPlan]);
    /// Seed of all random numbers.
    seed: u64 = detail(Run, "N")
        .default(0).range(Range::of("0..2^63-1", |&v| v <= i64::MAX as u64)).at(|c| &mut c.recipe.seed);
    /// Start with pictures this many times smaller (1, 2, 4 or 8): coarse to fine.
    coarse_factor: u32 = detail(Run, "N")
        .range(Range::of("1, 2, 4 or 8", |v| matches!(v, 1 | 2 | 4 | 8)))
        .at(|c| &mut c.recipe.coarse.factor);
    /// Fraction of the run after which pictures have their full size.
    coarse_until: f64 = detail(Run, "FRACTION")
        .range(SHARE).at(|c| &mut c.recipe.coarse.until).needs(&[Needs::CoarsePictures]);
    /// How the set of splats changes: mcmc (relocation) or classic (clone, split, prune).
    strategy: Strategy = detail(Model, "STRATEGY")
        .default(Strategy::Mcmc)
        .choice(|c| Some(c.recipe.strategy()), |c, strategy| c.recipe.density.rules = DensityRules::of(strategy));
    /// Largest number of splats; for few or small pictures the default is one for 40 of their pixels.
    max_splats: u64 = common(Model, "N").range(UP_TO_A_BILLION).at(|c| &mut c.recipe.max_splats);
    /// Highest degree of spherical harmonics, 0..3: how much colour depends on direction.
    sh_degree: u8 = detail(Model, "DEGREE")
        .default(sh::MAX_DEGREE).range(Range::of("0..3", |&v| v <= sh::MAX_DEGREE))
        .at(|c| &mut c.recipe.sh_degree);
    /// Fraction of the run between two raises of the SH degree.
    sh_every: f64 = detail(Model, "FRACTION")
        .default(1.0 / 30.0).range(SHARE).at(|c| &mut c.recipe.sh_every).needs(&[Needs::ShDegree]);
    /// Compensate opacity of splats smaller than a pixel, for views from other distances.
    antialiased: bool = detail(Model, "BOOL").default(false).at(|c| &mut c.recipe.antialiased);
    /// Splats drawn per 16x16 px tile at most, nearest first; 0 = no limit.
    max_splats_per_tile: u32 = detail(Model, "N").default(0).at(|c| &mut c.recipe.max_splats_per_tile);
    /// Splats closer to a camera than this are not drawn, in scene units.
    near_plane: f64 = detail(Model, "DISTANCE")
        .default(NEAR_PLANE).range(Range::of("0.001 or more", |&v| v >= MIN_NEAR_PLANE))
        .at(|c| &mut c.recipe.near_plane);
    /// Share of the splats that each step leaves out at random, so that few pictures are not learnt by heart;
    /// 0.1 where there are fewer than 40 of them.
    dropout: f64 = detail(Loss, "SHARE")
        .range(Range::of("0 or more, less than 1", |v| (0.0..1.0).contains(v)))
        .at(|c| &mut c.recipe.dropout).shown_after("scale-regularisation");
    /// Which points splats start from: sfm = those of the dataset; dense = also points from stereo on the
    /// training pictures, or an error where there are none; auto = where enough views agree on them.
    init_points: InitPoints = detail(Model, "POINTS")
        .default(InitPoints::Auto).at(|c| &mut c.recipe.start.points)
        .needs(&[Needs::ChoiceOfPoints]).words_in_help();
    /// Random splats to start from when a dataset has no points; the default preset takes 20,000 for an
    /// object in front of nothing (Blender-style data).
    initial_splats: u64 = detail(Start, "N")
        .range(Range::of("1..100000000", |v| (1..=100_000_000).contains(v)))
        .at(|c| &mut c.recipe.start.random_splats).needs(&[Needs::NoFile, Needs::OtherPoints]);
    /// Opacity of splats that start from points, 0..1.
    initial_opacity: f64 = detail(Start, "OPACITY")
        .range(Range::of("more than 0, less than 1", |&v| v > 0.0 && v < 1.0))
        .at(|c| &mut c.recipe.start.opacity);
    /// Starting scale as a multiple of the distance to the neighbours.
    initial_scale: f64 = detail(Start, "FACTOR").range(POSITIVE).at(|c| &mut c.recipe.start.scale);
    /// Share of D-SSIM in the loss, 0..1; the rest is L1.
    dssim_weight: f64 = detail(Loss, "SHARE").default(0.2).range(SHARE).at(|c| &mut c.recipe.loss.dssim_weight);
    /// Weight of the mean opacity in the loss.
    opacity_regularisation: f64 = detail(Loss, "WEIGHT")
        .range(AT_LEAST_ZERO).at(|c| &mut c.recipe.loss.opacity_regularisation);
    /// Fraction of the run after which the mean opacity is free.
    opacity_regularisation_until: f64 = detail(Loss, "FRACTION")
        .range(SHARE).at(|c| &mut c.recipe.loss.opacity_regularisation_until).needs(&[Needs::OpacityPull]);
    /// Weight of the mean scale in the loss.
    scale_regularisation: f64 = detail(Loss, "WEIGHT")
        .range(AT_LEAST_ZERO).at(|c| &mut c.recipe.loss.scale_regularisation);

    /// Which splats Adam moves: all of them (dense) or those with a gradient (sparse).
    adam: Adam = detail(Loss, "FORM")
        .default(Adam::Dense).choice(|c| Some(c.recipe.adam.into()), |c, adam| c.recipe.adam = adam.into());
    /// Rate of the means at the start, in scene extents.
    lr_means: f64 = detail(Loss, "RATE").range(POSITIVE).at(|c| &mut c.recipe.rates.means);
    /// Rate of the means at the end, in scene extents.
    lr_means_final: f64 = detail(Loss, "RATE").range(POSITIVE).at(|c| &mut c.recipe.rates.means_final);
    /// Rate of the log scales.
    lr_scales: f64 = detail(Loss, "RATE").range(AT_LEAST_ZERO).at(|c| &mut c.recipe.rates.scales);
    /// Rate of the quaternions.
    lr_quats: f64 = detail(Loss, "RATE").range(AT_LEAST_ZERO).at(|c| &mut c.recipe.rates.quats);
    /// Rate of the opacity logits.
    lr_opacities: f64 = detail(Loss, "RATE").range(AT_LEAST_ZERO).at(|c| &mut c.recipe.rates.opacities);
    /// Rate of SH coefficient 0, the colour.
    lr_sh_dc: f64 = detail(Loss, "RATE").range(AT_LEAST_ZERO).at(|c| &mut c.recipe.rates.sh_dc);
    /// Rate of the other SH coefficients.
    lr_sh_rest: f64 = detail(Loss, "RATE")
        .range(AT_LEAST_ZERO).at(|c| &mut c.recipe.rates.sh_rest).needs(&[Needs::ShDegree]);

    /// Density control begins after this fraction of the run.
    density_from: f64 = detail(Density, "FRACTION")
        .default(1.0 / 60.0).range(SHARE).at(|c| &mut c.recipe.density.from);
    /// Density control ends at this fraction of the run.
    density_until: f64 = detail(Density, "FRACTION").range(SHARE).at(|c| &mut c.recipe.density.until);
    /// Steps between two changes of the set; 0 = 100, fewer in short runs.
    density_every: u64 = detail(Density, "N").default(0).at(|c| &mut c.recipe.density.every);
    /// Classic: splats with a larger mean screen gradient grow [default with --abs-grad: 0.0008].
    grow_gradient: f64 = detail(Density, "GRADIENT")
        .range(AT_LEAST_ZERO).at_part(|c| Some(&mut c.recipe.density.rules.classic()?.grow_gradient))
        .needs(&[Needs::Classic]);
    /// Classic: use absolute pixel gradients for growth.
    abs_grad: bool = detail(Density, "BOOL")
        .default(false).at_part(|c| Some(&mut c.recipe.density.rules.classic()?.absolute_gradient))
        .needs(&[Needs::Classic]);
    /// Classic: larger splats (scene extents) are split rather than cloned.
    clone_scale: f64 = detail(Density, "SCALE")
        .default(0.01).range(AT_LEAST_ZERO)
        .at_part(|c| Some(&mut c.recipe.density.rules.classic()?.clone_scale)).needs(&[Needs::Classic]);
    /// Classic: splats of lower opacity are removed.
    prune_opacity: f64 = detail(Density, "OPACITY")
        .default(0.005).range(SHARE).at_part(|c| Some(&mut c.recipe.density.rules.classic()?.prune_opacity))
        .needs(&[Needs::Classic]);
    /// Classic: larger splats (scene extents) are removed after the first opacity reset.
    prune_scale: f64 = detail(Density, "SCALE")
        .default(0.1).range(POSITIVE).at_part(|c| Some(&mut c.recipe.density.rules.classic()?.prune_scale))
        .needs(&[Needs::Classic]);
    /// Classic: splats with a larger screen radius (px) are removed; 0 = off.
    prune_screen: f64 = detail(Density, "PX")
        .default(0.0).range(AT_LEAST_ZERO)
        .at_part(|c| Some(&mut c.recipe.density.rules.classic()?.prune_screen)).needs(&[Needs::Classic]);
    /// Classic: fraction of the run between two opacity resets; 0 = never.
    opacity_reset_every: f64 = detail(Density, "FRACTION")
        .default(0.1).range(SHARE).at_part(|c| Some(&mut c.recipe.density.rules.classic()?.reset_every))
        .needs(&[Needs::Classic]);
    /// MCMC: splats of at most this opacity are relocated.
    dead_opacity: f64 = detail(Density, "OPACITY")
        .default(0.005).range(SHARE).at_part(|c| Some(&mut c.recipe.density.rules.mcmc()?.dead_opacity))
        .needs(&[Needs::Mcmc]);
    /// MCMC: growth of the set per change, 1..2; the default has --max-splats after 0.4 of the run, with
    /// fewer than 40 pictures when density control ends.
    growth: f64 = detail(Density, "FACTOR")
        .default(1.05).range(Range::of("1..2", |v| (1.0..=2.0).contains(v)))
        .at_part(|c| Some(&mut c.recipe.density.rules.mcmc()?.growth)).needs(&[Needs::Mcmc]);
    /// MCMC: this share of the splats, those with the longest axes, are split along that axis instead of
    /// being copied; with fewer than 40 pictures none.
    split_largest: f64 = detail(Density, "SHARE")
        .range(SHARE).at_part(|c| Some(&mut c.recipe.density.rules.mcmc()?.split_largest))
        .needs(&[Needs::Mcmc]);
    /// MCMC: noise on the means, as a multiple of their rate.
    noise: f64 = detail(Density, "FACTOR")
        .default(5e4).range(AT_LEAST_ZERO).at_part(|c| Some(&mut c.recipe.density.rules.mcmc()?.noise))
        .needs(&[Needs::Mcmc]);

    /// Gains per picture, for photographs with automatic exposure: auto|on|off; auto = on where the points
    /// that pictures share differ in brightness.
    exposure: Exposure = detail(Corrections, "WHEN")
        .default(Exposure::Auto)
        .choice(|c| Some(c.recipe.exposure_mode()), |c, mode| c.recipe.exposure = ExposureRecipe::of(mode))
        .bare("on").may_stand_apart().words_in_help();
    /// Rate of the colour corrections at the start, for 100 visits of a picture; with fewer visits it is
    /// raised.
    lr_exposure: f64 = detail(Corrections, "RATE")
        .default(2e-3).range(POSITIVE).at_part(|c| Some(&mut c.recipe.exposure.as_mut()?.rate))
        .needs(&[Needs::Exposure]);
    /// Rate of the colour corrections at the end.
    lr_exposure_final: f64 = detail(Corrections, "RATE")
        .default(2e-4).range(POSITIVE).at_part(|c| Some(&mut c.recipe.exposure.as_mut()?.rate_final))
        .needs(&[Needs::Exposure]);
    /// Share by which a colour correction returns to none each step.
    exposure_decay: f64 = detail(Corrections, "SHARE")
        .default(0.0).range(SHARE).at_part(|c| Some(&mut c.recipe.exposure.as_mut()?.decay))
        .needs(&[Needs::Exposure]);
    /// Learn the vignetting of each camera.
    vignetting: bool = detail(Corrections, "BOOL")
        .default(false).at(|c| &mut c.recipe.vignetting);
    /// Refine the camera poses.
    refine_poses: bool = detail(Corrections, "BOOL")
        .default(false)
        .choice(|c| Some(c.recipe.poses.is_some()), |c, yes| c.recipe.poses = yes.then(PoseRecipe::default));
    /// Rate of the poses: radians, and scene extents for the position.
    lr_poses: f64 = detail(Corrections, "RATE")
        .default(1e-5).range(AT_LEAST_ZERO).at_part(|c| Some(&mut c.recipe.poses.as_mut()?.rate))
        .needs(&[Needs::Poses]);
    /// Share by which a pose correction returns to none each step.
    pose_decay: f64 = detail(Corrections, "SHARE")
        .default(1e-6).range(SHARE).at_part(|c| Some(&mut c.recipe.poses.as_mut()?.decay))
        .needs(&[Needs::Poses]);
    /// Poses are refined from this fraction of the run.
    poses_from: f64 = detail(Corrections, "FRACTION")
        .default(0.1).range(SHARE).at_part(|c| Some(&mut c.recipe.poses.as_mut()?.from))
        .needs(&[Needs::Poses]);
    /// Poses are refined until this fraction of the run.
    poses_until: f64 = detail(Corrections, "FRACTION")
        .default(0.9).range(SHARE).at_part(|c| Some(&mut c.recipe.poses.as_mut()?.until))
        .needs(&[Needs::Poses]);

    /// Size of the scene in its own units; 0 = from the cameras.
    scene_extent: f64 = detail(Data, "LENGTH")
        .default(0.0).range(AT_LEAST_ZERO).at(|c| &mut c.data.scene_extent);
    /// Direction that becomes up in the saved scene: auto|x|y|z|-x|-y|-z|none; auto = the cameras'.
    up: Up = detail(Run, "AXIS").default(Up::Auto).at(|c| &mut c.up).words_in_help();

    /// Threads; 0 = all processors. The result does not depend on it.
    threads: u32 = common(Machine, "N")
        .default(0).range(Range::of("0..1024", |&v| v <= 1024)).at(|c| &mut c.limits.threads)
        .free_on_resume();
    /// Memory to stay within: 4GiB, 512MiB, bytes; auto = half of the machine's.
    max_memory: MemoryLimit = common(Machine, "SIZE")
        .default(MemoryLimit::Auto).at(|c| &mut c.limits.max_memory).free_on_resume();
    /// Steps between two checkpoints; 0 = by time only.
    checkpoint_every: u64 = detail(Run, "N")
        .default(1_000).at(|c| &mut c.outputs.checkpoint_every).free_on_resume();
    /// Seconds between two checkpoints; 0 = by steps only.
    checkpoint_seconds: u64 = detail(Run, "S")
        .default(300).at(|c| &mut c.outputs.checkpoint_seconds).free_on_resume();
    /// Steps between evaluations on the held-out pictures; 0 = at the end only.
    eval_every: u64 = detail(Run, "N")
        .default(0).at(|c| &mut c.outputs.eval_every).needs(&[Needs::HeldOut]).free_on_resume();
    /// Steps between exports of `splats.ply`; 0 = at the end only.
    export_every: u64 = detail(Run, "N").default(0).at(|c| &mut c.outputs.export_every).free_on_resume();
    /// Keep the depth maps from which dense points are made, as NumPy arrays in RUN/depth.
    keep_depth: bool = detail(Run, "BOOL")
        .default(false).at(|c| &mut c.outputs.keep_depth).needs(&[Needs::DepthForPoints, Needs::DepthMaps]);
}
