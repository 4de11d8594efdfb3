//! Pictures of cameras with unknown focal length and distortion, from features to poses: points before and behind a
//! subject, each with its own descriptor, seen with noise; a fifth of the features are seen only once.

use std::sync::atomic::AtomicBool;

use gausset_compute::rng::{philox4x32, uniform_f64};
use gausset_compute::{Exec, Pool};
use gausset_core::Pose;
use gausset_core::matrix::{cross, unit};
use gausset_io::dataset::CameraModel;
use gausset_sfm::PairChoice;
use gausset_sfm::compare::compare;
use gausset_sfm::reconstruction::features::{DESCRIPTOR_LENGTH, Feature, Features};
use gausset_sfm::reconstruction::{
    PictureCamera, Pictures, Reconstruction, ReconstructionOptions, reconstruct_pictures,
};

/// Noise of a position, px, and the tolerance.
const NOISE: f64 = 0.3;
const TOLERANCE: f64 = 2.0;
const POINTS: u32 = 600;
const ALONE: u32 = 100;

fn random(of: u32, index: u32, k: u32) -> f64 {
    let words = philox4x32([index, of, k, 0], [12, 5]);
    2.0 * uniform_f64(words[0], words[1]) - 1.0
}

/// Descriptor of a point, with small variations between pictures.
fn look(point: u32, picture: u32) -> [u8; DESCRIPTOR_LENGTH] {
    std::array::from_fn(|i| {
        let own = philox4x32([point, i as u32, 0, 0], [3, 5])[0] >> 26;
        let now = philox4x32([point, i as u32, 1 + picture, 0], [3, 5])[0] >> 30;
        (own + now) as u8
    })
}

/// A camera that looks from a place at a target, y down.
fn looking(from: [f64; 3], at: [f64; 3]) -> Pose {
    let forward = unit(std::array::from_fn(|k| at[k] - from[k]));
    let right = unit(cross([0.0, 1.0, 0.0], forward));
    let rotation = [right, cross(forward, right), forward];
    let translation = rotation.map(|row| -(0..3).map(|k| row[k] * from[k]).sum::<f64>());
    Pose { rotation, translation }
}

struct Capture {
    cameras: Vec<PictureCamera>,
    poses: Vec<Pose>,
}

impl Capture {
    /// Pictures of a subject from an arc of `degrees`, at two heights; the cameras take turns.
    fn arc(count: u32, degrees: f64, cameras: Vec<PictureCamera>) -> Self {
        let pose = |k: u32| {
            let angle = (degrees * (f64::from(k) / f64::from(count - 1) - 0.5)).to_radians();
            let (sin, cos) = (libm::sin(angle), libm::cos(angle));
            let height = if k.is_multiple_of(2) { -0.8 } else { 0.5 };
            looking([5.0 * sin, height, -5.0 * cos], [0.3 * random(1, k, 0), 0.2 * random(1, k, 1), 0.0])
        };
        Self { cameras, poses: (0..count).map(pose).collect() }
    }

    fn camera(&self, picture: usize) -> &PictureCamera {
        &self.cameras[picture % self.cameras.len()]
    }

    /// Points around the subject, and a third of them behind it.
    fn point(k: u32) -> [f64; 3] {
        let size = if k.is_multiple_of(3) { 4.0 } else { 1.5 };
        [0, 1, 2].map(|i| size * random(2, k, i))
    }

    fn features(&self, picture: usize) -> Features {
        let camera = self.camera(picture);
        let mut found = Features::default();
        let mut add = |pixel: [f64; 2], look| {
            let inside = (0.0..f64::from(camera.width)).contains(&pixel[0])
                && (0.0..f64::from(camera.height)).contains(&pixel[1]);
            if inside {
                let bearing = [0.0, 0.0, 1.0];
                found.features.push(Feature { bearing, view: 0, pixel, size: 2.0, colour: [0; 3] });
                found.descriptors.push(look);
            }
        };
        for k in 0..POINTS {
            if let Some(pixel) = camera.project(self.poses[picture].apply(Self::point(k))) {
                let shake = |axis| NOISE * random(3 + picture as u32, k, axis);
                add([pixel[0] + shake(0), pixel[1] + shake(1)], look(k, picture as u32));
            }
        }
        for k in 0..ALONE {
            let name = 1_000_000 + 1000 * picture as u32 + k;
            let place = |axis, side: u32| 0.5 * (1.0 + random(4, name, axis)) * f64::from(side);
            add([place(0, camera.width), place(1, camera.height)], look(name, 0));
        }
        found
    }

