//! The score of one pixel in f64, one sample at a time: the reference for the kernel of [`crate::sweep`].

use crate::grey::{Grey, PATCH_RADIUS};
use crate::sweep::{SINGLE_VIEW, VARIANCE_FLOOR};
use crate::warp::Warp;

/// Bilinear grey value at a position; the edge is repeated.
fn sample(grey: &Grey, u: f64, v: f64) -> f64 {
    let (u, v) = (u.clamp(0.0, (grey.width - 1) as f64), v.clamp(0.0, (grey.height - 1) as f64));
    let (x, y) = (u.floor() as usize, v.floor() as usize);
    let (fu, fv) = (u - x as f64, v - y as f64);
    let at = |dx: usize, dy: usize| {
        f64::from(grey.at((x + dx).min(grey.width - 1), (y + dy).min(grey.height - 1)))
    };
    (1.0 - fv) * ((1.0 - fu) * at(0, 0) + fu * at(1, 0)) + fv * ((1.0 - fu) * at(0, 1) + fu * at(1, 1))
}

/// ZNCC of the patch around a pixel with its position in a neighbour; `None` if the neighbour does not see the pixel.
fn correlation(
    reference: &Grey,
    warp: &Warp,
    other: &Grey,
    x: usize,
    y: usize,
    q: &dyn Fn(usize, usize) -> f64,
) -> Option<f64> {
    let [u, v, w] = warp.at(x as f64, y as f64, q(x, y));
    let (u, v) = (u / w, v / w);
    let is_inside = u >= 0.0 && v >= 0.0 && u <= (other.width - 1) as f64 && v <= (other.height - 1) as f64;
    if w <= 0.05 || !is_inside {
        return None;
    }
    let [mut r, mut n, mut rr, mut nn, mut rn] = [0.0; 5];
    for dy in 0..=2 * PATCH_RADIUS {
        for dx in 0..=2 * PATCH_RADIUS {
            let px = (x + dx).saturating_sub(PATCH_RADIUS).min(reference.width - 1);
            let py = (y + dy).saturating_sub(PATCH_RADIUS).min(reference.height - 1);
            let [u, v, w] = warp.at(px as f64, py as f64, q(px, py));
            let w = w.max(0.05);
            let (a, b) = (f64::from(reference.at(px, py)) - 127.5, sample(other, u / w, v / w) - 127.5);
            r += a / 25.0;
            n += b / 25.0;
            rr += a * a / 25.0;
            nn += b * b / 25.0;
            rn += a * b / 25.0;
        }
    }
    let floor = f64::from(VARIANCE_FLOOR);
    Some((rn - r * n) / ((rr - r * r).max(floor) * (nn - n * n).max(floor)).sqrt())
}

