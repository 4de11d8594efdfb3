//! The engine's layout of splats: blocks of 16 lanes.
//!
//! Splat `i` is lane `i % 16` of block `i / 16`. A block holds 14 *geometry rows* (mean 3, log scale 3, quaternion 4,
//! opacity logit, SH coefficient 0 of each channel) in one array and `3 ((degree + 1)² - 1)` *rest rows*
//! (coefficient-major, RGB fastest) in another, because the two are read and updated at different rates and holes in
//! a stream cost more than they save. Adam moments have the same layout. Lanes beyond the last splat are padding that
//! is never visible: their quaternion is zero and their logit `-inf`-like.

use gausset_compute::simd::{LANES, Row};
use gausset_core::{Splats, sh};

/// Rows of a block's geometry.
pub const GEOMETRY_ROWS: usize = 14;
/// First row of the mean.
pub const MEAN: usize = 0;
/// First row of the log scales.
pub const LOG_SCALE: usize = 3;
/// First row of the quaternion.
pub const QUAT: usize = 6;
/// Row of the opacity logit.
pub const LOGIT: usize = 10;
/// First row of SH coefficient 0.
pub const DC: usize = 11;

/// Logit of the padding lanes: their opacity is far below the visible threshold.
const PADDING_LOGIT: f32 = -80.0;

/// A row that starts on a cache line, so that a 16-lane load never touches two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct AlignedRow(pub Row);

/// The geometry of 16 splats.
pub type GeometryBlock = [AlignedRow; GEOMETRY_ROWS];

/// Parameters (or moments, or gradients) of splats in blocks of 16 lanes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocks {
    len: usize,
    sh_degree: u8,
    /// One per block.
    pub geometry: Vec<GeometryBlock>,
    /// [`Self::rest_rows`] per block.
    pub rest: Vec<AlignedRow>,
}

/// Rest rows per block of an SH degree.
#[must_use]
pub const fn rest_rows(sh_degree: u8) -> usize {
    3 * (sh::coefficients(sh_degree) - 1)
}

impl Blocks {
    /// Blocks of `len` splats, all values zero, also in the padding.
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

    /// Parameters in blocks.
    #[must_use]
    pub fn from_splats(splats: &Splats) -> Self {
        let mut out = Self::from_values(splats);
        for lane in out.len..out.geometry.len() * LANES {
            out.geometry[lane / LANES][LOGIT].0[lane % LANES] = PADDING_LOGIT;
        }
        out
    }

    /// Moments or gradients in blocks: as [`Self::from_splats`] with zeros in the padding.
    #[must_use]
    pub fn from_values(splats: &Splats) -> Self {
        let mut out = Self::zeros(splats.sh_degree, splats.len());
        let rest = rest_rows(splats.sh_degree);
        for i in 0..splats.len() {
            let (block, lane) = (i / LANES, i % LANES);
            let rows = &mut out.geometry[block];
            let coefficients = splats.sh_of(i);
            let values = splats.means[i]
                .iter()
                .chain(&splats.log_scales[i])
                .chain(&splats.quats[i])
                .chain(std::iter::once(&splats.opacity_logits[i]))
                .chain(&coefficients[..3]);
            for (row, &value) in rows.iter_mut().zip(values) {
                row.0[lane] = value;
            }
            for (row, &value) in out.rest[block * rest..(block + 1) * rest].iter_mut().zip(&coefficients[3..])
            {
                row.0[lane] = value;
            }
        }
        out
    }

    /// Back to a structure of arrays.
    #[must_use]
    pub fn to_splats(&self) -> Splats {
        let mut out = Splats::with_capacity(self.sh_degree, self.len);
        let rest = rest_rows(self.sh_degree);
        let mut coefficients = vec![0.0; 3 + rest];
        for i in 0..self.len {
            let (block, lane) = (i / LANES, i % LANES);
            let row = |r: usize| self.geometry[block][r].0[lane];
            let rows = |first: usize| [row(first), row(first + 1), row(first + 2)];
            coefficients[..3].copy_from_slice(&rows(DC));
            for (k, value) in coefficients[3..].iter_mut().enumerate() {
                *value = self.rest[block * rest + k].0[lane];
            }
            let quat = [row(QUAT), row(QUAT + 1), row(QUAT + 2), row(QUAT + 3)];
            out.push(rows(MEAN), rows(LOG_SCALE), quat, row(LOGIT), &coefficients);
        }
        out
    }

    /// Number of splats.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stored SH degree.
    #[must_use]
    pub fn sh_degree(&self) -> u8 {
        self.sh_degree
    }

    /// Rest rows per block.
    #[must_use]
    pub fn rest_rows(&self) -> usize {
        rest_rows(self.sh_degree)
    }

    /// The rest rows of a block.
    #[must_use]
    #[inline(always)]
    pub fn rest_of(&self, block: usize) -> &[AlignedRow] {
        let rows = self.rest_rows();
        &self.rest[block * rows..(block + 1) * rows]
    }

    /// The rest rows of a block.
    #[inline(always)]
    pub fn rest_of_mut(&mut self, block: usize) -> &mut [AlignedRow] {
        let rows = self.rest_rows();
        &mut self.rest[block * rows..(block + 1) * rows]
    }

    /// Bytes held.
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
