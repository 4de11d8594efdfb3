//! `gausset profile`: reads the profiles that `--profile` has left: where the time went, and what changed.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gausset_flow::Failure;
use gausset_io::input;
use gausset_io::run_folder::profile_path;
use gausset_prof::{Profile, changes};
use serde_json::json;

use crate::Ending;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;
use crate::profiling;

/// Largest profile that is read; real ones have some tens of kilobytes.
const MAX_PROFILE_BYTES: u64 = 16 << 20;

const AFTER_HELP: &str = "\
Examples:
  gausset train photos/ -o run/ --profile      records; also bench train --profile DIR
  gausset profile show run/                    tables, the five largest, time budget, floors
  gausset profile diff before/ after/          which stage changed, and by how much it varies
RUN/trace.json opens in https://ui.perfetto.dev; RUN/profile.csv in a spreadsheet.";

/// Arguments of `profile`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    what: What,
}

/// What is to be shown.
#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Where the time of a run went.
    Show {
        /// Folder of a run, or its profile.json.
        #[arg(value_name = "RUN")]
        run: PathBuf,
        /// Print the profile as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Which stages take longer or shorter in B than in A, and whether that is more than chance.
    Diff {
        /// Folder of a run, or its profile.json.
        #[arg(value_name = "A")]
        before: PathBuf,
        /// Folder of another run, or its profile.json.
        #[arg(value_name = "B")]
        after: PathBuf,
        /// Print the differences as a JSON object.
        #[arg(long)]
        json: bool,
    },
}

impl ProfileArgs {
    /// Whether the result is to be a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match self.what {
            What::Show { json, .. } | What::Diff { json, .. } => json,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &ProfileArgs, console: &Console) -> Result<Status, Ending> {
    match &args.what {
        What::Show { run, .. } => {
            let profile = read(run)?;
            console.object_or(&profile, || profiling::report(&profile))?;
        }
        What::Diff { before, after, .. } => {
            let (before, after) = (read(before)?, read(after)?);
            let changes: Vec<_> = changes(&before, &after)
                .iter()
                .map(|change| {
                    json!({
                        "path": change.path,
                        "before_ms": change.before_ms,
                        "after_ms": change.after_ms,
                        "error_ms": change.error_ms,
                        "verdict": format!("{:?}", change.verdict).to_lowercase(),
                    })
                })
                .collect();
            let object = json!({
                "wall_ms": { "before": before.wall_ms, "after": after.wall_ms },
                "changes": changes,
            });
            console.object_or(&object, || Lines::laid_out(&before.difference_table(&after)))?;
        }
    }
    Ok(Status::Done)
}

/// Reads the profile of a run folder, or the file itself.
fn read(path: &Path) -> Result<Profile, Failure> {
    let file = if path.is_dir() { profile_path(path) } else { path.to_owned() };
    let failure = |what: String| Failure::new("profile", format!("{}: {what}", file.display()));
    let io = |error: std::io::Error| {
        let hint =
            if error.kind() == std::io::ErrorKind::NotFound { "; record one with --profile" } else { "" };
        failure(format!("read: {}{hint}", gausset_io::atomic::plain_reason(&error)))
    };
    let text = input::read(&file, MAX_PROFILE_BYTES).map_err(io)?;
    let profile = Profile::from_json(&text).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default().to_owned();
        failure(format!("line {}: {what} (expected what --profile writes)", error.line()))
    })?;
    Ok(profile)
}
