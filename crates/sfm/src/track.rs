//! The way of a receiver beside the way of a camera: by how much their clocks differ, and the similarity between them.
//!
//! ```text
//! place    of the receiver at a moment: a line by weighted least squares through the fixes around it (Epanechnikov's
//!          kernel), between two of them where they are sparse
//! fit      metres ≈ s R centre + t, reweighted by Cauchy's weights (they begin with those of absolute errors); looks of
//!          the camera, where they are known, are directions in the same sum (Wahba 1965, solved by Horn 1987)
//! offset   of all offsets at which enough frames have a place the one whose fit leaves the least of the spread; then
//!          by golden section, and its standard deviation from the curvature there
//! ```

use gausset_core::Pose;
use gausset_core::se3::{self, Mat3};
use serde::Serialize;

use crate::compare::Similarity;
use crate::gps::{self, nearest_rotation};

/// Fewest frames with a place.
pub const FEWEST: usize = 3;
/// A moment between two fixes that are further apart has no place, seconds.
const LONGEST_GAP: f64 = 10.0;
/// Half the width of the kernel, seconds, unless frames follow each other faster.
const HALF_WIDTH: f64 = 0.7;
/// Share of the frames that have a place at an offset that is looked at.
const COVERED: f64 = 0.6;
/// Steps of the search over offsets: so many seconds, and at most so many of them.
const STEP: f64 = 0.25;
const MOST_STEPS: f64 = 20_000.0;
/// Frames that the search looks at.
const MOST_FRAMES: usize = 100;
/// Rounds of reweighting; those that begin with absolute errors.
const ROUNDS: usize = 20;
const FIRST_ROUNDS: usize = 6;
/// Standard deviation of a heading or a tilt, radians; and of places beside them at least, share of their spread: places
/// without any noise would leave looks no say in what only they know.
const LOOK: f64 = 0.1;
const PLACE: f64 = 1e-3;

/// Where the receiver was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fix {
    /// Seconds.
    pub time: f64,
    /// Metres east, north and up.
    pub place: [f64; 3],
    /// Where the camera looked, degrees clockwise from north.
    pub heading: Option<f64>,
    /// Pitch (up) and roll (clockwise) of the camera, degrees.
    pub tilt: Option<[f64; 2]>,
}

/// A frame with its moment by the camera's clock and its pose, `camera_from_world`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Seconds.
    pub time: f64,
    /// Its pose.
    pub pose: Pose,
}

/// An offset that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    /// What is added to the time of a frame to get that of the track, seconds.
    pub seconds: f64,
    /// Its standard deviation, seconds.
    pub deviation: f64,
}

/// How a track fits the frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrackFit {
    /// What is added to the time of a frame to get that of the track, seconds.
    pub offset_s: f64,
    /// Its standard deviation, where it was looked for, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset_deviation_s: Option<f64>,
    /// Frames that have a place.
    pub frames: usize,
    /// Metres per unit of the frames' world.
    pub scale: f64,
    /// Root mean square distance of the frames from their places, far ones weighing less, metres.
    pub residual: f64,
    /// Root mean square distance of the places from their mean, metres.
    pub spread: f64,
    /// Frames that say where the camera looked, or how it was held.
    pub looks: usize,
    /// From the frames' world to metres east, north and up.
    #[serde(skip)]
    pub similarity: Similarity,
}

impl TrackFit {
    /// Whether the scale says more than the noise.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let fit =
            gps::Fit { scale: self.scale, residual: self.residual, spread: self.spread, count: self.frames };
        fit.is_good()
    }
}

/// A track that can be asked for places.
#[derive(Clone, Debug)]
pub struct Way<'a> {
    fixes: &'a [Fix],
    half_width: f64,
}

impl<'a> Way<'a> {
    /// Over fixes in the order of their times, for frames that follow each other so many seconds apart.
    #[must_use]
    pub fn new(fixes: &'a [Fix], between_frames: f64) -> Self {
        // Shorter than a tenth of a second nothing moves.
        Self { fixes, half_width: HALF_WIDTH.min(between_frames).max(0.1) }
    }

