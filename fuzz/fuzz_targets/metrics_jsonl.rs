#![no_main]

#[path = "../oracles/metrics_jsonl.rs"]
mod metrics_jsonl;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| metrics_jsonl::check(bytes));
