//! Detects static foreground, such as the operator or the tripod, without a model.
//!
//! Static foreground is the region connected to the nadir that does not move between frames while the rest moves past.
//! It is detected in the axes of the panorama (a camera on a helmet or a car) or in those of the walking direction (a
//! camera that keeps its heading while the operator turns), whichever gives more evidence.
//!
//! ```text
//! disc      the lower part of a frame around the nadir      evidence  static foreground against moving ground
//! shadow    the shadow of the foreground                    settle    heading offset of each frame
//! ```
//! Frames are added one after another; at most [`MOST_FRAMES`], evenly spaced, are kept.

mod disc;
mod evidence;
mod settle;
mod shadow;

use gausset_core::RgbImage8;

use self::disc::{AREA, Disc, PIXEL, RIM, SIDE, place};
use super::SphereMask;

/// Largest number of frames that are kept, a quarter of a MB each.
pub const MOST_FRAMES: usize = 48;
/// Smallest number of frames for a result.
pub const FEWEST_FRAMES: usize = 3;
/// Degrees from the nadir beyond which everything must move if the camera does.
const MOVES_FROM: f64 = 50.0;
/// Degrees around the nadir in which the region must begin.
const ROOT: f64 = 15.0;
/// Detection rounds; the second compensates the brightness of each frame.
const ROUNDS: usize = 2;
/// Fraction of the disc beyond [`MOVES_FROM`] that may look static; above it, the camera is not moving.
const STANDS: f64 = 0.6;
/// Blur sizes in pixels: a pole is narrow; hair and cloth are rough and move slightly.
const SCALES: [usize; 3] = [1, 3, 7];
/// Mean luma change between discs, levels, below which a frame is ignored as a duplicate.
const SAME: f64 = 2.0;
/// Headings that differ by less than this count as equal, rad.
const ONE_HEADING: f64 = 0.05;

/// The axes in which the foreground is static.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillAxes {
    /// Those of the panorama.
    Panorama,
    /// Those of the walking direction, which is forward.
    Heading,
}

/// Why no static foreground was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NothingStill {
    /// Too few distinct frames.
    #[error("{0} frames differ below the horizon (expected at least {FEWEST_FRAMES})")]
    Frames(usize),
    /// The whole image is static.
    #[error("everything below the horizon is static: the camera does not move")]
    Stands,
    /// Nothing at the nadir is static.
    #[error("no static region is connected to the nadir")]
    Nothing,
}

/// Static foreground.
#[derive(Clone, Debug)]
pub struct StillPatch {
    /// The axes in which it is static.
    pub axes: StillAxes,
    /// Number of frames in which it was detected.
    pub frames: usize,
    /// For the axes of the walking direction: frame index (among those added) and offset in degrees from the given
    /// heading, for each frame that was used. The heading is known only to some degrees, and the operator does not
    /// always look straight ahead.
    pub offsets: Vec<(usize, f64)>,
    patch: Vec<bool>,
    shadow: Vec<bool>,
}

impl StillPatch {
    /// Offset of the axes from the heading of a frame, degrees; `frame` is the index among the frames added. Uses the
    /// nearest frame with a known offset.
    #[must_use]
    pub fn offset(&self, frame: usize) -> f64 {
        let nearest = self.offsets.iter().min_by_key(|(other, _)| other.abs_diff(frame));
        nearest.map_or(0.0, |(_, offset)| *offset)
    }

    /// The mask of a frame whose walking direction is `heading` (degrees of yaw in panorama axes). The heading is
    /// ignored if the foreground is static in panorama axes.
    #[must_use]
    pub fn mask(&self, width: usize, height: usize, heading: f64) -> SphereMask {
        self.drawn(&self.patch, width, height, heading)
    }

    /// The mask of its shadow, with the same arguments. Keeps everything if no shadow was detected.
    #[must_use]
    pub fn shadow(&self, width: usize, height: usize, heading: f64) -> SphereMask {
        self.drawn(&self.shadow, width, height, heading)
    }

    fn drawn(&self, set: &[bool], width: usize, height: usize, heading: f64) -> SphereMask {
        let turn = if self.axes == StillAxes::Heading { heading.to_radians() } else { 0.0 };
        let mut mask = SphereMask::keep_all(width, height);
        for y in 0..height {
            let degrees = 90.0 + mask.latitude(y).to_degrees();
            if degrees >= RIM {
                continue;
            }
            for x in 0..width {
                let cover = disc::cover(set, degrees, mask.longitude(x), turn);
                mask.data[y * width + x] = (255.0 * (1.0 - cover)).round() as u8;
            }
        }
        mask
    }
}

