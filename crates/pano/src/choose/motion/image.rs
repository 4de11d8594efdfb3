//! Small grey images and image pyramids.

/// Levels of a pyramid: the coarsest has eight times the search range of the finest.
const MAX_LEVELS: usize = 4;
/// Minimum side of a level, px.
const MIN_SIDE: usize = 24;

/// A grey image, row by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GreyImage {
    /// Width, px.
    pub width: usize,
    /// Height, px.
    pub height: usize,
    /// `width · height` samples.
    pub data: Vec<u8>,
}

impl GreyImage {
    /// A black image.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self { width, height, data: vec![0; width * height] }
    }

    /// The samples of row `y`.
    #[must_use]
    pub fn row(&self, y: usize) -> &[u8] {
        &self.data[y * self.width..][..self.width]
    }

    /// Downsamples by means of 2x2 pixels into an existing image, whose memory is reused.
    fn halve_into(&self, half: &mut Self) {
        (half.width, half.height) = (self.width / 2, self.height / 2);
        half.data.resize(half.width * half.height, 0);
        for (y, out) in half.data.chunks_exact_mut(half.width.max(1)).enumerate() {
            let (upper, lower) = (self.row(2 * y), self.row(2 * y + 1));
            for ((out, a), b) in out.iter_mut().zip(upper.chunks_exact(2)).zip(lower.chunks_exact(2)) {
                let sum = u16::from(a[0]) + u16::from(a[1]) + u16::from(b[0]) + u16::from(b[1]);
                *out = ((sum + 2) / 4) as u8;
            }
        }
    }
}

/// An image pyramid, finest level first.
#[derive(Clone, Debug, Default)]
pub(super) struct ImagePyramid {
    pub(super) levels: Vec<GreyImage>,
}

impl ImagePyramid {
    /// Rebuilds the pyramid from `finest`, which receives the previous image so that its memory can be reused.
    pub(super) fn rebuild(&mut self, finest: &mut GreyImage) {
        let sides = [finest.width, finest.height];
        let fits = |level: &usize| sides.iter().all(|side| side >> level >= MIN_SIDE);
        let count = (1..MAX_LEVELS).take_while(fits).count() + 1;
        self.levels.resize_with(count, GreyImage::default);
        std::mem::swap(&mut self.levels[0], finest);
        for level in 1..count {
            let (above, below) = self.levels.split_at_mut(level);
            above[level - 1].halve_into(&mut below[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_means_and_levels_end_before_they_are_too_small() {
        let mut picture = GreyImage { width: 4, height: 2, data: vec![0, 2, 10, 20, 4, 6, 30, 41] };
        let mut half = GreyImage::default();
        picture.halve_into(&mut half);
        assert_eq!((half.width, half.height, half.data), (2, 1, vec![3, 25]));
        let mut pyramid = ImagePyramid::default();
        pyramid.rebuild(&mut picture);
        assert_eq!(pyramid.levels.len(), 1);
        pyramid.rebuild(&mut GreyImage::new(960, 480));
        assert_eq!(pyramid.levels.iter().map(|l| l.width).collect::<Vec<_>>(), [960, 480, 240, 120]);
    }
}
