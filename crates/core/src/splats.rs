//! `Splats`: a set of Gaussians as a structure of arrays, in raw parameters.

use crate::sh;

/// Gaussians with raw parameters, all f32, as in files and tests.
///
/// | field | per splat | meaning |
/// |---|---|---|
/// | `means` | 3 | centre in world space |
/// | `log_scales` | 3 | natural log of the standard deviation along each axis |
/// | `quats` | 4 | rotation `wxyz`, any non-zero length |
/// | `opacity_logits` | 1 | opacity is the logistic of it |
/// | `sh` | `3 (degree + 1)²` | spherical-harmonics coefficients, coefficient-major, RGB fastest |
///
/// Engines keep their own layout and convert at `load` and `save` only.
///
/// ```
/// use gausset_core::Splats;
///
/// let mut splats = Splats::with_capacity(0, 1);
/// // A ball two units ahead: standard deviation e^-2, not rotated, opacity 1/2, the red channel brightest.
/// splats.push([0.0, 0.0, 2.0], [-2.0; 3], [1.0, 0.0, 0.0, 0.0], 0.0, &[1.0, 0.5, 0.0]);
/// splats.validate()?;
/// assert_eq!((splats.len(), splats.sh_coefficients(0)), (1, &[1.0, 0.5, 0.0][..]));
/// # Ok::<(), gausset_core::splats::SplatsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Splats {
    /// Degree of the stored coefficients, 0..=3.
    pub sh_degree: u8,
    /// Centres in world space.
    pub means: Vec<[f32; 3]>,
    /// Natural logs of the standard deviations.
    pub log_scales: Vec<[f32; 3]>,
    /// Rotations `wxyz`, not normalised.
    pub quats: Vec<[f32; 4]>,
    /// Logits of the opacities.
    pub opacity_logits: Vec<f32>,
    /// Coefficients `[splat][coefficient][channel]`, [`Splats::sh_stride`] values per splat.
    pub sh: Vec<f32>,
}

/// An inconsistency in the arrays of a [`Splats`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SplatsError {
    /// Arrays of different lengths.
    #[error("array `{array}` has {found} values (expected {expected})")]
    Length {
        /// Name of the array.
        array: &'static str,
        /// Number of values found.
        found: usize,
        /// Values expected for the number of means.
        expected: usize,
    },
    /// An unknown SH degree.
    #[error("SH degree is {0} (expected 0..3)")]
    Degree(u8),
}

impl Splats {
    /// An empty set with capacity for `capacity` splats.
    #[must_use]
    pub fn with_capacity(sh_degree: u8, capacity: usize) -> Self {
        Self {
            sh_degree,
            means: Vec::with_capacity(capacity),
            log_scales: Vec::with_capacity(capacity),
            quats: Vec::with_capacity(capacity),
            opacity_logits: Vec::with_capacity(capacity),
            sh: Vec::with_capacity(capacity * 3 * sh::coefficients(sh_degree)),
        }
    }

    /// `len` splats with every parameter 0 (also the shape of gradients and moments).
    #[must_use]
    pub fn zeros(sh_degree: u8, len: usize) -> Self {
        Self {
            sh_degree,
            means: vec![[0.0; 3]; len],
            log_scales: vec![[0.0; 3]; len],
            quats: vec![[0.0; 4]; len],
            opacity_logits: vec![0.0; len],
            sh: vec![0.0; len * 3 * sh::coefficients(sh_degree)],
        }
    }

    /// Number of splats.
    #[must_use]
    pub fn len(&self) -> usize {
        self.means.len()
    }

