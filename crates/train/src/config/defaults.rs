//! Presets as data: ordinary [`TrainOptions`] that fill in what nobody said.

use gausset_io::dataset::{Dataset, DatasetKind};

use crate::options::TrainOptions;
use crate::recipe::automatic_cadence;
use crate::words::{Quality, RandomBackground, Strategy};

/// The defaults that do not depend on the strategy (docs/training.md, 1 to 6): those of the table of options.
#[must_use]
pub fn defaults() -> TrainOptions {
    TrainOptions::from_table()
}

/// Runs of at most so many steps are short …
const SHORT_STEPS: f64 = 3_000.0;
/// … and of at least so many are long.
const LONG_STEPS: f64 = 6_000.0;
/// Runs of at most so many steps want twice the published rates also where they start from points.
const FAST_STEPS: f64 = 4_500.0;
/// Steps that a run with a time budget is expected to make per second.
const BUDGET_STEPS_PER_SECOND: f64 = 20.0;
/// Work of the default preset, which decides its steps, in pixels: 8,800 steps of 400x400 px …
const OBJECT_WORK: f64 = 2.8e9;
/// … and where a dense start may save the first of them: 3,500 of 800x600 px.
const DEFAULT_WORK: f64 = 2.25e9;
/// What the splats of a step cost, in pixels, fitted to a few runs (docs/benchmarks.md, "Time budgets and presets").
const SPLAT_PIXELS: f64 = 160e3;
/// Fewest and most steps of the default preset.
const DEFAULT_STEPS: [f64; 2] = [3_000.0, 10_000.0];
/// Steps of the best preset for each of the default preset …
const BEST_FACTOR: u64 = 3;
/// … and most: real scenes are best after 9,000 to 15,000 steps and are learnt by heart in 30,000.
const BEST_STEPS: u64 = 30_000;
/// Training pixels for each splat, below which more splats cost time and gain nothing …
const PIXELS_PER_SPLAT: f64 = 40.0;
/// … but so many may be there in any case.
const FEWEST_SPLATS: u64 = 2_000;
/// Share of a run after which the set has its full size …
const GROWN_AT: f64 = 0.4;
/// … which with few pictures is when its changes end (MCMC).
const MCMC_UNTIL: f64 = 5.0 / 6.0;
/// Share of a run during which opacities are pulled down.
const PULL_UNTIL: f64 = 0.6;
/// Least growth per change (Kheradmand et al. 2024) and most.
const GROWTH: [f64; 2] = [1.05, 1.3];
/// Sets of fewer training pictures are learnt by heart unless something is done about it.
const FEW_PICTURES: u64 = 40;
/// How often a run of the default preset looks at each of few pictures: beyond, held-out ones get worse.
const MOST_LOOKS: f64 = 110.0;
/// Share of the splats that each step leaves out where there are few pictures.
const DROPOUT: f64 = 0.1;
/// Share of the splats that are split rather than copied where there are not few.
const SPLIT_LARGEST: f64 = 0.5;

/// What presets know of a dataset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Training pictures.
    pub pictures: u64,
    /// Pictures of a camera's angle that they are worth: a whole panorama is worth six.
    pub views: u64,
    /// Pixels of all of them at the size at which they are trained on.
    pub pixels: f64,
    /// Points to start from.
    pub points: u64,
    /// An object in front of nothing: Blender-style data.
    pub is_object: bool,
}

/// Pictures of a camera's angle that the training pictures are worth: a whole panorama shows as much as six.
#[must_use]
pub fn views_worth(dataset: &Dataset) -> u64 {
    let worth = |&index: &usize| if dataset.images[index].camera.is_pinhole() { 1 } else { 6 };
    dataset.split.train.iter().map(worth).sum()
}

impl Known {
    /// Of a dataset that was opened at its training size.
    #[must_use]
    pub fn of(dataset: &Dataset) -> Self {
        let train = &dataset.split.train;
        let pixels = train.iter().map(|&index| dataset.images[index].camera.pixels() as f64).sum();
        Self {
            pictures: train.len() as u64,
            views: views_worth(dataset),
            pixels,
            points: dataset.points.len() as u64,
            is_object: dataset.kind == DatasetKind::Blender,
        }
    }

    /// Mean pixels of a picture.
    fn pixels_each(&self) -> f64 {
        self.pixels / self.pictures.max(1) as f64
    }
}

