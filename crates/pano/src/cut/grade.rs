//! Look and LUT compiled to tables: YCbCr samples → YCbCr samples.
//!
//! ```text
//! row (Cb, Cr)  256 values of Y, Cb, Cr each, computed for the first pixel of that chroma and kept for all frames
//! a pixel       Y' = row.y[Y]           Cb', Cr' = row.cb[Ȳ], row.cr[Ȳ]    Ȳ = mean of the luma that shares the chroma
//! ```
//! There is no interpolation beyond that of [`ColourSettings`] and [`Lut`], and a pixel costs one load from a table of which
//! little is in use, because images have few chromas. The tables add the difference that grading makes in R'G'B', so
//! neutral settings leave every byte unchanged, also where YCbCr is outside R'G'B'.

use std::sync::OnceLock;

use gausset_jpeg::plane::{ColourModel, Frame};

use crate::cut::look::{ColourSettings, linear_from_srgb, luminance, srgb_from_linear};
use crate::cut::lut::Lut;

/// Maximum size of a grade, bytes: its list of rows, and the rows of all chromas inside R'G'B' (two in five).
pub const MAX_BYTES: u64 = 65_536 * 16 + 28_000 * 784;
/// Maximum size of a grade for one frame without LUT, bytes: it has one chroma of 4x4.
pub const MAX_FRAME_BYTES: u64 = 65_536 * 16 + 28_000 / 16 * 784;

/// Encoded value above which the gains of lenses and frames fade to 1.
const CLIPPING_START: f32 = 0.94;

/// Colour processing of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Colouring {
    /// The settings.
    pub look: ColourSettings,
    /// Look-up table, applied after the settings.
    pub lut: Option<Lut>,
}

impl Colouring {
    /// Whether colours are unchanged.
    #[must_use]
    pub fn is_neutral(&self) -> bool {
        self.look.is_neutral() && self.lut.is_none()
    }

    /// Text for manifests and hashes: the settings, and the fingerprint of the table.
    #[must_use]
    pub fn text(&self) -> String {
        let lut = self.lut.as_ref().map(|lut| format!("lut={}", lut.fingerprint()));
        let look = Some(self.look.text()).filter(|text| !text.is_empty());
        look.into_iter().chain(lut).collect::<Vec<_>>().join(",")
    }
}

/// Output samples for all luma values at one chroma.
#[derive(Clone, Debug)]
struct ChromaRow {
    y: [u8; 256],
    cb: [u8; 256],
    cr: [u8; 256],
}

/// A compiled colouring with gains of red, green and blue.
#[derive(Debug)]
pub struct Grade {
    colouring: Colouring,
    /// Gains of the settings.
    setting_gains: [f32; 3],
    /// Gains that equalise lenses or frames.
    gains: [f32; 3],
    curves: ToneTables,
    rows: Vec<OnceLock<Box<ChromaRow>>>,
    /// Spacing of the luma values that are computed; those between are interpolated linearly.
    luma_step: u8,
}

impl Grade {
    /// [`Self::new`] for a single frame: without LUT only every fourth luma value is computed, which is a quarter of
    /// the work. The error is at most one level, or two where a channel clips.
    #[must_use]
    pub fn for_frame(colouring: &Colouring, gains: [f64; 3]) -> Self {
        let step = if colouring.lut.is_none() { 4 } else { 1 };
        Self { luma_step: step, ..Self::new(colouring.clone(), gains) }
    }

    /// Compiles a colouring; `gains` are factors of linear light, such as those of an equaliser.
    #[must_use]
    pub fn new(colouring: Colouring, gains: [f64; 3]) -> Self {
        let (own, gains) = (colouring.look.gains().map(|v| v as f32), gains.map(|v| v as f32));
        let curves = ToneTables::new(&colouring.look);
        let mut rows = Vec::new();
        rows.resize_with(1 << 16, OnceLock::new);
        Self { colouring, setting_gains: own, gains, curves, rows, luma_step: 1 }
    }

