//! Measures the loss and its gradient per SIMD level: `cargo run --release -p gausset-metrics --example loss_speed`.
//!
//! Arguments: width, height, threads, level (516 344 1 all). Prints milliseconds of CPU time (all threads) and of wall
//! time per call, the median and the best of 100 calls, and CPU nanoseconds per pixel.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::time::Instant;

use gausset_compute::rng::{philox, stream, uniform};
use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::TargetImage;
use gausset_metrics::{GroundTruth, LossKernel, LossOptions, Planes};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(default, |a| a.parse().expect("a whole number"));
    let (width, height, threads): (u32, u32, u32) = (number(516), number(344), number(1));
    let only = arguments.next();
    let pixels = width as usize * height as usize;
    let draw = |i: usize| philox(1, stream::TEST, 0, i as u32);
    let rgb: Vec<u8> = (0..3 * pixels).map(|i| draw(i)[0] as u8).collect();
    let render: Vec<f32> = (0..3 * pixels).map(|i| uniform(draw(i)[1])).collect();
    let render = Planes::from_interleaved(width, height, &render);
    let opaque = TargetImage { width, height, rgb, alpha: None, mask: None };
    let alpha = (0..pixels).map(|i| draw(i)[2] as u8).collect();
    let mask = (0..pixels).map(|i| u8::from(draw(i)[3] > u32::MAX / 4)).collect();
    let composited = TargetImage { alpha: Some(alpha), ..opaque.clone() };
    let masked = TargetImage { mask: Some(mask), ..opaque.clone() };

    let pool = Pool::new(threads as usize);
    println!(
        "{width}x{height}, {threads} threads         CPU ms (best)       wall ms (best)    CPU ns/px (best)"
    );
    for wanted in [SimdLevel::Avx512, SimdLevel::Avx2, SimdLevel::Fallback] {
        let Some(level) =
            dispatch_level(wanted).filter(|_| only.as_ref().is_none_or(|o| o == wanted.level_name()))
        else {
            continue;
        };
        let report = |name: &str, call: &mut dyn FnMut()| {
            let calls = if wanted == SimdLevel::Fallback { 3 } else { 100 };
            let (mut cpu, mut wall): (Vec<f64>, Vec<f64>) = (0..calls)
                .map(|_| {
                    let start = (cpu_ms(), Instant::now());
                    call();
                    (cpu_ms() - start.0, start.1.elapsed().as_secs_f64() * 1e3)
                })
                .unzip();
            cpu.sort_by(f64::total_cmp);
            wall.sort_by(f64::total_cmp);
            let (cpu_median, wall_median) = (cpu[calls / 2], wall[calls / 2]);
            let per_pixel = 1e6 / pixels as f64;
            println!(
                "{:9} {name:14} {cpu_median:8.3} ({:7.3}) {wall_median:10.3} ({:7.3}) {:10.2} ({:6.2})",
                wanted.level_name(),
                cpu[0],
                wall[0],
                cpu_median * per_pixel,
                cpu[0] * per_pixel
            );
        };
        for (name, target, dssim_weight) in [
            ("loss", &opaque, 0.2),
            ("loss, alpha", &composited, 0.2),
            ("loss, mask", &masked, 0.2),
            ("L1 only", &opaque, 0.0),
        ] {
            let mut kernel = LossKernel::new(level);
            let mut gradient = Planes::default();
            let options = LossOptions { dssim_weight, background: [0.2, 0.4, 0.6], latitude: None };
            report(name, &mut || {
                let loss = kernel.run(&pool, &render, GroundTruth::Bytes(target), &options, &mut gradient);
                std::hint::black_box(loss.expect("images have the same size"));
            });
        }
    }
}

/// CPU time of the process in ms.
fn cpu_ms() -> f64 {
    gausset_prof::process_cpu().map_or(f64::NAN, |time| 1e3 * time.as_secs_f64())
}
