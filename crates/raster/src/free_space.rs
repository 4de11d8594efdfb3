//! Finds splats in space that is known to be empty ([`FreeSpaceRule`]).
//!
//! A view's tile lists hold its splats in depth order. For each of its points, the list of the point's tile is walked
//! front to back and blended as for a pixel centred at the point's projection. For each splat that contributes, the
//! depth of the peak of its density along the ray is computed.

use gausset_core::Projection;
use gausset_core::constants::{ALPHA_MAX, TRANSMITTANCE_STOP};
use gausset_core::engine::{FreeSpaceRay, FreeSpaceRule, FreeSpaceView};
use gausset_core::nearest::{BallTree, Neighbour, PointTree};
use gausset_core::se3::rotation_from_quaternion;

use crate::layout::{Blocks, LOG_SCALE, MEAN, QUAT};
use crate::pipeline::Pipeline;
use crate::project::{LOG2_255, Record, record};
use crate::view::KernelView;
use gausset_compute::simd::LANES;

/// Blending weights below this are not counted.
const MIN_WEIGHT: f32 = 0.02;

/// Evidence about each splat from the rays of some views.
#[derive(Clone, Debug, Default)]
pub struct FreeSpaceEvidence {
    /// Sum of the weights against each splat.
    pub weight_against: Vec<f32>,
    /// Number of points against it.
    pub points_against: Vec<u32>,
    /// Sum of the weights for it.
    pub weight_for: Vec<f32>,
}

impl FreeSpaceEvidence {
    /// No evidence, for this number of splats.
    #[must_use]
    pub fn new(splats: usize) -> Self {
        Self {
            weight_against: vec![0.0; splats],
            points_against: vec![0; splats],
            weight_for: vec![0.0; splats],
        }
    }

    /// Adds the evidence of a view, after `project`, `sort` and `tile` of that view.
    pub fn add(&mut self, view: &FreeSpaceView, pipeline: &Pipeline, splats: &Blocks, reach: f32) {
        let centre = view.pose.centre();
        for FreeSpaceRay { pixel: [u, v], tile, camera_to_point: way } in view.rays() {
            let tile = tile as usize;
            let first = pipeline.lists.starts[tile] as usize;
            let mut transmittance = 1.0f32;
            for entry in &pipeline.lists.entries[first..first + pipeline.lists.lengths[tile] as usize] {
                let alpha = alpha_at(&pipeline.projected.records[entry.splat()], u, v);
                if alpha == 0.0 {
                    continue;
                }
                let splat = pipeline.projected.splat_index(entry.splat());
                let weight = alpha * transmittance;
                if weight >= MIN_WEIGHT {
                    let share = peak_fraction(splats, splat, centre, way) as f32;
                    if share < reach {
                        self.weight_against[splat] += weight;
                        self.points_against[splat] += 1;
                    } else if share <= 2.0 - reach {
                        self.weight_for[splat] += weight;
                    }
                }
                transmittance -= weight;
                if transmittance <= TRANSMITTANCE_STOP {
                    break;
                }
            }
        }
    }

    /// Whether the evidence suffices to remove a splat.
    #[must_use]
    pub fn is_removed(&self, splat: usize, rule: &FreeSpaceRule) -> bool {
        self.weight_against[splat] >= rule.min_weight
            && self.points_against[splat] >= rule.min_points
            && self.weight_for[splat] < self.weight_against[splat]
    }
}

/// The bubbles of a rule and the training cameras.
#[derive(Clone, Debug)]
pub struct Bubbles {
    tree: BallTree,
    /// Radius of each bubble.
    radius: Vec<f32>,
    views: Vec<KernelView>,
    /// Positions of the views.
    origins: PointTree<f32>,
    near_factor: f32,
}

impl Bubbles {
    /// The bubbles of a rule; `None` if there are none.
    #[must_use]
    pub fn new(rule: &FreeSpaceRule) -> Option<Self> {
        if rule.bubbles.is_empty() {
            return None;
        }
        let views: Vec<_> = rule.cameras.iter().map(|(camera, pose)| KernelView::new(camera, pose)).collect();
        let radius: Vec<f32> = rule.bubbles.iter().map(|bubble| bubble.radius).collect();
        let centres: Vec<[f32; 3]> = rule.bubbles.iter().map(|bubble| bubble.centre).collect();
        Some(Self {
            tree: BallTree::new(&centres, &radius),
            radius,
            origins: PointTree::new(views.iter().map(|view| view.origin)),
            views,
            near_factor: rule.near_factor,
        })
    }

    /// Whether a splat with this mean is inside a bubble, and no camera sees it from close by.
    #[must_use]
    pub fn is_removed(&self, mean: [f32; 3]) -> bool {
        let (place, squared) = self.nearest_if_inside(mean);
        if squared >= self.radius[place] * self.radius[place] {
            return false;
        }
        let limit = self.near_factor * self.near_factor * squared;
        let mut is_seen = false;
        self.origins.search(mean, Neighbour::at(limit), |found| {
            is_seen = is_inside_image(&self.views[found.index as usize], mean);
            Neighbour::at(if is_seen { 0.0 } else { limit })
        });
        !is_seen
    }

