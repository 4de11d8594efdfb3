//! Cameras of other programs: each file is written here from known cameras, and pixels are compared with the formula of
//! the program, written out once more.

use std::fmt::Write as _;

use crate::dataset_support::{Scene, tiny_png};
use gausset_core::{Pose, se3};
use gausset_io::dataset::colmap::ModelFormat;
use gausset_io::dataset::{CameraModel, Dataset, DatasetKind, OpenOptions, SkipReason, Warning};

const W: f64 = 64.0;
const H: f64 = 48.0;
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Rotation vectors of `camera_from_world`, radians.
const TURNS: [[f64; 3]; 3] = [[0.1, -0.2, 0.3], [-0.3, 0.15, 1.2], [0.05, 0.4, -0.25]];
const SHIFTS: [[f64; 3]; 3] = [[0.1, -0.2, 4.0], [0.3, 0.1, 4.5], [-0.2, 0.25, 3.5]];
const POINTS: [[f64; 3]; 4] = [[0.0, 0.0, 0.0], [0.9, -0.7, 0.3], [-0.8, 0.6, -0.5], [0.4, 0.9, 0.7]];

/// Largest difference from the formula, px.
const TOLERANCE: f64 = 1e-3;

fn poses() -> [Pose; 3] {
    std::array::from_fn(|i| {
        let angle = se3::norm(TURNS[i]);
        let (s, c) = (libm::sin(0.5 * angle), libm::cos(0.5 * angle));
        let [x, y, z] = TURNS[i].map(|v| v / angle * s);
        Pose::from_quaternion([c, x, y, z], SHIFTS[i]).unwrap()
    })
}

/// `world_from_camera` rows and centre.
fn inverse(pose: &Pose) -> ([[f64; 3]; 3], [f64; 3]) {
    (se3::transpose(&pose.rotation), pose.centre())
}

/// `world_from_camera` with y up and z backwards.
fn opengl(pose: &Pose) -> ([[f64; 3]; 3], [f64; 3]) {
    let (r, c) = inverse(pose);
    (r.map(|[x, y, z]| [x, -y, -z]), c)
}

fn spaced(values: impl IntoIterator<Item = f64>) -> String {
    values.into_iter().map(|v| v.to_string()).collect::<Vec<_>>().join(" ")
}

/// Pictures a, b, c in a folder.
fn scene_with(folder: &str) -> Scene {
    let scene = Scene::empty();
    for name in NAMES {
        scene.write(&format!("{folder}/{name}.png"), &tiny_png(W as u32, H as u32));
    }
    scene
}

/// Asserts that all three pictures have the pose, and every point the pixel that `pixel` gives for it in camera axes.
fn check(data: &Dataset, kind: DatasetKind, poses: &[Pose], pixel: impl Fn(usize, [f64; 3]) -> [f64; 2]) {
    check_from(data, kind, poses, [0.0; 3], pixel);
}

fn check_from(
    data: &Dataset,
    kind: DatasetKind,
    poses: &[Pose],
    origin: [f64; 3],
    pixel: impl Fn(usize, [f64; 3]) -> [f64; 2],
) {
    assert_eq!(data.kind, kind);
    assert_eq!(data.images.len(), poses.len(), "{:?}", data.report_lines());
    for (i, (image, pose)) in data.images.iter().zip(poses).enumerate() {
        for point in POINTS {
            let point = [0, 1, 2].map(|k| point[k] + origin[k]);
            let wanted = pixel(i, pose.apply(point));
            // Coordinates far from the origin are moved there.
            let there = se3::sub(point, data.offset.unwrap_or_default());
            let found = data.lens(i).project(image.pose.apply(there)).unwrap();
            assert!(
                se3::norm([found[0] - wanted[0], found[1] - wanted[1], 0.0]) < TOLERANCE,
                "{i}: {found:?} {wanted:?}"
            );
        }
    }
}

/// Distortion of Brown with the tangential terms of OpenCV.
fn brown([x, y, z]: [f64; 3], k: [f64; 4], [p1, p2]: [f64; 2]) -> [f64; 2] {
    distorted([x / z, y / z], k, [p1, p2])
}

fn distorted([u, v]: [f64; 2], k: [f64; 4], [p1, p2]: [f64; 2]) -> [f64; 2] {
    let r2 = u * u + v * v;
    let radial = 1.0 + k[0] * r2 + k[1] * r2.powi(2) + k[2] * r2.powi(3) + k[3] * r2.powi(4);
    [
        u * radial + 2.0 * p1 * u * v + p2 * (r2 + 2.0 * u * u),
        v * radial + p1 * (r2 + 2.0 * v * v) + 2.0 * p2 * u * v,
    ]
}

