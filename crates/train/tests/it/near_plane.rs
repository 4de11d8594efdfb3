//! The near plane follows from the points that the training images see, is recorded once, and is in the file of splats.

use std::path::Path;

use crate::common::{cpu, ignore, open, options, resume, runs, train};
use gausset_core::Pose;
use gausset_core::constants::{MIN_NEAR_PLANE, NEAR_PLANE};
use gausset_io::dataset::{Dataset, Point, Tracks};
use gausset_io::splat::{self, LoadOptions};
use gausset_train::near_plane::from_points;
use gausset_train::{NearPlane, RecordedRun, TrainConfig, TrainOptions};

fn tiny() -> Dataset {
    Dataset::clone(&open(&TrainConfig::resolve(&options(1), None).unwrap()))
}

/// All images at the origin, looking along z, and points at these depths.
fn with_depths(depths: &[f64]) -> Dataset {
    let mut data = tiny();
    data.images.iter_mut().for_each(|image| image.pose = Pose::IDENTITY);
    let point = |&z: &f64| Point { position: [0.1, -0.2, z], colour: [9; 3], error: 0.5, track_length: 3 };
    data.points = depths.iter().map(point).collect();
    data
}

fn recorded(run: &Path) -> RecordedRun {
    RecordedRun::read(&run.join("config.toml")).unwrap()
}

/// The near plane in the file of a run.
fn near_of_file(run: &Path) -> Option<f64> {
    splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap().near_plane
}

#[test]
fn it_is_a_fifth_of_the_nearest_points_that_the_training_images_see() {
    // 201 points at 2, 2.01 ... 4: the 1 % quantile is the third.
    let depths: Vec<f64> = (0..201).map(|i| 2.0 + 0.01 * f64::from(i)).collect();
    let mut data = with_depths(&depths);
    let all = |image: usize| (0..201).map(move |point| (image as u32, point));
    let (held_out, count) = (data.split.test[0], data.images.len());
    let train = data.split.train.clone();
    let tracks = Tracks::from_pairs(count, train.iter().flat_map(|&image| all(image)).collect());
    let near = from_points(&data, &tracks).unwrap();
    assert!((near - 0.404).abs() < 1e-12, "{near}");
    // The median over images: one that sees the far ones only does not count, nor does one that sees nothing.
    let some =
        train[2..].iter().flat_map(|&image| all(image)).chain((100..201).map(|p| (train[1] as u32, p)));
    assert_eq!(from_points(&data, &Tracks::from_pairs(count, some.collect())), Some(near));
    // Held-out images do not count.
    data.points[0].position[2] = 1e-3;
    let seen = all(held_out).collect();
    assert_eq!(from_points(&data, &Tracks::from_pairs(count, seen)), None);
    assert_eq!(from_points(&data, &Tracks::empty(count)), None);
}

#[test]
fn it_is_at_most_half_of_the_least_depth_and_scales_with_the_scene() {
    let mut depths = vec![5.0; 300];
    // A point behind the cameras is none that they see.
    depths[..2].copy_from_slice(&[0.3, -1.0]);
    for scale in [1.0, 1e-3, 1e4] {
        let depths: Vec<f64> = depths.iter().map(|depth| scale * depth).collect();
        let data = with_depths(&depths);
        let pairs = (0..300).map(|point| (data.split.train[0] as u32, point)).collect();
        let near = from_points(&data, &Tracks::from_pairs(data.images.len(), pairs)).unwrap();
        assert!((near / scale - 0.15).abs() < 1e-12, "{near}");
    }
    // What keeps it positive.
    let data = with_depths(&[1e-12]);
    let tracks = Tracks::from_pairs(data.images.len(), vec![(data.split.train[0] as u32, 0)]);
    assert_eq!(from_points(&data, &tracks), Some(MIN_NEAR_PLANE));
}

#[test]
fn a_run_records_what_auto_means_and_keeps_it() {
    let (_folder, run) = runs();
    train(&options(2), &mut cpu(1), &run, &mut ignore).unwrap();
    let data = tiny();
    let in_dataset = from_points(&data, &data.read_tracks(u64::MAX).unwrap()).unwrap();
    let found = recorded(&run);
    assert_eq!(found.config.recipe.near_plane, NearPlane::Auto);
    let expected = found.record.near_plane.unwrap();
    // Training finds it in normalised coordinates.
    assert!((expected / in_dataset - 1.0).abs() < 1e-12, "{expected} {in_dataset}");
    // Training steps draw from half of it, unless a distance is chosen.
    let in_training = [NearPlane::Auto, NearPlane::Distance(0.2)].map(|near| near.in_training(0.2));
    assert_eq!(in_training, [0.1, 0.2]);
    assert_eq!(NearPlane::Auto.in_training(MIN_NEAR_PLANE), MIN_NEAR_PLANE);
    assert!(expected != NEAR_PLANE && near_of_file(&run) == Some(expected), "{:?}", near_of_file(&run));
    // A resumed run takes the recorded one, whatever the points say.
    let config = run.join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let line = |near: f64| format!("\nnear-plane = {near}\n");
    assert!(text.contains(&line(expected)), "{text}");
    std::fs::write(&config, text.replace(&line(expected), &line(0.125))).unwrap();
    std::fs::remove_file(run.join("splats.ply")).unwrap();
    resume(&TrainOptions::default(), &mut cpu(1), &run, &mut ignore).unwrap();
    assert_eq!((recorded(&run).record.near_plane, near_of_file(&run)), (Some(0.125), Some(0.125)));
    // A damaged one is refused.
    std::fs::write(&config, text.replace(&line(expected), &line(-1.0))).unwrap();
    let refused = RecordedRun::read(&config).unwrap_err().to_string();
    assert!(refused.ends_with("run: near-plane: expected more than 0, found -1"), "{refused}");
    std::fs::write(&config, text.replace("\ncooldown = 0.9\n", "\ncooldown = 1.5\n")).unwrap();
    let refused = RecordedRun::read(&config).unwrap_err().to_string();
    assert!(refused.ends_with("run: cooldown: expected 0..1, found 1.5"), "{refused}");
}

#[test]
fn a_given_number_is_kept_and_a_run_of_an_older_version_has_its_own() {
    let (_folder, run) = runs();
    let given = TrainOptions { near_plane: Some(NearPlane::Distance(0.03)), ..options(2) };
    train(&given, &mut cpu(1), &run, &mut ignore).unwrap();
    let found = recorded(&run);
    assert_eq!(found.config.recipe.near_plane, NearPlane::Distance(0.03));
    assert_eq!((found.record.near_plane, near_of_file(&run)), (Some(0.03), Some(0.03)));
    // The default of earlier versions is that of files without a near plane.
    let plain = TrainOptions { near_plane: Some(NearPlane::Distance(NEAR_PLANE)), ..options(2) };
    let other = run.with_file_name("plain");
    train(&plain, &mut cpu(1), &other, &mut ignore).unwrap();
    assert_eq!(near_of_file(&other), None);

    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0.2/run/config.toml");
    let RecordedRun { config, record } = RecordedRun::read(&old).unwrap();
    assert_eq!((record.near_plane, config.recipe.near_plane.distance(record.near_plane)), (None, NEAR_PLANE));
}
