//! Clone, split, prune; opacity reset; the Morton order.

use gausset_core::engine::{ClassicRule, DensityRule, Engine};

use super::*;

/// Results equal the host's, except for random positions of halves, which are equal up to f32 rounding.
fn compare(name: &str, engine: &mut GpuEngine, before: &TrainState, rule: &ClassicRule) -> StepReport {
    let rule = DensityRule::Classic(*rule);
    let (found, report) = applied(engine, before, std::slice::from_ref(&rule));
    let (expected, expected_report) = on_host(before, &rule);
    assert_eq!(report, expected_report, "{name}");
    assert_equal_bits(name, &found, &expected, &["means"]);
    let mut different = 0;
    for (i, (a, b)) in found.splats.means.iter().zip(&expected.splats.means).enumerate() {
        let size = expected.splats.log_scales[i].iter().fold(0.0f32, |most, s| most.max(s.exp()));
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() <= 1e-6 * (1.0 + b.abs()) + 1e-5 * size, "{name}: mean {a} (expected {b})");
        }
        different += u64::from(a != b);
    }
    assert!(different <= 2 * report.split, "{name}: {different} means, {report:?}");
    report
}

#[test]
fn decisions_and_rows_are_those_of_the_host() {
    let Some(gpu) = gpu("decisions_and_rows_are_those_of_the_host") else { return };
    let mut engine = engine(&gpu, 0);
    let mut seen = StepReport::default();
    for (case, n) in SIZES.into_iter().enumerate() {
        let mut before = state(n, (case % 4) as u8, case as u64);
        if n > 200 {
            before.splats.means[3][1] = f32::NAN;
            before.splats.sh[n / 2] = f32::INFINITY;
            before.splats.opacity_logits[9] = f32::NEG_INFINITY;
            before.splats.log_scales[17][2] = f32::NAN;
            before.statistics.gradient_sum[21] = f32::NAN;
            before.statistics.gradient_sum[22] = f32::INFINITY;
            before.statistics.visible_steps[23] = 0;
        }
        let plain = classic_rule();
        let rules = [
            plain,
            ClassicRule { prune_scale: Some(0.1), ..plain },
            ClassicRule { prune_screen: Some(30.0), prune_scale: Some(0.08), ..plain },
            ClassicRule { max_splats: n as u64, ..plain },
            ClassicRule { max_splats: n as u64 + n as u64 / 8, prune_opacity: 0.0, ..plain },
            ClassicRule { max_splats: n as u64 / 2, ..plain },
            ClassicRule { gradient_threshold: 1e-3, prune_opacity: 0.9, ..plain },
            ClassicRule { prune_opacity: 1.0, ..plain },
        ];
        for (number, rule) in rules.iter().enumerate() {
            let report = compare(&format!("{n} splats, rule {number}"), &mut engine, &before, rule);
            seen.cloned += report.cloned;
            seen.split += report.split;
            seen.pruned += report.pruned;
        }
    }
    assert!(seen.cloned > 1000 && seen.split > 1000 && seen.pruned > 1000, "{seen:?}");
}

/// Mean statistics that are equal, nearly equal, and beyond the range in which f32 is evenly spaced.
#[test]
fn the_largest_mean_statistics_grow_first_and_the_first_of_equals() {
    let Some(gpu) = gpu("the_largest_mean_statistics_grow_first_and_the_first_of_equals") else { return };
    let mut engine = engine(&gpu, 0);
    let n = 3000;
    let mut before = state(n, 0, 5);
    before.splats.opacity_logits.fill(1.0);
    for i in 0..n {
        let words = philox(8, stream::TEST, 0, i as u32);
        let steps = 1 + words[0] % 37;
        before.statistics.visible_steps[i] = steps;
        before.statistics.gradient_sum[i] = match i % 4 {
            0 => 0.25 * steps as f32,
            1 => f32::from_bits((0.25f32 * steps as f32).to_bits() + words[1] % 5),
            2 => uniform(words[1]),
            _ => f32::from_bits(words[1] % 0x0100_0000),
        };
    }
    for (threshold, room) in [(1e-3, 1), (1e-3, 700), (1e-3, 1200), (0.0, 2200), (0.0, 2600)] {
        let rule =
            ClassicRule { gradient_threshold: threshold, max_splats: n as u64 + room, ..classic_rule() };
        let report = compare(&format!("room {room}"), &mut engine, &before, &rule);
        assert_eq!(report.cloned + report.split, room);
    }
}