/// (u, v) of an equidistant fisheye before distortion.
fn equidistant([x, y, z]: [f64; 3]) -> [f64; 2] {
    let r = x.hypot(y);
    let theta = libm::atan2(r, z);
    if r == 0.0 { [0.0; 2] } else { [x * theta / r, y * theta / r] }
}

const METASHAPE_TERMS: &str = "<f>52</f><cx>1.5</cx><cy>-0.75</cy><b1>0.8</b1><k1>-0.1</k1><k2>0.02</k2>\
    <k3>-0.003</k3><p1>0.004</p1><p2>-0.003</p2>";

/// A document whose chunk is turned, scaled and moved.
fn metashape(kind: &str, terms: &str, poses: &[Pose], origin: [f64; 3]) -> String {
    let (turn, scale) = ([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], 2.5);
    let mut cameras = String::new();
    for (i, pose) in poses.iter().enumerate() {
        let (r, c) = inverse(pose);
        let r = se3::mul(&se3::transpose(&turn), &r);
        let c = se3::transpose_mul_vec(&turn, [0, 1, 2].map(|k| (c[k] - origin[k]) / scale));
        let rows = (0..3).flat_map(|k| [r[k][0], r[k][1], r[k][2], c[k]]).chain([0.0, 0.0, 0.0, 1.0]);
        let (name, transform) = (NAMES[i], spaced(rows));
        write!(
            cameras,
            "<camera id=\"{i}\" sensor_id=\"4\" label=\"{name}\"><transform>{transform}</transform></camera>"
        )
        .unwrap();
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<document version=\"2.0.0\"><chunk label=\"Chunk 1\">\
         <sensors><sensor id=\"4\" label=\"X\" type=\"{kind}\"><resolution width=\"{W}\" height=\"{H}\"/>\
         <calibration type=\"{kind}\" class=\"initial\"><f>1</f></calibration>\
         <calibration type=\"{kind}\" class=\"adjusted\"><resolution width=\"{W}\" height=\"{H}\"/>{terms}</calibration>\
         </sensor></sensors><cameras>{cameras}<camera id=\"9\" sensor_id=\"4\" label=\"lost\"/></cameras>\
         <transform><rotation>{}</rotation><translation>{}</translation><scale>{scale}</scale></transform>\
         </chunk></document>",
        spaced(turn.into_iter().flatten()),
        spaced(origin)
    )
}

#[test]
fn metashape_has_its_own_order_of_tangential_terms_and_measures_from_the_middle() {
    // A geo-referenced chunk: UTM metres.
    let origin = [431_000.25, 5_412_000.75, 312.5];
    let poses = poses().map(|pose| {
        let back = se3::mul_vec(&pose.rotation, origin);
        Pose { translation: [0, 1, 2].map(|k| pose.translation[k] - back[k]), ..pose }
    });
    let (k, p1, p2) = ([-0.1, 0.02, -0.003, 0.0], 0.004, -0.003);
    let to_pixel = |[u, v]: [f64; 2]| {
        let r2 = u * u + v * v;
        let radial = 1.0 + k[0] * r2 + k[1] * r2 * r2 + k[2] * r2 * r2 * r2;
        let x = u * radial + p1 * (r2 + 2.0 * u * u) + 2.0 * p2 * u * v;
        let y = v * radial + p2 * (r2 + 2.0 * v * v) + 2.0 * p1 * u * v;
        [0.5 * W + 1.5 + x * (52.0 + 0.8), 0.5 * H - 0.75 + y * 52.0]
    };
    let scene = scene_with("images");
    scene.write("cameras.xml", metashape("frame", METASHAPE_TERMS, &poses, origin).as_bytes());
    let data = scene.open().unwrap();
    check_from(&data, DatasetKind::Metashape, &poses, origin, |_, [x, y, z]| to_pixel([x / z, y / z]));
    assert_eq!(data.cameras.len(), 1);
    assert!(data.warnings.iter().any(|w| matches!(w, Warning::WithoutPose { count: 1, listed: 4, .. })));
    for kind in ["fisheye", "equidistant_fisheye"] {
        scene.write("cameras.xml", metashape(kind, METASHAPE_TERMS, &poses, origin).as_bytes());
        let data = scene.open().unwrap();
        check_from(&data, DatasetKind::Metashape, &poses, origin, |_, p| to_pixel(equidistant(p)));
    }
}

