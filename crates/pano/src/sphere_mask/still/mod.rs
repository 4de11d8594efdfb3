//! What rides along with the camera, without any model: the operator, the tripod.
//!
//! That is the part joined to straight down that stays at its place in all frames while the rest passes by; in the axes of
//! the panorama (a camera on a helmet, a car), or in those of the walk's direction (a camera that keeps its heading while
//! the operator turns), whichever shows more of it.
//!
//! ```text
//! disc      the lower part of a frame around straight down      evidence  riding along against passing by
//! shadow    what it darkens                                     settle    how far each frame is off the walk's direction
//! ```
//! Frames are looked at one after the other; of many, at most [`MOST_FRAMES`] are kept, evenly.

mod disc;
mod evidence;
mod settle;
mod shadow;

use gausset_core::RgbImage8;

use self::disc::{AREA, Disc, PIXEL, RIM, SIDE, place};
use super::SphereMask;

/// Frames that are kept at most, a quarter of a MB each.
pub const MOST_FRAMES: usize = 48;
/// Fewest frames that say something.
pub const FEWEST_FRAMES: usize = 3;
/// Degrees from straight down beyond which all moves where the camera does.
const MOVES_FROM: f64 = 50.0;
/// Degrees around straight down in which a patch begins.
const ROOT: f64 = 15.0;
/// Times that a patch is looked for: the second time by how bright each frame shows it.
const ROUNDS: usize = 2;
/// Share of the disc beyond [`MOVES_FROM`] that may seem to ride along; where it is more, the camera stands.
const STANDS: f64 = 0.6;
/// Pixels on each side that are taken together: a pole is narrow; hair and cloth are rough, and move a little.
const SCALES: [usize; 3] = [1, 3, 7];
/// Mean change between discs, levels, below which a frame shows nothing new.
const SAME: f64 = 2.0;
/// Headings that differ by less are one, rad.
const ONE_HEADING: f64 = 0.05;

/// In which axes something stays at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillAxes {
    /// Those of the panoramas.
    Panorama,
    /// Those of the walk: its direction is forward.
    Heading,
}

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NothingStill {
    /// Too few frames differ.
    #[error("{0} frames differ below the horizon (expected at least {FEWEST_FRAMES})")]
    Frames(usize),
    /// All of the picture stays where it is.
    #[error("all that is below the horizon stays at its place: the camera does not move")]
    Stands,
    /// Nothing straight down stays.
    #[error("nothing that is joined to straight down stays at its place")]
    Nothing,
}

/// The part that stays at its place.
#[derive(Clone, Debug)]
pub struct StillPatch {
    /// In which axes.
    pub axes: StillAxes,
    /// Frames that it was found in.
    pub frames: usize,
    /// In the walk's axes: degrees that those axes are off the given headings, of the frames that were looked at (by their
    /// place among those). The way of a walk is known to some degrees, and nobody looks just where he goes.
    pub offsets: Vec<(usize, f64)>,
    patch: Vec<bool>,
    shadow: Vec<bool>,
}

impl StillPatch {
    /// Degrees by which the walk's axes are off the heading of a frame (by its place among those looked at): those of the
    /// nearest frame for which it is known.
    #[must_use]
    pub fn offset(&self, frame: usize) -> f64 {
        let nearest = self.offsets.iter().min_by_key(|(other, _)| other.abs_diff(frame));
        nearest.map_or(0.0, |(_, offset)| *offset)
    }

    /// The mask of a frame whose walk goes towards `heading` (degrees of yaw in the panorama's axes; of no account for a
    /// patch in those axes).
    #[must_use]
    pub fn mask(&self, width: usize, height: usize, heading: f64) -> SphereMask {
        self.drawn(&self.patch, width, height, heading)
    }

    /// The mask of its shadow, likewise; keeps everything where none was found.
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

/// Looks at frames one after the other.
#[derive(Debug, Default)]
pub struct StillFinder {
    kept: Vec<Kept>,
    /// One frame of so many is kept, 0 = all.
    halvings: u32,
    /// Frames that were looked at; those that showed something new.
    looked: usize,
    seen: usize,
    last: Disc,
}

/// A frame that was looked at.
#[derive(Debug)]
struct Kept {
    frame: usize,
    disc: Disc,
    heading: Option<f64>,
}

impl StillFinder {
    /// Somebody who has seen nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at a panorama of the whole sphere, of any size (960x480 is enough), with the direction of the walk in its
    /// axes (degrees of yaw), where that is known.
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

    /// The part that stays, in the axes that show more of it.
    ///
    /// # Errors
    /// There is none, or nobody could tell.
    pub fn finish(self) -> Result<StillPatch, NothingStill> {
        let frames = self.kept.len();
        if frames < FEWEST_FRAMES {
            return Err(NothingStill::Frames(frames));
        }
        let known: Vec<(usize, f64)> =
            self.kept.iter().filter_map(|kept| Some((kept.frame, kept.heading?.to_radians()))).collect();
        // Of one heading the walk's axes are those of the panoramas.
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

/// Mean difference in brightness inside of the rim, levels.
fn change(a: &Disc, b: &Disc) -> f64 {
    let sum: u64 = a.iter().zip(b).map(|(a, b)| u64::from(a[0].abs_diff(b[0]))).sum();
    sum as f64 / AREA as f64
}

/// A disc with this longitude (rad) where forward is, by nearest pixels.
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

/// Discs of one scale, and the colour that each of their pixels would have if it rode along.
struct Scale {
    reach: usize,
    discs: Vec<Disc>,
    own: Disc,
    ground: evidence::Ground,
}

/// What stays at its place.
struct Found {
    /// Its pixels.
    patch: Vec<bool>,
    /// How much speaks for it.
    sum: f64,
    /// What each pixel would look like if it rode along.
    own: Disc,
}

/// The part of discs that stays at its place.
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
            // Where means reach over an edge, ground beside it seems to stay as well.
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

/// Evidence of one pixel beyond which it says no more.
const STEP: f32 = 12.0;

/// Least evidence around each pixel.
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

/// Evidence of a pixel and those around it: means over 5x5.
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

/// The pixels with evidence for them that are joined to straight down, and what they enclose.
fn joined(evidence: &[f32]) -> Vec<bool> {
    let root = |at: &usize| place(*at).0 < ROOT;
    let patch = flood((0..AREA).filter(root), |at| evidence[at] > 0.0);
    // What the rim does not reach is enclosed.
    let rim = (0..AREA).filter(|at| place(*at).0 > RIM - 2.0 * PIXEL);
    let outside = flood(rim, |at| !patch[at]);
    outside.iter().zip(&patch).map(|(outside, patch)| *patch || !outside).collect()
}

/// All pixels that are reached from some over edges through those that are allowed.
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
