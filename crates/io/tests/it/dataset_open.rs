//! Opening datasets: search order, skipped images, errors, split.

use crate::dataset_support::{SIZE, Scene, json_frame, tiny_model, tiny_png};
use gausset_core::Pose;
use gausset_io::dataset::colmap::{ColmapModel, ModelFormat};
use gausset_io::dataset::{
    self, AlphaMode, CameraModel, Dataset, DatasetError, OpenOptions, SkipReason, SourceCamera, Warning,
};
use gausset_io::image::encode::{PngPixels, png};

fn test_names(data: &Dataset) -> Vec<&str> {
    data.split.test.iter().map(|&i| &*data.images[i].name).collect()
}

#[test]
fn images_keep_their_folders_and_stand_in_byte_order() {
    for format in [ModelFormat::Binary, ModelFormat::Text] {
        let data = Scene::colmap(format).open().unwrap();
        let names: Vec<&str> = data.images.iter().map(|i| &*i.name).collect();
        assert_eq!(names[..2], ["left/img 0.png", "left/img 1.png"]);
        assert_eq!(names[8], "right/img 8.png");
        assert_eq!(test_names(&data), ["left/img 0.png", "right/img 8.png"]);
        assert_eq!(data.points.len(), 12);
        assert!(data.warnings.is_empty() && !data.has_skipped());
    }
}

#[test]
fn every_nth_picture_is_held_out() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let with = |test_every| scene.open_with(&OpenOptions { test_every, ..OpenOptions::default() });
    assert_eq!(with(3).unwrap().split.test, [0, 3, 6]);
    assert_eq!(with(0).unwrap().split.test, [0usize; 0]);
    assert_eq!(with(0).unwrap().split.train.len(), 9);
    assert!(matches!(with(1), Err(DatasetError::NothingToTrainOn { images: 9, .. })));
}

#[test]
fn an_unreadable_picture_does_not_reshuffle_the_test_set() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let mut model = tiny_model();
    for i in 9..30u32 {
        let mut image = model.images[0].clone();
        (image.id, image.name) = (100 + i, format!("right/img {i}.png"));
        scene.write(&format!("images/{}", image.name), &tiny_png(SIZE[0], SIZE[1]));
        model.images.push(image);
    }
    scene.model(&model, ModelFormat::Binary);
    let before = scene.open().unwrap();
    scene.write("images/left/img 1.png", b"not a picture");
    let after = scene.open().unwrap();
    assert_eq!(test_names(&before), test_names(&after));
    assert_eq!(after.images.len(), 29);
    assert_eq!(
        scene.report(),
        [
            "left/img 1.png: picture: is of an unknown format (expected JPEG, PNG, TIFF or WebP); convert it; skipped"
        ]
    );
    // A missing file and an invalid pose do: neither is among the images to split.
    scene.remove("images/left/img 1.png");
    assert_ne!(test_names(&before), test_names(&scene.open().unwrap()));
}

#[test]
fn more_than_a_tenth_of_unreadable_pictures_is_refused() {
    let scene = Scene::colmap(ModelFormat::Binary);
    scene.write("images/left/img 1.png", b"");
    assert_eq!(
        scene.error(),
        "DATA/images: images: 1 of 9 cannot be read (expected at most a tenth); the first: left/img 1.png: picture: \
         is empty (0 bytes); copy it again; repair or remove them"
    );
}

#[test]
fn a_model_is_found_in_each_usual_place() {
    let usual = Scene::colmap(ModelFormat::Binary);
    for place in ["sparse", "", "colmap/sparse/0"] {
        let scene = Scene::empty();
        for image in &tiny_model().images {
            scene.write(&format!("images/{}", image.name), &tiny_png(SIZE[0], SIZE[1]));
        }
        for (name, content) in tiny_model().to_files(ModelFormat::Binary) {
            scene.write(format!("{place}/{name}").trim_start_matches('/'), &content);
        }
        let data = scene.open().unwrap();
        assert_eq!((data.images.len(), data.source), (9, scene.path().join(place)));
        assert_eq!(data.fingerprint, usual.open().unwrap().fingerprint, "where it lies does not matter");
    }
    // From the model folder itself, the images next to `sparse` are found.
    let data = dataset::open(&usual.path().join("sparse/0"), &OpenOptions::default()).unwrap();
    assert_eq!(data.images_folder, usual.path().join("images"));
}

