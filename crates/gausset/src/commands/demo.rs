//! `gausset demo`: a scene made of formulas, trained and evaluated, to see that everything works.
//!
//! ```text
//! DIR/.tmp-data/  the scene while it is made ──rename──▶ DIR/data/  with demo.json, which says which scene it is
//! DIR/run/        the run; one that was interrupted goes on
//! ```
//! Both folders of the scene have a marker ([`gausset_io::owned`]); without it none is ever removed.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_compute::Pool;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, write_atomic};
use gausset_io::input;
use gausset_io::owned::{self, MARKER, OwnedError};
use gausset_scenes::{DemoSize, write_dataset};
use gausset_train::{TrainConfig, TrainOptions, read_finished};
use serde::{Deserialize, Serialize};

use super::saved_run::SavedRun;
use super::training::{self, Job, Task};
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

/// Says in `DIR/data` which scene it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SceneNote {
    size: String,
    seed: u64,
}

/// Name of the file of the [`SceneNote`] in the dataset.
const NOTE: &str = "demo.json";
/// Longest such file.
const MAX_NOTE_BYTES: u64 = 4096;
/// What the marker of the dataset says.
const PURPOSE: &str = "demo";

impl SceneNote {
    fn of(args: &DemoArgs) -> Self {
        let size = if args.size == DemoSize::Small { "small" } else { "default" };
        Self { size: size.to_owned(), seed: args.seed }
    }

    /// The note of a dataset, if it is one of a demo.
    fn read(data: &Path) -> Option<Self> {
        serde_json::from_slice(&input::read(&data.join(NOTE), MAX_NOTE_BYTES).ok()?).ok()
    }
}

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, console: &Console) -> Result<Status, Ending> {
    let (data, run) = (args.output.join("data"), args.output.join("run"));
    // A mistake in the options is told before the scene is made.
    let options = options(args, data.clone());
    TrainConfig::resolve(&options, None).map_err(Failure::from)?;
    let is_same_scene = SceneNote::read(&data) == Some(SceneNote::of(args));
    let has_run = SavedRun::is_one(&run);
    let is_finished = has_run && read_finished(&run).map_err(Failure::from)?.is_some();
    let goes_on = !args.force && has_run && is_same_scene && !is_finished;
    // A link that leads nowhere is in the way as well.
    let has_data = data.symlink_metadata().is_ok();
    let is_in_the_way = has_run || (has_data && !is_same_scene);
    if !args.force && is_in_the_way && !goes_on {
        let found = if has_run { "run" } else { "data" };
        return Err(holds_a_demo(&args.output, found).into());
    }
    // Somebody's own pictures are not ours to replace.
    if args.force && has_data && !owned::is_ours(&data, PURPOSE) {
        return Err(not_a_demo(&data).into());
    }
    if args.force || !is_same_scene {
        make_scene(args, &data, console)?;
    }
    // Not before: half a scene is of no use, so there a signal simply ends the program.
    let interrupt = Interrupt::watch();
    let task = if goes_on {
        console.note(format!("going on with the run in {}", run.display()));
        Task::resume(run, &options)?
    } else {
        let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
        Task::new(options, run, overwrite)?
    };
    let job = Job { task, device: args.compute.device, profile: args.profile };
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

fn not_a_demo(data: &Path) -> Failure {
    let data = data.display();
    Failure::new(
        "exists",
        format!(
            "{data}: folder: is not of a demo (expected {MARKER} of a demo in it); choose another folder with -o, or remove it yourself"
        ),
    )
}

/// Writes the scene as a dataset, which appears as a whole. What an interrupted demo has left is made anew.
fn make_scene(args: &DemoArgs, data: &Path, console: &Console) -> Result<(), Failure> {
    console.note(format!("making the scene in {}", data.display()));
    let unfinished = args.output.join(".tmp-data");
    remove(&unfinished)?;
    owned::claim(&Disk, &unfinished, PURPOSE, Overwrite::Refuse).map_err(not_ours)?;
    let scene = gausset_scenes::demo(args.size, args.seed);
    let threads = args.compute.threads as usize;
    let pool = if threads == 0 { Pool::with_all_cores() } else { Pool::new(threads) };
    let mut reporter = Reporter::start(console, "picture", 0, scene.poses.len() as u64);
    let written =
        write_dataset(&scene, &unfinished, &pool, &mut |done, _all| reporter.at(done as u64, String::new));
    reporter.finish();
    written.map_err(|error| Failure::new("write", error))?;
    let note = serde_json::to_vec(&SceneNote::of(args)).unwrap_or_default();
    write_atomic(&Disk, &unfinished.join(NOTE), |file| file.write_all(&note))?;
    remove(data)?;
    Disk.rename(&unfinished, data).map_err(|error| write_failure(data, "rename", &error))?;
    Disk.sync_folder(&args.output).map_err(|error| write_failure(&args.output, "sync folder", &error))
}

/// Removes a folder that a demo has made, if it is there.
fn remove(folder: &Path) -> Result<(), Failure> {
    owned::remove(folder, PURPOSE).map_err(not_ours)
}

fn not_ours(error: OwnedError) -> Failure {
    match error {
        OwnedError::Write(error) => error.into(),
        // `--force` is no help here.
        OwnedError::NotOurs { path, .. } => not_a_demo(&path),
    }
}

fn write_failure(path: &Path, action: &str, error: &std::io::Error) -> Failure {
    let reason = gausset_io::atomic::plain_reason(error);
    Failure::new("write", format!("{}: {action}: {reason}", path.display()))
}
