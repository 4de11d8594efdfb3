//! Images in the format of the sweep: grey bytes, the four bilinear taps in one word, at two sizes.
//!
//! ```text
//! texel (x, y) = grey(x, y) | grey(x+1, y) << 8 | grey(x, y+1) << 16 | grey(x+1, y+1) << 24
//! ```
//! A bilinear sample is then one 32-bit load; columns and rows outside repeat the edge. Grey is `(77 R + 150 G + 29 B)
//! / 256` (Rec. 601). Transparent pixels fade to middle grey.

use gausset_core::TargetImage;

/// Radius of the patches, which are 5x5 px.
pub(crate) const PATCH_RADIUS: usize = 2;
/// Minimum side of an image at the coarse level; smaller images are left out.
pub(crate) const MIN_COARSE_SIDE: u32 = 12;
/// Alpha below which a pixel is no surface.
const MIN_COVERAGE: u8 = 128;

/// A grey image at one size.
#[derive(Debug, Default)]
pub(crate) struct Grey {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// `height × width` words, see the module documentation.
    pub(crate) texels: Vec<u32>,
    /// `height × width`, 0 = patches here are unreliable; `None` = all patches are usable.
    pub(crate) usable: Option<Vec<u8>>,
}

impl Grey {
    fn new(width: usize, height: usize, grey: &[u8], usable: Option<Vec<u8>>) -> Self {
        let mut texels = Vec::with_capacity(grey.len());
        for y in 0..height {
            let row = &grey[y * width..(y + 1) * width];
            let below = &grey[(y + 1).min(height - 1) * width..][..width];
            for x in 0..width {
                let right = (x + 1).min(width - 1);
                texels.push(u32::from_le_bytes([row[x], row[right], below[x], below[right]]));
            }
        }
        Self { width, height, texels, usable }
    }

    /// Grey value of a pixel.
    pub(crate) fn at(&self, x: usize, y: usize) -> u8 {
        self.texels[y * self.width + x] as u8
    }

    /// Whether a patch around a pixel may be used.
    pub(crate) fn is_usable(&self, x: usize, y: usize) -> bool {
        self.usable.as_ref().is_none_or(|usable| usable[y * self.width + x] != 0)
    }

    /// The image at half the size; an odd last column or row is dropped.
    fn half(&self) -> Self {
        let (width, height) = (self.width / 2, self.height / 2);
        let blocks = || (0..height).flat_map(|y| (0..width).map(move |x| (2 * x, 2 * y)));
        let mean = |(x, y): (usize, usize)| {
            let sum: u32 = self.texels[y * self.width + x].to_le_bytes().into_iter().map(u32::from).sum();
            ((sum + 2) / 4) as u8
        };
        let grey: Vec<u8> = blocks().map(mean).collect();
        let usable = self.usable.as_ref().map(|usable| {
            let count = |(x, y): (usize, usize)| {
                let at = y * self.width + x;
                let block =
                    [usable[at], usable[at + 1], usable[at + self.width], usable[at + self.width + 1]];
                u8::from(block.iter().filter(|&&u| u != 0).count() > 2)
            };
            blocks().map(count).collect()
        });
        Self::new(width, height, &grey, usable)
    }
}

/// The prepared image of a view.
#[derive(Debug)]
pub(crate) struct PreparedImage {
    /// Grey images at the size of the depth map, and at half of it.
    pub(crate) levels: [Grey; 2],
    /// Colours at the size of the depth map.
    pub(crate) rgb: Vec<u8>,
    /// `height × width`, 0 = masked; `None` = nothing is.
    pub(crate) mask: Option<Vec<u8>>,
}

/// Downsamples an image by an integer factor and prepares it; `None` if the result is too small.
pub(crate) fn prepare(picture: &TargetImage, factor: u32) -> Option<PreparedImage> {
    let shortest = picture.width.min(picture.height) / factor;
    if shortest < 2 * MIN_COARSE_SIDE {
        return None;
    }
    let reduced;
    let picture = if factor > 1 {
        reduced = picture.downscaled(factor);
        &reduced
    } else {
        picture
    };
    let (width, height) = (picture.width as usize, picture.height as usize);
    let luma = |p: &[u8]| (77 * u32::from(p[0]) + 150 * u32::from(p[1]) + 29 * u32::from(p[2]) + 128) >> 8;
    let mut grey: Vec<u8> = picture.rgb.chunks_exact(3).map(|p| luma(p) as u8).collect();
    let mut usable = picture.mask.as_ref().map(|mask| eroded(mask, width, height));
    if let Some(alpha) = &picture.alpha {
        for (grey, &alpha) in grey.iter_mut().zip(alpha) {
            let (g, a) = (u32::from(*grey), u32::from(alpha));
            *grey = ((g * a + 128 * (255 - a) + 127) / 255) as u8;
        }
        let usable = usable.get_or_insert_with(|| vec![1; width * height]);
        usable.iter_mut().zip(alpha).for_each(|(usable, &alpha)| *usable &= u8::from(alpha >= MIN_COVERAGE));
    }
    if usable.as_ref().is_some_and(|usable| usable.iter().all(|&u| u != 0)) {
        usable = None;
    }
    let fine = Grey::new(width, height, &grey, usable);
    let coarse = fine.half();
    let mask = picture.mask.clone();
    Some(PreparedImage { levels: [fine, coarse], rgb: picture.rgb.clone(), mask })
}

/// 1 where no pixel of the patch is masked.
fn eroded(mask: &[u8], width: usize, height: usize) -> Vec<u8> {
    let is_kept = |x: usize, y: usize| {
        let rows = y.saturating_sub(PATCH_RADIUS)..(y + PATCH_RADIUS + 1).min(height);
        let columns = x.saturating_sub(PATCH_RADIUS)..(x + PATCH_RADIUS + 1).min(width);
        rows.into_iter()
            .all(|y| mask[y * width + columns.start..y * width + columns.end].iter().all(|&m| m != 0))
    };
    (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| u8::from(is_kept(x, y))).collect()
}
