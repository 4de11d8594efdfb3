//! Exit codes, a stable contract for scripts.

use std::process::ExitCode;

use crate::interrupt::Signal;

/// How the program ended. A panic ends it with 101 ([`crate::crash`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Done.
    Done,
    /// Done, but some inputs were skipped; they were listed.
    Skipped,
    /// Refused or failed; nothing is half-written.
    Refused,
    /// Stopped by a signal after saving.
    Interrupted(Signal),
}

impl Status {
    /// [`Self::Skipped`] if something was.
    pub(crate) const fn done(has_skipped: bool) -> Self {
        if has_skipped { Self::Skipped } else { Self::Done }
    }

    /// The code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Skipped => 1,
            Self::Refused => 2,
            Self::Interrupted(signal) => signal.exit_code(),
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.code())
    }
}
