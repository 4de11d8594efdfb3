//! The error bound of evaluation with a cut-off holds.

use gausset_compute::{SimdLevel, rng};
use gausset_field::{
    AcceleratedEvaluator, Compute, CovarianceKind, Cutoff, Evaluator, GaussianField, SortedPoints, WeightMode,
};
use proptest::prelude::*;

fn field(n: u32, sigma: f32, aniso: f32) -> GaussianField<f32> {
    let u = |step, i| rng::philox(5, rng::stream::TEST, step, i).map(rng::uniform);
    let chol = |i| {
        let (a, b) = (u(2, i), u(3, i));
        let log = |x: f32| (sigma).ln() + aniso * (x - 0.5);
        let off = |x: f32| aniso * sigma * (x - 0.5);
        [log(a[0]), off(b[0]), log(a[1]), off(b[1]), off(b[2]), log(a[2])]
    };
    GaussianField::new(
        (0..n).map(|i| u(1, i)).map(|v| [v[0], v[1], v[2]]).collect(),
        (0..n).map(chol).collect(),
        (0..n).map(|i| 2.0 * u(1, i)[3] - 1.0).collect(),
        WeightMode::Raw,
        CovarianceKind::Full,
    )
    .unwrap()
}

fn points(b: u32) -> Vec<[f32; 3]> {
    let u = |i| rng::philox(6, rng::stream::TEST, 0, i).map(|w| 1.4 * rng::uniform(w) - 0.2);
    (0..b).map(u).map(|v| [v[0], v[1], v[2]]).collect()
}

#[test]
fn no_value_misses_more_than_the_bound_and_the_certificate_says_so() {
    let points = points(3000);
    for (n, sigma, aniso) in [(3000, 0.03, 0.0), (3000, 0.05, 1.2), (200, 0.5, 0.5), (1, 0.1, 0.0)] {
        let field = field(n, sigma, aniso);
        let exact: GaussianField<f64> = field.cast();
        let wide: Vec<[f64; 3]> = points.iter().map(|x| x.map(f64::from)).collect();
        let compute = Compute::new(2, SimdLevel::Auto).unwrap();
        let truth = Evaluator::new(&compute, &exact).unwrap().values(&wide).unwrap();
        let largest = truth.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
        let set = SortedPoints::new(&points).unwrap();
        for cutoff in
            [0.0, 1e-6, 1e-4, 1e-2].map(Cutoff::Absolute).into_iter().chain([Cutoff::Relative(1e-3)])
        {
            let (values, report) = evaluator.values(&set, cutoff).unwrap();
            let bound = report.bound.unwrap();
            let allowed = match cutoff {
                Cutoff::Absolute(error) => error,
                Cutoff::Relative(share) => share * largest,
            };
            assert!(bound <= allowed, "certificate {bound:e} for {cutoff:?}");
            let worst = values.iter().zip(&truth).fold(0.0f64, |m, (f, t)| m.max((f64::from(*f) - t).abs()));
            // f32 rounding: a few units in the last place of the largest value.
            assert!(
                worst <= bound + 2e-6 * largest.max(1.0),
                "{n} {sigma} {cutoff:?}: {worst:e} > {bound:e}"
            );
        }
    }
}

#[test]
fn pairs_that_do_not_matter_are_not_computed() {
    let (field, points) = (field(20_000, 0.01, 0.0), points(10_000));
    let compute = Compute::new(1, SimdLevel::Auto).unwrap();
    let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
    let set = SortedPoints::new(&points).unwrap();
    let (_, report) = evaluator.values(&set, Cutoff::Absolute(1e-6)).unwrap();
    // A ball of six standard deviations is 0.1 % of the box; leaves of 32 of 10,000 points are much larger.
    assert!(report.pairs < 20_000 * 10_000 / 40, "{} pairs", report.pairs);
}

#[test]
fn bytes_do_not_depend_on_threads_or_vector_level() {
    let (field, points) = (field(3000, 0.05, 0.6), points(2000));
    let mut first = None;
    for level in SimdLevel::ALL {
        for threads in [1, 3] {
            let Some(compute) = Compute::new(threads, level) else { continue };
            let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
            let set = SortedPoints::new(&points).unwrap();
            let (found, _) = evaluator.gradients(&set, Cutoff::Absolute(1e-4)).unwrap();
            match &first {
                None => first = Some(found),
                Some(first) => assert!(first == &found, "{} {threads}", level.level_name()),
            }
        }
    }
}

#[test]
fn a_cutoff_that_is_no_amount_is_refused() {
    let (field, points) = (field(3, 0.1, 0.0), points(3));
    let compute = Compute::new(1, SimdLevel::Auto).unwrap();
    let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
    let set = SortedPoints::new(&points).unwrap();
    for bad in [f64::NAN, -1.0, f64::INFINITY] {
        assert!(evaluator.values(&set, Cutoff::Absolute(bad)).is_err());
    }
}

