//! The fall-off of two fisheye lenses: estimated from frames of known light, and the seam without it.

use std::f64::consts::TAU;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::se3::{self, Mat3};
use gausset_io::image::encode::{PngPixels, png};
use gausset_pano::convert::{DecodedFrame, OutputContext, decode_frame, to_panorama};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::grade_lenses;
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::geometry::{direction_from_equirect, rotation};
use gausset_pano::grade::Colouring;
use gausset_pano::load::ImageLimits;
use gausset_pano::look::srgb_from_linear;
use gausset_pano::projection::Projection;
use gausset_pano::vignetting_fit::{VignettingEstimate, VignettingEstimator};

#[allow(dead_code, reason = "shared with the tests of the calibration")]
use crate::two_circles::Drawing;

const LENSES: &str = r#"{ "width": 1000, "height": 500, "lenses": [
    { "cx": 250, "cy": 250, "radius": 245, "half_angle": 101 },
    { "cx": 750, "cy": 250, "radius": 245, "half_angle": 101, "yaw": 180 } ] }"#;
/// Light is multiplied by cos^k(angle/2) of red, green and blue.
const POWERS: [f64; 3] = [3.5, 3.0, 2.5];
/// How much darker the second lens shows each frame, stops.
const DARKER: [f64; 3] = [0.5, 0.3, 0.7];
const PANORAMA_WIDTH: usize = 512;

/// Linear light of a direction: a random field of waves 12 degrees long, of no preferred direction.
struct Scene {
    waves: Vec<([f64; 3], f64)>,
    world_from_pano: Mat3,
}

impl Scene {
    fn new(frame: usize) -> Self {
        let mut seed = 5u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as f64 / f64::from(1u32 << 31)
        };
        let waves = (0..12).map(|_| {
            let (y, around, phase) = (2.0 * random() - 1.0, random() * TAU, random() * TAU);
            let across = (1.0 - y * y).sqrt();
            ([across * around.sin(), y, across * around.cos()].map(|v| 30.0 * v), phase)
        });
        let at = frame as f64;
        Self { waves: waves.collect(), world_from_pano: rotation(50.0 * at, 25.0 * at, 10.0 * at) }
    }

    fn light(&self, direction: [f64; 3]) -> [f64; 3] {
        let length = se3::norm(direction);
        let world = se3::mul_vec(&self.world_from_pano, direction.map(|v| v / length));
        // Another shift per channel, so that roundings of chroma average out.
        let sum = |shift: f64| -> f64 {
            self.waves.iter().map(|(wave, phase)| (se3::dot(*wave, world) + phase + shift).sin()).sum()
        };
        [(0.50, 0.0), (0.48, 2.0), (0.45, 4.0)].map(|(grey, shift)| grey * (0.06 * sum(shift)).exp2())
    }
}

fn truth() -> DualFisheye {
    DualFisheye::parse(LENSES.as_bytes()).unwrap()
}

/// Fall-off at an angle from the axis, stops.
fn true_fall_off(channel: usize, angle: f64) -> f64 {
    -POWERS[channel] * (0.5 * angle).cos().log2()
}

/// Writes the frames of both lenses.
fn write_frames(folder: &Path, pool: &Pool) -> Vec<PathBuf> {
    let lenses = truth();
    let drawing = Drawing::of(&lenses, pool);
    let write = |frame: usize| {
        let scene = Scene::new(frame);
        let channels = [0, 1, 2].map(|c| {
            drawing.drawn(pool, &|ray, lens| {
                let axis = if lens == 0 { 1.0 } else { -1.0 };
                let angle = (axis * ray[2]).clamp(-1.0, 1.0).acos();
                let stops = true_fall_off(c, angle) + if lens == 1 { DARKER[frame] } else { 0.0 };
                255.0 * srgb_from_linear(scene.light(ray)[c] * (-stops).exp2())
            })
        });
        let rgb: Vec<u8> =
            (0..channels[0].len()).flat_map(|at| [0, 1, 2].map(|c| (channels[c][at] + 0.5) as u8)).collect();
        let path = folder.join(format!("f{frame}.png"));
        std::fs::write(&path, png(1000, 500, PngPixels::Rgb8(&rgb), &[]).unwrap()).unwrap();
        path
    };
    (0..DARKER.len()).map(write).collect()
}

fn decoded(file: &Path, lenses: &DualFisheye) -> DecodedFrame {
    let (projection, level) = (Projection::Fisheye(lenses.clone()), dispatch_level(SimdLevel::Auto).unwrap());
    decode_frame(&[file.to_owned()], Some(&projection), false, &ImageLimits::default(), level).unwrap()
}

fn estimate(files: &[PathBuf]) -> VignettingEstimate {
    let mut estimator = VignettingEstimator::new(truth());
    files.iter().for_each(|file| estimator.add(&decoded(file, &truth()).frame));
    estimator.estimate().unwrap()
}

