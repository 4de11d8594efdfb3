//! Position of a receiver at a time.

/// No position is interpolated between two fixes that are further apart than this, seconds.
const MAX_GAP: f64 = 10.0;
/// Half-width of the kernel, seconds, unless frames are closer together.
const HALF_WIDTH: f64 = 0.7;

/// A GPS fix: position of the receiver at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpsFix {
    /// Time on the clock of the track, seconds.
    pub time: f64,
    /// Metres east, north and up.
    pub position: [f64; 3],
    /// Viewing direction of the camera, degrees clockwise from north.
    pub heading: Option<f64>,
    /// Pitch (up) and roll (clockwise) of the camera, degrees.
    pub tilt: Option<[f64; 2]>,
}
/// A track from which positions are interpolated.
#[derive(Clone, Debug)]
pub struct Track<'a> {
    fixes: &'a [GpsFix],
    half_width: f64,
}

impl<'a> Track<'a> {
    /// `fixes` in ascending order of time; `between_frames` is the time between frames, seconds.
    #[must_use]
    pub fn new(fixes: &'a [GpsFix], between_frames: f64) -> Self {
        // Within a tenth of a second a receiver hardly moves.
        Self { fixes, half_width: HALF_WIDTH.min(between_frames).max(0.1) }
    }

    /// Times of the first and last fix, seconds; `None` if there is none.
    pub(super) fn span(&self) -> Option<(f64, f64)> {
        Some((self.fixes.first()?.time, self.fixes.last()?.time))
    }

    /// The index of the first fix that is not before a time.
    fn first_at_or_after(&self, time: f64) -> usize {
        self.fixes.partition_point(|fix| fix.time < time)
    }

    /// Position of the receiver, metres; `None` outside the track and in its gaps.
    #[must_use]
    pub fn position(&self, time: f64) -> Option<[f64; 3]> {
        let at = self.first_at_or_after(time);
        let after = self.fixes.get(at)?;
        if after.time == time && self.fixes.len() == 1 {
            return Some(after.position);
        }
        let before = match at {
            // Exactly at the first fix.
            0 if after.time == time => after,
            0 => return None,
            _ => self.fixes.get(at - 1)?,
        };
        let gap = after.time - before.time;
        if gap > MAX_GAP {
            return None;
        }
        let around = self.fixes.get(
            self.first_at_or_after(time - self.half_width)..self.first_at_or_after(time + self.half_width),
        )?;
        if let Some(place) = regression(around, time, self.half_width) {
            return Some(place);
        }
        let share = if gap > 0.0 { (time - before.time) / gap } else { 0.0 };
        Some(std::array::from_fn(|k| before.position[k] + share * (after.position[k] - before.position[k])))
    }

    /// The fix nearest to a time, if it is less than a second away.
    pub(super) fn nearest(&self, time: f64) -> Option<&GpsFix> {
        let at = self.first_at_or_after(time);
        let both = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|k| self.fixes.get(k));
        let distance = |fix: &&GpsFix| (fix.time - time).abs();
        both.min_by(|a, b| distance(a).total_cmp(&distance(b))).filter(|fix| distance(fix) < 1.0)
    }
}

/// Value at `time` of the line through the fixes within `half_width` of it; `None` if there are too few.
fn regression(around: &[GpsFix], time: f64, half_width: f64) -> Option<[f64; 3]> {
    if around.len() < 3 {
        return None;
    }
    let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
    let (mut value, mut slope) = ([0.0; 3], [0.0; 3]);
    for fix in around {
        let x = (fix.time - time) / half_width;
        let weight = (1.0 - x * x).max(0.0);
        sum += weight;
        first += weight * x;
        second += weight * x * x;
        for k in 0..3 {
            value[k] += weight * fix.position[k];
            slope[k] += weight * x * fix.position[k];
        }
    }
    let determinant = sum * second - first * first;
    // All fixes are on one side, or at one time.
    if determinant < 1e-3 * sum * sum {
        return None;
    }
    Some(std::array::from_fn(|k| (second * value[k] - first * slope[k]) / determinant))
}
