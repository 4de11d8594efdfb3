//! Exposure compensation: gains are measured on shared points, kept in training, and off where the exposures agree.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use crate::common::{copy_folder, cpu, ignore, open, options, resume, runs, splats_of, train, write_scene};
use gausset_core::engine::{CorrectionKind, Engine, RenderOptions, TrainState};
use gausset_core::image::RgbImage8;
use gausset_io::dataset::{Loader, LoaderOptions};
use gausset_io::image::{decode_file, encode};
use gausset_io::run_folder::eval_folder;
use gausset_io::splat::{self, LoadOptions};
use gausset_train::eval::REPORT;
use gausset_train::{
    Colours, EvalOptions, EvalReport, Exposure, LearntGains, MetricSet, RecordedRun, Split, SsimDefinition,
    TrainOptions, evaluate,
};

/// EV of the training images of the small scene: up to ±0.35, with a mean of 0.
fn ev(index: usize, count: usize) -> f64 {
    let turn = (index * 7 % count) as f64 / (count - 1) as f64;
    0.7 * turn - 0.35
}

/// A copy of the small demo scene, which is drawn once. Returns its images, in order.
fn small_scene(folder: &Path) -> Vec<PathBuf> {
    static DRAWN: OnceLock<tempfile::TempDir> = OnceLock::new();
    let drawn = DRAWN.get_or_init(|| {
        let drawn = tempfile::tempdir().unwrap();
        write_scene(&gausset_scenes::demo(gausset_scenes::DemoSize::Small, 0), drawn.path());
        drawn
    });
    copy_folder(drawn.path(), folder);
    let mut pictures: Vec<_> =
        std::fs::read_dir(folder.join("images")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pictures.sort();
    pictures
}

/// Makes an image brighter by `ev` EV.
fn brighten(path: &Path, ev: f64) {
    let gain = libm::exp2(ev);
    let picture = decode_file(path).unwrap();
    let data = picture.rgb.iter().map(|&v| (f64::from(v) * gain).round().min(255.0) as u8).collect();
    let changed = RgbImage8 { width: picture.width, height: picture.height, data };
    std::fs::write(path, encode::png_rgb8(&changed).unwrap()).unwrap();
}

/// The small demo scene, with each training image brighter or darker by its EV.
fn scene_of_many_exposures(folder: &Path) -> Vec<f64> {
    let pictures = small_scene(folder);
    let training: Vec<_> = pictures.iter().enumerate().filter(|(i, _)| i % 8 != 0).map(|(_, p)| p).collect();
    let count = training.len();
    training.iter().enumerate().for_each(|(i, path)| brighten(path, ev(i, count)));
    (0..count).map(|i| ev(i, count)).collect()
}

/// EV of an image of a walk from shade into light and back.
fn ev_on_the_way(index: usize, count: usize) -> f64 {
    -0.5 * libm::cos(std::f64::consts::TAU * index as f64 / count as f64)
}

#[test]
fn a_held_out_picture_is_rendered_with_the_exposure_of_those_before_and_after_it() {
    let (folder, run) = runs();
    let data = folder.path().join("data");
    let pictures = small_scene(&data);
    pictures.iter().enumerate().for_each(|(i, path)| brighten(path, ev_on_the_way(i, pictures.len())));
    let given = TrainOptions {
        data: Some(data),
        exposure: Some(Exposure::Auto),
        max_splats: Some(2_000),
        ..options(200)
    };
    let mut engine = cpu(2);
    train(&given, &mut engine, &run, &mut ignore).unwrap();

    let recorded = RecordedRun::read(&run.join("config.toml")).unwrap();
    let dataset = open(&recorded.config);
    let gains = LearntGains::read(&run).unwrap().expect("the run has written its gains");
    let exposures = gains.exposures(&dataset);
    let all =
        (0..pictures.len()).map(|i| ev_on_the_way(i, pictures.len())).sum::<f64>() / pictures.len() as f64;
    for &index in &dataset.split.test {
        let expected = (ev_on_the_way(index, pictures.len()) - all) * std::f64::consts::LN_2;
        for gain in exposures.log_gain(index).unwrap() {
            // Between its neighbours on a curve, plus the change of the gains in training; without interpolation up to
            // 0.35.
            assert!((f64::from(gain) - expected).abs() < 0.06, "{index}: {gain} instead of {expected}");
        }
    }

    // The run scored the images in this way, and its files give the same result.
    let report = std::fs::read_to_string(eval_folder(&run).join(REPORT)).unwrap();
    let report: EvalReport = serde_json::from_str(&report).unwrap();
    assert_eq!(report.exposed, dataset.split.test.len() as u64);
    let file = splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap();
    engine.load(TrainState::new(file.splats, Vec::new())).unwrap();
    let loader = Loader::new(dataset, LoaderOptions::default());
    let mut score = |exposures| {
        let options = EvalOptions {
            split: Split::Test,
            max_views: None,
            render: RenderOptions::default(),
            scene_splats: None,
            exposures,
            splats_from_dataset: recorded.record.saved_from_dataset(),
            reduction: 1,
            ssim: SsimDefinition::default(),
            measures: MetricSet::ImageOnly,
            lpips: None,
        };
        evaluate(&mut engine, &loader, options, None, &AtomicBool::new(false)).unwrap()
    };
    let (exposed, plain) = (score(Some(exposures)), score(None));
    assert!((exposed.psnr.unwrap() - report.psnr.unwrap()).abs() < 0.01);
    assert!(exposed.psnr.unwrap() > plain.psnr.unwrap() + 1.0, "{:?} {:?}", exposed.psnr, plain.psnr);
    assert_eq!(plain.exposed, 0);
}

/// Darkens the corners of an image to half.
fn darken_corners(path: &Path) {
    let picture = decode_file(path).unwrap();
    let [w, h] = [picture.width, picture.height].map(f64::from);
    let darkened = picture.rgb.iter().enumerate().map(|(at, &value)| {
        let (x, y) = (at / 3 % picture.width as usize, at / 3 / picture.width as usize);
        let [dx, dy] = [x as f64 + 0.5 - 0.5 * w, y as f64 + 0.5 - 0.5 * h];
        (f64::from(value) * (1.0 - 0.5 * (dx * dx + dy * dy) * 4.0 / (w * w + h * h))).round() as u8
    });
    let changed = RgbImage8 { width: picture.width, height: picture.height, data: darkened.collect() };
    std::fs::write(path, encode::png_rgb8(&changed).unwrap()).unwrap();
}

#[test]
fn scores_apply_the_vignetting_that_was_learnt() {
    let (folder, _) = runs();
    let data = folder.path().join("data");
    small_scene(&data).iter().for_each(|path| darken_corners(path));
    let psnr = |vignetting: bool| {
        let run = folder.path().join(if vignetting { "with" } else { "without" });
        let given = TrainOptions {
            data: Some(data.clone()),
            vignetting: Some(vignetting),
            max_splats: Some(2_000),
            ..options(200)
        };
        train(&given, &mut cpu(2), &run, &mut ignore).unwrap();
        let report = std::fs::read_to_string(eval_folder(&run).join(REPORT)).unwrap();
        let report: EvalReport = serde_json::from_str(&report).unwrap();
        assert_eq!(report.exposed, 0, "no gains");
        (LearntGains::read(&run).unwrap(), report.psnr.unwrap())
    };
    let ((learnt, with), (none, without)) = (psnr(true), psnr(false));
    assert!(with > without, "{with} {without}");
    assert!(learnt.is_some() && none.is_none());
}

#[test]
fn a_file_that_holds_no_gains_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gains.json");
    assert_eq!(LearntGains::read(folder.path()).unwrap(), None);
    for (text, told) in [
        ("{", "EOF"),
        (r#"{"gains": [{"name": "a", "log_gain": [0, 1]}]}"#, "invalid length 2"),
        (r#"{"gains": [{"name": "a", "log_gain": [0, 1, 1e30]}]}"#, "a: log_gain: expected three numbers"),
        (
            r#"{"gains": [], "vignetting": [{"camera": 3, "coefficients": [0, 90, 0]}]}"#,
            "camera 3: coefficients: expected three numbers",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = LearntGains::read(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()) && error.contains(told), "{error}");
    }
}

#[test]
fn gains_are_those_of_the_pictures_and_stay_there_in_training() {
    let (folder, run) = runs();
    let data = folder.path().join("data");
    let expected = scene_of_many_exposures(&data);
    let exposure = Some(Exposure::Auto);
    let given = TrainOptions { data: Some(data), exposure, max_splats: Some(2_000), ..options(120) };
    let mut engine = cpu(2);
    train(&given, &mut engine, &run, &mut ignore).unwrap();
    assert_eq!(RecordedRun::read(&run.join("config.toml")).unwrap().record.colours, Colours::GainsFromTracks);
    // Without a checkpoint the gains are measured again, to the same bytes.
    let whole = splats_of(&run);
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    std::fs::remove_file(run.join("splats.ply")).unwrap();
    resume(&TrainOptions::default(), &mut engine, &run, &mut ignore).unwrap();
    assert!(splats_of(&run) == whole);
    let state = engine.save().unwrap();
    let gains = state.correction_group(CorrectionKind::Gain).unwrap();
    let count = expected.len() as f64;
    assert_eq!(gains.update_counts.len(), expected.len());
    for c in 0..3 {
        let found = |row: usize| f64::from(gains.row(row)[c]);
        assert!((0..expected.len()).map(found).sum::<f64>().abs() / count < 1e-7);
        let squares = expected.iter().enumerate();
        let squares = squares.map(|(row, ev)| (found(row) - ev * std::f64::consts::LN_2).powi(2));
        // Measured to 0.01 and then changed by two visits of 0.006: the run is short.
        assert!((squares.sum::<f64>() / count).sqrt() < 0.03);
    }
}

#[test]
fn where_pictures_agree_auto_is_off_to_the_byte() {
    let (folder, _) = runs();
    let data = folder.path().join("data");
    small_scene(&data);
    let splats = |exposure, name: &str| {
        let given = TrainOptions {
            data: Some(data.clone()),
            exposure: Some(exposure),
            max_splats: Some(2_000),
            ..options(20)
        };
        let run = folder.path().join(name);
        train(&given, &mut cpu(2), &run, &mut ignore).unwrap();
        (splats_of(&run), RecordedRun::read(&run.join("config.toml")).unwrap().record.colours)
    };
    let (auto, off) = (splats(Exposure::Auto, "auto"), splats(Exposure::Off, "off"));
    assert_eq!((auto.1, off.1), (Colours::None, Colours::None));
    assert!(auto.0 == off.0);
    assert_eq!(splats(Exposure::On, "on").1, Colours::GainsFromTracks);
}
