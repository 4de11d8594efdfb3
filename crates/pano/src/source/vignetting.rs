//! Divides the fall-off of two fisheye lenses out of a frame.
//!
//! ```text
//! light      L' = g L,  g = 2^(c1 ρ² + c2 ρ⁴ + c3 ρ⁶)               per channel, ρ = distance from the centre/radius
//! encoded    v' = s v + 14.025 (s - 1),  s = g^(1/2.4)              v in levels, 0 to 255 (IEC 61966-2-1)
//! ```
//! The second line follows from the first and the power law `L = ((v/255 + 0.055)/1.055)^2.4`. Near black, where the
//! encoding is linear, `v'` is tabulated by `g v`. As in `cut/grade.rs`, the difference in R'G'B' is added to the
//! samples, and pixels that share a chroma sample share a gain.

use gausset_jpeg::plane::{ColourModel, Frame};

use crate::sphere::fisheye::{DualFisheye, Lens, MAX_VIGNETTING_STOPS, fall_off};
use crate::sphere::projection::Projection;

/// Steps of ρ² from 0 to 1 at which gains are tabulated: neighbours differ by less than a tenth of a level.
const STEPS: usize = 4096;
/// ρ² beyond which nothing is sampled: 5 % outside of the circle.
const MAX_SQUARE_RADII: f64 = 1.1;
/// Exponent of the encoding, its offset in levels, and the end of its linear part.
const GAMMA: f64 = 2.4;
const OFFSET_LEVELS: f32 = 0.055 * 255.0;
const LINEAR_LEVELS: f32 = 0.040_45 * 255.0;
/// Length of the table near black: the linear part with the largest gain.
const DARK_STEPS: usize = 11 << MAX_VIGNETTING_STOPS as u32;

/// Change of an encoded value.
#[derive(Clone, Copy, Debug)]
struct Gain {
    /// Factor of light.
    light: f32,
    /// Factor and summand of encoded values, levels.
    factor: f32,
    summand: f32,
}

impl Gain {
    fn new(stops: f64) -> Self {
        let factor = libm::exp2(stops / GAMMA) as f32;
        Self { light: libm::exp2(stops) as f32, factor, summand: OFFSET_LEVELS * (factor - 1.0) }
    }

    /// Difference that the gain makes, levels; `dark` is [`dark_levels`].
    fn change(self, value: f32, dark: &[f32]) -> f32 {
        let value = value.clamp(0.0, 255.0);
        let changed = if value < LINEAR_LEVELS {
            let at = self.light * value;
            let below = (at as usize).min(DARK_STEPS - 1);
            dark[below] + (dark[below + 1] - dark[below]) * (at - below as f32)
        } else {
            self.factor * value + self.summand
        };
        changed.min(255.0) - value
    }
}

/// Encoded values, levels, of light that the linear part of the encoding would encode as 0, 1, 2 …
fn dark_levels() -> Vec<f32> {
    let level = |step: usize| {
        let light = step as f64 / (255.0 * 12.92);
        let encoded =
            if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * libm::pow(light, 1.0 / GAMMA) - 0.055 };
        (255.0 * encoded) as f32
    };
    (0..=DARK_STEPS).map(level).collect()
}

/// Gains of a lens for red, green and blue by ρ².
struct LensGains {
    centre: [f64; 2],
    /// One over the radius.
    inverse_radius: f64,
    steps: Vec<[Gain; 3]>,
}

impl LensGains {
    fn new(lens: &Lens) -> Self {
        let gains = |step: usize| lens.vignetting.map(|c| Gain::new(fall_off(c, step as f64 / STEPS as f64)));
        let steps = (0..=STEPS).map(gains).collect();
        Self { centre: lens.centre, inverse_radius: 1.0 / lens.radius, steps }
    }

    /// ρ² of a point of the frame.
    fn square_radii(&self, [u, v]: [f64; 2]) -> f64 {
        let (x, y) = ((u - self.centre[0]) * self.inverse_radius, (v - self.centre[1]) * self.inverse_radius);
        x * x + y * y
    }

    /// Gains at ρ²; beyond the circle those of its rim.
    fn at(&self, square_radii: f64) -> &[Gain; 3] {
        &self.steps[((square_radii * STEPS as f64 + 0.5) as usize).min(STEPS)]
    }
}

