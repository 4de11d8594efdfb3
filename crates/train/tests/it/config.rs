//! Options resolve in layers, reject invalid values with a helpful line, and survive a round trip through
//! `config.toml`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gausset_io::dataset::Normalisation;
use gausset_train::config::{DatasetFacts, defaults, quality_defaults, strategy_defaults};
use gausset_train::{
    Adam, Alpha, Background, Colours, ConfigError, Exposure, InitPoints, MemoryLimit, NearPlane, Quality,
    RandomBackground, RecordedRun, RunRecord, Strategy, TimeBudget, TrainConfig, TrainOptions, Up,
};
use proptest::prelude::{any, prop, prop_assert_eq, prop_compose, proptest};

fn resolve(given: TrainOptions) -> Result<TrainConfig, ConfigError> {
    TrainConfig::resolve(&TrainOptions { data: Some("scene".into()), ..given }, None)
}

fn recorded(config: TrainConfig) -> RecordedRun {
    let record = RunRecord {
        version: "0.1.0".to_owned(),
        device: "cpu".to_owned(),
        device_name: "CPU, 2 threads".to_owned(),
        device_choice: Some("GPU: a step takes 3 ms, 9 ms on the processor".to_owned()),
        fingerprint: "00ff".to_owned(),
        init_file: None,
        train_images: 7,
        test_images: 1,
        start: "100 points".to_owned(),
        scene_extent: 1.0 / 3.0,
        near_plane: Some(0.07),
        background: [0.1, 0.2, 0.3],
        sky: false,
        random_background: false,
        colours: Colours::GainsFromTracks,
        stereo_side: Some(400),
        background_points: Some(4_377),
        contraction_radius: Some(0.7),
        cooldown: Some(0.9),
        before_budget: Some(TrainOptions {
            time_budget: Some(TimeBudget::Milliseconds(600_000)),
            steps: Some(6_000),
            max_splats: Some(200_000),
            ..TrainOptions::default()
        }),
        block: Some("block 2 of 4, division 00ff".to_owned()),
        offset: Some([431_000.0, 5_412_000.0, 312.25]),
        normalisation: Normalisation { centre: [0.1, -7.0, 1.0 / 3.0], unit: 1.0 / 7.0 },
        up_rotation: [[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.0, -0.8, 0.6]],
    };
    RecordedRun { config, record }
}

#[test]
fn layers_win_in_order_command_line_file_strategy_defaults() {
    let command_line = TrainOptions { data: Some("a".into()), steps: Some(10), ..TrainOptions::default() };
    let file = TrainOptions {
        data: Some("b".into()),
        steps: Some(20),
        seed: Some(3),
        strategy: Some(Strategy::Classic),
        ..TrainOptions::default()
    };
    let config = TrainConfig::resolve(&command_line, Some(&file)).unwrap();
    assert_eq!(config.data.path, Path::new("a"));
    assert_eq!((config.recipe.steps, config.recipe.seed), (10, 3));
    // Classic's own defaults, and one that every strategy has.
    assert_eq!((config.recipe.density.until, config.recipe.start.opacity), (0.5, 0.1));
    assert_eq!(config.recipe.loss.opacity_regularisation, 0.0);
    assert_eq!(config.recipe.rates.quats, 2e-3);
}

#[test]
fn a_quality_fills_in_what_nobody_gave() {
    let given = TrainOptions { quality: Some(Quality::Fast), steps: Some(10), ..TrainOptions::default() };
    let (fast, usual) = (resolve(given).unwrap(), resolve(TrainOptions::default()).unwrap());
    assert_eq!(fast.recipe.steps, 10);
    assert!(fast.recipe.max_splats < usual.recipe.max_splats);
    assert_eq!((fast.quality, usual.quality), (Quality::Fast, Quality::Default));
}

