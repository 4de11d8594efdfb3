//! Fails the n-th call (as SQLite's tests do): whichever call fails and however, the old file is intact or the new one
//! is complete.

use std::collections::BTreeSet;
use std::path::Path;

use crate::files::{PlyOptions, file_names, same_bits, save_ply, some_splats, some_state, temporary_folder};
use gausset_core::engine::TrainState;
use gausset_io::atomic::faults::{Fault, FaultyDisk};
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteOptions, remove_temporaries};
use gausset_io::checkpoint::{load_train_state, save_train_state};
use gausset_io::metrics_log::{MetricsLog, read_metrics};
use gausset_io::run_folder::{RunFolder, checkpoints_folder, metrics_path, newest_checkpoint};
use gausset_io::splat::{self, LoadOptions};
use rustix::io::Errno;
use serde_json::json;

const FAULTS: [Fault; 12] = [
    Fault::Once(Errno::NOSPC),
    Fault::Once(Errno::IO),
    Fault::Once(Errno::INTR),
    Fault::Once(Errno::ACCESS),
    Fault::Once(Errno::MFILE),
    Fault::FromNowOn(Errno::NOSPC),
    Fault::FromNowOn(Errno::IO),
    Fault::Dead(Errno::IO),
    Fault::FromNowOn(Errno::INTR),
    Fault::ShortWrite,
    Fault::TornWrite(Errno::NOSPC),
    Fault::TornWrite(Errno::INTR),
];

/// More calls than any operation here makes.
const MANY_CALLS: usize = 1000;

/// Repeats an operation and lets the first call fail, then the second …, until no fault occurs.
///
/// `operation` returns the error line, if any; `check` inspects the result (its argument says whether the operation
/// succeeded). Returns the names of all calls that failed.
fn fail_each_call(
    operation: impl Fn(&dyn FileSystem, &Path) -> Result<(), String>,
    prepare: impl Fn(&Path),
    check: impl Fn(&Path, bool),
) -> BTreeSet<&'static str> {
    let mut failed = BTreeSet::new();
    let template = temporary_folder();
    prepare(template.path());
    for fault in FAULTS {
        for n in 1.. {
            assert!(n < MANY_CALLS);
            let folder = temporary_folder();
            copy_folder(template.path(), folder.path());
            let disk = FaultyDisk::new(n, fault);
            let result = operation(&disk, folder.path());
            let calls = disk.calls();
            if let Err(line) = &result {
                assert!(line.starts_with(&folder.path().display().to_string()), "no path in: {line}");
                assert!(
                    !line.contains(".tmp-") && !line.contains('\n') && !line.contains("os error"),
                    "{line}"
                );
            }
            check(folder.path(), result.is_ok());
            if calls.len() < n {
                assert_eq!(result, Ok(()), "no fault fired");
                break;
            }
            failed.insert(calls[n - 1]);
        }
    }
    failed
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The next start removes all temporary files.
fn assert_no_temporaries(folder: &Path) {
    remove_temporaries(&Disk, folder).unwrap();
    let names = file_names(folder);
    assert!(!names.iter().any(|name| name.starts_with(".tmp-")), "{names:?}");
}

