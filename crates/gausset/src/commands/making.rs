//! What commands have in common that make files of others, frame by frame.

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

/// Whether files are written and replaced, and how it is told.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct MakingArgs {
    /// Make anew what is finished or was made with other options, and replace files of somebody else.
    #[arg(long, alias = "overwrite", short_aliases = ['y', 'w'])]
    pub(crate) force: bool,
    /// Look at everything and say what would be made; write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What was made.
pub(crate) trait Made: Serialize {
    /// Whether it was stopped before all of it was.
    fn is_cancelled(&self) -> bool;
    /// Whether something was left out.
    fn has_skipped(&self) -> bool;
}

/// Does such a job, prints its result as an object or as a text, and says how the program ends.
///
/// # Errors
/// Those of the job.
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
