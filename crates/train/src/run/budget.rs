//! How long a run takes, and how many splats and steps a time budget affords: predicted from a few steps before it
//! starts, corrected while it trains.
//!
//! The time of a step grows with splats and pixels. On the reference workload and its multiples it is, in CPU
//! milliseconds, `0.155 splats / 1000 + 0.108 pixels / 1000`. Only the ratio of the two factors matters here, because
//! the speed of this machine on these images is measured. Splats are assumed to grow as the recipe allows: with MCMC
//! to the budget, otherwise not at all, because growth is not known in advance.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gausset_core::engine::DeviceInfo;
use gausset_io::dataset::Dataset;

use crate::config::growth;
use crate::recipe::{DensityRules, Recipe};

/// Splat budgets to try after that of the recipe, largest first. The first that allows [`SUFFICIENT_STEPS`] is used.
const SPLAT_BUDGETS: [u64; 9] = [400_000, 300_000, 200_000, 150_000, 100_000, 70_000, 50_000, 35_000, 25_000];
/// Number of steps below which more splats do not pay off.
const SUFFICIENT_STEPS: f64 = 3_000.0;
/// Minimum and maximum number of steps of the schedules.
const SCHEDULE_STEPS: [f64; 2] = [100.0, 60_000.0];
/// Fraction of the run up to which images stay coarse if it has fewer steps than [`SUFFICIENT_STEPS`].
const SHORT_COARSE_UNTIL: f64 = 0.7;
/// Seconds reserved for the work after the last step: a constant, and an amount per saved splat.
const RESERVED_SECONDS: [f64; 2] = [0.15, 2.5e-6];
/// Minimum relative change in the number of steps left that justifies a new decision.
const MIN_STEP_CHANGE: f64 = 0.01;
/// Minimum time between two decisions.
const MIN_DECISION_INTERVAL: Duration = Duration::from_millis(250);
/// Cost of a splat in a step.
const SPLAT_COST: f64 = 0.155e-3;
/// Cost of a pixel in a step, in the same unit.
const PIXEL_COST: f64 = 0.108e-3;
/// Cost of a step on a GPU that does not depend on its size, in the same unit: two million splats take 6 times as long
/// as 165,751, not 11 times (docs/benchmarks.md#gpu).
const GPU_STEP_COST: f64 = 41.0;

/// Cost of the steps of a run, in units of [`SPLAT_COST`] and [`PIXEL_COST`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Forecast {
    /// Image sizes of the training views in px, with the number of views of each size.
    sizes: BTreeMap<[u32; 2], u64>,
    /// Cost of a step without splats and pixels.
    constant: f64,
}

impl Forecast {
    /// A forecast for the training views of a dataset on a device.
    pub(super) fn new(dataset: &Dataset, device: &DeviceInfo) -> Self {
        let camera = |&index: &usize| &dataset.images[index].camera;
        let sizes = dataset.split.train.iter().map(camera).map(|camera| [camera.width, camera.height]);
        Self { constant: if device.kind == "gpu" { GPU_STEP_COST } else { 0.0 }, ..Self::of_sizes(sizes) }
    }

    /// A forecast for views of these sizes in px.
    fn of_sizes(views: impl Iterator<Item = [u32; 2]>) -> Self {
        let mut sizes = BTreeMap::new();
        for size in views {
            *sizes.entry(size).or_default() += 1;
        }
        Self { sizes, constant: 0.0 }
    }

    /// Mean pixels per view at a step, which may be coarse.
    fn pixels(&self, recipe: &Recipe, step: u64) -> f64 {
        let (mut pixels, mut views) = (0.0, 0.0);
        for (&[width, height], &count) in &self.sizes {
            let reduction = f64::from(recipe.reduction_at(step, width, height));
            pixels += count as f64 * f64::from(width) * f64::from(height) / (reduction * reduction);
            views += count as f64;
        }
        pixels / views.max(1.0)
    }

    /// Cost of a step with `splats` splats.
    pub(super) fn step_cost(&self, recipe: &Recipe, step: u64, splats: u64) -> f64 {
        self.constant + SPLAT_COST * splats as f64 + PIXEL_COST * self.pixels(recipe, step)
    }