#[test]
fn an_f64_field_far_from_the_origin_keeps_its_promise() {
    // Between 1e6 and 1e6 + 1 f32 has 16 numbers. The mean lies next to the middle of two of them; the point is 2.5
    // standard deviations away, and would be five away if the mean were rounded to the next f32.
    let sigma = 0.0125f64;
    let log = sigma.ln();
    let mean = [1e6 + 0.0938, 0.0, 0.0];
    let field = GaussianField::<f64>::new(
        vec![mean],
        vec![[log, 0.0, log, 0.0, 0.0, log]],
        vec![1.0],
        WeightMode::Raw,
        CovarianceKind::Full,
    )
    .unwrap();
    let points = vec![[1e6 + 0.0624, 0.0, 0.0]; 40];
    let compute = Compute::new(1, SimdLevel::Auto).unwrap();
    let exact = (-0.5 * ((points[0][0] - mean[0]) / sigma).powi(2)).exp();
    assert!(exact > 0.04, "{exact}");
    let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
    let (values, report) =
        evaluator.values(&SortedPoints::new(&points).unwrap(), Cutoff::Absolute(1e-2)).unwrap();
    let error = values.iter().fold(0.0f64, |worst, v| worst.max((v - exact).abs()));
    let bound = report.bound.unwrap();
    assert!(error <= bound + 1e-12 && bound <= 1e-2, "error {error:e}, certificate {bound:e}");
}

#[test]
fn an_f64_field_far_from_the_origin_still_leaves_pairs_out() {
    let moved = |x: [f32; 3]| x.map(|v| 1e6 + 1e3 * f64::from(v));
    let mut field: GaussianField<f64> = field(20_000, 0.01, 0.0).cast();
    for (mean, chol) in field.means.iter_mut().zip(&mut field.chol) {
        *mean = mean.map(|v| 1e6 + 1e3 * v);
        for k in [0, 2, 5] {
            chol[k] += 1e3f64.ln();
        }
    }
    let points: Vec<[f64; 3]> = points(10_000).into_iter().map(moved).collect();
    let compute = Compute::new(1, SimdLevel::Auto).unwrap();
    let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
    let (_, report) = evaluator.values(&SortedPoints::new(&points).unwrap(), Cutoff::Absolute(1e-6)).unwrap();
    // As near the origin, in `pairs_that_do_not_matter_are_not_computed`.
    assert!(report.pairs < 20_000 * 10_000 / 40, "{} pairs", report.pairs);
}

/// Values of f64 fields: positions that f32 rounds by a hundredth to 10⁴ widths of the field, lengths and weights
/// beyond the smallest and largest f32.
fn hostile() -> impl Strategy<Value = (GaussianField<f64>, Vec<[f64; 3]>, f64)> {
    let unit = || -1.0..1.0f64;
    let gaussian = (
        [unit(), unit(), unit()],
        [-2.5..0.3f64, unit(), -2.5..0.3f64, unit(), unit(), -2.5..0.3f64],
        unit(),
    );
    let unit_scale = prop_oneof![4 => Just(1.0), 1 => Just(1e-50), 1 => Just(1e-20), 1 => Just(1e25)];
    let weight_scale = prop_oneof![4 => Just(1.0), 1 => Just(1e-60), 1 => Just(1e60)];
    (
        prop::collection::vec(gaussian, 1..40),
        prop::collection::vec([unit(), unit(), unit()], 1..120),
        [-4.0..4.0f64, -4.0..4.0f64, -4.0..4.0f64],
        -2.0..4.0f64,
        (unit_scale, weight_scale, -6.0..0.0f64),
    )
        .prop_map(|(gaussians, points, offset, ulps, (scale, weight, error))| {
            let offset = offset.map(|e| scale * e.signum() * 10f64.powf(e.abs()));
            let width = 10f64.powf(ulps) * offset.iter().fold(0.0f64, |m, v| m.max(v.abs())) * 2f64.powi(-24);
            let place = |x: [f64; 3]| [0, 1, 2].map(|k| offset[k] + width * x[k]);
            let log = |e: f64| (width * 10f64.powf(e)).ln();
            let field = GaussianField::new(
                gaussians.iter().map(|(mean, _, _)| place(*mean)).collect(),
                gaussians
                    .iter()
                    .map(|(_, l, _)| {
                        let off = |v: f64, e: f64| 0.5 * v * width * 10f64.powf(e);
                        [log(l[0]), off(l[1], l[0]), log(l[2]), off(l[3], l[0]), off(l[4], l[2]), log(l[5])]
                    })
                    .collect(),
                gaussians.iter().map(|(_, _, w)| weight * w).collect(),
                WeightMode::Raw,
                CovarianceKind::Full,
            )
            .unwrap();
            (field, points.into_iter().map(place).collect(), weight * 10f64.powf(error))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_certificate_of_an_f64_field_is_never_below_its_error((field, points, asked) in hostile()) {
        let compute = Compute::new(1, SimdLevel::Auto).unwrap();
        let exact = Evaluator::new(&compute, &field).unwrap().values(&points).unwrap();
        let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
        let set = SortedPoints::new(&points).unwrap();
        let largest = exact.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        // Both add the same terms, in another order.
        let rounding = 1e-14 * field.weights.iter().map(|w| w.abs()).sum::<f64>();
        for (cutoff, allowed) in [
            (Cutoff::Absolute(0.0), 0.0),
            (Cutoff::Absolute(asked), asked),
            (Cutoff::Relative(1e-2), 1e-2 * largest),
        ] {
            let (values, report) = evaluator.values(&set, cutoff).unwrap();
            let bound = report.bound.unwrap();
            prop_assert!(bound <= allowed, "{cutoff:?}: certificate {bound:e}");
            for (found, exact) in values.iter().zip(&exact) {
                let error = (found - exact).abs();
                prop_assert!(error <= bound + rounding, "{cutoff:?}: {error:e}, certificate {bound:e}");
            }
        }
    }
}