    /// The index of the first fix not before a time.
    fn from(&self, time: f64) -> usize {
        self.fixes.partition_point(|fix| fix.time < time)
    }

    /// Where the receiver was, metres; `None` outside the track and in its gaps.
    #[must_use]
    pub fn place(&self, time: f64) -> Option<[f64; 3]> {
        let at = self.from(time);
        let after = self.fixes.get(at)?;
        if after.time == time && self.fixes.len() == 1 {
            return Some(after.place);
        }
        let before = match at {
            // The first fix itself.
            0 if after.time == time => after,
            0 => return None,
            _ => self.fixes.get(at - 1)?,
        };
        let gap = after.time - before.time;
        if gap > LONGEST_GAP {
            return None;
        }
        let around = self.fixes.get(self.from(time - self.half_width)..self.from(time + self.half_width))?;
        if let Some(place) = regression(around, time, self.half_width) {
            return Some(place);
        }
        let share = if gap > 0.0 { (time - before.time) / gap } else { 0.0 };
        Some(std::array::from_fn(|k| before.place[k] + share * (after.place[k] - before.place[k])))
    }

    /// The fix nearest to a time, if it is nearer than a second.
    fn nearest(&self, time: f64) -> Option<&Fix> {
        let at = self.from(time);
        let both = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|k| self.fixes.get(k));
        let distance = |fix: &&Fix| (fix.time - time).abs();
        both.min_by(|a, b| distance(a).total_cmp(&distance(b))).filter(|fix| distance(fix) < 1.0)
    }
}

/// The value at `time` of the line through the fixes within `half_width` of it; `None` where there are too few.
fn regression(around: &[Fix], time: f64, half_width: f64) -> Option<[f64; 3]> {
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
            value[k] += weight * fix.place[k];
            slope[k] += weight * x * fix.place[k];
        }
    }
    let determinant = sum * second - first * first;
    // All at one side, or at one moment.
    if determinant < 1e-3 * sum * sum {
        return None;
    }
    Some(std::array::from_fn(|k| (second * value[k] - first * slope[k]) / determinant))
}

/// Directions of the camera that are known on the earth: in its world, and there.
type Looks = Vec<([f64; 3], [f64; 3])>;

/// Frames with their places.
struct Paired {
    centres: Vec<[f64; 3]>,
    places: Vec<[f64; 3]>,
    looks: Looks,
    /// Frames with a look.
    looking: usize,
}

fn pair(frames: &[Frame], way: &Way<'_>, offset: f64, with_looks: bool) -> Paired {
    let mut found = Paired { centres: Vec::new(), places: Vec::new(), looks: Vec::new(), looking: 0 };
    for frame in frames {
        let time = frame.time + offset;
        let Some(place) = way.place(time) else { continue };
        found.centres.push(frame.pose.centre());
        found.places.push(place);
        if let Some(fix) = way.nearest(time).filter(|_| with_looks) {
            let before = found.looks.len();
            looks_of(fix, &frame.pose, &mut found.looks);
            found.looking += usize::from(found.looks.len() > before);
        }
    }
    found
}

/// What a fix says of the camera's directions. Camera axes: x right, y down, z forward.
fn looks_of(fix: &Fix, pose: &Pose, out: &mut Looks) {
    let world_from_camera = se3::transpose(&pose.rotation);
    let (sin_cos, zero) =
        (|degrees: f64| (libm::sin(degrees.to_radians()), libm::cos(degrees.to_radians())), [0.0, 0.0]);
    let [pitch, roll] = fix.tilt.unwrap_or(zero);
    let ((sp, cp), (sr, cr)) = (sin_cos(pitch), sin_cos(roll));
    if fix.tilt.is_some() {
        // Up as the camera sees it: -y, pitched, then rolled.
        let up = [-sr * cp, -cr * cp, sp];
        out.push((se3::mul_vec(&world_from_camera, up), [0.0, 0.0, 1.0]));
    }
    if let Some(heading) = fix.heading {
        let (s, c) = sin_cos(heading);
        out.push((se3::mul_vec(&world_from_camera, [0.0, 0.0, 1.0]), [s * cp, c * cp, sp]));
    }
}

