//! A palette for vectors of SH coefficients: two-level k-means, with the same result for any number of threads.
//!
//! Comparing each splat with tens of thousands of entries is too slow. So the splats are partitioned by a coarse
//! k-means first; each partition gets a share of the entries and its own k-means; finally, each splat takes the nearest
//! entry of its partition and the neighbouring ones. Splats are weighted by opacity, because errors of faint ones are
//! hardly visible.
//!
//! Distances of a point p to entries c are compared by `|c|²/2 - p·c`, 16 entries at a time in SIMD lanes.

use gausset_compute::fearless_simd::{Level, Select, Simd, SimdBase, f32x16};
use gausset_compute::simd::{LANES, Row, load, splat, store};
use gausset_compute::{Exec, Pool, at_level, rng};

/// Iterations of the coarse and of the fine k-means.
const ITERATIONS: usize = 8;
/// Number of neighbouring partitions in which a splat searches for an entry.
const NEIGHBOURS: usize = 12;
/// Points per thread task.
const CHUNK: usize = 1 << 10;
/// Smallest number of entries for which two levels are used.
const TWO_LEVELS: usize = 512;
/// Weight of a transparent splat.
const MIN_WEIGHT: f32 = 0.05;
/// Seed for the choice of initial entries.
const SEED: u64 = 0x50_47;

/// Entries, and the entry of each point.
pub(super) struct Palette {
    /// `[entry][dimension]`.
    pub(super) entries: Vec<f32>,
    /// Index of the entry of each point.
    pub(super) labels: Vec<u32>,
}

/// Points to be clustered.
pub(super) struct ClusterPoints<'a> {
    /// Rows whose last values are those of a point.
    pub(super) rows: &'a [f32],
    /// Number of values per row.
    pub(super) stride: usize,
    /// Number of values per point.
    pub(super) dimensions: usize,
    /// Weight of each point, 0..=1.
    pub(super) weights: &'a [f32],
}

impl ClusterPoints<'_> {
    fn len(&self) -> usize {
        self.weights.len()
    }

    fn point(&self, i: u32) -> &[f32] {
        let end = (i as usize + 1) * self.stride;
        &self.rows[end - self.dimensions..end]
    }

    fn weight(&self, i: u32) -> f64 {
        f64::from(self.weights[i as usize].max(MIN_WEIGHT))
    }
}

/// Entries in transposed blocks, with 16 entries per row.
struct TransposedEntries {
    /// `[block][dimension]`.
    rows: Vec<Row>,
    /// Half of the squared norm of each entry; infinite for padding.
    half_squares: Vec<Row>,
    dimensions: usize,
}

impl TransposedEntries {
    fn new(entries: &[f32], dimensions: usize) -> Self {
        let count = entries.len() / dimensions;
        let blocks = count.div_ceil(LANES);
        let mut rows = vec![[0.0; LANES]; blocks * dimensions];
        let mut half_squares = vec![[f32::INFINITY; LANES]; blocks];
        for (i, entry) in entries.chunks_exact(dimensions).enumerate() {
            let (block, lane) = (i / LANES, i % LANES);
            half_squares[block][lane] = entry.iter().map(|v| v * v).sum::<f32>() / 2.0;
            for (row, v) in rows[block * dimensions..].iter_mut().zip(entry) {
                row[lane] = *v;
            }
        }
        Self { rows, half_squares, dimensions }
    }

