#![no_main]

#[path = "../oracles/georeference_json.rs"]
mod georeference_json;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| georeference_json::check(bytes));
