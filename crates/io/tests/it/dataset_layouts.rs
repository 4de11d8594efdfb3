//! Folders and files of other programs that are not quite as the programs write them, with one thing changed each.

use crate::dataset_support::{SIZE, Scene, json_frame, tiny_model, tiny_png};
use gausset_io::dataset::colmap::ModelFormat;
use gausset_io::dataset::{self, Dataset, DatasetKind, OpenOptions, Warning};
use gausset_io::image::encode::{PngPixels, png};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Pictures a, b, c, d in a folder.
fn scene_with(folder: &str) -> Scene {
    let scene = Scene::empty();
    for name in NAMES {
        scene.write(&format!("{folder}/{name}.png"), &tiny_png(SIZE[0], SIZE[1]));
    }
    scene
}

/// A shot of OpenSfM with these values.
fn shot(name: &str, values: &str) -> String {
    format!("\"{name}.png\": {{{values} \"camera\": \"x\"}}")
}

fn pose_of_shot(index: usize) -> String {
    format!("\"rotation\": [0.1, 0.{index}, 0], \"translation\": [0, 0.{index}, 3],")
}

/// A reconstruction whose first shot has the values `first`.
fn reconstruction(first: &str) -> String {
    let shots = NAMES.iter().enumerate().map(|(i, name)| match i {
        0 => shot(name, first),
        _ => shot(name, &pose_of_shot(i)),
    });
    let shots: Vec<String> = shots.collect();
    format!(
        "{{\"cameras\": {{\"x\": {{\"projection_type\": \"perspective\", \"width\": {}, \"height\": {}, \
         \"focal\": 0.9}}}}, \"shots\": {{{}}}}}",
        SIZE[0],
        SIZE[1],
        shots.join(", ")
    )
}

/// Cameras of the released 3DGS code, of which the first has the values `first`.
fn inria(first: &str) -> String {
    let cameras = NAMES.iter().enumerate().map(|(i, name)| {
        let pose = format!("\"position\": [{i}, 0, 0], \"rotation\": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]");
        let own = format!("\"img_name\": \"{name}\", {pose}");
        let own = if i == 0 && !first.is_empty() { first } else { &own };
        format!(
            "{{\"id\": {i}, {own}, \"width\": {}, \"height\": {}, \"fx\": 14, \"fy\": 14}}",
            SIZE[0], SIZE[1]
        )
    });
    format!("[{}]", cameras.collect::<Vec<_>>().join(", "))
}

/// A sidecar of RealityCapture.
fn sidecar(index: usize) -> String {
    format!(
        "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">\
         <rdf:Description xcr:FocalLength35mm=\"28\" xmlns:xcr=\"http://www.capturingreality.com/ns/xcr/1.1#\">\
         <xcr:Rotation>1 0 0 0 1 0 0 0 1</xcr:Rotation><xcr:Position>{index} 0 0</xcr:Position>\
         </rdf:Description></rdf:RDF></x:xmpmeta>"
    )
}

fn names(data: &Dataset) -> Vec<&str> {
    data.images.iter().map(|image| &*image.name).collect()
}

fn is_deeper(warning: &Warning) -> bool {
    matches!(warning, Warning::FoundDeeper { .. })
}

#[test]
fn an_export_is_found_in_the_folder_of_an_unpacked_archive() {
    let scene = scene_with("project/images");
    scene.write(
        "project/opensfm/reconstruction.json",
        format!("[{}]", reconstruction(&pose_of_shot(0))).as_bytes(),
    );
    let data = scene.open().unwrap();
    assert_eq!((data.kind, data.images.len()), (DatasetKind::OpenSfm, 4));
    assert!(data.warnings.iter().any(is_deeper), "{:?}", data.report_lines());
    // A second one is not chosen.
    scene.write("other/output/cameras.json", inria("").as_bytes());
    let error = scene.error();
    assert!(error.contains("for example DATA/other or DATA/project"), "{error}");
}

