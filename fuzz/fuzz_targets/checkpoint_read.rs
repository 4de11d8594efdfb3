#![no_main]

#[path = "../oracles/checkpoint_read.rs"]
mod checkpoint_read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checkpoint_read::check(bytes));
