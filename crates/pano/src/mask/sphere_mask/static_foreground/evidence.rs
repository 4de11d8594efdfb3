//! Evidence that a pixel shows static foreground, against evidence that it shows ground that moves past.
//!
//! ```text
//! static        has a constant colour m, uniformly distributed; frame t shows c ~ N(m, σ), sometimes an outlier
//! ground        frame t shows c ~ the colours of the ground
//! evidence      log p(m) + n/T Σ_t log (p(c_t | static) / p(c_t | ground))        n = min(T, FRAMES)
//! ```
//! A colour also counts as a ground colour if the surroundings of the pixel show it. Grey asphalt looks the same in all
//! frames, but so does the asphalt around it, so it is no evidence. Hair and a tripod have colours that the ground
//! lacks; or, where the ground has all of them, they stay constant while the ground changes.

use super::disc::{AREA, DEGREES_PER_PIXEL, Disc, RIM_DEGREES, SIDE, polar_position};

/// Histogram bin widths of luma and the two chroma values, in levels.
const BIN_WIDTHS: [usize; 3] = [8, 4, 4];
/// Number of bins per channel.
const BIN_COUNTS: [usize; 3] = [32, 64, 64];
/// Total number of bins.
const COLOUR_BINS: usize = BIN_COUNTS[0] * BIN_COUNTS[1] * BIN_COUNTS[2];
/// Standard deviation of luma and chroma of static foreground, in levels: light, cloth, hair.
const SIGMA: [f64; 3] = [12.0, 5.0, 5.0];
/// Fraction of the frames in which static foreground is hidden or moves.
const OUTLIER_FRACTION: f64 = 0.1;
/// Probability mass for ground colours that were not observed.
const UNSEEN_PROBABILITY: f64 = 0.02;
/// Effective number of frames at most, because neighbouring frames are not independent.
const MAX_EFFECTIVE_FRAMES: f64 = 8.0;
/// Number of smoothing passes along luma and chroma. Each adds a variance of half a bin; together they add σ². So
/// ground of one colour is as likely as static foreground of this colour.
const SMOOTHING_PASSES: [usize; 3] = [4, 3, 3];
/// Range of angles from the nadir that is sampled as ground, degrees.
const GROUND_DEGREES: [f64; 2] = [15.0, 65.0];
/// Distances (degrees) at which the surroundings of a pixel are sampled: beyond an operator's size, within a lawn's.
const SURROUNDINGS_DEGREES: [f64; 2] = [20.0, 45.0];
/// Fractions of the surroundings with the same colour: up to the first, the colour counts as distinct; from the second
/// on, as that of the surroundings. The first is not zero, because an operator has two arms.
const DISTINCT_FRACTION: f64 = 0.2;
const COMMON_FRACTION: f64 = 0.5;
/// Samples in the surroundings of each pixel.
const SURROUNDING_SAMPLES: usize = 96;
/// Squared difference, in units of [`SIGMA`], below which two colours count as the same.
const SAME_COLOUR: f64 = 6.0;

/// Colour distribution of the ground.
pub(super) struct GroundColours {
    /// Probability of each colour bin.
    probabilities: Vec<f32>,
    /// For each pixel, how much its surroundings (at distances [`AROUND`]) share its colour, 0 to 1.
    same_around: Vec<f32>,
}

impl GroundColours {
    /// Estimates the distribution from the discs; `own` holds the colours of possible static foreground.
    pub(super) fn from_discs(discs: &[Disc], own: &[[u8; 3]]) -> Self {
        let mut counts = vec![0.0f32; COLOUR_BINS];
        for at in
            (0..AREA).filter(|at| (GROUND_DEGREES[0]..GROUND_DEGREES[1]).contains(&polar_position(*at).0))
        {
            discs.iter().for_each(|disc| counts[colour_bin(disc[at])] += 1.0);
        }
        smooth_histogram(&mut counts);
        let sum: f64 = counts.iter().map(|count| f64::from(*count)).sum::<f64>().max(1.0);
        let share = |count: &f32| {
            f64::from(*count) / sum * (1.0 - UNSEEN_PROBABILITY) + UNSEEN_PROBABILITY / COLOUR_BINS as f64
        };
        let shares = counts.iter().map(|count| share(count) as f32).collect();
        Self { probabilities: shares, same_around: same_around(discs, own) }
    }
}

/// See [`GroundColours`]. Samples positions on a spiral, each in another frame.
fn same_around(discs: &[Disc], own: &[[u8; 3]]) -> Vec<f32> {
    let golden = std::f64::consts::PI * (3.0 - 5.0f64.sqrt());
    let places: Vec<[i32; 2]> = (0..SURROUNDING_SAMPLES)
        .map(|k| {
            let share = (k as f64 + 0.5) / SURROUNDING_SAMPLES as f64;
            let r = (SURROUNDINGS_DEGREES[0] + (SURROUNDINGS_DEGREES[1] - SURROUNDINGS_DEGREES[0]) * share)
                / DEGREES_PER_PIXEL;
            let (sine, cosine) = (libm::sin(k as f64 * golden), libm::cos(k as f64 * golden));
            [(r * cosine).round() as i32, (r * sine).round() as i32]
        })
        .collect();
    let side = SIDE as i32;
    (0..AREA as i32)
        .map(|at| {
            let (mut seen, mut same) = (0u32, 0u32);
            for (k, [dx, dy]) in places.iter().enumerate() {
                let (x, y) = (at % side + dx, at / side + dy);
                let other = (y * side + x) as usize;
                let is_inside = (0..side).contains(&x) && (0..side).contains(&y);
                if is_inside && polar_position(other).0 < RIM_DEGREES {
                    let square = squared_difference(discs[k % discs.len()][other], own[at as usize], 0.0);
                    seen += 1;
                    same += u32::from(square < SAME_COLOUR);
                }
            }
            let share = f64::from(same) / f64::from(seen.max(1));
            ((share - DISTINCT_FRACTION) / (COMMON_FRACTION - DISTINCT_FRACTION)).clamp(0.0, 1.0) as f32
        })
        .collect()
}

