//! Time of dense evaluation: `cargo run --release -p gausset-field --example dense_speed -- [avx2]`.
#![allow(clippy::print_stdout, reason = "a program that prints figures")]

use gausset_compute::{SimdLevel, rng};
use gausset_field::{Compute, CovarianceKind, Evaluator, GaussianField, WeightMode};

fn cpu_ms() -> f64 {
    gausset_prof::process_cpu().map_or(f64::NAN, |time| 1e3 * time.as_secs_f64())
}

fn uniform(step: u64, i: usize) -> [f32; 4] {
    rng::philox(1, rng::stream::TEST, step, i as u32).map(rng::uniform)
}

fn main() {
    let level = if std::env::args().any(|word| word == "avx2") { SimdLevel::Avx2 } else { SimdLevel::Auto };
    let compute = Compute::new(1, level).expect("this processor has the level");
    for (n, b, rounds) in [(1000, 500, 41), (10_000, 500, 15), (10_000, 20_000, 3)] {
        let means = (0..n)
            .map(|i| {
                let u = uniform(1, i);
                [10.0 * u[0], 10.0 * u[1], 10.0 * u[2]]
            })
            .collect();
        let chol = (0..n)
            .map(|i| {
                let u = uniform(2, i);
                let log = |u: f32| 0.5f32.ln() + 0.6 * (u - 0.5);
                [log(u[0]), 0.3 * (u[3] - 0.5), log(u[1]), 0.1, -0.1, log(u[2])]
            })
            .collect();
        let weights = (0..n).map(|i| 2.0 * uniform(3, i)[0] - 1.0).collect();
        let field =
            GaussianField::new(means, chol, weights, WeightMode::Raw, CovarianceKind::Full).expect("valid");
        let points: Vec<[f32; 3]> = (0..b)
            .map(|i| {
                let u = uniform(4, i);
                [10.0 * u[0], 10.0 * u[1], 10.0 * u[2]]
            })
            .collect();
        let gbar = vec![1.0f32; b];
        let (mut pack, mut forward, mut backward) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let t0 = cpu_ms();
            let evaluator = Evaluator::new(&compute, &field).expect("valid");
            let t1 = cpu_ms();
            std::hint::black_box(evaluator.values(&points).expect("finite"));
            let t2 = cpu_ms();
            std::hint::black_box(evaluator.vjp(&points, &gbar).expect("finite"));
            let t3 = cpu_ms();
            pack.push(t1 - t0);
            forward.push(t2 - t1);
            backward.push(t3 - t2);
        }
        let median = |v: &mut Vec<f64>| {
            v.sort_by(f64::total_cmp);
            v[v.len() / 2]
        };
        let (p, f, g) = (median(&mut pack), median(&mut forward), median(&mut backward));
        let pairs = n as f64 * b as f64 * 1e-6;
        println!(
            "N {n} B {b}: pack {p:.4} forward {f:.4} backward {g:.4} ms; ns/pair {:.3} {:.3}",
            f / pairs,
            g / pairs
        );
    }
}
