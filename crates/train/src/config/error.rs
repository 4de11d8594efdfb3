//! Why options do not make a configuration.

use std::path::PathBuf;

use crate::options::OptionsError;

/// Why options do not make a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The config file cannot be used.
    #[error(transparent)]
    File(#[from] OptionsError),
    /// An option that is needed was not given.
    #[error("⟨{option}⟩: not given (expected {expected})")]
    Missing {
        /// Its key.
        option: &'static str,
        /// What is needed.
        expected: &'static str,
    },
    /// A value out of range.
    #[error("⟨{option}⟩: {found} is out of range (expected {expected})")]
    Range {
        /// Its key.
        option: &'static str,
        /// Values that are accepted.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// An option that the others leave without effect.
    #[error("⟨{option}⟩: has no effect {why}")]
    NoEffect {
        /// Its key.
        option: &'static str,
        /// What leaves it without effect, and what to do.
        why: &'static str,
    },
    /// A window of the schedule that is empty or out of order.
    #[error("⟨{from_option} = {from}⟩ and ⟨{until_option} = {until}⟩: {what}")]
    Window {
        /// Long name of the beginning.
        from_option: &'static str,
        /// Beginning as a fraction of the run.
        from: f64,
        /// Long name of the end.
        until_option: &'static str,
        /// End as a fraction of the run.
        until: f64,
        /// What is wrong and what was expected.
        what: String,
    },
    /// A path that cannot be written into a config file.
    #[error(
        "⟨{option}⟩: {path:?} is not Unicode (expected a path that can be written into config.toml); rename it"
    )]
    NotUnicode {
        /// Its key.
        option: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A run that is resumed with options that would change its result.
    #[error("{}: the run was started with {}; resume without these options or start a new run", config.display(), differences.join(", "))]
    Differs {
        /// The run's `config.toml`.
        config: PathBuf,
        /// Each differing option: `steps = 7000 (given: 300)`.
        differences: Vec<String>,
    },
}
