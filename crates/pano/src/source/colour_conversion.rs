//! Converts video samples to JPEG samples: limited to full range, BT.709 to BT.601.
//!
//! ```text
//! Y' = kYY (Y - black) + kYb (Cb - 128) + kYr (Cr - 128)          chroma of the block of 2x2 that Y lies in
//! Cb' = 128 + kbb (Cb - 128) + kbr (Cr - 128)                     Cr' likewise; neither depends on Y
//! ```
//! Both are YCbCr of the same R'G'B' (ITU-R BT.601 and BT.709: Kr, Kb = 0.299, 0.114 and 0.2126, 0.0722), so one matrix
//! converts one to the other. Its first column is zero below the luma. 14-bit fixed point, rounded to nearest.
//! Converting only the needed rows takes a tenth of the time of ffmpeg's filter on whole frames.

use gausset_compute::at_level;
use gausset_compute::fearless_simd::{Level, prelude::*};
use gausset_jpeg::plane::Plane;

/// Fractional bits of the fixed-point factors.
const FRACTION_BITS: u32 = 14;

/// The R'G'B' to YCbCr matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YcbcrMatrix {
    /// BT.601: standard definition and JPEG.
    Bt601,
    /// BT.709: high definition.
    Bt709,
}

impl YcbcrMatrix {
    /// Weights of red and blue in luma.
    const fn luma_weights(self) -> [f64; 2] {
        match self {
            Self::Bt601 => [0.299, 0.114],
            Self::Bt709 => [0.2126, 0.0722],
        }
    }
}

/// A colour conversion from a kind of video to JPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColourConversion {
    /// Y of black.
    black: i32,
    /// Factors of (Y - black, Cb - 128, Cr - 128) for the new Y.
    luma: [i32; 3],
    /// Factors of (Cb - 128, Cr - 128) for the new Cb and Cr.
    chroma: [[i32; 2]; 2],
}

impl ColourConversion {
    /// The identity: samples stay unchanged.
    pub const IDENTITY: Self = Self {
        black: 0,
        luma: [1 << FRACTION_BITS, 0, 0],
        chroma: [[1 << FRACTION_BITS, 0], [0, 1 << FRACTION_BITS]],
    };

    /// The conversion from samples with this matrix and range.
    #[must_use]
    pub fn new(matrix: YcbcrMatrix, is_full_range: bool) -> Self {
        let [kr, kb] = matrix.luma_weights();
        let [jr, jb] = YcbcrMatrix::Bt601.luma_weights();
        let (y_scale, c_scale) = if is_full_range { (1.0, 1.0) } else { (255.0 / 219.0, 255.0 / 224.0) };
        // R'G'B' minus Y for one unit of full-range Cb and Cr.
        let rgb_of_cb = [0.0, -2.0 * (1.0 - kb) * kb / (1.0 - kr - kb), 2.0 * (1.0 - kb)];
        let rgb_of_cr = [2.0 * (1.0 - kr), -2.0 * (1.0 - kr) * kr / (1.0 - kr - kb), 0.0];
        let ycc = |rgb: [f64; 3]| {
            let y = jr * rgb[0] + (1.0 - jr - jb) * rgb[1] + jb * rgb[2];
            [y, (rgb[2] - y) / (2.0 * (1.0 - jb)), (rgb[0] - y) / (2.0 * (1.0 - jr))]
        };
        let (of_cb, of_cr) = (ycc(rgb_of_cb), ycc(rgb_of_cr));
        let fixed = |v: f64| (v * f64::from(1u32 << FRACTION_BITS)).round() as i32;
        let of_chroma = |k: usize| [fixed(c_scale * of_cb[k]), fixed(c_scale * of_cr[k])];
        Self {
            black: if is_full_range { 0 } else { 16 },
            luma: [fixed(y_scale), of_chroma(0)[0], of_chroma(0)[1]],
            chroma: [of_chroma(1), of_chroma(2)],
        }
    }

