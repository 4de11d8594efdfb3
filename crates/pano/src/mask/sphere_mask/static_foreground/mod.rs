//! Detects static foreground, such as the operator or the tripod, without a model.
//!
//! Static foreground is the region connected to the nadir that does not move between frames while the rest moves past.
//! It is detected in the axes of the panorama (a camera on a helmet or a car) or in those of the walking direction (a
//! camera that keeps its heading while the operator turns), whichever gives more evidence.
//!
//! ```text
//! disc      the lower part of a frame around the nadir      evidence  static foreground against moving ground
//! shadow    the shadow of the foreground                    refine_heading  heading offset of each frame
//! ```
//! Frames are added one after another; at most [`MAX_FRAMES`], evenly spaced, are kept.

mod disc;
mod evidence;
mod refine_heading;
mod shadow;

use gausset_core::RgbImage8;

use self::disc::{AREA, DEGREES_PER_PIXEL, Disc, RIM_DEGREES, SIDE, polar_position};
use super::SphereMask;

/// Largest number of frames that are kept, a quarter of a MB each.
pub const MAX_FRAMES: usize = 48;
/// Smallest number of frames for a result.
pub const MIN_FRAMES: usize = 3;
/// Degrees from the nadir beyond which everything must move if the camera does.
const MOVING_FROM_DEGREES: f64 = 50.0;
/// Degrees around the nadir in which the region must begin.
const ROOT_DEGREES: f64 = 15.0;
/// Detection rounds; the second compensates the brightness of each frame.
const ROUNDS: usize = 2;
/// Fraction of the disc beyond [`MOVING_FROM_DEGREES`] that may look static; above it, the camera is not moving.
const MAX_STATIC_FRACTION: f64 = 0.6;
/// Blur sizes in pixels: a pole is narrow; hair and cloth are rough and move slightly.
const SCALES: [usize; 3] = [1, 3, 7];
/// Mean luma change between discs, levels, below which a frame is ignored as a duplicate.
const DUPLICATE_CHANGE: f64 = 2.0;
/// Headings that differ by less than this count as equal, rad.
const EQUAL_HEADING: f64 = 0.05;

/// The axes in which the foreground is static.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForegroundAxes {
    /// Those of the panorama.
    Panorama,
    /// Those of the walking direction, which is forward.
    Heading,
}

/// Why no static foreground was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoForeground {
    /// Too few distinct frames.
    #[error("{0} frames differ below the horizon (expected at least {MIN_FRAMES})")]
    TooFewFrames(usize),
    /// The whole image is static.
    #[error("everything below the horizon is static: the camera does not move")]
    CameraStatic,
    /// Nothing at the nadir is static.
    #[error("no static region is connected to the nadir")]
    NoRegion,
}

/// Static foreground.
#[derive(Clone, Debug)]
pub struct StaticForeground {
    /// The axes in which it is static.
    pub axes: ForegroundAxes,
    /// Number of frames in which it was detected.
    pub frames: usize,
    /// For the axes of the walking direction: frame index (among those added) and offset in degrees from the given
    /// heading, for each frame that was used. The heading is known only to some degrees, and the operator does not
    /// always look straight ahead.
    pub offsets: Vec<(usize, f64)>,
    patch: Vec<bool>,
    shadow: Vec<bool>,
}

impl StaticForeground {
    /// Offset of the axes from the heading of a frame, degrees; `frame` is the index among the frames added. Uses the
    /// nearest frame with a known offset.
    #[must_use]
    pub fn offset(&self, frame: usize) -> f64 {
        let nearest = self.offsets.iter().min_by_key(|(other, _)| other.abs_diff(frame));
        nearest.map_or(0.0, |(_, offset)| *offset)
    }

    /// The mask of a frame whose walking direction is `heading` (degrees of yaw in panorama axes). The heading is
    /// ignored if the foreground is static in panorama axes.
    #[must_use]
    pub fn mask(&self, width: usize, height: usize, heading: f64) -> SphereMask {
        self.render_mask(&self.patch, width, height, heading)
    }

    /// The mask of its shadow, with the same arguments. Keeps everything if no shadow was detected.
    #[must_use]
    pub fn shadow(&self, width: usize, height: usize, heading: f64) -> SphereMask {
        self.render_mask(&self.shadow, width, height, heading)
    }

    fn render_mask(&self, set: &[bool], width: usize, height: usize, heading: f64) -> SphereMask {
        let turn = if self.axes == ForegroundAxes::Heading { heading.to_radians() } else { 0.0 };
        let mut mask = SphereMask::new(width, height);
        for y in 0..height {
            let degrees = 90.0 + mask.latitude(y).to_degrees();
            if degrees >= RIM_DEGREES {
                continue;
            }
            for x in 0..width {
                let cover = disc::coverage_at(set, degrees, mask.longitude(x), turn);
                mask.data[y * width + x] = (255.0 * (1.0 - cover)).round() as u8;
            }
        }
        mask
    }
}

