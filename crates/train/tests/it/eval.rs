//! Scores and images of an evaluation, and that training improves them.

use crate::common;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::common::{MockEngine, cpu, ignore, open, options, runs, tiny_dataset, train};
use gausset_core::engine::{Engine, RenderOptions, TrainState};
use gausset_core::se3::{IDENTITY3, Mat3};
use gausset_core::splats_transform::{Similarity, rotation_between};
use gausset_io::atomic::{Disk, Overwrite};
use gausset_io::dataset::{Loader, LoaderOptions};
use gausset_io::splat::{self, LoadOptions};
use gausset_train::cameras::dataset_cameras;
use gausset_train::orbit::{ImageShape, orbit_dataset};
use gausset_train::{
    EvalError, EvalOptions, EvalOutput, EvalReport, MetricSet, RecordedRun, Split, SsimDefinition, Strategy,
    TrainConfig, TrainOptions, Up, evaluate,
};

fn loader() -> Loader {
    let config = TrainConfig::resolve(&options(1), None).unwrap();
    Loader::new(open(&config), LoaderOptions::default())
}

fn eval_options(split: Split) -> EvalOptions {
    EvalOptions {
        split,
        max_views: None,
        render: RenderOptions::default(),
        exposures: None,
        scene_splats: None,
        splats_from_dataset: Similarity::IDENTITY,
        reduction: 1,
        ssim: SsimDefinition::default(),
        measures: MetricSet::All,
        lpips: None,
    }
}

fn eval(engine: &mut dyn Engine, options: &EvalOptions, to: Option<&Path>) -> EvalReport {
    let pictures = to.map(|folder| EvalOutput {
        fs: Arc::new(Disk),
        folder: folder.to_owned(),
        overwrite: Overwrite::Refuse,
    });
    evaluate(engine, &loader(), options.clone(), pictures, &AtomicBool::new(false)).unwrap()
}

#[test]
fn the_report_has_the_keys_that_scripts_read() {
    let report = eval(&mut MockEngine::default(), &eval_options(Split::Train), None);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((json["split"].as_str(), json["images"].as_u64()), (Some("train"), Some(7)));
    assert_eq!(json["valid_share"], 1.0);
    let records = json["per_image"].as_array().unwrap();
    assert_eq!(records.len(), 7);
    let scores = [
        "covisible_share",
        "haze",
        "lpips",
        "name",
        "psnr",
        "psnr_colour_corrected",
        "psnr_covisible",
        "scarce_share",
        "ssim",
        "ssim_colour_corrected",
    ];
    let keys: Vec<&String> = records[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, scores);
    assert!(scores.iter().all(|key| *key == "name" || json.get(key).is_some()), "{json}");
    assert_eq!(json["ssim_definition"], "gaussian11-zero");
    // The mock device draws nothing and reports no weight in front: no depth, no haze.
    assert_eq!((&json["covisible_share"], &json["psnr_covisible"]), (&0.0.into(), &serde_json::Value::Null));
    assert_eq!((&json["haze"], &records[0]["haze"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    let read: EvalReport = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(read, report);
    assert_eq!(records[0]["name"], "view_001.png");
    // The means are those of the records.
    let mean = records.iter().map(|r| r["psnr"].as_f64().unwrap()).sum::<f64>() / 7.0;
    assert!((json["psnr"].as_f64().unwrap() - mean).abs() < 1e-9);
}

#[test]
fn files_of_somebody_else_are_not_replaced_by_an_evaluation() {
    let folder = tempfile::tempdir().unwrap();
    for theirs in ["metrics.json", "contact_sheet.png", "0000_view_000.png"] {
        let to = folder.path().join(theirs.replace('.', "_"));
        std::fs::create_dir(&to).unwrap();
        std::fs::write(to.join(theirs), "mine").unwrap();
        let attempt = |overwrite| {
            let pictures = EvalOutput { fs: Arc::new(Disk), folder: to.clone(), overwrite };
            let options = eval_options(Split::Test);
            let stop = AtomicBool::new(false);
            evaluate(&mut MockEngine::default(), &loader(), options.clone(), Some(pictures), &stop)
        };
        let refusal = attempt(Overwrite::Refuse).unwrap_err().to_string();
        assert!(refusal.contains(&format!("{theirs}: output: exists already")), "{refusal}");
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1, "nothing was written before the refusal");
        assert_eq!(std::fs::read(to.join(theirs)).unwrap(), b"mine");
        attempt(Overwrite::Replace).unwrap();
        assert_ne!(std::fs::read(to.join(theirs)).unwrap(), b"mine");
    }
    // Files that an evaluation wrote into a new folder are replaced by the next one.
    let to = folder.path().join("own");
    for _ in 0..2 {
        eval(&mut MockEngine::default(), &eval_options(Split::Test), Some(&to));
    }
}

#[test]
fn pictures_of_every_view_and_a_contact_sheet_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("eval");
    let report = eval(&mut MockEngine::default(), &eval_options(Split::Test), Some(&to));
    let mut names: Vec<String> = std::fs::read_dir(&to)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".gausset", "0000_view_000.png", "contact_sheet.png", "metrics.json"]);
    let header = gausset_io::image::read_header(&to.join("0000_view_000.png")).unwrap();
    // Four images of 32x24 with three gaps of 4: the colours of a black render are corrected.
    assert_eq!((header.width, header.height), (4 * 32 + 12, 24));
    let written: serde_json::Value =
        serde_json::from_slice(&std::fs::read(to.join("metrics.json")).unwrap()).unwrap();
    assert_eq!(written, serde_json::to_value(&report).unwrap());
}