#[test]
fn sidecars_are_found_beside_photographs_in_sub_folders() {
    for folders in
        [["images/cam1", "images/cam1"], ["images/cam1", "images/cam2"], ["images/a/b", "images/a/b"]]
    {
        let scene = Scene::empty();
        for (i, name) in NAMES.iter().enumerate() {
            let path = format!("{}/{name}", folders[i % 2]);
            scene.write(&format!("{path}.png"), &tiny_png(SIZE[0], SIZE[1]));
            scene.write(&format!("{path}.xmp"), sidecar(i).as_bytes());
        }
        let data = scene.open().unwrap();
        assert_eq!((data.kind, data.images.len()), (DatasetKind::RealityCapture, 4), "{folders:?}");
        assert_eq!(data.images_folder, scene.path().join("images"));
        assert!(!data.has_skipped(), "{:?}", data.report_lines());
    }
}

#[test]
fn sidecars_of_another_program_do_not_hide_those_of_realitycapture() {
    let scene = scene_with("images");
    for (i, name) in NAMES.iter().enumerate() {
        scene.write(&format!("images/{name}.xmp"), sidecar(i).as_bytes());
    }
    for i in 0..20 {
        scene.write(&format!("images/A{i}.xmp"), b"<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"/>");
    }
    assert_eq!(scene.open().unwrap().images.len(), 4);
}

#[test]
fn a_frame_without_a_usable_pose_costs_only_itself() {
    let line = |scene: &Scene| {
        let data = scene.open().unwrap();
        let lines: Vec<String> = data.skipped.iter().map(ToString::to_string).collect();
        (data.images.len(), lines.join("; "))
    };
    let scene = scene_with("images");
    for (values, wanted) in [
        (
            "\"rotation\": null, \"translation\": [0, 0, 3],",
            "rotation is missing or null (expected 3 numbers)",
        ),
        ("\"rotation\": [0, 0, 0],", "translation is missing or null (expected 3 numbers)"),
        (
            "\"rotation\": [[1]], \"translation\": [0, 0, 3],",
            "rotation has another shape (expected 3 numbers)",
        ),
    ] {
        scene.write("reconstruction.json", format!("[{}]", reconstruction(values)).as_bytes());
        assert_eq!(line(&scene), (3, format!("a.png: pose: {wanted}")));
    }
    scene.write(
        "reconstruction.json",
        format!("[{{\"shots\": {{{}}}}}]", shot("a", "\"rotation\": null,")).as_bytes(),
    );
    let error = scene.error();
    assert!(
        error.starts_with(
            "DATA/reconstruction.json: OpenSfM: JSON: line 1: invalid type: null, expected an array"
        ),
        "{error}"
    );
    scene.remove("reconstruction.json");
    scene.write("cameras.json", inria("\"img_name\": \"a\", \"position\": [0, 0, 0]").as_bytes());
    assert_eq!(
        line(&scene),
        (3, "a: pose: rotation is missing or null (expected 3 rows of 3 numbers)".to_owned())
    );
    scene.write("cameras.json", inria("\"img_name\": null, \"position\": [0, 0, 0]").as_bytes());
    assert_eq!(line(&scene), (3, String::new()));
    assert!(scene.report()[0].contains("left out 1 of 4 pictures"), "{:?}", scene.report());
}

#[test]
fn a_list_of_one_may_lack_its_brackets() {
    let scene = scene_with("images");
    let file = scene.write("reconstruction.json", reconstruction(&pose_of_shot(0)).as_bytes());
    let data = scene.open().unwrap();
    assert_eq!((data.kind, data.images.len()), (DatasetKind::OpenSfm, 4));
    std::fs::remove_file(file).unwrap();
    scene.write("cameras.json", format!("{{\"cameras\": {}}}", inria("")).as_bytes());
    let data = scene.open().unwrap();
    assert_eq!((data.kind, data.images.len()), (DatasetKind::Inria, 4));
}

#[test]
fn a_reconstruction_of_another_name_is_read_where_the_usual_ones_are_missing() {
    let scene = scene_with("images");
    let of = |values: &str| format!("[{}]", reconstruction(values));
    scene.write("reconstruction.meshed.json", of(&pose_of_shot(0)).as_bytes());
    assert_eq!(scene.open().unwrap().images.len(), 4);
    for name in ["reconstruction.topocentric.json", "reconstruction.json"] {
        let file = scene.write(name, of(&pose_of_shot(5)).as_bytes());
        assert_eq!(scene.open().unwrap().source, file);
    }
}

#[test]
fn of_two_files_of_openmvg_the_one_with_poses_is_read() {
    let file = |extrinsics: &str| {
        let views = NAMES.iter().enumerate().map(|(i, name)| {
            format!(
                "{{\"key\": {i}, \"value\": {{\"ptr_wrapper\": {{\"data\": {{\"filename\": \"{name}.png\", \
                 \"id_intrinsic\": 0, \"id_pose\": {i}}}}}}}}}"
            )
        });
        format!(
            "{{\"sfm_data_version\": \"0.3\", \"views\": [{}], \"intrinsics\": [{{\"key\": 0, \"value\": \
             {{\"polymorphic_name\": \"pinhole\", \"ptr_wrapper\": {{\"data\": {{\"focal_length\": 14, \
             \"principal_point\": [8, 6]}}}}}}}}], \"extrinsics\": [{extrinsics}]}}",
            views.collect::<Vec<_>>().join(", ")
        )
    };
    let poses = (0..4).map(|i| {
        format!(
            "{{\"key\": {i}, \"value\": {{\"rotation\": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], \"center\": [{i}, 0, 0]}}}}"
        )
    });
    let scene = scene_with("images");
    scene.write("matches/sfm_data.json", file("").as_bytes());
    let used =
        scene.write("reconstruction/sfm_data.json", file(&poses.collect::<Vec<_>>().join(", ")).as_bytes());
    let data = scene.open().unwrap();
    assert_eq!((data.source.clone(), data.images.len()), (used.clone(), 4));
    std::fs::copy(&used, scene.path().join("matches/sfm_data.json")).unwrap();
    assert!(
        scene.error().contains("expected those of one program"),
        "which of two with poses is not guessed"
    );
}

#[test]
fn a_broken_keyframe_of_polycam_costs_only_itself() {
    let scene = scene_with("keyframes/images");
    for (i, name) in NAMES.iter().enumerate() {
        let camera = format!(
            "{{\"t_00\": 1, \"t_01\": 0, \"t_02\": 0, \"t_03\": {i}, \"t_10\": 0, \"t_11\": 1, \"t_12\": 0, \"t_13\": 0, \
             \"t_20\": 0, \"t_21\": 0, \"t_22\": 1, \"t_23\": 0, \"fx\": 14, \"fy\": 14, \"cx\": 8, \"cy\": 6, \
             \"width\": {}, \"height\": {}}}",
            SIZE[0], SIZE[1]
        );
        let camera = if i == 0 { "{" } else { &camera };
        scene.write(&format!("keyframes/cameras/{name}.json"), camera.as_bytes());
    }
    let data = scene.open().unwrap();
    assert_eq!((data.kind, names(&data)), (DatasetKind::Polycam, vec!["b.png", "c.png", "d.png"]));
    assert_eq!(data.skipped.len(), 1);
}

#[test]
fn pictures_of_llff_may_have_any_format_that_is_read() {
    let npy = |rows: usize| {
        let mut header =
            format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 17), }}").into_bytes();
        header.resize(117, b' ');
        header.push(b'\n');
        let mut file = [&b"\x93NUMPY\x01\x00\x76\x00"[..], &header].concat();
        for i in 0..rows {
            let [w, h] = SIZE.map(f64::from);
            let row =
                [0.0, 1.0, 0.0, i as f64, h, -1.0, 0.0, 0.0, 0.0, w, 0.0, 0.0, 1.0, 0.0, 14.0, 1.0, 9.0];
            row.iter().for_each(|v| file.extend(v.to_le_bytes()));
        }
        file
    };
    let scene = Scene::empty();
    for name in NAMES {
        scene.write(&format!("images/{name}.webp"), &tiny_png(SIZE[0], SIZE[1]));
    }
    scene.write("poses_bounds.npy", &npy(4));
    assert_eq!(names(&scene.open().unwrap()), ["a.webp", "b.webp", "c.webp", "d.webp"]);
    // Copies in another format are not counted.
    NAMES
        .iter()
        .for_each(|name| drop(scene.write(&format!("images/{name}.png"), &tiny_png(SIZE[0], SIZE[1]))));
    assert_eq!(names(&scene.open().unwrap()), ["a.png", "b.png", "c.png", "d.png"]);
}

