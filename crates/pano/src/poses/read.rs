//! Detects the format of pose files by path and content, and reads them.

use std::collections::BTreeMap;
use std::path::Path;

use gausset_core::{Pose, se3};
use gausset_io::atomic::plain_reason;
use gausset_io::dataset::CameraModel;
use gausset_io::dataset::colmap::{ModelFolder, Observations};
use gausset_io::dataset::exports::realitycapture;
use gausset_io::dataset::transforms::{self, Transforms};
use gausset_io::input;
use gausset_io::text::{excerpt, quote};
use serde::de::IgnoredAny;

use super::{
    EXPECTED, FileProblem, NamedPose, PoseFileError, Trajectory, WorldTransform, invalid_pose, json_problem,
};
use super::{metashape, openmvg, opensfm, sidecar, table, tum};
use crate::source::json::with_expected;
use crate::sphere::aligned::AlignedPoses;

/// Maximum size of a pose file, bytes.
const MAX_BYTES: u64 = 512 << 20;
/// Maximum size of a sidecar, bytes.
const MAX_SIDECAR_BYTES: u64 = 4 << 20;
/// File that `pano align` writes.
const POSES_FILE: &str = "poses.json";

/// Reads poses of any supported format.
///
/// # Errors
/// The file is missing, of unknown format, malformed, or has no poses.
pub fn read(path: &Path) -> Result<Trajectory, PoseFileError> {
    let found = if path.is_dir() { read_folder(path)? } else { read_file(path)? };
    if found.poses.is_empty() {
        return Err(PoseFileError::NoPoses(path.to_owned()));
    }
    Ok(found)
}

/// Finds the COLMAP model of a folder: in the folder itself, in `sparse/0` or in `sparse`.
///
/// # Errors
/// Files of the model are missing.
pub fn colmap_model(folder: &Path) -> Result<Option<ModelFolder>, PoseFileError> {
    for place in [folder.to_owned(), folder.join("sparse").join("0"), folder.join("sparse")] {
        if let Some(model) = ModelFolder::find(&place)? {
            return Ok(Some(model));
        }
    }
    Ok(None)
}

fn read_folder(folder: &Path) -> Result<Trajectory, PoseFileError> {
    if folder.join(POSES_FILE).is_file() {
        return read_alignment(&folder.join(POSES_FILE));
    }
    if let Some(model) = colmap_model(folder)? {
        return read_colmap(&model);
    }
    if folder.join("transforms.json").is_file() {
        return read_file(&folder.join("transforms.json"));
    }
    let sidecars = realitycapture::sidecars(folder);
    if sidecars.is_empty() {
        return Err(PoseFileError::UnknownFormat(folder.to_owned()));
    }
    let mut found = Trajectory::new("RealityCapture XMP", Vec::new());
    for (name, path) in sidecars {
        let text = read_text(&path, MAX_SIDECAR_BYTES)?;
        let pose = sidecar::parse(&text)
            .map_err(|problem| PoseFileError::Malformed { path: path.clone(), problem })?;
        match pose {
            Some(pose) => found.poses.push(NamedPose { name, pose, frame: found.poses.len() as u32 }),
            None => found.unregistered.push(name),
        }
    }
    Ok(found)
}

fn read_file(path: &Path) -> Result<Trajectory, PoseFileError> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let named = |found: Result<Trajectory, FileProblem>| {
        found.map_err(|problem| PoseFileError::Malformed { path: path.to_owned(), problem })
    };
    match extension.as_str() {
        "json" => read_json(path),
        "xml" => named(metashape::parse(&read_text(path, MAX_BYTES)?)),
        "csv" => named(table::parse(&read_bytes(path, MAX_BYTES)?)),
        "txt" | "tum" => named(tum::parse(&read_text(path, MAX_BYTES)?)),
        _ => {
            // Report a missing file as missing rather than as an unknown format.
            read_bytes(path, MAX_BYTES)?;
            Err(PoseFileError::UnknownFormat(path.to_owned()))
        }
    }
}

/// JSON formats are distinguished by their keys.
fn read_json(path: &Path) -> Result<Trajectory, PoseFileError> {
    let bytes = read_bytes(path, MAX_BYTES)?;
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
    let malformed = |problem| PoseFileError::Malformed { path: path.to_owned(), problem };
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[') {
        return opensfm::parse(bytes).map_err(malformed);
    }
    let keys: BTreeMap<String, IgnoredAny> =
        serde_json::from_slice(bytes).map_err(|e| malformed(json_problem(bytes, &e)))?;
    let has = |key: &str| keys.contains_key(key);
    if has("extrinsics") {
        openmvg::parse(bytes).map_err(malformed)
    } else if has("tool") && has("frames") {
        read_alignment(path)
    } else if has("frames") {
        let file = transforms::parse(bytes)
            .map_err(|(place, problem)| malformed(FileProblem::new(place, problem)))?;
        from_transforms(&file).map_err(malformed)
    } else {
        let found: Vec<String> = keys.keys().take(5).map(|key| excerpt(key)).collect();
        let found = if found.is_empty() { "no key".to_owned() } else { found.join(", ") };
        let problem = format!(
            "unknown (expected frames, as in transforms.json and poses.json, or extrinsics, as in sfm_data.json; found {found})"
        );
        Err(malformed(FileProblem::new("format", problem)))
    }
}

fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, PoseFileError> {
    input::read(path, limit).map_err(|e| {
        let reason = with_expected(plain_reason(&e), &format!("poses: {EXPECTED}"));
        PoseFileError::Read { path: path.to_owned(), reason }
    })
}

fn read_text(path: &Path, limit: u64) -> Result<String, PoseFileError> {
    let bytes = read_bytes(path, limit)?;
    String::from_utf8(bytes).map(|text| text.trim_start_matches('\u{feff}').to_owned()).map_err(|_| {
        PoseFileError::Read { path: path.to_owned(), reason: "is not UTF-8 (expected text in it)".to_owned() }
    })
}

fn read_alignment(path: &Path) -> Result<Trajectory, PoseFileError> {
    let AlignedPoses { frames, is_metric, earth, applied, .. } = AlignedPoses::read(path)?;
    let mut found =
        Trajectory { is_metric, georeference: earth, applied, ..Trajectory::new("poses.json", Vec::new()) };
    for (moment, frame) in (0..).zip(frames) {
        match frame.pose() {
            Some(pose) => found.poses.push(NamedPose { name: frame.name, pose, frame: moment }),
            None => found.unregistered.push(frame.name),
        }
    }
    Ok(found)
}

/// Poses of a COLMAP model, sorted by name; its frames are numbered in the order of their first images.
fn read_colmap(model: &ModelFolder) -> Result<Trajectory, PoseFileError> {
    let cameras = model.cameras()?;
    let images = model.images(&cameras, Observations::Skip)?;
    let frames = model.frames()?;
    let mut poses = Vec::new();
    for image in images {
        let pose = Pose::from_quaternion(image.quaternion, image.translation).map_err(|problem| {
            let problem = invalid_pose(&image.name, &problem);
            PoseFileError::Malformed { path: model.images_path(), problem }
        })?;
        let moment = frames.get(&image.id).copied().unwrap_or(image.id);
        poses.push(NamedPose { name: image.name, pose, frame: moment });
    }
    poses.sort_by(|a, b| a.name.cmp(&b.name));
    let mut places = BTreeMap::new();
    for pose in &mut poses {
        let next = places.len() as u32;
        pose.frame = *places.entry(pose.frame).or_insert(next);
    }
    let is_sphere = !cameras.is_empty() && cameras.iter().all(|c| c.model == CameraModel::Equirectangular);
    Ok(Trajectory::new(if is_sphere { "COLMAP (panoramas)" } else { "COLMAP" }, poses))
}

/// Poses of a `transforms.json` in its original world: `applied_transform` and `applied_scale` are undone.
fn from_transforms(file: &Transforms) -> Result<Trajectory, FileProblem> {
    let place = "applied_transform";
    let identity = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    let [a, b, c] = file.applied_transform.unwrap_or(identity);
    let linear = [[a[0], a[1], a[2]], [b[0], b[1], b[2]], [c[0], c[1], c[2]]];
    let shift = [a[3], b[3], c[3]];
    let applied = Pose::from_matrix(linear, shift).map_err(|e| FileProblem::new(place, e))?;
    let scale = file.applied_scale.unwrap_or(1.0);
    if !(scale.is_finite() && scale > 0.0) {
        return Err(FileProblem::new("applied_scale", format!("is {scale} (expected more than 0)")));
    }
    let mut poses = Vec::new();
    for (moment, frame) in (0..).zip(&file.frames) {
        let name = frame.file_path.clone();
        let found = frame.pose().map_err(|reason| FileProblem::new(quote(&name), reason))?;
        // x_dataset = scale (L x + t): the camera in the dataset's axes, in units of the original world.
        let unscaled = Pose { translation: found.translation.map(|v| v / scale), ..found };
        let back = se3::mul_vec(&found.rotation, applied.translation);
        let pose = Pose {
            rotation: se3::mul(&unscaled.rotation, &applied.rotation),
            translation: std::array::from_fn(|k| back[k] + unscaled.translation[k]),
        };
        poses.push(NamedPose { name, pose, frame: moment });
    }
    let is_applied = file.applied_transform.is_some() || file.applied_scale.is_some();
    let applied = WorldTransform { transform: file.applied_transform.unwrap_or(identity), scale };
    Ok(Trajectory { applied: is_applied.then_some(applied), ..Trajectory::new("transforms.json", poses) })
}

