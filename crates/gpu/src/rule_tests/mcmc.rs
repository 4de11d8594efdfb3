//! Relocation and growth: the drawn splats are identified by their colours, which are unique, and the results are
//! compared with the formulas of the host.

use std::collections::BTreeMap;

use gausset_core::engine::{DensityRule, McmcRule};
use gausset_core::se3::rotation_from_quaternion;
use gausset_density::{MAX_COPIES, copy_parameters, logit};

use super::*;

/// Indices of finite splats.
fn finite(state: &TrainState) -> Vec<usize> {
    let splats = &state.splats;
    let is_finite = |i: usize| {
        let all = [&splats.means[i][..], &splats.log_scales[i], &splats.quats[i], splats.sh_coefficients(i)]
            .concat();
        all.iter().all(|v| v.is_finite()) && splats.opacity_logits[i].is_finite()
    };
    (0..splats.len()).filter(|&i| is_finite(i)).collect()
}

fn longest(scales: &[f32; 3]) -> f32 {
    scales[0].max(scales[1]).max(scales[2])
}

/// Which of the rows were large enough to be halved.
fn large(state: &TrainState, rows: &[usize], share: f32) -> Vec<bool> {
    let whole = ((1.0 - f64::from(share)) * rows.len() as f64) as usize;
    let mut sizes: Vec<f32> = rows.iter().map(|&i| longest(&state.splats.log_scales[i])).collect();
    sizes.sort_by(f32::total_cmp);
    let limit = sizes.get(whole).copied().unwrap_or(f32::INFINITY);
    rows.iter().map(|&i| share > 0.0 && longest(&state.splats.log_scales[i]) >= limit).collect()
}

fn near(name: &str, found: f32, expected: f64, scale: f64) {
    let error = (f64::from(found) - expected).abs();
    assert!(error <= 2e-5 * scale, "{name}: {found} (expected {expected})");
}

/// Checks the geometry of a row that comes from splat `source`, given how often that was drawn.
fn check_geometry(
    name: &str,
    [before, after]: [&TrainState; 2],
    row: usize,
    source: usize,
    (draws, is_large, side): (u32, bool, f64),
) {
    let (old, new) = (&before.splats, &after.splats);
    let (scales, mean) = (old.log_scales[source], old.means[source]);
    assert_eq!(new.quats[row], old.quats[source], "{name}: quaternion of {row}");
    if draws == 0 || (draws == 1 && is_large) {
        assert_eq!(new.opacity_logits[row].to_bits(), old.opacity_logits[source].to_bits(), "{name}: {row}");
    }
    if draws == 0 {
        assert_eq!((new.means[row], new.log_scales[row]), (mean, scales), "{name}: {row}");
        return;
    }
    if draws == 1 && is_large {
        let axis = (0..3).find(|&k| scales[k] == longest(&scales)).expect("an axis");
        let rotation = rotation_from_quaternion(old.quats[source].map(f64::from));
        let size = f64::from(scales[axis]).exp();
        for k in 0..3 {
            let shrink = if k == axis { std::f32::consts::LN_2 } else { 0.0 };
            assert_eq!(new.log_scales[row][k].to_bits(), (scales[k] - shrink).to_bits(), "{name}: {row}");
            let expected = f64::from(mean[k]) + side * 0.75f64.sqrt() * size * rotation[k][axis];
            near(name, new.means[row][k], expected, 0.1 + size);
        }
        return;
    }
    let share = copy_parameters(old.opacity_logits[source], (draws + 1).min(MAX_COPIES), 0.005);
    assert_eq!(new.means[row], mean, "{name}: {row}");
    near(
        name,
        new.opacity_logits[row],
        f64::from(share.opacity_logit),
        1.0 + f64::from(share.opacity_logit.abs()),
    );
    for k in 0..3 {
        near(name, new.log_scales[row][k], f64::from(scales[k] + share.log_scale_change), 1.0);
    }
}