#[test]
fn presets_know_how_many_pictures_there_are_and_how_large() {
    let of = |quality, pictures: u64, pixels_each: f64| {
        let known = DatasetFacts {
            images: pictures,
            views: pictures,
            pixels: pixels_each * pictures as f64,
            points: 0,
            is_object: false,
        };
        quality_defaults(&TrainOptions { quality: Some(quality), ..TrainOptions::default() }, Some(known))
    };
    // Every preset counteracts overfitting with few images.
    for quality in [Quality::Fast, Quality::Default, Quality::Best] {
        let (few, many) = (of(quality, 15, 4e5), of(quality, 64, 4e5));
        assert_eq!((few.dropout, many.dropout), (Some(0.1), Some(0.0)));
        assert_eq!((few.split_largest, many.split_largest), (Some(0.0), Some(0.5)));
        assert_eq!(few.random_background, Some(RandomBackground::Always));
        assert_eq!(many.random_background, Some(RandomBackground::Auto));
    }
    // The default preset does the same work on images of any size, within limits; the best one three times as much.
    let steps = |quality, pixels_each| of(quality, 64, pixels_each).steps.unwrap();
    let work = |pixels_each: f64| steps(Quality::Default, pixels_each) as f64 * (pixels_each + 160e3);
    assert!((work(160e3) / work(500e3) - 1.0).abs() < 0.02);
    assert!(steps(Quality::Default, 1.0) <= 10_000 && steps(Quality::Default, 160e3) == 7_000);
    let object = DatasetFacts { images: 64, views: 64, pixels: 64.0 * 160e3, points: 0, is_object: true };
    assert_eq!(quality_defaults(&TrainOptions::default(), Some(object)).steps, Some(8_800));
    assert_eq!(steps(Quality::Default, 1e8), steps(Quality::Default, 2e8));
    assert_eq!(steps(Quality::Fast, 1e5), steps(Quality::Fast, 1e6));
    assert_eq!([1.0, 480e3].map(|pixels| steps(Quality::Best, pixels)), [30_000, 10_500]);
}

#[test]
fn the_set_grows_to_what_the_pictures_can_tell_in_time() {
    let of = |points, pixels, given: TrainOptions| {
        quality_defaults(
            &given,
            Some(DatasetFacts { images: 50, views: 50, pixels, points, is_object: false }),
        )
    };
    let steps = |steps| TrainOptions { steps: Some(steps), ..TrainOptions::default() };
    // One splat per 40 pixels, within limits.
    let most = |pixels| of(0, pixels, steps(6_000)).max_splats.unwrap();
    assert_eq!([most(1.0), most(2e6), most(1e9)], [2_000, 50_000, 200_000]);
    // Two fifths of 6,000 steps are 24 changes, of 1,500 steps 12.
    for (points, given, expected) in [
        (0, steps(6_000), 1.05),
        (5_000, steps(6_000), 40f64.powf(1.0 / 24.0)),
        (10_000, steps(1_500), 20f64.powf(1.0 / 12.0)),
        (5_000, TrainOptions { max_splats: Some(40_000), ..steps(1_500) }, 8f64.powf(1.0 / 12.0)),
        (0, TrainOptions { initial_splats: Some(2_000), ..steps(6_000) }, 100f64.powf(1.0 / 24.0)),
        (190_000, steps(6_000), 1.05),
        (10, steps(600), 1.3),
    ] {
        let growth = of(points, 1e9, given).growth.unwrap();
        assert!((growth - expected).abs() < 1e-3, "{points}: {growth}, {expected}");
    }
    // An object without background starts from a fifth of the splats.
    let object = DatasetFacts { images: 50, views: 50, pixels: 1e9, points: 0, is_object: true };
    let object = quality_defaults(&steps(6_000), Some(object));
    assert_eq!(
        (object.initial_splats, of(0, 1e9, steps(6_000)).initial_splats),
        (Some(20_000), Some(100_000))
    );
    assert!((object.growth.unwrap() - 10f64.powf(1.0 / 24.0)).abs() < 1e-3);
    // With few images growth lasts until the changes end, which are 25 in 1,500 steps.
    let few = quality_defaults(
        &steps(1_500),
        Some(DatasetFacts { images: 15, views: 15, pixels: 1e9, points: 5_000, is_object: false }),
    );
    assert!((few.growth.unwrap() - 40f64.powf(1.0 / 25.0)).abs() < 1e-3);
    // Opacity regularisation ends at 0.6, or with the growth.
    let until = |pictures| {
        let known =
            DatasetFacts { images: pictures, views: pictures, pixels: 1e9, points: 5_000, is_object: false };
        quality_defaults(&steps(6_000), Some(known)).opacity_regularisation_until.unwrap()
    };
    assert_eq!([15, 50].map(until), [0.833, 0.6]);
    // Neither the contents of a file nor the steps of a time budget are known yet.
    let from_file = TrainOptions { init: Some("start.ply".into()), ..steps(6_000) };
    let budget =
        TrainOptions { time_budget: Some(TimeBudget::Milliseconds(30_000)), ..TrainOptions::default() };
    assert_eq!((of(5_000, 1e9, from_file).growth, of(0, 1e9, budget).growth), (None, None));
}

