//! `project_vjp+adam`: the fused update of a training step.
//!
//! For each block: gradients (which are never stored in memory), regularisation, Adam on every row, noise on the means,
//! density statistics. See [`crate::project_vjp`], [`crate::adam`].

use fearless_simd::{f32x16, mask32x16, prelude::*, u32x16};
use gausset_compute::prefetch::prefetch;
use gausset_compute::simd::{
    LANES, Row, array_from_fn, exp, fma, inline_closure, ln, load, sigmoid, sin_cos_turns, splat,
};
use gausset_compute::{Exec, rng};
use gausset_core::constants::MAX_CONTRACTED_DISTANCE;
use gausset_core::engine::{AdamMode, GradientStatistic, PositionNoise, StepParams};

use crate::adam::{BiasCorrection, BiasCorrectionTable, LaneAdam, update_row};
use crate::form::Raw;
use crate::layout::{AlignedRow, Blocks, DC, GEOMETRY_ROWS, GeometryBlock, LOG_SCALE, LOGIT, MEAN, QUAT};
use crate::project::BLOCKS_PER_CHUNK;
use crate::project_vjp::{BlockGradient, PoseGradientSums, PoseSums, VjpInput, block_gradient, has_entries};
use crate::shape::Shape;
use crate::spherical_harmonics::{at_degree, rest_coefficients};
use crate::{blend_vjp::GradientSlots, project::Projected, view::KernelView};

/// Noise fades out as `sigmoid(-100 (opacity - fade))`; beyond this exponent it is below 1e-13 and skipped.
const NOISE_CUTOFF: f32 = 30.0;

/// Prefetch distance of density statistics, in splats.
const STATISTICS_PREFETCH: usize = 2 * LANES;

/// The arrays that an update changes; each is padded to whole blocks.
#[derive(Debug)]
pub struct UpdateState<'a> {
    /// Raw parameters; they determine the number of splats and the SH degree of all other arrays.
    pub parameters: &'a mut Blocks,
    /// First moments, in the layout of the parameters.
    pub moment1: &'a mut Blocks,
    /// Second moments, in the layout of the parameters.
    pub moment2: &'a mut Blocks,
    /// Number of updates of each splat.
    pub clocks: &'a mut [u32],
    /// Ids of the splats: the counters of their noise.
    pub ids: &'a [u32],
    /// Sum of the density statistic.
    pub gradient_sum: &'a mut [f32],
    /// Number of steps in which a splat was visible.
    pub visible_steps: &'a mut [u32],
    /// Largest screen radius, px.
    pub max_radius: &'a mut [f32],
}

/// The inputs of an update.
#[derive(Clone, Copy, Debug)]
pub struct UpdateInput<'a> {
    /// Output of `project`.
    pub projected: &'a Projected,
    /// Output of `blend_vjp`.
    pub sums: &'a GradientSlots,
    /// The view of this step.
    pub view: &'a KernelView,
    /// Factor by which its image is downscaled.
    pub downscale: u32,
    /// Rates and other inputs of the step.
    pub params: &'a StepParams,
    /// Number of updates including this one ([`AdamMode::Dense`]).
    pub group_clock: u64,
    /// Bias corrections by clock ([`AdamMode::Sparse`]).
    pub corrections: &'a BiasCorrectionTable,
    /// Whether to compute the gradient of the pose.
    pub needs_pose_gradient: bool,
}

/// Results of an update.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpdateReport {
    /// Sums for the gradient of the pose.
    pub pose: PoseGradientSums,
    /// Splats that skipped this update because a gradient was not finite.
    pub skipped: u64,
    /// Splats that are dead because a parameter is not finite.
    pub dead: u64,
}

struct Chunk<'a> {
    geometry: &'a mut [GeometryBlock],
    rest: &'a mut [AlignedRow],
    geometry1: &'a mut [GeometryBlock],
    rest1: &'a mut [AlignedRow],
    geometry2: &'a mut [GeometryBlock],
    rest2: &'a mut [AlignedRow],
    clocks: &'a mut [u32],
    gradient_sum: &'a mut [f32],
    visible_steps: &'a mut [u32],
    max_radius: &'a mut [f32],
    report: UpdateReport,
}