/// Collects frames and detects static foreground in them.
#[derive(Debug, Default)]
pub struct StillFinder {
    kept: Vec<Kept>,
    /// Every 2^`halvings`-th distinct frame is kept.
    halvings: u32,
    /// Frames that were added, and those of them that were distinct.
    looked: usize,
    seen: usize,
    last: Disc,
}

/// A frame that is kept for detection.
#[derive(Debug)]
struct Kept {
    frame: usize,
    disc: Disc,
    heading: Option<f64>,
}

impl StillFinder {
    /// A finder without frames.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a whole-sphere panorama of any size (960x480 is sufficient), with the walking direction in its axes
    /// (degrees of yaw), if known.
    pub fn look(&mut self, panorama: &RgbImage8, heading: Option<f64>) {
        let disc = disc::disc_of(panorama, 0.0);
        let frame = self.looked;
        self.looked += 1;
        if !self.last.is_empty() && change(&self.last, &disc) < SAME {
            return;
        }
        if self.seen.is_multiple_of(1 << self.halvings) {
            self.kept.push(Kept { frame, disc: disc.clone(), heading });
        }
        self.last = disc;
        self.seen += 1;
        if self.kept.len() > MOST_FRAMES {
            let mut number = 0;
            self.kept.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.halvings += 1;
        }
    }

    /// Detects the static foreground, in the axes that give more evidence.
    ///
    /// # Errors
    /// No static foreground was found, or there was too little motion to detect it.
    pub fn finish(self) -> Result<StillPatch, NothingStill> {
        let frames = self.kept.len();
        if frames < FEWEST_FRAMES {
            return Err(NothingStill::Frames(frames));
        }
        let known: Vec<(usize, f64)> =
            self.kept.iter().filter_map(|kept| Some((kept.frame, kept.heading?.to_radians()))).collect();
        // With a constant heading, both axes are the same.
        let differ = known.iter().any(|(_, heading)| apart(*heading, known[0].1) > ONE_HEADING);
        let walked = (differ && known.len() >= FEWEST_FRAMES).then(|| {
            let of_known = |kept: &Kept| Some(turned(&kept.disc, kept.heading?.to_radians()));
            settle::settle(self.kept.iter().filter_map(of_known).collect())
        });
        let discs: Vec<Disc> = self.kept.into_iter().map(|kept| kept.disc).collect();
        match (find(&discs), walked) {
            (Ok(own), Some(Ok(walked))) if walked.found.sum > own.sum => Ok(walked.patch(&known)),
            (Err(_), Some(Ok(walked))) => Ok(walked.patch(&known)),
            (own, _) => own.map(|found| StillPatch {
                axes: StillAxes::Panorama,
                frames,
                offsets: Vec::new(),
                shadow: shadow::shadow(&discs, &found.patch),
                patch: found.patch,
            }),
        }
    }
}

/// Angle between two directions, rad.
fn apart(a: f64, b: f64) -> f64 {
    let turn = (a - b).rem_euclid(std::f64::consts::TAU);
    turn.min(std::f64::consts::TAU - turn)
}

/// Mean luma difference of two discs, levels.
fn change(a: &Disc, b: &Disc) -> f64 {
    let sum: u64 = a.iter().zip(b).map(|(a, b)| u64::from(a[0].abs_diff(b[0]))).sum();
    sum as f64 / AREA as f64
}

/// A disc rotated so that this longitude (rad) is forward, by nearest pixels.
fn turned(disc: &Disc, turn: f64) -> Disc {
    let (sine, cosine) = (libm::sin(turn), libm::cos(turn));
    let middle = 0.5 * (SIDE - 1) as f64;
    (0..AREA)
        .map(|at| {
            let (x, y) = ((at % SIDE) as f64 - middle, (at / SIDE) as f64 - middle);
            let (x, y) = (cosine * x - sine * y + middle, sine * x + cosine * y + middle);
            let inside = |v: f64| (v.round().max(0.0) as usize).min(SIDE - 1);
            disc[inside(y) * SIDE + inside(x)]
        })
        .collect()
}

/// Discs at one blur size, with the median colour of each pixel.
struct Scale {
    reach: usize,
    discs: Vec<Disc>,
    own: Disc,
    ground: evidence::Ground,
}

/// A detected static region.
struct Found {
    /// Its pixels.
    patch: Vec<bool>,
    /// Sum of its evidence.
    sum: f64,
    /// Median colour of each pixel.
    own: Disc,
}

