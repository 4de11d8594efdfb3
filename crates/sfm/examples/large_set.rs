//! Time and memory of a reconstruction by the number of pictures, from made features instead of images:
//! `cargo run --release -p gausset-sfm --example large_set -- room|flight PICTURES [THREADS]`.
//!
//! `room`: pictures in all directions from all over a room of 8 m x 6 m. `flight`: flight lines over a plain with houses,
//! 80 % overlap along them, 70 % across, with the 8 nearest of each by GPS. A picture has up to 4,096 features: it sees a
//! point from within 45 degrees of the direction in which it faces, and two thirds of these are detected.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gausset_compute::rng::{philox4x32, uniform_f64};
use gausset_compute::{Exec, Pool};
use gausset_core::Pose;
use gausset_core::matrix::{cross, dot, unit};
use gausset_sfm::PairChoice;
use gausset_sfm::compare::compare;
use gausset_sfm::reconstruction::features::{DESCRIPTOR_LENGTH, Feature, Features};
use gausset_sfm::reconstruction::{PictureCamera, Pictures, ReconstructionOptions, reconstruct_pictures};

/// Noise of a position, px.
const NOISE: f64 = 0.5;
/// Most features of a picture.
const MAX_FEATURES: usize = 4096;

fn random(of: u32, index: u32, k: u32) -> f64 {
    let words = philox4x32([index, of, k, 0], [21, 5]);
    2.0 * uniform_f64(words[0], words[1]) - 1.0
}

fn descriptor(point: u32, picture: u32) -> [u8; DESCRIPTOR_LENGTH] {
    let (mut bytes, mut at) = ([0; DESCRIPTOR_LENGTH], 0);
    while at < DESCRIPTOR_LENGTH {
        let own = philox4x32([point, at as u32, 0, 0], [3, 5]);
        let now = philox4x32([point, at as u32, 1 + picture, 0], [3, 5]);
        for k in 0..4 {
            bytes[at + k] = ((own[k] >> 26) + (now[k] >> 29)) as u8;
        }
        at += 4;
    }
    bytes
}

/// A camera that looks from a place along a direction; z is up.
fn looking(from: [f64; 3], along: [f64; 3]) -> Pose {
    let forward = unit(along);
    let side = if forward[2].abs() > 0.9 { [1.0, 0.0, 0.0] } else { cross(forward, [0.0, 0.0, 1.0]) };
    let right = unit(side);
    let rotation = [right, cross(forward, right), forward];
    Pose { rotation, translation: rotation.map(|row| -dot(row, from)) }
}

/// A point of a surface and the direction in which it faces.
type Point = ([f64; 3], [f64; 3]);

fn room_point(k: u32) -> Point {
    let half = [4.0, 3.0, 1.3];
    let axis = (k % 3) as usize;
    let side = if k.is_multiple_of(2) { 1.0 } else { -1.0 };
    let mut place: [f64; 3] = std::array::from_fn(|i| half[i] * random(2, k, i as u32));
    place[axis] = side * (half[axis] - 0.4 * random(3, k, 0).powi(2));
    let mut facing = [0.0; 3];
    facing[axis] = -side;
    (place, facing)
}

fn flight_point(k: u32, size: f64) -> Point {
    let [x, y] = [0, 1].map(|i| size * random(2, k, i));
    (if k.is_multiple_of(3) { [x, y, 4.0 + 4.0 * random(3, k, 0)] } else { [x, y, 0.0] }, [0.0, 0.0, 1.0])
}

struct Scene {
    poses: Vec<Pose>,
    points: Vec<Point>,
    near: Vec<[usize; 2]>,
}

fn room(count: u32) -> Scene {
    let pose = |k: u32| {
        let from = [3.2 * random(1, k, 0), 2.2 * random(1, k, 1), 0.3 * random(1, k, 2)];
        let azimuth = std::f64::consts::PI * random(1, k, 3);
        looking(from, [libm::cos(azimuth), libm::sin(azimuth), 0.25 * random(1, k, 4)])
    };
    Scene {
        poses: (0..count).map(pose).collect(),
        points: (0..40_000).map(room_point).collect(),
        near: Vec::new(),
    }
}

