//! All output of the program: results on stdout, everything else on stderr.
//!
//! - **stdout**: only the result, as a table for people or one JSON object for programs. With `-q`, jobs whose result is
//!   their files print no table.
//! - **stderr**: progress and notes (not with `-q`), warnings (at most five per kind, then a count), and one line per
//!   error.
//!
//! Settings that libraries name in messages become flags here ([`crate::flags`]). No output contains control characters
//! that a terminal interprets ([`text::is_terminal_control`]): results are [`Lines`], JSON has its own escapes, everything else
//! is a single line. Other modules cannot print: `clippy.toml` and the lints of the workspace refuse `stdout`, `stderr`
//! and `println`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};

use clap::builder::StyledStr;
use gausset::{FILES_LEFT_OUT, Failure};
use gausset_io::atomic::Disk;
use gausset_io::text;
use indicatif::ProgressBar;
use serde::Serialize;
use tracing_subscriber::filter::LevelFilter;

use crate::EarlyExit;
use crate::event_log::{self, EventLog};
use crate::flags::settings_to_flags;
use crate::lines::Lines;

/// How many warnings of one kind are printed, except of [`FILES_LEFT_OUT`], of which all are.
const WARNINGS_PER_KIND: u64 = 5;
/// Maximum length of a warning or error, in characters. Messages should quote little of a file; this is a safeguard.
const MAX_MESSAGE_CHARS: usize = 1000;

/// How much is printed on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Warnings and errors only.
    Quiet,
    /// Also progress and notes.
    Normal,
    /// Also debug traces of the libraries.
    Verbose,
    /// Also their most detailed traces.
    Debug,
}

/// Prints results, progress, warnings and errors.
#[derive(Debug)]
pub(crate) struct Console {
    verbosity: Verbosity,
    is_json: bool,
    /// Whether stderr is a terminal.
    is_terminal: bool,
    bar: RefCell<Option<ProgressBar>>,
    /// Number of warnings by kind, printed or not.
    warnings: RefCell<BTreeMap<&'static str, u64>>,
    /// Where the events of a training are logged, if anywhere.
    events: RefCell<Option<EventLog>>,
}

impl Console {
    pub(crate) fn new(verbosity: Verbosity, is_json: bool) -> Self {
        Self {
            verbosity,
            is_json,
            is_terminal: stderr().is_terminal(),
            bar: RefCell::new(None),
            warnings: RefCell::default(),
            events: RefCell::default(),
        }
    }

    /// Logs the events of a training from now on. On stdout they take the place of its result.
    pub(crate) fn log_events_to(&self, log: EventLog) {
        self.events.replace(Some(log));
    }

    /// Whether events take the place of results on stdout.
    fn logs_to_stdout(&self) -> bool {
        matches!(*self.events.borrow(), Some(EventLog::Stdout | EventLog::Closed))
    }

    /// Logs an event, if there is a log. One that cannot be written is closed with a warning: training continues.
    pub(crate) fn log_event(&self, line: impl FnOnce() -> Option<String>) {
        let mut events = self.events.borrow_mut();
        let Some((log, line)) = events.as_mut().and_then(|log| Some((log, line()?))) else { return };
        let line = settings_to_flags(&escape_json(&line)).into_owned();
        let written = match log {
            EventLog::Stdout => print(&(line + "\n")).map_err(|error| match error {
                EarlyExit::Failed(failure) => failure.message,
                _ => "stdout: closed by its reader".to_owned(),
            }),
            EventLog::File(log) => log.append_line(&Disk, &line).map_err(|error| error.to_string()),
            EventLog::Closed => return,
        };
        if let Err(reason) = written {
            // A stdout that was given to the events stays theirs.
            *events = matches!(log, EventLog::Stdout).then_some(EventLog::Closed);
            self.warn("events", format!("{reason}; no more events are logged"));
        }
    }

    /// A console for arguments that could not be parsed. JSON output is assumed if `--json` is among them.
    pub(crate) fn for_parse_errors(arguments: &[OsString]) -> Self {
        Self::new(Verbosity::Normal, arguments.iter().any(|argument| argument == "--json"))
    }

    /// Whether a progress bar can be drawn.
    pub(crate) fn shows_progress_bar(&self) -> bool {
        self.is_terminal && self.verbosity >= Verbosity::Normal
    }

    /// Sets the progress bar, above which lines are printed; `None` removes it.
    pub(crate) fn set_bar(&self, bar: Option<ProgressBar>) {
        if let Some(old) = self.bar.replace(bar) {
            old.finish_and_clear();
        }
    }

    /// Prints progress or a note on stderr; not with `-q`.
    pub(crate) fn note(&self, lines: impl Into<Lines>) {
        if self.verbosity >= Verbosity::Normal {
            self.print_above_bar(settings_to_flags(lines.into().as_str()).trim_end());
        }
    }