/// Constants of a step.
#[derive(Clone, Copy)]
struct UpdateStep<'a> {
    input: UpdateInput<'a>,
    ids: &'a [u32],
    len: usize,
    rest_rows: usize,
    dense: BiasCorrection,
    /// Learning rate of each geometry row.
    rates: [f32; GEOMETRY_ROWS],
    mean_opacity_weight: f32,
    mean_scale_weight: f32,
}

impl<'a> UpdateStep<'a> {
    #[inline(always)]
    fn vjp_input(&self) -> VjpInput<'a> {
        VjpInput {
            projected: self.input.projected,
            sums: self.input.sums,
            view: self.input.view,
            antialiased: self.input.params.render.antialiased,
        }
    }
}

/// Runs the fused stage.
pub fn update(exec: Exec<'_>, state: UpdateState<'_>, input: &UpdateInput<'_>) -> UpdateReport {
    let len = state.parameters.len();
    let rest_rows = state.parameters.rest_rows();
    let degree = input.params.render.sh_degree.min(state.parameters.sh_degree());
    let rates = &input.params.rates;
    let mut row_rates = [0.0; GEOMETRY_ROWS];
    row_rates[MEAN..LOG_SCALE].fill(rates.means);
    row_rates[LOG_SCALE..QUAT].fill(rates.log_scales);
    row_rates[QUAT..LOGIT].fill(rates.quats);
    row_rates[LOGIT] = rates.opacity_logits;
    row_rates[DC..].fill(rates.sh_dc);
    let step = UpdateStep {
        input: *input,
        ids: state.ids,
        len,
        rest_rows,
        dense: BiasCorrection::new(input.group_clock),
        rates: row_rates,
        mean_opacity_weight: input.params.opacity_regularisation / len.max(1) as f32,
        mean_scale_weight: input.params.scale_regularisation / (3 * len.max(1)) as f32,
    };

    let chunk_rows = (BLOCKS_PER_CHUNK * rest_rows).max(1);
    let chunk_lanes = BLOCKS_PER_CHUNK * LANES;
    let mut rest = state.parameters.rest.chunks_mut(chunk_rows);
    let mut rest1 = state.moment1.rest.chunks_mut(chunk_rows);
    let mut rest2 = state.moment2.rest.chunks_mut(chunk_rows);
    let mut geometry1 = state.moment1.geometry.chunks_mut(BLOCKS_PER_CHUNK);
    let mut geometry2 = state.moment2.geometry.chunks_mut(BLOCKS_PER_CHUNK);
    let mut clocks = state.clocks.chunks_mut(chunk_lanes);
    let mut gradient_sum = state.gradient_sum.chunks_mut(chunk_lanes);
    let mut visible_steps = state.visible_steps.chunks_mut(chunk_lanes);
    let mut max_radius = state.max_radius.chunks_mut(chunk_lanes);
    let mut parts: Vec<Chunk<'_>> = state
        .parameters
        .geometry
        .chunks_mut(BLOCKS_PER_CHUNK)
        .map(|geometry| Chunk {
            geometry,
            rest: rest.next().unwrap_or_default(),
            geometry1: geometry1.next().unwrap_or_default(),
            rest1: rest1.next().unwrap_or_default(),
            geometry2: geometry2.next().unwrap_or_default(),
            rest2: rest2.next().unwrap_or_default(),
            clocks: clocks.next().unwrap_or_default(),
            gradient_sum: gradient_sum.next().unwrap_or_default(),
            visible_steps: visible_steps.next().unwrap_or_default(),
            max_radius: max_radius.next().unwrap_or_default(),
            report: UpdateReport::default(),
        })
        .collect();
    exec.pool.run_parts(&mut parts, |chunk, part| {
        at_degree!(exec.level, degree, simd => update_chunk(&step, chunk, part));
    });
    let mut report = UpdateReport::default();
    for part in &parts {
        report.pose.add(&part.report.pose);
        report.skipped += part.report.skipped;
        report.dead += part.report.dead;
    }
    report
}

