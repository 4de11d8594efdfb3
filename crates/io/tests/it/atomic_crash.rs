//! Crashes: the process aborts at named points, the power fails, the disk is full, two processes meet.

#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::files::{
    Numbers, PlyOptions, file_names, same_bits, save_ply, some_splats, some_state, temporary_folder,
};
use gausset_core::engine::TrainState;
use gausset_io::atomic::faults::VolatileDisk;
use gausset_io::atomic::{
    Disk, FileSystem, Overwrite, WriteOptions, crash, remove_temporaries, write_atomic, write_atomic_with,
};
use gausset_io::metrics_log::{MetricsLog, read_metrics};
use gausset_io::run_folder::{
    RunFolder, checkpoint_path, checkpoints_folder, list_checkpoints, metrics_path, newest_checkpoint,
    splats_path,
};
use gausset_io::splat::{self, LoadOptions};
use serde_json::json;
use std::io::Write;

/// Tells a test of this file that it is a child process, and in which folder to work.
const CHILD_FOLDER: &str = "GAUSSET_TEST_CHILD_FOLDER";

const SIGABRT: i32 = 6;

fn state_at(step: u64) -> TrainState {
    some_state(600 + step as usize, step)
}

/// A small run: three checkpoints, a log, a result. Resumes where an earlier one stopped.
fn run_three_steps(fs: &dyn FileSystem, folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let run = RunFolder::open(fs, folder).or_else(|_| RunFolder::create(fs, folder, Overwrite::Replace))?;
    run.write_config(fs, "steps = 3\n")?;
    let last = run.newest_checkpoint(fs)?.found.map(|found| found.step);
    let mut log = MetricsLog::open(fs, &metrics_path(folder), last)?;
    for step in last.unwrap_or(0) + 1..=3 {
        log.append(fs, &json!({"step": step}))?;
        log.sync()?;
        run.save_checkpoint(fs, step, &state_at(step), &json!({"step": step}))?;
    }
    let write = WriteOptions { label: "splats", ..WriteOptions::default() };
    save_ply(fs, &splats_path(folder), &state_at(3).splats, &PlyOptions::default(), &write)?;
    Ok(())
}

/// Starts one test of this file in a separate process.
fn child(test: &str, folder: &Path, crash_at: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("atomic_crash::{test}"), "--nocapture"])
        .env(CHILD_FOLDER, folder)
        .env("GAUSSET_CRASH_AT", crash_at);
    command
}

