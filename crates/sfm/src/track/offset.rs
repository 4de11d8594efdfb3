//! Estimates the offset between the clocks of a track and of a camera.

use gausset_core::statistics::upper_median;

use super::interpolation::Track;
use super::solve::{L1_ROUNDS, ROUNDS, correspondences, fit_robust, median_spread, root_mean_square, spread};
use super::{ClockOffset, MIN_FRAMES, TimedPose};

/// Fraction of the frames that must have a position at an offset.
const MIN_COVERED: f64 = 0.6;
/// Step of the search over offsets, seconds, and the largest number of steps.
const STEP: f64 = 0.25;
const MAX_STEPS: f64 = 20_000.0;
/// Frames that the search uses.
const MAX_FRAMES: usize = 100;

/// Median residual of the fit at an offset relative to the spread, divided by the fraction of frames that have a
/// position; infinite if fewer than `needed` have one.
fn relative_residual(frames: &[TimedPose], way: &Track<'_>, offset: f64, needed: usize) -> f64 {
    let paired = correspondences(frames, way, offset, false);
    let count = paired.centres.len();
    let extent = median_spread(&paired.positions);
    // A stationary receiver determines no scale.
    if count < needed || extent <= 0.0 {
        return f64::INFINITY;
    }
    let Some((solution, _)) = fit_robust(&paired, L1_ROUNDS) else { return f64::INFINITY };
    // Fewer positions are easier to fit, so the cost grows as they become fewer.
    upper_median(solution.residuals).unwrap_or(0.0) / extent * frames.len() as f64 / count as f64
}

/// The offset at which the track fits the frames best; `None` if no offset gives positions to enough of them.
#[must_use]
pub fn find_offset(frames: &[TimedPose], way: &Track<'_>) -> Option<ClockOffset> {
    let (first, last) = way.span()?;
    let times = frames.iter().map(|f| f.time);
    let (begin, end) = (times.clone().fold(f64::INFINITY, f64::min), times.fold(f64::NEG_INFINITY, f64::max));
    let every = frames.len().div_ceil(MAX_FRAMES).max(1);
    let some: Vec<TimedPose> = frames.iter().step_by(every).copied().collect();
    let needed = MIN_FRAMES.max((MIN_COVERED * some.len() as f64).ceil() as usize);
    // From the last frame at the beginning of the track to the first one at its end.
    let (low, high) = (first - end, last - begin);
    if !(high - low).is_finite() || frames.len() < MIN_FRAMES {
        return None;
    }
    let step = STEP.max((high - low) / MAX_STEPS);
    let mut best = (f64::INFINITY, 0.0);
    for k in 0..=((high - low) / step) as usize {
        // Multiples of the step, so that an offset of zero is among the candidates.
        let offset = ((low / step).ceil() + k as f64) * step;
        let cost = relative_residual(&some, way, offset, needed);
        if cost < best.0 {
            best = (cost, offset);
        }
    }
    best.0.is_finite().then(|| refine(frames, way, best.1, step))
}

/// The minimum of the robust fit nearest to an offset.
fn refine(frames: &[TimedPose], way: &Track<'_>, coarse: f64, step: f64) -> ClockOffset {
    let cost = |offset: f64| {
        let paired = correspondences(frames, way, offset, false);
        let Some((solution, weights)) = fit_robust(&paired, ROUNDS) else { return f64::INFINITY };
        (root_mean_square(&solution.residuals, &weights) / spread(&paired.positions, &weights)).powi(2)
    };
    // The coarse step of a long track may be wide, so its neighbourhood is searched in fine steps first.
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
    ClockOffset { seconds, deviation: standard_deviation(frames, way, seconds) }
}

/// Standard deviation of an offset, from the curvature of the sum of squares and the variance of a coordinate.
fn standard_deviation(frames: &[TimedPose], way: &Track<'_>, offset: f64) -> f64 {
    let squares = |offset: f64| {
        let paired = correspondences(frames, way, offset, false);
        let found = fit_robust(&paired, ROUNDS);
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
