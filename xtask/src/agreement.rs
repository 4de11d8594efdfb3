//! Seed agreement of scenes: trains each with two seeds and compares renders between the training cameras.
//!
//! The two runs differ only in their random numbers. They agree where the photographs determine the result, and differ
//! where they do not (veils, clouds, smears). No ground truth is needed, so the views can be placed where held-out
//! cameras and viewers are: between neighbouring training cameras.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use gausset_core::engine::{Engine, EngineError, Outputs, RenderOptions, TrainState};
use gausset_core::{Camera, Pose};
use gausset_cpu::{CpuEngine, CpuOptions};
use gausset_io::dataset::{self, Dataset, Tracks};
use gausset_io::run_folder::{config_path, splats_path};
use gausset_io::splat::{self, LoadOptions};
use gausset_metrics::quality::psnr;
use gausset_train::view_pairs::{interpolate_pose, neighbour_pairs, visible_points};
use gausset_train::{RecordedRun, SceneFacts};

use crate::program;

/// Number of views of a scene that are compared.
const VIEWS: usize = 120;
/// Positions of the views between two neighbours, as fractions of their distance.
const FRACTIONS: [f64; 3] = [0.25, 0.5, 0.75];
/// Without points, each image and the next one count as neighbours.
const NEIGHBOUR_OFFSET: usize = 1;

/// Arguments: what is compared, and how it is trained.
#[derive(Debug, clap::Args)]
pub(crate) struct AgreementArgs {
    /// Datasets, or with `--runs` names of runs without their seed.
    #[arg(required = true, value_name = "SCENE")]
    scenes: Vec<PathBuf>,
    /// Folder of the runs, `NAME-SEED`; existing runs are not trained again.
    #[arg(long, default_value = "target/agreement")]
    runs: PathBuf,
    /// The two seeds.
    #[arg(long, value_delimiter = ',', num_args = 1, default_value = "0,1")]
    seeds: Vec<u64>,
    /// Options of the training runs.
    #[arg(long, default_value = "--max-resolution 360 --steps 2000", allow_hyphen_values = true)]
    train: String,
}

/// Runs the command.
pub(crate) fn run(args: &AgreementArgs) -> Result<(), String> {
    let [first, second] = args.seeds[..] else { return Err("--seeds: expected two seeds".to_owned()) };
    println!("scene             views   mean    worst view");
    let (mut sum, mut worst_of_all) = (0.0, f64::INFINITY);
    for scene in &args.scenes {
        let name = scene.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let runs = [first, second].map(|seed| args.runs.join(format!("{name}-{seed}")));
        for (run, seed) in runs.iter().zip([first, second]) {
            if !splats_path(run).is_file() {
                train(scene, run, seed, &args.train)?;
            }
        }
        let values = compare(&runs).map_err(|why| format!("{name}: {why}"))?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let worst = values.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{name:16} {:6} {mean:7.2} {worst:9.2}", values.len());
        (sum, worst_of_all) = (sum + mean, worst_of_all.min(worst));
    }
    println!("{:16} {:6} {:7.2} {worst_of_all:9.2}", "all", "", sum / args.scenes.len() as f64);
    Ok(())
}

fn train(scene: &Path, run: &Path, seed: u64, options: &str) -> Result<(), String> {
    let mut command = Command::new(program()?);
    command.arg("train").arg(scene).arg("-o").arg(run).args(["-q", "--seed", &seed.to_string()]);
    command.args(options.split_whitespace()).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// PSNR between two runs in the views between the training cameras.
fn compare(runs: &[PathBuf; 2]) -> Result<Vec<f64>, String> {
    let mut engines = Vec::new();
    let mut recorded = Vec::new();
    for run in runs {
        recorded.push(RecordedRun::read(&config_path(run)).map_err(|error| error.to_string())?);
        let file =
            splat::load(&splats_path(run), &LoadOptions::default()).map_err(|error| error.to_string())?;
        let mut engine = CpuEngine::new(CpuOptions::default()).map_err(|error| error.to_string())?;
        let state = TrainState::new(file.splats, Vec::new());
        engine.load(state).map_err(|error| error.to_string())?;
        engines.push(engine);
    }
    let config = &recorded[0].config;
    let data = dataset::open(&config.data.path, &config.open_options()).map_err(|error| error.to_string())?;
    let tracks = data.read_tracks(u64::MAX).map_err(|error| error.to_string())?;
    let record = &recorded[0].record;
    let scene = SceneFacts {
        extent: record.scene_extent,
        near_plane: config.recipe.near_plane.distance(record.near_plane),
        background: record.background,
        // The sky is part of the splats of a file.
        ..SceneFacts::default()
    };
    let options = config.recipe.eval_options(config.recipe.steps, &scene);
    let turn = record.saved_from_dataset();
    let mut views = novel_views(&data, tracks, VIEWS);
    for (_, pose) in &mut views {
        *pose = turn.apply_to_pose(pose);
    }
    let [a, b] = &mut engines[..] else { return Err("two runs".to_owned()) };
    agreement([a, b], &views, &options).map_err(|error| error.to_string())
}

/// Three views between each pair of neighbouring training cameras; at most `most` views, evenly chosen.
fn novel_views(dataset: &Dataset, tracks: Tracks, most: usize) -> Vec<(Camera, Pose)> {
    let train = &dataset.split.train;
    let never = AtomicBool::new(false);
    let pairs = neighbour_pairs(dataset, &visible_points(dataset, tracks, &never), &never);
    let mut pairs: Vec<[usize; 2]> = pairs.iter().map(|pair| pair.images).collect();
    if pairs.is_empty() {
        pairs = train.iter().zip(train.iter().skip(NEIGHBOUR_OFFSET)).map(|(&a, &b)| [a, b]).collect();
    }
    let views = pairs.iter().flat_map(|pair| FRACTIONS.map(|share| (*pair, share)));
    let step = (pairs.len() * FRACTIONS.len()).div_ceil(most.max(1)).max(1);
    let view = |([a, b], share): ([usize; 2], f64)| {
        let [a, b] = [a, b].map(|index| &dataset.images[index]);
        (a.camera, interpolate_pose(&a.pose, &b.pose, share, [0.0; 3]))
    };
    // With a step that is no multiple of three, all fractions occur.
    let step = if step > 1 && step.is_multiple_of(FRACTIONS.len()) { step + 1 } else { step };
    views.step_by(step).map(view).collect()
}

/// PSNR in dB between the renders of two engines, per view; renders are clamped to 0..1.
fn agreement(
    engines: [&mut dyn Engine; 2],
    views: &[(Camera, Pose)],
    options: &RenderOptions,
) -> Result<Vec<f64>, EngineError> {
    let [a, b] = engines;
    let clamped = |engine: &mut dyn Engine, camera: &Camera, pose: &Pose| {
        let picture = engine.render(camera, pose, options, Outputs::Color)?;
        Ok::<Vec<f32>, EngineError>(picture.color.iter().map(|v| v.clamp(0.0, 1.0)).collect())
    };
    let mut values = Vec::with_capacity(views.len());
    for (camera, pose) in views {
        values.push(psnr(&clamped(a, camera, pose)?, &clamped(b, camera, pose)?, None));
    }
    Ok(values)
}
