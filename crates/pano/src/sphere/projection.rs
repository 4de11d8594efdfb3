//! From a direction to the source image: a panorama, a cropped panorama, a cube, GoPro MAX streams, two fisheyes.
//!
//! A projection maps a direction (panorama axes) to a position on a *canvas*: the image, or several images taken at the
//! same time, stacked vertically. Canvas coordinates are continuous, in luma pixels.

use gausset_core::se3;
use gausset_jpeg::plane::Frame;

use crate::sphere::canvas_position::CanvasPosition;
use crate::sphere::cube::Cube;
use crate::sphere::eac::Eac;
use crate::sphere::fisheye::DualFisheye;
use crate::sphere::geometry::equirect_from_direction;

/// Height from which on a pixel is a rounding error, px.
const MIN_ROUNDED_HEIGHT: u32 = 200;

/// A full equirectangular panorama or a part of one (GPano crop).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equirect {
    /// Width of the whole sphere, in pixels of the stored image.
    pub full_width: f64,
    /// Height of the whole sphere, in pixels of the stored image.
    pub full_height: f64,
    /// Column of the whole sphere at which the stored image begins.
    pub left: f64,
    /// Row of the whole sphere at which the stored image begins.
    pub top: f64,
    /// Width of the stored image, px.
    pub width: u32,
    /// Height of the stored image, px.
    pub height: u32,
}

impl Equirect {
    /// A panorama of the whole sphere.
    #[must_use]
    pub fn whole(width: u32, height: u32) -> Self {
        let (full_width, full_height) = (f64::from(width), f64::from(height));
        Self { full_width, full_height, left: 0.0, top: 0.0, width, height }
    }

    /// Whether the stored image covers 360 by 180 degrees.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.left == 0.0
            && self.top == 0.0
            && self.full_width == f64::from(self.width)
            && self.full_height == f64::from(self.height)
    }

    /// The same within half a pixel: GPano sizes scaled to a resized image are rounded.
    #[must_use]
    pub fn is_nearly_whole(&self) -> bool {
        self.left + self.top < 0.5
            && (self.full_width - f64::from(self.width)).abs() < 0.5
            && (self.full_height - f64::from(self.height)).abs() < 0.5
    }
}

/// Whether an image of this size is a panorama of the whole sphere: 2:1, up to a pixel or a thousandth of the height that
/// stitchers and resizers round off.
#[must_use]
pub fn is_panorama_size([width, height]: [u32; 2]) -> bool {
    let rounded = if height < MIN_ROUNDED_HEIGHT { 0 } else { (height / 500).max(2) };
    height > 0 && width.abs_diff(height.saturating_mul(2)) <= rounded
}

/// How a source image shows the sphere.
#[allow(clippy::large_enum_variant, reason = "there is one a source, never many")]
#[derive(Clone, Debug, PartialEq)]
pub enum Projection {
    /// Equirectangular: longitude and latitude.
    Equirect(Equirect),
    /// Both streams of a GoPro MAX, the first above the second.
    Eac(Eac),
    /// Two fisheye circles.
    Fisheye(DualFisheye),
    /// The faces of a cube; the canvas is the output of [`Cube::fold`].
    Cube(Cube),
}

impl Projection {
    /// Size of the canvas in luma pixels.
    #[must_use]
    pub fn canvas_size(&self) -> [u32; 2] {
        match self {
            Self::Equirect(e) => [e.width, e.height],
            Self::Eac(e) => e.canvas_size(),
            Self::Fisheye(f) => f.canvas(),
            Self::Cube(c) => c.canvas_size(),
        }
    }

    /// Size of a decoded image of this source, with several images stacked vertically.
    #[must_use]
    pub fn source_image_size(&self) -> [u32; 2] {
        match self {
            Self::Cube(c) => c.image_size(),
            other => other.canvas_size(),
        }
    }

