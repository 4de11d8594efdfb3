//! The GPU engine on whatever adapter is there. Without one the tests say so and pass; `GAUSSET_REQUIRE_GPU=1` makes that a
//! failure. All tests share one device: drivers are slow to make many, and kernels are compiled once.

mod against_cpu;
mod contract;
mod determinism;
mod failures;
mod gpu;
mod memory;
mod selftest;