#[test]
fn longer_runs_decay_further_are_coarse_for_a_shorter_share_and_go_slower_from_points() {
    let of = |steps, time_budget| {
        let config = resolve(TrainOptions { steps, time_budget, ..TrainOptions::default() }).unwrap();
        let rates = config.recipe.rates;
        ((rates.means_final / rates.means).log10(), config.recipe.coarse.until)
    };
    let is = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() < 0.01 && (b - d).abs() < 0.01;
    let (short, long) = ((-1.0, 0.55), (-2.0, 0.35));
    assert!(is(of(Some(500), None), short) && is(of(Some(3_000), None), short));
    assert!(is(of(Some(4_500), None), (-1.5, 0.45)));
    assert!(is(of(Some(6_000), None), long) && is(of(None, None), long));
    assert!(is(of(None, Some(TimeBudget::Milliseconds(30_000))), short));
    assert!(is(of(None, Some(TimeBudget::Milliseconds(600_000))), long));
    // Rates are twice the published ones where training starts from random splats, and fall to these from points.
    let quats = |points, steps| {
        let known = DatasetFacts { images: 50, views: 50, pixels: 1e9, points, is_object: false };
        let given = TrainOptions { steps: Some(steps), ..TrainOptions::default() };
        quality_defaults(&given, Some(known)).lr_quats.unwrap()
    };
    assert_eq!([0, 5_000].map(|points| quats(points, 4_500)), [2e-3, 2e-3]);
    assert_eq!([0, 5_000].map(|points| quats(points, 5_250)), [2e-3, 1.5e-3]);
    assert_eq!([0, 5_000].map(|points| quats(points, 9_000)), [2e-3, 1e-3]);
    let few = DatasetFacts { images: 15, views: 15, pixels: 1e9, points: 5_000, is_object: false };
    let given = TrainOptions { steps: Some(9_000), ..TrainOptions::default() };
    assert_eq!(quality_defaults(&given, Some(few)).lr_quats, Some(2e-3));
}

#[test]
fn every_option_has_a_default_but_the_paths() {
    let presets =
        strategy_defaults(Strategy::Mcmc, false).or(quality_defaults(&TrainOptions::default(), None));
    let complete = presets.or(defaults());
    let given: Vec<String> = complete.given_values().into_iter().map(|(key, _)| key).collect();
    let without: Vec<&str> = TrainOptions::keys().filter(|key| !given.iter().any(|g| g == key)).collect();
    assert_eq!(
        without,
        ["data", "images", "masks", "sparse", "init", "spz-frame", "plan", "start-max-splats"]
    );
}

