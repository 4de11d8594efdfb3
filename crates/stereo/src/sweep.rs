//! The sweep kernel: matches a band of rows with its neighbours over a range of inverse depths. Lane = pixel.
//!
//! For each step k and pixel the inverse depth is `prior + first + k step` (the plane sweep has a prior of zero, the
//! refinement a surface). Each neighbour is sampled there (bilinear) and compared over 5x5 px by zero-mean normalised
//! cross-correlation, which is invariant to exposure:
//!
//! ```text
//! ZNCC = (mean(r n) - mean(r) mean(n)) / sqrt(max(var r, floor) max(var n, floor))     floor = 1e-5, of 1
//! score = mean of the best two of max(ZNCC, 0), over the neighbours that see the point
//!       = 0.8 max(ZNCC, 0) if only one sees it                                      0 if none does
//! ```
//! Stored per pixel: the best score, its step and the two adjacent scores, whose parabola gives the position between
//! steps.
//!
//! ```text
//! locate   16 lanes  position in the neighbour → index of the texel, two fractions, inside or not
//! fetch    scalar    one 32-bit load a pixel (gather instructions do not pay)
//! blend    16 lanes  four bytes → grey
//! compare  16 lanes  sums along 5 columns, running sums down 5 rows, ZNCC
//! ```
//! Stages run row by row, so that vector loads do not wait for scalar stores.

use std::ops::Range;

use fearless_simd::{Level, f32x16, i32x16, prelude::*, u32x16};
use gausset_compute::at_level;
use gausset_compute::simd::{LANES, Row, fma, fnma, inline_closure, load, splat, store};

use crate::grey::{Grey, PATCH_RADIUS};
use crate::warp::Warp;

/// Rows per task.
pub(crate) const BAND_ROWS: usize = 32;
/// Side of a patch, and its number of pixels.
const PATCH_SIDE: usize = 2 * PATCH_RADIUS + 1;
const PATCH_PIXELS: f32 = (PATCH_SIDE * PATCH_SIDE) as f32;
/// Minimum variance of a patch, in squared grey levels: 1e-5 relative to a range of 1.
pub(crate) const VARIANCE_FLOOR: f32 = 1e-5 * 255.0 * 255.0;
/// Subtracted from grey values, so that squares keep their precision.
const MIDDLE_GREY: f32 = 127.5;
/// Minimum ratio of a point's depth in the neighbour to its depth here; nearer points are not used.
const MIN_DEPTH_RATIO: f32 = 0.05;
/// Factor on the ZNCC of a point that only one neighbour sees: single matches are more often wrong.
pub(crate) const SINGLE_VIEW: f32 = 0.8;
/// The score of a neighbour that does not see the point, below all others.
const NOT_SEEN: f32 = -1.0;
/// Quantities that are summed over a patch: n, n², r n.
const SUMS: usize = 3;

/// Input of one task.
pub(crate) struct SweepJob<'a> {
    pub(crate) reference: &'a Grey,
    pub(crate) neighbours: &'a [(Warp, &'a Grey)],
    pub(crate) rows: Range<usize>,
    /// First inverse depth and the step, relative to the prior.
    pub(crate) first: f32,
    pub(crate) step: f32,
    pub(crate) steps: u32,
    /// Patches of less variance (squared grey levels) get no depth.
    pub(crate) least_variance: f32,
}

/// Buffers of one task, in rows of `vectors` (image) or `vectors + 2` (a vector of margin on either side).
#[derive(Debug, Default)]
pub(crate) struct SweepBuffers {
    /// Rows of the reference, with two more above and below; with margin.
    reference: Vec<Row>,
    /// Prior of the same rows; without margin.
    prior: Vec<Row>,
    mean: Vec<Row>,
    /// 1 / standard deviation; 0 = no depth here.
    inverse: Vec<Row>,
    positions: SamplePositions,
    texel: Vec<[u32; LANES]>,
    /// The sampled row; with margin.
    sample: Vec<Row>,
    /// Whether the neighbour sees the pixel, 0 or 1, for the last rows.
    inside: Vec<Row>,
    /// Sums along the columns of the last rows, and over the patch.
    ring: Vec<[Row; SUMS]>,
    patch: Vec<[Row; SUMS]>,
    /// Best two ZNCC over the neighbours, per pixel of the band; negative = fewer see it.
    top: Vec<[Row; 2]>,
    best: Vec<RunningBest>,
}

