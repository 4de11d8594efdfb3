#![no_main]

#[path = "../oracles/camera_exports.rs"]
mod camera_exports;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| camera_exports::check(bytes));
