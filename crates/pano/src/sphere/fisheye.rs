//! Projection of two fisheye lenses, back to back, described by a lens file.
//!
//! ```json
//! { "width": 6080, "height": 3040, "blend_degrees": 5,
//!   "lenses": [ { "cx": 1520, "cy": 1520, "radius": 1520, "half_angle": 100, "yaw": 0, "pitch": 0, "roll": 0 },
//!               { "cx": 4560, "cy": 1520, "radius": 1520, "half_angle": 100, "yaw": 180 } ] }
//! ```
//! - `cx`, `cy`: centre of the image circle of a lens, px from the top-left corner of the frame.
//! - `radius`: distance from the centre, px, at which the angle from the axis is `half_angle`, degrees.
//! - `yaw`, `pitch`, `roll`: direction of the lens, as for views.
//! - `polynomial: [k1, k2, k3]`: replaces the equidistant mapping by
//!   `r = radius · t (k1 + k2 t² + k3 t⁴)/(k1 + k2 + k3)` with `t = angle/half_angle`.
//! - `blend_degrees`: where both lenses see a direction, the weight of each falls to zero over its last degrees. Without
//!   `vignetting`, the zone is at least as wide as the overlap of the lenses.
//! - `vignetting: [[c1, c2, c3]; 3]`: fall-off of red, green and blue in stops:
//!   `-log2 V = c1 ρ² + c2 ρ⁴ + c3 ρ⁶`, `ρ = distance from the centre/radius`. The light of a pixel is divided by `V`
//!   (`source::vignetting`).
//! - `gain: [r, g, b]`: factors of linear light that equalise the lenses, for frames from which they cannot be
//!   estimated ([`crate::cut::equalise`]).
//!
//! The two lens centres are some centimetres apart, so near objects appear twice in the overlap. [`crate::source::calibrate`]
//! makes lens files. Not tested with files of a real camera, because manufacturers' calibrations are not published.

use std::f64::consts::PI;
use std::fmt;
use std::path::{Path, PathBuf};

use gausset_core::se3::{self, Mat3};
use gausset_io::text::json_problem;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sphere::canvas_position::CanvasPosition;
use crate::sphere::geometry::{rotation, yaw_pitch_roll};

/// Maximum size of a lens file, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Largest coefficient of the fall-off of a lens, and its largest fall-off at the rim, stops.
pub(crate) const MAX_VIGNETTING_STOPS: f64 = 8.0;

/// A fisheye lens.
#[derive(Clone, PartialEq)]
pub struct Lens {
    /// Centre of the image circle, px of the frame.
    pub centre: [f64; 2],
    /// Distance from the centre at `half_angle`, px.
    pub radius: f64,
    /// Largest angle from the axis, radians.
    pub half_angle: f64,
    /// Coefficients of the odd polynomial; (1, 0, 0) is equidistant.
    pub polynomial: [f64; 3],
    /// Lens axes to panorama axes.
    pub pano_from_lens: Mat3,
    /// Gains of red, green and blue, in linear light.
    pub gain: [f64; 3],
    /// Fall-off of red, green and blue towards the rim, stops: coefficients of ρ², ρ⁴ and ρ⁶, each 0 or more. All 0 if
    /// it is unknown.
    pub vignetting: [[f64; 3]; 3],
}

// Without a fall-off, the text is that of versions without this field: it is part of the settings hash of splits.
impl fmt::Debug for Lens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lens = f.debug_struct("Lens");
        lens.field("centre", &self.centre)
            .field("radius", &self.radius)
            .field("half_angle", &self.half_angle)
            .field("polynomial", &self.polynomial)
            .field("pano_from_lens", &self.pano_from_lens)
            .field("gain", &self.gain);
        if self.has_vignetting() {
            lens.field("vignetting", &self.vignetting);
        }
        lens.finish()
    }
}

impl Lens {
    /// Whether a fall-off is known.
    fn has_vignetting(&self) -> bool {
        self.vignetting != [[0.0; 3]; 3]
    }

