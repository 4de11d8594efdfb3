//! Seeds and past findings of the fuzz targets of this crate.

#[path = "../../../fuzz/oracles/model_toml.rs"]
mod model_toml;
#[path = "../../../fuzz/oracles/onnx_scan.rs"]
mod onnx_scan;

use gausset_testkit::corpus::replay;

/// Truncated and damaged copies of each file.
const VARIANTS: usize = 400;

#[test]
fn no_bytes_break_what_looks_through_models() {
    replay("onnx_scan", VARIANTS, onnx_scan::check);
}

#[test]
fn descriptions_are_read_or_refused_in_one_line() {
    replay("model_toml", VARIANTS, model_toml::check);
}
