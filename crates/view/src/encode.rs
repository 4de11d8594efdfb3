//! Image encoding: JPEG for viewing, PNG where every bit counts.

use gausset_core::RgbImage8;
use gausset_io::image::encode::{self, png_rgb8};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

/// Encoding of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// JPEG while the view moves: chroma subsampling, this quality.
    JpegMoving(u8),
    /// JPEG of a view at rest: full chroma.
    JpegAtRest,
    /// Lossless.
    Png,
}

/// JPEG quality of a frame at rest: above 38 dB against the uncompressed frame in any scene.
const RESTING_QUALITY: u8 = 93;

/// Why an image cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// As PNG.
    #[error(transparent)]
    Png(#[from] encode::EncodingError),
    /// As JPEG.
    #[error(transparent)]
    Jpeg(#[from] jpeg_encoder::EncodingError),
    /// A side is too long for JPEG.
    #[error(transparent)]
    Side(#[from] std::num::TryFromIntError),
}

impl Codec {
    /// Number of the codec in the header of a frame.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::JpegMoving(_) | Self::JpegAtRest => 0,
            Self::Png => 2,
        }
    }

    /// Encodes an image.
    pub(crate) fn encode(self, picture: &RgbImage8) -> Result<Vec<u8>, EncodeError> {
        let (quality, sampling) = match self {
            Self::Png => return Ok(png_rgb8(picture)?),
            Self::JpegMoving(quality) => (quality, SamplingFactor::F_2_2),
            Self::JpegAtRest => (RESTING_QUALITY, SamplingFactor::F_1_1),
        };
        let mut bytes = Vec::with_capacity(picture.data.len() / 8);
        let mut encoder = Encoder::new(&mut bytes, quality);
        encoder.set_sampling_factor(sampling);
        let (width, height) = (u16::try_from(picture.width)?, u16::try_from(picture.height)?);
        encoder.encode(&picture.data, width, height, ColorType::Rgb)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resting_frame_is_within_38_db_and_a_moving_one_is_smaller() {
        let (width, height) = (96u32, 64u32);
        let data = (0..width * height).flat_map(|i| {
            let (x, y) = ((i % width) as f32, (i / width) as f32);
            [x / 96.0, y / 64.0, 0.5 + 0.5 * (x * 0.3).sin() * (y * 0.2).cos()].map(|v| (255.0 * v) as u8)
        });
        let picture = RgbImage8 { width, height, data: data.collect() };
        let resting = Codec::JpegAtRest.encode(&picture).unwrap();
        assert!(Codec::JpegMoving(50).encode(&picture).unwrap().len() < resting.len());
        let decoded = gausset_io::image::decode::decode(&resting).unwrap().rgb;
        let squares = decoded.iter().zip(&picture.data).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2));
        let mse = squares.sum::<f64>() / picture.data.len() as f64;
        let psnr = 20.0 * 255f64.log10() - 10.0 * mse.log10();
        assert!(psnr > 38.0, "{psnr} dB");
    }
}
