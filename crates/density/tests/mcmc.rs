//! Tests relocation, growth and opacity sharing against simple f64 implementations.

mod density_support;

use density_support::{assert_consistent, is_untrained, mcmc_rule, row_bits, some_state, splat_bits};
use gausset_compute::Pool;
use gausset_compute::rng::{self, stream};
use gausset_core::engine::{DensityRule, McmcRule, TrainState};
use gausset_core::se3::rotation_from_quaternion;
use gausset_density::{self as density, DensityOutcome, MAX_COPIES, copy_parameters, overlap_integral};

fn apply(state: &mut TrainState, rule: McmcRule) -> DensityOutcome {
    density::apply(state, &DensityRule::Mcmc(rule), &Pool::new(2))
}

fn sigmoid(x: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(x)).exp())
}

/// The double sum of the paper, and the sum of the magnitudes of its terms, which bounds its rounding error.
fn double_sum(n: u32, o: f64) -> (f64, f64) {
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for i in 1..=n {
        let mut binomial = 1.0;
        for k in 0..i {
            let term = binomial * o.powi(k as i32 + 1) / f64::from(k + 1).sqrt();
            sum += if k % 2 == 0 { term } else { -term };
            magnitude += term;
            binomial = binomial * f64::from(i - 1 - k) / f64::from(k + 1);
        }
    }
    (sum, magnitude)
}

#[test]
fn the_integral_form_is_the_double_sum_of_the_paper() {
    for n in 1..=MAX_COPIES {
        for o in [1e-6, 0.005, 0.03, 0.1, 0.25, 0.5, 0.8, 0.95, 0.999_999] {
            let (sum, magnitude) = double_sum(n, o);
            let tolerance = 4e-14 * sum + 1e-15 * magnitude;
            let integral = overlap_integral(n, o);
            assert!((integral - sum).abs() <= tolerance, "n {n} o {o}: {integral} {sum} ± {tolerance}");
        }
    }
}

#[test]
fn the_integral_is_exact_where_the_double_sum_has_no_digits_left() {
    // Both sums evaluated with 60 digits.
    for (n, o, expected) in [
        (2, 0.005, 0.009_982_322_330_470_336),
        (2, 0.99999, 1.292_887_360_878_365_5),
        (7, 0.3, 1.188_234_867_523_994_4),
        (20, 0.9, 2.076_811_858_721_205_6),
        (51, 0.005, 0.233_888_963_882_801_85),
        (51, 0.3, 2.018_956_403_186_899),
        (51, 0.9, 2.347_625_585_129_540_2),
        (51, 0.99999, 2.376_545_279_937_459_7),
    ] {
        let found = overlap_integral(n, o);
        assert!((found / expected - 1.0).abs() < 4e-14, "n {n} o {o}: {found} {expected}");
    }
}

/// Opacity along a line through the centre of `n` coincident Gaussians, by Simpson's rule on 4000 intervals.
fn rendered_integral(n: u32, opacity: f64, scale: f64) -> f64 {
    let reach = 8.0 * scale.max(1.0);
    let intervals = 4000;
    let h = 2.0 * reach / f64::from(intervals);
    let value = |i: i32| {
        let x = -reach + f64::from(i) * h;
        let transparency = (0..n).fold(1.0, |t, _| t * (1.0 - opacity * (-0.5 * (x / scale).powi(2)).exp()));
        1.0 - transparency
    };
    let inner: f64 = (1..intervals).map(|i| if i % 2 == 1 { 4.0 } else { 2.0 } * value(i)).sum();
    h / 3.0 * (value(0) + inner + value(intervals))
}

#[test]
fn coincident_copies_look_like_the_splat_they_share() {
    for logit in [-5.2f32, -3.0, -1.0, 0.0, 1.5, 4.0, 9.0] {
        for copies in [2, 3, 5, 17, 51] {
            let o = sigmoid(logit);
            let share = copy_parameters(logit, copies, 1e-6);
            let (copy, scale) = (sigmoid(share.opacity_logit), f64::from(share.log_scale_change).exp());
            // The results are rounded to f32: 51 copies of a relative error of 1e-6 in o' and s'.
            let centre = 1.0 - (1.0 - copy).powi(copies as i32);
            assert!(
                (centre - o).abs() < 2e-6 * (1.0 + o / (1.0 - o)).min(50.0),
                "{logit} {copies}: {centre} {o}"
            );
            let before = rendered_integral(1, o, 1.0);
            let after = rendered_integral(copies, copy, scale);
            assert!((after / before - 1.0).abs() < 2e-5, "{logit} {copies}: {after} {before}");
        }
    }
}

