//! Background points of views around a painted sphere: directions, colours and radius are known.

use gausset_core::matrix::{cross, distance, dot, norm, sub, transpose_mul_vec, unit};
use gausset_core::{Camera, Pose};
use gausset_stereo::{
    BackgroundOptions, BackgroundPoint, DepthMap, Depths, NeighbourPlan, StereoView, background_points,
};

const CENTRE: [f64; 3] = [5.0, -3.0, 2.0];
const WIDTH: usize = 120;
const HEIGHT: usize = 80;
const CAMERA_DISTANCE: f64 = 2.0;
/// 2.5 times the distance of the cameras.
const RADIUS: f64 = 5.0;
/// Log gains of the two views at each position.
const GAINS: [[f64; 3]; 2] = [[0.3, 0.1, -0.1], [-0.2, 0.0, 0.2]];

/// Views from four sides, two at each, of a subject in front of a painted sphere.
#[derive(Clone)]
struct Input {
    views: Vec<StereoView>,
    depths: Depths,
    points: Vec<[f32; 3]>,
    gains: Vec<[f64; 3]>,
}

impl Input {
    /// `is_known` tells which pixels have a confirmed depth.
    fn new(is_known: impl Fn(usize, usize) -> bool) -> Self {
        let camera = Camera::new(WIDTH as u32, HEIGHT as u32, 120.0, 120.0, 60.0, 40.0).unwrap();
        let around = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]];
        let poses: Vec<Pose> = around.into_iter().chain(around).map(pose_from).collect();
        let gains: Vec<[f64; 3]> = (0..8).map(|view| GAINS[view / 4]).collect();
        let map = |view: usize| {
            let pixels = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y)));
            let mut map = DepthMap {
                camera: Some(camera),
                plan: NeighbourPlan { neighbours: vec![(view + 1) % 8], depths: [1.0, 9.0] },
                ..DepthMap::default()
            };
            for (x, y) in pixels {
                map.depth.push(if is_known(x, y) { CAMERA_DISTANCE as f32 } else { 0.0 });
                let colour = paint(seen_direction(&camera, &poses[view], [x as f64 + 0.5, y as f64 + 0.5]));
                let lit = [0, 1, 2].map(|c| colour[c] * libm::exp(gains[view][c]));
                // The subject is of another colour.
                map.rgb.extend(if is_known(x, y) { [0; 3] } else { lit.map(|v| (255.0 * v).round() as u8) });
            }
            map
        };
        let maps = (0..8).map(map).collect();
        // Pairs of opposite points: the median is the centre.
        let offsets = [[0.25, 0.0, 0.125], [0.0, 0.25, -0.125], [0.125, -0.25, 0.0], [0.0, 0.0, 0.25]];
        let pairs = offsets.into_iter().flat_map(|o| [o, o.map(|v| -v)]);
        let points = pairs.map(|o| [0, 1, 2].map(|i| (CENTRE[i] + o[i]) as f32)).collect();
        let views = poses.iter().map(|&pose| StereoView { camera, pose }).collect();
        Self { views, depths: Depths { maps, ..Depths::default() }, points, gains }
    }

    fn background(&self, count: usize) -> Vec<BackgroundPoint> {
        let options = BackgroundOptions { points: &self.points, log_gains: &self.gains, count };
        background_points(&self.views, &self.depths, &options)
    }

    fn all(&self) -> Vec<BackgroundPoint> {
        self.background(usize::MAX)
    }
}

/// The pose of a camera on this side of the centre that looks at it.
fn pose_from(side: [f64; 3]) -> Pose {
    let centre: [f64; 3] = std::array::from_fn(|i| CENTRE[i] + CAMERA_DISTANCE * side[i]);
    let (right, down) = (cross([0.0, 0.0, -1.0], side.map(|v| -v)), [0.0, 0.0, -1.0]);
    let rotation = [right, down, side.map(|v| -v)];
    let translation = rotation.map(|row| -dot(row, centre));
    Pose { rotation, translation }
}

