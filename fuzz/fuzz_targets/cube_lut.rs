#![no_main]

#[path = "../oracles/cube_lut.rs"]
mod cube_lut;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cube_lut::check(bytes));
