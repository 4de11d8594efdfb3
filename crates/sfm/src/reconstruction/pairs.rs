//! Selects the pairs of frames to match. If there are few, all pairs; otherwise neighbours in the list or on the earth,
//! and frames that look alike by a few of their largest features, anywhere in the list (loop closures of a walk).

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Exec;

use crate::reconstruction::features::Features;
use crate::reconstruction::matches::{WideDescriptors, mutual_matches};
use crate::reconstruction::reconstruct::{Progress, Stage};

/// Largest number of panoramas of which every pair is matched.
const EXHAUSTIVE_FRAMES: usize = 25;
/// Neighbours on each side.
const NEIGHBOURS: usize = 8;
/// Features by which similar panoramas are found, and how many of these panoramas are added to the neighbours.
const PREVIEW_FEATURES: usize = 256;
const SIMILAR_FRAMES: usize = 4;
/// Least number of matches among these features.
const MIN_PREVIEW_MATCHES: usize = 6;

/// Frames near each other, for each frame. GPS is metres off, and a picture far away may be the better partner: the rest
/// is left to similarity.
const NEAR_FRAMES: usize = 8;
/// RMS distance of positions from their mean, metres, below which their noise decides who is near.
const MIN_SPREAD: f64 = 20.0;

/// For each position the nearest others in the plane: pairs, ascending. Empty if all positions are about the same.
pub(crate) fn near_pairs(positions: &[Option<[f64; 2]>]) -> Vec<[usize; 2]> {
    let known: Vec<(usize, [f64; 2])> =
        positions.iter().enumerate().filter_map(|(index, position)| Some((index, (*position)?))).collect();
    let squared = |a: [f64; 2], b: [f64; 2]| (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2);
    let count = known.len().max(1) as f64;
    let mean = [0, 1].map(|k| known.iter().map(|(_, at)| at[k]).sum::<f64>() / count);
    if known.iter().map(|(_, at)| squared(*at, mean)).sum::<f64>() / count < MIN_SPREAD.powi(2) {
        return Vec::new();
    }
    let mut pairs = Vec::new();
    for &(a, from) in &known {
        let mut others: Vec<(f64, usize)> =
            known.iter().filter(|(b, _)| *b != a).map(|&(b, at)| (squared(from, at), b)).collect();
        others.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        pairs.extend(others.iter().take(NEAR_FRAMES).map(|&(_, b)| [a.min(b), a.max(b)]));
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// What is known of pairs before the features.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairHints<'a> {
    /// Pairs to match even if others look more alike, ascending.
    pub(super) near: &'a [[usize; 2]],
    /// Whether neighbours in the list were taken in succession.
    pub(super) is_sequence: bool,
}

/// Every pair, ascending.
pub(super) fn all_pairs(count: usize) -> Vec<[usize; 2]> {
    (0..count).flat_map(|a| (a + 1..count).map(move |b| [a, b])).collect()
}

/// Pairs of frames, ascending, with those that are near. Stops early when `stop` is set.
pub(super) fn select_pairs(
    frames: &[Features],
    PairHints { near, is_sequence }: PairHints<'_>,
    exec: Exec<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Progress),
) -> Vec<[usize; 2]> {
    let count = frames.len();
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    let reach = match (count <= EXHAUSTIVE_FRAMES, is_sequence) {
        (true, _) => count,
        (false, true) => NEIGHBOURS,
        (false, false) => 0,
    };
    for a in 0..count {
        pairs.extend((a + 1..count.min(a.saturating_add(reach + 1))).map(|b| [a, b]));
    }
    if reach < count {
        // Where the order has no meaning, similarity alone decides, so more similar panoramas are taken.
        let alike = if is_sequence { SIMILAR_FRAMES } else { SIMILAR_FRAMES + 2 * NEIGHBOURS };
        let glances: Vec<WideDescriptors> =
            frames.iter().map(|frame| WideDescriptors::new(&largest_descriptors(frame))).collect();
        // For each panorama: those that share enough features, with the number of shared ones.
        let mut votes: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count];
        // The sort is stable: of equal ones the earlier first.
        let keep_most_alike = |votes: &mut Vec<(usize, usize)>| {
            votes.sort_by_key(|&(shared, _)| std::cmp::Reverse(shared));
            votes.truncate(alike);
        };
        for a in 0..count {
            if stop.load(Ordering::Relaxed) {
                return pairs;
            }
            tell(Progress { stage: Stage::Pairs, done: a, total: count });
            let others = a.saturating_add(reach + 1)..count;
            // So few features are one task of the matching, which runs on the thread that calls it.
            let shared = exec
                .pool
                .map(others.len(), |at| mutual_matches(&glances[a], &glances[others.start + at], exec).len());
            for (b, shared) in others.zip(shared) {
                if shared >= MIN_PREVIEW_MATCHES {
                    for (frame, other) in [(a, b), (b, a)] {
                        votes[frame].push((shared, other));
                        // Memory does not grow with the square of their number.
                        if votes[frame].len() >= 2 * alike {
                            keep_most_alike(&mut votes[frame]);
                        }
                    }
                }
            }
        }
        for (a, mut votes) in votes.into_iter().enumerate() {
            keep_most_alike(&mut votes);
            pairs.extend(votes.iter().map(|&(_, b)| [a.min(b), a.max(b)]));
        }
        pairs.extend(near);
        pairs.sort_unstable();
        pairs.dedup();
    }
    pairs
}