/// Squared difference of two colours in units of [`SIGMA`]; `lighter` is added to the luma of `own`.
fn squared_difference(colour: [u8; 3], own: [u8; 3], lighter: f64) -> f64 {
    let off = |k: usize| {
        let more = if k == 0 { lighter } else { 0.0 };
        (f64::from(colour[k]) - f64::from(own[k]) - more) / SIGMA[k]
    };
    (0..3).map(|k| off(k) * off(k)).sum()
}

/// Log-likelihood that static foreground of colour `own` shows `colour`; independent of the ground.
pub(super) fn log_likelihood(colour: [u8; 3], own: [u8; 3]) -> f64 {
    let shows = libm::exp(-0.5 * squared_difference(colour, own, 0.0));
    libm::log((1.0 - OUTLIER_FRACTION) * shows + OUTLIER_FRACTION * 1e-3)
}

/// Evidence of every pixel for static foreground; `lighter` is the luma offset of the foreground in each frame, levels.
pub(super) fn evidence(discs: &[Disc], ground: &GroundColours, own: &[[u8; 3]], lighter: &[f64]) -> Vec<f32> {
    let volume = (BIN_WIDTHS[0] * BIN_WIDTHS[1] * BIN_WIDTHS[2]) as f64;
    let peak = volume / (libm::pow(std::f64::consts::TAU, 1.5) * SIGMA[0] * SIGMA[1] * SIGMA[2]);
    let anything = 1.0 / COLOUR_BINS as f64;
    // The prior of one colour among all distinguishable ones.
    let own_colour = -libm::log(peak * COLOUR_BINS as f64);
    let weight = MAX_EFFECTIVE_FRAMES.min(discs.len() as f64) / discs.len() as f64;
    (0..AREA)
        .map(|at| {
            if polar_position(at).0 >= RIM_DEGREES {
                return f32::MIN;
            }
            let around = f64::from(ground.same_around[at]);
            let of_frame = |(disc, lighter): (&Disc, &f64)| {
                let colour = disc[at];
                let alike = peak * libm::exp(-0.5 * squared_difference(colour, own[at], *lighter));
                let rides = (1.0 - OUTLIER_FRACTION) * alike + OUTLIER_FRACTION * anything;
                let passes = f64::from(ground.probabilities[colour_bin(colour)]).max(around * alike);
                libm::log(rides / passes)
            };
            let sum: f64 = discs.iter().zip(lighter).map(of_frame).sum();
            (own_colour + weight * sum) as f32
        })
        .collect()
}

/// Median colour of each pixel.
pub(super) fn median_colours(discs: &[Disc]) -> Disc {
    let mut values = vec![0u8; discs.len()];
    (0..AREA)
        .map(|at| {
            [0, 1, 2].map(|k| {
                values.iter_mut().zip(discs).for_each(|(value, disc)| *value = disc[at][k]);
                values.sort_unstable();
                values[values.len() / 2]
            })
        })
        .collect()
}

/// Luma offset of a patch in each frame from its median colours, levels: medians over the pixels.
pub(super) fn luma_offsets(discs: &[Disc], own: &[[u8; 3]], patch: &[bool]) -> Vec<f64> {
    discs
        .iter()
        .map(|disc| {
            let mut off: Vec<i32> = (0..AREA)
                .filter(|at| patch[*at])
                .map(|at| i32::from(disc[at][0]) - i32::from(own[at][0]))
                .collect();
            off.sort_unstable();
            off.get(off.len() / 2).map_or(0.0, |median| f64::from(*median).clamp(-40.0, 40.0))
        })
        .collect()
}

fn colour_bin(colour: [u8; 3]) -> usize {
    let of = |k: usize| usize::from(colour[k]) / BIN_WIDTHS[k];
    (of(0) * BIN_COUNTS[1] + of(1)) * BIN_COUNTS[2] + of(2)
}

/// Binomial filter (¼, ½, ¼), repeated until its variance is that of static foreground.
fn smooth_histogram(counts: &mut [f32]) {
    let axes =
        [(BIN_COUNTS[1] * BIN_COUNTS[2], BIN_COUNTS[0]), (BIN_COUNTS[2], BIN_COUNTS[1]), (1, BIN_COUNTS[2])];
    for (step, bins) in (0..3).flat_map(|axis| [axes[axis]].into_iter().cycle().take(SMOOTHING_PASSES[axis]))
    {
        let before = counts.to_vec();
        for (at, out) in counts.iter_mut().enumerate() {
            let k = at / step % bins;
            let down = if k == 0 { at } else { at - step };
            let up = if k + 1 == bins { at } else { at + step };
            *out = 0.25 * before[down] + 0.5 * before[at] + 0.25 * before[up];
        }
    }
}
