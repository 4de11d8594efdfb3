//! Encodes whole 4:2:0 images as JPEG files.

use gausset_compute::fearless_simd::Level;

use super::encode::{Band, Encoder, Sampling};
use crate::plane::Frame;

/// Encodes a whole 4:2:0 frame.
#[must_use]
pub fn encode_frame(frame: &Frame, quality: u8, level: Level) -> Vec<u8> {
    let luma = &frame.planes[0];
    encode_rows([luma.width, luma.height], Sampling::Half, quality, level, &[], &|plane, y| {
        let plane = &frame.planes[plane];
        plane.row(y.min(plane.height - 1) as i32)
    })
}

/// Encodes 4:2:0 planes, row by row: luma, then Cb and Cr at half the width and height.
#[must_use]
pub fn encode_planes(width: usize, planes: &[Vec<u8>; 3], quality: u8, level: Level) -> Vec<u8> {
    encode_rows([width, planes[0].len() / width], Sampling::Half, quality, level, &[], &|plane, y| {
        clamped_row(&planes[plane], if plane == 0 { width } else { width / 2 }, y)
    })
}

/// Encodes one grey plane, or three 4:2:0 planes with chroma sizes rounded up, with these marker segments.
#[must_use]
pub fn encode_image(
    [width, height]: [usize; 2],
    planes: &[Vec<u8>],
    quality: u8,
    level: Level,
    segments: &[Vec<u8>],
) -> Vec<u8> {
    let sampling = if planes.len() == 3 { Sampling::Half } else { Sampling::Grey };
    let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
    encode_rows([width, height], sampling, quality, level, &segments, &|plane, y| {
        clamped_row(&planes[plane], if plane == 0 { width } else { width.div_ceil(2) }, y)
    })
}

/// A row of a plane; beyond the end, its last row.
fn clamped_row(plane: &[u8], width: usize, y: usize) -> &[u8] {
    let mut rows = plane.chunks_exact(width);
    let last = rows.len() - 1;
    rows.nth(y.min(last)).unwrap_or_default()
}

/// Encodes rows; beyond the end of a plane, its last row is repeated.
fn encode_rows<'a>(
    [width, height]: [usize; 2],
    sampling: Sampling,
    quality: u8,
    level: Level,
    segments: &[&[u8]],
    row: &dyn Fn(usize, usize) -> &'a [u8],
) -> Vec<u8> {
    let mut encoder = Encoder::new(width, height, sampling, quality);
    let mut band = Band::default();
    band.reshape(width, sampling);
    encoder.start(segments);
    // Columns beyond the image repeat its last column.
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
    encoder.into_bytes()
}
