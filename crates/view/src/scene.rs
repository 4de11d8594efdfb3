//! Description of the scene for pages: its extent, its cameras, and the photographs.

use std::sync::Arc;

use gausset_core::engine::RenderOptions;
use gausset_core::se3::{self, dot};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose, Splats, TargetImage};
use gausset_io::dataset::init::common_cube;
use gausset_io::dataset::{Loader, SkippedImage};
use gausset_page::scene::{PageCamera, ScenePage};
use gausset_train::cameras::{self, NamedCamera};
use gausset_train::orbit;
use gausset_train::{Split, up};
use serde::Serialize;

use crate::protocol::{SplatFilter, pose_rows};
use crate::thumbs::Thumbnails;

/// Largest number of cameras in the description; of more, evenly spaced ones are chosen.
const MAX_CAMERAS: usize = 2000;

/// Largest number of cameras in a page that opens from disk; of more, evenly spaced ones are chosen.
const MAX_PAGE_CAMERAS: usize = 100;

/// Description of a scene. Directions and poses are in the axes of the saved splats.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SceneDescription {
    /// Name of the run or file.
    pub title: String,
    /// Whether it is being trained.
    pub live: bool,
    /// Direction that is up, in the axes of the saved splats.
    pub up: [f64; 3],
    /// Point around which the camera orbits.
    pub centre: [f64; 3],
    /// Typical size of the scene around the centre, scene units.
    pub radius: f64,
    /// Camera that a page starts with.
    pub start: SceneCamera,
    /// Cameras of the dataset.
    pub cameras: Vec<SceneCamera>,
    /// Whether these cameras have photographs.
    pub photos: bool,
    /// Number of splats; 0 during training.
    pub splats: usize,
    /// Number of these that are a sky around the scene.
    pub sky: usize,
    /// SH degree of the splats, 0..=3.
    pub sh_degree: u8,
    /// Colour behind the splats.
    pub background: [f32; 3],
    /// Near plane, scene units.
    pub near: f64,
    /// Which splats are shown; `None` if the scene cannot be filtered.
    pub filter: Option<SplatFilter>,
    /// Whether a view can show what the training views know.
    pub confidence: bool,
}

/// A camera that a page can select.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SceneCamera {
    /// Name of its image.
    pub name: String,
    /// Whether the image is held out.
    pub held_out: bool,
    /// Width, height, focal lengths, principal point, px.
    pub camera: [f64; 6],
    /// Rows of `camera_from_world`, 3x4.
    pub pose: [f64; 12],
    /// PSNR of the last evaluation, dB.
    pub psnr: Option<f64>,
}

impl SceneCamera {
    fn new(name: String, held_out: bool, camera: &Camera, pose: &Pose) -> Self {
        // Pages only draw pinhole cameras.
        let Camera { width, height, fx, fy, cx, cy, .. } = camera.as_pinhole();
        let camera = [f64::from(width), f64::from(height), fx, fy, cx, cy];
        Self { name, held_out, camera, pose: pose_rows(pose), psnr: None }
    }

    fn from_named(named: &NamedCamera) -> Self {
        Self::new(named.name.display().to_string(), false, &named.camera, &named.pose)
    }

    fn to_page(&self) -> PageCamera {
        let (camera, pose) = (self.camera.map(|v| v as f32), self.pose.map(|v| v as f32));
        PageCamera { name: self.name.clone(), camera, pose }
    }
}

/// A photograph that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", .0.name, .0.reason)]
pub(crate) struct UnreadablePhoto(SkippedImage);

/// A photograph with its camera and pose, in the axes of the saved splats.
type Photo = (Arc<TargetImage>, Camera, Pose);

/// Photographs of a dataset, for the cameras of a scene.
pub struct Photos {
    loader: Arc<Loader>,
    /// For each camera of the scene: image index in the dataset; camera and pose in the axes of the saved splats.
    views: Vec<(usize, Camera, Pose)>,
    thumbs: Arc<Thumbnails>,
}

impl Photos {
    /// Thumbnails of these photographs, shared with the server.
    #[must_use]
    pub fn thumbs(&self) -> Arc<Thumbnails> {
        Arc::clone(&self.thumbs)
    }

    /// Replaces the poses by others in the coordinates of the dataset, here and in the scene that belongs to these
    /// photographs.
    pub(crate) fn set_poses(
        &mut self,
        scene: &mut SceneDescription,
        poses: &[Pose],
        splats_from_dataset: &Similarity,
    ) {
        for ((index, _, pose), camera) in self.views.iter_mut().zip(&mut scene.cameras) {
            *pose = splats_from_dataset.apply_to_pose(&poses[*index]);
            camera.pose = pose_rows(pose);
        }
    }

    /// The photograph of a camera with its view; `None` if there is no such camera.
    ///
    /// # Errors
    /// The photograph cannot be read.
    pub(crate) fn load(&self, camera: usize) -> Option<Result<Photo, UnreadablePhoto>> {
        let &(index, camera, pose) = self.views.get(camera)?;
        let photo = self.loader.get(index).map_err(UnreadablePhoto);
        Some(photo.map(|photo| (photo, camera, pose)))
    }
}