#[test]
fn hostile_values_are_refused_with_the_option_and_what_was_expected() {
    let message = |given: TrainOptions| resolve(given).unwrap_err().to_string();
    let base = TrainOptions::default;
    assert_eq!(
        message(TrainOptions { steps: Some(0), ..base() }),
        "⟨steps⟩: 0 is out of range (expected 1..1000000000)"
    );
    assert_eq!(
        message(TrainOptions { lr_means: Some(f64::NAN), ..base() }),
        "⟨lr-means⟩: NaN is out of range (expected more than 0)"
    );
    assert_eq!(
        message(TrainOptions { lr_scales: Some(1e39), ..base() }),
        "⟨lr-scales⟩: 1e39 is out of range (expected 0 or more)"
    );
    assert_eq!(
        message(TrainOptions { scene_extent: Some(1e300), ..base() }),
        "⟨scene-extent⟩: 1e300 is out of range (expected 0 or more)"
    );
    assert_eq!(
        message(TrainOptions { sh_degree: Some(4), ..base() }),
        "⟨sh-degree⟩: 4 is out of range (expected 0..3)"
    );
    for distance in [0.0, -1.0, f64::INFINITY] {
        let near_plane = Some(NearPlane::Distance(distance));
        let refused = message(TrainOptions { near_plane, ..base() });
        let expected = "(expected auto, or 0.000001 or more)";
        assert!(refused.starts_with("⟨near-plane⟩: ") && refused.ends_with(expected), "{refused}");
    }
    assert_eq!(
        TrainConfig::resolve(&base(), None).unwrap_err().to_string(),
        "⟨data⟩: not given (expected the folder of a dataset)"
    );
}

#[test]
fn windows_that_are_empty_or_out_of_order_are_refused() {
    let message = |given: TrainOptions| resolve(given).unwrap_err().to_string();
    let window = |from, until| TrainOptions {
        density_from: Some(from),
        density_until: Some(until),
        ..TrainOptions::default()
    };
    assert_eq!(
        message(window(0.5, 0.03)),
        "⟨density-from = 0.5⟩ and ⟨density-until = 0.03⟩: the window of density control is empty or out of order \
         (expected from < until)"
    );
    assert!(message(window(0.5, 0.5)).contains("out of order"));
    assert_eq!(
        message(TrainOptions { steps: Some(1000), density_every: Some(900), ..window(0.1, 0.5) }),
        "⟨density-from = 0.1⟩ and ⟨density-until = 0.5⟩: no multiple of ⟨density-every⟩ 900 is between steps 100 \
         and 500 (expected at least one)"
    );
    // Without density control the set never changes.
    let off = resolve(TrainOptions { density_until: Some(0.0), ..TrainOptions::default() }).unwrap().recipe;
    assert!(off.first_density_step().is_none() && !(0..=off.steps).any(|done| off.is_density_step(done)));
    // A single step has no window, which is not an error by default.
    assert!(resolve(TrainOptions { steps: Some(1), ..TrainOptions::default() }).is_ok());
}

#[test]
fn a_run_that_goes_on_may_change_its_limits_but_not_its_result() {
    let run = recorded(resolve(TrainOptions { steps: Some(500), ..TrainOptions::default() }).unwrap());
    let path = Path::new("RUN/config.toml");
    let free = TrainOptions {
        threads: Some(3),
        checkpoint_every: Some(1),
        data: Some("moved".into()),
        steps: Some(500),
        ..TrainOptions::default()
    };
    let resumed = run.resumed_with(&free, path).unwrap();
    assert_eq!((resumed.limits.threads, resumed.outputs.checkpoint_every), (3, 1));
    assert_eq!(resumed.recipe, run.config.recipe);
    let other = TrainOptions { steps: Some(300), antialiased: Some(true), ..TrainOptions::default() };
    assert_eq!(
        run.resumed_with(&other, path).unwrap_err().to_string(),
        "RUN/config.toml: the run was started with steps = 500 (given: 300), antialiased = false (given: true); \
         resume without these options or start a new run"
    );
    // Recorded options may be given again, with effect or without; others are rejected.
    let classic = TrainOptions { strategy: Some(Strategy::Classic), ..TrainOptions::default() };
    let classic = recorded(resolve(classic).unwrap());
    let again = classic.config.to_options();
    assert!(again.opacity_regularisation_until.is_some() && again.opacity_regularisation == Some(0.0));
    assert_eq!(classic.resumed_with(&again, path).unwrap(), classic.config);
    let message = |run: &RecordedRun, given| run.resumed_with(&given, path).unwrap_err().to_string();
    assert_eq!(
        message(&run, TrainOptions { lr_poses: Some(0.5), ..TrainOptions::default() }),
        "⟨lr-poses⟩: has no effect without ⟨refine-poses⟩; leave it out, or give ⟨refine-poses⟩"
    );
    // Another strategy is another run; the error is the strategy, not its options.
    let other = TrainOptions { strategy: Some(Strategy::Classic), ..TrainOptions::default() };
    assert!(message(&run, other).starts_with("RUN/config.toml: the run was started with strategy = "));
}

