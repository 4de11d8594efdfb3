//! `gausset man`: manual pages, generated from the definition of the command line.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_mangen::Man;
use gausset::Failure;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteOptions, plain_reason, write_atomic_with};

use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;

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
    root.build();
    match &args.output {
        Some(folder) => write_pages(folder, args.force, &root, console)?,
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

/// Writes the pages of all commands.
fn write_pages(folder: &Path, force: bool, root: &clap::Command, console: &Console) -> Result<(), EarlyExit> {
    Disk.create_folder(folder).map_err(|error| {
        Failure::new("write", format!("{}: folder: {}", folder.display(), plain_reason(&error)))
    })?;
    let overwrite = if force { Overwrite::Replace } else { Overwrite::Refuse };
    let options = WriteOptions { overwrite, ..WriteOptions::default() };
    for page in visible(root).chain([root]).cloned() {
        // After `build`, sub-commands have their full name: `gausset-train`.
        let name = page.get_display_name().unwrap_or_else(|| page.get_name()).to_owned();
        let path = folder.join(format!("{name}.1"));
        let man = Man::new(page);
        write_atomic_with(&Disk, &path, &options, |mut file| man.render(&mut file)).map_err(Failure::from)?;
        console.note(path.display().to_string());
    }
    Ok(())
}

/// The sub-commands that help lists.
fn visible(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}