/// Detects the static region of a set of discs.
fn find(discs: &[Disc]) -> Result<Found, NothingStill> {
    let scales = SCALES.map(|reach| {
        let discs: Vec<Disc> = discs.iter().map(|disc| disc::blurred(disc, reach)).collect();
        let own = evidence::medians(&discs);
        Scale { reach, ground: evidence::Ground::of(&discs, &own), own, discs }
    });
    let mut patch = vec![false; AREA];
    let mut lighter = vec![0.0; discs.len()];
    let mut sum = 0.0;
    for round in 0..ROUNDS {
        let mut best = vec![f32::MIN; AREA];
        for Scale { reach, discs, own, ground } in &scales {
            let evidence = evidence::evidence(discs, ground, own, &lighter);
            // Blur lets ground at the edge of the foreground look static, so the result is eroded by the blur radius.
            let inner = within(&evidence, reach / 2);
            best.iter_mut().zip(inner).for_each(|(best, more)| *best = best.max(more));
        }
        let smooth = smoothed(&best);
        if round == 0 {
            let outside = |at: &usize| (MOVES_FROM..RIM).contains(&place(*at).0);
            let ring = (0..AREA).filter(outside).count();
            let still = (0..AREA).filter(outside).filter(|at| smooth[*at] > 0.0).count();
            if still as f64 > STANDS * ring as f64 {
                return Err(NothingStill::Stands);
            }
        }
        patch = joined(&smooth);
        if !patch.contains(&true) {
            return Err(NothingStill::Nothing);
        }
        sum = (0..AREA).filter(|at| patch[*at]).map(|at| f64::from(best[at].clamp(-STEP, STEP))).sum();
        lighter = evidence::lighter(&scales[0].discs, &scales[0].own, &patch);
    }
    let [Scale { own, .. }, ..] = scales;
    Ok(Found { patch, sum, own })
}

/// Bound on the evidence of a single pixel.
const STEP: f32 = 12.0;

/// Minimum of the evidence around each pixel.
fn within(evidence: &[f32], reach: usize) -> Vec<f32> {
    let least = |values: &[f32], step: usize| -> Vec<f32> {
        let around = |at: usize| -> f32 {
            let k = at / step % SIDE;
            let others = k.saturating_sub(reach)..=(k + reach).min(SIDE - 1);
            others.map(|other| values[at + other * step - k * step]).fold(f32::MAX, f32::min)
        };
        (0..AREA).map(around).collect()
    };
    if reach == 0 { evidence.to_vec() } else { least(&least(evidence, 1), SIDE) }
}

/// Means of the evidence over 5x5 pixels.
fn smoothed(evidence: &[f32]) -> Vec<f32> {
    let mean = |values: &[f32], step: usize| -> Vec<f32> {
        let around = |at: usize| -> f32 {
            let (k, most) = (at / step % SIDE, SIDE - 1);
            let reach = k.saturating_sub(2)..=(k + 2).min(most);
            let count = reach.clone().count() as f32;
            reach.map(|other| values[at + other * step - k * step]).sum::<f32>() / count
        };
        (0..AREA).map(around).collect()
    };
    let clamped: Vec<f32> = evidence.iter().map(|value| value.clamp(-STEP, STEP)).collect();
    mean(&mean(&clamped, 1), SIDE)
}

/// The pixels with positive evidence that are connected to the nadir, and the pixels that they enclose.
fn joined(evidence: &[f32]) -> Vec<bool> {
    let root = |at: &usize| place(*at).0 < ROOT;
    let patch = flood((0..AREA).filter(root), |at| evidence[at] > 0.0);
    // Enclosed pixels are those that are not connected to the rim.
    let rim = (0..AREA).filter(|at| place(*at).0 > RIM - 2.0 * PIXEL);
    let outside = flood(rim, |at| !patch[at]);
    outside.iter().zip(&patch).map(|(outside, patch)| *patch || !outside).collect()
}

/// All pixels connected across edges to the start pixels, through allowed pixels.
fn flood(from: impl Iterator<Item = usize>, is_allowed: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut reached = vec![false; AREA];
    let mut open: Vec<usize> = from.filter(|at| is_allowed(*at)).collect();
    open.iter().for_each(|at| reached[*at] = true);
    while let Some(at) = open.pop() {
        let (x, y) = (at % SIDE, at / SIDE);
        let beside = [
            (x > 0).then(|| at - 1),
            (x + 1 < SIDE).then_some(at + 1),
            (y > 0).then(|| at - SIDE),
            (y + 1 < SIDE).then_some(at + SIDE),
        ];
        for next in beside.into_iter().flatten() {
            if !reached[next] && is_allowed(next) {
                reached[next] = true;
                open.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests;
