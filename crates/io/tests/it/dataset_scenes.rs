//! Every real scene compared with the values that other programs read from it (`README.md` of the data).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset_core::TargetImage;
use gausset_io::dataset::colmap::{ColmapModel, ModelFolder, NO_POINT, Observations};
use gausset_io::dataset::{
    self, CameraModel, Dataset, DatasetKind, Loader, LoaderOptions, OpenOptions, Warning,
};
use gausset_testkit::data_file;

/// The published values are printed with six digits.
const PRINTED: f64 = 1e-5;

fn scene(test: &str, name: &str) -> Option<PathBuf> {
    data_file(test, &format!("scenes/{name}"))
}

fn open(folder: &Path) -> Dataset {
    dataset::open(folder, &OpenOptions::default()).unwrap()
}

fn model(folder: &Path) -> ColmapModel {
    ModelFolder::find(&folder.join("sparse/0")).unwrap().unwrap().read(Observations::Keep).unwrap()
}

fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= PRINTED * (1.0 + b.abs()), "{what}: {found:?}, expected {expected:?}");
    }
}

fn mean(values: impl Iterator<Item = [f64; 3]>) -> [f64; 3] {
    let (mut sum, mut count) = ([0.0; 3], 0.0);
    for v in values {
        (0..3).for_each(|k| sum[k] += v[k]);
        count += 1.0;
    }
    sum.map(|v| v / count)
}

