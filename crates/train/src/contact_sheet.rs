//! Images of an evaluation: `truth | render | error` per view, and a contact sheet of several views. If the colours of
//! a render are off, the colour-corrected render is added as a fourth image.

use std::io::{self, Write};
use std::path::Path;

use gausset_core::RgbImage8;
use gausset_io::atomic::{FileSystem, WriteError, write_atomic};
use gausset_io::image::encode::png_rgb8;
use gausset_io::image::{DecodedImage, area_filter, caption};
use gausset_io::output_names;
use gausset_metrics::quality::RenderComparison;

/// Mean absolute difference of a pixel's channels that is drawn white.
const WHITE_ERROR: f32 = 0.25;

/// Minimum gain in dB for which the colour-corrected render is shown.
pub const MIN_SHOWN_GAIN: f64 = 0.5;

/// Maximum width of each image of a view on a contact sheet, in px.
const PANEL_WIDTH: u32 = 320;
/// Maximum number of images per view.
const MAX_PANELS: u32 = 4;
/// Maximum number of views on a contact sheet; of more views, evenly chosen ones.
pub(crate) const MAX_SHEET_VIEWS: usize = 24;
/// Space between views in px.
const GAP: u32 = 4;
/// Grey value of the gap.
const GAP_COLOUR: u8 = 255;
/// Height of the captions above a view, px.
const CAPTION_HEIGHT: u32 = 24;
/// Width of a pixel of the captions' font, px.
const CAPTION_SCALE: u32 = 2;
/// Colour of the captions: 14:1 on the gap.
const CAPTION_COLOUR: [u8; 3] = [32, 36, 44];

/// Ground truth, render and error side by side, and optionally the colour-corrected render.
///
/// The error is the mean absolute difference over the channels, white from a quarter on; invalid pixels are black.
#[must_use]
pub fn panels(comparison: &RenderComparison<'_>, corrected: bool) -> RgbImage8 {
    let RenderComparison { target, render, truth, .. } = comparison;
    let pixels = render.chunks_exact(3).zip(truth.chunks_exact(3));
    let error: Vec<f32> = pixels
        .enumerate()
        .flat_map(|(i, (x, y))| {
            let counts = target.mask.as_ref().is_none_or(|mask| mask.get(i).is_some_and(|&m| m != 0));
            let difference: f32 = x.iter().zip(y).map(|(x, y)| (x - y).abs()).sum();
            let level = if counts { difference / (3.0 * WHITE_ERROR) } else { 0.0 };
            [level; 3]
        })
        .collect();
    let mut pictures = vec![truth, render, &error];
    if corrected {
        pictures.push(&comparison.corrected);
    }
    let to_bytes = |rgb: &Vec<f32>| RgbImage8::from_f32(target.width, target.height, rgb);
    concatenate(&pictures.into_iter().map(to_bytes).collect::<Vec<_>>())
}

/// Places images of one size side by side, with a gap between them.
fn concatenate(pictures: &[RgbImage8]) -> RgbImage8 {
    let height = pictures.first().map_or(0, |p| p.height);
    let gaps = GAP * (pictures.len() as u32).saturating_sub(1);
    let width = pictures.iter().map(|p| p.width).sum::<u32>() + gaps;
    let mut data = Vec::with_capacity(width as usize * height as usize * 3);
    for y in 0..height as usize {
        for (i, picture) in pictures.iter().enumerate() {
            if i > 0 {
                data.extend(std::iter::repeat_n(GAP_COLOUR, GAP as usize * 3));
            }
            let row = picture.width as usize * 3;
            data.extend_from_slice(&picture.data[y * row..(y + 1) * row]);
        }
    }
    RgbImage8 { width, height, data }
}

/// An image downsampled to at most `width`, with its aspect ratio.
fn downsample_to_width(picture: &RgbImage8, width: u32) -> RgbImage8 {
    if picture.width <= width {
        return picture.clone();
    }
    let height = (u64::from(picture.height) * u64::from(width) / u64::from(picture.width)).max(1) as u32;
    let (source_width, source_height) = (picture.width, picture.height);
    let source =
        DecodedImage { width: source_width, height: source_height, rgb: picture.data.clone(), alpha: None };
    RgbImage8 { width, height, data: area_filter::downscale(source, width, height).rgb }
}