    /// Reconstructs the pictures from a first guess of the focal lengths.
    fn reconstruct(&self, known_focal: bool, threads: usize) -> (Reconstruction, Pictures) {
        self.reconstruct_as(self.cameras[0].model, known_focal, threads)
    }

    /// As [`Self::reconstruct`], with a camera model for all.
    fn reconstruct_as(
        &self,
        model: CameraModel,
        known_focal: bool,
        threads: usize,
    ) -> (Reconstruction, Pictures) {
        let mut frames: Vec<Features> = (0..self.poses.len()).map(|k| self.features(k)).collect();
        let guess = |c: &PictureCamera| {
            let assumed = 1.2 * f64::from(c.width.max(c.height));
            let focal = if known_focal { 1.04 * c.focal } else { assumed };
            PictureCamera { model, ..PictureCamera::new(c.width, c.height, focal) }
        };
        let mut pictures = Pictures {
            cameras: self.cameras.iter().map(guess).collect(),
            reductions: vec![1.0; self.cameras.len()],
            known_focals: self.cameras.iter().map(|c| known_focal.then_some(1.04 * c.focal)).collect(),
            camera_of: (0..self.poses.len()).map(|k| (k % self.cameras.len()) as u32).collect(),
            pairs: PairChoice::Auto,
            near: Vec::new(),
        };
        let pool = Pool::new(threads);
        let options = ReconstructionOptions { tolerance: TOLERANCE, is_sequence: false, seed: 0 };
        let stop = AtomicBool::new(false);
        let exec = Exec::best(&pool);
        let found = reconstruct_pictures(&mut frames, &mut pictures, options, None, exec, &stop, &mut |_| {});
        (found.expect("not stopped"), pictures)
    }

    /// Checks poses and cameras against the truth.
    fn check(&self, (found, pictures): &(Reconstruction, Pictures)) {
        let pairs: Vec<(Pose, Pose)> =
            found.poses.iter().zip(&self.poses).filter_map(|(a, b)| Some(((*a)?, *b))).collect();
        assert_eq!(pairs.len(), self.poses.len(), "registered; {:?}", pictures.cameras);
        let moments: Vec<u32> = (0..pairs.len() as u32).collect();
        let errors = compare(&pairs, &moments).expect("comparable");
        assert!(errors.rotation.worst < 0.05, "{:?}", errors.rotation);
        assert!(errors.centre.worst < 5e-3, "{:?}", errors.centre);
        for (found, truth) in pictures.cameras.iter().zip(&self.cameras) {
            assert!((found.focal / truth.focal - 1.0).abs() < 3e-3, "{found:?}");
            assert!((found.distortion[0] - truth.distortion[0]).abs() < 0.01, "{found:?}");
        }
    }
}

#[test]
fn an_arc_of_pictures_gives_poses_focal_length_and_distortion() {
    for focal in [560.0, 1200.0] {
        let camera =
            PictureCamera { distortion: [-0.05, 0.0, 0.0, 0.0], ..PictureCamera::new(800, 600, focal) };
        let capture = Capture::arc(12, 100.0, vec![camera]);
        capture.check(&capture.reconstruct(false, 2));
    }
}

#[test]
fn lenses_of_two_focal_lengths_and_fisheye_lenses_are_found() {
    let perspective = PictureCamera {
        model: CameraModel::OpenCv,
        distortion: [-0.05, 0.01, 2e-3, -1e-3],
        aspect: 1.005,
        ..PictureCamera::new(800, 600, 700.0)
    };
    let fisheye = PictureCamera {
        model: CameraModel::OpenCvFisheye,
        distortion: [0.05, -0.02, 0.005, 0.0],
        aspect: 0.998,
        ..PictureCamera::new(800, 600, 330.0)
    };
    for camera in [perspective, fisheye] {
        let capture = Capture::arc(16, 150.0, vec![camera]);
        let found = capture.reconstruct(false, 2);
        capture.check(&found);
        assert!((found.1.cameras[0].aspect / camera.aspect - 1.0).abs() < 2e-3, "{found:?}");
    }
}

