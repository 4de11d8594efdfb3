//! Fits a file and prints errors and times: `fit_probe FILE N STEPS [batches] [seed] [adam|lm]`.
#![allow(clippy::print_stdout, reason = "a program that prints figures")]

use std::path::Path;

use gausset_compute::SimdLevel;
use gausset_field::Compute;
use gausset_field::fit::{FieldFit, FitOptions, FitSolver, Samples};
use gausset_field::input::ReadRequest;
use safetensors::SafeTensors;

fn cpu_seconds() -> f64 {
    gausset_prof::process_cpu().map_or(f64::NAN, |time| time.as_secs_f64())
}

fn samples(path: &Path) -> Samples {
    if path.extension().is_some_and(|e| e == "safetensors") {
        let bytes = std::fs::read(path).expect("file");
        let tensors = SafeTensors::deserialize(&bytes).expect("tensors");
        let floats = |name: &str| -> Vec<f64> {
            let view = tensors.tensor(name).expect("tensor");
            view.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
        };
        let points = floats("x_train").as_chunks().0.to_vec();
        return Samples { points, values: floats("y_train"), grid: None };
    }
    gausset_field::input::read(path, &ReadRequest::default()).expect("input").samples()
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |i: usize, default: u64| words.get(i).and_then(|w| w.parse().ok()).unwrap_or(default);
    let samples = samples(Path::new(&words[1]));
    let compute = Compute::new(1, SimdLevel::Auto).expect("level");
    let solver = match words.get(6).map(String::as_str) {
        Some("lm") => FitSolver::Lm,
        _ => FitSolver::Adam,
    };
    let options = FitOptions {
        gaussians: number(2, 1000) as usize,
        steps: Some(number(3, 400)),
        batches: number(4, 1) as u8,
        seed: number(5, 0),
        solver,
        ..FitOptions::default()
    };
    let started = cpu_seconds();
    let mut fit = FieldFit::new(&compute, &samples, &options).expect("fit");
    println!("start {:.2} s validation {:?}", cpu_seconds() - started, fit.progress().validation);
    while !fit.is_done() {
        fit.step().expect("step");
        let progress = fit.progress();
        if progress.step.is_multiple_of(20) {
            let psnr = progress.validation.map(|v| -10.0 * v.log10());
            println!(
                "{} loss {:.3e} validation {psnr:.2?} dB n {} cpu {:.2}",
                progress.step,
                progress.loss,
                progress.gaussians,
                cpu_seconds() - started
            );
        }
    }
    let fitted = fit.finish().expect("finish");
    let cpu = cpu_seconds() - started - fitted.report_seconds;
    println!(
        "n {} best step {} train {:.3?} dB r2 {:.6?} test {:.3?} dB r2 {:.9?} fg {:.2?} dB; cpu {cpu:.2} report {:.2} pairs {:.2e}",
        fitted.field.len(),
        fitted.best_step,
        fitted.train.psnr,
        fitted.train.r2,
        fitted.test.psnr,
        fitted.test.r2,
        fitted.test_foreground.psnr,
        fitted.report_seconds,
        fitted.pairs.unwrap_or(0) as f64
    );
}
