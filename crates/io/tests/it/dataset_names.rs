//! Names, folders and masks as other programs and systems leave them.

use crate::dataset_support::{SIZE, Scene, json_frame, tiny_model, tiny_png};
use gausset_io::dataset::colmap::ModelFormat;
use gausset_io::dataset::{DatasetKind, Loader, LoaderOptions, OpenOptions};
use gausset_io::image::encode::{PngPixels, png};

const FOCAL: &str = "\"fl_x\": 14,";

/// A COLMAP model whose image `i` is named `listed(i)`, and pictures named `stored(i)` relative to the scene.
fn colmap(listed: impl Fn(usize) -> String, stored: impl Fn(usize) -> String) -> Scene {
    let scene = Scene::empty();
    let mut model = tiny_model();
    for (i, image) in model.images.iter_mut().enumerate() {
        image.name = listed(i);
        scene.write(&stored(i), &tiny_png(SIZE[0], SIZE[1]));
    }
    scene.model(&model, ModelFormat::Binary);
    scene
}

/// A JSON file whose frame `i` is named `listed(i)`, and pictures named `stored(i)` relative to the scene.
fn json(head: &str, listed: impl Fn(usize) -> String, stored: impl Fn(usize) -> String) -> Scene {
    let scene = Scene::empty();
    let frames: Vec<String> = (0..9)
        .map(|i| {
            scene.write(&stored(i), &tiny_png(SIZE[0], SIZE[1]));
            json_frame(&listed(i).replace('\\', "\\\\"), 0.3 * i as f64, "")
        })
        .collect();
    scene.write("transforms.json", format!("{{{head} \"frames\": [{}]}}", frames.join(",")).as_bytes());
    scene
}

/// All nine pictures are used, and one warning says how many names were not theirs.
fn resolves(scene: &Scene, what: &str) {
    let data = scene.open().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(data.images.len(), 9, "{what}: {:?}", scene.report());
    let said: Vec<String> =
        scene.report().into_iter().filter(|line| line.contains("images: 9 names lead")).collect();
    assert_eq!(said.len(), 1, "{what}: {:?}", scene.report());
}

#[test]
fn names_of_a_colmap_model_find_their_pictures() {
    let plain = |i: usize| format!("images/{i}.jpg");
    type Name<'a> = &'a dyn Fn(usize) -> String;
    let listed: [(&str, Name<'_>, Name<'_>); 13] = [
        ("PNG on disk", &|i| format!("{i}.jpg"), &|i| format!("images/{i}.png")),
        ("images_4, PNG", &|i| format!("{i}.jpg"), &|i| format!("images_4/{i}.png")),
        ("decomposed", &|i| format!("\u{fc}{i}.jpg"), &|i| format!("images/u\u{308}{i}.jpg")),
        ("images/ in the name", &|i| format!("images/{i}.jpg"), &plain),
        ("flattened", &|i| format!("cam{}/{i}.jpg", i % 2), &plain),
        ("flattened with the folder", &|i| format!("cam/{i}.jpg"), &|i| format!("images/cam_{i}.jpg")),
        ("other case", &|i| format!("DJI_{i}.JPG"), &|i| format!("images/dji_{i}.jpg")),
        ("absolute", &|i| format!("/mnt/x/y/{i}.jpg"), &plain),
        ("converted from HEIC", &|i| format!("{i}.HEIC"), &plain),
        ("developed from DNG", &|i| format!("{i}.DNG"), &plain),
        ("converted from BMP", &|i| format!("{i}.bmp"), &|i| format!("images/{i}.png")),
        ("JFIF on disk", &|i| format!("{i}.jpg"), &|i| format!("images/{i}.jfif")),
        ("two extensions on disk", &|i| format!("{i}.jpg"), &|i| format!("images/{i}.jpg.png")),
    ];
    for (what, listed, stored) in listed {
        resolves(&colmap(listed, stored), what);
    }
}

#[test]
fn names_of_a_json_file_find_their_pictures() {
    let plain = |i: usize| format!("images/{i}.jpg");
    let listed: [(&str, &dyn Fn(usize) -> String); 5] = [
        ("Windows", &|i| format!("D:\\My Project\\images\\{i}.jpg")),
        ("another machine", &|i| format!("/mnt/x/scene/images/{i}.jpg")),
        ("bare", &|i| format!("{i}.jpg")),
        ("bare, no extension", &|i| format!("./{i}")),
        ("converted from CR2", &|i| format!("images/{i}.CR2")),
    ];
    for (what, listed) in listed {
        let scene = json(FOCAL, listed, plain);
        // Other pictures of the same names are no candidates.
        (0..9).for_each(|i| {
            for folder in ["images_2", "depth"] {
                scene.write(&format!("{folder}/{i}.jpg"), &tiny_png(8, 6));
            }
        });
        resolves(&scene, what);
        let data = scene.open().unwrap();
        assert_eq!(&*data.images[0].name, "images/0.jpg", "{what}");
        // The same with the folder given by its name.
        let images = Some(scene.path().join("images"));
        let data = scene.open_with(&OpenOptions { images, ..OpenOptions::default() }).unwrap();
        assert_eq!((data.images.len(), &*data.images[0].name), (9, "0.jpg"), "{what}");
    }
}

