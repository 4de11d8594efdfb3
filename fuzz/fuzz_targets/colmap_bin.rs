#![no_main]

#[path = "../oracles/colmap_bin.rs"]
mod colmap_bin;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| colmap_bin::check(bytes));
