//! `gausset doctor`: what there is to compute with, which of it would be taken, and what is wrong with it.

use clap::Args;
use gausset_flow::doctor::{Examined, examine};
use gausset_io::units;

use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::table::{self, Align};

const AFTER_HELP: &str = "\
Examples:
  gausset doctor
  gausset doctor --json | jq .adapters[].fault
Each GPU does a small training step, whose results are compared with stored ones.";

/// Arguments of `doctor`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
pub(crate) fn run(_args: &DoctorArgs, console: &Console) -> Result<Status, Ending> {
    let examined = examine();
    console.object_or(&examined, || text(&examined))?;
    Ok(Status::done(false))
}

fn text(examined: &Examined) -> String {
    let Examined { processor, adapters, chosen, reason, missing } = examined;
    let gpu = chosen.map_or_else(|| reason.clone(), |number| format!("number {number}: {reason}"));
    let mut out =
        table::facts(&[("processor", format!("{processor} (--device auto and cpu)")), ("--device gpu", gpu)]);
    if !adapters.is_empty() {
        let header = [
            ("number", Align::Right),
            ("name", Align::Left),
            ("kind", Align::Left),
            ("interface", Align::Left),
            ("driver", Align::Left),
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
                units::bytes(adapter.buffer_bytes),
                adapter.fault.clone().unwrap_or_else(|| "passed".to_owned()),
            ]
        };
        out += "\n";
        out += &table::columns(&header, &adapters.iter().map(row).collect::<Vec<_>>());
    }
    for what in missing {
        out += &format!("missing: {what}\n");
    }
    out
}
