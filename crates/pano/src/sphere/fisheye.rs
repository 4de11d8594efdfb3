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
//! - `blend_degrees`: where both lenses see a direction, the weight of each falls to zero over its last degrees.
//! - `gain: [r, g, b]`: factors of linear light that equalise the lenses, for frames from which they cannot be
//!   estimated ([`crate::cut::equalise`]).
//!
//! The two lens centres are some centimetres apart, so near objects appear twice in the overlap. [`crate::source::calibrate`]
//! makes lens files. Not tested with files of a real camera, because manufacturers' calibrations are not published.

use std::path::{Path, PathBuf};

use gausset_core::se3::{self, Mat3};
use gausset_io::text::json_problem;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sphere::canvas_position::CanvasPosition;
use crate::sphere::geometry::{rotation, yaw_pitch_roll};

/// Maximum size of a lens file, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A fisheye lens.
#[derive(Clone, Debug, PartialEq)]
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
const LENS_KEYS: [&str; 9] =
    ["cx", "cy", "radius", "half_angle", "polynomial", "yaw", "pitch", "roll", "gain"];

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
            Ok(Lens {
                centre: [l.cx, l.cy],
                radius: l.radius,
                half_angle: l.half_angle.to_radians(),
                polynomial: l.polynomial,
                pano_from_lens: rotation(l.yaw, l.pitch, l.roll),
                gain: l.gain,
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
            json!({
                "cx": places(lens.centre[0], 4),
                "cy": places(lens.centre[1], 4),
                "radius": places(lens.radius, 4),
                "half_angle": places(lens.half_angle.to_degrees(), 6),
                "polynomial": lens.polynomial.map(|k| places(k, 9)),
                "yaw": places(yaw, 6),
                "pitch": places(pitch, 6),
                "roll": places(roll, 6),
                "gain": lens.gain.map(|gain| places(gain, 6)),
            })
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
        let t = angle / lens.half_angle;
        let [k1, k2, k3] = lens.polynomial;
        let r = lens.radius * t * (k1 + t * t * (k2 + t * t * k3)) / (k1 + k2 + k3);
        let (cos, sin) = if across > 0.0 { (x / across, y / across) } else { (0.0, 0.0) };
        let (w, h) = (f64::from(self.width), f64::from(self.height));
        let (u, v) = (lens.centre[0] + r * cos, lens.centre[1] + r * sin);
        let inside = (0.0..=w).contains(&u) && (0.0..=h).contains(&v) && t <= 1.0;
        let weight = if !inside {
            0.0
        } else if self.blend > 0.0 {
            ((lens.half_angle - angle) / self.blend).clamp(0.0, 1.0)
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
              "yaw": 179, "pitch": -1.5, "roll": 2 } ] }"#;
        let first = DualFisheye::parse(text.as_bytes()).unwrap();
        let written = first.to_json();
        let again = DualFisheye::parse(written.as_bytes()).unwrap();
        assert_eq!(again.to_json(), written);
        for (a, b) in first.lenses.iter().zip(&again.lenses) {
            let apart =
                (0..9).map(|k| (a.pano_from_lens[k / 3][k % 3] - b.pano_from_lens[k / 3][k % 3]).abs());
            assert!(apart.fold(0.0, f64::max) < 1e-7);
            assert_eq!(
                (a.centre, a.radius, a.gain, a.polynomial),
                (b.centre, b.radius, b.gain, b.polynomial)
            );
        }
    }
}
