//! Temporal consistency of detections in a video: a detection missing in a frame is interpolated from the frames around
//! it, and a weak one without a match in other frames is dropped.
//!
//! A detection of another frame is first transformed by the camera's rotation between the frames. The remaining
//! displacement is the object's own motion, interpolated linearly over the frames in between.

use gausset_core::se3::{self, IDENTITY3, Mat3};

use super::SphereMask;
use super::reach::longitude_half_width;
use super::regions::{Region, RegionRun};
use crate::sphere::geometry::{direction_from_equirect, equirect_from_direction};
use crate::sphere::projection::angle_between;

/// A detected object in one frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// Its pixels on the sphere.
    pub region: Region,
    /// Confidence of the detector, 0 to 1.
    pub confidence: f32,
    /// Class number, defined by the caller. An interpolated detection has the class of the earlier one.
    pub class: usize,
}

/// How detections of neighbouring frames are matched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TemporalOptions {
    /// Largest gap in frames that is interpolated, and the number of frames before and after in which a match is
    /// searched.
    pub max_gap: usize,
    /// Degrees by which a detection may move per frame after compensation of the camera's rotation, in addition to half
    /// its radius.
    pub max_degrees_per_frame: f64,
    /// Confidence below which a detection needs a match in another frame.
    pub weak_confidence: f32,
}

impl Default for TemporalOptions {
    fn default() -> Self {
        Self { max_gap: 1, max_degrees_per_frame: 6.0, weak_confidence: 0.7 }
    }
}

/// The result for one frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConsistentFrame {
    /// Indices of the frame's detections that are kept.
    pub kept: Vec<usize>,
    /// Interpolated detections that the frame missed. Each is stored twice, once from either side; the object is their
    /// union.
    pub interpolated: Vec<Detection>,
}

/// The detections of frame `k` after the consistency check, for masks of this width and height. `rotations[k]` rotates
/// directions of frame k - 1 to frame k; if it is unknown, no detections are matched across that step. Frames farther away
/// than [`TemporalOptions::max_gap`] have no influence.
///
/// # Panics
/// If `rotations` and `detections` differ in length, or there is no frame `k`.
#[must_use]
pub fn consistent_frame(
    detections: &[&[Detection]],
    rotations: &[Option<Mat3>],
    k: usize,
    size: [usize; 2],
    how: &TemporalOptions,
) -> ConsistentFrame {
    assert_eq!(detections.len(), rotations.len(), "a turn for each frame");
    let film = DetectionSequence { finds: detections, rotations, size, how };
    let kept = (0..detections[k].len()).filter(|index| film.is_kept(k, &detections[k][*index])).collect();
    ConsistentFrame { kept, interpolated: film.interpolate_missed(k) }
}

struct DetectionSequence<'a> {
    finds: &'a [&'a [Detection]],
    rotations: &'a [Option<Mat3>],
    size: [usize; 2],
    how: &'a TemporalOptions,
}