/// A similarity with weights: rotation from places and looks, scale and translation from places.
struct Solution {
    similarity: Similarity,
    residuals: Vec<f64>,
}

fn solve(paired: &Paired, weights: &[f64], looks: f64, previous: f64) -> Option<Solution> {
    let total: f64 = weights.iter().sum();
    if total.is_nan() || total <= 0.0 {
        return None;
    }
    let mean = |points: &[[f64; 3]]| -> [f64; 3] {
        std::array::from_fn(|k| points.iter().zip(weights).map(|(p, w)| w * p[k]).sum::<f64>() / total)
    };
    let (a0, b0) = (mean(&paired.centres), mean(&paired.places));
    let mut covariance = [[0.0; 3]; 3];
    let mut variance = 0.0;
    for ((a, b), w) in paired.centres.iter().zip(&paired.places).zip(weights) {
        let a: [f64; 3] = std::array::from_fn(|k| a[k] - a0[k]);
        let b: [f64; 3] = std::array::from_fn(|k| b[k] - b0[k]);
        add(&mut covariance, b, a, *w);
        variance += w * se3::dot(a, a);
    }
    // Places and looks in one sum, each over its variance.
    let mut both = covariance.map(|row| row.map(|v| v * previous));
    for (camera, earth) in &paired.looks {
        add(&mut both, *earth, *camera, looks);
    }
    let rotation = nearest_rotation(&both);
    let trace: f64 = (0..3).map(|i| (0..3).map(|j| rotation[i][j] * covariance[i][j]).sum::<f64>()).sum();
    let scale = trace / variance;
    if !(scale.is_finite() && scale > 0.0) {
        return None;
    }
    let turned = se3::mul_vec(&rotation, a0);
    let translation = std::array::from_fn(|k| b0[k] - scale * turned[k]);
    let similarity = Similarity { scale, rotation, translation };
    let miss = |(a, b): (&[f64; 3], &[f64; 3])| {
        let at = similarity.apply(*a);
        se3::norm(std::array::from_fn(|k| at[k] - b[k]))
    };
    let residuals = paired.centres.iter().zip(&paired.places).map(miss).collect();
    Some(Solution { similarity, residuals })
}

fn add(sum: &mut Mat3, b: [f64; 3], a: [f64; 3], weight: f64) {
    for i in 0..3 {
        for j in 0..3 {
            sum[i][j] += weight * b[i] * a[j];
        }
    }
}

fn root_mean_square(values: &[f64], weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    (values.iter().zip(weights).map(|(v, w)| w * v * v).sum::<f64>() / total).sqrt()
}

/// Root mean square distance of points from their mean, each with its weight.
fn spread(points: &[[f64; 3]], weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    let mean: [f64; 3] =
        std::array::from_fn(|k| points.iter().zip(weights).map(|(p, w)| w * p[k]).sum::<f64>() / total);
    let distances: Vec<f64> =
        points.iter().map(|p| se3::norm(std::array::from_fn(|k| p[k] - mean[k]))).collect();
    root_mean_square(&distances, weights)
}

/// Of an even number the upper one of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Median distance of points from the median of each coordinate.
fn typical_spread(points: &[[f64; 3]]) -> f64 {
    let middle: [f64; 3] = std::array::from_fn(|k| median(points.iter().map(|p| p[k]).collect()));
    median(points.iter().map(|p| se3::norm(std::array::from_fn(|k| p[k] - middle[k]))).collect())
}

/// The robust fit: the solution with its weights.
fn robust(paired: &Paired, rounds: usize) -> Option<(Solution, Vec<f64>)> {
    if paired.centres.len() < FEWEST {
        return None;
    }
    let extent = typical_spread(&paired.places);
    let mut weights = vec![1.0; paired.centres.len()];
    let mut scale = extent / typical_spread(&paired.centres).max(f64::MIN_POSITIVE);
    let mut deviation = 0.1 * extent;
    let mut best = None;
    for round in 0..rounds {
        let looks = (deviation.max(PLACE * extent) / LOOK).powi(2);
        let solution = solve(paired, &weights, looks, scale)?;
        // Of three coordinates alike, the median distance is 1.54 standard deviations.
        deviation = (median(solution.residuals.clone()) / 1.54).max(1e-9 * extent);
        scale = solution.similarity.scale;
        weights = solution
            .residuals
            .iter()
            .map(|r| match round < FIRST_ROUNDS {
                true => deviation / r.max(deviation),
                false => 1.0 / (1.0 + (r / (3.0 * deviation)).powi(2)),
            })
            .collect();
        best = Some(solution);
    }
    best.map(|solution| (solution, weights))
}

