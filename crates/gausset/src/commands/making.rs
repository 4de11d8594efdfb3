//! Shared code of commands that convert or mask files frame by frame.

use clap::Args;
#[cfg(feature = "masks")]
use gausset_flow::mask::Masked;
use gausset_flow::panos::calibrate::Calibrated;
use gausset_flow::panos::convert::Converted;
use gausset_flow::panos::masks::MasksMade;
use gausset_flow::{Failure, Host};
use serde::Serialize;

use crate::Ending;
use crate::commands::training::{ending, interrupted};
use crate::console::Console;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::lines::Lines;
use crate::listener::attend;

/// Arguments for replacing files, dry runs and JSON output.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct MakingArgs {
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
pub(crate) trait Made: Serialize {
    /// Whether the job was stopped before it finished.
    fn is_cancelled(&self) -> bool;
    /// Whether inputs were skipped.
    fn has_skipped(&self) -> bool;
}

/// Runs such a job, prints its result as a JSON object or as text, and returns the exit status.
///
/// # Errors
/// The job was refused or failed.
pub(crate) fn make<T: Made, L: Into<Lines>>(
    console: &Console,
    job: impl FnOnce(&mut Host<'_>) -> Result<T, Failure>,
    text: impl FnOnce(&T) -> L,
) -> Result<Status, Ending> {
    let interrupt = Interrupt::watch();
    let made = match attend(&interrupt, console, job) {
        Ok(made) => made,
        Err(failure) => return ending(failure, &interrupt),
    };
    console.object_or(&made, || text(&made))?;
    if made.is_cancelled() {
        return Ok(interrupted(&interrupt));
    }
    Ok(Status::done(made.has_skipped()))
}

macro_rules! made_of_frames {
    ($($result:ty),*) => {$(
        impl Made for $result {
            fn is_cancelled(&self) -> bool {
                self.is_cancelled
            }

            fn has_skipped(&self) -> bool {
                !self.skipped.is_empty()
            }
        }
    )*};
}

made_of_frames!(Converted, MasksMade);
#[cfg(feature = "masks")]
made_of_frames!(Masked);

impl Made for Calibrated {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn has_skipped(&self) -> bool {
        false
    }
}
