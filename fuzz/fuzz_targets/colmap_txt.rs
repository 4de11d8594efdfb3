#![no_main]

#[allow(dead_code, reason = "only its checks of a model are used")]
#[path = "../oracles/colmap_bin.rs"]
mod colmap_bin;
#[path = "../oracles/colmap_txt.rs"]
mod colmap_txt;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| colmap_txt::check(bytes));
