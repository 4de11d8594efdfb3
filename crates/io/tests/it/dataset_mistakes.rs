//! Known mistakes, each a tiny dataset, and the lines that the user gets for them.
//!
//! The lines are in `testdata/mistakes/datasets.txt`, where they can be reviewed as text. After an intended change:
//! `GAUSSET_BLESS=1 cargo test -p gausset-io --test it dataset_mistakes`, then review the difference.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::dataset_support::{SIZE, Scene, json_frame, tiny_model, tiny_png};
use gausset_core::Pose;
use gausset_io::dataset::colmap::{ColmapModel, ModelFormat};
use gausset_io::dataset::{
    self, CameraModel, DatasetError, DatasetProblem, Loader, LoaderOptions, OpenOptions, SkipReason,
    SourceCamera, Warning,
};
use gausset_io::image::ImageProblem;
use gausset_io::image::encode::{PngPixels, png};
use gausset_testkit::testdata_dir;

/// A dataset with a mistake, and the options to open it.
struct Mistake {
    name: &'static str,
    scene: Scene,
    options: OpenOptions,
    /// Part of the given path, relative to the scene.
    path: &'static str,
    /// Change between opening and loading.
    before_loading: fn(&Scene),
}

/// Lines and variants seen so far.
#[derive(Default)]
struct Seen {
    variants: BTreeSet<String>,
}

impl Mistake {
    fn new(name: &'static str, scene: Scene) -> Self {
        Self { name, scene, options: OpenOptions::default(), path: "", before_loading: |_| {} }
    }

    /// The lines of opening and, if that succeeds, of loading every image.
    fn lines(&self, seen: &mut Seen) -> Vec<String> {
        let tidy = |line: &str| self.scene.line(line);
        let path = match self.path {
            "" => self.scene.path().to_owned(),
            name => self.scene.path().join(name),
        };
        let data = match dataset::open(&path, &self.options) {
            Ok(data) => data,
            Err(error) => {
                seen.error(&error);
                return vec![format!("error: {}", tidy(&error.to_string()))];
            }
        };
        data.warnings.iter().for_each(|w| seen.note(w));
        data.skipped.iter().for_each(|s| seen.skip(&s.reason));
        let mut lines: Vec<String> = data.report_lines().iter().map(|line| tidy(line)).collect();
        (self.before_loading)(&self.scene);
        let loader = Loader::new(Arc::new(data), LoaderOptions { budget_bytes: 1 << 20, threads: 0 });
        for i in 0..loader.dataset().images.len() {
            if let Err(skipped) = loader.get(i) {
                seen.skip(&skipped.reason);
                lines.push(format!("loading: {}", tidy(&skipped.to_string())));
            }
        }
        lines
    }
}

impl Seen {
    /// The name of a variant is the start of its debug form.
    fn note(&mut self, value: &impl std::fmt::Debug) {
        let text = format!("{value:?}");
        let kind = std::any::type_name_of_val(value).rsplit("::").next().unwrap_or_default().to_owned();
        let name = text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned();
        self.variants.insert(format!("{}::{name}", kind.trim_start_matches('&')));
    }

    fn error(&mut self, error: &DatasetError) {
        self.note(error);
        match error {
            DatasetError::Malformed { problem, .. } => {
                self.note(&**problem);
                if let DatasetProblem::Camera(e) = &**problem {
                    self.note(e);
                }
            }
            DatasetError::NoImages { first: Some(first), .. } => self.skip(&first.reason),
            DatasetError::TooManyUnreadable { first, .. } => self.skip(&first.reason),
            _ => {}
        }
    }

    fn skip(&mut self, reason: &SkipReason) {
        self.note(reason);
        if let SkipReason::Unreadable(problem) | SkipReason::Mask { problem, .. } = reason {
            self.note(problem);
        }
    }
}

