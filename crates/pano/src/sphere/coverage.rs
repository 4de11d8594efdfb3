//! The fraction of the sphere that a set of views covers, computed exactly, not sampled.
//!
//! The sphere starts as eight spherical triangles. Four planes through its centre bound a view. They split every convex
//! spherical polygon into the part inside the view, which is removed, and at most four convex polygons outside it. What
//! remains after all views is the hole; its area is a sum of triangle areas (Van Oosterom and Strackee 1983):
//!
//! ```text
//! tan(E/2) = a·(b × c) / (1 + a·b + b·c + c·a)
//! ```
//! Pieces below 1e-12 steradians are rounding errors along coincident edges, and are dropped.

mod complete;
mod polygon;

pub use complete::{CompleteError, views_to_complete};
use gausset_core::se3;
use polygon::{Polygon, ViewPlanes, connected_components, sphere};

use crate::sphere::geometry::{View, direction_from_equirect};

/// Smallest piece that is kept, steradians: 0.04 square arc seconds.
const MIN_PIECE_AREA: f64 = 1e-12;
/// Area of the whole sphere, steradians.
const SPHERE_AREA: f64 = 4.0 * std::f64::consts::PI;
/// Largest number of pieces in the search for the minimum view count.
const MAX_PIECES: usize = 1 << 20;

/// Coverage of the sphere by a set of views.
#[derive(Clone, Debug, PartialEq)]
pub struct Coverage {
    /// Fraction of the sphere that at least one view sees, 0 to 1.
    pub fraction: f64,
    /// Mean number of views that see a direction.
    pub mean_views: f64,
    /// Minimum number of views that see a direction; `None` if the search was too large.
    pub min_views: Option<u32>,
    /// Connected parts that no view sees, the largest first.
    pub holes: Vec<Hole>,
}

/// A connected part of the sphere that no view sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hole {
    /// Fraction of the sphere, 0 to 1.
    pub fraction: f64,
    /// Yaw of its centre, degrees; `None` for a belt without a centre.
    pub yaw: Option<f64>,
    /// Pitch of its centre, degrees upwards.
    pub pitch: Option<f64>,
    /// Angle from the centre to its farthest point, degrees.
    pub radius: f64,
}

impl Coverage {
    /// Computes the coverage of these views.
    #[must_use]
    pub fn new(views: &[View]) -> Self {
        let planes: Vec<ViewPlanes> = views.iter().map(ViewPlanes::new).collect();
        let rest = uncovered(&planes);
        let mut holes: Vec<Hole> =
            connected_components(&rest).iter().map(|part| Hole::from_polygons(part)).collect();
        holes.sort_by(|a, b| b.fraction.total_cmp(&a.fraction));
        let missing: f64 = rest.iter().map(Polygon::area).sum();
        let least = if rest.is_empty() { min_view_count(&planes) } else { Some(0) };
        Self {
            fraction: if rest.is_empty() { 1.0 } else { 1.0 - missing / SPHERE_AREA },
            mean_views: views.iter().map(view_fraction).sum(),
            min_views: least,
            holes,
        }
    }
}

impl Hole {
    fn from_polygons(part: &[&Polygon]) -> Self {
        let area: f64 = part.iter().map(|p| p.area()).sum();
        let sums = part.iter().map(|p| p.moment());
        let middle = sums.fold([0.0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
        let length = se3::norm(middle);
        let mut hole = Self { fraction: area / SPHERE_AREA, yaw: None, pitch: None, radius: 180.0 };
        if length > 1e-6 * area {
            let middle = middle.map(|v| v / length);
            let cosine =
                part.iter().flat_map(|p| p.corners()).map(|c| se3::dot(middle, *c)).fold(1.0, f64::min);
            let (yaw, pitch) = yaw_pitch(middle);
            hole = Self {
                yaw: Some(yaw),
                pitch: Some(pitch),
                radius: libm::acos(cosine.max(-1.0)).to_degrees(),
                ..hole
            };
        }
        hole
    }
}

/// Yaw and pitch of a unit direction in degrees; straight up and down have yaw 0.
fn yaw_pitch(d: [f64; 3]) -> (f64, f64) {
    let flat = libm::hypot(d[0], d[2]);
    let yaw = if flat < 1e-9 { 0.0 } else { libm::atan2(d[0], d[2]).to_degrees() };
    (yaw, libm::atan2(-d[1], flat).to_degrees())
}

/// Fraction of the sphere that one view sees: `asin(p q / sqrt((1 + p²)(1 + q²))) / π` with the tangents p, q of half
/// its fields of view.
#[must_use]
pub fn view_fraction(view: &View) -> f64 {
    let p = 0.5 * f64::from(view.width) / view.focal();
    let q = 0.5 * f64::from(view.height) / view.focal();
    libm::asin(p * q / libm::sqrt((1.0 + p * p) * (1.0 + q * q))) / std::f64::consts::PI
}

/// Counts the views that see a direction.
pub struct ViewCounter(Vec<ViewPlanes>);

impl ViewCounter {
    /// Prepares these views.
    #[must_use]
    pub fn new(views: &[View]) -> Self {
        Self(views.iter().map(ViewPlanes::new).collect())
    }

    /// Number of views that see a direction.
    #[must_use]
    pub fn count(&self, d: [f64; 3]) -> u32 {
        self.0.iter().filter(|view| view.sees(d)).count() as u32
    }
}

/// Number of views that see each cell of a grid over the panorama: rows from the top, columns from the left.
#[must_use]
pub fn view_count_grid(views: &[View], columns: usize, rows: usize) -> Vec<u32> {
    let seen = ViewCounter::new(views);
    let (width, height) = (columns as f64, rows as f64);
    (0..columns * rows)
        .map(|i| {
            let (x, y) = ((i % columns) as f64 + 0.5, (i / columns) as f64 + 0.5);
            seen.count(direction_from_equirect(x, y, width, height))
        })
        .collect()
}

/// The parts of the sphere that none of the views sees.
fn uncovered(views: &[ViewPlanes]) -> Vec<Polygon> {
    views.iter().fold(sphere(), |rest, view| subtract_view(&rest, view))
}

/// The parts of the polygons that a view does not see.
fn subtract_view(rest: &[Polygon], view: &ViewPlanes) -> Vec<Polygon> {
    let mut left = Vec::with_capacity(rest.len());
    for polygon in rest {
        view.split_polygon(polygon, &mut left);
    }
    left
}

/// The minimum number of views that see a direction. Splits each piece by all views in turn (branch and bound); drops
/// pieces that cannot have fewer views than the best so far.
fn min_view_count(views: &[ViewPlanes]) -> Option<u32> {
    let mut stack: Vec<(Polygon, usize, u32)> = sphere().into_iter().map(|p| (p, 0, 0)).collect();
    let (mut best, mut pieces) = (u32::MAX, 0usize);
    let mut outside = Vec::new();
    while let Some((piece, next, count)) = stack.pop() {
        if count >= best {
            continue;
        }
        let Some(view) = views.get(next) else {
            best = count;
            continue;
        };
        pieces += 1;
        if pieces > MAX_PIECES {
            return None;
        }
        // Outside parts are popped first: they have the smaller count.
        if let Some(inside) = view.split_polygon(&piece, &mut outside) {
            stack.push((inside, next + 1, count + 1));
        }
        stack.extend(outside.drain(..).map(|p| (p, next + 1, count)));
    }
    Some(best)
}

#[cfg(test)]
mod tests;
