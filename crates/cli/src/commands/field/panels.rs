//! Images of values side by side, grey for values and colours for errors, above a strip that says what they show: title,
//! colours with their values, and a length.

use gausset::Failure;
use gausset_core::RgbImage8;
use gausset_io::image::caption;
use gausset_io::image::encode::png_rgb8;

use crate::numbers::three_digits;

/// Panels are enlarged by an integer factor until the longest side has at least this many pixels.
const MIN_IMAGE_PX: usize = 256;
/// Gap between panels, px.
const GAP_PX: usize = 8;
/// Height of the strip below the panels, px: five rows of [`ROW_PX`].
const STRIP_PX: u32 = 60;
const ROW_PX: u32 = 12;
const INK: [u8; 3] = [32, 36, 44];

/// Colours of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Colours {
    /// From black to white.
    Grey,
    /// Blue below 0, white at 0, red above, grey without a number.
    Error,
}

impl Colours {
    /// The colour of a value that is this fraction of the way from the lowest to the highest.
    fn at(self, share: f32) -> [u8; 3] {
        let byte = |share: f32| (share * 255.0).round() as u8;
        match self {
            Self::Grey => [byte(share); 3],
            Self::Error if share.is_nan() => [128; 3],
            Self::Error => {
                let signed = 2.0 * share.clamp(0.0, 1.0) - 1.0;
                let fade = byte(1.0 - signed.abs());
                if signed >= 0.0 { [255, fade, fade] } else { [fade, fade, 255] }
            }
        }
    }
}

/// An image of values.
pub(super) struct Panel<'a> {
    /// What the values are.
    pub(super) title: String,
    /// Columns and rows, the lowest row first.
    pub(super) size: [usize; 2],
    pub(super) values: &'a [f32],
    pub(super) colours: Colours,
    /// The values of the first and the last colour.
    pub(super) range: [f32; 2],
    /// Width of a value, user units.
    pub(super) spacing: f64,
}

impl Panel<'_> {
    /// Draws the image, each value a square of `factor` px, with the vertical axis up, and its strip.
    fn draw(&self, picture: &mut RgbImage8, left: usize, factor: usize) {
        let [width, height] = self.size.map(|side| side * factor);
        let [low, high] = self.range;
        for (i, (x, y)) in (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).enumerate() {
            let (x, y) = (left + x, y);
            let value = self.values[(height - 1 - i / width) / factor * self.size[0] + i % width / factor];
            let share = (value - low) / (high - low).max(f32::MIN_POSITIVE);
            put(picture, [x, y], self.colours.at(share));
        }
        self.draw_strip(picture, [left as u32, picture.height - STRIP_PX], [width as u32, factor as u32]);
    }

    fn draw_strip(&self, picture: &mut RgbImage8, [left, top]: [u32; 2], [width, factor]: [u32; 2]) {
        let mut line = |text: &str, x: u32, row: u32| {
            let text = caption::fitting(text, 1, width);
            caption::draw_text(picture, [left + x, top + row * ROW_PX + 2], &text, 1, INK);
        };
        line(&self.title, 0, 0);
        let [low, high] = self.range.map(|value| three_digits(f64::from(value)));
        line(&low, 0, 2);
        line(&high, width.saturating_sub(caption::text_size(&high, 1)[0]), 2);
        // A round length of at most a third of the width.
        let units = f64::from(width) / f64::from(factor) * self.spacing;
        let length = round_below(units / 3.0);
        line(&format!("{} units", three_digits(length)), 0, 4);
        let length_px = (length / units * f64::from(width)).round() as usize;
        for (x, y) in (0..length_px).flat_map(|x| [0, 1].map(|y| (x, y))) {
            put(picture, [left as usize + x, (top + 4 * ROW_PX) as usize - 3 + y], INK);
        }
        for (x, y) in (0..width).flat_map(|x| (1..ROW_PX - 1).map(move |y| (x, y))) {
            let colour = self.colours.at(x as f32 / (width - 1).max(1) as f32);
            put(picture, [left + x, top + ROW_PX + y].map(|at| at as usize), colour);
        }
    }
}