fn child_folder() -> Option<PathBuf> {
    std::env::var_os(CHILD_FOLDER).map(PathBuf::from)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Body of the child processes of the crash-point test; does nothing otherwise.
#[test]
fn as_a_child_run_three_steps() {
    if let Some(folder) = child_folder() {
        run_three_steps(&Disk, &folder).unwrap();
    }
}

#[test]
fn after_a_crash_at_any_point_the_run_goes_on_to_the_same_result() {
    let mut places = Vec::new();
    for label in ["checkpoint", "splats", "config", "metrics"] {
        let visits = if label == "checkpoint" { 1..=3 } else { 1..=1 };
        for visit in visits {
            let points = crash::POINTS.iter().filter(|&&p| label == "checkpoint" || p != "before_remove_old");
            places.extend(
                points.filter(|&&p| p != "mid_write").map(|p| (format!("{label}:{p}:{visit}"), visit)),
            );
        }
    }
    // A checkpoint consists of about 30 writes: these are in the first, the second and the third.
    let mid_write = [1, 20, 40, 70].map(|visit| (format!("checkpoint:mid_write:{visit}"), 1));
    places.extend(mid_write);
    places.push(("splats:mid_write".to_owned(), 1));

    for (place, visit) in places {
        let folder = temporary_folder();
        let folder = folder.path();
        let crashed = child("as_a_child_run_three_steps", folder, &place).output().unwrap();
        assert_eq!(crashed.status.signal(), Some(SIGABRT), "{place}: {}", text(&crashed));

        // Every file under its final name is complete.
        let search = newest_checkpoint(&Disk, folder).unwrap();
        assert!(search.damaged.is_empty(), "{place}");
        if let Some(found) = search.found {
            assert!(same_bits(&found.state, &state_at(found.step)), "{place}");
        } else {
            assert!(visit == 1, "{place}: the first checkpoint is gone");
        }
        if splats_path(folder).exists() {
            assert_eq!(
                splat::load(&splats_path(folder), &LoadOptions::default()).unwrap().splats,
                state_at(3).splats,
                "{place}"
            );
        }

        // The next start takes over the lock, cleans up and completes the run.
        run_three_steps(&Disk, folder).unwrap();
        assert_eq!(
            splat::load(&splats_path(folder), &LoadOptions::default()).unwrap().splats,
            state_at(3).splats
        );
        assert_eq!(list_checkpoints(&Disk, folder).unwrap(), [2, 3], "{place}");
        assert_eq!(file_names(folder), ["config.toml", "metrics.jsonl", "splats.ply"], "{place}");
        assert_eq!(file_names(&checkpoints_folder(folder)).len(), 2, "{place}");
        let (records, torn) = read_metrics(&metrics_path(folder)).unwrap();
        let steps: Vec<_> = records.iter().map(|r| r["step"].as_u64().unwrap()).collect();
        assert_eq!((steps, torn), (vec![1, 2, 3], 0), "{place}");
    }
}

#[test]
fn a_power_failure_at_any_call_leaves_the_old_or_the_new_checkpoint() {
    let mut coins = Numbers(7);
    for n in 1.. {
        let root = temporary_folder();
        let disk = VolatileDisk::new(0);
        let run = RunFolder::create(&disk, root.path(), Overwrite::Refuse).unwrap();
        run.write_config(&disk, "steps = 3\n").unwrap();
        for step in 1..=2 {
            run.save_checkpoint(&disk, step, &state_at(step), &json!(step)).unwrap();
        }
        disk.power_off_after(n);
        let before = disk.calls();
        let saved = run.save_checkpoint(&disk, 3, &state_at(3), &json!(3)).is_ok();
        let all_calls_made = disk.calls() < before + n;
        for _ in 0..6 {
            let survivors = temporary_folder();
            disk.survivors(root.path(), survivors.path(), || coins.coin()).unwrap();
            let search = newest_checkpoint(&Disk, survivors.path()).unwrap();
            assert!(search.damaged.is_empty(), "call {n}: {:?}", search.damaged);
            let found = search.found.unwrap();
            assert!(
                found.step == 3 || (found.step == 2 && !saved),
                "call {n}: step {}, saved {saved}",
                found.step
            );
            assert!(same_bits(&found.state, &state_at(found.step)), "call {n}");
            // Checkpoints older than the one being saved still exist.
            assert!(checkpoint_path(survivors.path(), 2).exists(), "call {n}");
        }
        if all_calls_made {
            assert!(saved && n >= 12, "the loop ended too early: {n}");
            break;
        }
    }
}

#[test]
fn a_full_device_gives_one_line_and_stays_a_device() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        let test = "a_full_device_gives_one_line_and_stays_a_device";
        return gausset_testkit::skip_for_machine(test, "there is no /dev/full");
    }
    let splats = some_splats(2000, 3, 1);
    let error = save_ply(&Disk, full, &splats, &PlyOptions::default(), &WriteOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/dev/full: write: no space left on the device; free some space or choose another folder"
    );
    use std::os::unix::fs::FileTypeExt;
    assert!(std::fs::metadata(full).unwrap().file_type().is_char_device());
    assert!(
        !std::fs::read_dir("/dev").unwrap().any(|e| e
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".tmp-"))
    );
}

/// Body of the child of the size-limit test; does nothing otherwise.
#[test]
fn as_a_child_save_a_big_file() {
    if let Some(folder) = child_folder() {
        let path = folder.join("splats.ply");
        let save = |n| {
            save_ply(&Disk, &path, &some_splats(n, 3, 1), &PlyOptions::default(), &WriteOptions::default())
        };
        save(10).unwrap();
        let error = save(2000).unwrap_err().to_string();
        let expected = "write: the file would be larger than the system allows (see `ulimit -f`)";
        assert_eq!(error, format!("{}: {expected}", path.display()));
    }
}