/// Sets an option by its long name.
fn with(given: &TrainOptions, key: &str, value: &str) -> TrainOptions {
    let one = TrainOptions::from_toml(&format!("{key} = {value}"), Path::new("given")).unwrap();
    one.or(given.clone())
}

#[test]
fn options_that_the_others_leave_without_effect_are_refused_by_name() {
    let base = TrainOptions { data: Some("scene".into()), ..TrainOptions::default() };
    let given = |choices: &[(&str, &str)]| {
        choices.iter().fold(base.clone(), |given, (key, value)| with(&given, key, value))
    };
    let classic = [
        "grow-gradient",
        "clone-scale",
        "prune-opacity",
        "prune-scale",
        "prune-screen",
        "opacity-reset-every",
    ];
    let mcmc = [("growth", "1.1"), ("split-largest", "0.2"), ("noise", "3.0")];
    // Choices; an option without effect under them, and its value; a choice that makes it effective.
    type Case =
        (Vec<(&'static str, &'static str)>, &'static str, &'static str, Vec<(&'static str, &'static str)>);
    let mut cases: Vec<Case> = Vec::new();
    for key in classic {
        cases.push((vec![], key, "0.1", vec![("strategy", "'classic'")]));
    }
    cases.push((vec![], "abs-grad", "true", vec![("strategy", "'classic'")]));
    for (key, value) in mcmc {
        cases.push((vec![("strategy", "'classic'")], key, value, vec![]));
    }
    for key in ["lr-exposure", "lr-exposure-final"] {
        cases.push((vec![("exposure", "'off'")], key, "0.1", vec![("exposure", "'on'")]));
    }
    cases.push((vec![("refine-poses", "false")], "lr-poses", "0.1", vec![("refine-poses", "true")]));
    let budget = vec![("time-budget", "'3s'")];
    cases.push((budget.clone(), "steps", "500", vec![("time-budget", "'none'")]));
    cases.push((budget, "plan", "'9 0:500'", vec![("time-budget", "'none'"), ("steps", "500")]));
    cases.push((vec![("coarse-factor", "1")], "coarse-until", "0.3", vec![("coarse-factor", "2")]));
    cases.push((vec![("sh-degree", "0")], "lr-sh-rest", "0.1", vec![("sh-degree", "1")]));
    let pull = ("opacity-regularisation", "0.0");
    cases.push((vec![pull], "opacity-regularisation-until", "0.5", vec![]));
    cases.push((vec![("strategy", "'classic'")], "opacity-regularisation-until", "0.5", vec![]));
    cases.push((vec![("test-every", "0")], "eval-every", "50", vec![("test-every", "8")]));
    cases.push((vec![("init", "'a.ply'")], "initial-splats", "50", vec![]));
    cases.push((vec![("init", "'a.ply'")], "init-points", "'dense'", vec![("init-points", "'auto'")]));
    cases.push((vec![("init", "'a.ply'")], "keep-depth", "true", vec![("keep-depth", "false")]));
    cases.push((vec![("init-points", "'dense'")], "initial-splats", "50", vec![("init-points", "'auto'")]));
    let maps = vec![("init-points", "'auto'")];
    cases.push((vec![("init-points", "'sfm'")], "keep-depth", "true", maps));
    cases.push((vec![("data", "'a/transforms.json'")], "sparse", "'b'", vec![("data", "'a'")]));
    for (choices, key, value, repair) in cases {
        let wrong = with(&given(&choices), key, value);
        let message = TrainConfig::resolve(&wrong, None).unwrap_err().to_string();
        assert!(message.starts_with(&format!("⟨{key}⟩: has no effect with")), "{choices:?}: {message}");
        // The same in a config file, and on the command line over a config file.
        let in_file = TrainConfig::resolve(&TrainOptions::default(), Some(&wrong)).unwrap_err().to_string();
        assert_eq!(in_file, message);
        let alone = with(&TrainOptions::default(), key, value);
        assert_eq!(TrainConfig::resolve(&alone, Some(&given(&choices))).unwrap_err().to_string(), message);
        // The choice that it belongs to makes it valid, and without the option the rest is valid.
        let repaired = repair.iter().fold(wrong, |given, (key, value)| with(&given, key, value));
        let is_right = TrainConfig::resolve(&repaired, None).is_ok();
        assert!(is_right || repair.is_empty(), "{choices:?}, ⟨{key}⟩, {repair:?}");
        assert!(TrainConfig::resolve(&given(&choices), None).is_ok(), "{choices:?}");
    }
    // A rate of the poses implies that they are refined.
    let implied = TrainConfig::resolve(&given(&[("lr-poses", "0.1")]), None).unwrap();
    assert_eq!(implied.recipe.poses.map(|poses| poses.rate), Some(0.1));
    // No images are held out and no evaluation is requested.
    assert!(TrainConfig::resolve(&given(&[("test-every", "0"), ("eval-every", "0")]), None).is_ok());
}

