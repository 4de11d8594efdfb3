//! Masks from a box in space: everything in a panorama outside the box is removed.

use gausset_core::{Pose, se3};
use gausset_pano::geometry::direction_from_equirect;
use gausset_pano::sphere_mask::SphereMask;

use crate::Failure;

/// Box to keep, in the coordinates of the given poses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeepBox {
    /// Minimum and maximum corner.
    pub corners: [[f64; 3]; 2],
}

impl KeepBox {
    pub(super) fn check(&self) -> Result<(), Failure> {
        let [low, high] = self.corners;
        if (0..3).all(|k| low[k].is_finite() && high[k].is_finite() && low[k] < high[k]) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "⟨keep-box⟩: expected the minimum x, y, z and then a larger maximum, found {low:?} and {high:?}"
        )))
    }

    /// Removes the directions in which a camera does not see the box. A camera inside the box keeps everything.
    pub(super) fn remove_outside(&self, pano_from_world: &Pose, sphere: &mut SphereMask) {
        let centre = pano_from_world.centre();
        let (w, h) = (sphere.width as f64, sphere.height as f64);
        for (y, row) in sphere.data.chunks_exact_mut(sphere.width).enumerate() {
            for (x, keep) in row.iter_mut().enumerate() {
                let ray = direction_from_equirect(x as f64 + 0.5, y as f64 + 0.5, w, h);
                if !self.is_hit(centre, se3::transpose_mul_vec(&pano_from_world.rotation, ray)) {
                    *keep = 0;
                }
            }
        }
    }

    /// Whether a ray hits the box: slab test (Kay and Kajiya 1986).
    fn is_hit(&self, origin: [f64; 3], ray: [f64; 3]) -> bool {
        let [low, high] = self.corners;
        let (mut enter, mut leave) = (0.0f64, f64::INFINITY);
        for k in 0..3 {
            // For a ray parallel to a plane both values are infinite; for a ray in the plane NaN, which `min` and `max`
            // ignore.
            let (a, b) = ((low[k] - origin[k]) / ray[k], (high[k] - origin[k]) / ray[k]);
            enter = enter.max(a.min(b));
            leave = leave.min(a.max(b));
        }
        enter <= leave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cube_in_front_covers_the_directions_that_meet_it() {
        let keep = KeepBox { corners: [[-1.0, -1.0, 1.0], [1.0, 1.0, 3.0]] };
        let mut sphere = SphereMask::new(720, 360);
        keep.remove_outside(&Pose::IDENTITY, &mut sphere);
        // Its near face equals a face of a cube around the camera: a sixth of the sphere.
        let kept = 1.0 - sphere.removed_fraction();
        assert!((kept - 1.0 / 6.0).abs() < 2e-3, "{kept}");
        assert_eq!((sphere.data[180 * 720 + 360], sphere.data[180 * 720]), (255, 0));
        // From inside, the box covers all directions.
        let inside = KeepBox { corners: [[-1.0; 3], [1.0; 3]] };
        let mut sphere = SphereMask::new(72, 36);
        inside.remove_outside(&Pose::IDENTITY, &mut sphere);
        assert!(sphere.keeps_all());
    }
}
