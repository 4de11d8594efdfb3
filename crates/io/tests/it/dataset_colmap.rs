//! COLMAP models: round trips, equal results of both encodings, and damage reported with its position.

use std::io::Cursor;
use std::path::Path;

use crate::dataset_support::{Scene, damage, tiny_model};
use crate::memory;
use gausset_io::dataset::colmap::{ColmapModel, ModelFolder, ModelFormat, Observations, binary, text};
use gausset_io::dataset::{DatasetError, DatasetProblem, SourceCamera};
use proptest::prelude::*;

/// Parses the three files of a model in memory.
fn parse(files: [&[u8]; 3], format: ModelFormat) -> Result<ColmapModel, DatasetError> {
    let [c, i, p] = format.file_names().map(Path::new);
    let keep = Observations::Keep;
    let [cameras, images, points] = files.map(Cursor::new);
    match format {
        ModelFormat::Binary => {
            let cameras = binary::read_cameras(c, cameras)?;
            let images = binary::read_images(i, images, &cameras, keep)?;
            Ok(ColmapModel { points: binary::read_points(p, points, keep)?, cameras, images })
        }
        ModelFormat::Text => {
            let cameras = text::read_cameras(c, cameras)?;
            let images = text::read_images(i, images, &cameras, keep)?;
            Ok(ColmapModel { points: text::read_points(p, points, keep)?, cameras, images })
        }
    }
}

fn files(model: &ColmapModel, format: ModelFormat) -> [Vec<u8>; 3] {
    model.to_files(format).map(|(_, content)| content)
}

fn reread(model: &ColmapModel, format: ModelFormat) -> ColmapModel {
    let [a, b, c] = files(model, format);
    parse([&a, &b, &c], format).unwrap()
}

#[test]
fn both_encodings_bring_back_the_same_bits() {
    let model = tiny_model();
    for format in [ModelFormat::Binary, ModelFormat::Text] {
        assert_eq!(reread(&model, format), model, "{format:?}");
    }
}

/// SphereSfM's panoramas: camera `SPHERE` with f, cx, cy, in binary with an id that COLMAP uses for another model.
#[test]
fn panoramas_of_spheresfm_are_equirectangular() {
    let text = |line: &str| text::read_cameras(Path::new("cameras.txt"), Cursor::new(line.to_owned()));
    let found = text("1 SPHERE 5760 2880 1 2880 1440\n").unwrap();
    let expected = SourceCamera {
        id: 1,
        model: gausset_io::dataset::CameraModel::Equirectangular,
        width: 5760,
        height: 2880,
        params: vec![5760.0, 2880.0],
    };
    assert_eq!(found, std::slice::from_ref(&expected));
    for (line, place) in [
        ("1 SPHERE 5760 2000 1 2880 1000\n", "SPHERE parameter height is 2000 (expected half the width)"),
        ("1 SPHERE 5760 2880 1 0 1440\n", "SPHERE parameter cx is 0 (expected half the width)"),
        ("1 SPHERE 5760 2880 1 2880\n", "8: CAMERA_ID SPHERE WIDTH HEIGHT F CX CY"),
    ] {
        let found = text(line).unwrap_err().to_string();
        assert!(found.contains(place), "{found}");
    }
    let mut bytes = 2u64.to_le_bytes().to_vec();
    for id in [1u32, 2] {
        bytes.extend(id.to_le_bytes());
        bytes.extend(11i32.to_le_bytes());
        [5760u64, 2880].iter().for_each(|v| bytes.extend(v.to_le_bytes()));
        [1.0f64, 2880.0, 1440.0].iter().for_each(|v| bytes.extend(v.to_le_bytes()));
    }
    let read = |bytes: &[u8]| binary::read_cameras(Path::new("cameras.bin"), Cursor::new(bytes.to_vec()));
    assert_eq!(read(&bytes).unwrap(), [expected.clone(), SourceCamera { id: 2, ..expected }]);
    // With the length of COLMAP's own model 11, it is that model.
    bytes.truncate(8 + 24);
    bytes[..8].copy_from_slice(&1u64.to_le_bytes());
    [5760.0f64, 5760.0, 2880.0, 1440.0].iter().for_each(|v| bytes.extend(v.to_le_bytes()));
    bytes.extend([0; 12 * 8]);
    assert_eq!(read(&bytes).unwrap()[0].model.name(), "RAD_TAN_THIN_PRISM_FISHEYE");
}

