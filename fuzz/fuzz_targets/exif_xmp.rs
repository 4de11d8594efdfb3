#![no_main]

#[path = "../oracles/exif_xmp.rs"]
mod exif_xmp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exif_xmp::check(bytes));
