//! How far the axes of each frame are off the direction of the walk.
//!
//! The direction of a walk is known to some degrees, and an operator looks to the side. So each frame is turned on, by the
//! turn at which it shows what was found best, and what stays is looked for again, as long as more speaks for it.

use super::disc::{Disc, SIDE};
use super::{Found, NothingStill, StillAxes, StillPatch, evidence, find, shadow, turned};

/// Times that turns are looked for.
const ROUNDS: usize = 4;
/// Degrees of a turn that is looked for, either way, and of the steps between.
const MOST: i32 = 24;
const STEP: i32 = 2;
/// By how much more has to speak for another round.
const MORE: f64 = 1.01;

/// What stays in the axes of the walk.
pub(super) struct Walked {
    pub(super) found: Found,
    /// How much further each disc was turned, rad.
    offsets: Vec<f64>,
    discs: Vec<Disc>,
}

impl Walked {
    /// The patch; `known`: numbers of the frames, and their headings.
    pub(super) fn patch(self, known: &[(usize, f64)]) -> StillPatch {
        let offsets =
            known.iter().zip(&self.offsets).map(|((frame, _), offset)| (*frame, offset.to_degrees()));
        StillPatch {
            axes: StillAxes::Heading,
            frames: self.discs.len(),
            offsets: offsets.collect(),
            shadow: shadow::shadow(&self.discs, &self.found.patch),
            patch: self.found.patch,
        }
    }
}

/// Of discs with the walk's direction forward, as far as it is known.
pub(super) fn settle(towards: Vec<Disc>) -> Result<Walked, NothingStill> {
    let (found, offsets) = (find(&towards)?, vec![0.0; towards.len()]);
    let mut best = Walked { found, offsets, discs: towards.clone() };
    for _ in 0..ROUNDS {
        let offsets: Vec<f64> = towards
            .iter()
            .zip(&best.offsets)
            .map(|(disc, offset)| offset_of(disc, &best.found, *offset))
            .collect();
        let discs: Vec<Disc> =
            towards.iter().zip(&offsets).map(|(disc, offset)| turned(disc, *offset)).collect();
        match find(&discs) {
            Ok(found) if found.sum > MORE * best.found.sum => best = Walked { found, offsets, discs },
            _ => break,
        }
    }
    Ok(best)
}

/// The turn at which a disc shows best what was found, near an earlier one.
fn offset_of(disc: &Disc, found: &Found, earlier: f64) -> f64 {
    let steps = (-MOST..=MOST).step_by(STEP as usize);
    // Small turns first: of two that are as good, the smaller one.
    let mut turns: Vec<f64> = steps.map(|degrees| f64::from(degrees).to_radians()).collect();
    turns.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut best = (f64::MIN, earlier);
    for turn in turns.into_iter().chain([earlier]) {
        let likeness = likeness(disc, found, turn);
        if likeness > best.0 {
            best = (likeness, turn);
        }
    }
    best.1
}

/// How likely a turned disc is where the patch lies.
fn likeness(disc: &Disc, found: &Found, turn: f64) -> f64 {
    let (sine, cosine) = (libm::sin(turn), libm::cos(turn));
    let middle = 0.5 * (SIDE - 1) as f64;
    let inside = |v: f64| (v.round().max(0.0) as usize).min(SIDE - 1);
    let mut sum = 0.0;
    for (at, _) in found.patch.iter().enumerate().filter(|(_, is_in)| **is_in) {
        let (x, y) = ((at % SIDE) as f64 - middle, (at / SIDE) as f64 - middle);
        let (x, y) = (cosine * x - sine * y + middle, sine * x + cosine * y + middle);
        sum += evidence::alike(disc[inside(y) * SIDE + inside(x)], found.own[at]);
    }
    sum
}
