//! The engine's layout of splats: blocks of 16 lanes.
//!
//! Splat `i` is lane `i % 16` of block `i / 16`. A block holds 14 *geometry rows* (mean 3, log scale 3, quaternion 4,
//! opacity logit, SH coefficient 0 of each channel) in one array and `3 ((degree + 1)² - 1)` *rest rows*
//! (coefficient-major, RGB fastest) in another, because the two are read and updated at different rates and gaps in a
//! stream cost more than they save. Adam moments have the same layout. Lanes after the last splat are padding that is
//! never visible: their quaternion is zero and their logit far below the visible threshold.

use gausset_compute::Pool;
pub use gausset_compute::simd::AlignedRow;
use gausset_compute::simd::LANES;
use gausset_core::{Splats, sh};

/// Rows of a block's geometry.
pub const GEOMETRY_ROWS: usize = 14;
/// First row of the mean.
pub const MEAN: usize = 0;
/// First row of the log scales; of the scales if the parameters are activated.
pub const LOG_SCALE: usize = 3;
/// First row of the quaternion.
pub const QUAT: usize = 6;
/// Row of the opacity logit; of the opacity if the parameters are activated.
pub const LOGIT: usize = 10;
/// First row of SH coefficient 0.
pub const DC: usize = 11;

/// Blocks per task of a conversion.
const BLOCKS_PER_TASK: usize = 256;
/// Logit of the padding lanes: their opacity is far below the visible threshold.
const PADDING_LOGIT: f32 = -80.0;

/// The geometry of 16 splats.
pub type GeometryBlock = [AlignedRow; GEOMETRY_ROWS];

/// Parameters (or moments, or gradients) of splats in blocks of 16 lanes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocks {
    len: usize,
    sh_degree: u8,
    /// Geometry rows, one element per block.
    pub geometry: Vec<GeometryBlock>,
    /// [`Self::rest_rows`] rows per block.
    pub rest: Vec<AlignedRow>,
}

/// Number of rest rows per block for an SH degree.
#[must_use]
pub const fn rest_rows(sh_degree: u8) -> usize {
    3 * (sh::coefficients(sh_degree) - 1)
}

impl Blocks {
    /// `len` splats with all values zero, including the padding.
    #[must_use]
    pub fn zeros(sh_degree: u8, len: usize) -> Self {
        let blocks = len.div_ceil(LANES);
        Self {
            len,
            sh_degree,
            geometry: vec![[AlignedRow::default(); GEOMETRY_ROWS]; blocks],
            rest: vec![AlignedRow::default(); blocks * rest_rows(sh_degree)],
        }
    }

    /// Converts parameters to blocks.
    #[must_use]
    pub fn from_splats(splats: &Splats) -> Self {
        Self::from_splats_on(splats, &Pool::new(1))
    }

    /// [`Self::from_splats`] on all threads.
    #[must_use]
    pub fn from_splats_on(splats: &Splats, pool: &Pool) -> Self {
        let mut out = Self::from_values_on(splats, pool);
        for lane in out.len..out.geometry.len() * LANES {
            out.geometry[lane / LANES][LOGIT].0[lane % LANES] = PADDING_LOGIT;
        }
        out
    }

    /// Blocks of activated parameters, with SH of degree 0 and value 0.
    ///
    /// # Panics
    /// If the numbers of values differ.
    #[must_use]
    pub fn from_activated(
        means: &[[f32; 3]],
        quats: &[[f32; 4]],
        scales: &[[f32; 3]],
        opacities: &[f32],
        pool: &Pool,
    ) -> Self {
        let len = means.len();
        assert_eq!(
            [quats.len(), scales.len(), opacities.len()],
            [len; 3],
            "one value of each kind per splat"
        );
        let mut out = Self::zeros(0, len);
        pool.run_chunks(&mut out.geometry, BLOCKS_PER_TASK, |chunk, blocks| {
            for (local, block) in blocks.iter_mut().enumerate() {
                let first = (chunk * BLOCKS_PER_TASK + local) * LANES;
                for (lane, i) in (first..len.min(first + LANES)).enumerate() {
                    for k in 0..3 {
                        block[MEAN + k].0[lane] = means[i][k];
                        block[LOG_SCALE + k].0[lane] = scales[i][k];
                    }
                    for k in 0..4 {
                        block[QUAT + k].0[lane] = quats[i][k];
                    }
                    block[LOGIT].0[lane] = opacities[i];
                }
            }
        });
        out
    }

