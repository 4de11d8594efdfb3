#![no_main]

#[path = "../oracles/transforms_json.rs"]
mod transforms_json;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| transforms_json::check(bytes));