#[test]
fn a_lens_that_no_model_expresses_is_named_with_what_to_do() {
    for (kind, terms, wanted) in [
        ("frame", "<f>52</f><b2>0.9</b2>", "Metashape's sensor \"X\": b2 is 0.9 (expected 0: "),
        ("frame", "<f>52</f><p1>0.1</p1><p3>9</p3>", "Metashape's sensor \"X\": p3 is 9 (expected 0: "),
        ("frame", "<f>52</f><k4>0.1</k4>", "Metashape's sensor \"X\": k4 is 0.1 (expected 0: "),
        (
            "equisolid_fisheye",
            "<f>52</f>",
            "Metashape's sensor \"X\": type is equisolid_fisheye (expected frame, ",
        ),
        ("frame", "<fx>52</fx>", "Metashape's sensor \"X\": f is missing"),
    ] {
        let scene = scene_with("images");
        scene.write("cameras.xml", metashape(kind, terms, &poses(), [0.0; 3]).as_bytes());
        let error = scene.error();
        assert!(
            error.starts_with(
                "DATA/cameras.xml: images: none of the 3 listed can be used; the first: a.png: camera: "
            ),
            "{error}"
        );
        assert!(
            error.contains(wanted)
                && error.ends_with("export undistorted pictures with their cameras from Metashape"),
            "{error}"
        );
    }
}

/// Columns y and z of `world_from_camera` change sign; rows become those of `camera_from_world`.
fn from_angles([heading, pitch, roll]: [f64; 3], centre: [f64; 3]) -> Pose {
    let [h, p, r] = [-heading, pitch, roll].map(f64::to_radians).map(|a| (libm::cos(a), libm::sin(a)));
    // Rz(-heading) Rx(pitch) Ry(roll), multiplied out.
    let m = [
        [h.0 * r.0 - h.1 * p.1 * r.1, -h.1 * p.0, h.0 * r.1 + h.1 * p.1 * r.0],
        [h.1 * r.0 + h.0 * p.1 * r.1, h.0 * p.0, h.1 * r.1 - h.0 * p.1 * r.0],
        [-p.0 * r.1, p.1, p.0 * r.0],
    ];
    let rotation = se3::transpose(&m.map(|[x, y, z]| [x, -y, -z]));
    let back = se3::mul_vec(&rotation, centre);
    Pose { rotation, translation: back.map(|v| -v) }
}

const RC_K: [f64; 4] = [0.05, -0.02, 0.01, 0.0];
const RC_T: [f64; 2] = [0.004, -0.003];

/// Pixel of RealityCapture: f for 36 mm, principal point in longer sides, t1 belongs to x² and t2 to y².
fn realitycapture_pixel(point: [f64; 3]) -> [f64; 2] {
    let [x, y] = brown(point, RC_K, [RC_T[1], RC_T[0]]);
    [0.5 * W + 0.01 * W + 28.0 / 36.0 * W * x, 0.5 * H - 0.02 * W + 28.0 / 36.0 * W * y]
}

#[test]
fn a_table_of_realitycapture_is_scaled_by_the_longer_side() {
    let given = [
        ([5.0, 88.0, 3.0], [0.1, -4.0, 0.2]),
        ([-10.0, 80.0, -5.0], [-0.3, -4.0, -0.4]),
        ([2.0, 95.0, 8.0], [0.2, -4.2, 0.3]),
    ];
    let header = "#name,x,y,alt,heading,pitch,roll,f,px,py,k1,k2,k3,k4,t1,t2";
    let rows: Vec<String> = given
        .iter()
        .zip(NAMES)
        .map(|((angles, at), name)| {
            let numbers = at.iter().chain(angles).chain(&[28.0, 0.01, -0.02]).chain(&RC_K).chain(&RC_T);
            format!("{name}.png,{}", numbers.map(ToString::to_string).collect::<Vec<_>>().join(","))
        })
        .collect();
    let text = format!("{header}\r\n{}\r\n", rows.join("\r\n"));
    let poses = given.map(|(angles, at)| from_angles(angles, at));
    for text in [
        text.clone(),
        format!("#cameras 3\n{text}"),
        text.replace(',', ";").replace('.', ",").replace(",png", ".png"),
    ] {
        let scene = scene_with("images");
        scene.write("export.csv", text.as_bytes());
        let data = scene.open().unwrap();
        check(&data, DatasetKind::RealityCapture, &poses, |_, p| realitycapture_pixel(p));
    }
    // Only the columns of the pose and the focal length.
    let short: Vec<String> =
        text.lines().map(|l| l.split(',').take(8).collect::<Vec<_>>().join(",")).collect();
    let scene = scene_with("images");
    scene.write("export.csv", short.join("\n").as_bytes());
    let data = scene.open().unwrap();
    let f = 28.0 / 36.0 * W;
    check(&data, DatasetKind::RealityCapture, &poses, |_, [x, y, z]| {
        [0.5 * W + f * x / z, 0.5 * H + f * y / z]
    });
    // A cell that is no number costs its picture.
    scene.write("export.csv", text.replacen("28", "nan", 1).as_bytes());
    let data = scene.open().unwrap();
    assert_eq!(data.images.len(), 2);
    assert_eq!(data.skipped[0].to_string(), "a.png: camera: line 2: f: \"nan\" is not a finite number");
}

