//! Projection of small images: pixels to directions and back.

use std::f64::consts::PI;

use gausset_core::se3;

use crate::sphere::geometry::{direction_from_equirect, equirect_from_direction};

/// Latitude beyond which pixels of a panorama are ignored, degrees: operator, tripod, stretched pixels.
pub const MAX_LATITUDE: f64 = 60.0;
/// Assumed focal length of an unknown camera, in longer sides: 65 degrees, as the main lenses of phones.
const DEFAULT_FOCAL: f64 = 0.78;

/// Projection of an image. Points are continuous: pixel (i, j) has its centre at (i + ½, j + ½).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmallProjection {
    width: f64,
    height: f64,
    /// Focal length, px; `None` = a panorama of the whole sphere.
    focal: Option<f64>,
}

impl SmallProjection {
    /// Equirectangular panorama of the whole sphere.
    #[must_use]
    pub fn sphere(width: usize, height: usize) -> Self {
        Self { width: width as f64, height: height as f64, focal: None }
    }

    /// Pinhole image of a camera with unknown lens: the focal length is assumed.
    #[must_use]
    pub fn pinhole(width: usize, height: usize) -> Self {
        let focal = DEFAULT_FOCAL * width.max(height) as f64;
        Self { width: width as f64, height: height as f64, focal: Some(focal) }
    }

    /// Whether the left border continues at the right one.
    #[must_use]
    pub fn wraps(&self) -> bool {
        self.focal.is_none()
    }

    /// Rotation after which a pinhole image shows mostly new content, degrees; `None` for a sphere, which always shows
    /// all.
    #[must_use]
    pub fn novel_rotation(&self) -> Option<f64> {
        self.focal.map(|focal| libm::atan(0.5 * self.width.min(self.height) / focal).to_degrees())
    }

    /// Unit direction of a point, px.
    #[must_use]
    pub fn direction(&self, [x, y]: [f64; 2]) -> [f64; 3] {
        match self.focal {
            None => direction_from_equirect(x, y, self.width, self.height),
            Some(focal) => {
                let ray = [(x - 0.5 * self.width) / focal, (y - 0.5 * self.height) / focal, 1.0];
                se3::unit(ray)
            }
        }
    }

    /// The point of a direction, px, if the image shows it.
    #[must_use]
    pub fn point(&self, direction: [f64; 3]) -> Option<[f64; 2]> {
        match self.focal {
            None => Some(equirect_from_direction(direction, self.width, self.height)),
            Some(focal) => {
                let [x, y, z] = direction;
                (z > 0.05)
                    .then(|| [0.5 * self.width + focal * x / z, 0.5 * self.height + focal * y / z])
                    .filter(|[x, y]| (0.0..self.width).contains(x) && (0.0..self.height).contains(y))
            }
        }
    }

    /// Rows that are used: for a sphere those within [`MAX_LATITUDE`].
    #[must_use]
    pub fn rows(&self) -> std::ops::Range<usize> {
        let height = self.height as usize;
        let margin = match self.focal {
            None => ((90.0 - MAX_LATITUDE) / 180.0 * self.height) as usize,
            Some(_) => 0,
        };
        margin.min(height / 2)..height - margin.min(height / 2)
    }

    /// Horizontal stretch of the pixels of a row: one over the cosine of the latitude for a sphere.
    #[must_use]
    pub fn stretch(&self, row: usize) -> f64 {
        match self.focal {
            None => 1.0 / libm::cos((0.5 - (row as f64 + 0.5) / self.height) * PI).max(0.05),
            Some(_) => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_and_directions_belong_together() {
        for optics in [
            SmallProjection::sphere(960, 480),
            SmallProjection::pinhole(960, 540),
            SmallProjection::pinhole(540, 960),
        ] {
            for point in [[1.5, 100.25], [300.0, 270.0], [500.0, 400.0]] {
                let back = optics.point(optics.direction(point)).unwrap();
                assert!((back[0] - point[0]).abs() < 1e-9 && (back[1] - point[1]).abs() < 1e-9, "{back:?}");
            }
        }
        assert_eq!(SmallProjection::pinhole(960, 540).point([0.0, 0.0, -1.0]), None);
        assert_eq!(SmallProjection::sphere(960, 480).rows(), 80..400);
    }
}