    /// Square of the distance of a point of the frame from the centre, in radii.
    pub(crate) fn square_radii(&self, [u, v]: [f64; 2]) -> f64 {
        let (x, y) = ((u - self.centre[0]) / self.radius, (v - self.centre[1]) / self.radius);
        x * x + y * y
    }

    /// Distance from the centre, px, at an angle from the axis, radians.
    pub(crate) fn distance_at(&self, angle: f64) -> f64 {
        let t = angle / self.half_angle;
        let [k1, k2, k3] = self.polynomial;
        self.radius * t * (k1 + t * t * (k2 + t * t * k3)) / (k1 + k2 + k3)
    }
}

/// Fall-off at the square of a distance from the centre, stops.
pub(crate) fn fall_off([c1, c2, c3]: [f64; 3], square_radii: f64) -> f64 {
    square_radii * (c1 + square_radii * (c2 + square_radii * c3))
}

/// A frame with two image circles.
#[derive(Clone, Debug, PartialEq)]
pub struct DualFisheye {
    /// Width of the frame, px.
    pub width: u32,
    /// Height of the frame, px.
    pub height: u32,
    /// Width of the zone in which the weight of a lens falls to zero, radians.
    pub blend: f64,
    /// The two lenses.
    pub lenses: [Lens; 2],
}

/// Valid keys of a lens file, and of a lens in it.
const KEYS: [&str; 4] = ["width", "height", "blend_degrees", "lenses"];
const LENS_KEYS: [&str; 10] =
    ["cx", "cy", "radius", "half_angle", "polynomial", "yaw", "pitch", "roll", "gain", "vignetting"];

#[derive(Deserialize)]
struct RawFile {
    width: u32,
    height: u32,
    #[serde(default = "default_blend")]
    blend_degrees: f64,
    lenses: Vec<RawLens>,
}

fn default_blend() -> f64 {
    5.0
}

fn equidistant() -> [f64; 3] {
    [1.0, 0.0, 0.0]
}

fn unit_gain() -> [f64; 3] {
    [1.0; 3]
}

#[derive(Deserialize)]
struct RawLens {
    cx: f64,
    cy: f64,
    radius: f64,
    half_angle: f64,
    #[serde(default = "equidistant")]
    polynomial: [f64; 3],
    #[serde(default)]
    yaw: f64,
    #[serde(default)]
    pitch: f64,
    #[serde(default)]
    roll: f64,
    #[serde(default = "unit_gain")]
    gain: [f64; 3],
    #[serde(default)]
    vignetting: [[f64; 3]; 3],
}

/// Why a lens file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct LensFileError {
    /// The lens file.
    pub path: PathBuf,
    /// The problem.
    pub problem: LensError,
}

/// A problem in a lens file. Lenses count from 0.
#[derive(Debug, thiserror::Error)]
pub enum LensError {
    /// The file cannot be read.
    #[error("read: {0}")]
    Read(String),
    /// Not JSON, or of the wrong types.
    #[error("{0}")]
    Syntax(String),
    /// Unknown key.
    #[error("{place}{key}: unknown key{}", nearest.map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownKey {
        /// Path of the object that contains it, with a trailing dot.
        place: String,
        /// The unknown key.
        key: String,
        /// The most similar valid key.
        nearest: Option<&'static str>,
    },
    /// Width or height of the frame is out of range, px.
    #[error("width, height: {0}x{1} px (expected 16..16384)")]
    Size(u32, u32),
    /// Width of the blend zone is out of range, degrees.
    #[error("blend_degrees: {0} (expected 0..45)")]
    Blend(f64),
    /// The number of lenses is not 2.
    #[error("lenses: {0} of them (expected 2)")]
    LensCount(usize),
    /// A number of a lens is not finite or too large.
    #[error("lenses[{0}]: a number is not finite or not below 1e6")]
    Number(usize),
    /// Radius or half angle of a lens is out of range.
    #[error("lenses[{0}]: radius {1} px and half_angle {2} degrees (expected at least 1 px, 1..140)")]
    RadiusOrAngle(usize, f64, f64),
    /// A gain of a lens is out of range.
    #[error("lenses[{0}]: gain {1} (expected above 0, at most 16)")]
    Gain(usize, f64),
    /// A coefficient of the fall-off is negative, or the fall-off at the rim too large.
    #[error(
        "lenses[{0}]: vignetting {1:?} (expected numbers of 0 or more that sum to at most {MAX_VIGNETTING_STOPS} stops)"
    )]
    Vignetting(usize, [f64; 3]),
    /// The coefficients of a lens sum to 0.
    #[error("lenses[{0}]: polynomial: the coefficients sum to 0")]
    Polynomial(usize),
    /// The mapping is not monotonic: two angles would have the same radius.
    #[error(
        "lenses[{0}]: polynomial: the radius does not grow with the angle all the way to the rim (expected k1 + 3 k2 t² + 5 k3 t⁴ above 0 for t from 0 to 1, over the sum)"
    )]
    NotMonotonic(usize),
}

