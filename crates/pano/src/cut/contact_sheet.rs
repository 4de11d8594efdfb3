//! A contact sheet: the panorama with the outlines of the views and its mask, and the views below it.

use std::sync::atomic::AtomicBool;

use gausset_compute::Exec;
use gausset_core::{RgbImage8, se3};
use gausset_io::image::Mask;
use gausset_jpeg::colour::rgb_from_ycbcr;
use gausset_jpeg::plane::{ColourModel, Frame};

use crate::cut::cutter::{CutJob, CutTimes, CutView, Cutter, Format, Plan};
use crate::sphere::coverage::ViewCounter;
use crate::sphere::geometry::{View, direction_from_equirect, equirect_from_direction};
use crate::sphere::projection::{Equirect, Projection};

/// Width of the contact sheet, px.
const WIDTH: usize = 1536;
/// Points per edge of an outline.
const EDGE_POINTS: usize = 600;
/// Distance between views, px.
const GAP: usize = 4;

/// Colours of the outlines, used cyclically.
const COLOURS: [[u8; 3]; 6] =
    [[255, 70, 60], [60, 200, 255], [255, 210, 40], [90, 255, 110], [255, 110, 255], [255, 150, 60]];

/// Draws the contact sheet of a completely decoded panorama. Masked pixels are red.
#[must_use]
pub fn contact_sheet(
    frame: &mut Frame,
    equirect: Equirect,
    views: &[View],
    mask: Option<&Mask>,
    exec: Exec<'_>,
    cancel: &AtomicBool,
) -> RgbImage8 {
    let columns = views.len().min(if views.len() > 12 { 6 } else { 4 });
    let side = (WIDTH - GAP * (columns - 1)) / columns;
    let small: Vec<View> = views
        .iter()
        .map(|v| {
            let height = (side as f64 * f64::from(v.height) / f64::from(v.width)).round().clamp(16.0, 4096.0);
            View { width: side as u32, height: height as u32, ..v.clone() }
        })
        .collect();
    let row_height = small.iter().map(|v| v.height as usize).max().unwrap_or(side);
    let top = WIDTH / 2;
    let height = top + views.len().div_ceil(columns) * (row_height + GAP);
    let mut sheet = vec![32u8; 3 * WIDTH * height];
    draw_panorama(frame, &mut sheet, top);
    if let Some(mask) = mask {
        tint_masked(mask, &mut sheet, top);
    }
    darken_unseen(views, equirect, &mut sheet, top);
    for (index, view) in views.iter().enumerate() {
        draw_outline(view, equirect, &mut sheet, top, COLOURS[index % COLOURS.len()]);
    }
    let plan = Plan::new(small, Format::Png, &Projection::Equirect(equirect), frame.shape(), 0.0, exec.pool);
    let mut receive = |cut: CutView<'_>| -> Result<(), ()> {
        let picture = gausset_io::image::decode(cut.encoded).map_err(|_| ())?;
        let (x0, y0) =
            ((cut.index % columns) * (side + GAP), top + GAP + cut.index / columns * (row_height + GAP));
        let colour = COLOURS[cut.index % COLOURS.len()];
        let w = picture.width as usize;
        for (y, row) in picture.rgb.chunks_exact(3 * w).enumerate() {
            let at = 3 * ((y0 + y) * WIDTH + x0);
            if let Some(out) = sheet.get_mut(at..at + 3 * w) {
                out.copy_from_slice(row);
                if y < 3 {
                    out.chunks_exact_mut(3).for_each(|p| p.copy_from_slice(&colour));
                }
            }
        }
        Ok(())
    };
    // Views that fail to render stay grey: this function cannot report errors.
    let segments = |_: &View| Vec::new();
    let job = CutJob { level: exec.level, plan: &plan, frame, mask: None, cancel, segments: &segments };
    let _ = Cutter::default().cut(job, &mut CutTimes::default(), &mut receive);
    RgbImage8 { width: WIDTH as u32, height: height as u32, data: sheet }
}

/// Draws the panorama at the size of the sheet, by nearest samples.
fn draw_panorama(frame: &Frame, sheet: &mut [u8], top: usize) {
    for y in 0..top {
        for x in 0..WIDTH {
            let at = 3 * (y * WIDTH + x);
            sheet[at..at + 3].copy_from_slice(&sample_colour(frame, [x, y], [WIDTH, top]));
        }
    }
}

