//! Exported models read by COLMAP, and alignments of recorded, synthetic and real walks.

use gausset::aligner::{Aligner, AlignerOptions};
use gausset::device::DeviceOptions;
use gausset::panos::export::ExportFormat;
use gausset::panos::{FrameMaskOptions, PanoOptions, PriorKnowledge, TrainViewOptions, run as pano_run};
use gausset::training::RunSettings;
use gausset_compute::Pool;
use gausset_core::{Pose, se3};
use gausset_io::atomic::Overwrite;
use gausset_io::image::encode::{PngPixels, png, png_rgb8};
use gausset_pano::export::{AlignedPoses, FramePose};
use gausset_pano::layout::Layout;
use gausset_pano::rig;
use gausset_pano::split::SplitDescription;
use gausset_scenes::room::{self, Room};
use gausset_sfm::Mapper;
use gausset_sfm::reprojection::reprojection_errors;
use gausset_testkit::data_file;
use gausset_train::{Quality, TrainOptions};
use serde_json::Value;

use crate::support::{Place, all_poses, ask, assert_refused, distance, path_length, pycolmap, run};

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
    let Some(python) = pycolmap("pycolmap_reads_exported_models_with_their_rigs") else { return };
    for layout in [Layout::Ring8, Layout::Dome16] {
        let place = Place::with_walk("p", 3);
        place.split_square("walk", "w", layout, 64);
        let description = SplitDescription::read(&place.path("w")).unwrap();
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
        place.write("w/poses.json", serde_json::to_vec(&poses).unwrap());
        let views = &description.views;
        for (form, is_text) in [("binary", false), ("text", true)] {
            let done = place.try_export(ExportFormat::Colmap, form, |options| options.is_text = is_text);
            assert_eq!(done.unwrap().registered, 2);
            let model = ask(&python, READ_MODEL, &[&place.path(form)]);
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
    let Some(python) = pycolmap("pycolmap_reads_the_rig_configuration") else { return };
    for layout in [Layout::Ring8, Layout::Cube6, Layout::Dome16] {
        let place = Place::new();
        let views = layout.views(480, 320, None);
        place.write("rig_config.json", rig::rig_config(&views));
        let cameras = ask(&python, READ_RIG, &[&place.path("rig_config.json")]);
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
    let Some(python) = pycolmap("colmap12_and_the_panorama_axes_are_those_of_colmap") else { return };
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

/// Alignments by stand-ins that replay a recorded run of COLMAP.
#[cfg(unix)]
mod stand_ins {
    use super::*;
    use crate::support::recorded;

    /// Names of the commands that the stand-in for COLMAP was called with since the last question.
    fn called(place: &Place) -> Vec<String> {
        let calls = place.text("calls");
        std::fs::remove_file(place.path("calls")).unwrap();
        calls.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
    }

    fn colmap(place: &Place, mapper: Mapper) -> AlignerOptions {
        AlignerOptions { colmap: Some(place.path("colmap")), mapper, ..AlignerOptions::default() }
    }

    #[test]
    fn a_colmap_that_is_absent_old_silent_or_broken_is_named() {
        let place = Place::with_walk("p", 2);
        place.split_square("walk", "w", Layout::Ring8, 64);
        let version = "for last; do :; done
if [ \"$last\" = --version ]; then echo '{\"event\": \"version\", \"version\": \"4.2.1\"}'; exit 0; fi";
        let silent = format!("{version}\nsleep 60");
        let broken = format!(
            "{version}\necho '{{\"event\": \"stage\", \"name\": \"matching\"}}'\necho '{{\"event\": \"error\", \"what\": \"RuntimeError: out of luck\"}}'\nexit 3"
        );
        for (program, text, words) in [
            ("absent", "", "program: not found"),
            (
                "bare",
                "echo '{\"event\": \"absent\", \"what\": \"no module\"}'; exit 4",
                "-m pip install pycolmap",
            ),
            (
                "old",
                "echo '{\"event\": \"version\", \"version\": \"3.11.1\"}'",
                "version 3.11.1 is too old (expected 4.0 or later)",
            ),
            // The version of Debian 12.
            (
                "colmap",
                "echo 'COLMAP 3.8 -- Structure-from-Motion and Multi-View Stereo'",
                "version 3.8 is too old (expected 3.13 or later)",
            ),
            // The last one with the former names of options.
            ("colmap", "echo 'COLMAP 3.12.6 -- Structure-from-Motion'", "version 3.12.6 is too old"),
            ("silent", silent.as_str(), "no output for 1 s"),
            ("broken", broken.as_str(), "COLMAP: matching: RuntimeError: out of luck"),
            ("nothing", version, "frames: none of 2 could be aligned"),
        ] {
            if !text.is_empty() {
                gausset_testkit::programs::script(&place.path(program), text);
            }
            let (path, timeout) = (Some(place.path(program)), Some(1).filter(|_| program == "silent"));
            let tool = match program {
                "colmap" => AlignerOptions { colmap: path, ..AlignerOptions::default() },
                _ => AlignerOptions { python: path, timeout, ..AlignerOptions::default() },
            };
            let refused = place.try_align(&tool, &PriorKnowledge::default(), Overwrite::Refuse).0;
            let refused = refused.unwrap_err().message;
            assert!(refused.contains(words), "{program}: {refused}");
            assert!(!place.path("w/sparse").exists() && !place.path("w/poses.json").exists(), "{program}");
        }
    }

    /// If the incremental mapper leaves frames out, the global one runs with the same features and matches.
    #[test]
    fn the_global_mapper_helps_where_the_incremental_one_registers_nothing() {
        let place = recorded();
        let stand_in = place.text("colmap").replace("[ \"$1\" = mapper ]", "[ \"$1\" = global_mapper ]");
        std::fs::write(place.path("colmap"), stand_in).unwrap();
        let align = |mapper| {
            place.try_align(&colmap(&place, mapper), &PriorKnowledge::default(), Overwrite::Replace).0
        };
        let refused = align(Mapper::Incremental);
        assert!(refused.is_err_and(|failure| failure.message.contains("none of 3 could be aligned")));
        assert!(!called(&place).contains(&"global_mapper".to_owned()));
        align(Mapper::Auto).unwrap();
        let before = ["feature_extractor", "rig_configurator", "exhaustive_matcher"];
        assert_eq!(called(&place), [&before[..], &["mapper", "global_mapper"]].concat());
        // Another mapper gives other poses.
        align(Mapper::Global).unwrap();
        assert_eq!(called(&place), [&before[..], &["global_mapper"]].concat());
    }

    #[test]
    fn an_alignment_of_views_leaves_the_files_of_others_where_they_are() {
        let place = recorded();
        let align = |overwrite| {
            place.try_align(&colmap(&place, Mapper::default()), &PriorKnowledge::default(), overwrite).0
        };
        for name in ["w/sfm/thesis.txt", "w/sparse/0/notes.txt", "w/poses.json"] {
            place.write(name, "mine");
        }
        let refused = align(Overwrite::Refuse).unwrap_err().message;
        assert!(refused.contains("w/sparse/0: output: holds files that gausset did not write"), "{refused}");
        std::fs::remove_dir_all(place.path("w/sparse")).unwrap();
        let refused = align(Overwrite::Refuse).unwrap_err().message;
        assert!(refused.contains("w/poses.json: output: exists already"), "{refused}");
        assert!(!place.path("calls").exists() && !place.path("w/sparse").exists());
        std::fs::remove_file(place.path("w/poses.json")).unwrap();
        align(Overwrite::Refuse).unwrap();
        // A finished alignment is kept; only force replaces it by one with other options.
        std::fs::remove_file(place.path("calls")).unwrap();
        align(Overwrite::Refuse).unwrap();
        let known = PriorKnowledge::default();
        let refused = place.try_align(&colmap(&place, Mapper::Auto), &known, Overwrite::Refuse).0;
        assert!(refused.is_err_and(|failure| failure.code == "other-options"));
        assert!(!place.path("calls").exists());
        assert_eq!(place.read("w/sfm/thesis.txt"), b"mine");
        // By force a model is written to a folder with other files.
        std::fs::remove_file(place.path("w/sparse/0/.gausset")).unwrap();
        assert!(align(Overwrite::Refuse).is_err());
        align(Overwrite::Replace).unwrap();
    }

    #[test]
    fn the_executable_gets_the_same_recipe() {
        let place = recorded();
        let tool = colmap(&place, Mapper::default());
        let aligned = place.try_align(&tool, &PriorKnowledge::default(), Overwrite::Refuse).0.unwrap();
        assert_eq!(aligned.registered_frames(), 3);
        let calls = place.text("calls");
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

/// Training options of the long checks.
fn training() -> TrainOptions {
    TrainOptions { quality: Some(Quality::Fast), ..TrainOptions::default() }
}

/// The room in 16 frames, aligned by COLMAP and by the built-in aligner: `cargo xtask full`.
#[test]
#[ignore = "ten minutes of CPU time"]
fn the_poses_of_the_room_are_recovered() {
    const FRAMES: usize = 16;
    if pycolmap("the_poses_of_the_room_are_recovered").is_none() {
        return;
    }
    let place = Place::new();
    let pool = Pool::with_all_cores();
    let truth: Vec<Pose> = (0..FRAMES).map(|k| room::pose(k, FRAMES)).collect();
    for (k, pose) in truth.iter().enumerate() {
        let picture = Room::FOR_REGISTRATION.panorama(2048, pose, &pool);
        place.write(&format!("room/frame_{k:02}.png"), png_rgb8(&picture).unwrap());
    }
    let options = PanoOptions {
        views: TrainViewOptions { size: Some(400), ..TrainViewOptions::default() },
        training: training(),
        ..PanoOptions::new(place.path("room"), place.path("w"))
    };
    let settings = RunSettings::for_device(DeviceOptions::default());
    println!("room: {:?}", run(|host| pano_run::run(&options, settings, host)).0.unwrap().alignment);
    let path = path_length(&truth) + distance(truth[FRAMES - 1].centre(), truth[0].centre());
    let other = |aligner, mapper| {
        let tool = AlignerOptions { aligner, mapper, ..AlignerOptions::default() };
        run(|host| {
            let folder = place.path("w/align");
            gausset::panos::align::align(&folder, &PriorKnowledge::default(), &tool, Overwrite::Replace, host)
        })
        .0
        .unwrap();
    };
    for what in ["incremental", "global", "own"] {
        match what {
            "global" => other(Aligner::Colmap, Mapper::Global),
            "own" => other(Aligner::Own, Mapper::default()),
            _ => {}
        }
        let poses = AlignedPoses::read(&place.path("w/align/poses.json")).unwrap();
        let (position, rotation) = errors_of(&all_poses(&poses), &truth, path);
        println!(
            "room, {what}: centres within {position:.2e} of a path of {path:.2} m, rotations within {rotation:.4} degrees"
        );
        assert!(position < 1e-3 && rotation < 0.05, "{what}");
    }
}

/// The built-in aligner.
fn own() -> AlignerOptions {
    AlignerOptions { aligner: Aligner::Own, ..AlignerOptions::default() }
}

/// A real walk aligned by the built-in aligner, compared with COLMAP's poses.
#[test]
fn the_own_aligner_registers_a_real_walk() {
    let Some(place) = own_aligner_registers("the_own_aligner_registers_a_real_walk", "walk", 5) else {
        return;
    };
    let align =
        |tool: &AlignerOptions| place.try_align(tool, &PriorKnowledge::default(), Overwrite::Replace).0;
    let refused = align(&AlignerOptions { mapper: Mapper::Global, ..own() });
    assert_refused(refused, "usage", "⟨mapper⟩: applies to COLMAP only");
    // Something else under the name of a view.
    let mut views = std::fs::read_dir(place.path("w/images/view02")).unwrap();
    let first = views.next().expect("a view").unwrap().path();
    std::fs::write(first, png(16, 16, PngPixels::Grey8(&[9; 256]), &[]).unwrap()).unwrap();
    let refused = align(&own()).unwrap_err().message;
    assert!(refused.contains("size: 16x16 px (expected 720x720"), "{refused}");
}

/// A longer one: `cargo xtask full`.
#[test]
#[ignore = "a minute of CPU time"]
fn the_own_aligner_registers_a_real_garden() {
    own_aligner_registers("the_own_aligner_registers_a_real_garden", "garden", 8);
}

/// Aligns panoramas with the built-in aligner and compares with COLMAP's poses.
fn own_aligner_registers(test: &str, name: &str, frames: usize) -> Option<Place> {
    let input = data_file(test, &format!("pano/{name}"))?;
    let place = Place::new();
    place.split(&input, "w", |options| options.masking.crop_bottom = 35.0);
    let poses = place.try_align(&own(), &PriorKnowledge::default(), Overwrite::Replace).0.unwrap();
    assert_eq!(poses.registered_frames(), frames);
    assert!(poses.mean_reprojection_px < 0.8, "{}", poses.mean_reprojection_px);
    // The written model is read like any other: images, points and observations.
    let model = place.model("w/sparse/0");
    assert_eq!((model.cameras.len(), model.images.len()), (8, 8 * frames));
    let error = reprojection_errors(&model).expect("observations");
    assert_eq!(error.unseen, 0);
    assert!((error.px.mean - poses.mean_reprojection_px).abs() < 0.1);
    let known = data_file(test, &format!("pano/{name}_poses.json")).expect("poses");
    let known: Value = serde_json::from_slice(&std::fs::read(known).unwrap()).unwrap();
    let pose = |frame: &Value| {
        let q = numbers(&frame["rig_from_world_quat_wxyz"]);
        let t = numbers(&frame["rig_from_world_t"]);
        Pose::from_quaternion([q[0], q[1], q[2], q[3]], [t[0], t[1], t[2]]).unwrap()
    };
    let truth: Vec<Pose> = known["frames"].as_object().expect("frames").values().map(pose).collect();
    let (position, rotation) = errors_of(&all_poses(&poses), &truth, path_length(&truth));
    println!(
        "{name}: centres within {position:.2e} of the path of COLMAP's, rotations within {rotation:.3} degrees"
    );
    assert!(position < 1e-2 && rotation < 0.5, "{name}: {position} {rotation}");
    Some(place)
}

/// Both real walks from panoramas to splats: `cargo xtask full`.
#[test]
#[ignore = "ten minutes of CPU time"]
fn real_walks_become_splats() {
    let test = "real_walks_become_splats";
    for (name, frames) in [("walk", 5), ("garden", 8)] {
        let Some(input) = data_file(test, &format!("pano/{name}")) else { return };
        if pycolmap(test).is_none() {
            return;
        }
        let place = Place::new();
        let options = PanoOptions {
            masking: FrameMaskOptions { crop_bottom: 35.0, ..FrameMaskOptions::default() },
            views: TrainViewOptions { size: Some(400), ..TrainViewOptions::default() },
            training: training(),
            ..PanoOptions::new(input, place.path("out"))
        };
        let settings = RunSettings::for_device(DeviceOptions::default());
        let done = run(|host| pano_run::run(&options, settings, host)).0.unwrap();
        println!("{name}: {:?}, {:?}", done.alignment, done.trained.outcome.summary);
        assert_eq!(done.alignment.registered, frames);
        assert!(done.alignment.mean_reprojection_px < 0.8, "{:?}", done.alignment);
        assert!(place.path("out/run/splats.ply").is_file());
    }
}
