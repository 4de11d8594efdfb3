//! `gausset report`: writes the report of a run as one HTML page.

use std::path::PathBuf;

use clap::Args;
use gausset::report::{ReportOptions, write_report};
use gausset_io::text;
use serde_json::json;

use super::overwrite;
use crate::EarlyExit;
use crate::console::Console;
use crate::events::run_short_job;
use crate::exit::Status;

const AFTER_HELP: &str = "\
Examples:
  gausset report run/                      update run/report.html
  gausset report run/ -o kitchen.html --splats   with an embedded viewer of the splats
The page is one self-contained file: scores, curves, images (worst first) and settings. Each
training writes one at its end.";

/// Arguments of `report`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReportArgs {
    /// Run folder.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Output page [default: RUN/report.html].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Embed the splats with a viewer, as `gausset convert RUN scene.html` does.
    #[arg(long)]
    splats: bool,
    /// Folder of the photographs, whose cameras that viewer has [default: the path recorded by the run].
    #[arg(long, value_name = "DIR", requires = "splats")]
    images: Option<PathBuf>,
    /// Replace FILE even if it is not a report of Gausset.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ReportArgs, console: &Console) -> Result<Status, EarlyExit> {
    let options = ReportOptions {
        run: args.run.clone(),
        output: args.output.clone(),
        splats: args.splats,
        images: args.images.clone(),
        overwrite: overwrite(args.force),
    };
    let written = run_short_job(console, |host| write_report(&options, host))?;
    let (path, bytes) = (&written.path, written.bytes);
    if args.json {
        console.json_or_text(&json!({"kind": "report", "path": path, "bytes": bytes}), String::new)?;
    } else {
        console.note(format!("{}: {}", path.display(), text::format_bytes(bytes)));
    }
    Ok(Status::Done)
}
