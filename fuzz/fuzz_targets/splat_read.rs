#![no_main]

#[path = "../oracles/splat_read.rs"]
mod splat_read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| splat_read::check(bytes));
