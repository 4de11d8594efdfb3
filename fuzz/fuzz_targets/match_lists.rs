#![no_main]

#[path = "../oracles/match_lists.rs"]
mod match_lists;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| match_lists::check(bytes));
