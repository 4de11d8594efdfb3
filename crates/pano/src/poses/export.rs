//! Export of panorama poses to COLMAP, Nerfstudio and RealityCapture.
//!
//! All exports use the same rotation with which the pixels were sampled ([`View::pano_from_camera`]). Views of one
//! frame share their centre exactly.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gausset_core::Pose;
use gausset_io::dataset::colmap::rigs::{RigFrame, RigModel};
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel, ColmapPoint, ModelFormat};
use gausset_io::dataset::{CameraModel, SourceCamera};
use serde_json::{Value, json};

pub use crate::sphere::aligned::{AlignedPoses, FramePose, Georeference};

use crate::cut::split::{ManifestLine, Naming, SplitDescription};
use crate::poses::landmarks::{Landmark, ViewObservation};
use crate::source::metadata::xmp_packet;
use crate::sphere::aligned::{NamedPose, WorldTransform};
use crate::sphere::geometry::{View, pano_from_level};
use crate::sphere::rig;

/// PINHOLE cameras of a layout, one per view, ids from 1.
fn cameras(views: &[View]) -> Vec<SourceCamera> {
    (1u32..)
        .zip(views)
        .map(|(id, view)| SourceCamera {
            id,
            model: CameraModel::Pinhole,
            width: view.width,
            height: view.height,
            params: vec![
                view.focal(),
                view.focal(),
                0.5 * f64::from(view.width),
                0.5 * f64::from(view.height),
            ],
        })
        .collect()
}

/// Registered frames: index in the description, and pose.
pub(crate) fn registered<'a>(
    description: &'a SplitDescription,
    poses: &'a AlignedPoses,
) -> impl Iterator<Item = (usize, Pose)> + 'a {
    description.frames.iter().enumerate().filter_map(|(index, name)| {
        let pose = poses.frames.iter().find(|f| f.name == *name)?.pose()?;
        Some((index, pose))
    })
}

/// Poses of the views of all registered frames, ordered by frame, then view; `moment` is the index of the frame.
#[must_use]
pub fn view_poses(description: &SplitDescription, poses: &AlignedPoses) -> Vec<NamedPose> {
    let of_frame = |(frame, pano_from_world): (usize, Pose)| {
        description.views.iter().enumerate().map(move |(index, view)| NamedPose {
            name: description.image_name(frame, index),
            pose: rig::cam_from_world(view, &pano_from_world),
            frame: frame as u32,
        })
    };
    registered(description, poses).flat_map(of_frame).collect()
}

/// Poses of the panoramas of all registered frames.
#[must_use]
pub fn panorama_poses(description: &SplitDescription, poses: &AlignedPoses) -> Vec<NamedPose> {
    registered(description, poses)
        .map(|(frame, pose)| NamedPose { name: description.frames[frame].clone(), pose, frame: frame as u32 })
        .collect()
}

/// The manifest of a split does not record by how much a panorama was levelled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tilt of {frame} is missing")]
pub struct MissingTilt {
    /// Name of the panorama.
    pub frame: String,
}

/// The poses of the panoramas as they are stored: those of levelled panoramas, with the tilts that the manifest of their
/// split records.
///
/// # Errors
/// A frame has no recorded tilt.
pub fn stored_poses(
    description: &SplitDescription,
    poses: &AlignedPoses,
    manifest: &[ManifestLine],
) -> Result<AlignedPoses, MissingTilt> {
    if !description.levelled {
        return Ok(poses.clone());
    }
    let tilts: BTreeMap<&str, [f64; 2]> =
        manifest.iter().filter_map(|line| Some((line.frame.as_str(), line.tilt?))).collect();
    let mut poses = poses.clone();
    for frame in &mut poses.frames {
        let Some(level_from_world) = frame.pose() else { continue };
        let tilt =
            *tilts.get(frame.name.as_str()).ok_or_else(|| MissingTilt { frame: frame.name.clone() })?;
        let pano_from_level = Pose { rotation: pano_from_level(tilt), translation: [0.0; 3] };
        let pose = pano_from_level.compose(&level_from_world);
        (frame.rotation, frame.translation) = (Some(pose.quaternion()), Some(pose.translation));
    }
    Ok(poses)
}

