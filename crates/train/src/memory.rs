//! How much memory a run will need, predicted before step 0.

use gausset_core::sh;
use gausset_io::dataset::Dataset;

use crate::recipe::Recipe;

/// Pictures may take one part in so many of the limit.
const PICTURE_SHARE: u64 = 4;

/// Bytes per splat in the buffers of a step: the screen splat and its gradient, and some list entries. Measured on the
/// CPU (`lego` at 400x400 px, 100,000 and 200,000 splats): 170.
const WORKING_BYTES_PER_SPLAT: u64 = 200;

/// Bytes per pixel of the largest picture in the buffers of a step: colours, their gradient, the windows of the loss,
/// and what every tile has of list entries and their gradients however few splats there are. Measured: 211 (`plush` at
/// 320x240 px, 50,000 splats) to 275 (`fox` at 540x960 px, 60,000 random splats that are seen at full size at once).
const WORKING_BYTES_PER_PIXEL: u64 = 280;

/// The program itself, its stacks and what the allocator keeps.
const PROGRAM_BYTES: u64 = 24 << 20;

/// Copies of the state that are alive for a moment while a checkpoint is written. (A change of the set of splats moves
/// the state array by array and needs less.)
const COPIES: u64 = 1;

/// Memory that a run needs at most, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Most splats that the run will have.
    pub splat_count: u64,
    /// Parameters and moments of all splats. Gradients are never stored.
    pub splats: u64,
    /// Copies of them that are alive while the set changes or a checkpoint is written.
    pub checkpoint: u64,
    /// Decoded pictures.
    pub pictures: u64,
    /// Buffers of a step: screen splats, tile lists, images.
    pub working: u64,
    /// The limit (`--max-memory`).
    pub limit: u64,
}

/// Bytes per splat in a state: each float with two moments, and five numbers of clocks and statistics.
fn bytes_per_splat(sh_degree: u8) -> u64 {
    12 * floats_per_splat(sh_degree) + 20
}

/// Mean, scales, quaternion, opacity, SH: 59 at degree 3.
fn floats_per_splat(sh_degree: u8) -> u64 {
    11 + 3 * sh::coefficients(sh_degree) as u64
}

impl MemoryPlan {
    /// Prediction for a recipe on a dataset.
    #[must_use]
    pub fn predict(recipe: &Recipe, dataset: &Dataset, start_splats: u64, limit: u64) -> Self {
        let splat_count = recipe.max_splats.max(start_splats);
        let pixels: Vec<u64> = dataset.images.iter().map(|image| image.camera.pixels() as u64).collect();
        let largest = pixels.iter().copied().max().unwrap_or(0);
        // Three colours, and alpha and mask where there are some.
        let all_pictures: u64 = pixels.iter().map(|&n| n * 5).sum();
        Self {
            splat_count,
            splats: splat_count * bytes_per_splat(recipe.sh_degree),
            checkpoint: splat_count * COPIES * bytes_per_splat(recipe.sh_degree),
            pictures: all_pictures.min(Self::picture_budget(limit)),
            working: splat_count * WORKING_BYTES_PER_SPLAT
                + largest * WORKING_BYTES_PER_PIXEL
                + PROGRAM_BYTES,
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

    /// Most splats that would fit with everything else as it is, if any would.
    #[must_use]
    pub fn possible_splats(&self) -> Option<u64> {
        let per_splat =
            (self.splats + self.checkpoint).checked_div(self.splat_count)? + WORKING_BYTES_PER_SPLAT;
        let other = self.total().checked_sub(self.splat_count * per_splat)?;
        let possible = self.limit.checked_sub(other)? / per_splat;
        (possible > 0).then_some(possible)
    }
}
