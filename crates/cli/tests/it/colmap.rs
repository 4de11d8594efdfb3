//! Exported models read by COLMAP, and COLMAP alignments of synthetic and real walks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use gausset_core::{Pose, se3};
use gausset_io::dataset::colmap::{ModelFolder, Observations};
use gausset_io::image::encode::{PngPixels, png};
use gausset_pano::export::{AlignedPoses, FramePose};
use gausset_pano::layout::Layout;
use gausset_pano::rig;
use gausset_pano::split::SplitDescription;
use gausset_sfm::AlignmentTool;
use gausset_sfm::reprojection::reprojection_errors;
use gausset_testkit::data_file;
use serde_json::Value;

use crate::support::{TestFolder, with_walk};

/// A Python with pycolmap; without one the test is skipped.
pub(crate) fn python(test: &str) -> Option<PathBuf> {
    let missing = match AlignmentTool::find(None, None, &AtomicBool::new(false)) {
        Ok(AlignmentTool::Pycolmap { python, .. }) => return Some(python),
        Ok(tool) => format!("needs pycolmap, found {}", tool.describe()),
        Err(error) => error.to_string(),
    };
    gausset_testkit::skip_for_tool(test, &missing);
    None
}

/// Runs a script that prints JSON.
pub(crate) fn ask(python: &Path, script: &str, arguments: &[&Path]) -> Value {
    let output = Command::new(python).arg("-c").arg(script).args(arguments).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().expect("a list").iter();
    list.flat_map(|v| v.as_f64().map_or_else(|| numbers(v), |v| vec![v])).collect()
}

/// Angle between rotations in radians, exact for small angles.
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
        let description = SplitDescription::read(&workshop.path("w")).expect("a description");
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
        let poses = AlignedPoses { frames: frames.collect(), ..AlignedPoses::default() };
        std::fs::write(workshop.path("w/poses.json"), serde_json::to_vec(&poses).expect("JSON"))
            .expect("a file");
        let views = &description.views;
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
                    assert!(angle(&numbers(&sensor[0]), &rig::cam_from_rig(views, index)) < 1e-9);
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
                    let image = &images[&description.image_name(frame, index)];
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

/// Rotations of COLMAP's panorama example, and EQUIRECTANGULAR pixels of six directions.
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

