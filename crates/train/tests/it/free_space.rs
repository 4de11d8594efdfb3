//! Free space: views between neighbours, bubbles that contain no reliable points, nothing without points.

use std::sync::atomic::AtomicBool;

use crate::common::{cpu, open, options};
use gausset_core::Splats;
use gausset_core::engine::{Bubble, Engine};
use gausset_core::se3;
use gausset_core::splats_transform::Similarity;
use gausset_io::dataset::{Dataset, Tracks};
use gausset_train::free_space::{FreeSpaceViews, bubbles};
use gausset_train::view_pairs::{interpolate_pose, neighbour_pairs, visible_points};
use gausset_train::{TrainConfig, floaters};
use proptest::prelude::*;

/// A flag that is never set.
static NEVER: AtomicBool = AtomicBool::new(false);

fn dataset() -> Dataset {
    let config = TrainConfig::resolve(&options(10), None).unwrap();
    Dataset::clone(&open(&config))
}

fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    se3::norm(std::array::from_fn(|k| a[k] - b[k]))
}

#[test]
fn a_pose_between_two_goes_from_one_to_the_other() {
    let data = dataset();
    let [a, b] = [data.images[1].pose, data.images[2].pose];
    for (share, end) in [(0.0, a), (1.0, b)] {
        let pose = interpolate_pose(&a, &b, share, [0.0; 3]);
        assert!(distance(pose.centre(), end.centre()) < 1e-12);
        let off = (0..9).map(|i| (pose.rotation[i / 3][i % 3] - end.rotation[i / 3][i % 3]).abs());
        assert!(off.fold(0.0, f64::max) < 1e-12);
    }
    let middle = interpolate_pose(&a, &b, 0.5, [0.0, 0.0, 0.1]);
    let expected: [f64; 3] = std::array::from_fn(|k| 0.5 * (a.centre()[k] + b.centre()[k]));
    assert!((distance(middle.centre(), expected) - 0.1).abs() < 1e-12);
    assert!(se3::orthonormality_error(&middle.rotation) < 1e-12);
}

#[test]
fn neighbours_are_training_pictures_that_see_the_same_points() {
    let data = dataset();
    let visible = visible_points(&data, data.read_tracks(u64::MAX).unwrap(), &NEVER);
    let pairs = neighbour_pairs(&data, &visible, &NEVER);
    assert!(!pairs.is_empty());
    for pair in &pairs {
        assert!(pair.images.iter().all(|image| data.split.train.contains(image)), "{:?}", pair.images);
        for point in &pair.common_points {
            assert!(pair.images.iter().all(|&image| visible.points_of(image).contains(point)));
        }
    }
    // Without tracks, points that are not occluded are used instead.
    let seen = visible_points(&data, Tracks::empty(data.images.len()), &NEVER);
    assert!(!seen.is_empty());
    for &image in &data.split.test {
        assert!(seen.points_of(image).is_empty(), "held-out images are not used");
    }
}

#[test]
fn a_large_set_without_tracks_is_thinned_to_points_that_images_share() {
    let mut data = dataset();
    let (images, points) = (data.images.clone(), data.points.clone());
    data.images = images.iter().cycle().take(80).cloned().collect();
    data.split.train = (0..80).collect();
    data.points = points.iter().cycle().take(100_000).copied().collect();
    let visible = visible_points(&data, Tracks::empty(80), &NEVER);
    assert!((1_000_000..=4_000_000).contains(&visible.len()), "{}", visible.len());
    assert!((0..80).all(|image| visible.points_of(image).len() <= 50_000));
    // The same image twice: all is shared.
    let pairs = neighbour_pairs(&data, &visible, &NEVER);
    let twins = pairs.iter().find(|pair| pair.images == [0, images.len()]).unwrap();
    assert_eq!(twins.common_points, visible.points_of(0));
    let stopped = AtomicBool::new(true);
    assert!(visible_points(&data, Tracks::empty(80), &stopped).is_empty());
    assert!(neighbour_pairs(&data, &visible, &stopped).is_empty());
}

