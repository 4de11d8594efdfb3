//! Sets of views that a panorama is cut into.
//!
//! A view's number is its position in the list; view 0 is the reference sensor of the rig. A layout file is a JSON list
//! of objects with `yaw` and `pitch` and, where they differ from the defaults, `name`, `roll`, `hfov`, `width`,
//! `height`.

use std::path::{Path, PathBuf};

use gausset_io::text::one_line;
use serde::Deserialize;

use crate::sphere::geometry::View;

/// Largest number of views in a layout.
pub const MAX_VIEWS: usize = 256;
/// Largest layout file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A named layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 8 views around the horizon, 90 degrees: the default for alignment.
    Ring8,
    /// 8 views around the horizon, 110 degrees.
    Ring8Wide,
    /// 12 views around the horizon, 110 degrees.
    Ring12Wide,
    /// 4 views around the horizon, 90 degrees.
    Ring4,
    /// 8 around the horizon, 4 at +45 and 4 at -45 degrees; 110 degrees wide.
    Dome16,
    /// 9 around the horizon, 4 at +30 and 4 at -30 degrees; 120 degrees wide.
    Dense17,
    /// The faces of a cube: the default for training.
    Cube6,
    /// 4 around the horizon and 4 at -30 degrees: 81.20 % of the sphere.
    Cube8,
    /// `cube8` with a view straight up and one straight down.
    Cube8Full,
    /// Exactly COLMAP's `perspective_overlapping`.
    Colmap12,
    /// `ring8` with a view straight up and one straight down.
    Ring8Caps,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 11] = [
        Self::Ring8,
        Self::Ring8Wide,
        Self::Ring12Wide,
        Self::Ring4,
        Self::Dome16,
        Self::Dense17,
        Self::Cube6,
        Self::Cube8,
        Self::Cube8Full,
        Self::Colmap12,
        Self::Ring8Caps,
    ];

    /// Stable name, as used in options and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring8 => "ring8",
            Self::Ring8Wide => "ring8-110",
            Self::Ring12Wide => "ring12-110",
            Self::Ring4 => "ring4",
            Self::Dome16 => "dome16",
            Self::Dense17 => "dense17",
            Self::Cube6 => "cube6",
            Self::Cube8 => "cube8",
            Self::Cube8Full => "cube8-full",
            Self::Colmap12 => "colmap12",
            Self::Ring8Caps => "ring8-caps",
        }
    }

    /// The layout with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// Default horizontal field of view of the views, degrees.
    #[must_use]
    pub const fn hfov(self) -> f64 {
        match self {
            Self::Ring8
            | Self::Ring4
            | Self::Cube6
            | Self::Cube8
            | Self::Cube8Full
            | Self::Colmap12
            | Self::Ring8Caps => 90.0,
            Self::Ring8Wide | Self::Ring12Wide | Self::Dome16 => 110.0,
            Self::Dense17 => 120.0,
        }
    }

    /// Yaw and pitch of each view, degrees.
    #[must_use]
    pub fn directions(self) -> Vec<(f64, f64)> {
        let ring = |count: u32, first: f64, pitch: f64| {
            (0..count).map(move |k| (first + 360.0 / f64::from(count) * f64::from(k), pitch))
        };
        match self {
            Self::Ring8 | Self::Ring8Wide => ring(8, 0.0, 0.0).collect(),
            Self::Ring12Wide => ring(12, 0.0, 0.0).collect(),
            Self::Ring4 => ring(4, 0.0, 0.0).collect(),
            Self::Dome16 => ring(8, 0.0, 0.0).chain(ring(4, 0.0, 45.0)).chain(ring(4, 0.0, -45.0)).collect(),
            Self::Dense17 => ring(9, 0.0, 0.0).chain(ring(4, 0.0, 30.0)).chain(ring(4, 0.0, -30.0)).collect(),
            Self::Cube6 => ring(4, 0.0, 0.0).chain([(0.0, 90.0), (0.0, -90.0)]).collect(),
            Self::Cube8 => ring(4, 0.0, 0.0).chain(ring(4, 0.0, -30.0)).collect(),
            Self::Cube8Full => {
                ring(4, 0.0, 0.0).chain(ring(4, 0.0, -30.0)).chain([(0.0, 90.0), (0.0, -90.0)]).collect()
            }
            Self::Colmap12 => {
                ring(4, 0.0, -35.0).chain(ring(4, 0.0, 0.0)).chain(ring(4, 45.0, 35.0)).collect()
            }
            Self::Ring8Caps => ring(8, 0.0, 0.0).chain([(0.0, 90.0), (0.0, -90.0)]).collect(),
        }
    }

    /// The views at `width` x `height` px; `hfov` replaces the default field of view.
    #[must_use]
    pub fn views(self, width: u32, height: u32, hfov: Option<f64>) -> Vec<View> {
        let hfov = hfov.unwrap_or(self.hfov());
        self.directions()
            .into_iter()
            .enumerate()
            .map(|(k, (yaw, pitch))| View { name: view_name(k), yaw, pitch, roll: 0.0, hfov, width, height })
            .collect()
    }

    /// View size that keeps the resolution of a panorama of this width: its angular density at the centre of a view,
    /// rounded to a multiple of 16 px.
    #[must_use]
    pub fn native_view_side(self, pano_width: u32, hfov: Option<f64>) -> u32 {
        if self == Self::Colmap12 {
            // COLMAP: int(W · 90/360).
            return pano_width / 4;
        }
        native_view_side(pano_width, hfov.unwrap_or(self.hfov()))
    }
}

