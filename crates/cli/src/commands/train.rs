//! `gausset train`: starts a training run or resumes one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use gausset::Failure;
use gausset::Stage;
use gausset::blocks;
use gausset::training::{self, RunSettings, Task, Trainer};
use gausset_io::text::shell_quote;
use gausset_train::TrainOptions;
use serde_json::json;

use super::overwrite;
use super::recognised::failure_of_other_data;
use super::training::{RunOutputArgs, interrupted_status, summary_json, training_status};
use super::viewer::ViewerArgs;
use crate::console::Console;
use crate::device::DeviceArgs;
use crate::event_log;
use crate::events::{run_job, run_job_with_viewer};
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::options::{OptionArgs, TrainCommand};
use crate::{EarlyExit, describe, table};

const AFTER_HELP: &str = "\
Examples:
  gausset train photos/ -o run/            photos/ holds images/ and sparse/0/, or transforms.json
  gausset train photos/ -o run/ --steps 30000 --max-splats 500000
  gausset train --resume run/              resume after Ctrl-C, a crash or a power failure
  gausset train --config run/config.toml -o again/       repeat a run, with identical bytes
Ctrl-C saves a checkpoint and stops; a second Ctrl-C stops immediately.";

/// Arguments that have no effect on a part of a run in blocks.
const OF_WHOLE_RUNS: [&str; 7] =
    ["profile", "viewer", "viewer_share", "viewer_linger", "listen", "allow_host", "allow_frame"];

const SHORT_HELP: &str =
    "gausset train photos/ -o run/      photos/ holds images/ and sparse/0/, or transforms.json";

/// Arguments of `train`.
#[derive(Clone, Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = AFTER_HELP)]
pub(crate) struct TrainArgs {
    /// Dataset: folder with a COLMAP model or transforms.json, or the JSON file itself.
    #[arg(value_name = "DATA")]
    data: Option<PathBuf>,
    /// Output folder of the run [default: runs/NAME, where NAME is that of DATA].
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Resume a run; the result is the same as without interruption.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["output", "force", "config"])]
    resume: Option<PathBuf>,
    /// TOML file of options (`name = value`); the command line overrides it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Replace an existing run in RUN.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Stop a run in blocks after this: division. Its blocks can then be trained on several machines.
    #[arg(
        long, value_name = "PART", hide_possible_values = true, conflicts_with_all = OF_WHOLE_RUNS,
        value_parser = PossibleValuesParser::new(["division"])
    )]
    until: Option<String>,
    /// Train only this block of a divided run; RUN/blocks/commands.txt lists the commands of all blocks.
    #[arg(long, value_name = "N", conflicts_with = "until", conflicts_with_all = OF_WHOLE_RUNS)]
    block: Option<u32>,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Profile the run: print a table, write RUN/profile.json and RUN/trace.json.
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    records: RunOutputArgs,
    #[command(flatten)]
    options: OptionArgs<TrainCommand>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    viewer: ViewerArgs,
}

/// Translates the arguments into a task. Only the config file is read.
fn task_from_args(args: TrainArgs) -> Result<Task, Failure> {
    let given = TrainOptions { data: args.data, ..args.options.into_options() };
    if let Some(run) = args.resume {
        return Task::resume(run, &given);
    }
    let file = args.config.as_deref().map(TrainOptions::read).transpose()?;
    if given.data.is_none() && file.as_ref().is_none_or(|file| file.data.is_none()) {
        return Err(Failure::usage(
            "DATA: not given (expected the folder of a dataset, or --resume RUN); see --help",
        ));
    }
    let given = given.layered_over(file.unwrap_or_default());
    let output = match args.output {
        Some(output) => output,
        None if args.force => {
            let line = "--force: the run to replace is not given (expected -o RUN); see --help";
            return Err(Failure::usage(line));
        }
        None => default_run_folder(given.data.as_deref()),
    };
    Task::new(given, output, overwrite(args.force))
}

/// The default run folder: `runs/NAME` with the name of the dataset, or the first of `runs/NAME-2`, `runs/NAME-3`, …
/// that does not exist.
fn default_run_folder(data: Option<&Path>) -> PathBuf {
    let whole = data.map(|data| std::path::absolute(data).unwrap_or_else(|_| data.to_owned()));
    let folder = whole.as_deref().map(|data| match data.extension() {
        Some(end) if end.eq_ignore_ascii_case("json") => data.parent().unwrap_or(data),
        _ => data,
    });
    let name = folder.and_then(Path::file_name).map_or_else(|| "run".into(), OsStr::to_os_string);
    let numbered = |number: usize| {
        let mut name = name.clone();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        Path::new("runs").join(name)
    };
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err();
    (1..).map(numbered).find(is_free).unwrap_or_else(|| numbered(1))
}

/// Runs the command.
pub(crate) fn run(args: TrainArgs, console: &Console) -> Result<Status, EarlyExit> {
    let conditions =
        args.records.apply_to(RunSettings { profile: args.profile, ..args.device.conditions() }, console)?;
    let viewer = args.viewer.clone();
    let (is_named, data) = (args.output.is_some() || args.resume.is_some(), args.data.clone());
    if args.block.is_some() && args.resume.is_none() {
        return Err(Failure::usage("--block: needs the run (expected --resume RUN); see --help").into());
    }
    let interrupt = Interrupt::watch();
    if let (Some(block), Some(run)) = (args.block, &args.resume) {
        let given = TrainOptions { data: args.data, ..args.options.into_options() };
        let trained =
            run_job(&interrupt, console, |host| blocks::train_block(run, block, &given, conditions, host))?;
        let status = training_status(&trained, &interrupt, console);
        console
            .json_or_summary(&summary_json(&trained), || describe::trained(&trained, console.is_verbose()))?;
        return Ok(status);
    }
    let is_until_division = args.until.is_some();
    let task = task_from_args(args)?;
    if is_until_division {
        let run = task.folder().to_owned();
        let divided = run_job(&interrupt, console, |host| blocks::divide(task, conditions, host))?;
        let Some(count) = divided else {
            console.log_event(|| Some(event_log::stopped_line()));
            return Ok(interrupted_status(&interrupt));
        };
        let [commands, map] =
            ["commands.txt", "map.png"].map(|file| run.join("blocks").join(file).display().to_string());
        let result = json!({ "blocks": count, "commands": commands, "map": map });
        console.log_event(|| Some(event_log::result_line(&result)));
        console.json_or_summary(&result, || {
            let finish = format!("gausset train --resume {}", shell_quote(&run));
            table::facts(&[("blocks", commands.clone()), ("map", map.clone()), ("then", finish)])
        })?;
        return Ok(Status::Done);
    }
    let mut viewer = viewer.start(task.folder(), &interrupt, console)?;
    let trained = run_job_with_viewer(&interrupt, console, viewer.as_mut(), |host| {
        let folder = task.folder().to_owned();
        if task.is_in_blocks()? {
            if !is_named {
                host.stage(Stage::RunFolderChosen(folder));
            }
            return training::train(task, conditions, host)
                .map_err(|failure| failure_of_other_data(failure, data.as_deref()));
        }
        let trainer = Trainer::new(task, conditions, host);
        if trainer.is_ok() && !is_named {
            host.stage(Stage::RunFolderChosen(folder.clone()));
        }
        training::finish(folder, trainer, host)
            .map_err(|failure| failure_of_other_data(failure, data.as_deref()))
    })?;
    let status = training_status(&trained, &interrupt, console);
    console.json_or_summary(&summary_json(&trained), || describe::trained(&trained, console.is_verbose()))?;
    Ok(status)
}