/// All variants: a new one without a mistake that shows its line fails the test. The functions keep the lists complete,
/// because a new variant does not compile without an entry in them.
fn all_variants() -> Vec<&'static str> {
    fn _errors(e: &DatasetError) {
        use DatasetError as E;
        match e {
            E::NotADataset { .. } | E::Io { .. } | E::MissingModelFile { .. } | E::NoImageFolder { .. } => {}
            E::Malformed { .. } | E::Untrainable { .. } | E::NoImages { .. } => {}
            E::SeveralExports { .. } | E::UnreadFormat { .. } => {}
            E::TooManyUnreadable { .. } | E::NothingToTrainOn { .. } | E::TooManyPoints { .. } => {}
        }
    }
    fn _problems(p: &DatasetProblem) {
        use DatasetProblem as P;
        match p {
            P::Truncated { .. } | P::Count { .. } | P::Limit { .. } | P::Trailing { .. } => {}
            P::UnknownModelId { .. } | P::UnknownModelName { .. } | P::Camera(_) | P::NameWithoutEnd => {}
            P::NameLength { .. } | P::NameEncoding { .. } | P::DuplicateId { .. } => {}
            P::UnknownCamera { .. } | P::Fields { .. } | P::Number { .. } | P::NotText => {}
            P::JsonList | P::FileSize { .. } | P::TooDeep | P::Json(_) | P::MissingValue(_) => {}
            P::Value { .. } | P::NoFrames | P::Export(_) | P::LfsPointer => {}
        }
    }
    fn _skips(s: &SkipReason) {
        use SkipReason as S;
        match s {
            S::Missing
            | S::Ambiguous { .. }
            | S::Intrinsics(_)
            | S::Outside
            | S::Pose(_)
            | S::LastRow(_)
            | S::TooFar(_)
            | S::SameFile { .. } => {}
            S::Unreadable(_) | S::Size { .. } | S::Camera(_) | S::Untrainable(_) => {}
            S::Export(_) => {}
            S::Mask { .. } | S::NoMask { .. } | S::EmptyMask { .. } | S::NoPixels => {}
        }
    }
    fn _warnings(w: &Warning) {
        use Warning as W;
        match w {
            W::MissingFiles { .. } | W::Rescaled { .. } | W::SeveralModels { .. } | W::TwoSources { .. } => {}
            W::OtherImageFolder { .. } | W::NoPoints { .. } | W::PointsDropped { .. } => {}
            W::PointsUnreadable { .. }
            | W::FramesUnreadable { .. }
            | W::Orientation { .. }
            | W::UnusedFrames { .. } => {}
            W::UnknownSplitNames { .. } | W::MaskResized { .. } | W::FewImages { .. } => {}
            W::CoincidentCameras { .. } | W::ListedTwice { .. } | W::WithoutPose { .. } => {}
            W::SimilarNames { .. } | W::BrokenModel { .. } | W::FoundDeeper { .. } => {}
            W::PointsFound { .. } | W::ScaledPoses { .. } | W::DoubtfulCamera { .. } => {}
            W::MasksMissing { .. } | W::InvertedMasks { .. } => {}
            W::OtherJsonFile { .. } | W::TermsDropped { .. } => {}
            W::FarCameras { .. } | W::FarCoordinates { .. } | W::GeoreferenceUnreadable { .. } => {}
        }
    }
    fn _pictures(p: &ImageProblem) {
        use ImageProblem as I;
        match p {
            I::Io(_) | I::Empty | I::Format(_) | I::Variant(..) => {}
            I::Header(_) | I::Truncated | I::Size { .. } | I::Decode(_) | I::Changed { .. } => {}
        }
    }
    let lists = [
        (
            "DatasetError",
            "NotADataset Io MissingModelFile NoImageFolder Malformed Untrainable NoImages TooManyUnreadable \
             NothingToTrainOn TooManyPoints SeveralExports UnreadFormat",
        ),
        (
            "DatasetProblem",
            "Truncated Count Limit Trailing UnknownModelId UnknownModelName Camera NameWithoutEnd NameLength \
             NameEncoding DuplicateId UnknownCamera Fields Number NotText FileSize TooDeep Json JsonList MissingValue Value \
             NoFrames Export LfsPointer",
        ),
        ("CameraModelError", "ParameterCount NotFinite OutOfRange Size"),
        (
            "SkipReason",
            "Missing Ambiguous Intrinsics Outside Pose LastRow TooFar SameFile Unreadable Size Camera Untrainable Mask NoMask EmptyMask \
             NoPixels Export",
        ),
        (
            "Warning",
            "MissingFiles Rescaled SeveralModels TwoSources OtherImageFolder NoPoints PointsDropped PointsUnreadable FramesUnreadable \
             Orientation UnusedFrames UnknownSplitNames MaskResized FewImages CoincidentCameras ListedTwice SimilarNames BrokenModel FoundDeeper \
             PointsFound ScaledPoses DoubtfulCamera MasksMissing InvertedMasks WithoutPose \
             FarCameras FarCoordinates GeoreferenceUnreadable OtherJsonFile TermsDropped",
        ),
        ("ImageProblem", "Io Empty Format Variant Header Truncated Size Decode Changed"),
    ];
    let names =
        lists.iter().flat_map(|(kind, names)| names.split_whitespace().map(move |n| format!("{kind}::{n}")));
    names.map(|name| &*name.leak()).collect()
}

/// A binary model in which the file `name` is modified.
fn binary(name: &str, change: impl Fn(&mut Vec<u8>)) -> Scene {
    let scene = Scene::colmap(ModelFormat::Binary);
    let path = scene.path().join("sparse/0").join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
    scene
}

/// A text model in which the file `name` is modified by replacing the first occurrence.
fn text(name: &str, what: &str, with: &str) -> Scene {
    let scene = Scene::colmap(ModelFormat::Text);
    scene.edit(&format!("sparse/0/{name}"), |text| text.replacen(what, with, 1));
    scene
}

/// A model that is modified before it is written.
fn changed(change: impl Fn(&mut ColmapModel)) -> Scene {
    let scene = Scene::colmap(ModelFormat::Binary);
    let mut model = tiny_model();
    change(&mut model);
    scene.model(&model, ModelFormat::Binary);
    scene
}

