//! Builds the scene of an exported HTML page ([`gausset_page::scene`]): title, up direction and cameras.

use std::path::Path;

use gausset_core::se3::{self, IDENTITY3};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose};
use gausset_io::dataset::Dataset;
use gausset_io::dataset::init::common_cube;
use gausset_io::splat::SplatFile;
use gausset_page::scene::{PageCamera, ScenePage};
use gausset_train::cameras::{self, NamedCamera};
use gausset_train::orbit;
use gausset_train::{Split, Up, up};

use crate::Host;
use crate::saved_run::{DataLocation, SavedRun};

/// Maximum number of cameras on a page; more are thinned out evenly.
const MAX_CAMERAS: usize = 100;

/// The scene of a page that is written to `output`: the splats of a file, or of a run with the cameras of its dataset.
/// `change` is the transform applied to the splats since they were read. If the dataset cannot be opened, the page has
/// no cameras and a warning is sent.
#[must_use]
pub fn page_scene(
    output: &Path,
    run: Option<&SavedRun>,
    data: DataLocation<'_>,
    change: &Similarity,
    file: &SplatFile,
    host: &mut Host<'_>,
) -> ScenePage {
    let title = output.file_stem().map_or_else(|| "Splats".to_owned(), |name| name.display().to_string());
    let mut scene = match run {
        Some(run) => {
            let dataset = run.open_dataset(data, host);
            if let Err(failure) = &dataset {
                host.warn("the dataset", format!("{failure}; the page has no cameras"));
            }
            let scene =
                dataset.map_or_else(|_| ScenePage::default(), |dataset| dataset_scene(run, &dataset, change));
            let options = run.render_options();
            let near = Some(change.scale * options.near_plane);
            ScenePage { background: options.background, near, ..scene }
        }
        None => ScenePage { near: file.near_plane, ..ScenePage::default() },
    };
    if scene.cameras.is_empty() {
        // Without the sky, which the page cannot tell from the scene.
        if let Some(home) = orbit::home_view(&file.scene(), file.vertical_axis) {
            (scene.centre, scene.radius) = (Some(home.centre), Some(home.radius));
            scene.start = Some(view(&home.camera));
        }
    }
    let known_up = file.vertical_axis.map(|up| up.map(f64::from));
    let up = known_up.or(scene.up).filter(|&up| se3::norm(up) > 0.0).unwrap_or(up::SAVED_UP);
    let sky = file.splats.len() - file.scene_len();
    ScenePage { title, up: Some(up), sky, ..scene }
}

/// Cameras, centre, radius and up direction of a run's dataset, transformed by `change`.
fn dataset_scene(run: &SavedRun, dataset: &Dataset, change: &Similarity) -> ScenePage {
    let turn = run.splats_from_dataset();
    let split = |split| cameras::dataset_cameras(dataset, split, &turn);
    let mut named = [split(Split::Train), split(Split::Test)].concat();
    named.sort_by(|a, b| a.name.cmp(&b.name));
    let poses: Vec<Pose> = named.iter().map(|named| named.pose).collect();
    if poses.is_empty() {
        return ScenePage::default();
    }
    let centre = common_cube(&poses, dataset.scene_extent).centre;
    let known_up = if turn.rotation == IDENTITY3 { up::direction_of(Up::Auto, dataset) } else { None };
    let every = named.len().div_ceil(MAX_CAMERAS);
    let changed =
        |named: &NamedCamera| view(&NamedCamera { pose: change.apply_to_pose(&named.pose), ..named.clone() });
    ScenePage {
        up: Some(se3::mul_vec(&change.rotation, known_up.unwrap_or(up::SAVED_UP))),
        centre: Some(change.apply(centre)),
        radius: Some(change.scale * dataset.scene_extent).filter(|radius| *radius > 0.0),
        cameras: named.iter().step_by(every).map(changed).collect(),
        ..ScenePage::default()
    }
}

fn view(named: &NamedCamera) -> PageCamera {
    // Pages render with a pinhole camera.
    let Camera { width, height, fx, fy, cx, cy, .. } = named.camera.as_pinhole();
    let camera = [f64::from(width), f64::from(height), fx, fy, cx, cy].map(|v| v as f32);
    let Pose { rotation, translation } = &named.pose;
    let pose =
        std::array::from_fn(|k| if k % 4 < 3 { rotation[k / 4][k % 4] } else { translation[k / 4] } as f32);
    PageCamera { name: named.name.display().to_string(), camera, pose }
}
