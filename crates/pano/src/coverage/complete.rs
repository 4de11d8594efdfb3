//! The fewest further views that close the hole of a layout.
//!
//! A search over several hundred directions: a point of the hole must be seen by some view, so the search branches on
//! those that see the middle of its largest piece, deeper by one view each time nothing was found (iterative
//! deepening), and gives up a branch when the views left to add are smaller than the hole. What a greedy choice finds
//! bounds it from above; where the search runs out of its budget, the greedy answer is the result.

use super::polygon::{Polygon, View4};
use super::{SPHERE, angles, share_of, unseen, without};
use crate::geometry::View;
use crate::layout::{MAX_VIEWS, view_name};

/// Step of the grid of directions that are tried, degrees.
const STEP: i32 = 15;
/// Branches of the search that are followed in all, and of one piece.
const BUDGET: usize = 4_000;
const BRANCHES: usize = 24;

/// Why a hole cannot be closed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CompleteError {
    /// There is no view to take size and field of view from.
    #[error("no views to complete")]
    NoViews,
    /// It takes more views than a layout may have.
    #[error("more than {MAX_VIEWS} views of {0} degrees would be needed (expected a wider field of view)")]
    TooMany(f64),
}

/// A view that may be added.
struct Candidate {
    view: View,
    planes: View4,
}

/// The views to add so that every direction is seen, with size and field of view of the first one; none if nothing is
/// missing.
///
/// # Errors
/// No views, or so many more that they are beyond [`MAX_VIEWS`].
pub fn complete(views: &[View]) -> Result<Vec<View>, CompleteError> {
    let model = views.first().ok_or(CompleteError::NoViews)?;
    let planes: Vec<View4> = views.iter().map(View4::new).collect();
    let hole = unseen(&planes);
    if hole.is_empty() {
        return Ok(Vec::new());
    }
    let each = share_of(model) * SPHERE;
    let room = MAX_VIEWS - views.len().min(MAX_VIEWS);
    let fewest = (area(&hole) / each).ceil().max(1.0) as usize;
    if fewest > room {
        return Err(CompleteError::TooMany(model.hfov));
    }
    let candidates = candidates(model, &hole);
    let greedy = greedy(model, &candidates, hole.clone(), room);
    let most = greedy.as_ref().map_or(room, Vec::len);
    let mut budget = BUDGET;
    // Deep searches find nothing within their budget that greed has not found.
    let found =
        (fewest..most.min(fewest + 4)).find_map(|depth| search(&candidates, &hole, depth, each, &mut budget));
    let added = found.or(greedy).ok_or(CompleteError::TooMany(model.hfov))?;
    let named = |(k, view): (usize, View)| View { name: view_name(views.len() + k), ..view };
    Ok(added.into_iter().enumerate().map(named).collect())
}

fn area(hole: &[Polygon]) -> f64 {
    hole.iter().map(Polygon::area).sum()
}

/// Straight up and down, the middles of the largest pieces, then a grid; upright and turned by 45 degrees.
fn candidates(model: &View, hole: &[Polygon]) -> Vec<Candidate> {
    let mut directions = vec![(0.0, 90.0), (0.0, -90.0)];
    let mut pieces: Vec<&Polygon> = hole.iter().collect();
    pieces.sort_by(|a, b| b.area().total_cmp(&a.area()));
    directions.extend(pieces.iter().take(16).map(|piece| angles(piece.middle())));
    for pitch in (-90 + STEP..90).step_by(STEP as usize) {
        directions.extend((-180..180).step_by(STEP as usize).map(|yaw| (f64::from(yaw), f64::from(pitch))));
    }
    let with = |(yaw, pitch): (f64, f64), roll: f64| candidate(model, yaw, pitch, roll);
    directions.iter().flat_map(|&d| [with(d, 0.0), with(d, 45.0)]).collect()
}

fn candidate(model: &View, yaw: f64, pitch: f64, roll: f64) -> Candidate {
    let view = View { yaw, pitch, roll, ..model.clone() };
    Candidate { planes: View4::new(&view), view }
}

/// The candidate that closes most of the hole, again and again.
fn greedy(model: &View, candidates: &[Candidate], mut hole: Vec<Polygon>, room: usize) -> Option<Vec<View>> {
    let mut added = Vec::new();
    while !hole.is_empty() {
        if added.len() == room {
            return None;
        }
        let largest = hole.iter().max_by(|a, b| a.area().total_cmp(&b.area()))?;
        let (yaw, pitch) = angles(largest.middle());
        let own = candidate(model, yaw, pitch, 0.0);
        let mut best: Option<(f64, &Candidate, Vec<Polygon>)> = None;
        for candidate in candidates.iter().chain([&own]) {
            let rest = without(&hole, &candidate.planes);
            let left = area(&rest);
            // The first of equals: the directions that people expect come first.
            if best.as_ref().is_none_or(|(least, ..)| left < least - 1e-9) {
                best = Some((left, candidate, rest));
            }
        }
        let (_, candidate, rest) = best?;
        added.push(candidate.view.clone());
        hole = rest;
    }
    Some(added)
}

/// Views that close the hole, at most `depth` of them.
fn search(
    candidates: &[Candidate],
    hole: &[Polygon],
    depth: usize,
    each: f64,
    budget: &mut usize,
) -> Option<Vec<View>> {
    let Some(largest) = hole.iter().max_by(|a, b| a.area().total_cmp(&b.area())) else {
        return Some(Vec::new());
    };
    if depth == 0 || area(hole) > depth as f64 * each || *budget == 0 {
        return None;
    }
    let point = largest.middle();
    let mut branches: Vec<(f64, &Candidate, Vec<Polygon>)> = candidates
        .iter()
        .filter(|candidate| candidate.planes.sees(point))
        .map(|candidate| {
            let rest = without(hole, &candidate.planes);
            (area(&rest), candidate, rest)
        })
        .collect();
    branches.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, candidate, rest) in branches.iter().take(BRANCHES) {
        *budget = budget.saturating_sub(1);
        if let Some(mut found) = search(candidates, rest, depth - 1, each, budget) {
            found.insert(0, candidate.view.clone());
            return Some(found);
        }
    }
    None
}
