//! The shadow of what rides along: darker than the ground beside it, of the same chroma, joined to it, below the horizon.
//!
//! Frames are averaged first: the ground passes by and becomes even, the shadow rides along, as long as the camera keeps
//! its heading to the sun.

use super::disc::{AREA, Disc, PIXEL, RIM, SIDE, place};
use super::flood;

/// Brightness of shadow, in parts of that of the ground beside it: display values, of which 0.45 is a fifth of the light.
const DARKER: [f64; 2] = [0.2, 0.8];
/// Difference of colour (colour difference over brightness) below which two grounds are one.
const SAME_CHROMA: f64 = 0.06;
/// Degrees from a place between which ground is looked at.
const AROUND: [f64; 2] = [4.0, 40.0];
/// Places that are looked at around each.
const LOOKS: usize = 128;
/// Part of the ground of one colour around a place that is darker than its lit ground.
const LIT: f64 = 0.6;
/// Degrees by which the shadow may begin beside what throws it.
const GAP: f64 = 2.5;
/// Size of a shadow, in sizes of what throws it, above which it is that of something else.
const MOST: usize = 4;

/// Pixels of the shadow of a patch.
pub(super) fn shadow(discs: &[Disc], patch: &[bool]) -> Vec<bool> {
    let mean = mean(discs);
    let golden = std::f64::consts::PI * (3.0 - 5.0f64.sqrt());
    let looks: Vec<[i32; 2]> = (0..LOOKS)
        .map(|k| {
            let share = ((k as f64 + 0.5) / LOOKS as f64).sqrt();
            let r = (AROUND[0] + (AROUND[1] - AROUND[0]) * share) / PIXEL;
            let (sine, cosine) = (libm::sin(k as f64 * golden), libm::cos(k as f64 * golden));
            [(r * cosine).round() as i32, (r * sine).round() as i32]
        })
        .collect();
    let side = SIDE as i32;
    let mut lights = Vec::with_capacity(LOOKS);
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
            if is_same && !patch[other] && place(other).0 < RIM {
                lights.push(other_light);
            }
        }
        lights.sort_by(f64::total_cmp);
        // A quarter of what is looked at: else there is no ground of this colour.
        if 4 * lights.len() < LOOKS {
            return false;
        }
        let lit = lights[(LIT * lights.len() as f64) as usize];
        (DARKER[0]..DARKER[1]).contains(&(light / lit))
    };
    let dark: Vec<bool> = (0..AREA).map(|at| !patch[at] && place(at).0 < RIM && is_dark(at)).collect();
    // Through the patch and the seam beside it, into what is dark.
    let near = grown(patch, GAP / PIXEL);
    let joined = flood((0..AREA).filter(|at| patch[*at]), |at| near[at] || dark[at]);
    let shadow: Vec<bool> = (0..AREA).map(|at| joined[at] && dark[at]).collect();
    let count = |set: &[bool]| set.iter().filter(|is| **is).count();
    if count(&shadow) > MOST * count(patch) { vec![false; AREA] } else { shadow }
}

/// Brightness and colour differences about 0, means over the frames and 3x3 pixels; never black.
fn mean(discs: &[Disc]) -> Vec<[f64; 3]> {
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

/// Pixels within a distance of a set.
fn grown(set: &[bool], radius: f64) -> Vec<bool> {
    let mut mask: Vec<u8> = set.iter().map(|is| if *is { 0 } else { 255 }).collect();
    super::super::dilate::dilate_pixels(&mut mask, SIDE, radius);
    mask.into_iter().map(|keep| keep == 0).collect()
}
