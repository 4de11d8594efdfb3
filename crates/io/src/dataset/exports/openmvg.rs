//! OpenMVG's `sfm_data.json`: views, intrinsics and extrinsics by their ids, and the structure.
//!
//! ```text
//! extrinsics[].value.rotation   camera_from_world, rows; x right, y down, z forward, also of spherical intrinsics
//! extrinsics[].value.center     centre of the camera
//! intrinsics[].value            px; disto_k1, disto_k3, disto_t2 (k1 k2 k3 t1 t2) and fisheye are OpenCV's terms
//! structure[].value.X           position of a point
//! ```
//! cereal writes the name of a type once, with the top bit of its id set, and then the id alone. Base classes nest as
//! `value0`. Source: `openMVG/sfm/sfm_data_io_cereal.cpp`, `openMVG/geometry/pose3_io.hpp`, `openMVG/cameras/`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::json::{self, Number, values};
use super::lens::{Distortion, ExportLens, LensUnit, fisheye, perspective};
use super::{Export, ExportError, ExportFrame, GREY, SharedLens, ValueProblem, pose_from_centre};
use crate::file_problem::FileProblem;
use crate::text::excerpt;

/// Bit of an id whose type name follows.
const NAME_FOLLOWS: u64 = 1 << 31;

#[derive(Deserialize)]
struct File {
    views: Vec<Keyed<ViewValue>>,
    #[serde(default)]
    intrinsics: Vec<Keyed<IntrinsicValue>>,
    extrinsics: Vec<Keyed<Extrinsic>>,
    #[serde(default)]
    structure: Structure,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with key and value")]
struct Keyed<T> {
    #[serde(default)]
    key: u64,
    value: T,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with ptr_wrapper")]
struct ViewValue {
    ptr_wrapper: Wrapper<View>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with data")]
struct Wrapper<T> {
    data: T,
}

#[derive(Deserialize)]
#[serde(expecting = "a view")]
struct View {
    #[serde(default)]
    local_path: String,
    filename: String,
    id_intrinsic: Option<u64>,
    id_pose: u64,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with rotation and center")]
struct Extrinsic {
    rotation: [[Number; 3]; 3],
    center: [Number; 3],
}

#[derive(Deserialize)]
#[serde(expecting = "an intrinsic")]
struct IntrinsicValue {
    #[serde(default)]
    polymorphic_id: u64,
    polymorphic_name: Option<String>,
    ptr_wrapper: Wrapper<Intrinsic>,
}

#[derive(Default, Deserialize)]
#[serde(default, expecting = "the values of an intrinsic")]
struct Intrinsic {
    width: Option<Number>,
    height: Option<Number>,
    focal_length: Option<Number>,
    principal_point: Option<[Number; 2]>,
    disto_k1: Option<[Number; 1]>,
    disto_k3: Option<[Number; 3]>,
    disto_t2: Option<[Number; 5]>,
    fisheye: Option<[Number; 4]>,
    value0: Option<Box<Intrinsic>>,
}

/// Positions of the points.
#[derive(Default)]
struct Structure(Vec<[f64; 3]>);

#[derive(Deserialize)]
#[serde(expecting = "a point with X")]
struct Landmark {
    #[serde(rename = "X")]
    position: [Number; 3],
}

impl<'de> Deserialize<'de> for Structure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Structure;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of points")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Structure, A::Error> {
                let mut all = Vec::new();
                while let Some(point) = items.next_element::<Keyed<Landmark>>()? {
                    all.push(values(point.value.position));
                }
                Ok(Structure(all))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// Parses the views of a scene.
///
/// # Errors
/// Another format.
pub fn parse(bytes: &[u8]) -> Result<Export, FileProblem> {
    let file: File = json::parse(bytes)?;
    let extrinsics: BTreeMap<u64, Extrinsic> =
        file.extrinsics.into_iter().map(|e| (e.key, e.value)).collect();
    let lenses = lenses(file.intrinsics);
    let no_lens: SharedLens = Arc::new(Err(ValueProblem::new("its intrinsic", "is not in the file").into()));
    let mut found = Export::default();
    for view in file.views.into_iter().map(|v| v.value.ptr_wrapper.data) {
        let View { local_path, filename, id_intrinsic, id_pose } = view;
        let name = if local_path.is_empty() { filename } else { format!("{local_path}/{filename}") };
        match extrinsics.get(&id_pose) {
            Some(Extrinsic { rotation, center }) => {
                let pose = pose_from_centre(rotation.map(values), values(*center)).map_err(Into::into);
                let lens = id_intrinsic.and_then(|id| lenses.get(&id)).unwrap_or(&no_lens).clone();
                found.frames.push(ExportFrame { name, pose, lens });
            }
            None => found.unregistered.push(name),
        }
    }
    for position in file.structure.0 {
        found.add_point(position, GREY);
    }
    Ok(found)
}

/// Whether a scene has poses.
pub(super) fn has_poses(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Poses {
        extrinsics: Vec<IgnoredAny>,
    }
    json::parse::<Poses>(bytes).is_ok_and(|scene| !scene.extrinsics.is_empty())
}

/// Lenses by the id of their intrinsic.
fn lenses(intrinsics: Vec<Keyed<IntrinsicValue>>) -> BTreeMap<u64, SharedLens> {
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for Keyed { key, value: IntrinsicValue { polymorphic_id, polymorphic_name, ptr_wrapper } } in intrinsics {
        let id = polymorphic_id & !NAME_FOLLOWS;
        if let Some(name) = polymorphic_name {
            names.insert(id, name);
        }
        let name = names.get(&id).map_or("", String::as_str);
        let lens = lens(name, &ptr_wrapper.data).map_err(|problem| {
            ExportError::lens(format!("OpenMVG's intrinsic {key}: "), problem, "export undistorted pictures")
        });
        all.insert(key, Arc::new(lens));
    }
    all
}

/// A value of an intrinsic, or of the class that it extends.
fn value<T>(of: &Intrinsic, get: fn(&Intrinsic) -> Option<T>) -> Option<T> {
    get(of).or_else(|| of.value0.as_deref().and_then(|base| value(base, get)))
}

fn lens(name: &str, of: &Intrinsic) -> Result<ExportLens, ValueProblem> {
    let size = match (value(of, |i| i.width), value(of, |i| i.height)) {
        (Some(width), Some(height)) => Some(json::size(width, height)?),
        _ => None,
    };
    if name == "spherical" {
        return Ok(ExportLens::panorama(size));
    }
    let known = ["", "pinhole", "pinhole_radial_k1", "pinhole_radial_k3", "pinhole_brown_t2", "fisheye"];
    if !known.contains(&name) {
        let kind = format!("type {}", excerpt(name));
        return Err(ValueProblem::new(kind, "has no COLMAP model with the same terms"));
    }
    let missing = |name: &'static str| move || ValueProblem::new(name, "is missing");
    let focal = value(of, |i| i.focal_length).ok_or_else(missing("focal_length"))?.0;
    let centre = values(value(of, |i| i.principal_point).ok_or_else(missing("principal_point"))?);
    let radial = |[k1, k2, k3]: [f64; 3]| Distortion { k: [k1, k2, k3, 0.0], p: [0.0; 2] };
    let focal = [focal; 2];
    let (model, params) = if let Some(k) = value(of, |i| i.fisheye) {
        fisheye(focal, centre, Distortion { k: values(k), p: [0.0; 2] })
    } else if let Some(terms) = value(of, |i| i.disto_t2) {
        let [k1, k2, k3, t1, t2] = values(terms);
        perspective(focal, centre, Distortion { p: [t1, t2], ..radial([k1, k2, k3]) })?
    } else if let Some(k) = value(of, |i| i.disto_k3) {
        perspective(focal, centre, radial(values(k)))?
    } else if let Some([k1]) = value(of, |i| i.disto_k1) {
        perspective(focal, centre, radial([k1.0, 0.0, 0.0]))?
    } else {
        perspective(focal, centre, Distortion::default())?
    };
    Ok(ExportLens { model, size, unit: LensUnit::Pixel, params })
}