/// Descriptors of the largest features.
fn largest_descriptors(frame: &Features) -> Vec<[u8; crate::reconstruction::features::DESCRIPTOR_LENGTH]> {
    let mut order: Vec<usize> = (0..frame.features.len()).collect();
    order.sort_by(|&a, &b| frame.features[b].size.total_cmp(&frame.features[a].size));
    order.iter().take(PREVIEW_FEATURES).map(|&k| frame.descriptors[k]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_matched_where_all_are_asked_for_though_no_two_look_alike() {
        let frames = vec![Features::default(); 30];
        let hints = PairHints { near: &[[2, 9]], is_sequence: false };
        let pool = gausset_compute::Pool::new(1);
        let stop = AtomicBool::new(false);
        let chosen = select_pairs(&frames, hints, Exec::best(&pool), &stop, &mut |_| {});
        assert_eq!(chosen, [[2, 9]]);
        let all = all_pairs(30);
        assert_eq!(all.len(), 30 * 29 / 2);
        assert!(all.is_sorted() && all.iter().all(|[a, b]| a < b && *b < 30));
    }

    #[test]
    fn frames_near_each_other_are_pairs_unless_all_are_at_one_place() {
        // Two rows of ten, 10 m apart, flown in opposite directions, and a picture without a position.
        let row = |y: f64| (0..10).map(move |k| [10.0 * f64::from(k), y]);
        let mut positions: Vec<Option<[f64; 2]>> = row(0.0).map(Some).collect();
        positions.extend(row(10.0).collect::<Vec<_>>().into_iter().rev().map(Some));
        positions.push(None);
        let pairs = near_pairs(&positions);
        assert!(pairs.is_sorted() && pairs.iter().all(|[a, b]| a < b && *b < 20));
        for at in 0..10 {
            assert!(pairs.contains(&[at, 19 - at]), "the picture beside {at}");
            assert!(at == 9 || pairs.contains(&[at, at + 1]));
        }
        assert!(!pairs.contains(&[0, 9]) && pairs.len() < 20 * NEAR_FRAMES);
        // A garden with GPS: who is near whom is noise.
        let garden: Vec<_> = positions.iter().map(|at| at.map(|[x, y]| [0.1 * x, 0.1 * y])).collect();
        assert!(near_pairs(&garden).is_empty());
        assert!(near_pairs(&[None, None]).is_empty());
    }
}