/// Positions of the pixels of a row in the neighbour: the texel, and the fractions to the next one.
#[derive(Debug, Default)]
struct SamplePositions {
    index: Vec<[u32; LANES]>,
    fraction_u: Vec<Row>,
    fraction_v: Vec<Row>,
}

/// Running best of a vector of pixels.
#[derive(Clone, Copy, Debug)]
struct RunningBest {
    score: Row,
    step: Row,
    before: Row,
    after: Row,
    last: Row,
}

/// Bytes of the buffers of a task per image column, slightly overestimated.
pub(crate) const fn scratch_bytes_per_column(rows: usize) -> u64 {
    // Reference and prior, mean and inverse, the best two, the best; then the rows that exist once or five times.
    (4 * (2 * (rows + 2 * PATCH_RADIUS)
        + 2 * rows
        + 2 * rows
        + 5 * rows
        + 5
        + PATCH_SIDE
        + (PATCH_SIDE + 1) * SUMS)
        + 16) as u64
}

impl SweepBuffers {
    fn resize(&mut self, vectors: usize, rows: usize) {
        let zero = [0.0; LANES];
        let halo = rows + 2 * PATCH_RADIUS;
        self.reference.resize(halo * (vectors + 2), zero);
        self.prior.resize(halo * vectors, zero);
        self.mean.resize(rows * vectors, zero);
        self.inverse.resize(rows * vectors, zero);
        self.positions.index.resize(vectors, [0; LANES]);
        self.texel.resize(vectors, [0; LANES]);
        self.positions.fraction_u.resize(vectors, zero);
        self.positions.fraction_v.resize(vectors, zero);
        self.sample.resize(vectors + 2, zero);
        self.inside.resize(PATCH_SIDE * vectors, zero);
        self.ring.resize(PATCH_SIDE * vectors, [zero; SUMS]);
        self.patch.resize(vectors, [zero; SUMS]);
        self.top.resize(rows * vectors, [zero; 2]);
        let nothing = RunningBest { score: zero, step: zero, before: zero, after: zero, last: zero };
        self.best.clear();
        self.best.resize(rows * vectors, nothing);
    }
}

/// Inverse depth and score (0 = none) of the rows of a job. `prior(y, row)` fills in a row of inverse depths.
pub(crate) fn sweep(
    level: Level,
    job: &SweepJob<'_>,
    prior: impl Fn(usize, &mut [f32]),
    scratch: &mut SweepBuffers,
    inverse_depth: &mut [f32],
    score: &mut [f32],
) {
    let (width, height) = (job.reference.width, job.reference.height);
    let vectors = width.div_ceil(LANES);
    scratch.resize(vectors, job.rows.len());
    for (k, y) in input_rows(&job.rows, height).enumerate() {
        prior(y, &mut scratch.prior[k * vectors..(k + 1) * vectors].as_flattened_mut()[..width]);
        let row = scratch.reference[k * (vectors + 2)..(k + 1) * (vectors + 2)].as_flattened_mut();
        for (x, value) in row[LANES..LANES + width].iter_mut().enumerate() {
            *value = f32::from(job.reference.at(x, y)) - MIDDLE_GREY;
        }
        extend_edges(row, width);
    }
    at_level!(level, simd => run(simd, job, scratch, vectors));
    for (i, y) in job.rows.clone().enumerate() {
        let best = &scratch.best[i * vectors..(i + 1) * vectors];
        let prior =
            scratch.prior[(i + PATCH_RADIUS) * vectors..(i + PATCH_RADIUS + 1) * vectors].as_flattened();
        for x in 0..width {
            let (b, lane) = (&best[x / LANES], x % LANES);
            let is_usable = job.reference.is_usable(x, y);
            score[i * width + x] = if is_usable { b.score[lane] } else { 0.0 };
            let at = b.step[lane] + parabola_peak(b.before[lane], b.score[lane], b.after[lane]);
            inverse_depth[i * width + x] = (prior[x] + (job.first + at * job.step)).max(0.0);
        }
    }
}

/// The image rows that a band reads; outside the image its first and last row are repeated.
fn input_rows(rows: &Range<usize>, height: usize) -> impl Iterator<Item = usize> {
    (rows.start..rows.end + 2 * PATCH_RADIUS).map(move |y| y.saturating_sub(PATCH_RADIUS).min(height - 1))
}

