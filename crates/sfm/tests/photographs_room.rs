//! Photographs of the procedural room, whose poses and lens are known: from files to a model, without another program.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_compute::Pool;
use gausset_core::Pose;
use gausset_core::matrix::{cross, unit};
use gausset_io::dataset::CameraModel;
use gausset_io::image::encode::png_rgb8;
use gausset_scenes::room::Room;
use gausset_sfm::align::{AlignJob, CameraSharing};
use gausset_sfm::compare::compare;
use gausset_sfm::model::{CheckedModel, FrameImages};
use gausset_sfm::reconstruction::PictureCamera;
use gausset_sfm::reprojection::errors_at_centre_and_corners;
use gausset_sfm::{AlignError, AlignmentTool, Mapper, PairChoice};

const COUNT: usize = 10;
const CAMERA: PictureCamera = PictureCamera {
    width: 400,
    height: 300,
    model: CameraModel::SimpleRadial,
    focal: 330.0,
    aspect: 1.0,
    distortion: [-0.06, 0.0, 0.0, 0.0],
};

/// From a side of the room, past the pillars to the other.
fn pose(k: usize) -> Pose {
    let along = 2.0 * k as f64 / (COUNT - 1) as f64 - 1.0;
    let centre = [1.8 * along, if k.is_multiple_of(2) { 0.3 } else { -0.4 }, -3.2 + 0.4 * along * along];
    let forward = unit([0.5 * along - centre[0], -centre[1], 2.0 - centre[2]]);
    let right = unit(cross([0.0, 1.0, 0.0], forward));
    let rotation = [right, cross(forward, right), forward];
    let translation = rotation.map(|row| -(0..3).map(|i| row[i] * centre[i]).sum::<f64>());
    Pose { rotation, translation }
}

fn job(folder: &Path) -> AlignJob {
    let frame = |k: usize| FrameImages { name: format!("{k}.png"), images: vec![format!("{k}.png")] };
    AlignJob {
        image_folder: folder.to_owned(),
        masks: BTreeMap::new(),
        invert_masks: false,
        metadata: BTreeMap::new(),
        frames: (0..COUNT).map(frame).collect(),
        rig_config: None,
        views: Vec::new(),
        camera_model: "SIMPLE_RADIAL".to_owned(),
        camera_params: None,
        cameras: CameraSharing::Auto,
        max_image_size: 2400,
        pairs: PairChoice::Auto,
        is_sequence: false,
        ground_positions: Vec::new(),
        known_poses: None,
        refine_known_poses: false,
        priors: Vec::new(),
        imported_matches: None,
        keep_work_folder: false,
        mapper: Mapper::default(),
        work_folder: folder.join("work"),
        threads: 2,
        seed: 0,
        silence_limit: Duration::from_secs(60),
    }
}

/// Renders the photographs of the room by a camera.
fn write_photographs(folder: &Path, camera: &PictureCamera) {
    let pool = Pool::new(2);
    for k in 0..COUNT {
        let ray = |x: f64, y: f64| camera.bearing([x, y]);
        let size = [camera.width, camera.height];
        let picture = Room::FOR_REGISTRATION.picture(size, &pose(k), &pool, &ray);
        std::fs::write(folder.join(format!("{k}.png")), png_rgb8(&picture).unwrap()).unwrap();
    }
}