/// Colour of a pixel of the frame scaled to `width` x `height`, by nearest sample.
fn sample_colour(frame: &Frame, [x, y]: [usize; 2], [width, height]: [usize; 2]) -> [u8; 3] {
    let sample = |plane: usize| {
        let p = &frame.planes[plane];
        p.row((y * p.height / height) as i32)[x * p.width / width]
    };
    match frame.colour {
        ColourModel::Grey => [sample(0); 3],
        ColourModel::YCbCr => rgb_from_ycbcr([sample(0), sample(1), sample(2)]),
    }
}

/// Scales a completely decoded frame down by a whole factor to at most `most_width` columns, averaging pixels.
#[must_use]
pub fn downscaled(frame: &Frame, most_width: u32) -> RgbImage8 {
    let whole = frame.planes.first().map_or([0, 0], |plane| [plane.width, plane.height]);
    let factor = whole[0].div_ceil(most_width.max(1) as usize).max(1);
    let [width, height] = whole.map(|side| side / factor);
    let mut data = Vec::with_capacity(3 * width * height);
    for pixel in 0..width * height {
        let (x, y) = (factor * (pixel % width), factor * (pixel / width));
        let mut sums = [0u32; 3];
        for part in 0..factor * factor {
            let rgb = sample_colour(frame, [x + part % factor, y + part / factor], whole);
            sums.iter_mut().zip(rgb).for_each(|(sum, value)| *sum += u32::from(value));
        }
        let parts = (factor * factor) as u32;
        data.extend(sums.map(|sum| ((sum + parts / 2) / parts) as u8));
    }
    RgbImage8 { width: width as u32, height: height as u32, data }
}

/// Tints masked pixels red.
fn tint_masked(mask: &Mask, sheet: &mut [u8], top: usize) {
    for (pixel, rgb) in sheet.chunks_exact_mut(3).take(WIDTH * top).enumerate() {
        let share = |at: usize, of: usize| (at as f64 + 0.5) / of as f64;
        if mask.at_fraction(share(pixel % WIDTH, WIDTH), share(pixel / WIDTH, top)) == 0 {
            let red = [255u16, 25, 25];
            rgb.iter_mut().zip(red).for_each(|(value, red)| *value = ((u16::from(*value) + red) / 2) as u8);
        }
    }
}

/// Darkens directions that no view sees to a quarter of their brightness.
fn darken_unseen(views: &[View], equirect: Equirect, sheet: &mut [u8], top: usize) {
    let seen = ViewCounter::new(views);
    for y in 0..top {
        for x in 0..WIDTH {
            let share = |at: usize, of: usize| (at as f64 + 0.5) / of as f64;
            let u = equirect.left + share(x, WIDTH) * f64::from(equirect.width);
            let v = equirect.top + share(y, top) * f64::from(equirect.height);
            let d = direction_from_equirect(u, v, equirect.full_width, equirect.full_height);
            if seen.count(d) == 0 {
                let at = 3 * (y * WIDTH + x);
                sheet[at..at + 3].iter_mut().for_each(|value| *value /= 4);
            }
        }
    }
}

/// Draws the outline of a view onto the panorama.
fn draw_outline(view: &View, equirect: Equirect, sheet: &mut [u8], top: usize, colour: [u8; 3]) {
    let (w, h) = (f64::from(view.width), f64::from(view.height));
    let r = view.pano_from_camera();
    for k in 0..4 * EDGE_POINTS {
        let t = (k % EDGE_POINTS) as f64 / EDGE_POINTS as f64;
        let (x, y) = match k / EDGE_POINTS {
            0 => (t * w, 0.0),
            1 => (w, t * h),
            2 => (w - t * w, h),
            _ => (0.0, h - t * h),
        };
        let d = se3::mul_vec(&r, view.ray_in_camera(x, y));
        let [u, v] = equirect_from_direction(d, equirect.full_width, equirect.full_height);
        let (u, v) = (u - equirect.left, v - equirect.top);
        let px = (u / f64::from(equirect.width) * WIDTH as f64) as i64;
        let py = (v / f64::from(equirect.height) * top as f64) as i64;
        for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let (px, py) = ((px + dx).rem_euclid(WIDTH as i64), (py + dy).clamp(0, top as i64 - 1));
            let at = 3 * (py as usize * WIDTH + px as usize);
            sheet[at..at + 3].copy_from_slice(&colour);
        }
    }
}
