//! Statistics of a quantity in constant memory.
//!
//! Mean and standard deviation use Welford's recurrence (merged as in Chan et al. 1979); the median comes from a
//! histogram whose buckets are a 64th of an octave, so that no values have to be stored.

/// Largest relative error of a median: half a bucket of a 64th of an octave (below 2^-20: 0 is reported).
pub const MEDIAN_RELATIVE_ERROR: f64 = 1.0 / 128.0;

/// Buckets of an octave.
const SUB_BUCKETS: usize = 64;
/// Binary exponents with buckets; smaller values are counted as zero, larger ones in the last octave.
const EXPONENTS: std::ops::Range<i32> = -20..52;
const OCTAVES: usize = (EXPONENTS.end - EXPONENTS.start) as usize;

/// Counts of non-negative values by octave and sub-bucket; octaves are allocated on first use.
#[derive(Clone, Debug)]
struct Histogram {
    zeros: u64,
    octaves: [Option<Box<[u32; SUB_BUCKETS]>>; OCTAVES],
}

/// Running statistics of a quantity.
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    /// Sum of the squared deviations from the mean.
    squares: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) last: f64,
    histogram: Histogram,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            count: 0,
            mean: 0.0,
            squares: 0.0,
            min: f64::INFINITY,
            max: 0.0,
            last: 0.0,
            histogram: Histogram { zeros: 0, octaves: std::array::from_fn(|_| None) },
        }
    }
}

impl Stats {
    /// Adds a value, which must be finite and not negative.
    pub(crate) fn add(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.last = value;
        self.histogram.add(value);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let difference = other.mean - self.mean;
        self.mean += difference * m / (n + m);
        self.squares += other.squares + difference * difference * n * m / (n + m);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.last = other.last;
        self.histogram.merge(&other.histogram);
    }

    /// Sample standard deviation (n - 1), 0 for fewer than two values.
    pub(crate) fn std(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).max(0.0).sqrt() }
    }

    /// Median within [`MEDIAN_RELATIVE_ERROR`], 0 if there is no value.
    pub(crate) fn median(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let at = |rank| self.histogram.value_at(rank).clamp(self.min, self.max);
        f64::midpoint(at((self.count - 1) / 2), at(self.count / 2))
    }

    /// Smallest value, 0 if there is none.
    pub(crate) fn min_or_zero(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.min }
    }
}

impl Histogram {
    fn add(&mut self, value: f64) {
        // An f64 is 2^(e-1023) (1 + mantissa / 2^52); the top six bits of the mantissa are the sub-bucket.
        let bits = value.to_bits();
        let exponent = (bits >> 52) as i32 - 1023;
        if exponent < EXPONENTS.start {
            self.zeros += 1;
            return;
        }
        let octave = (exponent - EXPONENTS.start).min(OCTAVES as i32 - 1) as usize;
        let sub_bucket = (bits >> 46) as usize % SUB_BUCKETS;
        let buckets = self.octaves[octave].get_or_insert_with(|| Box::new([0; SUB_BUCKETS]));
        buckets[sub_bucket] = buckets[sub_bucket].saturating_add(1);
    }

    fn merge(&mut self, other: &Self) {
        self.zeros += other.zeros;
        for (mine, theirs) in self.octaves.iter_mut().zip(&other.octaves) {
            let Some(theirs) = theirs else { continue };
            let mine = mine.get_or_insert_with(|| Box::new([0; SUB_BUCKETS]));
            for (a, b) in mine.iter_mut().zip(theirs.iter()) {
                *a = a.saturating_add(*b);
            }
        }
    }

    /// Middle of the bucket of the value with this rank (from 0, by size).
    fn value_at(&self, rank: u64) -> f64 {
        let mut below = self.zeros;
        if rank < below {
            return 0.0;
        }
        for (exponent, buckets) in EXPONENTS.zip(&self.octaves) {
            for (sub_bucket, &count) in buckets.iter().flat_map(|b| b.iter().enumerate()) {
                below += u64::from(count);
                if rank < below {
                    let mantissa = 1.0 + (sub_bucket as f64 + 0.5) / SUB_BUCKETS as f64;
                    return mantissa * f64::powi(2.0, exponent);
                }
            }
        }
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values between 0.001 and 1e9, spread over the octaves.
    fn values(n: u32) -> Vec<f64> {
        (0..n)
            .map(|i| 1e-3 * 1e12_f64.powf(f64::from(i.wrapping_mul(2_654_435_761)) / 4_294_967_296.0))
            .collect()
    }

    fn stats_of(values: &[f64]) -> Stats {
        let mut stats = Stats::default();
        values.iter().for_each(|&v| stats.add(v));
        stats
    }

    #[test]
    fn the_median_is_within_the_stated_error_of_the_exact_one() {
        for n in [1, 2, 3, 10, 101, 1000, 4096] {
            let mut sorted = values(n);
            let median = stats_of(&sorted).median();
            sorted.sort_by(f64::total_cmp);
            let exact = f64::midpoint(sorted[(n as usize - 1) / 2], sorted[n as usize / 2]);
            assert!((median - exact).abs() <= MEDIAN_RELATIVE_ERROR * exact, "n = {n}: {median} {exact}");
        }
    }

    #[test]
    fn merged_statistics_equal_those_of_all_values() {
        let all = values(999);
        let (a, b) = all.split_at(300);
        let mut merged = stats_of(a);
        merged.merge(&stats_of(b));
        merged.merge(&Stats::default());
        let whole = stats_of(&all);
        assert_eq!((merged.count, merged.min, merged.max), (whole.count, whole.min, whole.max));
        assert_eq!(merged.median(), whole.median());
        // Rounding only: both are exact in real arithmetic.
        assert!((merged.mean / whole.mean - 1.0).abs() < 1e-12);
        assert!((merged.std() / whole.std() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn zero_and_huge_values_are_counted() {
        let stats = stats_of(&[0.0, 0.0, 1e300]);
        assert_eq!((stats.median(), stats.min, stats.max), (0.0, 0.0, 1e300));
        assert_eq!(Stats::default().median(), 0.0);
    }

    #[test]
    fn the_standard_deviation_is_that_of_the_sample() {
        assert_eq!(stats_of(&[5.0]).std(), 0.0);
        assert!(
            (stats_of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).std() - (32.0f64 / 7.0).sqrt()).abs()
                < 1e-12
        );
    }
}
