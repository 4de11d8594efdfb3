//! What there is to look at: where it is, from where it was photographed, and the photographs.

use std::sync::Arc;

use gausset_core::engine::RenderOptions;
use gausset_core::se3::{Mat3, dot, norm};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose, Splats, TargetImage};
use gausset_io::dataset::Loader;
use gausset_io::dataset::init::common_cube;
use gausset_train::cameras::{self, NamedCamera};
use gausset_train::orbit::{self, PictureShape};
use gausset_train::{Split, up};
use serde::Serialize;

use crate::protocol::{Filter, rows};
use crate::thumbs::Thumbs;

/// Most cameras that a page is told of: evenly chosen ones where there are more.
const MAX_CAMERAS: usize = 2000;
/// Splats of less opacity do not tell where the scene is, if there are others.
const FAINT_LOGIT: f32 = -2.2;

/// What a page is told of a scene. Directions and poses are in the axes of the saved splats.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scene {
    /// Name of the run or file.
    pub title: String,
    /// Whether it is being trained.
    pub live: bool,
    /// Direction that is up.
    pub up: [f64; 3],
    /// Point to turn around.
    pub centre: [f64; 3],
    /// Size of what there is around it, scene units.
    pub radius: f64,
    /// View to begin with.
    pub start: SceneCamera,
    /// Cameras of the dataset.
    pub cameras: Vec<SceneCamera>,
    /// Whether there are photographs of these.
    pub photos: bool,
    /// Splats, while nobody trains.
    pub splats: usize,
    /// SH degree.
    pub sh_degree: u8,
    /// Colour behind the splats.
    pub background: [f32; 3],
    /// Nearest depth that is drawn, scene units.
    pub near: f64,
    /// Which splats are shown; `None` where nothing can be left out.
    pub filter: Option<Filter>,
}

/// A camera that a page can go to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SceneCamera {
    /// Name of its picture.
    pub name: String,
    /// Whether the picture is held out.
    pub held_out: bool,
    /// Width, height, focal lengths, principal point, px.
    pub camera: [f64; 6],
    /// Rows of `camera_from_world`, 3x4.
    pub pose: [f64; 12],
    /// PSNR by the last evaluation, dB.
    pub psnr: Option<f64>,
}

impl SceneCamera {
    fn of(name: String, held_out: bool, camera: &Camera, pose: &Pose) -> Self {
        // A page draws pinholes.
        let Camera { width, height, fx, fy, cx, cy, .. } = camera.as_pinhole();
        let camera = [f64::from(width), f64::from(height), fx, fy, cx, cy];
        Self { name, held_out, camera, pose: rows(pose), psnr: None }
    }

    fn of_named(named: &NamedCamera) -> Self {
        Self::of(named.name.display().to_string(), false, &named.camera, &named.pose)
    }
}

/// A photograph with the camera that it is of, in the axes of the saved splats.
type Photo = (Arc<TargetImage>, Camera, Pose);

/// A dataset's part of what there is to look at: its cameras, and its pictures.
pub struct Photos {
    loader: Arc<Loader>,
    /// Picture of the dataset, camera in the axes of the saved splats, for each camera of the scene.
    views: Vec<(usize, Camera, Pose)>,
    thumbs: Arc<Thumbs>,
}

impl Photos {
    /// Small pictures of them.
    #[must_use]
    pub fn thumbs(&self) -> Arc<Thumbs> {
        Arc::clone(&self.thumbs)
    }

    /// Takes other poses for the pictures of the dataset, in its axes, here and in the scene that was made with these.
    pub(crate) fn move_to(&mut self, scene: &mut Scene, poses: &[Pose], splats_from_dataset: &Mat3) {
        let turn = Similarity::from_rotation(*splats_from_dataset);
        for ((index, _, pose), camera) in self.views.iter_mut().zip(&mut scene.cameras) {
            *pose = turn.apply_to_pose(&poses[*index]);
            camera.pose = rows(pose);
        }
    }

    /// The photograph of a camera with its view, `None` if there is no such camera.
    ///
    /// # Errors
    /// The photograph cannot be read, as one line.
    pub(crate) fn get(&self, camera: usize) -> Option<Result<Photo, String>> {
        let &(index, camera, pose) = self.views.get(camera)?;
        let photo = self.loader.get(index).map_err(|skipped| format!("{}: {}", skipped.name, skipped.reason));
        Some(photo.map(|photo| (photo, camera, pose)))
    }
}

