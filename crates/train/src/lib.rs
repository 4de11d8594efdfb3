//! Training: options, recipe, the loop with its events, resume, evaluation.
//!
//! The trainer decides and knows no device: everything that computes goes through
//! [`gausset_core::engine::Engine`], everything that is told to people is an [`Event`].
//!
//! ```text
//! TrainOptions (command line, file, defaults) ─▶ TrainConfig ─▶ Run ─▶ RUN/splats.ply
//!                                                 Recipe ──┘    │ Event
//!                                                               ▼
//!                                                      progress bar · viewer · report
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod options;
pub mod recipe;
pub mod words;

pub use config::{ConfigError, RecordedRun, RunRecord, TrainConfig};
pub use options::{OptionsError, TrainOptions};
pub use recipe::{Recipe, SceneFacts};
pub use words::{Adam, Alpha, Background, MemoryLimit, Split, Strategy, Up};
