#![no_main]

#[path = "../oracles/ply_read.rs"]
mod ply_read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ply_read::check(bytes));
