//! Presets as data: ordinary [`TrainOptions`] that fill in options that were not given.

use gausset_io::dataset::{Dataset, DatasetKind};

use crate::block::Blocks;
use crate::option_values::{Quality, RandomBackground, Strategy};
use crate::options::TrainOptions;
use crate::recipe::automatic_cadence;

/// The defaults that do not depend on the strategy (docs/internals/training.md), from the table of options.
#[must_use]
pub fn defaults() -> TrainOptions {
    TrainOptions::from_table()
}

/// Maximum number of steps of a short run.
const SHORT_STEPS: f64 = 3_000.0;
/// Minimum number of steps of a long run.
const LONG_STEPS: f64 = 6_000.0;
/// Up to this many steps, runs use twice the published rates even if they start from points.
const FAST_RATE_STEPS: f64 = 4_500.0;
/// Assumed steps per second of a run with a time budget.
const BUDGET_STEPS_PER_SECOND: f64 = 20.0;
/// Work of the default preset, which determines its steps, in pixels: 8,800 steps of 400x400 px.
const OBJECT_WORK: f64 = 2.8e9;
/// The same if a dense start can replace the first steps: 3,500 steps of 800x600 px.
const DEFAULT_WORK: f64 = 2.25e9;
/// Cost of a step's splats, in pixels, fitted to a few runs (research/experiments.md, "Steps of the default preset").
const SPLAT_PIXELS: f64 = 160e3;
/// Minimum and maximum number of steps of the default preset.
const DEFAULT_STEPS: [f64; 2] = [3_000.0, 10_000.0];
/// Minimum number of steps of a run in blocks.
const MIN_BLOCK_STEPS: u64 = 3_000;
/// Steps of the best preset per step of the default preset.
const BEST_FACTOR: u64 = 3;
/// Maximum number of steps of the best preset: real scenes are best after 9,000 to 15,000 steps and overfit at 30,000.
const BEST_STEPS: u64 = 30_000;
/// Training pixels per splat; with fewer, more splats cost time without gain.
const PIXELS_PER_SPLAT: f64 = 40.0;
/// Minimum for the maximum number of splats.
const MIN_MAX_SPLATS: u64 = 2_000;
/// Fraction of a run after which the set has its full size.
const FULL_SIZE_AT: f64 = 0.4;
/// The same with few images: the end of density control (MCMC).
const MCMC_UNTIL: f64 = 5.0 / 6.0;
/// Fraction of a run during which opacities are regularised.
const OPACITY_REGULARISATION_UNTIL: f64 = 0.6;
/// Minimum (Kheradmand et al. 2024) and maximum growth per change.
const GROWTH: [f64; 2] = [1.05, 1.3];
/// Sets with fewer training images overfit without countermeasures.
const FEW_IMAGES: u64 = 40;
/// Maximum visits of each image in a run of the default preset with few images; beyond it, held-out views get worse.
const MAX_VISITS: f64 = 110.0;
/// Fraction of splats that each step leaves out if there are few images.
const DROPOUT: f64 = 0.1;
/// Fraction of splats that are split rather than copied if there are not few images.
const SPLIT_LARGEST: f64 = 0.5;

/// Facts about a dataset on which presets depend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DatasetFacts {
    /// Number of training images.
    pub images: u64,
    /// Number of training views by field of view: a full panorama counts as six.
    pub views: u64,
    /// Sum of their pixels at training resolution.
    pub pixels: f64,
    /// Number of points to start from.
    pub points: u64,
    /// Whether the scene is an object without background: Blender-style data.
    pub is_object: bool,
}

/// Number of training views by field of view: a full panorama counts as six.
#[must_use]
pub fn equivalent_views(dataset: &Dataset) -> u64 {
    let worth = |&index: &usize| if dataset.images[index].camera.is_pinhole() { 1 } else { 6 };
    dataset.split.train.iter().map(worth).sum()
}

impl DatasetFacts {
    /// The facts of a dataset that was opened at training resolution.
    #[must_use]
    pub fn from_dataset(dataset: &Dataset) -> Self {
        let train = &dataset.split.train;
        let pixels = train.iter().map(|&index| dataset.images[index].camera.pixels() as f64).sum();
        Self {
            images: train.len() as u64,
            views: equivalent_views(dataset),
            pixels,
            points: dataset.points.len() as u64,
            is_object: dataset.kind == DatasetKind::Blender,
        }
    }

    /// Mean pixels per image.
    fn pixels_per_image(&self) -> f64 {
        self.pixels / self.images.max(1) as f64
    }
}

