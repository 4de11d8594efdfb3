//! Convex polygons on the sphere, and the four bounding planes of a view that split them.

use gausset_core::se3::{self, cross, dot, unit};

use super::MIN_PIECE_AREA;
use crate::sphere::geometry::View;

/// Largest distance from a plane at which a corner counts as on it.
const PLANE_TOLERANCE: f64 = 1e-13;
/// Largest difference of normals at which two edges count as on the same great circle.
const CIRCLE_TOLERANCE: f64 = 1e-9;

/// A convex polygon within a hemisphere: unit vectors, counter-clockwise seen from outside.
#[derive(Clone, Debug)]
pub(super) struct Polygon(Vec<[f64; 3]>);

/// The sphere as eight octants.
pub(super) fn sphere() -> Vec<Polygon> {
    (0..8)
        .map(|octant| {
            let sign = |bit: u32| if octant >> bit & 1 == 0 { 1.0 } else { -1.0 };
            let [x, y, z] = [[sign(0), 0.0, 0.0], [0.0, sign(1), 0.0], [0.0, 0.0, sign(2)]];
            let is_left_handed = sign(0) * sign(1) * sign(2) < 0.0;
            Polygon(if is_left_handed { vec![y, x, z] } else { vec![x, y, z] })
        })
        .collect()
}

impl Polygon {
    pub(super) fn corners(&self) -> &[[f64; 3]] {
        &self.0
    }

    /// A triangle fan: area and corners of each triangle.
    fn triangles(&self) -> impl Iterator<Item = (f64, [[f64; 3]; 3])> {
        let a = self.0[0];
        self.0[1..].windows(2).map(move |pair| {
            let (b, c) = (pair[0], pair[1]);
            let area = 2.0 * libm::atan2(dot(a, cross(b, c)), 1.0 + dot(a, b) + dot(b, c) + dot(c, a));
            (area, [a, b, c])
        })
    }

    /// Area in steradians.
    pub(super) fn area(&self) -> f64 {
        self.triangles().map(|(area, _)| area).sum()
    }

    /// Sum over the triangles of area times centre.
    pub(super) fn moment(&self) -> [f64; 3] {
        self.triangles().fold([0.0; 3], |sum, (area, [a, b, c])| {
            let middle = unit([0, 1, 2].map(|k| a[k] + b[k] + c[k]));
            [0, 1, 2].map(|k| sum[k] + area * middle[k])
        })
    }

    /// A direction well inside the polygon.
    pub(super) fn centre(&self) -> [f64; 3] {
        unit(self.moment())
    }

    /// Splits into the part with `normal · d ≥ 0` and the rest.
    fn split_by_plane(&self, normal: [f64; 3]) -> (Option<Self>, Option<Self>) {
        let heights: Vec<f64> = self
            .0
            .iter()
            .map(|&corner| {
                let height = dot(normal, corner);
                if height.abs() < PLANE_TOLERANCE { 0.0 } else { height }
            })
            .collect();
        if heights.iter().all(|&h| h >= 0.0) {
            return (Some(self.clone()), None);
        }
        if heights.iter().all(|&h| h <= 0.0) {
            return (None, Some(self.clone()));
        }
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for (k, (&corner, &height)) in self.0.iter().zip(&heights).enumerate() {
            if height >= 0.0 {
                above.push(corner);
            }
            if height <= 0.0 {
                below.push(corner);
            }
            let after = (k + 1) % self.0.len();
            if height * heights[after] < 0.0 {
                let (from, to) = (corner, self.0[after]);
                let on_plane = unit([0, 1, 2].map(|i| {
                    (from[i] * heights[after] - to[i] * height) * if height < 0.0 { 1.0 } else { -1.0 }
                }));
                above.push(on_plane);
                below.push(on_plane);
            }
        }
        let whole = |corners: Vec<[f64; 3]>| {
            let polygon = Self(corners);
            (polygon.0.len() >= 3 && polygon.area() > MIN_PIECE_AREA).then_some(polygon)
        };
        (whole(above), whole(below))
    }
}

