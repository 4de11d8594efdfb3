//! The schedules, tested against values computed by hand.

use gausset_core::engine::{CorrectionRates, DensityRule, GradientStatistic, McmcRule};
use gausset_train::recipe::{ColourRows, DensityRules};
use gausset_train::{Exposure, Quality, Recipe, SceneFacts, Strategy, TrainConfig, TrainOptions};

const SCENE: SceneFacts = SceneFacts {
    extent: 2.0,
    near_plane: 0.01,
    cooldown: gausset_train::recipe::COOLDOWN,
    contraction_radius: f64::INFINITY,
    background: [0.1, 0.2, 0.3],
    sky: false,
    random_background: false,
    colours: ColourRows { gains: 0, vignetting: 0, is_measured: true },
    has_given_corrections: false,
};

fn recipe(given: TrainOptions) -> Recipe {
    let given = TrainOptions {
        data: Some("scene".into()),
        // The published values, whatever the defaults are.
        quality: Some(Quality::Best),
        lr_means: Some(1.6e-4),
        lr_means_final: Some(1.6e-6),
        noise: (given.strategy != Some(Strategy::Classic)).then_some(5e5),
        ..given
    };
    TrainConfig::resolve(&given, None).unwrap().recipe
}

fn of_steps(steps: u64, strategy: Strategy) -> Recipe {
    recipe(TrainOptions { steps: Some(steps), strategy: Some(strategy), ..Default::default() })
}

#[test]
fn the_rate_of_the_means_falls_log_linearly_and_all_fall_to_zero_at_the_end() {
    let recipe = of_steps(30_000, Strategy::Classic);
    let scene = SceneFacts { extent: 2.0, ..SceneFacts::default() };
    // 2 x 1.6e-4, lower by a factor of 10 at half time and of 100 at the end; half of it after 0.95 of the run.
    let log_linear = |share: f64| 3.2e-4 * 100f64.powf(-share);
    for (step, expected) in [
        (0, log_linear(0.0)),
        (7_500, log_linear(0.25)),
        (15_000, log_linear(0.5)),
        (27_000, log_linear(0.9)),
        (28_500, log_linear(0.95) / 2.0),
    ] {
        let rate = f64::from(recipe.rates(step, &scene).means);
        // f32 has 24 bits: 6e-8 relative.
        assert!((rate / expected - 1.0).abs() < 1e-7, "{step}: {rate}");
    }
    let others = |step: u64| {
        let rates = recipe.rates(step, &scene);
        [rates.log_scales, rates.quats, rates.opacity_logits, rates.sh_dc, rates.sh_rest]
    };
    let full = [5e-3, 1e-3, 5e-2, 2.5e-3, 1.25e-4];
    assert_eq!([123, 27_000].map(others), [full; 2]);
    assert_eq!([28_500, 30_000].map(others), [full.map(|rate: f32| rate / 2.0), [0.0; 5]]);
    let older = SceneFacts { cooldown: 1.0, ..scene };
    assert_eq!([28_500, 30_000].map(|step| recipe.rates(step, &older).log_scales), [5e-3; 2]);
    // A run of one step has one at its full rate.
    assert_eq!(of_steps(1, Strategy::Classic).rates(0, &scene).log_scales, 5e-3);
}

#[test]
fn the_sh_degree_rises_every_thirtieth_of_the_run_up_to_three() {
    let recipe = of_steps(30_000, Strategy::Mcmc);
    let degrees = [0, 999, 1_000, 1_999, 2_000, 3_000, 29_999].map(|step| recipe.sh_degree_at(step));
    assert_eq!(degrees, [0, 0, 1, 1, 2, 3, 3]);
    // 300 steps: every 10. 7 steps: 7 / 30 rounds to 0, so every step.
    assert_eq!([9, 10, 30].map(|step| of_steps(300, Strategy::Mcmc).sh_degree_at(step)), [0, 1, 3]);
    assert_eq!([0, 1, 3].map(|step| of_steps(7, Strategy::Mcmc).sh_degree_at(step)), [0, 1, 3]);
    let low = Recipe { sh_degree: 1, ..recipe };
    assert_eq!(low.sh_degree_at(29_999), 1);
}

#[test]
fn classic_density_control_runs_as_in_the_released_code() {
    let recipe = of_steps(30_000, Strategy::Classic);
    let changes: Vec<u64> = (0..=30_000).filter(|&done| recipe.is_density_step(done)).collect();
    assert_eq!((changes[0], *changes.last().unwrap(), changes.len()), (600, 14_900, 144));
    assert_eq!(recipe.first_density_step(), Some(600));
    let resets: Vec<u64> = (0..=30_000).filter(|&done| recipe.is_reset_step(done)).collect();
    // 15,000 is the end of density control.
    assert_eq!(resets, [3_000, 6_000, 9_000, 12_000]);
    assert_eq!(recipe.step_params(14_998, &SCENE).statistic, GradientStatistic::Signed);
    assert_eq!(recipe.step_params(14_999, &SCENE).statistic, GradientStatistic::Off);
    assert_eq!(recipe.step_params(0, &SCENE).noise, None);
}

