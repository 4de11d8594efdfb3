//! Every job of Gausset as a library function: the layer between the front ends and the algorithms.
//!
//! ```text
//!  command line   viewer   Python          arguments, a page in the browser, keyword arguments
//!        └───────────┼────────┘
//!                  flow                    plain options in; events and a result out
//!   photos ─ panos ─ training ─ evaluate ─ convert ─ clean ─ demo ─ fields
//!        ┌───────┬───┴───┬───────┐
//!      train    pano    sfm     io …       the algorithms
//! ```
//! A job is a function of an options struct and a [`Host`]. The struct has a `Default`, or a `new` that takes the
//! required values. The host receives events ([`Event`]) and holds the stop flag. A job returns its result or a
//! [`Failure`]:
//! one line with a stable code. No job knows a terminal, an argument parser or how the process ends.
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
pub mod footage_options;
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
