//! What is exported, read by the real COLMAP; what the real COLMAP makes of known and of real walks.

use std::path::{Path, PathBuf};
use std::process::Command;

use gausset_core::{Pose, se3};
use gausset_pano::export::{FramePose, Poses};
use gausset_pano::layout::Layout;
use gausset_pano::rig;
use gausset_pano::split::Description;
use gausset_sfm::Tool;
use serde_json::Value;

use crate::support::{Workshop, with_walk};

/// A Python with pycolmap; says why a test is skipped when there is none.
fn python(test: &str) -> Option<PathBuf> {
    match Tool::find(None, None) {
        Ok(Tool::Python { python, .. }) => Some(python),
        Ok(tool) => skip(test, &format!("needs pycolmap, found {}", tool.describe())),
        Err(error) => skip(test, &error.to_string()),
    }
}

fn skip<T>(test: &str, why: &str) -> Option<T> {
    println!("SKIPPED {test}: {why}");
    None
}

/// A folder of real data.
fn real(test: &str, name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("GAUSSET_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"), PathBuf::from);
    let path = root.join(name);
    if path.exists() { Some(path) } else { skip(test, "no real data (set GAUSSET_DATA)") }
}

/// Runs a script that prints JSON.
fn ask(python: &Path, script: &str, arguments: &[&Path]) -> Value {
    let output = Command::new(python).arg("-c").arg(script).args(arguments).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().expect("a list").iter();
    list.flat_map(|v| v.as_f64().map_or_else(|| numbers(v), |v| vec![v])).collect()
}

/// Angle between rotations, radians; exact for small ones.
fn angle(a: &[f64], b: &se3::Mat3) -> f64 {
    let difference: f64 = a.iter().zip(b.iter().flatten()).map(|(a, b)| (a - b) * (a - b)).sum();
    difference.sqrt() / std::f64::consts::SQRT_2
}

const READ_MODEL: &str = "
import json, sys, pycolmap
model = pycolmap.Reconstruction(sys.argv[1])
rigid = lambda t: [t.rotation.matrix().tolist(), t.translation.tolist()]
print(json.dumps({
    'rigs': [{'reference': rig.ref_sensor_id.id,
              'sensors': {sensor.id: rigid(pose) for sensor, pose in rig.non_ref_sensors.items()}}
             for rig in model.rigs.values()],
    'frames': [[frame.has_pose(), len(list(frame.data_ids)), rigid(frame.rig_from_world)]
               for _, frame in sorted(model.frames.items())],
    'images': {image.name: [rigid(image.cam_from_world()), image.camera_id] for image in model.images.values()},
    'cameras': {id: [camera.model.name, camera.width, camera.height, camera.params.tolist()]
                for id, camera in model.cameras.items()},
}))
";

#[test]
fn pycolmap_reads_exported_models_with_their_rigs() {
    let Some(python) = python("pycolmap_reads_exported_models_with_their_rigs") else { return };
    for layout in [Layout::Ring8, Layout::Dome16] {
        let workshop = with_walk(3);
        workshop.succeed(&["pano", "split", "walk", "-o", "w", "--size", "64", "--layout", layout.name()]);
        let description = Description::read(&workshop.path("w")).expect("a description");
        let pose = |q: [f64; 4], t| {
            let n = q.iter().map(|v| v * v).sum::<f64>().sqrt();
            (Some(q.map(|v| v / n)), Some(t))
        };
        let known = [
            pose([1.0, 0.2, -0.3, 0.1], [0.5, 0.1, -3.0]),
            (None, None),
            pose([0.2, 0.9, 0.3, -0.4], [-2.0, 1.5, 7.0]),
        ];
        let frames = description.frames.iter().zip(known).map(|(name, (rotation, translation))| FramePose {
            name: name.clone(),
            rotation,
            translation,
        });
        let poses = Poses { frames: frames.collect(), ..Poses::default() };
        std::fs::write(workshop.path("w/poses.json"), serde_json::to_vec(&poses).expect("JSON"))
            .expect("a file");
        let views = description.view_list();
        for form in ["binary", "text"] {
            let mut arguments = vec!["pano", "export", "w", "--format", "colmap", "-o", form];
            if form == "text" {
                arguments.push("--text");
            }
            // A frame has no pose: exit code 1.
            assert_eq!(workshop.run(&arguments).code, 1);
            let model = ask(&python, READ_MODEL, &[&workshop.path(form)]);
            let rigs = model["rigs"].as_array().expect("rigs");
            assert_eq!(rigs.len(), 1);
            assert_eq!(rigs[0]["reference"], 1);
            for (index, view) in views.iter().enumerate() {
                let camera = &model["cameras"][(index + 1).to_string()];
                assert_eq!((camera[0].as_str(), camera[1].as_u64()), (Some("PINHOLE"), Some(64)));
                assert!((numbers(&camera[3])[0] - view.focal()).abs() < 1e-9);
                if index > 0 {
                    let sensor = &rigs[0]["sensors"][(index + 1).to_string()];
                    assert!(angle(&numbers(&sensor[0]), &rig::cam_from_rig(&views, index)) < 1e-9);
                    assert_eq!(numbers(&sensor[1]), [0.0; 3]);
                }
            }
            let frames = model["frames"].as_array().expect("frames");
            assert_eq!(frames.len(), 2);
            assert!(frames.iter().all(|f| f[0] == true && f[1] == views.len()));
            let images = model["images"].as_object().expect("images");
            assert_eq!(images.len(), 2 * views.len());
            for (frame, pano) in poses.frames.iter().enumerate().filter_map(|(k, f)| Some((k, f.pose()?))) {
                for (index, view) in views.iter().enumerate() {
                    let wanted: Pose = rig::cam_from_world(view, &pano);
                    let image = &images[&description.picture_name(frame, index)];
                    assert!(angle(&numbers(&image[0][0]), &wanted.rotation) < 1e-6);
                    let t = numbers(&image[0][1]);
                    assert!(t.iter().zip(wanted.translation).all(|(a, b)| (a - b).abs() < 1e-9));
                    assert_eq!(image[1], index + 1);
                }
            }
        }
    }
}

