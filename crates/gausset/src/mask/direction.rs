//! Detections as directions on the sphere, their assignment to regions of a mask, and the views of the second pass.

use gausset_core::se3;
use gausset_pano::geometry::{View, direction_from_equirect};
use gausset_pano::sphere_mask::SphereMask;
use gausset_pano::sphere_mask::regions::Region;
use gausset_segment::Detection;

/// Maximum number of second-pass views, one for each of the largest regions.
pub(super) const MAX_SECOND_PASS_VIEWS: usize = 24;
/// Field of view of the second pass in degrees.
const SECOND_PASS_FOV: std::ops::RangeInclusive<f64> = 24.0..=120.0;
/// Margin of a second-pass view on each side: a fraction of the region's radius, plus degrees.
const SECOND_PASS_MARGIN: (f64, f64) = (0.25, 4.0);

/// A detection as a direction.
#[derive(Clone)]
pub(super) struct DetectionDirection {
    pub(super) class: usize,
    pub(super) score: f32,
    /// Unit vector to the centre of its mask.
    pub(super) direction: [f64; 3],
    /// Whether it was filled in from neighbouring frames.
    pub(super) is_filled: bool,
}

/// Connected parts of a detection: confidence and centre (px of the image). A semantic class is one detection wherever
/// it appears, so the confidence of a part is limited by that of its pixels.
pub(super) fn parts(find: &Detection) -> Vec<(f32, [f64; 2])> {
    let [width, height] = find.size;
    let mut is_new: Vec<bool> = find.soft_mask.iter().map(|soft| *soft >= 128).collect();
    let mut parts = Vec::new();
    let mut open = Vec::new();
    for start in 0..is_new.len() {
        if !std::mem::take(&mut is_new[start]) {
            continue;
        }
        open.push(start);
        let (mut sum, mut at, mut most) = (0.0, [0.0; 2], 0);
        while let Some(k) = open.pop() {
            let (x, y, soft) = (k % width, k / width, find.soft_mask[k]);
            most = most.max(soft);
            sum += f64::from(soft);
            at[0] += f64::from(soft) * (x as f64 + 0.5);
            at[1] += f64::from(soft) * (y as f64 + 0.5);
            for v in y.saturating_sub(1)..(y + 2).min(height) {
                for u in x.saturating_sub(1)..(x + 2).min(width) {
                    if std::mem::take(&mut is_new[v * width + u]) {
                        open.push(v * width + u);
                    }
                }
            }
        }
        let middle = [0, 1].map(|axis| find.corner[axis] as f64 + at[axis] / sum);
        parts.push((find.confidence.min(f32::from(most) / 255.0), middle));
    }
    parts
}

/// The detection that a region of a mask belongs to: the most confident of the nearest ones.
pub(super) fn best_match<'a>(
    region: &Region,
    sightings: &'a [DetectionDirection],
) -> Option<&'a DetectionDirection> {
    let middle = unit(region.centre);
    // Tolerance: the radius of a disc of the region's area, so that each of several detections in a region qualifies.
    let near = libm::sqrt(region.area_square_degrees / std::f64::consts::PI).max(1.0).to_radians();
    let away =
        |sighting: &DetectionDirection| libm::acos(se3::dot(middle, sighting.direction).clamp(-1.0, 1.0));
    let rank = |s: &DetectionDirection| ((away(s) - near).max(0.0), -s.score);
    sightings.iter().min_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}

pub(super) fn unit(v: [f64; 3]) -> [f64; 3] {
    let length = libm::sqrt(se3::dot(v, v)).max(f64::MIN_POSITIVE);
    v.map(|c| c / length)
}

/// The largest regions; keeps the order if all are used.
pub(super) fn largest(mut regions: Vec<Region>) -> Vec<Region> {
    if regions.len() > MAX_SECOND_PASS_VIEWS {
        regions.sort_by(|a, b| b.area_square_degrees.total_cmp(&a.area_square_degrees));
        regions.truncate(MAX_SECOND_PASS_VIEWS);
    }
    regions
}

/// Angle between the centre of a region and its farthest pixel, degrees; `None` for a region that surrounds the camera.
fn radius(region: &Region, sphere: &SphereMask) -> Option<f64> {
    if se3::dot(region.centre, region.centre) < 0.01 {
        return None;
    }
    let middle = unit(region.centre);
    let (w, h) = (sphere.width as f64, sphere.height as f64);
    let ends = region.runs.iter().flat_map(|run| [(run.start, run.row), (run.end, run.row)]);
    let least = ends.fold(1.0f64, |least, (column, row)| {
        let towards = direction_from_equirect(column as f64, row as f64 + 0.5, w, h);
        least.min(se3::dot(middle, towards))
    });
    Some(libm::acos(least.clamp(-1.0, 1.0)).to_degrees())
}

/// The second-pass view around a region.
pub(super) fn second_pass_view(region: &Region, sphere: &SphereMask, side: u32) -> Option<View> {
    let radius = radius(region, sphere)?;
    let hfov = (2.0 * (radius * (1.0 + SECOND_PASS_MARGIN.0) + SECOND_PASS_MARGIN.1))
        .clamp(*SECOND_PASS_FOV.start(), *SECOND_PASS_FOV.end());
    let [x, y, z] = unit(region.centre);
    let yaw = libm::atan2(x, z).to_degrees();
    let pitch = libm::atan2(-y, libm::hypot(x, z)).to_degrees();
    Some(View { name: "find".to_owned(), yaw, pitch, roll: 0.0, hfov, width: side, height: side })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_find_in_two_places_is_two_sightings() {
        // Rows: a confident part on the left, an uncertain one on the right.
        let soft = vec![255, 250, 0, 0, 150, 255, 255, 100, 0, 140];
        let find = Detection { class: 0, confidence: 0.9, corner: [10, 20], size: [5, 2], soft_mask: soft };
        let [sure, unsure] = parts(&find)[..] else { panic!("{:?}", parts(&find)) };
        assert!((sure.0 - 0.9).abs() < 1e-6 && (unsure.0 - 150.0 / 255.0).abs() < 1e-6);
        assert!((sure.1[0] - 11.0).abs() < 0.02 && (sure.1[1] - 21.0).abs() < 0.02, "{sure:?}");
        assert_eq!(unsure.1[0], 14.5);
    }
}