#[test]
fn shared_opacities_stay_within_their_clamps_and_keep_the_integral() {
    // Far more copies than the opacity allows.
    let logit = -5.0;
    let share = copy_parameters(logit, 51, 0.005);
    assert!((sigmoid(share.opacity_logit) - 0.005).abs() < 1e-9);
    let after = rendered_integral(51, 0.005, f64::from(share.log_scale_change).exp());
    assert!((after / rendered_integral(1, sigmoid(logit), 1.0) - 1.0).abs() < 1e-5);
    // Opaque beyond f32: the logit of the copies is that of 1 - eps.
    let share = copy_parameters(80.0, 2, 0.005);
    assert!((share.opacity_logit - 15.94).abs() < 0.01);
    assert!(share.log_scale_change.is_finite());
    // Transparent beyond f64.
    assert!(copy_parameters(-1e4, 2, 0.005).opacity_logit.is_finite());
}

/// A simple implementation of relocation: f64, linear search, the double sum.
struct Straightforward {
    sources: Vec<usize>,
    logits: Vec<f64>,
    log_scales: Vec<[f64; 3]>,
}

fn relocate_straightforwardly(state: &TrainState, rule: &McmcRule) -> (Vec<usize>, Straightforward) {
    let n = state.splats.len();
    let opacity: Vec<f64> = state.splats.opacity_logits.iter().map(|&l| sigmoid(l)).collect();
    let dead: Vec<usize> = (0..n).filter(|&i| opacity[i] <= f64::from(rule.dead_opacity)).collect();
    let alive: Vec<usize> = (0..n).filter(|i| !dead.contains(i)).collect();
    let total: f64 = alive.iter().map(|&i| opacity[i]).sum();
    let sources: Vec<usize> = dead
        .iter()
        .map(|&d| {
            let words = rng::philox(rule.seed, stream::RELOCATE, rule.step, state.ids[d]);
            let mut rest = rng::uniform_f64(words[0], words[1]) * total;
            for &i in &alive {
                rest -= opacity[i];
                if rest < 0.0 {
                    return i;
                }
            }
            alive[alive.len() - 1]
        })
        .collect();
    let mut logits: Vec<f64> = state.splats.opacity_logits.iter().map(|&l| f64::from(l)).collect();
    let mut log_scales: Vec<[f64; 3]> = state.splats.log_scales.iter().map(|s| s.map(f64::from)).collect();
    for i in 0..n {
        let draws = sources.iter().filter(|&&s| s == i).count();
        if draws > 0 {
            let copies = (draws as u32 + 1).min(51);
            let shared = 1.0 - (1.0 - opacity[i]).powf(1.0 / f64::from(copies));
            let shared = shared.clamp(f64::from(rule.dead_opacity), 1.0 - f64::from(f32::EPSILON));
            logits[i] = (shared / (1.0 - shared)).ln();
            let factor = opacity[i] / double_sum(copies, shared).0;
            log_scales[i] = log_scales[i].map(|s| s + factor.ln());
        }
    }
    for (&d, &s) in dead.iter().zip(&sources) {
        logits[d] = logits[s];
        log_scales[d] = log_scales[s];
    }
    (dead, Straightforward { sources, logits, log_scales })
}

