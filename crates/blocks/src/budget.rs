//! How many steps and splats each block gets.

use crate::BlockImages;

/// Smallest share of a block's splats that is expected to lie in its cell.
const MIN_KEPT: f64 = 0.25;
/// Minimum number of splats of a block.
const MIN_SPLATS: u64 = 1_000;

/// Size of the whole set and of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetSize {
    /// Training images.
    pub images: u64,
    /// Steps that the whole would take.
    pub steps: u64,
    /// Splats that the merged set may have.
    pub splats: u64,
}

/// Size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    /// Steps: each image is used as often as in a run of the whole. 0 without images.
    pub steps: u64,
    /// Splats that it may have, inside its cell and outside.
    pub splats: u64,
}

/// The size of each block. `coarse` are the numbers of coarse splats in the cells, `shares[image][cell]` what the images
/// show of the cells, `images` those of each block.
///
/// A block spreads its splats over everything that its images show, so its limit is what its cell should get, divided by
/// the share of the shown that lies in the cell.
#[must_use]
pub fn block_sizes(
    set: SetSize,
    coarse: &[u64],
    shares: &[Vec<f32>],
    images: &[BlockImages],
) -> Vec<BlockSize> {
    let total = coarse.iter().sum::<u64>().max(1) as f64;
    images
        .iter()
        .enumerate()
        .map(|(cell, BlockImages { images, .. })| {
            let shown = |of: &dyn Fn(&[f32]) -> f32| -> f64 {
                images.iter().map(|&image| f64::from(of(&shares[image]))).sum()
            };
            let (inside, all) = (shown(&|shares| shares[cell]), shown(&|shares| shares.iter().sum()));
            let kept = if all > 0.0 { (inside / all).clamp(MIN_KEPT, 1.0) } else { 1.0 };
            let splats = set.splats as f64 * coarse[cell] as f64 / total / kept;
            let steps = set.steps as f64 * images.len() as f64 / set.images.max(1) as f64;
            BlockSize {
                steps: if images.is_empty() { 0 } else { (steps.round() as u64).max(1) },
                splats: (splats.round() as u64).max(MIN_SPLATS),
            }
        })
        .collect()
}
