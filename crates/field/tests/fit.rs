//! Fits: quality, reproducibility, resuming.
#![allow(clippy::print_stdout, reason = "figures for research/benchmarks-log.md")]

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::{SimdLevel, rng};
use gausset_field::fit::{FieldFit, FitError, FitOptions, FitResult, FitSolver, Samples};
use gausset_field::{Compute, CovarianceKind, Evaluator, GaussianField, WeightMode};
use gausset_testkit::fixtures_dir;
use safetensors::SafeTensors;

fn compute() -> Compute {
    Compute::new(1, SimdLevel::Auto).unwrap()
}

fn fitted(compute: &Compute, samples: &Samples, options: &FitOptions) -> FitResult {
    let mut fit = FieldFit::new(compute, samples, options).unwrap();
    while !fit.is_done() {
        fit.step().unwrap();
    }
    fit.finish().unwrap()
}

/// Training and test samples of a fitting task of the fixtures.
fn synthetic(seed: u32) -> [Samples; 2] {
    let path = fixtures_dir().join(format!("field/synth3_seed{seed}.safetensors"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: String| -> Vec<f64> {
        let data = tensors.tensor(&name).unwrap();
        data.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
    };
    ["train", "test"].map(|set| Samples {
        points: floats(format!("x_{set}")).as_chunks().0.to_vec(),
        values: floats(format!("y_{set}")),
        grid: None,
    })
}

/// Task from the training example of an earlier program: 5,000 points (and 1,000 to test) uniform in [0, 10]³, the
/// sum of three round Gaussians. Predicting zero explains nothing: nearly all values are near zero.
fn three_bumps(seed: u32) -> [Samples; 2] {
    const BUMPS: [(f64, f64, f64); 3] = [(2.0, 0.5, 1.0), (5.0, 0.8, 0.8), (8.0, 0.6, 0.6)];
    let value = |p: &[f64; 3]| -> f64 {
        let bump = |(place, sigma, weight): (f64, f64, f64)| {
            let square: f64 = p.iter().map(|x| (x - place).powi(2)).sum();
            weight * (-0.5 * square / (sigma * sigma)).exp()
        };
        BUMPS.map(bump).iter().sum()
    };
    [(5000, 0), (1000, 1)].map(|(count, set)| {
        let point = |i| {
            let words = rng::philox(u64::from(seed), rng::stream::TEST, 20 + set, i);
            [0, 1, 2].map(|k| 10.0 * f64::from(rng::uniform(words[k])))
        };
        let points: Vec<[f64; 3]> = (0..count).map(point).collect();
        Samples { values: points.iter().map(value).collect(), points, grid: None }
    })
}

/// Both synthetic tasks on three seeds each, with a name for messages.
fn synthetic_tasks() -> impl Iterator<Item = (String, [Samples; 2])> {
    let own = (0..3).map(|seed| (format!("synth3, seed {seed}"), synthetic(seed)));
    own.chain((0..3).map(|seed| (format!("three bumps, seed {seed}"), three_bumps(seed))))
}

/// 1 - R² of a fit on held-out samples.
fn unexplained(compute: &Compute, fitted: &FitResult, test: &Samples) -> f64 {
    let found = Evaluator::new(compute, &fitted.field).unwrap().values(&test.points).unwrap();
    let mean = test.values.iter().sum::<f64>() / test.values.len() as f64;
    let total: f64 = test.values.iter().map(|y| (y - mean).powi(2)).sum();
    let value = |f: &f64| fitted.normalisation.offset + fitted.normalisation.scale * f;
    let wrong: f64 = found.iter().zip(&test.values).map(|(f, y)| (value(f) - y).powi(2)).sum();
    wrong / total
}

#[test]
fn adam_explains_the_synthetic_tasks_on_each_seed_within_500_steps() {
    let compute = compute();
    for (task, [train, test]) in synthetic_tasks() {
        let options = FitOptions {
            gaussians: 20,
            steps: Some(500),
            solver: FitSolver::Adam,
            holdout: 0.0,
            ..FitOptions::default()
        };
        let fitted = fitted(&compute, &train, &options);
        let rest = unexplained(&compute, &fitted, &test);
        println!("{task}: 1 - R2 = {rest:e}");
        assert!(fitted.test.samples == 0 && fitted.test.mse.is_nan(), "{:?}", fitted.test);
        // Measured: 1.6e-6 to 3.0e-6, and 8.0e-7 to 4.1e-5. Results are bit-identical everywhere, so the tolerance of
        // twice the worst allows changes of the algorithm, not of the machine.
        let most = if task.starts_with("synth3") { 6e-6 } else { 8e-5 };
        assert!(rest < most, "{task}: 1 - R2 = {rest:e}");
    }
}

#[test]
fn levenberg_marquardt_explains_them_to_rounding_within_20_iterations() {
    let compute = compute();
    for (task, [train, test]) in synthetic_tasks() {
        let options = FitOptions {
            gaussians: 20,
            steps: Some(20),
            solver: FitSolver::Lm,
            holdout: 0.0,
            ..FitOptions::default()
        };
        let fitted = fitted(&compute, &train, &options);
        let rest = unexplained(&compute, &fitted, &test);
        println!("{task}: 1 - R2 = {rest:e}");
        // Measured: below 2e-15 (the values of the fixture are f32) and 2e-31.
        let most = if task.starts_with("synth3") { 1e-14 } else { 1e-28 };
        assert!(rest < most, "{task}: 1 - R2 = {rest:e}");
    }
}

#[test]
fn levenberg_marquardt_does_not_depend_on_the_unit_of_length() {
    let compute = compute();
    let [train, _] = synthetic(0);
    for unit in [1e-9, 1e8] {
        let scaled = train.points.iter().map(|x| x.map(|v| unit * v)).collect();
        let samples = Samples { points: scaled, ..train.clone() };
        let options =
            FitOptions { gaussians: 20, steps: Some(20), solver: FitSolver::Lm, ..FitOptions::default() };
        let psnr = fitted(&compute, &samples, &options).test.psnr.unwrap();
        // Measured: over 130 dB, and 41 dB and 65 dB where the solver adds lengths to numbers.
        assert!(psnr > 120.0, "{unit:e}: {psnr} dB");
    }
}

/// The training example that a fit must solve whatever the seed: 4,000 clean points of the box [0, 10]³ with the values
/// of 20 round Gaussians of either sign, σ 0.5 to 1.5.
fn twenty_round(seed: u64) -> Samples {
    round_bumps(seed, 20, 4000)
}

/// The values of round Gaussians of either sign, σ 0.5 to 1.5, at this many points of the box [0, 10]³.
fn round_bumps(seed: u64, bumps: u32, count: u32) -> Samples {
    let u = |step, i| rng::philox(seed, rng::stream::TEST, step, i).map(|w| f64::from(rng::uniform(w)));
    let truth: Vec<([f64; 3], f64, f64)> = (0..bumps)
        .map(|i| {
            let (a, b) = (u(1, i), u(2, i));
            ([10.0 * a[0], 10.0 * a[1], 10.0 * a[2]], 0.5 + b[0], 2.0 * a[3] - 1.0)
        })
        .collect();
    let points: Vec<[f64; 3]> =
        (0..count).map(|i| u(3, i)).map(|a| [10.0 * a[0], 10.0 * a[1], 10.0 * a[2]]).collect();
    let value = |p: &[f64; 3]| -> f64 {
        let square = |m: &[f64; 3]| (0..3).map(|k| (p[k] - m[k]).powi(2)).sum::<f64>();
        truth.iter().map(|(m, sigma, w)| w * libm::exp(-0.5 * square(m) / (sigma * sigma))).sum()
    };
    Samples { values: points.iter().map(value).collect(), points, grid: None }
}

#[test]
fn twenty_round_gaussians_are_found_with_each_of_ten_seeds() {
    let compute = compute();
    let mut worst = 0.0f64;
    for seed in 0..10 {
        let options = FitOptions { gaussians: 20, seed, ..FitOptions::default() };
        let found = fitted(&compute, &twenty_round(seed), &options);
        println!("seed {seed}: {} steps, held-out MSE {:.2e}", found.steps, found.test.mse);
        worst = worst.max(found.test.mse);
    }
    // Measured: 5.7e-9.
    assert!(worst <= 1e-6, "held-out MSE {worst:e}");
}

#[test]
fn more_than_4096_gaussians_fit_as_well_as_fewer() {
    let compute = compute();
    let samples = round_bumps(3, 60, 30_000);
    let [few, many] = [4000, 4200].map(|gaussians| {
        let options = FitOptions { gaussians, steps: Some(60), ..FitOptions::default() };
        fitted(&compute, &samples, &options).test.psnr.unwrap()
    });
    println!("held out: {few:.2} dB, {many:.2} dB");
    assert!(many > few - 1.0, "4,000: {few} dB, 4,200: {many} dB");
}

#[test]
fn positive_weights_fit_values_far_from_0() {
    let compute = compute();
    let mut ramp = round_bumps(4, 1, 2000);
    ramp.values = ramp.points.iter().map(|x| 100.0 + x[0]).collect();
    for weight_mode in [WeightMode::Softplus, WeightMode::Sigmoid] {
        for gaussians in [20, 60] {
            let options = FitOptions { gaussians, weight_mode, ..FitOptions::default() };
            let r2 = fitted(&compute, &ramp, &options).test.r2.unwrap();
            println!("{weight_mode:?}, {gaussians}: R2 {r2}");
            assert!(r2 > 0.95, "{weight_mode:?}, {gaussians}: R2 {r2}");
        }
    }
}

#[test]
fn validation_stops_before_noise_is_learnt() {
    // Noise 0.05 on the training values, seeds 0 to 5: two for each of the three tasks.
    let compute = compute();
    let mut sum = 0.0;
    for seed in 0..6u64 {
        let [mut train, test] = synthetic(seed as u32 % 3);
        for (i, y) in train.values.iter_mut().enumerate() {
            *y += 0.05 * f64::from(rng::normals(seed, rng::stream::TEST, 0, i as u32)[0]);
        }
        let options = FitOptions { gaussians: 20, holdout: 0.0, seed, ..FitOptions::default() };
        let fitted = fitted(&compute, &train, &options);
        sum += 1.0 - unexplained(&compute, &fitted, &test);
    }
    assert!(sum / 6.0 >= 0.992, "mean R2 {}", sum / 6.0);
}

#[test]
fn a_killed_fit_goes_on_to_the_same_bytes() {
    let compute = compute();
    let [train, _] = synthetic(0);
    for solver in [FitSolver::Adam, FitSolver::Lm] {
        let options = FitOptions { gaussians: 20, steps: Some(60), solver, ..FitOptions::default() };
        let whole = fitted(&compute, &train, &options);
        for stop in [1, 7] {
            let mut fit = FieldFit::new(&compute, &train, &options).unwrap();
            for _ in 0..stop {
                fit.step().unwrap();
            }
            let state = fit.state();
            drop(fit);
            let mut fit = FieldFit::resume(&compute, &train, &options, &state).unwrap();
            while !fit.is_done() {
                fit.step().unwrap();
            }
            let resumed = fit.finish().unwrap();
            assert!(resumed.field == whole.field, "{solver:?} stopped at {stop}");
            assert_eq!(resumed.pairs, whole.pairs);
            assert_eq!(resumed.pairs.is_some(), solver == FitSolver::Adam);
        }
        // A stop during a step or the pursuit: nothing is done by halves.
        let stop = AtomicBool::new(false);
        let mut fit = FieldFit::start(&compute, &train, &options, None, &stop).unwrap();
        stop.store(true, Ordering::Relaxed);
        while fit.step().is_ok() && !fit.is_done() {}
        stop.store(false, Ordering::Relaxed);
        while !fit.is_done() {
            fit.step().unwrap();
        }
        assert!(fit.finish().unwrap().field == whole.field, "{solver:?}");
        stop.store(true, Ordering::Relaxed);
        let stopped = FieldFit::start(&compute, &train, &options, None, &stop);
        let is_stopped = matches!(stopped, Err(FitError::Stopped));
        assert_eq!(is_stopped, solver == FitSolver::Lm);
    }
}

#[test]
fn a_state_of_other_samples_or_options_is_refused() {
    let compute = compute();
    let [train, test] = synthetic(0);
    let options = FitOptions { gaussians: 5, ..FitOptions::default() };
    let state = FieldFit::new(&compute, &train, &options).unwrap().state();
    let other = FitOptions { seed: 7, ..options.clone() };
    let wrong = FieldFit::resume(&compute, &train, &other, &state).unwrap_err().to_string();
    assert!(wrong.contains("options differs"), "{wrong}");
    let wrong = FieldFit::resume(&compute, &test, &options, &state).unwrap_err().to_string();
    assert!(wrong.contains("samples differs"), "{wrong}");
    for cut in [0, 7, 100, state.len() / 2, state.len() - 1] {
        assert!(FieldFit::resume(&compute, &train, &options, &state[..cut]).is_err(), "cut at {cut}");
    }
}

/// Ten Gaussians of axes 8:3:1 at random rotations, and 20,000 clean points of the box [0, 10]³ with their values.
fn rotated_truth(compute: &Compute, seed: u64) -> (GaussianField<f64>, Samples) {
    const COUNT: u32 = 10;
    let mut truth =
        GaussianField::<f64>::new(Vec::new(), Vec::new(), Vec::new(), WeightMode::Raw, CovarianceKind::Full)
            .unwrap();
    for i in 0..COUNT {
        let n = |step: u64| rng::normals(seed, rng::stream::TEST, step, i).map(f64::from);
        let u = rng::philox(seed, rng::stream::TEST, 9, i).map(|w| f64::from(rng::uniform(w)));
        // Cholesky of R diag² Rᵀ through Gram-Schmidt of a random basis.
        let basis = orthonormal(n(1), n(2));
        let axes = [1.6, 0.6, 0.2];
        let mut s = [[0.0; 3]; 3];
        for r in 0..3 {
            for c in 0..3 {
                s[r][c] = (0..3).map(|k| basis[k][r] * basis[k][c] * axes[k] * axes[k]).sum();
            }
        }
        let l00: f64 = f64::sqrt(s[0][0]);
        let (l10, l20) = (s[1][0] / l00, s[2][0] / l00);
        let l11 = (s[1][1] - l10 * l10).sqrt();
        let l21 = (s[2][1] - l20 * l10) / l11;
        let l22 = (s[2][2] - l20 * l20 - l21 * l21).sqrt();
        truth.means.push([u[0], u[1], u[2]].map(|v| 1.5 + 7.0 * v));
        truth.chol.push([l00.ln(), l10, l11.ln(), l20, l21, l22.ln()]);
        truth.weights.push(0.6 + 0.6 * u[3]);
    }
    let points: Vec<[f64; 3]> = (0..20_000)
        .map(|i| rng::philox(100 + seed, rng::stream::TEST, 0, i).map(|w| 10.0 * f64::from(rng::uniform(w))))
        .map(|u| [u[0], u[1], u[2]])
        .collect();
    let values = Evaluator::new(compute, &truth).unwrap().values(&points).unwrap();
    (truth, Samples { points, values, grid: None })
}

#[test]
fn constant_samples_and_single_gaussians_are_fitted_too() {
    let compute = compute();
    let [mut train, _] = synthetic(0);
    let one = FitOptions { gaussians: 1, ..FitOptions::default() };
    // One Gaussian for three bumps: stuck, and no exchange is an improvement.
    assert!(fitted(&compute, &train, &one).train.r2.unwrap() > 0.1);
    for value in [0.0, 7.0] {
        train.values.fill(value);
        for gaussians in [1, 3] {
            let found = fitted(&compute, &train, &FitOptions { gaussians, ..one.clone() });
            assert!(found.train.mse < 1e-9, "{value}, {gaussians}: {}", found.train.mse);
            assert_eq!(found.train.r2, None);
        }
    }
}

#[test]
fn rotated_anisotropic_gaussians_are_found() {
    let compute = compute();
    // Any seed works (3 to 14 were tried); 7 and 11 are those that need exchanges.
    for seed in [3, 7, 11] {
        let (truth, samples) = rotated_truth(&compute, seed);
        let options = FitOptions { gaussians: truth.len(), ..FitOptions::default() };
        let found = fitted(&compute, &samples, &options);
        let r2 = found.test.r2.unwrap();
        let degrees = |i: usize| {
            let distance = |j: &usize| -> f64 {
                (0..3).map(|k| (found.field.means[*j][k] - truth.means[i][k]).powi(2)).sum()
            };
            let j = (0..found.field.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap();
            let (wanted, found) = (long_axis(&truth, i), long_axis(&found.field, j));
            let cosine: f64 = (0..3).map(|k| wanted[k] * found[k]).sum::<f64>().abs().min(1.0);
            cosine.acos().to_degrees()
        };
        let worst = (0..truth.len()).map(degrees).fold(0.0, f64::max);
        assert!(r2 > 0.999, "seed {seed}: R2 {r2}");
        assert!(worst < 1.0, "seed {seed}: an axis is {worst} degrees off");
    }
}

/// Three orthonormal rows from two random vectors.
fn orthonormal(a: [f64; 4], b: [f64; 4]) -> [[f64; 3]; 3] {
    let unit = |v: [f64; 3]| {
        let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        v.map(|x| x / length)
    };
    let x = unit([a[0], a[1], a[2]]);
    let along: f64 = (0..3).map(|k| x[k] * b[k]).sum();
    let y = unit([b[0] - along * x[0], b[1] - along * x[1], b[2] - along * x[2]]);
    [x, y, [x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]]]
}

/// The largest principal axis of a Gaussian, by power iterations on `L Lᵀ`.
fn long_axis(field: &GaussianField<f64>, i: usize) -> [f64; 3] {
    let [l00, l10, l11, l20, l21, l22] = field.factor(i);
    let mut v = [0.577, 0.577, 0.577];
    for _ in 0..200 {
        let t = [l00 * v[0] + l10 * v[1] + l20 * v[2], l11 * v[1] + l21 * v[2], l22 * v[2]];
        let w = [l00 * t[0], l10 * t[0] + l11 * t[1], l20 * t[0] + l21 * t[1] + l22 * t[2]];
        let length = w.iter().map(|x| x * x).sum::<f64>().sqrt();
        v = w.map(|x| x / length);
    }
    v
}
