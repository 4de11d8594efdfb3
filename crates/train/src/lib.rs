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
//!
//! ```
//! use gausset_train::{TrainConfig, TrainOptions};
//!
//! let file = TrainOptions::from_toml("steps = 3000\nmax-splats = 50000", "my.toml".as_ref())?;
//! let given = TrainOptions { data: Some("scene".into()), steps: Some(7000), ..TrainOptions::default() };
//! // Given options win over those of the file, and defaults fill in the rest.
//! let config = TrainConfig::resolve(&given, Some(&file))?;
//! assert_eq!(config.recipe.steps, 7000);
//! assert_eq!(config.to_options().max_splats, Some(50_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod block;
pub mod cameras;
pub mod config;
pub mod contact_sheet;
pub mod eval;
pub mod events;
pub mod exposures;
pub mod floaters;
pub mod free_space;
pub mod gains;
mod large_set;
pub mod memory;
mod nadir;
pub mod near_plane;
mod option_values;
pub mod options;
pub mod orbit;
pub mod plan;
pub mod recipe;
pub mod run;
pub mod sky;
pub mod up;
pub mod view_pairs;
pub mod views;
pub mod warning;

pub use block::{Block, BlockMemory, Blocks, GivenCorrections};
pub use config::{BudgetGrowth, ConfigError, RecordedRun, RunRecord, TrainConfig};
pub use eval::{
    Advice, Confidence, ConfidenceMap, ConfidenceReport, DepthMaps, EvalError, EvalOptions, EvalOutput,
    EvalRecord, EvalReport, Evaluation, Judgement, MetricSet, PhotographAgain, Scores, Support, Trust,
    evaluate,
};
pub use events::{Event, RunEnd, RunOutcome, RunProgress, RunStart, RunSummary, StereoReport};
pub use exposures::{Exposures, GainsError, LearntGains};
pub use gausset_metrics::{Lpips, SsimDefinition};
pub use memory::MemoryPlan;
pub use option_values::{
    Adam, Alpha, Background, Colours, Exposure, FreeSpace, InitPoints, MemoryLimit, NearPlane, Panoramas,
    ParseValueError, Quality, RandomBackground, Split, SpzFrame, Strategy, TimeBudget, Up,
};
pub use options::{OptionsError, TrainOptions};
pub use plan::StepPlan;
pub use recipe::{Recipe, SceneFacts};
pub use run::{
    AdvanceOutcome, BlockedRun, MAX_REQUESTS, PartsSurvey, Prediction, Request, RequestQueue, Run, Session,
    SurveyedParts, Totals, TrainError, check_dataset, check_init, predict_memory, predict_run, read_outcome,
    read_summary, resumable_config, with_refined_poses,
};
pub use warning::{RunWarning, SkippedImage};