#[test]
fn of_numbered_models_the_one_with_most_images_is_used() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let small = ColmapModel { images: tiny_model().images[..3].to_vec(), ..tiny_model() };
    for (number, model) in [("0", &small), ("1", &tiny_model()), ("10", &tiny_model())] {
        for (name, content) in model.to_files(ModelFormat::Binary) {
            scene.write(&format!("sparse/{number}/{name}"), &content);
        }
    }
    let data = scene.open().unwrap();
    assert_eq!((data.images.len(), data.source.clone()), (9, scene.path().join("sparse/1")));
    assert_eq!(scene.report(), ["DATA/sparse: 3 models; using 1 with the most images (9)"]);
    let sparse = Some(scene.path().join("sparse/0"));
    let data = scene.open_with(&OpenOptions { sparse, ..OpenOptions::default() }).unwrap();
    assert_eq!(data.images.len(), 3);
}

#[test]
fn folders_can_be_named() {
    let scene = Scene::colmap(ModelFormat::Binary);
    std::fs::rename(scene.path().join("images"), scene.path().join("photos")).unwrap();
    let found = "DATA: images: 9 names lead to no file but to a similar one (the first: left/img 0.png is \
                 photos/left/img 0.png)";
    assert_eq!(scene.report(), ["DATA: no folder `images`; using DATA", found]);
    let images = Some(scene.path().join("photos"));
    let data = scene.open_with(&OpenOptions { images, ..OpenOptions::default() }).unwrap();
    assert_eq!(data.images.len(), 9);
    std::fs::rename(scene.path().join("photos"), scene.path().join("images_4")).unwrap();
    assert_eq!(scene.report(), ["DATA: no folder `images`; using DATA/images_4"]);
}

#[test]
fn a_model_wins_over_a_json_file_and_says_so() {
    let scene = Scene::json("\"fl_x\": 14,", "");
    scene.model(&tiny_model(), ModelFormat::Text);
    for image in &tiny_model().images {
        scene.write(&format!("images/{}", image.name), &tiny_png(SIZE[0], SIZE[1]));
    }
    assert_eq!(
        scene.report(),
        [
            "DATA/transforms.json: ignored, because there is a COLMAP model in DATA/sparse/0; name the JSON file to use it"
        ]
    );
}

#[test]
fn pictures_of_one_ratio_rescale_their_intrinsics() {
    let scene = Scene::colmap(ModelFormat::Binary);
    scene.write("images/left/img 0.png", &tiny_png(8, 6));
    scene.write("images/left/img 2.png", &tiny_png(32, 25));
    scene.write("images/left/img 1.png", &tiny_png(8, 5));
    let data = scene.open().unwrap();
    let half = data.images[0].camera;
    assert_eq!([half.fx, half.fy, half.cx, half.cy], [7.0, 7.0, 4.0, 3.0]);
    // 8x5 is within a pixel of 8x6.
    let near = data.images[1].camera;
    assert_eq!((near.width, near.height, near.fx), (8, 5, 7.0));
    assert!((near.fy - 14.5 * 5.0 / 12.0).abs() < 1e-12);
    assert_eq!(data.images[2].camera.fx, 28.0);
    assert_eq!(
        scene.report(),
        [
            "DATA/images: intrinsics rescaled for 3 pictures of another size than the camera (the first: left/img 0.png, 8x6 for 16x12 px)"
        ]
    );
}

