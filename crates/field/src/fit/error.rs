//! Errors of a fit.

use crate::error::FieldError;

/// Why a fit was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// An option is out of range.
    #[error("⟨{option}⟩: unusable value (expected {expected}, found {})", gausset_io::text::format_number(*found))]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Accepted values, as text.
        expected: &'static str,
        /// The value that was given.
        found: f64,
    },
    /// The numbers of points and values differ.
    #[error("samples: different numbers (expected as many points as values, found {points} and {values})")]
    Lengths {
        /// Number of points.
        points: usize,
        /// Number of values.
        values: usize,
    },
    /// Too few samples.
    #[error("samples: too few (expected at least 2, found {found})")]
    TooFew {
        /// Number of samples.
        found: usize,
    },
    /// More samples than 32-bit indices can address.
    #[error("samples: too many (expected fewer than 2^32, found {found})")]
    TooMany {
        /// Number of samples.
        found: usize,
    },
    /// A sample is not finite.
    #[error("sample {index}: not finite (expected numbers, found {point:?} -> {value}); remove it")]
    Sample {
        /// Index of the sample.
        index: usize,
        /// Its position, user units.
        point: [f64; 3],
        /// Its value, as given.
        value: f64,
    },
    /// All samples are held out.
    #[error("samples: none left for training (expected some, found {found} held out); lower ⟨holdout⟩")]
    NoTraining {
        /// Number of samples held out.
        found: usize,
    },
    /// The loss is not finite.
    #[error("step {step}: loss is not finite; report this with the data, or try another ⟨seed⟩")]
    Loss {
        /// Number of the step that failed.
        step: u64,
    },
    /// The fit was asked to stop.
    #[error("stopped")]
    Stopped,
    /// A field of the fit is invalid.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A state cannot be read.
    #[error("checkpoint: damaged: {problem}; start without ⟨resume⟩")]
    State {
        /// What is wrong with the state.
        problem: String,
    },
    /// A state belongs to other samples or options.
    #[error("checkpoint: {what} differs (expected {expected}, found {found}); start without ⟨resume⟩")]
    OtherFit {
        /// What differs: samples or an option.
        what: &'static str,
        /// Value in the options.
        expected: String,
        /// Value in the checkpoint.
        found: String,
    },
}
