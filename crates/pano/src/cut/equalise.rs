//! Equalises exposure and white balance of the two lenses of a frame.
//!
//! ```text
//! directions that both lenses see      5x5 px of each, neither too dark nor overexposed → linear light a, b
//! r = robust mean of log2(a / b)       per channel: the mean of values within three deviations of the median
//! gains   2^(-r/2) and 2^(r/2)         mean zero in log space: the brightness of the whole frame is unchanged
//! ```
//! The deviation is 1.4826 times the median absolute deviation, so that flare and parallax, which change few places by
//! a lot, have no effect.

use std::f64::consts::PI;

use gausset_core::statistics::median;
use gausset_jpeg::colour::rgb_from_ycbcr;
use gausset_jpeg::plane::{ColourModel, Frame};

use crate::cut::grade::{Colouring, Grade};
use crate::cut::look::linear_from_srgb;
use crate::sphere::eac::Eac;
use crate::sphere::fisheye::DualFisheye;
use crate::sphere::projection::Projection;

/// Number of sampled directions, on a spiral.
const DIRECTIONS: usize = 60_000;
/// Minimum number of valid directions.
const MIN_DIRECTIONS: usize = 64;
/// Range of encoded values that are neither noise nor overexposed.
const USABLE_VALUES: std::ops::RangeInclusive<f64> = 10.0..=245.0;
/// Largest plausible ratio of the lenses, in stops.
pub(crate) const MAX_RATIO_STOPS: f64 = 4.0;

/// What to equalise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Equalise {
    /// Nothing.
    #[default]
    Off,
    /// The two lenses of each frame.
    Lenses,
    /// The frames.
    Frames,
}

impl Equalise {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Off, Self::Lenses, Self::Frames];

    /// The stable name in options and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Lenses => "lenses",
            Self::Frames => "frames",
        }
    }
}

/// A part of the canvas that belongs to one lens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanvasPart {
    /// First column, end column, first row, end row, px.
    pub area: [usize; 4],
    /// The lens, 0 or 1.
    pub lens: usize,
}

/// The parts of the canvas of each lens; `None` for a source without two lenses.
#[must_use]
pub fn lens_parts(projection: &Projection) -> Option<Vec<CanvasPart>> {
    match projection {
        Projection::Eac(eac) => Some(eac_parts(eac)),
        Projection::Fisheye(fisheye) => Some(fisheye_parts(fisheye)),
        Projection::Equirect(_) | Projection::Cube(_) => None,
    }
}

/// The lenses meet in the middle of the side faces: the front lens covers the front face and the adjacent halves.
fn eac_parts(eac: &Eac) -> Vec<CanvasPart> {
    let [width, height] = eac.stream_size().map(|v| v as usize);
    let first = eac.side as usize / 2;
    let second = width - first;
    let mut parts = Vec::new();
    for (stream, middle) in [(0, 0), (1, 1)] {
        let (top, bottom) = (stream * height, (stream + 1) * height);
        for (left, right, lens) in
            [(0, first, 1 - middle), (first, second, middle), (second, width, 1 - middle)]
        {
            parts.push(CanvasPart { area: [left, right, top, bottom], lens });
        }
    }
    parts
}

/// Circles side by side or one above the other, separated halfway between their centres.
fn fisheye_parts(fisheye: &DualFisheye) -> Vec<CanvasPart> {
    let (width, height) = (fisheye.width as usize, fisheye.height as usize);
    let [a, b] = [0, 1].map(|k| fisheye.lenses[k].centre);
    // An even position, because two pixels share their chroma.
    let half = |a: f64, b: f64, most: usize| ((0.25 * (a + b)).max(0.0) as usize * 2).min(most);
    if (a[0] - b[0]).abs() >= (a[1] - b[1]).abs() {
        let cut = half(a[0], b[0], width);
        let left = usize::from(a[0] > b[0]);
        vec![
            CanvasPart { area: [0, cut, 0, height], lens: left },
            CanvasPart { area: [cut, width, 0, height], lens: 1 - left },
        ]
    } else {
        let cut = half(a[1], b[1], height);
        let upper = usize::from(a[1] > b[1]);
        vec![
            CanvasPart { area: [0, width, 0, cut], lens: upper },
            CanvasPart { area: [0, width, cut, height], lens: 1 - upper },
        ]
    }
}

