//! Errors of resolving options to a configuration.

use std::path::PathBuf;

use crate::options::OptionsError;

/// Why options do not resolve to a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The config file is invalid.
    #[error(transparent)]
    File(#[from] OptionsError),
    /// A required option was not given.
    #[error("⟨{option}⟩: not given (expected {expected})")]
    Missing {
        /// Key of the option.
        option: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// A value out of range.
    #[error("⟨{option}⟩: {found} is out of range (expected {expected})")]
    Range {
        /// Key of the option.
        option: &'static str,
        /// Accepted values, as text: `0..1`.
        expected: &'static str,
        /// The value that was given.
        found: String,
    },
    /// An option that has no effect with the other options.
    #[error("⟨{option}⟩: has no effect {why}")]
    NoEffect {
        /// Key of the option.
        option: &'static str,
        /// Why it has no effect, and what to do.
        why: &'static str,
    },
    /// A window of the schedule that is empty or out of order.
    #[error("⟨{from_option} = {from}⟩ and ⟨{until_option} = {until}⟩: {what}")]
    Window {
        /// Long name of the option for the beginning.
        from_option: &'static str,
        /// Beginning as a fraction of the run.
        from: f64,
        /// Long name of the option for the end.
        until_option: &'static str,
        /// End as a fraction of the run.
        until: f64,
        /// What is wrong, with what was expected.
        what: String,
    },
    /// A path that cannot be stored in a config file.
    #[error(
        "⟨{option}⟩: {path:?} is not Unicode (expected a path that can be written into config.toml); rename it"
    )]
    NotUnicode {
        /// Key of the option.
        option: &'static str,
        /// The path, which is not valid Unicode.
        path: PathBuf,
    },
    /// A resumed run was given options that would change its result.
    #[error("{}: the run was started with {}; resume without these options or start a new run", config.display(), differences.join(", "))]
    Differs {
        /// The run's `config.toml`.
        config: PathBuf,
        /// Each differing option: `steps = 7000 (given: 300)`.
        differences: Vec<String>,
    },
}
