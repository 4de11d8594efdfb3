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

#[cfg(feature = "gpu")]
mod automatic;
pub mod broadcast;
pub mod clean;
pub mod convert;
pub mod demo;
pub mod device;
pub mod doctor;
pub mod evaluate;
mod failure;
pub mod fields;
pub mod film_frames;
mod frames_chosen;
mod host;
#[cfg(feature = "gpu")]
mod kernel_files;
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
pub mod splat_facts;
mod tensorboard;
pub mod tool;
pub mod training;
mod watcher;

pub use failure::Failure;
pub use frames_chosen::FramesChosen;
pub use host::{Event, Host, Part, Stage};
pub use watcher::Watcher;