    /// Converts full-size raw planes (Y, and Cb and Cr at half the size) into the rows that `planes` store.
    pub(crate) fn convert(&self, level: Level, raw: [&[u8]; 3], planes: &mut [Plane]) {
        let [luma, cb, cr] = raw;
        let [y_plane, b_plane, r_plane] = planes else { return };
        let (width, half) = (y_plane.width, b_plane.width);
        let mut offsets = vec![0i32; width];
        let mut of_row = usize::MAX;
        for y in y_plane.image_rows() {
            let source = &luma[y * width..(y + 1) * width];
            if *self == Self::IDENTITY {
                y_plane.row_mut(y as i32).copy_from_slice(source);
                continue;
            }
            let row = y / 2;
            let chroma = [&cb[row * half..(row + 1) * half], &cr[row * half..(row + 1) * half]];
            let is_new = row != of_row;
            of_row = row;
            let (out, offsets) = (y_plane.row_mut(y as i32), offsets.as_mut_slice());
            // Plain integer code, compiled for each SIMD level.
            at_level!(level, simd => simd.vectorize(
                #[inline(always)]
                || {
                    if is_new {
                        self.luma_offsets(chroma, offsets);
                    }
                    self.luma_row(source, offsets, out);
                },
            ));
        }
        for (plane, factors) in [(b_plane, self.chroma[0]), (r_plane, self.chroma[1])] {
            for y in plane.image_rows() {
                let chroma = [&cb[y * half..(y + 1) * half], &cr[y * half..(y + 1) * half]];
                let out = plane.row_mut(y as i32);
                at_level!(level, simd => simd.vectorize(
                    #[inline(always)]
                    || chroma_row(factors, chroma, out),
                ));
            }
        }
    }

    /// Computes the contribution of a chroma row to the luma of both pixels that share each sample.
    #[inline(always)]
    fn luma_offsets(&self, [cb, cr]: [&[u8]; 2], offsets: &mut [i32]) {
        for ((pair, &b), &r) in offsets.chunks_exact_mut(2).zip(cb).zip(cr) {
            pair.fill(self.luma[1] * (i32::from(b) - 128) + self.luma[2] * (i32::from(r) - 128));
        }
    }

    #[inline(always)]
    fn luma_row(&self, source: &[u8], offsets: &[i32], out: &mut [u8]) {
        for ((out, &y), &offset) in out.iter_mut().zip(source).zip(offsets) {
            *out = rounded(self.luma[0] * (i32::from(y) - self.black) + offset);
        }
    }
}

#[inline(always)]
fn chroma_row(factors: [i32; 2], [cb, cr]: [&[u8]; 2], out: &mut [u8]) {
    for ((out, &b), &r) in out.iter_mut().zip(cb).zip(cr) {
        let sum = factors[0] * (i32::from(b) - 128) + factors[1] * (i32::from(r) - 128);
        *out = rounded(sum + (128 << FRACTION_BITS));
    }
}

#[inline(always)]
fn rounded(sum: i32) -> u8 {
    ((sum + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS).clamp(0, 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_compute::{SimdLevel, dispatch_level};

    fn converted(colours: ColourConversion, level: Level, [y, cb, cr]: [u8; 3]) -> [u8; 3] {
        let mut planes = vec![Plane::default(); 3];
        planes[0].reshape(34, 2, [0, 1]);
        planes[1].reshape(17, 1, [0, 0]);
        planes[2].reshape(17, 1, [0, 0]);
        colours.convert(level, [&[y; 68], &[cb; 17], &[cr; 17]], &mut planes);
        assert!(planes.iter().all(|p| p.row(0).iter().all(|&v| v == p.row(0)[0])));
        [0, 1, 2].map(|k| planes[k].row(0)[0])
    }

    #[test]
    fn colours_are_those_of_the_same_rgb() {
        let colours = ColourConversion::new(YcbcrMatrix::Bt709, false);
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        for rgb in [[255, 255, 255], [0, 0, 0], [200, 30, 60], [10, 190, 90], [40, 60, 220]] {
            let [r, g, b] = rgb.map(f64::from);
            let y = 0.2126 * r + 0.7152 * g + 0.0722 * b;
            let limited = [
                16.0 + y * 219.0 / 255.0,
                128.0 + (b - y) / 1.8556 * 224.0 / 255.0,
                128.0 + (r - y) / 1.5748 * 224.0 / 255.0,
            ];
            let found = converted(colours, level, limited.map(|v| (v + 0.5) as u8));
            let wanted = gausset_jpeg::colour::ycbcr_from_rgb(rgb.map(|v| v as u8));
            // Two roundings, the first of which is stretched.
            assert!(
                found.iter().zip(wanted).all(|(a, b)| a.abs_diff(b) <= 2),
                "{rgb:?} {found:?} {wanted:?}"
            );
        }
        assert_eq!(
            converted(ColourConversion::new(YcbcrMatrix::Bt601, true), level, [7, 200, 31]),
            [7, 200, 31]
        );
        assert_eq!(ColourConversion::new(YcbcrMatrix::Bt601, true), ColourConversion::IDENTITY);
    }

    #[test]
    fn levels_give_the_same_samples() {
        let colours = ColourConversion::new(YcbcrMatrix::Bt709, false);
        for v in 0..=255u8 {
            let sample = [v, v.wrapping_mul(7), v.wrapping_mul(13)];
            let mut all =
                SimdLevel::ALL.into_iter().filter_map(dispatch_level).map(|l| converted(colours, l, sample));
            let first = all.next().unwrap();
            assert!(all.all(|other| other == first));
        }
    }
}