/// Bytes of a view on a contact sheet: four images of this size side by side, downsampled.
pub(crate) fn view_bytes(width: u32, height: u32) -> u64 {
    let (width, height) = (u64::from(MAX_PANELS * width + (MAX_PANELS - 1) * GAP), u64::from(height));
    let narrowed = width.min(u64::from(MAX_PANELS * PANEL_WIDTH));
    3 * narrowed * (height * narrowed / width.max(1) + 1 + u64::from(CAPTION_HEIGHT))
}

/// What the images of a view show, from left to right: the name of the view and its scores. `psnr` is infinite for equal
/// images and `None` without valid pixels.
#[must_use]
pub fn captions(name: &str, psnr: Option<f64>, corrected_psnr: Option<f64>) -> Vec<String> {
    let score = match psnr {
        Some(psnr) if psnr.is_finite() => format!("{psnr:.2} dB"),
        Some(_) => "equal".to_owned(),
        None => "not scored".to_owned(),
    };
    let mut captions =
        vec![format!("photo {name}"), format!("render {score}"), format!("error, white = {WHITE_ERROR}")];
    captions.extend(corrected_psnr.map(|psnr| format!("colour fit {psnr:.2} dB")));
    captions
}

/// A view with a caption above each of its images.
fn with_captions(view: RgbImage8, captions: &[String]) -> RgbImage8 {
    let row = view.width as usize * 3;
    let mut data = vec![GAP_COLOUR; row * CAPTION_HEIGHT as usize];
    data.extend(view.data);
    let mut view = RgbImage8 { width: view.width, height: view.height + CAPTION_HEIGHT, data };
    let each = view.width / (captions.len() as u32).max(1);
    // A name may lose its start; scores are shown whole.
    let are_fitting = captions.iter().skip(1).all(|text| caption::text_size(text, CAPTION_SCALE)[0] <= each);
    let scale = if are_fitting { CAPTION_SCALE } else { 1 };
    for (k, text) in captions.iter().enumerate() {
        let text = caption::fitting(text, scale, each);
        caption::draw_text(&mut view, [k as u32 * each, GAP], &text, scale, CAPTION_COLOUR);
    }
    view
}

/// A contact sheet: views one below the other.
#[derive(Debug)]
pub struct ContactSheet {
    /// Every n-th view is shown.
    stride: usize,
    views: Vec<RgbImage8>,
}

impl ContactSheet {
    /// A sheet for `views` views.
    #[must_use]
    pub fn new(views: usize) -> Self {
        Self { stride: views.div_ceil(MAX_SHEET_VIEWS).max(1), views: Vec::new() }
    }

    /// Adds the view at a position, which consists of an image for each caption, side by side, if the sheet shows that
    /// position.
    pub fn add(&mut self, position: usize, view: &RgbImage8, captions: &[String]) {
        if position.is_multiple_of(self.stride) {
            let small = downsample_to_width(view, captions.len() as u32 * PANEL_WIDTH);
            self.views.push(with_captions(small, captions));
        }
    }

    /// The contact sheet; `None` if it is empty.
    #[must_use]
    pub fn image(&self) -> Option<RgbImage8> {
        let width = self.views.iter().map(|v| v.width).max()?;
        let mut data = Vec::new();
        for (i, view) in self.views.iter().enumerate() {
            if i > 0 {
                data.extend(std::iter::repeat_n(GAP_COLOUR, GAP as usize * width as usize * 3));
            }
            for row in view.data.chunks_exact(view.width as usize * 3) {
                data.extend_from_slice(row);
                data.extend(std::iter::repeat_n(GAP_COLOUR, (width - view.width) as usize * 3));
            }
        }
        let height = (data.len() / (width as usize * 3)) as u32;
        Some(RgbImage8 { width, height, data })
    }
}

/// File name of a view's image: its position and its own name, shortened and restricted to characters that any file
/// system accepts.
#[must_use]
pub fn file_name(position: usize, name: &str) -> String {
    format!("{position:04}_{}.png", output_names::flat_name(name))
}

