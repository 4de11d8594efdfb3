//! OpenSfM's `reconstruction.json`, also of OpenDroneMap: a list of reconstructions with cameras, shots and points.
//!
//! ```text
//! shots.NAME.rotation      axis times angle of camera_from_world; x right, y down, z forward, also where the camera's
//!                          projection_type is spherical
//! shots.NAME.translation   of camera_from_world
//! cameras.ID               lengths in longer sides of the image, principal point from its middle; OpenCV's terms
//! ```
//! Source: OpenSfM's documentation, "Reconstruction file format" and "Camera coordinate system", and
//! `opensfm/src/geometry/camera_projections_functions.h`, `camera_distortions_functions.h`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gausset_core::{Pose, se3};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::json::{self, Number, values};
use super::lens::{Distortion, ExportLens, LensUnit, fisheye, perspective};
use super::{Export, ExportError, ExportFrame, GREY, SharedLens, ValueProblem};
use crate::dataset::CameraModel;
use crate::dataset::any_json::AnyNumbers;
use crate::file_problem::FileProblem;
use crate::text::excerpt;

#[derive(Deserialize)]
#[serde(expecting = "a reconstruction with its shots")]
struct Reconstruction {
    #[serde(default)]
    cameras: BTreeMap<String, Camera>,
    shots: BTreeMap<String, Shot>,
    #[serde(default)]
    points: Points,
}

#[derive(Deserialize)]
#[serde(expecting = "a shot with rotation and translation")]
struct Shot {
    rotation: Option<AnyNumbers>,
    translation: Option<AnyNumbers>,
    #[serde(default)]
    camera: String,
}

impl Shot {
    /// Rotation and translation.
    fn values(&self) -> Result<[[f64; 3]; 2], ValueProblem> {
        let rotation = AnyNumbers::list(self.rotation.as_ref(), "rotation")?;
        Ok([rotation, AnyNumbers::list(self.translation.as_ref(), "translation")?])
    }
}

/// What every shot should have: a file without any such shot is refused with the place of the first.
#[derive(Deserialize)]
#[serde(expecting = "a reconstruction with its shots")]
struct StrictReconstruction {
    #[allow(dead_code, reason = "only the error of the first shot is used")]
    shots: BTreeMap<String, StrictShot>,
}

#[derive(Deserialize)]
#[serde(expecting = "a shot with rotation and translation")]
#[allow(dead_code, reason = "only the error of the first shot is used")]
struct StrictShot {
    rotation: [Number; 3],
    translation: [Number; 3],
}

/// Values of a camera: text, numbers, and what other versions add.
#[derive(Deserialize)]
#[serde(untagged)]
enum CameraValue {
    Number(Number),
    Text(String),
    Other(IgnoredAny),
}

type Camera = BTreeMap<String, CameraValue>;

/// Position and colour of each point.
#[derive(Default)]
struct Points(Vec<[[f64; 3]; 2]>);

#[derive(Deserialize)]
#[serde(expecting = "a point with coordinates")]
struct RawPoint {
    coordinates: [Number; 3],
    color: Option<[Number; 3]>,
}

