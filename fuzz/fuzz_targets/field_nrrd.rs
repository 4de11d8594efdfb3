#![no_main]

#[path = "../oracles/field_nrrd.rs"]
mod field_nrrd;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| field_nrrd::check(bytes));
