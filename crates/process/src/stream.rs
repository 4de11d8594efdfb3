//! Output of a running program as bytes. The caller never blocks in a read: the stop flag and the silence limit are
//! checked while it waits.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::ProcessError;
use crate::output::{POLL_INTERVAL, ProgramOutput, RunningProgram, for_each_line, spawn_reader};
use crate::pipe::{Pipe, ReadResult};

/// How long to wait for the rest of standard error after the program has exited.
const STDERR_GRACE: Duration = Duration::from_secs(1);

/// A running program whose standard output is read as bytes. It is killed on drop.
pub struct ProgramStream<'a> {
    running: RunningProgram<'a>,
    /// `None` once the output has ended.
    out: Option<Pipe>,
    errors: Option<JoinHandle<()>>,
}

impl<'a> ProgramStream<'a> {
    pub(crate) fn new(mut running: RunningProgram<'a>) -> Result<Self, ProcessError> {
        let out = running.group.child_mut().stdout.take();
        let out = out.map(|out| Pipe::new(&running.program, out)).transpose()?;
        let errors = match running.group.child_mut().stderr.take() {
            Some(err) => {
                let tail = running.tail.clone();
                let keep = move |line| {
                    tail.push(line);
                    true
                };
                Some(spawn_reader(&running.program, move || for_each_line(err, keep))?)
            }
            None => None,
        };
        Ok(Self { running, out, errors })
    }

    /// Reads until `buffer` is full or the output ends. Returns the number of bytes read.
    ///
    /// # Errors
    /// The program was killed because it wrote nothing for too long during this call, or because the stop flag is set.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, ProcessError> {
        let mut have = 0;
        self.running.reset_silence();
        while have < buffer.len() {
            self.running.poll()?;
            let Some(out) = &mut self.out else { break };
            match out.read(&mut buffer[have..], POLL_INTERVAL) {
                ReadResult::Bytes(count) => {
                    have += count;
                    self.running.reset_silence();
                }
                ReadResult::Nothing => {}
                ReadResult::End => self.out = None,
            }
        }
        Ok(have)
    }

    /// Waits for the program to exit. Output that has not been read is discarded.
    ///
    /// # Errors
    /// The program exits with an error or stays silent for longer than its limit, or the stop flag is set.
    pub fn finish(mut self) -> Result<ProgramOutput, ProcessError> {
        self.out = None;
        self.running.reset_silence();
        loop {
            if let Some(end) = self.running.group.try_wait() {
                let ended = Instant::now();
                while self.errors.as_ref().is_some_and(|thread| !thread.is_finished())
                    && ended.elapsed() < STDERR_GRACE
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return self.running.into_result(end);
            }
            self.running.poll()?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::Program;

    static NEVER: AtomicBool = AtomicBool::new(false);
    /// Upper bound on the duration of each test here.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn sh(script: &str) -> Program {
        Program::new("/bin/sh").arg("-c").arg(script)
    }

    #[test]
    fn bytes_are_streamed_and_the_end_is_told() {
        let mut stream = sh("printf 12345678").stream(&NEVER).unwrap();
        let mut buffer = [0; 5];
        assert_eq!(stream.fill(&mut buffer).unwrap(), 5);
        assert_eq!(stream.fill(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"678");
        assert!(stream.finish().is_ok());
        let mut stream = sh("sleep 60").silence_limit(Duration::from_millis(200)).stream(&NEVER).unwrap();
        assert!(matches!(stream.fill(&mut buffer), Err(ProcessError::Silent { .. })));
        let stream = sh("echo no >&2; exit 3").stream(&NEVER).unwrap();
        let message = stream.finish().unwrap_err().to_string();
        assert!(message.ends_with("ended with exit code 3; last output: no"), "{message}");
    }

    #[test]
    fn the_stop_flag_ends_a_program_that_says_nothing() {
        for finishes in [false, true] {
            let stop = AtomicBool::new(false);
            let started = Instant::now();
            // Stands in for a program that hangs: its child holds the pipe open from outside the process group.
            let mut stream = sh("command -v setsid && setsid sleep 40 & sleep 97").stream(&stop).unwrap();
            let result = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(200));
                    stop.store(true, Ordering::Relaxed);
                });
                if finishes { stream.finish().map(|_| 0) } else { stream.fill(&mut [0; 1 << 16]) }
            });
            assert!(matches!(result, Err(ProcessError::Stopped { .. })), "{result:?}");
            assert!(started.elapsed() < PATIENCE);
        }
    }

    #[test]
    fn a_caller_that_takes_its_time_is_no_silence() {
        let mut stream = sh("printf 12; sleep 0.1; printf 34")
            .silence_limit(Duration::from_secs(3))
            .stream(&NEVER)
            .unwrap();
        let mut buffer = [0; 2];
        assert_eq!(stream.fill(&mut buffer).unwrap(), 2);
        std::thread::sleep(Duration::from_millis(3500));
        assert_eq!(stream.fill(&mut buffer).unwrap(), 2);
        assert_eq!(&buffer, b"34");
    }
}
