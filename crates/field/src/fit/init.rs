//! Initialisation of a fit: round Gaussians with means where the data change and sizes from their density.
//!
//! Volumes: means drawn with density `|∇y| + 0.03 |y| + 0.0005` (central differences, voxel units), `σ = 0.55 ρ^(-1/3)`
//! with ρ the expected number of Gaussians per volume. Scattered samples: density `y²`; σ is the mean distance to the
//! three nearest means, within 2 % to 20 % of the box (above 4,096 means, 2 % of a part of it that has as many). Sampling is stratified along a spatially coherent order, so that
//! Gaussians spread out.

use gausset_compute::rng;

use crate::fit::data::{Grid, SampleRole};

/// σ as a fraction of the spacing that follows from the density.
const SIGMA_FACTOR: f64 = 0.55;

/// Largest number of means of which all are compared; of more, the [`NEIGHBOURS`] before and after each.
const MAX_COMPARED: usize = 4096;
const NEIGHBOURS: usize = 64;

/// The density of means at samples on a grid, from the training values; 0 at other samples. `points` are theirs, at
/// `index * spacing`.
pub(crate) fn grid_density(
    grid: &Grid,
    points: &[[f64; 3]],
    values: &[f32],
    shares: &[SampleRole],
) -> Vec<f32> {
    let [nx, ny, nz] = grid.dims;
    let strides = [1, nx, nx * ny];
    let slots = GridSlots::new(grid, points);
    let known = |i: usize| matches!(shares[i], SampleRole::Train | SampleRole::Spare);
    let unit = grid.spacing.iter().copied().fold(f64::INFINITY, f64::min);
    let mut density = vec![0.0f32; values.len()];
    for i in 0..values.len() {
        if shares[i] != SampleRole::Train {
            continue;
        }
        let voxel = slots.voxel(i);
        let at = [voxel % nx, voxel / nx % ny, voxel / (nx * ny)];
        let mut square = 0.0f32;
        for k in 0..3 {
            let dims = [nx, ny, nz][k];
            // Only neighbours that training may use; the point itself where one is missing.
            let neighbour = |voxel| slots.sample(voxel).filter(|&j| known(j));
            let before = (at[k] > 0).then(|| voxel - strides[k]).and_then(neighbour);
            let after = (at[k] + 1 < dims).then(|| voxel + strides[k]).and_then(neighbour);
            let steps = f32::from(u8::from(before.is_some()) + u8::from(after.is_some()));
            if steps > 0.0 {
                let rise = values[after.unwrap_or(i)] - values[before.unwrap_or(i)];
                let slope = rise / steps * (unit / grid.spacing[k]) as f32;
                square += slope * slope;
            }
        }
        density[i] = square.sqrt() + 0.03 * values[i].abs() + 0.0005;
    }
    density
}

/// Which sample is at which grid point. If every grid point is a sample, they have the same indices.
struct GridSlots {
    /// Grid point of a sample, and sample of a grid point; empty if these are equal.
    voxels: Vec<u32>,
    samples: Vec<u32>,
}

impl GridSlots {
    fn new(grid: &Grid, points: &[[f64; 3]]) -> Self {
        let [nx, ny, nz] = grid.dims;
        let count = nx * ny * nz;
        if points.len() == count {
            return Self { voxels: Vec::new(), samples: Vec::new() };
        }
        let voxel = |x: &[f64; 3]| {
            let at: [usize; 3] = std::array::from_fn(|k| {
                ((x[k] / grid.spacing[k]).round() as usize).min(grid.dims[k].saturating_sub(1))
            });
            (at[0] + nx * (at[1] + ny * at[2])) as u32
        };
        let voxels: Vec<u32> = points.iter().map(voxel).collect();
        let mut samples = vec![u32::MAX; count];
        voxels.iter().zip(0..).for_each(|(voxel, i)| samples[*voxel as usize] = i);
        Self { voxels, samples }
    }

    fn voxel(&self, sample: usize) -> usize {
        self.voxels.get(sample).map_or(sample, |voxel| *voxel as usize)
    }

    fn sample(&self, voxel: usize) -> Option<usize> {
        match self.samples.get(voxel) {
            None => Some(voxel),
            Some(&u32::MAX) => None,
            Some(sample) => Some(*sample as usize),
        }
    }
}

/// Samples `count` indices by density, one from each of `count` equal strata along `order`.
pub(crate) fn sample_stratified(
    order: &[u32],
    density: &[f32],
    count: usize,
    seed: u64,
    step: u64,
) -> Vec<u32> {
    let total: f64 = order.iter().map(|&i| f64::from(density[i as usize])).sum();
    let mut out = Vec::with_capacity(count);
    let (mut sum, mut at) = (0.0, 0);
    for k in 0..count {
        let words = rng::philox(seed, rng::stream::FIELD, 1 + step, k as u32);
        let wanted = (k as f64 + f64::from(rng::uniform(words[0]))) / count as f64 * total;
        while at + 1 < order.len() {
            let next = sum + f64::from(density[order[at] as usize]);
            if next > wanted {
                break;
            }
            sum = next;
            at += 1;
        }
        if let Some(&index) = order.get(at) {
            out.push(index);
        }
    }
    out
}

/// σ from the density at a mean; `cell` is the volume of a sample.
pub(crate) fn sigma_of_density(density: f64, total: f64, count: usize, cell: f64) -> f64 {
    let per_volume = count as f64 * density / total / cell;
    SIGMA_FACTOR / libm::cbrt(per_volume.max(f64::MIN_POSITIVE))
}

/// σ from the mean distance to the three nearest means, which are in a spatially coherent order.
pub(crate) fn sigma_of_neighbours(means: &[[f32; 3]], size: [f64; 3]) -> Vec<f64> {
    let box_size = libm::cbrt(size.iter().map(|s| s.max(1e-300)).product());
    let flat = size.iter().copied().fold(0.0, f64::max);
    let box_size = if box_size > 1e-6 * flat { box_size } else { flat };
    let least = 0.02 * libm::cbrt(MAX_COMPARED as f64 / means.len() as f64).min(1.0);
    let sigma = |i: usize| {
        let compared = if means.len() <= MAX_COMPARED {
            0..means.len()
        } else {
            i.saturating_sub(NEIGHBOURS)..means.len().min(i + NEIGHBOURS + 1)
        };
        let mut nearest = [f32::INFINITY; 3];
        for (j, other) in compared.clone().zip(&means[compared]) {
            if i == j {
                continue;
            }
            let d: f32 = (0..3).map(|k| (means[i][k] - other[k]).powi(2)).sum();
            if d < nearest[2] {
                nearest[2] = d;
                nearest.sort_by(f32::total_cmp);
            }
        }
        let known: Vec<f64> =
            nearest.iter().filter(|d| d.is_finite()).map(|d| f64::from(*d).sqrt()).collect();
        let mean = if known.is_empty() { box_size } else { known.iter().sum::<f64>() / known.len() as f64 };
        mean.clamp(least * box_size, 0.2 * box_size)
    };
    (0..means.len()).map(sigma).collect()
}
