#![no_main]

#[path = "../oracles/pose_files.rs"]
mod pose_files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pose_files::check(bytes));
