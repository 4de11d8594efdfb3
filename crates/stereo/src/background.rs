//! Background points: what stereo and SfM cannot match (plain walls, floors, sky), on a sphere behind the scene.
//!
//! Density control copies splats that exist. Where none exists, walls grow out of copies of silhouettes, in front of
//! the subject, and no training view contradicts them (research/experiments.md, "Background points at the start").
//!
//! ```text
//! confirmed pixels ─▶ closed ─▶ blocks without one ─▶ sphere ─▶ cells: mean colour and direction ─▶ a point per cell
//! ```
//! With X the initial points and C the cameras, the centre c is the median of X per coordinate, each point counted once
//! per view that shows it: a subject is in most views, what is far behind it in few. The radius is
//! R = max(2.5 x 95 % quantile of |C - c|, 99 % quantile of |X - c|). A block lies where its ray leaves the sphere, so
//! that no background point is between a camera and the scene. Cells have equal angles of latitude, seen from c, and
//! about as much of longitude.
//!
//! The distance of the background is not known, so what has texture (trees, facades) would appear in other places than
//! it is. Only plain blocks count, and cells in which they are the majority.
//!
//! One sphere suits cameras around a subject. There are no points if less than 70 % of the views see c: a walk or a room.
//!
//! All lengths are relative to R. Sums are f64, in the order of views, rows and columns.

use std::f64::consts::{PI, TAU};

use gausset_core::matrix::{distance, dot, norm, transpose_mul_vec};
use gausset_core::{Camera, Stage};

use crate::{DepthMap, Depths, StereoView};

/// Minimum fraction of the views that see the centre.
const MIN_VIEWS_OF_CENTRE: f64 = 0.7;
/// Number of points of which the centre is the median, at most.
const MAX_CENTRE_POINTS: usize = 20_000;
/// The quantile of the camera distances that the sphere contains, and the factor on it.
const CAMERAS: (f64, f64) = (0.95, 2.5);
/// The quantile of the point distances that the sphere contains.
const POINTS: f64 = 0.99;
/// Radii by which confirmed pixels grow and then shrink, relative to the width of the map: windows of 15 and 11 px in a
/// map of 360 px.
const GROW: f64 = 7.0 / 360.0;
const SHRINK: f64 = 5.0 / 360.0;
/// Side of a block in px of the depth map.
const BLOCK: usize = 4;
/// Rows of cells: 2.5 degrees each, and 20 degrees at least if points are scarce.
const MAX_ROWS: usize = 72;
const MIN_ROWS: usize = 9;
/// Minimum number of plain blocks of a cell, over all views.
const MIN_BLOCKS: u32 = 2;
/// Largest standard deviation of the luma of a plain block, 1 = white.
const PLAIN: f64 = 0.03;
/// Minimum fraction of the blocks of a cell that are plain.
const MIN_PLAIN: f64 = 0.5;
/// Standard deviation of a point relative to the side of its cell.
const SCALE: f64 = 0.6;

/// Options of background points.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundOptions<'a> {
    /// Initial points in world space: sparse and dense.
    pub points: &'a [[f32; 3]],
    /// Log gain of each view per channel, by which its colours are divided; none for views beyond the end.
    pub log_gains: &'a [[f64; 3]],
    /// Maximum number of points. Cells become larger to stay within it.
    pub count: usize,
}

/// A point of the background.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundPoint {
    /// Position in world space, scene units.
    pub position: [f64; 3],
    /// Mean colour of its cell, divided by the gains; 1 = white.
    pub colour: [f32; 3],
    /// Standard deviation in scene units: 0.6 sides of its cell.
    pub scale: f32,
}

