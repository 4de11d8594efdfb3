//! What can be wrong with a field, with points or in a file, as values.

use std::fmt::Display;

use gausset_io::units::number;

/// Why a field, points or cotangents were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FieldError {
    /// The arrays of a field have different lengths.
    #[error(
        "field: arrays of different lengths (expected one entry per Gaussian, found {means} means, {chol} factors, {weights} weights)"
    )]
    Lengths {
        /// Means.
        means: usize,
        /// Factors.
        chol: usize,
        /// Weights.
        weights: usize,
    },
    /// A parameter that cannot be computed with.
    #[error("{tensor}: row {index}: unusable value (expected a finite number in range, found {})", number(*value))]
    Parameter {
        /// Which array.
        tensor: &'static str,
        /// Which Gaussian.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A covariance whose inverse overflows.
    #[error(
        "chol: row {index}: covariance is singular in {precision} (expected axes longer than rounding); enlarge or remove this Gaussian"
    )]
    Singular {
        /// Which Gaussian.
        index: usize,
        /// f32 or f64.
        precision: &'static str,
    },
    /// A point that is not finite or too far.
    #[error("points: row {index}: unusable point (expected finite coordinates up to {limit:e}, found {} {} {})", number(point[0]), number(point[1]), number(point[2]))]
    Point {
        /// Which point.
        index: usize,
        /// The point.
        point: [f64; 3],
        /// Largest coordinate.
        limit: f64,
    },
    /// Points outside the box of the field.
    #[error(
        "points: row {index}: outside the box of the field (expected {lo:?} to {hi:?}, found {point:?}; {count} points are outside)"
    )]
    Outside {
        /// The first of them.
        index: usize,
        /// The point.
        point: [f64; 3],
        /// How many there are.
        count: usize,
        /// Smallest coordinates of the box.
        lo: [f64; 3],
        /// Largest coordinates of the box.
        hi: [f64; 3],
    },
    /// Cotangents that do not fit the points.
    #[error("cotangents: wrong number (expected {expected}, one per point, found {found})")]
    Cotangents {
        /// Number of points.
        expected: usize,
        /// Number of cotangents.
        found: usize,
    },
    /// More than this program can number.
    #[error("{what}: too many (expected fewer than 2^32, found {count})")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// A cut-off that is no amount.
    #[error("cut-off: not an amount (expected a number of at least 0, found {})", number(*found))]
    Cutoff {
        /// What was given.
        found: f64,
    },
    /// A grid that this machine cannot hold.
    #[error(
        "grid: too many points for the memory of this machine (expected at most {most}, found {} x {} x {})",
        dims[0], dims[1], dims[2]
    )]
    Memory {
        /// Points along x, y, z.
        dims: [usize; 3],
        /// Points that would fit.
        most: u64,
    },
}

/// What is wrong in the content of a file: always one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ContentError {
    /// Something at a place is not as it should be.
    #[error("{place}: {what}{}", aside(expected.as_deref(), found.as_deref()))]
    At {
        /// Line, field or array of the file.
        place: String,
        /// What is wrong there, perhaps in the words of a library.
        what: String,
        /// What should be there.
        expected: Option<String>,
        /// What is there.
        found: Option<String>,
    },
    /// More samples than the caller has memory for.
    #[error("samples: too many for the memory of this machine (expected at most {most}, found {found})")]
    Room {
        /// How many would fit.
        most: u64,
        /// How many the file says it has.
        found: u64,
    },
    /// A table without rows.
    #[error("no rows (expected x y z value)")]
    NoRows,
    /// A library panicked on it.
    #[error("the decoder broke down; convert it")]
    Decoder,
    /// An error, and what to do about it.
    #[error("{0}; {1}")]
    Advised(Box<Self>, &'static str),
    /// The field in it makes no sense.
    #[error(transparent)]
    Field(#[from] FieldError),
}

fn aside(expected: Option<&str>, found: Option<&str>) -> String {
    match (expected, found) {
        (Some(expected), Some(found)) => format!(" (expected {expected}, found {found})"),
        (Some(expected), None) => format!(" (expected {expected})"),
        (None, Some(found)) => format!(" (found {found})"),
        (None, None) => String::new(),
    }
}

/// Text as a part of one line: names in files and the words of libraries may have several.
fn line(text: impl Display) -> String {
    text.to_string().split(|c: char| c.is_control()).collect::<Vec<_>>().join(" ")
}

impl ContentError {
    /// `place: what`.
    pub(crate) fn unread(place: impl Display, what: impl Display) -> Self {
        Self::At { place: line(place), what: line(what), expected: None, found: None }
    }

    /// `place: what (expected …, found …)`.
    pub(crate) fn unexpected(
        place: impl Display,
        what: impl Display,
        expected: impl Display,
        found: impl Display,
    ) -> Self {
        let (expected, found) = (Some(line(expected)), Some(line(found)));
        Self::At { place: line(place), what: line(what), expected, found }
    }

    /// `place: what (expected …)`.
    pub(crate) fn missing(place: impl Display, what: impl Display, expected: impl Display) -> Self {
        Self::At { place: line(place), what: line(what), expected: Some(line(expected)), found: None }
    }

    /// `place: what (found …)`.
    pub(crate) fn unusable(place: impl Display, what: impl Display, found: impl Display) -> Self {
        Self::At { place: line(place), what: line(what), expected: None, found: Some(line(found)) }
    }

    /// The error of a part, with the place of the part in the whole.
    pub(crate) fn inside(mut self, outer: impl Display) -> Self {
        if let Self::At { place, .. } = &mut self {
            *place = line(format_args!("{outer}: {place}"));
        }
        self
    }

    pub(crate) fn advising(self, advice: &'static str) -> Self {
        Self::Advised(Box::new(self), advice)
    }
}