/// A JSON dataset with keys at the top and in frame 4.
fn json(head: &str, frame: &str) -> Scene {
    Scene::json(head, frame)
}

/// A dataset of which a folder is elsewhere.
fn moved(from: &str, to: &str) -> Scene {
    let scene = Scene::colmap(ModelFormat::Text);
    let to = scene.path().join(to);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::rename(scene.path().join(from), to).unwrap();
    scene
}

/// A dataset of many images, so that one of them may be unreadable: `picture` is the first.
fn one_bad_picture(picture: &[u8]) -> Scene {
    let scene = changed(|model| {
        for i in 9..24u32 {
            let mut image = model.images[0].clone();
            (image.id, image.name) = (100 + i, format!("right/img {i}.png"));
            model.images.push(image);
        }
    });
    for i in 9..24 {
        scene.write(&format!("images/right/img {i}.png"), &tiny_png(SIZE[0], SIZE[1]));
    }
    scene.write("images/left/img 0.png", picture);
    scene
}

/// What Git stores in place of a file that was not downloaded.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n";

const FOCAL: &str = "\"fl_x\": 14,";

/// A point.
const PLY: &str = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\nend_header\n1 2 3\n";

fn colmap_mistakes() -> Vec<Mistake> {
    let le = |n: u64| n.to_le_bytes();
    let with = |name, scene| Mistake::new(name, scene);
    let with_options = |name, scene, options| Mistake { options, ..Mistake::new(name, scene) };
    let mut list = vec![
        with("empty_folder", Scene::empty()),
        Mistake { path: "nowhere", ..Mistake::new("no_such_folder", Scene::empty()) },
        with("images_bin_missing", {
            let scene = Scene::colmap(ModelFormat::Binary);
            scene.remove("sparse/0/images.bin");
            scene
        }),
        with("cameras_txt_missing", {
            let scene = Scene::colmap(ModelFormat::Text);
            scene.remove("sparse/0/cameras.txt");
            scene
        }),
        with("cameras_bin_cut", binary("cameras.bin", |b| b.truncate(60))),
        with("image_count_lies", binary("images.bin", |b| b[..8].copy_from_slice(&le(1 << 60)))),
        with("point_count_lies", binary("points3D.bin", |b| b[..8].copy_from_slice(&le(u64::MAX)))),
        with(
            "observation_count_lies",
            binary("images.bin", |b| {
                // First record: 8 bytes of count, 64 fixed, the name and its zero byte.
                let at = 8 + 64 + "left/img 0.png".len() + 1;
                b[at..at + 8].copy_from_slice(&le(1_000_000));
            }),
        ),
        with(
            "camera_limit",
            binary("cameras.bin", |b| {
                b[..8].copy_from_slice(&le(200_001));
                b.resize(24 * 200_001 + 8, 0);
            }),
        ),
        with("camera_model_id_unknown", binary("cameras.bin", |b| b[12] = 99)),
        with("camera_model_name_unknown", text("cameras.txt", "SIMPLE_RADIAL", "FISHEYE_WITH\u{7}BELL")),
        with("camera_parameters_missing", text("cameras.txt", "0.0005 -0.0004", "")),
        with("camera_parameters_too_many", text("cameras.txt", "14 8 6 0.02", "14 14 8 6 0.02 0 0")),
        with("camera_focal_negative", text("cameras.txt", "14 8 6", "-14 8 6")),
        with("camera_focal_nan", text("cameras.txt", "14 8 6", "nan 8 6")),
        with("camera_size_zero", text("cameras.txt", "16 12 14 8", "0 12 14 8")),
        with("camera_unknown", binary("images.bin", |b| b[8 + 60] = 9)),
        with("camera_id_twice", text("cameras.txt", "7 OPENCV", "2 OPENCV")),
        with("image_id_twice", text("images.txt", "\n13 ", "\n10 ")),
        with(
            "image_name_without_end",
            binary("images.bin", |b| {
                b.truncate(8 + 64);
                b.resize(8 + 64 + 6000, b'x');
            }),
        ),
        with("image_name_not_utf8", binary("images.bin", |b| b[8 + 64] = 0xFF)),
        with("image_name_empty", binary("images.bin", |b| b[8 + 64] = 0)),
        with("bytes_behind_the_end", binary("points3D.bin", |b| b.extend([0; 5]))),
        with("decimal_comma", text("points3D.txt", "-1.5", "-1,5")),
        with("image_line_short", text("images.txt", "-0.2 3 2 left/img 0.png", "-0.2")),
        with("second_line_missing", text("images.txt", "\n1.5 2.25 4 0.125 7.5 -1", "")),
        with("colour_beyond_255", text("points3D.txt", "0 128 255", "0 300 255")),
        with("track_odd", text("points3D.txt", "10 0", "10")),
        with("binary_named_txt", {
            let scene = Scene::colmap(ModelFormat::Text);
            scene.write("sparse/0/cameras.txt", &[2, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFE]);
            scene
        }),
        with("image_folder_missing", {
            let scene = Scene::colmap(ModelFormat::Binary);
            std::fs::remove_dir_all(scene.path().join("images")).unwrap();
            scene
        }),
        with("images_in_a_folder_of_another_name", {
            let scene = Scene::colmap(ModelFormat::Binary);
            std::fs::rename(scene.path().join("images"), scene.path().join("pictures")).unwrap();
            scene
        }),
        with(
            "every_picture_missing",
            changed(|m| m.images.iter_mut().for_each(|i| i.name.insert(i.name.len() - 5, '_'))),
        ),
        with(
            "folder_is_images_everywhere",
            changed(|m| m.images.iter_mut().for_each(|i| i.name = format!("D:\\x\\images\\{}", i.name))),
        ),
        with("picture_like_two", {
            let scene = changed(|m| m.images[0].name = "img.jpg".to_owned());
            for name in ["left/img.png", "right/img.png"] {
                scene.write(&format!("images/{name}"), &tiny_png(16, 12));
            }
            scene
        }),
        with_options(
            "only_picture_held_out",
            changed(|m| m.images.truncate(1)),
            OpenOptions { test_every: 8, ..OpenOptions::default() },
        ),
        with("model_beside_a_broken_one", {
            let scene = Scene::colmap(ModelFormat::Text);
            scene.write("sparse/1/cameras.txt", b"1 PINHOLE 16 12 14 14 8 6\n");
            scene
        }),
        with("dataset_one_folder_deeper", {
            let scene = Scene::colmap(ModelFormat::Binary);
            std::fs::create_dir(scene.path().join("export")).unwrap();
            for name in ["sparse", "images"] {
                std::fs::rename(scene.path().join(name), scene.path().join("export").join(name)).unwrap();
            }
            scene
        }),
        with("dataset_two_folders_deeper", moved("sparse", "out/export/sparse")),
        with("model_in_colmap_text", moved("sparse/0", "colmap/text")),
        with("model_of_distorted_pictures", moved("sparse", "distorted/sparse")),
        with("model_not_downloaded", binary("cameras.bin", |b| *b = LFS_POINTER.to_vec())),
        with("empty_model_beside_text", {
            let scene = Scene::colmap(ModelFormat::Text);
            for name in ["cameras.bin", "images.bin", "points3D.bin"] {
                scene.write(&format!("sparse/0/{name}"), b"");
            }
            scene
        }),
        with("datasets_one_folder_deeper", {
            let scene = Scene::empty();
            for name in ["b", "a", "c"] {
                scene.write(&format!("{name}/transforms.json"), b"{}");
            }
            scene
        }),
        with("points_in_a_ply_file", {
            let scene = changed(|m| m.points.clear());
            scene.write("sparse_pc.ply", PLY.as_bytes());
            scene
        }),
        with(
            "coordinates_far_from_the_origin",
            changed(|m| {
                let far = [431_000.0, 5_412_000.0, 312.0];
                for image in &mut m.images {
                    let rotation = Pose::from_quaternion(image.quaternion, [0.0; 3]).unwrap().rotation;
                    for (row, translation) in rotation.iter().zip(&mut image.translation) {
                        *translation -= row.iter().zip(far).map(|(r, f)| r * f).sum::<f64>();
                    }
                }
                for point in &mut m.points {
                    point.position = std::array::from_fn(|axis| point.position[axis] + far[axis]);
                }
            }),
        ),
        with("georeference_that_is_none", {
            let scene = Scene::colmap(ModelFormat::Binary);
            scene.write("sparse/0/georeference.json", b"{}");
            scene
        }),
        with("camera_that_folds", changed(|m| m.cameras[1].params[4] = -0.6)),
        with(
            "camera_with_its_centre_outside",
            changed(|m| m.cameras.iter_mut().for_each(|c| c.params[2] = 17.0)),
        ),
        with("too_many_unreadable", {
            let scene = Scene::colmap(ModelFormat::Binary);
            scene.write("images/left/img 0.png", b"GIF89a");
            scene.write("images/left/img 1.png", b"hello");
            scene
        }),
        with_options(
            "everything_held_out",
            Scene::colmap(ModelFormat::Binary),
            OpenOptions { test_every: 1, ..OpenOptions::default() },
        ),
        with_options(
            "more_points_than_fit",
            Scene::colmap(ModelFormat::Binary),
            OpenOptions { memory_bytes: 600, ..OpenOptions::default() },
        ),
        with_options(
            "more_text_points_than_fit",
            Scene::colmap(ModelFormat::Text),
            OpenOptions { memory_bytes: 600, ..OpenOptions::default() },
        ),
        with_options(
            "json_more_points_than_fit",
            {
                let scene = json(&format!("{FOCAL} \"ply_file_path\": \"sparse.ply\","), "");
                let header = "ply\nformat binary_little_endian 1.0\nelement vertex 40\nproperty float x\n\
                              property float y\nproperty float z\nend_header\n";
                scene.write("sparse.ply", &[header.as_bytes(), &[0; 40 * 12]].concat());
                scene
            },
            OpenOptions { memory_bytes: 600, ..OpenOptions::default() },
        ),
        with(
            "only_panoramas",
            changed(|m| {
                for camera in &mut m.cameras {
                    *camera =
                        SourceCamera::new(camera.id, CameraModel::Equirectangular, 16, 12, vec![16.0, 12.0])
                            .unwrap();
                }
            }),
        ),
        with(
            "some_panoramas",
            changed(|m| {
                m.cameras[1] =
                    SourceCamera::new(7, CameraModel::Equirectangular, 16, 12, vec![16.0, 12.0]).unwrap();
            }),
        ),
        with("quaternion_zero", changed(|m| m.images[0].quaternion = [0.0; 4])),
        with("quaternion_long", changed(|m| m.images[0].quaternion = [2.0, 0.0, 0.0, 0.0])),
        with("pose_nan", changed(|m| m.images[0].translation[1] = f64::NAN)),
        with("pose_too_far", changed(|m| m.images[0].translation[1] = -1e30)),
        with("focal_vanishes", {
            let scene = changed(|m| m.cameras[0].params[0] = f64::from_bits(1));
            scene.write("images/left/img 0.png", &tiny_png(4, 3));
            scene
        }),
        with("points_none", changed(|m| m.points.clear())),
        with("points_nan", changed(|m| m.points[2].position[0] = f64::NAN)),
        with(
            "cameras_in_one_place",
            changed(|m| {
                for image in &mut m.images {
                    (image.quaternion, image.translation) = ([1.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0]);
                }
            }),
        ),
        with("few_pictures", changed(|m| m.images.truncate(3))),
        with("frames_cut", {
            let scene = Scene::colmap(ModelFormat::Binary);
            scene.write("sparse/0/frames.bin", &[1, 0, 0, 0, 0, 0, 0, 0, 5]);
            scene
        }),
        with("name_outside", {
            let scene = changed(|m| m.images[0].name = "../secret.png".to_owned());
            scene.write("secret.png", &tiny_png(16, 12));
            scene
        }),
        with("name_twice", changed(|m| m.images[1].name = "left/img 0.png".to_owned())),
        with(
            "names_of_one_file",
            changed(|m| {
                m.images[1].name = "right/../left/img 0.png".to_owned();
                m.images[2].name = "./left//img 0.png".to_owned();
            }),
        ),
    ];
    list.push(with("several_models", {
        let scene = Scene::colmap(ModelFormat::Binary);
        for (name, content) in tiny_model().to_files(ModelFormat::Binary) {
            scene.write(&format!("sparse/1/{name}"), &content);
        }
        scene
    }));
    list.push(with("model_and_json", {
        let scene = Scene::colmap(ModelFormat::Binary);
        scene.write("transforms.json", b"{}");
        scene
    }));
    list.push(with("images_2_instead_of_images", {
        let scene = Scene::colmap(ModelFormat::Binary);
        std::fs::rename(scene.path().join("images"), scene.path().join("images_2")).unwrap();
        scene
    }));
    list
}

