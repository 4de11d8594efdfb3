//! What the training views confirm, and how wrong everything else is.

use std::sync::atomic::AtomicBool;

use crate::common::{cpu, ignore, open, options, runs, train};
use gausset_compute::Pool;
use gausset_core::engine::{Engine, Outputs, RenderOptions, TrainState};
use gausset_io::splat::{self, LoadOptions};
use gausset_train::{Confidence, ConfidenceReport, DepthMaps, RecordedRun, TrainConfig, TrainOptions};

/// Colour errors of the pixels of each class, RMS over the channels.
#[derive(Default)]
struct Errors {
    confirmed: Vec<f64>,
    seen: Vec<f64>,
    invented: Vec<f64>,
}

#[test]
#[allow(clippy::print_stdout, reason = "the figures of docs/reference/quality.md")]
fn what_is_invented_is_wrong_and_what_is_confirmed_is_right() {
    let (folder, run) = runs();
    let pool = Pool::new(2);
    let whole = gausset_scenes::demo(gausset_scenes::DemoSize::Small, 0);
    // Each ring has 20 cameras; a third of the way round is photographed.
    let is_photographed = |k: usize| k % 20 < 8;
    let poses = |photographed| {
        let all = whole.poses.iter().enumerate();
        all.filter(move |(k, _)| is_photographed(*k) == photographed)
            .map(|(_, pose)| *pose)
            .collect::<Vec<_>>()
    };
    let part = gausset_scenes::ProceduralScene { poses: poses(true), ..whole.clone() };
    let data = folder.path().join("part");
    gausset_scenes::write_dataset(&part, &data, &pool, &mut |_, _| {}).unwrap();
    let given = TrainOptions {
        data: Some(data),
        max_splats: Some(10_000),
        test_every: Some(0),
        background: None,
        init_points: None,
        ..options(700)
    };
    let outcome = train(&given, &mut cpu(2), &run, &mut ignore).unwrap();
    let confirmed = outcome.summary.trust.confirmed_share.unwrap();
    let report = std::fs::read(run.join("confidence.json")).unwrap();
    let report: ConfidenceReport = serde_json::from_slice(&report).unwrap();
    assert_eq!(report.confirmed, confirmed);
    assert!(confirmed > 0.7 && report.map.cells.len() > 200, "{confirmed}");
    assert!((report.confirmed + report.seen + report.invented - 1.0).abs() < 1e-9);
    assert_eq!(report.map.cameras.len(), part.poses.len());

    let config = TrainConfig::resolve(&given, None).unwrap();
    let file = splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap();
    let turn = RecordedRun::read(&run.join("config.toml")).unwrap().record.saved_from_dataset();
    let mut engine = cpu(2);
    let scene = file.scene_len() as u32;
    engine.load(TrainState::new(file.splats, Vec::new())).unwrap();
    let render = RenderOptions::default();
    let surfaces = RenderOptions { splat_limit: Some(scene), ..render };
    let mut maps = DepthMaps::new(open(&config), turn, &surfaces);
    let mut errors = Errors::default();
    for pose in poses(false) {
        let truth = whole.render(&whole.camera, &pose, &pool);
        let view = turn.apply_to_pose(&pose);
        let rendering = engine.render(&whole.camera, &view, &render, Outputs::All).unwrap();
        let depths = engine.render(&whole.camera, &view, &surfaces, Outputs::All).unwrap();
        let stop = AtomicBool::new(false);
        let known = maps.confidence(&mut engine, &pool, (&whole.camera, &view), &depths, &stop).unwrap();
        for (i, known) in known.iter().enumerate() {
            let squares = (3 * i..3 * i + 3).map(|k| {
                (f64::from(rendering.color[k].clamp(0.0, 1.0)) - f64::from(truth.data[k]) / 255.0).powi(2)
            });
            let error = (squares.sum::<f64>() / 3.0).sqrt();
            match known {
                Some(Confidence::Confirmed) => errors.confirmed.push(error),
                Some(Confidence::Seen) => errors.seen.push(error),
                Some(Confidence::Invented) => errors.invented.push(error),
                None => {}
            }
        }
    }
    let rms = |errors: &[f64]| (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
    let sd = rms(&errors.confirmed);
    let wrong =
        |errors: &[f64]| errors.iter().filter(|e| **e > 3.0 * sd).count() as f64 / errors.len() as f64;
    let [confirmed, invented] = [&errors.confirmed, &errors.invented].map(|errors| wrong(errors));
    println!(
        "beyond 3 sd: {:.1} % of {} confirmed pixels, {:.1} % of {} invented ones; RMS {:.4}, {:.4}; seen {:.4}",
        100.0 * confirmed,
        errors.confirmed.len(),
        100.0 * invented,
        errors.invented.len(),
        sd,
        rms(&errors.invented),
        rms(&errors.seen)
    );
    assert!(errors.confirmed.len() > 5000 && errors.invented.len() > 50_000);
    assert!(confirmed < 0.05 && invented > 0.55, "{confirmed} {invented}");
    assert!(rms(&errors.seen) > 3.0 * sd && rms(&errors.invented) > rms(&errors.seen));
}