#[test]
fn pictures_of_another_shape_are_skipped() {
    let scene = Scene::colmap(ModelFormat::Binary);
    scene.write("images/left/img 0.png", &tiny_png(16, 8));
    scene.write("images/left/img 1.png", &tiny_png(12, 16));
    assert_eq!(
        scene.report(),
        [
            "left/img 0.png: size: 16x8 px does not fit its camera of 16x12 px (expected one ratio for both sides); skipped",
            "left/img 1.png: size: 12x16 px does not fit its camera of 16x12 px (expected one ratio for both sides); \
             it would fit turned by a quarter: was it rotated after the cameras were found?; skipped",
        ]
    );
    assert_eq!(scene.open().unwrap().images.len(), 7);
}

#[test]
fn the_long_side_is_limited() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let size = |max_resolution| {
        let data = scene.open_with(&OpenOptions { max_resolution, ..OpenOptions::default() }).unwrap();
        let camera = data.images[0].camera;
        (camera.width, camera.height, camera.fx, camera.cy)
    };
    assert_eq!(size(0), (16, 12, 14.0, 6.0));
    assert_eq!(size(16), (16, 12, 14.0, 6.0));
    assert_eq!(size(8), (8, 6, 7.0, 3.0));
    assert_eq!(size(10), (10, 8, 8.75, 4.0));
    assert_eq!(size(1), (1, 1, 0.875, 0.5));
}

#[test]
fn missing_files_are_one_warning() {
    let scene = Scene::colmap(ModelFormat::Binary);
    for i in [0, 1, 3, 4] {
        scene.remove(&format!("images/left/img {i}.png"));
    }
    assert_eq!(
        scene.report(),
        [
            "DATA/images: missing 4 of 9 listed pictures: left/img 0.png, left/img 1.png, left/img 3.png … and 1 more"
        ]
    );
    let data = scene.open().unwrap();
    assert_eq!((data.images.len(), data.skipped.len(), data.has_skipped()), (5, 4, true));
}

#[test]
fn poses_that_are_none_cost_their_picture() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let mut model = tiny_model();
    model.images[0].quaternion = [0.0; 4];
    model.images[1].translation[2] = f64::NAN;
    model.images[2].quaternion[0] = 7.0;
    // Within a thousandth: normalised.
    model.images[3].quaternion = [1.0005, 0.0, 0.0, 0.0];
    scene.model(&model, ModelFormat::Binary);
    let report = scene.report();
    assert_eq!(report.len(), 3);
    assert_eq!(report[0], "left/img 0.png: pose: quaternion has length 0 (expected 1); skipped");
    assert_eq!(report[1], "left/img 1.png: pose: pose has a value that is not finite; skipped");
    assert!(report[2].starts_with("left/img 2.png: pose: quaternion has length 7."));
    let data = scene.open().unwrap();
    assert_eq!(data.images.len(), 6);
    assert_eq!(data.images[0].pose.rotation, gausset_core::se3::IDENTITY3);
}

#[test]
fn listed_twice_counts_once() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let mut model = tiny_model();
    model.images[1].name = "./left/img 0.png".to_owned();
    scene.model(&model, ModelFormat::Binary);
    assert_eq!(
        scene.report(),
        ["DATA/images: 1 name leads to a file that is listed already (the first: left/img 0.png); \
             each picture counts once, held out if one of its names is"]
    );
    let data = scene.open().unwrap();
    assert_eq!(
        (data.images.len(), data.images[0].id, data.has_skipped()),
        (8, 10, true),
        "the first one stays"
    );
}

