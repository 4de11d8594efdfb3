//! Refines the heading of each frame.
//!
//! The walking direction is known only to some degrees, and the operator looks to the side. Each frame is therefore
//! rotated to match the detected foreground best, and the foreground is detected again, as long as the evidence grows.

use super::disc::{Disc, SIDE};
use super::{Found, NothingStill, StillAxes, StillPatch, evidence, find, shadow, turned};

/// Largest number of iterations.
const ROUNDS: usize = 4;
/// Search range of the rotation in both directions, and its step, degrees.
const MOST: i32 = 24;
const STEP: i32 = 2;
/// Factor by which the evidence must grow for another iteration.
const MORE: f64 = 1.01;

/// Static foreground in the axes of the walking direction.
pub(super) struct Walked {
    pub(super) found: Found,
    /// Additional rotation of each disc, rad.
    offsets: Vec<f64>,
    discs: Vec<Disc>,
}

impl Walked {
    /// Converts to the result; `known` holds the indices and headings of the frames.
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

/// Iterates from discs rotated so that the given walking direction is forward.
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

/// The rotation at which a disc matches the foreground best, among the search range and the previous one.
fn offset_of(disc: &Disc, found: &Found, earlier: f64) -> f64 {
    let steps = (-MOST..=MOST).step_by(STEP as usize);
    // Small rotations first, so that they win ties.
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

/// Log-likelihood of a rotated disc over the detected region.
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
