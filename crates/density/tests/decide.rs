//! Tests the fused decision pass against its scalar definition and against the rule as stated in the paper.

mod density_support;

use density_support::{classic_rule, some_state};
use gausset_compute::level::{SimdLevel, describe, dispatch_level};
use gausset_compute::{Exec, Pool};
use gausset_core::engine::ClassicRule;
use gausset_density::decide::{
    CLONE, DecisionCounts, DecisionInputs, KEEP, PRUNE, SPLIT, Thresholds, decide,
};

/// One column per splat, so that combinations of values can be enumerated.
#[derive(Clone, Default)]
struct Columns {
    gradient_sum: Vec<f32>,
    visible_steps: Vec<u32>,
    max_radius: Vec<f32>,
    log_scales: Vec<[f32; 3]>,
    opacity_logits: Vec<f32>,
}

impl Columns {
    fn push(&mut self, sum: f32, steps: u32, radius: f32, log_scales: [f32; 3], logit: f32) {
        self.gradient_sum.push(sum);
        self.visible_steps.push(steps);
        self.max_radius.push(radius);
        self.log_scales.push(log_scales);
        self.opacity_logits.push(logit);
    }

    fn inputs(&self) -> DecisionInputs<'_> {
        DecisionInputs {
            gradient_sum: &self.gradient_sum,
            visible_steps: &self.visible_steps,
            max_radius: &self.max_radius,
            log_scales: &self.log_scales,
            opacity_logits: &self.opacity_logits,
        }
    }
}

/// Zeros, denormals, infinities, NaNs, and a threshold with its neighbours, both signs.
fn adversarial(threshold: f32) -> Vec<f32> {
    let mut values = vec![0.0, 1.0, f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX, f32::INFINITY, f32::NAN];
    values.extend([threshold, threshold.next_up(), threshold.next_down()]);
    values.extend(values.clone().iter().map(|v| -v));
    values
}

fn all_levels() -> impl Iterator<Item = fearless_simd::Level> {
    SimdLevel::ALL.into_iter().filter_map(dispatch_level)
}

/// Asserts that every level and number of threads decides like the scalar definition; returns the decisions.
fn decisions_everywhere(columns: &Columns, t: &Thresholds) -> Vec<u8> {
    let inputs = columns.inputs();
    let n = columns.opacity_logits.len();
    let expected: Vec<u8> = (0..n).map(|i| inputs.decide(i, t)).collect();
    let count = |what| expected.iter().filter(|&&d| d == what).count() as u64;
    let counts = DecisionCounts { clone: count(CLONE), split: count(SPLIT), prune: count(PRUNE) };
    for level in all_levels() {
        for threads in [1, 2, 3, 7] {
            let mut decisions = vec![0xFF; n];
            assert_eq!(decide(Exec { pool: &Pool::new(threads), level }, &inputs, t, &mut decisions), counts);
            if let Some(i) = (0..n).find(|&i| decisions[i] != expected[i]) {
                panic!(
                    "splat {i} at {}: {} instead of {}: sum {} steps {} radius {} log scales {:?} logit {}, {t:?}",
                    describe(level),
                    decisions[i],
                    expected[i],
                    columns.gradient_sum[i],
                    columns.visible_steps[i],
                    columns.max_radius[i],
                    columns.log_scales[i],
                    columns.opacity_logits[i],
                );
            }
        }
    }
    expected
}

#[test]
fn adversarial_values_decide_alike_in_vectors_and_scalars() {
    let rules = [
        classic_rule(),
        ClassicRule { prune_screen: Some(20.0), prune_scale: None, ..classic_rule() },
        ClassicRule { gradient_threshold: 0.0, clone_scale_limit: 0.0, prune_opacity: 0.0, ..classic_rule() },
        ClassicRule {
            clone_scale_limit: f32::INFINITY,
            prune_scale: Some(1e-38),
            prune_opacity: 1.0,
            ..classic_rule()
        },
        ClassicRule {
            gradient_threshold: f32::NAN,
            clone_scale_limit: -1.0,
            prune_scale: Some(f32::NAN),
            prune_opacity: 2.0,
            ..classic_rule()
        },
    ];
    for rule in rules {
        let t = Thresholds::from_rule(&rule);
        let mut columns = Columns::default();
        let logits = adversarial(t.prune_logit);
        let radii = adversarial(t.prune_radius);
        let mut scales = adversarial(t.clone_log_scale);
        scales.extend([t.prune_log_scale, t.prune_log_scale.next_up(), t.prune_log_scale + t.log_shrink]);
        // Every value of each kind is combined with every count and several values of the other kinds, in every axis.
        for (i, &scale) in scales.iter().enumerate() {
            for steps in [0, 1, 2, 3, 100, 1 << 24, (1 << 24) + 1, (1 << 31) + 129, u32::MAX] {
                for (j, sum) in adversarial(t.gradient * steps as f32).into_iter().enumerate() {
                    let at = |values: &[f32], k: usize| values[k % values.len()];
                    let mut log_scales = [at(&scales, i + 7 * j), at(&scales, 3 * i + j), at(&scales, i + 1)];
                    log_scales[(i + j) % 3] = scale;
                    columns.push(sum, steps, at(&radii, i + 5 * j), log_scales, at(&logits, 2 * i + 3 * j));
                }
            }
        }
        let decisions = decisions_everywhere(&columns, &t);
        assert!(decisions.iter().any(|&d| d != KEEP) || t.gradient.is_nan());
    }
}