#[cfg(unix)]
#[test]
fn one_file_under_several_names_is_one_picture_and_never_in_both_halves() {
    // Every second frame lists the same eight files again: in another spelling, as absolute paths, and through links.
    let scene = Scene::empty();
    let mut frames = Vec::new();
    for i in 0..8 {
        let name = format!("images/{i}.png");
        let path = scene.write(&name, &tiny_png(SIZE[0], SIZE[1]));
        let again = match i % 3 {
            0 => format!("images/../images/{i}.png"),
            1 => path.to_str().unwrap().to_owned(),
            _ => format!("links/{i}.png"),
        };
        let link = scene.path().join(format!("links/{i}.png"));
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&path, link).unwrap();
        for name in [name, again] {
            frames.push(json_frame(&name, f64::from(i), ""));
        }
    }
    let json = |head: &str| {
        let text = format!("{{\"fl_x\": 14, {head} \"frames\": [{}]}}", frames.join(","));
        scene.write("transforms.json", text.as_bytes());
        scene.open_with(&OpenOptions { test_every: 4, ..OpenOptions::default() }).unwrap()
    };
    let names = |data: &Dataset, half: &[usize]| -> Vec<String> {
        half.iter().map(|&i| data.images[i].name.to_string()).collect()
    };
    let data = json("");
    assert_eq!((data.images.len(), data.skipped.len()), (8, 8));
    assert_eq!(names(&data, &data.split.test), ["images/0.png", "images/4.png"]);
    let line =
        "8 names lead to a file that is listed already (the first: images/../images/0.png is images/0.png); ";
    assert!(data.report_lines().iter().any(|l| l.contains(line)), "{:?}", data.report_lines());
    // A list of held-out images that names one of them in each of the spellings.
    let outside = scene.path().join("images/1.png");
    let head = format!(
        "\"test_filenames\": [\"images/0.png\", \"{}\", \"links/2.png\", \"./images/x/../3.png\"],",
        outside.display()
    );
    let data = json(&head);
    assert_eq!(data.images.len(), 8);
    assert_eq!(
        names(&data, &data.split.test),
        ["images/0.png", "images/1.png", "images/3.png", "links/2.png"]
    );
    assert_eq!(data.split.train.len(), 4);
}

#[test]
fn a_picture_in_both_files_of_a_blender_split_is_held_out() {
    let scene = Scene::empty();
    for (half, names) in [("train", [0, 1, 2]), ("test", [2, 3, 4])] {
        let frames = names.map(|i| {
            scene.write(&format!("{i}.png"), &tiny_png(SIZE[0], SIZE[1]));
            json_frame(&format!("{i}"), f64::from(i), "")
        });
        let text = format!("{{\"camera_angle_x\": 0.7, \"frames\": [{}]}}", frames.join(","));
        scene.write(&format!("transforms_{half}.json"), text.as_bytes());
    }
    let data = scene.open().unwrap();
    assert_eq!(test_names(&data), ["2.png", "3.png", "4.png"]);
    assert_eq!(data.split.train, [0, 1]);
}

#[test]
fn pictures_of_one_rig_frame_know_each_other() {
    let scene = Scene::colmap(ModelFormat::Text);
    scene.write(
        "sparse/0/frames.txt",
        b"# comment\n5 1 1 0 0 0 0 0 0 2 CAMERA 2 10 CAMERA 7 13\n6 1 1 0 0 0 0 0 0 2 IMU 3 9 CAMERA 2 16\n",
    );
    let frames = |scene: &Scene| scene.open().unwrap().images.iter().map(|i| i.frame).collect::<Vec<_>>();
    assert_eq!(frames(&scene)[..4], [Some(5), Some(5), None, None]);
    let scene = Scene::colmap(ModelFormat::Binary);
    let mut bytes = 2u64.to_le_bytes().to_vec();
    for (frame, images) in [(5u32, [10u64, 13]), (6, [16, 1 << 40])] {
        bytes.extend(frame.to_le_bytes());
        bytes.extend([0; 60]);
        bytes.extend(2u32.to_le_bytes());
        for image in images {
            bytes.extend([0; 8]);
            bytes.extend(image.to_le_bytes());
        }
    }
    scene.write("sparse/0/frames.bin", &bytes);
    assert_eq!(frames(&scene)[..4], [Some(5), Some(5), None, None]);
    bytes.pop();
    scene.write("sparse/0/frames.bin", &bytes);
    assert_eq!(frames(&scene)[..4], [None; 4], "damaged frames are left out with a warning");
}