    /// Whether there are no splats.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.means.is_empty()
    }

    /// SH values per splat: `3 (degree + 1)²`.
    #[must_use]
    pub fn sh_stride(&self) -> usize {
        3 * sh::coefficients(self.sh_degree)
    }

    /// Coefficients of one splat, `[coefficient][channel]`.
    #[must_use]
    pub fn sh_coefficients(&self, splat: usize) -> &[f32] {
        let n = self.sh_stride();
        &self.sh[splat * n..(splat + 1) * n]
    }

    /// Appends one splat; `sh` holds [`Self::sh_stride`] values.
    pub fn push(
        &mut self,
        mean: [f32; 3],
        log_scale: [f32; 3],
        quat: [f32; 4],
        opacity_logit: f32,
        sh: &[f32],
    ) {
        debug_assert_eq!(sh.len(), self.sh_stride());
        self.means.push(mean);
        self.log_scales.push(log_scale);
        self.quats.push(quat);
        self.opacity_logits.push(opacity_logit);
        self.sh.extend_from_slice(sh);
    }

    /// Appends all splats of a set of the same degree.
    ///
    /// # Panics
    /// If the degrees differ.
    pub fn append(&mut self, other: &Self) {
        assert_eq!(self.sh_degree, other.sh_degree, "SH degrees");
        self.means.extend_from_slice(&other.means);
        self.log_scales.extend_from_slice(&other.log_scales);
        self.quats.extend_from_slice(&other.quats);
        self.opacity_logits.extend_from_slice(&other.opacity_logits);
        self.sh.extend_from_slice(&other.sh);
    }

    /// Checks that all arrays describe the same number of splats.
    ///
    /// ```
    /// let mut splats = gausset_core::Splats::zeros(0, 2);
    /// splats.opacity_logits.pop();
    /// let error = splats.validate().unwrap_err();
    /// assert_eq!(error.to_string(), "array `opacity_logits` has 1 values (expected 2)");
    /// ```
    ///
    /// # Errors
    /// Returns an error for the first array of the wrong length, or for an SH degree above 3.
    pub fn validate(&self) -> Result<(), SplatsError> {
        if self.sh_degree > sh::MAX_DEGREE {
            return Err(SplatsError::Degree(self.sh_degree));
        }
        let n = self.len();
        let lengths = [
            ("log_scales", self.log_scales.len(), n),
            ("quats", self.quats.len(), n),
            ("opacity_logits", self.opacity_logits.len(), n),
            ("sh", self.sh.len(), n * self.sh_stride()),
        ];
        match lengths.into_iter().find(|(_, found, expected)| found != expected) {
            Some((array, found, expected)) => Err(SplatsError::Length { array, found, expected }),
            None => Ok(()),
        }
    }

    /// Whether every parameter of a splat is finite and its quaternion is not zero.
    #[must_use]
    pub fn is_valid(&self, splat: usize) -> bool {
        let finite = |v: &[f32]| v.iter().all(|x| x.is_finite());
        finite(&self.means[splat])
            && finite(&self.log_scales[splat])
            && finite(&self.quats[splat])
            && self.quats[splat].iter().any(|&x| x != 0.0)
            && self.opacity_logits[splat].is_finite()
            && finite(self.sh_coefficients(splat))
    }

    /// The splats with the given indices, in that order.
    ///
    /// ```
    /// let mut splats = gausset_core::Splats::zeros(0, 3);
    /// splats.opacity_logits = vec![-1.0, 0.0, 1.0];
    /// assert_eq!(splats.select(&[2, 0]).opacity_logits, [1.0, -1.0]);
    /// ```
    ///
    /// # Panics
    /// If an index is out of range.
    #[must_use]
    pub fn select(&self, indices: &[usize]) -> Self {
        let mut out = Self::with_capacity(self.sh_degree, indices.len());
        for &i in indices {
            out.push(
                self.means[i],
                self.log_scales[i],
                self.quats[i],
                self.opacity_logits[i],
                self.sh_coefficients(i),
            );
        }
        out
    }

    /// Keeps the splats whose flag is set, in their order, without reallocation.
    ///
    /// # Panics
    /// If the number of flags is not the number of splats.
    pub fn retain(&mut self, stays: &[bool]) {
        assert_eq!(stays.len(), self.len(), "a flag for each splat");
        let stride = self.sh_stride();
        let mut kept = 0;
        for i in (0..stays.len()).filter(|&i| stays[i]) {
            self.means[kept] = self.means[i];
            self.log_scales[kept] = self.log_scales[i];
            self.quats[kept] = self.quats[i];
            self.opacity_logits[kept] = self.opacity_logits[i];
            self.sh.copy_within(i * stride..(i + 1) * stride, kept * stride);
            kept += 1;
        }
        self.means.truncate(kept);
        self.log_scales.truncate(kept);
        self.quats.truncate(kept);
        self.opacity_logits.truncate(kept);
        self.sh.truncate(kept * stride);
    }

    /// Removes the SH coefficients above a degree, without reallocation.
    pub fn cut_sh_degree(&mut self, sh_degree: u8) {
        if sh_degree >= self.sh_degree {
            return;
        }
        let (old, new) = (self.sh_stride(), 3 * sh::coefficients(sh_degree));
        (0..self.len()).for_each(|i| self.sh.copy_within(i * old..i * old + new, i * new));
        self.sh.truncate(self.len() * new);
        self.sh_degree = sh_degree;
    }

    /// Converts to another SH degree: higher coefficients are removed, or filled with zeros.
    ///
    /// ```
    /// let splats = gausset_core::Splats::zeros(3, 10);
    /// let diffuse = splats.with_sh_degree(0);
    /// assert_eq!((splats.sh.len(), diffuse.sh.len()), (480, 30));
    /// ```
    #[must_use]
    pub fn with_sh_degree(&self, sh_degree: u8) -> Self {
        let (old, new) = (self.sh_stride(), 3 * sh::coefficients(sh_degree));
        let mut out = Self { sh_degree, sh: Vec::with_capacity(self.len() * new), ..self.clone() };
        out.sh.clear();
        for i in 0..self.len() {
            let row = &self.sh[i * old..(i + 1) * old];
            out.sh.extend((0..new).map(|k| row.get(k).copied().unwrap_or(0.0)));
        }
        out
    }

    /// Smallest and largest mean per axis over finite means; `None` if there is none.
    ///
    /// ```
    /// let mut splats = gausset_core::Splats::zeros(0, 3);
    /// splats.means = vec![[1.0, 0.0, 5.0], [-1.0, 2.0, 4.0], [f32::NAN; 3]];
    /// assert_eq!(splats.bounds(), Some([[-1.0, 0.0, 4.0], [1.0, 2.0, 5.0]]));
    /// ```
    #[must_use]
    pub fn bounds(&self) -> Option<[[f32; 3]; 2]> {
        let mut bounds: Option<[[f32; 3]; 2]> = None;
        for m in self.means.iter().filter(|m| m.iter().all(|v| v.is_finite())) {
            let [lo, hi] = bounds.get_or_insert([*m, *m]);
            for k in 0..3 {
                lo[k] = lo[k].min(m[k]);
                hi[k] = hi[k].max(m[k]);
            }
        }
        bounds
    }
}

