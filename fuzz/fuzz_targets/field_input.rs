#![no_main]

#[path = "../oracles/field_input.rs"]
mod field_input;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| field_input::check(bytes));