#[test]
fn relocation_agrees_with_a_straightforward_evaluation() {
    let before = some_state(2000, 1, 11);
    let rule = McmcRule { growth: 1.0, ..mcmc_rule() };
    let (dead, expected) = relocate_straightforwardly(&before, &rule);
    assert!(dead.len() > 200);
    let mut state = before.clone();
    let outcome = apply(&mut state, rule);
    assert_eq!(outcome, DensityOutcome { relocated: dead.len() as u64, ..DensityOutcome::default() });
    assert_consistent(&state);
    assert_eq!(state.ids, before.ids);
    for i in 0..2000 {
        // Logits and log scales are rounded once to f32.
        let close = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-6 * (1.0 + b.abs());
        assert!(close(state.splats.opacity_logits[i], expected.logits[i]), "logit of {i}");
        for k in 0..3 {
            assert!(close(state.splats.log_scales[i][k], expected.log_scales[i][k]), "log scale of {i}");
        }
        let source = dead.iter().position(|&d| d == i).map(|d| expected.sources[d]);
        match source {
            Some(source) => {
                assert_eq!(splat_bits(&state.splats, i), splat_bits(&state.splats, source));
                assert_eq!(state.splats.means[i], before.splats.means[source]);
                assert_eq!(state.splats.sh_coefficients(i), before.splats.sh_coefficients(source));
                assert!(is_untrained(&state, i) && is_untrained(&state, source));
                assert_eq!(state.statistics.visible_steps[i], 0);
            }
            None if !expected.sources.contains(&i) => {
                assert_eq!(row_bits(&state, i), row_bits(&before, i), "splat {i} took no part");
            }
            None => {}
        }
    }
}

#[test]
fn splats_are_drawn_in_proportion_to_their_opacity() {
    let n = 20_004;
    let mut state = some_state(n, 0, 13);
    state.splats.opacity_logits.fill(-9.0);
    let opacities = [0.1f64, 0.2, 0.3, 0.9];
    for (i, o) in opacities.iter().enumerate() {
        state.splats.opacity_logits[i * 5000] = (o / (1.0 - o)).ln() as f32;
        state.splats.means[i * 5000] = [i as f32; 3];
    }
    apply(&mut state, McmcRule { growth: 1.0, ..mcmc_rule() });
    let draws = n as f64 - 4.0;
    for (i, o) in opacities.iter().enumerate() {
        let copies = state.splats.means.iter().filter(|m| **m == [i as f32; 3]).count() as f64 - 1.0;
        let p = o / 1.5;
        // Five standard deviations of a binomial count.
        let spread = 5.0 * (draws * p * (1.0 - p)).sqrt();
        assert!((copies - draws * p).abs() < spread, "{o}: {copies} of {draws}");
    }
}

#[test]
fn growth_appends_copies_and_leaves_the_training_of_their_sources_alone() {
    let mut before = some_state(1000, 1, 17);
    for logit in &mut before.splats.opacity_logits {
        *logit = logit.max(-3.0);
    }
    let mut state = before.clone();
    let outcome = apply(&mut state, mcmc_rule());
    assert_eq!(outcome, DensityOutcome { added: 50, ..DensityOutcome::default() });
    assert_consistent(&state);
    assert_eq!(state.ids[..1000], before.ids);
    assert_eq!(state.ids[1000..], (before.next_id..before.next_id + 50).collect::<Vec<_>>());
    for i in 0..1000 {
        assert_eq!(splat_bits(&state.moments.m, i), splat_bits(&before.moments.m, i));
        assert_eq!(state.update_counts[i], before.update_counts[i]);
    }
    for i in 1000..1050 {
        assert!(is_untrained(&state, i));
        assert_eq!(state.statistics.gradient_sum[i], 0.0);
        assert_eq!(state.statistics.visible_steps[i], 0);
        assert_eq!(state.statistics.max_radius[i], 0.0);
        let parameters = splat_bits(&state.splats, i);
        let source = (0..1000).find(|&s| splat_bits(&state.splats, s) == parameters).unwrap();
        assert!(state.splats.opacity_logits[source] < before.splats.opacity_logits[source]);
        assert_eq!(state.splats.means[source], before.splats.means[source]);
    }
}

#[test]
fn a_splat_drawn_a_hundred_times_counts_as_fifty_one_copies() {
    let mut state = some_state(101, 0, 37);
    state.splats.opacity_logits.fill(-9.0);
    state.splats.opacity_logits[40] = 3.0;
    assert_eq!(apply(&mut state, McmcRule { growth: 1.0, ..mcmc_rule() }).relocated, 100);
    let share = copy_parameters(3.0, MAX_COPIES, 0.005);
    assert!(state.splats.opacity_logits.iter().all(|&l| l == share.opacity_logit));
}

