//! `transforms.json`: dialects, intrinsics, poses, splits, and errors with their position.

use crate::dataset_support::{Scene, damage, json_frame, tiny_png};
use crate::memory;
use gausset_io::dataset::transforms::{self, Intrinsics};
use gausset_io::dataset::{CameraModel, Dataset, DatasetKind, DatasetProblem, OpenOptions};
use proptest::prelude::*;

const NERFSTUDIO: &str = r#""camera_model": "OPENCV", "fl_x": 14, "fl_y": 14.5, "cx": 8.25, "cy": 6,
    "w": 16, "h": 12, "k1": 0.01, "k2": -0.003, "p1": 0.0005, "p2": -0.0004,"#;

fn names(data: &Dataset, indices: &[usize]) -> Vec<String> {
    indices.iter().map(|&i| data.images[i].name.to_string()).collect()
}

#[test]
fn a_nerfstudio_file_has_its_intrinsics_split_and_world() {
    let scene = Scene::json(
        &format!(
            r#"{NERFSTUDIO} "applied_transform": [[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 2]], "applied_scale": 0.5,
            "train_filenames": ["images/0.png", "./images/1.png"], "val_filenames": ["images/2.png"],
            "test_filenames": ["images/3.png"],"#
        ),
        r#""mask_path": "kept/four.png", "depth_file_path": "d.png", "colmap_im_id": 7,"#,
    );
    let data = scene.open().unwrap();
    assert_eq!(data.kind, DatasetKind::Nerfstudio);
    assert_eq!(data.background, [0.0; 3]);
    assert_eq!(data.cameras.len(), 1);
    assert_eq!(data.cameras[0].model, CameraModel::OpenCv);
    assert_eq!(data.cameras[0].params, [14.0, 14.5, 8.25, 6.0, 0.01, -0.003, 0.0005, -0.0004]);
    assert_eq!(names(&data, &data.split.train), ["images/0.png", "images/1.png"]);
    assert_eq!(names(&data, &data.split.test), ["images/3.png"]);
    let applied = data.applied_transform.unwrap();
    assert_eq!((applied.transform[2], applied.scale), ([0.0, -1.0, 0.0, 2.0], 0.5));
    assert!(scene.report().contains(
        &"DATA/transforms.json: not using 6 frames in neither the training nor the test list".to_owned()
    ));
}