fn json_mistakes() -> Vec<Mistake> {
    let with = |name, scene| Mistake::new(name, scene);
    let edited = |name, what: &'static str, replacement: &'static str| {
        let scene = json(FOCAL, "");
        scene.edit("transforms.json", |text| text.replacen(what, replacement, 1));
        with(name, scene)
    };
    let content = |name, content: &[u8]| {
        let scene = Scene::empty();
        scene.write("transforms.json", content);
        with(name, scene)
    };
    vec![
        content("json_empty", b""),
        content("json_not_downloaded", LFS_POINTER),
        content("json_without_frames", b"{\"fl_x\": 14}"),
        content("json_list", b"\n[{\"id\": 0}]"),
        content("json_frames_empty", b"{\"fl_x\": 14, \"frames\": []}"),
        content("json_deep", &[&b"{\"a\": "[..], &b"[".repeat(70)].concat()),
        with("json_too_large", {
            let scene = Scene::empty();
            let path = scene.write("transforms.json", b"");
            // Sparse: takes no disk space.
            std::fs::File::options().write(true).open(path).unwrap().set_len(300 << 20).unwrap();
            scene
        }),
        edited("json_cut", "[0, 0, 0, 1]]},\n{", "[0, 0, 0, 1]]"),
        edited("json_trailing_comma", "[0, 0, 0, 1]]", "[0, 0, 0, 1],]"),
        edited("json_nan", "0.5]", "NaN]"),
        edited("json_number_as_text_that_is_none", "0.5]", "\"0,5\"]"),
        edited(
            "json_scaled",
            "[[1, 0, 0, 0], [0, 1, 0, 0.5], [-0, 0, 1,",
            "[[2, 0, 0, 0], [0, 2, 0, 0.5], [-0, 0, 2,",
        ),
        with("json_f_theta", json(&format!("{FOCAL} \"ftheta_p1\": 0.07, \"ftheta_p2\": 1e-5,"), "")),
        with("json_matrix_of_two_rows", {
            let scene = json(FOCAL, "");
            scene.edit("transforms.json", |text| {
                text.replacen(", [0, 0, 0, 1]]", "]", 1).replacen(" [0, 1, 0, 0.5],", "", 1)
            });
            scene
        }),
        edited("json_row_of_one_matrix_null", ", [0, 0, 0, 1]]", ", null]"),
        edited("json_path_of_one_frame_null", "\"images/0.png\"", "null"),
        edited("json_path_of_one_frame_empty", "\"images/0.png\"", "\"\""),
        edited("json_matrix_of_one_frame_missing", "transform_matrix", "matrix"),
        with("json_without_any_matrix", {
            let scene = json(FOCAL, "");
            scene.edit("transforms.json", |text| text.replace("transform_matrix", "matrix"));
            scene
        }),
        with("json_of_another_name", {
            let scene = json(FOCAL, "");
            let at = |name: &str| scene.path().join(name);
            std::fs::rename(at("transforms.json"), at("transforms_colmap.json")).unwrap();
            scene
        }),
        with("json_of_two_other_names", {
            let scene = json(FOCAL, "");
            let at = |name: &str| scene.path().join(name);
            std::fs::copy(at("transforms.json"), at("a.json")).unwrap();
            std::fs::rename(at("transforms.json"), at("b.json")).unwrap();
            scene
        }),
        with("json_centre_as_fraction", json(&format!("{FOCAL} \"cx\": 0.5, \"cy\": 0.5,"), "")),
        edited("json_key_twice", FOCAL, "\"fl_x\": 14, \"fl_x\": 15,"),
        with("json_focal_missing", json("", "")),
        with("json_focal_negative", json(FOCAL, "\"fl_x\": -3,")),
        with("json_angle_negative", json("\"camera_angle_x\": -0.7,", "")),
        with("json_width_fraction", json(FOCAL, "\"w\": 16.5,")),
        with("json_k4_of_a_perspective_camera", json(FOCAL, "\"k4\": 0.1,")),
        with("json_camera_model_unknown", json(&format!("{FOCAL} \"camera_model\": \"FISHEYE624\","), "")),
        edited("json_mirrored", "[0, 1, 0, 0.5]", "[0, -1, 0, 0.5]"),
        edited("json_last_row", "[0, 0, 0, 1]", "[0, 0, 0, 2]"),
        with("json_points_missing", json(&format!("{FOCAL} \"ply_file_path\": \"sparse.ply\","), "")),
        with("json_that_holds_everything_out", {
            let names: Vec<String> = (0..9).map(|i| format!("\"images/{i}.png\"")).collect();
            json(&format!("{FOCAL} \"val_filenames\": [{}],", names.join(", ")), "")
        }),
        with(
            "json_split_names",
            json(
                &format!(
                    "{FOCAL} \"train_filenames\": [\"images/0.png\", \"images/1.png\", \"images/2.png\"], \
                     \"test_filenames\": [\"images/3.png\", \"images/33.png\"],"
                ),
                "",
            ),
        ),
    ]
}

