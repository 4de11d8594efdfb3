//! A program to run: its arguments, its environment, and ways to run it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

use crate::error::ProcessError;
use crate::group::{self, Group};
use crate::lookup;
use crate::output::{
    OutputStream, POLL_INTERVAL, ProgramOutput, RunningProgram, for_each_line, spawn_reader,
};
use crate::stream::ProgramStream;

/// A grandchild may keep the pipes open after the program has exited: after this much silence, check whether it has.
const HELD_PIPE_CHECK: Duration = Duration::from_secs(1);

/// A program to run, with its arguments and limits.
#[derive(Clone, Debug)]
pub struct Program {
    program: PathBuf,
    arguments: Vec<OsString>,
    silence: Duration,
    in_working_folder: bool,
}

impl Program {
    /// A program by name, looked up in PATH, or by path. It runs in a folder to which only the system's owner writes,
    /// so pass files with [`Self::file`].
    #[must_use]
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            silence: Duration::from_secs(120),
            in_working_folder: false,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds a file by its absolute path, so that it is never taken for an option.
    #[must_use]
    pub fn file(self, path: &Path) -> Self {
        self.file_with_prefix("", path)
    }

    /// Adds an argument of a prefix and the absolute path of a file: `file:/home/me/-clip.mp4`.
    #[must_use]
    pub fn file_with_prefix(self, letters: &str, path: &Path) -> Self {
        let mut argument = OsString::from(letters);
        // Fails only for an empty path, which no program can open either.
        argument.push(std::path::absolute(path).unwrap_or_else(|_| Path::new(".").join(path)));
        self.arg(argument)
    }

    /// Sets how long the program may write nothing before it is killed. The default is 120 s.
    #[must_use]
    pub fn silence_limit(mut self, limit: Duration) -> Self {
        self.silence = limit;
        self
    }

    /// Runs the program in the working folder: for a command line of the user whose arguments may be relative paths.
    #[must_use]
    pub fn in_working_folder(mut self) -> Self {
        self.in_working_folder = true;
        self
    }

    /// The command with resolved program, arguments, folder and filtered search paths.
    fn command(&self) -> Result<Command, ProcessError> {
        let Some(path) = lookup::resolve(&self.program) else {
            return Err(ProcessError::NotFound { program: self.name() });
        };
        #[expect(clippy::disallowed_methods, reason = "this is the place that all others use")]
        let mut command = Command::new(path);
        command.args(&self.arguments).stdin(Stdio::null());
        for name in lookup::SEARCH_PATHS {
            match std::env::var_os(name).map(|path| lookup::absolute_only(&path)) {
                Some(Some(path)) => command.env(name, path),
                Some(None) => command.env_remove(name),
                None => &mut command,
            };
        }
        if !self.in_working_folder
            && let Some(folder) = neutral_folder()
        {
            command.current_dir(folder);
        }
        Ok(command)
    }

    fn name(&self) -> String {
        self.program.display().to_string()
    }