#[test]
fn growth_is_rounded_and_stops_at_the_limit() {
    for (n, limit, growth, expected) in [
        (1000, 1_000_000, 1.05, 1050),
        (1000, 1010, 1.05, 1010),
        (1000, 1000, 1.05, 1000),
        (1000, 10, 1.05, 1000),
        (20, 100, 1.05, 21),
        // At least one.
        (1, 100, 1.05, 2),
        (9, 100, 1.05, 10),
        (9, 9, 1.05, 9),
        (9, 100, 1.0, 9),
    ] {
        let mut state = some_state(n, 0, 19);
        state.splats.opacity_logits.iter_mut().for_each(|logit| *logit = logit.abs());
        apply(&mut state, McmcRule { max_splats: limit, growth, ..mcmc_rule() });
        assert_eq!(state.splats.len(), expected);
    }
}

#[test]
fn nothing_can_be_drawn_where_nothing_is_alive() {
    let mut state = some_state(100, 0, 23);
    state.splats.opacity_logits.fill(-1e30);
    let before = state.clone();
    assert_eq!(apply(&mut state, mcmc_rule()), DensityOutcome::default());
    assert_eq!(state, before);
    let mut empty = some_state(0, 0, 23);
    assert_eq!(apply(&mut empty, mcmc_rule()), DensityOutcome::default());
}

#[test]
fn splats_that_are_not_finite_are_removed_before_anything_is_drawn() {
    let mut state = some_state(100, 0, 29);
    state.splats.opacity_logits.fill(1.0);
    state.splats.opacity_logits[3] = f32::INFINITY;
    state.splats.means[50][1] = f32::NAN;
    let outcome = apply(&mut state, McmcRule { growth: 1.0, ..mcmc_rule() });
    assert_eq!(outcome, DensityOutcome { non_finite: 2, ..DensityOutcome::default() });
    assert_eq!(state.splats.len(), 98);
    assert!(state.splats.means.iter().flatten().all(|v| v.is_finite()));
}

#[test]
fn a_splat_of_exactly_the_dead_opacity_is_dead() {
    let mut state = some_state(3, 0, 31);
    let threshold = (0.005f64 / 0.995).ln() as f32;
    // The threshold is the logit of the f32 nearest to 0.005.
    state.splats.opacity_logits = vec![threshold.next_up().next_up(), 2.0, threshold.next_down().next_down()];
    assert_eq!(apply(&mut state, McmcRule { growth: 1.0, ..mcmc_rule() }).relocated, 1);
    let mut again = some_state(2, 0, 31);
    again.splats.opacity_logits = vec![copy_parameters(-9.0, 2, 0.005).opacity_logit, 2.0];
    assert_eq!(apply(&mut again, McmcRule { growth: 1.0, ..mcmc_rule() }).relocated, 1);
}

/// Mean and covariance of splats of equal weight, f64.
fn moments_of(state: &TrainState, splats: &[usize]) -> ([f64; 3], [[f64; 3]; 3]) {
    let weight = 1.0 / splats.len() as f64;
    let (mut mean, mut second) = ([0.0; 3], [[0.0; 3]; 3]);
    for &i in splats {
        let m = state.splats.means[i].map(f64::from);
        let r = rotation_from_quaternion(state.splats.quats[i].map(f64::from));
        let variance = state.splats.log_scales[i].map(|s| (2.0 * f64::from(s)).exp());
        for a in 0..3 {
            mean[a] += weight * m[a];
            for b in 0..3 {
                let own: f64 = (0..3).map(|k| r[a][k] * variance[k] * r[b][k]).sum();
                second[a][b] += weight * (own + m[a] * m[b]);
            }
        }
    }
    let covariance = std::array::from_fn(|a| std::array::from_fn(|b| second[a][b] - mean[a] * mean[b]));
    (mean, covariance)
}