/// Equalising gains of red, green and blue for both lenses of a frame; `None` if too few directions are valid in both,
/// or the ratio is implausible.
#[must_use]
pub fn lens_gains(projection: &Projection, frame: &Frame) -> Option<[[f64; 3]; 2]> {
    let parts = lens_parts(projection)?;
    let lens_at = |[u, v]: [f64; 2]| {
        let is_in = |part: &&CanvasPart| {
            let [left, right, top, bottom] = part.area.map(|v| v as f64);
            (left..right).contains(&u) && (top..bottom).contains(&v)
        };
        parts.iter().find(is_in).map(|part| part.lens)
    };
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for k in 0..DIRECTIONS {
        let direction = spiral_direction(k, DIRECTIONS);
        let place = projection.project(direction);
        let Some((second, share)) = place.second.filter(|_| place.is_visible) else { continue };
        // The rim of a circle contains pixels outside the image.
        if !(0.1..=0.9).contains(&share) {
            continue;
        }
        let first = [place.u, place.v];
        let (Some(one), Some(other)) = (lens_at(first), lens_at(second)) else { continue };
        let (Some(a), Some(b)) = (colour_at(frame, first), colour_at(frame, second)) else { continue };
        if one == other {
            continue;
        }
        let sign = if one == 0 { 1.0 } else { -1.0 };
        for (c, ratios) in ratios.iter_mut().enumerate() {
            ratios.push(sign * libm::log2(a[c] / b[c]));
        }
    }
    let mut gains = [[1.0; 3]; 2];
    for (c, ratios) in ratios.iter_mut().enumerate() {
        let ratio = robust_mean(ratios, MIN_DIRECTIONS)?;
        if ratio.abs() > MAX_RATIO_STOPS {
            return None;
        }
        gains[0][c] = libm::exp2(-0.5 * ratio);
        gains[1][c] = libm::exp2(0.5 * ratio);
    }
    Some(gains)
}

/// The k-th of `count` directions that are spread evenly over the sphere.
pub(crate) fn spiral_direction(k: usize, count: usize) -> [f64; 3] {
    let golden = PI * (3.0 - libm::sqrt(5.0));
    let y = 1.0 - 2.0 * (k as f64 + 0.5) / count as f64;
    let across = libm::sqrt(1.0 - y * y);
    let angle = golden * k as f64;
    [across * libm::sin(angle), y, across * libm::cos(angle)]
}

/// Grades a frame of two lenses with equalising gains. Returns the gains. If they can neither be estimated from the
/// frame nor taken from the lens file, returns `None` and leaves the frame unchanged.
pub fn grade_lenses(
    projection: &Projection,
    colouring: &Colouring,
    frame: &mut Frame,
) -> Option<[[f64; 3]; 2]> {
    let of_file = || match projection {
        Projection::Fisheye(lenses) => lenses.gains(),
        _ => None,
    };
    let gains = lens_gains(projection, frame).or_else(of_file)?.map(|gains| gains.map(rounded_gain));
    let grades = gains.map(|gains| Grade::for_frame(colouring, gains));
    for part in lens_parts(projection)? {
        grades[part.lens].apply_to(frame, part.area);
    }
    Some(gains)
}

/// Rounds a gain to six decimal places, as in files.
#[must_use]
pub fn rounded_gain(gain: f64) -> f64 {
    libm::round(gain * 1e6) / 1e6
}