    /// Size of each of `files` images that together are a frame.
    #[must_use]
    pub fn part_size(&self, files: usize) -> [u32; 2] {
        let [width, height] = self.source_image_size();
        let files = files.max(1) as u32;
        if self.is_joined() { [width / files, height] } else { [width, height / files] }
    }

    /// Combines the images of a frame; `None` if they differ in shape.
    pub(crate) fn combine(&self, parts: &[Frame], frame: &mut Frame) -> Option<()> {
        if self.is_joined() { frame.join(parts) } else { frame.stack(parts) }
    }

    /// Whether images of a frame lie side by side: those of two lenses whose circles do.
    fn is_joined(&self) -> bool {
        matches!(self, Self::Fisheye(lenses) if lenses.width >= lenses.height)
    }

    /// Whether planes may be halved: 2x2 pixels must never span two unrelated parts of the sphere. Edges between the
    /// faces of a GoPro MAX stream, and between fisheye circles, are at even columns and rows; [`crate::cut::cutter::Plan`]
    /// halves only even sizes.
    #[must_use]
    pub fn can_halve(&self) -> bool {
        match self {
            Self::Equirect(e) => e.is_whole(),
            Self::Eac(_) | Self::Fisheye(_) | Self::Cube(_) => true,
        }
    }

    /// Canvas bounds (left, right, top, bottom) for sampling in this patch, where an unrelated part of the sphere is
    /// adjacent on the canvas.
    #[must_use]
    pub fn patch_bounds(&self, patch: u8) -> Option<[f64; 4]> {
        match self {
            Self::Eac(e) => Some(e.patch_bounds(patch)),
            Self::Equirect(_) | Self::Fisheye(_) | Self::Cube(_) => None,
        }
    }

    /// Whether columns wrap around: column W is column 0, and row -1 is row 0 shifted by W/2 columns.
    #[must_use]
    pub fn wraps(&self) -> bool {
        matches!(self, Self::Equirect(e) if e.is_whole())
    }

    /// Pixels per 360 degrees on the horizon, from which view sizes are chosen.
    #[must_use]
    pub fn pixels_per_turn(&self) -> u32 {
        match self {
            Self::Equirect(e) => e.full_width.round() as u32,
            Self::Eac(e) => 4 * e.face_side(),
            Self::Fisheye(f) => f.pixels_around(),
            Self::Cube(c) => 4 * c.faces.side,
        }
    }

    /// The canvas position of a direction.
    #[must_use]
    pub fn project(&self, direction: [f64; 3]) -> CanvasPosition {
        match self {
            Self::Equirect(e) => {
                let [u, v] = equirect_from_direction(direction, e.full_width, e.full_height);
                if e.is_whole() {
                    return CanvasPosition::new(u, v);
                }
                // A direction has columns at multiples of the full width; use the first that is not left of the stored
                // part.
                let mut u = u - e.left;
                if u < 0.0 {
                    u += e.full_width;
                }
                let v = v - e.top;
                let (w, h) = (f64::from(e.width), f64::from(e.height));
                let is_seen = u <= w && (0.0..=h).contains(&v);
                CanvasPosition {
                    is_visible: is_seen,
                    ..CanvasPosition::new(u.clamp(0.5, w - 0.5), v.clamp(0.5, h - 0.5))
                }
            }
            Self::Eac(e) => e.project(direction),
            Self::Fisheye(f) => f.place(direction),
            Self::Cube(c) => c.project(direction),
        }
    }
}

/// Degrees between a direction and straight down.
#[must_use]
pub fn degrees_from_nadir(direction: [f64; 3]) -> f64 {
    let [x, y, z] = direction;
    libm::atan2(libm::sqrt(x * x + z * z), y).to_degrees()
}

/// Angle between two directions, in radians; exact for small angles.
#[must_use]
pub fn angle_between(a: [f64; 3], b: [f64; 3]) -> f64 {
    libm::atan2(se3::norm(se3::cross(a, b)), se3::dot(a, b))
}