#[test]
fn the_halves_of_a_splat_have_its_mean_covariance_and_integral() {
    let mut before = some_state(400, 1, 53);
    for (mean, logit) in before.splats.means.iter_mut().zip(&mut before.splats.opacity_logits) {
        // Near the origin, for numerical precision of the sums.
        *mean = mean.map(|v| 0.01 * v);
        *logit = logit.max(-3.0);
    }
    let mut state = before.clone();
    let added = apply(&mut state, McmcRule { split_largest: 1.0, ..mcmc_rule() }).added as usize;
    let volume = |state: &TrainState, i: usize| {
        sigmoid(state.splats.opacity_logits[i])
            * state.splats.log_scales[i].map(|s| f64::from(s).exp()).iter().product::<f64>()
    };
    let mut halves = 0;
    for copy in 400..400 + added {
        let quat = state.splats.quats[copy];
        let source = (0..400).find(|&i| state.splats.quats[i] == quat).unwrap();
        if (400..400 + added).filter(|&i| state.splats.quats[i] == quat).count() > 1 {
            // Drawn more than once: these are copies at the same position.
            assert_eq!(state.splats.means[copy], before.splats.means[source]);
            continue;
        }
        halves += 1;
        assert_eq!(state.splats.opacity_logits[copy], before.splats.opacity_logits[source]);
        let (mean, covariance) = moments_of(&before, &[source]);
        let (mean_after, covariance_after) = moments_of(&state, &[source, copy]);
        let size = (0..3).map(|k| covariance[k][k]).sum::<f64>();
        for a in 0..3 {
            assert!((mean_after[a] - mean[a]).abs() < 1e-6 * size.sqrt().max(0.01));
            for b in 0..3 {
                let difference = covariance_after[a][b] - covariance[a][b];
                assert!(difference.abs() < 1e-5 * size, "{difference} of {size}");
            }
        }
        let (whole, both) = (volume(&before, source), volume(&state, source) + volume(&state, copy));
        assert!((both / whole - 1.0).abs() < 1e-5, "{both} {whole}");
    }
    assert!(halves > 5, "{halves} of {added}");
}

#[test]
fn only_the_largest_share_of_the_splats_is_split() {
    let mut before = some_state(1000, 0, 59);
    for logit in &mut before.splats.opacity_logits {
        *logit = logit.max(-3.0);
    }
    let longest = |s: &[f32; 3]| s[0].max(s[1]).max(s[2]);
    let mut sizes: Vec<f32> = before.splats.log_scales.iter().map(longest).collect();
    sizes.sort_by(f32::total_cmp);
    for (share, limit) in [(0.0, f32::INFINITY), (0.25, sizes[750]), (1.0, sizes[0])] {
        let mut state = before.clone();
        apply(&mut state, McmcRule { split_largest: share, ..mcmc_rule() });
        let moved = |i: &usize| state.splats.means[*i] != before.splats.means[*i];
        let split: Vec<usize> = (0..1000).filter(moved).collect();
        assert!(split.iter().all(|&i| longest(&before.splats.log_scales[i]) >= limit), "{share}");
        assert_eq!(split.is_empty(), share == 0.0, "{share}");
    }
}

#[test]
fn a_dead_splat_becomes_the_other_half_of_the_one_it_moves_to() {
    let mut before = some_state(2, 0, 61);
    before.splats.opacity_logits = vec![-9.0, 1.0];
    let mut state = before.clone();
    assert_eq!(apply(&mut state, McmcRule { growth: 1.0, split_largest: 1.0, ..mcmc_rule() }).relocated, 1);
    assert_eq!(state.splats.opacity_logits, [1.0; 2]);
    let [a, b] = [state.splats.means[0], state.splats.means[1]];
    let scales = before.splats.log_scales[1].map(|s| f64::from(s).exp());
    let longest = scales.into_iter().fold(0.0, f64::max);
    let distance = (0..3).map(|k| f64::from(a[k] - b[k]).powi(2)).sum::<f64>().sqrt();
    assert!((distance / longest - 3.0f64.sqrt()).abs() < 1e-5, "{distance} {longest}");
    assert!(is_untrained(&state, 0) && is_untrained(&state, 1));
}