/// Repeats the first and last value of a row that begins after one vector of margin.
fn extend_edges(row: &mut [f32], width: usize) {
    let (first, last) = (row[LANES], row[LANES + width - 1]);
    row[LANES - PATCH_RADIUS..LANES].fill(first);
    row[LANES + width..LANES + width + PATCH_RADIUS].fill(last);
}

/// Position of the maximum of the parabola through three scores one step apart; 0 at the ends of the range.
fn parabola_peak(before: f32, best: f32, after: f32) -> f32 {
    let bend = before - 2.0 * best + after;
    if before <= 0.0 || after <= 0.0 || bend >= 0.0 {
        return 0.0;
    }
    (0.5 * (before - after) / bend).clamp(-0.5, 0.5)
}

#[inline(always)]
fn run<S: Simd>(simd: S, job: &SweepJob<'_>, scratch: &mut SweepBuffers, vectors: usize) {
    statistics(simd, job, scratch, vectors);
    for step in 0..job.steps {
        let offset = job.first + step as f32 * job.step;
        for row in &mut scratch.top {
            *row = [[NOT_SEEN; LANES]; 2];
        }
        for neighbour in job.neighbours {
            compare_band(simd, job, neighbour, offset, scratch, vectors);
        }
        keep_best(simd, step as f32, &scratch.top, &mut scratch.best);
    }
}

/// 32 values around a vector, whose lanes are at 8..24.
#[inline(always)]
fn window(row: &[f32], v: usize) -> &[f32; 2 * LANES] {
    let from = v * LANES + LANES / 2;
    row[from..from + 2 * LANES].first_chunk().expect("the slice is that long")
}

/// The vector that is offset by `shift - PATCH_RADIUS` columns from the centre of a window.
#[inline(always)]
fn shifted<S: Simd>(simd: S, window: &[f32; 2 * LANES], shift: usize) -> f32x16<S> {
    f32x16::from_slice(simd, &window[LANES / 2 - PATCH_RADIUS + shift..][..LANES])
}

/// Mean and inverse standard deviation of the patches of the reference.
#[inline(always)]
fn statistics<S: Simd>(simd: S, job: &SweepJob<'_>, scratch: &mut SweepBuffers, vectors: usize) {
    let share = splat(simd, 1.0 / PATCH_PIXELS);
    let floor = splat(simd, VARIANCE_FLOOR);
    let least = splat(simd, job.least_variance);
    let (zero, one) = (splat(simd, 0.0), splat(simd, 1.0));
    for i in 0..job.rows.len() {
        for v in 0..vectors {
            let (mut sum, mut squares) = (zero, zero);
            for k in i..i + PATCH_SIDE {
                let row = scratch.reference[k * (vectors + 2)..(k + 1) * (vectors + 2)].as_flattened();
                let window = window(row, v);
                for shift in 0..PATCH_SIDE {
                    let r = shifted(simd, window, shift);
                    sum += r;
                    squares = fma(r, r, squares);
                }
            }
            let mean = sum * share;
            let variance = fnma(mean, mean, squares * share);
            let inverse = one / variance.max(floor).sqrt();
            store(mean, &mut scratch.mean[i * vectors + v]);
            let is_plain = variance.simd_lt(least);
            store(is_plain.select(zero, inverse), &mut scratch.inverse[i * vectors + v]);
        }
    }
}

