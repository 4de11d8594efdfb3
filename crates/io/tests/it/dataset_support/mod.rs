//! Tiny datasets in a temporary folder, and damage of every kind.

pub(crate) mod damage;

use std::path::{Path, PathBuf};

use gausset_core::Pose;
use gausset_io::dataset::camera_model::{CameraModel, SourceCamera};
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel, ColmapPoint, ModelFormat, NO_POINT};
use gausset_io::dataset::{self, Dataset, DatasetError, OpenOptions};
use gausset_io::image::encode::{PngPixels, png};
use tempfile::TempDir;

/// Size of the tiny images.
pub(crate) const SIZE: [u32; 2] = [16, 12];

/// A model with two cameras, nine images in two folders, twelve points, and observations of every kind.
pub(crate) fn tiny_model() -> ColmapModel {
    let camera = |id, model, params: &[f64]| {
        SourceCamera::new(id, model, u64::from(SIZE[0]), u64::from(SIZE[1]), params.to_vec()).unwrap()
    };
    let cameras = vec![
        camera(2, CameraModel::SimpleRadial, &[14.0, 8.0, 6.0, 0.02]),
        camera(7, CameraModel::OpenCv, &[14.0, 14.5, 8.0, 6.0, 0.01, -0.003, 0.0005, -0.0004]),
    ];
    let images = (0..9u32)
        .map(|i| {
            let angle = 0.7 * f64::from(i);
            let quaternion = [libm::cos(0.5 * angle), 0.0, libm::sin(0.5 * angle), 0.0];
            let pose = Pose::from_quaternion(quaternion, [0.1 * f64::from(i), -0.2, 3.0]).unwrap();
            let folder = if i < 5 { "left" } else { "right" };
            let mut image =
                ColmapImage::new(10 + 3 * i, format!("{folder}/img {i}.png"), [2, 7][i as usize % 2], &pose);
            image.points = vec![([1.5, 2.25], 4), ([f64::from(i) + 0.125, 7.5], NO_POINT)];
            image.point_count = image.points.len() as u64;
            image
        })
        .collect();
    let points = (0..12u32)
        .map(|i| {
            let track: Vec<[u32; 2]> = (0..i % 4).map(|k| [10 + 3 * k, 0]).collect();
            ColmapPoint {
                id: u64::from(4 + 5 * i),
                position: [f64::from(i % 3) - 1.0, f64::from(i / 3) - 1.5, 0.1 * f64::from(i * i % 7)],
                colour: [(20 * i) as u8, 128, 255 - i as u8],
                error: 0.25 + 0.01 * f64::from(i),
                track_length: track.len() as u64,
                track,
            }
        })
        .collect();
    ColmapModel { cameras, images, points }
}

/// An image whose pixels encode their position.
pub(crate) fn tiny_png(width: u32, height: u32) -> Vec<u8> {
    let pixels: Vec<u8> = (0..height)
        .flat_map(|y| (0..width).flat_map(move |x| [(x * 16) as u8, (y * 20) as u8, 77]))
        .collect();
    png(width, height, PngPixels::Rgb8(&pixels), &[]).unwrap()
}

/// A temporary folder that is removed on drop.
pub(crate) struct Scene {
    folder: TempDir,
}

impl Scene {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// [`tiny_model`] with its images.
    pub(crate) fn colmap(format: ModelFormat) -> Self {
        let scene = Self::empty();
        let model = tiny_model();
        scene.model(&model, format);
        for image in &model.images {
            scene.write(&format!("images/{}", image.name), &tiny_png(SIZE[0], SIZE[1]));
        }
        scene
    }

    /// Nine pictures and a `transforms.json` with `head` among its keys and `frame` among those of frame 4.
    pub(crate) fn json(head: &str, frame: &str) -> Self {
        let scene = Self::empty();
        let frames: Vec<String> = (0..9u32)
            .map(|i| {
                scene.write(&format!("images/{i}.png"), &tiny_png(SIZE[0], SIZE[1]));
                let own = if i == 4 { frame } else { "" };
                json_frame(&format!("images/{i}.png"), 0.3 * f64::from(i), own)
            })
            .collect();
        scene.write(
            "transforms.json",
            format!("{{{head}\n\"frames\": [\n{}\n]}}", frames.join(",\n")).as_bytes(),
        );
        scene
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file and the folders above it.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn model(&self, model: &ColmapModel, format: ModelFormat) {
        for (name, content) in model.to_files(format) {
            self.write(&format!("sparse/0/{name}"), &content);
        }
    }

    /// Changes a text file.
    pub(crate) fn edit(&self, name: &str, change: impl Fn(&str) -> String) {
        let path = self.path().join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let changed = change(&text);
        assert_ne!(text, changed, "the edit of {name} changes nothing");
        std::fs::write(&path, changed).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path().join(name)).unwrap();
    }

    pub(crate) fn open(&self) -> Result<Dataset, DatasetError> {
        self.open_with(&OpenOptions::default())
    }

    pub(crate) fn open_with(&self, options: &OpenOptions) -> Result<Dataset, DatasetError> {
        dataset::open(self.path(), options)
    }

    /// A line with the folder's name replaced by `DATA`.
    pub(crate) fn line(&self, line: &str) -> String {
        line.replace(&self.path().display().to_string(), "DATA")
    }

    /// The line of the error that opening gives.
    pub(crate) fn error(&self) -> String {
        self.line(&self.open().expect_err("opening fails").to_string())
    }

    /// The lines of warnings and skipped images.
    pub(crate) fn report(&self) -> Vec<String> {
        self.open().unwrap().report_lines().iter().map(|line| self.line(line)).collect()
    }
}

/// A frame whose camera is on a circle of radius 4 and looks at its centre (OpenGL axes).
pub(crate) fn json_frame(path: &str, angle: f64, more: &str) -> String {
    let (s, c) = (libm::sin(angle), libm::cos(angle));
    format!(
        "{{\"file_path\": \"{path}\", {more} \"transform_matrix\": \
         [[{c}, 0, {s}, {}], [0, 1, 0, 0.5], [{}, 0, {c}, {}], [0, 0, 0, 1]]}}",
        4.0 * s,
        -s,
        4.0 * c
    )
}
