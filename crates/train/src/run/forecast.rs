//! Predicts how long a run takes: measured on a few steps before it starts, corrected while it trains.
//!
//! The time of a step grows with splats and pixels. On the reference workload and its multiples it is, in CPU
//! milliseconds, `0.155 splats / 1000 + 0.108 pixels / 1000`. Only the ratio of the two factors matters here, because
//! the speed of this machine on these images is measured. Splats are assumed to grow as the recipe allows: with MCMC
//! to the budget, otherwise not at all, because growth is not known in advance.

use std::collections::BTreeMap;

use crate::recipe::{DensityRules, Recipe};

/// Cost of a splat in a step.
const SPLAT_COST: f64 = 0.155e-3;
/// Cost of a pixel in a step, in the same unit.
const PIXEL_COST: f64 = 0.108e-3;

/// Cost of the steps of a run, in units of the constants above.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Forecast {
    /// Image sizes of the training views in px, with the number of views of each size.
    sizes: BTreeMap<[u32; 2], u64>,
}

impl Forecast {
    /// A forecast for views of these sizes in px.
    pub(super) fn new(views: impl Iterator<Item = [u32; 2]>) -> Self {
        let mut sizes = BTreeMap::new();
        for size in views {
            *sizes.entry(size).or_default() += 1;
        }
        Self { sizes }
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
        SPLAT_COST * splats as f64 + PIXEL_COST * self.pixels(recipe, step)
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
        let forecast = Forecast::new([[100, 100], [150, 200]].into_iter());
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
        let forecast = Forecast::new(std::iter::once([200, 100]));
        let recipe = recipe(Strategy::Classic);
        assert_eq!(forecast.remaining_cost(&recipe, 6_000, 5_000), 0.0);
        let half = forecast.remaining_cost(&recipe, 3_050, 5_000);
        assert!((half - 2_950.0 * forecast.step_cost(&recipe, 0, 5_000)).abs() < 1e-9 * half);
    }

    #[test]
    fn coarse_steps_cost_less_because_they_have_fewer_pixels() {
        let forecast = Forecast::new(std::iter::once([400, 400]));
        let fine = recipe(Strategy::Classic);
        let coarse = Recipe { coarse: CoarseRecipe { factor: 4, until: 0.5 }, ..fine.clone() };
        assert!((forecast.pixels(&coarse, 0) - 10_000.0).abs() < 1e-9);
        assert!((forecast.pixels(&coarse, 5_999) - 160_000.0).abs() < 1e-9);
        assert!(forecast.remaining_cost(&coarse, 0, 5_000) < 0.75 * forecast.remaining_cost(&fine, 0, 5_000));
    }
}