/// The recipe at three scales, for a run with the given options and images, if they are known. The cost of a step is
/// `splats x a + pixels x b`, so steps, splats and sizes shrink together. Measurements behind the values
/// (research/experiments.md):
///
/// - Fewer steps need higher rates: twice the published ones gain 0.5 to 2 dB in 1,200 to 3,000 steps. Random starts
///   and few images need them in longer runs too; with points the published ones are better at 6,000 steps.
/// - Short runs need one decade of decay of the means instead of the published two; from 6,000 steps on two are better.
/// - Downsampled images at the start pay off in short runs and cost quality in long ones; they pay off for longer if
///   stereo has already found the coarse shape.
/// - A random start should have half of the final number of splats if the scene fills its images (0.5 dB in the same
///   time); for an object without background they cost a fifth more time and gain nothing.
/// - More splats pay off until there is one per about 40 pixels of the training images; growth is as fast as needed to
///   have them in time.
/// - Opacity regularisation acts for the first 0.6 of a run: afterwards it costs up to 0.4 dB and makes tile lists
///   longer.
/// - Splats close in front of positions without a camera spoil whole images; where points show that the space is free,
///   it is kept free (castle +1.2 dB, worst views +3 dB).
/// - Large splats that are split along their longest axis show finer detail than copies; with few images it is detail
///   that the held-out views do not have.
/// - Few images are overfitted: leaving out splats and changing the background gain 0.3 to 0.9 dB, and half of the
///   steps 0.5 dB where each image would be visited 240 times.
#[must_use]
pub fn quality_defaults(given: &TrainOptions, known: Option<DatasetFacts>) -> TrainOptions {
    let quality = given.quality.unwrap_or(Quality::Default);
    let is_object = known.is_some_and(|known| known.is_object);
    let (preset_steps, [initial_splats, max_splats], max_resolution) = match quality {
        Quality::Fast => (1_400, [30_000, 60_000], 800),
        Quality::Default => {
            (default_steps(known), [if is_object { 20_000 } else { 100_000 }, 200_000], 1_600)
        }
        Quality::Best => (best_steps(known), [100_000, 400_000], 1_600),
    };
    let in_blocks = known.filter(|_| given.blocks.is_some_and(|blocks| blocks != Blocks::Off));
    let (preset_steps, max_splats) = match in_blocks {
        Some(known) => block_budgets(quality, known.images),
        None => (preset_steps, max_splats),
    };
    // Expected length of the run: 0 = short, 1 = long. The steps of a run with a time budget are not known yet.
    let budget = given.time_budget.and_then(|budget| budget.seconds());
    let expected = match (given.steps, budget) {
        (Some(steps), _) => steps as f64,
        (None, Some(seconds)) => seconds * BUDGET_STEPS_PER_SECOND,
        (None, None) => preset_steps as f64,
    };
    let max_splats = known.map_or(max_splats, |known| {
        max_splats.min((known.pixels / PIXELS_PER_SPLAT) as u64).max(MIN_MAX_SPLATS)
    });
    let most = given.max_splats.unwrap_or(max_splats);
    // Neither the contents of an `--init` file nor the steps of a time budget are known; a budget chooses the growth later.
    let is_open = given.init.is_some() || (given.steps.is_none() && budget.is_some());
    let start = known.filter(|_| !is_open).map(|known| match known.points {
        0 => given.initial_splats.unwrap_or(initial_splats),
        points => points,
    });
    let length = inverse_lerp(SHORT_STEPS, LONG_STEPS, expected);
    let coarse_until = match quality {
        Quality::Fast => 0.7,
        Quality::Default if !is_object => 0.55 - 0.2 * length,
        Quality::Default | Quality::Best => 0.4 - 0.2 * length,
    };
    let is_few = known.is_some_and(|known| known.views < FEW_IMAGES);
    let has_points = given.init.is_some() || known.is_some_and(|known| known.points > 0);
    let pace = match quality {
        Quality::Default if has_points && !is_few => {
            2.0 - inverse_lerp(FAST_RATE_STEPS, LONG_STEPS, expected)
        }
        Quality::Fast | Quality::Default => 2.0,
        Quality::Best => 1.0,
    };
    let grown_at = known.map_or(FULL_SIZE_AT, |known| full_size_at(known.views));
    let rate = |published: f64| Some(round_to_3_digits(published * pace));
    TrainOptions {
        steps: Some(given.steps.unwrap_or(preset_steps)),
        initial_splats: Some(initial_splats),
        max_splats: Some(max_splats),
        growth: start.map(|start| growth(start, most, grown_at * expected, expected)),
        max_resolution: Some(max_resolution),
        dropout: Some(if is_few { DROPOUT } else { 0.0 }),
        random_background: Some(if is_few { RandomBackground::Always } else { RandomBackground::Auto }),
        split_largest: Some(if is_few { 0.0 } else { SPLIT_LARGEST }),
        opacity_regularisation_until: Some(round_to_3_digits(grown_at.max(OPACITY_REGULARISATION_UNTIL))),
        coarse_factor: Some(4),
        coarse_until: Some(round_to_3_digits(coarse_until)),
        lr_means: rate(1.6e-4),
        lr_means_final: rate(1.6e-4 * libm::exp10(-1.0 - length)),
        lr_scales: rate(5e-3),
        lr_quats: rate(1e-3),
        lr_opacities: rate(5e-2),
        lr_sh_dc: rate(2.5e-3),
        lr_sh_rest: rate(2.5e-3 / 20.0),
        ..TrainOptions::default()
    }
}

