//! Pictures as cameras compress them: luma, and chroma at half the size (full-range BT.601, JFIF).

use gausset_core::RgbImage8;

/// A picture in planes of 4:2:0, even sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planar {
    /// Width, px.
    pub width: usize,
    /// Luma, then blue and red differences at half the width and height; rows follow each other.
    pub planes: [Vec<u8>; 3],
}

impl Planar {
    /// A picture of zeros.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        let planes = [width * height, width * height / 4, width * height / 4].map(|samples| vec![0; samples]);
        Self { width, planes }
    }

    /// A picture in planes; chroma is the mean of 2x2 pixels.
    #[must_use]
    pub fn of(picture: &RgbImage8) -> Self {
        let (width, height) = (picture.width as usize, picture.height as usize);
        let pixels: Vec<[f64; 3]> =
            picture.data.chunks_exact(3).map(|p| [p[0], p[1], p[2]].map(f64::from)).collect();
        let pixel = |x: usize, y: usize| pixels[y * width + x];
        let mut planar = Self::new(width, height);
        let [luma, blue, red] = &mut planar.planes;
        for (out, p) in luma.iter_mut().zip(&pixels) {
            *out = brightness(*p).round() as u8;
        }
        for (i, (blue, red)) in blue.iter_mut().zip(red).enumerate() {
            let (x, y) = (2 * (i % (width / 2)), 2 * (i / (width / 2)));
            let four = [pixel(x, y), pixel(x + 1, y), pixel(x, y + 1), pixel(x + 1, y + 1)];
            let [r, g, b] = [0, 1, 2].map(|c| four.iter().map(|p| p[c]).sum::<f64>() / 4.0);
            let luma = brightness([r, g, b]);
            *blue = (128.0 + (b - luma) / 1.772).round().clamp(0.0, 255.0) as u8;
            *red = (128.0 + (r - luma) / 1.402).round().clamp(0.0, 255.0) as u8;
        }
        planar
    }
}

fn brightness([r, g, b]: [f64; 3]) -> f64 {
    0.299 * r + 0.587 * g + 0.114 * b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_have_the_published_values() {
        let of = |rgb: [u8; 3]| {
            let data = rgb.repeat(4);
            let planar = Planar::of(&RgbImage8 { width: 2, height: 2, data });
            planar.planes.map(|plane| plane[0])
        };
        assert_eq!((of([255, 255, 255]), of([0, 0, 0])), ([255, 128, 128], [0, 128, 128]));
        assert_eq!((of([255, 0, 0]), of([0, 0, 255])), ([76, 85, 255], [29, 255, 107]));
    }
}
