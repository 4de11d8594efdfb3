//! Shapes as signed distance functions: negative inside, and never larger than the distance to the surface outside,
//! so that a ray may advance by the value (sphere tracing, Hart 1996). Formulas: Quilez, "Distance functions".
//!
//! A shape is defined in its own axes, z up; [`Placement`] places it in the world.

use gausset_core::se3::Mat3;

use crate::vec3::{Vec3, vec3};

/// A solid in its own axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A ball around the origin.
    Sphere {
        /// Radius.
        radius: f64,
    },
    /// A box around the origin with rounded edges.
    Block {
        /// Half the size along each axis, roundings included.
        half: Vec3,
        /// Radius of the edges.
        rounding: f64,
    },
    /// A ring around the z axis.
    Torus {
        /// Radius of the circle that the tube follows.
        major: f64,
        /// Radius of the tube.
        minor: f64,
    },
    /// A cylinder along z around the origin with rounded rims.
    Cylinder {
        /// Radius.
        radius: f64,
        /// Half the height, roundings included.
        half_height: f64,
        /// Radius of the rims.
        rounding: f64,
    },
    /// Two balls on the z axis, the lower one at the origin, and the cone that envelops them.
    RoundCone {
        /// Radius of the lower ball.
        bottom: f64,
        /// Radius of the upper ball.
        top: f64,
        /// Distance of the centres.
        height: f64,
    },
    /// A block with a half-cylinder cut out along y from below.
    Arch {
        /// Half the size along each axis.
        half: Vec3,
        /// Radius of the opening.
        opening: f64,
        /// Radius of the edges.
        rounding: f64,
    },
    /// A box around the origin with sharp edges, and a roof on it whose ridge is along x.
    Gable {
        /// Half the size of the box along each axis.
        half: Vec3,
        /// Height of the ridge above the box; 0 = no roof.
        rise: f64,
    },
    /// The crown of a tree: overlapping balls.
    Crown {
        /// Radius of a ball around all of them.
        radius: f64,
    },
    /// A vase on the z axis with its foot at the origin: a body of revolution.
    Vase {
        /// Height.
        height: f64,
        /// Maximum radius.
        radius: f64,
    },
}

impl Shape {
    /// Signed distance of a point, or a lower bound of it outside.
    #[must_use]
    pub fn distance(&self, p: Vec3) -> f64 {
        match *self {
            Self::Sphere { radius } => p.length() - radius,
            Self::Block { half, rounding } => block_distance(p, half, rounding),
            Self::Torus { major, minor } => length2(length2(p.x, p.y) - major, p.z) - minor,
            Self::Cylinder { radius, half_height, rounding } => {
                let d = [length2(p.x, p.y) - radius + rounding, p.z.abs() - half_height + rounding];
                d[0].max(d[1]).min(0.0) + length2(d[0].max(0.0), d[1].max(0.0)) - rounding
            }
            Self::RoundCone { bottom, top, height } => {
                let b = (bottom - top) / height;
                let a = (1.0 - b * b).sqrt();
                let r = length2(p.x, p.y);
                let along = p.z * a - r * b;
                if along < 0.0 {
                    length2(r, p.z) - bottom
                } else if along > a * height {
                    length2(r, p.z - height) - top
                } else {
                    r * a + p.z * b - bottom
                }
            }
            Self::Arch { half, opening, rounding } => {
                let outside = block_distance(p, half, rounding);
                // The opening: a half-cylinder from the base up; below its centre it has straight walls.
                let z = (p.z + half.z).max(0.0);
                let hole = length2(p.x, z) - opening;
                smooth_max(outside, -hole, rounding)
            }
            Self::Gable { half, rise } => {
                gable_planes(half, rise).map(|(n, c)| n.dot(p) - c).into_iter().fold(f64::MIN, f64::max)
            }
            Self::Crown { radius } => {
                let to_balls = CROWN.map(|(centre, r)| (p - centre * radius).length() - r * radius);
                to_balls.into_iter().fold(f64::MAX, f64::min)
            }
            Self::Vase { height, radius } => {
                let z = p.z.clamp(0.0, height);
                let body = length2(p.x, p.y) - vase_radius(z / height) * radius;
                // The wall leans by at most 0.9 radii per height; the factor keeps the bound.
                let slope = 2.3 * radius / height;
                let wall = body / (1.0 + slope * slope).sqrt();
                let solid = smooth_max(wall, (p.z - 0.5 * height).abs() - 0.5 * height, 0.03);
                // The mouth: a narrowing hole from above.
                let mouth = length2(length2(p.x, p.y), 0.7 * (p.z - height)) - 0.48 * radius;
                smooth_max(solid, -mouth, 0.03)
            }
        }
    }

