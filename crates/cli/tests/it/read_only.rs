//! Read-only folders with real permissions. Tests may run as root, which can write anywhere, so the program runs as the
//! system user `nobody` (`setpriv` of util-linux).
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gausset_testkit::{skip_for_machine, skip_for_tool};

use crate::support::{ProcessResult, TestFolder};

const TEST: &str = "read-only folders";
/// User id of `nobody`.
const NOBODY: u32 = 65_534;

fn as_nobody(program: &Path, arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"]);
    command.arg(program).args(arguments).current_dir(folder).stdin(Stdio::null());
    command.env_remove("RUST_BACKTRACE").env("COLUMNS", "100").env("HOME", folder);
    command
}

/// A path of the program that the user `nobody` can run: its own path, or a copy in this folder; `None` if `setpriv` is
/// missing or may not change the user.
fn program(folder: &Path) -> Option<PathBuf> {
    let own = PathBuf::from(env!("CARGO_BIN_EXE_gausset"));
    let runs = |program: &Path| {
        let answer = as_nobody(program, &["--version"], folder).output();
        answer.is_ok_and(|answer| answer.status.success())
    };
    if runs(&own) {
        return Some(own);
    }
    let copy = folder.join("program");
    // By another process: a file open for writing here could not be run (see `testkit::programs::script`).
    Command::new("cp").args([&own, &copy]).status().ok()?;
    runs(&copy).then_some(copy)
}

/// Length and modification time of everything below a folder.
fn listing(folder: &Path) -> BTreeMap<PathBuf, (u64, i64)> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let about = fs::symlink_metadata(&path).expect("metadata");
        if about.is_dir() {
            waiting
                .extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
        }
        all.insert(path, (about.len(), about.mtime_nsec() + about.mtime()));
    }
    all
}

#[test]
fn a_folder_that_may_only_be_read_is_one_clear_line_and_stays_as_it_is() {
    let workshop = TestFolder::with_data();
    let root = workshop.path("");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("permissions");
    if fs::metadata(&root).expect("metadata").uid() != 0 {
        return skip_for_machine(TEST, "the tests do not run as root, who alone can become somebody else");
    }
    let Some(program) = program(&root) else {
        return skip_for_tool(TEST, "setpriv is not there, or may not start the program as nobody");
    };
    workshop.succeed(&["train", "data", "-o", "run", "--steps", "4", "-q"]);
    let before = listing(&root);
    for arguments in [
        &["train", "data", "-o", "other", "--steps", "4"][..],
        &["train", "data", "--steps", "4"],
        &["train", "data", "-o", "run", "--force", "--steps", "4"],
        &["convert", "run", "out.spz"],
        &["convert", "run/splats.ply", "out.html", "--report"],
        &["render", "run"],
        &["render", "run/splats.ply", "--orbit", "2", "--size", "16x16"],
        &["eval", "run"],
        &["report", "run"],
        &["clean", "run", "-o", "out.ply"],
    ] {
        let output = as_nobody(&program, arguments, &root).output().expect("the program starts");
        let finished = ProcessResult::new(arguments, output);
        let line = finished.stderr.lines().last().unwrap_or_default().to_lowercase();
        assert!(finished.code > 0, "{finished:?}");
        assert!(line.contains("permission denied"), "{finished:?}");
        assert!(!finished.stderr.contains("panicked"), "{finished:?}");
        assert_eq!(listing(&root), before, "{finished:?}");
    }
    // Commands that only read still work.
    for arguments in [&["info", "run"][..], &["eval", "run", "--help"]] {
        let output = as_nobody(&program, arguments, &root).output().expect("the program starts");
        assert_eq!(ProcessResult::new(arguments, output).code, 0);
    }
}
