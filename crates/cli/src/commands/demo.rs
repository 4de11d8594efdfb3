//! `gausset demo`: generates a procedural scene, trains on it and evaluates the result.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::demo::{self, DemoOptions};
use gausset::training::{self, RunSettings};
use gausset_scenes::DemoSize;

use super::training::{RunOutputArgs, summary_json, training_status};
use super::viewer::ViewerArgs;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::events::{run_job_with_viewer, run_short_job};
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::{EarlyExit, describe};

const AFTER_HELP: &str = "\
Examples:
  gausset demo                      takes a few minutes on two cores; see gausset-demo/run/eval/
  gausset demo --size small -o d/   takes a few seconds, as a quick check
The scene is written as a COLMAP dataset to DIR/data, the run to DIR/run.";

/// Arguments of `demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArgs {
    /// Size: small (60 images of 160x120 px) or default (72 images of 480x360 px).
    #[arg(
        long, value_name = "SIZE", default_value = "default", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["small", "default"]).map(|word| size(&word))
    )]
    size: DemoSize,
    /// Output folder for scene and run.
    #[arg(short, long, value_name = "DIR", default_value = "gausset-demo")]
    output: PathBuf,
    /// Training steps [default: 4000, small: 300].
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Random seed of the scene and of the training.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Replace an existing demo in DIR.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Profile the run: print a table, write DIR/run/profile.json and trace.json.
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    records: RunOutputArgs,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    viewer: ViewerArgs,
}

fn size(word: &str) -> DemoSize {
    if word == "small" { DemoSize::Small } else { DemoSize::Default }
}

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, console: &Console) -> Result<Status, EarlyExit> {
    let options = DemoOptions {
        size: args.size,
        output: args.output.clone(),
        steps: args.steps,
        seed: args.seed,
        force: args.force,
        threads: args.compute.threads,
    };
    let task = run_short_job(console, |host| demo::prepare(&options, host))?;
    // Signals are only handled from here: a partly generated scene is useless, so during generation a signal ends the
    // program.
    let interrupt = Interrupt::watch();
    let conditions =
        args.records.apply_to(RunSettings { profile: args.profile, ..args.compute.device.conditions() });
    let mut viewer = args.viewer.start(&args.output, &interrupt, console)?;
    let trained = run_job_with_viewer(&interrupt, console, viewer.as_mut(), |host| {
        training::train(task, conditions, host)
    })?;
    let status = training_status(&trained, &interrupt, console);
    console.json_or_summary(&summary_json(&trained), || describe::trained(&trained, console.is_verbose()))?;
    Ok(status)
}