/// Sum of the linear light of 5x5 px around a point of the canvas; `None` where too dark, overexposed or not stored.
pub(crate) fn colour_at(frame: &Frame, [u, v]: [f64; 2]) -> Option<[f64; 3]> {
    const REACH: i64 = 2;
    let luma = frame.planes.first()?;
    let rows = luma.image_rows();
    let (x, y) = (u as i64, v as i64);
    let is_stored = x >= REACH
        && x + REACH < luma.width as i64
        && y - REACH >= rows.start as i64
        && y + REACH < rows.end as i64;
    if !is_stored {
        return None;
    }
    let mut sum = [0.0; 3];
    for dy in -REACH..=REACH {
        for dx in -REACH..=REACH {
            let (x, y) = ((x + dx) as usize, (y + dy) as usize);
            let light = light_of(frame, x, y)?;
            sum = [0, 1, 2].map(|c| sum[c] + light[c]);
        }
    }
    Some(sum)
}

/// Linear light of a pixel; `None` where too dark, overexposed or not stored.
fn light_of(frame: &Frame, x: usize, y: usize) -> Option<[f64; 3]> {
    usable_rgb(frame, x, y).map(|rgb| rgb.map(|value| linear_from_srgb(f64::from(value) / 255.0)))
}

/// Encoded red, green and blue of a pixel; `None` where too dark, overexposed or not stored.
pub(crate) fn usable_rgb(frame: &Frame, x: usize, y: usize) -> Option<[u8; 3]> {
    let luma = frame.planes.first()?;
    let at = |index: usize| {
        let plane = &frame.planes[index];
        let (sx, sy) = (luma.width.div_ceil(plane.width), luma.height.div_ceil(plane.height));
        let row = y / sy;
        plane.image_rows().contains(&row).then(|| plane.row(row as i32)[(x / sx).min(plane.width - 1)])
    };
    let rgb = match frame.colour {
        ColourModel::Grey => [at(0)?; 3],
        ColourModel::YCbCr => rgb_from_ycbcr([at(0)?, at(1)?, at(2)?]),
    };
    rgb.iter().all(|&value| USABLE_VALUES.contains(&f64::from(value))).then_some(rgb)
}