const READ_RIG: &str = "
import json, sys, pycolmap
config, = pycolmap.read_rig_config(sys.argv[1])
print(json.dumps([[c.image_prefix, c.ref_sensor, c.cam_from_rig.rotation.matrix().tolist() if c.cam_from_rig else None,
                   c.cam_from_rig.translation.tolist() if c.cam_from_rig else None, c.camera.params.tolist()]
                  for c in config.cameras]))
";

#[test]
fn pycolmap_reads_the_rig_configuration() {
    let Some(python) = python("pycolmap_reads_the_rig_configuration") else { return };
    for layout in [Layout::Ring8, Layout::Cube6, Layout::Dome16] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rig_config.json");
        let views = layout.views(480, 320, None);
        std::fs::write(&path, rig::rig_config(&views)).expect("a file");
        let cameras = ask(&python, READ_RIG, &[&path]);
        assert_eq!(cameras.as_array().map(Vec::len), Some(views.len()));
        for (index, view) in views.iter().enumerate() {
            let camera = &cameras[index];
            assert_eq!(camera[0], format!("{}/", view.name));
            assert_eq!(camera[1], index == 0);
            if index > 0 {
                assert!(angle(&numbers(&camera[2]), &rig::cam_from_rig(&views, index)) < 1e-9);
                assert_eq!(numbers(&camera[3]), [0.0; 3]);
            }
            let params = numbers(&camera[4]);
            assert!((params[0] - view.focal()).abs() < 1e-9 && params[2..] == [240.0, 160.0]);
        }
    }
}

/// Rows: rotations of COLMAP's own panorama recipe; EQUIRECTANGULAR pixels of six directions.
const OWN_RECIPE: &str = "
import json, numpy, pycolmap, pycolmap.panorama as recipe
rotations = recipe.get_virtual_rotations(4, (-35.0, 0.0, 35.0))
camera = pycolmap.Camera(model='EQUIRECTANGULAR', width=2048, height=1024, params=[2048, 1024])
directions = [[0, 0, 1], [1, 0, 0], [0, -1, 1], [-.3, .5, -.8], [.1, .99, .05], [-.001, 0, -1]]
print(json.dumps([[r.tolist() for r in rotations],
                  camera.img_from_cam(numpy.array(directions, float)).tolist(), directions]))
";

#[test]
fn colmap12_and_the_panorama_axes_are_those_of_colmap() {
    let Some(python) = python("colmap12_and_the_panorama_axes_are_those_of_colmap") else { return };
    let told = ask(&python, OWN_RECIPE, &[]);
    let views = Layout::Colmap12.views(256, 256, None);
    assert_eq!(told[0].as_array().map(Vec::len), Some(views.len()));
    for (index, view) in views.iter().enumerate() {
        let cam_from_pano = se3::transpose(&view.pano_from_camera());
        assert!(angle(&numbers(&told[0][index]), &cam_from_pano) < 1e-12, "view {index}");
    }
    let (pixels, directions) = (numbers(&told[1]), numbers(&told[2]));
    for (pixel, direction) in pixels.chunks_exact(2).zip(directions.chunks_exact(3)) {
        let direction = [direction[0], direction[1], direction[2]];
        let ours = gausset_pano::geometry::equirect_from_direction(direction, 2048.0, 1024.0);
        assert!((ours[0] - pixel[0]).abs() + (ours[1] - pixel[1]).abs() < 1e-9, "{ours:?} {pixel:?}");
    }
}

/// The real walk through the real COLMAP: five of five, as in the published run.
#[test]
fn the_real_walk_registers() {
    let test = "the_real_walk_registers";
    let Some(walk) = real(test, "pano/walk") else { return };
    if python(test).is_none() {
        return;
    }
    let workshop = Workshop::empty();
    // Views of half the usual side register as well, in a third of the time.
    workshop.succeed(&["pano", "split", walk.to_str().expect("a name"), "-o", "w", "--size", "480"]);
    let finished = workshop.succeed(&["pano", "align", "w", "--json"]);
    let result = finished.json();
    println!("walk, views of 480 px: {result}");
    assert_eq!((result["frames"].as_u64(), result["registered"].as_u64()), (Some(5), Some(5)));
    assert!(result["mean_reprojection_px"].as_f64().is_some_and(|e| e < 0.8), "{result}");
    // The model reads back as a dataset, held out by frame.
    let info = workshop.succeed(&["info", "w", "--json"]);
    assert!(info.stdout.contains("40"), "{}", info.stdout);
}