impl<'de> Deserialize<'de> for Points {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Points;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("points by their id")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Points, A::Error> {
                let mut all = Vec::new();
                while let Some((_, point)) = map.next_entry::<IgnoredAny, RawPoint>()? {
                    all.push([values(point.coordinates), point.color.map_or(GREY, values)]);
                }
                Ok(Points(all))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

/// Parses the largest reconstruction, shots sorted by name; shots of the others count as unregistered.
///
/// # Errors
/// Another format, or no shot has a pose.
pub fn parse(bytes: &[u8]) -> Result<Export, FileProblem> {
    let mut all: Vec<Reconstruction> = list(bytes)?;
    let count = all.len();
    let largest = (0..count).rev().max_by_key(|&k| all.get(k).map_or(0, |r| r.shots.len()));
    let Some(largest) = largest else { return Err(FileProblem::new("reconstructions", "none")) };
    let best = all.swap_remove(largest);
    let lenses: BTreeMap<String, SharedLens> =
        best.cameras.iter().map(|(id, camera)| (id.clone(), Arc::new(lens(id, camera)))).collect();
    let mut found = Export { chosen: (count > 1).then_some((count, largest)), ..Export::default() };
    if !best.shots.is_empty() && best.shots.values().all(|shot| shot.values().is_err()) {
        list::<StrictReconstruction>(bytes)?;
    }
    for (name, shot) in best.shots {
        let pose = shot
            .values()
            .map_err(ExportError::from)
            .and_then(|[rotation, translation]| Ok(Pose::from_matrix(se3::so3_exp(rotation), translation)?));
        let camera = shot.camera;
        let lens = lenses.get(&camera).cloned().unwrap_or_else(|| {
            let name = format!("OpenSfM's camera \"{}\"", excerpt(&camera));
            Arc::new(Err(ValueProblem::new(name, "is not in the file").into()))
        });
        found.frames.push(ExportFrame { name, pose, lens });
    }
    for [position, colour] in best.points.0 {
        found.add_point(position, colour);
    }
    found.unregistered = all.into_iter().flat_map(|r| r.shots.into_keys()).collect();
    found.unregistered.sort();
    Ok(found)
}

/// The reconstructions of a file: a list, or one alone.
fn list<T: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<T>, FileProblem> {
    if json::is_object(bytes) { json::parse(bytes).map(|one| vec![one]) } else { json::parse(bytes) }
}

/// The lens of a camera.
fn lens(id: &str, camera: &Camera) -> Result<ExportLens, ExportError> {
    let of_camera = |problem| {
        let lens = format!("OpenSfM's camera \"{}\": ", excerpt(id));
        ExportError::lens(lens, problem, "use the pictures that `undistort` writes")
    };
    let number = |name: &str| match camera.get(name) {
        Some(CameraValue::Number(Number(value))) => Some(*value),
        _ => None,
    };
    let or_0 = |name: &str| number(name).unwrap_or(0.0);
    let size = match (number("width"), number("height")) {
        (Some(width), Some(height)) => Some(json::size(Number(width), Number(height)).map_err(of_camera)?),
        _ => None,
    };
    let kind = match camera.get("projection_type") {
        Some(CameraValue::Text(kind)) => kind.as_str(),
        _ => "perspective",
    };
    if matches!(kind, "spherical" | "equirectangular") {
        return Ok(ExportLens::panorama(size));
    }
    let Some(fx) = number("focal_x").or_else(|| number("focal")) else {
        return Err(of_camera(ValueProblem::new("focal length", "is missing")));
    };
    let focal = [fx, number("focal_y").unwrap_or(fx)];
    let centre = [or_0("c_x"), or_0("c_y")];
    let k: [f64; 6] = ["k1", "k2", "k3", "k4", "k5", "k6"].map(or_0);
    let p = [or_0("p1"), or_0("p2")];
    let terms =
        |count: usize, p| Distortion { k: std::array::from_fn(|i| if i < count { k[i] } else { 0.0 }), p };
    let (model, params) = match kind {
        "perspective" | "radial" => perspective(focal, centre, terms(2, [0.0; 2])).map_err(of_camera)?,
        "simple_radial" => perspective(focal, centre, terms(1, [0.0; 2])).map_err(of_camera)?,
        "brown" => perspective(focal, centre, terms(3, p)).map_err(of_camera)?,
        "fisheye" => fisheye(focal, centre, terms(2, [0.0; 2])),
        "fisheye_opencv" => fisheye(focal, centre, terms(4, [0.0; 2])),
        "fisheye62" if k[4] == 0.0 && k[5] == 0.0 => fisheye(focal, centre, terms(4, p)),
        "fisheye62" if p == [0.0; 2] => {
            let params = [&focal[..], &centre, &k, &[0.0; 6]].concat();
            (CameraModel::RadTanThinPrismFisheye, params)
        }
        other => {
            let kind = format!("type {}", excerpt(other));
            return Err(of_camera(ValueProblem::new(kind, "has no COLMAP model with the same terms")));
        }
    };
    Ok(ExportLens { model, size, unit: LensUnit::LongerSide, params })
}