/// Luma of the panorama of a frame, its lenses equalised.
fn panorama(file: &Path, lenses: &DualFisheye, pool: &Pool) -> Vec<f64> {
    let mut moment = decoded(file, lenses);
    grade_lenses(&moment.projection, &Colouring::default(), &mut moment.frame).unwrap();
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let stop = AtomicBool::new(false);
    let writing = OutputContext { format: Format::Png, level, pool, stop: &stop, segments: &[] };
    let shown = to_panorama(&moment, PANORAMA_WIDTH as u32, writing).unwrap();
    (0..PANORAMA_WIDTH / 2).flat_map(|y| shown.planes[0].row(y as i32).to_vec()).map(f64::from).collect()
}

/// How much brighter the seam band (4 degrees on both sides) is than its surroundings, levels, relative to the scene
/// with the mean exposure of both lenses.
fn seam_step(found: &[f64], frame: usize) -> f64 {
    let scene = Scene::new(frame);
    let mut sums = [[0.0; 2]; 2];
    for (at, found) in found.iter().enumerate() {
        let (x, y) = ((at % PANORAMA_WIDTH) as f64 + 0.5, (at / PANORAMA_WIDTH) as f64 + 0.5);
        let direction = direction_from_equirect(x, y, PANORAMA_WIDTH as f64, PANORAMA_WIDTH as f64 / 2.0);
        let from_seam = direction[2].clamp(-1.0, 1.0).asin().to_degrees().abs();
        let zone = match from_seam {
            v if v < 4.0 => 0,
            v if (15.0..40.0).contains(&v) => 1,
            _ => continue,
        };
        let exposure = (-0.5 * DARKER[frame]).exp2();
        let [r, g, b] = scene.light(direction).map(|v| 255.0 * srgb_from_linear(v * exposure));
        sums[zone] = [sums[zone][0] + found - (0.299 * r + 0.587 * g + 0.114 * b), sums[zone][1] + 1.0];
    }
    sums[0][0] / sums[0][1] - sums[1][0] / sums[1][1]
}

#[test]
fn the_fall_off_of_two_lenses_is_found_within_two_percent_and_the_seam_disappears() {
    let (pool, folder) = (Pool::new(2), tempfile::tempdir().unwrap());
    let files = write_frames(folder.path(), &pool);
    let found = estimate(&files);
    let mut worst = 0.0f64;
    for lens in 0..2 {
        for degrees in 79..=101 {
            let radii = f64::from(degrees) / 101.0;
            for (channel, stops) in found.fall_off(lens, radii).into_iter().enumerate() {
                let error = stops - true_fall_off(channel, f64::from(degrees).to_radians());
                worst = if error.abs() > worst.abs() { error } else { worst };
            }
        }
    }
    for (exposures, darker) in found.exposure_stops.iter().zip(DARKER) {
        assert!(exposures.iter().all(|stops| (stops - darker).abs() < 0.02), "{exposures:?} {darker}");
    }
    let mut corrected = truth();
    corrected.blend = corrected.overlap();
    for (lens, vignetting) in corrected.lenses.iter_mut().zip(found.vignetting) {
        lens.vignetting = vignetting;
    }
    // Written and read like a lens file.
    let corrected = DualFisheye::parse(corrected.to_json().as_bytes()).unwrap();
    for (frame, file) in files.iter().enumerate() {
        let [before, after] =
            [truth(), corrected.clone()].map(|lenses| seam_step(&panorama(file, &lenses, &pool), frame));
        assert!(before < -5.0 && after.abs() < 1.0, "{before} {after}");
    }
    // Two percent are 0.0286 stops.
    assert!(worst.abs() < 0.0286, "{worst}: {found:?}");
}

#[test]
fn an_arm_in_front_of_the_camera_does_not_change_the_fall_off() {
    let (pool, folder) = (Pool::new(2), tempfile::tempdir().unwrap());
    let files = write_frames(folder.path(), &pool);
    let clean = estimate(&files);
    let mut estimator = VignettingEstimator::new(truth());
    for file in &files {
        let mut frame = decoded(file, &truth()).frame;
        // A tenth of the overlap: bright in the first lens only.
        for y in 430..495 {
            frame.planes[0].row_mut(y)[210..290].fill(200);
        }
        estimator.add(&frame);
    }
    let found = estimator.estimate().unwrap();
    for radii in [0.8, 0.9, 1.0] {
        let [a, b] = [&clean, &found].map(|estimate| estimate.fall_off(0, radii));
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.05), "{a:?} {b:?}");
    }
}

#[test]
fn frames_without_light_have_no_fall_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("black.png");
    std::fs::write(&path, png(1000, 500, PngPixels::Rgb8(&vec![2; 1_500_000]), &[]).unwrap()).unwrap();
    let mut estimator = VignettingEstimator::new(truth());
    estimator.add(&decoded(&path, &truth()).frame);
    assert_eq!(estimator.estimate(), None);
}
