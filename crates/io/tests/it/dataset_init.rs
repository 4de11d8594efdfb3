//! Initial splats: the fixture of neighbour distances, hostile points, random starts.

use gausset_core::{Pose, se3};
use gausset_io::dataset::init::{
    InitOptions, InitialCube, common_cube, from_points, mean_squared_neighbour_distances, random_splats,
};
use gausset_testkit::{CaseKind, Fixtures, Precision, Tensor, compare};
use proptest::prelude::*;

fn points_of(tensor: &Tensor) -> Vec<[f64; 3]> {
    tensor.values.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect()
}

#[test]
fn neighbour_distances_match_the_fixture() {
    let fixtures = Fixtures::load();
    let mut cases = 0;
    for case in fixtures.with_kind(CaseKind::Knn) {
        let points = points_of(case.tensor("in.points"));
        let squared = mean_squared_neighbour_distances(&points);
        let found = Tensor::new(&[points.len()], &squared);
        let result = compare(case, "out.mean_sq_dist", &found, Precision::F64);
        assert!(result.passed, "{result}");
        let log_scales: Vec<[f64; 3]> = squared.iter().map(|&s| [libm::log(s.max(1e-7).sqrt()); 3]).collect();
        let result = compare(case, "out.log_scales", &Tensor::rows(&log_scales), Precision::F64);
        assert!(result.passed, "{result}");

        // The splats have these scales, except for isolated points.
        let splats = from_points(&points, None, &InitOptions::CLASSIC).splats;
        let mut sorted = squared.clone();
        sorted.sort_by(f64::total_cmp);
        let median = 0.5 * (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]);
        for i in 0..points.len() {
            let is_far = squared[i] > 1e4 * median;
            let expected = libm::log((if is_far { median } else { squared[i] }).max(1e-7).sqrt());
            let found = splats.log_scales[i];
            assert!(found.iter().all(|&s| (f64::from(s) - expected).abs() < 1e-6 * expected.abs().max(1.0)));
        }
        cases += 1;
    }
    assert!(cases > 0, "the fixtures have a case of neighbours");
}

