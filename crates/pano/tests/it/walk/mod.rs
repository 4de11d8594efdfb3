//! Video of a walk through the procedural room: with stops, rotations in place, a run, blurred frames and duplicate
//! frames. All poses are known.

use std::f64::consts::{PI, TAU};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use gausset_compute::Pool;
use gausset_core::Pose;
use gausset_core::se3::{self, Mat3};
use gausset_pano::geometry::rotation;
use gausset_scenes::room::Room;

/// Frames per second.
pub(crate) const RATE: f64 = 24.0;
/// Sections of the walk: seconds, metres per second, degrees of rotation per second.
const WAYS: [[f64; 3]; 8] = [
    [1.5, 0.9, 0.0],
    [1.5, 0.0, 0.0],
    [1.5, 0.0, 70.0],
    [2.0, 2.4, 15.0],
    [2.0, 0.6, -30.0],
    [1.0, 0.0, -90.0],
    [2.0, 1.2, 60.0],
    [1.0, 0.3, 0.0],
];
/// Poses per frame interval.
const FINE: usize = 16;

/// A frame of the video with its ground truth.
#[derive(Clone, Debug)]
pub(crate) struct Shot {
    /// `pano_from_world` at the middle of the exposure.
    pub(crate) pose: Pose,
    /// Poses whose renderings are averaged.
    pub(crate) exposed: Vec<Pose>,
    /// Whether the camera moved by more than a pixel of a 960 px panorama during the exposure.
    #[allow(dead_code, reason = "read by the example film_choice")]
    pub(crate) is_blurred: bool,
    /// Whether it duplicates the previous frame.
    pub(crate) is_duplicate: bool,
}

/// Pseudo-random number from 0 to 1.
fn random(seed: u64) -> f64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// The frames of the first `seconds` of the walk. A quarter of them is averaged from 5 to 15 renderings over the frame
/// interval; one in fifteen duplicates the previous frame.
pub(crate) fn shots(seconds: f64) -> Vec<Shot> {
    let (mut a, mut yaw, mut poses) = (0.4f64, 0.0f64, Vec::new());
    let mut now = 0.0;
    for [length, speed, turn] in WAYS {
        for k in 0..(length * RATE) as usize * FINE {
            // Speed ramps up and down smoothly.
            let t = (k as f64 + 0.5) / (length * RATE * FINE as f64);
            let ease = (8.0 * t.min(1.0 - t)).min(1.0);
            let dt = 1.0 / (RATE * FINE as f64);
            let tangent = [1.71 * a.cos(), 0.3 * (3.0 * a).cos(), -1.3 * a.sin()];
            a += ease * speed * dt / se3::norm(tangent);
            yaw += ease * turn * dt;
            now += dt;
            let centre = [1.71 * a.sin(), 0.1 * (3.0 * a).sin(), 1.3 * a.cos() - 0.2];
            let sway = if speed > 0.0 { 1.0 } else { 0.2 };
            let world_from_pano =
                rotation(yaw, sway * (TAU * 0.9 * now).sin(), 1.5 * sway * (TAU * 0.5 * now).cos());
            let r = se3::transpose(&world_from_pano);
            poses.push(Pose { rotation: r, translation: se3::mul_vec(&r, centre).map(|v| -v) });
        }
    }
    let count = ((seconds * RATE) as usize).min(poses.len() / FINE);
    let mut blurred = false;
    (0..count)
        .map(|k| {
            let at = |fine: usize| poses[fine.min(poses.len() - 1)];
            let is_mean = random(k as u64) < 0.25;
            let parts = 5 + (11.0 * random(k as u64 + 1000)) as usize;
            let exposed: Vec<Pose> = match is_mean {
                true => (0..parts).map(|j| at(k * FINE + j * FINE / (parts - 1))).collect(),
                false => vec![at(k * FINE + FINE / 2)],
            };
            let is_duplicate = k > 0 && random(k as u64 + 2000) < 1.0 / 15.0;
            let (from, to) = (&exposed[0], &exposed[exposed.len() - 1]);
            let turned = angle(&se3::mul(&to.rotation, &se3::transpose(&from.rotation)));
            // Walls are about 2.5 m away.
            let moved = (distance(from, to) / 2.5).to_degrees();
            // A duplicate is as blurred as the original.
            blurred = if is_duplicate { blurred } else { turned.max(moved) > 0.375 };
            Shot { pose: at(k * FINE + FINE / 2), exposed, is_blurred: blurred, is_duplicate }
        })
        .collect()
}

/// Angle of a rotation, degrees.
pub(crate) fn angle(r: &Mat3) -> f64 {
    let cosine = 0.5 * (r[0][0] + r[1][1] + r[2][2] - 1.0);
    cosine.clamp(-1.0, 1.0).acos() * 180.0 / PI
}

/// Distance between two poses, m.
pub(crate) fn distance(a: &Pose, b: &Pose) -> f64 {
    let (a, b) = (a.centre(), b.centre());
    se3::norm([a[0] - b[0], a[1] - b[1], a[2] - b[2]])
}

/// Encodes the video with ffmpeg: rendered at `width` px and scaled to `shown`.
pub(crate) fn film(path: &Path, shots: &[Shot], width: u32, shown: [u32; 2]) {
    let pool = Pool::with_all_cores();
    let size = format!("{width}x{}", width / 2);
    let scale = format!("scale={}:{}:flags=bicubic", shown[0], shown[1]);
    let mut ffmpeg = Command::new("ffmpeg")
        .args([
            "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", &size, "-r", "24", "-i", "-",
        ])
        .args(["-vf", &scale, "-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = ffmpeg.stdin.take().unwrap();
    let mut picture: Vec<u8> = Vec::new();
    for (k, shot) in shots.iter().enumerate() {
        if !shot.is_duplicate {
            let mut sum = vec![0u32; 3 * (width * width / 2) as usize];
            for pose in &shot.exposed {
                let panorama = Room::FOR_REGISTRATION.panorama(width, pose, &pool);
                sum.iter_mut().zip(&panorama.data).for_each(|(sum, &v)| *sum += u32::from(v));
            }
            let parts = shot.exposed.len() as f64;
            let noisy = |(i, &v): (usize, &u32)| {
                let noise = 3.0 * (random(((k as u64) << 32) | (i as u64 / 3)) - 0.5);
                (f64::from(v) / parts + noise).round().clamp(0.0, 255.0) as u8
            };
            picture = sum.iter().enumerate().map(noisy).collect();
        }
        stdin.write_all(&picture).unwrap();
    }
    drop(stdin);
    assert!(ffmpeg.wait().unwrap().success());
}

/// Coefficient of variation: standard deviation over mean.
pub(crate) fn spread(steps: &[f64]) -> f64 {
    let mean = steps.iter().sum::<f64>() / steps.len() as f64;
    let square = steps.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>() / steps.len() as f64;
    square.sqrt() / mean
}
