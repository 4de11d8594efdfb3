//! `gausset man`: manual pages, generated from the definition of the command line.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::Man;
use gausset::Failure;
use gausset_io::atomic::{Disk, FileSystem, WriteOptions, plain_reason, write_atomic_with};

use super::overwrite;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;
use crate::{EarlyExit, help_levels};

const AFTER_HELP: &str = "\
Examples:
  gausset man pano split | man -l -
  gausset man -o ~/.local/share/man/man1/";

/// Arguments of `man`.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ManArgs {
    /// Command whose page is printed, such as `pano split` [default: the page of gausset itself].
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write all pages, `gausset.1`, `gausset-train.1` and so on, to this folder instead.
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    output: Option<PathBuf>,
    /// Replace existing pages.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'], requires = "output")]
    force: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ManArgs, mut root: clap::Command, console: &Console) -> Result<Status, EarlyExit> {
    // Pages show the options of all levels; `help` has none, as its pages would repeat the others.
    root = without_help_command(help_levels::unfolded(root));
    root.build();
    match &args.output {
        Some(folder) => {
            Disk.create_folder(folder).map_err(|error| {
                Failure::new("write", format!("{}: folder: {}", folder.display(), plain_reason(&error)))
            })?;
            write_pages(folder, args.force, root, console)?;
        }
        None => print_page(&args.command, root, console)?,
    }
    Ok(Status::Done)
}

/// Prints the page of a command.
fn print_page(names: &[String], root: clap::Command, console: &Console) -> Result<(), EarlyExit> {
    let page = names.iter().try_fold(root, |command, name| {
        command.find_subcommand(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = visible(&command).map(clap::Command::get_name).collect();
            let known = if known.is_empty() { "no further command".to_owned() } else { known.join("|") };
            Failure::usage(format!("{name}: no such command (expected {known})"))
        })
    })?;
    let mut text = Vec::new();
    Man::new(page)
        .render(&mut text)
        .map_err(|error| Failure::new("write", format!("manual page: {}", plain_reason(&error))))?;
    console.result(Lines::from_text(&String::from_utf8_lossy(&text)))
}

/// Writes the pages of a command and of all commands below it.
fn write_pages(
    folder: &Path,
    force: bool,
    command: clap::Command,
    console: &Console,
) -> Result<(), EarlyExit> {
    for inner in visible(&command).cloned() {
        write_pages(folder, force, inner, console)?;
    }
    // After `build`, sub-commands have their full name: `gausset-train`.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = folder.join(format!("{name}.1"));
    let man = Man::new(command);
    let options = WriteOptions { overwrite: overwrite(force), ..WriteOptions::default() };
    write_atomic_with(&Disk, &path, &options, |mut file| man.render(&mut file)).map_err(Failure::from)?;
    console.note(path.display().to_string());
    Ok(())
}

/// The command and those below it without the sub-command `help`.
fn without_help_command(command: clap::Command) -> clap::Command {
    help_levels::for_sub_commands(command, without_help_command).disable_help_subcommand(true)
}

/// The sub-commands that help lists.
fn visible(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}
