#![no_main]

#[path = "../oracles/jpeg_decode.rs"]
mod jpeg_decode;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jpeg_decode::check(bytes));
