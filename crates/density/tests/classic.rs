//! Tests of clone, split and prune on whole states.

mod density_support;

use density_support::{
    assert_consistent, classic_rule, is_untrained, permuted, row_bits, some_order, some_state, splat_bits,
};
use gausset_compute::Pool;
use gausset_core::Splats;
use gausset_core::engine::{ClassicRule, DensityRule, TrainState};
use gausset_core::se3;
use gausset_density::{self as density, DensityOutcome};

/// `n` equal splats, fully visible in one step with the given mean statistic.
fn equal_splats(n: usize, log_scale: [f32; 3], quat: [f32; 4], logit: f32, statistic: f32) -> TrainState {
    let mut splats = Splats::with_capacity(0, n);
    for _ in 0..n {
        splats.push([1.0, 2.0, 3.0], log_scale, quat, logit, &[0.1, 0.2, 0.3]);
    }
    let mut state = TrainState::new(splats, Vec::new());
    state.statistics.gradient_sum.fill(statistic);
    state.statistics.visible_steps.fill(1);
    state
}

fn apply(state: &mut TrainState, rule: ClassicRule) -> DensityOutcome {
    density::apply(state, &DensityRule::Classic(rule), &Pool::new(2))
}

const SMALL: [f32; 3] = [-3.0; 3];
const IDENTITY: [f32; 4] = [1.0, 0.0, 0.0, 0.0];

#[test]
fn a_small_splat_with_a_large_gradient_is_cloned_beside_itself() {
    let mut state = some_state(1, 2, 1);
    state.splats.log_scales[0] = SMALL;
    state.splats.opacity_logits[0] = 0.5;
    state.statistics.gradient_sum[0] = 1.0;
    state.statistics.visible_steps[0] = 2;
    let before = state.clone();
    let outcome = apply(&mut state, classic_rule());
    assert_eq!(outcome, DensityOutcome { cloned: 1, ..DensityOutcome::default() });
    assert_consistent(&state);
    assert_eq!(splat_bits(&state.splats, 0), splat_bits(&before.splats, 0));
    assert_eq!(splat_bits(&state.splats, 1), splat_bits(&before.splats, 0));
    // The original keeps its optimiser state; the copy starts with none.
    assert_eq!(splat_bits(&state.moments.v, 0), splat_bits(&before.moments.v, 0));
    assert_eq!(state.update_counts, [before.update_counts[0], 0]);
    assert!(is_untrained(&state, 1));
    assert_eq!(state.ids, [before.ids[0], before.next_id]);
    assert_eq!(state.next_id, before.next_id + 1);
}

#[test]
fn a_large_splat_is_replaced_by_two_smaller_ones_of_its_kind() {
    let mut state = some_state(1, 1, 1);
    state.splats.log_scales[0] = [-1.2, -2.0, -4.0];
    state.splats.opacity_logits[0] = 0.5;
    state.statistics.gradient_sum[0] = 1.0;
    state.statistics.visible_steps[0] = 2;
    let before = state.clone();
    let outcome = apply(&mut state, classic_rule());
    assert_eq!(outcome, DensityOutcome { split: 1, ..DensityOutcome::default() });
    assert_consistent(&state);
    assert_eq!(state.splats.len(), 2);
    assert_eq!(state.ids, [before.next_id, before.next_id + 1]);
    for i in 0..2 {
        assert!(is_untrained(&state, i));
        assert_ne!(state.splats.means[i], before.splats.means[0]);
        assert_eq!(state.splats.quats[i], before.splats.quats[0]);
        assert_eq!(state.splats.opacity_logits[i], before.splats.opacity_logits[0]);
        assert_eq!(state.splats.sh_coefficients(i), before.splats.sh_coefficients(0));
        for k in 0..3 {
            let ratio = (before.splats.log_scales[0][k] - state.splats.log_scales[i][k]).exp();
            assert!((ratio - 1.6).abs() < 1e-5);
        }
    }
    assert_ne!(state.splats.means[0], state.splats.means[1]);
}