/// The similarity at an offset; `None` where fewer than [`FEWEST`] frames have a place, or all have the same.
#[must_use]
pub fn fit(frames: &[Frame], way: &Way<'_>, offset: Offset, is_found: bool) -> Option<TrackFit> {
    let paired = pair(frames, way, offset.seconds, true);
    let (solution, weights) = robust(&paired, ROUNDS)?;
    Some(TrackFit {
        offset_s: offset.seconds,
        offset_deviation_s: is_found.then_some(offset.deviation),
        frames: paired.centres.len(),
        scale: solution.similarity.scale,
        residual: root_mean_square(&solution.residuals, &weights),
        spread: spread(&paired.places, &weights),
        looks: paired.looking,
        similarity: solution.similarity,
    })
}

/// What a fit at an offset leaves of the spread, for most of the frames; infinite where too few of them have a place.
fn left_over(frames: &[Frame], way: &Way<'_>, offset: f64, needed: usize) -> f64 {
    let paired = pair(frames, way, offset, false);
    let count = paired.centres.len();
    let extent = typical_spread(&paired.places);
    // Who stands has no scale.
    if count < needed || extent <= 0.0 {
        return f64::INFINITY;
    }
    let Some((solution, _)) = robust(&paired, FIRST_ROUNDS) else { return f64::INFINITY };
    // Fewer places are easier to fit.
    median(solution.residuals) / extent * frames.len() as f64 / count as f64
}

/// The offset at which the track fits the frames best; `None` where no offset gives enough of them a place.
#[must_use]
pub fn find_offset(frames: &[Frame], way: &Way<'_>) -> Option<Offset> {
    let (first, last) = (way.fixes.first()?.time, way.fixes.last()?.time);
    let times = frames.iter().map(|f| f.time);
    let (begin, end) = (times.clone().fold(f64::INFINITY, f64::min), times.fold(f64::NEG_INFINITY, f64::max));
    let every = frames.len().div_ceil(MOST_FRAMES).max(1);
    let some: Vec<Frame> = frames.iter().step_by(every).copied().collect();
    let needed = FEWEST.max((COVERED * some.len() as f64).ceil() as usize);
    // From the last frame at the track's beginning to the first one at its end.
    let (low, high) = (first - end, last - begin);
    if !(high - low).is_finite() || frames.len() < FEWEST {
        return None;
    }
    let step = STEP.max((high - low) / MOST_STEPS);
    let mut best = (f64::INFINITY, 0.0);
    for k in 0..=((high - low) / step) as usize {
        // Whole steps from zero, so that clocks that agree are looked at.
        let offset = ((low / step).ceil() + k as f64) * step;
        let cost = left_over(&some, way, offset, needed);
        if cost < best.0 {
            best = (cost, offset);
        }
    }
    best.0.is_finite().then(|| refine(frames, way, best.1, step))
}

/// The nearest minimum of the robust fit to an offset.
fn refine(frames: &[Frame], way: &Way<'_>, coarse: f64, step: f64) -> Offset {
    let cost = |offset: f64| {
        let paired = pair(frames, way, offset, false);
        let Some((solution, weights)) = robust(&paired, ROUNDS) else { return f64::INFINITY };
        (root_mean_square(&solution.residuals, &weights) / spread(&paired.places, &weights)).powi(2)
    };
    // A coarse step of a long track may be wide: its neighbourhood is looked at in fine steps first.
    let fine = STEP.min(step);
    let around = (2.0 * step / fine).ceil() as i64;
    let candidates = (-around..=around).map(|k| coarse + k as f64 * fine);
    let middle = candidates
        .map(|offset| (cost(offset), offset))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(coarse, |(_, offset)| offset);
    let (mut low, mut high) = (middle - fine, middle + fine);
    const GOLDEN: f64 = 0.618_033_988_749_895;
    for _ in 0..30 {
        let (a, b) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
        if cost(a) <= cost(b) { high = b } else { low = a }
    }
    let seconds = 0.5 * (low + high);
    Offset { seconds, deviation: deviation(frames, way, seconds) }
}

