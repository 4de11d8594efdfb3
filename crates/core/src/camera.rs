//! The camera model of the renderers: pinhole images and panoramas of the whole sphere.
//!
//! Distorted and fisheye models are handled in `gausset-io`, which undistorts their images to pinhole images at load.

use std::f64::consts::{PI, TAU};

/// How a camera-space point (x, y, z), x right, y down, z forward, maps to a pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Projection {
    /// `(fx x/z + cx, fy y/z + cy)`, for points in front of the camera.
    #[default]
    Pinhole,
    /// Longitude and latitude: `(fx atan2(x, z) + cx, fy atan2(y, hypot(x, z)) + cy)`, for all points. Columns repeat
    /// after `2π fx`. Equal to COLMAP's EQUIRECTANGULAR if that is the image width and `π fy` is the height.
    Equirectangular,
}

impl Projection {
    /// Name for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pinhole => "pinhole",
            Self::Equirectangular => "equirectangular",
        }
    }
}

/// A camera: image size, projection and intrinsics in pixels.
///
/// Pixel (column i, row j) has its centre at (i + 0.5, j + 0.5); the principal point is measured from the top-left
/// *corner* of the image. [`Projection`] defines how points map to pixels; a pixel at the principal point covers
/// `1 / fx` x `1 / fy` radians in both projections.
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
    /// How points map to pixels.
    pub projection: Projection,
    /// Image width in px.
    pub width: u32,
    /// Image height in px.
    pub height: u32,
    /// Horizontal focal length in px: px per radian at the principal point.
    pub fx: f64,
    /// Vertical focal length in px: px per radian at the principal point.
    pub fy: f64,
    /// Horizontal principal point in px from the left edge.
    pub cx: f64,
    /// Vertical principal point in px from the top edge.
    pub cy: f64,
}

