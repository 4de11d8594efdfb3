//! `gausset man`: manual pages, generated from the definition of the command line.

use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;
use gausset::Failure;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteOptions, plain_reason, write_atomic_with};

use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;

/// Arguments of `man`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// Output folder for `gausset.1`, `gausset-train.1` and so on.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Replace existing pages.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    force: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ManArgs, mut root: clap::Command, console: &Console) -> Result<Status, EarlyExit> {
    let folder = &args.output;
    Disk.create_folder(folder).map_err(|error| {
        Failure::new("write", format!("{}: folder: {}", folder.display(), plain_reason(&error)))
    })?;
    root.build();
    let visible = root.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let pages: Vec<clap::Command> = visible.chain([root.clone()]).collect();
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let options = WriteOptions { overwrite, ..WriteOptions::default() };
    for page in pages {
        // After `build`, sub-commands have their full name: `gausset-train`.
        let name = page.get_display_name().unwrap_or_else(|| page.get_name()).to_owned();
        let path = folder.join(format!("{name}.1"));
        let man = Man::new(page);
        write_atomic_with(&Disk, &path, &options, |mut file| man.render(&mut file)).map_err(Failure::from)?;
        console.note(path.display().to_string());
    }
    Ok(Status::Done)
}