#[test]
fn the_error_names_the_kinds_of_pictures_that_are_not_read() {
    let scene = colmap(|i| format!("{i}.jpg"), |i| format!("images/{i}.HEIC"));
    scene.write("images/x.DNG", b"x");
    assert_eq!(
        scene.error(),
        "DATA/sparse/0/images.bin: images: none of the 9 listed can be used; the first: 0.jpg: picture: no such \
         file; DATA/images holds no picture that is read; 9 HEIC files left out: convert them to JPEG, e.g. \
         `heif-convert` or `magick mogrify -format jpg *.HEIC`; 1 DNG file left out: develop it to JPEG or TIFF, e.g. \
         `darktable-cli` or `dcraw -T`; name the folder of the pictures with ⟨images⟩"
    );
}

#[test]
fn two_names_never_share_a_picture() {
    // Two cameras with pictures of the same names; those of one camera are there.
    let scene = colmap(|i| format!("cam{}/{}.jpg", i % 2, i / 2), |i| format!("images/cam0/{}.jpg", i / 2));
    let data = scene.open().unwrap();
    assert_eq!(data.images.len(), 5);
    assert!(data.images.iter().all(|image| image.name.starts_with("cam0/")));
    // Flattened, so that it cannot be told whose they are.
    let scene = colmap(|i| format!("cam{}/{}.jpg", i % 2, i / 2), |i| format!("images/{}.jpg", i / 2));
    let options = OpenOptions { test_every: 0, ..OpenOptions::default() };
    assert_eq!(scene.open_with(&options).unwrap().images.len(), 1, "cam0/4.jpg alone is one of its name");
}

#[test]
fn a_name_never_finds_a_picture_outside_the_dataset() {
    let scene = Scene::empty();
    scene.write("secret.png", &tiny_png(SIZE[0], SIZE[1]));
    let inside = |name: &str| {
        let frame = json_frame(name, 0.0, "");
        scene.write("data/transforms.json", format!("{{{FOCAL} \"frames\": [{frame}]}}").as_bytes());
        let options = OpenOptions { test_every: 0, ..OpenOptions::default() };
        gausset_io::dataset::open(&scene.path().join("data"), &options)
    };
    for name in ["../secret.png", "secret.png", "/elsewhere/secret.png"] {
        assert!(inside(name).is_err(), "{name}");
    }
}

#[test]
fn the_error_names_the_searched_folder_and_two_of_its_pictures() {
    let scene = colmap(|i| format!("IMG_{i}.jpg"), |i| format!("images/left/other_{i}.jpg"));
    assert_eq!(
        scene.error(),
        "DATA/sparse/0/images.bin: images: none of the 9 listed can be used; the first: IMG_0.jpg: picture: no such \
         file; DATA/images holds left/other_0.jpg, left/other_1.jpg and 7 more; name the folder of the pictures with \
         ⟨images⟩"
    );
}

#[test]
fn split_lists_points_and_masks_are_found_by_the_same_rule() {
    let head = format!(
        "{FOCAL} \"val_filenames\": [\"images\\\\2.jpg\", \"D:\\\\x\\\\images\\\\5.JPG\"], \
         \"ply_file_path\": \"/mnt/x/scene/Sparse_PC.ply\","
    );
    let scene = json(&head, |i| format!("./images/{i}.jpg"), |i| format!("images/{i}.jpg"));
    scene.edit("transforms.json", |text| {
        text.replacen("\"file_path\"", "\"mask_path\": \"C:\\\\m\\\\masks\\\\one.png\", \"file_path\"", 1)
    });
    let mask = png(SIZE[0], SIZE[1], PngPixels::Grey8(&[255; 16 * 12]), &[]).unwrap();
    let mask = scene.write("masks/one.png", &mask);
    scene.write(
        "sparse_pc.ply",
        b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n1 2 3\n",
    );
    let data = scene.open().unwrap();
    let test: Vec<&str> = data.split.test.iter().map(|&i| &*data.images[i].name).collect();
    assert_eq!(test, ["images/2.jpg", "images/5.jpg"]);
    assert_eq!(data.points.len(), 1);
    assert_eq!(data.images[0].mask.as_ref(), Some(&mask));
    let report = scene.report();
    for line in ["val_filenames: 1 name leads", "ply_file_path: 1 name leads", "mask_path: 1 name leads"] {
        assert!(report.iter().any(|said| said.contains(line)), "{line} is not in {report:?}");
    }
}

