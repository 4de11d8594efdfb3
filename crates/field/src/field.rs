//! A Gaussian field and its raw parameters.
//!
//! `f(x) = Σ_i w_i exp(-½ ‖L_i⁻¹ (x - µ_i)‖²)`, `x` in ℝ³ in the user's units, `L` lower triangular with a positive
//! diagonal, covariance `S = L Lᵀ`. Stored and learned parameters are raw:
//!
//! | parameter | shape | raw → meaning |
//! |---|---|---|
//! | `means` | (N, 3) | µ, a length |
//! | `chol` | (N, 6) | `L00 L10 L11 L20 L21 L22`; entries 0, 2, 5 are logs (`L_kk = exp(raw)`), 1, 3, 4 lengths |
//! | `weights` | (N) | `w = raw`, `softplus(raw)` or `sigmoid(raw)` |

use crate::error::FieldError;
use crate::real::Real;

/// Mapping from raw weights to weights.
///
/// ```
/// use gausset_field::WeightMode;
///
/// let raw = WeightMode::Softplus.raw(2.0);
/// assert!((WeightMode::Softplus.weight(raw) - 2.0).abs() < 1e-12);
/// assert_eq!(WeightMode::Sigmoid.weight(0.0), 0.5);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightMode {
    /// The weight itself.
    #[default]
    Raw,
    /// `ln(1 + e^raw)`: positive weights.
    Softplus,
    /// `1 / (1 + e^-raw)`: weights in (0, 1).
    Sigmoid,
}

impl WeightMode {
    /// All modes; the first is the default.
    pub const ALL: [Self; 3] = [Self::Raw, Self::Softplus, Self::Sigmoid];

    /// Name in files and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Softplus => "softplus",
            Self::Sigmoid => "sigmoid",
        }
    }

    /// The mode of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The weight of a raw value.
    #[must_use]
    pub fn weight(self, raw: f64) -> f64 {
        match self {
            Self::Raw => raw,
            Self::Softplus => raw.max(0.0) + libm::log1p(libm::exp(-raw.abs())),
            Self::Sigmoid if raw >= 0.0 => 1.0 / (1.0 + libm::exp(-raw)),
            Self::Sigmoid => libm::exp(raw) / (1.0 + libm::exp(raw)),
        }
    }

    /// The derivative of the weight by its raw value.
    #[must_use]
    pub fn derivative(self, raw: f64) -> f64 {
        match self {
            Self::Raw => 1.0,
            Self::Softplus => Self::Sigmoid.weight(raw),
            Self::Sigmoid => {
                let e = libm::exp(-raw.abs());
                e / ((1.0 + e) * (1.0 + e))
            }
        }
    }

    /// The raw value of a weight, or the nearest possible one: softplus and sigmoid do not reach all weights.
    #[must_use]
    pub fn raw(self, weight: f64) -> f64 {
        const SMALLEST: f64 = 1e-12;
        match self {
            Self::Raw => weight,
            Self::Softplus => {
                let w = weight.max(SMALLEST);
                w + libm::log(-libm::expm1(-w))
            }
            Self::Sigmoid => {
                let w = weight.clamp(SMALLEST, 1.0 - SMALLEST);
                libm::log(w) - libm::log1p(-w)
            }
        }
    }
}

/// Which entries of the factor are learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CovarianceKind {
    /// All six entries: rotated ellipsoids.
    #[default]
    Full,
    /// The three logs of the diagonal; the others are 0.
    Diagonal,
}

impl CovarianceKind {
    /// Name in files and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Diagonal => "diag",
        }
    }

    /// The kind of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Full, Self::Diagonal].into_iter().find(|kind| kind.name() == name)
    }

    /// Parameters per Gaussian: 10 or 7.
    #[must_use]
    pub const fn parameters(self) -> usize {
        match self {
            Self::Full => 10,
            Self::Diagonal => 7,
        }
    }
}

/// An axis-aligned box in which a field was fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldBounds {
    /// Smallest coordinates, user units.
    pub lo: [f64; 3],
    /// Largest coordinates, user units.
    pub hi: [f64; 3],
}

impl FieldBounds {
    /// The bounding box of points; `None` without points.
    ///
    /// ```
    /// use gausset_field::FieldBounds;
    ///
    /// let bounds = FieldBounds::from_points(&[[0.0f64, 1.0, 2.0], [4.0, 0.0, 2.0]]).unwrap();
    /// assert_eq!((bounds.size(), bounds.contains([2.0, 0.5, 2.0])), ([4.0, 1.0, 0.0], true));
    /// ```
    #[must_use]
    pub fn from_points<T: Real>(points: &[[T; 3]]) -> Option<Self> {
        let first = points.first()?.map(Into::into);
        let start = Self { lo: first, hi: first };
        Some(points.iter().fold(start, |mut bounds, point| {
            for k in 0..3 {
                let x: f64 = point[k].into();
                bounds.lo[k] = bounds.lo[k].min(x);
                bounds.hi[k] = bounds.hi[k].max(x);
            }
            bounds
        }))
    }