/// A document of Metashape with these cameras, and two pictures.
fn metashape(cameras: &str) -> Scene {
    let scene = Scene::empty();
    for name in ["0", "1"] {
        scene.write(&format!("images/{name}.png"), &tiny_png(SIZE[0], SIZE[1]));
    }
    let text = format!(
        "<document><chunk><sensors><sensor id=\"0\"><resolution width=\"16\" height=\"12\"/>\
         <calibration><f>14</f></calibration></sensor></sensors><cameras>{cameras}</cameras></chunk></document>"
    );
    scene.write("cameras.xml", text.as_bytes());
    scene
}

fn export_mistakes() -> Vec<Mistake> {
    let camera = |label: &str, transform: &str| {
        format!("<camera sensor_id=\"0\" label=\"{label}\"><transform>{transform}</transform></camera>")
    };
    let good = camera("0", "1 0 0 3 0 1 0 0 0 0 1 0 0 0 0 1");
    let bad = camera("1", "1 0 0 NaN 0 1 0 0 0 0 1 0 0 0 0 1");
    let two = metashape(&good);
    two.write("bundle.out", b"# Bundle file v0.3\n0 0\n");
    let options = OpenOptions { test_every: 0, ..OpenOptions::default() };
    let of = |name, file: &str, content: &[u8]| {
        let scene = Scene::empty();
        scene.write("images/0.png", &tiny_png(SIZE[0], SIZE[1]));
        scene.write(file, content);
        Mistake::new(name, scene)
    };
    vec![
        of("export_of_visualsfm", "model.nvm", b"NVM_V3\n\n1\nimages/0.png 14 1 0 0 0 0 0 0 0 0\n"),
        of(
            "export_of_meshroom",
            "sfm/cameras.sfm",
            b"{\n    \"version\": [\"1\", \"2\", \"6\"], \"views\": []}",
        ),
        of(
            "export_of_contextcapture",
            "blocks.xml",
            b"<?xml version=\"1.0\"?>\n<BlocksExchange version=\"2.1\"/>",
        ),
        of(
            "export_as_tum_trajectory",
            "trajectory.txt",
            b"# timestamp tx ty tz qx qy qz qw\n0.5 0 0 0 0 0 0 1\n",
        ),
        of("export_of_openmvg_as_binary", "sfm_data.bin", b"\0\x01"),
        of(
            "export_in_longitude_and_latitude",
            "x.csv",
            b"#name,longitude,latitude,alt,heading,pitch,roll,f\n0.png,8.5,47.3,400,0,0,0,28\n",
        ),
        of("export_of_outer_parameters", "x.csv", b"#name,x,y,alt,heading,pitch,roll\n0.png,0,0,1,0,0,0\n"),
        of(
            "export_without_any_rotation",
            "cameras.json",
            b"[{\"id\": 0, \"img_name\": \"0\", \"width\": 16, \"height\": 12, \"fx\": 14, \"fy\": 14, \
              \"position\": [0, 0, 1]}]",
        ),
        Mistake::new("export_with_a_tiny_skew", {
            let scene = metashape(&(good.clone() + &camera("1", "1 0 0 4 0 1 0 0 0 0 1 0 0 0 0 1")));
            scene.edit("cameras.xml", |text| text.replace("<f>14</f>", "<f>14</f><b2>-0.2</b2><p3>0.1</p3>"));
            scene
        }),
        of("export_not_downloaded", "cameras.xml", LFS_POINTER),
        Mistake::new("export_of_two_programs", two),
        Mistake::new("export_without_poses", metashape("<camera label=\"0\"/>")),
        Mistake {
            options,
            ..Mistake::new("export_pose_nan", metashape(&(good + &bad + "<camera label=\"2\"/>")))
        },
    ]
}