#[test]
fn a_mask_path_without_text_is_no_mask() {
    let scene = Scene::json(FOCAL, "\"mask_path\": \"\",");
    assert_eq!(scene.open().unwrap().images.len(), 9);
    assert_eq!(scene.report().len(), 1, "only the points are missing");
}

#[test]
fn models_are_found_where_programs_put_them() {
    for (model, images) in [
        ("colmap_sparse/0", "images"),
        ("colmap/sparse/0", "images"),
        ("dense/0/sparse", "dense/0/images"),
        ("dense/sparse", "dense/images"),
        ("KIRI_export/sparse/0", "KIRI_export/images"),
    ] {
        let scene = Scene::empty();
        let tiny = tiny_model();
        for (name, content) in tiny.to_files(ModelFormat::Binary) {
            scene.write(&format!("{model}/{name}"), &content);
        }
        for image in &tiny.images {
            scene.write(&format!("{images}/{}", image.name), &tiny_png(SIZE[0], SIZE[1]));
        }
        let data = scene.open().unwrap_or_else(|e| panic!("{model}: {e}"));
        assert_eq!((data.images.len(), data.images_folder), (9, scene.path().join(images)), "{model}");
    }
}

#[test]
fn an_undistorted_workspace_keeps_its_own_pictures() {
    // The pictures beside it are distorted.
    let scene = Scene::empty();
    let tiny = tiny_model();
    for (name, content) in tiny.to_files(ModelFormat::Binary) {
        scene.write(&format!("dense/0/sparse/{name}"), &content);
    }
    for image in &tiny.images {
        scene.write(&format!("dense/0/images/{}", image.name), &tiny_png(SIZE[0], SIZE[1]));
        scene.write(&format!("images/{}", image.name), &tiny_png(SIZE[0] + 4, SIZE[1] + 2));
    }
    assert_eq!(scene.open().unwrap().images_folder, scene.path().join("dense/0/images"));
}

#[test]
fn capital_names_of_a_model_are_its_files() {
    let scene = Scene::colmap(ModelFormat::Text);
    for (usual, capital) in
        [("cameras.txt", "Cameras.txt"), ("images.txt", "Images.txt"), ("points3D.txt", "Points3D.txt")]
    {
        let at = |name: &str| scene.path().join("sparse/0").join(name);
        std::fs::rename(at(usual), at(capital)).unwrap();
    }
    let data = scene.open().unwrap();
    assert_eq!((data.images.len(), data.points.len()), (9, 12));
}

#[test]
fn a_broken_model_beside_a_good_one_is_a_warning() {
    for broken in ["sparse/0", "sparse/1"] {
        let scene = Scene::colmap(ModelFormat::Text);
        let other = if broken == "sparse/0" { "sparse/1" } else { "sparse/2" };
        if broken == "sparse/0" {
            std::fs::rename(scene.path().join("sparse/0"), scene.path().join(other)).unwrap();
        }
        scene.write(&format!("{broken}/cameras.txt"), b"1 PINHOLE 16 12 14 14 8 6\n");
        assert_eq!(scene.open().unwrap().images.len(), 9);
        assert_eq!(
            scene.report(),
            [format!(
                "DATA/{broken}: model: images.txt is missing (expected beside cameras.txt); copy the whole model; \
                 another model is used"
            )]
        );
        scene.write(&format!("{broken}/images.txt"), b"what is this\n");
        assert_eq!(scene.open().unwrap().images.len(), 9);
        assert_eq!(scene.report().len(), 1);
    }
}

#[test]
fn points_of_a_ply_file_stand_for_missing_ones() {
    const PLY: &[u8] =
        b"ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n\
        end_header\n1 2 3\n4 5 6\n";
    for name in ["sparse/0/points3D.ply", "points3D.ply", "sparse_pc.ply"] {
        let scene = Scene::colmap(ModelFormat::Binary);
        scene.remove("sparse/0/points3D.bin");
        scene.write(name, PLY);
        assert_eq!(scene.open().unwrap().points.len(), 2, "{name}");
        assert_eq!(
            scene.report(),
            [format!("DATA/{name}: taken for the points, because DATA/sparse/0 has none")]
        );
    }
    for name in ["points3D.ply", "sparse_pc.ply"] {
        let scene = Scene::json(FOCAL, "");
        scene.write(name, PLY);
        assert_eq!(scene.open().unwrap().points.len(), 2, "{name}");
    }
    let scene = Scene::colmap(ModelFormat::Binary);
    scene.write("sparse_pc.ply", PLY);
    assert_eq!(scene.open().unwrap().points.len(), 12, "the model's own points come first");
}

