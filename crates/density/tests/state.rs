//! Properties of every rule: determinism, order, consistency of the arrays.

mod density_support;

use density_support::{
    assert_consistent, classic_rule, is_finite, mcmc_rule, permuted, row_bits, some_order, some_state,
    splat_bits, state_bits,
};
use gausset_compute::Pool;
use gausset_core::engine::{ClassicRule, DensityRule, McmcRule, TrainState};
use gausset_density::morton;
use gausset_density::{self as density, DensityOutcome};
use proptest::prelude::*;

fn all_rules() -> Vec<DensityRule> {
    vec![
        DensityRule::Classic(classic_rule()),
        DensityRule::Classic(ClassicRule { max_splats: 10_100, reorder: true, ..classic_rule() }),
        DensityRule::Mcmc(mcmc_rule()),
        DensityRule::Mcmc(McmcRule { max_splats: 10_100, split_largest: 0.5, reorder: true, ..mcmc_rule() }),
        DensityRule::ResetOpacity { max_opacity: 0.01 },
    ]
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let mut before = some_state(10_000, 1, 41);
    before.splats.means[77] = [f32::NAN; 3];
    for rule in all_rules() {
        let run = |threads: usize| {
            let mut state = before.clone();
            let outcome = density::apply(&mut state, &rule, &Pool::new(threads));
            (outcome, state_bits(&state))
        };
        let one = run(1);
        for threads in [2, 3, 7] {
            assert!(run(threads) == one, "{rule:?} with {threads} threads");
        }
    }
}

#[test]
fn another_seed_or_step_draws_otherwise() {
    let before = some_state(2000, 0, 43);
    let with = |seed, step| {
        let (mut a, mut b) = (before.clone(), before.clone());
        let pool = Pool::new(1);
        density::apply(&mut a, &DensityRule::Classic(ClassicRule { seed, step, ..classic_rule() }), &pool);
        density::apply(&mut b, &DensityRule::Mcmc(McmcRule { seed, step, ..mcmc_rule() }), &pool);
        (state_bits(&a), state_bits(&b))
    };
    let (classic, mcmc) = with(1, 600);
    for (seed, step) in [(2, 600), (1, 700)] {
        let (other_classic, other_mcmc) = with(seed, step);
        assert!(classic != other_classic && mcmc != other_mcmc);
    }
}

#[test]
fn a_reset_lowers_high_opacities_only_and_forgets_their_moments() {
    let before = some_state(500, 1, 47);
    let mut state = before.clone();
    state.splats.opacity_logits[0] = f32::INFINITY;
    let rule = DensityRule::ResetOpacity { max_opacity: 0.01 };
    assert_eq!(density::apply(&mut state, &rule, &Pool::new(1)), DensityOutcome::default());
    assert_eq!(state.splats.opacity_logits[0], f32::INFINITY, "a dead splat stays dead");
    let highest = (0.01f64 / 0.99).ln() as f32;
    for i in 1..500 {
        let (old, new) = (before.splats.opacity_logits[i], state.splats.opacity_logits[i]);
        if old <= highest {
            assert_eq!(old.to_bits(), new.to_bits());
        } else {
            assert!((new - highest).abs() < 1e-6);
        }
    }
    assert!(state.moments.m.opacity_logits.iter().chain(&state.moments.v.opacity_logits).all(|&v| v == 0.0));
    state.splats.opacity_logits = before.splats.opacity_logits.clone();
    state.moments.m.opacity_logits = before.moments.m.opacity_logits.clone();
    state.moments.v.opacity_logits = before.moments.v.opacity_logits.clone();
    assert_eq!(state, before, "nothing else changes");
}

#[test]
fn reordering_moves_whole_splats_and_does_it_once() {
    let before = some_state(5000, 2, 53);
    let mut state = before.clone();
    density::reorder(&mut state, &Pool::new(3));
    assert_consistent(&state);
    let order = morton::order(&before.splats.means, &Pool::new(1));
    for (to, &from) in order.iter().enumerate() {
        assert_eq!(row_bits(&state, to), row_bits(&before, from as usize));
    }
    let grid = morton::Grid::enclosing(&state.splats.means);
    assert!(state.splats.means.windows(2).all(|pair| grid.code(pair[0]) <= grid.code(pair[1])));
    let sorted = state.clone();
    density::reorder(&mut state, &Pool::new(2));
    assert_eq!(state, sorted);
}

#[test]
fn reordering_undoes_any_shuffle_of_splats_in_different_cells() {
    let mut before = some_state(300, 0, 59);
    for (i, mean) in before.splats.means.iter_mut().enumerate() {
        *mean = [(i % 7) as f32, (i / 7 % 7) as f32, (i / 49) as f32];
    }
    let mut shuffled = permuted(&before, &some_order(300));
    density::reorder(&mut before, &Pool::new(1));
    density::reorder(&mut shuffled, &Pool::new(2));
    assert_eq!(before, shuffled);
}

