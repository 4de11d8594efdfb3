//! Whether cameras look straight down, as on a mapping flight.
//!
//! Such cameras share a heading or two, so the tops of their images agree on a horizontal direction, and up is opposite
//! to where they look. Photographs of a facade agree in the same way; a flight differs from them in that
//!
//! ```text
//! looks    agree: mean angle to their mean at most 12 degrees (8 without points)
//! cameras  lie in a plane across the looks, and not on a line across the tops of the images, as steps along a facade do
//! points   lie in a plane, too, at a distance that is not large compared with the spread of the cameras
//! ```

use gausset_core::Pose;
use gausset_core::se3;

/// Fewest cameras that are taken for a flight.
const MIN_CAMERAS: usize = 3;
/// Largest mean angle between a look and the mean of all, degrees: with points, and without.
const MAX_MEAN_ANGLE: f64 = 12.0;
const MAX_MEAN_ANGLE_WITHOUT_POINTS: f64 = 8.0;
/// Largest standard deviation of the centres along the looks, as a fraction of the largest across.
const MAX_HEIGHT_RATIO: f64 = 0.3;
/// Smallest standard deviation of the centres along the tops of the images, as a fraction of the largest across.
const MIN_ADVANCE_RATIO: f64 = 0.25;
/// Tops of images whose mean is shorter than this oppose each other: lines flown back and forth.
const OPPOSED_TOPS: f64 = 0.7;
/// Smallest spread of the centres, and largest spread of the points' distances, as fractions of their median distance.
/// Forward-facing captures of a room or an object have 0.1 to 0.3 and 0.2 or more; the mapping flights tried 0.7 and 0.03.
const MIN_BASELINE_RATIO: f64 = 0.3;
const MAX_RELIEF_RATIO: f64 = 0.2;

/// Whether cameras look straight down onto points (which may be unknown: empty).
pub(crate) fn look_straight_down(camera_from_world: &[Pose], points: &[[f64; 3]]) -> bool {
    let count = camera_from_world.len() as f64;
    let mean_axis = |row: usize| mean(camera_from_world.iter().map(|pose| pose.rotation[row]), count);
    let (looks, downs) = (mean_axis(2), mean_axis(1));
    let Some(look) = unit(looks).filter(|_| camera_from_world.len() >= MIN_CAMERAS) else { return false };
    let angles = camera_from_world.iter().map(|pose| libm::acos(se3::dot(pose.rotation[2], look).min(1.0)));
    let limit = if points.is_empty() { MAX_MEAN_ANGLE_WITHOUT_POINTS } else { MAX_MEAN_ANGLE };
    if angles.sum::<f64>().to_degrees() > limit * count {
        return false;
    }
    let middle = mean(camera_from_world.iter().map(Pose::centre), count);
    let deviation = |axis: [f64; 3]| {
        let squares = camera_from_world.iter().map(|p| se3::dot(se3::sub(p.centre(), middle), axis).powi(2));
        (squares.sum::<f64>() / count).sqrt()
    };
    let across = se3::sub(downs, look.map(|v| v * se3::dot(downs, look)));
    let Some(advance) = unit(across).or_else(|| unit(perpendicular(look))) else { return false };
    let (along, side) = (deviation(advance), deviation(se3::cross(look, advance)));
    let widest = along.max(side);
    let is_level = widest > 0.0 && deviation(look) <= MAX_HEIGHT_RATIO * widest;
    let is_area = along >= MIN_ADVANCE_RATIO * widest || se3::norm(downs) < OPPOSED_TOPS;
    is_level && is_area && is_ground(points, middle, look, along.hypot(side))
}