/// The largest of 1, 2 and 5 times a power of ten that is not above a positive value.
fn round_below(value: f64) -> f64 {
    if !value.is_normal() {
        return value;
    }
    let mut power = 1.0;
    while power * 10.0 <= value {
        power *= 10.0;
    }
    while power > value {
        power /= 10.0;
    }
    [5.0, 2.0].map(|factor| factor * power).into_iter().find(|round| *round <= value).unwrap_or(power)
}

fn put(picture: &mut RgbImage8, [x, y]: [usize; 2], colour: [u8; 3]) {
    let at = 3 * (y * picture.width as usize + x);
    if let Some(pixel) = picture.data.get_mut(at..at + 3) {
        pixel.copy_from_slice(&colour);
    }
}

/// Encodes panels side by side as PNG.
pub(super) fn encode_panels(panels: &[Panel<'_>]) -> Result<Vec<u8>, Failure> {
    let side = panels.iter().flat_map(|panel| panel.size).max().unwrap_or(1).max(1);
    let factor = MIN_IMAGE_PX.div_ceil(side).max(1);
    let height = panels.iter().map(|panel| panel.size[1] * factor).max().unwrap_or(0) as u32 + STRIP_PX;
    let width =
        panels.iter().map(|panel| panel.size[0] * factor).sum::<usize>() + GAP_PX * (panels.len() - 1);
    let data = vec![255; 3 * width * height as usize];
    let mut picture = RgbImage8 { width: width as u32, height, data };
    let mut left = 0;
    for panel in panels {
        panel.draw(&mut picture, left, factor);
        left += panel.size[0] * factor + GAP_PX;
    }
    png_rgb8(&picture).map_err(|error| Failure::new("write", format!("png: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_below_an_image_has_a_title_the_colours_and_a_length() {
        let values: Vec<f32> = (0..64).map(|v| v as f32).collect();
        let panel = |title: &str, colours| Panel {
            title: title.to_owned(),
            size: [8, 8],
            values: &values,
            colours,
            range: [0.0, 63.0],
            spacing: 0.5,
        };
        let drawn = |panel: &Panel<'_>| {
            gausset_io::image::decode(&encode_panels(std::slice::from_ref(panel)).unwrap()).unwrap()
        };
        let picture = drawn(&panel("field, z = 3", Colours::Grey));
        assert_eq!([picture.width, picture.height], [256, 256 + STRIP_PX]);
        let at = |x: u32, y: u32| picture.rgb[3 * (y * 256 + x) as usize];
        // The colours from black to white, in the second row of the strip.
        assert_eq!([0, 255].map(|x| at(x, 256 + ROW_PX + 5)), [0, 255]);
        let ink = |row: u32| {
            let rows = 256 + row * ROW_PX..256 + (row + 1) * ROW_PX;
            rows.flat_map(|y| (0..256).map(move |x| (x, y))).filter(|&(x, y)| at(x, y) == INK[0]).count()
        };
        assert!([0, 2, 4].iter().all(|row| ink(*row) > 20), "texts");
        // One unit, two values of 32 px.
        assert_eq!(ink(3), 2 * 64);
        let other = drawn(&panel("truth, z = 3", Colours::Grey));
        assert!(other.rgb != picture.rgb);
        let without = Panel { values: &[f32::NAN; 64], ..panel("field", Colours::Error) };
        assert_eq!(drawn(&without).rgb[..3], [128; 3]);
        // A volume of one column has no room for a strip, and is drawn.
        let thin = Panel { size: [1, 64], ..panel("field", Colours::Error) };
        assert_eq!(drawn(&thin).width, 4);
    }

    #[test]
    fn lengths_are_round() {
        assert_eq!([1.0, 1.9, 2.0, 49.0, 0.06].map(round_below), [1.0, 1.0, 2.0, 20.0, 0.05]);
    }
}