#[test]
fn skipping_observations_counts_them() {
    for format in [ModelFormat::Binary, ModelFormat::Text] {
        let scene = Scene::colmap(format);
        let folder = ModelFolder::find(&scene.path().join("sparse/0")).unwrap().unwrap();
        assert_eq!(folder.format, format);
        let (kept, counted) =
            (folder.read(Observations::Keep).unwrap(), folder.read(Observations::Skip).unwrap());
        assert!(counted.images.iter().all(|i| i.points.is_empty() && i.point_count == 2));
        let lengths = |m: &ColmapModel| m.points.iter().map(|p| p.track_length).collect::<Vec<_>>();
        assert_eq!(lengths(&kept), lengths(&counted));
        assert!(counted.points.iter().all(|p| p.track.is_empty()));
    }
}

#[test]
fn text_beside_empty_binary_files_is_read_with_its_tracks() {
    let scene = Scene::colmap(ModelFormat::Text);
    for name in ModelFormat::Binary.file_names() {
        scene.write(&format!("sparse/0/{name}"), b"");
    }
    let dataset = scene.open().unwrap();
    assert!(!dataset.read_tracks(u64::MAX).unwrap().is_empty());
}

#[test]
fn a_list_of_pictures_named_like_half_a_model_does_not_hide_a_dataset() {
    let scene = Scene::json("\"fl_x\": 14,", "");
    scene.write("images.txt", b"0.png\n1.png\n");
    assert_eq!(scene.open().unwrap().images.len(), 9);
    let half = "model: cameras.txt is missing (expected beside images.txt); copy the whole model";
    let report = scene.report();
    assert_eq!(report.iter().filter(|line| line.contains(half)).count(), 1, "{report:?}");
    scene.remove("transforms.json");
    assert!(scene.open().unwrap_err().to_string().ends_with(half));
}

#[test]
fn binary_wins_where_both_encodings_are_complete() {
    let scene = Scene::colmap(ModelFormat::Binary);
    scene.model(&ColmapModel::default(), ModelFormat::Text);
    let folder = ModelFolder::find(&scene.path().join("sparse/0")).unwrap().unwrap();
    assert_eq!(folder.format, ModelFormat::Binary);
    scene.remove("sparse/0/images.bin");
    let folder = ModelFolder::find(&scene.path().join("sparse/0")).unwrap().unwrap();
    assert_eq!(folder.format, ModelFormat::Text);
}

#[test]
fn text_is_read_as_other_programs_write_it() {
    let cameras = "\u{FEFF}# comment\r\n\r\n1\tPINHOLE  640 480 500 5.0e2 320. 240\r\n";
    let cameras = text::read_cameras(Path::new("cameras.txt"), cameras.as_bytes()).unwrap();
    assert_eq!(cameras[0].params, [500.0, 500.0, 320.0, 240.0]);
    // An empty second line, names with spaces, and no second line at the end.
    let images = "# comment\n2 1 0 0 0 0 0 0 1 a name.jpg  \n\n1 1 0 0 0 0 0 0 1 b.jpg\r\n0.5 0.5 -1 1 2 3\r\n\
                  3 1 0 0 0 0 0 0 1 sub/c.jpg";
    let images =
        text::read_images(Path::new("images.txt"), images.as_bytes(), &cameras, Observations::Keep).unwrap();
    let names: Vec<(u32, &str, u64)> =
        images.iter().map(|i| (i.id, i.name.as_str(), i.point_count)).collect();
    assert_eq!(names, [(1, "b.jpg", 2), (2, "a name.jpg", 0), (3, "sub/c.jpg", 0)]);
    assert_eq!(images[0].points, [([0.5, 0.5], u64::MAX), ([1.0, 2.0], 3)]);
}