    /// The nearest entry to a point, the first of equals, and half of the squared distance minus half of the point's
    /// squared norm.
    #[inline(always)]
    fn nearest<S: Simd>(&self, simd: S, point: &[f32]) -> (u32, f32) {
        let mut best = splat(simd, f32::INFINITY);
        let mut block_of_best = splat(simd, 0.0);
        let blocks = self.rows.chunks_exact(self.dimensions).zip(&self.half_squares);
        for (block, (rows, half_squares)) in blocks.enumerate() {
            let mut score: f32x16<S> = load(simd, half_squares);
            for (row, v) in rows.iter().zip(point) {
                score -= load(simd, row) * splat(simd, *v);
            }
            let is_less = score.simd_lt(best);
            best = is_less.select(score, best);
            // Integers below 2^24 are exact.
            block_of_best = is_less.select(splat(simd, block as f32), block_of_best);
        }
        let (mut scores, mut blocks) = ([0.0; LANES], [0.0; LANES]);
        store(best, &mut scores);
        store(block_of_best, &mut blocks);
        let mut found = (u32::MAX, f32::INFINITY);
        for lane in 0..LANES {
            let entry = (blocks[lane] as usize * LANES + lane) as u32;
            if scores[lane] < found.1 || (scores[lane] == found.1 && entry < found.0) {
                found = (entry, scores[lane]);
            }
        }
        found
    }
}

/// Builds a palette of at most `entries` entries from at least as many points.
pub(super) fn build(points: &ClusterPoints<'_>, entries: usize, exec: Exec<'_>) -> Palette {
    let Exec { pool, level } = exec;
    let all: Vec<u32> = (0..points.len() as u32).collect();
    if entries < TWO_LEVELS {
        let (entries, labels) = k_means(points, &all, entries, 0, Some(pool), level);
        return Palette { entries, labels };
    }
    let (centres, part_of) = k_means(points, &all, entries.isqrt(), 0, Some(pool), level);
    let parts = centres.len() / points.dimensions;
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); parts];
    for (i, &part) in part_of.iter().enumerate() {
        members[part as usize].push(i as u32);
    }
    let shares = entries_per_cluster(points, &members, &centres, entries);
    let fine =
        pool.map(parts, |part| k_means(points, &members[part], shares[part], part as u64 + 1, None, level).0);
    let first: Vec<u32> = fine
        .iter()
        .scan(0, |sum, entries| {
            let first = *sum;
            *sum += (entries.len() / points.dimensions) as u32;
            Some(first)
        })
        .collect();

    let around = neighbours(&centres, points.dimensions);
    let mut entries: Vec<f32> = fine.concat();
    drop(fine);
    let ends = first.iter().skip(1).copied().chain([(entries.len() / points.dimensions) as u32]);
    let ranges: Vec<[usize; 2]> =
        first.iter().zip(ends).map(|(&begin, end)| [begin as usize, end as usize]).collect();
    let mut labels = vec![0; points.len()];
    for round in 0..2 {
        let tables: Vec<TransposedEntries> = ranges
            .iter()
            .map(|[begin, end]| {
                let dimensions = points.dimensions;
                TransposedEntries::new(&entries[begin * dimensions..end * dimensions], dimensions)
            })
            .collect();
        pool.run_chunks(&mut labels, CHUNK, |chunk, labels| {
            at_level!(level, simd => for (i, label) in labels.iter_mut().enumerate() {
                let i = chunk * CHUNK + i;
                let mut best = f32::INFINITY;
                for &part in &around[part_of[i] as usize] {
                    let (entry, score) = tables[part as usize].nearest(simd, points.point(i as u32));
                    if score < best {
                        (best, *label) = (score, first[part as usize] + entry);
                    }
                }
            });
        });
        drop(tables);
        if round == 0 {
            update(points, &all, &labels, &mut entries);
        }
    }
    Palette { entries, labels }
}

