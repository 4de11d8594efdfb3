//! The splat renderer and its gradients on the CPU.
//!
//! One file per stage; `density` changes the set of splats.
#![forbid(unsafe_code)]

pub mod density;
pub mod morton;