    /// Whether a point is inside or on the surface.
    #[must_use]
    pub fn contains(&self, point: [f64; 3]) -> bool {
        (0..3).all(|k| self.lo[k] <= point[k] && point[k] <= self.hi[k])
    }

    /// Lengths of its sides.
    #[must_use]
    pub fn size(&self) -> [f64; 3] {
        std::array::from_fn(|k| self.hi[k] - self.lo[k])
    }
}

/// A Gaussian field; see the module documentation.
///
/// The arrays have one entry per Gaussian. [`GaussianField::new`] checks them; code that changes them later must keep
/// their lengths equal and their values finite.
///
/// ```
/// use gausset_field::{Compute, CovarianceKind, Evaluator, GaussianField, WeightMode};
///
/// // One Gaussian of weight 2 at the origin with a standard deviation of 1.
/// let (means, chol) = (vec![[0.0f64; 3]], vec![[0.0; 6]]);
/// let field = GaussianField::new(means, chol, vec![2.0], WeightMode::Raw, CovarianceKind::Full)?;
///
/// let compute = Compute::best();
/// let found = Evaluator::new(&compute, &field)?.gradients(&[[1.0, 0.0, 0.0]])?;
/// let value = 2.0 * (-0.5f64).exp();
/// assert!((found.values[0] - value).abs() < 1e-9);
/// assert!((found.gradients[0][0] + value).abs() < 1e-9);
/// # Ok::<(), gausset_field::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianField<T: Real> {
    /// Means, user units.
    pub means: Vec<[T; 3]>,
    /// Raw factors; see the module documentation.
    pub chol: Vec<[T; 6]>,
    /// Raw weights; see [`GaussianField::weight`].
    pub weights: Vec<T>,
    /// Mapping from raw weights to weights.
    pub weight_mode: WeightMode,
    /// Which entries of the factors are learned.
    pub covariance: CovarianceKind,
    /// The box in which the field was fitted, if known.
    pub bounds: Option<FieldBounds>,
}

impl<T: Real> GaussianField<T> {
    /// A field with these raw parameters, without a box.
    ///
    /// # Errors
    /// Lengths differ, a value is not finite or out of range, or a covariance is singular in this precision.
    pub fn new(
        means: Vec<[T; 3]>,
        chol: Vec<[T; 6]>,
        weights: Vec<T>,
        weight_mode: WeightMode,
        covariance: CovarianceKind,
    ) -> Result<Self, FieldError> {
        let field = Self { means, chol, weights, weight_mode, covariance, bounds: None };
        field.check()?;
        Ok(field)
    }

    /// Number of Gaussians.
    #[must_use]
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether there is no Gaussian; the field is then 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// The weight of a Gaussian.
    #[must_use]
    pub fn weight(&self, i: usize) -> f64 {
        self.weight_mode.weight(self.weights[i].into())
    }

    /// The factor `L` of a Gaussian: `L00 L10 L11 L20 L21 L22`.
    #[must_use]
    pub fn factor(&self, i: usize) -> [f64; 6] {
        factor::<T>(&self.chol[i])
    }

    /// Checks that there is one entry per Gaussian.
    pub(crate) fn check_shape(&self) -> Result<(), FieldError> {
        let n = self.weights.len();
        if self.means.len() == n && self.chol.len() == n {
            return Ok(());
        }
        Err(FieldError::Lengths { means: self.means.len(), chol: self.chol.len(), weights: n })
    }

