//! The program `gausset`, which the package installs beside the library.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the program with these arguments, the first of which is its name; returns its exit code.
#[pyfunction]
pub(crate) fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| gausset_cli::run(arguments))
}
