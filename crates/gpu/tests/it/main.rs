//! The GPU engine on the available adapter. Without one the tests are skipped with a message; with
//! `GAUSSET_REQUIRE_GPU=1` that is a failure. All tests share one device: creating many is slow, and kernels are
//! compiled only once.

mod against_cpu;
mod contract;
mod determinism;
mod failures;
mod gpu;
mod memory;
mod selftest;
