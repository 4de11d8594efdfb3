//! File input and output: datasets, images, splat files, checkpoints, and atomic writes.
#![forbid(unsafe_code)]

pub mod atomic;
pub mod catch_panic;
pub mod checkpoint;
pub mod container;
pub mod dataset;
pub mod image;
pub mod input;
pub mod input_files;
pub mod lock;
pub mod metrics_log;
pub mod npy;
pub mod output_names;
pub mod ownership;
pub mod run_folder;
pub mod splat;
pub mod tensorboard;
pub mod text;
pub mod unfinished_folder;