    /// A ball that contains the shape: height of its centre on the z axis, and radius.
    #[must_use]
    pub fn bounding_ball(&self) -> (f64, f64) {
        match *self {
            Self::Sphere { radius } => (0.0, radius),
            Self::Block { half, rounding } | Self::Arch { half, rounding, .. } => {
                (0.0, (half - Vec3::splat(rounding)).length() + rounding)
            }
            Self::Torus { major, minor } => (0.0, major + minor),
            Self::Gable { half, rise } => {
                // The ridge is nearer to the centre of the box with half the roof than the corners of its floor.
                (0.5 * rise, (half + vec3(0.0, 0.0, 0.5 * rise)).length())
            }
            Self::Crown { radius } => (0.0, radius),
            Self::Cylinder { radius, half_height, .. } => (0.0, length2(radius, half_height)),
            Self::RoundCone { bottom, top, height } => {
                // The ball that touches both balls from outside.
                let radius = 0.5 * (bottom + height + top);
                (radius - bottom, radius)
            }
            Self::Vase { height, radius } => (0.5 * height, length2(0.5 * height, radius)),
        }
    }

    /// Lowest and highest z of the shape.
    #[must_use]
    pub fn height_range(&self) -> [f64; 2] {
        match *self {
            Self::Sphere { radius } | Self::Crown { radius } => [-radius, radius],
            Self::Gable { half, rise } => [-half.z, half.z + rise],
            Self::Block { half, .. } | Self::Arch { half, .. } => [-half.z, half.z],
            Self::Torus { minor, .. } => [-minor, minor],
            Self::Cylinder { half_height, .. } => [-half_height, half_height],
            Self::RoundCone { bottom, top, height } => [-bottom, height + top],
            Self::Vase { height, .. } => [0.0, height],
        }
    }

    /// Whether every straight line intersects the shape in one segment, so that it cannot cast a shadow on itself.
    #[must_use]
    pub fn is_convex(&self) -> bool {
        !matches!(self, Self::Torus { .. } | Self::Arch { .. } | Self::Vase { .. } | Self::Crown { .. })
    }

    /// Distance at which a ray from outside enters the shape, for shapes with a closed form; `Some(None)` = it does not.
    pub(crate) fn exact_hit(&self, origin: Vec3, direction: Vec3) -> Option<Option<f64>> {
        match *self {
            Self::Gable { half, rise } => Some(gable_hit(origin, direction, half, rise)),
            Self::Crown { radius } => {
                let hits = CROWN.into_iter().filter_map(|(centre, r)| {
                    let to_centre = centre * radius - origin;
                    let along = to_centre.dot(direction);
                    let inside = r * r * radius * radius - (to_centre.dot(to_centre) - along * along);
                    let enter = along - inside.max(0.0).sqrt();
                    (inside > 0.0 && enter > 0.0).then_some(enter)
                });
                Some(hits.reduce(f64::min))
            }
            _ => None,
        }
    }

