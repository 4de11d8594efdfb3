//! Everything that is printed: results on stdout, the rest on stderr.
//!
//! - **stdout**: the result and nothing else: a table for people or one JSON object for programs.
//! - **stderr**: progress and notes (not with `-q`), warnings (at most five of a kind, then their number), and the
//!   one line of an error.
//!
//! Settings that libraries name in messages become flags here ([`crate::flags`]), and nothing that is printed holds a
//! character that a terminal obeys ([`units::is_obeyed`]): results are [`Lines`], JSON has its own escapes, all else is one
//! line. Other modules cannot write: `clippy.toml` and the lints of the workspace refuse `stdout`, `stderr` and `println`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};

use clap::builder::StyledStr;
use gausset_flow::Failure;
use gausset_io::units;
use indicatif::ProgressBar;
use serde::Serialize;
use tracing_subscriber::filter::LevelFilter;

use crate::Ending;
use crate::flags::in_flags;
use crate::lines::Lines;

/// Warnings of one kind that are printed.
const WARNINGS_PER_KIND: u64 = 5;
/// Characters of the longest warning or error. Messages quote little of a file; this is for those that should and do not.
const LONGEST: usize = 1000;

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
            is_terminal: stderr().is_terminal(),
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
    pub(crate) fn note(&self, lines: impl Into<Lines>) {
        if self.verbosity >= Verbosity::Normal {
            self.above_the_bar(in_flags(lines.into().as_str()).trim_end());
        }
    }

    /// A warning. Beyond the first few of a kind only their number is printed, at the end.
    pub(crate) fn warn(&self, kind: &'static str, line: impl AsRef<str>) {
        let mut warnings = self.warnings.borrow_mut();
        let count = warnings.entry(kind).or_default();
        *count += 1;
        if *count <= WARNINGS_PER_KIND {
            self.line(&format!("gausset: warning: {}", shortened(line.as_ref())));
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
            self.above_the_bar(&in_flags(&in_json(&object.to_string())));
        } else {
            self.line(&format!("gausset: {}", shortened(&failure.message)));
        }
    }

    /// Help that was not asked for, on stderr.
    pub(crate) fn usage(&self, text: &StyledStr) {
        self.above_the_bar(in_flags(&text.to_string()).trim_end());
    }

    /// Help that was asked for, on stdout.
    ///
    /// # Errors
    /// As [`Self::result`].
    pub(crate) fn help(&self, text: &StyledStr) -> Result<(), Ending> {
        let text = if stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() };
        print(&in_flags(&text))
    }

    /// The result, on stdout.
    ///
    /// # Errors
    /// stdout cannot be written; nobody reads it any more.
    pub(crate) fn result(&self, lines: impl Into<Lines>) -> Result<(), Ending> {
        print(&in_flags(lines.into().as_str()))
    }

    /// A JSON object on one line of stdout, for programs that wait for it; or a note for people.
    ///
    /// # Errors
    /// As [`Self::result`].
    pub(crate) fn line_or(&self, object: &serde_json::Value, text: &str) -> Result<(), Ending> {
        if self.is_json { print_json(&object.to_string()) } else { self.result(text) }
    }

    /// The result as a JSON object or as text, as asked for.
    ///
    /// # Errors
    /// As [`Self::result`].
    pub(crate) fn object_or<L: Into<Lines>>(
        &self,
        object: &impl Serialize,
        text: impl FnOnce() -> L,
    ) -> Result<(), Ending> {
        if !self.is_json {
            return self.result(text());
        }
        match serde_json::to_string_pretty(object) {
            Ok(json) => print_json(&json),
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
            .with_writer(|| Traces)
            // An escape sequence of ours could not be told from one of a name.
            .with_ansi(false)
            .without_time()
            // Otherwise a stderr that is gone is reported on stderr, which panics.
            .log_internal_errors(false)
            .init();
    }

    /// A line on stderr, above the bar if there is one.
    fn line(&self, line: &str) {
        self.above_the_bar(&units::harmless(&in_flags(line)));
    }

    /// Text on stderr that is harmless already.
    fn above_the_bar(&self, text: &str) {
        match &*self.bar.borrow() {
            Some(bar) => bar.suspend(|| write_error(text)),
            None => write_error(text),
        }
    }
}

/// A line on stderr, for the hook of a panic, which has no console.
pub(crate) fn last_words(line: &str) {
    write_error(&units::harmless(line));
}

/// Whether stdin, stdout or stderr is a terminal.
#[cfg(unix)]
pub(crate) fn has_terminal() -> bool {
    io::stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal()
}

/// Where libraries trace to: stderr, one event a line. An event comes as a whole.
struct Traces;

impl Write for Traces {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        last_words(String::from_utf8_lossy(event).trim_end());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON in which also those characters are escaped that JSON allows and a terminal obeys. They stand in strings only;
/// what breaks the lines of JSON does not.
fn in_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && units::is_obeyed(c) {
            // All of them are below U+10000.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// A message without its middle where it is too long: its beginning names the file, its end what was expected.
fn shortened(message: &str) -> Cow<'_, str> {
    let more = message.chars().count().saturating_sub(LONGEST);
    if more == 0 {
        return Cow::Borrowed(message);
    }
    let part = |from: usize, count: usize| message.chars().skip(from).take(count).collect::<String>();
    Cow::Owned(format!("{}…{}", part(0, LONGEST / 2), part(LONGEST / 2 + more, LONGEST)))
}

fn print_json(json: &str) -> Result<(), Ending> {
    print(&format!("{}\n", in_flags(&in_json(json))))
}

fn print(text: &str) -> Result<(), Ending> {
    let mut stdout = stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Ending::BrokenPipe),
        Err(error) => {
            let reason = gausset_io::atomic::plain_reason(&error);
            Err(Failure::new("write", format!("stdout: write: {reason}")).into())
        }
    }
}

/// A stderr that is closed is nothing to stop for.
fn write_error(text: &str) {
    let _ = writeln!(stderr().lock(), "{text}");
}

#[allow(clippy::disallowed_methods, reason = "what is printed comes through here")]
fn stdout() -> io::Stdout {
    io::stdout()
}

#[allow(clippy::disallowed_methods, reason = "what is printed comes through here")]
fn stderr() -> io::Stderr {
    io::stderr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_nothing_that_a_terminal_obeys_and_says_the_same() {
        let name = "a\u{9b}31m\u{7f}\u{202e}\u{2028}\x1b\n\"é👩\u{200d}🔬";
        let json = serde_json::to_string_pretty(&serde_json::json!({ "name": name })).unwrap();
        let printed = in_json(&json);
        assert!(!printed.chars().any(|c| c != '\n' && units::is_obeyed(c)), "{printed:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap()["name"], name);
    }

    #[test]
    fn a_message_that_is_too_long_loses_its_middle() {
        let long = format!("file: {}: expected a number", "0".repeat(5000));
        let short = shortened(&long);
        assert!(short.starts_with("file: 000") && short.contains("0…0"), "{short}");
        assert!(short.ends_with("00: expected a number") && short.chars().count() == LONGEST + 1, "{short}");
        assert_eq!(shortened("short"), "short");
    }
}
