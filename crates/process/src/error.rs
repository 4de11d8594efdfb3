//! Why a program did not do its work.

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such program.
    #[error("{program}: program: not found")]
    NotFound {
        /// What was asked for.
        program: String,
    },
    /// It could not be started.
    #[error("{program}: program: cannot be started: {reason}")]
    Start {
        /// What was asked for.
        program: String,
        /// The system's answer.
        reason: String,
    },
    /// It ended with an error.
    #[error("{program}: {how}{}", last(tail))]
    Failed {
        /// The program that failed.
        program: String,
        /// Exit code or signal.
        how: String,
        /// Last lines of what it said.
        tail: Vec<String>,
    },
    /// It said nothing for too long and was ended.
    #[error(
        "{program}: no sign of life for {seconds} s, so it was ended (⟨tool-timeout⟩ raises the limit){}",
        last(tail)
    )]
    Silent {
        /// The program that was ended.
        program: String,
        /// The limit that it passed.
        seconds: u64,
        /// Last lines of what it said.
        tail: Vec<String>,
    },
    /// The stop flag was set.
    #[error("{program}: stopped")]
    Stopped {
        /// The program that was ended.
        program: String,
    },
}

fn last(tail: &[String]) -> String {
    match tail.iter().rev().find(|line| line.chars().any(char::is_alphanumeric)) {
        Some(line) => format!("; it said: {}", line.trim()),
        None => String::new(),
    }
}
