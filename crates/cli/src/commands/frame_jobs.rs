//! Shared code of commands that convert or mask files frame by frame.

use clap::Args;
#[cfg(feature = "masks")]
use gausset::mask::MaskResult;
use gausset::panos::calibrate::CalibrationReport;
use gausset::panos::convert::PanoConvertResult;
use gausset::panos::masks::MasksResult;
use gausset::{Failure, Host};
use serde::Serialize;

use crate::EarlyExit;
use crate::commands::training::{exit_status, interrupted_status};
use crate::console::Console;
use crate::events::run_job;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::lines::Lines;

/// Arguments for replacing files, dry runs and JSON output.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FrameJobArgs {
    /// Recompute finished files and replace existing files, including those not created by Gausset.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    pub(crate) force: bool,
    /// Check all inputs and report what would be written; write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The result of such a job.
pub(crate) trait FrameJobResult: Serialize {
    /// Whether the job was stopped before it finished.
    fn is_cancelled(&self) -> bool;
    /// Whether inputs were skipped.
    fn has_skipped(&self) -> bool;
}

/// Runs such a job, prints its result as a JSON object or as text, and returns the exit status.
///
/// # Errors
/// The job was refused or failed.
pub(crate) fn run_frame_job<T: FrameJobResult, L: Into<Lines>>(
    console: &Console,
    job: impl FnOnce(&mut Host<'_>) -> Result<T, Failure>,
    text: impl FnOnce(&T) -> L,
) -> Result<Status, EarlyExit> {
    let interrupt = Interrupt::watch();
    let made = match run_job(&interrupt, console, job) {
        Ok(made) => made,
        Err(failure) => return exit_status(failure, &interrupt),
    };
    console.json_or_summary(&made, || text(&made))?;
    if made.is_cancelled() {
        return Ok(interrupted_status(&interrupt));
    }
    Ok(Status::done(made.has_skipped()))
}

macro_rules! made_of_frames {
    ($($result:ty),*) => {$(
        impl FrameJobResult for $result {
            fn is_cancelled(&self) -> bool {
                self.is_cancelled
            }

            fn has_skipped(&self) -> bool {
                !self.skipped.is_empty()
            }
        }
    )*};
}

made_of_frames!(PanoConvertResult, MasksResult);
#[cfg(feature = "masks")]
made_of_frames!(MaskResult);

impl FrameJobResult for CalibrationReport {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn has_skipped(&self) -> bool {
        false
    }
}
