//! Outside programs: argument vectors, never a shell; a process group of their own, which is killed as a whole; output
//! drained by threads; a limit on silence, not on duration.
//!
//! ```text
//! Program::new("ffmpeg").arg(..) ─▶ run(stop, on_line) ─▶ every line of stdout and stderr as it comes ─▶ Finished
//!                                └▶ stream(stop)       ─▶ stdout as bytes, stderr kept
//! ```
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines of output that errors quote and [`Finished`] keeps.
const TAIL_LINES: usize = 20;
/// Longest line that is kept, bytes.
const MAX_LINE_BYTES: u64 = 64 * 1024;
/// How often the stop flag and the clock are looked at.
const POLL: Duration = Duration::from_millis(20);
/// A longer time between two looks at the clock means that this process was stopped itself, or the machine slept.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Groups that are running, by the number of their leader.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Stops everything that was started, until [`go_on`]: for a person who pauses the program.
pub fn pause() {
    #[cfg(unix)]
    signal_all(rustix::process::Signal::STOP);
}

/// Lets everything go on that [`pause`] has stopped.
pub fn go_on() {
    #[cfg(unix)]
    signal_all(rustix::process::Signal::CONT);
}

#[cfg(unix)]
fn signal_all(signal: rustix::process::Signal) {
    for pid in lock(&RUNNING).iter().filter_map(|&id| i32::try_from(id).ok()) {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            // A group that has just ended is no error.
            let _ = rustix::process::kill_process_group(pid, signal);
        }
    }
}

/// How long nothing was heard. Time in which this process stood still does not count.
#[derive(Debug)]
struct Silence {
    silent: Duration,
    last_look: Instant,
}

impl Silence {
    fn new() -> Self {
        Self { silent: Duration::ZERO, last_look: Instant::now() }
    }

    fn elapsed(&mut self) -> Duration {
        let now = Instant::now();
        self.silent += now.duration_since(self.last_look).min(LONGEST_LOOK);
        self.last_look = now;
        self.silent
    }
}

/// A program to run.
#[derive(Clone, Debug)]
pub struct Program {
    program: PathBuf,
    arguments: Vec<OsString>,
    silence: Duration,
    environment: Vec<(OsString, OsString)>,
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

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
        /// The program.
        program: String,
        /// Exit code or signal.
        how: String,
        /// Last lines of what it said.
        tail: Vec<String>,
    },
    /// It said nothing for too long and was ended.
    #[error(
        "{program}: no sign of life for {seconds} s, so it was ended (--tool-timeout raises the limit){}",
        last(tail)
    )]
    Silent {
        /// The program.
        program: String,
        /// The limit.
        seconds: u64,
        /// Last lines of what it said.
        tail: Vec<String>,
    },
    /// The stop flag was set.
    #[error("{program}: stopped")]
    Stopped {
        /// The program.
        program: String,
    },
}

fn last(tail: &[String]) -> String {
    match tail.iter().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("; it said: {}", line.trim()),
        None => String::new(),
    }
}

/// What a program that succeeded said last.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Last lines.
    pub tail: Vec<String>,
}