    /// Prints a warning on stderr. After [`printed_warnings`] of a kind, only their number is printed, at the end.
    pub(crate) fn warn(&self, kind: &'static str, line: impl AsRef<str>) {
        let mut warnings = self.warnings.borrow_mut();
        let count = warnings.entry(kind).or_default();
        *count += 1;
        if *count <= printed_warnings(kind) {
            self.line(&format!("gausset: warning: {}", truncate_middle(line.as_ref())));
        }
    }

    /// Removes the progress bar and prints how many warnings were not shown.
    pub(crate) fn finish(&self) {
        self.set_bar(None);
        for (kind, count) in self.warnings.borrow().iter() {
            if let Some(more) = count.checked_sub(printed_warnings(kind)).filter(|more| *more > 0) {
                self.line(&format!("gausset: warning: … and {more} more about {kind}"));
            }
        }
        self.warnings.borrow_mut().clear();
    }

    /// Prints an error on stderr, as one line or as a JSON object.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.log_event(|| Some(event_log::failure_line(failure)));
        if self.is_json {
            let object = serde_json::json!({ "error": failure });
            self.print_above_bar(&settings_to_flags(&escape_json(&object.to_string())));
        } else {
            self.line(&format!("gausset: {}", truncate_middle(&failure.message)));
        }
    }

    /// Prints an event on stderr as a JSON object on one line, with `--json` and without `-q`.
    pub(crate) fn json_event(&self, event: &impl Serialize) {
        if self.is_json
            && self.verbosity >= Verbosity::Normal
            && let Ok(object) = serde_json::to_string(event)
        {
            self.print_above_bar(&escape_json(&object));
        }
    }

    /// Prints help on stderr, for a command line without a command.
    pub(crate) fn usage(&self, text: &StyledStr) {
        self.print_above_bar(settings_to_flags(&text.to_string()).trim_end());
    }

    /// Prints help on stdout, for `--help`.
    ///
    /// # Errors
    /// As [`Self::result`].
    pub(crate) fn help(&self, text: &StyledStr) -> Result<(), EarlyExit> {
        let text = if stdout().is_terminal() { text.ansi().to_string() } else { text.to_string() };
        print(&settings_to_flags(&text))
    }

    /// Prints the result on stdout.
    ///
    /// # Errors
    /// stdout cannot be written, or its reader has closed it.
    pub(crate) fn result(&self, lines: impl Into<Lines>) -> Result<(), EarlyExit> {
        print(&settings_to_flags(lines.into().as_str()))
    }

    /// Prints a JSON object on one line of stdout with `--json`, for programs that wait for it, otherwise the text.
    ///
    /// # Errors
    /// As [`Self::result`].
    pub(crate) fn json_line_or_text(&self, object: &serde_json::Value, text: &str) -> Result<(), EarlyExit> {
        if self.logs_to_stdout() {
            self.note(text);
            return Ok(());
        }
        if self.is_json { print_json(&object.to_string()) } else { self.result(text) }
    }

    /// Whether details are asked for, with `-v`.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbosity >= Verbosity::Verbose
    }

    /// [`Self::json_or_text`] for a job whose result is its files: the text is only a summary, left out with `-q`.
    ///
    /// # Errors
    /// As [`Self::result`].
    pub(crate) fn json_or_summary<L: Into<Lines>>(
        &self,
        object: &impl Serialize,
        text: impl FnOnce() -> L,
    ) -> Result<(), EarlyExit> {
        if self.verbosity == Verbosity::Quiet && !self.is_json || self.logs_to_stdout() {
            return Ok(());
        }
        self.json_or_text(object, text)
    }

    /// Prints the result on stdout, as a JSON object with `--json`, otherwise as text.
    ///
    /// # Errors
    /// As [`Self::result`].
    pub(crate) fn json_or_text<L: Into<Lines>>(
        &self,
        object: &impl Serialize,
        text: impl FnOnce() -> L,
    ) -> Result<(), EarlyExit> {
        if !self.is_json {
            return self.result(text());
        }
        match serde_json::to_string_pretty(object) {
            Ok(json) => print_json(&json),
            Err(error) => Err(Failure::new("write", format!("stdout: json: {error}")).into()),
        }
    }

    /// Prints traces of the libraries on stderr: warnings, more with `-v`.
    pub(crate) fn init_tracing(&self) {
        let level = match self.verbosity {
            Verbosity::Quiet => LevelFilter::ERROR,
            Verbosity::Normal => LevelFilter::WARN,
            Verbosity::Verbose => LevelFilter::DEBUG,
            Verbosity::Debug => LevelFilter::TRACE,
        };
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(|| TraceWriter)
            // Escape sequences of the formatter could not be told from those in file names, which are escaped.
            .with_ansi(false)
            .without_time()
            // Otherwise the formatter reports a closed stderr on stderr, and panics.
            .log_internal_errors(false)
            .init();
    }

    /// Prints a line on stderr, above the progress bar if there is one.
    fn line(&self, line: &str) {
        self.print_above_bar(&text::escape_controls(&settings_to_flags(line)));
    }

    /// Prints text without control characters on stderr, above the progress bar if there is one.
    fn print_above_bar(&self, text: &str) {
        match &*self.bar.borrow() {
            Some(bar) => bar.suspend(|| write_error(text)),
            None => write_error(text),
        }
    }
}

