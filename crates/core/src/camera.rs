//! Pinhole cameras: the only projection that the renderer knows.
//!
//! Distorted and fisheye models live in `gausset-io`, which turns their images into pinhole images at load.

/// A pinhole camera: image size and intrinsics in pixels.
///
/// Pixel (column i, row j) has its centre at (i + 0.5, j + 0.5); the principal point is measured from the top-left
/// *corner* of the image. A camera-space point (x, y, z), x right, y down, z forward, lands on
/// `(fx x/z + cx, fy y/z + cy)`.
///
/// ```
/// use gausset_core::Camera;
///
/// let camera = Camera::new(640, 480, 500.0, 500.0, 320.0, 240.0)?;
/// assert_eq!(camera.project([0.2, -0.1, 2.0]), [370.0, 215.0]);
/// assert!(Camera::new(0, 480, 500.0, 500.0, 320.0, 240.0).is_err());
/// # Ok::<(), gausset_core::camera::CameraError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Camera {
    /// Image width in px.
    pub width: u32,
    /// Image height in px.
    pub height: u32,
    /// Horizontal focal length in px.
    pub fx: f64,
    /// Vertical focal length in px.
    pub fy: f64,
    /// Horizontal principal point in px from the left edge.
    pub cx: f64,
    /// Vertical principal point in px from the top edge.
    pub cy: f64,
}

/// Why a set of intrinsics is not a camera.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CameraError {
    /// Width or height is zero or beyond [`Camera::MAX_SIDE`].
    #[error("image size is {width}x{height} px (expected 1..{max} a side)", max = Camera::MAX_SIDE)]
    Size {
        /// Width found.
        width: u32,
        /// Height found.
        height: u32,
    },
    /// A focal length is not positive and finite.
    #[error("focal length is ({fx}, {fy}) px (expected finite and > 0)")]
    Focal {
        /// Horizontal focal length found.
        fx: f64,
        /// Vertical focal length found.
        fy: f64,
    },
    /// The principal point is not finite.
    #[error("principal point is ({cx}, {cy}) px (expected finite)")]
    PrincipalPoint {
        /// Horizontal coordinate found.
        cx: f64,
        /// Vertical coordinate found.
        cy: f64,
    },
}

impl Camera {
    /// Longest image side that is accepted, in px.
    pub const MAX_SIDE: u32 = 32_768;

    /// The camera of a picture at `1 / factor` of the size; columns and rows at the end that do not fill a block of
    /// `factor` pixels are cut off.
    #[must_use]
    pub fn reduced(&self, factor: u32) -> Self {
        let scale = 1.0 / f64::from(factor);
        Self {
            width: self.width / factor,
            height: self.height / factor,
            fx: self.fx * scale,
            fy: self.fy * scale,
            cx: self.cx * scale,
            cy: self.cy * scale,
        }
    }

    /// Checks intrinsics and makes a camera of them.
    ///
    /// # Errors
    /// A zero or absurd size, a focal length that is not positive and finite, a principal point that is not finite.
    pub fn new(width: u32, height: u32, fx: f64, fy: f64, cx: f64, cy: f64) -> Result<Self, CameraError> {
        let side = 1..=Self::MAX_SIDE;
        if !side.contains(&width) || !side.contains(&height) {
            return Err(CameraError::Size { width, height });
        }
        let focal_is_good = |f: f64| f.is_finite() && f > 0.0;
        if !focal_is_good(fx) || !focal_is_good(fy) {
            return Err(CameraError::Focal { fx, fy });
        }
        if !cx.is_finite() || !cy.is_finite() {
            return Err(CameraError::PrincipalPoint { cx, cy });
        }
        Ok(Self { width, height, fx, fy, cx, cy })
    }

    /// The same view at another image size: focal lengths and principal point scale with the axis factors.
    #[must_use]
    pub fn resized(&self, width: u32, height: u32) -> Self {
        let sx = f64::from(width) / f64::from(self.width);
        let sy = f64::from(height) / f64::from(self.height);
        Self { width, height, fx: self.fx * sx, fy: self.fy * sy, cx: self.cx * sx, cy: self.cy * sy }
    }

    /// Number of pixels.
    #[must_use]
    pub fn pixels(&self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Pixel of a camera-space point, whatever the sign of its depth.
    #[must_use]
    pub fn project(&self, p: [f64; 3]) -> [f64; 2] {
        [self.fx * p[0] / p[2] + self.cx, self.fy * p[1] / p[2] + self.cy]
    }

    /// Number of [`crate::constants::TILE_SIZE`] tiles per row and column.
    #[must_use]
    pub fn tiles(&self) -> [u32; 2] {
        [self.width.div_ceil(crate::constants::TILE_SIZE), self.height.div_ceil(crate::constants::TILE_SIZE)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intrinsics_that_cannot_be_a_camera_are_refused_with_what_was_found() {
        let err = Camera::new(0, 5, 1.0, 1.0, 0.0, 0.0).unwrap_err();
        assert_eq!(err.to_string(), "image size is 0x5 px (expected 1..32768 a side)");
        assert!(Camera::new(4, 4, f64::NAN, 1.0, 0.0, 0.0).is_err());
        assert!(Camera::new(4, 4, 1.0, -1.0, 0.0, 0.0).is_err());
        assert!(Camera::new(4, 4, 1.0, 1.0, f64::INFINITY, 0.0).is_err());
    }

    #[test]
    fn resizing_scales_pixels_of_projected_points() {
        let camera = Camera::new(100, 50, 80.0, 82.0, 49.0, 26.0).unwrap();
        let half = camera.resized(50, 25);
        let p = [0.3, -0.2, 1.7];
        let (a, b) = (camera.project(p), half.project(p));
        assert!((a[0] * 0.5 - b[0]).abs() < 1e-12 && (a[1] * 0.5 - b[1]).abs() < 1e-12);
    }
}
