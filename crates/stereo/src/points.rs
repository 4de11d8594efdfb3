//! Dense points from depth maps, with priority for regions without sparse points.
//!
//! A pixel is a candidate if two neighbours confirm it and determine its depth, or the only one that sees it does. Its
//! weight is
//!
//! ```text
//! min(depth / focal, 3 m)² (1 - coverage) / (1 + neighbours that agree)        m = median of depth / focal
//! ```
//! It is the surface area of the pixel, reduced where the image already shows SfM points, and divided among the views
//! that show it. The limit keeps surfaces far behind a subject from taking all points. Each candidate is drawn with a
//! probability in proportion to its weight, by a random number of its view and pixel; a point in a voxel that an earlier
//! one occupies (in order of views, rows, columns) is left out. Voxels are as large as the point spacing in the image,
//! times depth / focal, rounded down to a power of two.

use std::collections::HashSet;

use gausset_compute::Pool;
use gausset_compute::rng::{philox, stream, uniform};
use gausset_core::Stage;
use gausset_core::statistics::median;

use crate::{DepthMap, Depths, StereoScene, StereoView};

/// Size of the cells in which coverage is counted, in px of the depth map.
const CELL_SIZE: usize = 8;
/// Maximum size of a pixel on the surface that counts, relative to the median.
const MAX_FOOTPRINT: f64 = 3.0;
/// The median is that of every 16th candidate.
const MEDIAN_STRIDE: usize = 16;
/// Number of points that cover a cell completely.
const FULL_CELL_POINTS: f64 = 4.0;
/// Maximum distance between points in the image, in px of the depth map, so that an isolated point remains a detail.
const MAX_SPACING: f64 = 6.0;

/// Options of dense points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointOptions {
    /// Maximum number of points.
    pub count: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// A point on a surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DensePoint {
    /// Position in world space, scene units.
    pub position: [f64; 3],
    /// Colour of its pixel.
    pub colour: [u8; 3],
    /// Size of the surface that it represents: depth / focal length x distance between points in the image, in scene
    /// units.
    pub scale: f32,
    /// The view that it comes from.
    pub view: u32,
}

/// Points from depth maps, in the order of views, rows and columns; at most `options.count`. The number of useful
/// points follows from the [`Reliability`](crate::Reliability).
#[must_use]
pub fn dense_points(
    scene: &StereoScene<'_>,
    depths: &Depths,
    options: &PointOptions,
    pool: &Pool,
) -> Vec<DensePoint> {
    if options.count == 0 {
        return Vec::new();
    }
    let _span = gausset_prof::span(Stage::Stereo.name());
    let wanted = options.count as f64;
    let coverage = pool.map(depths.maps.len(), |view| coverage(scene, view, &depths.maps[view]));
    let limit = MAX_FOOTPRINT * median_footprint(depths, &coverage);
    let weight = |candidate: &PointCandidate| candidate.weight * candidate.footprint.min(limit).powi(2);
    let mut total = 0.0;
    for_each_candidate(depths, &coverage, |candidate| total += weight(&candidate));
    let mut points = Vec::new();
    if total <= 0.0 {
        return points;
    }
    let mut taken = HashSet::new();
    for_each_candidate(depths, &coverage, |candidate| {
        let share = (wanted * weight(&candidate) / total).min(1.0);
        let word = philox(options.seed, stream::STEREO, candidate.view as u64, candidate.pixel as u32)[0];
        if points.len() >= options.count || f64::from(uniform(word)) >= share {
            return;
        }
        let spacing = (1.0 / share.sqrt()).min(MAX_SPACING);
        let scale = candidate.footprint * spacing;
        let position = scene.views[candidate.view].pose.inverse().apply(candidate.in_camera);
        if taken.insert(voxel(position, scale)) {
            let view = candidate.view as u32;
            points.push(DensePoint { position, colour: candidate.colour, scale: scale as f32, view });
        }
    });
    points
}

/// Median size of a pixel on the surface, over the candidates.
fn median_footprint(depths: &Depths, coverage: &[Vec<f64>]) -> f64 {
    let (mut count, mut footprints) = (0, Vec::new());
    for_each_candidate(depths, coverage, |candidate| {
        if count % MEDIAN_STRIDE == 0 {
            footprints.push(candidate.footprint);
        }
        count += 1;
    });
    median(footprints).unwrap_or_default()
}

/// The voxel of a point: its size as a power of two, and its index.
fn voxel(position: [f64; 3], scale: f64) -> (i32, [i64; 3]) {
    let power = libm::floor(libm::log2(scale)) as i32;
    let size = libm::exp2(f64::from(power));
    (power, position.map(|v| libm::floor(v / size) as i64))
}

/// A pixel that can become a point.
struct PointCandidate {
    view: usize,
    pixel: usize,
    in_camera: [f64; 3],
    colour: [u8; 3],
    /// depth / focal length, in scene units per px.
    footprint: f64,
    /// Without the area of the pixel.
    weight: f64,
}

/// Calls `f` with all candidates in order. `coverage` is that of each view.
fn for_each_candidate(depths: &Depths, coverage: &[Vec<f64>], mut f: impl FnMut(PointCandidate)) {
    for (view, (map, coverage)) in depths.maps.iter().zip(coverage).enumerate() {
        let Some(camera) = map.camera else { continue };
        let cells = (camera.width as usize).div_ceil(CELL_SIZE);
        let focal = (camera.fx * camera.fy).sqrt();
        for (pixel, (&depth, &support)) in map.depth.iter().zip(&map.support).enumerate() {
            if depth <= 0.0 || !support.can_be_point() {
                continue;
            }
            let (x, y) = (pixel % camera.width as usize, pixel / camera.width as usize);
            let (z, u, v) = (f64::from(depth), x as f64 + 0.5, y as f64 + 0.5);
            let footprint = z / focal;
            let free = 1.0 - coverage[y / CELL_SIZE * cells + x / CELL_SIZE];
            f(PointCandidate {
                view,
                pixel,
                in_camera: [(u - camera.cx) / camera.fx * z, (v - camera.cy) / camera.fy * z, z],
                colour: std::array::from_fn(|channel| map.rgb[3 * pixel + channel]),
                footprint,
                weight: free / f64::from(1 + support.agree),
            });
        }
    }
}

/// Fraction of each cell of a depth map that SfM points cover, 0..1; empty if the view has no depth.
fn coverage(scene: &StereoScene<'_>, view: usize, map: &DepthMap) -> Vec<f64> {
    let Some(camera) = &map.camera else { return Vec::new() };
    let cells = [(camera.width as usize).div_ceil(CELL_SIZE), (camera.height as usize).div_ceil(CELL_SIZE)];
    let mut counts = vec![0.0f64; cells[0] * cells[1]];
    let StereoView { pose, .. } = &scene.views[view];
    let mut count = |point: [f64; 3]| {
        let p = pose.apply(point);
        let [u, v] = camera.project(p);
        let is_inside = p[2] > 0.0
            && p[2] <= map.plan.depths[1]
            && (0.0..f64::from(camera.width)).contains(&u)
            && (0.0..f64::from(camera.height)).contains(&v);
        if is_inside {
            counts[v as usize / CELL_SIZE * cells[0] + u as usize / CELL_SIZE] += 1.0;
        }
    };
    match scene.visible_points.get(view) {
        Some(seen) => seen.iter().filter_map(|&p| scene.points.get(p as usize)).for_each(|&p| count(p)),
        None => scene.points.iter().for_each(|&p| count(p)),
    }
    counts.iter().map(|&n| (n / FULL_CELL_POINTS).min(1.0)).collect()
}
