//! The sub-commands, one file each: its arguments, what it does with the crates below, what it prints.

pub(crate) mod bench;
pub(crate) mod clean;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod eval;
mod exposure;
pub(crate) mod field;
pub(crate) mod info;
pub(crate) mod man;
pub(crate) mod pano;
pub(crate) mod photos;
pub(crate) mod profile;
pub(crate) mod render;
pub(crate) mod train;
pub(crate) mod training;
pub(crate) mod view_args;

use gausset_io::atomic::Overwrite;

use crate::Ending;
use crate::cli::Command;
use crate::console::Console;
use crate::exit::Status;

/// What `--force` means.
pub(crate) const fn overwrite(force: bool) -> Overwrite {
    if force { Overwrite::Replace } else { Overwrite::Refuse }
}

/// Runs a command.
///
/// # Errors
/// It was refused or failed.
pub(crate) fn run(command: Command, console: &Console) -> Result<Status, Ending> {
    match command {
        Command::Demo(args) => demo::run(&args, console),
        Command::Train(args) => train::run(*args, console),
        Command::Eval(args) => eval::run(&args, console),
        Command::Render(args) => render::run(&args, console),
        Command::Info(args) => info::run(&args, console),
        Command::Convert(args) => convert::run(&args, console),
        Command::Clean(args) => clean::run(&args, console),
        Command::Align(args) => photos::run_align(&args, console),
        Command::Run(args) => photos::run(&args, console),
        Command::Pano(args) => pano::run(args, console),
        Command::Field(args) => field::run(&args, console),
        Command::Bench(args) => bench::run(&args, console),
        Command::Profile(args) => profile::run(&args, console),
        Command::Completions(args) => completions::run(&args, console),
        Command::Man(args) => man::run(&args, console),
    }
}
