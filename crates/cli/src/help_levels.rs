//! Three levels of help: `-h` lists what most people need, `--help` what is worth knowing, `--help-all` everything.
//!
//! A command with few options lists all of them at every level. For the others an option is common, usual or rare by its
//! name, the same in every command: options of footage by their table, others by the lists below. Options in the examples
//! of a command are common there.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use gausset::footage_options::{HelpLevel, all_options};

/// Maximum number of options of a command without levels.
const FEW: usize = 22;

/// Options of `-h`.
const COMMON: [&str; 19] = [
    "output",
    "resume",
    "config",
    "force",
    "json",
    "dry-run",
    "test-every",
    "max-resolution",
    "quality",
    "steps",
    "time-budget",
    "max-splats",
    "threads",
    "max-memory",
    "device",
    "viewer",
    "model",
    "to",
    "orbit",
];

/// Options of `--help-all` alone: details of the optimisation and of rare inputs.
const RARE: [&str; 69] = [
    // What a run writes, and when.
    "log",
    "events",
    "no-report",
    "keep-depth",
    "export-every",
    "checkpoint-seconds",
    "eval-every",
    "coarse-factor",
    "coarse-until",
    "up",
    // Data.
    "allow-outside",
    "vignetting",
    "panoramas",
    "random-background",
    "scene-extent",
    // The model and its start.
    "antialiased",
    "max-splats-per-tile",
    "near-plane",
    "initial-splats",
    "initial-opacity",
    "initial-scale",
    // Loss and learning rates.
    "dssim-weight",
    "opacity-regularisation",
    "opacity-regularisation-until",
    "scale-regularisation",
    "dropout",
    "adam",
    "lr-means",
    "lr-means-final",
    "lr-scales",
    "lr-quats",
    "lr-opacities",
    "lr-sh-dc",
    "lr-sh-rest",
    // Density control.
    "density-from",
    "density-until",
    "density-every",
    "free-space",
    "grow-gradient",
    "abs-grad",
    "clone-scale",
    "prune-opacity",
    "prune-scale",
    "prune-screen",
    "opacity-reset-every",
    "growth",
    "split-largest",
    "noise",
    // Corrections.
    "lr-exposure",
    "lr-exposure-final",
    "lr-poses",
    // The machine and the viewer.
    "simd",
    "max-gpu-memory",
    "viewer-share",
    "viewer-linger",
    "allow-host",
    "allow-frame",
    // COLMAP.
    "mapper",
    "sfm-seed",
    "sfm-threads",
    "tool-timeout",
    // Footage.
    "track",
    "track-offset",
    "refine",
    "numbering",
    "max-side",
    "max-file",
    // Masks.
    "smallest",
    "model-timeout",
];

/// Gives the options of a command and of its sub-commands their levels.
pub(crate) fn with_levels(command: Command) -> Command {
    let command = for_sub_commands(command, with_levels);
    if options(&command).count() <= FEW {
        return command;
    }
    let footage = all_options();
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let is_in_examples = move |name: &str| {
        let option = format!("--{name}");
        examples
            .split(&option)
            .skip(1)
            .any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-'))
    };
    let command = command.mut_args(|arg| match arg.get_long() {
        Some(name) => {
            let level = footage.iter().find(|option| option.key == name).map(|option| option.level);
            let is_common =
                COMMON.contains(&name) || level == Some(HelpLevel::Common) || is_in_examples(name);
            let is_rare = RARE.contains(&name) || level == Some(HelpLevel::Rare);
            arg.hide_short_help(!is_common).hide_long_help(is_rare && !is_common)
        }
        None => arg,
    });
    let all =
        Arg::new("help-all").long("help-all").help("Print help with all options").action(ArgAction::HelpLong);
    command.arg(all.display_order(1000))
}

/// Shows all options if the arguments have `--help-all`, which is then `--help`.
pub(crate) fn unfold(command: Command, arguments: &[OsString]) -> (Command, Vec<OsString>) {
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let Some(place) = arguments[..end].iter().position(|argument| argument == "--help-all") else {
        return (command, arguments.to_vec());
    };
    let mut arguments = arguments.to_vec();
    arguments[place] = "--help".into();
    (unfolded(command), arguments)
}

/// The command with all options in its help.
pub(crate) fn unfolded(command: Command) -> Command {
    let command = for_sub_commands(command, unfolded);
    command.mut_args(|arg| arg.hide_short_help(false).hide_long_help(false))
}

/// The command with a change of its sub-commands.
pub(crate) fn for_sub_commands(command: Command, change: fn(Command) -> Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, change))
}

/// The options of a command, without hidden ones.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.get_long().is_some() && !arg.is_hide_set())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Most options of `-h`, without those of every command.
    const MOST_SHORT: usize = 18;
    /// Most options of `--help`.
    const MOST_LONG: usize = 45;

    fn check(command: &Command, seen: &mut BTreeSet<String>, found: &mut Vec<String>) {
        let count = |is_hidden: fn(&Arg) -> bool| options(command).filter(|arg| !is_hidden(arg)).count();
        let (short, long) = (count(Arg::is_hide_short_help_set), count(Arg::is_hide_long_help_set));
        let has_levels = options(command).any(|arg| arg.get_id() == "help-all");
        // Those of every command: help, help-all, version, quiet, verbose.
        if has_levels && short > MOST_SHORT + 1 || long > MOST_LONG {
            found.push(format!("{}: {short} in -h, {long} in --help", command.get_name()));
        }
        seen.extend(options(command).filter_map(|arg| arg.get_long().map(str::to_owned)));
        command.get_subcommands().for_each(|inner| check(inner, seen, found));
    }

    #[test]
    fn help_fits_a_screen_and_all_options_have_their_level() {
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        check(&crate::cli::definition(), &mut seen, &mut found);
        assert!(found.is_empty(), "{found:#?}");
        for name in COMMON.iter().chain(&RARE) {
            assert!(seen.contains(*name), "no command has --{name}");
        }
    }
}