/// Collects frames and detects static foreground in them.
#[derive(Debug, Default)]
pub struct ForegroundDetector {
    kept: Vec<KeptFrame>,
    /// Every 2^`halvings`-th distinct frame is kept.
    halvings: u32,
    /// Frames that were added, and those of them that were distinct.
    added: usize,
    distinct: usize,
    last: Disc,
}

/// A frame that is kept for detection.
#[derive(Debug)]
struct KeptFrame {
    frame: usize,
    disc: Disc,
    heading: Option<f64>,
}

impl ForegroundDetector {
    /// A finder without frames.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a whole-sphere panorama of any size (960x480 is sufficient), with the walking direction in its axes
    /// (degrees of yaw), if known.
    pub fn add_frame(&mut self, panorama: &RgbImage8, heading: Option<f64>) {
        let disc = disc::disc_from_panorama(panorama, 0.0);
        let frame = self.added;
        self.added += 1;
        if !self.last.is_empty() && mean_luma_change(&self.last, &disc) < DUPLICATE_CHANGE {
            return;
        }
        if self.distinct.is_multiple_of(1 << self.halvings) {
            self.kept.push(KeptFrame { frame, disc: disc.clone(), heading });
        }
        self.last = disc;
        self.distinct += 1;
        if self.kept.len() > MAX_FRAMES {
            let mut number = 0;
            self.kept.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.halvings += 1;
        }
    }

    /// Detects the static foreground, in the axes that give more evidence.
    ///
    /// # Errors
    /// No static foreground was found, or there was too little motion to detect it.
    pub fn detect(self) -> Result<StaticForeground, NoForeground> {
        let frames = self.kept.len();
        if frames < MIN_FRAMES {
            return Err(NoForeground::TooFewFrames(frames));
        }
        let known: Vec<(usize, f64)> =
            self.kept.iter().filter_map(|kept| Some((kept.frame, kept.heading?.to_radians()))).collect();
        // With a constant heading, both axes are the same.
        let differ = known.iter().any(|(_, heading)| angle_difference(*heading, known[0].1) > EQUAL_HEADING);
        let walked = (differ && known.len() >= MIN_FRAMES).then(|| {
            let of_known = |kept: &KeptFrame| Some(rotated(&kept.disc, kept.heading?.to_radians()));
            refine_heading::refine_headings(self.kept.iter().filter_map(of_known).collect())
        });
        let discs: Vec<Disc> = self.kept.into_iter().map(|kept| kept.disc).collect();
        match (detect_region(&discs), walked) {
            (Ok(own), Some(Ok(walked))) if walked.found.evidence > own.evidence => {
                Ok(walked.into_foreground(&known))
            }
            (Err(_), Some(Ok(walked))) => Ok(walked.into_foreground(&known)),
            (own, _) => own.map(|found| StaticForeground {
                axes: ForegroundAxes::Panorama,
                frames,
                offsets: Vec::new(),
                shadow: shadow::detect_shadow(&discs, &found.patch),
                patch: found.patch,
            }),
        }
    }
}

/// Angle between two directions, rad.
fn angle_difference(a: f64, b: f64) -> f64 {
    let turn = (a - b).rem_euclid(std::f64::consts::TAU);
    turn.min(std::f64::consts::TAU - turn)
}

/// Mean luma difference of two discs, levels.
fn mean_luma_change(a: &Disc, b: &Disc) -> f64 {
    let sum: u64 = a.iter().zip(b).map(|(a, b)| u64::from(a[0].abs_diff(b[0]))).sum();
    sum as f64 / AREA as f64
}

/// A disc rotated so that this longitude (rad) is forward, by nearest pixels.
fn rotated(disc: &Disc, turn: f64) -> Disc {
    let (sine, cosine) = (libm::sin(turn), libm::cos(turn));
    let middle = 0.5 * (SIDE - 1) as f64;
    (0..AREA)
        .map(|at| {
            let (x, y) = ((at % SIDE) as f64 - middle, (at / SIDE) as f64 - middle);
            let (x, y) = (cosine * x - sine * y + middle, sine * x + cosine * y + middle);
            let inside = |v: f64| (v.round().max(0.0) as usize).min(SIDE - 1);
            disc[inside(y) * SIDE + inside(x)]
        })
        .collect()
}

/// Discs at one blur size, with the median colour of each pixel.
struct BlurScale {
    reach: usize,
    discs: Vec<Disc>,
    own: Disc,
    ground: evidence::GroundColours,
}

/// A detected static region.
struct StaticRegion {
    /// Its pixels.
    patch: Vec<bool>,
    /// Sum of its evidence.
    evidence: f64,
    /// Median colour of each pixel.
    median_colours: Disc,
}