/// Files of a COLMAP model: all views of the registered frames, and points with their observations.
#[must_use]
pub fn colmap_files(
    description: &SplitDescription,
    poses: &AlignedPoses,
    points: &[Landmark],
    format: ModelFormat,
) -> Vec<(&'static str, Vec<u8>)> {
    let views = &description.views;
    let mut images: Vec<ColmapImage> = Vec::new();
    let mut frames = Vec::new();
    let mut first_image: BTreeMap<usize, usize> = BTreeMap::new();
    for (frame, pano_from_world) in registered(description, poses) {
        let mut seen = Vec::new();
        first_image.insert(frame, images.len());
        for (index, view) in views.iter().enumerate() {
            let id = images.len() as u32 + 1;
            let pose = rig::cam_from_world(view, &pano_from_world);
            let camera = index as u32 + 1;
            images.push(ColmapImage::new(id, description.image_name(frame, index), camera, &pose));
            seen.push((camera, id));
        }
        frames.push(RigFrame {
            rig_from_world: rig::cam_from_world(&views[0], &pano_from_world),
            images: seen,
        });
    }
    let sensor = |index: usize| {
        let pose = Pose { rotation: rig::cam_from_rig(views, index), translation: [0.0; 3] };
        (index as u32 + 1, pose)
    };
    let mut out = Vec::new();
    if description.naming == Naming::Rig && views.len() > 1 {
        let rig = RigModel { sensors: (0..views.len()).map(sensor).collect(), frames };
        out.extend(rig.to_files(format));
    }
    let mut with_tracks = |Landmark { point, observations }: &Landmark| {
        let mut track = Vec::new();
        for ViewObservation { frame, view, pixel } in observations {
            let Some(image) = first_image.get(frame).and_then(|first| images.get_mut(first + view)) else {
                continue;
            };
            track.push([image.id, image.points.len() as u32]);
            image.points.push((*pixel, point.id));
            image.point_count += 1;
        }
        ColmapPoint { track, ..point.clone() }
    };
    let points = points.iter().map(&mut with_tracks).collect();
    let model = ColmapModel { cameras: cameras(views), images, points };
    out.extend(model.to_files(format));
    out
}

/// Rows of `world_from_camera` with OpenGL camera axes, in the world after `applied`.
fn transform_matrix(pose: &Pose, applied: Option<&WorldTransform>) -> [[f64; 4]; 4] {
    let centre = pose.centre();
    let at = applied.map_or(centre, |applied| applied.transform_point(centre));
    // Rows of camera_from_world are the camera's axes in the world.
    let axes = pose.rotation.map(|axis| applied.map_or(axis, |applied| applied.transform_direction(axis)));
    let row = |i: usize| [axes[0][i], -axes[1][i], -axes[2][i], at[i]];
    [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]]
}

fn write_applied(all: &mut Value, poses: &AlignedPoses) {
    if let Some(applied) = &poses.applied {
        all["applied_transform"] = json!(applied.transform);
        if applied.scale != 1.0 {
            all["applied_scale"] = json!(applied.scale);
        }
    }
}

/// Points as a binary PLY file: positions and colours.
#[must_use]
pub fn points_ply(points: &[ColmapPoint]) -> Vec<u8> {
    let mut out = format!("ply\nformat binary_little_endian 1.0\nelement vertex {}\n", points.len());
    for name in ["float x", "float y", "float z", "uchar red", "uchar green", "uchar blue"] {
        out += &format!("property {name}\n");
    }
    let mut out = (out + "end_header\n").into_bytes();
    for point in points {
        out.extend(point.position.iter().flat_map(|&v| (v as f32).to_le_bytes()));
        out.extend(point.colour);
    }
    out
}