    /// Converts moments or gradients to blocks: like [`Self::from_splats_on`], with zeros in the padding.
    #[must_use]
    pub fn from_values_on(splats: &Splats, pool: &Pool) -> Self {
        let mut out = Self::zeros(splats.sh_degree, splats.len());
        let rest = out.rest_rows();
        let mut rest_parts = out.rest.chunks_mut((BLOCKS_PER_TASK * rest).max(1));
        let mut parts: Vec<_> = out
            .geometry
            .chunks_mut(BLOCKS_PER_TASK)
            .map(|geometry| (geometry, rest_parts.next().unwrap_or_default()))
            .collect();
        pool.run_parts(&mut parts, |chunk, (geometry, rows)| {
            for (local, block) in geometry.iter_mut().enumerate() {
                let first = (chunk * BLOCKS_PER_TASK + local) * LANES;
                for (lane, i) in (first..splats.len().min(first + LANES)).enumerate() {
                    let coefficients = splats.sh_coefficients(i);
                    for k in 0..3 {
                        block[MEAN + k].0[lane] = splats.means[i][k];
                        block[LOG_SCALE + k].0[lane] = splats.log_scales[i][k];
                        block[DC + k].0[lane] = coefficients[k];
                    }
                    for k in 0..4 {
                        block[QUAT + k].0[lane] = splats.quats[i][k];
                    }
                    block[LOGIT].0[lane] = splats.opacity_logits[i];
                    let rows = &mut rows[local * rest..(local + 1) * rest];
                    for (row, &value) in rows.iter_mut().zip(&coefficients[3..]) {
                        row.0[lane] = value;
                    }
                }
            }
        });
        out
    }

    /// Converts back to a structure of arrays.
    #[must_use]
    pub fn to_splats(&self) -> Splats {
        self.to_splats_on(&Pool::new(1))
    }

    /// [`Self::to_splats`] on all threads.
    #[must_use]
    pub fn to_splats_on(&self, pool: &Pool) -> Splats {
        self.to_splats_of_degree(self.sh_degree, pool)
    }

    /// [`Self::to_splats_on`] with SH up to a degree.
    #[must_use]
    pub fn to_splats_of_degree(&self, sh_degree: u8, pool: &Pool) -> Splats {
        struct Part<'a> {
            means: &'a mut [[f32; 3]],
            log_scales: &'a mut [[f32; 3]],
            quats: &'a mut [[f32; 4]],
            opacity_logits: &'a mut [f32],
            sh: &'a mut [f32],
        }
        let mut out = Splats::zeros(sh_degree.min(self.sh_degree), self.len);
        let stride = out.sh_stride();
        let chunk = BLOCKS_PER_TASK * LANES;
        let mut parts: Vec<Part<'_>> = out
            .means
            .chunks_mut(chunk)
            .zip(out.log_scales.chunks_mut(chunk))
            .zip(out.quats.chunks_mut(chunk))
            .zip(out.opacity_logits.chunks_mut(chunk))
            .zip(out.sh.chunks_mut(chunk * stride))
            .map(|((((means, log_scales), quats), opacity_logits), sh)| Part {
                means,
                log_scales,
                quats,
                opacity_logits,
                sh,
            })
            .collect();
        pool.run_parts(&mut parts, |index, part| {
            for local in 0..part.means.len() {
                let i = index * chunk + local;
                let (block, lane) = (&self.geometry[i / LANES], i % LANES);
                let row = |r: usize| block[r].0[lane];
                part.means[local] = [row(MEAN), row(MEAN + 1), row(MEAN + 2)];
                part.log_scales[local] = [row(LOG_SCALE), row(LOG_SCALE + 1), row(LOG_SCALE + 2)];
                part.quats[local] = [row(QUAT), row(QUAT + 1), row(QUAT + 2), row(QUAT + 3)];
                part.opacity_logits[local] = row(LOGIT);
                let sh = &mut part.sh[local * stride..(local + 1) * stride];
                for (k, value) in sh.iter_mut().take(3).enumerate() {
                    *value = row(DC + k);
                }
                for (value, row) in sh.iter_mut().skip(3).zip(self.rest_rows_of(i / LANES)) {
                    *value = row.0[lane];
                }
            }
        });
        out
    }

    /// Number of splats.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no splats.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stored SH degree.
    #[must_use]
    pub fn sh_degree(&self) -> u8 {
        self.sh_degree
    }

    /// Number of rest rows per block.
    #[must_use]
    pub fn rest_rows(&self) -> usize {
        rest_rows(self.sh_degree)
    }

    /// The rest rows of a block.
    #[must_use]
    #[inline(always)]
    pub fn rest_rows_of(&self, block: usize) -> &[AlignedRow] {
        let rows = self.rest_rows();
        &self.rest[block * rows..(block + 1) * rows]
    }

    /// The rest rows of a block.
    #[inline(always)]
    pub fn rest_rows_of_mut(&mut self, block: usize) -> &mut [AlignedRow] {
        let rows = self.rest_rows();
        &mut self.rest[block * rows..(block + 1) * rows]
    }

    /// Bytes of all arrays.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.geometry) + size_of_val(&*self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splats_survive_the_way_into_blocks_and_back() {
        for degree in 0..=3 {
            for len in [0, 1, 15, 16, 17, 40] {
                let mut splats = Splats::zeros(degree, len);
                let mut next = 0.0f32;
                let mut fill = |v: &mut f32| {
                    next += 1.0;
                    *v = next;
                };
                splats.means.iter_mut().flatten().for_each(&mut fill);
                splats.log_scales.iter_mut().flatten().for_each(&mut fill);
                splats.quats.iter_mut().flatten().for_each(&mut fill);
                splats.opacity_logits.iter_mut().for_each(&mut fill);
                splats.sh.iter_mut().for_each(&mut fill);
                assert_eq!(Blocks::from_splats(&splats).to_splats(), splats);
            }
        }
    }
}