#[test]
fn an_action_camera_gets_a_second_parameter_of_distortion() {
    let truth = PictureCamera {
        model: CameraModel::Radial,
        distortion: [-0.2, 0.03, 0.0, 0.0],
        ..PictureCamera::new(848, 480, 390.0)
    };
    let capture = Capture::arc(12, 100.0, vec![truth]);
    let (_, pictures) = capture.reconstruct_as(CameraModel::SimpleRadial, false, 2);
    let found = pictures.cameras[0];
    assert_eq!(found.model, CameraModel::Radial);
    assert!((found.focal / truth.focal - 1.0).abs() < 0.01, "{found:?}");
    assert!((found.distortion[0] - truth.distortion[0]).abs() < 0.02, "{found:?}");
}

#[test]
fn an_orbit_by_two_cameras_with_metadata_is_the_same_for_any_number_of_threads() {
    let cameras = vec![
        PictureCamera { distortion: [0.03, 0.0, 0.0, 0.0], ..PictureCamera::new(800, 600, 700.0) },
        PictureCamera { distortion: [-0.08, 0.0, 0.0, 0.0], ..PictureCamera::new(600, 800, 820.0) },
    ];
    let capture = Capture::arc(16, 345.0, cameras);
    let found = capture.reconstruct(true, 1);
    capture.check(&found);
    assert_eq!(found, capture.reconstruct(true, 3));
}

#[test]
fn pictures_of_nothing_in_common_stay_without_poses() {
    let capture = Capture::arc(3, 100.0, vec![PictureCamera::new(800, 600, 700.0)]);
    let mut frames: Vec<Features> = (0..3).map(|k| capture.features(k)).collect();
    // Every picture keeps only what no other sees.
    for frame in &mut frames {
        let alone = frame.features.len().saturating_sub(ALONE as usize);
        frame.features.drain(..alone);
        frame.descriptors.drain(..alone);
    }
    let mut pictures = Pictures {
        cameras: capture.cameras.clone(),
        known_focals: vec![None],
        reductions: vec![1.0],
        camera_of: vec![0; 3],
        pairs: PairChoice::Auto,
        near: Vec::new(),
    };
    let options = ReconstructionOptions { tolerance: TOLERANCE, is_sequence: false, seed: 0 };
    let pool = Pool::new(1);
    let stop = AtomicBool::new(false);
    let found = reconstruct_pictures(
        &mut frames,
        &mut pictures,
        options,
        None,
        Exec::best(&pool),
        &stop,
        &mut |_| {},
    );
    let found = found.expect("not stopped");
    assert!(found.poses.iter().all(Option::is_none) && found.landmarks.is_empty());
}

#[test]
fn a_telephoto_lens_does_not_tighten_the_tolerance_of_a_wide_one() {
    let cameras = [560.0, 4480.0].map(|focal| PictureCamera::new(800, 600, focal)).to_vec();
    let capture = Capture::arc(16, 150.0, cameras);
    let (found, _) = capture.reconstruct(true, 2);
    let wide = (0..16).step_by(2);
    let pairs: Vec<(Pose, Pose)> =
        wide.clone().filter_map(|k| Some((found.poses[k]?, capture.poses[k]))).collect();
    assert_eq!(pairs.len(), 8, "registered");
    let errors = compare(&pairs, &(0..8).collect::<Vec<u32>>()).expect("comparable");
    assert!(errors.rotation.worst < 0.05, "{:?}", errors.rotation);
    let seen: usize =
        found.landmarks.iter().flat_map(|point| &point.observations).filter(|o| o[0] % 2 == 0).count();
    assert!(seen > 8 * 300, "{seen} of about {} observations of the wide lens", 8 * POINTS);
}