    /// Grades an encoded colour, without rounding.
    #[must_use]
    pub fn rgb(&self, encoded: [f32; 3]) -> [f32; 3] {
        let Colouring { look, lut } = &self.colouring;
        let mut rgb = encoded;
        // Neutral settings leave encoded values bit-identical.
        if self.gains != [1.0; 3] || !look.is_neutral() {
            // Clipped pixels have lost their colour: a gain below 1 would turn them grey.
            let brightest = encoded[0].max(encoded[1]).max(encoded[2]);
            let t = ((brightest - CLIPPING_START) / (1.0 - CLIPPING_START)).clamp(0.0, 1.0);
            let kept = 1.0 - t * t * (3.0 - 2.0 * t);
            let linear = [0, 1, 2].map(|c| {
                self.curves.linear(encoded[c]) * self.setting_gains[c] * (1.0 + (self.gains[c] - 1.0) * kept)
            });
            let mut toned = self.curves.toned(linear);
            if look.has_finish() {
                toned = look.apply_finish(toned.map(f64::from)).map(|v| v as f32);
            }
            rgb = toned.map(|v| self.curves.encoded(v));
        }
        match lut {
            Some(lut) => lut.apply(rgb),
            None => rgb,
        }
    }

    fn row(&self, cb: u8, cr: u8) -> &ChromaRow {
        self.rows[usize::from(cb) << 8 | usize::from(cr)].get_or_init(|| Box::new(self.compute_row(cb, cr)))
    }

    fn compute_row(&self, cb: u8, cr: u8) -> ChromaRow {
        let mut row = ChromaRow { y: [0; 256], cb: [0; 256], cr: [0; 256] };
        let (b, r) = (f32::from(cb) - 128.0, f32::from(cr) - 128.0);
        let change_at = |y: u8| {
            let luma = f32::from(y);
            // Full-range BT.601 (JFIF).
            let rgb = [luma + 1.402 * r, luma - 0.344_136 * b - 0.714_136 * r, luma + 1.772 * b];
            let before = rgb.map(|v| (v / 255.0).clamp(0.0, 1.0));
            let after = self.rgb(before).map(|v| v.clamp(0.0, 1.0));
            [0, 1, 2].map(|c| 255.0 * (after[c] - before[c]))
        };
        let mut ends = [[0.0; 3], change_at(0)];
        for y in 0..=255u8 {
            let part = y % self.luma_step;
            if part == 0 {
                ends = [ends[1], change_at(y.saturating_add(self.luma_step))];
            }
            let share = f32::from(part) / f32::from(self.luma_step);
            let change = [0, 1, 2].map(|c| ends[0][c] + (ends[1][c] - ends[0][c]) * share);
            let dy = 0.299 * change[0] + 0.587 * change[1] + 0.114 * change[2];
            let add = |sample: u8, change: f32| (f32::from(sample) + change + 0.5).clamp(0.0, 255.0) as u8;
            row.y[usize::from(y)] = add(y, dy);
            row.cb[usize::from(y)] = add(cb, (change[2] - dy) / 1.772);
            row.cr[usize::from(y)] = add(cr, (change[0] - dy) / 1.402);
        }
        row
    }

    /// Grades all stored rows of a frame.
    pub fn apply(&self, frame: &mut Frame) {
        let Some(luma) = frame.planes.first() else { return };
        let all = [0, luma.width, 0, luma.height];
        self.apply_to(frame, all);
    }

