#![no_main]

#[path = "../oracles/field_model.rs"]
mod field_model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| field_model::check(bytes));