#[test]
fn halves_are_drawn_from_the_splat_in_its_own_axes() {
    let n = 20_000;
    let quat = [0.9, 0.1, -0.2, 0.3];
    let log_scale = [-1.0f32, -2.0, -4.0];
    let mut state = equal_splats(n, log_scale, quat, 0.0, 1.0);
    apply(&mut state, ClassicRule { prune_scale: None, ..classic_rule() });
    assert_eq!(state.splats.len(), 2 * n);
    let rotation = se3::rotation_from_quaternion(quat.map(f64::from));
    let whitened: Vec<[f64; 3]> = state
        .splats
        .means
        .iter()
        .map(|m| {
            let offset = [f64::from(m[0]) - 1.0, f64::from(m[1]) - 2.0, f64::from(m[2]) - 3.0];
            let local = se3::transpose_mul_vec(&rotation, offset);
            std::array::from_fn(|k| local[k] / f64::from(log_scale[k]).exp())
        })
        .collect();
    let mean_of = |f: &dyn Fn(&[f64; 3]) -> f64| whitened.iter().map(f).sum::<f64>() / (2 * n) as f64;
    // Five standard errors of a mean of 40,000: 0.025 for unit variance, 0.036 for squares of normals.
    for k in 0..3 {
        assert!(mean_of(&|x| x[k]).abs() < 0.025);
        assert!((mean_of(&|x| x[k] * x[k]) - 1.0).abs() < 0.036);
        assert!(mean_of(&|x| x[k] * x[(k + 1) % 3]).abs() < 0.025);
    }
    // The two halves of one splat are independent: 20,000 pairs.
    let together: f64 = whitened.chunks(2).map(|pair| pair[0][0] * pair[1][0]).sum::<f64>() / n as f64;
    assert!(together.abs() < 0.036, "halves are correlated: {together}");
}

#[test]
fn a_needle_is_split_along_its_length() {
    // A rotation of 90 degrees about z (w first): the long axis x of the splat points along y of the world.
    let quarter = [std::f32::consts::FRAC_1_SQRT_2, 0.0, 0.0, std::f32::consts::FRAC_1_SQRT_2];
    let mut state = equal_splats(100, [0.0, -9.0, -9.0], quarter, 0.0, 1.0);
    apply(&mut state, ClassicRule { prune_scale: None, ..classic_rule() });
    let spread =
        |k: usize, centre: f32| state.splats.means.iter().map(|m| (m[k] - centre).abs()).fold(0.0, f32::max);
    assert!(spread(1, 2.0) > 1.0 && spread(0, 1.0) < 1e-2 && spread(2, 3.0) < 1e-2);
}

#[test]
fn what_is_pruned_does_not_grow() {
    let transparent = -6.0;
    let mut state = equal_splats(3, SMALL, IDENTITY, transparent, 1.0);
    state.splats.opacity_logits[1] = 0.0;
    let outcome = apply(&mut state, classic_rule());
    assert_eq!(outcome, DensityOutcome { cloned: 1, pruned: 2, ..DensityOutcome::default() });
    assert_eq!(state.ids, [1, 3]);
}

#[test]
fn a_splat_too_large_is_removed_unless_its_halves_are_small_enough() {
    let limit: f32 = 0.33;
    let too_large = (limit * 1.3).ln();
    let far_too_large = (limit * 1.7).ln();
    for (log_scale, statistic, expected) in [
        (too_large, 0.0, DensityOutcome { pruned: 1, ..DensityOutcome::default() }),
        (too_large, 1.0, DensityOutcome { split: 1, ..DensityOutcome::default() }),
        (far_too_large, 1.0, DensityOutcome { pruned: 1, ..DensityOutcome::default() }),
    ] {
        let mut state = equal_splats(1, [-4.0, log_scale, -4.0], IDENTITY, 0.0, statistic);
        assert_eq!(apply(&mut state, classic_rule()), expected);
    }
}

#[test]
fn screen_pruning_is_off_unless_asked_for() {
    let mut state = equal_splats(2, SMALL, IDENTITY, 0.0, 0.0);
    state.statistics.max_radius = vec![1e9, 19.0];
    assert_eq!(apply(&mut state.clone(), classic_rule()).pruned, 0);
    let outcome = apply(&mut state, ClassicRule { prune_screen: Some(20.0), ..classic_rule() });
    assert_eq!(outcome.pruned, 1);
    assert_eq!(state.ids, [1]);
}

