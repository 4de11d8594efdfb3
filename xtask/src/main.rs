//! Repository chores: `cargo run -p xtask -- lint | crash-loop | memory | full | agreement | device | captures | cases | python`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the people who work here")]

mod agreement;
mod cases;
mod citations;
mod dependencies;
mod device;
mod licences;
mod lint;
mod long_checks;
mod message_flags;
mod pano_order;
mod python;
mod runs;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "xtask", about = "Repository chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check what compilers do not: unfused multiply-adds in kernels, paths of a single machine in sources, broken
    /// links and citations.
    Lint,
    /// Kill a small training again and again, resume it, and compare the result with an uninterrupted run.
    CrashLoop {
        /// Number of kills.
        #[arg(long, default_value_t = 10)]
        kills: u32,
        /// Seed of the times between kills.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Check the memory of a long run at a fixed number of splats: resident size at step 2000 against step 200.
    Memory,
    /// Run the long forms of CI checks: tests marked as ignored, the panorama benchmark. Takes an hour.
    Full,
    /// Compare two runs with different seeds in views between their training cameras (docs/benchmarks.md).
    Agreement(agreement::AgreementArgs),
    /// Show which splats of a run hang in front of known depths; needs `python test` or `python build` before, torch, and
    /// a run with `--keep-depth`.
    Veils {
        /// Run folder.
        run: PathBuf,
        /// Views whose splats are listed; otherwise all training views, without splats.
        #[arg(long = "view", value_name = "NAME")]
        views: Vec<String>,
    },
    /// Time training on a GPU and on the CPU beside it, and check that the GPU repeats its bytes (docs/benchmarks.md).
    Device(device::DeviceArgs),
    /// Write procedural captures of a furnished room, whose held-out cameras are apart from the others.
    Captures {
        /// Folder for the datasets.
        #[arg(default_value = "target/captures")]
        folder: PathBuf,
    },
    /// Compare what `gausset info` says of inputs of strangers with the right answers.
    Cases {
        /// Folder that the script of the collection has filled, and the collection.
        #[arg(required = true)]
        folders: Vec<PathBuf>,
    },
    /// Build and test the Python package.
    #[command(subcommand)]
    Python(python::PythonTask),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Task::Lint => lint::run(&workspace()),
        Task::CrashLoop { kills, seed } => runs::crash_loop(kills, seed),
        Task::Memory => runs::memory(),
        Task::Full => long_checks::run(&workspace()),
        Task::Agreement(args) => agreement::run(&args),
        Task::Veils { run, views } => python::veils(&workspace(), &run, &views),
        Task::Device(args) => device::run(&args),
        Task::Captures { folder } => captures(&folder),
        Task::Cases { folders } => cases::run(&folders),
        Task::Python(task) => python::run(&workspace(), &task),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::from(2)
        }
    }
}

/// Writes the captures, 360 px wide.
fn captures(folder: &Path) -> Result<(), String> {
    let pool = gausset_compute::Pool::new(2);
    for capture in gausset_scenes::Capture::ALL {
        let to = folder.join(capture.name());
        gausset_scenes::write_dataset(&capture.scene(360, 0), &to, &pool, &mut |_, _| {})
            .map_err(|error| error.to_string())?;
        println!("{}", to.display());
    }
    Ok(())
}

/// The root of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Builds the program in release mode and returns its path.
fn program() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--package", "gausset-cli"])
        .current_dir(workspace())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err("gausset: does not build".to_owned());
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    let program = target.join("release").join("gausset");
    std::path::absolute(&program).map_err(|error| format!("{}: {error}", program.display()))
}

/// Runs a command that must succeed and returns its stdout.
fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end()))
    }
}