    /// Outward normal at a point of the surface: the gradient of the distance.
    #[must_use]
    pub fn normal(&self, p: Vec3) -> Vec3 {
        match *self {
            Self::Sphere { .. } => p.normalised(),
            Self::Gable { half, rise } => {
                let planes = gable_planes(half, rise);
                let above = planes.map(|(n, c)| n.dot(p) - c);
                let highest =
                    (1..above.len()).fold(0, |best, i| if above[i] > above[best] { i } else { best });
                planes[highest].0
            }
            Self::Crown { radius } => {
                let from = CROWN.map(|(centre, r)| (p - centre * radius, r * radius));
                let nearest = |best: (Vec3, f64), next: (Vec3, f64)| {
                    if next.0.length() - next.1 < best.0.length() - best.1 { next } else { best }
                };
                from.into_iter().reduce(nearest).map_or(p, |(away, _)| away).normalised()
            }
            Self::Torus { major, .. } => {
                let to_circle = major / length2(p.x, p.y);
                vec3(p.x - p.x * to_circle, p.y - p.y * to_circle, p.z).normalised()
            }
            // On the flat top of the table numeric differentiation would give the same result.
            Self::Cylinder { radius, half_height, rounding }
                if p.z > half_height - 1e-3 && length2(p.x, p.y) < radius - rounding =>
            {
                vec3(0.0, 0.0, 1.0)
            }
            _ => self.normal_by_differences(p),
        }
    }

    /// The gradient from values at the corners of a small tetrahedron (Quilez, "Normals for an SDF").
    fn normal_by_differences(&self, p: Vec3) -> Vec3 {
        const CORNERS: [Vec3; 4] =
            [vec3(1.0, -1.0, -1.0), vec3(-1.0, -1.0, 1.0), vec3(-1.0, 1.0, -1.0), vec3(1.0, 1.0, 1.0)];
        CORNERS.iter().fold(Vec3::default(), |sum, &c| sum + c * self.distance(p + c * 1e-5)).normalised()
    }
}

fn length2(x: f64, y: f64) -> f64 {
    (x * x + y * y).sqrt()
}

/// Outward normals of the faces of a gable and their distances from the origin.
fn gable_planes(half: Vec3, rise: f64) -> [(Vec3, f64); 7] {
    let scale = 1.0 / length2(rise, half.y);
    let (lean, up) = (rise * scale, half.y * scale);
    let roof = (half.z + rise) * up;
    [
        (vec3(1.0, 0.0, 0.0), half.x),
        (vec3(-1.0, 0.0, 0.0), half.x),
        (vec3(0.0, 1.0, 0.0), half.y),
        (vec3(0.0, -1.0, 0.0), half.y),
        (vec3(0.0, 0.0, -1.0), half.z),
        (vec3(0.0, lean, up), roof),
        (vec3(0.0, -lean, up), roof),
    ]
}

/// Distance at which a ray from outside enters a gable: the largest of the distances at which it enters a half-space,
/// if that is before it leaves one.
fn gable_hit(origin: Vec3, direction: Vec3, half: Vec3, rise: f64) -> Option<f64> {
    let (mut enter, mut leave) = (0.0f64, f64::INFINITY);
    for (normal, offset) in gable_planes(half, rise) {
        let (outside, slope) = (normal.dot(origin) - offset, normal.dot(direction));
        if slope < 0.0 {
            enter = enter.max(-outside / slope);
        } else if slope > 0.0 {
            leave = leave.min(-outside / slope);
        } else if outside > 0.0 {
            return None;
        }
    }
    (enter > 0.0 && enter < leave).then_some(enter)
}

/// Centres and radii of the balls of a crown, relative to its own radius.
const CROWN: [(Vec3, f64); 7] = [
    (vec3(0.0, 0.0, 0.05), 0.68),
    (vec3(0.48, 0.1, -0.12), 0.46),
    (vec3(-0.2, 0.5, -0.05), 0.44),
    (vec3(-0.5, -0.16, 0.14), 0.43),
    (vec3(0.12, -0.54, 0.06), 0.42),
    (vec3(0.16, 0.18, 0.55), 0.4),
    (vec3(-0.12, -0.06, -0.55), 0.42),
];

