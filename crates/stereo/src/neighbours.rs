//! Selects the neighbours and the depth range of each view.
//!
//! The rank of a neighbour is the sum over common points of `w(θ)`, where θ is the angle between the rays from the
//! point to the two cameras: `(θ/8°)²` below 8°, 1 up to 30°, 0.2 above (near views match well but constrain depth
//! weakly; wide ones see other surfaces). Views without tracks use synthetic points: on rays through the image, at
//! depths of their range. (Points that project into an image may be behind walls: neighbours found with them confirmed
//! 41 % of the pixels of a walk around a house, synthetic points 56 %.)
//!
//! The depth range is 0.35 x the 1 % to 2.5 x the 99 % quantile of the points that a view sees, or that project into
//! its image; without points it is the cube of the random start.

use gausset_compute::Pool;
use gausset_core::{Camera, Pose, se3};

use crate::{SearchCube, StereoScene, StereoView};

/// Quantiles of the depths of points, and the factors on them.
const NEAR: (f64, f64) = (0.01, 0.35);
const FAR: (f64, f64) = (0.99, 2.5);
/// Minimum number of points for a depth range and for neighbours.
const MIN_POINTS: usize = 12;
/// Minimum depth relative to the distance to the centre of the cube, for cameras in or near it.
const MIN_CUBE_FRACTION: f64 = 0.2;
/// Maximum number of (view, view) pairs of points; more points than that are subsampled.
const MAX_PAIRS: u64 = 20_000_000;
/// Synthetic points: columns, rows and depths.
const SYNTHETIC_GRID: [u32; 3] = [4, 3, 5];
/// Angles of `w(θ)` in degrees between which it is 1, and its value above.
const FULL_WEIGHT: [f64; 2] = [8.0, 30.0];
const WIDE_WEIGHT: f64 = 0.2;
/// Minimum fraction of a view's points that a neighbour sees.
const MIN_COMMON_FRACTION: f64 = 0.05;

/// Neighbours and depth range of a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NeighbourPlan {
    /// Indices of its neighbours, best first; empty = no depth.
    pub neighbours: Vec<usize>,
    /// Nearest and farthest depth along the optical axis, in scene units.
    pub depths: [f64; 2],
}

/// Plans all views, with at most `count` neighbours each.
pub(crate) fn plan(
    scene: &StereoScene<'_>,
    usable: &[bool],
    count: usize,
    pool: &Pool,
) -> Vec<NeighbourPlan> {
    let seen: Vec<Vec<u32>> = (0..scene.views.len())
        .map(|view| {
            let tracked = scene.visible_points.get(view).map_or(&[][..], Vec::as_slice);
            tracked.iter().filter(|&&p| (p as usize) < scene.points.len()).copied().collect()
        })
        .collect();
    // The views of each point, subsampled.
    let mut tracks: Vec<Vec<u32>> = vec![Vec::new(); scene.points.len()];
    for (view, seen) in (0u32..).zip(&seen).filter(|&(view, _)| usable[view as usize]) {
        seen.iter().for_each(|&p| tracks[p as usize].push(view));
    }
    let pairs: u64 = tracks.iter().map(|track| (track.len() as u64).pow(2)).sum();
    let stride = pairs.div_ceil(MAX_PAIRS).max(1) as usize;
    let centres: Vec<[f64; 3]> = scene.views.iter().map(|view| view.pose.centre()).collect();
    pool.map(scene.views.len(), |view| {
        if !usable[view] {
            return NeighbourPlan::default();
        }
        let depths = match seen[view].len() {
            n if n < MIN_POINTS => depth_range(
                &scene.views[view],
                scene.points,
                &points_in_image(&scene.views[view], scene.points),
                scene.cube,
            ),
            _ => depth_range(&scene.views[view], scene.points, &seen[view], scene.cube),
        };
        let Some(depths) = depths else { return NeighbourPlan::default() };
        let mut weights = vec![0.0; scene.views.len()];
        let mut all = 0.0;
        let mut add = |point: [f64; 3], others: &mut dyn Iterator<Item = usize>| {
            all += 1.0;
            for other in others.filter(|&other| other != view) {
                weights[other] += angle_weight(angle(point, centres[view], centres[other]));
            }
        };
        if seen[view].len() >= MIN_POINTS {
            for &p in seen[view].iter().filter(|&&p| (p as usize).is_multiple_of(stride)) {
                let track = &tracks[p as usize];
                add(scene.points[p as usize], &mut track.iter().map(|&v| v as usize));
            }
        } else {
            for point in synthetic_points(&scene.views[view], depths) {
                let sees =
                    |&other: &usize| usable[other] && project_depth(&scene.views[other], point).is_some();
                add(point, &mut (0..scene.views.len()).filter(sees));
            }
        }
        let mut order: Vec<usize> =
            (0..weights.len()).filter(|&v| weights[v] > MIN_COMMON_FRACTION * all).collect();
        order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
        order.truncate(count);
        NeighbourPlan { neighbours: order, depths }
    })
}