#[test]
fn a_limit_on_file_sizes_gives_one_line_and_keeps_the_old_file() {
    let folder = temporary_folder();
    let big = child("as_a_child_save_a_big_file", folder.path(), "");
    // 64 blocks of 512 or 1024 bytes; without the trap, the signal of the limit would end the process.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"])
        .arg(big.get_program())
        .args(big.get_args())
        .env(CHILD_FOLDER, folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(
        splat::load(&folder.path().join("splats.ply"), &LoadOptions::default()).unwrap().splats,
        some_splats(10, 3, 1)
    );
    assert_eq!(file_names(folder.path()), ["splats.ply"]);
}

/// Body of the children of the lock test; does nothing otherwise.
#[test]
fn as_a_child_lock_the_folder() {
    let Some(folder) = child_folder() else { return };
    match RunFolder::create(&Disk, &folder, Overwrite::Replace) {
        Ok(_run) => {
            // Long enough for all the others to start and end.
            std::fs::write(folder.join(format!("won-{}", std::process::id())), "").unwrap();
            while !folder.join("go-home").exists() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        Err(e) => {
            let line = e.to_string();
            assert!(line.starts_with(&format!("{}: in use by ", folder.display())), "{line}");
            std::fs::write(folder.join(format!("lost-{}", std::process::id())), "").unwrap();
        }
    }
}

#[test]
fn of_many_processes_that_want_a_folder_exactly_one_gets_it() {
    let folder = temporary_folder();
    let start =
        || child("as_a_child_lock_the_folder", folder.path(), "").stdout(Stdio::null()).spawn().unwrap();
    let mut children: Vec<_> = (0..12).map(|_| start()).collect();
    let count = |prefix: &str| file_names(folder.path()).iter().filter(|n| n.starts_with(prefix)).count();
    for _ in 0..10_000 {
        if count("lost-") == 11 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::fs::write(folder.path().join("go-home"), "").unwrap();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!((count("won-"), count("lost-")), (1, 11));
}

#[test]
fn a_link_is_followed_and_not_replaced() {
    let folder = temporary_folder();
    let (real, link) = (folder.path().join("real.txt"), folder.path().join("link.txt"));
    std::fs::write(&real, "old").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    write_atomic(&Disk, &link, |file| file.write_all(b"new")).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read(&real).unwrap(), b"new");
}

#[test]
fn a_link_that_leads_nowhere_is_refused_and_stays() {
    let folder = temporary_folder();
    let link = folder.path().join("link.txt");
    std::os::unix::fs::symlink("nowhere.txt", &link).unwrap();
    for overwrite in [Overwrite::Refuse, Overwrite::Replace] {
        let options = WriteOptions { overwrite, ..WriteOptions::default() };
        let refused = write_atomic_with(&Disk, &link, &options, |file| file.write_all(b"new"));
        let refused = refused.map(|_| ()).unwrap_err().to_string();
        let expected =
            "is a broken symbolic link (expected a file or a free name); remove it or choose another name";
        assert_eq!(refused, format!("{}: output: {expected}", link.display()));
    }
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("nowhere.txt"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = temporary_folder();
    let path = folder.path().join("secret.txt");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    write_atomic(&Disk, &path, |file| file.write_all(b"old")).unwrap();
    let usual = mode();
    for kept in [0o600, 0o640, 0o664, 0o777, usual] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(kept)).unwrap();
        write_atomic(&Disk, &path, |file| {
            file.write_all(b"new")?;
            // No other user may read it, not even while it is being written.
            let temporary = std::fs::read_dir(folder.path())?.map(|entry| entry.unwrap().path());
            let temporary = temporary.into_iter().find(|path| !path.ends_with("secret.txt")).unwrap();
            assert_eq!(std::fs::metadata(temporary)?.permissions().mode() & 0o777, kept);
            Ok(())
        })
        .unwrap();
        assert_eq!((mode(), std::fs::read(&path).unwrap()), (kept, b"new".to_vec()), "{kept:o}");
    }
}

#[test]
fn only_temporary_files_of_ours_are_cleaned_up() {
    let folder = temporary_folder();
    let name = |name: &str| folder.path().join(name);
    for ours in [".tmp-1-0-old.ply", ".tmp-4194303-17-a-b.png"] {
        std::fs::write(name(ours), "x").unwrap();
    }
    for theirs in [".tmp-notes", ".tmp-x", "old.ply", ".tmp-1-x-old.ply", ".tmp-1-0-"] {
        std::fs::write(name(theirs), "x").unwrap();
    }
    std::os::unix::fs::symlink("old.ply", name(".tmp-2-0-link")).unwrap();
    std::fs::create_dir(name(".tmp-3-0-folder")).unwrap();
    assert_eq!(remove_temporaries(&Disk, folder.path()).unwrap(), 2);
    let left = [
        ".tmp-1-0-",
        ".tmp-1-x-old.ply",
        ".tmp-2-0-link",
        ".tmp-3-0-folder",
        ".tmp-notes",
        ".tmp-x",
        "old.ply",
    ];
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, left);
}

#[test]
fn a_temporary_name_that_is_taken_is_left_to_its_owner() {
    let folder = temporary_folder();
    // One of them has the name that this process would use next, as if a dead process had the same id.
    let taken: Vec<PathBuf> =
        (0..500).map(|n| folder.path().join(format!(".tmp-{}-{n}-a.txt", std::process::id()))).collect();
    for path in &taken {
        std::fs::write(path, "mine").unwrap();
    }
    write_atomic(&Disk, &folder.path().join("a.txt"), |file| file.write_all(b"new")).unwrap();
    assert_eq!(std::fs::read(folder.path().join("a.txt")).unwrap(), b"new");
    assert!(taken.iter().all(|path| std::fs::read(path).unwrap() == b"mine"));
}
