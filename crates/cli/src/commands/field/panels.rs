//! Images of values side by side: grey for values, colours for errors.

use gausset::Failure;
use gausset_io::image::encode::{PngPixels, png};

/// Panels are enlarged by an integer factor until the longest side has at least this many pixels.
const MIN_IMAGE_PX: usize = 256;
/// Gap between panels, px.
const GAP_PX: usize = 8;

/// An image of values.
pub(super) struct Panel {
    width: usize,
    height: usize,
    rgb: Vec<[u8; 3]>,
}

impl Panel {
    /// A grey image from `lo` (black) to `hi` (white).
    pub(super) fn grey(width: usize, height: usize, values: &[f32], lo: f32, hi: f32) -> Self {
        let level = |v: &f32| ((v - lo) / (hi - lo).max(f32::MIN_POSITIVE) * 255.0).round() as u8;
        Self { width, height, rgb: values.iter().map(|v| [level(v); 3]).collect() }
    }

    /// An error image: blue below 0, white at 0, red above; `full` is drawn in full colour.
    pub(super) fn error(width: usize, height: usize, values: &[f32], full: f32) -> Self {
        let colour = |v: &f32| {
            let share = (v / full.max(f32::MIN_POSITIVE)).clamp(-1.0, 1.0);
            let fade = ((1.0 - share.abs()) * 255.0).round() as u8;
            if share >= 0.0 { [255, fade, fade] } else { [fade, fade, 255] }
        };
        Self { width, height, rgb: values.iter().map(colour).collect() }
    }

    /// Enlarges the image by an integer factor and flips it, so that the vertical axis points up.
    fn scaled(&self, factor: usize) -> Self {
        let (width, height) = (self.width * factor, self.height * factor);
        let at = |i: usize| {
            let (x, y) = (i % width / factor, (height - 1 - i / width) / factor);
            self.rgb[y * self.width + x]
        };
        Self { width, height, rgb: (0..width * height).map(at).collect() }
    }
}

/// Encodes panels side by side as PNG.
pub(super) fn encode_panels(panels: &[Panel]) -> Result<Vec<u8>, Failure> {
    let side = panels.iter().map(|p| p.width.max(p.height)).max().unwrap_or(1).max(1);
    let factor = MIN_IMAGE_PX.div_ceil(side).max(1);
    let panels: Vec<Panel> = panels.iter().map(|panel| panel.scaled(factor)).collect();
    let height = panels.iter().map(|p| p.height).max().unwrap_or(0);
    let width = panels.iter().map(|p| p.width).sum::<usize>() + GAP_PX * (panels.len() - 1);
    let mut rgb = vec![[255u8; 3]; width * height];
    let mut left = 0;
    for panel in &panels {
        for y in 0..panel.height {
            let row = &panel.rgb[y * panel.width..][..panel.width];
            rgb[y * width + left..][..panel.width].copy_from_slice(row);
        }
        left += panel.width + GAP_PX;
    }
    png(width as u32, height as u32, PngPixels::Rgb8(rgb.as_flattened()), &[])
        .map_err(|error| Failure::new("write", format!("png: {error}")))
}