/// Opacity of a logit, 0..=1: the logistic function.
#[must_use]
pub fn opacity(logit: f32) -> f64 {
    1.0 / (1.0 + libm::exp(-f64::from(logit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_different_lengths_are_found() {
        let mut splats = Splats::zeros(1, 3);
        assert_eq!(splats.validate(), Ok(()));
        splats.sh.pop();
        let err = splats.validate().unwrap_err();
        assert_eq!(err.to_string(), "array `sh` has 35 values (expected 36)");
    }

    #[test]
    fn changing_the_degree_keeps_the_low_coefficients() {
        let mut splats = Splats::zeros(1, 2);
        for (i, v) in splats.sh.iter_mut().enumerate() {
            *v = i as f32;
        }
        let up = splats.with_sh_degree(2);
        assert_eq!(up.sh_coefficients(1)[..12], splats.sh_coefficients(1)[..]);
        assert!(up.sh_coefficients(1)[12..].iter().all(|&v| v == 0.0));
        assert_eq!(up.with_sh_degree(1), splats);
        let mut cut = up.clone();
        cut.cut_sh_degree(1);
        assert_eq!(cut, splats);
        cut.cut_sh_degree(3);
        assert_eq!(cut, splats, "nothing to cut");
    }

    #[test]
    fn what_is_kept_is_what_would_be_selected() {
        let mut splats = Splats::zeros(1, 5);
        for i in 0..5 {
            splats.means[i][0] = i as f32;
            splats.opacity_logits[i] = -(i as f32);
            splats.sh[12 * i + 7] = 10.0 * i as f32;
        }
        let selected = splats.select(&[1, 2, 4]);
        splats.retain(&[false, true, true, false, true]);
        assert_eq!(splats, selected);
        splats.retain(&[false; 3]);
        assert!(splats.is_empty() && splats.validate().is_ok());
    }

    #[test]
    fn a_zero_quaternion_or_a_nan_makes_a_splat_unusable() {
        let mut splats = Splats::zeros(0, 1);
        assert!(!splats.is_valid(0));
        splats.quats[0] = [1.0, 0.0, 0.0, 0.0];
        assert!(splats.is_valid(0));
        splats.sh[2] = f32::NAN;
        assert!(!splats.is_valid(0));
    }
}
