//! Shared test support: the reference data and its pass rule, random scenes, image comparison, and the location of test
//! data.
//!
//! Only tests depend on this crate. It panics instead of returning errors, with messages that say how to fix the
//! problem.
//!
//! ```no_run
//! use gausset_testkit::{CaseKind, Fixtures, Precision, Tensor, check};
//!
//! for case in Fixtures::load().with_kind(CaseKind::Ssim) {
//!     let ssim = my_ssim(&case.tensor("in.x").to_f32(), &case.tensor("in.y").to_f32());
//!     let outputs = [("out.ssim".to_owned(), Tensor::scalar(ssim))].into();
//!     check(case, &outputs, Precision::F32).assert_passed();
//! }
//! # fn my_ssim(x: &[f32], y: &[f32]) -> f32 { 0.0 }
//! ```
#![forbid(unsafe_code)]

pub mod backend;
pub mod corpus;
pub mod engine_contract;
pub mod fixtures;
mod forward_engine;
pub mod golden;
pub mod image;
pub mod onnx;
pub mod pass_rule;
pub mod paths;
pub mod programs;
pub mod raster_case;
pub mod scene;
pub mod skip;
pub mod tensor;

#[doc(hidden)]
pub use gausset_core::{Camera, Pose, Splats, engine};

pub use backend::{Backend, FixtureReport, Outputs, check, check_backend};
pub use fixtures::{Case, CaseKind, CaseSettings, CompareRule, Fixtures, Tolerance};
pub use golden::assert_golden_bytes;
pub use image::psnr;
pub use pass_rule::{Comparison, Precision, compare};
pub use paths::{data_dir, data_file, fixtures_dir, testdata_dir, workspace_root};
pub use raster_case::{LinearLoss, RasterGradients, RasterIntermediates, RasterResult};
pub use scene::{RandomScene, TestScene};
pub use skip::{skip, skip_for_gpu, skip_for_machine, skip_for_tool};
pub use tensor::Tensor;