fn flight(count: u32) -> Scene {
    // Footprint of a picture from 60 m: 40 m x 30 m.
    let side = (f64::from(count) * 0.75).sqrt().ceil() as u32;
    let (along, across) = (0.2 * 40.0, 0.3 * 30.0);
    let place = |k: u32| {
        let (line, at) = (k / side, k % side);
        let at = if line.is_multiple_of(2) { at } else { side - 1 - at };
        [f64::from(at) * along, f64::from(line) * across]
    };
    let middle = 0.5 * f64::from(side) * along;
    let pose = |k: u32| {
        let [x, y] = place(k);
        looking([x - middle, y - middle, 60.0 + random(1, k, 0)], [0.05 * random(1, k, 1), 0.05, -1.0])
    };
    let mut near = Vec::new();
    for a in 0..count {
        let (from, mut others) = (place(a), (0..count).filter(|b| *b != a).collect::<Vec<u32>>());
        let far = |b: &u32| {
            let to = place(*b);
            (to[0] - from[0]).powi(2) + (to[1] - from[1]).powi(2)
        };
        others.sort_by(|b, c| far(b).total_cmp(&far(c)));
        near.extend(others.iter().take(8).map(|&b| [a.min(b) as usize, a.max(b) as usize]));
    }
    near.sort_unstable();
    near.dedup();
    let size = middle + 25.0;
    // 3,500 points to a footprint.
    let points = (4.0 * size * size / 1200.0 * 3500.0) as u32;
    Scene {
        poses: (0..count).map(pose).collect(),
        points: (0..points).map(|k| flight_point(k, size)).collect(),
        near,
    }
}

fn features(scene: &Scene, picture: usize, camera: &PictureCamera) -> Features {
    let pose = &scene.poses[picture];
    let mut found = Features::default();
    let centre = pose.centre();
    for (k, (place, facing)) in (0u32..).zip(&scene.points) {
        let to_camera = unit(std::array::from_fn(|i| centre[i] - place[i]));
        if dot(to_camera, *facing) < 0.7 || philox4x32([k, picture as u32, 7, 0], [1, 2])[0].is_multiple_of(3)
        {
            continue;
        }
        let Some(pixel) = camera.project(pose.apply(*place)) else { continue };
        let inside = (0.0..f64::from(camera.width)).contains(&pixel[0])
            && (0.0..f64::from(camera.height)).contains(&pixel[1]);
        if inside && found.features.len() < MAX_FEATURES {
            let pixel = [0, 1].map(|i| pixel[i] + NOISE * random(4 + picture as u32, k, i as u32));
            // Some features are large in all pictures.
            let size = 1.5 + (philox4x32([k, 0, 9, 0], [1, 2])[0] % 1000) as f32 / 100.0;
            found.features.push(Feature { bearing: [0.0, 0.0, 1.0], view: 0, pixel, size, colour: [0; 3] });
            found.descriptors.push(descriptor(k, picture as u32));
        }
    }
    found
}

#[allow(clippy::print_stdout)]
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count: u32 = arguments[2].parse().expect("a number of pictures");
    let threads = arguments.get(3).map_or(2, |n| n.parse().expect("a number of threads"));
    let scene = if arguments[1] == "room" { room(count) } else { flight(count) };
    let camera =
        PictureCamera { distortion: [-0.03, 0.0, 0.0, 0.0], ..PictureCamera::new(1600, 1200, 1300.0) };
    let pool = Pool::new(threads);
    let mut frames = pool.map(count as usize, |k| features(&scene, k, &camera));
    let mean = frames.iter().map(|f| f.features.len()).sum::<usize>() / count as usize;
    println!("{count} pictures, {} points, {mean} features a picture", scene.points.len());
    let mut pictures = Pictures {
        cameras: vec![PictureCamera::new(1600, 1200, 1330.0)],
        known_focals: vec![Some(1330.0)],
        reductions: vec![1.0],
        camera_of: vec![0; count as usize],
        pairs: PairChoice::Auto,
        near: scene.near.clone(),
    };
    let options = ReconstructionOptions { tolerance: 2.0, is_sequence: false, seed: 0 };
    let (begin, mut last) = (Instant::now(), None);
    let exec = Exec::best(&pool);
    let found = reconstruct_pictures(
        &mut frames,
        &mut pictures,
        options,
        None,
        exec,
        &AtomicBool::new(false),
        &mut |p| {
            let part = (p.stage, if p.total > 100 { 0 } else { p.done });
            if last.replace(part) != Some(part) {
                println!("{:8.2} s {:?} {} of {}", begin.elapsed().as_secs_f64(), p.stage, p.done, p.total);
            }
        },
    )
    .expect("not stopped");
    println!("{:8.2} s done", begin.elapsed().as_secs_f64());
    let poses: Vec<(Pose, Pose)> =
        found.poses.iter().zip(&scene.poses).filter_map(|(a, b)| Some(((*a)?, *b))).collect();
    let moments: Vec<u32> = (0..poses.len() as u32).collect();
    let errors = compare(&poses, &moments).expect("comparable");
    println!(
        "{} registered, {} pairs, {} points; rotation {:.4} worst {:.4} degrees; centre {:.2e} worst {:.2e}; focal length {:.2}",
        poses.len(),
        found.pairs.len(),
        found.landmarks.len(),
        errors.rotation.median,
        errors.rotation.worst,
        errors.centre.median,
        errors.centre.worst,
        pictures.cameras[0].focal
    );
}
