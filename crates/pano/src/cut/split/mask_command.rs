//! An external program that makes masks.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_process::{ProcessError, Program, find_program};

/// Why a mask command is invalid.
#[derive(Debug, thiserror::Error)]
pub enum MaskCommandError {
    /// A quote is not closed.
    #[error("quotes do not match in `{0}`")]
    UnclosedQuote(String),
    /// The command is empty.
    #[error("is empty (expected a program and its arguments)")]
    Empty,
    /// The program does not exist.
    #[error("`{0}` is not a program (expected one in PATH, or a path to one)")]
    NoProgram(String),
}

/// An external program that writes a mask for a frame: 0 = remove, anything else = keep; no file = keep everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskCommand {
    /// Program and arguments. `{frame}` and `{mask}` are replaced by the paths of the image and of the PNG to write.
    argv: Vec<String>,
    output_timeout: Duration,
}

impl MaskCommand {
    /// Splits a command line like a shell, without running one. If `{frame}` or `{mask}` is missing, it is appended.
    /// `silence` is the longest time without output.
    ///
    /// # Errors
    /// Quotes do not match, or there is no such program.
    pub fn parse(text: &str, silence: Duration) -> Result<Self, MaskCommandError> {
        let mut words = shlex::split(text).ok_or_else(|| MaskCommandError::UnclosedQuote(text.to_owned()))?;
        let program = words.first().ok_or(MaskCommandError::Empty)?;
        if find_program(program).is_none() {
            return Err(MaskCommandError::NoProgram(program.clone()));
        }
        for place in ["{frame}", "{mask}"] {
            if !words.iter().any(|word| word.contains(place)) {
                words.push(place.to_owned());
            }
        }
        Ok(Self { argv: words, output_timeout: silence })
    }

    /// Program and arguments, on which the result depends.
    #[must_use]
    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// Runs the program for an image. It writes `mask`, or nothing.
    pub(super) fn run(&self, frame: &Path, mask: &Path, stop: &AtomicBool) -> Result<(), ProcessError> {
        let mut words = self.argv.iter();
        let Some(program) = words.next() else { return Ok(()) };
        // This is the user's command line: relative paths refer to the working folder.
        let mut program = Program::new(program).silence_limit(self.output_timeout).in_working_folder();
        for word in words {
            program = match word.as_str() {
                "{frame}" => program.file(frame),
                "{mask}" => program.file(mask),
                _ => {
                    let named = |path: &Path| path.to_string_lossy().into_owned();
                    program.arg(word.replace("{frame}", &named(frame)).replace("{mask}", &named(mask)))
                }
            };
        }
        program.run(stop, &mut |_, _| {}).map(|_| ())
    }
}