fn picture_mistakes() -> Vec<Mistake> {
    let with = |name, scene| Mistake::new(name, scene);
    let bad = |name, picture: &[u8]| Mistake::new(name, one_bad_picture(picture));
    let png_header = |w: u32, h: u32| {
        let mut bytes = tiny_png(16, 12);
        bytes[16..20].copy_from_slice(&w.to_be_bytes());
        bytes[20..24].copy_from_slice(&h.to_be_bytes());
        bytes
    };
    let mut corrupt = tiny_png(16, 12);
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 0xFF;
    let twelve_bits = b"\xFF\xD8\xFF\xC1\x00\x0B\x0C\x00\x0C\x00\x10\x01\x01\x11\x00";
    let mask = |name, content: &[u8]| {
        let scene = one_bad_picture(&tiny_png(16, 12));
        scene.write("masks/left/img 0.png", content);
        with(name, scene)
    };
    let grey = |w, h, value: u8| png(w, h, PngPixels::Grey8(&vec![value; (w * h) as usize]), &[]).unwrap();
    vec![
        with("pictures_missing", {
            let scene = Scene::colmap(ModelFormat::Binary);
            (0..4).for_each(|i| scene.remove(&format!("images/left/img {i}.png")));
            scene
        }),
        with("picture_in_other_case", {
            let scene = Scene::colmap(ModelFormat::Binary);
            let at = |name: &str| scene.path().join("images/left").join(name);
            std::fs::rename(at("img 0.png"), at("IMG 0.PNG")).unwrap();
            scene
        }),
        with("picture_half_size", {
            let scene = Scene::colmap(ModelFormat::Binary);
            scene.write("images/left/img 0.png", &tiny_png(8, 6));
            scene
        }),
        with("picture_of_other_shape", {
            let scene = Scene::colmap(ModelFormat::Binary);
            scene.write("images/left/img 0.png", &tiny_png(16, 16));
            scene
        }),
        with("picture_turned", {
            let scene = Scene::colmap(ModelFormat::Binary);
            scene.write("images/left/img 0.png", &tiny_png(12, 16));
            scene
        }),
        with("picture_with_exif_orientation", {
            let scene = Scene::colmap(ModelFormat::Binary);
            let mut bytes = tiny_png(16, 12);
            let tiff = b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
            let mut chunk = (tiff.len() as u32).to_be_bytes().to_vec();
            chunk.extend(b"eXIf");
            chunk.extend(tiff);
            chunk.extend(crc32(&chunk[4..]).to_be_bytes());
            bytes.splice(33..33, chunk);
            scene.write("images/left/img 0.png", &bytes);
            scene
        }),
        bad("picture_empty", b""),
        bad("picture_webp", b"RIFF\0\0\0\0WEBPVP8 "),
        bad("picture_12_bits", twelve_bits),
        bad("picture_cut_in_its_header", &tiny_png(16, 12)[..20]),
        bad("picture_too_large", &png_header(100_000, 100)),
        bad("picture_without_size", &png_header(0, 12)),
        bad("picture_corrupt", &corrupt),
        Mistake {
            before_loading: |scene| {
                scene.write("images/left/img 0.png", &tiny_png(16, 13));
            },
            ..with("picture_changed", one_bad_picture(&tiny_png(16, 12)))
        },
        Mistake {
            before_loading: |scene| scene.remove("images/left/img 0.png"),
            ..with("picture_removed", one_bad_picture(&tiny_png(16, 12)))
        },
        with("picture_is_a_folder", {
            let scene = one_bad_picture(b"");
            scene.remove("images/left/img 0.png");
            std::fs::create_dir(scene.path().join("images/left/img 0.png")).unwrap();
            scene
        }),
        with("picture_file_too_large", {
            let scene = one_bad_picture(b"");
            let path: PathBuf = scene.path().join("images/left/img 0.png");
            std::fs::File::options().write(true).open(path).unwrap().set_len(600 << 20).unwrap();
            scene
        }),
        mask("mask_of_a_few", &grey(16, 12, 255)),
        with("masks_of_other_pictures", {
            let scene = Scene::colmap(ModelFormat::Binary);
            for name in ["a.png", "b.jpg"] {
                scene.write(&format!("masks/{name}"), &grey(16, 12, 255));
            }
            scene
        }),
        with("masks_of_another_format", {
            let scene = Scene::colmap(ModelFormat::Binary);
            for image in &tiny_model().images {
                scene.write(&format!("masks/{}", image.name.replace(".png", ".bmp")), b"BM");
            }
            scene
        }),
        with("mask_folder_empty", {
            let scene = Scene::colmap(ModelFormat::Binary);
            std::fs::create_dir(scene.path().join("masks")).unwrap();
            scene
        }),
        with("masks_inverted", {
            let scene = Scene::colmap(ModelFormat::Binary);
            let mut few = vec![0; 16 * 12];
            few[20] = 255;
            let few = png(16, 12, PngPixels::Grey8(&few), &[]).unwrap();
            for image in &tiny_model().images {
                scene.write(&format!("mask/{}", image.name), &few);
            }
            scene
        }),
        mask("mask_unreadable", b"GIF89a"),
        mask("mask_of_other_size", &grey(8, 8, 255)),
        mask("mask_empty", &grey(16, 12, 0)),
        with(
            "mask_named_but_missing",
            crowd(|i| if i == 3 { ("images/3.png", "gone.png") } else { ("", "") }),
        ),
        with(
            "mask_named_outside",
            crowd(|i| if i == 3 { ("images/3.png", "../../3.png") } else { ("", "") }),
        ),
        with("camera_far_out", {
            let scene = crowd(|_| ("", ""));
            scene.edit("transforms.json", |text| {
                let (before, after) = text.split_at(text.find("images/3.png").unwrap());
                before.to_owned() + &after.replacen("0.5]", "4000]", 1)
            });
            scene
        }),
    ]
}

