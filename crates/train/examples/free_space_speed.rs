//! Measures the bubbles of free space by the number of pictures: CPU seconds to make them, and to test splats:
//! `cargo run --release -p gausset-train --example free_space_speed [-- PICTURES [SPLATS [RINGS]]]`.
//!
//! Cameras on rings look at a ball over a plain from all sides. A tenth of the splats floats anywhere, the others are
//! close to points. The number of rings grows with the root of that of pictures. Prints the median of five changes, and a
//! checksum of what is found, by which two versions are compared.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::f64::consts::TAU;
use std::sync::Arc;

use gausset_compute::SimdLevel;
use gausset_compute::rng::{philox, stream, uniform_f64};
use gausset_core::engine::{Bubble, DensityRule, Engine, FreeSpaceRule, TrainState};
use gausset_core::matrix::{cross, dot, unit};
use gausset_core::{Camera, Pose, Splats};
use gausset_cpu::{CpuEngine, CpuOptions};

/// Points of the reconstruction: the most that training uses.
const POINTS: u32 = 100_000;
/// Rings of 1,000 pictures.
const RINGS: f64 = 8.0;
/// Timed changes of the set of splats.
const CHANGES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default| arguments.get(index).map_or(Ok(default), |text| text.parse::<usize>());
    let pictures = number(0, 1000)?;
    let splats = number(1, 225 * pictures)?;
    let rings = number(2, (RINGS * (pictures as f64 / 1000.0).sqrt()).round().max(1.0) as usize)?;
    let cameras: Vec<Pose> = (0..pictures).map(|index| camera(index, pictures, rings)).collect();
    let points: Vec<[f64; 3]> = (0..POINTS).map(point).collect();
    let centres: Vec<[f64; 3]> = cameras.iter().map(Pose::centre).collect();
    let per_ring = pictures.div_ceil(rings);
    let neighbours = (0..pictures).flat_map(|a| [a + 1, a + 2, a + per_ring].map(|b| (a, b)));
    let pairs: Vec<_> =
        neighbours.filter(|&(_, b)| b < pictures).map(|(a, b)| [centres[a], centres[b]]).collect();
    let started = cpu_seconds();
    let bubbles = gausset_train::free_space::bubbles(&centres, &pairs, &points);
    let making = cpu_seconds() - started;
    println!("{pictures} pictures on {rings} rings, {POINTS} points, {splats} splats");
    println!(
        "bubbles {making:.3} CPU-s: {} of {} pairs, checksum {:016x}",
        bubbles.len(),
        pairs.len(),
        checksum(&bubbles)
    );
    let (change, cleared, logits) = change(splats, bubbles, &cameras)?;
    println!("change  {change:.3} CPU-s: {cleared} cleared, checksum {logits:016x}");
    Ok(())
}

/// Median CPU seconds of a change, the number of splats that it clears, and a checksum of which.
fn change(splats: usize, bubbles: Vec<Bubble>, cameras: &[Pose]) -> Result<(f64, u64, u64), Box<dyn Error>> {
    let lens = Camera::new(640, 480, 500.0, 500.0, 320.0, 240.0)?;
    let rule = FreeSpaceRule {
        views: Arc::from([]),
        free_fraction: 0.3,
        min_points: 10,
        min_weight: 2.0,
        bubbles: bubbles.into(),
        cameras: cameras.iter().map(|pose| (lens, *pose)).collect(),
        near_factor: 5.0,
    };
    let mut state = Splats::zeros(0, splats);
    for (index, (mean, quat)) in (0u32..).zip(state.means.iter_mut().zip(&mut state.quats)) {
        *mean = splat(index).map(|v| v as f32);
        *quat = [1.0, 0.0, 0.0, 0.0];
    }
    let mut engine = CpuEngine::new(CpuOptions { threads: 1, level: SimdLevel::Auto })?;
    engine.load(TrainState::new(state, Vec::new()))?;
    let mut times = Vec::new();
    for _ in 0..CHANGES {
        let started = cpu_seconds();
        engine.densify(&DensityRule::FreeSpace(rule.clone()))?;
        times.push(cpu_seconds() - started);
    }
    times.sort_by(f64::total_cmp);
    let cleared = engine.flush()?.cleared;
    let logits = engine.save()?.splats.opacity_logits;
    Ok((times[CHANGES / 2], cleared, fnv(logits.iter().map(|logit| logit.to_bits()))))
}

fn random<const N: usize>(of: u32, index: u32) -> [f64; N] {
    std::array::from_fn(|k| {
        let [a, b, ..] = philox(7, stream::TEST, u64::from(of) * 16 + k as u64, index);
        uniform_f64(a, b)
    })
}

/// A camera that looks at the ball: rings of growing radius at two heights.
fn camera(index: usize, pictures: usize, rings: usize) -> Pose {
    let per_ring = pictures.div_ceil(rings);
    let (ring, place) = (index / per_ring, index % per_ring);
    let [shift, height, aside] = random(0, index as u32);
    let radius = 2.0 + 4.0 * ring as f64 / rings as f64 + 0.02 * aside;
    let angle = TAU * (place as f64 + 0.2 * shift) / per_ring as f64;
    let height = if ring.is_multiple_of(2) { 0.15 } else { 0.6 } + 0.02 * height;
    let from = [radius * angle.cos(), radius * angle.sin(), height];
    let forward = unit(from.map(|v| -v));
    let right = unit(cross(forward, [0.0, 0.0, 1.0]));
    let rotation = [right, cross(forward, right), forward];
    Pose { rotation, translation: rotation.map(|row| -dot(row, from)) }
}

/// A point of the ball or of the plain.
fn point(index: u32) -> [f64; 3] {
    let [a, b] = random(1, index);
    if index.is_multiple_of(2) {
        let (z, angle) = (2.0 * a - 1.0, TAU * b);
        let across = (1.0 - z * z).sqrt();
        [across * angle.cos(), across * angle.sin(), z]
    } else {
        [20.0 * a - 10.0, 20.0 * b - 10.0, 0.0]
    }
}

/// The mean of a splat.
fn splat(index: u32) -> [f64; 3] {
    let offset: [f64; 3] = random(2, index);
    if index.is_multiple_of(10) {
        return [12.0 * offset[0] - 6.0, 12.0 * offset[1] - 6.0, 2.0 * offset[2] - 0.5];
    }
    let near = point(index % POINTS);
    std::array::from_fn(|k| near[k] + 0.02 * (offset[k] - 0.5))
}

fn cpu_seconds() -> f64 {
    gausset_prof::process_cpu().map_or(f64::NAN, |time| time.as_secs_f64())
}

fn checksum(bubbles: &[Bubble]) -> u64 {
    fnv(bubbles.iter().flat_map(|bubble| bubble.centre.into_iter().chain([bubble.radius]).map(f32::to_bits)))
}

/// FNV-1a over words.
fn fnv(words: impl Iterator<Item = u32>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3))
}