    /// Grades a part of a frame: first column, end column, first row, end row, in pixels of plane 0.
    pub fn apply_to(&self, frame: &mut Frame, [left, right, top, bottom]: [usize; 4]) {
        match (frame.colour, frame.planes.as_mut_slice()) {
            (ColourModel::YCbCr, [luma, cb, cr]) => {
                let mut rows: Vec<&ChromaRow> = Vec::new();
                let mut sums: Vec<[u32; 2]> = Vec::new();
                let steps = [luma.width.div_ceil(cb.width.max(1)), luma.height.div_ceil(cb.height.max(1))];
                let columns = left.div_ceil(steps[0])..right.div_ceil(steps[0]).min(cb.width);
                let chroma_rows = top.div_ceil(steps[1])..bottom.div_ceil(steps[1]).min(cb.height);
                let (stored, luma_stored) = (cb.image_rows(), luma.image_rows());
                for y in chroma_rows {
                    // Luma stored beyond the stored chroma, at most one row, uses the nearest chroma row.
                    let lines =
                        (y * steps[1]).max(luma_stored.start)..((y + 1) * steps[1]).min(luma_stored.end);
                    if stored.is_empty() || (lines.is_empty() && !stored.contains(&y)) {
                        continue;
                    }
                    let from = y.clamp(stored.start, stored.end - 1) as i32;
                    rows.clear();
                    let (blue, red) = (&cb.row(from)[columns.clone()], &cr.row(from)[columns.clone()]);
                    rows.extend(blue.iter().zip(red).map(|(&b, &r)| self.row(b, r)));
                    sums.clear();
                    sums.resize(rows.len(), [0, 0]);
                    for line in lines {
                        let pixels = &mut luma.row_mut(line as i32)[columns.start * steps[0]..];
                        for ((block, row), sum) in pixels.chunks_mut(steps[0]).zip(&rows).zip(&mut sums) {
                            for pixel in block {
                                sum[0] += u32::from(*pixel);
                                sum[1] += 1;
                                *pixel = row.y[usize::from(*pixel)];
                            }
                        }
                    }
                    if !stored.contains(&y) {
                        continue;
                    }
                    let (blue, red) = (
                        &mut cb.row_mut(y as i32)[columns.clone()],
                        &mut cr.row_mut(y as i32)[columns.clone()],
                    );
                    for (((blue, red), row), &[sum, count]) in blue.iter_mut().zip(red).zip(&rows).zip(&sums)
                    {
                        let mean = (sum + count / 2).checked_div(count).unwrap_or(128) as usize;
                        (*blue, *red) = (row.cb[mean], row.cr[mean]);
                    }
                }
            }
            (_, [luma, ..]) => {
                // Grey stays grey.
                let row = self.row(128, 128);
                let rows = luma.image_rows();
                for y in rows.start.max(top)..rows.end.min(bottom) {
                    let pixels = &mut luma.row_mut(y as i32)[left..right];
                    pixels.iter_mut().for_each(|pixel| *pixel = row.y[usize::from(*pixel)]);
                }
            }
            _ => {}
        }
    }
}

/// Extends the rows of a plan to those that must be decoded for grading: luma together with the chroma that it shares.
#[must_use]
pub fn rows_with_chroma(rows: &[[i32; 2]], sizes: &[[u32; 2]]) -> Vec<[i32; 2]> {
    let (Some(&luma), Some(&[_, height])) = (rows.first(), sizes.first()) else { return rows.to_vec() };
    let mut all = rows.to_vec();
    for (own, size) in all.iter_mut().zip(sizes).skip(1) {
        let step = height.div_ceil(size[1].max(1)) as i32;
        *own = [own[0].min(luma[0].div_euclid(step)), own[1].max(luma[1].div_euclid(step))];
    }
    let lowest = all.iter().skip(1).zip(sizes.iter().skip(1));
    for (own, size) in lowest.map(|(own, size)| (*own, *size)).collect::<Vec<_>>() {
        let step = height.div_ceil(size[1].max(1)) as i32;
        all[0] = [all[0][0].min(own[0] * step), all[0][1].max((own[1] + 1) * step - 1)];
    }
    all
}

/// Tabulated functions with linear interpolation: within 1/50 level of f64.
#[derive(Debug)]
struct ToneTables {
    /// Linear light of encoded values 0 to 1.
    linear: Vec<f32>,
    /// Encoded values of linear light 0 to 1.
    encoded: Vec<f32>,
    /// Factor of the tone curve by log2 L from [`TONE_START_LOG2`] on; empty if the tone is neutral.
    tone: Vec<f32>,
}

/// Intervals of the encoding curves.
const CURVE_INTERVALS: usize = 4096;
/// log2 of the darkest luminance of the tone curve, and its intervals per stop.
const TONE_START_LOG2: f32 = -20.0;
const TONE_INTERVALS_PER_STOP: f32 = 64.0;
/// Range of the tone curve, stops.
const TONE_STOPS: usize = 28;

