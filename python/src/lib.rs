//! `gausset._gausset`: the compiled part of the Python package.
//!
//! ```text
//!   gausset/*.py      names, defaults, shapes, exceptions; arrays of numpy
//!         │
//!   _gausset          plain arguments in; arrays, JSON text and exceptions out
//!         │
//!   crates/gausset    the jobs, as the program runs them
//! ```
//! Nothing here decides what a job does. Each entry converts its arguments, releases the interpreter while Rust works,
//! and converts the result.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod convert;
mod dataset;
mod device;
mod error;
mod field;
mod job;
mod program;
mod rasterize;
mod render;
mod splats;
mod threaded;
mod train;
mod trainer;

use pyo3::prelude::*;

/// The module; `gausset/_gausset.pyi` lists its signatures.
#[pymodule(gil_used = false)]
mod _gausset {
    #[pymodule_export]
    use super::convert::convert;
    #[pymodule_export]
    use super::dataset::Dataset;
    #[pymodule_export]
    use super::field::{field_evaluate, field_fit, field_load, field_save, field_vjp};
    #[pymodule_export]
    use super::program::{build_info, run_program};
    #[pymodule_export]
    use super::rasterize::{
        ActivatedSplats, View, l1_ssim, num_threads, project, set_memory_limit, set_num_threads, sh_colors,
        sh_colors_vjp,
    };
    #[pymodule_export]
    use super::render::{Renderer, check_camera};
    #[pymodule_export]
    use super::splats::{Properties, load, save};
    #[pymodule_export]
    use super::train::{evaluate, option_names, resume, run_splats, run_state, run_summary, train};
    #[pymodule_export]
    use super::trainer::Trainer;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
