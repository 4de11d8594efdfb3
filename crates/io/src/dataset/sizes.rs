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

/// A camera is far out if its distance from the median place exceeds that of three quarters of the cameras by this factor.
/// Captures that include a walk away from the subject reach 3.
const FAR_CAMERA: f64 = 5.0;
/// Largest fraction of the cameras that can be far out by that factor; more belong to the capture.
const MAX_FAR_FRACTION: f64 = 0.2;
/// Up to half of the cameras are far out if their distance exceeds the median distance by this factor, and if they are not
/// a second place of the capture: at least this many within this many median distances from each other.
const VERY_FAR_CAMERA: f64 = 20.0;
const SECOND_PLACE: (usize, f64) = (4, 5.0);

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
#[must_use]
pub fn is_full_panorama([width, height]: [u32; 2]) -> bool {
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

/// Which cameras are far out, with the factor by which: their distance from the median place over the median of these
/// distances. Usually their pose is wrong.
#[must_use]
pub fn far_cameras(centres: &[[f64; 3]]) -> Vec<(usize, f64)> {
    let Some(middle) = median_place(centres) else { return Vec::new() };
    let distances: Vec<f64> = centres.iter().map(|&c| se3::distance(c, middle)).collect();
    let is_one_place = |distance: f64| distance <= 1e-9 * (1.0 + se3::norm(middle));
    let mut sorted = distances.clone();
    sorted.sort_by(f64::total_cmp);
    // Fewer than half of the distances are larger.
    let median = sorted[sorted.len() / 2];
    let very_far = if is_one_place(median) { f64::INFINITY } else { VERY_FAR_CAMERA * median };
    let very_far = Some(very_far).filter(|&limit| !is_second_place(centres, &distances, limit, median));
    let very_far = very_far.unwrap_or(f64::INFINITY);

    sorted.retain(|&distance| distance <= very_far);
    let usual = sorted[sorted.len() * 3 / 4];
    let far = FAR_CAMERA * usual;
    let count = sorted.iter().filter(|&&distance| distance > far).count();
    let is_few = count as f64 <= MAX_FAR_FRACTION * sorted.len() as f64;
    let limit = if is_few && !is_one_place(usual) { far.min(very_far) } else { very_far };
    let unit = if is_one_place(median) { usual } else { median };
    let factors = distances.iter().enumerate().filter(|(_, distance)| **distance > limit);
    factors.map(|(index, distance)| (index, distance / unit)).collect()
}

/// Whether the cameras beyond a distance are more than a few that are near each other.
fn is_second_place(centres: &[[f64; 3]], distances: &[f64], limit: f64, median: f64) -> bool {
    let far: Vec<[f64; 3]> =
        centres.iter().zip(distances).filter(|(_, distance)| **distance > limit).map(|(c, _)| *c).collect();
    let (least, spread) = SECOND_PLACE;
    if far.len() < least || far.len() as f64 <= MAX_FAR_FRACTION * centres.len() as f64 {
        return false;
    }
    let middle = median_place(&far).unwrap_or_default();
    let mut distances: Vec<f64> = far.iter().map(|&c| se3::distance(c, middle)).collect();
    distances.sort_by(f64::total_cmp);
    distances[distances.len() / 2] <= spread * median
}

/// The cameras that are not far out.
pub(super) fn without_far(centres: &[[f64; 3]]) -> Vec<[f64; 3]> {
    let far = far_cameras(centres);
    let is_near = |i: usize| far.iter().all(|(index, _)| *index != i);
    (0..centres.len()).filter(|&i| is_near(i)).map(|i| centres[i]).collect()
}

/// Median of each coordinate.
fn median_place(centres: &[[f64; 3]]) -> Option<[f64; 3]> {
    let middle = |k: usize| median(centres.iter().map(|c| c[k]).collect());
    Some([middle(0)?, middle(1)?, middle(2)?])
}

/// What to subtract from the coordinates of a scene that is far from the origin: the mean of the training cameras, rounded
/// to whole units (to hundredths of a scene that is smaller than ten). `None` if it is not far.
pub(super) fn far_offset(images: &[ImageEntry], split: &Split, points: &[Point]) -> Option<[f64; 3]> {
    let centres: Vec<[f64; 3]> = split.train.iter().map(|&i| images[i].pose.centre()).collect();
    let near = without_far(&centres);
    let n = near.len().max(1) as f64;
    let mean: [f64; 3] = std::array::from_fn(|k| near.iter().map(|c| c[k] / n).sum());
    let (extent, spread) = scene_extent(&centres, points);
    // Without a spread and points, the extent is arbitrary.
    let is_known = spread > 0.0 || !points.is_empty();
    if !is_known || se3::norm(mean) <= FAR_EXTENTS * extent {
        return None;
    }
    let unit = if extent < 10.0 { 100.0 } else { 1.0 };
    Some(mean.map(|v| (v * unit).round() / unit))
}

/// Scene extent, and the largest distance of a camera from the mean of all, both without the cameras that are far out.
pub(super) fn scene_extent(centres: &[[f64; 3]], points: &[Point]) -> (f64, f64) {
    let centres = without_far(centres);
    let share = 1.0 / centres.len().max(1) as f64;
    let mut mean = [0.0; 3];
    for centre in &centres {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Cameras on a circle of radius 4.
    fn orbit(count: usize) -> Vec<[f64; 3]> {
        let at = |i: usize| {
            let (sine, cosine) = libm::sincos(std::f64::consts::TAU * i as f64 / count as f64);
            [4.0 * cosine, 0.2, 4.0 * sine]
        };
        (0..count).map(at).collect()
    }

    #[test]
    fn a_few_cameras_far_out_do_not_set_the_extent() {
        let clean = orbit(40);
        let (expected, spread) = scene_extent(&clean, &[]);
        assert!((expected - 4.4).abs() < 1e-9 && (spread - 4.0).abs() < 1e-9);
        for far in [vec![7], vec![3, 20, 31]] {
            for distance in [30.0, 1e4, 1e9] {
                let mut centres = clean.clone();
                far.iter().for_each(|&i| centres[i] = [distance, -0.3 * distance, 0.1 * distance]);
                let found: Vec<usize> = far_cameras(&centres).into_iter().map(|(index, _)| index).collect();
                assert_eq!(found, far, "{distance}");
                let (extent, _) = scene_extent(&centres, &[]);
                assert!((extent / expected - 1.0).abs() < 0.06, "{extent} with {far:?} at {distance}");
            }
        }
    }

    #[test]
    fn up_to_half_of_the_cameras_can_be_very_far_out() {
        for (count, far) in [(40, 9), (40, 15), (12, 3), (3, 1), (5, 2)] {
            let mut centres = orbit(count);
            let (expected, _) = scene_extent(&centres[far..], &[]);
            for (i, centre) in centres.iter_mut().take(far).enumerate() {
                let distance = 900.0 * (i + 1) as f64;
                *centre = [distance, -0.3 * distance, 0.1 * distance];
            }
            let found: Vec<usize> = far_cameras(&centres).into_iter().map(|(index, _)| index).collect();
            assert_eq!(found, (0..far).collect::<Vec<_>>(), "{far} of {count}");
            assert_eq!(scene_extent(&centres, &[]).0, expected, "{far} of {count}");
        }
    }

    #[test]
    fn walks_second_places_and_single_places_have_no_camera_far_out() {
        let walk: Vec<[f64; 3]> = (0..30).map(|i| [f64::from(i), 0.0, 0.0]).collect();
        // An orbit, and photographs from farther and farther away.
        let away = [orbit(20), (0..4).map(|i| [8.0 + 4.0 * f64::from(i), 0.0, 0.0]).collect()].concat();
        let two_places = [orbit(30), orbit(10).iter().map(|c| [c[0] + 500.0, c[1], c[2]]).collect()].concat();
        let turning_on_the_spot = [vec![[1.0, 2.0, 3.0]; 20], vec![[1.5, 2.0, 3.0]]].concat();
        for centres in [walk, away, two_places, turning_on_the_spot, orbit(3), Vec::new()] {
            assert_eq!(far_cameras(&centres), []);
        }
    }
}
