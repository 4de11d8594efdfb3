//! Samples to which a field is fitted, and their split into training, validation and test.
//!
//! Fits run in coordinates relative to the centre of the samples and with values `(v - offset) / scale`, where f32 is
//! most accurate. The offset is the lowest value if weights are positive. Otherwise it is the most frequent value of a
//! volume (air, background), and for samples 0, or the median where 0 is far outside the data.

use gausset_compute::rng;

use crate::field::{FieldBounds, WeightMode};
use crate::fit::error::FitError;
use crate::memory;

/// Bytes per sample in a fit: in the file's volume, as a sample, relative to the centre, in its leaf.
const SAMPLE_BYTES: u64 = 90;

/// Samples `(x, y, z) → value`, optionally on a grid.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Positions, user units.
    pub points: Vec<[f64; 3]>,
    /// Values, one per point.
    pub values: Vec<f64>,
    /// The grid of the points, x fastest, if there is one. Grid points without a value are no samples.
    pub grid: Option<Grid>,
}

/// A regular grid: point `(i, j, k)` is at `index * spacing`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Points along x, y, z.
    pub dims: [usize; 3],
    /// Distance of neighbours, user units.
    pub spacing: [f64; 3],
}

impl Samples {
    /// Largest number of samples for which a fit fits into the memory of this machine.
    #[must_use]
    pub fn max_count() -> u64 {
        memory::total() / SAMPLE_BYTES
    }

    /// Checks that there are samples and that all are finite.
    ///
    /// # Errors
    /// There are none, the numbers of points and values differ, or one is not finite.
    pub fn check(&self) -> Result<(), FitError> {
        if self.points.len() != self.values.len() {
            return Err(FitError::Lengths { points: self.points.len(), values: self.values.len() });
        }
        if self.points.len() < 2 {
            return Err(FitError::TooFew { found: self.points.len() });
        }
        if u32::try_from(self.points.len() + 64).is_err() {
            return Err(FitError::TooMany { found: self.points.len() });
        }
        for (index, (point, value)) in self.points.iter().zip(&self.values).enumerate() {
            if !value.is_finite() || !point.iter().all(|x| x.is_finite() && x.abs() < 1e15) {
                return Err(FitError::Sample { index, point: *point, value: *value });
            }
        }
        Ok(())
    }
}

/// Role of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleRole {
    /// Fitted.
    Train,
    /// Decides when to stop.
    Validation,
    /// Neither fitted nor evaluated: few Gaussians do not need it.
    Spare,
    /// Held out: measures quality, never used by the fit.
    Test,
}

/// The role of each sample: a function of seed and index.
pub(crate) fn sample_roles(count: usize, test: f64, validation: f64, seed: u64) -> Vec<SampleRole> {
    let share = |i: usize| {
        let words = rng::philox(seed, rng::stream::FIELD, 0, i as u32);
        let (a, b) = (f64::from(rng::uniform(words[0])), f64::from(rng::uniform(words[1])));
        match (a < test, b < validation) {
            (true, _) => SampleRole::Test,
            (false, true) => SampleRole::Validation,
            _ => SampleRole::Train,
        }
    };
    (0..count).map(share).collect()
}

/// Samples per Gaussian beyond which more do not change a fit: four hundred for each of its ten parameters.
const SAMPLES_PER_GAUSSIAN: usize = 4096;
/// Number of samples that is always used in full.
const ALWAYS_USED_SAMPLES: usize = 1 << 18;

/// Makes training and validation samples spare so that about as many remain as `gaussians` need: a function of seed
/// and index. Held-out samples stay.
pub(crate) fn thin(roles: &mut [SampleRole], gaussians: usize, seed: u64) {
    let enough = gaussians.saturating_mul(SAMPLES_PER_GAUSSIAN).max(ALWAYS_USED_SAMPLES);
    if roles.len() <= enough {
        return;
    }
    let used = enough as f64 / roles.len() as f64;
    for (i, role) in roles.iter_mut().enumerate() {
        let words = rng::philox(seed, rng::stream::FIELD, 0, i as u32);
        if *role != SampleRole::Test && f64::from(rng::uniform(words[2])) >= used {
            *role = SampleRole::Spare;
        }
    }
}

/// Normalisation of a fit: `value = offset + scale f(x - origin)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalisation {
    /// Centre of the samples, user units.
    pub origin: [f64; 3],
    /// Value where the field is 0.
    pub offset: f64,
    /// Range of the values.
    pub scale: f64,
}

impl Normalisation {
    /// The normalisation of samples.
    pub(crate) fn from_samples(samples: &Samples, bounds: &FieldBounds, weights: WeightMode) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for &v in &samples.values {
            (low, high) = (low.min(v), high.max(v));
        }
        let range = if high > low { high - low } else { 1.0 };
        let offset = if weights != WeightMode::Raw {
            low
        } else if samples.grid.is_some() {
            mode_value(&samples.values, low, range)
        } else if low <= 0.5 * range && high >= -0.5 * range {
            0.0
        } else {
            let mut sorted = samples.values.clone();
            let middle = sorted.len() / 2;
            *sorted.select_nth_unstable_by(middle, f64::total_cmp).1
        };
        let origin = std::array::from_fn(|k| 0.5 * (bounds.lo[k] + bounds.hi[k]));
        Self { origin, offset, scale: range }
    }
}

/// The median of the fullest of 256 bins. If values repeat, as in a background, this is the repeated value.
fn mode_value(values: &[f64], low: f64, range: f64) -> f64 {
    const BINS: usize = 256;
    let bin = |v: f64| (((v - low) / range * BINS as f64) as usize).min(BINS - 1);
    let mut counts = [0u64; BINS];
    for &v in values {
        counts[bin(v)] += 1;
    }
    let fullest = (0..BINS).fold(0, |best, b| if counts[b] > counts[best] { b } else { best });
    let mut inside: Vec<f64> = values.iter().copied().filter(|v| bin(*v) == fullest).collect();
    let middle = inside.len() / 2;
    if inside.is_empty() { low } else { *inside.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_gaussians_use_a_part_of_many_samples_and_many_gaussians_all() {
        let all = sample_roles(400_000, 0.1, 0.05, 3);
        let count = |roles: &[SampleRole], role| roles.iter().filter(|r| **r == role).count();
        let thinned = |gaussians| {
            let mut roles = all.clone();
            thin(&mut roles, gaussians, 3);
            roles
        };
        assert!(thinned(1000) == all && thinned(98) == all);
        let few = thinned(60);
        assert_eq!(count(&few, SampleRole::Test), count(&all, SampleRole::Test));
        let share = |role| count(&few, role) as f64 / count(&all, role) as f64;
        // 262,144 of 400,000, within four standard deviations of the smaller set.
        for role in [SampleRole::Train, SampleRole::Validation] {
            assert!((share(role) - 0.655).abs() < 0.015, "{role:?}: {}", share(role));
        }
        // What is used keeps its role.
        assert!(few.iter().zip(&all).all(|(few, all)| few == all || *few == SampleRole::Spare));
        let mut small = all[..200_000].to_vec();
        thin(&mut small, 1, 3);
        assert!(small == all[..200_000]);
    }
}