#[test]
fn a_bundler_file_finds_the_pictures_of_the_folder_above() {
    let scene = scene_with("images");
    let cameras: String = (0..4).map(|i| format!("14 0 0\n1 0 0\n0 1 0\n0 0 1\n{i} 0 0\n")).collect();
    let file = scene.write("bundle/bundle.out", format!("# Bundle file v0.3\n4 0\n{cameras}").as_bytes());
    let list: String = NAMES.iter().map(|name| format!("images/{name}.png\n")).collect();
    scene.write("list.txt", list.as_bytes());
    let named = dataset::open(&file, &OpenOptions::default()).unwrap();
    assert_eq!((named.images.len(), names(&named)), (4, names(&scene.open().unwrap())));
}

#[test]
fn mask_and_image_folders_are_found_in_any_case() {
    let mask = png(SIZE[0], SIZE[1], PngPixels::Grey8(&[255; 16 * 12]), &[]).unwrap();
    for folder in ["Masks", "MASK", "Segmentation", "images/masks"] {
        let scene = Scene::colmap(ModelFormat::Binary);
        for image in tiny_model().images {
            scene.write(&format!("{folder}/{}", image.name), &mask);
        }
        let data = scene.open().unwrap();
        assert!(data.images.iter().all(|image| image.mask.is_some()), "{folder}: {:?}", data.report_lines());
        // The same of a JSON file, whose names are relative to the dataset's folder.
        let scene = Scene::json("\"fl_x\": 14,", "");
        (0..9).for_each(|i| drop(scene.write(&format!("{folder}/{i}.png"), &mask)));
        let data = scene.open().unwrap();
        assert!(data.images.iter().all(|image| image.mask.is_some()), "{folder}: {:?}", data.report_lines());
    }
    let scene = Scene::colmap(ModelFormat::Binary);
    std::fs::rename(scene.path().join("images"), scene.path().join("Images")).unwrap();
    let data = scene.open().unwrap();
    assert_eq!((data.images.len(), data.images_folder), (9, scene.path().join("Images")));
}

#[test]
fn the_only_json_file_with_frames_is_read_under_any_name() {
    let scene = Scene::empty();
    let frames: Vec<String> = (0..9)
        .map(|i| {
            scene.write(&format!("images/{i}.png"), &tiny_png(SIZE[0], SIZE[1]));
            json_frame(&format!("images/{i}.png"), 0.3 * f64::from(i), "")
        })
        .collect();
    let text = format!("{{\"fl_x\": 14, \"frames\": [{}]}}", frames.join(","));
    let usual = scene.write("transforms.json", text.as_bytes());
    let wanted = scene.open().unwrap();
    std::fs::rename(usual, scene.path().join("transforms_colmap.json")).unwrap();
    scene.write("settings.json", b"{\"frames\": 9}");
    let data = scene.open().unwrap();
    assert_eq!(data.fingerprint, wanted.fingerprint);
    assert!(data.warnings.iter().any(|w| matches!(w, Warning::OtherJsonFile { .. })));
}
