//! The self-test of a device.

use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_gpu::selftest::{difference, results};

use crate::gpu::gpu;

#[test]
fn the_stored_results_are_those_of_the_processor() {
    let mut engine = CpuEngine::new(CpuOptions { threads: 2, ..CpuOptions::default() })
        .expect("there is always a vector level");
    let found = results(&mut engine).expect("results");
    assert_eq!(difference(&found), None, "{found:?}");
}

#[test]
fn a_device_that_computes_the_same_passes_and_another_does_not() {
    let Some(gpu) = gpu("a_device_that_computes_the_same_passes_and_another_does_not") else { return };
    gpu.self_test().expect("passes");
    let mut engine = crate::gpu::engine(&gpu);
    let mut found = results(&mut *engine).expect("results");
    found[6] *= 1.001;
    assert!(difference(&found).is_some_and(|what| what.starts_with("means: ")));
    found[6] = f64::NAN;
    assert!(difference(&found).is_some());
}