fn sidecar(pose: &Pose, model: &str, terms: &str) -> String {
    format!(
        "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\
         <rdf:Description xcr:Version=\"3\" xcr:DistortionModel=\"{model}\" xcr:FocalLength35mm=\"28\" xcr:Skew=\"0\" \
         xcr:AspectRatio=\"1\" xcr:PrincipalPointU=\"0.01\" xcr:PrincipalPointV=\"-0.02\" \
         xmlns:xcr=\"http://www.capturingreality.com/ns/xcr/1.1#\"><xcr:Rotation>{}</xcr:Rotation>\
         <xcr:Position>{}</xcr:Position><xcr:DistortionCoeficients>{terms}</xcr:DistortionCoeficients>\
         </rdf:Description></rdf:RDF></x:xmpmeta>",
        spaced(pose.rotation.into_iter().flatten()),
        spaced(pose.centre())
    )
}

#[test]
fn sidecars_of_realitycapture_are_read_beside_the_pictures() {
    let scene = scene_with("images/cam0");
    let terms = spaced(RC_K.into_iter().chain(RC_T));
    for (pose, name) in poses().iter().zip(NAMES) {
        scene.write(&format!("images/cam0/{name}.xmp"), sidecar(pose, "brown3t2", &terms).as_bytes());
    }
    // Another program's sidecar.
    scene.write("images/cam0/d.xmp", b"<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"/>");
    let data = gausset_io::dataset::open(&scene.path().join("images"), &OpenOptions::default()).unwrap();
    check(&data, DatasetKind::RealityCapture, &poses(), |_, p| realitycapture_pixel(p));
    assert_eq!(&*data.images[0].name, "a.png");
    scene.write("images/cam0/b.xmp", sidecar(&poses()[1], "division", "0.1 0 0 0 0 0").as_bytes());
    let data = gausset_io::dataset::open(&scene.path().join("images"), &OpenOptions::default()).unwrap();
    let line = data.skipped[0].to_string();
    assert!(
        line.starts_with("b.png: camera: xcr:DistortionModel is division (expected a brown model); "),
        "{line}"
    );
}

/// A reconstruction with a camera of each kind.
fn opensfm() -> String {
    let size = format!("\"width\": {W}, \"height\": {H}");
    let shot = |i: usize, camera: &str| {
        format!(
            "\"{}.png\": {{\"rotation\": {:?}, \"translation\": {:?}, \"camera\": \"{camera}\"}}",
            NAMES[i], TURNS[i], SHIFTS[i]
        )
    };
    format!(
        "[{{\"cameras\": {{\
         \"v2 brown\": {{\"projection_type\": \"brown\", {size}, \"focal_x\": 0.8, \"focal_y\": 0.82, \"c_x\": 0.01, \
         \"c_y\": -0.02, \"k1\": -0.1, \"k2\": 0.02, \"p1\": 0.004, \"p2\": -0.003, \"k3\": -0.005}},\
         \"old\": {{\"projection_type\": \"perspective\", {size}, \"focal\": 0.8, \"k1\": -0.1, \"k2\": 0.02}},\
         \"fish\": {{\"projection_type\": \"fisheye\", {size}, \"focal\": 0.7, \"k1\": -0.05, \"k2\": 0.01}}}},\
         \"shots\": {{{}, {}, {}}},\
         \"points\": {{\"7\": {{\"color\": [1.0, 2.0, 300.0], \"coordinates\": [1.5, 2, 3]}}, \
         \"8\": {{\"coordinates\": [NaN, 0, 0]}}}}}}]",
        shot(0, "v2 brown"),
        shot(1, "old"),
        shot(2, "fish")
    )
}

fn opensfm_pixel(i: usize, p: [f64; 3]) -> [f64; 2] {
    // The longer side is the width; pixels count from the corner, so the middle is at half of each side.
    let normalised = match i {
        0 => {
            let [x, y] = brown(p, [-0.1, 0.02, -0.005, 0.0], [0.004, -0.003]);
            [0.8 * x + 0.01, 0.82 * y - 0.02]
        }
        1 => brown(p, [-0.1, 0.02, 0.0, 0.0], [0.0; 2]).map(|v| 0.8 * v),
        _ => distorted(equidistant(p), [-0.05, 0.01, 0.0, 0.0], [0.0; 2]).map(|v| 0.7 * v),
    };
    [normalised[0] * W + 0.5 * W, normalised[1] * W + 0.5 * H]
}

#[test]
fn opensfm_and_odm_are_read_in_the_folder_or_below() {
    for name in ["reconstruction.json", "opensfm/reconstruction.json"] {
        let scene = scene_with("images");
        scene.write(name, opensfm().as_bytes());
        let data = scene.open().unwrap();
        check(&data, DatasetKind::OpenSfm, &poses(), opensfm_pixel);
        assert_eq!((data.points[0].position, data.points[0].colour), ([1.5, 2.0, 3.0], [1, 2, 255]));
        assert!(data.warnings.iter().any(|w| matches!(w, Warning::PointsDropped { count: 1, .. })));
        // The file itself, also without its name.
        let other = scene.write("opensfm/other.json", opensfm().as_bytes());
        let data = gausset_io::dataset::open(&other, &OpenOptions::default()).unwrap();
        check(&data, DatasetKind::OpenSfm, &poses(), opensfm_pixel);
    }
    let scene = scene_with("images");
    scene.write("reconstruction.json", opensfm().replacen("[0.1, -0.2", "[NaN, -0.2", 1).as_bytes());
    let data = scene.open().unwrap();
    assert_eq!(data.images.len(), 2);
    assert_eq!(data.skipped[0].to_string(), "a.png: pose: pose has a value that is not finite");
    assert_eq!(
        data.skipped[0].reason,
        SkipReason::Export("pose: pose has a value that is not finite".into())
    );
    scene.write("reconstruction.json", opensfm().replace("\"fisheye\"", "\"dual\"").as_bytes());
    let line = scene.open().unwrap().skipped[0].to_string();
    assert!(
        line.starts_with("c.png: camera: OpenSfM's camera \"fish\": type dual has no COLMAP model"),
        "{line}"
    );
}

#[test]
fn openmvg_names_a_type_once_and_nests_base_classes() {
    let scene = scene_with("images");
    let view = |i: usize| {
        format!(
            "{{\"key\": {i}, \"value\": {{\"polymorphic_id\": 1073741824, \"ptr_wrapper\": {{\"id\": {}, \"data\": \
             {{\"local_path\": \"\", \"filename\": \"{}.png\", \"width\": {W}, \"height\": {H}, \"id_view\": {i}, \
             \"id_intrinsic\": {i}, \"id_pose\": {}}}}}}}}}",
            2_147_483_649u64 + i as u64,
            NAMES[i],
            10 + i
        )
    };
    let extrinsic = |i: usize| {
        let pose = &poses()[i];
        let (r, c) = (pose.rotation, pose.centre());
        format!("{{\"key\": {}, \"value\": {{\"rotation\": {r:?}, \"center\": {c:?}}}}}", 10 + i)
    };
    let base =
        format!("\"width\": {W}, \"height\": {H}, \"focal_length\": 50.0, \"principal_point\": [33.0, 23.5]");
    let text = format!(
        "{{\"sfm_data_version\": \"0.3\", \"root_path\": \"/elsewhere\", \"views\": [{}, {}, {}], \"intrinsics\": [\
         {{\"key\": 0, \"value\": {{\"polymorphic_id\": 2147483649, \"polymorphic_name\": \"pinhole_brown_t2\", \
         \"ptr_wrapper\": {{\"id\": 1, \"data\": {{{base}, \"disto_t2\": [-0.1, 0.02, -0.005, 0.004, -0.003]}}}}}}}},\
         {{\"key\": 1, \"value\": {{\"polymorphic_id\": 1, \"ptr_wrapper\": {{\"id\": 2, \"data\": \
         {{\"value0\": {{\"value0\": {{{base}}}}}, \"disto_t2\": [0.1, 0, 0, 0, 0]}}}}}}}},\
         {{\"key\": 2, \"value\": {{\"polymorphic_id\": 2147483650, \"polymorphic_name\": \"fisheye\", \
         \"ptr_wrapper\": {{\"id\": 3, \"data\": {{{base}, \"fisheye\": [-0.05, 0.01, -0.002, 0.001]}}}}}}}}],\
         \"extrinsics\": [{}, {}, {}], \"structure\": [{{\"key\": 5, \"value\": {{\"X\": [1, 2, 3], \"observations\": []}}}}]}}",
        view(0),
        view(1),
        view(2),
        extrinsic(0),
        extrinsic(1),
        extrinsic(2)
    );
    scene.write("sfm_data.json", text.as_bytes());
    let data = scene.open().unwrap();
    check(&data, DatasetKind::OpenMvg, &poses(), |i, p| {
        let [x, y] = match i {
            0 => brown(p, [-0.1, 0.02, -0.005, 0.0], [0.004, -0.003]),
            1 => brown(p, [0.1, 0.0, 0.0, 0.0], [0.0; 2]),
            _ => distorted(equidistant(p), [-0.05, 0.01, -0.002, 0.001], [0.0; 2]),
        };
        [33.0 + 50.0 * x, 23.5 + 50.0 * y]
    });
    assert_eq!(data.points[0].position, [1.0, 2.0, 3.0]);
}

/// Bundler's file for the poses, of which each has its own focal length.
fn bundler() -> String {
    let mut text = "# Bundle file v0.3\n4 1\n".to_owned();
    for (i, pose) in poses().iter().enumerate() {
        let (r, t) = (pose.rotation, pose.translation);
        let flipped = [r[0], r[1].map(|v| -v), r[2].map(|v| -v)];
        writeln!(text, "{} -0.1 0.02", 50 + i).unwrap();
        flipped.iter().for_each(|row| writeln!(text, "{}", spaced(*row)).unwrap());
        writeln!(text, "{}", spaced([t[0], -t[1], -t[2]])).unwrap();
    }
    text + &"0 0 0\n".repeat(5) + "1 2 3\n10 20 30\n2 0 11 1.5 -2.5 1 12 0 0\n"
}

#[test]
fn bundler_looks_along_its_negative_z_axis() {
    for (file, list) in [
        ("bundle.out", "list.txt"),
        ("bundle/bundle.out", "list.txt"),
        ("scene.bundle.out", "scene.list.txt"),
        ("bundle.out", "bundle.out.list.txt"),
    ] {
        let scene = scene_with("images");
        scene.write(file, bundler().as_bytes());
        scene.write(list, b"images/a.png 0 50.1\nimages/b.png\nimages/c.png 0 52\nimages/d.png\n");
        let data = scene.open().unwrap();
        check(&data, DatasetKind::Bundler, &poses(), |i, [x, y, z]| {
            // Bundler's own axes.
            let [x, y, z] = [x, -y, -z];
            let p = [-x / z, -y / z];
            let r2 = p[0] * p[0] + p[1] * p[1];
            let f = (50 + i) as f64 * (1.0 - 0.1 * r2 + 0.02 * r2 * r2);
            [0.5 * W + f * p[0], 0.5 * H - f * p[1]]
        });
        assert_eq!((data.points[0].position, data.points[0].colour), ([1.0, 2.0, 3.0], [10, 20, 30]));
    }
    let scene = scene_with("images");
    scene.write("bundle.out", bundler().as_bytes());
    assert_eq!(
        scene.error(),
        "DATA/bundle.out: Bundler: list of pictures: is missing (expected list.txt beside it, with one picture per line)"
    );
    scene.write("list.txt", b"images/a.png\n");
    assert!(
        scene.error().contains("camera 1 has no picture (found 1 names in its list)"),
        "{}",
        scene.error()
    );
    scene.write("bundle.out", b"# Bundle file v0.3\n10 0\n");
    let cut = "DATA/bundle.out: Bundler: line 2: the file ends before f, k1, k2 of camera 0; export or copy it again";
    assert_eq!(scene.error(), cut);
}

#[test]
fn keyframes_of_polycam_are_the_corrected_ones() {
    let scene = scene_with("keyframes/images");
    let keyframe = |pose: &Pose, fx: f64| {
        let (r, c) = opengl(pose);
        let t: Vec<String> = (0..3)
            .flat_map(|i| (0..4).map(move |j| (i, j)))
            .map(|(i, j)| format!("\"t_{i}{j}\": {}", if j < 3 { r[i][j] } else { c[i] }))
            .collect();
        format!(
            "{{\"fx\": {fx}, \"fy\": 51, \"cx\": 33, \"cy\": 23.5, \"width\": {W}, \"height\": {H}, \
             \"neighbors\": [1], \"manual_keyframe\": false, {}}}",
            t.join(", ")
        )
    };
    let pixel = |fx: f64| move |_: usize, [x, y, z]: [f64; 3]| [33.0 + fx * x / z, 23.5 + 51.0 * y / z];
    for (pose, name) in poses().iter().zip(NAMES) {
        scene.write(&format!("keyframes/cameras/{name}.json"), keyframe(pose, 50.0).as_bytes());
    }
    check(&scene.open().unwrap(), DatasetKind::Polycam, &poses(), pixel(50.0));
    for (pose, name) in poses().iter().zip(NAMES) {
        scene.write(&format!("keyframes/corrected_cameras/{name}.json"), keyframe(pose, 60.0).as_bytes());
    }
    check(&scene.open().unwrap(), DatasetKind::Polycam, &poses(), pixel(50.0));
    for name in NAMES {
        scene.write(&format!("keyframes/corrected_images/{name}.png"), &tiny_png(W as u32, H as u32));
    }
    let data = scene.open().unwrap();
    check(&data, DatasetKind::Polycam, &poses(), pixel(60.0));
    assert!(data.images[0].path.ends_with("keyframes/corrected_images/a.png"));
    scene.write(
        "keyframes/corrected_cameras/b.json",
        keyframe(&poses()[1], 60.0).replace("\"fy\": 51", "\"fy\": NaN").as_bytes(),
    );
    let data = scene.open().unwrap();
    assert_eq!((data.images.len(), data.skipped.len()), (2, 1));
    assert!(data.skipped[0].to_string().contains("b.png: camera: PINHOLE parameter fy is NaN"));
}

/// `cameras.json` of the released 3DGS code.
fn inria() -> String {
    let all: Vec<String> = poses()
        .iter()
        .enumerate()
        .map(|(i, pose)| {
            let (r, c) = inverse(pose);
            format!(
                "{{\"id\": {i}, \"img_name\": \"{}\", \"width\": {W}, \"height\": {H}, \"position\": {c:?}, \
                 \"rotation\": {r:?}, \"fy\": 51.0, \"fx\": 50.0}}",
                NAMES[i]
            )
        })
        .collect();
    format!("[{}]", all.join(", "))
}

#[test]
fn an_output_folder_of_3dgs_starts_from_its_newest_splats() {
    let scene = scene_with("images");
    let file = scene.write("cameras.json", inria().as_bytes());
    let cloud = |x: f64| {
        format!(
            "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n{x} 0 0\n"
        )
    };
    scene.write("point_cloud/iteration_7000/point_cloud.ply", cloud(1.0).as_bytes());
    scene.write("point_cloud/iteration_30000/point_cloud.ply", cloud(2.0).as_bytes());
    for path in [scene.path().to_owned(), file] {
        let data = gausset_io::dataset::open(&path, &OpenOptions::default()).unwrap();
        check(&data, DatasetKind::Inria, &poses(), |_, [x, y, z]| {
            [0.5 * W + 50.0 * x / z, 0.5 * H + 51.0 * y / z]
        });
        assert_eq!(data.points[0].position, [2.0, 0.0, 0.0]);
    }
}

#[test]
fn llff_has_columns_down_right_backwards_and_pictures_by_their_order() {
    let rows: Vec<[f64; 17]> = poses()
        .iter()
        .map(|pose| {
            let (r, c) = opengl(pose);
            let mut row = [0.0; 17];
            for i in 0..3 {
                // Down is minus up.
                row[5 * i..5 * i + 5].copy_from_slice(&[-r[i][1], r[i][0], r[i][2], c[i], [H, W, 50.0][i]]);
            }
            row
        })
        .collect();
    let npy = |descr: &str, fortran: bool, data: Vec<u8>| {
        let fortran = if fortran { "True" } else { "False" };
        let mut head = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': (3, 17), }}");
        head.push_str(&" ".repeat(117 - head.len()));
        head.push('\n');
        [b"\x93NUMPY\x01\x00".as_slice(), &(head.len() as u16).to_le_bytes(), head.as_bytes(), &data].concat()
    };
    let by_rows = rows.iter().flatten().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let by_columns =
        (0..17).flat_map(|k| rows.iter().flat_map(move |row| row[k].to_le_bytes())).collect::<Vec<u8>>();
    let scene = scene_with("images");
    for file in [npy("<f8", false, by_rows.clone()), npy("<f8", true, by_columns)] {
        scene.write("poses_bounds.npy", &file);
        check(&scene.open().unwrap(), DatasetKind::Llff, &poses(), |_, [x, y, z]| {
            [0.5 * W + 50.0 * x / z, 0.5 * H + 50.0 * y / z]
        });
    }
    scene.write("images/d.png", &tiny_png(W as u32, H as u32));
    assert_eq!(
        scene.error(),
        "DATA/poses_bounds.npy: LLFF: rows: 3 poses for 4 pictures (expected as many: LLFF has no names, only their order)"
    );
    scene.remove("images/d.png");
    scene.write("poses_bounds.npy", &npy("<f8", false, by_rows[..100].to_vec()));
    assert!(scene.error().contains("LLFF: header: too few numbers"), "{}", scene.error());
}

#[test]
fn pictures_lie_beside_the_file_or_in_a_folder_of_any_name() {
    for folder in [".", "rgb", "input"] {
        let scene = scene_with(folder);
        scene.write("cameras.json", inria().as_bytes());
        assert_eq!(scene.open().unwrap().images.len(), 3, "{folder}");
    }
    let scene = Scene::empty();
    scene.write("cameras.json", inria().as_bytes());
    assert_eq!(
        scene.error(),
        "DATA/images: images: no such folder (expected the pictures of the dataset); name it with ⟨images⟩"
    );
}

#[test]
fn camera_files_may_be_in_capitals() {
    // The last one is not registered.
    let list: String = NAMES.iter().chain(&["d"]).map(|name| format!("{name}.png\n")).collect();
    for (files, kind) in [
        (vec![("Reconstruction.JSON", opensfm())], DatasetKind::OpenSfm),
        (vec![("Cameras.json", inria())], DatasetKind::Inria),
        (vec![("Bundle.Out", bundler()), ("List.txt", list)], DatasetKind::Bundler),
    ] {
        let scene = scene_with("images");
        for (name, text) in &files {
            scene.write(name, text.as_bytes());
        }
        let data = scene.open().unwrap();
        assert_eq!((data.kind, data.images.len()), (kind, 3), "{}", files[0].0);
    }
    let scene = scene_with("images");
    scene.write("Poses_Bounds.npy", b"no table");
    assert!(scene.error().starts_with("DATA/Poses_Bounds.npy: LLFF: "), "{}", scene.error());
}

#[test]
fn a_topocentric_reconstruction_is_read_where_there_is_no_other() {
    let scene = scene_with("images");
    let topocentric = scene.write("opensfm/reconstruction.topocentric.json", opensfm().as_bytes());
    assert_eq!(scene.open().unwrap().source, topocentric);
    let usual = scene.write("opensfm/reconstruction.json", opensfm().as_bytes());
    assert_eq!(scene.open().unwrap().source, usual);
}

#[test]
fn a_model_comes_first_and_two_programs_are_an_error() {
    let scene = Scene::colmap(ModelFormat::Binary);
    scene.write("cameras.xml", metashape("frame", METASHAPE_TERMS, &poses(), [0.0; 3]).as_bytes());
    assert_eq!(scene.open().unwrap().kind, DatasetKind::Colmap);
    let scene = scene_with("images");
    let xml = scene.write("cameras.xml", metashape("frame", METASHAPE_TERMS, &poses(), [0.0; 3]).as_bytes());
    scene.write("opensfm/reconstruction.json", opensfm().as_bytes());
    assert_eq!(
        scene.error(),
        "DATA: cameras: cameras.xml of Metashape and opensfm/reconstruction.json of OpenSfM (expected those of one \
         program); name one of the files"
    );
    let named = gausset_io::dataset::open(&xml, &OpenOptions::default()).unwrap();
    assert_eq!(named.kind, DatasetKind::Metashape);
    // An undistorted copy below belongs to the project; XML and CSV files of other kinds are left alone.
    let scene = scene_with("images");
    scene.write("reconstruction.json", opensfm().as_bytes());
    scene.write("undistorted/reconstruction.json", opensfm().as_bytes());
    scene.write("map.xml", b"<kml/>");
    scene.write("track.csv", b"name,x,y\n");
    scene.write("cameras.json", b"{\"v2 dji\": {\"projection_type\": \"brown\"}}");
    assert_eq!(scene.open().unwrap().kind, DatasetKind::OpenSfm);
}

#[test]
fn a_panorama_of_another_program_is_trained_on() {
    let scene = Scene::empty();
    scene.write("images/a.png", &tiny_png(64, 32));
    let text = metashape("spherical", "", &poses()[..1], [0.0; 3]).replace("height=\"48\"", "height=\"32\"");
    scene.write("cameras.xml", text.as_bytes());
    let options = OpenOptions { test_every: 0, ..OpenOptions::default() };
    let data = scene.open_with(&options).unwrap();
    assert_eq!((data.cameras[0].model, data.images.len()), (CameraModel::Equirectangular, 6));
}

#[test]
fn a_list_is_told_from_a_transforms_json() {
    let scene = Scene::empty();
    let path = scene.write("list.json", b"[{\"name\": 1}]");
    let error = gausset_io::dataset::open(&path, &OpenOptions::default()).unwrap_err();
    assert_eq!(
        scene.line(&error.to_string()),
        "DATA/list.json: top level: is a list (expected an object with `frames`, as in transforms.json); \
         reconstruction.json of OpenSfM and cameras.json of 3DGS are lists"
    );
}