fn block_distance(p: Vec3, half: Vec3, rounding: f64) -> f64 {
    let d = p.map(f64::abs) - half + Vec3::splat(rounding);
    d.x.max(d.y).max(d.z).min(0.0) + d.map(|v| v.max(0.0)).length() - rounding
}

/// The larger of two distances with the edge between them rounded off (polynomial, quadratic).
fn smooth_max(a: f64, b: f64, size: f64) -> f64 {
    let overlap = (size - (a - b).abs()).max(0.0);
    a.max(b) + overlap * overlap * 0.25 / size
}

/// Outline of the vase: radius relative to the maximum, from the foot (0) to the lip (1).
fn vase_radius(t: f64) -> f64 {
    // A cubic Hermite chain through foot, belly, neck and lip with level tangents in belly and neck.
    const KNOTS: [[f64; 3]; 4] = [[0.0, 0.55, 1.6], [0.40, 1.0, 0.0], [0.80, 0.42, 0.0], [1.0, 0.62, 1.6]];
    let segment = if t < KNOTS[1][0] {
        0
    } else if t < KNOTS[2][0] {
        1
    } else {
        2
    };
    let ([t0, y0, m0], [t1, y1, m1]) = (KNOTS[segment], KNOTS[segment + 1]);
    let width = t1 - t0;
    let s = (t - t0) / width;
    let (s2, s3) = (s * s, s * s * s);
    y0 * (2.0 * s3 - 3.0 * s2 + 1.0)
        + m0 * width * (s3 - 2.0 * s2 + s)
        + y1 * (3.0 * s2 - 2.0 * s3)
        + m1 * width * (s3 - s2)
}

/// Position and rotation of a shape in the world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Origin of the shape in the world.
    pub origin: Vec3,
    /// Rotation of `shape_from_world`, row-major.
    pub rotation: Mat3,
}

impl Placement {
    /// Upright at a position, rotated about z by `yaw` degrees.
    #[must_use]
    pub fn upright_at(origin: Vec3, yaw: f64) -> Self {
        Self::tilted(origin, yaw, 0.0)
    }

    /// First tilted about the shape's x axis by `tilt` degrees, then rotated about z by `yaw` degrees.
    #[must_use]
    pub fn tilted(origin: Vec3, yaw: f64, tilt: f64) -> Self {
        let radians = std::f64::consts::PI / 180.0;
        let (sy, cy) = (libm::sin(yaw * radians), libm::cos(yaw * radians));
        let (st, ct) = (libm::sin(tilt * radians), libm::cos(tilt * radians));
        // Rows: the shape's axes in the world.
        Self { origin, rotation: [[cy, sy, 0.0], [-sy * ct, cy * ct, st], [sy * st, -cy * st, ct]] }
    }

    /// Transforms a world direction to the shape's axes.
    #[must_use]
    pub fn direction(&self, d: Vec3) -> Vec3 {
        let row = |r: [f64; 3]| Vec3::from(r).dot(d);
        vec3(row(self.rotation[0]), row(self.rotation[1]), row(self.rotation[2]))
    }

    /// Transforms a world point to the shape's axes.
    #[must_use]
    pub fn point(&self, p: Vec3) -> Vec3 {
        self.direction(p - self.origin)
    }

