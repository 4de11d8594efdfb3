//! What a running program says, and the two reasons to end it: the stop flag, and silence.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::ProcessError;
use crate::group::{End, Group, lock};

/// How often the stop flag and the clock are looked at.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Lines of output that errors quote and [`Finished`] keeps.
pub(crate) const TAIL_LINES: usize = 20;
/// Longest line that is kept, bytes.
pub(crate) const MAX_LINE_BYTES: u64 = 64 * 1024;
/// A longer time between two looks at the clock means that this process was stopped itself, or the machine slept.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What a program that succeeded said last.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Last lines.
    pub tail: Vec<String>,
}

/// How long nothing was heard. Time in which this process stood still does not count.
#[derive(Debug)]
pub(crate) struct Silence {
    silent: Duration,
    pub(crate) last_look: Instant,
}

impl Silence {
    pub(crate) fn new() -> Self {
        Self { silent: Duration::ZERO, last_look: Instant::now() }
    }

    pub(crate) fn elapsed(&mut self) -> Duration {
        let now = Instant::now();
        self.silent += now.duration_since(self.last_look).min(LONGEST_LOOK);
        self.last_look = now;
        self.silent
    }
}

/// The last lines of what a program said.
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

/// A program that somebody waits for.
pub(crate) struct Waited<'a> {
    pub(crate) program: String,
    pub(crate) group: Group,
    pub(crate) tail: Tail,
    stop: &'a AtomicBool,
    limit: Duration,
    silence: Silence,
}

impl<'a> Waited<'a> {
    pub(crate) fn new(program: String, group: Group, limit: Duration, stop: &'a AtomicBool) -> Self {
        Self { program, group, tail: Tail::default(), stop, limit, silence: Silence::new() }
    }

    /// It gave a sign of life, or nobody was listening until now.
    pub(crate) fn heard(&mut self) {
        self.silence = Silence::new();
    }

    /// How long it has been silent; whoever waits calls this every [`POLL`].
    ///
    /// # Errors
    /// The stop flag is set, or it was silent for too long; it is ended.
    pub(crate) fn look(&mut self) -> Result<Duration, ProcessError> {
        let program = || self.program.clone();
        if self.stop.load(Ordering::Relaxed) {
            self.group.end();
            return Err(ProcessError::Stopped { program: program() });
        }
        let silent = self.silence.elapsed();
        if silent > self.limit {
            self.group.end();
            let (seconds, tail) = (self.limit.as_secs(), self.tail.lines());
            return Err(ProcessError::Silent { program: program(), seconds, tail });
        }
        Ok(silent)
    }

    /// Its end as success or failure.
    pub(crate) fn finished(self, end: End) -> Result<Finished, ProcessError> {
        let tail = self.tail.lines();
        let how = match end {
            End::Status(status) if status.success() => return Ok(Finished { tail }),
            End::Unknown => "ended, but the system does not tell how (is SIGCHLD ignored?)".to_owned(),
            End::Status(status) => {
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
        Err(ProcessError::Failed { program: self.program.clone(), how, tail })
    }
}

/// Starts a thread that reads a pipe.
pub(crate) fn thread(
    program: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ProcessError> {
    std::thread::Builder::new()
        .spawn(work)
        .map_err(|e| ProcessError::Start { program: program.to_owned(), reason: e.to_string() })
}

/// Lines of a pipe; carriage returns end lines too (progress displays).
pub(crate) fn each_line(pipe: impl Read, mut f: impl FnMut(String) -> bool) {
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
        let mut silence = Silence::new();
        silence.last_look = Instant::now().checked_sub(Duration::from_secs(600)).unwrap();
        assert!(silence.elapsed() <= LONGEST_LOOK);
    }
}