#[test]
fn masks_are_found_under_each_name() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let mask = png(16, 12, PngPixels::Grey8(&[255; 16 * 12]), &[]).unwrap();
    let names = [
        "masks/left/img 0.png.png",
        "masks/left/img 1.png",
        "images/left/img 2.png.mask.png",
        "images/left/img 3.mask.png",
        "masks/left/img 4.mask.png",
    ];
    for name in names {
        scene.write(name, &mask);
    }
    let data = scene.open().unwrap();
    let found: Vec<_> = data.images.iter().map(|i| i.mask.clone()).collect();
    for (i, name) in names.iter().enumerate() {
        assert_eq!(found[i], Some(scene.path().join(name)));
    }
    assert!(found[5..].iter().all(Option::is_none), "a missing mask keeps all");
    assert_ne!(data.fingerprint, Scene::colmap(ModelFormat::Binary).open().unwrap().fingerprint);
    let with =
        |folder: &str| OpenOptions { masks: Some(scene.path().join(folder)), ..OpenOptions::default() };
    scene.write("other/left/img 7.png", &mask);
    let data = scene.open_with(&with("other")).unwrap();
    assert_eq!(data.images.iter().filter(|i| i.mask.is_some()).count(), 2, "those beside the pictures");
    assert_eq!(
        scene.line(&scene.open_with(&with("nowhere")).unwrap_err().to_string()),
        "DATA/nowhere: open masks: no such file or folder"
    );
}

#[test]
fn masks_of_another_size_are_said_and_unreadable_ones_cost_their_picture() {
    let scene = Scene::colmap(ModelFormat::Binary);
    scene.write("masks/left/img 0.png", &png(8, 6, PngPixels::Grey8(&[255; 48]), &[]).unwrap());
    assert_eq!(
        scene.report(),
        [
            "DATA/masks/left/img 0.png: mask resized from 8x6 to the picture's 16x12 px",
            "DATA/masks: masks: 8 of 9 pictures have no mask and are used whole (the first: left/img 1.png)"
        ]
    );
    scene.write("masks/left/img 1.png", b"GIF89a");
    let error = scene.error();
    assert!(error.contains("left/img 1.png: mask DATA/masks/left/img 1.png: picture: is GIF"), "{error}");
}

#[test]
fn zero_points_are_a_warning() {
    let scene = Scene::colmap(ModelFormat::Text);
    scene.remove("sparse/0/points3D.txt");
    assert_eq!(scene.report(), ["DATA/sparse/0/points3D.txt: no points; training starts from random splats"]);
    let mut model = tiny_model();
    model.points[3].position[1] = f64::NAN;
    model.points[5].position[0] = f64::INFINITY;
    scene.model(&model, ModelFormat::Text);
    assert_eq!(
        scene.report(),
        ["DATA/sparse/0/points3D.txt: dropped 2 points with coordinates that are not finite"]
    );
    assert_eq!(scene.open().unwrap().points.len(), 10);
}

#[test]
fn panoramas_of_a_wrong_shape_are_named_and_not_trained_on() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let mut model = tiny_model();
    let panorama =
        |id| SourceCamera::new(id, CameraModel::Equirectangular, 16, 12, vec![16.0, 12.0]).unwrap();
    model.cameras[1] = panorama(7);
    scene.model(&model, ModelFormat::Binary);
    let data = scene.open().unwrap();
    assert_eq!(data.images.len(), 5);
    assert!(data.skipped.iter().all(|s| s.reason == SkipReason::Untrainable(CameraModel::Equirectangular)));
    model.cameras[0] = panorama(2);
    scene.model(&model, ModelFormat::Binary);
    assert_eq!(
        scene.error(),
        "DATA/sparse/0/cameras.bin: camera 2: EQUIRECTANGULAR cannot be trained on in this shape (expected a \
         panorama twice as wide as high); check the camera's size"
    );
}