/// Mean of the values within three robust deviations of the median; `None` for fewer than `fewest` values.
pub(crate) fn robust_mean(values: &mut [f64], fewest: usize) -> Option<f64> {
    if values.len() < fewest.max(1) {
        return None;
    }
    // The sum below adds in this order.
    values.sort_by(f64::total_cmp);
    let middle = median(values.to_vec())?;
    let distances: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let reach = 3.0 * 1.4826 * median(distances)? + 1e-9;
    let near = values.iter().filter(|v| (*v - middle).abs() <= reach);
    let (sum, count) = near.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
    Some(sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::look::srgb_from_linear;
    use gausset_jpeg::plane::Plane;

    const LENSES: &str = r#"{ "width": 800, "height": 400, "lenses": [
        { "cx": 200, "cy": 200, "radius": 200, "half_angle": 100 },
        { "cx": 600, "cy": 200, "radius": 200, "half_angle": 100, "yaw": 180 } ] }"#;

    /// Smooth colours on the sphere, in linear light.
    fn light([x, y, z]: [f64; 3]) -> [f64; 3] {
        let n = libm::sqrt(x * x + y * y + z * z);
        let wave = |a: f64, b: f64| 0.2 + 0.08 * libm::sin(4.0 * a / n) * libm::cos(3.0 * b / n);
        [wave(x, y), wave(y, z), wave(z, x)]
    }

    /// The pixels that a canvas shows, with lens and direction. The caller keeps them: it is most of the work of a frame.
    fn shown_pixels(projection: &Projection) -> Vec<([usize; 2], usize, [f64; 3])> {
        let [w, h] = projection.canvas_size().map(|v| v as usize);
        let parts = lens_parts(projection).unwrap();
        let mut pixels = vec![None; w * h];
        let mut put = |at: [f64; 2], direction: [f64; 3]| {
            let (x, y) = (at[0] as usize, at[1] as usize);
            let inside =
                |p: &&CanvasPart| (p.area[0]..p.area[1]).contains(&x) && (p.area[2]..p.area[3]).contains(&y);
            pixels[y * w + x] = Some(([x, y], parts.iter().find(inside).unwrap().lens, direction));
        };
        // Dense enough to set every pixel.
        let count = 16 * w * h;
        for k in 0..count {
            let direction = spiral_direction(k, count);
            let place = projection.project(direction);
            if place.is_visible {
                put([place.u, place.v], direction);
                if let Some((second, _)) = place.second {
                    put(second, direction);
                }
            }
        }
        pixels.into_iter().flatten().collect()
    }

    /// A frame whose pixels show the colour of their direction times the factors of their lens.
    fn frame(
        projection: &Projection,
        pixels: &[([usize; 2], usize, [f64; 3])],
        factors: [[f64; 3]; 2],
        flare: bool,
    ) -> Frame {
        let [w, h] = projection.canvas_size().map(|v| v as usize);
        let mut planes = vec![Plane::default(); 3];
        for plane in &mut planes {
            plane.reshape(w, h, [0, h as i32]);
            plane.data.fill(128);
        }
        planes[0].data.fill(0);
        for &([x, y], lens, direction) in pixels {
            let burnt = if flare && lens == 0 && direction[1] < -0.6 { 1.6 } else { 1.0 };
            let light = light(direction);
            let rgb = [0, 1, 2].map(|c| {
                let value = srgb_from_linear((light[c] * factors[lens][c] * burnt).min(1.0));
                (255.0 * value + 0.5) as u8
            });
            for (plane, value) in planes.iter_mut().zip(gausset_jpeg::colour::ycbcr_from_rgb(rgb)) {
                plane.row_mut(y as i32)[x] = value;
            }
        }
        Frame { colour: ColourModel::YCbCr, planes, alpha: None }
    }

    #[test]
    fn gains_of_a_stop_and_of_white_balance_are_found() {
        let fisheye = Projection::Fisheye(DualFisheye::parse(LENSES.as_bytes()).unwrap());
        let pixels = shown_pixels(&fisheye);
        for flare in [false, true] {
            for (stops, balance) in [(1.0, [1.15, 1.0, 0.85]), (-1.0, [0.85, 1.0, 1.15])] {
                let factor = balance.map(|b: f64| b * libm::exp2(stops));
                // Half each, as the equaliser splits the ratio.
                let factors = [factor.map(libm::sqrt), factor.map(|f| 1.0 / libm::sqrt(f))];
                let gains = lens_gains(&fisheye, &frame(&fisheye, &pixels, factors, flare)).unwrap();
                for c in 0..3 {
                    let ratio = gains[1][c] / gains[0][c];
                    let error = libm::log2(ratio / factor[c]);
                    assert!(error.abs() < 0.0143, "{stops} {c}: {error} stops, of which 1 % are 0.0144");
                    assert!((gains[0][c] * gains[1][c] - 1.0).abs() < 1e-12, "mean zero");
                }
            }
        }
    }

    #[test]
    fn lenses_of_a_gopro_max_meet_in_the_middle_of_the_side_faces() {
        let eac = Projection::Eac(Eac::from_stream_size(2272, 736).unwrap());
        let parts = lens_parts(&eac).unwrap();
        let lens = |direction: [f64; 3]| {
            let place = eac.project(direction);
            let (u, v) = (place.u as usize, place.v as usize);
            let inside =
                |p: &&CanvasPart| (p.area[0]..p.area[1]).contains(&u) && (p.area[2]..p.area[3]).contains(&v);
            parts.iter().find(inside).unwrap().lens
        };
        assert_eq!((lens([0.0, 0.0, 1.0]), lens([0.0, 0.0, -1.0])), (0, 1));
        for side in [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]] {
            assert_eq!(lens([side[0], side[1], 0.3]), 0, "{side:?}");
            assert_eq!(lens([side[0], side[1], -0.3]), 1, "{side:?}");
        }
    }

    #[test]
    fn what_only_one_lens_sees_says_nothing() {
        let panorama = Projection::Equirect(crate::sphere::projection::Equirect::whole(64, 32));
        assert_eq!(lens_gains(&panorama, &Frame::default()), None);
        let fisheye = Projection::Fisheye(DualFisheye::parse(LENSES.as_bytes()).unwrap());
        let black = frame(&fisheye, &shown_pixels(&fisheye), [[0.0; 3]; 2], false);
        assert_eq!(lens_gains(&fisheye, &black), None);
    }
}