    /// Maps the result of a start; `None` means that `kill_all` was called.
    fn check_started<T>(&self, answer: std::io::Result<Option<T>>) -> Result<T, ProcessError> {
        let program = self.name();
        match answer {
            Ok(Some(started)) => Ok(started),
            Ok(None) => Err(ProcessError::Stopped { program }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(ProcessError::NotFound { program }),
            Err(e) => Err(ProcessError::Start { program, reason: e.to_string() }),
        }
    }

    /// Starts the program with piped output.
    fn start<'a>(&self, stop: &'a AtomicBool) -> Result<RunningProgram<'a>, ProcessError> {
        let mut command = self.command()?;
        command.env("LC_ALL", "C").stdout(Stdio::piped()).stderr(Stdio::piped());
        let group = self.check_started(Group::start(&mut command))?;
        Ok(RunningProgram::new(self.name(), group, self.silence, stop))
    }

    /// Starts the program and does not wait for it: for programs that show something to the user, such as a browser. It
    /// has no input or output, keeps the user's locale, and may outlive this process.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn launch(&self) -> Result<(), ProcessError> {
        let mut command = self.command()?;
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = self.check_started(group::launch(&mut command))?;
        // A thread reaps it when it exits. If the thread cannot start, the child stays a zombie until this process
        // exits, which is harmless.
        let _ = spawn_reader(&self.name(), move || drop(child.wait()));
        Ok(())
    }

    /// Runs the program to its end and passes each line of its output to `on_line` as it arrives.
    ///
    /// # Errors
    /// The program cannot be started, exits with an error, writes nothing for too long, or `stop` is set.
    pub fn run(
        &self,
        stop: &AtomicBool,
        on_line: &mut dyn FnMut(OutputStream, &str),
    ) -> Result<ProgramOutput, ProcessError> {
        let mut running = self.start(stop)?;
        let (sender, receiver) = mpsc::sync_channel::<(OutputStream, String)>(1024);
        let (out, err) = (running.group.child_mut().stdout.take(), running.group.child_mut().stderr.take());
        // The threads end with the pipes. They are not joined: a grandchild that left the group may keep a pipe open.
        if let Some(out) = out {
            let sender = sender.clone();
            let send = move |line| sender.send((OutputStream::Out, line)).is_ok();
            spawn_reader(&running.program, move || for_each_line(out, send))?;
        }
        if let Some(err) = err {
            let send = move |line| sender.send((OutputStream::Err, line)).is_ok();
            spawn_reader(&running.program, move || for_each_line(err, send))?;
        }
        loop {
            match receiver.recv_timeout(POLL_INTERVAL) {
                Ok((stream, line)) => {
                    running.reset_silence();
                    on_line(stream, &line);
                    running.tail.push(line);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    // Both pipes are closed: the program has exited or is about to. The silence limit still applies.
                    if let Some(end) = running.group.try_wait() {
                        return running.into_result(end);
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
            if running.poll()? > HELD_PIPE_CHECK
                && let Some(end) = running.group.try_wait()
            {
                return running.into_result(end);
            }
        }
    }

    /// Starts the program with its standard output as a stream of bytes. It is killed when `stop` is set.
    ///
    /// ```
    /// # #[cfg(unix)]
    /// # {
    /// use gausset_process::Program;
    /// use std::sync::atomic::AtomicBool;
    ///
    /// let stop = AtomicBool::new(false);
    /// let mut stream = Program::new("/bin/sh").arg("-c").arg("printf abc").stream(&stop)?;
    /// let mut bytes = [0; 8];
    /// assert_eq!(stream.fill(&mut bytes)?, 3);
    /// stream.finish()?;
    /// # }
    /// # Ok::<(), gausset_process::ProcessError>(())
    /// ```
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn stream<'a>(&self, stop: &'a AtomicBool) -> Result<ProgramStream<'a>, ProcessError> {
        ProgramStream::new(self.start(stop)?)
    }
}

