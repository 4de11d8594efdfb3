#![no_main]

#[path = "../oracles/pano_layout.rs"]
mod pano_layout;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pano_layout::check(bytes));
