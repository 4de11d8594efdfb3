//! The fewest additional views that close the holes of a layout.
//!
//! Searches over several hundred directions. Some view must see the centre of the hole's largest piece, so the search
//! branches on the candidates that do. It allows one more view each time nothing was found (iterative deepening), and
//! prunes a branch if the remaining views together are smaller than the hole. A greedy solution is the upper bound; it
//! is also the result if the search exceeds its budget.

use super::polygon::{Polygon, ViewPlanes};
use super::{SPHERE_AREA, subtract_view, uncovered, view_fraction, yaw_pitch};
use crate::sphere::geometry::View;
use crate::sphere::layout::{MAX_VIEWS, view_name};

/// Step of the grid of candidate directions, degrees.
const GRID_STEP: i32 = 15;
/// Branches that are searched in total, and per piece.
const SEARCH_BUDGET: usize = 4_000;
const BRANCHES_PER_PIECE: usize = 24;

/// Why holes cannot be closed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CompleteError {
    /// There is no view that gives the size and the field of view.
    #[error("no views to complete")]
    NoViews,
    /// More than [`MAX_VIEWS`] views would be needed.
    #[error("more than {MAX_VIEWS} views of {0} degrees would be needed (expected a wider field of view)")]
    TooManyViews(f64),
}

/// A view that may be added, with its bounding planes.
struct Candidate {
    view: View,
    planes: ViewPlanes,
}

/// The views to add so that every direction is seen, with the size and the field of view of the first view. Empty if
/// nothing is missing.
///
/// # Errors
/// There are no views, or more than [`MAX_VIEWS`] would be needed.
pub fn views_to_complete(views: &[View]) -> Result<Vec<View>, CompleteError> {
    let model = views.first().ok_or(CompleteError::NoViews)?;
    let planes: Vec<ViewPlanes> = views.iter().map(ViewPlanes::new).collect();
    let hole = uncovered(&planes);
    if hole.is_empty() {
        return Ok(Vec::new());
    }
    let view_area = view_fraction(model) * SPHERE_AREA;
    let capacity = MAX_VIEWS - views.len().min(MAX_VIEWS);
    let fewest = (area(&hole) / view_area).ceil().max(1.0) as usize;
    if fewest > capacity {
        return Err(CompleteError::TooManyViews(model.hfov));
    }
    let candidates = candidates(model, &hole);
    let greedy = greedy(model, &candidates, hole.clone(), capacity);
    let most = greedy.as_ref().map_or(capacity, Vec::len);
    let mut budget = SEARCH_BUDGET;
    // Deeper searches exceed the budget before they improve on the greedy solution.
    let found = (fewest..most.min(fewest + 4))
        .find_map(|depth| search(&candidates, &hole, depth, view_area, &mut budget));
    let added = found.or(greedy).ok_or(CompleteError::TooManyViews(model.hfov))?;
    let named = |(k, view): (usize, View)| View { name: view_name(views.len() + k), ..view };
    Ok(added.into_iter().enumerate().map(named).collect())
}

fn area(hole: &[Polygon]) -> f64 {
    hole.iter().map(Polygon::area).sum()
}

/// Candidate directions: straight up and down, the centres of the largest pieces, then a grid; each with a roll of 0
/// and of 45 degrees.
fn candidates(model: &View, hole: &[Polygon]) -> Vec<Candidate> {
    let mut directions = vec![(0.0, 90.0), (0.0, -90.0)];
    let mut pieces: Vec<&Polygon> = hole.iter().collect();
    pieces.sort_by(|a, b| b.area().total_cmp(&a.area()));
    directions.extend(pieces.iter().take(16).map(|piece| yaw_pitch(piece.centre())));
    for pitch in (-90 + GRID_STEP..90).step_by(GRID_STEP as usize) {
        directions
            .extend((-180..180).step_by(GRID_STEP as usize).map(|yaw| (f64::from(yaw), f64::from(pitch))));
    }
    let with = |(yaw, pitch): (f64, f64), roll: f64| candidate(model, yaw, pitch, roll);
    directions.iter().flat_map(|&d| [with(d, 0.0), with(d, 45.0)]).collect()
}

fn candidate(model: &View, yaw: f64, pitch: f64, roll: f64) -> Candidate {
    let view = View { yaw, pitch, roll, ..model.clone() };
    Candidate { planes: ViewPlanes::new(&view), view }
}

/// Adds the candidate that closes most of the hole until none is left.
fn greedy(
    model: &View,
    candidates: &[Candidate],
    mut hole: Vec<Polygon>,
    capacity: usize,
) -> Option<Vec<View>> {
    let mut added = Vec::new();
    while !hole.is_empty() {
        if added.len() == capacity {
            return None;
        }
        let largest = hole.iter().max_by(|a, b| a.area().total_cmp(&b.area()))?;
        let (yaw, pitch) = yaw_pitch(largest.centre());
        let own = candidate(model, yaw, pitch, 0.0);
        let mut best: Option<(f64, &Candidate, Vec<Polygon>)> = None;
        for candidate in candidates.iter().chain([&own]) {
            let rest = subtract_view(&hole, &candidate.planes);
            let left = area(&rest);
            // Ties go to the earlier candidate: the common directions come first.
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

/// Searches for at most `depth` views that close the hole.
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
    let point = largest.centre();
    let mut branches: Vec<(f64, &Candidate, Vec<Polygon>)> = candidates
        .iter()
        .filter(|candidate| candidate.planes.sees(point))
        .map(|candidate| {
            let rest = subtract_view(hole, &candidate.planes);
            (area(&rest), candidate, rest)
        })
        .collect();
    branches.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, candidate, rest) in branches.iter().take(BRANCHES_PER_PIECE) {
        *budget = budget.saturating_sub(1);
        if let Some(mut found) = search(candidates, rest, depth - 1, each, budget) {
            found.insert(0, candidate.view.clone());
            return Some(found);
        }
    }
    None
}