#[test]
fn a_picture_equal_to_its_truth_has_no_psnr_in_json() {
    // A black image of the dataset's size, rendered by a device that draws only the background.
    let folder = tempfile::tempdir().unwrap();
    common::copy_folder(tiny_dataset(), folder.path());
    let black = gausset_core::RgbImage8::new(32, 24);
    let png = gausset_io::image::encode::png_rgb8(&black).unwrap();
    std::fs::write(folder.path().join("images/view_000.png"), png).unwrap();
    let given = TrainOptions { data: Some(folder.path().to_owned()), ..options(1) };
    let config = TrainConfig::resolve(&given, None).unwrap();
    let loader = Loader::new(open(&config), LoaderOptions::default());
    let options = eval_options(Split::Test);
    let stop = AtomicBool::new(false);
    let report = evaluate(&mut MockEngine::default(), &loader, options.clone(), None, &stop).unwrap();
    assert_eq!((report.psnr, report.per_image[0].psnr), (None, None));
    assert!(serde_json::to_string(&report).unwrap().contains(r#""psnr":null"#));
    assert!((report.ssim.unwrap() - 1.0).abs() < 1e-6);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let stopped = evaluate(&mut MockEngine::default(), &loader, options.clone(), None, &stop);
    assert!(matches!(stopped, Err(EvalError::Stopped)));
}

#[test]
fn fog_before_a_camera_is_haze_and_what_it_hides_is_not_covisible() {
    let (_folder, run) = runs();
    // With so few images the presets split nothing either.
    let given = TrainOptions { max_splats: Some(3000), split_largest: Some(0.0), ..options(600) };
    train(&given, &mut cpu(1), &run, &mut ignore).unwrap();
    let record = RecordedRun::read(&run.join("config.toml")).unwrap().record;
    let splats = splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap().splats;
    let score = |splats, measures, threads| {
        let mut engine = cpu(threads);
        engine.load(TrainState::new(splats, Vec::new())).unwrap();
        let splats_from_dataset = record.saved_from_dataset();
        let options = EvalOptions { splats_from_dataset, measures, ..eval_options(Split::Test) };
        eval(&mut engine, &options, None)
    };
    let clear = score(splats.clone(), MetricSet::All, 1);
    assert_eq!(clear, score(splats.clone(), MetricSet::All, 2), "whatever the threads");
    let share = clear.scores.covisible_share.unwrap();
    let mut engine = cpu(1);
    engine.load(TrainState::new(splats.clone(), Vec::new())).unwrap();
    let options = EvalOptions {
        splats_from_dataset: record.saved_from_dataset(),
        reduction: 3,
        ..eval_options(Split::Test)
    };
    let small = eval(&mut engine, &options, None);
    // Errors of neighbouring pixels cancel; depth-based metrics stay the same.
    assert!(
        small.psnr > clear.psnr && small.scores.ssim_colour_corrected > clear.scores.ssim_colour_corrected
    );
    assert_eq!((small.scores.covisible_share, small.scores.haze), (Some(share), clear.scores.haze));
    assert_eq!((small.reduction, clear.reduction), (3, 1));
    let whole = EvalOptions { reduction: 10_000, ..options };
    let refused = evaluate(&mut engine, &loader(), whole, None, &AtomicBool::new(false)).unwrap_err();
    assert!(refused.to_string().contains("has no block of 10000x10000"), "{refused}");
    // Seven views around a scene in all directions are few: a part of an image is confirmed, and near splats remain.
    assert!(share > 0.1 && clear.scores.psnr_covisible.unwrap() > 9.0, "{:?}", clear.scores);
    assert!((0.0..0.8).contains(&clear.scores.haze.unwrap()), "{:?}", clear.scores);

    // A ball of fog between the held-out camera and the scene.
    let loader = loader();
    let dataset = loader.dataset();
    let view = &dataset.images[dataset.split.test[0]];
    let turn = record.saved_from_dataset();
    let from_camera = turn.apply_to_pose(&view.pose).inverse();
    let mut foggy = splats.clone();
    let place = from_camera.apply([0.0, 0.0, 0.3]).map(|v| v as f32);
    let sh = vec![0.0; foggy.sh_stride()];
    foggy.push(place, [-1.0; 3], [1.0, 0.0, 0.0, 0.0], 1.5, &sh);
    let fog = score(foggy, MetricSet::All, 1);
    let (before, after) = (clear.scores.haze.unwrap(), fog.scores.haze.unwrap());
    assert!(after > before + 0.2, "{before} {after}");
    assert!(fog.scores.covisible_share.unwrap() < 0.5 * share, "{:?}", fog.scores);

    // Splats in another unit have the same haze; only the near plane, in their unit, is another one.
    let eight = Similarity { scale: 8.0, ..Similarity::IDENTITY };
    let mut scaled = splats.clone();
    eight.apply_to_splats(&mut scaled);
    engine.load(TrainState::new(scaled, Vec::new())).unwrap();
    let render = RenderOptions::default();
    let options = EvalOptions {
        splats_from_dataset: turn.then(&eight),
        render: RenderOptions { near_plane: 8.0 * render.near_plane, ..render },
        ..eval_options(Split::Test)
    };
    let scaled = eval(&mut engine, &options, None).scores.haze.unwrap();
    assert!((scaled - before).abs() < 1e-3, "{scaled} {before}");

    // During training only the image metrics are measured.
    let quick = score(
        splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap().splats,
        MetricSet::ImageOnly,
        1,
    );
    assert_eq!((quick.scores.haze, quick.scores.covisible_share), (None, None));
    assert_eq!(quick.scores.psnr_colour_corrected, clear.scores.psnr_colour_corrected);
}

/// Trains a run and returns its own score, the score of its saved splats through rotated cameras, and the rotation.
fn scores(given: &TrainOptions) -> (f64, f64, Mat3) {
    let (_folder, run) = runs();
    let outcome = train(given, &mut cpu(1), &run, &mut ignore).unwrap();
    let record = RecordedRun::read(&run.join("config.toml")).unwrap().record;
    let file = splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap();
    let mut engine = cpu(1);
    engine.load(TrainState::new(file.splats, Vec::new())).unwrap();
    let options =
        EvalOptions { splats_from_dataset: record.saved_from_dataset(), ..eval_options(Split::Test) };
    let saved = eval(&mut engine, &options, None);
    (outcome.summary.psnr.unwrap(), saved.psnr.unwrap(), record.up_rotation)
}

#[test]
fn the_saved_splats_score_as_in_the_run_whichever_way_was_up() {
    // With view-dependent SH, so that their rotation matters.
    let given = TrainOptions { strategy: Some(Strategy::Classic), lr_sh_rest: Some(0.01), ..options(100) };
    for up in [Up::None, Up::Auto, Up::X] {
        let (in_run, saved, rotation) = scores(&TrainOptions { up: Some(up), ..given.clone() });
        assert_eq!(rotation == IDENTITY3, up == Up::None);
        // Rotation rounds to f32.
        assert!((in_run - saved).abs() < 1e-2, "{up}: {in_run} {saved}");
    }
}

#[test]
fn training_makes_held_out_views_better() {
    for strategy in [Strategy::Mcmc, Strategy::Classic] {
        let score = |steps| scores(&TrainOptions { strategy: Some(strategy), ..options(steps) }).0;
        let (before, after) = (score(1), score(300));
        assert!(after > before + 2.0, "{strategy}: {before} dB to {after} dB");
    }
}

#[test]
fn an_orbit_goes_around_what_the_cameras_look_at() {
    let dataset = open(&TrainConfig::resolve(&options(1), None).unwrap());
    let orbit = |turn: &Similarity, up| orbit_dataset(&dataset, 8, turn, up, &ImageShape::default()).unwrap();
    let around = orbit(&Similarity::IDENTITY, None);
    assert_eq!(around.len(), 8);
    let middle: [f64; 3] =
        std::array::from_fn(|k| around.iter().map(|c| c.pose.centre()[k]).sum::<f64>() / 8.0);
    let distance = |a: [f64; 3], b: [f64; 3]| (0..3).map(|k| (a[k] - b[k]).powi(2)).sum::<f64>().sqrt();
    let radius = distance(around[0].pose.centre(), middle);
    let training = dataset_cameras(&dataset, Split::Train, &Similarity::IDENTITY);
    assert_eq!(training.len(), 7);
    for camera in &around {
        let here = camera.pose.centre();
        assert!((distance(here, middle) - radius).abs() < 1e-9);
        // About as far out as the cameras of the dataset.
        let nearest = training.iter().map(|c| distance(c.pose.centre(), here)).fold(f64::MAX, f64::min);
        assert!(nearest < 1.5 * radius, "{nearest} {radius}");
    }
    // Half a circle later it is on the other side.
    assert!((distance(around[0].pose.centre(), around[4].pose.centre()) - 2.0 * radius).abs() < 1e-9);
    // Splats that lie on their side, as `convert` turns them, have an orbit that does.
    let turn = Similarity::from_rotation(rotation_between([0.0, 1.0, 0.0], [0.0, 0.0, 1.0]));
    for (camera, turned) in around.iter().zip(orbit(&turn, None)) {
        assert!(distance(turn.apply(camera.pose.centre()), turned.pose.centre()) < 1e-9);
    }
    // What the file says of up counts more.
    let upright = orbit(&turn, Some([0.0, 0.0, 3.0]));
    assert!(upright.iter().all(|c| (c.pose.centre()[2] - upright[0].pose.centre()[2]).abs() < 1e-9));
}
