//! The program `gausset`, which the package installs beside the library, and how it was built.

use std::ffi::OsString;

use gausset_compute::fearless_simd::Level;
use gausset_compute::level::describe;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Runs the program with these arguments, the first of which is its name; returns its exit code.
#[pyfunction]
pub(crate) fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| gausset_cli::run(arguments))
}

/// What was built and what it uses: `version` with the commit if it is known, `simd`, the vector instructions that this
/// CPU has, `threads` and `features`.
#[pyfunction]
pub(crate) fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = [
        ("gpu", cfg!(feature = "gpu")),
        ("masks", cfg!(feature = "masks")),
        ("onnxruntime", cfg!(feature = "onnxruntime")),
    ];
    let features: Vec<&str> = all.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    let info = PyDict::new(py);
    info.set_item("version", gausset_cli::VERSION)?;
    info.set_item("simd", describe(Level::new()))?;
    info.set_item("threads", crate::rasterize::num_threads(py))?;
    info.set_item("features", features)?;
    Ok(info)
}