/// Whether the radius grows with the angle up to the rim. The derivative is a quadratic in t², whose minimum is at an
/// end of the interval or at its vertex.
fn is_monotonic([k1, k2, k3]: [f64; 3]) -> bool {
    let sum = k1 + k2 + k3;
    let slope = |u: f64| (k1 + 3.0 * k2 * u + 5.0 * k3 * u * u) / sum;
    let vertex = (-0.3 * k2 / k3).clamp(0.0, 1.0);
    [0.0, 1.0, vertex].into_iter().filter(|u| u.is_finite()).all(|u| slope(u) > 0.0)
}

impl DualFisheye {
    /// Reads a lens file.
    ///
    /// # Errors
    /// It cannot be read or is invalid.
    pub fn read(path: &Path) -> Result<Self, LensFileError> {
        let read = gausset_io::input::read(path, MAX_FILE_BYTES);
        let parsed = read.map_err(|e| LensError::Read(gausset_io::atomic::plain_reason(&e)));
        let parsed = parsed.and_then(|bytes| Self::parse(&bytes));
        parsed.map_err(|problem| LensFileError { path: path.to_owned(), problem })
    }

    /// Parses the content of a lens file.
    ///
    /// # Errors
    /// The first problem, with its location.
    pub fn parse(bytes: &[u8]) -> Result<Self, LensError> {
        let syntax = |e: serde_json::Error| LensError::Syntax(json_problem(&e));
        check_keys(&serde_json::from_slice(bytes).map_err(syntax)?)?;
        let raw: RawFile = serde_json::from_slice(bytes).map_err(syntax)?;
        let sides = 16..=16_384;
        if !sides.contains(&raw.width) || !sides.contains(&raw.height) {
            return Err(LensError::Size(raw.width, raw.height));
        }
        if !(0.0..=45.0).contains(&raw.blend_degrees) {
            return Err(LensError::Blend(raw.blend_degrees));
        }
        let lens = |(k, l): (usize, &RawLens)| {
            let all = [l.cx, l.cy, l.radius, l.half_angle, l.yaw, l.pitch, l.roll];
            if !all.iter().chain(&l.polynomial).all(|v| v.is_finite() && v.abs() < 1e6) {
                return Err(LensError::Number(k));
            }
            if !(l.radius >= 1.0 && l.half_angle > 1.0 && l.half_angle <= 140.0) {
                return Err(LensError::RadiusOrAngle(k, l.radius, l.half_angle));
            }
            if l.polynomial.iter().sum::<f64>().abs() < 1e-9 {
                return Err(LensError::Polynomial(k));
            }
            if !is_monotonic(l.polynomial) {
                return Err(LensError::NotMonotonic(k));
            }
            if let Some(&gain) = l.gain.iter().find(|gain| !(**gain > 0.0 && **gain <= 16.0)) {
                return Err(LensError::Gain(k, gain));
            }
            let is_fall_off =
                |c: &[f64; 3]| c.iter().all(|v| *v >= 0.0) && c.iter().sum::<f64>() <= MAX_VIGNETTING_STOPS;
            if let Some(&wrong) = l.vignetting.iter().find(|c| !is_fall_off(c)) {
                return Err(LensError::Vignetting(k, wrong));
            }
            Ok(Lens {
                centre: [l.cx, l.cy],
                radius: l.radius,
                half_angle: l.half_angle.to_radians(),
                polynomial: l.polynomial,
                pano_from_lens: rotation(l.yaw, l.pitch, l.roll),
                gain: l.gain,
                vignetting: l.vignetting,
            })
        };
        let [first, second] = raw.lenses.as_slice() else {
            return Err(LensError::LensCount(raw.lenses.len()));
        };
        Ok(Self {
            width: raw.width,
            height: raw.height,
            blend: raw.blend_degrees.to_radians(),
            lenses: [lens((0, first))?, lens((1, second))?],
        })
    }

