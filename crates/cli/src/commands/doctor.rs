//! `gausset doctor`: lists what this machine has for Gausset: CPU, memory, disk, GPUs, which are checked, and outside
//! programs.

use std::path::PathBuf;

use clap::Args;
use gausset::doctor::{DoctorReport, EstimatedTraining, ExternalTool, TrainingEstimate, examine};
use gausset_io::text;

use crate::EarlyExit;
use crate::console::Console;
use crate::events::run_short_job;
use crate::exit::Status;
use crate::lines::Lines;
use crate::numbers::{counted, duration, grouped};
use crate::table::{self, ColumnAlign};

const AFTER_HELP: &str = "\
Examples:
  gausset doctor
  gausset doctor photos/        also estimates memory and time of a training on each device
  gausset doctor --json | jq .adapters[].fault
Each GPU runs a small training step whose results are compared with reference values.";

/// Arguments of `doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// Dataset for which memory and training time are estimated.
    #[arg(value_name = "DATA")]
    data: Option<PathBuf>,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs, console: &Console) -> Result<Status, EarlyExit> {
    let examined = run_short_job(console, |host| examine(args.data.as_deref(), host))?;
    console.json_or_text(&examined, || text(&examined))?;
    Ok(Status::done(false))
}

fn text(examined: &DoctorReport) -> Lines {
    let DoctorReport { question, processor, training, adapters, chosen, reason, automatic, missing, .. } =
        examined;
    let known = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), text::format_bytes);
    let gpu = chosen.map_or_else(|| reason.clone(), |number| format!("number {number}: {reason}"));
    let mut out = table::facts(&[
        ("CPU", processor.clone()),
        ("memory", known(examined.memory_bytes)),
        ("free disk", format!("{} in this folder", known(examined.free_disk_bytes))),
        ("--device auto", automatic.clone()),
        ("--device gpu", gpu),
    ]);
    if !adapters.is_empty() {
        let header = [
            ("number", ColumnAlign::Right),
            ("name", ColumnAlign::Left),
            ("kind", ColumnAlign::Left),
            ("interface", ColumnAlign::Left),
            ("driver", ColumnAlign::Left),
            ("memory", ColumnAlign::Right),
            ("largest buffer", ColumnAlign::Right),
            ("self-test", ColumnAlign::Left),
        ];
        let row = |adapter: &gausset::doctor::Adapter| {
            let name = match adapter.bus.as_str() {
                "" => adapter.name.clone(),
                bus => format!("{} ({bus})", adapter.name),
            };
            vec![
                adapter.number.to_string(),
                name,
                adapter.kind.to_owned(),
                adapter.backend.clone(),
                adapter.driver.clone(),
                adapter.memory_bytes.map_or_else(|| "the machine's".to_owned(), text::format_bytes),
                text::format_bytes(adapter.buffer_bytes),
                adapter.fault.clone().unwrap_or_else(|| "passed".to_owned()),
            ]
        };
        out += "";
        out += table::columns(&header, &adapters.iter().map(row).collect::<Vec<_>>());
    }
    for what in missing {
        out += format!("missing: {what}");
    }
    out += "";
    out += tools(&examined.tools);
    if let (Some(question), Some(on_cpu)) = (question, training) {
        let on_adapters =
            adapters.iter().filter_map(|adapter| Some((&*adapter.name, adapter.training.as_ref()?)));
        out += "";
        out += trainings(question, std::iter::once(("CPU", on_cpu)).chain(on_adapters));
    }
    out
}

/// Formats the outside programs: what was found, and how to install what was not.
fn tools(tools: &[ExternalTool]) -> Lines {
    let header = [
        ("program", ColumnAlign::Left),
        ("version", ColumnAlign::Left),
        ("needed by", ColumnAlign::Left),
        ("where", ColumnAlign::Left),
    ];
    let row = |tool: &ExternalTool| {
        let place = tool.path.as_ref().map(|path| path.display().to_string());
        vec![
            tool.name.to_owned(),
            tool.version.clone().unwrap_or_else(|| "missing".to_owned()),
            tool.needed_by.to_owned(),
            place.or_else(|| tool.fault.clone()).unwrap_or_default(),
        ]
    };
    table::columns(&header, &tools.iter().map(row).collect::<Vec<_>>())
}

/// Formats the memory and time that a training would need on each device.
fn trainings<'a>(
    question: &EstimatedTraining,
    devices: impl Iterator<Item = (&'a str, &'a TrainingEstimate)>,
) -> Lines {
    let EstimatedTraining { pictures, largest: [width, height], steps, max_splats } = *question;
    let about = format!(
        "training on {} of up to {width}x{height} px: {} steps, up to {} splats, without dense initial points",
        counted(pictures as u64, "image"),
        grouped(steps),
        grouped(max_splats),
    );
    let header = [
        ("device", ColumnAlign::Left),
        ("memory", ColumnAlign::Right),
        ("of", ColumnAlign::Right),
        ("its own", ColumnAlign::Right),
        ("splats that fit", ColumnAlign::Right),
        ("time", ColumnAlign::Left),
    ];
    let row = |(name, prospect): (&str, &TrainingEstimate)| {
        let own = if prospect.device_memory == 0 {
            String::new()
        } else {
            text::format_bytes(prospect.device_memory)
        };
        let time = match (&prospect.fault, prospect.seconds) {
            (Some(fault), _) => fault.clone(),
            (None, Some(seconds)) => format!("about {}", duration(seconds)),
            (None, None) => "does not fit".to_owned(),
        };
        vec![
            name.to_owned(),
            text::format_bytes(prospect.memory),
            text::format_bytes(prospect.memory_limit),
            own,
            prospect.possible_splats.map_or_else(|| "none".to_owned(), grouped),
            time,
        ]
    };
    Lines::from(about) + table::columns(&header, &devices.map(row).collect::<Vec<_>>())
}
