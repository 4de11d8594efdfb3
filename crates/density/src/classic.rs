//! Adaptive density control: clone, split, prune (Kerbl et al. 2023, section 5).
//!
//! A splat whose mean screen-space gradient is large covers its region poorly. A small one is cloned; a large one is
//! replaced by two, each sampled from it, `μ' = μ + R diag(s) ξ` with `ξ ~ N(0, I)`, and shrunk, `s' = s / shrink`.
//! Splats that are almost transparent or too large are removed. All decisions are made from the previous state
//! ([`super::decide`]); then growth is limited to the remaining capacity, largest mean statistic first, ties by order.
//! A splat that cannot grow for lack of capacity stays unchanged.

use gausset_compute::{Exec, Pool, rng};
use gausset_core::engine::{ClassicRule, TrainState};
use gausset_core::{Splats, se3};

use super::decide::{self, CLONE, DecisionInputs, KEEP, PRUNE, SPLIT, Thresholds};
use super::outcome::DensityOutcome;
use super::rows;
use super::values::non_finite_mask;

/// Random streams of the two halves of a split; draws are indexed by the id of the splat that is split.
pub const SPLIT_STREAMS: [u32; 2] = [rng::stream::SPLIT, rng::stream::SPLIT | 0x8000];

/// Halves per task.
const CHUNK: usize = 1024;

pub(super) fn apply(state: &mut TrainState, rule: &ClassicRule, pool: &Pool) -> DensityOutcome {
    let n = state.splats.len();
    let mut outcome = DensityOutcome::default();
    let thresholds = Thresholds::from_rule(rule);
    let mut decisions = vec![KEEP; n];
    decide::decide(Exec::best(pool), &inputs(state), &thresholds, &mut decisions);
    if let Some(dead) = non_finite_mask(&state.splats, pool) {
        for (decision, _) in decisions.iter_mut().zip(dead).filter(|(_, dead)| *dead) {
            *decision = PRUNE;
            outcome.non_finite += 1;
        }
    }
    let removed = decisions.iter().filter(|&&d| d == PRUNE).count();
    let room = rule.max_splats.saturating_sub((n - removed) as u64);
    limit_growth(state, &mut decisions, usize::try_from(room).unwrap_or(usize::MAX));

    let kept: Vec<u32> =
        (0u32..).zip(&decisions).filter(|(_, d)| matches!(**d, KEEP | CLONE)).map(|(i, _)| i).collect();
    let mut parents = Vec::new();
    for (i, &decision) in (0u32..).zip(&decisions) {
        match decision {
            CLONE => {
                parents.push(i);
                outcome.cloned += 1;
            }
            SPLIT => {
                parents.extend([i, i]);
                outcome.split += 1;
            }
            _ => {}
        }
    }
    outcome.pruned = removed as u64 - outcome.non_finite;

    rows::edit(state, &kept, &parents, pool);
    let newborn_from = kept.len();
    position_halves(state, rule, thresholds.log_shrink, &decisions, &parents, pool);
    for id in &mut state.ids[newborn_from..] {
        *id = state.next_id;
        state.next_id = state.next_id.wrapping_add(1);
    }
    state.statistics.gradient_sum.fill(0.0);
    state.statistics.visible_steps.fill(0);
    state.statistics.max_radius.fill(0.0);
    outcome
}

fn inputs(state: &TrainState) -> DecisionInputs<'_> {
    DecisionInputs {
        gradient_sum: &state.statistics.gradient_sum,
        visible_steps: &state.statistics.visible_steps,
        max_radius: &state.statistics.max_radius,
        log_scales: &state.splats.log_scales,
        opacity_logits: &state.splats.opacity_logits,
    }
}

/// Lets only `room` splats grow, each by one: those with the largest mean statistic, the first of equals.
fn limit_growth(state: &TrainState, decisions: &mut [u8], room: usize) {
    let mean_statistic = |i: u32| {
        let i = i as usize;
        state.statistics.gradient_sum[i] / state.statistics.visible_steps[i] as f32
    };
    let mut growing: Vec<(f32, u32)> = (0u32..)
        .zip(&*decisions)
        .filter(|(_, decision)| matches!(**decision, CLONE | SPLIT))
        .map(|(i, _)| (mean_statistic(i), i))
        .collect();
    if growing.len() <= room {
        return;
    }
    if room > 0 {
        // Keys are unique, so the partition does not depend on the selection algorithm.
        growing.select_nth_unstable_by(room - 1, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }
    for &(_, i) in &growing[room..] {
        decisions[i as usize] = KEEP;
    }
}

/// Moves and shrinks the halves among the new splats, which are still copies of their parents, including their ids.
fn position_halves(
    state: &mut TrainState,
    rule: &ClassicRule,
    log_shrink: f32,
    decisions: &[u8],
    parents: &[u32],
    pool: &Pool,
) {
    let newborn_from = state.ids.len() - parents.len();
    let is_half = |i: usize| decisions[parents[i] as usize] == SPLIT;
    let Splats { means, log_scales, quats, .. } = &mut state.splats;
    let (log_scales, quats) = (&mut log_scales[newborn_from..], &quats[newborn_from..]);
    let ids = &state.ids[newborn_from..];
    pool.run_chunks(&mut means[newborn_from..], CHUNK, |chunk, means| {
        for (i, mean) in (chunk * CHUNK..).zip(means).filter(|(i, _)| is_half(*i)) {
            let second = i > 0 && parents[i - 1] == parents[i];
            let [x, y, z, _] = rng::normals(rule.seed, SPLIT_STREAMS[usize::from(second)], rule.step, ids[i]);
            *mean = sample_from(*mean, log_scales[i], quats[i], [x, y, z]);
        }
    });
    for (_, log_scale) in log_scales.iter_mut().enumerate().filter(|(i, _)| is_half(*i)) {
        *log_scale = log_scale.map(|s| s - log_shrink);
    }
}

/// `μ + R diag(s) ξ`, in f64; `μ` itself if the result is out of the range of f32.
fn sample_from(mean: [f32; 3], log_scale: [f32; 3], quat: [f32; 4], normal: [f32; 3]) -> [f32; 3] {
    let rotation = se3::rotation_from_quaternion(quat.map(f64::from));
    let local = std::array::from_fn(|k| libm::exp(f64::from(log_scale[k])) * f64::from(normal[k]));
    let offset = se3::mul_vec(&rotation, local);
    let drawn: [f32; 3] = std::array::from_fn(|k| (f64::from(mean[k]) + offset[k]) as f32);
    if drawn.iter().all(|v| v.is_finite()) { drawn } else { mean }
}