    /// Cost of the steps from `done` to the end, with `splats` splats now.
    pub(super) fn remaining_cost(&self, recipe: &Recipe, done: u64, splats: u64) -> f64 {
        let cadence = recipe.density_cadence().max(1);
        let (mut step, mut splats, mut cost) = (done, splats, 0.0);
        while step < recipe.steps {
            let next = ((step / cadence + 1) * cadence).min(recipe.steps);
            cost += (next - step) as f64 * self.step_cost(recipe, step, splats);
            step = next;
            if let (DensityRules::Mcmc(mcmc), true) = (recipe.density.rules, recipe.is_density_step(step)) {
                let grown = (splats as f64 * mcmc.growth) as u64;
                splats = grown.min(recipe.max_splats.max(splats));
            }
        }
        cost
    }
}

/// Time by which the result must be available.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    /// The whole budget, seconds.
    budget: f64,
    pub(super) at: Instant,
    /// When the last decision was made.
    decided: Instant,
}

impl Deadline {
    /// The deadline of a budget of `budget` seconds from `since` on, `used` of which are used up by then.
    pub(super) fn new(since: Instant, budget: f64, used: f64) -> Self {
        let at = since + Duration::from_secs_f64((budget - used).max(0.0));
        Self { budget, at, decided: since }
    }

    /// Seconds of the budget that are used up, and all of them.
    pub(super) fn used_and_available(&self) -> [f64; 2] {
        let left = self.at.saturating_duration_since(Instant::now()).as_secs_f64();
        [(self.budget - left).max(0.0), self.budget]
    }

    /// Seconds left for steps if `splats` must be saved after them.
    pub(super) fn seconds_left(&self, splats: u64) -> f64 {
        let reserve = RESERVED_SECONDS[0] + RESERVED_SECONDS[1] * splats as f64;
        self.at.saturating_duration_since(Instant::now()).as_secs_f64() - reserve
    }

    /// The new last step of a run that has done `done` steps and plans to end at `end`, or `None` if the change is too
    /// small. The schedules have `scheduled_left` steps left, which would take `seconds` if each was done once.
    pub(super) fn decide(
        &mut self,
        done: u64,
        end: u64,
        scheduled_left: u64,
        seconds: f64,
        splats: u64,
    ) -> Option<u64> {
        if self.decided.elapsed() < MIN_DECISION_INTERVAL || seconds <= 0.0 {
            return None;
        }
        let share = (self.seconds_left(splats) / seconds).max(0.0);
        let left = (scheduled_left as f64 * share).round().max(1.0);
        let planned = (end - done) as f64;
        if (left - planned).abs() <= (MIN_STEP_CHANGE * planned).max(1.0) {
            return None;
        }
        self.decided = Instant::now();
        Some(done.saturating_add(left as u64))
    }
}

