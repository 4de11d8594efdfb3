//! Codebooks: 256 values that stand for many, with the least squares of the differences.
//!
//! Lloyd's method in one dimension on sorted values: each entry stands for the values up to halfway to its neighbours and
//! becomes their mean, from sums that are made once.

use super::meta::CODEBOOK;

/// Rounds at most.
const ROUNDS: usize = 100;

/// A codebook, in rising order.
pub(super) struct Codebook {
    pub(super) values: [f32; CODEBOOK],
}

impl Codebook {
    /// The codebook of some finite values.
    pub(super) fn of(values: impl Iterator<Item = f32>) -> Self {
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
        // Between equal shares of the values, which serve the many, and equal steps, which serve the few far out.
        let mut entries: [f64; CODEBOOK] = std::array::from_fn(|k| {
            let t = (k as f64 + 0.5) / CODEBOOK as f64;
            let quantile = f64::from(sorted[((t * sorted.len() as f64) as usize).min(sorted.len() - 1)]);
            let step = f64::from(first) + t * (f64::from(last) - f64::from(first));
            0.75 * quantile + 0.25 * step
        });
        entries.sort_unstable_by(f64::total_cmp);
        for _ in 0..ROUNDS {
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

    /// The entry that is nearest to a value.
    pub(super) fn code(&self, value: f32) -> u8 {
        let above = self.values.partition_point(|entry| *entry < value);
        let distance = |k: usize| (f64::from(self.values[k]) - f64::from(value)).abs();
        let (below, above) = (above.saturating_sub(1), above.min(CODEBOOK - 1));
        (if distance(below) <= distance(above) { below } else { above }) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_kept_and_many_are_near() {
        let few = Codebook::of([0.5, -1.0, 0.5, 7.0].into_iter());
        for value in [0.5, -1.0, 7.0] {
            assert_eq!(few.values[usize::from(few.code(value))], value);
        }
        let line = Codebook::of((0..10_000).map(|i| i as f32 / 10_000.0));
        for i in 0..1000 {
            let value = i as f32 / 1000.0;
            let near = line.values[usize::from(line.code(value))];
            assert!((near - value).abs() < 0.75 / 256.0, "{value} {near}");
        }
        assert!(line.values.is_sorted());
        assert_eq!(Codebook::of(std::iter::empty()).values, [0.0; CODEBOOK]);
    }
}