/// Tests either relocation (growth 1) or growth (no dead splats).
fn check(name: &str, engine: &mut GpuEngine, before: &TrainState, rule: &McmcRule) -> Vec<u32> {
    let wrapped = DensityRule::Mcmc(*rule);
    let (after, report) = applied(engine, before, std::slice::from_ref(&wrapped));
    let (expected, expected_report) = on_host(before, &wrapped);
    assert_eq!(report, expected_report, "{name}");
    // The set of splats, ids and clocks do not depend on the draws, except clocks and moments of sources.
    assert_equal_bits(
        name,
        &after,
        &expected,
        &[
            "means",
            "log scales",
            "quats",
            "logits",
            "sh",
            "m means",
            "m log scales",
            "m quats",
            "m logits",
            "m sh",
            "v means",
            "v log scales",
            "v quats",
            "v logits",
            "v sh",
            "clocks",
        ],
    );
    let rows = finite(before);
    let n = rows.len();
    let place: BTreeMap<Vec<u32>, usize> =
        rows.iter().enumerate().map(|(place, &i)| (bits(before.splats.sh_coefficients(i)), place)).collect();
    let sources: Vec<usize> =
        (0..after.splats.len()).map(|row| place[&bits(after.splats.sh_coefficients(row))]).collect();
    let dead = logit(rule.dead_opacity);
    let mut draws = vec![0u32; n];
    for (row, &source) in sources.iter().enumerate() {
        if row >= n || source != row {
            draws[source] += 1;
            let is_dead = |place: usize| before.splats.opacity_logits[rows[place]] <= dead;
            assert!(!is_dead(source) && (row >= n || is_dead(row)), "{name}: {row} from {source}");
        }
    }
    let is_large = large(before, &rows, rule.split_largest);
    let grows = report.added > 0;
    for (row, &source) in sources.iter().enumerate() {
        let side = if row == source { 1.0 } else { -1.0 };
        let how = (draws[source], is_large[source], side);
        check_geometry(&format!("{name}, row {row}"), [before, &after], row, rows[source], how);
        let forgets = row != source || (draws[source] > 0 && !grows);
        let clock = if forgets { 0 } else { before.update_counts[rows[source]] };
        assert_eq!(after.update_counts[row], clock, "{name}: {row}");
        let moments = |state: &TrainState, i: usize| {
            let [m, v] = [&state.moments.m, &state.moments.v];
            [m, v].map(|part| {
                (
                    part.means[i],
                    part.log_scales[i],
                    part.quats[i],
                    part.opacity_logits[i],
                    part.sh_coefficients(i).to_vec(),
                )
            })
        };
        let zero = TrainState::new(Splats::zeros(before.splats.sh_degree, 1), Vec::new());
        let expected = if forgets { moments(&zero, 0) } else { moments(before, rows[source]) };
        assert_eq!(moments(&after, row), expected, "{name}: moments of {row}");
    }
    draws
}

#[test]
fn dead_splats_move_as_on_the_host() {
    let Some(gpu) = gpu("dead_splats_move_as_on_the_host") else { return };
    let mut engine = engine(&gpu, 0);
    for (case, n) in SIZES.into_iter().enumerate() {
        let mut before = state(n, (case % 4) as u8, 20 + case as u64);
        if n > 200 {
            before.splats.quats[5][0] = f32::NAN;
            before.splats.opacity_logits[n - 1] = f32::INFINITY;
        }
        for split_largest in [0.0, 0.5, 1.0] {
            let rule = McmcRule { growth: 1.0, split_largest, ..mcmc_rule() };
            check(&format!("{n} splats, {split_largest}"), &mut engine, &before, &rule);
        }
    }
    // There is no living splat to move to.
    let mut before = state(300, 0, 2);
    before.splats.opacity_logits.fill(-8.0);
    let rule = DensityRule::Mcmc(McmcRule { growth: 1.0, ..mcmc_rule() });
    let (found, report) = applied(&mut engine, &before, &[rule]);
    assert_eq!(report.relocated, 0);
    assert_equal_bits("nobody", &found, &before, &[]);
    // There is one, for all dead splats.
    before.splats.opacity_logits[77] = 2.0;
    let rule = McmcRule { growth: 1.0, ..mcmc_rule() };
    let draws = check("one", &mut engine, &before, &rule);
    assert_eq!((draws[77], draws.iter().sum::<u32>()), (299, 299));
}

