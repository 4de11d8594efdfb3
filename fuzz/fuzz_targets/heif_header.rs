#![no_main]

#[path = "../oracles/heif_header.rs"]
mod heif_header;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| heif_header::check(bytes));