#[test]
fn views_are_a_function_of_seed_and_step_and_see_their_points() {
    let data = dataset();
    let views = FreeSpaceViews::new(&data, data.read_tracks(u64::MAX).unwrap(), &NEVER).unwrap();
    let rule = views.rule(5, 100);
    assert_eq!(rule, views.rule(5, 100));
    assert!(rule.views != views.rule(5, 200).views && rule.views != views.rule(6, 100).views);
    let (mut inside, mut all) = (0, 0);
    for view in &*rule.views {
        for point in &view.points {
            let local = view.pose.apply(point.map(f64::from));
            let [u, v] = view.camera.project(local);
            let (width, height) = (f64::from(view.camera.width), f64::from(view.camera.height));
            all += 1;
            inside += usize::from(local[2] > 0.0 && (0.0..width).contains(&u) && (0.0..height).contains(&v));
        }
    }
    assert!(all > 100 && inside * 10 > all * 7, "{inside} of {all}");
}

#[test]
fn no_point_lies_in_a_bubble_but_for_the_two_that_may_be_wrong() {
    let data = dataset();
    let rule = FreeSpaceViews::new(&data, data.read_tracks(u64::MAX).unwrap(), &NEVER).unwrap().rule(0, 0);
    assert!(rule.bubbles.len() >= data.split.train.len());
    assert_eq!(rule.cameras.len(), data.split.train.len());
    for bubble in &*rule.bubbles {
        let centre = bubble.centre.map(f64::from);
        let within = data.points.iter().filter(|p| distance(p.position, centre) < f64::from(bubble.radius));
        assert!(bubble.radius > 0.0 && within.count() <= 2);
    }
}

#[test]
fn without_points_nothing_is_known() {
    let mut data = dataset();
    data.points.clear();
    assert!(FreeSpaceViews::new(&data, Tracks::empty(data.images.len()), &NEVER).is_none());
}

#[test]
fn the_view_of_a_strip_has_pixels() {
    let mut data = dataset();
    data.images.iter_mut().for_each(|image| (image.camera.width, image.camera.height) = (2000, 6));
    let views = FreeSpaceViews::new(&data, data.read_tracks(u64::MAX).unwrap(), &NEVER).unwrap();
    assert!(views.rule(0, 0).views.iter().all(|view| (view.camera.width, view.camera.height) == (333, 1)));
}

#[test]
fn what_hangs_where_cameras_were_is_found_however_the_splats_were_turned_and_scaled() {
    let data = dataset();
    let space = FreeSpaceViews::new(&data, data.read_tracks(u64::MAX).unwrap(), &NEVER).unwrap();
    let places: Vec<[f32; 3]> = space.rule(0, 0).bubbles.iter().map(|bubble| bubble.centre).collect();
    let points = data.points.iter().map(|point| point.position.map(|v| v as f32));
    let means: Vec<[f32; 3]> = points.chain(places.iter().copied()).collect();
    let count = means.len();
    let mut splats = Splats {
        means,
        log_scales: vec![[-4.0; 3]; count],
        quats: vec![[1.0, 0.0, 0.0, 0.0]; count],
        opacity_logits: vec![2.0; count],
        sh: vec![0.0; 3 * count],
        sh_degree: 0,
    };
    let turn = [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]];
    let turn = Similarity { scale: 1e-3, ..Similarity::from_rotation(turn) };
    turn.apply_to_splats(&mut splats);
    let mut engine = cpu(1);
    let stays = floaters::splats_to_keep(&mut engine, &splats, &turn, &space, 0).unwrap();
    assert_eq!(stays.len(), count);
    assert!(stays[data.points.len()..].iter().all(|&stays| !stays), "every camera position is free space");
    let kept = stays[..data.points.len()].iter().filter(|&&stays| stays).count();
    assert!(kept * 100 >= data.points.len() * 98, "{kept} of {} points are left", data.points.len());
    assert_eq!(stays, floaters::splats_to_keep(&mut cpu(2), &splats, &turn, &space, 0).unwrap());
    assert!(engine.flush().is_ok());
}