/// About 150 degrees wide.
#[test]
fn photographs_by_a_fisheye_lens_need_its_model_and_another_is_seen_by_its_errors() {
    let lens = PictureCamera {
        model: CameraModel::OpenCvFisheye,
        focal: 150.0,
        distortion: [0.03, -0.01, 0.0, 0.0],
        ..CAMERA
    };
    let folder = tempfile::tempdir().unwrap();
    write_photographs(folder.path(), &lens);
    let align = |model: CameraModel| {
        let job = AlignJob { camera_model: model.name().to_owned(), ..job(folder.path()) };
        gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &AtomicBool::new(false), &mut |_| {}).unwrap().model
    };
    let growth = |model: &CheckedModel| {
        let [centre, corners] = errors_at_centre_and_corners(&model.colmap).unwrap();
        corners / centre
    };
    let found = align(CameraModel::OpenCvFisheye);
    assert_eq!(found.image_of_frame.len(), COUNT, "registered");
    let pairs: Vec<(Pose, Pose)> =
        found.image_of_frame.iter().map(|(&k, &image)| (found.pose(image), pose(k))).collect();
    let errors = compare(&pairs, &(0..COUNT as u32).collect::<Vec<_>>()).unwrap();
    assert!(errors.rotation.worst < 0.3, "{:?}", errors.rotation);
    assert!(
        (found.colmap.cameras[0].params[0] / lens.focal - 1.0).abs() < 0.03,
        "{:?}",
        found.colmap.cameras
    );
    assert!(growth(&found) < 1.4, "{}", growth(&found));
    let wrong = growth(&align(CameraModel::SimpleRadial));
    assert!(wrong > 1.8, "{wrong}");
}

#[test]
fn a_list_of_pairs_within_two_halves_gives_two_components() {
    let folder = tempfile::tempdir().unwrap();
    write_photographs(folder.path(), &CAMERA);
    // The first six and the last four, which overlap: all ten register where the aligner chooses the pairs.
    let part = |k: usize| usize::from(k >= 6);
    let all = (0..COUNT).flat_map(|a| (a + 1..COUNT).map(move |b| [a, b]));
    let listed: Vec<[usize; 2]> = all.filter(|&[a, b]| part(a) == part(b)).collect();
    let job = AlignJob { pairs: PairChoice::Listed(listed), ..job(folder.path()) };
    let (go, mut matched) = (AtomicBool::new(false), 0);
    let aligned = gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &go, &mut |progress| {
        matched += usize::from(progress.stage == "matching");
    });
    let aligned = aligned.unwrap();
    assert_eq!(matched, 6 * 5 / 2 + 4 * 3 / 2);
    assert!(aligned.model.image_of_frame.keys().copied().eq(0..6), "{:?}", aligned.model.image_of_frame);
    for (k, facts) in aligned.frames.iter().enumerate() {
        assert_eq!(facts.tried, Some([5, 3][part(k)]), "{k}");
        let partners = facts.partners.as_ref().unwrap();
        assert!(!partners.is_empty() && partners.iter().all(|&b| part(b) == part(k)), "{k}: {partners:?}");
    }
}