#[test]
fn any_number_of_splats_is_decided_completely() {
    let t = Thresholds::from_rule(&classic_rule());
    for n in [0, 1, 15, 16, 17, 31, 47, 16_383, 16_384, 16_385, 40_000] {
        let state = some_state(n, 0, n as u64);
        let columns = Columns {
            gradient_sum: state.statistics.gradient_sum,
            visible_steps: state.statistics.visible_steps,
            max_radius: state.statistics.max_radius,
            log_scales: state.splats.log_scales,
            opacity_logits: state.splats.opacity_logits,
        };
        let decisions = decisions_everywhere(&columns, &t);
        if n >= 1000 {
            assert!([KEEP, CLONE, SPLIT, PRUNE].iter().all(|d| decisions.contains(d)));
        }
    }
}

#[test]
fn log_space_agrees_with_the_rule_as_the_paper_states_it() {
    let rule = ClassicRule { prune_screen: Some(25.0), ..classic_rule() };
    let state = some_state(20_000, 0, 3);
    let t = Thresholds::from_rule(&rule);
    let columns = Columns {
        gradient_sum: state.statistics.gradient_sum.clone(),
        visible_steps: state.statistics.visible_steps.clone(),
        max_radius: state.statistics.max_radius.clone(),
        log_scales: state.splats.log_scales.clone(),
        opacity_logits: state.splats.opacity_logits.clone(),
    };
    let decisions = decisions_everywhere(&columns, &t);
    let mut compared = 0;
    for (i, decision) in decisions.into_iter().enumerate() {
        let steps = f64::from(columns.visible_steps[i]);
        let mean = if steps > 0.0 { f64::from(columns.gradient_sum[i]) / steps } else { 0.0 };
        let scale = columns.log_scales[i].iter().map(|&s| f64::from(s).exp()).fold(0.0, f64::max);
        let opacity = 1.0 / (1.0 + (-f64::from(columns.opacity_logits[i])).exp());
        let grows = mean > f64::from(rule.gradient_threshold);
        let splits = grows && scale > f64::from(rule.clone_scale_limit);
        let remaining = if splits { scale / f64::from(rule.split_shrink) } else { scale };
        let largest = f64::from(rule.prune_scale.unwrap());
        let prunes = opacity < f64::from(rule.prune_opacity)
            || remaining > largest
            || columns.max_radius[i] > rule.prune_screen.unwrap();
        // Thresholds are rounded to f32 in log space: within 1e-6 of one, either result is correct.
        let near = |x: f64, limit: f32| (x / f64::from(limit) - 1.0).abs() < 1e-6;
        if near(mean, rule.gradient_threshold)
            || near(scale, rule.clone_scale_limit)
            || near(remaining, rule.prune_scale.unwrap())
            || near(opacity, rule.prune_opacity)
        {
            continue;
        }
        compared += 1;
        let expected = match (prunes, splits, grows) {
            (true, ..) => PRUNE,
            (_, true, _) => SPLIT,
            (_, _, true) => CLONE,
            _ => KEEP,
        };
        assert_eq!(decision, expected, "splat {i}");
    }
    assert!(compared > 19_900);
}

#[test]
fn a_value_exactly_at_its_threshold_does_nothing() {
    let t = Thresholds::from_rule(&ClassicRule { prune_screen: Some(20.0), ..classic_rule() });
    let (small, large) = (t.clone_log_scale, t.prune_log_scale);
    let mut columns = Columns::default();
    columns.push(t.gradient * 3.0, 3, 20.0, [large; 3], t.prune_logit);
    columns.push((t.gradient * 3.0).next_up(), 3, 20.0, [small; 3], t.prune_logit);
    columns.push((t.gradient * 3.0).next_up(), 3, 20.0, [small, small.next_up(), small], t.prune_logit);
    columns.push(0.0, 3, 20.0f32.next_up(), [small; 3], 0.0);
    columns.push(0.0, 3, 0.0, [small, small, large.next_up()], 0.0);
    columns.push(0.0, 3, 0.0, [small; 3], t.prune_logit.next_down());
    assert_eq!(decisions_everywhere(&columns, &t), [KEEP, CLONE, SPLIT, PRUNE, PRUNE, PRUNE]);
}

#[test]
fn a_splat_never_seen_does_not_grow() {
    let t = Thresholds::from_rule(&classic_rule());
    let mut columns = Columns::default();
    columns.push(0.0, 0, 0.0, [-3.0; 3], 1.0);
    assert_eq!(decisions_everywhere(&columns, &t), [KEEP]);
}

#[test]
fn radii_need_not_exist_when_nothing_is_pruned_by_them() {
    let t = Thresholds::from_rule(&classic_rule());
    let mut columns = Columns::default();
    columns.push(1.0, 1, 0.0, [-3.0; 3], 1.0);
    columns.max_radius.clear();
    assert_eq!(decisions_everywhere(&columns, &t), [CLONE]);
}