/// The recipe at three scales, for a run with the options that somebody gave on such pictures where they are known.
/// Costs follow
/// `splats x a + pixels x b` per step (docs/benchmarks.md), so steps, splats and sizes shrink together. What was
/// measured (docs/experiments.md):
///
/// - Fewer steps want higher rates: twice the published ones gain 0.5 to 2 dB in 1,200 to 3,000 steps. Random starts
///   and few pictures want them in longer runs too; from points the published ones are better in 6,000.
/// - Short runs want a decade of decay of the means, where two are published; from 6,000 steps on two are better.
/// - Small pictures at the start pay in short runs and cost quality in long ones; they pay longer where stereo has
///   found the coarse form before.
/// - A random start wants half as many splats as there will be where the scene fills its pictures (0.5 dB in the same
///   time); where an object stands in front of nothing they cost a fifth more time and gain nothing.
/// - More splats pay until there is one for about 40 pixels of the training pictures; growth is as fast as it takes to
///   have them in time.
/// - Splats are pulled towards transparency for the first 0.6 of a run: afterwards it costs up to 0.4 dB and makes
///   lists longer.
/// - Splats close in front of cameras where nobody stood spoil whole pictures; where points tell that the space is free
///   it is kept free (castle +1.2 dB, worst views +3 dB).
/// - Large splats that are split along their longest axis show finer detail than copies; with few pictures it is detail
///   that the held-out ones do not have.
/// - Few pictures are learnt by heart: leaving out splats and changing the background gain 0.3 to 0.9 dB, and half of the
///   steps 0.5 dB where each would be looked at 240 times.
#[must_use]
pub fn quality_defaults(given: &TrainOptions, known: Option<Known>) -> TrainOptions {
    let quality = given.quality.unwrap_or(Quality::Default);
    let is_object = known.is_some_and(|known| known.is_object);
    let (preset_steps, [initial_splats, max_splats], max_resolution) = match quality {
        Quality::Fast => (1_400, [30_000, 60_000], 800),
        Quality::Default => {
            (default_steps(known), [if is_object { 20_000 } else { 100_000 }, 200_000], 1_600)
        }
        Quality::Best => (best_steps(known), [100_000, 400_000], 1_600),
    };
    // How long the run will be: 0 = short, 1 = long. The steps of a run with a time budget are not known yet.
    let budget = given.time_budget.and_then(|budget| budget.seconds());
    let expected = match (given.steps, budget) {
        (Some(steps), _) => steps as f64,
        (None, Some(seconds)) => seconds * BUDGET_STEPS_PER_SECOND,
        (None, None) => preset_steps as f64,
    };
    let max_splats = known.map_or(max_splats, |known| {
        max_splats.min((known.pixels / PIXELS_PER_SPLAT) as u64).max(FEWEST_SPLATS)
    });
    let most = given.max_splats.unwrap_or(max_splats);
    // What a file holds is not known, nor how many steps a time budget leaves.
    let is_open = given.init.is_some() || (given.steps.is_none() && budget.is_some());
    let start = known.filter(|_| !is_open).map(|known| match known.points {
        0 => given.initial_splats.unwrap_or(initial_splats),
        points => points,
    });
    let length = share_between(SHORT_STEPS, LONG_STEPS, expected);
    let coarse_until = match quality {
        Quality::Fast => 0.7,
        Quality::Default if !is_object => 0.55 - 0.2 * length,
        Quality::Default | Quality::Best => 0.4 - 0.2 * length,
    };
    let is_few = known.is_some_and(|known| known.views < FEW_PICTURES);
    let has_points = given.init.is_some() || known.is_some_and(|known| known.points > 0);
    let pace = match quality {
        Quality::Default if has_points && !is_few => 2.0 - share_between(FAST_STEPS, LONG_STEPS, expected),
        Quality::Fast | Quality::Default => 2.0,
        Quality::Best => 1.0,
    };
    let grown_at = if is_few { MCMC_UNTIL } else { GROWN_AT };
    let rate = |published: f64| Some(round(published * pace));
    TrainOptions {
        steps: Some(given.steps.unwrap_or(preset_steps)),
        initial_splats: Some(initial_splats),
        max_splats: Some(max_splats),
        growth: start.map(|start| growth(start, most, grown_at * expected, expected)),
        max_resolution: Some(max_resolution),
        dropout: Some(if is_few { DROPOUT } else { 0.0 }),
        random_background: Some(if is_few { RandomBackground::Always } else { RandomBackground::Auto }),
        split_largest: Some(if is_few { 0.0 } else { SPLIT_LARGEST }),
        opacity_regularisation_until: Some(round(grown_at.max(PULL_UNTIL))),
        coarse_factor: Some(4),
        coarse_until: Some(round(coarse_until)),
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

/// Steps of the default preset: as many as are the same work, so that small and large pictures take about the same time;
/// few pictures are not looked at more often than it pays.
fn default_steps(known: Option<Known>) -> u64 {
    let [fewest, most] = DEFAULT_STEPS;
    let Some(known) = known else { return 6_000 };
    let work = if known.is_object { OBJECT_WORK } else { DEFAULT_WORK };
    let looks = if known.views < FEW_PICTURES { MOST_LOOKS * known.pictures as f64 } else { most };
    let steps = (work / (SPLAT_PIXELS + known.pixels_each())).min(looks).clamp(fewest, most);
    (steps / 100.0).round() as u64 * 100
}

/// Steps of the best preset: a multiple of those of the default preset.
fn best_steps(known: Option<Known>) -> u64 {
    (BEST_FACTOR * default_steps(known)).min(BEST_STEPS)
}

/// Growth per change of the set that makes `start` splats `most` after so many steps of a run of `expected` steps.
fn growth(start: u64, most: u64, steps: f64, expected: f64) -> f64 {
    let changes = steps / automatic_cadence(expected as u64) as f64;
    let factor = most as f64 / start.max(1) as f64;
    let [least, fastest] = GROWTH;
    let growth = libm::pow(factor.max(1.0), 1.0 / changes.max(1.0)).clamp(least, fastest);
    (growth * 1e3).round() / 1e3
}

/// How far `value` is on the way from `start` to `end`, 0 before and 1 after.
fn share_between(start: f64, end: f64, value: f64) -> f64 {
    ((value - start) / (end - start)).clamp(0.0, 1.0)
}

/// A number with three digits, as people write it into a config file.
fn round(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// The defaults that a strategy brings with it; `absolute_gradient` has a threshold of its own.
#[must_use]
pub fn strategy_defaults(strategy: Strategy, absolute_gradient: bool) -> TrainOptions {
    let grow_gradient = Some(if absolute_gradient { 8e-4 } else { 2e-4 });
    match strategy {
        Strategy::Mcmc => TrainOptions {
            density_until: Some(MCMC_UNTIL),
            // Published: 0.5 and 0.1, which leave short runs far behind (docs/experiments.md).
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
