//! Test support: running the program, and a dataset small enough to train on in a second.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_jpeg::encode_planes;
use gausset_scenes::panorama::detailed;
use gausset_scenes::{tiny, write_dataset};
#[cfg(unix)]
pub(crate) use gausset_testkit::programs::script;
pub(crate) use gausset_testkit::programs::write_video;
use serde_json::Value;
use tempfile::TempDir;

/// Timeout of all waits; a test that waits longer has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A temporary folder for a test, in which the program runs, optionally with a dataset of eight 32x24 images in `data`.
pub(crate) struct TestFolder {
    folder: TempDir,
}

impl TestFolder {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A folder with the tiny dataset in `data`.
    pub(crate) fn with_data() -> Self {
        let workshop = Self::empty();
        write_dataset(&tiny(), &workshop.path("data"), &Pool::new(1), &mut |_, _| {})
            .expect("the tiny data set");
        workshop
    }

    /// The same with a run of 60 steps in `run`. It is trained once; every test gets a copy.
    pub(crate) fn trained() -> Self {
        type TrainedRun = (String, Vec<(PathBuf, Vec<u8>)>);
        static RUN: OnceLock<TrainedRun> = OnceLock::new();
        let (trained_in, files) = RUN.get_or_init(|| {
            let workshop = Self::with_data();
            workshop.succeed(&["train", "data", "-o", "run", "--steps", "60", "-q"]);
            (workshop.name(), files_below(&workshop.path("run")))
        });
        let workshop = Self::with_data();
        for (name, bytes) in files {
            let path = workshop.path("run").join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, bytes).expect("a file");
        }
        for name in ["run/config.toml", "run/report.html"] {
            let text = String::from_utf8(workshop.read(name)).expect("text");
            assert!(text.contains(trained_in), "{name}");
            std::fs::write(workshop.path(name), text.replace(trained_in, &workshop.name())).expect("a file");
        }
        workshop
    }

    /// Name of the folder, which is unique.
    fn name(&self) -> String {
        self.folder.path().file_name().expect("a name").display().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with arguments, set up to run in the folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gausset"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        // Disables the cache, so that no files are left in the user's folders.
        command.env_remove("RUST_BACKTRACE").env("COLUMNS", "100").env("GAUSSET_CACHE", "");
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> ProcessResult {
        ProcessResult::new(arguments, self.command(arguments).output().expect("the program starts"))
    }

    /// Runs the program, which must succeed.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> ProcessResult {
        let finished = self.run(arguments);
        assert_eq!(finished.code, 0, "{finished:?}");
        finished
    }

    /// Starts the program with its output piped.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// A folder with `count` panoramas of 256x128 px in `walk`.
pub(crate) fn with_walk(count: u32) -> TestFolder {
    let workshop = TestFolder::empty();
    std::fs::create_dir(workshop.path("walk")).expect("a folder");
    write_walk(&workshop.path("walk"), count);
    workshop
}

/// Panoramas of 256x128 px as `p0.jpg` and so on.
pub(crate) fn write_walk(folder: &Path, count: u32) {
    let level = dispatch_level(SimdLevel::Auto).expect("a level");
    for k in 0..count {
        let bytes = encode_planes(256, &detailed(256, k, &Pool::new(1)), 90, level);
        std::fs::write(folder.join(format!("p{k}.jpg")), bytes).expect("a panorama");
    }
}

/// Relative names and contents of all files below a folder.
pub(crate) fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below").to_owned();
                files.push((name, std::fs::read(&path).expect("a file")));
            }
        }
    }
    files.sort();
    files
}

/// Result of a finished process.
#[derive(Debug)]
pub(crate) struct ProcessResult {
    #[allow(dead_code, reason = "shown when a test fails")]
    arguments: Vec<String>,
    /// Exit code; -1 if a signal ended the process.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProcessResult {
    pub(crate) fn new(arguments: &[&str], output: Output) -> Self {
        Self {
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("stdout is text"),
            stderr: String::from_utf8(output.stderr).expect("stderr is text"),
        }
    }

    /// Parses stdout, which must be one JSON object.
    pub(crate) fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        assert!(value.is_object(), "{self:?}");
        value
    }
}

/// Whether the JSON of `info` contains all fields of the training's JSON with the same values.
pub(crate) fn contains_result(trained: &Value, info: &Value) -> bool {
    let told = trained.as_object().into_iter().flatten();
    // What belongs to the dataset or its alignment, not to the run.
    const OTHERS: [&str; 11] = [
        "left_out",
        "unreadable",
        "schema",
        "folder",
        "photographs",
        "frames",
        "registered",
        "points",
        "mean_reprojection_px",
        "unregistered",
        "georeference",
    ];
    let mut told = told.filter(|(key, _)| !OTHERS.contains(&key.as_str())).peekable();
    told.peek().is_some() && told.all(|(key, value)| info[key] == *value)
}

/// Steps of the checkpoints in a run folder, ascending.
pub(crate) fn checkpoints(run: &Path) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(run.join("checkpoints")) else { return Vec::new() };
    let steps = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.strip_prefix("step_")?.strip_suffix(".ckpt")?.parse().ok()
    });
    let mut steps: Vec<u64> = steps.collect();
    steps.sort_unstable();
    steps
}

/// Waits until a condition is true.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < TIMEOUT, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
