//! Outside programs: argument vectors, never a shell; a process group of their own, which is killed as a whole; output
//! drained by threads; a limit on silence, not on duration.
//!
//! ```text
//! Program::new("ffmpeg").arg(..) ─▶ run(stop, on_line) ─▶ every line of stdout and stderr as it comes ─▶ Finished
//!                                └▶ stream(stop)       ─▶ stdout as bytes, stderr kept
//! ```
//! **What is executed.** Programs are looked up in the absolute entries of PATH only ([`find`]), and run in a folder
//! that holds nothing of anybody's, with the relative entries taken out of PATH, PYTHONPATH and the paths of libraries:
//! what is in the working folder, beside the pictures or in the output is never run, imported or linked.
//!
//! **How they end.** The stop flag is looked at every 20 ms while somebody waits for a program, whether it says
//! something or not. Whatever a program has started and left in its group ends with it. [`end_all`] ends everything at
//! once, for a process that is about to end itself. When this process is killed (SIGKILL) nothing here can act: a
//! program is then alone, and ends with its next word, because nobody holds the other end of its pipes. The system call
//! that would end it at once (`PR_SET_PDEATHSIG`) has to be made between fork and exec, which needs `unsafe`.
#![forbid(unsafe_code)]

mod error;
mod group;
mod lookup;
mod output;
mod pipe;
mod program;
mod stream;
mod system;

pub use error::ProcessError;
pub use group::{end_all, go_on, pause};
pub use lookup::find;
pub use output::{Finished, Stream};
pub use program::Program;
pub use stream::Streaming;
