//! A COLMAP model or a dataset as a scene: its points as small splats, and its cameras.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gausset::Failure;
use gausset::saved_run::SavedRun;
use gausset_core::statistics::median;
use gausset_core::{Camera, Pose, Splats, matrix};
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel, ModelFolder, Observations};
use gausset_io::dataset::init::{self, InitOptions};
use gausset_io::dataset::{self, Dataset, DatasetError, OpenOptions};
use gausset_io::splat::{self, SplatFile};

/// How points are shown. Most models have fewer.
const POINTS: InitOptions = InitOptions {
    sh_degree: 0,
    opacity: 0.95,
    scale_factor: 0.3,
    random_count: 0,
    max_splats: 2_000_000,
    seed: 0,
};

/// Points and cameras.
pub(crate) struct Model {
    /// Folder or file that was read.
    pub(crate) source: PathBuf,
    /// Positions with colours.
    pub(crate) points: Vec<([f64; 3], [u8; 3])>,
    /// Number of images.
    pub(crate) images: usize,
    /// Images with a camera and a pose that can be shown, by name; without distortion.
    pub(crate) cameras: Vec<(String, Camera, Pose)>,
    /// The dataset with the photographs, if it is not a COLMAP model.
    pub(crate) dataset: Option<Arc<Dataset>>,
}

/// The COLMAP model in a folder, in its `sparse/0` or its `sparse`, or the dataset of another format; `None` if there is
/// none, if it or its `run` is a run, or if it holds splats. If a COLMAP model is centred, the middle of its images becomes
/// the origin.
///
/// # Errors
/// A model or dataset that is damaged.
pub(crate) fn find(input: &Path, images: Option<&Path>, is_centred: bool) -> Result<Option<Model>, Failure> {
    let is_run = [input.to_owned(), input.join("run")].iter().any(|folder| SavedRun::is_run_folder(folder));
    if is_run || splat::recognise(input).is_some() {
        return Ok(None);
    }
    for folder in [input.to_owned(), input.join("sparse/0"), input.join("sparse")] {
        if folder.is_dir()
            // What is missing of half a model matters only where there is no other dataset.
            && let Ok(Some(found)) = ModelFolder::find(&folder)
        {
            let text = found.text_beside();
            let mut model = found.read(Observations::Skip).or_else(|error| {
                // As where a dataset is opened.
                text.map_or(Err(error), |text| text.read(Observations::Skip))
            })?;
            if is_centred {
                centre(&mut model);
            }
            return Ok(Some(Model::from_colmap(folder, &model)));
        }
    }
    let is_json = input.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    // Other files are splats, whose errors say more.
    if !input.is_dir() && !is_json {
        return Ok(None);
    }
    let images = images.map(Path::to_owned);
    match dataset::open(input, &OpenOptions { images, test_every: 0, ..OpenOptions::default() }) {
        Err(DatasetError::NotADataset { .. }) => Ok(None),
        opened => Ok(Some(Model::from_dataset(opened?))),
    }
}

impl Model {
    fn from_colmap(source: PathBuf, model: &ColmapModel) -> Self {
        let points = model.points.iter().map(|point| (point.position, point.colour)).collect();
        Self { source, points, images: model.images.len(), cameras: cameras(model), dataset: None }
    }

    fn from_dataset(dataset: Dataset) -> Self {
        Self {
            source: dataset.source.clone(),
            points: dataset.points.iter().map(|point| (point.position, point.colour)).collect(),
            images: dataset.images.len(),
            cameras: dataset
                .images
                .iter()
                .map(|image| (image.name.to_string(), image.camera, image.pose))
                .collect(),
            dataset: Some(Arc::new(dataset)),
        }
    }
}

/// Moves the middle of the images to the origin: places on the earth have more digits than f32.
fn centre(model: &mut ColmapModel) {
    let of = |image: &ColmapImage| Pose::from_quaternion(image.quaternion, image.translation).ok();
    let centres: Vec<[f64; 3]> = model
        .images
        .iter()
        .filter_map(of)
        .map(|pose| pose.centre())
        .filter(|c| c.iter().all(|v| v.is_finite()))
        .collect();
    let middle =
        |axis: usize| median(centres.iter().map(|centre| centre[axis]).collect()).unwrap_or_default();
    let middle = [0, 1, 2].map(middle);
    for point in &mut model.points {
        point.position = matrix::sub(point.position, middle);
    }
    for image in &mut model.images {
        // `R (X - m) + t + R m` is where it was.
        if let Some(pose) = of(image) {
            image.translation = pose.apply(middle);
        }
    }
}

