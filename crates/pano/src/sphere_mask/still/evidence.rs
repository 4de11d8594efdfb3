//! What speaks for a place riding along, and what for its being ground that passes by.
//!
//! ```text
//! rides along   a colour m of its own, any; frame t shows c ~ N(m, σ), or now and then anything
//! ground        frame t shows c ~ the colours of the ground
//! evidence      log p(m) + n/T Σ_t log (p(c_t | rides) / p(c_t | ground))        n = min(T, FRAMES)
//! ```
//! A colour is one of the ground's, too, when the surroundings of its place show it. Grey asphalt that passes by looks the same in all frames, but so does the ground around it: it is no evidence. Hair
//! and a tripod are of colours that the ground does not have, or, where it has all of them, stay while it changes.

use super::disc::{AREA, Disc, PIXEL, RIM, SIDE, place};

/// Levels of a bin of brightness, and of the two colour differences.
const BIN: [usize; 3] = [8, 4, 4];
/// Bins of each.
const BINS: [usize; 3] = [32, 64, 64];
/// All bins.
const COLOURS: usize = BINS[0] * BINS[1] * BINS[2];
/// What the brightness, and the colour, of something that rides along varies by, levels: light, cloth, hair.
const SIGMA: [f64; 3] = [12.0, 5.0, 5.0];
/// Share of the frames in which it is hidden, or moves.
const HIDDEN: f64 = 0.1;
/// Share of the ground's colours that were not seen elsewhere.
const UNSEEN: f64 = 0.02;
/// Frames that speak at most: neighbouring frames repeat each other.
const FRAMES: f64 = 8.0;
/// Times that counts are smoothed along brightness and colours: a variance of half a bin each time, together σ². So ground
/// of one colour is as likely as something that rides along and has this colour.
const SMOOTHINGS: [usize; 3] = [4, 3, 3];
/// Degrees from straight down between which there is ground.
const GROUND: [f64; 2] = [15.0, 65.0];
/// Degrees from a place between which it is compared with its surroundings: an operator is smaller, a lawn is not.
const AROUND: [f64; 2] = [20.0, 45.0];
/// Share of the surroundings up to which, and from which on, a place's own colour is that of its surroundings: an operator
/// has two arms.
const SOME: f64 = 0.2;
const MOST: f64 = 0.5;
/// Places that are looked at around each.
const LOOKS: usize = 96;
/// Squared difference, in units of [`SIGMA`], below which two colours are the same.
const SAME_COLOUR: f64 = 6.0;

/// Colours of the ground.
pub(super) struct Ground {
    /// Shares of all colours.
    shares: Vec<f32>,
    /// Of each pixel, how much of what lies [`AROUND`] it has its own colour, 0 to 1.
    same_around: Vec<f32>,
}

impl Ground {
    /// Of what the discs show; `own`: colours of what may ride along.
    pub(super) fn of(discs: &[Disc], own: &[[u8; 3]]) -> Self {
        let mut counts = vec![0.0f32; COLOURS];
        for at in (0..AREA).filter(|at| (GROUND[0]..GROUND[1]).contains(&place(*at).0)) {
            discs.iter().for_each(|disc| counts[bin(disc[at])] += 1.0);
        }
        smooth(&mut counts);
        let sum: f64 = counts.iter().map(|count| f64::from(*count)).sum::<f64>().max(1.0);
        let share = |count: &f32| f64::from(*count) / sum * (1.0 - UNSEEN) + UNSEEN / COLOURS as f64;
        let shares = counts.iter().map(|count| share(count) as f32).collect();
        Self { shares, same_around: same_around(discs, own) }
    }
}

