//! Maps a pixel of one view to another view, as a function of its inverse depth.
//!
//! For the pixel position `x` (homogeneous), inverse depth `q` along the optical axis, and the relative pose (R, t):
//! `(u, v, w) = K' R K⁻¹ x + q K' t`, the position is `(u/w, v/w)` and the depth there `w/q` (Collins 1996, the plane
//! sweep; here each pixel can have its own plane). Positions are pixel indices: centres are whole numbers.

use gausset_core::{Camera, Pose, se3};

/// The map from one view to another: `(u, v, w) = origin + x column + y row + q shift`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Warp {
    pub(crate) origin: [f64; 3],
    pub(crate) column: [f64; 3],
    pub(crate) row: [f64; 3],
    pub(crate) shift: [f64; 3],
    /// Centre of the other camera in the axes of the first.
    pub(crate) centre: [f64; 3],
    /// Pixel to ray in the first camera: `(scale x + offset)` per axis.
    pub(crate) ray: [[f64; 2]; 2],
}

impl Warp {
    /// The warp from one camera at its pose to another.
    pub(crate) fn new(from: (&Camera, &Pose), to: (&Camera, &Pose)) -> Self {
        let relative = to.1.compose(&from.1.inverse());
        let (k, other) = (from.0, to.0);
        // Pixel (column i) has its centre at i + 0.5.
        let ray = [[1.0 / k.fx, (0.5 - k.cx) / k.fx], [1.0 / k.fy, (0.5 - k.cy) / k.fy]];
        let project = |p: [f64; 3]| {
            [other.fx * p[0] + (other.cx - 0.5) * p[2], other.fy * p[1] + (other.cy - 0.5) * p[2], p[2]]
        };
        let turned = |p: [f64; 3]| project(se3::mul_vec(&relative.rotation, p));
        Self {
            origin: turned([ray[0][1], ray[1][1], 1.0]),
            column: turned([ray[0][0], 0.0, 0.0]),
            row: turned([0.0, ray[1][0], 0.0]),
            shift: project(relative.translation),
            centre: relative.inverse().translation,
            ray,
        }
    }

    /// `(u, v, w)` of a pixel at an inverse depth.
    pub(crate) fn at(&self, x: f64, y: f64, q: f64) -> [f64; 3] {
        std::array::from_fn(|i| self.origin[i] + x * self.column[i] + y * self.row[i] + q * self.shift[i])
    }

    /// Displacement of the position, in px, between two inverse depths; 0 if either is behind the camera.
    pub(crate) fn displacement(&self, x: f64, y: f64, q: [f64; 2]) -> f64 {
        let [a, b] = q.map(|q| self.at(x, y, q));
        if a[2] <= 0.0 || b[2] <= 0.0 {
            return 0.0;
        }
        let (du, dv) = (a[0] / a[2] - b[0] / b[2], a[1] / a[2] - b[1] / b[2]);
        (du * du + dv * dv).sqrt()
    }

    /// Cosine of the triangulation angle of a pixel's point between the two cameras.
    pub(crate) fn triangulation_cosine(&self, x: f64, y: f64, q: f64) -> f64 {
        let ray = [self.ray[0][0] * x + self.ray[0][1], self.ray[1][0] * y + self.ray[1][1], 1.0];
        let p = ray.map(|r| r / q);
        let other = [p[0] - self.centre[0], p[1] - self.centre[1], p[2] - self.centre[2]];
        let dot = p[0] * other[0] + p[1] * other[1] + p[2] * other[2];
        dot / (se3::norm(p) * se3::norm(other)).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warp_is_projecting_into_the_other_camera() {
        let camera = Camera::new(64, 48, 60.0, 61.0, 31.0, 25.0).unwrap();
        let other = Camera::new(80, 60, 70.0, 72.0, 41.0, 29.0).unwrap();
        let a = Pose::from_quaternion([0.5, 0.5, -0.5, 0.5], [0.2, -0.3, 4.0]).unwrap();
        let b = a.compose(&Pose::from_quaternion([0.96, 0.0, 0.28, 0.0], [0.3, 0.1, -0.2]).unwrap());
        let world = a.inverse().apply([0.4, -0.2, 2.5]);
        let [x, y] = camera.project(a.apply(world)).map(|v| v - 0.5);
        let warp = Warp::new((&camera, &a), (&other, &b));
        let [u, v, w] = warp.at(x, y, 1.0 / 2.5);
        let expected = other.project(b.apply(world));
        assert!((u / w + 0.5 - expected[0]).abs() < 1e-9 && (v / w + 0.5 - expected[1]).abs() < 1e-9);
        assert!((w * 2.5 - b.apply(world)[2]).abs() < 1e-12);
        let to = |pose: &Pose| {
            let c = pose.centre();
            [c[0] - world[0], c[1] - world[1], c[2] - world[2]]
        };
        let (p, q) = (to(&a), to(&b));
        let dot = p[0] * q[0] + p[1] * q[1] + p[2] * q[2];
        assert!((warp.triangulation_cosine(x, y, 0.4) - dot / (se3::norm(p) * se3::norm(q))).abs() < 1e-12);
    }
}
