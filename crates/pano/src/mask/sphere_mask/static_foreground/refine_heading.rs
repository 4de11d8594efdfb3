//! Refines the heading of each frame.
//!
//! The walking direction is known only to some degrees, and the operator looks to the side. Each frame is therefore
//! rotated to match the detected foreground best, and the foreground is detected again, as long as the evidence grows.

use super::disc::{Disc, SIDE};
use super::{
    ForegroundAxes, NoForeground, StaticForeground, StaticRegion, detect_region, evidence, rotated, shadow,
};

/// Largest number of iterations.
const MAX_ITERATIONS: usize = 4;
/// Search range of the rotation in both directions, and its step, degrees.
const SEARCH_DEGREES: i32 = 24;
const SEARCH_STEP: i32 = 2;
/// Factor by which the evidence must grow for another iteration.
const MIN_GAIN: f64 = 1.01;

/// Static foreground in the axes of the walking direction.
pub(super) struct HeadingRegion {
    pub(super) found: StaticRegion,
    /// Additional rotation of each disc, rad.
    offsets: Vec<f64>,
    discs: Vec<Disc>,
}

impl HeadingRegion {
    /// Converts to the result; `known` holds the indices and headings of the frames.
    pub(super) fn into_foreground(self, known: &[(usize, f64)]) -> StaticForeground {
        let offsets =
            known.iter().zip(&self.offsets).map(|((frame, _), offset)| (*frame, offset.to_degrees()));
        StaticForeground {
            axes: ForegroundAxes::Heading,
            frames: self.discs.len(),
            offsets: offsets.collect(),
            shadow: shadow::detect_shadow(&self.discs, &self.found.patch),
            patch: self.found.patch,
        }
    }
}

/// Iterates from discs rotated so that the given walking direction is forward.
pub(super) fn refine_headings(towards: Vec<Disc>) -> Result<HeadingRegion, NoForeground> {
    let (found, offsets) = (detect_region(&towards)?, vec![0.0; towards.len()]);
    let mut best = HeadingRegion { found, offsets, discs: towards.clone() };
    for _ in 0..MAX_ITERATIONS {
        let offsets: Vec<f64> = towards
            .iter()
            .zip(&best.offsets)
            .map(|(disc, offset)| best_offset(disc, &best.found, *offset))
            .collect();
        let discs: Vec<Disc> =
            towards.iter().zip(&offsets).map(|(disc, offset)| rotated(disc, *offset)).collect();
        match detect_region(&discs) {
            Ok(found) if found.evidence > MIN_GAIN * best.found.evidence => {
                best = HeadingRegion { found, offsets, discs }
            }
            _ => break,
        }
    }
    Ok(best)
}

/// The rotation at which a disc matches the foreground best, among the search range and the previous one.
fn best_offset(disc: &Disc, found: &StaticRegion, earlier: f64) -> f64 {
    let steps = (-SEARCH_DEGREES..=SEARCH_DEGREES).step_by(SEARCH_STEP as usize);
    // Small rotations first, so that they win ties.
    let mut turns: Vec<f64> = steps.map(|degrees| f64::from(degrees).to_radians()).collect();
    turns.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut best = (f64::MIN, earlier);
    for turn in turns.into_iter().chain([earlier]) {
        let likeness = patch_likelihood(disc, found, turn);
        if likeness > best.0 {
            best = (likeness, turn);
        }
    }
    best.1
}

/// Log-likelihood of a rotated disc over the detected region.
fn patch_likelihood(disc: &Disc, found: &StaticRegion, turn: f64) -> f64 {
    let (sine, cosine) = (libm::sin(turn), libm::cos(turn));
    let middle = 0.5 * (SIDE - 1) as f64;
    let inside = |v: f64| (v.round().max(0.0) as usize).min(SIDE - 1);
    let mut sum = 0.0;
    for (at, _) in found.patch.iter().enumerate().filter(|(_, is_in)| **is_in) {
        let (x, y) = ((at % SIDE) as f64 - middle, (at / SIDE) as f64 - middle);
        let (x, y) = (cosine * x - sine * y + middle, sine * x + cosine * y + middle);
        sum += evidence::log_likelihood(disc[inside(y) * SIDE + inside(x)], found.median_colours[at]);
    }
    sum
}