#[test]
fn without_a_test_list_the_validation_list_is_held_out() {
    let scene =
        Scene::json(&format!(r#"{NERFSTUDIO} "val_filenames": ["images/2.png", "images/5.png"],"#), "");
    let data = scene.open().unwrap();
    assert_eq!(names(&data, &data.split.test), ["images/2.png", "images/5.png"]);
    assert_eq!(data.split.train.len(), 7);
}

#[test]
fn a_frame_overrides_the_file() {
    let scene = Scene::json(NERFSTUDIO, r#""fl_x": 20, "cx": 7,"#);
    let data = scene.open().unwrap();
    assert_eq!(data.cameras.len(), 2);
    let fourth = &data.cameras[data.images[4].source_camera];
    // fl_y of the file does not belong to the focal length of the frame.
    assert_eq!(fourth.params, [20.0, 20.0, 7.0, 6.0, 0.01, -0.003, 0.0005, -0.0004]);
}

#[test]
fn an_instant_ngp_file_is_known_by_its_box_and_may_be_a_fisheye() {
    let head = r#""camera_angle_x": 1.0, "fl_x": 14, "cx": 8, "cy": 6, "w": 16, "h": 12, "k1": 0.02, "k3": 0.001,
        "is_fisheye": true, "aabb_scale": 4, "scale": 0.33, "offset": [0.5, 0.5, 0.5],"#;
    let scene = Scene::json(head, r#""sharpness": 31.7,"#);
    let data = scene.open().unwrap();
    assert_eq!(data.kind, DatasetKind::InstantNgp);
    assert_eq!(data.cameras[0].model, CameraModel::OpenCvFisheye);
    assert_eq!(data.cameras[0].params, [14.0, 14.0, 8.0, 6.0, 0.02, 0.0, 0.001, 0.0]);
    assert_eq!((data.split.train.len(), data.split.test.len()), (7, 2));
}

#[test]
fn a_blender_family_has_its_own_split_and_a_white_background() {
    let scene = Scene::empty();
    for (half, count) in [("train", 5), ("val", 2), ("test", 3)] {
        let frames: Vec<String> = (0..count)
            .map(|i| {
                scene.write(&format!("{half}/r_{i}.png"), &tiny_png(16, 12));
                json_frame(&format!("./{half}/r_{i}"), 0.4 * f64::from(i), "\"rotation\": 0.03,")
            })
            .collect();
        let json = format!("{{\"camera_angle_x\": 0.7, \"frames\": [{}]}}", frames.join(","));
        scene.write(&format!("transforms_{half}.json"), json.as_bytes());
    }
    let data = scene.open().unwrap();
    assert_eq!((data.kind, data.background), (DatasetKind::Blender, [1.0; 3]));
    assert_eq!(names(&data, &data.split.test), ["test/r_0.png", "test/r_1.png", "test/r_2.png"]);
    assert_eq!(data.split.train.len(), 5);
    let camera = data.images[0].camera;
    let focal = 8.0 / libm::tan(0.35);
    assert_eq!((camera.fx, camera.fy, camera.cx, camera.cy), (focal, focal, 8.0, 6.0));

    scene.remove("transforms_test.json");
    let data = scene.open().unwrap();
    assert_eq!(names(&data, &data.split.test), ["val/r_0.png", "val/r_1.png"]);
    scene.remove("transforms_val.json");
    assert_eq!(names(&scene.open().unwrap(), &scene.open().unwrap().split.test), ["train/r_0.png"]);
}

#[test]
fn a_file_can_be_named_itself() {
    let scene = Scene::json(NERFSTUDIO, "");
    std::fs::rename(scene.path().join("transforms.json"), scene.path().join("other.json")).unwrap();
    let path = scene.path().join("other.json");
    let data = gausset_io::dataset::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!((data.images.len(), data.source), (9, path));
}

#[test]
fn axes_turn_from_opengl_to_opencv() {
    let scene = Scene::json(NERFSTUDIO, "");
    let data = scene.open().unwrap();
    for (i, image) in data.images.iter().enumerate() {
        let angle = 0.3 * i as f64;
        let centre = image.pose.centre();
        let expected = [4.0 * libm::sin(angle), 0.5, 4.0 * libm::cos(angle)];
        // The matrix takes camera to world: its last column is the centre.
        assert!(centre.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12));
        // The camera looks along -z of OpenGL, at the axis of the circle; up there is down here.
        let ahead = image.pose.apply([0.0, 0.5, 0.0]);
        assert!(ahead[0].abs() < 1e-12 && ahead[1].abs() < 1e-12 && (ahead[2] - 4.0).abs() < 1e-12);
        let above = image.pose.apply([0.0, 1.5, 0.0]);
        assert!((above[1] + 1.0).abs() < 1e-12);
    }
}

#[test]
fn points_come_from_the_ply_file_in_the_world_of_the_frames() {
    let scene = Scene::json(&format!(r#"{NERFSTUDIO} "ply_file_path": "points.ply","#), "");
    scene.write(
        "points.ply",
        b"ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n\
          property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n1 2 3 255 0 128\n-1 0.5 0 1 2 3\n",
    );
    let data = scene.open().unwrap();
    let points: Vec<([f64; 3], [u8; 3])> = data.points.iter().map(|p| (p.position, p.colour)).collect();
    assert_eq!(points, [([1.0, 2.0, 3.0], [255, 0, 128]), ([-1.0, 0.5, 0.0], [1, 2, 3])]);
    scene.remove("points.ply");
    assert_eq!(
        scene.report(),
        [
            "DATA/points.ply: points: no such file; the points are left out",
            "DATA/transforms.json: no points; training starts from random splats"
        ]
    );
}

fn camera_of(intrinsics: &Intrinsics) -> Result<(CameraModel, Vec<f64>), DatasetProblem> {
    intrinsics.camera(0, [100, 50]).map(|camera| (camera.model, camera.params))
}

#[test]
fn missing_intrinsics_have_their_defaults() {
    let focal = Intrinsics { fl_x: Some(80.0), ..Intrinsics::default() };
    assert_eq!(camera_of(&focal), Ok((CameraModel::Pinhole, vec![80.0, 80.0, 50.0, 25.0])));
    let angles = Intrinsics {
        camera_angle_x: Some(1.0),
        camera_angle_y: Some(0.5),
        w: Some(200.0),
        h: Some(100.0),
        ..Intrinsics::default()
    };
    let expected = vec![100.0 / libm::tan(0.5), 50.0 / libm::tan(0.25), 100.0, 50.0];
    assert_eq!(camera_of(&angles), Ok((CameraModel::Pinhole, expected)));
    assert_eq!(
        camera_of(&Intrinsics::default()),
        Err(DatasetProblem::MissingValue("the focal length (fl_x or camera_angle_x)"))
    );
}

#[test]
fn camera_models_become_those_of_colmap() {
    let with = |model: &str, k: [Option<f64>; 6]| Intrinsics {
        camera_model: Some(model.to_owned()),
        fl_x: Some(80.0),
        k,
        p1: Some(0.5),
        ..Intrinsics::default()
    };
    let one = [Some(0.1), None, None, None, None, None];
    let three = [Some(0.1), None, Some(0.3), None, None, None];
    let four = [Some(0.1), None, None, Some(0.4), None, None];
    let model = |name, k| camera_of(&with(name, k)).map(|(model, _)| model);
    assert_eq!(model("OPENCV", one), Ok(CameraModel::OpenCv));
    assert_eq!(model("SIMPLE_RADIAL", one), Ok(CameraModel::OpenCv));
    assert_eq!(model("OPENCV", three), Ok(CameraModel::FullOpenCv));
    assert!(matches!(model("OPENCV", four), Err(DatasetProblem::Value { name: "k4", .. })));
    assert_eq!(model("OPENCV_FISHEYE", four), Ok(CameraModel::OpenCvFisheye));
    assert_eq!(model("EQUIRECTANGULAR", one), Ok(CameraModel::Equirectangular));
    assert!(matches!(model("FISHEYE624", one), Err(DatasetProblem::UnknownModelName { .. })));
}

/// The camera of a file with these keys, for pictures of 100x50 px.
fn camera_in(head: &str, frame: &str) -> Result<(CameraModel, Vec<f64>), DatasetProblem> {
    let json = format!("{{{head} \"frames\": [{}]}}", json_frame("a.png", 0.0, frame));
    let file = transforms::parse(json.as_bytes()).unwrap();
    let own = file.frames[0].intrinsics.as_ref();
    camera_of(&own.map_or_else(|| file.intrinsics.clone(), |own| own.with_defaults(&file.intrinsics)))
}

#[test]
fn intrinsics_are_read_as_scripts_write_them() {
    let pinhole = |values: [f64; 4]| Ok((CameraModel::Pinhole, values.to_vec()));
    assert_eq!(camera_in(r#""fl_x": "80", "w": " 100 ", "h": "50","#, ""), pinhole([80.0, 80.0, 50.0, 25.0]));
    assert_eq!(camera_in(r#""fl_x": 80, "camera_model": "Pinhole","#, ""), pinhole([80.0, 80.0, 50.0, 25.0]));
    let matrix = r#""K": [[80, 0, 48], [0, 81, 24], [0, 0, 1]],"#;
    assert_eq!(camera_in(matrix, ""), pinhole([80.0, 81.0, 48.0, 24.0]));
    assert_eq!(camera_in("", matrix), pinhole([80.0, 81.0, 48.0, 24.0]));
    assert_eq!(camera_in(r#""K": [80, 0, 48, 0, 81, 24, 0, 0, 1],"#, ""), pinhole([80.0, 81.0, 48.0, 24.0]));
    assert_eq!(camera_in(r#""fl_x": 70, "cx": 40,"#, matrix), pinhole([80.0, 81.0, 48.0, 24.0]));
    // Degrees, unlike camera_angle_x.
    let focal = 50.0 / libm::tan(30.0f64.to_radians());
    for head in [r#""x_fov": 60,"#, r#""fov": "60","#] {
        assert_eq!(camera_in(head, ""), pinhole([focal, focal, 50.0, 25.0]));
    }
    let high = 25.0 / libm::tan(20.0f64.to_radians());
    assert_eq!(camera_in(r#""x_fov": 60, "y_fov": 40,"#, ""), pinhole([focal, high, 50.0, 25.0]));
    assert_eq!(
        camera_in(r#""fl_x": 9,"#, r#""y_fov": 40, "x_fov": 60,"#),
        pinhole([focal, high, 50.0, 25.0])
    );
    assert!(matches!(camera_in(r#""x_fov": 200,"#, ""), Err(DatasetProblem::Value { name: "x_fov", .. })));
}

#[test]
fn lenses_of_instant_ngp_are_read_or_refused_by_name() {
    for head in [r#""latlong": true,"#, r#""equirectangular": 1,"#, r#""camera_model": "equirectangular","#] {
        assert_eq!(camera_in(head, ""), Ok((CameraModel::Equirectangular, vec![100.0, 50.0])), "{head}");
    }
    let plain = camera_in(r#""fl_x": 80, "latlong": false,"#, "");
    assert_eq!(plain, Ok((CameraModel::Pinhole, vec![80.0, 80.0, 50.0, 25.0])));
    let linear = r#""ftheta_p0": 0, "ftheta_p1": 0.0125, "ftheta_p2": 0, "ftheta_p3": 0, "ftheta_p4": 0,"#;
    let fisheye = vec![80.0, 80.0, 50.0, 25.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(camera_in(&format!("{linear} \"fl_x\": 3,"), ""), Ok((CameraModel::OpenCvFisheye, fisheye)));
    let error = camera_in(&linear.replace("\"ftheta_p3\": 0", "\"ftheta_p3\": 1e-9"), "").unwrap_err();
    assert!(error.to_string().starts_with("ftheta_p3 is "), "{error}");
}

#[test]
fn matrices_may_be_in_a_row_scaled_or_utf_16() {
    let plain = r#"{"fl_x": 1, "frames": [{"file_path": "ä.png", "transform_matrix":
        [[0, 0, 1, 4], [0, 1, 0, 5], [-1, 0, 0, 6], [0, 0, 0, 1]]}]}"#;
    let rows = "[[0, 0, 1, 4], [0, 1, 0, 5], [-1, 0, 0, 6], [0, 0, 0, 1]]";
    let expected = transforms::parse(plain.as_bytes()).unwrap();
    let pose = expected.frames[0].pose().unwrap();
    for matrix in [
        "[0, 0, 1, 4, 0, 1, 0, 5, -1, 0, 0, 6, 0, 0, 0, 1]",
        "[0, 0, 1, 4, 0, 1, 0, 5, -1, 0, 0, 6]",
        "[[0, 0, 1, \"4\"], [0, 1, 0, 5], [-1, 0, 0, 6]]",
        "[[0, 0, 0.5, 4], [0, 0.5, 0, 5], [-0.5, 0, 0, 6], [0, 0, 0, 1]]",
        "[[0, 0, 30, 4], [0, 30, 0, 5], [-30, 0, 0, 6], [0, 0, 0, 1]]",
    ] {
        let found = transforms::parse(plain.replace(rows, matrix).as_bytes()).unwrap();
        assert_eq!(found.frames[0].pose().unwrap(), pose, "{matrix}");
    }
    for matrix in ["[0, 0, 1, 4]", "[[0, 0, 1, 4], 0, 0, 0, 0]", "[[0, 0, 1], [0, 1, 0], [-1, 0, 0]]", "7"] {
        // No frame has another one.
        assert!(transforms::parse(plain.replace(rows, matrix).as_bytes()).is_err(), "{matrix}");
    }
    // Mirrored, and another scale along one axis.
    for matrix in
        ["[[0, 0, -1, 4], [0, 1, 0, 5], [-1, 0, 0, 6]]", "[[0, 0, 1, 4], [0, 2, 0, 5], [-1, 0, 0, 6]]"]
    {
        assert!(transforms::parse(plain.replace(rows, matrix).as_bytes()).unwrap().frames[0].pose().is_err());
    }
    let units = |mark: &[u16]| mark.iter().copied().chain(plain.encode_utf16()).collect::<Vec<u16>>();
    for mark in [&[][..], &[0xFEFF]] {
        for bytes in [
            units(mark).iter().flat_map(|u| u.to_le_bytes()).collect::<Vec<u8>>(),
            units(mark).iter().flat_map(|u| u.to_be_bytes()).collect(),
        ] {
            assert_eq!(transforms::parse(&bytes), Ok(expected.clone()));
            assert!(transforms::parse(&bytes[..bytes.len() - 1]).is_err(), "half a character");
        }
    }
}

#[test]
fn a_frame_with_a_number_that_is_none_costs_itself() {
    for (what, with) in [
        ("0.5]", "NaN]"),
        ("0.5]", "-Infinity]"),
        ("0.5]", "null]"),
        ("0.5]", "-nan(ind)]"),
        ("0.5]", "\"x\"]"),
        ("0.5]", "0.5, 1]"),
        ("transform_matrix", "matrix"),
        ("\"transform", "\"fl_x\": NaN, \"transform"),
        ("\"transform", "\"w\": -3, \"transform"),
    ] {
        let scene = Scene::json(NERFSTUDIO, "");
        scene.edit("transforms.json", |text| text.replacen(what, with, 1));
        let data = scene.open().unwrap_or_else(|e| panic!("{with}: {e}"));
        assert_eq!(data.images.len(), 8, "{with}");
        assert_eq!(
            data.skipped.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["images/0.png"],
            "{with}"
        );
    }
    let text = r#"{"fl_x": 1, "note": "NaN, \" Infinity", "x": [true, null, -1.5e3], "frames": []}"#;
    assert_eq!(place_and_line(text), "frames: no frames (expected at least 1)", "words in strings stay");
}

fn place_and_line(json: &str) -> String {
    let (place, problem) = transforms::parse(json.as_bytes()).unwrap_err();
    format!("{place}: {problem}")
}

#[test]
fn errors_name_the_place_in_the_json() {
    let frame = json_frame("a.png", 0.0, "");
    let with_frames = |frames: &str| format!("{{\"fl_x\": 1, \"frames\": [{frames}]}}");
    let cases = [
        ("", "line 1: EOF while parsing a value (line 1, column 0)"),
        ("{\"frames\": []}", "frames: no frames (expected at least 1)"),
        ("{\"fl_x\": 1}", "line 1: missing field `frames` (line 1, column 11)"),
        (
            "{\"fl_x\": \"12,5\", \"frames\": []}",
            "fl_x: invalid value: string \"12,5\", expected a number (line 1, column 15)",
        ),
        (
            " [{\"shots\": {}}]",
            "top level: is a list (expected an object with `frames`, as in transforms.json); reconstruction.json of \
             OpenSfM and cameras.json of 3DGS are lists",
        ),
        ("{\"w\": 1, \"w\": 2}", "line 1: duplicate field `w` (line 1, column 12)"),
    ];
    for (json, expected) in cases {
        assert_eq!(place_and_line(json), expected);
    }
    assert_eq!(
        place_and_line(&with_frames("{\"file_path\": \"b\", \"transform_matrix\": [[1, 0, 0, 0]]}")),
        "frames[0].transform_matrix: invalid length 1, expected 3 or 4 rows of 4 numbers (line 1, column 76)"
    );
    assert_eq!(
        place_and_line(&with_frames(&frame.replace("0.5", "\"x\""))),
        "frames[0].transform_matrix[1][3]: invalid value: string \"x\", expected a number (line 1, column 95)"
    );
    assert_eq!(
        place_and_line(&with_frames("{\"transform_matrix\": []}")),
        "frames[0].transform_matrix: invalid length 0, expected 3 or 4 rows of 4 numbers (line 1, column 46)"
    );
    let deep = format!("{{\"x\": {}1{}, \"frames\": [{frame}]}}", "[".repeat(70), "]".repeat(70));
    assert_eq!(place_and_line(&deep), "line 1: nested deeper than 64 levels");
    let text = format!("{{\"x\": \"{}\", \"frames\": [{frame}]}}", "[\\\"".repeat(100));
    assert!(transforms::parse(text.as_bytes()).is_ok(), "brackets in strings do not nest");
}

#[test]
fn damage_is_an_error_and_takes_no_more_memory_than_the_file() {
    let frames: Vec<String> = (0..4)
        .map(|i| {
            json_frame(&format!("images/{i}.png"), f64::from(i), "\"k1\": 0.5, \"mask_path\": \"m.png\",")
        })
        .collect();
    let good = format!(
        "{{{NERFSTUDIO}\n\"test_filenames\": [\"a\"], \"applied_scale\": 2, \"unknown\": [{{}}, [[]]],\n\"frames\": [\n{}\n]}}",
        frames.join(",\n")
    );
    let mut check = |bytes: &[u8]| {
        let (result, peak) = memory::peak(|| transforms::parse(bytes));
        assert!(peak <= 4 * bytes.len() + (1 << 20), "{peak} bytes for a file of {}", bytes.len());
        if let Ok(found) = result {
            for frame in &found.frames {
                if let Ok(pose) = frame.pose() {
                    assert!(gausset_core::se3::orthonormality_error(&pose.rotation) < 1e-5);
                    assert!(pose.translation.iter().all(|v| v.is_finite()));
                }
            }
        }
    };
    damage::truncations(good.as_bytes(), &mut check);
    damage::flips(good.as_bytes(), 2000, &mut check);
    damage::splices(good.as_bytes(), b"{\"frames\": [{}]}", &mut check);
    damage::line_damage(&good, &mut check);
    check(&b"[".repeat(1 << 20));
    check(&[&b"{\"x\": ["[..], &b"0,".repeat(1 << 19), b"0]}"].concat());
    check(&[&b"{\"frames\": ["[..], &b"{},".repeat(1 << 18), b"{}]}"].concat());
}

#[test]
fn mirrored_and_scaled_matrices_and_odd_last_rows_cost_their_picture_only() {
    let scene = Scene::json(NERFSTUDIO, "");
    let replace = |what: &str, with: &str, n: usize| {
        scene.edit("transforms.json", |text| {
            let lines: Vec<String> = text
                .lines()
                .map(|line| {
                    if line.contains(&format!("images/{n}.png")) {
                        line.replace(what, with)
                    } else {
                        line.to_owned()
                    }
                })
                .collect();
            lines.join("\n")
        });
    };
    replace("[0, 1, 0, 0.5]", "[0, -1, 0, 0.5]", 0);
    replace("[0, 1, 0, 0.5]", "[0, 1.5, 0, 0.5]", 1);
    replace("[0, 0, 0, 1]", "[0, 0, 0, 2]", 2);
    replace("[0, 1, 0, 0.5]", "[0, 1, 0, 1e300]", 3);
    replace("[0, 1, 0, 0.5]", "[0, 1.001, 0, 0.5]", 5);
    let data = scene.open().unwrap();
    let lines: Vec<String> = data.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "images/0.png: pose: rotation has determinant -1 and is off orthogonal by 0 (expected 1 and 0)",
            "images/1.png: pose: rotation has determinant 1.5 and is off orthogonal by 1.25 (expected 1 and 0)",
            "images/2.png: pose: last row is [0.0, 0.0, 0.0, 2.0] (expected [0.0, 0.0, 0.0, 1.0])",
            "images/3.png: pose: camera is 1e300 units from the origin (expected at most 1e9)",
        ]
    );
    // A small deviation is repaired, and the camera centre is unchanged.
    let repaired = data.images.iter().find(|i| &*i.name == "images/5.png").unwrap();
    assert!(gausset_core::se3::orthonormality_error(&repaired.pose.rotation) < 1e-12);
    assert!((repaired.pose.centre()[1] - 0.5).abs() < 1e-12);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_intrinsics_make_a_camera_that_is_none(
        values in proptest::collection::vec(proptest::option::of(proptest::num::f64::ANY), 10),
        fisheye in proptest::option::of(any::<bool>()),
        w in 1u32..4000, h in 1u32..4000,
    ) {
        let [fl_x, fl_y, cx, cy, camera_angle_x, camera_angle_y, k1, k2, p1, width] =
            <[Option<f64>; 10]>::try_from(values).unwrap();
        let intrinsics = Intrinsics {
            fl_x, fl_y, cx, cy, camera_angle_x, camera_angle_y, p1, w: width,
            k: [k1, k2, None, None, None, None],
            is_fisheye: fisheye,
            ..Intrinsics::default()
        };
        if let Ok(camera) = intrinsics.camera(0, [w, h]) {
            prop_assert!(camera.params.iter().all(|v| v.is_finite()));
            prop_assert!(camera.params[0] > 0.0 && camera.params[1] > 0.0);
        }
    }
}