impl Scene {
    /// A scene with a dataset, whose axes `splats_from_dataset` has turned, and the pictures of its loader.
    #[must_use]
    pub fn of_dataset(title: String, loader: Arc<Loader>, splats_from_dataset: &Mat3) -> (Self, Photos) {
        let dataset = loader.dataset();
        let mut views: Vec<(usize, bool, NamedCamera)> = Vec::new();
        for (split, indices) in [(Split::Train, &dataset.split.train), (Split::Test, &dataset.split.test)] {
            let named = cameras::of_dataset(dataset, split, splats_from_dataset);
            let held_out = split == Split::Test;
            views.extend(indices.iter().zip(named).map(|(&index, named)| (index, held_out, named)));
        }
        views.sort_by_key(|(index, ..)| *index);
        let every = views.len().div_ceil(MAX_CAMERAS).max(1);
        let views: Vec<_> = views.into_iter().step_by(every).collect();
        let poses: Vec<Pose> = views.iter().map(|(.., named)| named.pose).collect();
        let is_turned = *splats_from_dataset != gausset_core::se3::IDENTITY3;
        let known_up = if is_turned { None } else { up::direction(gausset_train::Up::Auto, &poses) };
        let mut scene = Self { title, up: known_up.unwrap_or(up::SAVED_UP), photos: true, ..Self::default() };
        if !poses.is_empty() {
            let cube = common_cube(&poses, dataset.scene_extent);
            (scene.centre, scene.radius) = (cube.centre, dataset.scene_extent);
        }
        let camera = |(index, held_out, named): &(usize, bool, NamedCamera)| {
            let name = dataset.images[*index].name.to_string();
            SceneCamera::of(name, *held_out, &named.camera, &named.pose)
        };
        scene.cameras = views.iter().map(camera).collect();
        scene.start = scene.cameras.first().cloned().unwrap_or_default();
        let images = views.iter().map(|(index, ..)| *index).collect();
        let thumbs = Arc::new(Thumbs::new(Arc::clone(&loader), images));
        let views = views.into_iter().map(|(index, _, named)| (index, named.camera, named.pose)).collect();
        (scene, Photos { loader, views, thumbs })
    }

    /// A scene that is known by its splats alone.
    #[must_use]
    pub fn of_splats(title: String, splats: &Splats, up: Option<[f32; 3]>) -> Self {
        let mut seen: Vec<usize> = (0..splats.len()).filter(|&i| splats.is_usable(i)).collect();
        if seen.iter().any(|&i| splats.opacity_logits[i] >= FAINT_LOGIT) {
            seen.retain(|&i| splats.opacity_logits[i] >= FAINT_LOGIT);
        }
        let median = |mut values: Vec<f64>| match values.len() {
            0 => 0.0,
            count => *values.select_nth_unstable_by(count / 2, f64::total_cmp).1,
        };
        let position = |i: usize| splats.means[i].map(f64::from);
        let centre: [f64; 3] =
            std::array::from_fn(|k| median(seen.iter().map(|&i| position(i)[k]).collect()));
        let distance = |i: &usize| norm(std::array::from_fn(|k| position(*i)[k] - centre[k]));
        let radius = median(seen.iter().map(distance).collect());
        let circle = orbit::around_splats(splats, 1, up, &PictureShape::default());
        let start = circle.ok().and_then(|cameras| cameras.first().map(SceneCamera::of_named));
        let up = up.map(|up| up.map(f64::from)).filter(|up| dot(*up, *up) > 0.0);
        Self {
            title,
            up: up.unwrap_or(up::SAVED_UP),
            centre,
            radius: if radius > 0.0 { radius } else { 1.0 },
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
                SceneCamera::of("start".to_owned(), false, &camera, &Pose::IDENTITY)
            }),
            ..Self::default()
        }
    }

    /// The same with how it is rendered.
    #[must_use]
    pub fn rendered(mut self, options: &RenderOptions, splats: usize) -> Self {
        (self.sh_degree, self.background, self.near) =
            (options.sh_degree, options.background, options.near_plane);
        self.splats = splats;
        self
    }
}