/// Mean of the best two ZNCC over the neighbours that see the pixel, or a fraction of the only one.
fn score(
    reference: &Grey,
    neighbours: &[(Warp, &Grey)],
    x: usize,
    y: usize,
    q: &dyn Fn(usize, usize) -> f64,
) -> f64 {
    let of = |(warp, other): &(Warp, &Grey)| correlation(reference, warp, other, x, y, q);
    let mut all: Vec<f64> = neighbours.iter().filter_map(of).map(|zncc| zncc.max(0.0)).collect();
    all.sort_by(|a, b| b.total_cmp(a));
    match all[..] {
        [] => 0.0,
        [only] => f64::from(SINGLE_VIEW) * only,
        [first, second, ..] => 0.5 * (first + second),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grey::prepare;
    use crate::sweep::{SweepBuffers, SweepJob, sweep};
    use gausset_compute::rng::{philox, stream};
    use gausset_compute::{SimdLevel, dispatch_level};
    use gausset_core::{Camera, Pose, TargetImage};

    /// Smooth noise: neighbouring bytes are correlated, so that interpolation matters.
    fn grey(width: u32, height: u32, seed: u64) -> Grey {
        let word = |x: u32, y: u32| philox(seed, stream::TEST, u64::from(y / 3), x / 3)[0] as u8;
        let rgb = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let rgb = rgb.flat_map(|(x, y)| [word(x, y) / 2 + (3 * x + y) as u8 / 4; 3]).collect();
        let picture = TargetImage { width, height, rgb, alpha: None, mask: None };
        let [fine, _] = prepare(&picture, 1).unwrap().levels;
        fine
    }

    #[test]
    fn the_kernel_is_the_reference_at_every_vector_level() {
        let (width, height) = (53, 41);
        let camera = Camera::new(width, height, 50.0, 51.0, 26.0, 20.0).unwrap();
        let other = Camera::new(47, 44, 45.0, 45.0, 23.0, 22.0).unwrap();
        let here = Pose::IDENTITY;
        let poses = [
            Pose { translation: [0.3, 0.02, 0.1], ..here },
            Pose::from_quaternion([0.995, 0.03, -0.06, 0.07], [-0.2, 0.1, -0.3]).unwrap(),
            Pose { translation: [-0.4, -0.2, 0.0], ..here },
        ];
        let reference = grey(width, height, 1);
        let pictures = [grey(47, 44, 2), grey(47, 44, 3), grey(47, 44, 1)];
        let neighbours: Vec<(Warp, &Grey)> = poses
            .iter()
            .zip(&pictures)
            .map(|(pose, grey)| (Warp::new((&camera, &here), (&other, pose)), grey))
            .collect();
        // A slanted surface with a step.
        let prior = |x: usize, y: usize| 0.3 + 0.004 * x as f32 + if y > 17 { 0.2 } else { 0.0 };
        let mut first: Option<(Vec<f32>, Vec<f32>)> = None;
        for wanted in SimdLevel::ALL {
            let Some(level) = dispatch_level(wanted) else { continue };
            let mut all = (Vec::new(), Vec::new());
            for rows in [0..20, 20..41] {
                let len = rows.len() * width as usize;
                let (mut q, mut s) = (vec![0.0; len], vec![0.0; len]);
                let job = SweepJob {
                    reference: &reference,
                    neighbours: &neighbours,
                    rows,
                    first: 0.05,
                    step: 0.1,
                    steps: 1,
                    least_variance: 0.0,
                };
                let fill = |y: usize, row: &mut [f32]| {
                    row.iter_mut().enumerate().for_each(|(x, v)| *v = prior(x, y));
                };
                sweep(level, &job, fill, &mut SweepBuffers::default(), &mut q, &mut s);
                all.0.extend(q);
                all.1.extend(s);
            }
            let exact = |x: usize, y: usize| f64::from(prior(x, y)) + 0.05;
            for (i, &s) in all.1.iter().enumerate() {
                let (x, y) = (i % width as usize, i / width as usize);
                let expected = score(&reference, &neighbours, x, y, &exact);
                // Positions are f32 (1e-5 px, 100 grey levels per px); variances are hundreds here, sums 1e5.
                assert!((f64::from(s) - expected).abs() < 2e-3, "({x}, {y}): {s}, expected {expected}");
            }
            match &first {
                None => first = Some(all),
                Some(first) => assert!(*first == all, "{} differs", wanted.level_name()),
            }
        }
    }

    #[test]
    fn the_best_step_is_found_and_refined_between_steps() {
        // One image, and the same moved by 1.5 px: inverse depth 0.5 with a baseline of 3 px.
        let (width, height) = (64u32, 32u32);
        let byte = |x: f64, y: f64| {
            (127.0 + 60.0 * (0.9 * x + 0.3 * y).sin() + 50.0 * (0.23 * x - 0.7 * y).cos()) as u8
        };
        let picture = |shift: f64| {
            let places = (0..height).flat_map(|y| (0..width).map(move |x| (f64::from(x), f64::from(y))));
            let rgb = places.flat_map(|(x, y)| [byte(x + shift, y); 3]).collect();
            let [fine, _] =
                prepare(&TargetImage { width, height, rgb, alpha: None, mask: None }, 1).unwrap().levels;
            fine
        };
        let camera = Camera::new(width, height, 30.0, 30.0, 32.0, 16.0).unwrap();
        let pose = |x: f64| Pose { translation: [x, 0.0, 0.0], ..Pose::IDENTITY };
        let (reference, left, right) = (picture(0.0), picture(-1.5), picture(1.5));
        let warp = |x: f64| Warp::new((&camera, &Pose::IDENTITY), (&camera, &pose(x)));
        // A point at 1/q moves by 30 px x 0.1 x q.
        let neighbours = [(warp(0.1), &left), (warp(-0.1), &right)];
        let (mut q, mut s) = (vec![0.0; 64 * 32], vec![0.0; 64 * 32]);
        let job = SweepJob {
            reference: &reference,
            neighbours: &neighbours,
            rows: 0..32,
            first: 0.1,
            step: 0.15,
            steps: 7,
            least_variance: 1.0,
        };
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        sweep(level, &job, |_, row| row.fill(0.0), &mut SweepBuffers::default(), &mut q, &mut s);
        for y in 3..29 {
            for x in 6..58 {
                let i = y * 64 + x;
                // Steps are 0.45 px; the parabola finds the position between 0.4 and 0.55.
                assert!(s[i] > 0.9 && (q[i] - 0.5).abs() < 0.05, "({x}, {y}): {} {}", q[i], s[i]);
            }
        }
    }
}
