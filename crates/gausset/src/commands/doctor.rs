//! `gausset doctor`: lists compute devices, checks them, and reports which one a training would use.

use std::path::PathBuf;

use clap::Args;
use gausset_flow::doctor::{Examined, Prospect, Question, examine};
use gausset_io::units;

use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;
use crate::listener::brief;
use crate::numbers::{counted, duration, grouped};
use crate::table::{self, Align};

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
pub(crate) fn run(args: &DoctorArgs, console: &Console) -> Result<Status, Ending> {
    let examined = brief(console, |host| examine(args.data.as_deref(), host))?;
    console.object_or(&examined, || text(&examined))?;
    Ok(Status::done(false))
}

fn text(examined: &Examined) -> Lines {
    let Examined { question, processor, training, adapters, chosen, reason, automatic, missing } = examined;
    let gpu = chosen.map_or_else(|| reason.clone(), |number| format!("number {number}: {reason}"));
    let mut out = table::facts(&[
        ("processor", processor.clone()),
        ("--device auto", automatic.clone()),
        ("--device gpu", gpu),
    ]);
    if !adapters.is_empty() {
        let header = [
            ("number", Align::Right),
            ("name", Align::Left),
            ("kind", Align::Left),
            ("interface", Align::Left),
            ("driver", Align::Left),
            ("memory", Align::Right),
            ("largest buffer", Align::Right),
            ("self-test", Align::Left),
        ];
        let row = |adapter: &gausset_flow::doctor::Adapter| {
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
                adapter.memory_bytes.map_or_else(|| "the machine's".to_owned(), units::bytes),
                units::bytes(adapter.buffer_bytes),
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
fn trainings<'a>(question: &Question, devices: impl Iterator<Item = (&'a str, &'a Prospect)>) -> Lines {
    let Question { pictures, largest: [width, height], steps, max_splats } = *question;
    let about = format!(
        "training on {} of up to {width}x{height} px: {} steps, up to {} splats, without dense initial points",
        counted(pictures as u64, "image"),
        grouped(steps),
        grouped(max_splats),
    );
    let header = [
        ("device", Align::Left),
        ("memory", Align::Right),
        ("of", Align::Right),
        ("its own", Align::Right),
        ("splats that fit", Align::Right),
        ("time", Align::Left),
    ];
    let row = |(name, prospect): (&str, &Prospect)| {
        let own =
            if prospect.device_memory == 0 { String::new() } else { units::bytes(prospect.device_memory) };
        let time = match (&prospect.fault, prospect.seconds) {
            (Some(fault), _) => fault.clone(),
            (None, Some(seconds)) => format!("about {}", duration(seconds)),
            (None, None) => "does not fit".to_owned(),
        };
        vec![
            name.to_owned(),
            units::bytes(prospect.memory),
            units::bytes(prospect.memory_limit),
            own,
            prospect.possible_splats.map_or_else(|| "none".to_owned(), grouped),
            time,
        ]
    };
    Lines::from(about) + table::columns(&header, &devices.map(row).collect::<Vec<_>>())
}