/// Steps and splats of a run in blocks: in proportion to its training images. City scenes are trained with about 5,000
/// splats an image (CityGaussian) to 24,000 (3DGS on Rubble).
fn block_budgets(quality: Quality, images: u64) -> (u64, u64) {
    let (visits, splats) = match quality {
        Quality::Fast => (10, 1_500),
        Quality::Default => (30, 5_000),
        Quality::Best => (60, 12_000),
    };
    ((visits * images).max(MIN_BLOCK_STEPS), splats * images)
}

/// Steps of the default preset: a constant amount of work, so that small and large images take about the same time; few
/// images are not visited more often than pays off.
fn default_steps(known: Option<DatasetFacts>) -> u64 {
    let [fewest, most] = DEFAULT_STEPS;
    let Some(known) = known else { return 6_000 };
    let work = if known.is_object { OBJECT_WORK } else { DEFAULT_WORK };
    let looks = if known.views < FEW_IMAGES { MAX_VISITS * known.images as f64 } else { most };
    let steps = (work / (SPLAT_PIXELS + known.pixels_per_image())).min(looks).clamp(fewest, most);
    (steps / 100.0).round() as u64 * 100
}

/// Steps of the best preset: a multiple of those of the default preset.
fn best_steps(known: Option<DatasetFacts>) -> u64 {
    (BEST_FACTOR * default_steps(known)).min(BEST_STEPS)
}

/// Fraction of a run with this many training views ([`equivalent_views`]) after which the set has its full size.
pub(crate) fn full_size_at(views: u64) -> f64 {
    if views < FEW_IMAGES { MCMC_UNTIL } else { FULL_SIZE_AT }
}

/// Growth per change of the set that takes `start` splats to `most` within `steps` steps of a run of `expected` steps.
pub(crate) fn growth(start: u64, most: u64, steps: f64, expected: f64) -> f64 {
    let changes = steps / automatic_cadence(expected as u64) as f64;
    let factor = most as f64 / start.max(1) as f64;
    let [least, fastest] = GROWTH;
    let growth = libm::pow(factor.max(1.0), 1.0 / changes.max(1.0)).clamp(least, fastest);
    (growth * 1e3).round() / 1e3
}

/// Position of `value` between `start` and `end`, clamped to 0..1.
fn inverse_lerp(start: f64, end: f64, value: f64) -> f64 {
    ((value - start) / (end - start)).clamp(0.0, 1.0)
}

/// Rounds to three significant digits, for readable config files.
fn round_to_3_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// The defaults that a strategy brings with it; `absolute_gradient` has a threshold of its own.
#[must_use]
pub fn strategy_defaults(strategy: Strategy, absolute_gradient: bool) -> TrainOptions {
    let grow_gradient = Some(if absolute_gradient { 8e-4 } else { 2e-4 });
    match strategy {
        Strategy::Mcmc => TrainOptions {
            density_until: Some(MCMC_UNTIL),
            // Published: 0.5 and 0.1, which score lower in short runs (research/experiments.md).
            initial_opacity: Some(0.1),
            initial_scale: Some(1.0),
            opacity_regularisation: Some(0.01),
            scale_regularisation: Some(0.01),
            grow_gradient,
            ..TrainOptions::default()
        },
        Strategy::Classic => TrainOptions {
            density_until: Some(0.5),
            initial_opacity: Some(0.1),
            initial_scale: Some(1.0),
            opacity_regularisation: Some(0.0),
            scale_regularisation: Some(0.0),
            grow_gradient,
            ..TrainOptions::default()
        },
    }
}
