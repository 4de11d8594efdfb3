//! Pictures of different exposure: measured on the points that they share, held during training, left alone where
//! there is nothing to correct.

mod common;

use std::path::Path;

use common::{cpu, ignore, options, resume, runs, splats_of, train, write_scene};
use gausset_core::engine::{Engine, GAIN_GROUP};
use gausset_core::image::RgbImage8;
use gausset_io::image::{decode_file, encode};
use gausset_train::{Colours, Exposure, RecordedRun, TrainOptions};

/// EV of the training pictures of the small scene: up to ±0.35, with a mean of 0.
fn ev(index: usize, count: usize) -> f64 {
    let turn = (index * 7 % count) as f64 / (count - 1) as f64;
    0.7 * turn - 0.35
}

/// The small demo scene, each training picture brighter or darker by its EV.
fn scene_of_many_exposures(folder: &Path) -> Vec<f64> {
    write_scene(&gausset_scenes::demo(gausset_scenes::DemoSize::Small, 0), folder);
    let mut pictures: Vec<_> =
        std::fs::read_dir(folder.join("images")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pictures.sort();
    let training: Vec<_> = pictures.iter().enumerate().filter(|(i, _)| i % 8 != 0).map(|(_, p)| p).collect();
    let count = training.len();
    for (i, path) in training.iter().enumerate() {
        let gain = libm::exp2(ev(i, count));
        let picture = decode_file(path).unwrap();
        let data = picture.rgb.iter().map(|&v| (f64::from(v) * gain).round().min(255.0) as u8).collect();
        let changed = RgbImage8 { width: picture.width, height: picture.height, data };
        std::fs::write(path, encode::png_rgb8(&changed).unwrap()).unwrap();
    }
    (0..count).map(|i| ev(i, count)).collect()
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
    assert_eq!(RecordedRun::read(&run.join("config.toml")).unwrap().colours(), Colours::GainsFromTracks);
    // Without a checkpoint the gains are measured again, to the same bytes.
    let whole = splats_of(&run);
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    std::fs::remove_file(run.join("splats.ply")).unwrap();
    resume(&TrainOptions::default(), &mut engine, &run, &mut ignore).unwrap();
    assert!(splats_of(&run) == whole);
    let state = engine.save().unwrap();
    let gains = state.extra(GAIN_GROUP).unwrap();
    let count = expected.len() as f64;
    assert_eq!(gains.clocks.len(), expected.len());
    for c in 0..3 {
        let found = |row: usize| f64::from(gains.row(row)[c]);
        assert!((0..expected.len()).map(found).sum::<f64>().abs() / count < 1e-7);
        let squares = expected.iter().enumerate();
        let squares = squares.map(|(row, ev)| (found(row) - ev * std::f64::consts::LN_2).powi(2));
        // Measured to 0.01 and then moved by two visits of 0.006: the run is short.
        assert!((squares.sum::<f64>() / count).sqrt() < 0.03);
    }
}

#[test]
fn where_pictures_agree_auto_is_off_to_the_byte() {
    let (folder, _) = runs();
    let data = folder.path().join("data");
    write_scene(&gausset_scenes::demo(gausset_scenes::DemoSize::Small, 0), &data);
    let splats = |exposure, name: &str| {
        let given = TrainOptions {
            data: Some(data.clone()),
            exposure: Some(exposure),
            max_splats: Some(2_000),
            ..options(20)
        };
        let run = folder.path().join(name);
        train(&given, &mut cpu(2), &run, &mut ignore).unwrap();
        (splats_of(&run), RecordedRun::read(&run.join("config.toml")).unwrap().colours())
    };
    let (auto, off) = (splats(Exposure::Auto, "auto"), splats(Exposure::Off, "off"));
    assert_eq!((auto.1, off.1), (Colours::None, Colours::None));
    assert!(auto.0 == off.0);
    assert_eq!(splats(Exposure::On, "on").1, Colours::GainsFromTracks);
}