#[test]
fn what_belongs_to_a_choice_of_the_file_goes_when_the_command_line_chooses_otherwise() {
    let file = TrainOptions {
        data: Some("scene".into()),
        strategy: Some(Strategy::Mcmc),
        growth: Some(1.2),
        exposure: Some(Exposure::On),
        lr_exposure: Some(0.5),
        steps: Some(700),
        ..TrainOptions::default()
    };
    let choices = TrainOptions {
        strategy: Some(Strategy::Classic),
        exposure: Some(Exposure::Off),
        time_budget: Some(TimeBudget::Milliseconds(9_000)),
        ..TrainOptions::default()
    };
    let merged = choices.clone().layered_over(file.clone());
    assert_eq!((merged.growth, merged.lr_exposure, merged.steps), (None, None, None));
    let config = TrainConfig::resolve(&choices, Some(&file)).unwrap();
    assert_eq!((config.recipe.strategy(), config.recipe.exposure), (Strategy::Classic, None));
    // An option that the user also gives is not dropped with the file's.
    let both = TrainOptions { growth: Some(1.3), ..choices };
    let message = TrainConfig::resolve(&both, Some(&file)).unwrap_err().to_string();
    assert!(message.starts_with("⟨growth⟩: has no effect with ⟨strategy = classic⟩"), "{message}");
}

