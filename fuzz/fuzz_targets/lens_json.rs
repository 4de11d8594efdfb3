#![no_main]

#[path = "../oracles/lens_json.rs"]
mod lens_json;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lens_json::check(bytes));