impl SceneDescription {
    /// A scene with a dataset. `splats_from_dataset` maps its coordinates to those of the splats; `loader` reads its images.
    #[must_use]
    pub fn from_dataset(
        title: String,
        loader: Arc<Loader>,
        splats_from_dataset: &Similarity,
    ) -> (Self, Photos) {
        let dataset = loader.dataset();
        let mut views: Vec<(usize, bool, NamedCamera)> = Vec::new();
        for (split, indices) in [(Split::Train, &dataset.split.train), (Split::Test, &dataset.split.test)] {
            let named = cameras::dataset_cameras(dataset, split, splats_from_dataset);
            let held_out = split == Split::Test;
            views.extend(indices.iter().zip(named).map(|(&index, named)| (index, held_out, named)));
        }
        views.sort_by_key(|(index, ..)| *index);
        let every = views.len().div_ceil(MAX_CAMERAS).max(1);
        let views: Vec<_> = views.into_iter().step_by(every).collect();
        let poses: Vec<Pose> = views.iter().map(|(.., named)| named.pose).collect();
        let is_turned = splats_from_dataset.rotation != se3::IDENTITY3;
        let known_up = if is_turned { None } else { up::direction(gausset_train::Up::Auto, &poses) };
        let mut scene = Self { title, up: known_up.unwrap_or(up::SAVED_UP), photos: true, ..Self::default() };
        if !poses.is_empty() {
            let radius = splats_from_dataset.scale * dataset.scene_extent;
            (scene.centre, scene.radius) = (common_cube(&poses, radius).centre, radius);
        }
        let camera = |(index, held_out, named): &(usize, bool, NamedCamera)| {
            let name = dataset.images[*index].name.to_string();
            SceneCamera::new(name, *held_out, &named.camera, &named.pose)
        };
        scene.cameras = views.iter().map(camera).collect();
        scene.start = scene.cameras.first().cloned().unwrap_or_default();
        let images = views.iter().map(|(index, ..)| *index).collect();
        let thumbs = Arc::new(Thumbnails::new(Arc::clone(&loader), images));
        let views = views.into_iter().map(|(index, _, named)| (index, named.camera, named.pose)).collect();
        (scene, Photos { loader, views, thumbs })
    }

    /// The scene as it is seen from outside of these splats.
    pub(crate) fn seen_from_outside(self, splats: &Splats) -> Self {
        let up = self.up.map(|v| v as f32);
        let Some(home) = orbit::home_view(splats, Some(up)) else { return self };
        Self {
            centre: home.centre,
            radius: home.radius,
            start: SceneCamera::from_named(&home.camera),
            ..self
        }
    }

    /// A scene without a dataset.
    #[must_use]
    pub fn from_splats(title: String, splats: &Splats, up: Option<[f32; 3]>) -> Self {
        let home = orbit::home_view(splats, up);
        let (centre, radius) = home.as_ref().map_or(([0.0; 3], 1.0), |home| (home.centre, home.radius));
        let start = home.map(|home| SceneCamera::from_named(&home.camera));
        let up = up.map(|up| up.map(f64::from)).filter(|up| dot(*up, *up) > 0.0);
        Self {
            title,
            up: up.unwrap_or(up::SAVED_UP),
            centre,
            radius,
            start: start.unwrap_or_else(|| {
                let camera = Camera {
                    projection: gausset_core::Projection::Pinhole,
                    width: 1280,
                    height: 720,
                    fx: 800.0,
                    fy: 800.0,
                    cx: 640.0,
                    cy: 360.0,
                };
                SceneCamera::new("start".to_owned(), false, &camera, &Pose::IDENTITY)
            }),
            ..Self::default()
        }
    }

    /// A scene of splats with cameras (name, camera, pose) that have no photographs.
    #[must_use]
    pub fn from_cameras(title: String, splats: &Splats, cameras: Vec<(String, Camera, Pose)>) -> Self {
        let poses: Vec<Pose> = cameras.iter().map(|(.., pose)| *pose).collect();
        let up = up::direction(gausset_train::Up::Auto, &poses);
        let every = cameras.len().div_ceil(MAX_CAMERAS).max(1);
        let camera =
            |(name, camera, pose): (String, Camera, Pose)| SceneCamera::new(name, false, &camera, &pose);
        Self {
            cameras: cameras.into_iter().step_by(every).map(camera).collect(),
            ..Self::from_splats(title, splats, up.map(|up| up.map(|v| v as f32)))
        }
    }

    /// The scene for a page that opens from disk, of whose splats this many are a sky.
    pub(crate) fn to_page(&self, sky: usize) -> ScenePage {
        let every = self.cameras.len().div_ceil(MAX_PAGE_CAMERAS).max(1);
        let title = self.title.rsplit('/').next().unwrap_or_default();
        ScenePage {
            title: title.split_once('.').map_or(title, |(stem, _)| stem).to_owned(),
            up: Some(self.up),
            centre: Some(self.centre),
            radius: Some(self.radius),
            background: self.background,
            near: Some(self.near),
            start: Some(self.start.to_page()),
            sky,
            cameras: self.cameras.iter().step_by(every).map(SceneCamera::to_page).collect(),
        }
    }

    /// Adds the render options and the numbers of splats, all and those of a sky.
    #[must_use]
    pub fn with_render_options(mut self, options: &RenderOptions, splats: usize, sky: usize) -> Self {
        (self.sh_degree, self.background, self.near) =
            (options.sh_degree, options.background, options.near_plane);
        (self.splats, self.sky) = (splats, sky);
        self
    }
}