/// Number of entries per partition: proportional to the square root of its error times its size, at most one per point;
/// one if all points are equal.
fn entries_per_cluster(
    points: &ClusterPoints<'_>,
    members: &[Vec<u32>],
    centres: &[f32],
    entries: usize,
) -> Vec<usize> {
    let error = |part: usize| -> f64 {
        let centre = &centres[part * points.dimensions..(part + 1) * points.dimensions];
        members[part].iter().map(|&i| points.weight(i) * squared_distance(points.point(i), centre)).sum()
    };
    let wishes: Vec<f64> =
        (0..members.len()).map(|part| (error(part) * members[part].len() as f64).sqrt()).collect();
    let mut shares: Vec<usize> = members.iter().map(|members| usize::from(!members.is_empty())).collect();
    // What full partitions cannot take goes to the others, until nothing is left or all are full.
    loop {
        let left = entries.saturating_sub(shares.iter().sum());
        let open: Vec<usize> = (0..members.len())
            .filter(|&part| shares[part] < members[part].len() && wishes[part] > 0.0)
            .collect();
        let wanted: f64 = open.iter().map(|&part| wishes[part]).sum();
        if left == 0 || open.is_empty() {
            return shares;
        }
        let mut given = 0;
        for &part in &open {
            let share = if wanted > 0.0 { (left as f64 * wishes[part] / wanted) as usize } else { 0 };
            let share = share.min(members[part].len() - shares[part]);
            shares[part] += share;
            given += share;
        }
        if given == 0 {
            for &part in open.iter().take(left) {
                shares[part] += 1;
            }
        }
    }
}

/// For each partition, itself and its nearest neighbours.
fn neighbours(centres: &[f32], dimensions: usize) -> Vec<Vec<u32>> {
    let parts: Vec<&[f32]> = centres.chunks_exact(dimensions).collect();
    let nearest = |centre: &[f32]| {
        let mut all: Vec<(f64, u32)> =
            parts.iter().enumerate().map(|(j, other)| (squared_distance(centre, other), j as u32)).collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        all.iter().take(1 + NEIGHBOURS).map(|(_, j)| *j).collect()
    };
    parts.iter().map(|centre| nearest(centre)).collect()
}

/// Lloyd's method on a subset of the points: entries, and the entry of each of these points.
fn k_means(
    points: &ClusterPoints<'_>,
    members: &[u32],
    count: usize,
    stream: u64,
    pool: Option<&Pool>,
    level: Level,
) -> (Vec<f32>, Vec<u32>) {
    let mut order: Vec<u32> = members.to_vec();
    rng::shuffle(&mut order, SEED, 0, stream);
    let mut entries: Vec<f32> = order.iter().take(count).flat_map(|&i| points.point(i)).copied().collect();
    if members.len() <= count {
        // Every point is an entry.
        let mut places: Vec<(u32, u32)> = order.iter().zip(0..).map(|(&i, entry)| (i, entry)).collect();
        places.sort_unstable();
        return (entries, places.iter().map(|(_, entry)| *entry).collect());
    }
    let mut labels = vec![0; members.len()];
    for round in 0..=ITERATIONS {
        let table = TransposedEntries::new(&entries, points.dimensions);
        let assign = |chunk: usize, labels: &mut [u32]| {
            at_level!(level, simd => for (i, label) in labels.iter_mut().enumerate() {
                *label = table.nearest(simd, points.point(members[chunk * CHUNK + i])).0;
            });
        };
        match pool {
            Some(pool) => pool.run_chunks(&mut labels, CHUNK, assign),
            None => labels.chunks_mut(CHUNK).enumerate().for_each(|(chunk, labels)| assign(chunk, labels)),
        }
        if round < ITERATIONS {
            update(points, members, &labels, &mut entries);
        }
    }
    (entries, labels)
}

