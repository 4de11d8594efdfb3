//! Panoramas with known poses as training images.

use gausset_core::Camera;
use gausset_core::se3;
use gausset_io::dataset::{Face, Loader, LoaderOptions, OpenOptions, PanoramaTraining, open};
use gausset_io::image::encode::{PngPixels, png};
use serde_json::{Value, json};

/// A smooth colour for a direction in the world.
fn colour(d: [f64; 3]) -> [f64; 3] {
    let n = se3::norm(d);
    let [x, y, z] = d.map(|v| v / n);
    let wave = |a: f64, b: f64, c: f64| 127.0 + 110.0 * libm::sin(2.0 * (a * x + b * y + c * z));
    [wave(1.0, 0.5, 0.2), wave(-0.4, 1.0, 0.8), wave(0.3, -0.7, 1.0)]
}

/// The world (y down) as `transform_matrix` of a panorama at `centre` that is rotated by 40 degrees.
fn matrix(centre: [f64; 3]) -> Value {
    let (s, c) = (libm::sin(0.7), libm::cos(0.7));
    // world_from_pano = Ry(0.7); OpenGL axes: y and z of the camera change sign.
    json!([
        [c, 0.0, -s, centre[0]],
        [0.0, -1.0, 0.0, centre[1]],
        [-s, 0.0, -c, centre[2]],
        [0.0, 0.0, 0.0, 1.0]
    ])
}

/// A dataset of panoramas of `width` px, all with the same image.
fn dataset(width: u32, names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (w, h) = (f64::from(width), f64::from(width / 2));
    let (s, c) = (libm::sin(0.7), libm::cos(0.7));
    let pixels: Vec<u8> = (0..width * width / 2)
        .flat_map(|i| {
            let (u, v) = (f64::from(i % width) + 0.5, f64::from(i / width) + 0.5);
            let (lon, lat) =
                ((2.0 * u / w - 1.0) * std::f64::consts::PI, (0.5 - v / h) * std::f64::consts::PI);
            let [x, y, z] =
                [libm::cos(lat) * libm::sin(lon), -libm::sin(lat), libm::cos(lat) * libm::cos(lon)];
            colour([c * x + s * z, y, -s * x + c * z]).map(|v| (v + 0.5) as u8)
        })
        .collect();
    let bytes = png(width, width / 2, PngPixels::Rgb8(&pixels), &[]).unwrap();
    let frames: Vec<Value> = names
        .iter()
        .enumerate()
        .map(|(k, name)| {
            std::fs::write(folder.path().join(name), &bytes).unwrap();
            json!({ "file_path": name, "transform_matrix": matrix([k as f64, 2.0, 3.0]) })
        })
        .collect();
    let all = json!({ "camera_model": "EQUIRECTANGULAR", "w": width, "h": width / 2, "frames": frames });
    std::fs::write(folder.path().join("transforms.json"), all.to_string()).unwrap();
    folder
}

#[test]
fn faces_of_a_panorama_show_the_world_where_their_cameras_look() {
    let folder = dataset(512, &["a.png", "b.png", "c.png"]);
    let options = OpenOptions { test_every: 3, ..OpenOptions::default() };
    let data = open(folder.path(), &options).unwrap();
    assert_eq!(data.images.len(), 18);
    // A panorama is held out as a whole.
    assert_eq!(data.split.test.len(), 6);
    let held_out = |i: &usize| data.images[*i].stored_name().to_owned();
    assert!(data.split.test.iter().map(held_out).all(|name| name == held_out(&data.split.test[0])));
    let loader =
        Loader::new(std::sync::Arc::new(data.clone()), LoaderOptions { threads: 0, ..Default::default() });
    for (index, entry) in data.images.iter().enumerate() {
        assert_eq!(entry.name.split_once('/').unwrap().1, entry.face.unwrap().name());
        assert_eq!((entry.camera.width, entry.camera.height, entry.camera.fx), (128, 128, 64.0));
        let centre = entry.pose.centre();
        let panorama = (index / 6) as f64;
        assert!(se3::norm([centre[0] - panorama, centre[1] - 2.0, centre[2] - 3.0]) < 1e-9);
        assert!(index % 6 == 0 || entry.frame == data.images[index - 1].frame);
        let target = loader.get(index).unwrap();
        assert!(target.mask.is_none());
        let mut worst: f64 = 0.0;
        for (i, p) in target.rgb.chunks_exact(3).enumerate() {
            let (x, y) = ((i % 128) as f64 + 0.5, (i / 128) as f64 + 0.5);
            let ray = [(x - 64.0) / 64.0, (y - 64.0) / 64.0, 1.0];
            let wanted = colour(se3::transpose_mul_vec(&entry.pose.rotation, ray));
            worst = p.iter().zip(wanted).map(|(a, b)| (f64::from(*a) - b).abs()).fold(worst, f64::max);
        }
        // Rounding of source and result; half a pixel of error would be up to 2.7. The seam runs through `back`.
        assert!(worst < 1.6, "{}: {worst}", entry.name);
    }
}