/// Points and places of cameras as splats: what a view from outside must show.
pub(crate) fn outline(model: &Model) -> Splats {
    let places = model.cameras.iter().map(|(.., pose)| (pose.centre(), [0; 3]));
    small_splats(model.points.iter().copied().chain(places))
}

/// The points as splats.
pub(crate) fn splats(model: &Model) -> SplatFile {
    SplatFile::new(small_splats(model.points.iter().copied()))
}

fn small_splats(points: impl Iterator<Item = ([f64; 3], [u8; 3])>) -> Splats {
    let (points, colours): (Vec<[f64; 3]>, Vec<[f32; 3]>) =
        points.map(|(point, colour)| (point, colour.map(|c| f32::from(c) / 255.0))).unzip();
    let mut splats = init::from_points(&points, Some(&colours), &POINTS).splats;
    // Points that stand alone would be as large as the space around them.
    let mut sizes: Vec<f32> = splats.log_scales.iter().map(|scales| scales[0]).collect();
    sizes.sort_by(f32::total_cmp);
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or_default();
    for scale in splats.log_scales.as_flattened_mut() {
        *scale = scale.min(median);
    }
    splats
}

/// The images with their cameras and poses, by name; without distortion.
fn cameras(model: &ColmapModel) -> Vec<(String, Camera, Pose)> {
    let by_id: HashMap<_, _> = model.cameras.iter().map(|camera| (camera.id, camera)).collect();
    let camera = |image: &ColmapImage| {
        let camera = by_id.get(&image.camera_id)?;
        let ([fx, fy], [cx, cy]) = (camera.lens().focal(), camera.lens().principal_point());
        let pinhole = Camera::new(camera.width, camera.height, fx, fy, cx, cy).ok()?;
        let pose = Pose::from_quaternion(image.quaternion, image.translation).ok()?;
        // Further out, not even the page could draw it.
        pose.centre().iter().all(|v| v.abs() < 1e12).then_some(())?;
        Some((image.name.clone(), pinhole, pose))
    };
    let mut cameras: Vec<_> = model.images.iter().filter_map(camera).collect();
    cameras.sort_by(|a, b| a.0.cmp(&b.0));
    cameras
}

#[cfg(test)]
mod tests {
    use gausset_io::dataset::colmap::ColmapPoint;
    use gausset_io::dataset::{CameraModel, SourceCamera};

    use super::*;

    #[test]
    fn points_are_small_splats_of_their_colour_and_images_are_cameras() {
        // A row of points, and one far from all.
        let point = |id: u64| ColmapPoint {
            id,
            position: [if id == 9 { 1000.0 } else { id as f64 }, 0.0, 5.0],
            colour: [255, 0, 128],
            error: 0.0,
            track_length: 2,
            track: Vec::new(),
        };
        let camera =
            SourceCamera::new(7, CameraModel::SimpleRadial, 64, 48, vec![60.0, 32.0, 24.0, -0.1]).unwrap();
        let model = ColmapModel {
            cameras: vec![camera],
            images: ["b.jpg", "a.jpg"]
                .into_iter()
                .map(|name| ColmapImage::new(1, name.to_owned(), 7, &Pose::IDENTITY))
                .collect(),
            points: (0..10).map(point).collect(),
        };
        let model = Model::from_colmap(PathBuf::new(), &model);
        let file = splats(&model);
        assert_eq!(file.splats.len(), 10);
        assert!(
            file.splats.log_scales.iter().all(|s| s[0] == file.splats.log_scales[0][0]),
            "{:?}",
            file.splats
        );
        let colour = file.splats.sh_coefficients(0).iter().map(|&c| gausset_core::sh::colour_from_dc(c));
        let shown: Vec<u8> = colour.map(|c| (255.0 * c).round() as u8).collect();
        assert_eq!(shown, [255, 0, 128]);
        let cameras = model.cameras;
        let names: Vec<&str> = cameras.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!((names, cameras[0].1.fx), (vec!["a.jpg", "b.jpg"], 60.0));
    }
}
