//! Codebooks of 256 values with minimal sum of squared errors.
//!
//! Lloyd's method in one dimension on sorted values: each entry represents the values up to halfway to its neighbours
//! and becomes their mean, from prefix sums. It starts with entries whose density is the cube root of that of the
//! values, which is optimal for many entries (Panter and Dite 1951).

use super::meta::CODEBOOK;

/// Largest number of iterations.
const MAX_ITERATIONS: usize = 100;
/// Histogram bins for the density of the values.
const BINS: usize = 1 << 13;
/// Number of initial entries that are equally spaced.
const UNIFORM_ENTRIES: usize = CODEBOOK / 4;

/// A codebook in ascending order.
pub(super) struct Codebook {
    pub(super) values: [f32; CODEBOOK],
}

impl Codebook {
    /// The codebook of finite values.
    pub(super) fn from_values(values: impl Iterator<Item = f32>) -> Self {
        let mut sorted: Vec<f32> = values.collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
            return Self { values: [0.0; CODEBOOK] };
        };
        let mut sums = Vec::with_capacity(sorted.len() + 1);
        sums.push(0.0);
        let mut sum = 0.0;
        for value in &sorted {
            sum += f64::from(*value);
            sums.push(sum);
        }
        let mut entries = initial_entries(&sorted, [first, last].map(f64::from));
        for _ in 0..MAX_ITERATIONS {
            let before = entries;
            let mut begin = 0;
            for k in 0..CODEBOOK {
                let end = match before.get(k + 1) {
                    Some(next) => sorted.partition_point(|v| f64::from(*v) <= (before[k] + next) / 2.0),
                    None => sorted.len(),
                };
                if end > begin {
                    entries[k] = (sums[end] - sums[begin]) / (end - begin) as f64;
                }
                begin = end.max(begin);
            }
            if entries == before {
                break;
            }
        }
        Self { values: entries.map(|v| v as f32) }
    }

    /// The entry nearest to a value.
    pub(super) fn code(&self, value: f32) -> u8 {
        let above = self.values.partition_point(|entry| *entry < value);
        let distance = |k: usize| (f64::from(self.values[k]) - f64::from(value)).abs();
        let (below, above) = (above.saturating_sub(1), above.min(CODEBOOK - 1));
        (if distance(below) <= distance(above) { below } else { above }) as u8
    }
}

/// Most initial entries follow the cube root of the density in equal bins, for common values; the others are equally
/// spaced, for rare outliers, which would get none.
fn initial_entries(sorted: &[f32], [first, last]: [f64; 2]) -> [f64; CODEBOOK] {
    const DENSE: usize = CODEBOOK - UNIFORM_ENTRIES;
    let width = (last - first) / BINS as f64;
    let mut bins = vec![0.0; BINS];
    for &value in sorted {
        let bin = if width > 0.0 { ((f64::from(value) - first) / width) as usize } else { 0 };
        bins[bin.min(BINS - 1)] += 1.0;
    }
    bins.iter_mut().for_each(|count| *count = libm::cbrt(*count));
    let (all, mut before, mut bin) = (bins.iter().sum::<f64>(), 0.0, 0);
    let mut entries: [f64; CODEBOOK] = std::array::from_fn(|k| {
        if k >= DENSE {
            return first + (last - first) * ((k - DENSE) as f64 + 0.5) / UNIFORM_ENTRIES as f64;
        }
        let wanted = (k as f64 + 0.5) / DENSE as f64 * all;
        while bin + 1 < BINS && before + bins[bin] <= wanted {
            before += bins[bin];
            bin += 1;
        }
        let part = if bins[bin] > 0.0 { ((wanted - before) / bins[bin]).clamp(0.0, 1.0) } else { 0.0 };
        first + (bin as f64 + part) * width
    });
    entries.sort_unstable_by(f64::total_cmp);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_kept_and_many_are_near() {
        let few = Codebook::from_values([0.5, -1.0, 0.5, 7.0].into_iter());
        for value in [0.5, -1.0, 7.0] {
            assert_eq!(few.values[usize::from(few.code(value))], value);
        }
        let line = Codebook::from_values((0..10_000).map(|i| i as f32 / 10_000.0));
        for i in 0..1000 {
            let value = i as f32 / 1000.0;
            let near = line.values[usize::from(line.code(value))];
            assert!((near - value).abs() < 0.75 / 256.0, "{value} {near}");
        }
        assert!(line.values.is_sorted());
        // Most values are close together, with a few outliers: all are close to an entry.
        let far = |i: usize| if i < 9900 { i as f32 / 9900.0 } else { (i - 9899) as f32 };
        let wide = Codebook::from_values((0..10_000).map(far));
        let error = |i: usize| (wide.values[usize::from(wide.code(far(i)))] - far(i)).abs();
        assert!((0..9900).all(|i| error(i) < 0.02) && (9900..10_000).all(|i| error(i) < 2.0));
        assert_eq!(Codebook::from_values(std::iter::empty()).values, [0.0; CODEBOOK]);
    }
}