/// Sets entries to the means of their points; an entry without points becomes the point farthest from its entry.
fn update(points: &ClusterPoints<'_>, members: &[u32], labels: &[u32], entries: &mut [f32]) {
    let dimensions = points.dimensions;
    let mut sums = vec![0.0f64; entries.len()];
    let mut weights = vec![0.0f64; entries.len() / dimensions];
    for (&i, &label) in members.iter().zip(labels) {
        let weight = points.weight(i);
        weights[label as usize] += weight;
        let sums = &mut sums[label as usize * dimensions..(label as usize + 1) * dimensions];
        sums.iter_mut().zip(points.point(i)).for_each(|(sum, v)| *sum += weight * f64::from(*v));
    }
    for ((entry, sum), weight) in
        entries.chunks_exact_mut(dimensions).zip(sums.chunks_exact(dimensions)).zip(&weights)
    {
        if *weight > 0.0 {
            entry.iter_mut().zip(sum).for_each(|(v, sum)| *v = (sum / weight) as f32);
        }
    }
    let empty: Vec<usize> = (0..weights.len()).filter(|&entry| weights[entry] == 0.0).collect();
    if empty.is_empty() {
        return;
    }
    let error = |(&i, &label): (&u32, &u32)| {
        let entry = &entries[label as usize * dimensions..(label as usize + 1) * dimensions];
        (points.weight(i) * squared_distance(points.point(i), entry), i)
    };
    let mut worst: Vec<(f64, u32)> = members.iter().zip(labels).map(error).collect();
    worst.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (entry, (_, i)) in empty.into_iter().zip(worst) {
        entries[entry * dimensions..(entry + 1) * dimensions].copy_from_slice(points.point(i));
    }
}

fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a - b) * f64::from(a - b)).sum()
}

#[cfg(test)]
mod tests {
    use gausset_compute::{SimdLevel, dispatch_level};

    use super::*;

    /// Points around several centres.
    fn values(count: usize, dimensions: usize) -> Vec<f32> {
        let number = |i: u32, k: u32| rng::uniform(rng::philox(1, 2, u64::from(i), k)[0]);
        let value = |i: usize, k: usize| {
            let centre = number((i % 37) as u32 + 1_000_000, k as u32);
            centre + 0.1 * number(i as u32, k as u32)
        };
        (0..count).flat_map(|i| (0..dimensions).map(move |k| (i, k))).map(|(i, k)| value(i, k)).collect()
    }

    fn error(points: &ClusterPoints<'_>, palette: &Palette) -> f64 {
        let d = points.dimensions;
        let entry = |i: usize| &palette.entries[palette.labels[i] as usize * d..][..d];
        (0..points.len()).map(|i| squared_distance(points.point(i as u32), entry(i))).sum::<f64>()
            / points.len() as f64
    }

    #[test]
    fn threads_and_vectors_do_not_change_the_palette() {
        let (values, weights) = (values(3000, 9), vec![1.0; 3000]);
        let points = ClusterPoints { rows: &values, stride: 9, dimensions: 9, weights: &weights };
        for entries in [64, 2048] {
            let expected = build(
                &points,
                entries,
                Exec { pool: &Pool::new(1), level: dispatch_level(SimdLevel::Fallback).unwrap() },
            );
            assert!(expected.entries.len() <= entries * 9);
            for threads in [1, 3] {
                for wanted in SimdLevel::ALL {
                    let Some(level) = dispatch_level(wanted) else { continue };
                    let found = build(&points, entries, Exec { pool: &Pool::new(threads), level });
                    assert!(
                        found.entries == expected.entries && found.labels == expected.labels,
                        "{wanted:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn more_entries_are_nearer_and_as_many_as_points_are_exact() {
        let (values, weights) = (values(2000, 24), vec![1.0; 2000]);
        let points = ClusterPoints { rows: &values, stride: 24, dimensions: 24, weights: &weights };
        let pool = Pool::new(1);
        let best = Exec::best(&pool);
        let errors = [1, 64, 1024].map(|entries| error(&points, &build(&points, entries, best)));
        // Spread of the centres, spread around them, and less.
        assert!(errors[0] > 1.5 && errors[1] < 0.025 && errors[2] < 0.5 * errors[1], "{errors:?}");
        assert!(error(&points, &build(&points, 2000, best)) < 1e-9);
        assert!(error(&points, &build(&points, 300, best)) < errors[1]);
    }
}
