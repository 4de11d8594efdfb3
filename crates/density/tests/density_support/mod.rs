//! Shared by the tests of the density rules.
#![allow(dead_code)]

use gausset_compute::rng::{self, stream};
use gausset_core::Splats;
use gausset_core::engine::{ClassicRule, CorrectionGroup, CorrectionKind, McmcRule, TrainState};

/// A state in the middle of training: every array contains different numbers, ids are unordered.
pub(crate) fn some_state(n: usize, sh_degree: u8, seed: u64) -> TrainState {
    let uniform = |what: u64, i: usize, low: f32, high: f32| {
        low + (high - low) * rng::uniform(rng::philox(seed, stream::TEST, what, i as u32)[0])
    };
    let splats = |what: u64| {
        let mut s = Splats::zeros(sh_degree, n);
        for i in 0..n {
            s.means[i] = std::array::from_fn(|k| uniform(what, 3 * i + k, -5.0, 5.0));
            s.log_scales[i] = std::array::from_fn(|k| uniform(what + 1, 3 * i + k, -5.0, -1.0));
            s.quats[i] = std::array::from_fn(|k| uniform(what + 2, 4 * i + k, -1.0, 1.0));
            s.opacity_logits[i] = uniform(what + 3, i, -7.0, 4.0);
        }
        for (i, value) in s.sh.iter_mut().enumerate() {
            *value = uniform(what + 4, i, -1.0, 1.0);
        }
        s
    };
    let mut state = TrainState::new(splats(0), vec![CorrectionGroup::new(CorrectionKind::Gain, 2)]);
    state.moments.m = splats(10);
    state.moments.v = splats(20);
    state.dense_update_count = 600;
    rng::shuffle(&mut state.ids, seed, stream::TEST, 30);
    for id in &mut state.ids {
        *id = *id * 3 + 5;
    }
    state.next_id = 3 * n as u32 + 5;
    for i in 0..n {
        state.update_counts[i] = rng::philox(seed, stream::TEST, 31, i as u32)[0] % 600 + 1;
        let steps = rng::philox(seed, stream::TEST, 32, i as u32)[0] % 50;
        state.statistics.visible_steps[i] = steps;
        state.statistics.gradient_sum[i] = uniform(33, i, 0.0, 4e-4) * steps as f32;
        state.statistics.max_radius[i] = uniform(34, i, 0.0, 30.0);
    }
    state
}

/// The rule at step 600 of a run, with thresholds in the middle of the values of [`some_state`].
pub(crate) fn classic_rule() -> ClassicRule {
    ClassicRule {
        seed: 7,
        step: 600,
        gradient_threshold: 2e-4,
        clone_scale_limit: 0.1,
        split_shrink: 1.6,
        prune_opacity: 0.005,
        prune_scale: Some(0.33),
        prune_screen: None,
        max_splats: u64::MAX,
        reorder: false,
    }
}

/// The published parameters.
pub(crate) fn mcmc_rule() -> McmcRule {
    McmcRule {
        seed: 7,
        step: 600,
        dead_opacity: 0.005,
        growth: 1.05,
        max_splats: u64::MAX,
        split_largest: 0.0,
        reorder: false,
    }
}

/// All bits of one splat and its optimiser state and statistics.
pub(crate) fn row_bits(state: &TrainState, i: usize) -> Vec<u32> {
    let mut bits = vec![
        state.ids[i],
        state.update_counts[i],
        state.statistics.gradient_sum[i].to_bits(),
        state.statistics.visible_steps[i],
        state.statistics.max_radius[i].to_bits(),
    ];
    for splats in [&state.splats, &state.moments.m, &state.moments.v] {
        bits.extend(splat_bits(splats, i));
    }
    bits
}

/// All bits of the parameters of one splat.
pub(crate) fn splat_bits(splats: &Splats, i: usize) -> Vec<u32> {
    let values = splats.means[i]
        .iter()
        .chain(&splats.log_scales[i])
        .chain(&splats.quats[i])
        .chain(std::iter::once(&splats.opacity_logits[i]))
        .chain(splats.sh_coefficients(i));
    values.map(|v| v.to_bits()).collect()
}

/// All bits of a state, in order.
pub(crate) fn state_bits(state: &TrainState) -> Vec<Vec<u32>> {
    let mut rows: Vec<Vec<u32>> = (0..state.splats.len()).map(|i| row_bits(state, i)).collect();
    rows.push(vec![state.next_id, state.dense_update_count as u32]);
    rows
}

/// The same splats in another order.
pub(crate) fn permuted(state: &TrainState, order: &[usize]) -> TrainState {
    let pick = |v: &[f32]| order.iter().map(|&i| v[i]).collect();
    let pick_words = |v: &[u32]| order.iter().map(|&i| v[i]).collect();
    let mut out = state.clone();
    out.splats = state.splats.select(order);
    out.moments.m = state.moments.m.select(order);
    out.moments.v = state.moments.v.select(order);
    out.update_counts = pick_words(&state.update_counts);
    out.ids = pick_words(&state.ids);
    out.statistics.gradient_sum = pick(&state.statistics.gradient_sum);
    out.statistics.visible_steps = pick_words(&state.statistics.visible_steps);
    out.statistics.max_radius = pick(&state.statistics.max_radius);
    out
}

/// An order that is not the identity.
pub(crate) fn some_order(n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    rng::shuffle(&mut order, 99, stream::TEST, 40);
    order
}

/// Panics unless every array fits the number of splats and ids are distinct and below `next_id`.
pub(crate) fn assert_consistent(state: &TrainState) {
    let n = state.splats.len();
    for splats in [&state.splats, &state.moments.m, &state.moments.v] {
        assert_eq!(splats.validate(), Ok(()));
        assert_eq!(splats.len(), n);
    }
    assert_eq!(state.update_counts.len(), n);
    assert_eq!(state.ids.len(), n);
    assert_eq!(state.statistics.gradient_sum.len(), n);
    assert_eq!(state.statistics.visible_steps.len(), n);
    assert_eq!(state.statistics.max_radius.len(), n);
    let mut ids = state.ids.clone();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "ids are distinct");
    assert!(ids.last().is_none_or(|&last| last < state.next_id));
}

/// Whether every parameter of a splat is finite.
pub(crate) fn is_finite(splats: &Splats, i: usize) -> bool {
    splat_bits(splats, i).iter().all(|&bits| f32::from_bits(bits).is_finite())
}

/// Whether a splat has not been updated by Adam.
pub(crate) fn is_untrained(state: &TrainState, i: usize) -> bool {
    let zero = |splats: &Splats| splat_bits(splats, i).iter().all(|&bits| bits == 0);
    zero(&state.moments.m) && zero(&state.moments.v) && state.update_counts[i] == 0
}