    /// The nearest bubble (the first of equals), and the squared distance to its centre: the first bubble and infinity if
    /// the mean is in no bubble.
    fn nearest_if_inside(&self, mean: [f32; 3]) -> (usize, f32) {
        let found = self.tree.nearest_if_inside(mean);
        found.map_or((0, f32::INFINITY), |bubble| (bubble.index as usize, bubble.squared))
    }
}

/// Whether a position is inside the image of a view.
fn is_inside_image(view: &KernelView, place: [f32; 3]) -> bool {
    if view.projection == Projection::Equirectangular {
        return true;
    }
    let [x, y, z]: [f32; 3] = std::array::from_fn(|k| {
        (0..3).map(|j| view.rotation[k][j] * place[j]).sum::<f32>() + view.translation[k]
    });
    let inside = |local: f32, k: usize| {
        let at = view.focal[k] * local + view.centre[k] * z;
        (0.0..view.size[k] as f32 * z).contains(&at)
    };
    z > view.near_plane && inside(x, 0) && inside(y, 1)
}

/// The blending alpha of a splat at an image position.
fn alpha_at(splat: &Record, u: f32, v: f32) -> f32 {
    let r = &splat.0;
    let (dx, dy) = (u - r[record::X], v - r[record::Y]);
    let along_x = r[record::B].mul_add(dy, r[record::A] * dx);
    let along_y = (r[record::C] * dy).mul_add(dy, r[record::L]);
    let exponent = along_x.mul_add(dx, along_y);
    if exponent < -LOG2_255 { 0.0 } else { libm::exp2f(exponent).min(ALPHA_MAX) }
}

