//! `gausset completions`: shell completion scripts, generated from the definition of the command line.

use clap::Args;
use clap_complete::Shell;

use crate::EarlyExit;
use crate::console::Console;
use crate::exit::Status;
use crate::lines::Lines;

const AFTER_HELP: &str = "\
Examples:
  gausset completions bash > ~/.local/share/bash-completion/completions/gausset
  gausset completions zsh > ~/.zfunc/_gausset
  gausset completions fish > ~/.config/fish/completions/gausset.fish";

/// Arguments of `completions`.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// Shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(
    args: &CompletionsArgs,
    mut definition: clap::Command,
    console: &Console,
) -> Result<Status, EarlyExit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition, "gausset", &mut script);
    console.result(Lines::from_text(&String::from_utf8_lossy(&script)))?;
    Ok(Status::Done)
}