impl ToneTables {
    fn new(look: &ColourSettings) -> Self {
        let curve = |f: fn(f64) -> f64| {
            (0..=CURVE_INTERVALS + 1)
                .map(|k| f(k as f64 / CURVE_INTERVALS as f64) as f32)
                .collect::<Vec<f32>>()
        };
        let points = if look.has_tone() { TONE_STOPS * TONE_INTERVALS_PER_STOP as usize + 2 } else { 0 };
        let tone = (0..points).map(|k| {
            let log = f64::from(TONE_START_LOG2) + k as f64 / f64::from(TONE_INTERVALS_PER_STOP);
            libm::exp2(look.tone_curve(log) - log) as f32
        });
        Self { linear: curve(linear_from_srgb), encoded: curve(srgb_from_linear), tone: tone.collect() }
    }

    fn linear(&self, v: f32) -> f32 {
        interpolate(&self.linear, v.clamp(0.0, 1.0) * CURVE_INTERVALS as f32)
    }

    fn encoded(&self, v: f32) -> f32 {
        interpolate(&self.encoded, v.clamp(0.0, 1.0) * CURVE_INTERVALS as f32)
    }

    fn toned(&self, rgb: [f32; 3]) -> [f32; 3] {
        if self.tone.is_empty() {
            return rgb;
        }
        let luminance = luminance(rgb.map(f64::from)) as f32;
        let at = (libm::log2f(luminance.max(1e-9)) - TONE_START_LOG2) * TONE_INTERVALS_PER_STOP;
        let factor = interpolate(&self.tone, at.clamp(0.0, (self.tone.len() - 2) as f32));
        rgb.map(|v| v * factor)
    }
}