#[test]
fn colours_opacity_and_scale_factor_become_raw_parameters() {
    let points = [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]];
    let colours = [[0.5f32, 0.0, 1.0]; 4];
    let classic = from_points(&points, Some(&colours), &InitOptions::CLASSIC).splats;
    classic.validate().unwrap();
    assert_eq!((classic.sh_degree, classic.len()), (3, 4));
    // (colour - 1/2) / 0.28209479177387814
    let sh = classic.sh_coefficients(0);
    assert_eq!((sh[0], sh[1], sh[2]), (0.0, -1.772_453_9, 1.772_453_9));
    assert!(sh[3..].iter().all(|&v| v == 0.0));
    // ln(0.1 / 0.9), and the mean of 1, 4 and 9.
    assert!((classic.opacity_logits[0] + 2.197_224_6).abs() < 1e-6);
    assert!((classic.log_scales[0][0] - 0.5 * (14.0f32 / 3.0).ln()).abs() < 1e-6);
    let mcmc = from_points(&points, None, &InitOptions::MCMC).splats;
    assert!(mcmc.opacity_logits[0].abs() < 1e-6);
    assert!((classic.log_scales[1][2] - mcmc.log_scales[1][2] - 10.0f32.ln()).abs() < 1e-6);
    assert!(mcmc.sh_coefficients(0)[0] == 0.0 && mcmc.quats[3] == [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn points_that_are_no_places_are_dropped_and_counted() {
    let points = [[0.0; 3], [f64::NAN, 0.0, 0.0], [1.0; 3], [1e300, 0.0, 0.0], [2.0; 3]];
    let start = from_points(&points, None, &InitOptions::CLASSIC);
    assert_eq!(start.splats.means, [[0.0f32; 3], [1.0; 3], [2.0; 3]]);
    assert_eq!(start.note, "3 splats from points (2 dropped as not finite)");
    assert!((0..3).all(|i| start.splats.is_valid(i)));
}

#[test]
fn few_and_coincident_points_give_usable_splats() {
    for count in 0..6usize {
        let same = vec![[1.0, 2.0, 3.0]; count];
        let splats = from_points(&same, None, &InitOptions::CLASSIC).splats;
        assert_eq!(splats.len(), count);
        // ln sqrt(1e-7)
        assert!(splats.log_scales.iter().all(|s| (s[0] + 8.059_048).abs() < 1e-5));
    }
    assert_eq!(mean_squared_neighbour_distances(&[[0.0; 3], [3.0, 4.0, 0.0]]), [25.0, 25.0]);
}

#[test]
fn many_points_in_one_place_or_plane_do_not_hurt() {
    // Trees that split along an axis degenerate if all coordinates are equal.
    let place = vec![[0.25; 3]; 20_000];
    assert!(mean_squared_neighbour_distances(&place).iter().all(|&d| d == 0.0));
    let plane: Vec<[f64; 3]> = (0..20_000).map(|i| [f64::from(i % 100), f64::from(i / 100), 7.0]).collect();
    let inner = mean_squared_neighbour_distances(&plane)[50 * 100 + 50];
    assert_eq!(inner, 1.0);
    let line: Vec<[f64; 3]> = (0..5_000).map(|i| [0.0, f64::from(i), 0.0]).collect();
    assert_eq!(mean_squared_neighbour_distances(&line)[2_000], (1.0 + 1.0 + 4.0) / 3.0);
}

#[test]
fn lonely_points_keep_the_median_scale() {
    let mut points: Vec<[f64; 3]> =
        (0..100).map(|i| [f64::from(i % 10), f64::from(i / 10), f64::from(i % 3)]).collect();
    points.push([1e6, 0.0, 0.0]);
    let start = from_points(&points, None, &InitOptions::CLASSIC);
    assert!(start.splats.log_scales[100][0] < 1.0, "{:?}", start.splats.log_scales[100]);
    assert_eq!(start.note, "101 splats from points (1 isolated, at the median scale)");
}

#[test]
fn more_points_than_wanted_are_thinned_evenly() {
    let points: Vec<[f64; 3]> = (0..100).map(|i| [f64::from(i), 0.0, 0.0]).collect();
    let start = from_points(&points, None, &InitOptions { max_splats: 10, ..InitOptions::CLASSIC });
    let kept: Vec<f32> = start.splats.means.iter().map(|m| m[0]).collect();
    assert_eq!(kept, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]);
    assert_eq!(start.note, "10 splats from points (thinned from 100)");
}

#[test]
fn random_splats_fill_their_cube_and_depend_on_the_seed_only() {
    let cube = InitialCube { centre: [1.0, -2.0, 3.0], half_side: 0.5 };
    let options = InitOptions { random_count: 4_000, seed: 7, ..InitOptions::CLASSIC };
    let start = random_splats(&cube, &options);
    assert_eq!(start, random_splats(&cube, &options));
    assert_ne!(start.splats, random_splats(&cube, &InitOptions { seed: 8, ..options }).splats);
    for axis in 0..3 {
        let mut values: Vec<f64> =
            start.splats.means.iter().map(|m| f64::from(m[axis]) - cube.centre[axis]).collect();
        assert!(values.iter().all(|v| v.abs() <= 0.5));
        values.sort_by(f64::total_cmp);
        // Five standard errors of the quartiles of 4000 uniform numbers: 5 sqrt(3/16 / 4000).
        assert!((values[1_000] + 0.25).abs() < 0.035 && (values[3_000] - 0.25).abs() < 0.035);
    }
    assert_eq!(start.note, "4000 random splats in the cube that the cameras look at");
    // A prefix of the same numbers: the count does not change the draws.
    let fewer = random_splats(&cube, &InitOptions { random_count: 100, ..options });
    assert_eq!(fewer.splats.means[..], start.splats.means[..100]);
}

/// A camera at `centre` that looks at `target`.
fn looking_at(centre: [f64; 3], target: [f64; 3]) -> Pose {
    let forward: [f64; 3] = std::array::from_fn(|k| target[k] - centre[k]);
    let z = forward.map(|v| v / se3::norm(forward));
    let right = se3::cross(z, [0.0, 1.0, 0.001]);
    let x = right.map(|v| v / se3::norm(right));
    let rotation = [x, se3::cross(z, x), z];
    let back = se3::mul_vec(&rotation, centre);
    Pose { rotation, translation: back.map(|v| -v) }
}

#[test]
fn cameras_around_an_object_find_its_place() {
    let target = [2.0, -1.0, 5.0];
    let poses: Vec<Pose> = (0..12)
        .map(|i| {
            let angle = 0.5 * f64::from(i);
            looking_at([2.0 + 3.0 * libm::cos(angle), -1.5, 5.0 + 3.0 * libm::sin(angle)], target)
        })
        .collect();
    let cube = common_cube(&poses, 9.0);
    let off: f64 = (0..3).map(|k| (cube.centre[k] - target[k]).abs()).sum();
    assert!(off < 1e-9 && (cube.half_side - 9.25f64.sqrt()).abs() < 1e-9, "{cube:?}");
}

#[test]
fn parallel_axes_and_a_single_place_give_a_cube_in_front() {
    let side_by_side: Vec<Pose> =
        (0..4).map(|i| Pose { translation: [f64::from(i), 0.0, 0.0], ..Pose::IDENTITY }).collect();
    let cube = common_cube(&side_by_side, 2.0);
    assert_eq!(cube, InitialCube { centre: [-1.5, 0.0, 2.0], half_side: 2.0 });
    let turning: Vec<Pose> = (0..4)
        .map(|i| looking_at([0.0; 3], [libm::cos(f64::from(i)), 0.0, libm::sin(f64::from(i))]))
        .collect();
    assert_eq!(common_cube(&turning, 2.0).half_side, 2.0);
    assert_eq!(common_cube(&[], 2.0).half_side, 2.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_agrees_with_comparing_all_pairs(
        points in proptest::collection::vec(proptest::array::uniform3(prop_oneof![-2.0f64..2.0, (-2i32..3).prop_map(f64::from)]), 1..60),
    ) {
        let found = mean_squared_neighbour_distances(&points);
        for (i, p) in points.iter().enumerate() {
            let mut all: Vec<f64> = points
                .iter()
                .enumerate()
                .filter(|(j, _)| *j != i)
                .map(|(_, q)| (0..3).map(|k| (q[k] - p[k]).powi(2)).sum())
                .collect();
            all.sort_by(f64::total_cmp);
            all.truncate(3);
            let expected = if all.is_empty() { 0.0 } else { all.iter().sum::<f64>() / all.len() as f64 };
            prop_assert!((found[i] - expected).abs() <= 1e-12 * (1.0 + expected));
        }
    }

    #[test]
    fn no_points_make_a_splat_that_cannot_be_used(
        points in proptest::collection::vec(proptest::array::uniform3(proptest::num::f64::ANY), 0..30),
        colours in proptest::collection::vec(proptest::array::uniform3(0.0f32..1.0), 30),
    ) {
        let splats = from_points(&points, Some(&colours), &InitOptions::MCMC).splats;
        prop_assert!(splats.validate().is_ok());
        prop_assert!((0..splats.len()).all(|i| splats.is_valid(i)));
    }
}