/// Compares all rows of the band with one neighbour at one step, and updates the best two scores.
#[inline(always)]
fn compare_band<S: Simd>(
    simd: S,
    job: &SweepJob<'_>,
    neighbour: &(Warp, &Grey),
    offset: f32,
    scratch: &mut SweepBuffers,
    vectors: usize,
) {
    let SweepBuffers {
        reference,
        prior,
        mean,
        inverse,
        positions: places,
        texel,
        sample,
        inside,
        ring,
        patch,
        top,
        ..
    } = scratch;
    let grey = neighbour.1;
    let (zero, not_seen) = (splat(simd, 0.0), splat(simd, NOT_SEEN));
    patch.fill([[0.0; LANES]; SUMS]);
    ring.fill([[0.0; LANES]; SUMS]);
    let width = job.reference.width;
    for (k, y) in input_rows(&job.rows, job.reference.height).enumerate() {
        let slot = k % PATCH_SIDE;
        let visible = &mut inside[slot * vectors..(slot + 1) * vectors];
        let priors = &prior[k * vectors..(k + 1) * vectors];
        locate(simd, neighbour, y, priors, offset, places, visible);
        fetch(&grey.texels, &places.index, texel);
        if let Some(usable) = &grey.usable {
            let texels = places.index.as_flattened();
            for (visible, &i) in visible.as_flattened_mut().iter_mut().zip(texels) {
                *visible *= f32::from(u8::from(usable[i as usize] != 0));
            }
        }
        for v in 0..vectors {
            let n = blend(simd, &texel[v], &places.fraction_u[v], &places.fraction_v[v]);
            store(n, &mut sample[v + 1]);
        }
        extend_edges(sample.as_flattened_mut(), width);
        let samples = sample.as_flattened();
        let references = reference[k * (vectors + 2)..(k + 1) * (vectors + 2)].as_flattened();
        let ring = &mut ring[slot * vectors..(slot + 1) * vectors];
        // Row `k` of the halo completes the patches of row `k - 4` of the band.
        let out = k.checked_sub(2 * PATCH_RADIUS);
        for v in 0..vectors {
            let sums = along(simd, window(samples, v), window(references, v));
            for q in 0..SUMS {
                let total = load(simd, &patch[v][q]) + (sums[q] - load(simd, &ring[v][q]));
                store(total, &mut patch[v][q]);
                store(sums[q], &mut ring[v][q]);
            }
            if let Some(i) = out {
                let at = i * vectors + v;
                let zncc = correlation(simd, &patch[v], &mean[at], &inverse[at]);
                let middle = (k - PATCH_RADIUS) % PATCH_SIDE;
                let is_seen = load(simd, &inside[middle * vectors + v]).simd_gt(zero);
                let zncc = is_seen.select(zncc.max(zero), not_seen);
                let (first, second) = (load(simd, &top[at][0]), load(simd, &top[at][1]));
                store(first.max(zncc), &mut top[at][0]);
                store(second.max(first.min(zncc)), &mut top[at][1]);
            }
        }
    }
}

/// Computes the positions of a row in the neighbour.
#[inline(always)]
fn locate<S: Simd>(
    simd: S,
    (warp, grey): &(Warp, &Grey),
    y: usize,
    prior: &[Row],
    offset: f32,
    places: &mut SamplePositions,
    inside: &mut [Row],
) {
    let vectors = prior.len();
    let (index, inside) = (&mut places.index[..vectors], &mut inside[..vectors]);
    let (fraction_u, fraction_v) = (&mut places.fraction_u[..vectors], &mut places.fraction_v[..vectors]);
    let start: [f32; 3] = std::array::from_fn(|i| (warp.origin[i] + y as f64 * warp.row[i]) as f32);
    let (zero, one) = (splat(simd, 0.0), splat(simd, 1.0));
    let nearest = splat(simd, MIN_DEPTH_RATIO);
    let (last_u, last_v) = (splat(simd, (grey.width - 1) as f32), splat(simd, (grey.height - 1) as f32));
    let stride = splat(simd, grey.width as f32);
    let offset = splat(simd, offset);
    let lanes: Row = std::array::from_fn(|lane| lane as f32);
    let lanes = load(simd, &lanes);
    for (v, prior) in prior.iter().enumerate() {
        let x = lanes + splat(simd, (v * LANES) as f32);
        let q = (load(simd, prior) + offset).max(zero);
        let axis = inline_closure(
            #[inline(always)]
            |i: usize| {
                let row = fma(x, splat(simd, warp.column[i] as f32), splat(simd, start[i]));
                fma(q, splat(simd, warp.shift[i] as f32), row)
            },
        );
        let w = axis(2);
        let scale = one / w.max(nearest);
        let (u, v_place) = (axis(0) * scale, axis(1) * scale);
        let (u_in, v_in) = (u.max(zero).min(last_u), v_place.max(zero).min(last_v));
        let seen = u_in.simd_eq(u) & v_in.simd_eq(v_place) & w.simd_gt(nearest);
        let (u_floor, v_floor) = (u_in.floor(), v_in.floor());
        store(u_in - u_floor, &mut fraction_u[v]);
        store(v_in - v_floor, &mut fraction_v[v]);
        store(seen.select(one, zero), &mut inside[v]);
        // Whole numbers below 2^24 are exact.
        let place: i32x16<S> = fma(v_floor, stride, u_floor).to_int();
        let place: u32x16<S> = place.bitcast();
        place.store_array(&mut index[v]);
    }
}

