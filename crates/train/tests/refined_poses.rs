//! Poses that are refined are saved as a dataset that fits the saved splats.

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use common::{cpu, ignore, open, options, runs, tiny_dataset, train};
use gausset_core::engine::{Engine, RenderOptions, TrainState};
use gausset_core::se3::IDENTITY3;
use gausset_core::splats_transform::Similarity;
use gausset_core::{Pose, se3};
use gausset_io::dataset::{Dataset, Loader, LoaderOptions, OpenOptions};
use gausset_io::splat::read_splats;
use gausset_train::{EvalOptions, RecordedRun, Split, TrainConfig, TrainOptions, Up, evaluate};

fn open_at(data: &Path, open_options: &OpenOptions) -> Dataset {
    gausset_io::dataset::open(data, open_options).unwrap()
}

/// The tiny dataset as a `transforms.json` beside links to its pictures.
fn as_transforms(folder: &Path) -> PathBuf {
    let dataset = open_at(tiny_dataset(), &OpenOptions::default());
    common::copy_folder(&tiny_dataset().join("images"), &folder.join("images"));
    let frames: Vec<serde_json::Value> = dataset
        .images
        .iter()
        .map(|image| {
            let (r, c) = (image.pose.rotation, image.pose.centre());
            let row = |k: usize| [r[0][k], -r[1][k], -r[2][k], c[k]];
            let matrix = [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]];
            serde_json::json!({"file_path": format!("images/{}", image.name), "transform_matrix": matrix})
        })
        .collect();
    let camera = dataset.images[0].camera;
    let file = serde_json::json!({
        "fl_x": camera.fx, "fl_y": camera.fy, "cx": camera.cx, "cy": camera.cy, "w": 32, "h": 24, "frames": frames
    });
    let path = folder.join("transforms.json");
    std::fs::write(&path, file.to_string()).unwrap();
    path
}

fn difference(a: &Pose, b: &Pose) -> f64 {
    let apart = a.compose(&b.inverse());
    se3::norm(apart.translation)
        + se3::orthonormality_error(&apart.rotation)
        + (0..3).map(|k| (apart.rotation[k][k] - 1.0).abs()).sum::<f64>()
}

/// Trains with refinement and opens what was saved, with the pictures of the data.
fn refined(data: &Path, reopen: impl Fn(&Path) -> Dataset) {
    let (_folder, run) = runs();
    let given = TrainOptions {
        data: Some(data.to_owned()),
        refine_poses: Some(true),
        // A hundred times the usual rate: poses should move visibly in few steps.
        lr_poses: Some(1e-3),
        up: Some(Up::X),
        ..options(150)
    };
    let mut engine = cpu(1);
    train(&given, &mut engine, &run, &mut ignore).unwrap();
    let state = engine.save().unwrap();
    let record = RecordedRun::read(&run.join("config.toml")).unwrap().record;
    let turn = Similarity::from_rotation(record.up_rotation);
    let (before, after) = (open(&TrainConfig::resolve(&given, None).unwrap()), reopen(&run.join("cameras")));
    assert_eq!(before.images.len(), after.images.len());
    let poses = state.extra("pose").unwrap();
    for (index, (old, new)) in before.images.iter().zip(&after.images).enumerate() {
        assert_eq!(Path::new(&*old.name).file_name(), Path::new(&*new.name).file_name());
        let expected = match before.split.train.iter().position(|&i| i == index) {
            None => turn.apply_to_pose(&old.pose),
            Some(row) => {
                let twist: [f64; 6] = std::array::from_fn(|k| f64::from(poses.row(row)[k]));
                assert!(twist.iter().any(|v| v.abs() > 1e-5), "{twist:?}");
                turn.apply_to_pose(&se3::exp(twist).compose(&old.pose))
            }
        };
        assert!(difference(&expected, &new.pose) < 1e-9, "{}", old.name);
    }
    // With their refined cameras the training views look more like their pictures than with the old ones.
    let file = read_splats(&run.join("splats.ply")).unwrap();
    engine.load(TrainState::new(file.splats, Vec::new())).unwrap();
    let mut psnr = |dataset: Arc<Dataset>, splats_from_dataset| {
        let loader = Loader::new(dataset, LoaderOptions::default());
        let options = EvalOptions {
            split: Split::Train,
            render: RenderOptions::default(),
            splats_from_dataset,
            colour_corrected: false,
        };
        evaluate(&mut engine, &loader, &options, None, &AtomicBool::new(false)).unwrap().psnr.unwrap()
    };
    let (with_old, with_new) = (psnr(before, record.up_rotation), psnr(Arc::new(after), IDENTITY3));
    assert!(with_new > with_old, "{with_old} dB to {with_new} dB");
}

#[test]
fn of_a_colmap_model_as_a_colmap_model() {
    refined(tiny_dataset(), |cameras| {
        let options = OpenOptions { sparse: Some(cameras.to_owned()), ..OpenOptions::default() };
        open_at(tiny_dataset(), &options)
    });
}

#[test]
fn of_a_transforms_file_as_a_transforms_file() {
    let folder = tempfile::tempdir().unwrap();
    let data = as_transforms(folder.path());
    refined(&data, |cameras| {
        let options = OpenOptions { images: Some(folder.path().to_owned()), ..OpenOptions::default() };
        open_at(&cameras.join("transforms.json"), &options)
    });
}