/// Where along the ray from `centre` in direction `way` the density of a splat is largest, as a fraction of the length
/// of `way`: `t = (wᵀ Σ⁻¹ m) / (wᵀ Σ⁻¹ w)`, with the mean `m` relative to the centre.
fn peak_fraction(splats: &Blocks, splat: usize, centre: [f64; 3], way: [f64; 3]) -> f64 {
    let rows = &splats.geometry[splat / LANES];
    let value = |row: usize| f64::from(rows[row].0[splat % LANES]);
    let rotation = rotation_from_quaternion(std::array::from_fn(|k| value(QUAT + k)));
    let mean: [f64; 3] = std::array::from_fn(|k| value(MEAN + k) - centre[k]);
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let (mut above, mut below) = (0.0, 0.0);
    for k in 0..3 {
        let axis = rotation.map(|row| row[k]);
        let scale = libm::exp(value(LOG_SCALE + k));
        let along = dot(axis, way) / scale;
        above += along * dot(axis, mean) / scale;
        below += along * along;
    }
    above / below
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gausset_core::engine::Bubble;
    use gausset_core::{Camera, Pose, se3};
    use proptest::prelude::*;

    use super::*;

    fn squared_distance(a: [f32; 3], b: [f32; 3]) -> f32 {
        (0..3).map(|k| (a[k] - b[k]) * (a[k] - b[k])).sum()
    }

    /// The definition of the nearest bubble.
    fn nearest_by_scan(bubbles: &[Bubble], mean: [f32; 3]) -> (usize, f32) {
        let (mut place, mut least) = (0, f32::INFINITY);
        for (i, bubble) in bubbles.iter().enumerate() {
            let squared = squared_distance(mean, bubble.centre);
            if squared < least {
                (place, least) = (i, squared);
            }
        }
        (place, least)
    }

    fn nearest(tree: &PointTree<f32>, mean: [f32; 3]) -> (usize, f32) {
        let found = tree.nearest(mean, Neighbour::at(f32::INFINITY));
        found.map_or((0, f32::INFINITY), |bubble| (bubble.index as usize, bubble.squared))
    }

    /// The definition of what is removed.
    fn is_removed_by_scan(rule: &FreeSpaceRule, mean: [f32; 3]) -> bool {
        let (place, squared) = nearest_by_scan(&rule.bubbles, mean);
        let radius = rule.bubbles[place].radius;
        if squared >= radius * radius {
            return false;
        }
        let limit = rule.near_factor * rule.near_factor * squared;
        !rule
            .cameras
            .iter()
            .map(|(camera, pose)| KernelView::new(camera, pose))
            .any(|view| squared_distance(mean, view.origin) < limit && is_inside_image(&view, mean))
    }

    /// Positions that are random, clustered, on a lattice (equal distances and coincident points), or extreme.
    fn position() -> impl Strategy<Value = [f32; 3]> {
        let uniform = || prop::array::uniform3(-1.0f32..1.0);
        let lattice = prop::array::uniform3(-2i8..3);
        prop_oneof![
            4 => uniform(),
            2 => uniform().prop_map(|p| p.map(|v| 0.7 + 1e-6 * v)),
            4 => lattice.clone().prop_map(|p| p.map(|v| 0.5 * f32::from(v))),
            1 => lattice.prop_map(|p| p.map(|v| 1e6 * f32::from(v))),
            1 => uniform().prop_map(|p| p.map(|v| 1e6 * v)),
            1 => uniform().prop_map(|p| p.map(|v| 1e6 + v)),
            1 => uniform().prop_map(|p| p.map(|v| 1e-23 * v)),
            1 => uniform().prop_map(|p| p.map(|v| 1e25 * v)),
        ]
    }

    fn camera() -> impl Strategy<Value = (Camera, Pose)> {
        (position(), prop::array::uniform3(-3.0f64..3.0)).prop_map(|(centre, turn)| {
            let camera = Camera::new(64, 48, 40.0, 40.0, 32.0, 24.0).unwrap();
            let rotation = se3::so3_exp(turn);
            let translation = se3::mul_vec(&rotation, centre.map(|v| -f64::from(v)));
            (camera, Pose { rotation, translation })
        })
    }

    fn rule() -> impl Strategy<Value = FreeSpaceRule> {
        let bubble = || {
            let radius = prop_oneof![8 => 0.0f32..1.0, 1 => 0.0f32..3e6, 1 => Just(0.5)];
            (position(), radius).prop_map(|(centre, radius)| Bubble { centre, radius })
        };
        let some =
            prop_oneof![prop::collection::vec(bubble(), 1..3), prop::collection::vec(bubble(), 1..400)];
        (some, prop::collection::vec(camera(), 0..40), 0.0f32..6.0).prop_map(
            |(bubbles, cameras, near_factor)| FreeSpaceRule {
                views: Arc::from([]),
                free_fraction: 0.3,
                min_points: 10,
                min_weight: 2.0,
                bubbles: bubbles.into(),
                cameras: cameras.into(),
                near_factor,
            },
        )
    }

    proptest! {
        #[test]
        fn the_tree_finds_the_bubble_of_a_scan_and_removes_the_same_splats(
            rule in rule(),
            means in prop::collection::vec(position(), 1..60),
        ) {
            let bubbles = Bubbles::new(&rule).unwrap();
            let tree = PointTree::new(rule.bubbles.iter().map(|bubble| bubble.centre));
            let centres = rule.bubbles.iter().map(|bubble| bubble.centre);
            let beside = rule.bubbles.iter().map(|bubble| bubble.centre.map(|v| v + 0.6 * bubble.radius));
            for mean in means.into_iter().chain(centres).chain(beside) {
                let expected = nearest_by_scan(&rule.bubbles, mean);
                let found = nearest(&tree, mean);
                prop_assert_eq!((found.0, found.1.to_bits()), (expected.0, expected.1.to_bits()));
                let is_in = |b: &Bubble| squared_distance(mean, b.centre) < b.radius * b.radius;
                let expected = if rule.bubbles.iter().any(is_in) { expected } else { (0, f32::INFINITY) };
                prop_assert_eq!(bubbles.nearest_if_inside(mean), expected);
                prop_assert_eq!(bubbles.is_removed(mean), is_removed_by_scan(&rule, mean));
            }
        }
    }

    fn bare_rule(bubbles: &[Bubble]) -> FreeSpaceRule {
        FreeSpaceRule {
            views: Arc::from([]),
            free_fraction: 0.3,
            min_points: 10,
            min_weight: 2.0,
            bubbles: bubbles.into(),
            cameras: Arc::from([]),
            near_factor: 5.0,
        }
    }

    #[test]
    fn without_bubbles_there_is_nothing_to_search() {
        assert!(Bubbles::new(&bare_rule(&[])).is_none());
        assert_eq!(PointTree::<f32>::new([]).nearest([0.0; 3], Neighbour::at(f32::INFINITY)), None);
    }

    #[test]
    fn of_coincident_bubbles_the_first_counts() {
        let bubbles = vec![Bubble { centre: [1.0, -0.0, 2.0], radius: 3.0 }; 1000];
        let bubbles = Bubbles::new(&bare_rule(&bubbles)).unwrap();
        assert_eq!(bubbles.nearest_if_inside([1.0, 0.0, 4.0]), (0, 4.0));
    }

    #[test]
    fn numbers_that_are_not_finite_give_what_a_scan_gives() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let bubble = |x, radius| Bubble { centre: [x, 0.0, 0.0], radius };
        let sets = [
            vec![bubble(0.0, 1.0)],
            vec![bubble(nan, 1.0)],
            vec![bubble(inf, nan), bubble(1.0, nan), bubble(2.0, 0.5)],
            vec![bubble(3.0, inf), bubble(-inf, 1.0), bubble(nan, nan)],
        ];
        for rule in sets.map(|bubbles| bare_rule(&bubbles)) {
            let bubbles = Bubbles::new(&rule).unwrap();
            let tree = PointTree::new(rule.bubbles.iter().map(|bubble| bubble.centre));
            for x in [0.0, 1.0, 3e38, nan, inf, -inf] {
                let mean = [x, 0.0, 0.0];
                assert_eq!(nearest(&tree, mean), nearest_by_scan(&rule.bubbles, mean), "{rule:?} {x}");
                assert_eq!(bubbles.is_removed(mean), is_removed_by_scan(&rule, mean), "{rule:?} {x}");
            }
        }
    }
}