/// A real walk aligned by COLMAP: five of five registered, as in the published run.
#[test]
fn the_real_walk_registers() {
    let test = "the_real_walk_registers";
    let Some(walk) = data_file(test, "pano/walk") else { return };
    if python(test).is_none() {
        return;
    }
    let workshop = TestFolder::empty();
    // Views of half the default side also register, in a third of the time.
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

/// Stand-ins that replay recorded output and files of COLMAP (`testdata/colmap`).
#[cfg(unix)]
pub(crate) mod recorded {
    use super::*;
    use crate::support::script;
    use gausset_io::dataset::colmap::{ModelFolder, ModelFormat, Observations};

    pub(crate) fn recording() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/colmap")
    }

    /// Three panoramas with the names of the recording, split into views of the same cameras, and a model to copy.
    pub(crate) fn workshop(model: &Path) -> TestFolder {
        let workshop = with_walk(3);
        for k in 0..3 {
            let name = |stem: &str| workshop.path(&format!("walk/{stem}{k}.jpg"));
            std::fs::rename(name("p"), name("frame_0")).expect("a file");
        }
        workshop.succeed(&["-q", "pano", "split", "walk", "-o", "w", "--size", "224"]);
        let (transcript, model) = (recording().join("pycolmap_4.2.1.txt"), model.display());
        script(
            &workshop.path("python"),
            &format!(
                "for last; do :; done
if [ \"$last\" = --version ]; then echo '{{\"event\": \"version\", \"version\": \"4.2.1\"}}'; exit 0; fi
while IFS= read -r line; do
  case \"$line\" in 'O '*) echo \"${{line#O }}\";; *) echo \"${{line#E }}\" >&2;; esac
done < {}
models=$(sed -n 's/.*\"models\": \"\\(.*\\)\",.*/\\1/p' \"$last\")
mkdir -p \"$models/0\" && cp {model}/* \"$models/0\"",
                transcript.display()
            ),
        );
        script(
            &workshop.path("colmap"),
            &format!(
                "if [ \"$1\" = help ]; then echo 'COLMAP 3.12.3 -- Structure-from-Motion and Multi-View Stereo'; exit 0; fi
echo \"$@\" >> {}
[ \"$1\" = mapper ] || exit 0
while [ \"$1\" != --output_path ]; do shift; done
mkdir -p \"$2/0\" && cp {model}/* \"$2/0\"",
                workshop.path("calls").display()
            ),
        );
        workshop
    }

    fn heading_of(workshop: &TestFolder, frame: usize) -> f64 {
        let poses = AlignedPoses::read(&workshop.path("w/poses.json")).expect("poses");
        let [first, other] = [0, frame].map(|k| poses.frames[k].pose().expect("a pose"));
        let turn = se3::mul(&other.rotation, &se3::transpose(&first.rotation));
        ((turn[0][0] + turn[1][1] + turn[2][2] - 1.0) / 2.0).acos()
    }

    #[test]
    fn a_recorded_run_of_pycolmap_gives_its_poses() {
        let workshop = workshop(&recording().join("model"));
        let finished = workshop.succeed(&["pano", "align", "w", "--python", "./python", "--json"]);
        let result = finished.json();
        assert_eq!((result["frames"].as_u64(), result["registered"].as_u64()), (Some(3), Some(3)));
        assert_eq!(result["points"].as_u64(), Some(150));
        assert!(result["mean_reprojection_px"].as_f64().is_some_and(|e| e > 0.01 && e < 0.8), "{result}");
        for word in ["pycolmap 4.2.1", "features", "matching", "mapping", " %"] {
            assert!(finished.stderr.contains(word), "{}", finished.stderr);
        }
        // Each frame of the room is rotated by 0.35 rad.
        for frame in [1, 2] {
            let heading = heading_of(&workshop, frame);
            assert!((heading - 0.35 * frame as f64).abs() < 5e-3, "{frame}: {heading}");
        }
        assert!(workshop.path("w/sparse/0/rigs.bin").is_file());
        let left = std::fs::read_dir(workshop.path("w")).expect("a folder").filter_map(Result::ok);
        let left: Vec<_> =
            left.map(|e| e.file_name()).filter(|n| n.to_string_lossy().contains("sfm")).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// If the incremental mapper leaves frames out, the global one runs with the same features and matches.
    #[test]
    fn the_global_mapper_helps_where_the_incremental_one_registers_nothing() {
        let workshop = workshop(&recording().join("model"));
        let colmap = String::from_utf8(workshop.read("colmap")).expect("a script");
        let colmap = colmap.replace("[ \"$1\" = mapper ]", "[ \"$1\" = global_mapper ]");
        std::fs::write(workshop.path("colmap"), colmap).expect("write");
        let align = ["pano", "align", "w", "--colmap", "./colmap", "--mapper"];
        let called = || {
            let calls = String::from_utf8(workshop.read("calls")).expect("calls");
            std::fs::remove_file(workshop.path("calls")).expect("remove");
            calls.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect::<Vec<_>>()
        };
        let refused = workshop.run(&[&align[..], &["incremental"]].concat());
        assert!(refused.code == 2 && refused.stderr.contains("none of 3 could be aligned"), "{refused:?}");
        assert!(!called().contains(&"global_mapper".to_owned()));
        workshop.succeed(&[&align[..], &["auto"]].concat());
        let before = ["feature_extractor", "rig_configurator", "exhaustive_matcher"];
        assert_eq!(called(), [&before[..], &["mapper", "global_mapper"]].concat());
        // Another mapper gives other poses.
        workshop.succeed(&[&align[..], &["global"]].concat());
        assert_eq!(called(), [&before[..], &["global_mapper"]].concat());
    }

    #[test]
    fn an_alignment_of_views_leaves_the_files_of_others_where_they_are() {
        let workshop = workshop(&recording().join("model"));
        let align = ["pano", "align", "w", "--colmap", "./colmap"];
        let theirs = ["w/sfm/thesis.txt", "w/sparse/0/notes.txt", "w/poses.json"];
        for name in theirs {
            let path = workshop.path(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, b"mine").expect("a file");
        }
        let refused = workshop.run(&align);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("w/sparse/0: output: holds files that gausset did not write"));
        std::fs::remove_dir_all(workshop.path("w/sparse")).expect("remove");
        let refused = workshop.run(&align);
        assert!(
            refused.code == 2 && refused.stderr.contains("w/poses.json: output: exists already"),
            "{refused:?}"
        );
        assert!(!workshop.path("calls").exists() && !workshop.path("w/sparse").exists());
        std::fs::remove_file(workshop.path("w/poses.json")).expect("remove");
        for _ in 0..2 {
            workshop.succeed(&align);
        }
        assert_eq!(workshop.read("w/sfm/thesis.txt"), b"mine");
        // With --force a model is written to a folder with other files.
        std::fs::remove_file(workshop.path("w/sparse/0/.gausset")).expect("the marker");
        assert_eq!(workshop.run(&align).code, 2);
        workshop.succeed(&[&align[..], &["--force"]].concat());
    }

    #[test]
    fn a_panorama_run_tells_its_result_again_and_is_replaced_by_force_only() {
        let workshop = workshop(&recording().join("model"));
        std::fs::remove_dir_all(workshop.path("w")).expect("remove");
        let here = std::fs::canonicalize(workshop.path("")).expect("a folder").display().to_string();
        let common = ["--colmap", "./colmap", "--steps", "20", "--train-size", "32", "--json"];
        let with = |input: &str, out: &str, more: &[&str]| {
            workshop.run(&[&["pano", "run", input, "-o", out][..], &common, more].concat())
        };
        let first = with("walk", "out", &[]);
        assert_eq!(first.code, 0, "{first:?}");
        let calls = || workshop.read("calls").iter().filter(|b| **b == b'\n').count();
        let (asked, splats) = (calls(), workshop.read("out/run/splats.ply"));
        let absolute = (format!("{here}/walk"), format!("{here}/out"));
        for (input, out) in [("walk", "out"), ("./walk/", "./out"), (&absolute.0, &absolute.1)] {
            let again = with(input, out, &[]);
            assert!(again.code == 0 && again.stderr.contains("already finished"), "{again:?}");
            assert_eq!(again.json(), first.json());
        }
        let view = workshop.read("out/train/images/view00/frame_00.jpg");
        for (more, words) in [
            (&["--seed", "1"][..], "seed = 0 (given: 1)"),
            (&["--train-layout", "ring4"], r#"train-layout = \"cube6\" (given: \"ring4\")"#),
            (&["--crop-bottom", "30"], "crop-bottom = 0.0 (given: 30.0)"),
        ] {
            let other = with("walk", "out", more);
            assert!(other.code == 2 && other.stderr.contains(words), "{other:?}");
            assert!(other.stderr.contains("--force"), "{other:?}");
        }
        assert!(workshop.read("out/run/splats.ply") == splats);
        assert!(
            workshop.read("out/train/images/view00/frame_00.jpg") == view,
            "the views are those of the run"
        );
        let forced = with("walk", "out", &["--seed", "1", "--force"]);
        assert_eq!(forced.code, 0, "{forced:?}");
        assert!(workshop.read("out/run/splats.ply") != splats);
        assert_eq!(calls(), asked, "the alignment is the same and is used again");
    }

    #[test]
    fn the_executable_gets_the_same_recipe() {
        let workshop = workshop(&recording().join("model"));
        let finished = workshop.succeed(&["pano", "align", "w", "--colmap", "./colmap", "--json"]);
        assert_eq!(finished.json()["registered"].as_u64(), Some(3));
        let calls = String::from_utf8(workshop.read("calls")).expect("text");
        let wanted: [(&str, &[&str]); 4] = [
            (
                "feature_extractor",
                &[
                    "--ImageReader.single_camera_per_folder 1",
                    "--ImageReader.camera_model PINHOLE",
                    // Focal lengths of 112 px up to rounding, and the centre.
                    "--ImageReader.camera_params 11",
                    ",112,112",
                    "--SiftExtraction.max_num_features 8192",
                ],
            ),
            ("rig_configurator", &["rig_config.json"]),
            (
                "exhaustive_matcher",
                &[
                    "--FeatureMatching.rig_verification 1",
                    "--FeatureMatching.skip_image_pairs_in_same_frame 1",
                ],
            ),
            ("mapper", &["--Mapper.ba_refine_sensor_from_rig 0", "--Mapper.ba_refine_focal_length 0"]),
        ];
        assert_eq!(calls.lines().count(), wanted.len(), "{calls}");
        for (line, (command, options)) in calls.lines().zip(wanted) {
            assert!(line.starts_with(&format!("{command} --database_path ")), "{line}");
            assert!(options.iter().all(|option| line.contains(option)), "{line}");
        }
    }

    #[test]
    fn a_frame_that_did_not_register_is_named_and_the_exit_code_is_1() {
        let found = ModelFolder::find(&recording().join("model")).expect("a folder").expect("a model");
        let mut model = found.read(Observations::Keep).expect("a model");
        model.images.retain(|image| !image.name.ends_with("frame_02.jpg"));
        let partial = tempfile::tempdir().expect("a folder");
        for (name, bytes) in model.to_files(ModelFormat::Binary) {
            std::fs::write(partial.path().join(name), bytes).expect("a file");
        }
        let workshop = workshop(partial.path());
        let finished = workshop.run(&["pano", "align", "w", "--colmap", "./colmap", "--json"]);
        assert_eq!(finished.code, 1, "{finished:?}");
        assert_eq!(finished.json()["unregistered"], serde_json::json!(["frame_02"]));
        assert!(finished.stderr.contains("frame_02: frame: did not register"), "{}", finished.stderr);
        // Two of three are too few, so all recipes were tried.
        let calls = String::from_utf8(workshop.read("calls")).expect("text");
        assert_eq!(calls.lines().filter(|line| line.starts_with("mapper")).count(), 4);
    }
}

/// Largest error of centres (fraction of the path) and rotations (degrees) after the best similarity transform.
pub(crate) fn errors_of(found: &[Pose], truth: &[Pose], path: f64) -> (f64, f64) {
    let count = found.len() as f64;
    // truth_from_found: the mean of the rotations of all frames, orthonormalised.
    let mut sum = [[0.0; 3]; 3];
    for (f, t) in found.iter().zip(truth) {
        let one = se3::mul(&se3::transpose(&t.rotation), &f.rotation);
        (0..9).for_each(|k| sum[k / 3][k % 3] += one[k / 3][k % 3] / count);
    }
    let mean = se3::rotation_from_quaternion(se3::quaternion_from_rotation(&sum));
    let turned: Vec<[f64; 3]> = found.iter().map(|p| se3::mul_vec(&mean, p.centre())).collect();
    let wanted: Vec<[f64; 3]> = truth.iter().map(Pose::centre).collect();
    let middle = |list: &[[f64; 3]]| [0, 1, 2].map(|k| list.iter().map(|p| p[k]).sum::<f64>() / count);
    let (a, b) = (middle(&turned), middle(&wanted));
    let (mut along, mut square) = (0.0, 0.0);
    for (p, q) in turned.iter().zip(&wanted) {
        for k in 0..3 {
            along += (p[k] - a[k]) * (q[k] - b[k]);
            square += (p[k] - a[k]).powi(2);
        }
    }
    let scale = along / square;
    let (mut worst, mut angle_worst): (f64, f64) = (0.0, 0.0);
    for ((p, q), (f, t)) in turned.iter().zip(&wanted).zip(found.iter().zip(truth)) {
        worst = worst.max(se3::norm([0, 1, 2].map(|k| scale * (p[k] - a[k]) + b[k] - q[k])));
        let own: Vec<f64> = f.rotation.iter().flatten().copied().collect();
        angle_worst = angle_worst.max(angle(&own, &se3::mul(&t.rotation, &mean)).to_degrees());
    }
    (worst / path, angle_worst)
}

/// The room in 16 frames, aligned by COLMAP: `cargo xtask full`.
#[test]
#[ignore = "ten minutes of CPU time"]
fn the_poses_of_the_room_are_recovered() {
    use gausset_compute::Pool;
    use gausset_io::image::encode::png_rgb8;
    use gausset_scenes::room::{self, Room};
    const FRAMES: usize = 16;
    if python("the_poses_of_the_room_are_recovered").is_none() {
        return;
    }
    let workshop = TestFolder::empty();
    std::fs::create_dir(workshop.path("room")).expect("a folder");
    let pool = Pool::with_all_cores();
    let truth: Vec<Pose> = (0..FRAMES).map(|k| room::pose(k, FRAMES)).collect();
    for (k, pose) in truth.iter().enumerate() {
        let picture = Room::FOR_REGISTRATION.panorama(2048, pose, &pool);
        let path = workshop.path(&format!("room/frame_{k:02}.png"));
        std::fs::write(path, png_rgb8(&picture).expect("a picture")).expect("a panorama");
    }
    let finished = workshop.succeed(&[
        "pano",
        "run",
        "room",
        "-o",
        "out",
        "--quality",
        "fast",
        "--train-size",
        "400",
        "--json",
    ]);
    println!("room: {}", finished.stdout);
    let centre = |k: usize| truth[k % FRAMES].centre();
    let step = |k: usize| se3::norm([0, 1, 2].map(|i| centre(k + 1)[i] - centre(k)[i]));
    let path: f64 = (0..FRAMES).map(step).sum();
    for mapper in ["incremental", "global"] {
        if mapper == "global" {
            workshop.succeed(&["pano", "align", "out/align", "--mapper", mapper, "--force"]);
        }
        let poses = AlignedPoses::read(&workshop.path("out/align/poses.json")).expect("poses");
        let found: Vec<Pose> = poses.frames.iter().map(|f| f.pose().expect("registered")).collect();
        let (position, rotation) = errors_of(&found, &truth, path);
        println!(
            "room, {mapper}: centres within {position:.2e} of a path of {path:.2} m, rotations within {rotation:.4} degrees"
        );
        assert!(position < 1e-3 && rotation < 0.05, "{mapper}");
    }
    workshop.succeed(&["pano", "align", "out/align", "--aligner", "own", "--force"]);
    let poses = AlignedPoses::read(&workshop.path("out/align/poses.json")).expect("poses");
    let found: Vec<Pose> = poses.frames.iter().map(|f| f.pose().expect("registered")).collect();
    let (position, rotation) = errors_of(&found, &truth, path);
    println!("room, own: centres within {position:.2e} of the path, rotations within {rotation:.4} degrees");
    assert!(position < 1e-3 && rotation < 0.05, "own");
}

/// Both real walks aligned by the built-in aligner, compared with COLMAP's poses.
#[test]
fn the_own_aligner_registers_real_walks() {
    let test = "the_own_aligner_registers_real_walks";
    for (name, frames) in [("walk", 5), ("garden", 8)] {
        let Some(input) = data_file(test, &format!("pano/{name}")) else { return };
        let workshop = TestFolder::empty();
        let input = input.to_str().expect("a name");
        workshop.succeed(&["pano", "split", input, "-o", "w", "--crop-bottom", "35"]);
        let finished = workshop.succeed(&["pano", "align", "w", "--aligner", "own", "--json"]);
        let result = finished.json();
        assert_eq!(result["registered"].as_u64(), Some(frames), "{result}");
        assert!(result["mean_reprojection_px"].as_f64().is_some_and(|e| e < 0.8), "{result}");
        // The written model is read like any other: images, points and observations.
        let model = ModelFolder::find(&workshop.path("w/sparse/0")).expect("files").expect("a model");
        let model = model.read(Observations::Keep).expect("a model");
        assert_eq!((model.cameras.len(), model.images.len() as u64), (8, 8 * frames));
        let error = reprojection_errors(&model).expect("observations");
        assert_eq!(error.unseen, 0);
        assert!((error.px.mean - result["mean_reprojection_px"].as_f64().expect("a number")).abs() < 0.1);
        let known: Value = serde_json::from_slice(
            &std::fs::read(data_file(test, &format!("pano/{name}_poses.json")).expect("poses"))
                .expect("poses"),
        )
        .expect("JSON");
        let truth: Vec<Pose> = known["frames"]
            .as_object()
            .expect("frames")
            .values()
            .map(|frame| {
                let q = numbers(&frame["rig_from_world_quat_wxyz"]);
                let t = numbers(&frame["rig_from_world_t"]);
                Pose::from_quaternion([q[0], q[1], q[2], q[3]], [t[0], t[1], t[2]]).expect("a pose")
            })
            .collect();
        let poses = AlignedPoses::read(&workshop.path("w/poses.json")).expect("poses");
        let found: Vec<Pose> = poses.frames.iter().map(|f| f.pose().expect("registered")).collect();
        let centre = |k: usize| truth[k].centre();
        let path: f64 =
            (1..truth.len()).map(|k| se3::norm([0, 1, 2].map(|i| centre(k)[i] - centre(k - 1)[i]))).sum();
        let (position, rotation) = errors_of(&found, &truth, path);
        println!(
            "{name}: centres within {position:.2e} of the path of COLMAP's, rotations within {rotation:.3} degrees"
        );
        assert!(position < 1e-2 && rotation < 0.5, "{name}: {position} {rotation}");
        if name == "garden" {
            return;
        }
        // Repeating the alignment gives the same bytes.
        let before = std::fs::read(workshop.path("w/poses.json")).expect("poses");
        workshop.succeed(&["pano", "align", "w", "--aligner", "own", "--sfm-threads", "1", "--force"]);
        assert!(before == std::fs::read(workshop.path("w/poses.json")).expect("poses"));
        let refused =
            workshop.run(&["pano", "align", "w", "--aligner", "own", "--mapper", "global", "--force"]);
        assert!(refused.stderr.contains("--mapper: applies to COLMAP only"), "{}", refused.stderr);
        // Something else under the name of a view.
        let first = std::fs::read_dir(workshop.path("w/images/view02"))
            .expect("views")
            .next()
            .expect("one")
            .expect("an entry")
            .path();
        let grey = png(16, 16, PngPixels::Grey8(&[9; 256]), &[]);
        std::fs::write(&first, grey.expect("a picture")).expect("a file");
        let refused = workshop.run(&["pano", "align", "w", "--aligner", "own", "--force"]);
        assert!(refused.stderr.contains("size: 16x16 px (expected 720x720"), "{}", refused.stderr);
    }
}

/// Both real walks from panoramas to splats: `cargo xtask full`.
#[test]
#[ignore = "ten minutes of CPU time"]
fn real_walks_become_splats() {
    let test = "real_walks_become_splats";
    for (name, frames) in [("walk", 5), ("garden", 8)] {
        let Some(input) = data_file(test, &format!("pano/{name}")) else { return };
        if python(test).is_none() {
            return;
        }
        let workshop = TestFolder::empty();
        let input = input.to_str().expect("a name");
        let options = ["--crop-bottom", "35", "--quality", "fast", "--train-size", "400", "--json"];
        let finished = workshop.succeed(&[&["pano", "run", input, "-o", "out"][..], &options].concat());
        println!("{name}: {}", finished.stdout);
        let result = finished.json();
        assert_eq!(result["registered"].as_u64(), Some(frames));
        assert!(result["mean_reprojection_px"].as_f64().is_some_and(|e| e < 0.8), "{result}");
        assert!(workshop.path("out/run/splats.ply").is_file());
    }
}
