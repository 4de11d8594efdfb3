//! Whole pictures of 4:2:0 as JPEG files.

use gausset_compute::fearless_simd::Level;

use super::encode::{Band, Encoder, Sampling};
use crate::plane::Frame;

/// Encodes a whole 4:2:0 frame.
#[must_use]
pub fn encode_frame(frame: &Frame, quality: u8, level: Level) -> Vec<u8> {
    let luma = &frame.planes[0];
    encode([luma.width, luma.height], quality, level, &|plane, y| {
        let plane = &frame.planes[plane];
        plane.row(y.min(plane.height - 1) as i32)
    })
}

/// Encodes planes of 4:2:0, rows after rows: luma, and blue and red differences of half its sides.
#[must_use]
pub fn encode_planes(width: usize, planes: &[Vec<u8>; 3], quality: u8, level: Level) -> Vec<u8> {
    encode([width, planes[0].len() / width], quality, level, &|plane, y| {
        let mut rows = planes[plane].chunks_exact(if plane == 0 { width } else { width / 2 });
        let last = rows.len() - 1;
        rows.nth(y.min(last)).unwrap_or_default()
    })
}

/// Encodes rows; those beyond a plane repeat its last row.
fn encode<'a>(
    [width, height]: [usize; 2],
    quality: u8,
    level: Level,
    row: &dyn Fn(usize, usize) -> &'a [u8],
) -> Vec<u8> {
    let mut encoder = Encoder::new(width, height, Sampling::Half, quality);
    let mut band = Band::default();
    band.reshape(width, Sampling::Half);
    encoder.start(&[]);
    // Columns beyond the picture repeat its last column.
    let copy = |plane: usize, out: &mut [u8], top: usize, stride: usize| {
        for (k, out) in out.chunks_exact_mut(stride).enumerate() {
            let row = row(plane, top + k);
            let (inside, rest) = out.split_at_mut(row.len());
            inside.copy_from_slice(row);
            rest.fill(row[row.len() - 1]);
        }
    };
    let stride = band.stride;
    for top in (0..height).step_by(encoder.band_rows()) {
        copy(0, &mut band.luma, top, stride);
        for (plane, out) in (1..).zip(&mut band.chroma) {
            copy(plane, out, top / 2, stride / 2);
        }
        encoder.band(level, &band);
    }
    encoder.finish().to_vec()
}