/// id, position, colour, error, track length.
type PointRow = (u64, [f64; 3], [u8; 3], f64, u64);
/// id, name, quaternion, translation, centre, 2-D points.
type ImageRow = (u32, &'static str, [f64; 4], [f64; 3], [f64; 3], usize);

/// Expectations of a COLMAP scene.
struct Expected {
    camera: (CameraModel, [u32; 2], &'static [f64]),
    images: usize,
    points: usize,
    observations: usize,
    mean_error: f64,
    centroid: [f64; 3],
    median: [f64; 3],
    bounds: [[f64; 3]; 2],
    mean_centre: [f64; 3],
    extent_of_all: f64,
    point_rows: [PointRow; 3],
    image_rows: [ImageRow; 3],
    held_out: &'static [&'static str],
}

fn check(name: &str, expected: &Expected) {
    let Some(folder) = scene(name, name) else { return };
    let model = model(&folder);
    let [camera] = model.cameras.as_slice() else { panic!("{name}: {} cameras", model.cameras.len()) };
    let (camera_model, size, params) = expected.camera;
    assert_eq!((camera.id, camera.model, [camera.width, camera.height]), (1, camera_model, size));
    assert_close(&camera.params, params, "camera");
    assert_eq!((model.images.len(), model.points.len()), (expected.images, expected.points));
    let observations: usize = model.points.iter().map(|p| p.track.len()).sum();
    assert_eq!(observations, expected.observations);
    let mean_error = model.points.iter().map(|p| p.error).sum::<f64>() / model.points.len() as f64;
    assert_close(&[mean_error], &[expected.mean_error], "mean error");
    assert_close(&mean(model.points.iter().map(|p| p.position)), &expected.centroid, "centroid");
    for axis in 0..3 {
        let mut values: Vec<f64> = model.points.iter().map(|p| p.position[axis]).collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let median = 0.5 * (values[(n - 1) / 2] + values[n / 2]);
        assert_close(&[median], &[expected.median[axis]], "median");
        // Bounds are printed with four digits.
        let bounds = [values[0] - expected.bounds[0][axis], values[n - 1] - expected.bounds[1][axis]];
        assert!(bounds.iter().all(|difference| difference.abs() < 6e-5), "bounds: {bounds:?}");
    }
    for (id, position, colour, error, track) in &expected.point_rows {
        let point = model.points.iter().find(|p| p.id == *id).unwrap();
        assert_close(&point.position, position, "point");
        assert!((point.error - error).abs() < 6e-5, "{} {error}", point.error);
        assert_eq!((&point.colour, point.track_length), (colour, *track));
    }
    for (id, name, quaternion, translation, centre, count) in &expected.image_rows {
        let image = model.images.iter().find(|i| i.id == *id).unwrap();
        assert_eq!((image.name.as_str(), image.points.len()), (*name, *count));
        assert_close(&image.quaternion, quaternion, "quaternion");
        assert_close(&image.translation, translation, "translation");
        let pose = gausset_core::Pose::from_quaternion(image.quaternion, image.translation).unwrap();
        assert_close(&pose.centre(), centre, "centre");
    }

    let data = open(&folder);
    assert_eq!(data.kind, DatasetKind::Colmap);
    assert_eq!((data.images.len(), data.points.len()), (expected.images, expected.points));
    assert!(data.warnings.is_empty() && data.skipped.is_empty(), "{:?}", data.report_lines());
    let held_out: Vec<&str> = data.split.test.iter().map(|&i| &*data.images[i].name).collect();
    assert_eq!(held_out, expected.held_out);
    assert_eq!(data.split.train.len(), expected.images - expected.held_out.len());
    let centres: Vec<[f64; 3]> = data.images.iter().map(|i| i.pose.centre()).collect();
    let centre = mean(centres.iter().copied());
    assert_close(&centre, &expected.mean_centre, "mean centre");
    let distance = |c: &[f64; 3]| (0..3).map(|k| (c[k] - centre[k]).powi(2)).sum::<f64>().sqrt();
    let extent = 1.1 * centres.iter().map(distance).fold(0.0, f64::max);
    assert_close(&[extent], &[expected.extent_of_all], "extent");
    for image in &data.images {
        assert_eq!(image.stored_size, size);
        assert_eq!([image.camera.width, image.camera.height], size);
    }
}

#[test]
fn plush_reads_as_published() {
    check(
        "plush",
        &Expected {
            camera: (CameraModel::SimpleRadial, [640, 480], &[520.145351, 320.0, 240.0, 0.0321232386]),
            images: 97,
            points: 25784,
            observations: 0,
            mean_error: 0.218312,
            centroid: [-1.19448, 1.98993, 2.43038],
            median: [-0.81028, 2.14299, 2.58171],
            bounds: [[-8.5075, -4.1746, -5.1465], [11.5389, 7.1245, 12.7462]],
            mean_centre: [0.01240, -0.01777, 0.10559],
            extent_of_all: 5.96657,
            point_rows: [
                (3, [-0.383753, -0.272825, 2.360773], [209, 226, 223], 0.2677, 0),
                (18449, [0.257141, 3.362986, 1.133208], [146, 146, 145], 0.0734, 0),
                (37659, [0.493201, 0.673224, 2.677251], [163, 175, 170], 0.2611, 0),
            ],
            image_rows: [
                (
                    1,
                    "20240212_003919.jpg",
                    [0.9937931, -0.0578267, -0.0941715, -0.0127693],
                    [1.343639, -1.155979, 3.646015],
                    [-2.023941, 1.509424, -3.171811],
                    0,
                ),
                (
                    49,
                    "20240212_004014.jpg",
                    [0.9320237, -0.0602833, -0.3518815, -0.0622665],
                    [3.143025, -1.955538, 1.447350],
                    [-3.444539, 1.527230, 1.265021],
                    0,
                ),
                (
                    97,
                    "20240212_004138.jpg",
                    [0.9549781, -0.1628139, 0.2301947, 0.0922978],
                    [-0.682748, -2.065207, 2.981782],
                    [2.208611, 2.549527, -1.498064],
                    0,
                ),
            ],
            held_out: &[
                "20240212_003919.jpg",
                "20240212_003927.jpg",
                "20240212_003936.jpg",
                "20240212_003946.jpg",
                "20240212_003956.jpg",
                "20240212_004006.jpg",
                "20240212_004014.jpg",
                "20240212_004023.jpg",
                "20240212_004037.jpg",
                "20240212_004053.jpg",
                "20240212_004107.jpg",
                "20240212_004121.jpg",
                "20240212_004138.jpg",
            ],
        },
    );
}

#[test]
fn south_building_reads_as_published() {
    check(
        "south_building",
        &Expected {
            camera: (CameraModel::SimpleRadial, [800, 600], &[665.721884, 400.0, 300.0, -0.0216936343]),
            images: 64,
            points: 12137,
            observations: 55208,
            mean_error: 0.283466,
            centroid: [-0.74172, -0.52648, 0.34940],
            median: [-0.52309, -0.50816, 0.00548],
            bounds: [[-23.5835, -62.2229, -37.6344], [7.6967, 21.4089, 47.1119]],
            mean_centre: [-0.13257, 0.01414, 0.01419],
            extent_of_all: 5.55192,
            point_rows: [
                (1, [-0.760850, -1.796200, -0.086199], [115, 108, 105], 0.2353, 8),
                (6326, [-3.097429, -1.086407, 1.144088], [168, 168, 173], 0.1348, 7),
                (12622, [-1.396688, -0.918667, 0.274236], [113, 112, 109], 0.1347, 2),
            ],
            image_rows: [
                (
                    1,
                    "P1180141.jpg",
                    [0.8258948, 0.0438939, 0.5407862, -0.1533672],
                    [-0.636573, 0.984156, 3.584116],
                    [3.686711, -0.407918, -0.679296],
                    623,
                ),
                (
                    33,
                    "P1180205.jpg",
                    [0.9991904, 0.0314898, -0.0203111, 0.0146448],
                    [1.570439, 0.740144, 2.799984],
                    [-1.705416, -0.864923, -2.682810],
                    1891,
                ),
                (
                    64,
                    "P1180346.jpg",
                    [-0.0570013, 0.0161305, 0.9691479, -0.2392553],
                    [0.332389, 0.430053, 2.841416],
                    [0.012877, 0.941004, 2.735583],
                    1028,
                ),
            ],
            held_out: &[
                "P1180141.jpg",
                "P1180157.jpg",
                "P1180173.jpg",
                "P1180189.jpg",
                "P1180205.jpg",
                "P1180221.jpg",
                "P1180316.jpg",
                "P1180332.jpg",
            ],
        },
    );
}

#[test]
fn south_fisheye_reads_as_published() {
    check(
        "south_fisheye",
        &Expected {
            camera: (
                CameraModel::OpenCvFisheye,
                [480, 360],
                &[456.0, 457.824, 239.0, 181.5, 0.06, -0.035, 0.012, -0.004],
            ),
            images: 32,
            points: 8297,
            observations: 23665,
            mean_error: 0.287169,
            centroid: [-0.77801, -0.56370, 0.24866],
            median: [-0.65256, -0.56956, -0.06374],
            bounds: [[-12.9419, -5.7458, -2.1641], [2.1963, 4.2830, 17.8649]],
            mean_centre: [-0.04024, -0.01807, -0.07121],
            extent_of_all: 5.63513,
            point_rows: [
                (1, [-0.760850, -1.796200, -0.086199], [115, 108, 105], 0.2353, 3),
                (5929, [-1.210560, -0.673286, -0.531326], [182, 170, 160], 0.7594, 2),
                (12614, [-2.888109, 0.401515, 0.911770], [141, 111, 100], 0.7147, 2),
            ],
            image_rows: [
                (
                    1,
                    "P1180141.jpg",
                    [0.8258948, 0.0438939, 0.5407862, -0.1533672],
                    [-0.636573, 0.984156, 3.584116],
                    [3.686711, -0.407918, -0.679296],
                    556,
                ),
                (
                    33,
                    "P1180205.jpg",
                    [0.9991904, 0.0314898, -0.0203111, 0.0146448],
                    [1.570439, 0.740144, 2.799984],
                    [-1.705416, -0.864923, -2.682810],
                    1624,
                ),
                (
                    63,
                    "P1180342.jpg",
                    [0.2087457, 0.0365443, 0.9398835, -0.2677849],
                    [0.217401, 0.678058, 2.964978],
                    [1.448569, 0.829013, 2.551962],
                    750,
                ),
            ],
            held_out: &["P1180141.jpg", "P1180173.jpg", "P1180205.jpg", "P1180316.jpg"],
        },
    );
}

#[test]
fn brighton_reads_as_published() {
    check(
        "brighton",
        &Expected {
            camera: (
                CameraModel::OpenCv,
                [1000, 562],
                &[
                    760.819229,
                    757.271871,
                    500.0,
                    281.0,
                    0.0222115889,
                    0.0492459143,
                    -0.00143640762,
                    0.00242944018,
                ],
            ),
            images: 18,
            points: 4007,
            observations: 16520,
            mean_error: 0.243986,
            centroid: [0.47896, -0.91373, 5.33663],
            median: [0.23742, -1.07281, 5.26957],
            bounds: [[-2.5657, -5.2852, 5.0938], [6.1230, 4.9215, 6.3718]],
            mean_centre: [-0.01075, -0.00827, 0.00696],
            extent_of_all: 5.37229,
            point_rows: [
                (1, [-2.080925, -3.631370, 5.134592], [59, 62, 91], 0.1659, 5),
                (2019, [-0.649414, -1.008589, 5.142798], [148, 164, 84], 1.0018, 4),
                (4039, [1.274040, 4.702646, 5.531165], [105, 120, 63], 0.1944, 3),
            ],
            image_rows: [
                (
                    1,
                    "DJI_0018.jpg",
                    [0.9838434, -0.0510822, 0.0079978, 0.1714023],
                    [3.023861, -3.693486, 0.205140],
                    [-1.596309, 4.499564, 0.182695],
                    297,
                ),
                (
                    10,
                    "DJI_0027.jpg",
                    [0.9941487, -0.0088636, 0.0062369, 0.1074752],
                    [-0.110036, -0.869822, 0.046275],
                    [0.293926, 0.826818, -0.028614],
                    1279,
                ),
                (
                    18,
                    "DJI_0035.jpg",
                    [0.9821631, -0.0000447, 0.0431180, 0.1830204],
                    [-3.017138, 3.816863, 0.165980],
                    [1.445660, -4.648474, 0.029556],
                    960,
                ),
            ],
            held_out: &["DJI_0018.jpg", "DJI_0026.jpg", "DJI_0034.jpg"],
        },
    );
}

#[test]
fn lego_reads_as_published() {
    let Some(folder) = scene("lego", "lego") else { return };
    let data = open(&folder);
    assert_eq!(data.kind, DatasetKind::Blender);
    assert_eq!((data.split.train.len(), data.split.test.len(), data.images.len()), (100, 13, 113));
    assert_eq!(data.background, [1.0; 3]);
    assert_eq!(data.cameras.len(), 1);
    assert_eq!(data.cameras[0].model, CameraModel::Pinhole);
    assert!(matches!(data.warnings.as_slice(), [Warning::NoPoints { .. }]) && data.skipped.is_empty());
    for image in &data.images {
        let camera = image.camera;
        assert_close(
            &[camera.fx, camera.fy, camera.cx, camera.cy],
            &[555.5555155968841, 555.5555155968841, 200.0, 200.0],
            "intrinsics",
        );
        let distance = image.pose.centre().iter().map(|v| v * v).sum::<f64>().sqrt();
        assert!((distance - 4.0311).abs() < 1e-4);
    }
    let image = |name: &str| data.images.iter().find(|i| &*i.name == name).unwrap();
    let first = image("train/r_0.png");
    assert_close(&first.pose.centre(), &[-0.053798, 3.845470, 1.208082], "centre");
    assert_close(&first.pose.rotation[0], &[-0.999902, -0.013989, 0.0], "row 0");
    assert_close(&first.pose.rotation[2], &[0.013346, -0.953944, -0.299688], "row 2");
    assert_close(&first.pose.translation, &[0.0, 0.0, 4.031128], "translation");
    assert_close(&image("test/r_192.png").pose.centre(), &[1.338360, 2.434490, 2.920967], "centre");
    let centres = data.split.train.iter().map(|&i| data.images[i].pose.centre());
    assert_close(&mean(centres), &[-0.39448, 0.07260, 2.28148], "mean centre");
}

#[test]
fn the_alpha_of_lego_stays_straight() {
    let Some(folder) = scene("lego pixels", "lego") else { return };
    let picture = gausset_io::image::decode_file(&folder.join("train/r_0.png")).unwrap();
    let alpha = picture.alpha.unwrap();
    let at = 200 * 400 + 200;
    assert_eq!((&picture.rgb[at * 3..at * 3 + 3], alpha[at]), (&[137, 99, 21][..], 255));
    assert_eq!((&picture.rgb[..3], alpha[0]), (&[0, 0, 0][..], 0));
    assert_eq!(alpha.iter().filter(|&&a| a > 0).count(), 38299);
    assert_eq!(alpha.iter().filter(|&&a| a == 255).count(), 36008);
    let on_white: [f64; 3] = std::array::from_fn(|c| {
        let sum: f64 = alpha
            .iter()
            .zip(picture.rgb.chunks_exact(3))
            .map(|(&a, p)| (f64::from(p[c]) * f64::from(a) + 255.0 * (255.0 - f64::from(a))) / 255.0)
            .sum();
        sum / alpha.len() as f64
    });
    assert_close(&on_white, &[219.0187, 215.8775, 208.5647], "mean on white");
}

#[test]
fn fox_reads_as_published_though_files_are_missing() {
    let Some(folder) = scene("fox", "fox") else { return };
    let data = open(&folder);
    assert_eq!(data.kind, DatasetKind::InstantNgp);
    assert_eq!((data.images.len(), data.skipped.len()), (50, 17));
    let missing: Vec<&str> = data.skipped.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(missing[..3], ["images/0005.jpg", "images/0016.jpg", "images/0017.jpg"]);
    assert!(matches!(
        data.warnings.as_slice(),
        [Warning::NoPoints { .. }, Warning::MissingFiles { count: 17, listed: 67, .. }]
    ));
    let [camera] = data.cameras.as_slice() else { panic!("{} cameras", data.cameras.len()) };
    assert_eq!((camera.model, camera.width, camera.height), (CameraModel::OpenCv, 540, 960));
    assert_close(
        &camera.params,
        &[687.76, 687.245, 277.279, 482.634, 0.0578421, -0.0805099, -0.000980296, 0.00015575],
        "camera",
    );
    let first = &data.images[0];
    assert_eq!(&*first.name, "images/0001.jpg");
    assert_close(&first.pose.centre(), &[3.168359, -5.479490, -0.979166], "centre");
    assert_close(&first.pose.rotation[0], &[0.892644, 0.446419, -0.062426], "row 0");
    assert_close(&first.pose.rotation[2], &[-0.442090, 0.894069, 0.072092], "row 2");
    assert_close(&first.pose.translation, &[-0.443193, -0.494505, 6.370331], "translation");
    let held_out: Vec<&str> = data.split.test.iter().map(|&i| &*data.images[i].name).collect();
    let expected =
        ["0001", "0012", "0027", "0042", "0073", "0089", "0110"].map(|n| format!("images/{n}.jpg"));
    assert_eq!(held_out, expected);
}

#[test]
fn points_of_a_real_scene_project_into_the_pictures_that_observe_them() {
    let Some(folder) = scene("reprojection", "south_building") else { return };
    let model = model(&folder);
    let lens = model.cameras[0].lens();
    let positions: std::collections::BTreeMap<u64, [f64; 3]> =
        model.points.iter().map(|p| (p.id, p.position)).collect();
    let (mut sum, mut count) = (0.0, 0u32);
    for image in &model.images {
        let pose = gausset_core::Pose::from_quaternion(image.quaternion, image.translation).unwrap();
        for (pixel, id) in &image.points {
            if let Some(position) = positions.get(id) {
                let found = lens.project(pose.apply(*position)).unwrap();
                sum += ((found[0] - pixel[0]).powi(2) + (found[1] - pixel[1]).powi(2)).sqrt();
                count += 1;
            }
        }
    }
    assert_eq!(count, 55208);
    // The mean error of the observations, about the mean error of the points (0.283 px).
    let mean = sum / f64::from(count);
    assert!((0.2..0.5).contains(&mean), "{mean}");
}

/// Bilinear value of a channel at a position in px.
fn at(picture: &TargetImage, x: f64, y: f64, channel: usize) -> f64 {
    let (x, y) = (x - 0.5, y - 0.5);
    let (left, top) = (x.floor(), y.floor());
    let value = |dx: usize, dy: usize| {
        let column = (left.max(0.0) as usize + dx).min(picture.width as usize - 1);
        let row = (top.max(0.0) as usize + dy).min(picture.height as usize - 1);
        f64::from(picture.rgb[(row * picture.width as usize + column) * 3 + channel])
    };
    let (u, v) = (x - left, y - top);
    (1.0 - v) * ((1.0 - u) * value(0, 0) + u * value(1, 0)) + v * ((1.0 - u) * value(0, 1) + u * value(1, 1))
}

#[test]
fn a_fisheye_photograph_undistorts_to_the_photograph_it_was_made_from() {
    // The fisheye scene contains the photographs of the other scene, seen through an exact fisheye lens.
    let name = "fisheye against pinhole";
    let (Some(fisheye), Some(pinhole)) = (scene(name, "south_fisheye"), scene(name, "south_building")) else {
        return;
    };
    let load = |folder: &Path| {
        Loader::new(Arc::new(open(folder)), LoaderOptions { budget_bytes: 1 << 26, threads: 0 })
    };
    let (fisheye, pinhole) = (load(&fisheye), load(&pinhole));
    for index in [0, 13] {
        let image = &fisheye.dataset().images[index];
        let twin = pinhole.dataset().images.iter().position(|i| i.name == image.name).unwrap();
        let camera = pinhole.dataset().images[twin].camera;
        let (a, b) = (fisheye.get(index).unwrap(), pinhole.get(twin).unwrap());
        // Mean difference when the fisheye image is shifted by some pixels.
        let difference = |dx: f64, dy: f64| {
            let (mut sum, mut count) = (0.0, 0.0);
            for (row, column) in (20..340).step_by(3).flat_map(|r| (20..460).step_by(3).map(move |c| (r, c)))
            {
                let (x, y) = (f64::from(column) + 0.5, f64::from(row) + 0.5);
                let ray =
                    [(x - image.camera.cx) / image.camera.fx, (y - image.camera.cy) / image.camera.fy, 1.0];
                let [u, v] = camera.project(ray);
                if (2.0..798.0).contains(&u) && (2.0..598.0).contains(&v) {
                    let there = at(&b, u, v, 1);
                    sum += (at(&a, x + dx, y + dy, 1) - there).abs();
                    count += 1.0;
                }
            }
            sum / count
        };
        let here = difference(0.0, 0.0);
        // Two resamplings and two compressions of foliage and brick: 4 to 6 levels; a shift of one pixel doubles it.
        assert!(here < 8.0, "{}: {here}", image.name);
        for (dx, dy) in [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)] {
            let moved = difference(dx, dy);
            assert!(moved > 1.3 * here, "{}: {moved} when moved, {here} in place", image.name);
        }
        for (dx, dy) in [(0.3, 0.0), (-0.3, 0.0), (0.0, 0.3), (0.0, -0.3)] {
            assert!(difference(dx, dy) > here, "{}: better when moved by {dx}, {dy}", image.name);
        }
    }
}