impl Program {
    /// A program by name (looked up in PATH) or path.
    #[must_use]
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            silence: Duration::from_secs(120),
            environment: Vec::new(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds a file; a name that begins with `-` is not taken for an option.
    #[must_use]
    pub fn file(self, path: &Path) -> Self {
        if path.as_os_str().as_encoded_bytes().starts_with(b"-") {
            return self.arg(Path::new(".").join(path));
        }
        self.arg(path)
    }

    /// Sets how long it may say nothing.
    #[must_use]
    pub fn silence(mut self, limit: Duration) -> Self {
        self.silence = limit;
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    fn name(&self) -> String {
        self.program.display().to_string()
    }

    fn spawn(&self) -> Result<Group, ProcessError> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let program = self.name();
        match command.spawn() {
            Ok(child) => {
                lock(&RUNNING).insert(child.id());
                Ok(Group { child, is_over: false })
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(ProcessError::NotFound { program }),
            Err(e) => Err(ProcessError::Start { program, reason: e.to_string() }),
        }
    }

    /// Runs it to its end and hands over each line as it comes.
    ///
    /// # Errors
    /// It cannot be started, ends with an error, says nothing for too long, or `stop` is set.
    pub fn run(
        &self,
        stop: &AtomicBool,
        on_line: &mut dyn FnMut(Stream, &str),
    ) -> Result<Finished, ProcessError> {
        let mut group = self.spawn()?;
        let (sender, receiver) = mpsc::sync_channel::<(Stream, String)>(1024);
        let mut readers: Vec<JoinHandle<()>> = Vec::new();
        if let Some(out) = group.child.stdout.take() {
            readers.push(read_lines(out, Stream::Out, sender.clone()));
        }
        if let Some(err) = group.child.stderr.take() {
            readers.push(read_lines(err, Stream::Err, sender));
        }
        let program = self.name();
        let mut tail: VecDeque<String> = VecDeque::new();
        let mut silence = Silence::new();
        loop {
            match receiver.recv_timeout(POLL) {
                Ok((stream, line)) => {
                    silence = Silence::new();
                    on_line(stream, &line);
                    if tail.len() == TAIL_LINES {
                        tail.pop_front();
                    }
                    tail.push_back(line);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    // Both pipes are closed: it ends now, or is about to; the limit holds here too.
                    if let Some(status) = group.try_wait() {
                        return finished(program, status, tail.into());
                    }
                    std::thread::sleep(POLL);
                }
            }
            if stop.load(Ordering::Relaxed) {
                group.end();
                return Err(ProcessError::Stopped { program });
            }
            let silent = silence.elapsed();
            if silent > self.silence {
                group.end();
                return Err(ProcessError::Silent {
                    program,
                    seconds: self.silence.as_secs(),
                    tail: tail.into(),
                });
            }
            // A grandchild may hold the pipes open after the program has ended.
            if silent > Duration::from_secs(1)
                && let Some(status) = group.try_wait()
            {
                group.end();
                return finished(program, status, tail.into());
            }
        }
    }

    /// Starts it with its standard output as a stream of bytes.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn stream(&self) -> Result<Streaming, ProcessError> {
        let mut group = self.spawn()?;
        let out = group.child.stdout.take();
        let tail: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let reader = group.child.stderr.take().map(|err| {
            let tail = Arc::clone(&tail);
            std::thread::spawn(move || {
                each_line(err, &mut |line| {
                    let mut tail = lock(&tail);
                    if tail.len() == TAIL_LINES {
                        tail.pop_front();
                    }
                    tail.push_back(line);
                    true
                });
            })
        });
        let group = Arc::new(Mutex::new(group));
        let watch = Arc::new(Watch::default());
        let watcher = {
            let (group, watch, silence) = (Arc::clone(&group), Arc::clone(&watch), self.silence);
            std::thread::spawn(move || watch.guard(&group, silence))
        };
        Ok(Streaming {
            program: self.name(),
            silence: self.silence,
            out,
            group,
            tail,
            watch,
            threads: reader.into_iter().chain([watcher]).collect(),
        })
    }
}

fn finished(program: String, status: ExitStatus, tail: Vec<String>) -> Result<Finished, ProcessError> {
    if status.success() {
        return Ok(Finished { tail });
    }
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let how = match (status.code(), signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(9)) => "was killed (signal 9; out of memory?)".to_owned(),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended abnormally".to_owned(),
    };
    Err(ProcessError::Failed { program, how, tail })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child with everything it started.
struct Group {
    child: Child,
    is_over: bool,
}

impl Group {
    fn try_wait(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten();
        self.is_over |= status.is_some();
        status
    }

