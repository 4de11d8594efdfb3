//! The command line as it is typed: commands, their arguments, help texts.
//!
//! Nothing is decided here. Options of training are only collected ([`crate::options`]); they are resolved in one
//! place, `gausset_train::TrainConfig::resolve`: defaults < config file < command line. The defaults in the help
//! texts come from the same table.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use gausset_flow::Failure;
use gausset_io::reading::Reading;

use crate::Ending;
use crate::commands::Command;
use crate::console::Verbosity;
use crate::usage;

/// Colours of the help on a terminal.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Widest line of a help text.
const HELP_WIDTH: usize = 100;

const AFTER_HELP: &str = "\
Examples:
  gausset demo                            make a scene, train on it, show how good it is
  gausset train photos/ -o run/           train on a COLMAP or transforms.json dataset
  gausset view run/                       look at it in a browser
  gausset render run/ --orbit 120 -o frames/
Exit codes: 0 done, 1 done but some inputs were skipped, 2 refused or failed,
            130 and 143 interrupted (a checkpoint was saved)";

/// Gaussian splatting on the machine you have: photographs in, a splat out.
#[derive(Debug, Parser)]
#[command(
    name = "gausset", version, styles = STYLES, max_term_width = HELP_WIDTH, after_help = AFTER_HELP,
    propagate_version = true, arg_required_else_help = true, subcommand_required = true
)]
pub(crate) struct Cli {
    /// Say only what goes wrong.
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 1000)]
    quiet: bool,
    /// Say more; twice for details.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 1000)]
    verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, 1) => Verbosity::Verbose,
            (false, _) => Verbosity::Debug,
        }
    }
}

/// Arguments of `train` that stand in `--help` alone, as the details in the table of options do.
const DETAILS_OF_TRAIN: [&str; 9] = [
    "max_gpu_memory",
    "profile",
    "log",
    "no_report",
    "simd",
    "viewer_share",
    "viewer_linger",
    "listen",
    "allow_host",
];

/// The definition of the command line: for parsing, completions, manual.
pub(crate) fn definition() -> clap::Command {
    let later = |train: clap::Command| {
        DETAILS_OF_TRAIN
            .iter()
            .fold(train, |train, name| train.mut_arg(name, |arg| arg.hide_short_help(true)))
            .mut_arg("viewer", |arg| {
                let whole = arg.get_help().cloned().unwrap_or_default();
                arg.help("Show the training in a browser while it goes on").long_help(whole)
            })
    };
    with_negative_numbers(Cli::command().mut_subcommand("train", later))
}

/// A command whose options take `-5` for a value, which they may then refuse by its range: it is no option of that name.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let command = command.allow_negative_numbers(true);
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_negative_numbers))
}

/// Arguments whose files are written.
const WRITTEN: [&str; 5] = ["output", "sheet", "csv", "profile", "keep"];
/// Arguments whose folders may be written to as well: their jobs know which files in them they read.
const WRITTEN_TO: [&str; 7] = ["data", "folder", "input", "photos", "resume", "run", "views_of"];

/// Holds the files that the arguments of a command name, and those directly in folders: they are read, whatever a new
/// argument is called that is not one of the two kinds above.
fn read_by(definition: &clap::Command, matches: &ArgMatches) -> Reading {
    let (mut definition, mut matches) = (definition, matches);
    while let Some((name, inner)) = matches.subcommand()
        && let Some(command) = definition.find_subcommand(name)
    {
        (definition, matches) = (command, inner);
    }
    let arguments =
        definition.get_arguments().filter(|argument| !WRITTEN.contains(&argument.get_id().as_str()));
    let read = arguments.flat_map(|argument| {
        let id = argument.get_id().as_str();
        // A word such as the name of a format may be that of a folder by chance.
        let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        let holds_folders = is_path && !WRITTEN_TO.contains(&id);
        let values = matches.try_get_raw(id).ok().flatten().into_iter().flatten().map(PathBuf::from);
        values.filter(move |path| path.is_file() || holds_folders)
    });
    Reading::of(read)
}

/// Parses arguments, the program's name first. With them comes what they say will be read.
///
/// # Errors
/// Help or the version was asked for; a mistake, as one line.
pub(crate) fn parse(arguments: &[OsString]) -> Result<(Cli, Reading), Ending> {
    let mut definition = definition();
    let matches = definition.try_get_matches_from_mut(arguments);
    let parsed =
        matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, read_by(&definition, &matches))));
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ending::Help(error.render()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Ending::Usage(error.render()),
        _ => Failure::usage(usage::line(&error, called(&definition, arguments))).into(),
    })
}

/// The command that arguments call, as far as they name one.
fn called<'a>(definition: &'a clap::Command, arguments: &[OsString]) -> &'a clap::Command {
    arguments.iter().skip(1).fold(definition, |command, argument| {
        argument.to_str().and_then(|name| command.find_subcommand(name)).unwrap_or(command)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::definition().debug_assert();
    }
}