#[test]
fn mcmc_changes_the_set_until_five_sixths_of_the_run() {
    let recipe = of_steps(30_000, Strategy::Mcmc);
    let changes: Vec<u64> = (0..=30_000).filter(|&done| recipe.is_density_step(done)).collect();
    assert_eq!((changes[0], *changes.last().unwrap()), (600, 24_900));
    assert!((0..=30_000).all(|done| !recipe.is_reset_step(done)));
    let rules = recipe.density_after(600, 2.0);
    let expected = McmcRule {
        seed: 0,
        step: 600,
        dead_opacity: 0.005,
        growth: 1.05,
        max_splats: recipe.max_splats,
        split_largest: 0.5,
        reorder: true,
    };
    assert_eq!(rules, [DensityRule::Mcmc(expected)]);
    assert!(recipe.density_after(601, 2.0).is_empty());
}

#[test]
fn pictures_double_their_side_and_each_size_has_twice_the_steps_of_the_one_before() {
    let coarse = |factor, until| {
        recipe(TrainOptions {
            steps: Some(1_000),
            coarse_factor: Some(factor),
            coarse_until: (factor > 1).then_some(until),
            ..Default::default()
        })
    };
    let sizes = |recipe: &Recipe, width, height| {
        let mut sizes: Vec<(u64, u32)> =
            (0..1_000).map(|step| (step, recipe.reduction_at(step, width, height))).collect();
        sizes.dedup_by_key(|(_, factor)| *factor);
        sizes
    };
    assert_eq!(sizes(&coarse(4, 0.6), 800, 600), [(0, 4), (200, 2), (600, 1)]);
    assert_eq!(sizes(&coarse(2, 0.5), 800, 600), [(0, 2), (500, 1)]);
    assert_eq!(sizes(&coarse(8, 0.7), 800, 600), [(0, 8), (100, 4), (300, 2), (700, 1)]);
    assert_eq!(sizes(&coarse(1, 0.6), 800, 600), [(0, 1)]);
    // Small images are not downsampled further.
    assert_eq!(sizes(&coarse(4, 0.6), 100, 160), [(0, 2), (600, 1)]);
    assert_eq!(sizes(&coarse(8, 0.7), 90, 60), [(0, 1)]);
}

#[test]
fn short_runs_change_the_set_proportionally_more_often() {
    let cadence = |steps| of_steps(steps, Strategy::Mcmc).density_cadence();
    assert_eq!([30_000, 3_000, 1_500, 300, 10, 1].map(cadence), [100, 100, 50, 10, 1, 1]);
}

#[test]
fn large_splats_are_pruned_only_after_the_first_reset() {
    let recipe = recipe(TrainOptions {
        steps: Some(30_000),
        strategy: Some(Strategy::Classic),
        prune_screen: Some(20.0),
        ..Default::default()
    });
    let rule = |done| match recipe.density_after(done, 2.0).remove(0) {
        DensityRule::Classic(rule) => rule,
        other => panic!("{other:?}"),
    };
    assert_eq!((rule(3_000).prune_scale, rule(3_000).prune_screen), (None, None));
    assert_eq!((rule(3_100).prune_scale, rule(3_100).prune_screen), (Some(0.2), Some(20.0)));
    assert_eq!((rule(600).clone_scale_limit, rule(600).gradient_threshold), (0.02, 2e-4));
    // The order of the released code: first the set, then the reset.
    let both = recipe.density_after(3_000, 2.0);
    assert!(matches!(both[..], [DensityRule::Classic(_), DensityRule::ResetOpacity { max_opacity: 0.01 }]));
}

#[test]
fn resets_stop_a_quarter_before_the_end_however_long_density_control_goes_on() {
    let recipe = recipe(TrainOptions {
        steps: Some(1_000),
        strategy: Some(Strategy::Classic),
        density_until: Some(1.0),
        ..Default::default()
    });
    let resets: Vec<u64> = (0..=1_000).filter(|&done| recipe.is_reset_step(done)).collect();
    assert_eq!(resets, [100, 200, 300, 400, 500, 600, 700]);
}

#[test]
fn absolute_gradients_have_a_threshold_of_their_own() {
    let given = |grow_gradient| TrainOptions {
        strategy: Some(Strategy::Classic),
        abs_grad: Some(true),
        grow_gradient,
        ..Default::default()
    };
    let threshold = |recipe: Recipe| match recipe.density.rules {
        DensityRules::Classic(classic) => classic.grow_gradient,
        DensityRules::Mcmc(_) => panic!("not classic"),
    };
    assert_eq!(threshold(recipe(given(None))), 8e-4);
    assert_eq!(threshold(recipe(given(Some(3e-4)))), 3e-4);
    assert_eq!(recipe(given(None)).step_params(0, &SCENE).statistic, GradientStatistic::Absolute);
}