/// Standard deviation of an offset: from how the sum of squares bends, over the variance of a coordinate.
fn deviation(frames: &[Frame], way: &Way<'_>, offset: f64) -> f64 {
    let squares = |offset: f64| {
        let paired = pair(frames, way, offset, false);
        let found = robust(&paired, ROUNDS);
        found.map(|(s, w)| {
            (s.residuals.iter().zip(&w).map(|(r, w)| w * r * r).sum::<f64>(), paired.centres.len())
        })
    };
    let apart = 2.0 * STEP;
    let (Some((here, n)), Some((before, _)), Some((after, _))) =
        (squares(offset), squares(offset - apart), squares(offset + apart))
    else {
        return f64::INFINITY;
    };
    let bend = (before + after - 2.0 * here) / (apart * apart);
    let variance = here / (3.0 * n as f64 - 8.0).max(1.0);
    if bend > 0.0 { (2.0 * variance / bend).sqrt() } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of a normal distribution: Box and Muller over a linear congruence.
    struct Noise(u64);

    impl Noise {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            let (u, v) = (self.uniform(), self.uniform());
            (-2.0 * libm::log(u)).sqrt() * libm::cos(std::f64::consts::TAU * v)
        }
    }

    /// Somebody walks about a yard at 1.4 metres a second, in bends of all widths.
    fn walk(time: f64) -> [f64; 3] {
        let s = 1.4 * time;
        [
            9.0 * libm::sin(s / 7.0) + 3.0 * libm::sin(s / 2.9),
            8.0 * libm::sin(s / 11.0 + 1.0) + 2.0 * libm::cos(s / 3.7),
            0.3 * libm::sin(s / 13.0),
        ]
    }

    /// Looks along the camera's z; `heading` clockwise from north, level.
    fn level(heading: f64, centre: [f64; 3]) -> Pose {
        let (s, c) = (libm::sin(heading.to_radians()), libm::cos(heading.to_radians()));
        let rotation = [[c, -s, 0.0], [0.0, 0.0, -1.0], [s, c, 0.0]];
        let back = se3::mul_vec(&rotation, centre);
        Pose { rotation, translation: back.map(|v| -v) }
    }

    /// The world of a reconstruction: another unit, another place, turned.
    fn world() -> Similarity {
        let rotation = se3::rotation_from_quaternion([0.5, -0.5, 0.7, 0.1]);
        Similarity { scale: 0.37, rotation, translation: [4.0, -1.0, 2.0] }
    }

    fn frames(count: usize, apart: f64) -> Vec<Frame> {
        (0..count)
            .map(|k| {
                let time = apart * k as f64;
                Frame { time, pose: world().pose(&level(20.0 * time, walk(time))) }
            })
            .collect()
    }

    fn fixes(rate: f64, until: f64, offset: f64, noise: f64, seed: u64) -> Vec<Fix> {
        let mut random = Noise(seed);
        (0..(until * rate) as usize)
            .map(|k| {
                let time = k as f64 / rate - 5.0;
                let place = walk(time - offset).map(|v| v + noise * random.normal());
                Fix { time, place, heading: None, tilt: None }
            })
            .collect()
    }

    #[test]
    fn an_offset_is_found_in_noise_with_the_scale() {
        // 40 frames a second apart, ten fixes a second, each coordinate off by 1.5 metres: the number of the issue.
        let (mut worst, mut scale) = (0.0f64, 0.0f64);
        for seed in 0..8 {
            let fixes = fixes(10.0, 60.0, 0.7, 1.5, seed);
            let (frames, way) = (frames(40, 1.0), Way::new(&fixes, 1.0));
            let offset = find_offset(&frames, &way).unwrap();
            let found = fit(&frames, &way, offset, true).unwrap();
            worst = worst.max((offset.seconds - 0.7).abs());
            scale = scale.max((found.scale * 0.37 - 1.0).abs());
            assert!(found.is_good() && offset.deviation < 0.1, "{found:?}");
        }
        assert!(worst < 0.1 && scale < 0.02, "{worst} {scale}");
    }

    #[test]
    fn without_noise_all_is_exact_and_far_fixes_do_not_bend_it() {
        let mut fixes = fixes(10.0, 60.0, -3.2, 0.0, 0);
        let frames = frames(40, 1.0);
        let found = |fixes: &[Fix]| {
            let way = Way::new(fixes, 1.0);
            fit(&frames, &way, find_offset(&frames, &way).unwrap(), true).unwrap()
        };
        let exact = found(&fixes);
        // What the kernel smooths of the bends is left.
        assert!((exact.offset_s + 3.2).abs() < 0.01 && (exact.scale * 0.37 - 1.0).abs() < 5e-3, "{exact:?}");
        // Under a bridge the receiver was elsewhere for four seconds.
        for fix in &mut fixes[150..190] {
            fix.place[0] += 60.0;
        }
        let bent = found(&fixes);
        assert!((bent.offset_s + 3.2).abs() < 0.05 && (bent.scale * 0.37 - 1.0).abs() < 0.01, "{bent:?}");
    }

    #[test]
    fn looks_say_what_a_straight_way_does_not() {
        let straight = |k: usize| [1.5 * k as f64, 0.7 * k as f64, 0.0];
        let frames: Vec<Frame> = (0..12)
            .map(|k| Frame { time: k as f64, pose: world().pose(&level(30.0 * k as f64, straight(k))) })
            .collect();
        let fixes: Vec<Fix> = (0..12)
            .map(|k| Fix {
                time: k as f64,
                place: straight(k),
                heading: Some(30.0 * k as f64),
                tilt: Some([0.0; 2]),
            })
            .collect();
        let way = Way::new(&fixes, 1.0);
        let found = fit(&frames, &way, Offset { seconds: 0.0, deviation: 0.0 }, false).unwrap();
        let back = se3::mul(&found.similarity.rotation, &world().rotation);
        for (i, row) in back.iter().enumerate() {
            for (j, v) in row.iter().enumerate() {
                assert!((v - f64::from(u8::from(i == j))).abs() < 1e-6, "{back:?}");
            }
        }
        assert_eq!((found.looks, found.offset_deviation_s), (12, None));
    }

    #[test]
    fn a_camera_that_is_held_aslant_says_where_up_is() {
        // Pitched up by 90 degrees the camera looks straight up; rolled by 90 clockwise, up is at its left.
        let mut looks = Looks::new();
        let fix = Fix { time: 0.0, place: [0.0; 3], heading: None, tilt: Some([90.0, 0.0]) };
        looks_of(&fix, &Pose::IDENTITY, &mut looks);
        looks_of(&Fix { tilt: Some([0.0, 90.0]), ..fix }, &Pose::IDENTITY, &mut looks);
        for ((found, earth), expected) in looks.iter().zip([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]]) {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
            assert_eq!(*earth, [0.0, 0.0, 1.0]);
        }
    }

    #[test]
    fn outside_a_track_and_in_its_gaps_there_is_no_place() {
        let fix = |time: f64| Fix { time, place: [time, 0.0, 0.0], heading: None, tilt: None };
        let all = [fix(0.0), fix(1.0), fix(20.0), fix(21.0)];
        let way = Way::new(&all, 1.0);
        assert_eq!(way.place(0.25), Some([0.25, 0.0, 0.0]));
        assert_eq!((way.place(0.0), way.place(21.0)), (Some([0.0; 3]), Some([21.0, 0.0, 0.0])));
        assert_eq!((way.place(-0.1), way.place(10.0), way.place(21.1)), (None, None, None));
        let frames: Vec<Frame> =
            (0..4).map(|k| Frame { time: 0.1 * f64::from(k), pose: Pose::IDENTITY }).collect();
        assert!(fit(&frames, &way, Offset { seconds: 100.0, deviation: 0.0 }, false).is_none());
        assert_eq!(find_offset(&frames[..2], &way), None);
    }
}