#[test]
fn the_extent_comes_from_training_cameras_and_points() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let extent = |options: &OpenOptions| scene.open_with(options).unwrap().scene_extent;
    let data = scene.open().unwrap();
    let centres: Vec<[f64; 3]> = data.split.train.iter().map(|&i| data.images[i].pose.centre()).collect();
    let mean: [f64; 3] =
        std::array::from_fn(|k| centres.iter().map(|c| c[k]).sum::<f64>() / centres.len() as f64);
    let distance = |c: &[f64; 3]| (0..3).map(|k| (c[k] - mean[k]).powi(2)).sum::<f64>().sqrt();
    let expected = 1.1 * centres.iter().map(distance).fold(0.0, f64::max);
    assert!((data.scene_extent - expected).abs() < 1e-12);
    assert_eq!(extent(&OpenOptions { scene_extent: Some(7.5), ..OpenOptions::default() }), 7.5);

    // All cameras at the same position: the median distance of the points.
    let mut model = tiny_model();
    let pose = model.images[0].clone();
    for image in &mut model.images {
        (image.quaternion, image.translation) = (pose.quaternion, pose.translation);
    }
    scene.model(&model, ModelFormat::Binary);
    let data = scene.open().unwrap();
    assert!(matches!(data.warnings.as_slice(), [Warning::CoincidentCameras { .. }]));
    let mut distances: Vec<f64> = data
        .points
        .iter()
        .map(|p| {
            let c = data.images[0].pose.centre();
            (0..3).map(|k| (p.position[k] - c[k]).powi(2)).sum::<f64>().sqrt()
        })
        .collect();
    distances.sort_by(f64::total_cmp);
    assert!((data.scene_extent - 0.5 * (distances[5] + distances[6])).abs() < 1e-9);
    model.points.clear();
    scene.model(&model, ModelFormat::Binary);
    assert_eq!(scene.open().unwrap().scene_extent, 1.0);
}

#[test]
fn the_fingerprint_tells_data_apart_and_ignores_options() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let print = || scene.open().unwrap().fingerprint.to_string();
    let first = print();
    assert_eq!((first.len(), &first[..2], print()), (34, "2-", first.clone()));
    let options =
        OpenOptions { max_resolution: 8, test_every: 2, alpha: AlphaMode::Mask, ..OpenOptions::default() };
    assert_eq!(scene.open_with(&options).unwrap().fingerprint.to_string(), first);
    let mut model = tiny_model();
    model.images[4].translation[0] += 1e-12;
    scene.model(&model, ModelFormat::Binary);
    assert_ne!(print(), first);
    scene.model(&tiny_model(), ModelFormat::Binary);
    assert_eq!(print(), first);
    let picture = tiny_png(16, 12);
    let mut other = picture.clone();
    *other.last_mut().unwrap() ^= 1;
    scene.write("images/left/img 0.png", &other);
    assert_ne!(print(), first, "the same length, another content");
    scene.write("images/left/img 0.png", &picture);
    assert_eq!(print(), first, "another time, the same content");
    let mask = |value: u8| png(16, 12, PngPixels::Grey8(&[value; 16 * 12]), &[]).unwrap();
    assert_eq!(mask(255).len(), mask(254).len());
    scene.write("masks/left/img 0.png", &mask(255));
    let masked = print();
    scene.write("masks/left/img 0.png", &mask(254));
    assert!(masked != first && masked != print(), "masks count with their content");
}

