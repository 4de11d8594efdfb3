//! Haze: how much is drawn in front of surfaces whose depth is known.
//!
//! ```text
//! haze = mean over pixels with known depth D of the weight blended in front of 0.9 D      0 = clear, 1 = opaque
//! ```
//! A depth is known where a point of the reconstruction is visible. Points have no surface, so a point behind a wall
//! would be "visible" between two points of the wall: points that are much farther than the nearest point around them
//! count as occluded.

use gausset_core::engine::OcclusionQuery;
use gausset_core::{Camera, Pose};
use gausset_io::dataset::Point;

/// A splat is in front of a surface if it is nearer than this fraction of the known depth; the rest is tolerance for
/// the splats of the surface itself and for errors of the point.
const FRONT_FRACTION: f32 = 0.9;
/// Grid cells along the width of an image in which points occlude each other.
const CELLS_ALONG_WIDTH: f64 = 64.0;
/// A point is occluded if it is farther than the nearest one around it by more than this factor.
const OCCLUSION_FACTOR: f32 = 1.2;

/// The pixels of a view with a known depth, and the depth up to which a splat is in front of it, for
/// [`gausset_core::engine::Engine::weight_in_front`]. Of several points in a pixel the nearest counts; masked pixels
/// are left out.
pub(super) fn depth_queries(
    camera: &Camera,
    pose: &Pose,
    points: &[Point],
    mask: Option<&[u8]>,
) -> Vec<OcclusionQuery> {
    let (width, height) = (camera.width as usize, camera.height as usize);
    let cell_side = (f64::from(camera.width) / CELLS_ALONG_WIDTH).max(1.0);
    let cell_of = |x: usize, y: usize| [x, y].map(|v| (v as f64 / cell_side) as usize);
    let [last_column, last_row] = cell_of(width - 1, height - 1);
    let columns = last_column + 1;

    // Two passes over the points instead of a list of the visible ones: there may be millions.
    let mut nearest_in_cell = vec![f32::INFINITY; columns * (last_row + 1)];
    for (x, y, depth) in points.iter().filter_map(|point| project(camera, pose, point)) {
        let [column, row] = cell_of(x, y);
        let nearest = &mut nearest_in_cell[row * columns + column];
        *nearest = nearest.min(depth);
    }
    let nearest_around = |x: usize, y: usize| {
        let [column, row] = cell_of(x, y);
        let rows = row.saturating_sub(1)..=(row + 1).min(last_row);
        let cells = rows.flat_map(|row| {
            let first = row * columns;
            &nearest_in_cell[first + column.saturating_sub(1)..=first + (column + 1).min(last_column)]
        });
        cells.copied().fold(f32::INFINITY, f32::min)
    };
    let mut depths = vec![f32::INFINITY; width * height];
    for (x, y, depth) in points.iter().filter_map(|point| project(camera, pose, point)) {
        if depth <= OCCLUSION_FACTOR * nearest_around(x, y) {
            let nearest = &mut depths[y * width + x];
            *nearest = nearest.min(depth);
        }
    }
    let known = depths
        .iter()
        .enumerate()
        .filter(|(i, depth)| depth.is_finite() && mask.is_none_or(|mask| mask[*i] != 0));
    let query = |(i, depth): (usize, &f32)| OcclusionQuery {
        pixel: [(i % width) as u32, (i / width) as u32],
        depth: FRONT_FRACTION * depth,
    };
    known.map(query).collect()
}

/// Pixel and depth of a point, if it is in the image.
fn project(camera: &Camera, pose: &Pose, point: &Point) -> Option<(usize, usize, f32)> {
    let local = pose.apply(point.position);
    let z = camera.depth(local);
    if z.is_nan() || z <= 0.0 {
        return None;
    }
    let [u, v] = camera.project(local);
    let inside = u >= 0.0 && u < f64::from(camera.width) && v >= 0.0 && v < f64::from(camera.height);
    inside.then_some((u as usize, v as usize, z as f32))
}

/// The mean; `None` for an empty slice.
pub(super) fn mean(weights: &[f32]) -> Option<f64> {
    let sum: f64 = weights.iter().copied().map(f64::from).sum();
    (!weights.is_empty()).then(|| sum / weights.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 640x480, one unit at depth 1 is 500 px; cells of 10 px.
    fn camera() -> Camera {
        Camera::new(640, 480, 500.0, 500.0, 320.0, 240.0).unwrap()
    }

    /// The point that the camera at the origin sees at a pixel and depth.
    fn at(u: f64, v: f64, z: f64) -> Point {
        let position = [(u - 320.0) * z / 500.0, (v - 240.0) * z / 500.0, z];
        Point { position, colour: [0; 3], error: 0.0, track_length: 3 }
    }

    fn pixels(points: &[Point], mask: Option<&[u8]>) -> Vec<([u32; 2], f32)> {
        let found = depth_queries(&camera(), &Pose::IDENTITY, points, mask);
        found.iter().map(|q| (q.pixel, q.depth)).collect()
    }

    #[test]
    fn points_that_are_seen_ask_at_their_pixel_for_nine_tenths_of_their_depth() {
        let outside = [at(-0.5, 9.0, 2.0), at(640.5, 9.0, 2.0), at(9.0, 480.5, 2.0), at(9.0, 9.0, -2.0)];
        assert_eq!(pixels(&outside, None), []);
        assert_eq!(
            pixels(&[at(100.5, 50.5, 2.0), at(639.5, 479.5, 10.0)], None),
            [([100, 50], 0.9 * 2.0), ([639, 479], 0.9 * 10.0)]
        );
        assert_eq!(pixels(&[], None), []);
    }

    #[test]
    fn what_is_far_behind_a_point_close_by_is_hidden_and_what_is_a_little_behind_is_not() {
        let wall = at(105.5, 55.5, 2.0);
        // In the same cell, in the next one, and in the next but one.
        for (u, hidden) in [(107.5, true), (112.5, true), (122.5, false)] {
            assert_eq!(pixels(&[wall, at(u, 55.5, 2.5)], None).len(), if hidden { 1 } else { 2 }, "{u}");
            assert_eq!(pixels(&[wall, at(u, 55.5, 2.3)], None).len(), 2, "{u}");
        }
    }

    #[test]
    fn the_nearest_point_of_a_pixel_counts_and_a_masked_pixel_does_not() {
        assert_eq!(pixels(&[at(9.2, 9.2, 2.2), at(9.7, 9.7, 2.0)], None), [([9, 9], 0.9 * 2.0)]);
        let mut mask = vec![1; 640 * 480];
        mask[9 * 640 + 9] = 0;
        assert_eq!(pixels(&[at(9.2, 9.2, 2.0)], Some(&mask)), []);
    }

    #[test]
    fn without_a_known_depth_there_is_no_haze_rather_than_none() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[0.25, 0.75]), Some(0.5));
    }
}
