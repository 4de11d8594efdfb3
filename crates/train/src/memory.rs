//! How much memory a run will need, predicted before step 0.

use gausset_core::sh;
use gausset_io::dataset::Dataset;

use crate::recipe::Recipe;

/// Share of the memory limit that decoded pictures may take.
const PICTURE_SHARE: u64 = 4;

/// Memory that a run needs at most, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Parameters, moments and gradients of all splats.
    pub splats: u64,
    /// The copy of parameters and moments that a checkpoint is written from.
    pub checkpoint: u64,
    /// Decoded pictures.
    pub pictures: u64,
    /// Buffers of a step: screen splats, tile lists, images.
    pub working: u64,
    /// The limit (`--max-memory`).
    pub limit: u64,
}

impl MemoryPlan {
    /// Prediction for a recipe on a dataset.
    ///
    /// Per splat: each of the 14 + 3 (degree + 1)² floats four times (value, two moments, gradient); screen data of
    /// about 128 bytes and some eight list entries of 16 bytes. Per pixel: some 25 floats in colour, gradient and loss.
    #[must_use]
    pub fn predict(recipe: &Recipe, dataset: &Dataset, start_splats: u64, limit: u64) -> Self {
        let splats = recipe.max_splats.max(start_splats);
        let floats = 11 + 3 * sh::coefficients(recipe.sh_degree) as u64;
        let pixels: Vec<u64> = dataset.images.iter().map(|image| image.camera.pixels() as u64).collect();
        let largest = pixels.iter().copied().max().unwrap_or(0);
        // Three colours and, where there are some, alpha and mask.
        let all_pictures: u64 = pixels.iter().map(|&n| n * 5).sum();
        Self {
            splats: splats * floats * 16,
            checkpoint: splats * (floats * 12 + 20),
            pictures: all_pictures.min(Self::picture_budget(limit)),
            working: splats * 256 + largest * 100,
            limit,
        }
    }

    /// Bytes that decoded pictures may take.
    #[must_use]
    pub fn picture_budget(limit: u64) -> u64 {
        limit / PICTURE_SHARE
    }

    /// Everything together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.splats + self.checkpoint + self.pictures + self.working
    }

    /// Whether it fits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.total() <= self.limit
    }
}
