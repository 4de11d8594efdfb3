//! `gausset profile`: prints and compares the profiles that `--profile` writes.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gausset::Failure;
use gausset::saved_run::SavedRun;
use gausset_io::input;
use gausset_io::run_folder::profile_path;
use gausset_prof::{Profile, changes};
use serde_json::json;

use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;
use crate::profiling;

/// Maximum size of a profile in bytes. Real profiles have some tens of kilobytes.
const MAX_PROFILE_BYTES: u64 = 16 << 20;

const AFTER_HELP: &str = "\
Examples:
  gausset train photos/ -o run/ --profile      record a profile; also bench train --profile DIR
  gausset profile show run/                    time per stage, largest stages, floors
  gausset profile diff before/ after/          change per stage, with its uncertainty
RUN/trace.json opens in https://ui.perfetto.dev; RUN/profile.csv in a spreadsheet.";

/// Arguments of `profile`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

/// The sub-commands of `profile`.
#[derive(Clone, Debug, Subcommand)]
enum ProfileCommand {
    /// Show where a run spent its time.
    Show {
        /// Run folder or profile.json.
        #[arg(value_name = "RUN")]
        run: PathBuf,
        /// Print the profile as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Compare the stages of two runs and test whether they differ significantly.
    Diff {
        /// Run folder or profile.json, before the change.
        #[arg(value_name = "A")]
        before: PathBuf,
        /// Run folder or profile.json, after the change.
        #[arg(value_name = "B")]
        after: PathBuf,
        /// Print the differences as a JSON object.
        #[arg(long)]
        json: bool,
    },
}

impl ProfileArgs {
    /// Whether the result is printed as a JSON object.
    pub(crate) fn is_json(&self) -> bool {
        match self.command {
            ProfileCommand::Show { json, .. } | ProfileCommand::Diff { json, .. } => json,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &ProfileArgs, console: &Console) -> Result<Status, EarlyExit> {
    match &args.command {
        ProfileCommand::Show { run, .. } => {
            let profile = read(run)?;
            console.json_or_text(&profile, || profiling::report(&profile))?;
        }
        ProfileCommand::Diff { before, after, .. } => {
            let (before, after) = (read(before)?, read(after)?);
            let changes: Vec<_> = changes(&before, &after)
                .iter()
                .map(|change| {
                    json!({
                        "path": change.path,
                        "before_ms": change.before_ms,
                        "after_ms": change.after_ms,
                        "error_ms": change.error_ms,
                        "verdict": format!("{:?}", change.kind).to_lowercase(),
                    })
                })
                .collect();
            let object = json!({
                "wall_ms": { "before": before.wall_ms, "after": after.wall_ms },
                "changes": changes,
            });
            console.json_or_text(&object, || Lines::from_text(&before.difference_table(&after)))?;
        }
    }
    Ok(Status::Done)
}

/// Reads the profile of a run folder, or a profile file.
fn read(path: &Path) -> Result<Profile, Failure> {
    let file = if path.is_dir() { profile_path(&SavedRun::folder_at(path)) } else { path.to_owned() };
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
        failure(format!("line {}: {what} (expected a file written by --profile)", error.line()))
    })?;
    Ok(profile)
}
