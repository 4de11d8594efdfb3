//! The same two codecs by libjpeg-turbo (feature `turbo`): whole pictures, planar in both directions.
//!
//! They take the places of [`super::decode::Decoder`] and [`super::encode::Encoder`]; headers are still read by
//! [`Header`], so both backends refuse the same kinds of file. libjpeg-turbo decodes all rows, whichever are wanted, and
//! compresses when the last band has come, so a worker holds the planes of one panorama and one view more.
#![deny(clippy::unwrap_used, clippy::expect_used)]

use std::fmt;

use gausset_compute::fearless_simd::Level;
use turbojpeg::{Compressor, Decompressor, Subsamp, YuvImage, YuvPlanesImage};

use super::decode::reshape_planes;
use super::encode::{Band, Sampling};
use super::header::DecodeError::{self, Damaged, Unsupported};
use super::header::Header;
use crate::plane::Plane;

/// Decodes frames, one after the other, into the same buffers.
#[derive(Default)]
pub struct Decoder {
    turbo: Option<Decompressor>,
    /// Y, Cb, Cr without padding, one after the other.
    samples: Vec<u8>,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("turbo::Decoder").field("bytes", &self.samples.len()).finish()
    }
}

impl Decoder {
    /// Decodes at least the rows `rows[0]..=rows[1]` of each plane; as [`super::decode::Decoder::decode`].
    ///
    /// # Errors
    /// Damaged or truncated data; a sampling that libjpeg-turbo does not give as planes.
    pub fn decode(
        &mut self,
        _level: Level,
        header: &Header,
        data: &mut [u8],
        rows: &[[i32; 2]],
        planes: &mut Vec<Plane>,
    ) -> Result<(), DecodeError> {
        let subsamp = subsamp(header)?;
        let (width, height) = (header.width, header.height);
        let count = header.components.len();
        let bytes = (0..count).map(|c| header.plane_size(c)).map(|[w, h]| w * h).sum();
        self.samples.resize(bytes, 0);
        let turbo = match &mut self.turbo {
            Some(turbo) => turbo,
            none => {
                none.insert(Decompressor::new().map_err(|_| Unsupported("libjpeg-turbo does not start"))?)
            }
        };
        let image = YuvImage { pixels: &mut self.samples[..], width, align: 1, height, subsamp };
        turbo.decompress_to_yuv(data, image).map_err(|_| Damaged("libjpeg-turbo cannot read it"))?;
        reshape_planes(header, rows, planes);
        let mut rest = &self.samples[..];
        for plane in planes {
            let (own, next) = rest.split_at(plane.width * plane.height);
            rest = next;
            let width = plane.width;
            for y in plane.picture_rows() {
                plane.row_mut(y as i32).copy_from_slice(&own[y * width..(y + 1) * width]);
            }
        }
        Ok(())
    }
}

/// libjpeg-turbo's name of the sampling, where its planes have the sizes that [`Header::plane_size`] tells.
fn subsamp(header: &Header) -> Result<Subsamp, DecodeError> {
    let factors: Vec<[u8; 2]> = header.components.iter().map(|c| [c.h, c.v]).collect();
    match factors[..] {
        [_] => Ok(Subsamp::Gray),
        [[1, 1], [1, 1], [1, 1]] => Ok(Subsamp::None),
        // Its planes are rounded up to whole pairs of samples.
        [[2, 1], [1, 1], [1, 1]] if header.width.is_multiple_of(2) => Ok(Subsamp::Sub2x1),
        [[2, 2], [1, 1], [1, 1]] if header.width.is_multiple_of(2) && header.height.is_multiple_of(2) => {
            Ok(Subsamp::Sub2x2)
        }
        _ => Err(Unsupported("a sampling that libjpeg-turbo does not give as planes")),
    }
}

/// Encodes pictures of one size, quality and sampling, one after the other.
pub struct Encoder {
    turbo: Option<Compressor>,
    size: [usize; 2],
    sampling: Sampling,
    quality: u8,
    /// Rows of luma and chroma so far; rows are as wide as those of a band.
    planes: [Vec<u8>; 3],
    stride: usize,
    segments: Vec<u8>,
    compressed: Vec<u8>,
    out: Vec<u8>,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("turbo::Encoder").field("size", &self.size).field("quality", &self.quality).finish()
    }
}

impl Encoder {
    /// As [`super::encode::Encoder::new`].
    #[must_use]
    pub fn new(width: usize, height: usize, sampling: Sampling, quality: u8) -> Self {
        Self {
            turbo: None,
            size: [width, height],
            sampling,
            quality,
            planes: Default::default(),
            stride: 0,
            segments: Vec::new(),
            compressed: Vec::new(),
            out: Vec::new(),
        }
    }

    /// As [`super::encode::Encoder::fits`].
    #[must_use]
    pub fn fits(&self, width: usize, height: usize, sampling: Sampling, quality: u8) -> bool {
        (self.size, self.sampling, self.quality) == ([width, height], sampling, quality)
    }

    /// As [`super::encode::Encoder::band_rows`].
    #[must_use]
    pub fn band_rows(&self) -> usize {
        if self.sampling == Sampling::Half { 16 } else { 8 }
    }

    /// Begins a picture; `segments` are whole marker segments that follow SOI.
    pub fn start(&mut self, segments: &[&[u8]]) {
        self.segments = segments.concat();
        self.planes.iter_mut().for_each(Vec::clear);
    }