#[test]
fn tracks_of_a_real_scene_are_those_of_its_pictures() {
    let Some(folder) = scene("tracks", "south_building") else { return };
    let (dataset, model) = (open(&folder), model(&folder));
    let tracks = dataset.read_tracks(u64::MAX).unwrap();
    // The same observations as in the image records, which are in another file.
    let mut total = 0;
    for (index, image) in dataset.images.iter().enumerate() {
        let listed = model.images.iter().find(|i| i.id == image.id).unwrap();
        let mut seen: Vec<u64> = listed.points.iter().map(|p| p.1).filter(|&id| id != NO_POINT).collect();
        seen.sort_unstable();
        seen.dedup();
        let found: Vec<u64> = tracks.points_of(index).iter().map(|&p| model.points[p as usize].id).collect();
        assert_eq!(found, seen, "{}", image.name);
        total += found.len();
    }
    assert!(total > 50_000 && tracks.len() == total);
    assert_eq!(dataset.read_tracks(dataset.tracks_bytes()).unwrap(), tracks);
    // As many as fit, and none if the source does not contain them.
    let some = dataset.read_tracks(16 * dataset.points.len() as u64 + 12_000).unwrap().len();
    assert!((1..=1_000).contains(&some), "{some}");
    assert!(dataset.read_tracks(12_000).unwrap().is_empty());
    let Some(plush) = scene("tracks", "plush") else { return };
    assert!(open(&plush).read_tracks(u64::MAX).unwrap().is_empty());
}