/// Points on a sphere behind everything, for what the depth maps do not know, in the order of cells; none where a
/// sphere does not suit the views. Images with a transparent background have none to show: do not ask for them.
#[must_use]
pub fn background_points(
    views: &[StereoView],
    depths: &Depths,
    options: &BackgroundOptions<'_>,
) -> Vec<BackgroundPoint> {
    let _span = gausset_prof::span(Stage::Stereo.name());
    let (Some(sphere), Some(cells)) =
        (Sphere::around(views, options.points), CellGrid::with_at_most(options.count))
    else {
        return Vec::new();
    };
    let mut sums = vec![CellSum::default(); cells.len()];
    for (index, (view, map)) in views.iter().zip(&depths.maps).enumerate() {
        // Without a neighbour to compare with, no pixel is known to be hard to match.
        let Some(camera) = map.camera.filter(|_| !map.plan.neighbours.is_empty()) else { continue };
        let gain = options.log_gains.get(index).copied().unwrap_or_default().map(libm::exp);
        for_each_unknown_block(map, &camera, |pixel, colour, is_plain| {
            let ray = transpose_mul_vec(&view.pose.rotation, camera.ray(pixel));
            let Some(direction) = sphere.exit_direction(view.pose.centre(), ray) else { return };
            let sum = &mut sums[cells.index(direction)];
            sum.blocks += 1;
            if !is_plain {
                return;
            }
            for axis in 0..3 {
                sum.direction[axis] += direction[axis];
                sum.colour[axis] += colour[axis] / gain[axis];
            }
            sum.plain += 1;
        });
    }
    let scale = (SCALE * sphere.radius * cells.angle()) as f32;
    let known = sums
        .iter()
        .filter(|sum| sum.plain >= MIN_BLOCKS && f64::from(sum.plain) >= MIN_PLAIN * f64::from(sum.blocks));
    let point = |sum: &CellSum| {
        let to_surface = sphere.radius / norm(sum.direction);
        BackgroundPoint {
            position: std::array::from_fn(|axis| sphere.centre[axis] + sum.direction[axis] * to_surface),
            colour: sum.colour.map(|c| (c / f64::from(sum.plain)) as f32),
            scale,
        }
    };
    known.map(point).collect()
}

/// The sphere on which the background lies.
#[derive(Clone, Copy, Debug)]
struct Sphere {
    /// In world space.
    centre: [f64; 3],
    radius: f64,
}

impl Sphere {
    /// The sphere around a scene; `None` if the views do not stand around a subject.
    fn around(views: &[StereoView], points: &[[f32; 3]]) -> Option<Self> {
        let centre = centre(views, points)?;
        let seeing = views.iter().filter(|view| sees(view, centre)).count();
        if views.is_empty() || (seeing as f64) < MIN_VIEWS_OF_CENTRE * views.len() as f64 {
            return None;
        }
        let mut cameras: Vec<f64> = views.iter().map(|view| distance(view.pose.centre(), centre)).collect();
        let mut spread: Vec<f64> = points.iter().map(|p| distance(p.map(f64::from), centre)).collect();
        let (share, factor) = CAMERAS;
        let radius = (factor * quantile(&mut cameras, share)).max(quantile(&mut spread, POINTS));
        // Splats are f32.
        let farthest = centre.iter().fold(radius, |sum, v| sum + v.abs()) as f32;
        (radius > 0.0 && farthest.is_finite()).then_some(Self { centre, radius })
    }

    /// Unit direction, seen from the centre, in which a ray leaves the sphere: the second intersection. `None` if it
    /// misses the sphere or leaves it behind its origin.
    fn exit_direction(&self, origin: [f64; 3], ray: [f64; 3]) -> Option<[f64; 3]> {
        let from_centre: [f64; 3] = std::array::from_fn(|axis| origin[axis] - self.centre[axis]);
        let length = norm(ray);
        let along = dot(from_centre, ray) / length;
        let inside = along * along - dot(from_centre, from_centre) + self.radius * self.radius;
        let travel = inside.sqrt() - along;
        (inside >= 0.0 && travel > 0.0).then(|| {
            std::array::from_fn(|axis| (from_centre[axis] + travel / length * ray[axis]) / self.radius)
        })
    }
}

/// Median of the points per coordinate, each counted once per view that shows it.
fn centre(views: &[StereoView], points: &[[f32; 3]]) -> Option<[f64; 3]> {
    let stride = points.len().div_ceil(MAX_CENTRE_POINTS).max(1);
    let some = points.iter().step_by(stride).map(|point| point.map(f64::from));
    let counted: Vec<([f64; 3], usize)> =
        some.map(|point| (point, views.iter().filter(|view| sees(view, point)).count())).collect();
    let total: usize = counted.iter().map(|(_, count)| count).sum();
    let axis = |axis: usize| {
        let mut values: Vec<(f64, usize)> = counted.iter().map(|(p, count)| (p[axis], *count)).collect();
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut before = 0;
        let middle = values.iter().find(|(_, count)| {
            before += count;
            2 * before > total
        });
        middle.map(|(value, _)| *value)
    };
    Some([axis(0)?, axis(1)?, axis(2)?])
}

