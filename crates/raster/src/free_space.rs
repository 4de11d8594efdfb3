//! Finds splats in space that is known to be empty ([`FreeSpaceRule`]).
//!
//! A view's tile lists hold its splats in depth order. For each of its points, the list of the point's tile is walked
//! front to back and blended as for a pixel centred at the point's projection. For each splat that contributes, the
//! depth of the peak of its density along the ray is computed.

use gausset_core::Projection;
use gausset_core::constants::{ALPHA_MAX, TRANSMITTANCE_STOP};
use gausset_core::engine::{FreeSpaceRay, FreeSpaceRule, FreeSpaceView};
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
    /// Coordinates of the bubble centres, one array per axis, so that distances can be vectorised.
    axes: [Vec<f32>; 3],
    /// Radius of each bubble.
    radius: Vec<f32>,
    views: Vec<KernelView>,
    near_factor: f32,
}

impl Bubbles {
    /// The bubbles of a rule; `None` if there are none.
    #[must_use]
    pub fn new(rule: &FreeSpaceRule) -> Option<Self> {
        let axis = |k: usize| rule.bubbles.iter().map(|bubble| bubble.centre[k]).collect();
        let views = rule.cameras.iter().map(|(camera, pose)| KernelView::new(camera, pose)).collect();
        (!rule.bubbles.is_empty()).then(|| Self {
            axes: [axis(0), axis(1), axis(2)],
            radius: rule.bubbles.iter().map(|bubble| bubble.radius).collect(),
            views,
            near_factor: rule.near_factor,
        })
    }

    /// Whether a splat with this mean is inside a bubble, and no camera sees it from close by.
    #[must_use]
    pub fn is_removed(&self, mean: [f32; 3]) -> bool {
        let (place, squared) = self.nearest(mean);
        if squared >= self.radius[place] * self.radius[place] {
            return false;
        }
        let limit = self.near_factor * self.near_factor * squared;
        !self
            .views
            .iter()
            .any(|view| squared_distance(mean, view.origin) < limit && is_inside_image(view, mean))
    }

    /// The nearest bubble (the first of equals), and the squared distance to its centre.
    fn nearest(&self, mean: [f32; 3]) -> (usize, f32) {
        let [xs, ys, zs] = &self.axes;
        let (mut place, mut least) = (0, f32::INFINITY);
        for (i, ((x, y), z)) in xs.iter().zip(ys).zip(zs).enumerate() {
            let squared = squared_distance(mean, [*x, *y, *z]);
            if squared < least {
                (place, least) = (i, squared);
            }
        }
        (place, least)
    }
}

fn squared_distance(a: [f32; 3], b: [f32; 3]) -> f32 {
    (0..3).map(|k| (a[k] - b[k]) * (a[k] - b[k])).sum()
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