impl DetectionSequence<'_> {
    /// The rotation of directions of one frame to another.
    fn rotation(&self, from: usize, to: usize) -> Option<Mat3> {
        if from > to {
            return Some(se3::transpose(&self.rotation(to, from)?));
        }
        self.rotations[from + 1..=to]
            .iter()
            .try_fold(IDENTITY3, |all, turn| Some(se3::mul(turn.as_ref()?, &all)))
    }

    /// Whether two detections may be the same object; `b_middle` is the centre of the second in the frame of the first.
    fn may_match(&self, a: &Detection, b: &Detection, b_middle: [f64; 3], steps: usize) -> bool {
        let radius = |find: &Detection| (find.region.area_square_degrees / std::f64::consts::PI).sqrt();
        let (small, large) = {
            let (a, b) = (radius(a), radius(b));
            (a.min(b), a.max(b))
        };
        let apart = angle_between(a.region.centre, b_middle).to_degrees();
        large <= 2.0 * small && apart <= self.how.max_degrees_per_frame * steps as f64 + 0.5 * large
    }

    fn is_kept(&self, k: usize, find: &Detection) -> bool {
        if find.confidence >= self.how.weak_confidence || self.how.max_gap == 0 {
            return true;
        }
        let last = (k + self.how.max_gap).min(self.finds.len() - 1);
        (k.saturating_sub(self.how.max_gap)..=last).filter(|other| *other != k).any(|other| {
            self.rotation(other, k).is_some_and(|turn| {
                self.finds[other].iter().any(|known| {
                    let middle = se3::mul_vec(&turn, known.region.centre);
                    self.may_match(find, known, middle, other.abs_diff(k))
                })
            })
        })
    }

    /// Detections that frames before and after have and this one misses.
    fn interpolate_missed(&self, k: usize) -> Vec<Detection> {
        let mut filled: Vec<Detection> = Vec::new();
        for gap in 2..=self.how.max_gap + 1 {
            for before in 1..gap {
                let behind = gap - before;
                if before > k || k + behind >= self.finds.len() {
                    continue;
                }
                let (earlier, later) = (k - before, k + behind);
                let (Some(from_earlier), Some(from_later)) =
                    (self.rotation(earlier, k), self.rotation(later, k))
                else {
                    continue;
                };
                for a in self.finds[earlier] {
                    let a_middle = se3::mul_vec(&from_earlier, a.region.centre);
                    let seen = Detection { region: Region { centre: a_middle, ..a.region.clone() }, ..*a };
                    let same = self.finds[later]
                        .iter()
                        .map(|b| (b, se3::mul_vec(&from_later, b.region.centre)))
                        .filter(|(b, b_middle)| self.may_match(&seen, b, *b_middle, gap))
                        .min_by(|x, y| angle_between(a_middle, x.1).total_cmp(&angle_between(a_middle, y.1)));
                    let Some((b, b_middle)) = same else { continue };
                    let share = before as f64 / gap as f64;
                    let middle = slerp(a_middle, b_middle, share);
                    let expected = Detection { region: Region { centre: middle, ..seen.region }, ..*a };
                    let is_known = |find: &Detection| self.may_match(&expected, find, find.region.centre, 1);
                    if self.finds[k].iter().chain(&filled).any(is_known) {
                        continue;
                    }
                    let confidence = a.confidence.min(b.confidence);
                    for (find, turn, own) in [(a, from_earlier, a_middle), (b, from_later, b_middle)] {
                        let turn = se3::mul(&rotation_between(own, middle), &turn);
                        filled.push(Detection {
                            region: rotate_region(&find.region, self.size, &turn),
                            confidence,
                            class: a.class,
                        });
                    }
                }
            }
        }
        filled
    }
}

/// A region after a rotation of all directions.
#[must_use]
pub fn rotate_region(region: &Region, [width, height]: [usize; 2], turn: &Mat3) -> Region {
    let mut mask = SphereMask::new(width, height);
    mask.remove(region);
    let (w, h) = (width as f64, height as f64);
    // No run edge is farther from the centre than the corner of its farthest pixel.
    let radius = region
        .runs
        .iter()
        .flat_map(|run| (run.start..=run.end).map(|x| (x, run.row)))
        .map(|(x, y)| angle_between(region.centre, direction_from_equirect(x as f64, y as f64 + 0.5, w, h)))
        .fold(0.0, f64::max)
        + 2.0 * std::f64::consts::PI / h;
    let middle = se3::mul_vec(turn, region.centre);
    let (lon, lat) =
        (libm::atan2(middle[0], middle[2]), libm::atan2(-middle[1], libm::hypot(middle[0], middle[2])));
    let back = se3::transpose(turn);
    let mut runs = Vec::new();
    for row in 0..height {
        let Some(reach) = longitude_half_width(lat, mask.latitude(row), radius) else { continue };
        let first = ((lon - reach) / std::f64::consts::TAU * w + 0.5 * w).floor() as isize;
        let count = ((2.0 * reach / std::f64::consts::TAU * w).ceil() as usize + 2).min(width);
        let mut columns: Vec<usize> = (first..first + count as isize)
            .map(|x| x.rem_euclid(width as isize) as usize)
            .filter(|x| {
                let direction = direction_from_equirect(*x as f64 + 0.5, row as f64 + 0.5, w, h);
                let [u, v] = equirect_from_direction(se3::mul_vec(&back, direction), w, h);
                let (x, y) = ((u as usize).min(width - 1), (v as usize).min(height - 1));
                mask.data[y * width + x] == 0
            })
            .collect();
        columns.sort_unstable();
        for x in columns {
            match runs.last_mut() {
                Some(RegionRun { row: last, end, .. }) if *last == row && *end == x => *end += 1,
                _ => runs.push(RegionRun { row, start: x, end: x + 1 }),
            }
        }
    }
    Region { runs, area_square_degrees: region.area_square_degrees, centre: middle }
}

