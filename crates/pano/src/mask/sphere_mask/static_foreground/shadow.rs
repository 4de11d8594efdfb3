//! The shadow of static foreground: darker than the adjacent ground, of the same chroma, connected to the foreground,
//! below the horizon.
//!
//! Frames are averaged first: moving ground averages out, and the shadow does not, as long as the camera keeps its
//! heading relative to the sun.

use super::disc::{AREA, DEGREES_PER_PIXEL, Disc, RIM_DEGREES, SIDE, polar_position};
use super::flood;

/// Luma of shadow relative to the adjacent ground: display values, of which 0.45 is a fifth of the light.
const SHADOW_RATIO: [f64; 2] = [0.2, 0.8];
/// Difference in chroma (chroma over luma) below which two pixels count as the same ground.
const SAME_CHROMA: f64 = 0.06;
/// Distances (degrees) at which the surroundings are sampled.
const SURROUNDINGS_DEGREES: [f64; 2] = [4.0, 40.0];
/// Samples in the surroundings of each pixel.
const SURROUNDING_SAMPLES: usize = 128;
/// Quantile of the luma of the surrounding ground that is taken as lit ground.
const LIT_QUANTILE: f64 = 0.6;
/// Largest gap between the foreground and its shadow, degrees.
const MAX_GAP_DEGREES: f64 = 2.5;
/// Largest area of a shadow, as a multiple of the foreground's; a larger one is rejected.
const MAX_AREA_RATIO: usize = 4;

/// The pixels of the shadow of a region.
pub(super) fn detect_shadow(discs: &[Disc], patch: &[bool]) -> Vec<bool> {
    let mean = mean_disc(discs);
    let golden = std::f64::consts::PI * (3.0 - 5.0f64.sqrt());
    let looks: Vec<[i32; 2]> = (0..SURROUNDING_SAMPLES)
        .map(|k| {
            let share = ((k as f64 + 0.5) / SURROUNDING_SAMPLES as f64).sqrt();
            let r = (SURROUNDINGS_DEGREES[0] + (SURROUNDINGS_DEGREES[1] - SURROUNDINGS_DEGREES[0]) * share)
                / DEGREES_PER_PIXEL;
            let (sine, cosine) = (libm::sin(k as f64 * golden), libm::cos(k as f64 * golden));
            [(r * cosine).round() as i32, (r * sine).round() as i32]
        })
        .collect();
    let side = SIDE as i32;
    let mut lights = Vec::with_capacity(SURROUNDING_SAMPLES);
    let mut is_dark = |at: usize| -> bool {
        let [light, blue, red] = mean[at];
        lights.clear();
        for [dx, dy] in &looks {
            let (x, y) = (at as i32 % side + dx, at as i32 / side + dy);
            if !((0..side).contains(&x) && (0..side).contains(&y)) {
                continue;
            }
            let other = (y * side + x) as usize;
            let [other_light, other_blue, other_red] = mean[other];
            let is_same = (blue / light - other_blue / other_light).abs() < SAME_CHROMA
                && (red / light - other_red / other_light).abs() < SAME_CHROMA;
            if is_same && !patch[other] && polar_position(other).0 < RIM_DEGREES {
                lights.push(other_light);
            }
        }
        lights.sort_by(f64::total_cmp);
        // At least a quarter of the samples must show ground of this colour.
        if 4 * lights.len() < SURROUNDING_SAMPLES {
            return false;
        }
        let lit = lights[(LIT_QUANTILE * lights.len() as f64) as usize];
        (SHADOW_RATIO[0]..SHADOW_RATIO[1]).contains(&(light / lit))
    };
    let dark: Vec<bool> =
        (0..AREA).map(|at| !patch[at] && polar_position(at).0 < RIM_DEGREES && is_dark(at)).collect();
    // Connected through the foreground and the gap around it.
    let near = dilated(patch, MAX_GAP_DEGREES / DEGREES_PER_PIXEL);
    let joined = flood((0..AREA).filter(|at| patch[*at]), |at| near[at] || dark[at]);
    let shadow: Vec<bool> = (0..AREA).map(|at| joined[at] && dark[at]).collect();
    let count = |set: &[bool]| set.iter().filter(|is| **is).count();
    if count(&shadow) > MAX_AREA_RATIO * count(patch) { vec![false; AREA] } else { shadow }
}

/// Means over the frames and 3x3 pixels: luma, at least 1, and chroma relative to 128.
fn mean_disc(discs: &[Disc]) -> Vec<[f64; 3]> {
    let mut sums = vec![[0u32; 3]; AREA];
    for disc in discs {
        for (sum, value) in sums.iter_mut().zip(disc) {
            sum.iter_mut().zip(value).for_each(|(sum, value)| *sum += u32::from(*value));
        }
    }
    let side = SIDE as isize;
    (0..AREA as isize)
        .map(|at| {
            let (x, y) = (at % side, at / side);
            let (mut sum, mut count) = ([0.0; 3], 0.0);
            for (x, y) in (y - 1..=y + 1).flat_map(|y| (x - 1..=x + 1).map(move |x| (x, y))) {
                if (0..side).contains(&x) && (0..side).contains(&y) {
                    sum.iter_mut().zip(sums[(y * side + x) as usize]).for_each(|(s, v)| *s += f64::from(v));
                    count += discs.len() as f64;
                }
            }
            let [light, blue, red] = sum.map(|value| value / count);
            [light.max(1.0), blue - 128.0, red - 128.0]
        })
        .collect()
}

/// Dilates a set of pixels by a radius in px.
fn dilated(set: &[bool], radius: f64) -> Vec<bool> {
    let mut mask: Vec<u8> = set.iter().map(|is| if *is { 0 } else { 255 }).collect();
    super::super::dilate::dilate_pixels(&mut mask, SIDE, radius);
    mask.into_iter().map(|keep| keep == 0).collect()
}
