#![no_main]

#[path = "../oracles/image_decode.rs"]
mod image_decode;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| image_decode::check(bytes));
