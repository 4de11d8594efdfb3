//! Long checks of whole runs: repeated kills, memory use.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gausset_compute::machine;

use crate::{output, program};

/// Steps of the run that is killed: long enough for many kills.
const STEPS: &str = "3000";
/// Splats of the small scene in these runs.
const MAX_SPLATS: &str = "4000";

/// A temporary folder of this process; removed when dropped.
pub(crate) struct TempFolder(PathBuf);

impl TempFolder {
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("gausset-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }

    /// The small demo scene as a dataset; returns its folder.
    pub(crate) fn make_data(&self, program: &Path) -> Result<PathBuf, String> {
        output(&mut self.command(program, &["demo", "--size", "small", "--steps", "1", "-o", "demo", "-q"]))?;
        Ok(self.path("demo/data"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    fn start(&self, program: &Path, arguments: &[&str]) -> Result<Child, String> {
        let mut command = self.command(program, arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|error| format!("{command:?}: {error}"))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let path = self.path(name);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Arguments of a training on the small scene.
fn training<'a>(name: &'a str, steps: &'a str, checkpoint_every: &'a str) -> [&'a str; 11] {
    let data = "demo/data";
    let (size, every) = ("--max-splats", "--checkpoint-every");
    ["train", data, "-o", name, "--steps", steps, size, MAX_SPLATS, every, checkpoint_every, "-q"]
}

/// Kills a run at random times, resumes it, and compares its result with that of an uninterrupted run.
pub(crate) fn crash_loop(kills: u32, seed: u64) -> Result<(), String> {
    let program = program()?;
    let workshop = TempFolder::new("crash-loop")?;
    workshop.make_data(&program)?;
    let started = std::time::Instant::now();
    output(&mut workshop.command(&program, &training("whole", STEPS, "0")))?;
    let whole = started.elapsed();
    // On average, all periods together suffice for the run, plus some time for lost work.
    let longest = 2.0 * whole.as_secs_f64() / f64::from(kills.max(1));
    let mut state = seed;
    let mut done = 0;
    let mut restarts = 0;
    while done < kills {
        let resumes = workshop.0.join("killed/config.toml").is_file();
        let resume = ["train", "--resume", "killed", "-q"];
        let begin = training("killed", STEPS, "10");
        let mut child = workshop.start(&program, if resumes { &resume[..] } else { &begin[..] })?;
        std::thread::sleep(Duration::from_secs_f64(0.02 + longest * uniform(&mut state)));
        if child.try_wait().map_err(|error| error.to_string())?.is_some() {
            // It finished before all kills were done: compare, and start again.
            compare(&workshop)?;
            std::fs::remove_dir_all(workshop.0.join("killed")).map_err(|error| error.to_string())?;
            restarts += 1;
            continue;
        }
        child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
        done += 1;
        if workshop.0.join("killed/config.toml").is_file() {
            output(&mut workshop.command(&program, &["info", "killed", "--json"]))?;
        }
        println!("kill {done} of {kills}");
    }
    if workshop.0.join("killed/config.toml").is_file() {
        output(&mut workshop.command(&program, &["train", "--resume", "killed", "-q"]))?;
        compare(&workshop)?;
    }
    println!("{kills} kills, {} results, all with the same bytes", restarts + 1);
    Ok(())
}

fn compare(workshop: &TempFolder) -> Result<(), String> {
    if workshop.read("whole/splats.ply")? == workshop.read("killed/splats.ply")? {
        Ok(())
    } else {
        Err("crash-loop: splats.ply differs from that of the uninterrupted run".to_owned())
    }
}

/// The next number in 0..1 (SplitMix64, Steele et al. 2014).
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

/// Largest growth of resident bytes between step 200 and step 2000.
const MAX_GROWTH: u64 = 5_000_000;

/// Checks the resident size of a run whose number of splats does not change.
pub(crate) fn memory() -> Result<(), String> {
    let program = program()?;
    let workshop = TempFolder::new("memory")?;
    workshop.make_data(&program)?;
    // The set has its full size from the start.
    let mut arguments = training("run", "2400", "0").to_vec();
    arguments.extend(["--growth", "1", "--checkpoint-seconds", "0"]);
    let mut child = workshop.start(&program, &arguments)?;
    let mut sizes = [None; 2];
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        let step = last_step(&workshop.0.join("run/metrics.jsonl"));
        for (size, wanted) in sizes.iter_mut().zip([200, 2000]) {
            if size.is_none() && step >= wanted {
                *size = machine::resident_memory(Some(child.id())).map(|resident| resident.now);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let [Some(early), Some(late)] = sizes else {
        return Err("memory: the run ended before it was measured".to_owned());
    };
    println!("resident: {early} bytes at step 200, {late} bytes at step 2000");
    if late <= early + MAX_GROWTH {
        Ok(())
    } else {
        Err(format!("memory: grew by {} bytes (expected at most {MAX_GROWTH})", late - early))
    }
}

/// The step of the last complete line of a log.
fn last_step(log: &Path) -> u64 {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rev().find(|line| line.ends_with('}')).unwrap_or_default();
    let digits = line.split_once("\"step\":").map_or("", |(_, rest)| rest);
    digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