    /// Content of the lens file, which [`Self::parse`] reads.
    #[must_use]
    pub fn to_json(&self) -> String {
        let places = |value: f64, places: i32| {
            let scale = libm::pow(10.0, f64::from(places));
            // Adding 0 turns -0 into 0.
            libm::round(value * scale) / scale + 0.0
        };
        let lens = |lens: &Lens| {
            let (yaw, pitch, roll) = yaw_pitch_roll(&lens.pano_from_lens);
            let mut value = json!({
                "cx": places(lens.centre[0], 4),
                "cy": places(lens.centre[1], 4),
                "radius": places(lens.radius, 4),
                "half_angle": places(lens.half_angle.to_degrees(), 6),
                "polynomial": lens.polynomial.map(|k| places(k, 9)),
                "yaw": places(yaw, 6),
                "pitch": places(pitch, 6),
                "roll": places(roll, 6),
                "gain": lens.gain.map(|gain| places(gain, 6)),
            });
            if lens.has_vignetting() {
                value["vignetting"] = json!(lens.vignetting.map(|c| c.map(|c| places(c, 6))));
            }
            value
        };
        let file = json!({
            "width": self.width,
            "height": self.height,
            "blend_degrees": places(self.blend.to_degrees(), 3),
            "lenses": [lens(&self.lenses[0]), lens(&self.lenses[1])],
        });
        format!("{file:#}\n")
    }

    /// Gains of red, green and blue of both lenses; `None` if all are 1.
    #[must_use]
    pub fn gains(&self) -> Option<[[f64; 3]; 2]> {
        let gains = [self.lenses[0].gain, self.lenses[1].gain];
        (gains != [[1.0; 3]; 2]).then_some(gains)
    }

    /// Whether the fall-off of a lens is known.
    #[must_use]
    pub fn has_vignetting(&self) -> bool {
        self.lenses.iter().any(Lens::has_vignetting)
    }

    /// Width of the zone that both lenses see, if their axes are opposite, radians; 0 if there is none.
    #[must_use]
    pub fn overlap(&self) -> f64 {
        (self.lenses[0].half_angle + self.lenses[1].half_angle - PI).max(0.0)
    }

    /// Width of the zone in which the weight of a lens falls to zero, radians. Lenses that are dark towards the rim must
    /// not take turns within a few degrees.
    fn blend_width(&self) -> f64 {
        if self.has_vignetting() { self.blend } else { self.blend.max(self.overlap()) }
    }

    /// Left, right, top and bottom of the half of the frame that contains the circle of a lens, px. A circle may be cut
    /// there: beyond is the other lens.
    fn half_of(&self, lens: &Lens) -> [f64; 4] {
        let (w, h) = (f64::from(self.width), f64::from(self.height));
        let half =
            |centre: f64, side: f64| if centre < 0.5 * side { [0.0, 0.5 * side] } else { [0.5 * side, side] };
        let [left, right] = if w > h { half(lens.centre[0], w) } else { [0.0, w] };
        let [top, bottom] = if h > w { half(lens.centre[1], h) } else { [0.0, h] };
        [left, right, top, bottom]
    }