    /// Takes in the next rows.
    pub fn band(&mut self, _level: Level, band: &Band) {
        self.stride = band.stride;
        self.planes[0].extend_from_slice(&band.luma[..band.stride * self.band_rows()]);
        if self.sampling == Sampling::Half {
            self.planes[1].extend_from_slice(&band.chroma[0]);
            self.planes[2].extend_from_slice(&band.chroma[1]);
        }
    }

    /// Ends the picture and gives its bytes, which are valid until the next [`Self::start`]; none where libjpeg-turbo
    /// refuses, which a picture of a legal size and quality does not make it do.
    pub fn finish(&mut self) -> &[u8] {
        self.out.clear();
        if let Some(length) = self.compress() {
            // SOI, the segments, everything else.
            self.out.extend_from_slice(&self.compressed[..2]);
            self.out.extend_from_slice(&self.segments);
            self.out.extend_from_slice(&self.compressed[2..length]);
        }
        &self.out
    }

    fn compress(&mut self) -> Option<usize> {
        let [width, height] = self.size;
        let turbo = match &mut self.turbo {
            Some(turbo) => turbo,
            none => none.insert(Compressor::new().ok()?),
        };
        turbo.set_quality(i32::from(self.quality)).ok()?;
        let subsamp = if self.sampling == Sampling::Half { Subsamp::Sub2x2 } else { Subsamp::Gray };
        let most = turbojpeg::compressed_buf_len(width, height, subsamp).ok()?;
        self.compressed.resize(most.max(2), 0);
        let half = self.stride / 2;
        let image = YuvPlanesImage {
            y_plane: &self.planes[0][..],
            u_plane: &self.planes[1][..],
            v_plane: &self.planes[2][..],
            width,
            height,
            y_stride: self.stride,
            u_stride: half,
            v_stride: half,
            subsamp,
        };
        turbo.compress_yuv_planes_to_slice(&image, &mut self.compressed).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{decode, encode};
    use super::*;
    use gausset_compute::{VectorLevel, level};

    fn band_of(width: usize, rows: usize, top: usize) -> Band {
        let mut band = Band::default();
        band.reshape(width, Sampling::Half);
        let stride = band.stride;
        for y in 0..rows {
            for x in 0..stride {
                let (x, y) = (x.min(width - 1), top + y);
                band.luma[(y - top) * stride + x] =
                    (128.0 + 90.0 * ((x * x + 3 * y) as f32 / 900.0).sin()) as u8;
            }
        }
        for (k, plane) in band.chroma.iter_mut().enumerate() {
            for (i, value) in plane.iter_mut().enumerate() {
                *value = (100 + 20 * k + (i % (stride / 2)) / 4 + top / 8) as u8;
            }
        }
        band
    }

    /// The picture as each backend writes it.
    fn pictures(width: usize, height: usize) -> [Vec<u8>; 2] {
        let mut own = encode::Encoder::new(width, height, Sampling::Half, 95);
        let mut turbo = Encoder::new(width, height, Sampling::Half, 95);
        let segment: &[u8] = &[0xFF, 0xE1, 0, 5, b'a', b'b', b'c'];
        own.start(&[segment]);
        turbo.start(&[segment]);
        let simd = level(VectorLevel::Fallback).expect("always there");
        for top in (0..height).step_by(16) {
            let band = band_of(width, 16, top);
            own.band(simd, &band);
            turbo.band(simd, &band);
        }
        [own.finish().to_vec(), turbo.finish().to_vec()]
    }

    fn decoded(data: &[u8], is_turbo: bool) -> Vec<Plane> {
        let header = Header::parse(data).expect("a JPEG");
        let simd = level(VectorLevel::Fallback).expect("always there");
        let rows = vec![[-1, i32::MAX]; 3];
        let (mut data, mut planes) = (data.to_vec(), Vec::new());
        let done = if is_turbo {
            Decoder::default().decode(simd, &header, &mut data, &rows, &mut planes)
        } else {
            decode::Decoder::default().decode(simd, &header, &mut data, &rows, &mut planes)
        };
        done.expect("a picture");
        planes
    }

    #[test]
    fn both_backends_write_and_read_the_same_pictures() {
        for (width, height) in [(64, 48), (200, 120), (130, 66)] {
            let [own, turbo] = pictures(width, height);
            assert_eq!(&turbo[..9], &own[..9], "the segment follows SOI");
            let all: Vec<_> =
                [&own, &turbo].iter().flat_map(|d| [decoded(d, false), decoded(d, true)]).collect();
            for planes in &all[1..] {
                for (a, b) in all[0].iter().zip(planes) {
                    assert_eq!(
                        (a.width, a.height, a.first_row, a.rows),
                        (b.width, b.height, b.first_row, b.rows)
                    );
                    let worst = (a.picture_rows())
                        .flat_map(|y| a.row(y as i32).iter().zip(b.row(y as i32)))
                        .map(|(a, b)| a.abs_diff(*b))
                        .max();
                    assert!(worst <= Some(3), "{width}x{height}: {worst:?}");
                }
            }
        }
    }

    #[test]
    fn a_truncated_picture_is_refused() {
        let [own, _] = pictures(200, 120);
        let header = Header::parse(&own).expect("a JPEG");
        let simd = level(VectorLevel::Fallback).expect("always there");
        let mut cut = own[..own.len() * 2 / 3].to_vec();
        let rows = vec![[-1, i32::MAX]; 3];
        let done = Decoder::default().decode(simd, &header, &mut cut, &rows, &mut Vec::new());
        assert_eq!(done, Err(Damaged("libjpeg-turbo cannot read it")));
    }
}