#[inline(always)]
fn update_chunk<S: Simd, const DEGREE: u8>(
    simd: S,
    step: &UpdateStep<'_>,
    chunk: usize,
    part: &mut Chunk<'_>,
) {
    let mut pose = PoseSums::new(simd);
    for local in 0..part.geometry.len() {
        let block = chunk * BLOCKS_PER_CHUNK + local;
        update_block::<S, DEGREE>(simd, step, block, local, part, &mut pose);
    }
    if step.input.needs_pose_gradient {
        part.report.pose = pose.totals();
    }
}

#[inline(always)]
fn update_block<S: Simd, const DEGREE: u8>(
    simd: S,
    step: &UpdateStep<'_>,
    block: usize,
    local: usize,
    part: &mut Chunk<'_>,
    pose: &mut PoseSums<S>,
) {
    let zero = splat(simd, 0.0);
    let params = step.input.params;
    let lanes = local * LANES..(local + 1) * LANES;
    let lane_ahead = lanes.start + STATISTICS_PREFETCH;
    prefetch(part.gradient_sum, lane_ahead);
    prefetch(part.visible_steps, lane_ahead);
    prefetch(part.max_radius, lane_ahead);
    prefetch(part.clocks, lane_ahead);
    let rest = local * step.rest_rows..(local + 1) * step.rest_rows;
    let mut g = block_gradient::<S, DEGREE>(
        simd,
        Raw,
        &step.vjp_input(),
        block,
        &part.geometry[local],
        &part.rest[rest.clone()],
        step.input.needs_pose_gradient.then_some(pose),
    );
    accumulate_statistics(simd, step, block, &g, part, lanes.clone());

    let real = real_lanes(simd, block, step.len);
    let sparse = params.adam == AdamMode::Sparse;
    let receives = if sparse { g.has_gradient } else { real };
    let distance = contracted_distance(simd, params.contraction_radius, &part.geometry[local]);
    regularise(simd, step, &part.geometry[local], receives, distance, &mut g);

    let [red, green, blue] = g.colour.colour;
    let mut sum = red + green + blue;
    for row in g.geometry {
        sum += row;
    }
    let finite = (sum * zero).simd_eq(zero);
    let moves = receives & real & finite;
    part.report.skipped += u64::from((receives & real & !finite).to_bitmask().count_ones());

    if moves.any_true() {
        let ahead = !sparse || has_entries(step.input.projected, block + 1);
        let update = lane_update(simd, step, moves, sparse, &mut part.clocks[lanes]);
        for (row, gradient) in g.geometry.into_iter().enumerate() {
            update_row(
                simd,
                &mut part.geometry[local][row].0,
                &mut part.geometry1[local][row].0,
                &mut part.geometry2[local][row].0,
                gradient,
                match distance {
                    Some(distance) if row < LOG_SCALE => splat(simd, step.rates[row]) * distance,
                    _ => splat(simd, step.rates[row]),
                },
                &update,
            );
            if ahead && let Some(next) = part.geometry.get(local + 1) {
                prefetch(next, row);
                prefetch(&part.geometry1[local + 1], row);
                prefetch(&part.geometry2[local + 1], row);
            }
        }
        for k in 0..rest_coefficients(DEGREE) {
            for c in 0..3 {
                let row = rest.start + 3 * k + c;
                if ahead {
                    prefetch(part.rest, row + step.rest_rows);
                    prefetch(part.rest1, row + step.rest_rows);
                    prefetch(part.rest2, row + step.rest_rows);
                }
                update_row(
                    simd,
                    &mut part.rest[row].0,
                    &mut part.rest1[row].0,
                    &mut part.rest2[row].0,
                    g.colour.rest(k, c),
                    splat(simd, params.rates.sh_rest),
                    &update,
                );
            }
        }
    }
    if let Some(noise) = params.noise {
        add_noise(simd, step, block, noise, real, distance, &mut part.geometry[local]);
    }
    let mut sum = zero;
    for row in &part.geometry[local] {
        sum += load(simd, &row.0) * zero;
    }
    let dead = !sum.simd_eq(zero) & real;
    part.report.dead += u64::from(dead.to_bitmask().count_ones());
}