/// Adjusts a recipe so that it fits into `seconds`, if an early step takes `seconds_per_step`. The growth is chosen so
/// that the set has its full size after the fraction `full_size_at` of the run; `None`: it is given.
pub(super) fn fit_to_budget(
    recipe: &mut Recipe,
    forecast: &Forecast,
    start_splats: u64,
    seconds_per_step: f64,
    seconds: f64,
    full_size_at: Option<f64>,
) {
    let choose_growth = |recipe: &mut Recipe| {
        let (most, steps) = (recipe.max_splats, recipe.steps as f64);
        if let (Some(at), Some(mcmc)) = (full_size_at, recipe.density.rules.mcmc()) {
            mcmc.growth = growth(start_splats, most, at * steps, steps);
        }
    };
    let most = recipe.max_splats;
    let mut affordable = 0.0;
    for splats in [most].into_iter().chain(SPLAT_BUDGETS.into_iter().filter(|&splats| splats < most)) {
        let splats = splats.max(start_splats);
        recipe.max_splats = splats;
        recipe.steps = SUFFICIENT_STEPS as u64;
        choose_growth(recipe);
        let second = forecast.step_cost(recipe, 0, start_splats) / seconds_per_step.max(1e-9);
        let total = forecast.remaining_cost(recipe, 0, start_splats) / second;
        affordable = SUFFICIENT_STEPS * seconds / total.max(1e-9);
        if affordable >= SUFFICIENT_STEPS || splats == start_splats {
            break;
        }
    }
    if affordable < SUFFICIENT_STEPS {
        recipe.coarse.until = recipe.coarse.until.max(SHORT_COARSE_UNTIL);
    }
    recipe.steps = affordable.clamp(SCHEDULE_STEPS[0], SCHEDULE_STEPS[1]) as u64;
    choose_growth(recipe);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrainConfig;
    use crate::option_values::Strategy;
    use crate::options::TrainOptions;
    use crate::recipe::CoarseRecipe;

    fn recipe(strategy: Strategy) -> Recipe {
        let options = TrainOptions {
            data: Some("data".into()),
            steps: Some(6_000),
            max_splats: Some(80_000),
            strategy: Some(strategy),
            coarse_factor: Some(1),
            growth: (strategy == Strategy::Mcmc).then_some(2.0),
            ..TrainOptions::default()
        };
        TrainConfig::resolve(&options, None).unwrap().recipe
    }

    #[test]
    fn a_run_that_grows_costs_more_than_its_first_step_times_its_steps_and_less_than_its_last() {
        let forecast = Forecast::of_sizes([[100, 100], [150, 200]].into_iter());
        let recipe = recipe(Strategy::Mcmc);
        let cost = forecast.remaining_cost(&recipe, 0, 10_000);
        let all_steps = |splats| 6_000.0 * forecast.step_cost(&recipe, 0, splats);
        assert!(cost > all_steps(10_000) && cost < all_steps(80_000), "{cost}");
        // Three doublings after steps 200, 300 and 400 (density control begins after step 100), then the budget is
        // reached.
        let expected = [(200.0, 10_000), (100.0, 20_000), (100.0, 40_000), (5_600.0, 80_000)];
        let expected: f64 =
            expected.into_iter().map(|(n, splats)| n * forecast.step_cost(&recipe, 0, splats)).sum();
        assert!((cost / expected - 1.0).abs() < 1e-12, "{cost} {expected}");
    }

    #[test]
    fn what_is_left_is_what_has_not_been_done() {
        let forecast = Forecast::of_sizes(std::iter::once([200, 100]));
        let recipe = recipe(Strategy::Classic);
        assert_eq!(forecast.remaining_cost(&recipe, 6_000, 5_000), 0.0);
        let half = forecast.remaining_cost(&recipe, 3_050, 5_000);
        assert!((half - 2_950.0 * forecast.step_cost(&recipe, 0, 5_000)).abs() < 1e-9 * half);
    }

    #[test]
    fn coarse_steps_cost_less_because_they_have_fewer_pixels() {
        let forecast = Forecast::of_sizes(std::iter::once([400, 400]));
        let fine = recipe(Strategy::Classic);
        let coarse = Recipe { coarse: CoarseRecipe { factor: 4, until: 0.5 }, ..fine.clone() };
        assert!((forecast.pixels(&coarse, 0) - 10_000.0).abs() < 1e-9);
        assert!((forecast.pixels(&coarse, 5_999) - 160_000.0).abs() < 1e-9);
        assert!(forecast.remaining_cost(&coarse, 0, 5_000) < 0.75 * forecast.remaining_cost(&fine, 0, 5_000));
    }

    /// A recipe of at most `most` splats that fits into the time of so many steps with 20,000 splats.
    fn fitted(most: u64, steps: f64, full_size_at: Option<f64>) -> Recipe {
        let forecast = Forecast::of_sizes(std::iter::once([200, 100]));
        let mut recipe = Recipe { max_splats: most, ..recipe(Strategy::Mcmc) };
        fit_to_budget(&mut recipe, &forecast, 20_000, 1.0, steps, full_size_at);
        recipe
    }

    #[test]
    fn as_many_splats_as_were_asked_for_are_taken_if_there_is_time() {
        for most in [600_000, 399_999, 120_000, 24_000] {
            assert_eq!(fitted(most, 1e6, Some(0.4)).max_splats, most);
        }
        assert_eq!(fitted(600_000, 18_000.0, Some(0.4)).max_splats, 200_000);
        assert_eq!(fitted(600_000, 10.0, Some(0.4)).max_splats, 25_000);
    }

    #[test]
    fn the_set_has_its_full_size_in_time_unless_the_growth_is_given() {
        for steps in [2_000.0, 20_000.0, 1e6] {
            let recipe = fitted(150_000, steps, Some(0.4));
            let DensityRules::Mcmc(mcmc) = recipe.density.rules else { panic!("no growth") };
            let changes = (1..=recipe.steps * 45 / 100).filter(|&step| recipe.is_density_step(step)).count();
            let grown = 20_000.0 * mcmc.growth.powi(changes as i32);
            assert!(grown >= recipe.max_splats as f64, "{steps}: {grown} of {}", recipe.max_splats);
            let DensityRules::Mcmc(given) = fitted(150_000, steps, None).density.rules else { panic!() };
            assert_eq!(given.growth, 2.0);
        }
    }
}