/// Whether a point is in the image of a view.
fn sees(view: &StereoView, point: [f64; 3]) -> bool {
    let (camera, in_camera) = (&view.camera, view.pose.apply(point));
    let [u, v] = camera.project(in_camera);
    in_camera[2] > 0.0
        && (0.0..f64::from(camera.width)).contains(&u)
        && (0.0..f64::from(camera.height)).contains(&v)
}

/// A quantile of at least one value, interpolated between its neighbours; sorts the values.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let place = share * (values.len() - 1) as f64;
    let (below, above) = (values[place as usize], values[place.ceil() as usize]);
    below + place.fract() * (above - below)
}

/// Cells of directions: rows of equal latitude, and columns that are about as wide as rows are high.
#[derive(Clone, Debug)]
struct CellGrid {
    /// Index of the first cell of each row, and the number of cells.
    first: Vec<usize>,
}

impl CellGrid {
    fn new(rows: usize) -> Self {
        let mut first = vec![0];
        for row in 0..rows {
            let latitude = PI * ((row as f64 + 0.5) / rows as f64 - 0.5);
            let columns = (2.0 * rows as f64 * libm::cos(latitude)).round().max(1.0);
            first.push(first[row] + columns as usize);
        }
        Self { first }
    }

    /// The finest grid with at most `count` cells; `None` if it would be too coarse.
    fn with_at_most(count: usize) -> Option<Self> {
        (MIN_ROWS..=MAX_ROWS).rev().map(Self::new).find(|grid| grid.len() <= count)
    }

    fn rows(&self) -> usize {
        self.first.len() - 1
    }

    fn len(&self) -> usize {
        self.first[self.rows()]
    }

    /// Height of a row in radians.
    fn angle(&self) -> f64 {
        PI / self.rows() as f64
    }

    /// The cell of a unit direction.
    fn index(&self, [x, y, z]: [f64; 3]) -> usize {
        let part = |share: f64, parts: usize| ((share * parts as f64) as usize).min(parts - 1);
        let row = part(libm::asin(z.clamp(-1.0, 1.0)) / PI + 0.5, self.rows());
        let first = self.first[row];
        first + part(libm::atan2(y, x) / TAU + 0.5, self.first[row + 1] - first)
    }
}

/// The blocks of a cell, and sums over the plain ones.
#[derive(Clone, Copy, Debug, Default)]
struct CellSum {
    /// Unit directions.
    direction: [f64; 3],
    /// Colours divided by gains.
    colour: [f64; 3],
    blocks: u32,
    plain: u32,
}

/// Calls `f` with the centre in px and the mean colour (1 = white) of all blocks of a map without a known pixel, and
/// whether they are plain. A block with a masked pixel is neither known nor unknown.
fn for_each_unknown_block(map: &DepthMap, camera: &Camera, mut f: impl FnMut([f64; 2], [f64; 3], bool)) {
    let (width, height) = (camera.width as usize, camera.height as usize);
    let known = known_pixels(map, width);
    let is_unknown = |i: usize| !known[i] && map.mask.as_ref().is_none_or(|mask| mask[i] != 0);
    for y in 0..height / BLOCK {
        for x in 0..width / BLOCK {
            let corner = (y * width + x) * BLOCK;
            let pixels = || (0..BLOCK * BLOCK).map(move |i| corner + i / BLOCK * width + i % BLOCK);
            if !pixels().all(is_unknown) {
                continue;
            }
            let (mut sum, mut lumas, mut squares) = ([0u32; 3], 0.0, 0.0);
            for pixel in pixels() {
                let rgb = [0, 1, 2].map(|channel| map.rgb[3 * pixel + channel]);
                (0..3).for_each(|channel| sum[channel] += u32::from(rgb[channel]));
                let luma = luma(rgb);
                (lumas, squares) = (lumas + luma, squares + luma * luma);
            }
            let count = (BLOCK * BLOCK) as f64;
            let variance = squares / count - (lumas / count) * (lumas / count);
            let centre = [x, y].map(|n| (n * BLOCK) as f64 + 0.5 * BLOCK as f64);
            let colour = sum.map(|sum| f64::from(sum) / (255 * BLOCK * BLOCK) as f64);
            f(centre, colour, variance <= PLAIN * PLAIN);
        }
    }
}

