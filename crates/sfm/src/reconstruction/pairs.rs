//! Selects the pairs of panoramas to match. If there are few, all pairs; otherwise neighbours in the list, and
//! panoramas that look alike by a few of their largest features, anywhere in the list (loop closures of a walk).

use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Exec;

use crate::reconstruction::features::Features;
use crate::reconstruction::matches::{WideDescriptors, mutual_matches};

/// Largest number of panoramas of which every pair is matched.
const EXHAUSTIVE_FRAMES: usize = 25;
/// Neighbours on each side.
const NEIGHBOURS: usize = 8;
/// Features by which similar panoramas are found, and how many of these panoramas are added to the neighbours.
const PREVIEW_FEATURES: usize = 256;
const SIMILAR_FRAMES: usize = 4;
/// Least number of matches among these features.
const MIN_PREVIEW_MATCHES: usize = 6;

/// Pairs of panoramas, ascending. Stops early when `stop` is set.
pub(crate) fn select_pairs(
    frames: &[Features],
    is_sequence: bool,
    exec: Exec<'_>,
    stop: &AtomicBool,
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
        for a in 0..count {
            if stop.load(Ordering::Relaxed) {
                return pairs;
            }
            for b in a.saturating_add(reach + 1)..count {
                let shared = mutual_matches(&glances[a], &glances[b], exec).len();
                if shared >= MIN_PREVIEW_MATCHES {
                    votes[a].push((shared, b));
                    votes[b].push((shared, a));
                }
            }
        }
        for (a, mut votes) in votes.into_iter().enumerate() {
            // The sort is stable: of equal ones the earlier first.
            votes.sort_by_key(|&(shared, _)| std::cmp::Reverse(shared));
            pairs.extend(votes.iter().take(alike).map(|&(_, b)| [a.min(b), a.max(b)]));
        }
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
