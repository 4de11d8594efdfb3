//! `gausset demo`: a scene made of formulas, trained and evaluated, to see that everything works.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_compute::Pool;
use gausset_io::atomic::Overwrite;
use gausset_scenes::{DemoSize, write_dataset};
use gausset_train::{TrainConfig, TrainOptions};

use super::training::{self, Job, Place};
use crate::Ending;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Reporter;

const AFTER_HELP: &str = "\
Examples:
  gausset demo                      a few minutes on two cores; look at gausset-demo/run/eval/
  gausset demo --size small -o d/   a few seconds, to see that it works
The scene is written as an ordinary COLMAP dataset to DIR/data, the run to DIR/run.";

/// Arguments of `demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArgs {
    /// Size: small (60 pictures of 160x120) or default (72 of 480x360).
    #[arg(
        long, value_name = "SIZE", default_value = "default", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["small", "default"]).map(|word| size(&word))
    )]
    size: DemoSize,
    /// Folder for scene and run.
    #[arg(short, long, value_name = "DIR", default_value = "gausset-demo")]
    output: PathBuf,
    /// Steps of the training [default: 300 for small, 4000 for default].
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Seed of the scene and of the training.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Replace the demo that DIR holds.
    #[arg(long)]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell where the time went: a table, DIR/run/profile.json and trace.json.
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

fn size(word: &str) -> DemoSize {
    if word == "small" { DemoSize::Small } else { DemoSize::Default }
}

/// How the demo of a size is trained: enough for its pictures, and no more.
fn options(args: &DemoArgs, data: PathBuf) -> TrainOptions {
    let common = TrainOptions {
        data: Some(data),
        steps: args.steps,
        seed: Some(args.seed),
        threads: Some(args.compute.threads),
        ..TrainOptions::default()
    };
    common.or(match args.size {
        // So few steps that splats start as wide as the space between the points, and move faster than they should.
        DemoSize::Small => TrainOptions {
            steps: Some(300),
            max_splats: Some(6_000),
            initial_scale: Some(1.0),
            initial_opacity: Some(0.3),
            lr_means: Some(5e-4),
            lr_scales: Some(2e-2),
            lr_sh_dc: Some(1e-2),
            ..TrainOptions::default()
        },
        DemoSize::Default => {
            TrainOptions { steps: Some(4_000), max_splats: Some(60_000), ..TrainOptions::default() }
        }
    })
}

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, console: &Console) -> Result<Status, Ending> {
    let (data, run) = (args.output.join("data"), args.output.join("run"));
    // A mistake in the options is told before the scene is made.
    let config = TrainConfig::resolve(&options(args, data.clone()), None).map_err(Failure::from)?;
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    if let Some(taken) = [&data, &run].into_iter().find(|path| !args.force && path.exists()) {
        let found = taken.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        return Err(holds_a_demo(&args.output, &found).into());
    }
    make_scene(args, &data, console)?;
    // Not before: half a scene is of no use, so there a signal simply ends the program.
    let interrupt = Interrupt::watch();
    let job =
        Job { config, place: Place::New(run, overwrite), device: args.compute.device, profile: args.profile };
    let trained = training::train(job, &interrupt, console)?;
    console.object_or(&trained.outcome.summary, || trained.table())?;
    Ok(trained.status)
}

fn holds_a_demo(folder: &Path, found: &str) -> Failure {
    let folder = folder.display();
    Failure::new(
        "exists",
        format!(
            "{folder}: folder: holds a demo already (expected an empty or new folder, found {found}); choose another with -o, or replace it with --force"
        ),
    )
}

/// Writes the scene as a dataset.
fn make_scene(args: &DemoArgs, data: &Path, console: &Console) -> Result<(), Failure> {
    console.note(format!("making the scene in {}", data.display()));
    let scene = gausset_scenes::demo(args.size, args.seed);
    let threads = args.compute.threads as usize;
    let pool = if threads == 0 { Pool::with_all_cores() } else { Pool::new(threads) };
    let mut reporter = Reporter::start(console, "picture", 0, scene.poses.len() as u64);
    let written = write_dataset(&scene, data, &pool, &mut |done, _all| reporter.at(done as u64, String::new));
    reporter.finish();
    written.map_err(|error| Failure::new("write", error))
}
