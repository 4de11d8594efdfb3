//! The `gausset` program: photographs in, a splat out.
//!
//! ```text
//! arguments ─▶ cli ─▶ commands/{train,eval,render,…} ─▶ stdout: results (a table, or one JSON object)
//!               │              │ events                 stderr: progress, warnings, one line for an error
//!               └─ Failure ◀───┘                        exit code: see [`exit::Status`]
//! ```
//! Only here are arguments parsed and lines printed; what is done is in the crates below.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod console;
mod crash;
mod describe;
mod device;
mod exit;
mod flags;
mod foreign;
mod interrupt;
mod lines;
mod listener;
mod mask_engine;
mod numbers;
mod options;
mod profiling;
mod progress;
mod scores;
mod shell;
mod table;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Instant;

use clap::builder::StyledStr;
use gausset_compute::huge_pages::HugePages;
use gausset_flow::Failure;

use crate::console::Console;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

/// When the program began; time budgets count from here.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

fn main() -> ExitCode {
    LazyLock::force(&STARTED);
    run(std::env::args_os().collect())
}

/// The whole program: parses, works, prints, and says how it went.
fn run(arguments: Vec<OsString>) -> ExitCode {
    crash::install_hook();
    crash::rehearse();
    interrupt::outlive_file_size_limits();
    let (cli, _reading) = match cli::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(ending) => return ending.exit_code(&Console::before_parsing(&arguments)),
    };
    let console = Console::new(cli.verbosity(), cli.command.is_json());
    console.listen_to_libraries();
    let ending = commands::run(cli.command, cli::definition, &console);
    console.finish();
    match ending {
        Ok(status) => status.into(),
        Err(ending) => ending.exit_code(&console),
    }
}

/// How a command ends that did not reach its end.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It was refused or failed: one line on stderr, exit code 2.
    Failed(Failure),
    /// Help or the version was asked for and is to be printed.
    Help(StyledStr),
    /// Nothing was asked for: help, on stderr, exit code 2.
    Usage(StyledStr),
    /// Whoever read stdout has gone, as in `gausset info X | head -1`: nothing is wrong.
    BrokenPipe,
}

impl<F: Into<Failure>> From<F> for Ending {
    fn from(failure: F) -> Self {
        Self::Failed(failure.into())
    }
}

impl Ending {
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