#[test]
fn photographs_give_poses_focal_length_and_distortion_without_another_program() {
    let folder = tempfile::tempdir().unwrap();
    write_photographs(folder.path(), &CAMERA);
    let job = job(folder.path());
    let go = AtomicBool::new(false);
    let aligned = gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &go, &mut |_| {}).unwrap();
    for (k, facts) in aligned.frames.iter().enumerate() {
        let partners = facts.partners.as_ref().unwrap();
        assert!(facts.features.unwrap() > 100 && !partners.contains(&k), "{k}: {facts:?}");
        assert!(partners.iter().any(|&other| other.abs_diff(k) == 1), "{k}: {facts:?}");
    }
    assert_eq!(aligned.frames.len(), COUNT);
    let found = aligned.model;
    assert_eq!(found.image_of_frame.len(), COUNT, "registered");
    let pairs: Vec<(Pose, Pose)> =
        found.image_of_frame.iter().map(|(&k, &image)| (found.pose(image), pose(k))).collect();
    let moments: Vec<u32> = (0..COUNT as u32).collect();
    let errors = compare(&pairs, &moments).unwrap();
    assert!(errors.rotation.worst < 0.3, "{:?}", errors.rotation);
    assert!(errors.centre.worst < 0.03, "{:?}", errors.centre);
    let camera = &found.colmap.cameras[0];
    assert!((camera.params[0] / CAMERA.focal - 1.0).abs() < 0.01, "{camera:?}");
    assert!((camera.params[3] - CAMERA.distortion[0]).abs() < 0.01, "{camera:?}");
    assert!(found.mean_reprojection_error() < 0.5, "{}", found.mean_reprojection_error());

    assert!(!job.work_folder.exists(), "removed after success");

    // Stopped while pictures are matched: the next alignment reads the features instead of finding them again, as the
    // times of their files show. Stopped after that, it matches no pair again, and ends with the same model.
    let stop = AtomicBool::new(false);
    let stopped = gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &stop, &mut |progress| {
        stop.fetch_or(progress.stage == "matching", std::sync::atomic::Ordering::Relaxed);
    });
    assert!(matches!(stopped, Err(AlignError::Stopped)), "{stopped:?}");
    let file = |k: usize| job.work_folder.join(format!("features/{k}.bin"));
    let written = |k: usize| std::fs::metadata(file(k)).unwrap().modified().unwrap();
    let times: Vec<_> = (0..COUNT).map(written).collect();
    let damaged = 3;
    std::fs::write(file(damaged), b"no features").unwrap();
    let (stop, mut again) = (AtomicBool::new(false), Vec::new());
    let stopped = gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &stop, &mut |progress| {
        if progress.stage == "matching" {
            again = (0..COUNT).filter(|&k| written(k) != times[k]).collect();
        }
        stop.fetch_or(progress.stage == "mapping", std::sync::atomic::Ordering::Relaxed);
    });
    assert!(matches!(stopped, Err(AlignError::Stopped)), "{stopped:?}");
    assert_eq!(again, [damaged], "only the damaged file is made again");
    let mut matched = 0;
    let resumed = gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &go, &mut |progress| {
        matched += usize::from(progress.stage == "matching");
    });
    let resumed = resumed.unwrap().model;
    assert_eq!(matched, 0, "pairs matched again");
    let bytes = |model: &CheckedModel| format!("{:?}", model.colmap);
    assert!(bytes(&resumed) == bytes(&found), "the same model");
    assert!(!job.work_folder.exists(), "removed after success");

    // More photographs or pairs than memory is sure to hold.
    let many = |count: usize, pairs| {
        let frames = (0..count).map(|k| job.frames[k % COUNT].clone()).collect();
        let job = AlignJob { frames, pairs, ..job.clone() };
        gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &AtomicBool::new(true), &mut |_| {}).unwrap_err()
    };
    assert!(matches!(many(2500, PairChoice::Auto), AlignError::Stopped));
    assert!(matches!(many(2501, PairChoice::Auto), AlignError::TooManyFrames { limit: 2500, .. }));
    assert!(matches!(many(1000, PairChoice::All), AlignError::Stopped));
    let refused = many(1001, PairChoice::All).to_string();
    assert!(refused.contains("500500 pairs are too many") && refused.contains("500000"), "{refused}");
    let listed = PairChoice::Listed(vec![[0, 1]; 500_001]);
    assert!(matches!(many(1001, listed), AlignError::TooManyPairs { pairs: 500_001, .. }));

    // Errors of the job, before and during the work.
    let unknown = AlignJob { camera_model: "FULL_OPENCV".to_owned(), ..job.clone() };
    let refused = gausset_sfm::align(&unknown, &AlignmentTool::BuiltIn, &go, &mut |_| {});
    assert!(matches!(refused, Err(AlignError::CameraModel { .. })), "{refused:?}");
    let stopped = gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &AtomicBool::new(true), &mut |_| {});
    assert!(matches!(stopped, Err(AlignError::Stopped)), "{stopped:?}");
    std::fs::write(folder.path().join("4.png"), b"no picture").unwrap();
    let broken = gausset_sfm::align(&job, &AlignmentTool::BuiltIn, &go, &mut |_| {});
    assert!(matches!(broken, Err(AlignError::Image(_))), "{broken:?}");
}