/// Luma of a pixel, 1 = white (BT.601).
fn luma([r, g, b]: [u8; 3]) -> f64 {
    (0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)) / 255.0
}

/// Confirmed pixels of a map, closed: dilated, then eroded. Pixels outside the map count for nothing.
fn known_pixels(map: &DepthMap, width: usize) -> Vec<bool> {
    let radius = |share: f64| (share * width as f64).round() as usize;
    let mut pixels: Vec<bool> = map.depth.iter().map(|&depth| depth > 0.0).collect();
    dilate(&mut pixels, width, radius(GROW));
    pixels.iter_mut().for_each(|known| *known = !*known);
    dilate(&mut pixels, width, radius(SHRINK));
    pixels.iter_mut().for_each(|known| *known = !*known);
    pixels
}

/// Marks all pixels whose square of `radius` px around them contains a marked one.
fn dilate(pixels: &mut [bool], width: usize, radius: usize) {
    let height = pixels.len().checked_div(width).unwrap_or(0);
    let mut line = Vec::with_capacity(width.max(height));
    (0..height).for_each(|y| dilate_line(pixels, (y * width, 1, width), radius, &mut line));
    (0..width).for_each(|x| dilate_line(pixels, (x, width, height), radius, &mut line));
}

/// Dilates the pixels of a row or column, which is given by its first pixel, the step to the next, and its length.
fn dilate_line(
    pixels: &mut [bool],
    (first, step, len): (usize, usize, usize),
    radius: usize,
    line: &mut Vec<bool>,
) {
    line.clear();
    line.extend((0..len).map(|i| pixels[first + i * step]));
    let mut marked = line.iter().take(radius).filter(|&&marked| marked).count();
    for i in 0..len {
        marked += usize::from(line.get(i + radius) == Some(&true));
        marked -= usize::from(i > radius && line[i - radius - 1]);
        pixels[first + i * step] = marked > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cover_every_direction_once_and_become_larger_when_points_are_scarce() {
        let grid = CellGrid::with_at_most(usize::MAX).unwrap();
        assert_eq!((grid.rows(), grid.angle().to_degrees()), (72, 2.5));
        assert!((6_500..6_700).contains(&grid.len()), "{}", grid.len());
        let mut hits = vec![0; grid.len()];
        for i in (0..400_000).map(f64::from) {
            // Fibonacci directions: evenly spread.
            let (z, turn) = (1.0 - (i + 0.5) / 200_000.0, i * 2.399_963_229_728_653);
            let r = (1.0 - z * z).sqrt();
            hits[grid.index([r * libm::cos(turn), r * libm::sin(turn), z])] += 1;
        }
        // 60 on average; near the poles the rounded number of columns matters.
        assert!(hits.iter().all(|hits| (40..80).contains(hits)), "{:?}", hits.iter().min());
        for direction in [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [-1.0, -0.0, 0.0]] {
            assert!(grid.index(direction) < grid.len());
        }
        let coarse = CellGrid::with_at_most(1_000).unwrap();
        assert!((900..=1_000).contains(&coarse.len()) && coarse.angle() > grid.angle());
        assert!(CellGrid::with_at_most(90).is_none());
    }

    #[test]
    fn closing_fills_gaps_and_grows_pixels_by_the_difference_of_the_radii() {
        // Radii of 7 and 5 px.
        let (width, height) = (360, 40);
        let mut map = DepthMap { depth: vec![0.0; width * height], ..DepthMap::default() };
        for x in [100, 114, 200, 216, 355] {
            map.depth[20 * width + x] = 1.0;
        }
        let known = known_pixels(&map, width);
        let row: Vec<usize> = (0..width).filter(|x| known[20 * width + x]).collect();
        let expected: Vec<usize> = (98..=116).chain(198..=202).chain(214..=218).chain(353..360).collect();
        assert_eq!(row, expected);
        let column: Vec<usize> = (0..height).filter(|y| known[y * width + 100]).collect();
        assert_eq!(column, (18..=22).collect::<Vec<_>>());
    }

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.75), 2.5);
        assert_eq!(quantile(&mut [7.0], 0.95), 7.0);
        assert_eq!(quantile(&mut [4.0, 0.0], 1.0), 4.0);
    }
}