    /// Checks the conditions of [`Self::new`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn check(&self) -> Result<(), FieldError> {
        self.check_shape()?;
        let n = self.weights.len();
        for i in 0..n {
            let bad = |tensor, value: f64| FieldError::Parameter { tensor, index: i, value };
            let finite = |tensor, values: &[T]| {
                let found = values.iter().map(|v| (*v).into()).find(|v: &f64| !v.is_finite());
                found.map_or(Ok(()), |value| Err(bad(tensor, value)))
            };
            finite("means", &self.means[i])?;
            finite("chol", &self.chol[i])?;
            finite("weights", &self.weights[i..=i])?;
            if let Some(far) = self.means[i].iter().find(|m| (**m).into().abs() > T::MAX_COORDINATE) {
                return Err(bad("means", (*far).into()));
            }
            if self.weight(i).abs() > T::MAX_COORDINATE {
                return Err(bad("weights", self.weights[i].into()));
            }
            let inverse = inverse_factor(&self.factor(i));
            if inverse.iter().any(|a| !a.is_finite() || a.abs() > T::MAX_COORDINATE) {
                return Err(FieldError::Singular { index: i, precision: T::NAME });
            }
        }
        Ok(())
    }

    /// Checks that points are finite and near enough to the origin that squares of distances do not overflow.
    ///
    /// # Errors
    /// The first invalid point.
    pub fn check_points(points: &[[T; 3]]) -> Result<(), FieldError> {
        let is_good = |x: &T| (*x).into().abs() <= T::MAX_COORDINATE;
        match points.iter().position(|point| !point.iter().all(is_good)) {
            None => Ok(()),
            Some(index) => {
                let point = points[index].map(Into::into);
                Err(FieldError::Point { index, point, limit: T::MAX_COORDINATE })
            }
        }
    }

    /// Checks that points are in the field's box. A field without a box accepts all points.
    ///
    /// # Errors
    /// The first point outside, and the number of points outside.
    pub fn check_inside(&self, points: &[[T; 3]]) -> Result<(), FieldError> {
        let Some(bounds) = self.bounds else { return Ok(()) };
        let outside = |point: &&[T; 3]| !bounds.contains(point.map(Into::into));
        let Some(index) = points.iter().position(|point| outside(&point)) else { return Ok(()) };
        Err(FieldError::Outside {
            index,
            point: points[index].map(Into::into),
            count: points.iter().filter(outside).count(),
            lo: bounds.lo,
            hi: bounds.hi,
        })
    }

    /// Converts the field to another precision.
    #[must_use]
    pub fn cast<U: Real>(&self) -> GaussianField<U> {
        let to = |v: T| U::from_f64(v.into());
        GaussianField {
            means: self.means.iter().map(|m| m.map(to)).collect(),
            chol: self.chol.iter().map(|c| c.map(to)).collect(),
            weights: self.weights.iter().map(|w| to(*w)).collect(),
            weight_mode: self.weight_mode,
            covariance: self.covariance,
            bounds: self.bounds,
        }
    }

    /// The Gaussians with these indices, in this order.
    #[must_use]
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            means: indices.iter().map(|&i| self.means[i]).collect(),
            chol: indices.iter().map(|&i| self.chol[i]).collect(),
            weights: indices.iter().map(|&i| self.weights[i]).collect(),
            ..*self
        }
    }
}

/// The factor of raw entries, with logs clamped so that the factor can be squared in this precision.
pub(crate) fn factor<T: Real>(raw: &[T; 6]) -> [f64; 6] {
    let exp = |v: T| libm::exp(v.into().clamp(-T::MAX_LOG, T::MAX_LOG));
    [exp(raw[0]), raw[1].into(), exp(raw[2]), raw[3].into(), raw[4].into(), exp(raw[5])]
}

/// The inverse of a lower triangular factor, in the same order of entries.
pub(crate) fn inverse_factor(l: &[f64; 6]) -> [f64; 6] {
    let [l00, l10, l11, l20, l21, l22] = *l;
    let (a00, a11, a22) = (1.0 / l00, 1.0 / l11, 1.0 / l22);
    let a10 = -l10 * a00 * a11;
    let a21 = -l21 * a11 * a22;
    let a20 = -(l20 * a00 + l21 * a10) * a22;
    [a00, a10, a11, a20, a21, a22]
}

/// The covariance `L Lᵀ`: `S00 S10 S11 S20 S21 S22`.
pub(crate) fn covariance_of(l: &[f64; 6]) -> [f64; 6] {
    let [l00, l10, l11, l20, l21, l22] = *l;
    [
        l00 * l00,
        l10 * l00,
        l10 * l10 + l11 * l11,
        l20 * l00,
        l20 * l10 + l21 * l11,
        l20 * l20 + l21 * l21 + l22 * l22,
    ]
}

/// The Cholesky factor of a covariance, `None` if it is not positive definite.
pub(crate) fn cholesky(s: &[f64; 6]) -> Option<[f64; 6]> {
    let root = |v: f64| (v > 0.0 && v.is_finite()).then(|| v.sqrt());
    let l00 = root(s[0])?;
    let l10 = s[1] / l00;
    let l11 = root(s[2] - l10 * l10)?;
    let l20 = s[3] / l00;
    let l21 = (s[4] - l20 * l10) / l11;
    let l22 = root(s[5] - l20 * l20 - l21 * l21)?;
    Some([l00, l10, l11, l20, l21, l22])
}

/// Raw entries of a factor.
pub(crate) fn raw_factor(l: &[f64; 6]) -> [f64; 6] {
    [libm::log(l[0]), l[1], libm::log(l[2]), l[3], l[4], libm::log(l[5])]
}
