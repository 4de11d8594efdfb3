//! Refined poses are saved as a dataset that matches the saved splats.

use crate::common;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::common::{cpu, ignore, open, options, runs, tiny_dataset, train};
use gausset_core::engine::{
    CorrectionGroup, CorrectionKind, CorrectionRates, Engine, RenderOptions, TrainState, TrainView,
};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Pose, se3};
use gausset_io::dataset::{Dataset, Loader, LoaderOptions, OpenOptions};
use gausset_io::splat::{self, LoadOptions};
use gausset_train::{
    EvalOptions, MetricSet, RecordedRun, SceneFacts, Split, SsimDefinition, TrainConfig, TrainOptions, Up,
    evaluate, with_refined_poses,
};

fn open_at(data: &Path, open_options: &OpenOptions) -> Dataset {
    gausset_io::dataset::open(data, open_options).unwrap()
}

/// The tiny dataset as a `transforms.json` with links to its images.
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

/// Trains with pose refinement and opens the saved cameras with the original images.
fn refined(data: &Path, reopen: impl Fn(&Path) -> Dataset) {
    let (_folder, run) = runs();
    let given = TrainOptions {
        data: Some(data.to_owned()),
        refine_poses: Some(true),
        // A hundred times the usual rate, so that poses move visibly in few steps.
        lr_poses: Some(1e-3),
        up: Some(Up::X),
        ..options(150)
    };
    let mut engine = cpu(1);
    train(&given, &mut engine, &run, &mut ignore).unwrap();
    let state = engine.save().unwrap();
    let record = RecordedRun::read(&run.join("config.toml")).unwrap().record;
    let turn = record.saved_from_dataset();
    let (before, after) = (open(&TrainConfig::resolve(&given, None).unwrap()), reopen(&run.join("cameras")));
    assert_eq!(before.images.len(), after.images.len());
    let poses = state.correction_group(CorrectionKind::Pose).unwrap();
    for (index, (old, new)) in before.images.iter().zip(&after.images).enumerate() {
        assert_eq!(Path::new(&*old.name).file_name(), Path::new(&*new.name).file_name());
        let expected = match before.split.train.iter().position(|&i| i == index) {
            None => turn.apply_to_pose(&old.pose),
            Some(row) => {
                let twist: [f64; 6] = std::array::from_fn(|k| f64::from(poses.row(row)[k]));
                assert!(twist.iter().any(|v| v.abs() > 1e-5), "{twist:?}");
                let normalised =
                    record.normalisation.dataset_from_normalised().inverse().apply_to_pose(&old.pose);
                record.saved_from_normalised().apply_to_pose(&se3::exp(twist).compose(&normalised))
            }
        };
        assert!(difference(&expected, &new.pose) < 1e-9, "{}", old.name);
    }
    // With refined cameras the training views match their images better than with the original ones.
    let file = splat::load(&run.join("splats.ply"), &LoadOptions::default()).unwrap();
    engine.load(TrainState::new(file.splats, Vec::new())).unwrap();
    let mut psnr = |dataset: Arc<Dataset>, splats_from_dataset| {
        let loader = Loader::new(dataset, LoaderOptions::default());
        let options = EvalOptions {
            exposures: None,
            split: Split::Train,
            max_views: None,
            render: RenderOptions::default(),
            scene_splats: None,
            splats_from_dataset,
            reduction: 1,
            ssim: SsimDefinition::default(),
            measures: MetricSet::All,
            lpips: None,
        };
        evaluate(&mut engine, &loader, options, None, &AtomicBool::new(false)).unwrap().psnr.unwrap()
    };
    let (with_old, with_new) = (psnr(before, turn), psnr(Arc::new(after), Similarity::IDENTITY));
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

/// The tiny dataset as images of a rig of two cameras: views 2k and 2k + 1 were taken at the same time.
fn as_rig(folder: &Path) -> PathBuf {
    let data = folder.join("rig");
    common::copy_folder(tiny_dataset(), &data);
    let mut frames = 4u64.to_le_bytes().to_vec();
    for frame in 0..4u32 {
        frames.extend(frame.to_le_bytes());
        // The rig and its pose, which is not read: the poses of the images are in their own file.
        frames.extend(1u32.to_le_bytes());
        frames.extend([1.0f64, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0].iter().flat_map(|v| v.to_le_bytes()));
        frames.extend(2u32.to_le_bytes());
        for sensor in 0..2u32 {
            frames.extend(0i32.to_le_bytes());
            frames.extend(sensor.to_le_bytes());
            // Image ids count from 1.
            frames.extend(u64::from(2 * frame + sensor + 1).to_le_bytes());
        }
    }
    std::fs::write(data.join("sparse/0/frames.bin"), frames).unwrap();
    data
}

#[test]
fn pictures_of_one_moment_of_a_rig_share_one_correction() {
    let folder = tempfile::tempdir().unwrap();
    let given = TrainOptions {
        data: Some(as_rig(folder.path())),
        refine_poses: Some(true),
        lr_poses: Some(1e-3),
        ..options(40)
    };
    let (_folder, run) = runs();
    let mut engine = cpu(1);
    train(&given, &mut engine, &run, &mut ignore).unwrap();
    // Four rig frames of two images, one of them held out.
    assert_eq!(engine.save().unwrap().correction_group(CorrectionKind::Pose).unwrap().update_counts.len(), 3);

    // The relative poses of the cameras of a rig do not change.
    let recorded = RecordedRun::read(&run.join("config.toml")).unwrap();
    let before = open_at(given.data.as_ref().unwrap(), &recorded.config.open_options());
    let after = with_refined_poses(before.clone(), &run, &recorded).unwrap();
    let other_from_one = |dataset: &Dataset, one: usize| {
        dataset.images[one + 1].pose.compose(&dataset.images[one].pose.inverse())
    };
    for one in [0, 2, 6] {
        assert!(difference(&before.images[one].pose, &after.images[one].pose) > 1e-4, "{one} has moved");
        let [rigid, refined] = [&before, &after].map(|dataset| other_from_one(dataset, one));
        assert!(difference(&rigid, &refined) < 1e-9, "{one}");
    }
    // A held-out pose is never refined.
    assert_eq!(before.images[4].pose, after.images[4].pose);
}

#[test]
fn the_gradient_of_a_rig_is_that_of_its_camera_carried_over_by_the_adjoint() {
    let dataset = open_at(tiny_dataset(), &OpenOptions::default());
    let config = TrainConfig::resolve(&options(1), None).unwrap();
    let start = gausset_io::dataset::init::initial_splats(
        &dataset,
        &gausset_io::dataset::init::InitOptions {
            sh_degree: 0,
            opacity: 0.5,
            scale_factor: 1.0,
            random_count: 100,
            max_splats: 1000,
            seed: 0,
        },
    );
    let dataset = Arc::new(dataset);
    let loader = Loader::new(Arc::clone(&dataset), LoaderOptions::default());
    let image = &dataset.images[3];
    let camera_from_rig = image.pose.compose(&dataset.images[2].pose.inverse());
    let view = |camera_from_rig: Option<Pose>| TrainView {
        index: 3,
        downscale: 1,
        name: Arc::clone(&image.name),
        camera: image.camera,
        pose: image.pose,
        target: loader.get(3).unwrap(),
        exposure_row: None,
        vignetting_row: None,
        pose_row: Some(0),
        camera_from_rig,
    };
    let scene = SceneFacts { extent: 1.0, near_plane: 0.01, ..SceneFacts::default() };
    let mut params = config.recipe.step_params(0, &scene);
    params.noise = None;
    params.pose = Some(CorrectionRates { first: 1e-9, second: 1e-9, decay: 0.0 });
    // Loss and gradient of one step with a twist in the row of the view.
    let run = |view: &TrainView, twist: [f64; 6]| {
        let mut group = CorrectionGroup::new(CorrectionKind::Pose, 1);
        group.values = twist.map(|v| v as f32).to_vec();
        let mut engine = cpu(1);
        engine.load(TrainState::new(start.splats.clone(), vec![group])).unwrap();
        engine.step(std::slice::from_ref(view), &[], &params).unwrap();
        let loss = engine.flush().unwrap().last_loss;
        // After one step the first moment is a tenth of the gradient (beta1 = 0.9).
        let moments = engine.save().unwrap().corrections[0].m.clone();
        (loss, std::array::from_fn::<f64, 6, _>(|k| 10.0 * f64::from(moments[k])))
    };
    // A twist t of the rig moves the camera by the twist Ad t, so the gradient is transformed by Ad transposed. The
    // gradient of a camera is tested against the fixtures; loss differences of whole images are too noisy.
    let twist = [0.02, -0.01, 0.03, 0.01, 0.02, -0.015];
    let (rig_loss, rig_gradient) = run(&view(Some(camera_from_rig)), twist);
    let (loss, gradient) = run(&view(None), se3::adjoint(&camera_from_rig, twist));
    assert!((rig_loss / loss - 1.0).abs() < 1e-6, "{rig_loss} {loss}");
    let expected = se3::adjoint_transposed(&camera_from_rig, gradient);
    let largest = expected.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
    assert!(largest > 1e-3, "{expected:?}");
    for k in 0..6 {
        // The two twists are rounded to f32 in different axes, which moves the camera by some 1e-9.
        let error = (rig_gradient[k] - expected[k]).abs();
        assert!(error < 2e-5 * largest, "{k}: {rig_gradient:?} {expected:?}");
    }
    // Without the adjoint the two gradients differ clearly.
    assert!((0..6).any(|k| (rig_gradient[k] - gradient[k]).abs() > 0.05 * largest));
}
