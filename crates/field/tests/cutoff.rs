//! Evaluation with a cut-off keeps its promise.

use gausset_compute::{VectorLevel, rng};
use gausset_field::{
    AcceleratedEvaluator, Compute, Covariance, Cutoff, Evaluator, GaussianField, PointSet, WeightMode,
};

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
        Covariance::Full,
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
        let compute = Compute::new(2, VectorLevel::Auto).unwrap();
        let truth = Evaluator::new(&compute, &exact).unwrap().values(&wide).unwrap();
        let largest = truth.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
        let set = PointSet::new(&points).unwrap();
        for cutoff in
            [0.0, 1e-6, 1e-4, 1e-2].map(Cutoff::Absolute).into_iter().chain([Cutoff::Relative(1e-3)])
        {
            let (values, report) = evaluator.values(&set, cutoff).unwrap();
            let bound = report.bound.unwrap();
            let allowed = match cutoff {
                Cutoff::Absolute(error) => error,
                Cutoff::Relative(share) => share * largest,
                Cutoff::Radius(_) => unreachable!(),
            };
            assert!(bound <= allowed, "certificate {bound:e} for {cutoff:?}");
            let worst = values.iter().zip(&truth).fold(0.0f64, |m, (f, t)| m.max((f64::from(*f) - t).abs()));
            // f32 rounding: a few units of the largest value.
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
    let compute = Compute::new(1, VectorLevel::Auto).unwrap();
    let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
    let set = PointSet::new(&points).unwrap();
    let (_, report) = evaluator.values(&set, Cutoff::Absolute(1e-6)).unwrap();
    // A ball of six standard deviations is 0.1 % of the box; leaves of 32 of 10,000 points are much larger.
    assert!(report.pairs < 20_000 * 10_000 / 40, "{} pairs", report.pairs);
}

#[test]
fn bytes_do_not_depend_on_threads_or_vector_level() {
    let (field, points) = (field(3000, 0.05, 0.6), points(2000));
    let mut first = None;
    for level in VectorLevel::ALL {
        for threads in [1, 3] {
            let Some(compute) = Compute::new(threads, level) else { continue };
            let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
            let set = PointSet::new(&points).unwrap();
            let (found, _) = evaluator.gradients(&set, Cutoff::Absolute(1e-4)).unwrap();
            match &first {
                None => first = Some(found),
                Some(first) => assert!(first == &found, "{} {threads}", level.name()),
            }
        }
    }
}

#[test]
fn a_cutoff_that_is_no_amount_is_refused() {
    let (field, points) = (field(3, 0.1, 0.0), points(3));
    let compute = Compute::new(1, VectorLevel::Auto).unwrap();
    let evaluator = AcceleratedEvaluator::new(&compute, &field).unwrap();
    let set = PointSet::new(&points).unwrap();
    for bad in [f64::NAN, -1.0, f64::INFINITY] {
        assert!(evaluator.values(&set, Cutoff::Absolute(bad)).is_err());
    }
}