#[test]
fn mcmc_noise_is_proportional_to_the_rate_of_the_means() {
    let recipe = of_steps(1_000, Strategy::Mcmc);
    let noise = |step| recipe.step_params(step, &SCENE).noise.unwrap();
    // 5e5 x 1.6e-4 x extent 2.
    assert!((noise(0).scale - 160.0).abs() < 1e-4 && noise(0).fade_opacity == 0.005);
    assert!((noise(500).scale - 16.0).abs() < 1e-4);
}

#[test]
fn opacities_are_pulled_down_until_a_share_of_the_run() {
    let recipe = recipe(TrainOptions {
        steps: Some(1_000),
        opacity_regularisation_until: Some(0.6),
        ..Default::default()
    });
    let weights = |step| {
        let params = recipe.step_params(step, &SCENE);
        (params.opacity_regularisation, params.scale_regularisation)
    };
    assert_eq!([0, 599, 600, 999].map(weights), [(0.01, 0.01), (0.01, 0.01), (0.0, 0.01), (0.0, 0.01)]);
}

#[test]
fn poses_move_in_their_window() {
    let recipe = recipe(TrainOptions { steps: Some(1_000), refine_poses: Some(true), ..Default::default() });
    let at = |step| recipe.step_params(step, &SCENE);
    assert_eq!((at(99).pose, at(900).pose), (None, None));
    let pose = CorrectionRates { first: 2e-5, second: 1e-5, decay: 1e-6 };
    assert_eq!((at(100).pose, at(899).pose), (Some(pose), Some(pose)));
}

#[test]
fn gains_come_equally_far_in_any_run_and_do_not_move_where_there_are_none() {
    let recipe = |steps| {
        let options = TrainOptions {
            steps: Some(steps),
            exposure: Some(Exposure::Auto),
            vignetting: Some(true),
            ..Default::default()
        };
        recipe(options)
    };
    let run = recipe(1_000);
    assert_eq!((run.step_params(0, &SCENE).exposure, run.step_params(0, &SCENE).vignetting), (None, None));
    let first = |recipe: &Recipe, rows, measured| {
        let scene =
            SceneFacts { colours: ColourRows { gains: rows, vignetting: 1, is_measured: measured }, ..SCENE };
        let params = recipe.step_params(0, &scene);
        [params.exposure, params.vignetting].map(|rates| f64::from(rates.unwrap().first))
    };
    let near =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
    // 100 visits of each of 10 rows, 1,000 of the only camera.
    let [gains, vignetting] = first(&run, 10, true);
    near(gains, 2e-3);
    near(vignetting, 5e-4);
    near(first(&run, 20, true)[0], 2.0 * 2e-3);
    near(first(&recipe(5_000), 50, true)[0], 2e-3);
    // Without a measurement, at most three times as fast.
    near(first(&run, 10, false)[0], 3.0 * 2e-3);
    near(first(&run, 500, true)[0], 3.0 * 2e-3);
}

#[test]
fn random_backgrounds_depend_on_seed_and_step_only() {
    let given = |seed| TrainOptions { seed: Some(seed), ..Default::default() };
    let (a, b) = (recipe(given(1)), recipe(given(2)));
    assert_eq!(a.background_at(5, &SCENE), SCENE.background);
    let random = SceneFacts { random_background: true, ..SCENE };
    assert_eq!(a.background_at(5, &random), a.background_at(5, &random));
    assert_ne!(a.background_at(5, &random), a.background_at(6, &random));
    assert_ne!(a.background_at(5, &random), b.background_at(5, &random));
    assert!(a.background_at(5, &random).iter().all(|v| (0.0..1.0).contains(v)));
    // Evaluation never uses them.
    assert_eq!(a.eval_options(5, &random).background, SCENE.background);
}

#[test]
fn a_sky_is_there_from_the_first_step_and_with_random_backgrounds_in_the_second_half() {
    let recipe = of_steps(1_000, Strategy::Mcmc);
    let sky = SceneFacts { background: [0.0; 3], sky: true, ..SCENE };
    let params = |step, scene: &SceneFacts| recipe.step_params(step, scene);
    let near = |found: f32, expected: f64| {
        assert!((f64::from(found) / expected - 1.0).abs() < 1e-6, "{found} {expected}")
    };
    for (step, rate) in [(0, 2e-2), (500, 40f64.sqrt() * 1e-3), (1_000, 2e-3)] {
        let step = params(step, &sky);
        assert!(step.render.sky && step.render.background == [0.0; 3]);
        near(step.sky.unwrap().first, rate);
    }
    let random = SceneFacts { random_background: true, ..sky };
    for step in [0, 499] {
        let params = params(step, &random);
        assert!(!params.render.sky && params.sky.is_none() && params.render.background != [0.0; 3]);
    }
    assert_eq!(params(500, &random), params(500, &sky));
    assert!(recipe.eval_options(1, &random).sky);
    let none = params(700, &SCENE);
    assert!(!none.render.sky && none.sky.is_none() && !recipe.eval_options(1, &SCENE).sky);
}