/// Lanes of a block that hold splats.
#[inline(always)]
fn real_lanes<S: Simd>(simd: S, block: usize, len: usize) -> mask32x16<S> {
    let n = len.saturating_sub(block * LANES).min(LANES);
    mask32x16::from_bitmask(simd, (1u64 << n) - 1)
}

/// Clocks and bias corrections of the lanes that are updated.
#[inline(always)]
fn lane_update<S: Simd>(
    simd: S,
    step: &UpdateStep<'_>,
    moves: mask32x16<S>,
    sparse: bool,
    clocks: &mut [u32],
) -> LaneAdam<S> {
    if !sparse {
        return LaneAdam {
            first: splat(simd, step.dense.first),
            second: splat(simd, step.dense.second),
            is_updated: moves,
        };
    }
    let (mut first, mut second): (Row, Row) = ([1.0; LANES], [1.0; LANES]);
    let mut bits = moves.to_bitmask();
    while bits != 0 {
        let lane = bits.trailing_zeros() as usize;
        bits &= bits - 1;
        clocks[lane] = clocks[lane].saturating_add(1);
        let correction = step.input.corrections.get(clocks[lane]);
        first[lane] = correction.first;
        second[lane] = correction.second;
    }
    LaneAdam { first: load(simd, &first), second: load(simd, &second), is_updated: moves }
}

/// Distances from the origin in units of the contraction radius, within 1..10; `None` without contraction.
#[inline(always)]
fn contracted_distance<S: Simd>(simd: S, radius: f32, block: &GeometryBlock) -> Option<f32x16<S>> {
    if radius == f32::INFINITY {
        return None;
    }
    let [x, y, z] = array_from_fn(
        #[inline(always)]
        |k| load(simd, &block[MEAN + k].0),
    );
    let distance = fma(z, z, fma(y, y, x * x)).sqrt() * splat(simd, 1.0 / radius);
    Some(distance.max(splat(simd, 1.0)).min(splat(simd, MAX_CONTRACTED_DISTANCE as f32)))
}

/// Adds the gradients of `w_o mean(opacity) + w_s mean(scale)`.
#[inline(always)]
fn regularise<S: Simd>(
    simd: S,
    step: &UpdateStep<'_>,
    block: &GeometryBlock,
    receives: mask32x16<S>,
    distance: Option<f32x16<S>>,
    g: &mut BlockGradient<S>,
) {
    let zero = splat(simd, 0.0);
    if step.mean_opacity_weight != 0.0 {
        let o = sigmoid(simd, load(simd, &block[LOGIT].0));
        let pull = splat(simd, step.mean_opacity_weight) * (o * (splat(simd, 1.0) - o));
        g.geometry[LOGIT] += receives.select(pull, zero);
    }
    if step.mean_scale_weight != 0.0 {
        let weight = splat(simd, step.mean_scale_weight);
        let weight = match distance {
            Some(distance) => weight / distance,
            None => weight,
        };
        for k in LOG_SCALE..LOG_SCALE + 3 {
            let pull = weight * exp(simd, load(simd, &block[k].0));
            g.geometry[k] += receives.select(pull, zero);
        }
    }
}

