//! Walks of various shapes, from features to poses: points around a path, each with its own descriptor, seen with
//! noise; some are far away, and a fifth of the features are seen only once.

use std::sync::atomic::AtomicBool;

use gausset_compute::rng::{philox4x32, uniform_f64};
use gausset_compute::{Exec, Pool};
use gausset_core::Pose;
use gausset_core::matrix::{mul, mul_vec, norm, transpose, transpose_mul_vec};
use gausset_core::se3::so3_exp;
use gausset_sfm::reconstruction::features::{DESCRIPTOR_LENGTH, Feature, Features};
use gausset_sfm::reconstruction::{Reconstruction, ReconstructionOptions, reconstruct};

/// Noise of a bearing, radians (a third of a pixel of a view of 720 px), and the tolerance.
const NOISE: f64 = 1e-3;
const TOLERANCE: f64 = 5.6e-3;
/// Largest distance at which a point is seen, m.
const REACH: f64 = 9.0;
/// Points per metre of the path, distant points in total, and unmatched features in each panorama.
const DENSITY: f64 = 25.0;
const FAR: u32 = 120;
const ALONE: u32 = 80;

fn random(of: u32, index: u32, k: u32) -> f64 {
    let words = philox4x32([index, of, k, 0], [11, 5]);
    2.0 * uniform_f64(words[0], words[1]) - 1.0
}

fn vector(of: u32, index: u32) -> [f64; 3] {
    [0, 1, 2].map(|k| random(of, index, k))
}

fn unit(v: [f64; 3]) -> [f64; 3] {
    v.map(|x| x / norm(v))
}

fn between(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|k| b[k] - a[k])
}

/// Descriptor of a point, with small variations between frames.
fn look(point: u32, frame: u32) -> [u8; DESCRIPTOR_LENGTH] {
    std::array::from_fn(|i| {
        let own = philox4x32([point, i as u32, 0, 0], [3, 5])[0] >> 26;
        let now = philox4x32([point, i as u32, 1 + frame, 0], [3, 5])[0] >> 30;
        (own + now) as u8
    })
}

/// A walk: panoramas at given centres with arbitrary rotations.
struct Walk {
    poses: Vec<Pose>,
    points: Vec<[f64; 3]>,
}

impl Walk {
    fn new(centres: &[[f64; 3]]) -> Self {
        let pose = |(k, centre): (u32, &[f64; 3])| {
            let rotation = so3_exp(vector(1, k).map(|v| 2.0 * v));
            Pose { rotation, translation: mul_vec(&rotation, *centre).map(|v| -v) }
        };
        let mut points: Vec<[f64; 3]> = Vec::new();
        let mut near = |from: [f64; 3], to: [f64; 3]| {
            let way = between(from, to);
            for _ in 0..(DENSITY * norm(way).max(1.0)) as usize {
                let k = points.len() as u32;
                let along = 0.5 * (1.0 + random(2, k, 9));
                let aside = vector(2, k);
                points.push([0, 1, 2].map(|i| from[i] + along * way[i] + 6.0 * aside[i]));
            }
        };
        let steps = centres.windows(2).filter(|pair| norm(between(pair[0], pair[1])) < 100.0);
        steps.for_each(|pair| near(pair[0], pair[1]));
        points.extend((0..FAR).map(|k| unit(vector(3, k)).map(|v| 800.0 * v)));
        Self { poses: (0..).zip(centres).map(pose).collect(), points }
    }

    /// Features of a panorama; `sees` selects directions in its own axes.
    fn features(&self, frame: usize, sees: &dyn Fn([f64; 3]) -> bool) -> Features {
        let mut found = Features::default();
        let mut add = |direction: [f64; 3], look| {
            let bearing = unit(direction);
            if sees(bearing) {
                let feature = Feature { bearing, view: 0, pixel: [0.0; 2], size: 2.0, colour: [0; 3] };
                found.features.push(feature);
                found.descriptors.push(look);
            }
        };
        for (k, point) in (0u32..).zip(&self.points) {
            let y = self.poses[frame].apply(*point);
            if (0.5..REACH).contains(&norm(y)) || norm(y) > 400.0 {
                let shake = vector(4 + frame as u32, k);
                add([0, 1, 2].map(|i| y[i] / norm(y) + NOISE * shake[i]), look(k, frame as u32));
            }
        }
        for k in 0..ALONE {
            let name = 1_000_000 + 1000 * frame as u32 + k;
            add(vector(1_000_000, name), look(name, 0));
        }
        found
    }

    fn all(&self) -> Vec<Features> {
        (0..self.poses.len()).map(|frame| self.features(frame, &|_| true)).collect()
    }

