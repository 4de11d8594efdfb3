//! Fits a field to scattered samples and evaluates a value, a gradient and the derivatives of a loss.
//!
//! `cargo run --release -p gausset-field --example fit_and_query`
#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use gausset_field::fit::{FieldFit, FitOptions, Samples};
use gausset_field::{Compute, Evaluator};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Two bumps, sampled at irregular points of the box [0, 1]³.
    let points: Vec<[f64; 3]> = (1..=4000)
        .map(|i| [0.819_172_513, 0.671_043_607, 0.549_700_478].map(|step| (f64::from(i) * step).fract()))
        .collect();
    let bump = |x: &[f64; 3], c: [f64; 3], s: f64| {
        (-(0..3).map(|k| (x[k] - c[k]).powi(2)).sum::<f64>() / (2.0 * s * s)).exp()
    };
    let truth = |x: &[f64; 3]| bump(x, [0.3, 0.4, 0.5], 0.1) - 0.5 * bump(x, [0.7, 0.6, 0.5], 0.15);
    let values = points.iter().map(truth).collect();
    let samples = Samples { points, values, grid: None };

    let compute = Compute::best();
    let options = FitOptions { gaussians: 4, ..FitOptions::default() };
    let mut fit = FieldFit::new(&compute, &samples, &options)?;
    while !fit.is_done() {
        fit.step()?;
    }
    let fitted = fit.finish()?;
    println!("held out: R2 {:.9}", fitted.test.r2.unwrap_or(f64::NAN));

    // f, its gradient, and the VJP of `Σ g f(x)`.
    let evaluator = Evaluator::new(&compute, &fitted.field)?;
    let at = [[0.3, 0.4, 0.5], [0.7, 0.6, 0.5]];
    let found = evaluator.gradients(&at)?;
    for (b, x) in at.iter().enumerate() {
        let value = fitted.normalisation.offset + fitted.normalisation.scale * found.values[b];
        println!("f({x:?}) = {value:.6} (truth {:.6}), gradient {:.4?}", truth(x), found.gradients[b]);
    }
    let gradients = evaluator.vjp(&at, &[1.0, 1.0])?;
    println!("by the weights: {:.3?}", gradients.weights);
    Ok(())
}