/// `transforms.json` (Nerfstudio): `world_from_camera` with OpenGL camera axes. `points_file` names the file of the
/// points, `mask_of` the mask of an image (0 = ignore).
#[must_use]
pub fn transforms(
    description: &SplitDescription,
    poses: &AlignedPoses,
    points_file: Option<&str>,
    mask_of: &dyn Fn(&str) -> Option<String>,
) -> String {
    let views = &description.views;
    let mut frames: Vec<Value> = Vec::new();
    for (frame, pano_from_world) in registered(description, poses) {
        for (index, view) in views.iter().enumerate() {
            let pose = rig::cam_from_world(view, &pano_from_world);
            let name = description.image_name(frame, index);
            let mut entry = json!({
                "file_path": format!("images/{name}"),
                "w": view.width, "h": view.height,
                "fl_x": view.focal(), "fl_y": view.focal(),
                "cx": 0.5 * f64::from(view.width), "cy": 0.5 * f64::from(view.height),
                "transform_matrix": transform_matrix(&pose, poses.applied.as_ref()),
            });
            if let Some(mask) = mask_of(&name) {
                entry["mask_path"] = json!(mask);
            }
            frames.push(entry);
        }
    }
    let mut all = json!({ "camera_model": "OPENCV", "frames": frames });
    if let Some(file) = points_file {
        all["ply_file_path"] = json!(file);
    }
    write_applied(&mut all, poses);
    serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
}

/// `panoramas.json`: the panoramas in the form of `transforms.json` with camera model EQUIRECTANGULAR, for viewers of
/// 360° images and for `gausset train`. `manifest` tells the files of the frames, `points_file` names the file of the
/// points.
#[must_use]
pub fn panoramas(
    description: &SplitDescription,
    poses: &AlignedPoses,
    points_file: Option<&str>,
    manifest: &[ManifestLine],
) -> String {
    let frames: Vec<Value> = registered(description, poses)
        .map(|(frame, pose)| {
            let file = description.panorama_file(&description.frames[frame], manifest);
            json!({ "file_path": file, "transform_matrix": transform_matrix(&pose, poses.applied.as_ref()) })
        })
        .collect();
    let mut all = json!({ "camera_model": "EQUIRECTANGULAR", "frames": frames });
    if let Some(file) = points_file {
        all["ply_file_path"] = json!(file);
    }
    write_applied(&mut all, poses);
    serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
}