#[test]
fn growth_stops_at_the_limit_and_the_largest_statistics_grow_first() {
    let mut state = equal_splats(8, SMALL, IDENTITY, 0.0, 0.0);
    state.statistics.gradient_sum = vec![0.3, 0.9, 0.0, 0.5, 0.9, 0.5, 0.5, 0.4];
    state.statistics.visible_steps = vec![1, 3, 1, 1, 1, 1, 1, 1];
    // Means: 0.3, 0.3, 0, 0.5, 0.9, 0.5, 0.5, 0.4. Capacity for three: the 0.9 and the first two of the three 0.5.
    let mut limited = state.clone();
    let outcome = apply(&mut limited, ClassicRule { max_splats: 11, ..classic_rule() });
    assert_eq!(outcome.cloned, 3);
    assert_eq!(limited.ids, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    // Each splat gets a different colour to identify it.
    for i in 0..8 {
        state.splats.sh[3 * i] = i as f32;
    }
    apply(&mut state, ClassicRule { max_splats: 11, ..classic_rule() });
    let colours: Vec<f32> = (8..11).map(|i| state.splats.sh_coefficients(i)[0]).collect();
    assert_eq!(colours, [3.0, 4.0, 5.0]);
}

#[test]
fn statistics_start_again_for_all_splats() {
    let mut state = some_state(50, 0, 3);
    state.statistics.max_radius.fill(3.0);
    apply(&mut state, ClassicRule { max_splats: 52, ..classic_rule() });
    assert!(state.splats.len() > 30);
    assert!(state.statistics.gradient_sum.iter().chain(&state.statistics.max_radius).all(|&v| v == 0.0));
    assert!(state.statistics.visible_steps.iter().all(|&v| v == 0));
}

#[test]
fn pruned_splats_make_room_for_growth() {
    let mut state = equal_splats(4, SMALL, IDENTITY, 0.0, 1.0);
    state.splats.opacity_logits[0] = -9.0;
    let outcome = apply(&mut state, ClassicRule { max_splats: 4, ..classic_rule() });
    assert_eq!(outcome, DensityOutcome { cloned: 1, pruned: 1, ..DensityOutcome::default() });
    assert_eq!(state.splats.len(), 4);
}

#[test]
fn a_set_beyond_the_limit_does_not_grow_and_is_not_cut() {
    let mut state = equal_splats(4, SMALL, IDENTITY, 0.0, 1.0);
    let outcome = apply(&mut state, ClassicRule { max_splats: 2, ..classic_rule() });
    assert_eq!(outcome, DensityOutcome::default());
    assert_eq!(state.splats.len(), 4);
}

#[test]
fn the_result_does_not_depend_on_where_a_splat_is_stored() {
    let state = some_state(3000, 1, 5);
    let order = some_order(3000);
    let (mut a, mut b) = (state.clone(), permuted(&state, &order));
    let outcome = apply(&mut a, classic_rule());
    assert!(outcome.cloned > 100 && outcome.split > 100 && outcome.pruned > 100);
    assert_eq!(apply(&mut b, classic_rule()), outcome);
    // Ids of new splats are assigned in order, so everything except them is compared, as sets.
    let as_set = |s: &TrainState| {
        let mut rows: Vec<Vec<u32>> = (0..s.splats.len()).map(|i| row_bits(s, i)[1..].to_vec()).collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(as_set(&a), as_set(&b));
}

#[test]
fn splats_with_a_value_that_is_not_finite_are_removed_whatever_the_value() {
    type Spoil = fn(&mut Splats);
    let spoils: [Spoil; 7] = [
        |s| s.means[1][2] = f32::NAN,
        |s| s.log_scales[1][0] = f32::INFINITY,
        |s| s.log_scales[1][1] = f32::NEG_INFINITY,
        |s| s.quats[1][3] = f32::NAN,
        |s| s.opacity_logits[1] = f32::NAN,
        |s| s.opacity_logits[1] = f32::INFINITY,
        |s| s.sh[5] = f32::NEG_INFINITY,
    ];
    for spoil in spoils {
        let mut state = equal_splats(3, SMALL, IDENTITY, 0.0, 0.0);
        spoil(&mut state.splats);
        let outcome = apply(&mut state, classic_rule());
        assert_eq!(outcome, DensityOutcome { non_finite: 1, ..DensityOutcome::default() });
        assert_eq!(state.ids, [0, 2]);
    }
}

#[test]
fn a_half_that_would_leave_the_range_of_numbers_stays_where_its_parent_was() {
    let mut state = equal_splats(1, [88.9, 0.0, 0.0], IDENTITY, 0.0, 1.0);
    state.splats.means[0] = [f32::MAX; 3];
    apply(&mut state, ClassicRule { prune_scale: None, ..classic_rule() });
    assert_eq!(state.splats.len(), 2);
    assert!(state.splats.means.iter().flatten().all(|v| v.is_finite()));
}