#[cfg(test)]
mod tests {
    use super::super::examples::{assert_same, poses};
    use super::*;

    #[test]
    fn each_form_is_known_by_its_name_and_content() {
        let folder = tempfile::tempdir().unwrap();
        let sensor = metashape::Sensor { label: "s".into(), size: [8, 4], focal: None };
        let frames: Vec<String> = poses()
            .iter()
            .map(|p| {
                let (q, t) = (p.pose.quaternion(), p.pose.translation);
                format!(r#"{{"name":"p","rotation":{q:?},"translation":{t:?}}}"#)
            })
            .collect();
        let ours = format!(
            r#"{{"tool":"t","input":"","is_metric":false,"points":0,"mean_reprojection_px":0,"track_length":0,"frames":[{}]}}"#,
            frames.join(",")
        );
        for (name, text, form) in [
            ("poses.json", ours, "poses.json"),
            ("a.xml", metashape::write(&[sensor], &poses(), |_| 0), "Metashape XML"),
            ("a.csv", table::write(&poses()), "CSV"),
            ("a.tum", tum::write(&poses()), "TUM"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let found = read(&path).unwrap();
            assert_eq!(found.format, form);
            assert_same(&found.poses, &poses());
        }
        let found = read(folder.path()).unwrap();
        assert_eq!(found.format, "poses.json");
    }

    #[test]
    fn what_was_applied_to_a_dataset_is_undone() {
        // Nerfstudio's rotation of COLMAP's world, and one with a translation and a scale.
        for (applied, scale) in [
            ([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [-0.0, -0.0, -1.0, -0.0]], 1.0),
            ([[0.0, 0.0, 1.0, 5.0], [1.0, 0.0, 0.0, -2.0], [0.0, 1.0, 0.0, 0.5]], 0.25),
        ] {
            let mut frames = Vec::new();
            for NamedPose { name, pose, .. } in poses() {
                let (r, c) = (se3::transpose(&pose.rotation), pose.centre());
                let row = |i: usize| {
                    let [a, b, d, t]: [f64; 4] = applied[i];
                    let turn = |k: usize| a * r[0][k] + b * r[1][k] + d * r[2][k];
                    let at = scale * (a * c[0] + b * c[1] + d * c[2] + t);
                    [turn(0), -turn(1), -turn(2), at]
                };
                frames.push(serde_json::json!({ "file_path": name,
                    "transform_matrix": [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]] }));
            }
            let file = serde_json::json!({ "fl_x": 1.0, "applied_transform": applied, "applied_scale": scale, "frames": frames });
            let found = from_transforms(&transforms::parse(file.to_string().as_bytes()).unwrap()).unwrap();
            assert_same(&found.poses, &poses());
        }
        let bad = |key: &str, value: serde_json::Value| {
            let mut file = serde_json::json!({ "frames": [ { "file_path": "a", "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0]] } ] });
            file[key] = value;
            from_transforms(&transforms::parse(file.to_string().as_bytes()).unwrap()).unwrap_err().to_string()
        };
        assert!(bad("applied_scale", 0.into()).starts_with("applied_scale: is 0"));
        let mirrored = serde_json::json!([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0]]);
        assert!(
            bad("applied_transform", mirrored).starts_with("applied_transform: rotation has determinant -1")
        );
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| {
            let line = read(path).unwrap_err().to_string();
            assert!(!line.contains('\n'), "{line}");
            line
        };
        assert!(refused(&folder.path().join("none.csv")).contains("(expected poses: "));
        assert!(refused(folder.path()).contains("format: unknown"));
        for (name, text, line) in [
            ("a.json", "{}", "format: unknown (expected frames"),
            ("b.json", "{", "JSON: "),
            ("f.json", "{\"w\":1,\"fl_x\":2}", "sfm_data.json; found fl_x, w)"),
            (
                "g.json",
                "{\"frames\":[NaN]}",
                "JSON: line 1: expected value (found NaN, which JSON does not allow",
            ),
            ("h.json", "[3]", "invalid type: integer `3`, expected a reconstruction with its shots"),
            ("i.json", "3", "JSON: line 1: invalid type: integer `3`, expected a map"),
            ("j.json", "\u{feff}{\"frames\":[]}", "frames: no frames (expected at least 1)"),
            ("k.txt", "\u{0}\u{fffd}", "line 1: not 8 finite numbers"),
            ("c.txt", "# nothing\n", "poses: none"),
            ("d.pdf", "x", "format: unknown"),
            ("e.xml", "\u{0}", "XML: "),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let found = refused(&path);
            assert!(found.contains(line), "{found}");
        }
    }
}