    /// Transforms a direction of the shape to world axes.
    #[must_use]
    pub fn to_world(&self, d: Vec3) -> Vec3 {
        let [x, y, z] = self.rotation.map(Vec3::from);
        x * d.x + y * d.y + z * d.z
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::rng;

    const SHAPES: [Shape; 9] = [
        Shape::Gable { half: vec3(0.5, 0.3, 0.4), rise: 0.35 },
        Shape::Crown { radius: 0.9 },
        Shape::Sphere { radius: 0.7 },
        Shape::Block { half: vec3(0.5, 0.3, 0.4), rounding: 0.06 },
        Shape::Torus { major: 0.6, minor: 0.2 },
        Shape::Cylinder { radius: 0.4, half_height: 0.6, rounding: 0.05 },
        Shape::RoundCone { bottom: 0.4, top: 0.15, height: 0.8 },
        Shape::Arch { half: vec3(0.6, 0.25, 0.4), opening: 0.35, rounding: 0.04 },
        Shape::Vase { height: 1.3, radius: 0.45 },
    ];

    fn points(step: u64) -> impl Iterator<Item = Vec3> {
        (0..2000).map(move |i| {
            let w = rng::philox(11, rng::stream::TEST, step, i);
            vec3(f64::from(rng::uniform(w[0])), f64::from(rng::uniform(w[1])), f64::from(rng::uniform(w[2])))
                * 3.0
                - Vec3::splat(1.5)
        })
    }

    #[test]
    fn distances_never_grow_faster_than_the_way_so_no_ray_can_step_through() {
        for shape in SHAPES {
            for (a, b) in points(0).zip(points(1)) {
                // Near pairs test steep slopes, far pairs jumps.
                for b in [b, a + (b - a) * 1e-3] {
                    let change = (shape.distance(a) - shape.distance(b)).abs();
                    assert!(change <= (a - b).length() * 1.001 + 1e-12, "{shape:?} {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn bounds_contain_their_shapes_and_normals_have_length_one() {
        for shape in SHAPES {
            for p in points(2) {
                let inside = shape.distance(p) <= 0.0;
                let (rise, radius) = shape.bounding_ball();
                assert!(!inside || (p - vec3(0.0, 0.0, rise)).length() <= radius, "{shape:?} {p:?}");
                let [low, high] = shape.height_range();
                assert!(!inside || (low..=high).contains(&p.z), "{shape:?} {p:?}");
                assert!((shape.normal(p).length() - 1.0).abs() < 1e-9);
                // The special cases agree with the general one on the surface, where they are used.
                let on_surface = p - shape.normal_by_differences(p) * shape.distance(p);
                if shape.distance(on_surface).abs() < 1e-4 {
                    let (special, general) =
                        (shape.normal(on_surface), shape.normal_by_differences(on_surface));
                    assert!((special - general).length() < 0.05, "{shape:?} {p:?}");
                }
            }
        }
    }

    #[test]
    fn closed_forms_meet_the_surface_and_miss_what_rays_pass() {
        for shape in [SHAPES[0], SHAPES[1], Shape::Gable { half: vec3(0.4, 0.7, 0.2), rise: 0.0 }] {
            let (mut hits, mut misses) = (0, 0);
            for (from, to) in points(3).zip(points(4)) {
                let direction = (to - from).normalised();
                if shape.distance(from) <= 0.0 {
                    continue;
                }
                if let Some(distance) = shape.exact_hit(from, direction).expect("a closed form") {
                    assert!(shape.distance(from + direction * distance).abs() < 1e-9, "{shape:?}");
                    assert!(shape.distance(from + direction * (0.99 * distance)) > 0.0);
                    hits += 1;
                } else {
                    let nearest = (0..400).map(|i| shape.distance(from + direction * (0.01 * f64::from(i))));
                    // A ray between two samples cannot dip deeper than half their distance.
                    assert!(nearest.fold(f64::MAX, f64::min) > -0.005, "{shape:?} {from:?} {to:?}");
                    misses += 1;
                }
            }
            assert!(hits > 100 && misses > 100, "{hits} {misses}");
        }
    }

    #[test]
    fn placing_and_coming_back_is_the_identity() {
        let place = Placement::tilted(vec3(1.0, 2.0, 3.0), 33.0, -50.0);
        let d = vec3(0.2, -0.5, 0.7);
        assert!((place.to_world(place.direction(d)) - d).length() < 1e-15);
        // Tilting by 90 degrees lays the z axis of the shape down.
        let flat = Placement::tilted(Vec3::default(), 0.0, 90.0);
        assert!((flat.to_world(vec3(0.0, 0.0, 1.0)) - vec3(0.0, -1.0, 0.0)).length() < 1e-15);
    }
}
