//! Every job of Gausset as a library function: the layer between the front ends and the algorithms.
//!
//! ```text
//!  command line   viewer   Python          arguments, a page in the browser, keyword arguments
//!        └───────────┼────────┘
//!                gausset                   plain options in; events and a result out
//!   photos ─ panos ─ training ─ evaluate ─ convert ─ clean ─ demo ─ fields
//!        ┌───────┬───┴───┬───────┐
//!      train    pano    sfm     io …       the algorithms
//! ```
//! A job is a function of an options struct and a [`Host`]. The struct has a `Default`, or a `new` that takes the
//! required values. The host receives events ([`Event`]) and holds the stop flag. A job returns its result or a
//! [`Failure`]: one line with a stable code. No job knows a terminal, an argument parser or how the process ends.
//!
//! ```
//! use gausset::Host;
//! use gausset::convert::{ConvertOptions, convert};
//! use gausset_core::Splats;
//! use gausset_io::atomic::{Disk, WriteOptions};
//! use gausset_io::splat::{SaveOptions, SplatFile, save};
//! use std::sync::{Arc, atomic::AtomicBool};
//!
//! let folder = tempfile::tempdir()?;
//! let [ply, spz] = ["a.ply", "a.spz"].map(|name| folder.path().join(name));
//! let mut splats = Splats::zeros(0, 100);
//! splats.quats.fill([1.0, 0.0, 0.0, 0.0]);
//! save(&Disk, &ply, &SplatFile::new(splats), &SaveOptions::default(), &WriteOptions::default())?;
//!
//! let (stop, mut on_event) = (Arc::new(AtomicBool::new(false)), |_event| ());
//! let result = convert(&ConvertOptions::new(&ply, &spz), &mut Host::new(&stop, &mut on_event))?;
//! assert_eq!(result.saved.splats, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod aligner;
pub mod broadcast;
pub mod clean;
pub mod convert;
pub mod demo;
pub mod device;
#[cfg(feature = "gpu")]
mod device_selection;
pub mod doctor;
pub mod evaluate;
mod failure;
pub mod fields;
pub mod frame_selection;
mod host;
#[cfg(feature = "gpu")]
mod kernel_cache;
#[cfg(feature = "masks")]
pub mod mask;
pub mod mask_engine;
mod memory;
pub mod page;
pub mod panos;
pub mod photos;
pub mod profiling;
pub mod records;
pub mod render;
pub mod report;
pub mod saved_run;
mod selection_summary;
pub mod splat_info;
mod tensorboard;
pub mod training;
mod watcher;

pub use failure::Failure;
pub use host::{CountedItem, Event, Host, Stage};
pub use selection_summary::SelectionSummary;
pub use watcher::Watcher;
