//! Runs other programs: argument vectors, never a shell; a process group each, which is killed as a whole; output read
//! by threads; a limit on silence, not on duration.
//!
//! ```text
//! Program::new("ffmpeg").arg(..) ─▶ run(stop, on_line) ─▶ every line of stdout and stderr as it comes ─▶ Finished
//!                                └▶ stream(stop)       ─▶ stdout as bytes, stderr kept
//! ```
//! **What is executed.** Programs are looked up only in the absolute entries of PATH ([`find_program`]). They run in a folder
//! to which only the system's owner writes, with the relative entries removed from PATH, PYTHONPATH and the library
//! paths. Files in the working folder, next to the images or in the output are therefore never run, imported or linked.
//!
//! **How programs end.** The stop flag is checked every 20 ms while a caller waits, whether or not the program writes
//! anything. Processes that a program left in its group are killed with it. [`kill_all`] kills everything immediately,
//! for a process that is about to exit. If this process is killed (SIGKILL), nothing here can act: a program then exits
//! at its next write to the closed pipe. The system call that would kill it immediately (`PR_SET_PDEATHSIG`) has to be
//! made between fork and exec, which needs `unsafe`.
//!
//! ```
//! use gausset_process::Program;
//! use std::sync::atomic::AtomicBool;
//!
//! # #[cfg(unix)]
//! # {
//! let (stop, mut lines) = (AtomicBool::new(false), Vec::new());
//! let program = Program::new("/bin/sh").arg("-c").arg("echo one; echo two");
//! program.run(&stop, &mut |_stream, line| lines.push(line.to_owned()))?;
//! assert_eq!(lines, ["one", "two"]);
//! # }
//! # Ok::<(), gausset_process::ProcessError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod error;
mod group;
mod lookup;
mod output;
mod pipe;
mod program;
mod stream;
mod system;

pub use error::ProcessError;
pub use group::{kill_all, pause, resume};
pub use lookup::find_program;
pub use output::{OutputStream, ProgramOutput};
pub use program::Program;
pub use stream::ProgramStream;