    /// Largest error of the centres as a fraction of the path, and of the rotations in degrees, of the panoramas in a
    /// range, after alignment of the first pose and of the path length with the ground truth.
    fn errors(&self, found: &Reconstruction, range: std::ops::Range<usize>) -> (f64, f64) {
        let poses: Vec<Pose> = range.clone().map(|k| found.poses[k].expect("a pose")).collect();
        let truth = &self.poses[range];
        let path = |poses: &[Pose]| -> f64 {
            poses.windows(2).map(|p| norm(between(p[0].centre(), p[1].centre()))).sum()
        };
        let scale = path(truth) / path(&poses);
        let turn = mul(&transpose(&poses[0].rotation), &truth[0].rotation);
        let (mut worst, mut turned) = (0.0f64, 0.0f64);
        for (a, b) in poses.iter().zip(truth) {
            let moved = transpose_mul_vec(&turn, between(poses[0].centre(), a.centre()));
            let wanted = between(truth[0].centre(), b.centre());
            worst = worst.max(norm(between(moved.map(|v| scale * v), wanted)));
            let off = mul(&mul(&a.rotation, &turn), &transpose(&b.rotation));
            let sine = norm([off[2][1] - off[1][2], off[0][2] - off[2][0], off[1][0] - off[0][1]]) / 2.0;
            turned = turned.max(libm::asin(sine.min(1.0)).to_degrees());
        }
        (worst / path(truth), turned)
    }
}

fn solve(frames: &[Features]) -> Reconstruction {
    let pool = Pool::new(2);
    let options = ReconstructionOptions { tolerance: TOLERANCE, is_sequence: true, seed: 0 };
    reconstruct(frames, options, None, Exec::best(&pool), &AtomicBool::new(false), &mut |_| {})
        .expect("not stopped")
}

fn poses_known(found: &Reconstruction) -> Vec<bool> {
    found.poses.iter().map(Option::is_some).collect()
}

#[test]
fn a_straight_line_with_uneven_steps() {
    let centres: Vec<[f64; 3]> = [0.0, 0.6, 1.0, 2.6, 3.0, 5.0, 5.5, 7.5].map(|x| [x, 0.0, 0.0]).to_vec();
    let walk = Walk::new(&centres);
    let (centre, turned) = walk.errors(&solve(&walk.all()), 0..centres.len());
    assert!(centre < 1e-3 && turned < 0.05, "{centre:.2e} {turned:.4}");
}

#[test]
fn panoramas_at_the_place_of_another() {
    // Two at the first position, three in the middle.
    let centres: Vec<[f64; 3]> =
        [0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 3.0, 4.0, 5.0].map(|x| [x, 0.1 * x * x, 0.0]).to_vec();
    let walk = Walk::new(&centres);
    let (centre, turned) = walk.errors(&solve(&walk.all()), 0..centres.len());
    assert!(centre < 1e-3 && turned < 0.05, "{centre:.2e} {turned:.4}");
}

#[test]
fn a_turn_on_the_spot_alone_has_no_poses() {
    let walk = Walk::new(&[[0.0; 3]; 5]);
    let found = solve(&walk.all());
    assert!(found.landmarks.is_empty() && poses_known(&found) == [false; 5]);
}

#[test]
fn a_fifth_of_every_panorama_may_be_hidden() {
    let centres: Vec<[f64; 3]> = (0..8).map(|k| [f64::from(k), libm::sin(f64::from(k)), 0.0]).collect();
    let walk = Walk::new(&centres);
    let wedge = |frame: usize| unit(vector(900, frame as u32));
    // A cap of a fifth of the sphere is hidden, in a different direction in each panorama.
    let sees = |frame: usize, b: [f64; 3]| (0..3).map(|k| b[k] * wedge(frame)[k]).sum::<f64>() < 0.6;
    let frames: Vec<Features> = (0..8).map(|frame| walk.features(frame, &|b| sees(frame, b))).collect();
    let (centre, turned) = walk.errors(&solve(&frames), 0..8);
    assert!(centre < 1e-3 && turned < 0.05, "{centre:.2e} {turned:.4}");
}

#[test]
fn a_long_walk_that_comes_back_is_closed() {
    let count = 36;
    let turn = |k: usize| std::f64::consts::TAU * k as f64 / count as f64;
    let centres: Vec<[f64; 3]> =
        (0..count).map(|k| [6.0 * libm::cos(turn(k)), 6.0 * libm::sin(turn(k)), 0.0]).collect();
    let walk = Walk::new(&centres);
    let (centre, turned) = walk.errors(&solve(&walk.all()), 0..count);
    assert!(centre < 1e-3 && turned < 0.05, "{centre:.2e} {turned:.4}");
}

#[test]
fn of_two_walks_the_larger_one_is_kept() {
    let place = |k: usize| if k < 4 { [k as f64, 0.0, 0.0] } else { [k as f64, 300.0, 0.5 * (k % 2) as f64] };
    let centres: Vec<[f64; 3]> = (0..10).map(place).collect();
    let mut walk = Walk::new(&centres);
    // Distant points are not shared by the two walks.
    walk.points.truncate(walk.points.len() - FAR as usize);
    let found = solve(&walk.all());
    assert_eq!(poses_known(&found), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|k| k > 3));
    let (centre, turned) = walk.errors(&found, 4..10);
    assert!(centre < 1e-3 && turned < 0.05, "{centre:.2e} {turned:.4}");
}

#[test]
fn steps_of_many_metres_beside_short_ones() {
    let centres: Vec<[f64; 3]> =
        [0.0, 0.3, 0.6, 4.6, 4.9, 5.2, 9.0, 9.2].map(|x: f64| [x, 0.2 * libm::sin(x), 0.0]).to_vec();
    let walk = Walk::new(&centres);
    let (centre, turned) = walk.errors(&solve(&walk.all()), 0..centres.len());
    assert!(centre < 2e-3 && turned < 0.05, "{centre:.2e} {turned:.4}");
}