    /// Kills the whole group.
    fn end(&mut self) {
        #[cfg(unix)]
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // The group may be gone already.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        if !self.is_over {
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.is_over = true;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_over {
            self.end();
        }
        lock(&RUNNING).remove(&self.child.id());
    }
}

fn read_lines(
    pipe: impl Read + Send + 'static,
    stream: Stream,
    sender: mpsc::SyncSender<(Stream, String)>,
) -> JoinHandle<()> {
    std::thread::spawn(move || each_line(pipe, &mut |line| sender.send((stream, line)).is_ok()))
}

/// Lines of a pipe; carriage returns end lines too (progress displays).
fn each_line(pipe: impl Read, f: &mut dyn FnMut(String) -> bool) {
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

/// Signs of life of a stream.
#[derive(Debug, Default)]
struct Watch {
    /// Bytes read so far.
    bytes: AtomicU64,
    /// Whether somebody is waiting for bytes: silence counts only then.
    is_waiting: AtomicBool,
    is_over: AtomicBool,
    is_silent: AtomicBool,
    is_stopped: AtomicBool,
}

impl Watch {
    fn guard(&self, group: &Mutex<Group>, silence: Duration) {
        let (mut seen, mut quiet) = (0, Silence::new());
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(POLL);
            let bytes = self.bytes.load(Ordering::Relaxed);
            if bytes != seen || !self.is_waiting.load(Ordering::Relaxed) {
                (seen, quiet) = (bytes, Silence::new());
            }
            let is_silent = quiet.elapsed() > silence;
            if is_silent || self.is_stopped.load(Ordering::Relaxed) {
                self.is_silent.store(is_silent, Ordering::Relaxed);
                lock(group).end();
                return;
            }
        }
    }
}

/// A running program whose output is read as bytes. Dropped, it is killed.
pub struct Streaming {
    program: String,
    silence: Duration,
    out: Option<ChildStdout>,
    group: Arc<Mutex<Group>>,
    tail: Arc<Mutex<VecDeque<String>>>,
    watch: Arc<Watch>,
    threads: Vec<JoinHandle<()>>,
}

impl Streaming {
    /// Reads until `buffer` is full or the output ends; gives the number of bytes.
    ///
    /// # Errors
    /// It was ended because it said nothing for too long or because of [`Self::stop`].
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, ProcessError> {
        let mut have = 0;
        self.watch.is_waiting.store(true, Ordering::Relaxed);
        while have < buffer.len() {
            let Some(out) = &mut self.out else { break };
            match out.read(&mut buffer[have..]) {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    have += n;
                    self.watch.bytes.fetch_add(n as u64, Ordering::Relaxed);
                }
            }
        }
        self.watch.is_waiting.store(false, Ordering::Relaxed);
        let program = || self.program.clone();
        if self.watch.is_silent.load(Ordering::Relaxed) {
            let tail = lock(&self.tail).iter().cloned().collect();
            return Err(ProcessError::Silent { program: program(), seconds: self.silence.as_secs(), tail });
        }
        if self.watch.is_stopped.load(Ordering::Relaxed) {
            return Err(ProcessError::Stopped { program: program() });
        }
        Ok(have)
    }