/// Size of square views with this field of view that has a quarter of the panorama's width per 90 degrees. That is 1.27
/// source pixels per pixel at the centre and 0.64 at the edge.
#[must_use]
pub fn native_view_side(pano_width: u32, hfov: f64) -> u32 {
    let scale = (0.5 * hfov).to_radians();
    let side = f64::from(pano_width) / 4.0 * libm::tan(scale);
    ((side / 16.0).round().clamp(4.0, 1024.0) as u32) * 16
}

/// Folder name of a view, such as `view07`.
#[must_use]
pub fn view_name(index: usize) -> String {
    format!("view{index:02}")
}

/// Why a layout file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The file could not be read.
    #[error("{}: read: {reason}", path.display())]
    Read {
        /// The layout file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The file is not a list of views.
    #[error("{}: line {line}: {problem} (expected a JSON list of objects with yaw and pitch)", path.display())]
    Syntax {
        /// The layout file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// A value is out of range.
    #[error("{}: view {index}: {problem}", path.display())]
    View {
        /// The layout file.
        path: PathBuf,
        /// Index of the view, from 0.
        index: usize,
        /// The problem.
        problem: ViewError,
    },
}

/// Why a view or a list of views is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ViewError {
    /// The list has this many views.
    #[error("{0} views (expected 1..{MAX_VIEWS})")]
    Count(usize),
    /// Two views have this name.
    #[error("name `{0}` is used twice")]
    DuplicateName(String),
    /// An angle is out of range.
    #[error("yaw, pitch and roll must be finite degrees")]
    NonFiniteAngle,
    /// The horizontal field of view (degrees) is out of range.
    #[error("hfov is {0} (expected more than 0 and at most 170 degrees)")]
    Hfov(f64),
    /// The width or height (px) is out of range.
    #[error("size is {0}x{1} px (expected 16..16384 a side)")]
    Size(u32, u32),
    /// The vertical field of view (degrees) is out of range.
    #[error("vertical field of view is {0:.1} degrees (expected at most 176)")]
    Vfov(f64),
    /// The name contains other characters than letters, digits, `-` and `_`, or is too long or empty.
    #[error("name must be 1 to 64 letters, digits, - or _")]
    Name,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawView {
    name: Option<String>,
    yaw: f64,
    pitch: f64,
    #[serde(default)]
    roll: f64,
    hfov: Option<f64>,
    width: Option<u32>,
    height: Option<u32>,
}

/// Reads views from a JSON file. `side` and `hfov` are the defaults of views that do not specify them.
///
/// # Errors
/// The file cannot be read or is not a list of views; angles that are not finite, a field of view outside (0, 170],
/// sizes outside 16..=16384, names that are invalid or not unique.
pub fn read_views(path: &Path, side: u32, hfov: f64) -> Result<Vec<View>, LayoutError> {
    let bytes = gausset_io::input::read(path, MAX_FILE_BYTES).map_err(|e| LayoutError::Read {
        path: path.to_owned(),
        reason: gausset_io::atomic::plain_reason(&e),
    })?;
    parse_views(&bytes, path, side, hfov)
}

/// Like [`read_views`], from bytes; `path` is for messages.
///
/// # Errors
/// As [`read_views`].
pub fn parse_views(bytes: &[u8], path: &Path, side: u32, hfov: f64) -> Result<Vec<View>, LayoutError> {
    let raw: Vec<RawView> = serde_json::from_slice(bytes).map_err(|e| LayoutError::Syntax {
        path: path.to_owned(),
        line: e.line(),
        // serde quotes unknown field names, which can be of any length.
        problem: one_line(e.to_string().split(" at line").next().unwrap_or_default())
            .chars()
            .take(240)
            .collect(),
    })?;
    let bad = |index, problem| Err(LayoutError::View { path: path.to_owned(), index, problem });
    if raw.is_empty() || raw.len() > MAX_VIEWS {
        return bad(0, ViewError::Count(raw.len()));
    }
    let mut views: Vec<View> = Vec::with_capacity(raw.len());
    for (index, raw) in raw.into_iter().enumerate() {
        let view = View {
            name: raw.name.unwrap_or_else(|| view_name(index)),
            yaw: raw.yaw,
            pitch: raw.pitch,
            roll: raw.roll,
            hfov: raw.hfov.unwrap_or(hfov),
            width: raw.width.unwrap_or(side),
            height: raw.height.or(raw.width).unwrap_or(side),
        };
        if let Err(problem) = check_view(&view) {
            return bad(index, problem);
        }
        if views.iter().any(|other| other.name == view.name) {
            return bad(index, ViewError::DuplicateName(view.name));
        }
        views.push(view);
    }
    Ok(views)
}

/// Checks the values of a view.
///
/// # Errors
/// The first value that is out of range.
pub fn check_view(view: &View) -> Result<(), ViewError> {
    if ![view.yaw, view.pitch, view.roll].iter().all(|a| a.is_finite() && a.abs() <= 3600.0) {
        return Err(ViewError::NonFiniteAngle);
    }
    if !(view.hfov > 0.0 && view.hfov <= 170.0) {
        return Err(ViewError::Hfov(view.hfov));
    }
    let sides = 16..=16_384;
    if !sides.contains(&view.width) || !sides.contains(&view.height) {
        return Err(ViewError::Size(view.width, view.height));
    }
    if view.vfov() > 176.0 {
        return Err(ViewError::Vfov(view.vfov()));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if view.name.is_empty() || view.name.len() > 64 || !view.name.chars().all(plain) {
        return Err(ViewError::Name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_the_published_directions() {
        let count = |l: Layout| l.directions().len();
        assert_eq!(Layout::ALL.map(count), [8, 8, 12, 4, 16, 17, 6, 8, 10, 12, 10]);
        let colmap = Layout::Colmap12.directions();
        assert_eq!(colmap[1], (90.0, -35.0));
        assert_eq!(colmap[8], (45.0, 35.0));
        assert_eq!(Layout::Cube6.directions()[4], (0.0, 90.0));
        assert_eq!(Layout::from_name("dome16"), Some(Layout::Dome16));
    }

    #[test]
    fn natural_sides_are_a_quarter_of_the_width_at_90_degrees() {
        assert_eq!(Layout::Ring8.native_view_side(7680, None), 1920);
        assert_eq!(Layout::Ring8.native_view_side(2304, None), 576);
    }

    #[test]
    fn mistakes_in_a_views_file_are_named_with_their_view() {
        let parse = |text: &str| parse_views(text.as_bytes(), Path::new("v.json"), 64, 90.0);
        assert_eq!(parse(r#"[{"yaw":0,"pitch":10,"hfov":60}]"#).unwrap()[0].hfov, 60.0);
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(message("[]"), "v.json: view 0: 0 views (expected 1..256)");
        assert_eq!(
            message(r#"[{"yaw":0,"pitch":1},{"yaw":0,"pitch":1,"hfov":190}]"#),
            "v.json: view 1: hfov is 190 (expected more than 0 and at most 170 degrees)"
        );
        assert!(message(r#"[{"yaw":0}]"#).starts_with("v.json: line 1: missing field `pitch`"));
        assert!(message(r#"[{"yaw":0,"pitch":0,"name":"../x"}]"#).contains("name must be"));
        assert!(message("{").starts_with("v.json: line 1"));
    }
}