/// XMP sidecars for RealityCapture: (image name without extension, content).
///
/// `Rotation` is `camera_from_world`, row by row; `Position` is the camera's centre.
#[must_use]
pub fn xmp_sidecars(description: &SplitDescription, poses: &AlignedPoses) -> Vec<(String, String)> {
    let views = &description.views;
    let mut out = Vec::new();
    for (frame, pano_from_world) in registered(description, poses) {
        for (index, view) in views.iter().enumerate() {
            let pose = rig::cam_from_world(view, &pano_from_world);
            let list = |values: &mut dyn Iterator<Item = f64>| {
                let mut text = String::new();
                for value in values {
                    let space = if text.is_empty() { "" } else { " " };
                    // Writing to a string cannot fail.
                    let _ = write!(text, "{space}{value:.12}");
                }
                text
            };
            let focal = view.focal_36mm();
            let more = format!(
                " xmlns:xcr=\"http://www.capturingreality.com/ns/xcr/1.1#\" xcr:Version=\"3\" xcr:PosePrior=\"initial\" xcr:Coordinates=\"absolute\" xcr:DistortionModel=\"perspective\" xcr:FocalLength35mm=\"{focal:.9}\" xcr:Skew=\"0\" xcr:AspectRatio=\"1\" xcr:PrincipalPointU=\"0\" xcr:PrincipalPointV=\"0\" xcr:CalibrationPrior=\"exact\" xcr:Rotation=\"{}\" xcr:Position=\"{}\"",
                list(&mut pose.rotation.iter().flatten().copied()),
                list(&mut pose.centre().into_iter()),
            );
            let name = description.image_name(frame, index);
            let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem).to_owned();
            out.push((stem, xmp_packet(view, &description.frames[frame], &more)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use gausset_core::se3;

    use super::*;
    use crate::sphere::layout::Layout;
    use crate::sphere::projection::angle_between;

    fn example(layout: Layout) -> (SplitDescription, AlignedPoses) {
        let mut views = layout.views(80, 100, None);
        views.iter_mut().for_each(|view| view.roll += 3.0);
        let description = SplitDescription {
            views,
            naming: Naming::Rig,
            extension: "jpg".into(),
            frames: vec!["a".into(), "b".into(), "c".into()],
            numbers: vec![],
            lens_axes: None,
            levelled: false,
            needs_conversion: false,
        };
        let pose = |q: [f64; 4], t: [f64; 3]| {
            let n = q.iter().map(|v| v * v).sum::<f64>().sqrt();
            (Some(q.map(|v| v / n)), Some(t))
        };
        let frame =
            |name: &str, (rotation, translation)| FramePose { name: name.into(), rotation, translation };
        let frames = vec![
            frame("a", pose([1.0, 0.2, -0.3, 0.1], [0.5, 0.1, -3.0])),
            frame("b", (None, None)),
            frame("c", pose([0.2, 0.9, 0.3, -0.4], [-2.0, 1.5, 7.0])),
        ];
        (description, AlignedPoses { frames, ..AlignedPoses::default() })
    }

    /// Directions of pixels in the world, from the panorama: what every export must reproduce.
    fn truth(
        description: &SplitDescription,
        poses: &AlignedPoses,
        frame: usize,
        view: usize,
        x: f64,
        y: f64,
    ) -> [f64; 3] {
        let pose = poses.frames[frame].pose().unwrap();
        let view = &description.views[view];
        let in_pano = view.ray_in_panorama(x, y);
        se3::transpose_mul_vec(&pose.rotation, in_pano)
    }

    const PIXELS: [(f64, f64); 3] = [(50.0, 40.0), (3.5, 77.0), (99.5, 0.5)];

    #[test]
    fn stored_panoramas_see_what_their_levelled_views_see() {
        let (mut description, poses) = example(Layout::Cube6);
        assert_eq!(stored_poses(&description, &poses, &[]), Ok(poses.clone()));
        description.levelled = true;
        let tilts = [("a", [15.0, -8.0]), ("c", [0.0, 0.0])];
        let line = |(frame, tilt): (&str, [f64; 2])| -> ManifestLine {
            let line = json!({ "frame": frame, "source": "", "bytes": 0, "modified": 0, "settings": "", "views": [],
                "masks": [], "tilt": tilt });
            serde_json::from_value(line).unwrap()
        };
        let manifest = tilts.map(line);
        let stored = stored_poses(&description, &poses, &manifest).unwrap();
        for (at, tilt) in [(0, tilts[0].1), (2, tilts[1].1)] {
            let (stored, level) = (stored.frames[at].pose().unwrap(), poses.frames[at].pose().unwrap());
            assert!(se3::distance(stored.centre(), level.centre()) < 1e-9);
            // The views that were cut from the stored panorama.
            let cut = crate::sphere::geometry::level_views(&description.views, tilt);
            for (view, cut) in cut.iter().enumerate() {
                for (x, y) in PIXELS {
                    let found = se3::transpose_mul_vec(&stored.rotation, cut.ray_in_panorama(x, y));
                    assert!(angle_between(found, truth(&description, &poses, at, view, x, y)) < 1e-6);
                }
            }
        }
        assert_eq!(
            stored_poses(&description, &poses, &manifest[..1]),
            Err(MissingTilt { frame: "c".to_owned() })
        );
    }

    #[test]
    fn what_was_applied_to_a_world_is_applied_again() {
        let (description, poses) = example(Layout::Cube6);
        // Nerfstudio's rotation of COLMAP's world, and one with a translation and a scale.
        for (transform, scale) in [
            ([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [-0.0, -0.0, -1.0, -0.0]], 1.0),
            ([[0.0, 0.0, 1.0, 5.0], [1.0, 0.0, 0.0, -2.0], [0.0, 1.0, 0.0, 0.5]], 0.25),
        ] {
            let applied = WorldTransform { transform, scale };
            let poses = AlignedPoses { applied: Some(applied), ..poses.clone() };
            let folder = tempfile::tempdir().unwrap();
            let (path, again) = (folder.path().join("transforms.json"), folder.path().join("again.json"));
            std::fs::write(&path, transforms(&description, &poses, None, &|_| None)).unwrap();
            let found = crate::poses::read::read(&path).unwrap();
            assert_eq!(found.applied, Some(applied));
            crate::poses::examples::assert_same(&found.poses, &{
                let mut wanted = view_poses(&description, &poses);
                wanted.iter_mut().for_each(|pose| pose.name = format!("images/{}", pose.name));
                wanted
            });
            // Undone and done again: the same matrices.
            let matrix = |pose: &NamedPose| transform_matrix(&pose.pose, found.applied.as_ref());
            let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            for (pose, frame) in found.poses.iter().zip(file["frames"].as_array().unwrap()) {
                let written: [[f64; 4]; 4] =
                    serde_json::from_value(frame["transform_matrix"].clone()).unwrap();
                let back = matrix(pose);
                assert!(
                    written
                        .iter()
                        .flatten()
                        .zip(back.iter().flatten())
                        .all(|(a, b)| (a - b).abs() < 1e-14 * 20.0)
                );
            }
            std::fs::write(&again, panoramas(&description, &poses, None, &[])).unwrap();
            assert_eq!(crate::poses::read::read(&again).unwrap().applied, Some(applied));
        }
    }

    #[test]
    fn panoramas_of_other_footage_are_named_as_their_conversion() {
        let (mut description, poses) = example(Layout::Cube6);
        let line = json!({ "frame": "a", "source": "a.insp", "bytes": 0, "modified": 0, "settings": "", "views": [],
            "masks": [] });
        let manifest: [ManifestLine; 1] = [serde_json::from_value(line).unwrap()];
        for (needs_conversion, file) in [(false, "\"a.insp\""), (true, "\"a.jpg\"")] {
            description.needs_conversion = needs_conversion;
            assert!(panoramas(&description, &poses, None, &manifest).contains(file), "{file}");
        }
    }

    #[test]
    fn colmap_models_give_back_directions_and_centres() {
        for layout in [Layout::Ring8, Layout::Cube6, Layout::Colmap12] {
            let (description, poses) = example(layout);
            for format in [ModelFormat::Binary, ModelFormat::Text] {
                let folder = tempfile::tempdir().unwrap();
                for (name, bytes) in colmap_files(&description, &poses, &[], format) {
                    std::fs::write(folder.path().join(name), bytes).unwrap();
                }
                let found = gausset_io::dataset::colmap::ModelFolder::find(folder.path()).unwrap().unwrap();
                let model = found.read(gausset_io::dataset::colmap::Observations::Keep).unwrap();
                let count = description.views.len();
                assert_eq!(model.images.len(), 2 * count);
                assert_eq!(found.frames().unwrap().len(), 2 * count);
                let places = crate::poses::read::read(folder.path()).unwrap().poses;
                assert!(places.iter().zip([0, 1].iter().cycle()).all(|(pose, place)| pose.frame == *place));
                for image in &model.images {
                    let (view, stem) = image.name.split_once('/').unwrap();
                    let view = description.views.iter().position(|v| v.name == view).unwrap();
                    let frame = if stem == "a.jpg" { 0 } else { 2 };
                    let pose = Pose::from_quaternion(image.quaternion, image.translation).unwrap();
                    let camera = &model.cameras[view];
                    let centre = poses.frames[frame].pose().unwrap().centre();
                    assert!(pose.centre().iter().zip(centre).all(|(a, b)| (a - b).abs() < 1e-9));
                    for (x, y) in PIXELS {
                        let ray = [
                            (x - camera.params[2]) / camera.params[0],
                            (y - camera.params[3]) / camera.params[1],
                            1.0,
                        ];
                        let found = se3::transpose_mul_vec(&pose.rotation, ray);
                        let wanted = truth(&description, &poses, frame, view, x, y);
                        assert!(angle_between(found, wanted) < 1e-6);
                    }
                }
            }
        }
    }

    #[test]
    fn transforms_and_sidecars_give_back_directions() {
        let (description, poses) = example(Layout::Dome16);
        let json: Value = serde_json::from_str(&transforms(&description, &poses, None, &|_| None)).unwrap();
        let sidecars = xmp_sidecars(&description, &poses);
        assert_eq!(json["frames"].as_array().unwrap().len(), 32);
        assert_eq!(sidecars.len(), 32);
        for (k, (frame, (stem, sidecar))) in
            json["frames"].as_array().unwrap().iter().zip(&sidecars).enumerate()
        {
            let (at, view) = ([0, 2][k / 16], k % 16);
            assert_eq!(format!("images/{stem}.jpg"), frame["file_path"].as_str().unwrap());
            let m = |i: usize, j: usize| frame["transform_matrix"][i][j].as_f64().unwrap();
            let number = |name: &str| frame[name].as_f64().unwrap();
            let attribute = |name: &str| -> Vec<f64> {
                let text =
                    sidecar.split(&format!("xcr:{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
                text.split(' ').map(|v| v.parse().unwrap()).collect()
            };
            let (rotation, position) = (attribute("Rotation"), attribute("Position"));
            let focal = attribute("FocalLength35mm")[0] / 36.0 * number("w").max(number("h"));
            for (x, y) in PIXELS {
                let wanted = truth(&description, &poses, at, view, x, y);
                // OpenGL camera: x right, y up, z backward.
                let gl = [(x - number("cx")) / number("fl_x"), -(y - number("cy")) / number("fl_y"), -1.0];
                let world = [0, 1, 2].map(|i| (0..3).map(|j| m(i, j) * gl[j]).sum::<f64>());
                assert!(angle_between(world, wanted) < 1e-6);
                let cv = [(x - number("cx")) / focal, (y - number("cy")) / focal, 1.0];
                let world = [0, 1, 2].map(|i| (0..3).map(|j| rotation[3 * j + i] * cv[j]).sum::<f64>());
                assert!(angle_between(world, wanted) < 1e-6);
            }
            let centre = poses.frames[at].pose().unwrap().centre();
            assert!(
                (0..3).all(|i| (m(i, 3) - centre[i]).abs() < 1e-9 && (position[i] - centre[i]).abs() < 1e-9)
            );
        }
    }

    #[test]
    fn points_are_written_as_a_file_that_transforms_json_names() {
        let (description, poses) = example(Layout::Ring4);
        let json: Value =
            serde_json::from_str(&transforms(&description, &poses, Some("p.ply"), &|_| None)).unwrap();
        assert_eq!(json["ply_file_path"], "p.ply");
        let point = |id, position, colour| ColmapPoint {
            id,
            position,
            colour,
            error: 0.5,
            track_length: 2,
            track: Vec::new(),
        };
        let points = [point(1, [1.5, -2.0, 3.25], [255, 0, 10]), point(7, [0.0, 1e3, -0.125], [1, 2, 3])];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.ply");
        std::fs::write(&path, points_ply(&points)).unwrap();
        let read = gausset_io::splat::load_initial(&path, &gausset_io::splat::ReadLimits::default());
        let gausset_io::splat::Initial::Points(cloud) = read.unwrap() else { panic!("splats") };
        assert_eq!(cloud.positions, points.each_ref().map(|p| p.position.map(|v| f64::from(v as f32))));
        let colours = cloud.colours.unwrap();
        let bytes: Vec<[u8; 3]> = colours.iter().map(|c| c.map(gausset_core::image::quantise)).collect();
        assert_eq!(bytes, points.each_ref().map(|p| p.colour));
    }
}