/// The four bounding planes of a view: a direction is seen if it is on the inner side of all of them.
pub(super) struct ViewPlanes([[f64; 3]; 4]);

impl ViewPlanes {
    pub(super) fn new(view: &View) -> Self {
        let (w, h) = (f64::from(view.width), f64::from(view.height));
        let corner = |x: f64, y: f64| unit(view.ray_in_panorama(x, y));
        let corners = [corner(0.0, 0.0), corner(w, 0.0), corner(w, h), corner(0.0, h)];
        let axis = view.ray_in_panorama(0.5 * w, 0.5 * h);
        Self([0, 1, 2, 3].map(|k| {
            let normal = unit(cross(corners[k], corners[(k + 1) % 4]));
            if dot(normal, axis) < 0.0 { normal.map(|v| -v) } else { normal }
        }))
    }

    pub(super) fn sees(&self, d: [f64; 3]) -> bool {
        self.0.iter().all(|&normal| dot(normal, d) >= 0.0)
    }

    /// Returns the part of a polygon that the view sees, and appends the rest to `unseen`.
    pub(super) fn split_polygon(&self, polygon: &Polygon, unseen: &mut Vec<Polygon>) -> Option<Polygon> {
        // Most polygons are entirely outside one of the planes.
        if self.0.iter().any(|&normal| polygon.0.iter().all(|&c| dot(normal, c) <= PLANE_TOLERANCE)) {
            unseen.push(polygon.clone());
            return None;
        }
        let mut rest = Some(polygon.clone());
        for &normal in &self.0 {
            let (inside, outside) = rest?.split_by_plane(normal);
            unseen.extend(outside);
            rest = inside;
        }
        rest
    }
}

/// Groups polygons that share part of an edge.
pub(super) fn connected_components(polygons: &[Polygon]) -> Vec<Vec<&Polygon>> {
    let mut group: Vec<usize> = (0..polygons.len()).collect();
    fn root(group: &mut [usize], mut k: usize) -> usize {
        while group[k] != k {
            group[k] = group[group[k]];
            k = group[k];
        }
        k
    }
    for a in 0..polygons.len() {
        for b in 0..a {
            if share_edge(&polygons[a], &polygons[b]) {
                let (a, b) = (root(&mut group, a), root(&mut group, b));
                group[a.max(b)] = a.min(b);
            }
        }
    }
    let mut parts: std::collections::BTreeMap<usize, Vec<&Polygon>> = std::collections::BTreeMap::new();
    for (k, polygon) in polygons.iter().enumerate() {
        parts.entry(root(&mut group, k)).or_default().push(polygon);
    }
    parts.into_values().collect()
}

/// Whether two polygons on different sides of a great circle share part of an edge on it.
fn share_edge(a: &Polygon, b: &Polygon) -> bool {
    let edges = |p: &Polygon| -> Vec<([f64; 3], [f64; 3], [f64; 3])> {
        let corners = &p.0;
        let pairs = (0..corners.len()).map(|k| (corners[k], corners[(k + 1) % corners.len()]));
        pairs
            .filter_map(|(from, to)| {
                let normal = cross(from, to);
                (se3::norm(normal) > CIRCLE_TOLERANCE).then(|| (from, to, unit(normal)))
            })
            .collect()
    };
    let of_b = edges(b);
    edges(a).iter().any(|&(from, to, normal)| {
        let across = cross(normal, from);
        let place = |d: [f64; 3]| libm::atan2(dot(d, across), dot(d, from));
        of_b.iter().any(|&(start, end, other)| {
            // The edge of the polygon on the other side has the opposite orientation.
            let is_same = se3::norm([0, 1, 2].map(|k| normal[k] + other[k])) < CIRCLE_TOLERANCE;
            is_same && place(to).min(place(start)) - place(end).max(0.0) > CIRCLE_TOLERANCE
        })
    })
}