/// The definition of the bubbles: each radius by a scan over all points.
fn bubbles_by_scan(cameras: &[[f64; 3]], pairs: &[[[f64; 3]; 2]], points: &[[f64; 3]]) -> Vec<Bubble> {
    let radius = |centre: [f64; 3]| {
        let mut distances: Vec<f64> = points.iter().map(|&point| se3::distance(point, centre)).collect();
        distances.sort_by(f64::total_cmp);
        0.7 * distances.get(2).copied().unwrap_or(f64::INFINITY)
    };
    let mut centres = cameras.to_vec();
    for &[a, b] in pairs {
        let step = 0.5 * radius(a).min(radius(b)).max(1e-9);
        let count = ((se3::distance(a, b) / step) as usize).min(8);
        let shares = (1..=count).map(|i| i as f64 / (count + 1) as f64);
        centres.extend(shares.map(|t| std::array::from_fn(|k| (1.0 - t) * a[k] + t * b[k])));
    }
    let bubble =
        |centre: [f64; 3]| Bubble { centre: centre.map(|v| v as f32), radius: radius(centre) as f32 };
    centres.into_iter().map(bubble).filter(|bubble| bubble.radius.is_finite()).collect()
}

/// Positions that are random, clustered, on a lattice (equal distances and coincident points), or extreme.
fn position() -> impl Strategy<Value = [f64; 3]> {
    let uniform = || prop::array::uniform3(-1.0f64..1.0);
    let lattice = prop::array::uniform3(-2i8..3);
    prop_oneof![
        4 => uniform(),
        2 => uniform().prop_map(|p| p.map(|v| 0.7 + 1e-12 * v)),
        4 => lattice.clone().prop_map(|p| p.map(|v| 0.5 * f64::from(v))),
        1 => lattice.prop_map(|p| p.map(|v| 1e6 * f64::from(v))),
        1 => uniform().prop_map(|p| p.map(|v| 1e6 + v)),
        1 => uniform().prop_map(|p| p.map(|v| 1e-162 * v)),
        1 => uniform().prop_map(|p| p.map(|v| 1e170 * v)),
    ]
}

proptest! {
    #[test]
    fn the_bubbles_are_those_of_a_scan_over_all_points(
        cameras in prop::collection::vec(position(), 0..30),
        between in prop::collection::vec([0usize..30, 0usize..30], 0..60),
        points in prop_oneof![
            prop::collection::vec(position(), 0..5),
            prop::collection::vec(position(), 0..400),
        ],
    ) {
        let pairs: Vec<[[f64; 3]; 2]> = between
            .into_iter()
            .filter(|pair| pair.iter().all(|&index| index < cameras.len()))
            .map(|pair| pair.map(|index| cameras[index]))
            .collect();
        let bits = |bubbles: Vec<Bubble>| -> Vec<[u32; 4]> {
            let words = |b: Bubble| [b.centre[0], b.centre[1], b.centre[2], b.radius].map(f32::to_bits);
            bubbles.into_iter().map(words).collect()
        };
        let expected = bits(bubbles_by_scan(&cameras, &pairs, &points));
        prop_assert_eq!(bits(bubbles(&cameras, &pairs, &points)), expected);
    }
}

#[test]
fn coincident_points_all_count() {
    let points = [vec![[1.0, 0.0, 0.0]; 2], vec![[0.0, 3.0, 4.0]; 1000]].concat();
    let camera = [[0.0; 3]];
    assert_eq!(bubbles(&camera, &[], &points)[0].radius, 3.5);
    assert_eq!(bubbles(&camera, &[], &points[..3])[0].radius, 3.5);
    assert!(bubbles(&camera, &[], &points[..2]).is_empty() && bubbles(&camera, &[], &[]).is_empty());
}