/// Prints a line on stderr without a console, for the panic hook.
pub(crate) fn print_to_stderr(line: &str) {
    write_error(&text::escape_controls(line));
}

/// Whether stdin, stdout or stderr is a terminal.
#[cfg(unix)]
pub(crate) fn has_terminal() -> bool {
    io::stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal()
}

/// Writes traces of the libraries to stderr, one event per line. Each call to `write` receives a whole event.
struct TraceWriter;

impl Write for TraceWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        print_to_stderr(&settings_to_flags(String::from_utf8_lossy(event).trim_end()));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Escapes the characters in JSON that a terminal interprets but JSON allows. They can only be inside strings, except
/// for the line breaks between values, which are kept.
fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && text::is_terminal_control(c) {
            // All such characters are below U+10000, so four digits are enough.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Cuts the middle out of a message that is too long. Its beginning names the file, its end what was expected.
fn truncate_middle(message: &str) -> Cow<'_, str> {
    let more = message.chars().count().saturating_sub(MAX_MESSAGE_CHARS);
    if more == 0 {
        return Cow::Borrowed(message);
    }
    let part = |from: usize, count: usize| message.chars().skip(from).take(count).collect::<String>();
    Cow::Owned(format!(
        "{}…{}",
        part(0, MAX_MESSAGE_CHARS / 2),
        part(MAX_MESSAGE_CHARS / 2 + more, MAX_MESSAGE_CHARS)
    ))
}

fn print_json(json: &str) -> Result<(), EarlyExit> {
    print(&format!("{}\n", settings_to_flags(&escape_json(json))))
}

fn print(text: &str) -> Result<(), EarlyExit> {
    let mut stdout = stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(EarlyExit::BrokenPipe),
        Err(error) => {
            let reason = gausset_io::atomic::plain_reason(&error);
            Err(Failure::new("write", format!("stdout: write: {reason}")).into())
        }
    }
}

/// Prints a line on stderr. A closed stderr is ignored.
fn write_error(text: &str) {
    let _ = writeln!(stderr().lock(), "{text}");
}

#[allow(clippy::disallowed_methods, reason = "all output of the program goes through here")]
fn stdout() -> io::Stdout {
    io::stdout()
}

#[allow(clippy::disallowed_methods, reason = "all output of the program goes through here")]
fn stderr() -> io::Stderr {
    io::stderr()
}

/// How many warnings of a kind are printed.
fn printed_warnings(kind: &str) -> u64 {
    if kind == FILES_LEFT_OUT { u64::MAX } else { WARNINGS_PER_KIND }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_files_that_are_left_out_is_named() {
        let counts = |kind| {
            let console = Console::new(Verbosity::Quiet, false);
            (0..9).for_each(|line| console.warn(kind, format!("{line}")));
            console.warnings.borrow()[kind].saturating_sub(printed_warnings(kind))
        };
        assert_eq!((counts(FILES_LEFT_OUT), counts("photographs")), (0, 4));
    }

    #[test]
    fn json_holds_nothing_that_a_terminal_obeys_and_says_the_same() {
        let name = "a\u{9b}31m\u{7f}\u{202e}\u{2028}\x1b\n\"é👩\u{200d}🔬";
        let json = serde_json::to_string_pretty(&serde_json::json!({ "name": name })).unwrap();
        let printed = escape_json(&json);
        assert!(!printed.chars().any(|c| c != '\n' && text::is_terminal_control(c)), "{printed:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap()["name"], name);
    }

    #[test]
    fn a_message_that_is_too_long_loses_its_middle() {
        let long = format!("file: {}: expected a number", "0".repeat(5000));
        let short = truncate_middle(&long);
        assert!(short.starts_with("file: 000") && short.contains("0…0"), "{short}");
        assert!(
            short.ends_with("00: expected a number") && short.chars().count() == MAX_MESSAGE_CHARS + 1,
            "{short}"
        );
        assert_eq!(truncate_middle("short"), "short");
    }
}
