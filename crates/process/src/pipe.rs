//! A pipe with reads of limited duration, so that callers can check a stop flag in between.
//!
//! On Unix, `poll` reports whether there is data, and reads go directly into the caller's buffer. Where pipes cannot be
//! polled (Windows), a thread reads ahead, which costs a copy and two thread switches per 64 KiB.

#[cfg(unix)]
pub(crate) use poll::Pipe;
#[cfg(not(unix))]
pub(crate) use read_ahead::Pipe;

/// Result of a read of limited duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// Number of bytes read, at least one.
    Bytes(usize),
    /// No data yet.
    Nothing,
    /// End of the output.
    End,
}

#[cfg(unix)]
mod poll {
    use std::io::Read as _;
    use std::process::ChildStdout;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::ReadResult;
    use crate::error::ProcessError;

    /// The reading end of a pipe.
    pub(crate) struct Pipe(ChildStdout);

    impl Pipe {
        #[allow(clippy::unnecessary_wraps, reason = "the other one starts a thread")]
        pub(crate) fn new(_program: &str, out: ChildStdout) -> Result<Self, ProcessError> {
            Ok(Self(out))
        }

        /// Reads into `buffer`, which must not be empty, and waits at most `patience` for the first byte.
        pub(crate) fn read(&mut self, buffer: &mut [u8], patience: Duration) -> ReadResult {
            let mut wanted = [PollFd::new(&self.0, PollFlags::IN)];
            let patience = Timespec::try_from(patience).ok();
            match poll(&mut wanted, patience.as_ref()) {
                // Time-out, or interrupted by a signal: the caller checks its stop flag and calls again.
                Ok(0) | Err(_) => return ReadResult::Nothing,
                Ok(_) => {}
            }
            match self.0.read(buffer) {
                Ok(0) => ReadResult::End,
                Ok(count) => ReadResult::Bytes(count),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => ReadResult::Nothing,
                Err(_) => ReadResult::End,
            }
        }
    }
}

#[cfg(any(test, not(unix)))]
mod read_ahead {
    use std::io::{ErrorKind, Read as _};
    use std::process::ChildStdout;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::ReadResult;
    use crate::error::ProcessError;
    use crate::output::spawn_reader;

    /// Bytes of one read.
    const CHUNK_BYTES: usize = 64 * 1024;
    /// Chunks in the channel before the reading thread blocks.
    const CHUNKS: usize = 16;

    /// The reading end of a pipe.
    pub(crate) struct Pipe {
        full: mpsc::Receiver<Vec<u8>>,
        chunk: Vec<u8>,
        /// Number of bytes of `chunk` that were passed on.
        taken: usize,
    }

    impl Pipe {
        pub(crate) fn new(program: &str, mut out: ChildStdout) -> Result<Self, ProcessError> {
            let (sender, full) = mpsc::sync_channel(CHUNKS);
            // Ends with the pipe, or when the receiver is dropped.
            spawn_reader(program, move || {
                loop {
                    let mut chunk = vec![0; CHUNK_BYTES];
                    match out.read(&mut chunk) {
                        Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                        Ok(0) | Err(_) => return,
                        Ok(count) => chunk.truncate(count),
                    }
                    if sender.send(chunk).is_err() {
                        return;
                    }
                }
            })?;
            Ok(Self { full, chunk: Vec::new(), taken: 0 })
        }

        /// Reads into `buffer`, which must not be empty, and waits at most `patience` for the first byte.
        pub(crate) fn read(&mut self, buffer: &mut [u8], patience: Duration) -> ReadResult {
            if self.taken == self.chunk.len() {
                match self.full.recv_timeout(patience) {
                    Ok(chunk) => (self.chunk, self.taken) = (chunk, 0),
                    Err(mpsc::RecvTimeoutError::Timeout) => return ReadResult::Nothing,
                    Err(mpsc::RecvTimeoutError::Disconnected) => return ReadResult::End,
                }
            }
            let rest = &self.chunk[self.taken..];
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            self.taken += count;
            ReadResult::Bytes(count)
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::{ChildStdout, Command, Stdio};
    use std::time::Duration;

    use super::{ReadResult, poll, read_ahead};

    /// Reads all output of a script in pieces of varying size.
    fn read_all(
        script: &str,
        make: impl Fn(ChildStdout) -> Box<dyn FnMut(&mut [u8]) -> ReadResult>,
    ) -> (Vec<u8>, bool) {
        let mut command = Command::new("/bin/sh");
        let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut read = make(child.stdout.take().unwrap());
        let (mut bytes, mut has_waited) = (Vec::new(), false);
        for size in [1, 70_000, 3, 65_536, 200_000].into_iter().cycle() {
            let mut buffer = vec![0; size];
            match read(&mut buffer) {
                ReadResult::Bytes(count) => bytes.extend_from_slice(&buffer[..count]),
                ReadResult::Nothing => has_waited = true,
                ReadResult::End => break,
            }
        }
        child.wait().unwrap();
        (bytes, has_waited)
    }

    #[test]
    fn both_kinds_of_pipe_give_all_bytes_in_order_and_never_wait_long() {
        let patience = Duration::from_millis(20);
        let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
        let script = "sleep 0.2; seq 1 100000";
        for is_ahead in [false, true] {
            let (bytes, has_waited) = read_all(script, |out| {
                if is_ahead {
                    let mut pipe = read_ahead::Pipe::new("sh", out).unwrap();
                    Box::new(move |buffer| pipe.read(buffer, patience))
                } else {
                    let mut pipe = poll::Pipe::new("sh", out).unwrap();
                    Box::new(move |buffer| pipe.read(buffer, patience))
                }
            });
            assert!(bytes == expected.as_bytes(), "{is_ahead}: {} bytes", bytes.len());
            assert!(has_waited, "{is_ahead}: no data for 0.2 s");
        }
    }
}
