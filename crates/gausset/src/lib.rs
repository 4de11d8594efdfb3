//! Gausset as a library: 3D Gaussian splatting on the CPU or a GPU. Photographs, video or 360-degree footage in, a splat
//! out; splat files in every common format; renders. The program `gausset` (`gausset-cli`) is a front end of this crate.
//!
//! A splat file, converted and rendered:
//! ```no_run
//! use gausset::io::atomic::Overwrite;
//! use gausset::{Camera, Pose, Renderer, load, save};
//!
//! let file = load("scene.ply")?;
//! save("scene.sog", &file, Overwrite::Refuse)?;
//! let camera = Camera::new(640, 480, 500.0, 500.0, 320.0, 240.0).expect("a valid camera");
//! let view = Renderer::new(&file, Default::default())?.render(&camera, &Pose::IDENTITY)?;
//! println!("{} values of RGB, row by row", view.color.len());
//! # Ok::<(), gausset::Failure>(())
//! ```
//! Photographs to a splat, as `gausset run photos -o scene` does:
//! ```no_run
//! use gausset::photos::{self, PhotoOptions};
//! use gausset::training::RunSettings;
//! use gausset::{TrainOptions, run_job};
//!
//! let options = PhotoOptions::new("photos", "scene");
//! let training = TrainOptions { steps: Some(7000), ..TrainOptions::default() };
//! let settings = RunSettings::for_device(Default::default());
//! let (_aligned, trained) = run_job(|host| photos::run(&options, &training, settings, host))?;
//! println!("{}", trained.folder.join("splats.ply").display());
//! # Ok::<(), gausset::Failure>(())
//! ```
//! A training that the caller advances, a part at a time:
//! ```no_run
//! use gausset::io::atomic::Overwrite;
//! use gausset::train::AdvanceOutcome;
//! use gausset::training::{RunSettings, Task};
//! use gausset::{TrainOptions, Trainer, run_job};
//!
//! let options = TrainOptions { data: Some("scene".into()), ..TrainOptions::default() };
//! let task = Task::new(options, "run".into(), Overwrite::Refuse)?;
//! run_job(|host| {
//!     let mut trainer = Trainer::new(task, RunSettings::for_device(Default::default()), host)?;
//!     while !matches!(trainer.advance(host)?, AdvanceOutcome::Ended(_)) {}
//!     trainer.finish_started(host)
//! })?;
//! # Ok::<(), gausset::Failure>(())
//! ```
//!
//! # Jobs
//! ```text
//!  command line   viewer   Python          arguments, a page in the browser, keyword arguments
//!        └───────────┼────────┘
//!                 gausset                  plain options in; events and a result out
//!   photos ─ panos ─ training ─ evaluate ─ convert ─ clean ─ demo ─ fields
//!        ┌───────┬───┴───┬───────┐
//!      train    pano    sfm     io …       the algorithms
//! ```
//! A job is a function of an options struct and a [`Host`]. The struct has a `Default`, or a `new` that takes the
//! required values. The host receives events ([`Event`]) and holds the stop flag; [`run_job`] is for callers that need
//! neither. A job returns its result or a [`Failure`]: one line with a stable code and a [kind](Failure::kind). No job
//! knows a terminal, an argument parser or how the process ends.
//!
//! ```
//! use gausset::convert::{ConvertOptions, convert};
//! use gausset::io::atomic::Overwrite;
//! use gausset::{Host, SplatFile, Splats, save};
//! use std::sync::{Arc, atomic::AtomicBool};
//!
//! let folder = tempfile::tempdir()?;
//! let [ply, spz] = ["a.ply", "a.spz"].map(|name| folder.path().join(name));
//! let mut splats = Splats::zeros(0, 100);
//! splats.quats.fill([1.0, 0.0, 0.0, 0.0]);
//! save(&ply, &SplatFile::new(splats), Overwrite::Refuse)?;
//!
//! let (stop, mut on_event) = (Arc::new(AtomicBool::new(false)), |_event| ());
//! let result = convert(&ConvertOptions::new(&ply, &spz), &mut Host::new(&stop, &mut on_event))?;
//! assert_eq!(result.saved.splats, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod aligner;
pub mod blocks;
pub mod broadcast;
pub mod clean;
pub mod convert;
pub mod demo;
pub mod device;
#[cfg(feature = "gpu")]
mod device_selection;
pub mod doctor;
pub mod evaluate;
mod external_tools;
mod failure;
pub mod fields;
pub mod footage_options;
pub mod frame_selection;
mod georeference;
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
mod scene;
mod selection_summary;
pub mod splat_info;
mod tensorboard;
pub mod training;
mod watcher;

pub use failure::{Failure, FailureKind};
pub use gausset_compute::SimdLevel;
pub use gausset_core::engine::{Outputs, RenderOptions, Rendering};
pub use gausset_core::splats_transform::Similarity;
pub use gausset_core::{Camera, Pose, Region, Splats};
pub use gausset_io::dataset::Dataset;
pub use gausset_io::splat::SplatFile;
pub use gausset_train::TrainOptions;
pub use host::{CountedItem, Event, FILES_LEFT_OUT, Host, JobPart, Stage, run_job};
pub use scene::{Renderer, load, save};
pub use selection_summary::SelectionSummary;
pub use training::Trainer;
pub use watcher::Watcher;
// The libraries below, for their types in options and results.
pub use {
    gausset_field as field, gausset_io as io, gausset_pano as pano, gausset_sfm as sfm,
    gausset_train as train,
};