    /// Ends it.
    pub fn stop(&self) {
        self.watch.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It ended with an error or does not end.
    pub fn finish(mut self) -> Result<Finished, ProcessError> {
        self.out = None;
        let mut waited = Silence::new();
        loop {
            let status = lock(&self.group).try_wait();
            if let Some(status) = status {
                self.close();
                let tail = lock(&self.tail).iter().cloned().collect();
                return finished(self.program.clone(), status, tail);
            }
            if waited.elapsed() > self.silence {
                let tail = lock(&self.tail).iter().cloned().collect();
                return Err(ProcessError::Silent {
                    program: self.program.clone(),
                    seconds: self.silence.as_secs(),
                    tail,
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn close(&mut self) {
        self.out = None;
        self.watch.is_over.store(true, Ordering::Relaxed);
        lock(&self.group).end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.close();
    }
}

/// Finds a program in PATH.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| is_executable(candidate))
}

/// Whether a path names a file that may be executed.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    {
        path.is_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Program {
        Program::new("/bin/sh").arg("-c").arg(script)
    }

    fn run(program: &Program) -> (Result<Finished, ProcessError>, Vec<String>) {
        let mut lines = Vec::new();
        let result = program.run(&AtomicBool::new(false), &mut |_, line| lines.push(line.to_owned()));
        (result, lines)
    }

    #[test]
    fn lines_of_both_streams_arrive_and_the_environment_is_plain() {
        let (result, mut lines) = run(&sh("echo out; echo err >&2; printf 'a\\rb\\n'; echo $LC_ALL"));
        result.unwrap();
        lines.sort();
        assert_eq!(lines, ["C", "a", "b", "err", "out"]);
    }

    #[test]
    fn failures_quote_the_last_line() {
        let (result, _) = run(&sh("echo because >&2; exit 7"));
        assert_eq!(result.unwrap_err().to_string(), "/bin/sh: ended with exit code 7; it said: because");
        let (result, _) = run(&Program::new("/nonexistent/tool"));
        assert_eq!(result.unwrap_err().to_string(), "/nonexistent/tool: program: not found");
        let (result, _) = run(&sh("kill -9 $$"));
        assert!(result.unwrap_err().to_string().contains("signal 9"));
    }

    #[test]
    fn silence_ends_a_program_with_everything_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 3; touch {}) & echo started; sleep 60", mark.display());
        let (result, lines) = run(&sh(&script).silence(Duration::from_millis(300)));
        assert!(matches!(result, Err(ProcessError::Silent { .. })), "{result:?}");
        assert_eq!(lines, ["started"]);
        std::thread::sleep(Duration::from_millis(3200));
        assert!(!mark.exists(), "the child of the program lived on");
    }

    #[test]
    fn a_paused_program_stands_still_and_the_pause_is_no_silence() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let script = format!("for i in 1 2 3 4 5 6 7 8; do echo x >> {}; sleep 0.1; done", count.display());
        let length = || std::fs::metadata(&count).map_or(0, |m| m.len());
        let runner = std::thread::spawn(move || run(&sh(&script).silence(Duration::from_secs(30))).0);
        while length() < 4 {
            std::thread::sleep(Duration::from_millis(5));
        }
        pause();
        // What was under way when the signal came may still be written.
        std::thread::sleep(Duration::from_millis(100));
        let before = length();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(length(), before);
        go_on();
        runner.join().unwrap().unwrap();
        assert_eq!(length(), 16);
        let mut silence = Silence::new();
        silence.last_look = Instant::now().checked_sub(Duration::from_secs(600)).unwrap();
        assert!(silence.elapsed() <= LONGEST_LOOK);
    }

    #[test]
    fn a_flag_stops_a_program_that_never_ends() {
        let stop = AtomicBool::new(false);
        let result = sh("while true; do echo x; sleep 0.05; done")
            .run(&stop, &mut |_, _| stop.store(true, Ordering::Relaxed));
        assert!(matches!(result, Err(ProcessError::Stopped { .. })));
    }

    #[test]
    fn a_flood_of_output_is_bounded() {
        let (result, lines) = run(&sh("head -c 2000000 /dev/zero | tr '\\0' 'x'; echo"));
        let finished = result.unwrap();
        assert!(finished.tail.len() <= TAIL_LINES && lines.iter().all(|l| l.len() as u64 <= MAX_LINE_BYTES));
    }

    #[test]
    fn bytes_are_streamed_and_the_end_is_told() {
        let mut stream = sh("printf 12345678").stream().unwrap();
        let mut buffer = [0; 5];
        assert_eq!(stream.fill(&mut buffer).unwrap(), 5);
        assert_eq!(stream.fill(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"678");
        assert!(stream.finish().is_ok());
        let mut stream = sh("sleep 60").silence(Duration::from_millis(200)).stream().unwrap();
        assert!(matches!(stream.fill(&mut buffer), Err(ProcessError::Silent { .. })));
        let stream = sh("echo no >&2; exit 3").stream().unwrap();
        let message = stream.finish().unwrap_err().to_string();
        assert!(message.contains("exit code 3"), "{message}");
    }
}
