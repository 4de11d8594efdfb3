//! Errors of fields, points and files, as values.

use std::fmt::Display;

use gausset_io::text::format_number;

/// Why a field, points or cotangents were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The arrays of a field have different lengths.
    #[error(
        "field: arrays of different lengths (expected one entry per Gaussian, found {means} means, {chol} factors, {weights} weights)"
    )]
    Lengths {
        /// Number of means.
        means: usize,
        /// Number of factors.
        chol: usize,
        /// Number of weights.
        weights: usize,
    },
    /// A parameter is not finite or out of range.
    #[error("{tensor}: row {index}: unusable value (expected a finite number in range, found {})", format_number(*value))]
    Parameter {
        /// Name of the array.
        tensor: &'static str,
        /// Index of the Gaussian.
        index: usize,
        /// The raw value of the parameter.
        value: f64,
    },
    /// A covariance has an inverse that overflows.
    #[error(
        "chol: row {index}: covariance is singular in {precision} (expected axes longer than rounding); enlarge or remove this Gaussian"
    )]
    Singular {
        /// Index of the Gaussian.
        index: usize,
        /// f32 or f64.
        precision: &'static str,
    },
    /// A point is not finite or too far from the origin.
    #[error("points: row {index}: unusable point (expected finite coordinates up to {limit:e}, found {} {} {})", format_number(point[0]), format_number(point[1]), format_number(point[2]))]
    Point {
        /// Index of the point.
        index: usize,
        /// The point, user units.
        point: [f64; 3],
        /// Largest coordinate allowed, by magnitude.
        limit: f64,
    },
    /// Points outside the box of the field.
    #[error(
        "points: row {index}: outside the box of the field (expected {lo:?} to {hi:?}, found {point:?}; {count} points are outside)"
    )]
    Outside {
        /// Index of the first of them.
        index: usize,
        /// The first such point, user units.
        point: [f64; 3],
        /// Number of points outside.
        count: usize,
        /// Smallest coordinates of the box.
        lo: [f64; 3],
        /// Largest coordinates of the box.
        hi: [f64; 3],
    },
    /// The numbers of cotangents and points differ.
    #[error("cotangents: wrong number (expected {expected}, one per point, found {found})")]
    Cotangents {
        /// Number of points.
        expected: usize,
        /// Number of cotangents.
        found: usize,
    },
    /// More elements than 32-bit indices can address.
    #[error("{what}: too many (expected fewer than 2^32, found {count})")]
    TooMany {
        /// Kind of element.
        what: &'static str,
        /// Number of elements.
        count: usize,
    },
    /// A cut-off is negative or not a number.
    #[error("cut-off: invalid (expected a number of at least 0, found {})", format_number(*found))]
    Cutoff {
        /// The given value.
        found: f64,
    },
    /// A grid exceeds the memory of this machine.
    #[error(
        "grid: too many points for the memory of this machine (expected at most {most}, found {} x {} x {})",
        dims[0], dims[1], dims[2]
    )]
    Memory {
        /// Points along x, y, z.
        dims: [usize; 3],
        /// Largest number of points.
        most: u64,
    },
}

/// An error in the contents of a file; its message is always one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// A problem at a place in the file.
    #[error("{place}: {what}{}", expected_found(expected.as_deref(), found.as_deref()))]
    At {
        /// Line, field or array of the file.
        place: String,
        /// The problem, possibly as a library reports it.
        what: String,
        /// What the place should contain, if that can be said.
        expected: Option<String>,
        /// What the place contains, if that can be said.
        found: Option<String>,
    },
    /// More samples than the caller has memory for.
    #[error("samples: too many for the memory of this machine (expected at most {limit}, found {found})")]
    TooManySamples {
        /// Largest number of samples.
        limit: u64,
        /// Number of samples that the file declares.
        found: u64,
    },
    /// A table without rows.
    #[error("no rows (expected x y z value)")]
    NoRows,
    /// A library panicked.
    #[error("the decoder broke down; convert it")]
    Decoder,
    /// An error with advice.
    #[error("{0}; {1}")]
    Advised(Box<Self>, &'static str),
    /// The field in the file is invalid.
    #[error(transparent)]
    Field(#[from] FieldError),
}

fn expected_found(expected: Option<&str>, found: Option<&str>) -> String {
    match (expected, found) {
        (Some(expected), Some(found)) => format!(" (expected {expected}, found {found})"),
        (Some(expected), None) => format!(" (expected {expected})"),
        (None, Some(found)) => format!(" (found {found})"),
        (None, None) => String::new(),
    }
}

/// Text on one line: names in files and messages of libraries may have line breaks.
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

    /// The error of a part, with the place of the part in the whole file.
    pub(crate) fn within(mut self, outer: impl Display) -> Self {
        if let Self::At { place, .. } = &mut self {
            *place = line(format_args!("{outer}: {place}"));
        }
        self
    }

    pub(crate) fn with_advice(self, advice: &'static str) -> Self {
        Self::Advised(Box::new(self), advice)
    }
}
