//! Lenses of other programs as COLMAP's camera models.
//!
//! All programs use the polynomial of Brown: with (u, v) on the plane z = 1, or (u, v) · θ/r for a fisheye,
//! `(u, v) (1 + k1 r² + k2 r⁴ + k3 r⁶ + k4 r⁸)` plus tangential terms. OpenCV's are
//! `(2 p1 u v + p2 (r² + 2 u²), p1 (r² + 2 v²) + 2 p2 u v)`.

use super::ValueProblem;
use crate::dataset::camera_model::{CameraModel, CameraModelError, SourceCamera};

/// Unit and origin of focal lengths and principal points. Images have their top-left corner at (0, 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LensUnit {
    /// Pixels; the principal point is measured from the top-left corner.
    Pixel,
    /// Pixels; the principal point is measured from the middle of the image.
    PixelFromMiddle,
    /// Longer sides of the image; the principal point is measured from its middle.
    LongerSide,
}

/// A lens as a COLMAP model whose pixels may depend on the size of the image.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportLens {
    /// Projection and distortion.
    pub model: CameraModel,
    /// Width and height of the image in px; `None` = as stored.
    pub size: Option<[u64; 2]>,
    /// Unit of the focal lengths and the principal point in `params`.
    pub unit: LensUnit,
    /// Parameters in the order of [`CameraModel::parameters`]; ignored for a panorama.
    pub params: Vec<f64>,
}

impl ExportLens {
    /// A full panorama.
    pub(super) fn panorama(size: Option<[u64; 2]>) -> Self {
        Self { model: CameraModel::Equirectangular, size, unit: LensUnit::Pixel, params: Vec::new() }
    }

    /// The camera in px; `stored` is the size of the image if the file has none.
    ///
    /// # Errors
    /// A value is not finite or out of range.
    pub fn camera(&self, id: u32, stored: [u32; 2]) -> Result<SourceCamera, CameraModelError> {
        let [width, height] = self.size.unwrap_or(stored.map(u64::from));
        let (w, h) = (width as f64, height as f64);
        let (middle, scale) = match self.unit {
            LensUnit::Pixel => ([0.0; 2], 1.0),
            LensUnit::PixelFromMiddle => ([0.5 * w, 0.5 * h], 1.0),
            LensUnit::LongerSide => ([0.5 * w, 0.5 * h], w.max(h)),
        };
        let mut params = self.params.clone();
        if self.model == CameraModel::Equirectangular {
            params = vec![w, h];
        } else {
            let focals = if self.model.has_single_focal() { 1 } else { 2 };
            for (at, value) in params.iter_mut().enumerate().take(focals + 2) {
                *value = *value * scale + if at < focals { 0.0 } else { middle[(at - focals) & 1] };
            }
        }
        SourceCamera::new(id, self.model, width, height, params)
    }
}

/// Distortion of a lens: radial k1 to k4, and OpenCV's p1 and p2.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distortion {
    pub(super) k: [f64; 4],
    pub(super) p: [f64; 2],
}

/// Model and parameters of a perspective lens: the smallest model that has all its terms.
///
/// # Errors
/// k4 is not 0: no COLMAP model has it.
pub(super) fn perspective(
    [fx, fy]: [f64; 2],
    [cx, cy]: [f64; 2],
    Distortion { k: [k1, k2, k3, k4], p: [p1, p2] }: Distortion,
) -> Result<(CameraModel, Vec<f64>), ValueProblem> {
    if k4 != 0.0 {
        let expected = "0: no COLMAP model of a perspective lens has this term";
        return Err(ValueProblem::new("k4", format!("is {k4}")).expecting(expected));
    }
    if k3 != 0.0 {
        return Ok((CameraModel::FullOpenCv, vec![fx, fy, cx, cy, k1, k2, p1, p2, k3, 0.0, 0.0, 0.0]));
    }
    if [k1, k2, p1, p2] != [0.0; 4] {
        return Ok((CameraModel::OpenCv, vec![fx, fy, cx, cy, k1, k2, p1, p2]));
    }
    Ok((CameraModel::Pinhole, vec![fx, fy, cx, cy]))
}

/// Model and parameters of an equidistant fisheye with a polynomial of Brown.
pub(super) fn fisheye(
    [fx, fy]: [f64; 2],
    [cx, cy]: [f64; 2],
    Distortion { k: [k1, k2, k3, k4], p: [p1, p2] }: Distortion,
) -> (CameraModel, Vec<f64>) {
    if [p1, p2] == [0.0; 2] {
        return (CameraModel::OpenCvFisheye, vec![fx, fy, cx, cy, k1, k2, k3, k4]);
    }
    (CameraModel::ThinPrismFisheye, vec![fx, fy, cx, cy, k1, k2, p1, p2, k3, k4, 0.0, 0.0])
}
