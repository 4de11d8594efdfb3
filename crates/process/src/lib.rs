//! Outside programs: argument vectors, never a shell; a process group of their own, which is killed as a whole; output
//! drained by threads; a limit on silence, not on duration.
//!
//! ```text
//! Program::new("ffmpeg").arg(..) ─▶ run(stop, on_line) ─▶ every line of stdout and stderr as it comes ─▶ Finished
//!                                └▶ stream(stop)       ─▶ stdout as bytes, stderr kept
//! ```
//! **What is executed.** Programs are looked up in the absolute entries of PATH only ([`find`]), and run in a folder
//! that holds nothing of anybody's, with the relative entries taken out of PATH, PYTHONPATH and the paths of libraries:
//! what lies in the working folder, beside the pictures or in the output is never run, imported or linked.
//!
//! **How they end.** The stop flag is looked at every 20 ms while somebody waits for a program, whether it says
//! something or not. Whatever a program has started and left in its group ends with it. [`end_all`] ends everything at
//! once, for a process that is about to end itself. When this process is killed (SIGKILL) nothing here can act: a
//! program is then alone, and ends with its next word, because nobody holds the other end of its pipes. The system call
//! that would end it at once (`PR_SET_PDEATHSIG`) has to be made between fork and exec, which needs `unsafe`.
#![forbid(unsafe_code)]

mod group;
mod lookup;
mod output;
mod pipe;
mod program;
mod stream;
mod system;

pub use group::{end_all, go_on, pause};
pub use lookup::{find, is_executable};
pub use program::Program;
pub use stream::Streaming;

use std::time::Duration;

/// How often the stop flag and the clock are looked at.
const POLL: Duration = Duration::from_millis(20);

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such program.
    #[error("{program}: program: not found")]
    NotFound {
        /// What was asked for.
        program: String,
    },
    /// It could not be started.
    #[error("{program}: program: cannot be started: {reason}")]
    Start {
        /// What was asked for.
        program: String,
        /// The system's answer.
        reason: String,
    },
    /// It ended with an error.
    #[error("{program}: {how}{}", last(tail))]
    Failed {
        /// The program.
        program: String,
        /// Exit code or signal.
        how: String,
        /// Last lines of what it said.
        tail: Vec<String>,
    },
    /// It said nothing for too long and was ended.
    #[error(
        "{program}: no sign of life for {seconds} s, so it was ended (--tool-timeout raises the limit){}",
        last(tail)
    )]
    Silent {
        /// The program.
        program: String,
        /// The limit.
        seconds: u64,
        /// Last lines of what it said.
        tail: Vec<String>,
    },
    /// The stop flag was set.
    #[error("{program}: stopped")]
    Stopped {
        /// The program.
        program: String,
    },
}

fn last(tail: &[String]) -> String {
    match tail.iter().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("; it said: {}", line.trim()),
        None => String::new(),
    }
}

/// What a program that succeeded said last.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Last lines.
    pub tail: Vec<String>,
}
