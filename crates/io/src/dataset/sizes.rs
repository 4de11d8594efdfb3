//! Sizes: of images compared with their cameras, of training images, of the scene.

use gausset_core::se3;
use gausset_core::statistics::median;

use super::camera_model::{CameraModel, SourceCamera};
use super::lens::Lens;
use super::warning::SkipReason;
use super::{ImageEntry, Point, Split};

/// Factor on the largest distance of a camera from the mean of all cameras (Kerbl et al. 2023, code).
const EXTENT_MARGIN: f64 = 1.1;

/// A scene whose cameras are this many extents from the origin is moved there: 32-bit numbers have 24 bits, so they would
/// keep positions to a ten-thousandth of the extent only.
const FAR_EXTENTS: f64 = 1000.0;

/// Checks that an image fits its camera: one scale for both sides, each within a pixel, and a trainable model.
pub(super) fn check_aspect_ratio(camera: &SourceCamera, stored: [u32; 2]) -> Result<(), SkipReason> {
    if camera.model == CameraModel::Equirectangular
        && !(is_full_panorama(stored) && is_full_panorama([camera.width, camera.height]))
    {
        return Err(SkipReason::Untrainable(camera.model));
    }
    let size = [camera.width, camera.height];
    if is_scaled(stored, size) {
        return Ok(());
    }
    Err(SkipReason::Size {
        found: stored,
        camera: size,
        fits_rotated: is_scaled([stored[1], stored[0]], size),
    })
}

/// Whether a stored size fits a camera as it is, and turned by a quarter.
pub(super) fn fits(camera: &SourceCamera, stored: [u32; 2]) -> [bool; 2] {
    [stored, [stored[1], stored[0]]].map(|size| is_scaled(size, [camera.width, camera.height]))
}

/// Whether the size is that of a full panorama: 2:1, up to the rounding of a resize.
fn is_full_panorama([width, height]: [u32; 2]) -> bool {
    width >= 8 && width.abs_diff(2 * height) <= 2
}

/// Whether one scale maps `camera` to `found` within a pixel on each side.
fn is_scaled(found: [u32; 2], camera: [u32; 2]) -> bool {
    let ratios = |k: usize| {
        let (found, camera) = (f64::from(found[k]), f64::from(camera[k]));
        [(found - 1.0) / camera, (found + 1.0) / camera]
    };
    let ([low_x, high_x], [low_y, high_y]) = (ratios(0), ratios(1));
    low_x.max(low_y) <= high_x.min(high_y)
}

/// The lens of a camera, scaled to images of another size.
pub(super) fn lens_at(camera: &SourceCamera, stored: [u32; 2]) -> Lens {
    let ratio = |found: u32, of: u32| f64::from(found) / f64::from(of);
    camera.lens().scaled(ratio(stored[0], camera.width), ratio(stored[1], camera.height))
}

/// Size of the training image: as stored, or scaled down to `longest` px on its long side.
pub(super) fn training_size(stored: [u32; 2], longest: u32) -> [u32; 2] {
    let long = stored[0].max(stored[1]);
    if longest == 0 || long <= longest {
        return stored;
    }
    let scale = f64::from(longest) / f64::from(long);
    stored.map(|side| ((f64::from(side) * scale).round() as u32).clamp(1, longest))
}

/// Scene extent from the centres of training cameras and points: the unit of learning rates.
#[must_use]
pub fn scene_extent_of(centres: &[[f64; 3]], points: &[[f64; 3]]) -> f64 {
    let point = |&position: &[f64; 3]| Point { position, colour: [0; 3], error: 0.0, track_length: 0 };
    scene_extent(centres, &points.iter().map(point).collect::<Vec<_>>()).0
}

/// What to subtract from the coordinates of a scene that is far from the origin: the mean of the training cameras, rounded
/// to whole units (to hundredths of a scene that is smaller than ten). `None` if it is not far.
pub(super) fn far_offset(images: &[ImageEntry], split: &Split, points: &[Point]) -> Option<[f64; 3]> {
    let centres: Vec<[f64; 3]> = split.train.iter().map(|&i| images[i].pose.centre()).collect();
    let n = centres.len().max(1) as f64;
    let mean: [f64; 3] = std::array::from_fn(|k| centres.iter().map(|c| c[k] / n).sum());
    let (extent, spread) = scene_extent(&centres, points);
    // Without a spread and points, the extent is arbitrary.
    let is_known = spread > 0.0 || !points.is_empty();
    if !is_known || se3::norm(mean) <= FAR_EXTENTS * extent {
        return None;
    }
    let unit = if extent < 10.0 { 100.0 } else { 1.0 };
    Some(mean.map(|v| (v * unit).round() / unit))
}

/// Scene extent, and the largest distance of a camera from the mean of all.
pub(super) fn scene_extent(centres: &[[f64; 3]], points: &[Point]) -> (f64, f64) {
    let share = 1.0 / centres.len().max(1) as f64;
    let mut mean = [0.0; 3];
    for centre in centres {
        (0..3).for_each(|k| mean[k] += share * centre[k]);
    }
    let distance = |p: [f64; 3]| se3::distance(p, mean);
    let spread = centres.iter().map(|&c| distance(c)).fold(0.0, f64::max);
    // Centres are computed from rotations and translations, so equal ones differ by rounding.
    let is_one_place = spread <= 1e-9 * (1.0 + se3::norm(mean));
    let spread = if is_one_place { 0.0 } else { spread };
    let median = median(points.iter().map(|p| distance(p.position)).collect()).unwrap_or(0.0);
    let extent = (EXTENT_MARGIN * spread).max(median);
    // One camera and no points: the unit is arbitrary.
    let is_usable = extent.is_finite() && extent > 0.0;
    (if is_usable { extent } else { 1.0 }, spread)
}