/// See [`Ground`]. Looked at are places on a spiral, each in another frame.
fn same_around(discs: &[Disc], own: &[[u8; 3]]) -> Vec<f32> {
    let golden = std::f64::consts::PI * (3.0 - 5.0f64.sqrt());
    let places: Vec<[i32; 2]> = (0..LOOKS)
        .map(|k| {
            let share = (k as f64 + 0.5) / LOOKS as f64;
            let r = (AROUND[0] + (AROUND[1] - AROUND[0]) * share) / PIXEL;
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
                if is_inside && place(other).0 < RIM {
                    let square = square_apart(discs[k % discs.len()][other], own[at as usize], 0.0);
                    seen += 1;
                    same += u32::from(square < SAME_COLOUR);
                }
            }
            let share = f64::from(same) / f64::from(seen.max(1));
            ((share - SOME) / (MOST - SOME)).clamp(0.0, 1.0) as f32
        })
        .collect()
}

/// Squared difference of two colours in units of [`SIGMA`].
fn square_apart(colour: [u8; 3], own: [u8; 3], lighter: f64) -> f64 {
    let off = |k: usize| {
        let more = if k == 0 { lighter } else { 0.0 };
        (f64::from(colour[k]) - f64::from(own[k]) - more) / SIGMA[k]
    };
    (0..3).map(|k| off(k) * off(k)).sum()
}

/// How likely something that rides along and has a colour shows another one: a logarithm, of which nothing depends on the
/// ground.
pub(super) fn alike(colour: [u8; 3], own: [u8; 3]) -> f64 {
    let shows = libm::exp(-0.5 * square_apart(colour, own, 0.0));
    libm::log((1.0 - HIDDEN) * shows + HIDDEN * 1e-3)
}

/// Evidence of every pixel for riding along; `lighter`: levels by which each frame shows what rides along brighter.
pub(super) fn evidence(discs: &[Disc], ground: &Ground, own: &[[u8; 3]], lighter: &[f64]) -> Vec<f32> {
    let volume = (BIN[0] * BIN[1] * BIN[2]) as f64;
    let peak = volume / (libm::pow(std::f64::consts::TAU, 1.5) * SIGMA[0] * SIGMA[1] * SIGMA[2]);
    let anything = 1.0 / COLOURS as f64;
    // Of all colours that can be told apart, one.
    let own_colour = -libm::log(peak * COLOURS as f64);
    let weight = FRAMES.min(discs.len() as f64) / discs.len() as f64;
    (0..AREA)
        .map(|at| {
            if place(at).0 >= RIM {
                return f32::MIN;
            }
            let around = f64::from(ground.same_around[at]);
            let of_frame = |(disc, lighter): (&Disc, &f64)| {
                let colour = disc[at];
                let alike = peak * libm::exp(-0.5 * square_apart(colour, own[at], *lighter));
                let rides = (1.0 - HIDDEN) * alike + HIDDEN * anything;
                let passes = f64::from(ground.shares[bin(colour)]).max(around * alike);
                libm::log(rides / passes)
            };
            let sum: f64 = discs.iter().zip(lighter).map(of_frame).sum();
            (own_colour + weight * sum) as f32
        })
        .collect()
}

/// Median colour of each pixel.
pub(super) fn medians(discs: &[Disc]) -> Disc {
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

/// Levels by which each frame shows a patch brighter than its own colours: medians.
pub(super) fn lighter(discs: &[Disc], own: &[[u8; 3]], patch: &[bool]) -> Vec<f64> {
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

fn bin(colour: [u8; 3]) -> usize {
    let of = |k: usize| usize::from(colour[k]) / BIN[k];
    (of(0) * BINS[1] + of(1)) * BINS[2] + of(2)
}

/// A quarter, a half, a quarter, as often as it takes: what rides along and ground vary alike.
fn smooth(counts: &mut [f32]) {
    let axes = [(BINS[1] * BINS[2], BINS[0]), (BINS[2], BINS[1]), (1, BINS[2])];
    for (step, bins) in (0..3).flat_map(|axis| [axes[axis]].into_iter().cycle().take(SMOOTHINGS[axis])) {
        let before = counts.to_vec();
        for (at, out) in counts.iter_mut().enumerate() {
            let k = at / step % bins;
            let down = if k == 0 { at } else { at - step };
            let up = if k + 1 == bins { at } else { at + step };
            *out = 0.25 * before[down] + 0.5 * before[at] + 0.25 * before[up];
        }
    }
}
