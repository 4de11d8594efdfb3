//! `gausset demo`: generates a procedural scene, trains on it and evaluates the result.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gausset::Failure;
use gausset::demo::{self, DemoOptions, DemoScene};
use gausset::training::RunSettings;
use gausset_scenes::{DemoSize, town::PICTURES};

use super::training::{RunOutputArgs, summary_json, training_status};
use super::viewer::ViewerArgs;
use crate::console::Console;
use crate::device::ComputeArgs;
use crate::event_log;
use crate::events::{run_job_with_viewer, run_short_job};
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::{EarlyExit, describe};

const AFTER_HELP: &str = "\
Examples:
  gausset demo                      takes a few minutes on two cores; see gausset-demo/run/eval/
  gausset demo --size small -o d/   takes a few seconds, as a quick check
  gausset demo --pictures 1000      a larger set, with GPS: a town from the air and on foot
The scene is written as a COLMAP dataset to DIR/data, the run to DIR/run.";

/// Arguments of `demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArgs {
    /// Scene: table or town [default: table, with --pictures town].
    #[arg(
        long, value_name = "SCENE", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["table", "town"])
    )]
    scene: Option<String>,
    /// Pictures of the town, 40 to 10000 [default: 400].
    #[arg(
        long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(i64::from(*PICTURES.start())..=i64::from(*PICTURES.end()))
    )]
    pictures: Option<u32>,
    /// Size: small (60 images of 160x120 px, town 200x150) or default (72 of 480x360, town 400x300).
    #[arg(
        long, value_name = "SIZE", default_value = "default", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["small", "default"]).map(|word| size(&word))
    )]
    size: DemoSize,
    /// Output folder for scene and run.
    #[arg(short, long, value_name = "DIR", default_value = "gausset-demo")]
    output: PathBuf,
    /// Training steps; 0 = only write the dataset [default: 4000, small: 300; town: by pictures].
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

/// The scene: `--pictures` alone means the town.
fn scene(args: &DemoArgs) -> Result<DemoScene, Failure> {
    match (args.scene.as_deref(), args.pictures) {
        (Some("table"), Some(_)) => Err(Failure::new(
            "option",
            "⟨pictures⟩: only the town has a choice (expected ⟨scene = town⟩, found table)",
        )),
        (Some("town"), None) => Ok(DemoScene::Town(USUAL_PICTURES)),
        (_, Some(pictures)) => Ok(DemoScene::Town(pictures)),
        _ => Ok(DemoScene::Table),
    }
}

/// Pictures of the town without `--pictures`.
const USUAL_PICTURES: u32 = 400;

/// Runs the command.
pub(crate) fn run(args: &DemoArgs, console: &Console) -> Result<Status, EarlyExit> {
    let options = DemoOptions {
        scene: scene(args)?,
        size: args.size,
        output: args.output.clone(),
        steps: args.steps,
        seed: args.seed,
        force: args.force,
        threads: args.compute.threads,
    };
    let conditions = args
        .records
        .apply_to(RunSettings { profile: args.profile, ..args.compute.device.conditions() }, console)?;
    let Some(run) = run_short_job(console, |host| demo::prepare(&options, host))? else {
        let data = args.output.join("data").display().to_string();
        let result = serde_json::json!({ "kind": "dataset", "data": data });
        console.log_event(|| Some(event_log::result_line(&result)));
        console.json_or_summary(&result, || data.clone())?;
        return Ok(Status::done(false));
    };
    // Signals are only handled from here: a partly generated scene is useless, so during generation a signal ends the
    // program.
    let interrupt = Interrupt::watch();
    let mut viewer = args.viewer.start(&args.output, &interrupt, console)?;
    let trained =
        run_job_with_viewer(&interrupt, console, viewer.as_mut(), |host| run.train(conditions, host))?;
    let status = training_status(&trained, &interrupt, console);
    console.json_or_summary(&summary_json(&trained), || describe::trained(&trained, console.is_verbose()))?;
    Ok(status)
}