#[test]
fn a_count_that_lies_is_refused_before_anything_is_allocated() {
    let mut images = files(&tiny_model(), ModelFormat::Binary)[1].clone();
    images[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let cameras = tiny_model().cameras;
    let read =
        || binary::read_images(Path::new("images.bin"), Cursor::new(&images), &cameras, Observations::Keep);
    let (result, peak) = memory::peak(read);
    let line = result.unwrap_err().to_string();
    assert_eq!(
        line,
        format!(
            "images.bin: header: count of images is {} (expected at most {} in the {} bytes that follow); copy the file again",
            u64::MAX,
            (images.len() - 8) / 74,
            images.len() - 8
        )
    );
    // The buffer of the reader and the error.
    assert!(peak < 100_000, "{peak} bytes");
}

#[test]
fn damaged_models_are_errors_and_never_take_more_memory_than_their_files() {
    let model = tiny_model();
    let other = ColmapModel { cameras: model.cameras[..1].to_vec(), ..ColmapModel::default() };
    for format in [ModelFormat::Binary, ModelFormat::Text] {
        let (good, spliced) = (files(&model, format), files(&other, format));
        for which in 0..3 {
            let mut check = |bytes: &[u8]| {
                let mut parts = good.each_ref().map(Vec::as_slice);
                parts[which] = bytes;
                let size: usize = parts.iter().map(|p| p.len()).sum();
                let (_, peak) = memory::peak(|| parse(parts, format));
                assert!(peak <= 4 * size + (1 << 20), "{peak} bytes for a file of {size}");
            };
            let file = &good[which];
            damage::truncations(file, &mut check);
            damage::flips(file, 500, &mut check);
            damage::splices(file, &spliced[which], &mut check);
            damage::splices(&spliced[which], file, &mut check);
            match format {
                ModelFormat::Binary => damage::lies(file, &mut check),
                ModelFormat::Text => {
                    let text = String::from_utf8(file.clone()).unwrap();
                    let start: String = text.lines().take(7).map(|l| format!("{l}\n")).collect();
                    damage::line_damage(&start, &mut check);
                }
            }
        }
    }
}

#[test]
fn every_shorter_binary_file_is_refused() {
    let model = tiny_model();
    let good = files(&model, ModelFormat::Binary);
    for which in 0..3 {
        damage::truncations(&good[which], |bytes| {
            let mut parts = good.each_ref().map(Vec::as_slice);
            parts[which] = bytes;
            assert!(parse(parts, ModelFormat::Binary).is_err(), "file {which} cut to {} bytes", bytes.len());
        });
    }
}

#[test]
fn garbage_behind_the_last_record_is_refused() {
    let [mut cameras, ..] = files(&tiny_model(), ModelFormat::Binary);
    cameras.extend([0; 3]);
    let error = binary::read_cameras(Path::new("cameras.bin"), Cursor::new(cameras)).unwrap_err();
    assert!(matches!(
        error,
        DatasetError::Malformed { problem, .. } if *problem == DatasetProblem::Trailing { bytes: 3 }
    ));
}

/// Finite numbers, all of which survive text with enough digits.
fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![proptest::num::f64::NORMAL, proptest::num::f64::SUBNORMAL, Just(0.0), Just(-0.0)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_model_goes_through_text_and_binary_unchanged(
        names in proptest::collection::vec("[a-zA-Z0-9_./ -]{0,12}[a-z]", 1..6),
        numbers in proptest::collection::vec(finite(), 10),
        ids in proptest::collection::btree_set(any::<u32>(), 6),
        focal in 1e-3f64..1e6,
    ) {
        let mut model = tiny_model();
        model.cameras = vec![SourceCamera { params: vec![focal, numbers[0], numbers[1], numbers[2]], ..model.cameras[0].clone() }];
        model.images.truncate(names.len());
        for ((image, name), id) in model.images.iter_mut().zip(&names).zip(&ids) {
            (image.id, image.name, image.camera_id) = (*id, name.trim().to_owned(), 2);
            image.quaternion.copy_from_slice(&numbers[3..7]);
            image.translation.copy_from_slice(&numbers[7..10]);
        }
        let text = reread(&model, ModelFormat::Text);
        prop_assert_eq!(&text, &model);
        prop_assert_eq!(&reread(&text, ModelFormat::Binary), &model);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for format in [ModelFormat::Binary, ModelFormat::Text] {
            let good = files(&tiny_model(), format);
            for which in 0..3 {
                let mut parts = good.each_ref().map(Vec::as_slice);
                parts[which] = &bytes;
                let _ = parse(parts, format);
            }
        }
    }
}

#[test]
fn points_of_scripts_have_colours_with_a_decimal_point_and_errors_that_are_no_number() {
    let line = "1 0.5 -1.5 2 164.0 12.6 255.0 -nan(ind)\n2 1.#QNAN 0 0 1 2 3 1.#INF\n";
    let points = text::read_points(Path::new("points3D.txt"), line.as_bytes(), Observations::Skip).unwrap();
    assert_eq!((points[0].colour, points[0].position), ([164, 13, 255], [0.5, -1.5, 2.0]));
    assert!(points[0].error.is_nan() && points[1].error.is_nan() && points[1].position[0].is_nan());
    for colour in ["256.0", "-3", "red", "nan"] {
        let line = format!("1 0 0 0 1 2 {colour} 0.5\n");
        assert!(text::read_points(Path::new("points3D.txt"), line.as_bytes(), Observations::Skip).is_err());
    }
}