#[test]
fn what_a_run_has_recorded_is_a_config_file_whatever_it_chose() {
    let path = Path::new("config.toml");
    for (choices, expected) in [
        (vec![("strategy", "'classic'")], vec!["opacity-regularisation-until", "initial-splats"]),
        (vec![("coarse-factor", "1")], vec!["coarse-until", "initial-splats"]),
        (vec![("sh-degree", "0")], vec!["lr-sh-rest", "initial-splats"]),
        // A run with a time budget that was stopped.
        (vec![("time-budget", "'9s'")], vec!["steps", "initial-splats"]),
        (
            vec![("blocks", "'2'")],
            vec!["time-budget", "eval-every", "export-every", "keep-depth", "initial-splats"],
        ),
    ] {
        let given = choices.iter().fold(
            TrainOptions { data: Some("scene".into()), ..TrainOptions::default() },
            |given, (key, value)| with(&given, key, value),
        );
        let mut run = recorded(TrainConfig::resolve(&given, None).unwrap());
        let part = TrainOptions::from_config_file(&run.to_toml(), path).unwrap_err();
        assert!(part.to_string().contains("block 2 of 4"), "{part}");
        run.record.block = None;
        let file = TrainOptions::from_config_file(&run.to_toml(), path).unwrap();
        let keys = |options: &TrainOptions| -> BTreeSet<String> {
            options.given_values().into_iter().map(|(key, _)| key).collect()
        };
        let (all, kept) = (keys(&run.config.to_options()), keys(&file));
        let left_out: BTreeSet<&str> = all.difference(&kept).map(String::as_str).collect();
        assert_eq!(left_out, BTreeSet::from_iter(expected), "{choices:?}");
        let again = TrainConfig::resolve(&TrainOptions::default(), Some(&file)).unwrap();
        assert_eq!(again.to_options().without_ineffective(), run.config.to_options().without_ineffective());
    }
    // The number of random splats at the start is recorded.
    let mut run = recorded(resolve(TrainOptions::default()).unwrap());
    run.record.start = "500 random splats in [-1, 1]^3".to_owned();
    run.record.block = None;
    let file = TrainOptions::from_config_file(&run.to_toml(), path).unwrap();
    assert_eq!(file.initial_splats, run.config.to_options().initial_splats);
}

#[test]
fn a_path_is_the_same_however_it_is_spelled() {
    let root = tempfile::tempdir().unwrap();
    let photos = root.path().join("photos");
    std::fs::create_dir_all(photos.join("below")).unwrap();
    let given =
        TrainOptions { data: Some("data".into()), init: Some(photos.clone()), ..TrainOptions::default() };
    let run = recorded(TrainConfig::resolve(&given, None).unwrap().with_absolute_paths().unwrap());
    let path = Path::new("RUN/config.toml");
    let with = |init: PathBuf| TrainOptions { init: Some(init), ..given.clone() };
    let mut spellings = vec![
        photos.join(""),
        root.path().join("./photos"),
        photos.join("below/.."),
        from_here(&photos),
        from_here(&photos).join("."),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&photos, root.path().join("link")).unwrap();
        spellings.push(root.path().join("link"));
    }
    for spelling in spellings {
        let resumed = run.resumed_with(&with(spelling.clone()), path);
        assert_eq!(resumed.unwrap().data, run.config.data, "{}", spelling.display());
    }
    // A path that does not exist is compared by its text.
    let absent =
        recorded(TrainConfig::resolve(&with("absent".into()), None).unwrap().with_absolute_paths().unwrap());
    assert!(absent.resumed_with(&with("./absent/".into()), path).is_ok());
    let refused = run.resumed_with(&with(photos.join("below")), path).unwrap_err().to_string();
    let expected = format!("init = \"{}\" (given: \"{}\")", photos.display(), photos.join("below").display());
    assert!(refused.contains(&expected), "{refused}");
}

/// The same path relative to the working folder, with as many `..` as needed.
fn from_here(path: &Path) -> PathBuf {
    let up = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect::<PathBuf>();
    up.join(path.strip_prefix("/").unwrap_or(path))
}

#[test]
fn a_config_without_the_record_of_a_run_is_not_a_run() {
    let run = recorded(resolve(TrainOptions::default()).unwrap());
    let text = run.to_toml();
    let options_only = text.split("[run]").next().unwrap();
    let err = RecordedRun::from_toml(options_only, Path::new("c.toml")).unwrap_err();
    assert!(err.to_string().starts_with("c.toml: run: no such table"), "{err}");
    let err = RecordedRun::from_toml("", Path::new("c.toml")).unwrap_err();
    assert!(err.to_string().starts_with("c.toml: run: no such table"), "an empty file: {err}");
    let broken = text.replace("scene-extent = 0.3333333333333333", "scene-extent = nan");
    let err = RecordedRun::from_toml(&broken, Path::new("c.toml")).unwrap_err();
    assert_eq!(err.to_string(), "c.toml: run: a number is not finite");
}

