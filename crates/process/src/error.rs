//! Errors of running a program.

/// Why a program could not be run or did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The program was not found.
    #[error("{program}: program: not found")]
    NotFound {
        /// Name or path as given to `Program::new`.
        program: String,
    },
    /// The program could not be started.
    #[error("{program}: program: cannot be started: {reason}")]
    Start {
        /// Name or path as given to `Program::new`.
        program: String,
        /// Error message of the operating system.
        reason: String,
    },
    /// The program exited with an error.
    #[error("{program}: {status}{}", last_line_suffix(tail))]
    Failed {
        /// The program that failed.
        program: String,
        /// Exit code or signal.
        status: String,
        /// Last lines of its output.
        tail: Vec<String>,
    },
    /// The program wrote nothing for longer than its limit and was killed.
    #[error(
        "{program}: no output for {seconds} s, so it was killed (⟨tool-timeout⟩ raises the limit){}",
        last_line_suffix(tail)
    )]
    Silent {
        /// The program that was killed.
        program: String,
        /// The limit, s.
        seconds: u64,
        /// Last lines of its output.
        tail: Vec<String>,
    },
    /// The stop flag was set.
    #[error("{program}: stopped")]
    Stopped {
        /// The program that was killed.
        program: String,
    },
}

fn last_line_suffix(tail: &[String]) -> String {
    match tail.iter().rev().find(|line| line.chars().any(char::is_alphanumeric)) {
        Some(line) => format!("; last output: {}", line.trim()),
        None => String::new(),
    }
}
