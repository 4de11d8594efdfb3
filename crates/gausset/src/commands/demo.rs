//! `gausset demo`: a scene made of formulas, trained and evaluated, to see that everything works.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset_flow::demo::{self, DemoOptions};
use gausset_flow::training::{self, Conditions};
use gausset_scenes::DemoSize;

use super::training::{RecordArgs, object, status};
use super::viewer::ViewerArgs;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::listener::{attend_watched, brief};
use crate::{Ending, describe};

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
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell where the time went: a table, DIR/run/profile.json and trace.json.
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    records: RecordArgs,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    viewer: ViewerArgs,
}

fn size(word: &str) -> DemoSize {
    if word == "small" { DemoSize::Small } else { DemoSize::Default }
}

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, console: &Console) -> Result<Status, Ending> {
    let options = DemoOptions {
        size: args.size,
        output: args.output.clone(),
        steps: args.steps,
        seed: args.seed,
        force: args.force,
        threads: args.compute.threads,
    };
    let task = brief(console, |host| demo::prepare(&options, host))?;
    // Not before: half a scene is of no use, so there a signal simply ends the program.
    let interrupt = Interrupt::watch();
    let conditions =
        args.records.over(Conditions { profile: args.profile, ..args.compute.device.conditions() });
    let mut viewer = args.viewer.start(&args.output, &interrupt, console)?;
    let trained =
        attend_watched(&interrupt, console, viewer.as_mut(), |host| training::train(task, conditions, host))?;
    let status = status(&trained, &interrupt, console);
    console.object_or(&object(&trained), || describe::trained(&trained))?;
    Ok(status)
}