#[test]
fn faces_shrink_with_the_resolution_limit_and_masks_are_cut_with_them() {
    let folder = dataset(256, &["a.png", "b.png"]);
    let masks = folder.path().join("masks");
    std::fs::create_dir(&masks).unwrap();
    // At half the size: the right half of the panorama is ignored.
    let pixels: Vec<u8> = (0..128 * 64).map(|i| if i % 128 < 64 { 255 } else { 0 }).collect();
    std::fs::write(masks.join("a.png"), png(128, 64, PngPixels::Grey8(&pixels), &[]).unwrap()).unwrap();
    let options = OpenOptions { test_every: 0, max_resolution: 20, ..OpenOptions::default() };
    let data = open(folder.path(), &options).unwrap();
    let loader =
        Loader::new(std::sync::Arc::new(data.clone()), LoaderOptions { threads: 0, ..Default::default() });
    let kept = |index: usize| loader.get(index).map(|t| (t.width, t.valid_pixels()));
    let face = |face: Face| data.images.iter().position(|i| i.face == Some(face)).unwrap();
    assert_eq!(kept(face(Face::Left)).unwrap(), (20, 400));
    assert!(kept(face(Face::Right)).is_err());
    assert_eq!(kept(face(Face::Front)).unwrap(), (20, 200));
    assert_eq!(kept(face(Face::Back)).unwrap(), (20, 200));
    assert_eq!(kept(6 + face(Face::Right)).unwrap(), (20, 400));
}

#[test]
fn a_panorama_may_stay_whole_for_training_and_is_held_out_as_faces() {
    let folder = dataset(256, &["a.png", "b.png", "c.png"]);
    let masks = folder.path().join("masks");
    std::fs::create_dir(&masks).unwrap();
    let pixels: Vec<u8> = (0..128 * 64).map(|i| if i % 128 < 64 { 255 } else { 0 }).collect();
    std::fs::write(masks.join("a.png"), png(128, 64, PngPixels::Grey8(&pixels), &[]).unwrap()).unwrap();
    let options = OpenOptions {
        test_every: 3,
        max_resolution: 32,
        panoramas: PanoramaTraining::Sphere,
        ..OpenOptions::default()
    };
    let data = open(folder.path(), &options).unwrap();
    assert_eq!((data.split.train.len(), data.split.test.len()), (2, 6));
    assert!(
        data.split.test.iter().all(|&i| data.images[i].face.is_some() && data.images[i].camera.is_pinhole())
    );
    let loader =
        Loader::new(std::sync::Arc::new(data.clone()), LoaderOptions { threads: 0, ..Default::default() });
    for &index in &data.split.train {
        let entry = &data.images[index];
        // As sharp as a face of 32 px.
        assert_eq!((entry.camera, entry.face), (Camera::panorama(128, 64).unwrap(), None));
        assert_eq!(entry.stored_name(), &*entry.name);
        let target = loader.get(index).unwrap();
        let kept = |pixel: usize| target.mask.as_ref().is_none_or(|mask| mask[pixel] != 0);
        assert_eq!(target.valid_pixels(), if &*entry.name == "a.png" { 64 * 64 } else { 128 * 64 });
        let mut worst: f64 = 0.0;
        for (i, p) in target.rgb.chunks_exact(3).enumerate().filter(|(i, _)| kept(*i)) {
            let ray = entry.camera.ray([(i % 128) as f64 + 0.5, (i / 128) as f64 + 0.5]);
            let wanted = colour(se3::transpose_mul_vec(&entry.pose.rotation, ray));
            worst = p.iter().zip(wanted).map(|(a, b)| (f64::from(*a) - b).abs()).fold(worst, f64::max);
        }
        assert!(worst < 1.6, "{}: {worst}", entry.name);
    }
}
