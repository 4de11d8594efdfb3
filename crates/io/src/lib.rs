//! File input and output: datasets, images, splat files, checkpoints, and atomic writes.
//!
//! ```
//! use gausset_core::Splats;
//! use gausset_io::atomic::{Disk, WriteOptions};
//! use gausset_io::splat::{LoadOptions, SaveOptions, SplatFile, load, save};
//!
//! let mut splats = Splats::with_capacity(0, 1);
//! splats.push([0.0, 0.0, 2.0], [-2.0; 3], [1.0, 0.0, 0.0, 0.0], 0.0, &[1.0, 0.5, 0.0]);
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("scene.ply");
//! let file = SplatFile::new(splats.clone());
//! let report = save(&Disk, &path, &file, &SaveOptions::default(), &WriteOptions::default())?;
//! assert_eq!((report.splats, report.lost.len()), (1, 0));
//! assert_eq!(load(&path, &LoadOptions::default())?.splats, splats);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod atomic;
pub mod catch_panic;
pub mod checkpoint;
pub mod container;
pub mod dataset;
pub mod file_problem;
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