#[test]
fn saving_splats_leaves_the_old_file_or_the_new_one() {
    let (old, new) = (some_splats(30, 1, 1), some_splats(3000, 1, 2));
    let save = |fs: &dyn FileSystem, folder: &Path, splats| {
        save_ply(fs, &folder.join("splats.ply"), splats, &PlyOptions::default(), &WriteOptions::default())
    };
    let failed = fail_each_call(
        |fs, folder| save(fs, folder, &new).map(|_| ()).map_err(|e| e.to_string()),
        |folder| {
            save(&Disk, folder, &old).unwrap();
        },
        |folder, succeeded| {
            let found = splat::load(&folder.join("splats.ply"), &LoadOptions::default()).unwrap().splats;
            assert!(found == new || (!succeeded && found == old));
            assert_no_temporaries(folder);
            assert_eq!(file_names(folder), ["splats.ply"]);
        },
    );
    let expected = ["create_new", "free_space", "info", "rename", "sync", "sync_folder", "write"];
    assert_eq!(failed.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn saving_a_state_leaves_the_old_file_or_the_new_one() {
    let (old, new) = (some_state(5, 1), some_state(50, 2));
    let name = "state.ckpt";
    fail_each_call(
        |fs, folder| {
            save_train_state(fs, &folder.join(name), &new, &json!(2)).map(|_| ()).map_err(|e| e.to_string())
        },
        |folder| {
            save_train_state(&Disk, &folder.join(name), &old, &json!(1)).unwrap();
        },
        |folder, succeeded| {
            let (found, header) = load_train_state(&folder.join(name)).unwrap();
            let is = |state: &TrainState, number: u64| same_bits(&found, state) && header == json!(number);
            assert!(is(&new, 2) || (!succeeded && is(&old, 1)));
            assert_no_temporaries(folder);
        },
    );
}

#[test]
fn a_run_folder_always_has_a_whole_checkpoint_once_it_had_one() {
    let states = [some_state(4, 1), some_state(5, 2), some_state(6, 3)];
    let run_on = |fs: &dyn FileSystem, folder: &Path| -> Result<(), String> {
        let line = |e: &dyn std::fmt::Display| e.to_string();
        let run = RunFolder::open(fs, folder).map_err(|e| line(&e))?;
        run.newest_checkpoint(fs).map_err(|e| line(&e))?;
        let mut log = MetricsLog::open(fs, &metrics_path(folder), Some(2)).map_err(|e| line(&e))?;
        log.append(fs, &json!({"step": 3})).map_err(|e| line(&e))?;
        log.sync().map_err(|e| line(&e))?;
        run.save_checkpoint(fs, 3, &states[2], &json!(3)).map_err(|e| line(&e))?;
        run.write_config(fs, "steps = 3\n").map_err(|e| line(&e))
    };
    let failed = fail_each_call(
        run_on,
        |folder| {
            let run = RunFolder::create(&Disk, folder, Overwrite::Refuse).unwrap();
            run.write_config(&Disk, "steps = 2\n").unwrap();
            for (step, state) in [(1, &states[0]), (2, &states[1])] {
                run.save_checkpoint(&Disk, step, state, &json!(step)).unwrap();
            }
            std::fs::write(metrics_path(folder), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"st").unwrap();
        },
        |folder, succeeded| {
            let search = newest_checkpoint(&Disk, folder).unwrap();
            assert!(search.damaged.is_empty());
            let found = search.found.unwrap();
            assert!(found.step == 3 || (!succeeded && found.step == 2), "{}", found.step);
            assert!(same_bits(&found.state, &states[found.step as usize - 1]));
            let checkpoints =
                file_names(&checkpoints_folder(folder)).iter().filter(|n| n.ends_with(".ckpt")).count();
            assert!(checkpoints == 2 || checkpoints == 3, "the previous one is kept");
            let config = std::fs::read_to_string(folder.join("config.toml")).unwrap();
            assert!(config == "steps = 3\n" || (!succeeded && config == "steps = 2\n"));
            // Complete lines of the old log or of the trimmed one.
            let (records, _) = read_metrics(&metrics_path(folder)).unwrap();
            let steps: Vec<_> = records.iter().map(|r| r["step"].as_u64().unwrap()).collect();
            assert!(steps.starts_with(&[1, 2]) && steps.len() <= 3, "{steps:?}");
            // The next start works and cleans up.
            drop(RunFolder::open(&Disk, folder).unwrap());
            assert_no_temporaries(folder);
            assert!(!file_names(&checkpoints_folder(folder)).iter().any(|n| n.starts_with(".tmp-")));
        },
    );
    let every_call = [
        "append",
        "create_folder",
        "create_new",
        "free_space",
        "info",
        "list",
        "open",
        "read",
        "remove",
        "rename",
        "sync",
        "sync_folder",
        "write",
    ];
    assert_eq!(failed.into_iter().collect::<Vec<_>>(), every_call);
}

#[test]
fn a_log_goes_on_after_a_line_that_could_not_be_written() {
    let folder = temporary_folder();
    let path = folder.path().join("metrics.jsonl");
    let calls_to_open = {
        let disk = FaultyDisk::new(0, Fault::ShortWrite);
        MetricsLog::open(&disk, &folder.path().join("another.jsonl"), None).unwrap();
        disk.calls().len()
    };
    let disk = FaultyDisk::new(calls_to_open + 2, Fault::TornWrite(Errno::NOSPC));
    let mut log = MetricsLog::open(&disk, &path, None).unwrap();
    log.append(&disk, &json!({"step": 1})).unwrap();
    let error = log.append(&disk, &json!({"step": 2})).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{}: write: no space left on the device; free some space or choose another folder",
            path.display()
        )
    );
    log.append(&disk, &json!({"step": 3})).unwrap();
    let (records, torn) = read_metrics(&path).unwrap();
    assert_eq!(records, [json!({"step": 1}), json!({"step": 3})]);
    assert_eq!(torn, 1);
}