/// Writes an image as PNG.
///
/// # Errors
/// The write failed.
pub fn save_png(fs: &dyn FileSystem, path: &Path, picture: &RgbImage8) -> Result<(), WriteError> {
    write_atomic(fs, path, |file| file.write_all(&png_rgb8(picture).map_err(io::Error::other)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_core::TargetImage;

    #[test]
    fn the_panels_show_truth_render_and_where_they_differ() {
        let target =
            TargetImage { width: 2, height: 1, rgb: vec![255; 6], alpha: None, mask: Some(vec![1, 0]) };
        // Off by an eighth, which is half of the white level; and a masked pixel.
        let render = [0.875, 0.875, 0.875, 0.0, 0.0, 0.0];
        let comparison = RenderComparison::new((2, 1), &render, &target, [0.0; 3]).unwrap();
        let view = panels(&comparison, false);
        assert_eq!((view.width, view.height), (2 + 4 + 2 + 4 + 2, 1));
        let pixel = |x: usize| view.data[3 * x];
        assert_eq!((pixel(0), pixel(1)), (255, 255));
        assert_eq!((pixel(6), pixel(7)), (223, 0));
        assert_eq!((pixel(12), pixel(13)), (128, 0));
        // The fourth image is the render with the colours of the ground truth.
        let with_fourth = panels(&comparison, true);
        assert_eq!(with_fourth.width, 2 + 3 * (4 + 2));
        assert_eq!(with_fourth.data[3 * 18], 255);
    }

    #[test]
    fn a_contact_sheet_of_many_or_large_views_stays_small() {
        let mut sheet = ContactSheet::new(100);
        for position in 0..100 {
            sheet.add(position, &RgbImage8::new(2000, 100), &captions("a.png", Some(20.0), None));
        }
        let picture = sheet.image().unwrap();
        // Every fifth view, 960 x 48 px, and its captions.
        assert_eq!((picture.width, picture.height), (960, 20 * (48 + 24) + 19 * 4));
        assert_eq!(picture.data.len(), 960 * (20 * (48 + 24) + 19 * 4) * 3);
        assert!(picture.data.len() as u64 <= 20 * view_bytes(700, 100), "as much as is planned");
        assert!(ContactSheet::new(0).image().is_none());
    }

    #[test]
    fn a_contact_sheet_says_which_view_which_image_and_how_many_decibels() {
        let text = captions("street/0001.jpg", Some(23.456), Some(25.0));
        assert_eq!(
            text,
            ["photo street/0001.jpg", "render 23.46 dB", "error, white = 0.25", "colour fit 25.00 dB"]
        );
        assert_eq!(captions("a", Some(f64::INFINITY), None)[1], "render equal");
        assert_eq!(captions("a", None, None)[1], "render not scored");
        let sheet_of = |text: &[String]| {
            let mut sheet = ContactSheet::new(1);
            sheet.add(0, &RgbImage8::new(1280, 10), text);
            sheet.image().unwrap()
        };
        let (sheet, other) =
            (sheet_of(&text), sheet_of(&captions("street/0002.jpg", Some(23.456), Some(25.0))));
        // Dark on white, above each image.
        for column in 0..4 {
            let dark = |image: &RgbImage8| {
                (0..24 * 320)
                    .filter(|i| image.data[3 * ((i / 320) * 1280 + 320 * column + i % 320)] < 64)
                    .count()
            };
            assert!((100..3000).contains(&dark(&sheet)), "column {column}: {}", dark(&sheet));
            let is_same = (0..24).all(|y| {
                let row = 3 * (y * 1280 + 320 * column)..3 * (y * 1280 + 320 * column + 320);
                sheet.data[row.clone()] == other.data[row]
            });
            assert_eq!(is_same, column > 0, "the name is above the photograph");
        }
    }

    #[test]
    fn views_of_different_sizes_share_a_sheet() {
        let mut sheet = ContactSheet::new(2);
        let captions = captions("a.png", None, None);
        sheet.add(0, &RgbImage8::new(10, 2), &captions);
        sheet.add(1, &RgbImage8::new(6, 3), &captions);
        let picture = sheet.image().unwrap();
        assert_eq!((picture.width, picture.height), (10, 24 + 2 + 4 + 24 + 3));
        assert_eq!(picture.data.len(), 10 * 57 * 3);
    }

    #[test]
    fn hostile_names_become_plain_file_names() {
        assert_eq!(file_name(3, "a/b c.jpg"), "0003_a_b_c.png");
        assert_eq!(file_name(0, "../../etc/passwd"), "0000_etc_passwd.png");
        let long = file_name(1, &"é".repeat(4000));
        assert!(long.is_ascii() && long.len() < 80);
    }
}