#[test]
fn files_of_a_dataset_may_be_in_capitals() {
    for name in ["Transforms.json", "transforms.JSON", "TRANSFORMS.JSON"] {
        let scene = Scene::json(FOCAL, "");
        std::fs::rename(scene.path().join("transforms.json"), scene.path().join(name)).unwrap();
        assert_eq!(scene.open().unwrap().images.len(), 9, "{name}");
        let named = gausset_io::dataset::open(&scene.path().join(name), &OpenOptions::default()).unwrap();
        assert_eq!(named.images.len(), 9, "{name}");
    }
    let scene = Scene::json("\"camera_angle_x\": 0.7,", "");
    let text = std::fs::read(scene.path().join("transforms.json")).unwrap();
    scene.remove("transforms.json");
    scene.write("TRANSFORMS_TRAIN.JSON", &text);
    let text = String::from_utf8(text).unwrap().replace("images/", "test/");
    (0..9).for_each(|i| {
        scene.write(&format!("test/{i}.png"), &tiny_png(16, 12));
    });
    scene.write("Transforms_Test.json", text.as_bytes());
    let ply = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n1 2 3\n";
    scene.write("SPARSE_PC.PLY", ply.as_bytes());
    let data = scene.open().unwrap();
    assert_eq!((data.split.train.len(), data.split.test.len()), (9, 9));
    assert_eq!((data.kind, data.points.len()), (DatasetKind::Blender, 1));
}

/// Number of pixels that image 0 keeps.
fn kept(scene: &Scene, options: &OpenOptions) -> usize {
    let data = scene.open_with(options).unwrap();
    let loader = Loader::new(std::sync::Arc::new(data), LoaderOptions { budget_bytes: 1 << 20, threads: 0 });
    loader.get(0).unwrap().valid_pixels()
}

#[test]
fn masks_may_be_inverted_and_stand_in_the_alpha_of_one_colour() {
    let scene = json(FOCAL, |i| format!("images/{i}.png"), |i| format!("images/{i}.png"));
    let left: Vec<u8> = (0..16 * 12).map(|i| if i % 16 < 4 { 255 } else { 0 }).collect();
    let grey = png(16, 12, PngPixels::Grey8(&left), &[]).unwrap();
    let alpha_of = |colour: u8| {
        let pixels: Vec<u8> = left.iter().flat_map(|&a| [colour, colour, colour, a]).collect();
        png(16, 12, PngPixels::Rgba8(&pixels), &[]).unwrap()
    };
    let inverted = OpenOptions { invert_masks: true, ..OpenOptions::default() };
    for mask in [grey, alpha_of(255), alpha_of(0)] {
        (0..9).for_each(|i| {
            scene.write(&format!("masks/images/{i}.png"), &mask);
        });
        assert_eq!(kept(&scene, &OpenOptions::default()), 4 * 12);
        assert_eq!(kept(&scene, &inverted), 12 * 12);
    }
}

#[test]
fn only_what_looks_like_a_blender_scene_is_one() {
    let blender = |distance: f64, alpha: bool, file: &str| {
        let scene = Scene::empty();
        let pixels = vec![200; 16 * 12 * 4];
        let picture = match alpha {
            true => png(16, 12, PngPixels::Rgba8(&pixels), &[]).unwrap(),
            false => tiny_png(16, 12),
        };
        let frames: Vec<String> = (0..9)
            .map(|i| {
                scene.write(&format!("images/{i}.png"), &picture);
                let frame = json_frame(&format!("images/{i}"), 0.7 * f64::from(i), "");
                frame.replace("[0, 1, 0, 0.5]", &format!("[0, 1, 0, {distance}]"))
            })
            .collect();
        let json = format!("{{\"camera_angle_x\": 0.7, \"frames\": [{}]}}", frames.join(","));
        scene.write(file, json.as_bytes());
        let data = scene.open().unwrap();
        assert_eq!(data.background == [1.0; 3], data.kind == DatasetKind::Blender);
        data.kind
    };
    assert_eq!(blender(0.5, true, "transforms.json"), DatasetKind::Blender);
    assert_eq!(blender(0.5, false, "transforms_train.json"), DatasetKind::Blender);
    assert_eq!(blender(0.5, false, "transforms.json"), DatasetKind::Nerfstudio);
    assert_eq!(blender(400.0, true, "transforms.json"), DatasetKind::Nerfstudio);
}
