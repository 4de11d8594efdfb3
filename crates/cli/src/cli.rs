//! The definition of the command line: commands, arguments and help texts.
//!
//! Training options are only collected here ([`crate::options`]). `gausset_train::TrainConfig::resolve` resolves them:
//! defaults < config file < command line. The defaults in the help texts come from the same table.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use gausset::Failure;
use gausset_io::input_files::InputFiles;

use crate::EarlyExit;
use crate::commands::Command;
use crate::console::Verbosity;
use crate::{help_levels, usage};

/// Colours of the help text on a terminal.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Maximum width of a line of help, in columns.
const HELP_WIDTH: usize = 100;

const AFTER_HELP: &str = "\
Examples:
  gausset demo                            generate a scene, train on it and evaluate
  gausset train photos/ -o run/           train on a COLMAP or transforms.json dataset
  gausset view run/                       view the run in a browser
  gausset render run/ --orbit 120 -o frames/
Exit codes: 0 done, 1 done but some inputs were skipped, 2 refused or failed,
            130 and 143 interrupted (a checkpoint was saved)";

/// 3D Gaussian splatting on CPU or GPU: train, evaluate, render and view splats from photographs.
#[derive(Debug, Parser)]
#[command(
    name = "gausset", version, long_version = crate::VERSION, propagate_version = true,
    styles = STYLES, max_term_width = HELP_WIDTH, after_help = AFTER_HELP,
    arg_required_else_help = true, subcommand_required = true
)]
pub(crate) struct Cli {
    /// Print warnings and errors only.
    #[arg(short, long, global = true, conflicts_with = "verbose", display_order = 1000)]
    quiet: bool,
    /// Print debug output; twice for trace output.
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

/// The definition of the command line, for the parser, shell completions and manual pages.
pub(crate) fn definition() -> clap::Command {
    let with_short_texts = |train: clap::Command| {
        train.mut_arg("viewer", |arg| {
            let whole = arg.get_help().cloned().unwrap_or_default();
            arg.help("Show the training in a browser while it runs").long_help(whole)
        })
    };
    help_levels::with_levels(with_negative_numbers(Cli::command().mut_subcommand("train", with_short_texts)))
}

/// Lets the options of a command and its sub-commands take negative numbers as values. Their ranges may then refuse
/// `-5`, which gives a better message than "no such option".
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let command = command.allow_negative_numbers(true);
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_negative_numbers))
}

/// Arguments that name files to write.
const OUTPUT_ARGUMENTS: [&str; 7] = ["output", "sheet", "csv", "profile", "keep", "events", "sky_image"];
/// Arguments whose folders may be written to. Their jobs know which files of the folder they read.
const READ_WRITE_ARGUMENTS: [&str; 7] = ["data", "folder", "input", "photos", "resume", "run", "views_of"];

/// Registers the files that the arguments of a command read, including files directly in folders, so that they are not
/// overwritten. An argument counts as read unless it is listed in [`OUTPUT_ARGUMENTS`] or [`READ_WRITE_ARGUMENTS`].
fn files_read(definition: &clap::Command, matches: &ArgMatches) -> InputFiles {
    let (mut definition, mut matches) = (definition, matches);
    while let Some((name, inner)) = matches.subcommand()
        && let Some(command) = definition.find_subcommand(name)
    {
        (definition, matches) = (command, inner);
    }
    let arguments =
        definition.get_arguments().filter(|argument| !OUTPUT_ARGUMENTS.contains(&argument.get_id().as_str()));
    let read = arguments.flat_map(|argument| {
        let id = argument.get_id().as_str();
        // A word such as a format name may also be the name of a folder; only paths hold folders.
        let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        let holds_folders = is_path && !READ_WRITE_ARGUMENTS.contains(&id);
        let values = matches.try_get_raw(id).ok().flatten().into_iter().flatten().map(PathBuf::from);
        values.filter(move |path| path.is_file() || holds_folders)
    });
    InputFiles::new(read)
}

/// Parses arguments, the program's name first. Also returns the files that the command will read.
///
/// # Errors
/// `--help` or `--version` was given; an argument is wrong (one line).
pub(crate) fn parse(arguments: &[OsString]) -> Result<(Cli, InputFiles), EarlyExit> {
    let (mut definition, arguments) = help_levels::unfold(definition(), arguments);
    let matches = definition.try_get_matches_from_mut(&arguments);
    let parsed =
        matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, files_read(&definition, &matches))));
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => EarlyExit::Help(error.render()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => EarlyExit::Usage(error.render()),
        _ => Failure::usage(usage::format_error(&error, find_command(&definition, &arguments))).into(),
    })
}

/// The sub-command that the arguments name, or the deepest one that is recognised.
fn find_command<'a>(definition: &'a clap::Command, arguments: &[OsString]) -> &'a clap::Command {
    arguments.iter().skip(1).fold(definition, |command, argument| {
        argument.to_str().and_then(|name| command.find_subcommand(name)).unwrap_or(command)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        definition().debug_assert();
    }

    #[test]
    fn files_to_write_are_no_inputs() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
                let is_written =
                    is_path && ["Output", "Write", "Also write"].iter().any(|word| help.starts_with(word));
                let id = argument.get_id().as_str();
                assert!(!is_written || OUTPUT_ARGUMENTS.contains(&id), "{}: {id}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&definition());
    }
}