/// Loads the texels of a row.
#[inline(always)]
fn fetch(texels: &[u32], index: &[[u32; LANES]], texel: &mut [[u32; LANES]]) {
    for (texel, &i) in texel.as_flattened_mut().iter_mut().zip(index.as_flattened()) {
        *texel = texels[i as usize];
    }
}

/// Bilinear interpolation of the four bytes of each texel, minus the middle grey.
#[inline(always)]
fn blend<S: Simd>(simd: S, texel: &[u32; LANES], fraction_u: &Row, fraction_v: &Row) -> f32x16<S> {
    let t = u32x16::load_array_ref(simd, texel);
    let byte = inline_closure(
        #[inline(always)]
        |shift: u32| {
            let byte: i32x16<S> = ((t >> shift) & 255).bitcast();
            let value: f32x16<S> = byte.to_float();
            value
        },
    );
    let (a, b, c, d) = (byte(0), byte(8), byte(16), byte(24));
    let (fu, fv) = (load(simd, fraction_u), load(simd, fraction_v));
    let above = fma(fu, b - a, a);
    let below = fma(fu, d - c, c);
    fma(fv, below - above, above - splat(simd, MIDDLE_GREY))
}

/// Sums of n, n², r n over five columns.
#[inline(always)]
fn along<S: Simd>(simd: S, n: &[f32; 2 * LANES], r: &[f32; 2 * LANES]) -> [f32x16<S>; SUMS] {
    let first = shifted(simd, n, 0);
    let mut sums = [first, first * first, first * shifted(simd, r, 0)];
    for shift in 1..PATCH_SIDE {
        let value = shifted(simd, n, shift);
        sums[0] += value;
        sums[1] = fma(value, value, sums[1]);
        sums[2] = fma(value, shifted(simd, r, shift), sums[2]);
    }
    sums
}

/// ZNCC of a patch from its sums.
#[inline(always)]
fn correlation<S: Simd>(simd: S, patch: &[Row; SUMS], mean_r: &Row, inverse_r: &Row) -> f32x16<S> {
    let share = splat(simd, 1.0 / PATCH_PIXELS);
    let mean = load(simd, &patch[0]) * share;
    let variance = fnma(mean, mean, load(simd, &patch[1]) * share).max(splat(simd, VARIANCE_FLOOR));
    let covariance = fnma(mean, load(simd, mean_r), load(simd, &patch[2]) * share);
    covariance * load(simd, inverse_r) * inverse_root(simd, variance)
}

/// `1 / sqrt(x)` of positive normal numbers, relative error below 5e-6: halves the exponent, then two Newton
/// iterations. Uses no hardware estimate (they differ between CPUs), and takes a third of the time of a square root and
/// a division.
#[inline(always)]
fn inverse_root<S: Simd>(simd: S, x: f32x16<S>) -> f32x16<S> {
    let bits: u32x16<S> = x.to_bits();
    let mut y: f32x16<S> = f32x16::from_bits(u32x16::splat(simd, 0x5F37_59DF) - (bits >> 1));
    let (half, three_halves) = (x * splat(simd, 0.5), splat(simd, 1.5));
    for _ in 0..2 {
        y *= fnma(half * y, y, three_halves);
    }
    y
}

/// Updates the running best with the scores of a step.
#[inline(always)]
fn keep_best<S: Simd>(simd: S, step: f32, top: &[[Row; 2]], best: &mut [RunningBest]) {
    let (half, previous, step) = (splat(simd, 0.5), splat(simd, step - 1.0), splat(simd, step));
    let (zero, single) = (splat(simd, 0.0), splat(simd, SINGLE_VIEW));
    for (top, best) in top.iter().zip(best) {
        let (first, second) = (load(simd, &top[0]).max(zero), load(simd, &top[1]));
        let score = second.simd_lt(zero).select(first * single, (first + second) * half);
        let (highest, at) = (load(simd, &best.score), load(simd, &best.step));
        let is_best = score.simd_gt(highest);
        let is_next = at.simd_eq(previous);
        let after = is_next.select(score, load(simd, &best.after));
        store(is_best.select(zero, after), &mut best.after);
        store(is_best.select(load(simd, &best.last), load(simd, &best.before)), &mut best.before);
        store(is_best.select(score, highest), &mut best.score);
        store(is_best.select(step, at), &mut best.step);
        store(score, &mut best.last);
    }
}
