//! Training: options, recipe, the loop with its events, resume, evaluation.
//!
//! The trainer is independent of the device: all computation goes through [`gausset_core::engine::Engine`], and all
//! reports to the user are [`Event`]s.
//!
//! ```text
//! TrainOptions (command line, file, defaults) ─▶ TrainConfig ─▶ Run ─▶ RUN/splats.ply
//!                                                 Recipe ──┘    │ Event
//!                                                               ▼
//!                                                      progress bar · viewer · report
//! ```
#![forbid(unsafe_code)]

pub mod agreement;
pub mod between;
pub mod cameras;
pub mod clean;
pub mod config;
pub mod eval;
pub mod events;
pub mod exposures;
pub mod free_space;
pub mod gains;
pub mod memory;
pub mod options;
pub mod orbit;
pub mod plan;
pub mod recipe;
pub mod run;
pub mod sheet;
pub mod sky;
pub mod up;
pub mod views;
pub mod warning;
mod words;

pub use config::{ConfigError, RecordedRun, RunRecord, TrainConfig};
pub use eval::{
    Advice, EvalError, EvalOptions, EvalRecord, EvalReport, Evaluation, Measures, PictureFolder, Scores,
    Trust, evaluate,
};
pub use events::{End, Event, Outcome, Progress, Started, StereoReport, Summary};
pub use exposures::{Exposures, GainsError, LearntGains};
pub use gausset_metrics::{Lpips, SsimDefinition};
pub use memory::MemoryPlan;
pub use options::{OptionsError, TrainOptions};
pub use plan::Plan;
pub use recipe::{Recipe, SceneFacts};
pub use run::{
    Advanced, Foreseen, MAX_REQUESTS, PictureRequest, Request, Requests, Run, Session, TrainError,
    check_dataset, check_init, foresee, foresee_memory, read_finished, read_summary, resumable_config,
    with_refined_poses,
};
pub use warning::{RunWarning, SkippedPicture};
pub use words::{
    Adam, Alpha, Background, Colours, Exposure, FreeSpace, InitPoints, MemoryLimit, Panoramas, Quality,
    RandomBackground, Split, Strategy, TimeBudget, Up,
};
