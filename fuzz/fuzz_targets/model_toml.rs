#![no_main]

#[path = "../oracles/model_toml.rs"]
mod model_toml;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model_toml::check(bytes));