#[test]
fn halves_have_the_moments_of_the_splat_they_are_drawn_from() {
    let Some(gpu) = gpu("halves_have_the_moments_of_the_splat_they_are_drawn_from") else { return };
    let mut engine = engine(&gpu, 0);
    let n = 4000;
    let mut before = state(n, 0, 6);
    let scales = [0.5f32, 0.2, 0.1];
    for i in 0..n {
        before.splats.means[i] = [1.0, -2.0, 3.0];
        before.splats.log_scales[i] = scales.map(f32::ln);
        // A rotation by 90 degrees about z: x maps to y.
        before.splats.quats[i] = [2.0, 0.0, 0.0, 2.0];
    }
    before.splats.opacity_logits.fill(1.0);
    before.statistics.gradient_sum.fill(1.0);
    before.statistics.visible_steps.fill(10);
    let (found, report) = applied(&mut engine, &before, &[DensityRule::Classic(classic_rule())]);
    assert_eq!(report.split, n as u64);
    let spread = [0.2f64, 0.5, 0.1];
    for axis in 0..3 {
        let centre = f64::from(before.splats.means[0][axis]);
        let offsets = found.splats.means.iter().map(|mean| (f64::from(mean[axis]) - centre) / spread[axis]);
        let (sum, squares) = offsets.fold((0.0, 0.0), |(sum, squares), d| (sum + d, squares + d * d));
        let count = found.splats.len() as f64;
        // Five standard errors.
        assert!((sum / count).abs() < 5.0 / count.sqrt(), "axis {axis}: {}", sum / count);
        assert!(
            (squares / count - 1.0).abs() < 5.0 * (2.0 / count).sqrt(),
            "axis {axis}: {}",
            squares / count
        );
    }
}

#[test]
fn opacities_are_reset_as_on_the_host() {
    let Some(gpu) = gpu("opacities_are_reset_as_on_the_host") else { return };
    let mut engine = engine(&gpu, 0);
    for n in [0, 1, 257] {
        let mut before = state(n, 1, 3);
        if n > 2 {
            before.splats.opacity_logits[1] = f32::NAN;
            before.splats.opacity_logits[2] = f32::INFINITY;
        }
        let rule = DensityRule::ResetOpacity { max_opacity: 0.01 };
        let (found, _) = applied(&mut engine, &before, std::slice::from_ref(&rule));
        assert_equal_bits("reset", &found, &on_host(&before, &rule).0, &[]);
    }
}

/// Means on the edges of cells and next to them, of sizes whose difference f32 can hardly represent, and in a plane.
#[test]
fn the_morton_order_is_that_of_the_host() {
    let Some(gpu) = gpu("the_morton_order_is_that_of_the_host") else { return };
    let mut engine = engine(&gpu, 0);
    let n = 5000;
    for kind in 0..7u32 {
        let mut before = state(n, 1, 40 + u64::from(kind));
        for i in 0..n {
            let words = philox(u64::from(kind), stream::TEST, 2, i as u32);
            let mean = &mut before.splats.means[i];
            match kind {
                0 => {}
                // Edges of cells of [-3, 7], up to two steps of f32 off.
                1 => {
                    *mean = std::array::from_fn(|k| {
                        let edge = -3.0 + 10.0 * (words[k] % 1025) as f32 / 1024.0;
                        f32::from_bits(edge.to_bits().wrapping_add(words[3] >> (2 * k) & 3))
                    });
                }
                // Arbitrary bits.
                2 => {
                    *mean = std::array::from_fn(|k| f32::from_bits(words[k]));
                    if !mean.iter().all(|v| v.is_finite()) {
                        *mean = [0.0, -0.0, 1e-40];
                    }
                }
                3 => *mean = [mean[0], 2.5, 1e-42 * mean[2]],
                4 => *mean = mean.map(|v| 1e30 * v * v * v),
                5 => *mean = mean.map(|v| 1000.0 + 1e-4 * v),
                // Cells of [-1, 1023] have size 1: relative to the coordinates so little that rounding to 53 bits
                // decides.
                _ => {
                    let beside = |word: u32| {
                        (1.0 + (word >> 8 & 3) as f32 / 4.0) * 2f32.powi(-20 - (word % 45) as i32)
                    };
                    *mean = std::array::from_fn(|k| {
                        beside(words[k]) * if words[3] >> k & 1 == 1 { -1.0 } else { 1.0 }
                    });
                    if i < 2 {
                        *mean = [[-1.0; 3], [1023.0; 3]][i];
                        before.splats.opacity_logits[i] = 3.0;
                    }
                }
            }
        }
        let unsorted = ClassicRule {
            prune_opacity: 0.2,
            gradient_threshold: if kind == 6 { 1e9 } else { 2e-4 },
            ..classic_rule()
        };
        let rule = |reorder: bool| [DensityRule::Classic(ClassicRule { reorder, ..unsorted })];
        let (mut expected, _) = applied(&mut engine, &before, &rule(false));
        let (found, _) = applied(&mut engine, &before, &rule(true));
        gausset_density::reorder(&mut expected, &Pool::new(1));
        assert!(expected.splats.len() > n / 2);
        assert_equal_bits(&format!("kind {kind}"), &found, &expected, &[]);
    }
    engine.load(state(0, 1, 1)).expect("a state");
    engine.densify(&DensityRule::Classic(ClassicRule { reorder: true, ..classic_rule() })).expect("a rule");
    assert_eq!(engine.flush().expect("flushed").splats, 0);
}
