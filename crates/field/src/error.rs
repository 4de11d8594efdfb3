//! What can be wrong with a field or with points, as values.

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
