//! File input and output: datasets, images, splat files, checkpoints, and atomic writes.
#![forbid(unsafe_code)]

pub mod atomic;
pub mod checkpoint;
pub mod container;
pub mod dataset;
pub mod draft;
pub mod guard;
pub mod image;
pub mod input;
pub mod lock;
pub mod metrics_log;
pub mod names;
pub mod npy;
pub mod owned;
pub mod reading;
pub mod run_folder;
pub mod splat;
pub mod tensorboard;
pub mod units;