/// Divides the fall-off of the lenses out of all stored rows of a frame as it was decoded. Leaves all other frames.
pub(crate) fn correct(projection: &Projection, frame: &mut Frame) {
    if let Projection::Fisheye(lenses) = projection
        && lenses.has_vignetting()
    {
        correct_lenses(lenses, frame);
    }
}

fn correct_lenses(lenses: &DualFisheye, frame: &mut Frame) {
    let gains = lenses.lenses.each_ref().map(LensGains::new);
    let dark = dark_levels();
    // A pixel belongs to the lens in whose circle it is farther inside; `None` beside the circles.
    let at = |point: [f64; 2]| {
        let [first, second] = &gains;
        let [a, b] = [first, second].map(|lens| lens.square_radii(point));
        (a.min(b) <= MAX_SQUARE_RADII).then(|| if a <= b { first.at(a) } else { second.at(b) })
    };
    let rounded = |sample: u8, change: f32| (f32::from(sample) + change + 0.5).clamp(0.0, 255.0) as u8;
    match (frame.colour, frame.planes.as_mut_slice()) {
        (ColourModel::YCbCr, [luma, cb, cr]) => {
            let steps = [luma.width.div_ceil(cb.width.max(1)), luma.height.div_ceil(cb.height.max(1))];
            let (stored, luma_stored) = (cb.image_rows(), luma.image_rows());
            if stored.is_empty() {
                return;
            }
            // Differences of luma, blue and red.
            let change = |gains: &[Gain; 3], y: f32, b: f32, r: f32| {
                // Full-range BT.601 (JFIF).
                let rgb = [y + 1.402 * r, y - 0.344_136 * b - 0.714_136 * r, y + 1.772 * b];
                let [red, green, blue] = [0, 1, 2].map(|c| gains[c].change(rgb[c], &dark));
                (0.299 * red + 0.587 * green + 0.114 * blue, red, blue)
            };
            for y in 0..luma.height.div_ceil(steps[1]) {
                // Luma stored beyond the stored chroma uses the nearest chroma row.
                let lines = (y * steps[1]).max(luma_stored.start)..((y + 1) * steps[1]).min(luma_stored.end);
                let has_chroma = stored.contains(&y);
                if lines.is_empty() && !has_chroma {
                    continue;
                }
                let from = y.clamp(stored.start, stored.end - 1) as i32;
                for x in 0..cb.width {
                    let middle = |k: usize, step: usize| (k as f64 + 0.5) * step as f64;
                    let Some(gains) = at([middle(x, steps[0]), middle(y, steps[1])]) else { continue };
                    let (blue, red) = (cb.row(from)[x], cr.row(from)[x]);
                    let (b, r) = (f32::from(blue) - 128.0, f32::from(red) - 128.0);
                    let columns = x * steps[0]..((x + 1) * steps[0]).min(luma.width);
                    let (mut sum, mut own) = ([0.0f32; 2], None);
                    for line in lines.clone() {
                        for pixel in &mut luma.row_mut(line as i32)[columns.clone()] {
                            let value = f32::from(*pixel);
                            sum = [sum[0] + value, sum[1] + 1.0];
                            let changed = change(gains, value, b, r);
                            *pixel = rounded(*pixel, changed.0);
                            own = Some(changed);
                        }
                    }
                    if has_chroma {
                        let mean = if sum[1] > 0.0 { sum[0] / sum[1] } else { 128.0 };
                        let (dy, of_red, of_blue) = match own {
                            Some(changed) if sum[1] == 1.0 => changed,
                            _ => change(gains, mean, b, r),
                        };
                        cb.row_mut(from)[x] = rounded(blue, (of_blue - dy) / 1.772);
                        cr.row_mut(from)[x] = rounded(red, (of_red - dy) / 1.402);
                    }
                }
            }
        }
        (_, [luma, ..]) => {
            // Grey takes the gain of green.
            for y in luma.image_rows() {
                for (x, pixel) in luma.row_mut(y as i32).iter_mut().enumerate() {
                    let Some(gains) = at([x as f64 + 0.5, y as f64 + 0.5]) else { continue };
                    *pixel = rounded(*pixel, gains[1].change(f32::from(*pixel), &dark));
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sphere::fisheye::DualFisheye;
    use gausset_jpeg::plane::Plane;

    fn lenses(vignetting: &str) -> Projection {
        let text = format!(
            r#"{{ "width": 400, "height": 200, "lenses": [
            {{ "cx": 100, "cy": 100, "radius": 98, "half_angle": 99, {vignetting} }},
            {{ "cx": 300, "cy": 100, "radius": 98, "half_angle": 99, "yaw": 180 }} ] }}"#
        );
        Projection::Fisheye(DualFisheye::parse(text.as_bytes()).unwrap())
    }

    fn frame(chroma: usize, value: impl Fn(usize, usize, usize) -> u8) -> Frame {
        let sizes = [[400, 200], [400 / chroma, 200 / chroma], [400 / chroma, 200 / chroma]];
        let mut planes = vec![Plane::default(); 3];
        for (k, (plane, [w, h])) in planes.iter_mut().zip(sizes).enumerate() {
            plane.reshape(w, h, [0, h as i32]);
            for y in 0..h {
                plane.row_mut(y as i32).iter_mut().enumerate().for_each(|(x, v)| *v = value(k, x, y));
            }
        }
        Frame { colour: ColourModel::YCbCr, planes, alpha: None }
    }

    #[test]
    fn encoded_values_are_those_of_the_light_times_the_gain() {
        let linear = |v: f64| if v <= 0.040_45 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) };
        let encoded = |v: f64| if v <= 0.003_130_8 { 12.92 * v } else { 1.055 * v.powf(1.0 / 2.4) - 0.055 };
        let dark = dark_levels();
        for stops in [0.0, 0.1, 0.7, 1.0, 2.0, 3.5, 8.0] {
            let gain = Gain::new(stops);
            for value in 0..=255u8 {
                let light = linear(f64::from(value) / 255.0) * f64::exp2(stops);
                let expected = 255.0 * encoded(light.min(1.0));
                let found = f64::from(value) + f64::from(gain.change(f32::from(value), &dark));
                assert!((found - expected).abs() < 0.02, "{stops} stops, {value}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_light_of_a_lens_is_divided_by_its_fall_off_and_the_other_lens_stays() {
        let red = r#""vignetting": [[1, 0, 0], [0, 0, 0], [0, 0, 0]]"#;
        for chroma in [1, 2] {
            let value = |k: usize, _x: usize, _y: usize| [90, 120, 140][k];
            let before = frame(chroma, value);
            let mut after = frame(chroma, value);
            correct(&lenses(red), &mut after);
            let rgb = |frame: &Frame, x: usize| {
                let at = |k: usize, step: usize| frame.planes[k].row(100 / step as i32)[x / step];
                gausset_jpeg::colour::rgb_from_ycbcr([at(0, 1), at(1, chroma), at(2, chroma)])
            };
            // A stop at the rim of the first lens, and a quarter of it at half of the radius.
            let [centre, half, rim, other] = [100, 149, 197, 380].map(|x| rgb(&after, x));
            let untouched = rgb(&before, 100);
            assert_eq!((centre, other), (untouched, untouched));
            let brighter = |stops: f64| {
                let gain = Gain::new(stops);
                f32::from(untouched[0]) + gain.change(f32::from(untouched[0]), &dark_levels())
            };
            for (found, stops) in [(half, 0.25), (rim, 0.98)] {
                assert!((f32::from(found[0]) - brighter(stops)).abs() < 2.0, "{found:?} {}", brighter(stops));
                assert!(found[1].abs_diff(untouched[1]) <= 2 && found[2].abs_diff(untouched[2]) <= 2);
            }
        }
    }

    #[test]
    fn without_a_fall_off_every_byte_stays() {
        let noise = |k: usize, x: usize, y: usize| (x * 31 + y * 17 + k * 101) as u8;
        let mut after = frame(2, noise);
        correct(&lenses(r#""roll": 0"#), &mut after);
        let before = frame(2, noise);
        assert!(before.planes.iter().zip(&after.planes).all(|(a, b)| a.data == b.data));
    }
}