    /// Size of the frame, px.
    #[must_use]
    pub fn canvas(&self) -> [u32; 2] {
        [self.width, self.height]
    }

    /// Pixels around the horizon at the angular resolution of the first lens.
    #[must_use]
    pub fn pixels_around(&self) -> u32 {
        let lens = &self.lenses[0];
        (lens.radius / lens.half_angle * std::f64::consts::TAU).clamp(16.0, 32_768.0) as u32
    }

    /// Position of a direction on the canvas: in one lens, or in both with weights.
    #[must_use]
    pub fn place(&self, direction: [f64; 3]) -> CanvasPosition {
        let [a, b] = &self.lenses;
        let (ua, va, wa) = self.project_in_lens(a, direction);
        let (ub, vb, wb) = self.project_in_lens(b, direction);
        let sum = wa + wb;
        if sum <= 0.0 {
            return CanvasPosition { u: ua, v: va, patch: 0, is_visible: false, second: None };
        }
        let share = wb / sum;
        if share <= 0.0 {
            CanvasPosition { u: ua, v: va, patch: 1, is_visible: true, second: None }
        } else if share >= 1.0 {
            CanvasPosition { u: ub, v: vb, patch: 2, is_visible: true, second: None }
        } else {
            CanvasPosition { u: ua, v: va, patch: 3, is_visible: true, second: Some(([ub, vb], share)) }
        }
    }

    /// The same frame restricted to one lens.
    #[must_use]
    pub fn single_lens(&self, lens: usize) -> Self {
        let mut one = self.clone();
        // A circle infinitely far outside the canvas sees nothing.
        one.lenses[1 - lens].centre = [f64::NEG_INFINITY; 2];
        one
    }

    /// Canvas coordinates and weight of a direction in a lens.
    pub(crate) fn project_in_lens(&self, lens: &Lens, direction: [f64; 3]) -> (f64, f64, f64) {
        let [x, y, z] = se3::transpose_mul_vec(&lens.pano_from_lens, direction);
        let across = libm::sqrt(x * x + y * y);
        let angle = libm::atan2(across, z);
        let r = lens.distance_at(angle);
        let (cos, sin) = if across > 0.0 { (x / across, y / across) } else { (0.0, 0.0) };
        let (w, h) = (f64::from(self.width), f64::from(self.height));
        let (u, v) = (lens.centre[0] + r * cos, lens.centre[1] + r * sin);
        let [left, right, top, bottom] = self.half_of(lens);
        let to_edge = (u - left).min(right - u).min(v - top).min(bottom - v);
        let blend = self.blend_width();
        let weight = if !(to_edge >= 0.0 && angle <= lens.half_angle) {
            0.0
        } else if blend > 0.0 {
            // A circle that the frame cuts fades out towards the cut.
            let to_end = (lens.half_angle - angle).min(to_edge * lens.half_angle / lens.radius);
            (to_end / blend).clamp(0.0, 1.0)
        } else {
            1.0
        };
        (u.clamp(0.5, w - 0.5), v.clamp(0.5, h - 0.5), weight)
    }
}

