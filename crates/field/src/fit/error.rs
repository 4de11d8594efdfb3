//! Why a fit was refused or failed.

use crate::error::FieldError;

/// Why a fit was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// An option that makes no sense.
    #[error("⟨{option}⟩: unusable value (expected {expected}, found {})", gausset_io::units::number(*found))]
    Option {
        /// Which.
        option: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it was.
        found: f64,
    },
    /// Points and values do not fit together.
    #[error("samples: different numbers (expected as many points as values, found {points} and {values})")]
    Lengths {
        /// Points.
        points: usize,
        /// Values.
        values: usize,
    },
    /// Nothing to fit to.
    #[error("samples: too few (expected at least 2, found {found})")]
    TooFew {
        /// How many.
        found: usize,
    },
    /// More than this program can number.
    #[error("samples: too many (expected fewer than 2^32, found {found})")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// A sample that is not finite.
    #[error("sample {index}: not finite (expected numbers, found {point:?} -> {value}); remove it")]
    Sample {
        /// Which.
        index: usize,
        /// Where.
        point: [f64; 3],
        /// What.
        value: f64,
    },
    /// No sample is left to fit to.
    #[error("samples: none left for training (expected some, found {found} held out); lower ⟨holdout⟩")]
    NoTraining {
        /// Samples held out.
        found: usize,
    },
    /// The loss is not finite.
    #[error("step {step}: loss is not finite; report this with the data, or try another ⟨seed⟩")]
    Loss {
        /// Step.
        step: u64,
    },
    /// The field of a state cannot be computed with.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A state that cannot be read.
    #[error("checkpoint: damaged: {what}; start without ⟨resume⟩")]
    State {
        /// What is wrong.
        what: String,
    },
    /// A state that does not belong to these samples and options.
    #[error("checkpoint: {what} differs (expected {expected}, found {found}); start without ⟨resume⟩")]
    Differs {
        /// What.
        what: &'static str,
        /// In the options.
        expected: String,
        /// In the checkpoint.
        found: String,
    },
}