#[test]
fn the_first_thing_that_differs_from_a_list_of_data_is_named() {
    let scene = Scene::colmap(ModelFormat::Binary);
    let list = scene.open().unwrap().data_list();
    let difference = || scene.open().unwrap().difference_from(&list);
    assert_eq!(difference(), None);
    let named = |what: &str| assert_eq!(difference().as_deref(), Some(what));
    let mut model = tiny_model();
    model.points[3].colour[0] ^= 1;
    scene.model(&model, ModelFormat::Binary);
    named("other points");
    model.images[7].translation[0] += 1e-12;
    scene.model(&model, ModelFormat::Binary);
    named("changed camera or pose: right/img 7.png");
    scene.write("masks/left/img 2.png", &tiny_png(16, 12));
    named("changed mask: left/img 2.png");
    for i in [1, 3, 4] {
        let mut picture = tiny_png(16, 12);
        *picture.last_mut().unwrap() ^= 1;
        scene.write(&format!("images/left/img {i}.png"), &picture);
    }
    named("changed content: left/img 1.png and 2 more");
    model.images[0].name = "left/another.png".to_owned();
    scene.model(&model, ModelFormat::Binary);
    scene.write("images/left/another.png", &tiny_png(16, 12));
    named("missing: left/img 0.png");
    for foreign in ["", "# a comment\n", "some words\n", "a b c d e f\n"] {
        assert_eq!(scene.open().unwrap().difference_from(foreign), None, "{foreign}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_names_that_lead_out_are_not() {
    use std::os::unix::fs::symlink;
    let scene = Scene::colmap(ModelFormat::Binary);
    let plain = scene.open().unwrap();
    // As other tools arrange their files: every image and mask is a link, and so are the folders.
    std::fs::rename(scene.path().join("images"), scene.path().join("elsewhere")).unwrap();
    let mask = png(16, 12, PngPixels::Grey8(&[255; 16 * 12]), &[]).unwrap();
    for image in &tiny_model().images {
        let stem = image.name.trim_end_matches(".png");
        scene.write(&format!("all masks/{stem}.png"), &mask);
        for (folder, target) in [("links", "elsewhere"), ("mask links", "all masks")] {
            let link = scene.path().join(folder).join(&image.name);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(scene.path().join(target).join(&image.name), link).unwrap();
        }
    }
    symlink("links", scene.path().join("images")).unwrap();
    let linked = scene.open().unwrap();
    assert!(linked.report_lines().is_empty(), "{:?}", linked.report_lines());
    assert_eq!(linked.images.len(), 9);
    assert_eq!(linked.fingerprint, plain.fingerprint, "where the pictures lie does not matter");
    symlink("mask links", scene.path().join("masks")).unwrap();
    let masked = scene.open().unwrap();
    assert!(masked.images.iter().all(|image| image.mask.is_some()));
    // A name that leads out is refused whether or not the file exists.
    scene.write("secret.png", &tiny_png(16, 12));
    let mut model = tiny_model();
    model.images[0].name = "../secret.png".to_owned();
    model.images[1].name = "/nowhere/at/all.png".to_owned();
    scene.model(&model, ModelFormat::Binary);
    let line = "name: leads out of the folder it is relative to (expected a file below it); ⟨allow-outside⟩ accepts it; skipped";
    assert_eq!(scene.report(), [format!("../secret.png: {line}"), format!("/nowhere/at/all.png: {line}")]);
    let allowed = OpenOptions { allow_outside: true, ..OpenOptions::default() };
    let data = scene.open_with(&allowed).unwrap();
    assert_eq!((data.images.len(), &*data.images[0].name), (8, "../secret.png"));
}

#[test]
fn a_mask_that_is_named_is_used_or_costs_its_picture() {
    let named = |mask: &str| {
        let scene = Scene::json("\"fl_x\": 14,", &format!("\"mask_path\": \"{mask}\","));
        let content = png(16, 12, PngPixels::Grey8(&[255; 16 * 12]), &[]).unwrap();
        scene.write("kept/four.png", &content);
        scene
    };
    let data = named("kept/../kept/four.png").open().unwrap();
    let masks: Vec<bool> = data.images.iter().map(|image| image.mask.is_some()).collect();
    assert_eq!(masks, [false, false, false, false, true, false, false, false, false]);
    assert_eq!(
        named("kept/for.png").error(),
        "DATA: images: 1 of 9 cannot be read (expected at most a tenth); the first: images/4.png: mask \
         DATA/kept/for.png: no such file; repair or remove them"
    );
    assert!(
        named("../four.png")
            .error()
            .contains("mask DATA/../four.png: leads out of the folder it is relative to")
    );
}

#[test]
fn a_picture_folder_may_be_named_for_a_json_file() {
    let scene = Scene::json("\"fl_x\": 14,", "");
    std::fs::rename(scene.path().join("images"), scene.path().join("small")).unwrap();
    assert_eq!(&*scene.open().unwrap().images[3].name, "small/3.png");
    let images = Some(scene.path().join("small"));
    let data = scene.open_with(&OpenOptions { images, ..OpenOptions::default() }).unwrap();
    assert_eq!((data.images.len(), &*data.images[3].name), (9, "3.png"));
}

/// The tiny model, moved and scaled.
fn moved_model(offset: [f64; 3]) -> ColmapModel {
    let mut model = tiny_model();
    for image in &mut model.images {
        let pose = Pose::from_quaternion(image.quaternion, image.translation).unwrap();
        let centre = pose.centre();
        let there: [f64; 3] = std::array::from_fn(|k| centre[k] + offset[k]);
        image.translation = gausset_core::se3::mul_vec(&pose.rotation, there).map(|v| -v);
    }
    for point in &mut model.points {
        point.position = std::array::from_fn(|k| point.position[k] + offset[k]);
    }
    model
}

#[test]
fn a_dataset_in_utm_or_ecef_coordinates_is_moved_to_the_origin_and_says_so() {
    let near = Scene::colmap(ModelFormat::Binary);
    let expected = near.open().unwrap();
    assert_eq!(expected.offset, None);
    for offset in [[431_000.0, 5_412_000.0, 312.0], [4_177_000.0, 855_000.0, 4_728_000.0]] {
        let scene = Scene::colmap(ModelFormat::Binary);
        scene.model(&moved_model(offset), ModelFormat::Binary);
        let found = scene.open().unwrap();
        let away = found.offset.unwrap();
        let mean_error = (0..3).map(|k| (away[k] - offset[k]).abs()).fold(0.0, f64::max);
        assert!(
            mean_error < 10.0 && away.iter().all(|v| (v * 100.0 - (v * 100.0).round()).abs() < 1e-6),
            "{away:?}"
        );
        let shift: [f64; 3] = std::array::from_fn(|k| offset[k] - away[k]);
        for (a, b) in found.images.iter().zip(&expected.images) {
            let (a, b) = (a.pose.centre(), b.pose.centre());
            assert!((0..3).all(|k| (a[k] - b[k] - shift[k]).abs() < 1e-6), "{a:?} {b:?}");
        }
        let (a, b) = (found.points[3].position, expected.points[3].position);
        assert!((0..3).all(|k| (a[k] - b[k] - shift[k]).abs() < 1e-6), "{a:?} {b:?}");
        assert!((found.scene_extent / expected.scene_extent - 1.0).abs() < 1e-6);
        assert!(scene.report().iter().any(|line| line.contains("is subtracted")), "{:?}", scene.report());
        // Beside splats that were made without it, nothing is subtracted.
        let kept = OpenOptions { offset: Some([0.0; 3]), ..OpenOptions::default() };
        assert_eq!(scene.open_with(&kept).unwrap().offset, None);
    }
    // A thousand units away, 32-bit numbers suffice.
    let scene = Scene::colmap(ModelFormat::Binary);
    scene.model(&moved_model([1000.0, 0.0, 0.0]), ModelFormat::Binary);
    assert_eq!(scene.open().unwrap().offset, None);
}

#[test]
fn a_georeference_beside_the_model_is_read_and_a_damaged_one_is_a_warning() {
    let scene = Scene::colmap(ModelFormat::Binary);
    assert_eq!(scene.open().unwrap().georeference, None);
    let text = include_str!("../../../../fuzz/corpus/georeference_json/flight.json");
    scene.write("sparse/0/georeference.json", text.as_bytes());
    assert_eq!(scene.open().unwrap().georeference.unwrap().origin.longitude, 11.5);
    scene.write("sparse/0/georeference.json", b"{}");
    assert_eq!(scene.open().unwrap().georeference, None);
    assert!(scene.report().iter().any(|line| line.ends_with("; the scene is not georeferenced")));
}