/// Why a set of intrinsics is not valid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CameraError {
    /// Width or height is zero or beyond [`Camera::MAX_SIDE`].
    #[error("image size is {width}x{height} px (expected 1..{max} a side)", max = Camera::MAX_SIDE)]
    Size {
        /// Width found, px.
        width: u32,
        /// Height found, px.
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

    /// The camera of an image downscaled to `1 / factor` of its size. Columns and rows at the end that do not fill a
    /// block of `factor` pixels are cut off.
    #[must_use]
    pub fn downscaled(&self, factor: u32) -> Self {
        let scale = 1.0 / f64::from(factor);
        Self {
            projection: self.projection,
            width: self.width / factor,
            height: self.height / factor,
            fx: self.fx * scale,
            fy: self.fy * scale,
            cx: self.cx * scale,
            cy: self.cy * scale,
        }
    }

    /// Creates a pinhole camera and checks its intrinsics.
    ///
    /// ```
    /// let error = gausset_core::Camera::new(640, 480, 0.0, 500.0, 320.0, 240.0).unwrap_err();
    /// assert_eq!(error.to_string(), "focal length is (0, 500) px (expected finite and > 0)");
    /// ```
    ///
    /// # Errors
    /// Returns an error if a side is 0 or above [`Self::MAX_SIDE`], if a focal length is not positive and finite, or if
    /// the principal point is not finite.
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
        Ok(Self { projection: Projection::Pinhole, width, height, fx, fy, cx, cy })
    }

    /// The camera of a panorama of the whole sphere; the image centre looks straight ahead.
    ///
    /// ```
    /// let panorama = gausset_core::Camera::panorama(2048, 1024)?;
    /// let [u, v] = panorama.project([0.7, -0.4, 1.3]);
    /// assert!((u - 1184.999_86).abs() < 1e-5 && (v - 425.765_64).abs() < 1e-5);
    /// # Ok::<(), gausset_core::camera::CameraError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a side is 0 or above [`Self::MAX_SIDE`].
    pub fn panorama(width: u32, height: u32) -> Result<Self, CameraError> {
        let [w, h] = [width, height].map(f64::from);
        let camera = Self::new(width, height, w / TAU, h / PI, 0.5 * w, 0.5 * h)?;
        Ok(Self { projection: Projection::Equirectangular, ..camera })
    }

    /// A pinhole camera, for viewers that support no other projection: the camera itself, or for a panorama its centre,
    /// 90 degrees wide and high.
    #[must_use]
    pub fn as_pinhole(&self) -> Self {
        if self.is_pinhole() {
            return *self;
        }
        let side = (self.width / 4).max(1);
        let half = 0.5 * f64::from(side);
        Self {
            projection: Projection::Pinhole,
            width: side,
            height: side,
            fx: half,
            fy: half,
            cx: half,
            cy: half,
        }
    }

    /// Whether the projection is a pinhole.
    #[must_use]
    pub fn is_pinhole(&self) -> bool {
        self.projection == Projection::Pinhole
    }

    /// Number of columns after which the image repeats; infinite for a pinhole.
    #[must_use]
    pub fn period(&self) -> f64 {
        match self.projection {
            Projection::Pinhole => f64::INFINITY,
            Projection::Equirectangular => TAU * self.fx,
        }
    }

    /// The same view at another image size: focal lengths and principal point scale with the axis factors.
    ///
    /// ```
    /// let camera = gausset_core::Camera::new(640, 480, 500.0, 500.0, 320.0, 240.0)?;
    /// let half = camera.resized(320, 240);
    /// assert_eq!([half.fx, half.fy, half.cx, half.cy], [250.0, 250.0, 160.0, 120.0]);
    /// # Ok::<(), gausset_core::camera::CameraError>(())
    /// ```
    #[must_use]
    pub fn resized(&self, width: u32, height: u32) -> Self {
        let sx = f64::from(width) / f64::from(self.width);
        let sy = f64::from(height) / f64::from(self.height);
        let (fx, fy, cx, cy) = (self.fx * sx, self.fy * sy, self.cx * sx, self.cy * sy);
        Self { projection: self.projection, width, height, fx, fy, cx, cy }
    }

    /// Number of pixels.
    #[must_use]
    pub fn pixels(&self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Pixel of a camera-space point, for either sign of its depth.
    #[must_use]
    pub fn project(&self, p @ [x, y, z]: [f64; 3]) -> [f64; 2] {
        match self.projection {
            Projection::Pinhole => [self.fx * p[0] / p[2] + self.cx, self.fy * p[1] / p[2] + self.cy],
            Projection::Equirectangular => [
                self.fx * libm::atan2(x, z) + self.cx,
                self.fy * libm::atan2(y, libm::sqrt(x * x + z * z)) + self.cy,
            ],
        }
    }

    /// Direction of an image point in camera axes: `(., ., 1)` for a pinhole, a unit vector for a panorama.
    ///
    /// ```
    /// let camera = gausset_core::Camera::new(640, 480, 500.0, 500.0, 320.0, 240.0)?;
    /// assert_eq!(camera.ray([570.0, 240.0]), [0.5, 0.0, 1.0]);
    /// assert_eq!(camera.project([0.5, 0.0, 1.0]), [570.0, 240.0]);
    /// # Ok::<(), gausset_core::camera::CameraError>(())
    /// ```
    #[must_use]
    pub fn ray(&self, [u, v]: [f64; 2]) -> [f64; 3] {
        let (a, b) = ((u - self.cx) / self.fx, (v - self.cy) / self.fy);
        match self.projection {
            Projection::Pinhole => [a, b, 1.0],
            Projection::Equirectangular => {
                let cosine = libm::cos(b);
                [cosine * libm::sin(a), libm::sin(b), cosine * libm::cos(a)]
            }
        }
    }

    /// The depth that orders splats and that depth maps contain: z for a pinhole, the distance for a panorama.
    #[must_use]
    pub fn depth(&self, [x, y, z]: [f64; 3]) -> f64 {
        match self.projection {
            Projection::Pinhole => z,
            Projection::Equirectangular => libm::sqrt(x * x + y * y + z * z),
        }
    }

    /// Number of [`crate::constants::TILE_SIZE`] tiles: per row, per column.
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

    #[test]
    fn a_panorama_sees_all_directions_and_rays_come_back_to_their_pixels() {
        let camera = Camera::panorama(200, 100).unwrap();
        for [x, y, z] in [[0.7, -0.4, 1.3], [-2.0, 0.1, -0.5], [0.0, 1.0, 1e-3], [1e-3, -3.0, -1e-3]] {
            let pixel @ [u, v] = camera.project([x, y, z]);
            assert!((0.0..=200.0).contains(&u) && (0.0..=100.0).contains(&v), "{pixel:?}");
            let (ray, n) = (camera.ray(pixel), camera.depth([x, y, z]));
            for (found, wanted) in ray.into_iter().zip([x, y, z]) {
                assert!((found - wanted / n).abs() < 1e-12);
            }
        }
        assert_eq!(camera.period(), 200.0);
        assert_eq!(camera.downscaled(2), Camera::panorama(100, 50).unwrap());
        assert_eq!(camera.resized(60, 30).period().round(), 60.0);
        let pinhole = Camera::new(100, 50, 80.0, 82.0, 49.0, 26.0).unwrap();
        let ray = pinhole.ray(pinhole.project([0.3, -0.2, 2.0]));
        assert!((ray[0] - 0.15).abs() < 1e-12 && (ray[1] + 0.1).abs() < 1e-12 && ray[2] == 1.0);
        assert!(pinhole.is_pinhole() && pinhole.depth([0.3, -0.2, 2.0]) == 2.0);
    }
}
