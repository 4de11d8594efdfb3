//! The `gausset` program: photographs in, a splat out.
//!
//! ```text
//! arguments ─▶ cli ─▶ commands/{train,eval,render,…} ─▶ stdout: results (a table, or one JSON object)
//!               │              │ events                 stderr: progress, warnings, one line for an error
//!               └─ Failure ◀───┘                        exit code: see [`exit::Status`]
//! ```
//! This crate only parses arguments and prints lines; the work is done in the library crates.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod cli;
mod commands;
mod console;
mod crash;
mod describe;
mod device;
mod event_log;
mod events;
mod exit;
mod flags;
mod footage;
mod help_levels;
mod interrupt;
mod lines;
mod numbers;
mod options;
mod other_programs;
mod profiling;
mod progress;
mod scores;
mod table;
mod usage;
mod value_parsers;

use std::ffi::OsString;
use std::sync::LazyLock;
use std::time::Instant;

use clap::builder::StyledStr;
use gausset::Failure;

use crate::console::Console;

/// The version, with the commit if it is known: `0.2.0 (1a2b3c4d)`.
pub const VERSION: &str = env!("GAUSSET_VERSION");

/// When the program started; time budgets count from here.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Runs the program with these arguments, the first of which is its name: parses them, runs the command and prints its
/// result. Returns the exit code of the process.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> u8 {
    LazyLock::force(&STARTED);
    crash::install_hook();
    crash::panic_if_requested();
    interrupt::ignore_file_size_signal();
    let (cli, _reading) = match cli::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(ending) => return ending.status(&Console::for_parse_errors(&arguments)).code(),
    };
    let console = Console::new(cli.verbosity(), cli.command.is_json());
    console.init_tracing();
    let ending = commands::run(cli.command, cli::definition, &console);
    crash::wait_if_ending();
    console.finish();
    ending.unwrap_or_else(|ending| ending.status(&console)).code()
}

/// Why a command ended without a [`exit::Status`].
#[derive(Debug)]
pub(crate) enum EarlyExit {
    /// The command was refused or failed: one line on stderr, exit code 2.
    Failed(Failure),
    /// `--help` or `--version`: printed on stdout, exit code 0.
    Help(StyledStr),
    /// No command was given: help on stderr, exit code 2.
    Usage(StyledStr),
    /// The reader of stdout has closed it, as in `gausset info X | head -1`. Not an error: exit code 0.
    BrokenPipe,
}

impl<F: Into<Failure>> From<F> for EarlyExit {
    fn from(failure: F) -> Self {
        Self::Failed(failure.into())
    }
}

impl EarlyExit {
    /// Prints what is left to say.
    fn status(self, console: &Console) -> exit::Status {
        match self {
            Self::Failed(failure) => {
                console.failure(&failure);
                exit::Status::Refused
            }
            Self::Help(text) => match console.help(&text) {
                Ok(()) | Err(Self::BrokenPipe) => exit::Status::Done,
                Err(ending) => ending.status(console),
            },
            Self::Usage(text) => {
                console.usage(&text);
                exit::Status::Refused
            }
            Self::BrokenPipe => exit::Status::Done,
        }
    }
}
