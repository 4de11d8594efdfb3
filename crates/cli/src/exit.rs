//! Exit codes, a stable contract for scripts.

use crate::interrupt::Signal;

/// Exit status of a command. A panic ends the program with 101 ([`crate::crash`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Finished: exit code 0.
    Done,
    /// Finished, but some inputs were skipped; they were listed: exit code 1.
    Skipped,
    /// Refused or failed; no file is partly written: exit code 2.
    Refused,
    /// Stopped by a signal after saving: exit code 128 + the signal's number.
    Interrupted(Signal),
}

impl Status {
    /// [`Self::Skipped`] if inputs were skipped, otherwise [`Self::Done`].
    pub(crate) const fn done(has_skipped: bool) -> Self {
        if has_skipped { Self::Skipped } else { Self::Done }
    }

    /// The exit code of the process.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Skipped => 1,
            Self::Refused => 2,
            Self::Interrupted(signal) => signal.exit_code(),
        }
    }
}
