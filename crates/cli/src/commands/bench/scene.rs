//! The measured scene: the reference workload, or a splat file with a camera.

use std::path::Path;
use std::sync::Arc;

use gausset::Failure;
use gausset_compute::Pool;
use gausset_core::engine::{RenderOptions, TrainView};
use gausset_core::splats_transform::Similarity;
use gausset_core::{Camera, Pose, Splats, TargetImage};
use gausset_io::splat::{self, LoadOptions};
use gausset_scenes::workload::{HEIGHT, SPLATS, WIDTH, Workload, WorkloadState, pattern};
use gausset_train::cameras;
use gausset_train::orbit::{self, ImageShape};

use super::args::MeasureArgs;
use crate::console::Console;

/// Splats, a training view of them, and render options.
pub(super) struct BenchScene {
    pub(super) splats: Splats,
    pub(super) view: TrainView,
    pub(super) options: RenderOptions,
}

impl BenchScene {
    /// The scene that the arguments select.
    pub(super) fn from_args(args: &MeasureArgs, console: &Console) -> Result<Self, Failure> {
        match &args.ply {
            Some(path) => Self::from_file(args, path, console),
            None => Ok(Self::from_workload(args)),
        }
    }

    fn from_workload(args: &MeasureArgs) -> Self {
        let state = if args.workload == "initial" { WorkloadState::Initial } else { WorkloadState::Trained };
        let count = args.splats.map_or(SPLATS, |splats| splats as usize);
        let Workload { splats, camera, pose, target } =
            Workload::sized(state, count, args.size.unwrap_or([WIDTH, HEIGHT]));
        let view = view("workload", camera, pose, target);
        Self { splats: sort_along_morton_curve(&splats), view, options: RenderOptions::default() }
    }

    fn from_file(args: &MeasureArgs, path: &Path, console: &Console) -> Result<Self, Failure> {
        let file = splat::load(path, &LoadOptions::default())?;
        for line in file.report.lines(path) {
            console.warn("the splats", line);
        }
        let cameras = match &args.camera {
            Some(cameras) => cameras::read_path(cameras, args.size, &Similarity::IDENTITY, None)?,
            None => {
                let [width, height] = args.size.map_or([None, None], |size| size.map(Some));
                let shape = ImageShape { width, height, vertical_fov: None };
                let around = orbit::orbit_splats(&file.scene(), 1, file.vertical_axis, &shape);
                around.map_err(|error| Failure::usage(format!("--size: {error}")))?
            }
        };
        let Some(camera) = cameras.get(args.view) else {
            let place = args.camera.as_deref().unwrap_or(path).display();
            let what = format!("{place}: cameras: no camera {} (found {} cameras)", args.view, cameras.len());
            return Err(Failure::new("cameras", what));
        };
        let options = RenderOptions {
            sh_degree: file.splats.sh_degree,
            antialiased: file.antialiased,
            ..RenderOptions::default()
        };
        let target = pattern(camera.camera.width, camera.camera.height);
        let view = view(&camera.name.to_string_lossy(), camera.camera, camera.pose, target);
        Ok(Self { splats: sort_along_morton_curve(&file.splats), view, options })
    }
}

fn view(name: &str, camera: Camera, pose: Pose, target: TargetImage) -> TrainView {
    TrainView {
        index: 0,
        downscale: 1,
        name: name.into(),
        camera,
        pose,
        target: Arc::new(target),
        exposure_row: None,
        vignetting_row: None,
        pose_row: None,
        camera_from_rig: None,
    }
}

/// Sorts splats along a Morton curve, as training does.
fn sort_along_morton_curve(splats: &Splats) -> Splats {
    let order = gausset_density::morton::order(&splats.means, &Pool::new(1));
    splats.select(&order.into_iter().map(|index| index as usize).collect::<Vec<_>>())
}
