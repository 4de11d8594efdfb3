//! Contact sheet of a selection. At the top the video from left to right: accumulated parallax as a curve, and the
//! reason of each frame as a colour. Below, the kept frames.

use gausset_core::RgbImage8;

use super::{FrameReason, Selection};

/// Width of the sheet, px.
const WIDTH: usize = 1536;
/// Width of a thumbnail, px.
pub const THUMBNAIL_WIDTH: usize = 252;
const COLUMNS: usize = 6;
const GAP: usize = 4;
/// Heights of the parallax curve and of the row of reasons, px.
const CURVE_HEIGHT: usize = 96;
const REASONS_HEIGHT: usize = 24;

/// Maximum number of thumbnails.
#[must_use]
pub fn max_thumbnails() -> usize {
    20 * COLUMNS
}

fn colour(kept: bool, reason: FrameReason) -> [u8; 3] {
    match (kept, reason) {
        (true, _) => [90, 230, 110],
        (_, FrameReason::Blurred) => [235, 70, 60],
        (_, FrameReason::Duplicate) => [255, 210, 40],
        (_, FrameReason::Standing) => [60, 120, 220],
        (_, FrameReason::Turning) => [60, 200, 240],
        _ => [80, 80, 80],
    }
}

/// Draws the sheet. `pictures` are thumbnails of kept frames, all of one size and [`THUMBNAIL_WIDTH`] px wide.
#[must_use]
pub fn contact_sheet(selection: &Selection, pictures: &[RgbImage8]) -> RgbImage8 {
    let row = pictures.iter().map(|p| p.height as usize).max().unwrap_or(0) + GAP;
    let top = CURVE_HEIGHT + REASONS_HEIGHT + 2 * GAP;
    let height = top + pictures.len().div_ceil(COLUMNS) * row;
    let mut sheet = RgbImage8::new(WIDTH as u32, height as u32);
    sheet.data.fill(32);
    draw_timeline(selection, &mut sheet.data);
    for (index, picture) in pictures.iter().enumerate() {
        let (x0, y0) = ((index % COLUMNS) * (THUMBNAIL_WIDTH + GAP), top + index / COLUMNS * row);
        let w = 3 * picture.width as usize;
        for (y, line) in picture.data.chunks_exact(w.max(1)).enumerate() {
            let at = 3 * ((y0 + y) * WIDTH + x0);
            if let Some(out) = sheet.data.get_mut(at..at + w) {
                out.copy_from_slice(line);
            }
        }
    }
    sheet
}

/// Draws the parallax curve and the row of reasons. Where several frames share a column, a kept one is shown.
fn draw_timeline(selection: &Selection, sheet: &mut [u8]) {
    let lines = &selection.lines;
    let longest = lines.iter().map(|line| line.path).fold(1e-9, f64::max);
    let mut put = |x: usize, y: usize, colour: [u8; 3]| {
        let at = 3 * (y * WIDTH + x);
        if let Some(out) = sheet.get_mut(at..at + 3) {
            out.copy_from_slice(&colour);
        }
    };
    for x in 0..WIDTH {
        let first = x * lines.len() / WIDTH;
        let last = ((x + 1) * lines.len() / WIDTH).max(first + 1).min(lines.len());
        let Some(shown) = lines.get(first..last) else { continue };
        let Some(line) = shown.iter().find(|line| line.kept).or(shown.first()) else { continue };
        let colour = colour(line.kept, line.reason);
        let from =
            CURVE_HEIGHT - 1 - ((CURVE_HEIGHT - 1) as f64 * (line.path / longest).clamp(0.0, 1.0)) as usize;
        for y in from..CURVE_HEIGHT {
            put(x, y, if y < from + 2 { [230, 230, 230] } else { colour.map(|v| v / 3) });
        }
        for y in CURVE_HEIGHT + GAP..CURVE_HEIGHT + GAP + REASONS_HEIGHT {
            put(x, y, colour);
        }
    }
}
