//! The device of the tests.

use std::sync::OnceLock;

use gausset_core::engine::Engine;
use gausset_gpu::{AdapterChoice, DensityBackend, Gpu, GpuEngine, GpuOptions};
use gausset_testkit::skip_for_gpu;

fn opened() -> &'static Result<Gpu, String> {
    static GPU: OnceLock<Result<Gpu, String>> = OnceLock::new();
    GPU.get_or_init(|| {
        let choice = match std::env::var("GAUSSET_GPU") {
            Ok(name) => AdapterChoice::Named(name),
            Err(_) => AdapterChoice::Best,
        };
        Gpu::open(&choice).map_err(|err| err.to_string())
    })
}

/// The device; `None`, with a line that gives the reason, if the test is skipped.
pub(crate) fn gpu(test: &str) -> Option<Gpu> {
    match opened() {
        Ok(gpu) => Some(gpu.clone()),
        Err(reason) => {
            skip_for_gpu(test, reason);
            None
        }
    }
}

/// An engine on it.
pub(crate) fn engine(gpu: &Gpu) -> Box<dyn Engine> {
    Box::new(GpuEngine::new(gpu, GpuOptions { threads: 2, ..GpuOptions::default() }))
}

/// An engine that applies density rules on the CPU.
pub(crate) fn with_rules_on_host(gpu: &Gpu) -> Box<dyn Engine> {
    let options = GpuOptions { threads: 2, density: DensityBackend::Host, ..GpuOptions::default() };
    Box::new(GpuEngine::new(gpu, options))
}