#[test]
fn what_is_not_per_splat_is_left_alone() {
    let before = some_state(100, 0, 61);
    for rule in all_rules() {
        let mut state = before.clone();
        density::apply(&mut state, &rule, &Pool::new(1));
        assert_eq!(state.corrections, before.corrections);
        assert_eq!(state.dense_update_count, before.dense_update_count);
    }
}

/// A state with some invalid values.
fn hostile_state(n: usize, seed: u64, spoils: &[(usize, u8, f32)]) -> TrainState {
    let mut state = some_state(n, 1, seed);
    for &(at, what, value) in spoils.iter().filter(|_| n > 0) {
        let i = at % n;
        match what % 7 {
            0 => state.splats.means[i][at % 3] = value,
            1 => state.splats.log_scales[i][at % 3] = value,
            2 => state.splats.quats[i] = [value; 4],
            3 => state.splats.opacity_logits[i] = value,
            4 => state.splats.sh[i * 12 + at % 12] = value,
            5 => state.statistics.gradient_sum[i] = value,
            _ => state.statistics.max_radius[i] = value,
        }
    }
    state
}

fn hostile_value() -> impl Strategy<Value = f32> {
    prop_oneof![
        any::<f32>(),
        Just(f32::NAN),
        Just(f32::INFINITY),
        Just(f32::NEG_INFINITY),
        Just(0.0),
        Just(-0.0),
        Just(88.0),
        Just(f32::MAX),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_classic_rule_leaves_a_consistent_finite_state(
        n in 0usize..200,
        seed in any::<u64>(),
        max_splats in 0u64..300,
        screen in prop::option::of(0.0f32..40.0),
        reorder in any::<bool>(),
        spoils in prop::collection::vec((0usize..10_000, any::<u8>(), hostile_value()), 0..20),
    ) {
        let before = hostile_state(n, seed, &spoils);
        let rule = ClassicRule { seed, max_splats, prune_screen: screen, reorder, ..classic_rule() };
        let mut state = before.clone();
        let outcome = density::apply(&mut state, &DensityRule::Classic(rule), &Pool::new(2));
        assert_consistent(&state);
        let after = state.splats.len() as u64;
        prop_assert!(after <= max_splats.max(n as u64));
        prop_assert_eq!(after, n as u64 + outcome.cloned + outcome.split - outcome.pruned - outcome.non_finite);
        prop_assert_eq!(outcome.relocated + outcome.added, 0);
        let finite_before = (0..n).filter(|&i| is_finite(&before.splats, i)).count() as u64;
        prop_assert_eq!(outcome.non_finite, n as u64 - finite_before);
        for i in 0..state.splats.len() {
            prop_assert!(is_finite(&state.splats, i));
            if let Some(old) = before.ids.iter().position(|&id| id == state.ids[i]) {
                prop_assert_eq!(splat_bits(&state.splats, i), splat_bits(&before.splats, old));
                prop_assert_eq!(splat_bits(&state.moments.m, i), splat_bits(&before.moments.m, old));
                prop_assert_eq!(splat_bits(&state.moments.v, i), splat_bits(&before.moments.v, old));
                prop_assert_eq!(state.update_counts[i], before.update_counts[old]);
            } else {
                prop_assert!(state.ids[i] >= before.next_id);
                prop_assert!(density_support::is_untrained(&state, i));
            }
        }
        if !reorder {
            let kept: Vec<u32> = state.ids.iter().copied().filter(|&id| id < before.next_id).collect();
            let expected: Vec<u32> = before.ids.iter().copied().filter(|id| kept.contains(id)).collect();
            prop_assert_eq!(kept, expected, "kept splats keep their order");
        }
    }

    #[test]
    fn an_mcmc_rule_leaves_a_consistent_finite_state(
        n in 0usize..200,
        seed in any::<u64>(),
        max_splats in 0u64..300,
        growth in 1.0f32..1.5,
        split_largest in 0.0f32..=1.0,
        reorder in any::<bool>(),
        spoils in prop::collection::vec((0usize..10_000, any::<u8>(), hostile_value()), 0..20),
    ) {
        let before = hostile_state(n, seed, &spoils);
        let rule = McmcRule { seed, max_splats, growth, split_largest, reorder, ..mcmc_rule() };
        let mut state = before.clone();
        let outcome = density::apply(&mut state, &DensityRule::Mcmc(rule), &Pool::new(2));
        assert_consistent(&state);
        let after = state.splats.len() as u64;
        prop_assert!(after <= max_splats.max(n as u64));
        prop_assert_eq!(after, n as u64 + outcome.added - outcome.non_finite);
        for i in 0..state.splats.len() {
            prop_assert!(is_finite(&state.splats, i), "{:?}", state.splats.select(&[i]));
        }
    }
}
