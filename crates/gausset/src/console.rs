//! Everything that is printed: results on stdout, the rest on stderr.
//!
//! - **stdout**: the result and nothing else: a table for people or one JSON object for programs.
//! - **stderr**: progress and notes (not with `-q`), warnings (at most five of a kind, then their number), and the
//!   one line of an error.
//!
//! Settings that libraries name in messages become flags here ([`crate::flags`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal, Write};

use gausset_flow::Failure;
use indicatif::ProgressBar;
use serde::Serialize;
use tracing_subscriber::filter::LevelFilter;

use crate::Ending;
use crate::flags::in_flags;

/// Warnings of one kind that are printed.
const WARNINGS_PER_KIND: u64 = 5;

/// How much is printed on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// Progress and notes too.
    Normal,
    /// What the libraries have to say.
    Verbose,
    /// And details of it.
    Debug,
}

/// Where the program prints.
#[derive(Debug)]
pub(crate) struct Console {
    verbosity: Verbosity,
    is_json: bool,
    /// Whether somebody sees stderr as it is written.
    is_terminal: bool,
    bar: RefCell<Option<ProgressBar>>,
    /// Warnings by kind, printed or not.
    warnings: RefCell<BTreeMap<&'static str, u64>>,
}

impl Console {
    pub(crate) fn new(verbosity: Verbosity, is_json: bool) -> Self {
        Self {
            verbosity,
            is_json,
            is_terminal: io::stderr().is_terminal(),
            bar: RefCell::new(None),
            warnings: RefCell::default(),
        }
    }

    /// For mistakes in arguments that could not be parsed: whether JSON is wanted is guessed.
    pub(crate) fn before_parsing(arguments: &[OsString]) -> Self {
        Self::new(Verbosity::Normal, arguments.iter().any(|argument| argument == "--json"))
    }

    /// Whether a progress bar can be drawn.
    pub(crate) fn can_draw(&self) -> bool {
        self.is_terminal && self.verbosity >= Verbosity::Normal
    }

    /// Puts lines above this bar until it is taken away with `None`.
    pub(crate) fn set_bar(&self, bar: Option<ProgressBar>) {
        if let Some(old) = self.bar.replace(bar) {
            old.finish_and_clear();
        }
    }

    /// A line of progress or a note; not with `-q`.
    pub(crate) fn note(&self, line: impl AsRef<str>) {
        if self.verbosity >= Verbosity::Normal {
            self.line(line.as_ref());
        }
    }

    /// A warning. Beyond the first few of a kind only their number is printed, at the end.
    pub(crate) fn warn(&self, kind: &'static str, line: impl AsRef<str>) {
        let mut warnings = self.warnings.borrow_mut();
        let count = warnings.entry(kind).or_default();
        *count += 1;
        if *count <= WARNINGS_PER_KIND {
            self.line(&format!("gausset: warning: {}", line.as_ref()));
        }
    }

    /// Ends the progress and prints how many warnings were not printed.
    pub(crate) fn finish(&self) {
        self.set_bar(None);
        for (kind, count) in self.warnings.borrow().iter() {
            if let Some(more) = count.checked_sub(WARNINGS_PER_KIND).filter(|more| *more > 0) {
                self.line(&format!("gausset: warning: … and {more} more about {kind}"));
            }
        }
        self.warnings.borrow_mut().clear();
    }

    /// The line of an error.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.is_json {
            let object = serde_json::json!({ "error": failure });
            self.line(&object.to_string());
        } else {
            self.line(&format!("gausset: {}", failure.message));
        }
    }

    /// Help that nobody asked for, on stderr.
    pub(crate) fn usage(&self, text: &str) {
        self.line(text.trim_end());
    }

    /// The result, on stdout.
    ///
    /// # Errors
    /// stdout cannot be written; nobody reads it any more.
    pub(crate) fn result(&self, text: &str) -> Result<(), Ending> {
        let mut stdout = io::stdout().lock();
        let ending = if text.ends_with('\n') { "" } else { "\n" };
        let text = in_flags(text);
        match write!(stdout, "{text}{ending}").and_then(|()| stdout.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Ending::BrokenPipe),
            Err(error) => {
                let reason = gausset_io::atomic::plain_reason(&error);
                Err(Failure::new("write", format!("stdout: write: {reason}")).into())
            }
        }
    }

    /// A JSON object on one line of stdout, for programs that wait for it; or a note for people.
    ///
    /// # Errors
    /// As [`Self::result`].
    pub(crate) fn line_or(&self, object: &serde_json::Value, text: &str) -> Result<(), Ending> {
        if self.is_json { self.result(&object.to_string()) } else { self.result(text) }
    }

    /// The result as a JSON object or as text, as asked for.
    ///
    /// # Errors
    /// As [`Self::result`].
    pub(crate) fn object_or(
        &self,
        object: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Ending> {
        if !self.is_json {
            return self.result(&text());
        }
        match serde_json::to_string_pretty(object) {
            Ok(json) => self.result(&json),
            Err(error) => Err(Failure::new("write", format!("stdout: json: {error}")).into()),
        }
    }

    /// Passes on what the libraries trace: warnings, or more with `-v`.
    pub(crate) fn listen_to_libraries(&self) {
        let level = match self.verbosity {
            Verbosity::Quiet => LevelFilter::ERROR,
            Verbosity::Normal => LevelFilter::WARN,
            Verbosity::Verbose => LevelFilter::DEBUG,
            Verbosity::Debug => LevelFilter::TRACE,
        };
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(io::stderr)
            .with_ansi(self.is_terminal)
            .without_time()
            // Otherwise a stderr that is gone is reported on stderr, which panics.
            .log_internal_errors(false)
            .init();
    }

    /// A line on stderr, above the bar if there is one. A stderr that is closed is nothing to stop for.
    fn line(&self, line: &str) {
        let line = in_flags(line);
        let write = || {
            let _ = writeln!(io::stderr().lock(), "{line}");
        };
        match &*self.bar.borrow() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}