/// `w(θ)` of an angle in radians.
fn angle_weight(angle: f64) -> f64 {
    match angle.to_degrees() {
        degrees if degrees < FULL_WEIGHT[0] => (degrees / FULL_WEIGHT[0]).powi(2),
        degrees if degrees <= FULL_WEIGHT[1] => 1.0,
        _ => WIDE_WEIGHT,
    }
}

/// Angle at `point` between the rays to `a` and `b`.
fn angle(point: [f64; 3], a: [f64; 3], b: [f64; 3]) -> f64 {
    let (a, b) = (se3::sub(a, point), se3::sub(b, point));
    let product = se3::norm(a) * se3::norm(b);
    if product > 0.0 { libm::acos((se3::dot(a, b) / product).clamp(-1.0, 1.0)) } else { 0.0 }
}

/// Depth of a point that projects into the image; `None` otherwise.
fn project_depth(view: &StereoView, point: [f64; 3]) -> Option<f64> {
    let StereoView { camera, pose } = view;
    let p = pose.apply(point);
    let [u, v] = camera.project(p);
    let is_inside = p[2] > 0.0
        && (0.0..f64::from(camera.width)).contains(&u)
        && (0.0..f64::from(camera.height)).contains(&v);
    is_inside.then_some(p[2])
}

/// The points that project into the image.
fn points_in_image(view: &StereoView, points: &[[f64; 3]]) -> Vec<u32> {
    (0u32..).zip(points).filter(|&(_, &point)| project_depth(view, point).is_some()).map(|(i, _)| i).collect()
}

/// Nearest and farthest depth of a view.
fn depth_range(
    view: &StereoView,
    points: &[[f64; 3]],
    seen: &[u32],
    cube: Option<SearchCube>,
) -> Option<[f64; 2]> {
    let depth = |&p: &u32| view.pose.apply(points[p as usize])[2];
    let mut depths: Vec<f64> = seen.iter().map(depth).filter(|&z| z > 0.0 && z.is_finite()).collect();
    let found = if depths.len() >= MIN_POINTS {
        depths.sort_by(f64::total_cmp);
        let quantile = |share: f64| depths[(share * (depths.len() - 1) as f64) as usize];
        [NEAR.1 * quantile(NEAR.0), FAR.1 * quantile(FAR.0)]
    } else {
        let SearchCube { centre, half_side } = cube?;
        let c = view.pose.centre();
        let distance = se3::distance(c, centre);
        let reach = 3f64.sqrt() * half_side;
        [(distance - reach).max(MIN_CUBE_FRACTION * distance.max(half_side)), distance + reach]
    };
    (found[0] > 0.0 && found[1] > found[0] && found[1].is_finite()).then_some(found)
}

/// Points on rays through an image, evenly spaced in inverse depth.
fn synthetic_points(view: &StereoView, depths: [f64; 2]) -> impl Iterator<Item = [f64; 3]> {
    let (camera, world) = (view.camera, view.pose.inverse());
    let share = |i: u32, n: u32| (f64::from(i) + 0.5) / f64::from(n);
    (0..SYNTHETIC_GRID[0] * SYNTHETIC_GRID[1] * SYNTHETIC_GRID[2]).map(move |i| {
        let (column, row, step) = (
            i % SYNTHETIC_GRID[0],
            i / SYNTHETIC_GRID[0] % SYNTHETIC_GRID[1],
            i / SYNTHETIC_GRID[0] / SYNTHETIC_GRID[1],
        );
        let q = 1.0 / depths[1] + share(step, SYNTHETIC_GRID[2]) * (1.0 / depths[0] - 1.0 / depths[1]);
        world.apply(back_project(
            &camera,
            share(column, SYNTHETIC_GRID[0]),
            share(row, SYNTHETIC_GRID[1]),
            1.0 / q,
        ))
    })
}

/// The camera point at fractions of the image width and height, at a depth.
fn back_project(camera: &Camera, x: f64, y: f64, depth: f64) -> [f64; 3] {
    let (u, v) = (x * f64::from(camera.width), y * f64::from(camera.height));
    [(u - camera.cx) / camera.fx * depth, (v - camera.cy) / camera.fy * depth, depth]
}

/// Whether two poses have the same position, relative to `depth`.
pub(crate) fn is_same_position(a: &Pose, b: &Pose, depth: f64) -> bool {
    let (a, b) = (a.centre(), b.centre());
    se3::distance(a, b) < 1e-6 * depth
}