/// Detects the static region of a set of discs.
fn detect_region(discs: &[Disc]) -> Result<StaticRegion, NoForeground> {
    let scales = SCALES.map(|reach| {
        let discs: Vec<Disc> = discs.iter().map(|disc| disc::box_blurred(disc, reach)).collect();
        let own = evidence::median_colours(&discs);
        BlurScale { reach, ground: evidence::GroundColours::from_discs(&discs, &own), own, discs }
    });
    let mut patch = vec![false; AREA];
    let mut lighter = vec![0.0; discs.len()];
    let mut sum = 0.0;
    for round in 0..ROUNDS {
        let mut best = vec![f32::MIN; AREA];
        for BlurScale { reach, discs, own, ground } in &scales {
            let evidence = evidence::evidence(discs, ground, own, &lighter);
            // Blur lets ground at the edge of the foreground look static, so the result is eroded by the blur radius.
            let inner = eroded(&evidence, reach / 2);
            best.iter_mut().zip(inner).for_each(|(best, more)| *best = best.max(more));
        }
        let smooth = smoothed(&best);
        if round == 0 {
            let outside = |at: &usize| (MOVING_FROM_DEGREES..RIM_DEGREES).contains(&polar_position(*at).0);
            let ring = (0..AREA).filter(outside).count();
            let still = (0..AREA).filter(outside).filter(|at| smooth[*at] > 0.0).count();
            if still as f64 > MAX_STATIC_FRACTION * ring as f64 {
                return Err(NoForeground::CameraStatic);
            }
        }
        patch = connected_to_nadir(&smooth);
        if !patch.contains(&true) {
            return Err(NoForeground::NoRegion);
        }
        sum = (0..AREA)
            .filter(|at| patch[*at])
            .map(|at| f64::from(best[at].clamp(-MAX_PIXEL_EVIDENCE, MAX_PIXEL_EVIDENCE)))
            .sum();
        lighter = evidence::luma_offsets(&scales[0].discs, &scales[0].own, &patch);
    }
    let [BlurScale { own, .. }, ..] = scales;
    Ok(StaticRegion { patch, evidence: sum, median_colours: own })
}

/// Bound on the evidence of a single pixel.
const MAX_PIXEL_EVIDENCE: f32 = 12.0;

/// Minimum of the evidence around each pixel.
fn eroded(evidence: &[f32], reach: usize) -> Vec<f32> {
    let least = |values: &[f32], step: usize| -> Vec<f32> {
        let around = |at: usize| -> f32 {
            let k = at / step % SIDE;
            let others = k.saturating_sub(reach)..=(k + reach).min(SIDE - 1);
            others.map(|other| values[at + other * step - k * step]).fold(f32::MAX, f32::min)
        };
        (0..AREA).map(around).collect()
    };
    if reach == 0 { evidence.to_vec() } else { least(&least(evidence, 1), SIDE) }
}

/// Means of the evidence over 5x5 pixels.
fn smoothed(evidence: &[f32]) -> Vec<f32> {
    let mean = |values: &[f32], step: usize| -> Vec<f32> {
        let around = |at: usize| -> f32 {
            let (k, most) = (at / step % SIDE, SIDE - 1);
            let reach = k.saturating_sub(2)..=(k + 2).min(most);
            let count = reach.clone().count() as f32;
            reach.map(|other| values[at + other * step - k * step]).sum::<f32>() / count
        };
        (0..AREA).map(around).collect()
    };
    let clamped: Vec<f32> =
        evidence.iter().map(|value| value.clamp(-MAX_PIXEL_EVIDENCE, MAX_PIXEL_EVIDENCE)).collect();
    mean(&mean(&clamped, 1), SIDE)
}

/// The pixels with positive evidence that are connected to the nadir, and the pixels that they enclose.
fn connected_to_nadir(evidence: &[f32]) -> Vec<bool> {
    let root = |at: &usize| polar_position(*at).0 < ROOT_DEGREES;
    let patch = flood((0..AREA).filter(root), |at| evidence[at] > 0.0);
    // Enclosed pixels are those that are not connected to the rim.
    let rim = (0..AREA).filter(|at| polar_position(*at).0 > RIM_DEGREES - 2.0 * DEGREES_PER_PIXEL);
    let outside = flood(rim, |at| !patch[at]);
    outside.iter().zip(&patch).map(|(outside, patch)| *patch || !outside).collect()
}

/// All pixels connected across edges to the start pixels, through allowed pixels.
fn flood(from: impl Iterator<Item = usize>, is_allowed: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut reached = vec![false; AREA];
    let mut open: Vec<usize> = from.filter(|at| is_allowed(*at)).collect();
    open.iter().for_each(|at| reached[*at] = true);
    while let Some(at) = open.pop() {
        let (x, y) = (at % SIDE, at / SIDE);
        let beside = [
            (x > 0).then(|| at - 1),
            (x + 1 < SIDE).then_some(at + 1),
            (y > 0).then(|| at - SIDE),
            (y + 1 < SIDE).then_some(at + SIDE),
        ];
        for next in beside.into_iter().flatten() {
            if !reached[next] && is_allowed(next) {
                reached[next] = true;
                open.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests;
