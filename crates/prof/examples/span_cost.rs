//! Measures the cost of a span: off, on, and with the CPU clock.
//! `cargo run --release -p gausset-prof --example span_cost`.
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::hint::black_box;
use std::time::Instant;

fn cost_ns(spans: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..spans {
        drop(black_box(gausset_prof::span("cost")));
    }
    start.elapsed().as_nanos() as f64 / f64::from(spans)
}

fn main() {
    println!("off                     {:8.1} ns", cost_ns(10_000_000));
    gausset_prof::set_enabled(true);
    println!("on, with the CPU clock  {:8.1} ns", cost_ns(1_000_000));
    let worker = std::thread::spawn(|| cost_ns(1_000_000)).join();
    println!("on, other threads       {:8.1} ns", worker.unwrap_or(f64::NAN));
    gausset_prof::set_trace(true);
    let traced = std::thread::spawn(|| cost_ns(1_000_000)).join();
    println!("on, with the trace      {:8.1} ns", traced.unwrap_or(f64::NAN));
}