/// Where a pixel meets the painted sphere, as a direction seen from its centre: by bisection, not by the formula.
fn seen_direction(camera: &Camera, pose: &Pose, pixel: [f64; 2]) -> [f64; 3] {
    let (origin, ray) = (pose.centre(), transpose_mul_vec(&pose.rotation, camera.ray(pixel)));
    let at = |t: f64| [0, 1, 2].map(|i| origin[i] + t * ray[i] - CENTRE[i]);
    let (mut near, mut far) = (0.0, 20.0);
    for _ in 0..60 {
        let middle = 0.5 * (near + far);
        if norm(at(middle)) < RADIUS { near = middle } else { far = middle }
    }
    unit(at(near))
}

/// The colour of the sphere in a direction, 0.2..0.6.
fn paint(direction: [f64; 3]) -> [f64; 3] {
    direction.map(|v| 0.4 + 0.2 * v)
}

/// A subject in the middle of each image.
fn is_subject(x: usize, y: usize) -> bool {
    (40..80).contains(&x) && (20..60).contains(&y)
}

fn direction_of(point: &BackgroundPoint) -> [f64; 3] {
    unit(sub(point.position, CENTRE))
}

#[test]
fn background_is_on_the_sphere_where_no_depth_is_known_in_the_colour_of_the_scene() {
    let input = Input::new(is_subject);
    let points = input.all();
    assert!(points.len() > 500, "{}", points.len());
    let side = 2.5f64.to_radians();
    for point in &points {
        assert!((distance(point.position, CENTRE) - RADIUS).abs() < 1e-9);
        assert!((f64::from(point.scale) - 0.6 * RADIUS * side).abs() < 1e-6);
        // A cell averages over its blocks; paint changes by 0.01 a cell, and colours are 8-bit.
        let expected = paint(direction_of(point));
        for (found, expected) in point.colour.into_iter().zip(expected) {
            assert!((f64::from(found) - expected).abs() < 0.006, "{point:?}: {expected}");
        }
        // One of the views has it in its image, outside the subject. Half a cell is 2 px, half a block 2 px.
        let shows = |view: &StereoView| {
            let p = view.pose.apply(point.position);
            let [u, v] = view.camera.project(p);
            p[2] > 0.0
                && (0.0..120.0).contains(&u)
                && (0.0..80.0).contains(&v)
                && !((44.0..76.0).contains(&u) && (24.0..56.0).contains(&v))
        };
        assert!(input.views.iter().any(shows), "{point:?}");
    }
    // Every unknown block has a point near its direction: within a diagonal of its cell.
    for view in &input.views[..4] {
        for (x, y) in (0..HEIGHT).step_by(4).flat_map(|y| (0..WIDTH).step_by(4).map(move |x| (x, y))) {
            let direction = seen_direction(&view.camera, &view.pose, [x as f64 + 2.0, y as f64 + 2.0]);
            let nearest = points.iter().map(|point| dot(direction_of(point), direction)).fold(-1.0, f64::max);
            assert!(is_subject(x, y) || nearest > libm::cos(1.5 * side), "{x}, {y}: {nearest}");
        }
    }
    assert_eq!(points, input.all());
}