/// The shortest rotation from one direction to another (Rodrigues).
fn rotation_between(from: [f64; 3], to: [f64; 3]) -> Mat3 {
    let axis = se3::cross(from, to);
    let length = se3::norm(axis);
    if length < 1e-12 {
        return IDENTITY3;
    }
    let angle = angle_between(from, to);
    se3::so3_exp(axis.map(|value| value * angle / length))
}

/// Interpolates between two directions along the great circle.
fn slerp(from: [f64; 3], to: [f64; 3], share: f64) -> [f64; 3] {
    let axis = se3::cross(from, to);
    let length = se3::norm(axis);
    if length < 1e-12 {
        return from;
    }
    let angle = share * angle_between(from, to);
    se3::mul_vec(&se3::so3_exp(axis.map(|value| value * angle / length)), from)
}

#[cfg(test)]
mod tests {
    use super::super::REMOVED;
    use super::*;
    use crate::sphere::geometry::rotation;

    const SIZE: [usize; 2] = [720, 360];

    /// A figure of 8 x 20 degrees around a direction.
    fn figure(middle: [f64; 3]) -> SphereMask {
        let mut mask = SphereMask::new(SIZE[0], SIZE[1]);
        let (lon, lat) =
            (libm::atan2(middle[0], middle[2]), libm::atan2(-middle[1], libm::hypot(middle[0], middle[2])));
        let back = se3::transpose(&rotation(lon.to_degrees(), lat.to_degrees(), 0.0));
        for (at, keep) in mask.data.iter_mut().enumerate() {
            let (x, y) = ((at % SIZE[0]) as f64 + 0.5, (at / SIZE[0]) as f64 + 0.5);
            let d = se3::mul_vec(&back, direction_from_equirect(x, y, SIZE[0] as f64, SIZE[1] as f64));
            let (across, up) = (libm::atan2(d[0], d[2]).to_degrees(), libm::asin(d[1]).to_degrees());
            if d[2] > 0.0 && (across / 4.0).powi(2) + (up / 10.0).powi(2) < 1.0 {
                *keep = 0;
            }
        }
        mask
    }

    fn find(mask: &SphereMask, confidence: f32) -> Detection {
        Detection { region: mask.regions().remove(0), confidence, class: 0 }
    }

    /// A camera that rotates by 7 degrees per frame and tilts, past a figure that moves 1.5 degrees per frame.
    fn film(count: usize) -> (Vec<SphereMask>, Vec<Option<Mat3>>) {
        let pose = |k: usize| rotation(7.0 * k as f64, 3.0 * (k as f64).sin(), 2.0 * (k as f64).cos());
        let turns = (0..count)
            .map(|k| k.checked_sub(1).map(|before| se3::mul(&se3::transpose(&pose(k)), &pose(before))))
            .collect();
        let masks = (0..count)
            .map(|k| {
                let in_world = se3::mul_vec(&rotation(1.5 * k as f64, -15.0, 0.0), [0.0, 0.0, 1.0]);
                figure(se3::mul_vec(&se3::transpose(&pose(k)), in_world))
            })
            .collect();
        (masks, turns)
    }

    /// The detections of every frame after the check.
    fn settled(
        finds: &[Vec<Detection>],
        rotations: &[Option<Mat3>],
        options: TemporalOptions,
    ) -> Vec<Vec<Detection>> {
        let detections: Vec<&[Detection]> = finds.iter().map(Vec::as_slice).collect();
        let of = |k: usize| {
            let found = consistent_frame(&detections, rotations, k, SIZE, &options);
            found.kept.iter().map(|index| finds[k][*index].clone()).chain(found.interpolated).collect()
        };
        (0..finds.len()).map(of).collect()
    }

