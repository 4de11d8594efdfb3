//! An outside program that makes masks.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_process::{ProcessError, Program, find};

/// Why a command line is no mask command.
#[derive(Debug, thiserror::Error)]
pub enum MaskCommandError {
    /// A quote is not closed.
    #[error("quotes do not match in `{0}`")]
    Quotes(String),
    /// There are no words.
    #[error("is empty (expected a program and its arguments)")]
    Empty,
    /// The first word names no program.
    #[error("`{0}` is no program (expected one in PATH, or a path to one)")]
    NoProgram(String),
}

/// An outside program that writes a mask for a frame: 0 = remove, anything else = keep; no file = keep everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskCommand {
    /// Program and arguments; `{frame}` and `{mask}` stand for the picture and for the PNG that is to be written.
    words: Vec<String>,
    silence: Duration,
}

impl MaskCommand {
    /// Takes a command line apart as a shell would, without running one. Without `{frame}` and `{mask}`, both are
    /// added at its end. `silence`: how long the program may say nothing.
    ///
    /// # Errors
    /// Quotes do not match, or there is no such program.
    pub fn parse(text: &str, silence: Duration) -> Result<Self, MaskCommandError> {
        let mut words = shlex::split(text).ok_or_else(|| MaskCommandError::Quotes(text.to_owned()))?;
        let program = words.first().ok_or(MaskCommandError::Empty)?;
        if find(program).is_none() {
            return Err(MaskCommandError::NoProgram(program.clone()));
        }
        for place in ["{frame}", "{mask}"] {
            if !words.iter().any(|word| word.contains(place)) {
                words.push(place.to_owned());
            }
        }
        Ok(Self { words, silence })
    }

    /// What the result depends on.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Runs it for a picture; it writes `mask`, or nothing.
    pub(super) fn run(&self, frame: &Path, mask: &Path, stop: &AtomicBool) -> Result<(), ProcessError> {
        let mut words = self.words.iter();
        let Some(program) = words.next() else { return Ok(()) };
        // The user's own command line: its words may be files of the working folder.
        let mut program = Program::new(program).silence(self.silence).in_working_folder();
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