/// Whether points are a ground in direction `look` of cameras with this spread; true if there are none.
fn is_ground(points: &[[f64; 3]], middle: [f64; 3], look: [f64; 3], spread: f64) -> bool {
    let mut depths: Vec<f64> = points.iter().map(|&p| se3::dot(se3::sub(p, middle), look)).collect();
    if depths.is_empty() {
        return true;
    }
    depths.sort_by(f64::total_cmp);
    let quantile = |share: f64| depths[(share * (depths.len() - 1) as f64) as usize];
    let (median, relief) = (quantile(0.5), 0.5 * (quantile(0.84) - quantile(0.16)));
    median > 0.0 && relief <= MAX_RELIEF_RATIO * median && spread >= MIN_BASELINE_RATIO * median
}

fn mean(vectors: impl Iterator<Item = [f64; 3]>, count: f64) -> [f64; 3] {
    vectors.fold([0.0; 3], |sum, v| std::array::from_fn(|k| sum[k] + v[k] / count))
}

fn unit(v: [f64; 3]) -> Option<[f64; 3]> {
    let length = se3::norm(v);
    (length > 1e-9).then(|| v.map(|x| x / length))
}

/// Some direction across a unit vector.
fn perpendicular(v: [f64; 3]) -> [f64; 3] {
    if v[0].abs() < 0.9 { se3::cross(v, [1.0, 0.0, 0.0]) } else { se3::cross(v, [0.0, 1.0, 0.0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cameras on a grid of `columns` by `rows` steps, looking along -z; the top of every image is +y, or -y in every
    /// second row if they fly back and forth. Every camera is tilted a little, each in another direction.
    fn flight(columns: usize, rows: usize, is_back_and_forth: bool) -> Vec<Pose> {
        let camera = |k: usize| {
            let (column, row) = (k % columns, k / columns);
            let side = if is_back_and_forth && row % 2 == 1 { -1.0 } else { 1.0 };
            let down = [0.0, -side, 0.0];
            let forward = [0.0, 0.0, -1.0];
            let level = [se3::cross(down, forward), down, forward];
            let a = 2.4 * k as f64;
            let rotation = se3::mul(&se3::so3_exp([0.08 * libm::sin(a), 0.08 * libm::cos(a), 0.0]), &level);
            let back = se3::mul_vec(&rotation, [10.0 * column as f64, 10.0 * row as f64, 0.1 * side]);
            Pose { rotation, translation: back.map(|v| -v) }
        };
        (0..columns * rows).map(camera).collect()
    }

    /// Points on a plane at z = `-distance`, with this relief.
    fn ground(distance: f64, relief: f64) -> Vec<[f64; 3]> {
        let point = |k: usize| {
            let (x, y) = ((k % 20) as f64, (k / 20) as f64);
            [2.0 * x, 2.0 * y, relief * libm::sin(1.7 * k as f64) - distance]
        };
        (0..400).map(point).collect()
    }

    #[test]
    fn a_flight_of_one_heading_looks_straight_down() {
        for cameras in [flight(3, 5, false), flight(4, 5, true), flight(1, 6, false)] {
            assert!(look_straight_down(&cameras, &ground(30.0, 2.0)));
            assert!(look_straight_down(&cameras, &[]));
        }
    }

    #[test]
    fn steps_along_a_facade_and_a_forward_facing_capture_do_not() {
        // The tops of the images are across the way along the facade.
        assert!(!look_straight_down(&flight(8, 1, false), &ground(30.0, 2.0)));
        // A grid of cameras that is small compared with the distance, and a deep scene.
        assert!(!look_straight_down(&flight(3, 5, false), &ground(100.0, 2.0)));
        assert!(!look_straight_down(&flight(3, 5, false), &ground(30.0, 15.0)));
        // Walking forward: the way is along the looks.
        let forward: Vec<Pose> = flight(3, 5, false)
            .into_iter()
            .map(|pose| Pose { translation: [pose.translation[0], 0.0, 3.0 * pose.translation[1]], ..pose })
            .collect();
        assert!(!look_straight_down(&forward, &[]));
        assert!(!look_straight_down(&[], &[]));
    }
}
