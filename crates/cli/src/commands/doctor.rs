//! `gausset doctor`: lists compute devices, checks them, and reports which one a training would use.

use std::path::PathBuf;

use clap::Args;
use gausset::doctor::{DoctorReport, EstimatedTraining, TrainingEstimate, examine};
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
    let DoctorReport { question, processor, training, adapters, chosen, reason, automatic, missing } =
        examined;
    let gpu = chosen.map_or_else(|| reason.clone(), |number| format!("number {number}: {reason}"));
    let mut out = table::facts(&[
        ("processor", processor.clone()),
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
    if let (Some(question), Some(on_cpu)) = (question, training) {
        let on_adapters =
            adapters.iter().filter_map(|adapter| Some((&*adapter.name, adapter.training.as_ref()?)));
        out += "";
        out += trainings(question, std::iter::once(("processor", on_cpu)).chain(on_adapters));
    }
    out
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