/// A folder to which only the system's owner can write: the root.
fn neutral_folder() -> Option<PathBuf> {
    #[cfg(unix)]
    {
        Some(PathBuf::from("/"))
    }
    #[cfg(not(unix))]
    {
        std::env::var_os("SystemRoot").map(PathBuf::from).filter(|folder| folder.is_absolute())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::output::{MAX_LINE_BYTES, TAIL_LINES};
    use crate::{pause, resume};
    use std::sync::atomic::Ordering;

    fn sh(script: &str) -> Program {
        Program::new("/bin/sh").arg("-c").arg(script)
    }

    fn run(program: &Program) -> (Result<ProgramOutput, ProcessError>, Vec<String>) {
        let mut lines = Vec::new();
        let result = program.run(&AtomicBool::new(false), &mut |_, line| lines.push(line.to_owned()));
        (result, lines)
    }

    #[test]
    fn lines_of_both_streams_arrive_and_the_environment_is_plain() {
        let (result, mut lines) =
            run(&sh("echo out; echo err >&2; printf 'a\\rb\\n'; echo $LC_ALL; pwd; cat"));
        result.unwrap();
        lines.sort();
        assert_eq!(lines, ["/", "C", "a", "b", "err", "out"]);
        let here = std::env::current_dir().unwrap();
        let (result, lines) = run(&sh("pwd").in_working_folder());
        result.unwrap();
        assert_eq!(lines, [here.to_str().unwrap()]);
    }

    #[test]
    fn programs_are_found_by_name_in_path_and_by_a_path_from_here() {
        let (result, lines) = run(&Program::new("echo").arg("x"));
        result.unwrap();
        assert_eq!(lines, ["x"]);
        let folder = tempfile::tempdir_in(".").unwrap();
        let name = folder.path().file_name().map(PathBuf::from).unwrap();
        std::os::unix::fs::symlink("/bin/sh", folder.path().join("-shell")).unwrap();
        let (result, lines) = run(&Program::new(name.join("-shell")).arg("-c").arg("echo y"));
        result.unwrap();
        assert_eq!(lines, ["y"]);
    }

    #[test]
    fn files_are_absolute_so_that_none_is_an_option_and_all_are_found() {
        let program = sh("for a; do echo \"$a\"; done").arg("sh");
        let (result, lines) =
            run(&program.file(Path::new("-x.png")).file_with_prefix("file:", Path::new("a/b")));
        result.unwrap();
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            lines,
            [here.join("-x.png").display().to_string(), format!("file:{}", here.join("a/b").display())]
        );
    }

    #[test]
    fn failures_quote_the_last_line() {
        let (result, _) = run(&sh("echo because >&2; exit 7"));
        assert_eq!(result.unwrap_err().to_string(), "/bin/sh: ended with exit code 7; last output: because");
        // ffprobe closes its JSON after the error message.
        let (result, _) = run(&sh("echo because >&2; sleep 0.1; echo '}'; exit 7"));
        assert_eq!(result.unwrap_err().to_string(), "/bin/sh: ended with exit code 7; last output: because");
        for absent in ["/nonexistent/tool", "gausset-has-no-such-tool"] {
            let (result, _) = run(&Program::new(absent));
            assert_eq!(result.unwrap_err().to_string(), format!("{absent}: program: not found"));
        }
        let (result, _) = run(&sh("kill -9 $$"));
        assert!(result.unwrap_err().to_string().contains("signal 9"));
    }

    /// Whether the process whose id a script wrote into a file is running; zombies do not count.
    #[cfg(target_os = "linux")]
    fn is_running(pid_file: &Path) -> bool {
        let pid = std::fs::read_to_string(pid_file).unwrap();
        let about = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        about.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    }

    #[cfg(target_os = "linux")]
    fn ends_soon(pid_file: &Path) -> bool {
        let started = std::time::Instant::now();
        while is_running(pid_file) {
            if started.elapsed() > Duration::from_secs(20) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn silence_ends_a_program_with_everything_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; echo started; wait", pid.display());
        let (result, lines) = run(&sh(&script).silence_limit(Duration::from_millis(300)));
        assert!(matches!(result, Err(ProcessError::Silent { .. })), "{result:?}");
        assert_eq!(lines, ["started"]);
        assert!(ends_soon(&pid), "the child of the program lived on");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_program_leaves_behind_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        // Its pipes are closed, so only the process group leads to it.
        let script = format!("sleep 600 >/dev/null 2>&1 & echo $! > {}", pid.display());
        run(&sh(&script)).0.unwrap();
        assert!(ends_soon(&pid), "it lived on");
        // A child that keeps the pipes open does not block the caller.
        let script = format!("sleep 600 & echo $! > {}; exit 3", pid.display());
        let failure = run(&sh(&script)).0.unwrap_err().to_string();
        assert!(failure.contains("exit code 3"), "{failure}");
        assert!(ends_soon(&pid), "it lived on");
    }

    #[test]
    fn a_paused_program_stands_still() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let script = format!("for i in 1 2 3 4 5 6 7 8; do echo x >> {}; sleep 0.1; done", count.display());
        let length = || std::fs::metadata(&count).map_or(0, |m| m.len());
        let runner = std::thread::spawn(move || run(&sh(&script).silence_limit(Duration::from_secs(30))).0);
        while length() < 4 {
            std::thread::sleep(Duration::from_millis(5));
        }
        pause();
        // Output in flight when the signal arrived may still be written.
        std::thread::sleep(Duration::from_millis(100));
        let before = length();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(length(), before);
        resume();
        runner.join().unwrap().unwrap();
        assert_eq!(length(), 16);
    }

    #[test]
    fn a_flag_stops_a_program_that_never_ends() {
        let stop = AtomicBool::new(false);
        let result = sh("while true; do echo x; sleep 0.05; done")
            .run(&stop, &mut |_, _| stop.store(true, Ordering::Relaxed));
        assert!(matches!(result, Err(ProcessError::Stopped { .. })));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_that_was_launched_has_a_group_of_its_own_and_is_reaped() {
        let folder = tempfile::tempdir().unwrap();
        let [fields, go] = ["fields", "go"].map(|name| folder.path().join(name));
        let script = format!(
            "cat /proc/$$/stat > {0}.part; mv {0}.part {0}; while [ ! -e {1} ]; do sleep 0.01; done",
            fields.display(),
            go.display()
        );
        sh(&script).launch().unwrap();
        let wait = |is_so: &dyn Fn() -> bool| {
            let started = std::time::Instant::now();
            while !is_so() {
                assert!(started.elapsed() < Duration::from_secs(20));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait(&|| fields.exists());
        let fields = std::fs::read_to_string(&fields).unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        // Process id and process group id.
        assert_eq!(fields[0], fields[4]);
        std::fs::write(&go, "").unwrap();
        // A zombie would still be listed.
        wait(&|| !Path::new("/proc").join(fields[0]).exists());
        assert!(matches!(
            Program::new("gausset-has-no-such-tool").launch(),
            Err(ProcessError::NotFound { .. })
        ));
    }

    #[test]
    fn a_flood_of_output_is_bounded() {
        let (result, lines) = run(&sh("head -c 2000000 /dev/zero | tr '\\0' 'x'; echo"));
        let finished = result.unwrap();
        assert!(finished.tail.len() <= TAIL_LINES && lines.iter().all(|l| l.len() as u64 <= MAX_LINE_BYTES));
    }
}
