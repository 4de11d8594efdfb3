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
mod shell;
mod table;
mod usage;
mod value_parsers;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Instant;

use clap::builder::StyledStr;
use gausset::Failure;
use gausset_compute::huge_pages::HugePages;

use crate::console::Console;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// When the program started; time budgets count from here.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

fn main() -> ExitCode {
    LazyLock::force(&STARTED);
    run(std::env::args_os().collect())
}

/// Parses the arguments, runs the command, prints its result and returns the exit code.
fn run(arguments: Vec<OsString>) -> ExitCode {
    crash::install_hook();
    crash::panic_if_requested();
    interrupt::ignore_file_size_signal();
    let (cli, _reading) = match cli::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(ending) => return ending.exit_code(&Console::for_parse_errors(&arguments)),
    };
    let console = Console::new(cli.verbosity(), cli.command.is_json());
    console.init_tracing();
    let ending = commands::run(cli.command, cli::definition, &console);
    crash::wait_if_ending();
    console.finish();
    match ending {
        Ok(status) => status.into(),
        Err(ending) => ending.exit_code(&console),
    }
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
    fn exit_code(self, console: &Console) -> ExitCode {
        match self {
            Self::Failed(failure) => {
                console.failure(&failure);
                exit::Status::Refused.into()
            }
            Self::Help(text) => match console.help(&text) {
                Ok(()) | Err(Self::BrokenPipe) => exit::Status::Done.into(),
                Err(ending) => ending.exit_code(console),
            },
            Self::Usage(text) => {
                console.usage(&text);
                exit::Status::Refused.into()
            }
            Self::BrokenPipe => exit::Status::Done.into(),
        }
    }
}