/// Adds this step to the density statistics of the visible splats.
#[inline(always)]
fn accumulate_statistics<S: Simd>(
    simd: S,
    step: &UpdateStep<'_>,
    block: usize,
    g: &BlockGradient<S>,
    part: &mut Chunk<'_>,
    lanes: std::ops::Range<usize>,
) {
    let mean2d = match step.input.params.statistic {
        GradientStatistic::Off => return,
        GradientStatistic::Signed => g.mean2d,
        GradientStatistic::Absolute => g.mean2d_abs,
    };
    let visible = step.input.projected.visible[block];
    if visible == 0 {
        return;
    }
    let visible: mask32x16<S> = mask32x16::from_bitmask(simd, u64::from(visible));
    let zero = splat(simd, 0.0);
    let [width, height] = step.input.view.size.map(|v| splat(simd, 0.5 * v as f32));
    let (x, y) = (mean2d[0] * width, mean2d[1] * height);
    let norm = fma(x, x, y * y).sqrt();
    // Gradients that are not finite are left out of the statistics.
    let counted = visible & (norm * zero).simd_eq(zero);
    let sums = &mut part.gradient_sum[lanes.clone()];
    let sum = f32x16::from_slice(simd, sums);
    counted.select(sum + norm, sum).store_slice(sums);
    let radii = &mut part.max_radius[lanes.clone()];
    let radius = f32x16::from_slice(simd, radii);
    // In pixels of the whole image.
    let found = g.radius * splat(simd, step.input.downscale as f32);
    visible.select(radius.max(found), radius).store_slice(radii);
    let steps = &mut part.visible_steps[lanes];
    let count = u32x16::from_slice(simd, steps);
    visible.select(count + 1, count).store_slice(steps);
}

/// `mean += Σ z · fade · scale` with z standard normal from (seed, step, id) (Kheradmand et al. 2024, eq. 12).
#[inline(always)]
fn add_noise<S: Simd>(
    simd: S,
    step: &UpdateStep<'_>,
    block: usize,
    noise: PositionNoise,
    real: mask32x16<S>,
    distance: Option<f32x16<S>>,
    geometry: &mut GeometryBlock,
) {
    let zero = splat(simd, 0.0);
    let opacity = sigmoid(simd, load(simd, &geometry[LOGIT].0));
    let exponent = (opacity - splat(simd, noise.fade_opacity)) * splat(simd, 100.0);
    let noisy = exponent.simd_lt(splat(simd, NOISE_CUTOFF)) & real;
    let bits = noisy.to_bitmask();
    if bits == 0 {
        return;
    }
    let mut words = [[0.0; LANES]; 4];
    for lane in 0..LANES {
        if bits >> lane & 1 != 0 {
            let id = step.ids[block * LANES + lane];
            let w = rng::philox(step.input.params.seed, rng::stream::NOISE, step.input.params.step, id);
            for (row, word) in words.iter_mut().zip(w) {
                row[lane] = rng::uniform(word);
            }
        }
    }
    // Box-Muller on two pairs; the fourth normal is not needed.
    let pair = inline_closure(
        #[inline(always)]
        |a: &Row, b: &Row| {
            let u = splat(simd, 1.0) - load(simd, a);
            let radius = (splat(simd, -2.0) * ln(simd, u)).max(zero).sqrt();
            let (s, c) = sin_cos_turns(simd, load(simd, b));
            (radius * c, radius * s)
        },
    );
    let (z0, z1) = pair(&words[0], &words[1]);
    let (z2, _) = pair(&words[2], &words[3]);
    let z = [z0, z1, z2];

    let shape = Shape::new(simd, Raw, geometry);
    let strength = sigmoid(simd, -exponent) * splat(simd, noise.scale);
    let strength = match distance {
        Some(distance) => strength / distance,
        None => strength,
    };
    // Σ z = R diag(s²) Rᵀ z
    let turned: [f32x16<S>; 3] = array_from_fn(
        #[inline(always)]
        |k| {
            let r = &shape.rotation;
            let along = fma(r[2][k], z[2], fma(r[1][k], z[1], r[0][k] * z[0]));
            along * shape.scale[k] * shape.scale[k]
        },
    );
    for i in 0..3 {
        let row = shape.rotation[i];
        let shift = fma(row[2], turned[2], fma(row[1], turned[1], row[0] * turned[0])) * strength;
        let mean = load(simd, &geometry[MEAN + i].0);
        let usable = noisy & (shift * zero).simd_eq(zero);
        (mean + usable.select(shift, zero)).store_array(&mut geometry[MEAN + i].0);
    }
}
