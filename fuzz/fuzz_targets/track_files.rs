#![no_main]

#[path = "../oracles/track_files.rs"]
mod track_files;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| track_files::check(bytes));
