#![no_main]

#[path = "../oracles/onnx_scan.rs"]
mod onnx_scan;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| onnx_scan::check(bytes));