#[test]
fn a_set_grows_as_on_the_host() {
    let Some(gpu) = gpu("a_set_grows_as_on_the_host") else { return };
    let mut engine = engine(&gpu, 0);
    for (case, n) in SIZES.into_iter().enumerate() {
        let mut before = state(n, (case % 4) as u8, 30 + case as u64);
        before.splats.opacity_logits.iter_mut().for_each(|v| *v = v.abs().min(3.0));
        let plain = mcmc_rule();
        let rules = [
            plain,
            McmcRule { growth: 1.5, split_largest: 0.0, ..plain },
            McmcRule { growth: 2.0, split_largest: 1.0, max_splats: n as u64 + n as u64 / 3, ..plain },
            McmcRule { growth: 3.7, split_largest: 0.3, ..plain },
            McmcRule { max_splats: n as u64 / 2, ..plain },
        ];
        for (number, rule) in rules.iter().enumerate() {
            check(&format!("{n} splats, rule {number}"), &mut engine, &before, rule);
        }
    }
}

/// Both at once equal one after the other, and the Morton order is that of the host.
#[test]
fn relocation_and_growth_together_are_one_after_the_other() {
    let Some(gpu) = gpu("relocation_and_growth_together_are_one_after_the_other") else { return };
    let mut engine = engine(&gpu, 0);
    let mut before = state(4000, 2, 9);
    before.splats.means[11][0] = f32::NAN;
    let of = |growth: f32, reorder: bool| DensityRule::Mcmc(McmcRule { growth, reorder, ..mcmc_rule() });
    let (mut expected, apart) = applied(&mut engine, &before, &[of(1.0, false), of(1.3, false)]);
    let (found, together) = applied(&mut engine, &before, &[of(1.3, false)]);
    assert_eq!(apart, together);
    assert!(together.relocated > 300 && together.added == 1200 && together.pruned == 1, "{together:?}");
    assert_equal_bits("together", &found, &expected, &[]);
    gausset_density::reorder(&mut expected, &Pool::new(1));
    let (found, _) = applied(&mut engine, &before, &[of(1.3, true)]);
    assert_equal_bits("sorted", &found, &expected, &[]);
}

#[test]
fn draws_are_as_likely_as_splats_are_opaque() {
    let Some(gpu) = gpu("draws_are_as_likely_as_splats_are_opaque") else { return };
    let mut engine = engine(&gpu, 0);
    let n = 100;
    let mut before = state(n, 0, 4);
    let opacity = |i: usize| 0.01 + 0.98 * i as f64 / n as f64;
    for i in 0..n {
        before.splats.opacity_logits[i] = logit(opacity(i) as f32);
    }
    let rule = McmcRule { growth: 150.0, ..mcmc_rule() };
    let (after, report) = applied(&mut engine, &before, &[DensityRule::Mcmc(rule)]);
    assert_eq!(report.added, 14_900);
    let place: BTreeMap<Vec<u32>, usize> =
        (0..n).map(|i| (bits(before.splats.sh_coefficients(i)), i)).collect();
    let mut draws = vec![0.0f64; n];
    (n..after.splats.len()).for_each(|row| draws[place[&bits(after.splats.sh_coefficients(row))]] += 1.0);
    let total: f64 = (0..n).map(opacity).sum();
    let expected = |i: usize| 14_900.0 * opacity(i) / total;
    let chi2: f64 = (0..n).map(|i| (draws[i] - expected(i)).powi(2) / expected(i)).sum();
    // 99 degrees of freedom: mean 99, standard deviation 14.
    assert!((40.0..160.0).contains(&chi2), "{chi2}");
}
