//! Procedural scenes: made of formulas, written as ordinary datasets, the same bytes on every machine.
#![forbid(unsafe_code)]

pub mod workload;