    #[test]
    fn a_figure_that_frames_missed_is_filled_and_single_weak_finds_are_dropped() {
        let (truth, turns) = film(40);
        let (mut missed, mut single) = (Vec::new(), 0);
        let finds: Vec<Vec<Detection>> = (0..truth.len())
            .map(|k| {
                let mut finds = Vec::new();
                if k % 5 == 2 {
                    missed.push(k);
                } else {
                    // Half of the figure's detections are weak, and confirm each other.
                    finds.push(find(&truth[k], if k % 2 == 0 { 0.5 } else { 0.9 }));
                }
                if k % 3 == 0 {
                    // A different position each time.
                    let place = rotation(100.0 + 67.0 * k as f64, 30.0 - 11.0 * (k % 7) as f64, 0.0);
                    finds.push(find(&figure(se3::mul_vec(&place, [0.0, 0.0, 1.0])), 0.55));
                    single += 1;
                }
                finds
            })
            .collect();
        let settled = settled(&finds, &turns, TemporalOptions::default());
        for &k in &missed {
            let mut mask = SphereMask::new(SIZE[0], SIZE[1]);
            settled[k].iter().for_each(|find| mask.remove(&find.region));
            let (mut there, mut filled, mut more) = (0, 0, 0);
            for (got, wanted) in mask.data.iter().zip(&truth[k].data) {
                there += usize::from(*wanted < REMOVED);
                filled += usize::from(*wanted < REMOVED && *got < REMOVED);
                more += usize::from(*wanted >= REMOVED && *got < REMOVED);
            }
            assert!(filled * 100 >= there * 95, "frame {k}: {filled} of {there} px filled");
            assert!(more * 100 <= there * 15, "frame {k}: {more} px too many for {there}");
        }
        let left: usize = settled.iter().map(Vec::len).sum();
        // The figure once per frame, twice where it was interpolated.
        assert_eq!(left, 32 + 2 * missed.len(), "of {single} single finds none is left");
    }

    #[test]
    fn what_is_not_known_of_the_camera_changes_nothing() {
        let (truth, _) = film(5);
        let finds: Vec<Vec<Detection>> = truth
            .iter()
            .enumerate()
            .map(|(k, mask)| if k == 2 { vec![] } else { vec![find(mask, 0.9)] })
            .collect();
        assert_eq!(settled(&finds, &[None; 5], TemporalOptions::default()), finds);
        let off = TemporalOptions { max_gap: 0, ..TemporalOptions::default() };
        let weak = vec![vec![find(&truth[0], 0.1)]];
        assert_eq!(settled(&weak, &[None], off), weak);
    }

    #[test]
    fn a_longer_gap_is_filled_where_it_is_wanted() {
        let (truth, turns) = film(6);
        let gap = |k: usize| k == 2 || k == 3;
        let finds: Vec<Vec<Detection>> = truth
            .iter()
            .enumerate()
            .map(|(k, mask)| if gap(k) { vec![] } else { vec![find(mask, 0.9)] })
            .collect();
        let one = settled(&finds, &turns, TemporalOptions::default());
        assert!(one[2].is_empty() && one[3].is_empty());
        let two = settled(&finds, &turns, TemporalOptions { max_gap: 2, ..TemporalOptions::default() });
        for k in [2, 3] {
            let apart = angle_between(two[k][0].region.centre, truth[k].regions()[0].centre).to_degrees();
            assert!(apart < 0.5, "frame {k}: {apart} degrees");
        }
    }

    #[test]
    fn a_turned_region_is_the_region_there() {
        for (yaw, pitch) in [(180.0, 0.0), (10.0, 80.0), (-170.0, -75.0)] {
            let start = figure([0.0, 0.0, 1.0]);
            let turn = rotation(yaw, pitch, 0.0);
            let region = rotate_region(&start.regions()[0], SIZE, &turn);
            let mut mask = SphereMask::new(SIZE[0], SIZE[1]);
            mask.remove(&region);
            let truth = figure(se3::mul_vec(&turn, [0.0, 0.0, 1.0]));
            let share = |mask: &SphereMask, other: &SphereMask| -> f64 {
                let both =
                    mask.data.iter().zip(&other.data).enumerate().filter(|(_, (a, b))| **a == 0 && **b == 0);
                both.map(|(at, _)| mask.pixel_fraction(at / SIZE[0])).sum()
            };
            let (both, own, wanted) =
                (share(&mask, &truth), mask.removed_fraction(), truth.removed_fraction());
            assert!(both / (own + wanted - both) > 0.95, "{yaw} {pitch}: {both} {own} {wanted}");
        }
    }
}
