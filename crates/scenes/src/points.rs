//! Sparse points, as structure from motion would reconstruct them: positions on surfaces with their colour, the images
//! that see them, and small errors.

use gausset_compute::{Pool, rng};
use gausset_core::image::quantise;

use crate::ProceduralScene;
use crate::render::{Eye, display};
use crate::vec3::Vec3;
use crate::world::Ray;

/// Standard deviation of an observation in px, on each axis.
const PIXEL_NOISE: f64 = 0.25;
/// Standard deviation of a position, on each axis, in px of the camera that found the point.
const POSITION_NOISE_PIXELS: f64 = 0.3;
/// Fraction of the candidates on the sky that become points: a smooth sky has few features.
const SKY_FRACTION: f32 = 0.3;
/// Distance before a point at which a ray may end and still count as seeing it, in scene units.
const OCCLUSION_TOLERANCE: f64 = 5e-3;
/// Candidates per task.
const CHUNK: usize = 256;

/// A point and its observations.
#[derive(Clone, Debug, PartialEq)]
pub struct SparsePoint {
    /// World position, with its error.
    pub position: [f64; 3],
    /// Display colour, mean over the images that see the point.
    pub colour: [u8; 3],
    /// Mean distance in px between the observations and the projections of `position`.
    pub error: f64,
    /// Images that see the point, at least two, in ascending order.
    pub track: Vec<PointObservation>,
}

/// The observation of a sparse point in an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointObservation {
    /// Index of the image.
    pub view: usize,
    /// Position in px from the top-left corner, with its error.
    pub pixel: [f64; 2],
}

impl ProceduralScene {
    /// At most [`ProceduralScene::points`] sparse points, distributed over the images and evenly within each.
    #[must_use]
    pub fn sparse_points(&self, pool: &Pool) -> Vec<SparsePoint> {
        let _span = gausset_prof::span("sparse_points");
        let eyes: Vec<Eye> = self.poses.iter().map(|pose| Eye::new(&self.camera, pose)).collect();
        let mut points = Vec::with_capacity(self.points);
        // A quarter of the candidates are lost to the sky; four times as many candidates as points are always enough.
        for first in (0..4 * self.points).step_by(4 * CHUNK) {
            if points.len() >= self.points {
                break;
            }
            let found = pool.map(4, |task| {
                let candidates = first + task * CHUNK..first + (task + 1) * CHUNK;
                candidates.filter_map(|i| self.sparse_point(i, &eyes)).collect::<Vec<_>>()
            });
            points.extend(found.into_iter().flatten());
        }
        points.truncate(self.points);
        points
    }

    /// The point of a candidate; `None` if it is on the sky and skipped, or seen by only one image.
    fn sparse_point(&self, candidate: usize, eyes: &[Eye]) -> Option<SparsePoint> {
        let (width, height) = (f64::from(self.camera.width), f64::from(self.camera.height));
        let finder = candidate % eyes.len();
        let [u, v] = low_discrepancy(candidate / eyes.len());
        let ray = eyes[finder].ray(u * width, v * height);
        let hit = self.world.first_hit(&ray);
        let words = self.words(candidate, 0);
        if hit.object.is_none() && rng::uniform(words[0]) >= SKY_FRACTION {
            return None;
        }
        let surface = ray.at(hit.distance);

        let mut colours = Vec3::default();
        let mut track = Vec::new();
        for (view, (eye, pose)) in eyes.iter().zip(&self.poses).enumerate() {
            let in_camera = pose.apply(surface.array());
            let [x, y] = self.camera.project(in_camera);
            if in_camera[2] <= 0.0 || !(0.0..width).contains(&x) || !(0.0..height).contains(&y) {
                continue;
            }
            let to_point = surface - eye.centre();
            let distance = to_point.length();
            let ray = Ray { origin: eye.centre(), direction: to_point * (1.0 / distance) };
            let seen = self.world.first_hit(&ray);
            if seen.object != hit.object || seen.distance < distance - OCCLUSION_TOLERANCE {
                continue;
            }
            let [dx, dy, _] = self.normals(candidate, 2 + view).map(|n| PIXEL_NOISE * n);
            let pixel = [(x + dx).clamp(0.0, width), (y + dy).clamp(0.0, height)];
            track.push(PointObservation { view, pixel });
            colours += display(self.world.pixel_radiance(&ray, &seen, eye.pixel_angle()));
        }
        if track.len() < 2 {
            return None;
        }
        let spread = POSITION_NOISE_PIXELS * hit.distance / self.camera.fx;
        let position = (surface + Vec3::from(self.normals(candidate, 1)) * spread).array();
        let colour = (colours * (1.0 / track.len() as f64)).array().map(|v| quantise(v as f32));
        let error = track.iter().map(|seen| self.distance_in_pixels(position, seen)).sum::<f64>();
        Some(SparsePoint { position, colour, error: error / track.len() as f64, track })
    }

    /// Distance in px between an observation and the projection of a point.
    fn distance_in_pixels(&self, position: [f64; 3], seen: &PointObservation) -> f64 {
        let [x, y] = self.camera.project(self.poses[seen.view].apply(position));
        let (dx, dy) = (x - seen.pixel[0], y - seen.pixel[1]);
        (dx * dx + dy * dy).sqrt()
    }

    fn words(&self, candidate: usize, purpose: usize) -> [u32; 4] {
        rng::philox(self.seed, rng::stream::SCENE, FIRST_RANDOM_STEP + purpose as u64, candidate as u32)
    }

    fn normals(&self, candidate: usize, purpose: usize) -> [f64; 3] {
        let n =
            rng::normals(self.seed, rng::stream::SCENE, FIRST_RANDOM_STEP + purpose as u64, candidate as u32);
        [n[0], n[1], n[2]].map(f64::from)
    }
}

/// First step of the random numbers of points; noise and cameras use those below.
const FIRST_RANDOM_STEP: u64 = 16;

/// The i-th of a low-discrepancy sequence of positions in the unit square (Roberts 2018, "R2": powers of the plastic
/// number).
fn low_discrepancy(i: usize) -> [f64; 2] {
    let i = i as f64 + 0.5;
    let place = [i * 0.754_877_666_246_692_7, i * 0.569_840_290_998_053_3];
    place.map(|v| v - v.floor())
}