/// Rejects unknown keys.
fn check_keys(file: &Value) -> Result<(), LensError> {
    let check = |value: &Value, known: &[&'static str], place: String| {
        let keys = value.as_object().into_iter().flat_map(|object| object.keys());
        let Some(key) = keys.clone().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        // Keys of malicious files can be as long as the file.
        let key: String = key.chars().take(64).collect();
        let distances = known.iter().map(|known| (strsim::levenshtein(&key, known), *known));
        let nearest = distances.min().filter(|(distance, _)| *distance <= key.chars().count().max(3) / 2);
        Err(LensError::UnknownKey { place, key, nearest: nearest.map(|(_, known)| known) })
    };
    check(file, &KEYS, String::new())?;
    let lenses = file.get("lenses").and_then(Value::as_array);
    lenses
        .into_iter()
        .flatten()
        .enumerate()
        .try_for_each(|(k, lens)| check(lens, &LENS_KEYS, format!("lenses[{k}].")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENSES: &str = r#"{ "width": 400, "height": 200, "lenses": [
        { "cx": 100, "cy": 100, "radius": 100, "half_angle": 100 },
        { "cx": 300, "cy": 100, "radius": 100, "half_angle": 100, "yaw": 180 } ] }"#;

    #[test]
    fn axes_land_in_the_centres_and_the_rim_is_shared() {
        let f = DualFisheye::parse(LENSES.as_bytes()).unwrap();
        let front = f.place([0.0, 0.0, 1.0]);
        assert!((front.u - 100.0).abs() + (front.v - 100.0).abs() < 1e-9 && front.second.is_none());
        let back = f.place([0.0, 0.0, -1.0]);
        assert!((back.u - 300.0).abs() < 1e-9);
        // At 90 degrees both lenses have equal weight, at 90/100 of the radius.
        let side = f.place([1.0, 0.0, 0.0]);
        assert!((side.u - 190.0).abs() < 1e-9);
        let (second, share) = side.second.unwrap();
        assert!((second[0] - 210.0).abs() < 1e-9 && (share - 0.5).abs() < 1e-9);
    }

    #[test]
    fn without_a_fall_off_the_lenses_take_turns_over_their_whole_overlap() {
        let share_at = |file: &DualFisheye, degrees: f64| {
            let (s, c) = (degrees.to_radians().sin(), degrees.to_radians().cos());
            file.place([s, 0.0, c]).second.map_or(f64::from(u8::from(degrees > 90.0)), |(_, share)| share)
        };
        // Both see 80 to 100 degrees from the first axis.
        let blind = DualFisheye::parse(LENSES.as_bytes()).unwrap();
        let known =
            LENSES.replacen("\"yaw\"", "\"vignetting\": [[0, 0, 1], [0, 0, 1], [0, 0, 1]], \"yaw\"", 1);
        let known = DualFisheye::parse(known.as_bytes()).unwrap();
        for (degrees, wide, narrow) in [
            (79.9, 0.0, 0.0),
            (85.0, 0.25, 0.5),
            (90.0, 0.5, 0.5),
            (95.0, 0.75, 0.5),
            (97.5, 0.875, 2.0 / 3.0),
        ] {
            assert!((share_at(&blind, degrees) - wide).abs() < 1e-9, "{degrees}");
            assert!((share_at(&known, degrees) - narrow).abs() < 1e-9, "{degrees}");
        }
        // A wider zone stays.
        let wider = DualFisheye::parse(
            LENSES.replacen("\"width\"", "\"blend_degrees\": 30, \"width\"", 1).as_bytes(),
        );
        assert!((share_at(&wider.unwrap(), 95.0) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn a_circle_that_the_frame_cuts_fades_out_and_shows_nothing_of_the_other_lens() {
        // The circle of the first lens reaches 20 px into the half of the second.
        let text = LENSES.replacen("\"radius\": 100", "\"radius\": 120", 1);
        let file = DualFisheye::parse(text.as_bytes()).unwrap();
        let at = |degrees: f64| {
            let (s, c) = (degrees.to_radians().sin(), degrees.to_radians().cos());
            file.project_in_lens(&file.lenses[0], [s, 0.0, c])
        };
        // 83.3 degrees is the edge of the half, at 100 px.
        let (u, _, weight) = at(82.0);
        assert!(u < 200.0 && weight > 0.0 && weight < 0.1, "{u} {weight}");
        assert_eq!((at(84.0).2, at(95.0).2), (0.0, 0.0));
        assert!(at(60.0).2 == 1.0);
    }

    #[test]
    fn the_text_of_a_lens_without_a_fall_off_is_that_of_earlier_versions() {
        let file = DualFisheye::parse(LENSES.as_bytes()).unwrap();
        let text = format!("{:?}", file.lenses[0]);
        assert!(text.starts_with("Lens { centre: [100.0, 100.0], radius: 100.0, half_angle: "), "{text}");
        assert!(text.ends_with("gain: [1.0, 1.0, 1.0] }"), "{text}");
    }

    #[test]
    fn mistakes_in_a_lens_file_are_named() {
        let message = |bytes: &[u8]| DualFisheye::parse(bytes).unwrap_err().to_string();
        let wrong = LENSES.replacen("\"radius\": 100", "\"radius\": 0", 1);
        assert!(message(wrong.as_bytes()).starts_with("lenses[0]: radius 0 px"));
        assert!(message(b"{}").starts_with("line 1: missing field"));
        assert_eq!(message(br#"{"with": 1}"#), "with: unknown key; did you mean width?");
        let wrong = LENSES.replacen("half_angle", "half_angel", 1);
        assert_eq!(message(wrong.as_bytes()), "lenses[0].half_angel: unknown key; did you mean half_angle?");
        let wrong = LENSES.replacen("\"yaw\"", "\"gain\": [1, 0, 1], \"yaw\"", 1);
        assert!(message(wrong.as_bytes()).starts_with("lenses[1]: gain 0"));
        for wrong in ["[1, 2, -0.5]", "[1, 0, 7.5]"] {
            let text = format!("\"vignetting\": [[0, 0, 1], {wrong}, [0, 0, 1]], \"yaw\"");
            let text = LENSES.replacen("\"yaw\"", &text, 1);
            let told = message(text.as_bytes());
            assert!(told.starts_with("lenses[1]: vignetting [1.0, "), "{told}");
            assert!(told.ends_with("(expected numbers of 0 or more that sum to at most 8 stops)"), "{told}");
        }
        // r = t (1 - 5 t²)/-4: falls at first, below 0.
        let wrong = LENSES.replacen("\"yaw\"", "\"polynomial\": [1, -5, 0], \"yaw\"", 1);
        assert!(message(wrong.as_bytes()).starts_with("lenses[1]: polynomial: the radius does not grow"));
        // Not monotonic between centre and rim: 1 - 3.6 u + 3 u² is below 0 at u = 0.6.
        let wrong = LENSES.replacen("\"yaw\"", "\"polynomial\": [1, -1.2, 0.6], \"yaw\"", 1);
        assert!(message(wrong.as_bytes()).starts_with("lenses[1]: polynomial: the radius does not grow"));
        let four =
            LENSES.replacen("} ] }", "}, { \"cx\": 1, \"cy\": 1, \"radius\": 9, \"half_angle\": 90 } ] }", 1);
        assert_eq!(message(four.as_bytes()), "lenses: 3 of them (expected 2)");
    }

    #[test]
    fn a_lens_file_is_read_as_it_was_written() {
        let text = r#"{ "width": 400, "height": 200, "blend_degrees": 3.5, "lenses": [
            { "cx": 100.25, "cy": 99, "radius": 97.5, "half_angle": 98.125, "gain": [1.1, 1, 0.9], "roll": 90 },
            { "cx": 300, "cy": 100, "radius": 98, "half_angle": 97, "polynomial": [1, -0.1, 0.02],
              "vignetting": [[0.1, 0, 2.5], [0, 0, 2], [0.25, 0.5, 1]], "yaw": 179, "pitch": -1.5, "roll": 2 } ] }"#;
        let first = DualFisheye::parse(text.as_bytes()).unwrap();
        let written = first.to_json();
        let again = DualFisheye::parse(written.as_bytes()).unwrap();
        assert_eq!(again.to_json(), written);
        for (a, b) in first.lenses.iter().zip(&again.lenses) {
            let apart =
                (0..9).map(|k| (a.pano_from_lens[k / 3][k % 3] - b.pano_from_lens[k / 3][k % 3]).abs());
            assert!(apart.fold(0.0, f64::max) < 1e-7);
            assert_eq!(
                (a.centre, a.radius, a.gain, a.polynomial, a.vignetting),
                (b.centre, b.radius, b.gain, b.polynomial, b.vignetting)
            );
        }
    }
}