#[test]
fn known_masked_textured_and_lone_pixels_and_views_without_neighbours_leave_no_cell() {
    assert!(Input::new(|_, _| true).all().is_empty(), "everything is known");
    let all = Input::new(|_, _| false);
    let whole = all.all();

    let mut masked = all.clone();
    for map in &mut masked.depths.maps {
        // The upper half is masked, and one pixel of a block below.
        let kept = |i: usize| i >= WIDTH * HEIGHT / 2 && i != WIDTH * 41 + 62;
        map.mask = Some((0..WIDTH * HEIGHT).map(|i| u8::from(kept(i))).collect());
    }
    let below = masked.all();
    assert!(below.iter().all(|point| point.position[2] < CENTRE[2]) && !below.is_empty());
    let lower = whole.iter().filter(|point| point.position[2] < CENTRE[2]).count();
    // On each of the four sides one block, which has its cell to itself.
    assert_eq!(below.len(), lower - 4);

    let mut once = all.clone();
    once.depths.maps.truncate(4);
    assert!(once.all().len() * 2 < whole.len(), "cells with one block");

    let mut textured = all.clone();
    for map in &mut textured.depths.maps {
        // Stripes on the left half, 0.1 in either direction.
        for (at, pixel) in map.rgb.chunks_exact_mut(3).enumerate().filter(|(at, _)| at % WIDTH < WIDTH / 2) {
            pixel.iter_mut().for_each(|v| *v = if at % 4 < 2 { *v + 25 } else { *v - 25 });
        }
    }
    let plain = textured.all();
    assert!(plain.len() * 10 < whole.len() * 6 && plain.len() * 10 > whole.len() * 4, "only plain blocks");

    let mut alone = all;
    alone.depths.maps.iter_mut().for_each(|map| map.plan.neighbours.clear());
    assert!(alone.all().is_empty(), "nothing to compare with");
}

#[test]
fn there_is_a_background_only_around_a_subject() {
    let input = Input::new(is_subject);
    let turned = |count: usize| {
        let mut input = input.clone();
        for view in &mut input.views[..count] {
            // Turned about its own place, away from the subject.
            let back = Pose::from_quaternion([0.0, 0.0, 1.0, 0.0], [0.0; 3]).unwrap();
            view.pose = back.compose(&view.pose);
        }
        input.all().len()
    };
    // 70 % of eight views are 5.6.
    assert!(turned(2) > 0 && turned(3) == 0, "{}", turned(3));

    // Nothing is behind the background but the farthest hundredth of the points.
    let mut with_far = input.clone();
    for (point, sign) in with_far.points.iter_mut().zip([-1.0, 1.0]) {
        point[2] = CENTRE[2] as f32 + sign * 40.0;
    }
    let far = with_far.all();
    assert!(!far.is_empty());
    assert!(far.iter().all(|point| (distance(point.position, CENTRE) - 40.0).abs() < 0.01));

    // Most points are far behind the subject, where one view in four shows them.
    let mut facade = input.clone();
    facade.points.extend([[-4.0, 0.0, 0.0]; 20].map(|o| [0, 1, 2].map(|i| (CENTRE[i] + o[i]) as f32)));
    let facade = facade.all();
    assert!(!facade.is_empty());
    assert!(facade.iter().all(|point| (distance(point.position, CENTRE) - RADIUS).abs() < 0.5));

    let none = Input { points: vec![], ..input.clone() };
    assert!(none.all().is_empty(), "no points");
    let same = Input { points: vec![[1.0; 3]; 8], ..input.clone() };
    assert!(same.all().is_empty(), "the points are elsewhere");
    let empty = Input { views: vec![], depths: Depths::default(), ..input };
    assert!(empty.all().is_empty(), "no views");
}

#[test]
fn scarce_points_are_spread_over_larger_cells() {
    let input = Input::new(is_subject);
    let (fine, coarse) = (input.all(), input.background(1_000));
    assert!(coarse.len() < fine.len() && coarse.len() > fine.len() / 16);
    assert!(coarse[0].scale > 2.0 * fine[0].scale);
    assert!(input.background(90).is_empty() && input.background(0).is_empty());
}

#[test]
fn the_unit_of_length_does_not_matter() {
    let input = Input::new(is_subject);
    let expected = input.all();
    // Powers of two change no digit.
    for unit in [1.0 / 1024.0, 1024.0] {
        let mut other = input.clone();
        other.points.iter_mut().flatten().for_each(|v| *v *= unit as f32);
        other.views.iter_mut().flat_map(|view| &mut view.pose.translation).for_each(|v| *v *= unit);
        let scaled = |point: &BackgroundPoint| BackgroundPoint {
            position: point.position.map(|v| v * unit),
            scale: point.scale * unit as f32,
            ..*point
        };
        assert_eq!(other.all(), expected.iter().map(scaled).collect::<Vec<_>>());
    }
}