prop_compose! {
    /// Options in which each group is present or not; all values are in range.
    fn some_options()(
        words in (0usize..2, 0usize..2, 0usize..2, 0usize..8, 0usize..3, any::<bool>(), any::<bool>()),
        numbers in prop::collection::vec(0.0f64..1.0, 24),
        wholes in prop::collection::vec(1u64..1_000_000, 8),
        bits in any::<u64>(),
        colour in prop::array::uniform3(0.0f32..=1.0),
        names in prop::collection::vec("[a-z/ .'\"\\\\é]{1,12}", 3),
    ) -> TrainOptions {
        let given = |i: usize| bits >> i & 1 == 1;
        let x = |i: usize| given(i).then_some(numbers[i] + 1e-9);
        TrainOptions {
            data: Some(names[0].clone().into()),
            images: given(30).then(|| names[1].clone().into()),
            init: given(31).then(|| names[2].clone().into()),
            strategy: Some(if words.0 == 0 { Strategy::Mcmc } else { Strategy::Classic }),
            adam: given(32).then_some(if words.1 == 0 { Adam::Dense } else { Adam::Sparse }),
            alpha: given(33).then_some(if words.2 == 0 { Alpha::Composite } else { Alpha::Mask }),
            up: given(34).then(|| Up::WORDS[words.3].parse().unwrap()),
            exposure: Some(Exposure::WORDS[words.4].parse().unwrap()),
            refine_poses: Some(words.5),
            abs_grad: Some(words.6),
            background: given(35).then_some(Background::Colour(colour)),
            steps: Some(wholes[0]),
            seed: given(36).then_some(wholes[1]),
            max_splats: given(37).then_some(wholes[2]),
            max_memory: given(38).then_some(MemoryLimit::Bytes(wholes[3])),
            threads: given(39).then_some(wholes[4] as u32 % 1024),
            sh_degree: given(40).then_some((wholes[5] % 4) as u8),
            lr_means: x(0), lr_means_final: x(1), lr_scales: x(2), lr_quats: x(3), lr_opacities: x(4),
            lr_sh_dc: x(5), lr_sh_rest: x(6), dssim_weight: given(8).then_some(numbers[8]),
            grow_gradient: x(9), clone_scale: x(10), prune_opacity: given(11).then_some(numbers[11]),
            prune_scale: x(12), prune_screen: x(13), noise: x(14), lr_exposure: x(15),
            lr_poses: x(17), scene_extent: x(18),
            initial_opacity: given(19).then_some(numbers[19].clamp(0.01, 0.99)), initial_scale: x(20),
            init_points: given(41).then(|| InitPoints::WORDS[wholes[6] as usize % 3].parse().unwrap()),
            keep_depth: given(42).then_some(wholes[7] % 2 == 0),
            density_from: given(21).then_some(numbers[21] * 0.4),
            ..TrainOptions::default()
        }
    }
}

proptest! {
    #[test]
    fn a_configuration_reads_back_from_its_config_toml_as_it_was(given in some_options()) {
        let run = recorded(TrainConfig::resolve(&given.without_ineffective(), None).unwrap());
        let text = run.to_toml();
        prop_assert_eq!(&RecordedRun::from_toml(&text, Path::new("config.toml")).unwrap(), &run);
        // The text of a run that is not a block is a valid config file, except for options without effect.
        let text = RecordedRun { record: RunRecord { block: None, ..run.record.clone() }, ..run.clone() }.to_toml();
        let options = TrainOptions::from_config_file(&text, Path::new("config.toml")).unwrap();
        let again = TrainConfig::resolve(&TrainOptions::default(), Some(&options)).unwrap().to_options();
        prop_assert_eq!(again.without_ineffective(), run.config.to_options().without_ineffective());
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}", key in 0usize..80, value in "\\PC{0,12}") {
        let _ = RecordedRun::from_toml(&text, Path::new("config.toml"));
        let keys: Vec<&str> = TrainOptions::keys().collect();
        let line = format!("data = 'x'\n{} = {value}\n", keys[key % keys.len()]);
        let _ = RecordedRun::from_toml(&line, Path::new("config.toml"));
    }
}