/// Interpolates a table linearly.
fn interpolate(table: &[f32], at: f32) -> f32 {
    let whole = at as usize;
    let rest = at - whole as f32;
    match table.get(whole..whole + 2) {
        Some(two) => two[0] + (two[1] - two[0]) * rest,
        None => table.last().copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_jpeg::plane::Plane;

    fn colouring(text: &str) -> Colouring {
        Colouring {
            look: if text.is_empty() {
                ColourSettings::default()
            } else {
                ColourSettings::parse(text).unwrap()
            },
            lut: None,
        }
    }

    fn noise(seed: &mut u32) -> u8 {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*seed >> 24) as u8
    }

    fn frame(sizes: [[usize; 2]; 3]) -> Frame {
        let mut seed = 7;
        let planes = sizes
            .iter()
            .map(|&[w, h]| {
                let mut plane = Plane::default();
                plane.reshape(w, h, [-1, h as i32]);
                for y in 0..h {
                    plane.row_mut(y as i32).iter_mut().for_each(|v| *v = noise(&mut seed));
                }
                plane
            })
            .collect();
        Frame { colour: ColourModel::YCbCr, planes, alpha: None }
    }

    fn pixels(frame: &Frame) -> Vec<Vec<u8>> {
        let rows = |p: &Plane| (0..p.height).flat_map(|y| p.row(y as i32).to_vec()).collect();
        frame.planes.iter().map(rows).collect()
    }

    #[test]
    fn neutral_settings_and_a_neutral_lut_leave_every_byte() {
        // All YCbCr values, also those outside R'G'B'.
        let size = 33;
        let mut text = format!("LUT_3D_SIZE {size}\n");
        for k in 0..size * size * size {
            let at = |v: usize| v as f64 / 32.0;
            text += &format!("{:.6} {:.6} {:.6}\n", at(k % size), at(k / size % size), at(k / size / size));
        }
        let lut = Some(Lut::parse(text.as_bytes()).unwrap());
        for neutral in [Colouring::default(), Colouring { look: ColourSettings::default(), lut }] {
            let grade = Grade::new(neutral, [1.0; 3]);
            for sizes in [[[64, 32]; 3], [[64, 32], [32, 16], [32, 16]], [[63, 31], [32, 16], [32, 16]]] {
                let before = frame(sizes);
                let mut after = before.clone();
                grade.apply(&mut after);
                assert!(pixels(&before) == pixels(&after));
            }
        }
    }

    #[test]
    fn the_table_is_the_definition_within_a_rounding() {
        for text in [
            "exposure=0.7,warmth=30,tint=-20",
            "brightness=40,contrast=30,highlights=-60,shadows=50",
            "black=20,saturation=25,vibrance=-40",
            "exposure=-1.5,contrast=-40,black=-30,saturation=-60",
        ] {
            let colouring = colouring(text);
            let look = colouring.look;
            let grade = Grade::new(colouring, [1.0; 3]);
            let mut seed = 3;
            for _ in 0..3000 {
                let rgb = [0; 3].map(|_: u8| noise(&mut seed)).map(|v| f64::from(v) / 255.0);
                let linear = rgb.map(linear_from_srgb);
                let wanted = look.apply(linear).map(|v| srgb_from_linear(v.clamp(0.0, 1.0)));
                let found = grade.rgb(rgb.map(|v| v as f32));
                for (w, f) in wanted.iter().zip(found) {
                    assert!((w - f64::from(f)).abs() * 255.0 < 0.05, "{text} {rgb:?}: {wanted:?} {found:?}");
                }
            }
        }
    }

    #[test]
    fn gains_leave_what_is_burnt_out_white() {
        let grade = Grade::new(Colouring::default(), [0.5, 0.7, 0.9]);
        assert!(grade.rgb([1.0; 3]).iter().all(|v| (v - 1.0).abs() < 1e-6));
        let found = grade.rgb([0.5, 0.5, 0.5]).map(f64::from);
        for (found, gain) in found.iter().zip([0.5, 0.7, 0.9]) {
            assert!((found - srgb_from_linear(linear_from_srgb(0.5) * gain)).abs() < 1e-4);
        }
        // Brighter stays brighter.
        let values: Vec<f32> = (0..256u16).map(|v| grade.rgb([f32::from(v) / 255.0; 3])[0]).collect();
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn the_quick_table_of_a_frame_is_that_of_all_values_within_a_rounding() {
        let all = Grade::new(colouring(""), [1.8, 1.7, 1.9]);
        let quick = Grade::for_frame(&colouring(""), [1.8, 1.7, 1.9]);
        let (mut worst, mut other) = (0, 0);
        for (cb, cr) in [(128, 128), (100, 140), (150, 90), (90, 170)] {
            let (a, b) = (all.compute_row(cb, cr), quick.compute_row(cb, cr));
            for (a, b) in [(a.y, b.y), (a.cb, b.cb), (a.cr, b.cr)] {
                for (a, b) in a.iter().zip(b) {
                    worst = worst.max(a.abs_diff(b));
                    other += usize::from(*a != b);
                }
            }
        }
        // Two levels where a channel clips between two computed values.
        assert!(worst <= 2 && other < 256, "{worst} {other}");
    }

    #[test]
    fn parts_of_a_frame_are_graded_as_the_whole_is() {
        let grade = Grade::new(colouring("exposure=0.5,saturation=30"), [1.0; 3]);
        let mut whole = frame([[64, 32], [32, 16], [32, 16]]);
        let mut parts = whole.clone();
        grade.apply(&mut whole);
        for part in [[0, 32, 0, 16], [32, 64, 0, 16], [0, 64, 16, 32]] {
            grade.apply_to(&mut parts, part);
        }
        assert!(pixels(&whole) == pixels(&parts));
    }

    #[test]
    fn luma_and_chroma_that_share_pixels_are_decoded_together() {
        let rows = rows_with_chroma(&[[100, 301], [51, 149], [51, 149]], &[[64, 400], [32, 200], [32, 200]]);
        assert_eq!(rows, [[100, 301], [50, 150], [50, 150]]);
        let whole = rows_with_chroma(&[[-1, 400], [-1, 200], [-1, 200]], &[[64, 400], [32, 200], [32, 200]]);
        assert!(whole[0][0] <= -1 && whole[1][0] <= -1);
    }
}