/// Eleven frames, so that one bad image is less than a tenth; name and mask may be set for each.
fn crowd(change: impl Fn(u32) -> (&'static str, &'static str)) -> Scene {
    let scene = Scene::empty();
    let frames: Vec<String> = (0..11)
        .map(|i| {
            let own = format!("images/{i}.png");
            scene.write(&own, &tiny_png(SIZE[0], SIZE[1]));
            let (name, mask) = change(i);
            let mask = if mask.is_empty() { String::new() } else { format!("\"mask_path\": \"{mask}\",") };
            json_frame(if name.is_empty() { &own } else { name }, f64::from(i), &mask)
        })
        .collect();
    scene.write("transforms.json", format!("{{{FOCAL} \"frames\": [{}]}}", frames.join(",")).as_bytes());
    scene
}

/// CRC-32 of PNG chunks.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |c, _| if c & 1 == 1 { 0xEDB8_8320 ^ (c >> 1) } else { c >> 1 })
    })
}

#[test]
fn each_known_mistake_has_its_line() {
    let mut seen = Seen::default();
    let mut text = String::from(
        "# Datasets with one mistake each, and what a person is told. DATA is the dataset's folder.\n\
         # Made by crates/io/tests/it/dataset_mistakes.rs.\n",
    );
    let mistakes =
        [colmap_mistakes(), json_mistakes(), export_mistakes(), picture_mistakes()].into_iter().flatten();
    let mut count = 0;
    for mistake in mistakes {
        let lines = mistake.lines(&mut seen);
        assert!(!lines.is_empty(), "{} goes unnoticed", mistake.name);
        assert!(lines.iter().all(|l| !l.chars().any(char::is_control)), "{lines:?}");
        text += &format!("\n{}\n", mistake.name);
        lines.iter().for_each(|line| text += &format!("    {line}\n"));
        count += 1;
    }
    assert!(count >= 60, "{count} mistakes");
    let file = testdata_dir().join("mistakes/datasets.txt");
    if std::env::var_os("GAUSSET_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    for (found, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "see the top of this file for how to accept new lines");
    }
    assert_eq!(text.lines().count(), expected.lines().count());

    let unseen: Vec<&str> = all_variants().into_iter().filter(|v| !seen.variants.contains(*v)).collect();
    assert!(unseen.is_empty(), "no mistake shows the line of {unseen:?}; seen: {:?}", seen.variants);
}
