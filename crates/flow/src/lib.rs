//! The jobs that people want done, as library functions: the waist of the house.
//!
//! ```text
//!  command line   viewer   Python          arguments, pictures on a screen, keywords
//!        └───────────┼────────┘
//!                  flow                    plain options in, events out, a result
//!   photos ─ panos ─ training ─ evaluate ─ convert ─ clean ─ demo ─ fields
//!        ┌───────┬───┴───┬───────┐
//!      train    pano    sfm     io …       how each part is done
//! ```
//! A job is a function of an options struct, which has a `Default` or a `new` of what must be given, and of a [`Host`]:
//! who receives events ([`Event`]), and where to look whether to stop. It returns what was done, or a [`Failure`]:
//! one line with a stable code. No job knows a terminal, an argument parser or the end of a process.
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
