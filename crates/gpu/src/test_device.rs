//! The device of the tests, opened once: compiling its kernels takes longer than most tests.

use std::sync::OnceLock;

use gausset_core::engine::EngineError;
use gausset_testkit::skip_for_gpu;

use crate::device::{AdapterChoice, Gpu};

/// The device; `None`, with a line that gives the reason, if the test is skipped.
pub(crate) fn gpu(test: &str) -> Option<Gpu> {
    static GPU: OnceLock<Result<Gpu, EngineError>> = OnceLock::new();
    let opened = GPU.get_or_init(|| Gpu::open(&AdapterChoice::Best));
    opened.as_ref().map_err(|reason| skip_for_gpu(test, &reason.to_string())).ok().cloned()
}
