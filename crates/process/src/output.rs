//! Output of a running program, and the two reasons to kill it: the stop flag and silence.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::ProcessError;
use crate::group::{ExitReason, Group, lock};

/// Interval at which the stop flag and the clock are checked.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Number of last output lines that errors quote and [`ProgramOutput`] keeps.
pub(crate) const TAIL_LINES: usize = 20;
/// Longest line that is kept, bytes. Longer ones are split.
pub(crate) const MAX_LINE_BYTES: u64 = 64 * 1024;
/// A longer time between two checks of the clock means that this process was suspended or the machine slept.
pub(crate) const MAX_POLL_GAP: Duration = Duration::from_secs(1);

/// Stream that a line was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output: results.
    Out,
    /// Standard error: messages.
    Err,
}

/// Result of a program that succeeded.
#[derive(Clone, Debug, Default)]
pub struct ProgramOutput {
    /// Last lines of its output.
    pub tail: Vec<String>,
}

/// Time since the last output. Time in which this process was suspended does not count.
#[derive(Debug)]
pub(crate) struct SilenceTimer {
    silent: Duration,
    pub(crate) last_check: Instant,
}

impl SilenceTimer {
    pub(crate) fn new() -> Self {
        Self { silent: Duration::ZERO, last_check: Instant::now() }
    }

    pub(crate) fn elapsed(&mut self) -> Duration {
        let now = Instant::now();
        self.silent += now.duration_since(self.last_check).min(MAX_POLL_GAP);
        self.last_check = now;
        self.silent
    }
}

/// The last [`TAIL_LINES`] lines of output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    pub(crate) fn push(&self, line: String) {
        let mut lines = lock(&self.0);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn lines(&self) -> Vec<String> {
        lock(&self.0).iter().cloned().collect()
    }
}

/// A running program with its limits, which a caller waits for.
pub(crate) struct RunningProgram<'a> {
    pub(crate) program: String,
    pub(crate) group: Group,
    pub(crate) tail: Tail,
    stop: &'a AtomicBool,
    limit: Duration,
    silence: SilenceTimer,
}

impl<'a> RunningProgram<'a> {
    pub(crate) fn new(program: String, group: Group, limit: Duration, stop: &'a AtomicBool) -> Self {
        Self { program, group, tail: Tail::default(), stop, limit, silence: SilenceTimer::new() }
    }

    /// Restarts the silence timer: output arrived, or the caller starts to wait.
    pub(crate) fn reset_silence(&mut self) {
        self.silence = SilenceTimer::new();
    }

    /// Time since the last output. Callers that wait call this every [`POLL_INTERVAL`].
    ///
    /// # Errors
    /// The stop flag is set, or the silence limit has passed. The program has been killed.
    pub(crate) fn poll(&mut self) -> Result<Duration, ProcessError> {
        let program = || self.program.clone();
        if self.stop.load(Ordering::Relaxed) {
            self.group.kill();
            return Err(ProcessError::Stopped { program: program() });
        }
        let silent = self.silence.elapsed();
        if silent > self.limit {
            self.group.kill();
            let (seconds, tail) = (self.limit.as_secs(), self.tail.lines());
            return Err(ProcessError::Silent { program: program(), seconds, tail });
        }
        Ok(silent)
    }

    /// Maps its exit status to success or failure.
    pub(crate) fn into_result(self, end: ExitReason) -> Result<ProgramOutput, ProcessError> {
        let tail = self.tail.lines();
        let how = match end {
            ExitReason::Status(status) if status.success() => return Ok(ProgramOutput { tail }),
            ExitReason::Unknown => "ended with an unknown exit status (is SIGCHLD ignored?)".to_owned(),
            ExitReason::Status(status) => {
                #[cfg(unix)]
                let signal = std::os::unix::process::ExitStatusExt::signal(&status);
                #[cfg(not(unix))]
                let signal: Option<i32> = None;
                match (status.code(), signal) {
                    (Some(code), _) => format!("ended with exit code {code}"),
                    (None, Some(9)) => "was killed (signal 9; out of memory?)".to_owned(),
                    (None, Some(signal)) => format!("was killed by signal {signal}"),
                    (None, None) => "ended abnormally".to_owned(),
                }
            }
        };
        Err(ProcessError::Failed { program: self.program.clone(), status: how, tail })
    }
}

/// Starts a thread that reads a pipe.
pub(crate) fn spawn_reader(
    program: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ProcessError> {
    std::thread::Builder::new()
        .spawn(work)
        .map_err(|e| ProcessError::Start { program: program.to_owned(), reason: e.to_string() })
}

/// Calls `f` with each non-empty line of a pipe until it returns `false`. Carriage returns also end lines, as progress
/// displays use them.
pub(crate) fn for_each_line(pipe: impl Read, mut f: impl FnMut(String) -> bool) {
    let mut reader = BufReader::new(pipe);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&buffer);
        for line in text.split(['\n', '\r']).filter(|line| !line.is_empty()) {
            if !f(line.to_owned()) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_this_process_stood_still_is_no_silence() {
        let mut silence = SilenceTimer::new();
        silence.last_check = Instant::now().checked_sub(Duration::from_secs(600)).unwrap();
        assert!(silence.elapsed() <= MAX_POLL_GAP);
    }
}
