//! The run folder: what is kept, refused and found again.

use std::path::Path;

use crate::files::{file_names, same_bits, some_state, temporary_folder};
use gausset_io::atomic::faults::{Fault, FaultyDisk};
use gausset_io::atomic::{
    Disk, Overwrite, WriteError, WriteOptions, check_free, plain_reason, write_atomic, write_atomic_with,
};
use gausset_io::lock::FolderLock;
use gausset_io::metrics_log::{MetricsLog, read_metrics};
use gausset_io::ownership;
use gausset_io::run_folder::{
    self, CAMERAS_MARKER, CONFIG_START, DEPTH_MARKER, EVALUATION_MARKER, RunFolder, RunFolderError,
    checkpoint_path, checkpoints_folder, list_checkpoints, metrics_path, newest_checkpoint,
};
use rustix::io::Errno;
use serde_json::{Value, json};

fn new_run(folder: &Path) -> RunFolder {
    let run = RunFolder::create(&Disk, folder, Overwrite::Refuse).unwrap();
    run.write_config(&Disk, &format!("{CONFIG_START}\nsteps = 1\n")).unwrap();
    run
}

fn save(run: &RunFolder, step: u64) {
    run.save_checkpoint(&Disk, step, &some_state(3, step), &json!({"step": step})).unwrap();
}

/// Flips one bit in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

/// An error line in which the folder's path is shortened.
fn line(error: &dyn std::fmt::Display, folder: &Path) -> String {
    error.to_string().replace(&folder.display().to_string(), "RUN")
}

#[test]
fn names_are_those_of_the_manual() {
    let run = Path::new("RUN");
    let names = [
        run_folder::config_path(run),
        run_folder::splats_path(run),
        checkpoint_path(run, 7000),
        checkpoint_path(run, 12_345_678),
        metrics_path(run),
        run_folder::profile_path(run),
        run_folder::trace_path(run),
        run_folder::eval_folder(run),
    ];
    let names: Vec<_> = names.iter().map(|p| p.to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "RUN/config.toml",
            "RUN/splats.ply",
            "RUN/checkpoints/step_007000.ckpt",
            "RUN/checkpoints/step_12345678.ckpt",
            "RUN/metrics.jsonl",
            "RUN/profile.json",
            "RUN/trace.json",
            "RUN/eval"
        ]
    );
}

#[test]
fn a_folder_that_cannot_be_written_to_is_refused_before_long_work() {
    let place = temporary_folder();
    let (new, old) = (place.path().join("new/run"), place.path().join("old"));
    std::fs::create_dir(&old).unwrap();
    // The calls are: look up the folder and those above it, create a file; in an existing folder, further calls before
    // that.
    let refused = |folder: &Path, call: usize| {
        let disk = FaultyDisk::new(call, Fault::Once(Errno::ACCESS));
        let error = RunFolder::check(&disk, folder, Overwrite::Refuse).unwrap_err();
        assert_eq!(disk.calls().last(), Some(&"create_new"));
        line(&error, folder)
    };
    let count = |folder: &Path| {
        let disk = FaultyDisk::new(0, Fault::ShortWrite);
        RunFolder::check(&disk, folder, Overwrite::Refuse).unwrap();
        disk.calls().iter().position(|call| *call == "create_new").unwrap() + 1
    };
    assert_eq!(refused(&new, count(&new)), "RUN: create folder: permission denied");
    assert_eq!(refused(&old, count(&old)), "RUN: write to folder: permission denied");
    // No traces of the check remain.
    assert_eq!(file_names(&old), Vec::<String>::new());
    assert_eq!(file_names(place.path()), Vec::<String>::new());
}

#[test]
fn the_newest_two_checkpoints_are_kept() {
    let folder = temporary_folder();
    let run = new_run(folder.path());
    for step in [500, 1000, 999_999, 1_000_000] {
        save(&run, step);
    }
    assert_eq!(list_checkpoints(&Disk, folder.path()).unwrap(), [999_999, 1_000_000]);
    let found = run.newest_checkpoint(&Disk).unwrap().found.unwrap();
    assert_eq!((found.step, found.header), (1_000_000, json!({"step": 1_000_000})));
    assert!(same_bits(&found.state, &some_state(3, 1_000_000)));
}

#[test]
fn a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used() {
    let folder = temporary_folder();
    let run = new_run(folder.path());
    save(&run, 1000);
    save(&run, 2000);
    damage(&checkpoint_path(folder.path(), 2000));

    // An inspection changes nothing.
    let looked = newest_checkpoint(&Disk, folder.path()).unwrap();
    assert_eq!(looked.found.unwrap().step, 1000);
    assert!(checkpoint_path(folder.path(), 2000).exists());

    let search = run.newest_checkpoint(&Disk).unwrap();
    let lines = search.lines();
    assert_eq!(lines.len(), 1);
    let said = line(&lines[0], folder.path());
    let start = "RUN/checkpoints/step_002000.ckpt: section ";
    assert!(said.starts_with(start) && said.contains(": the file is damaged (expected checksum "), "{said}");
    assert!(said.ends_with("); going back to step 1000"), "{said}");
    assert_eq!(search.found.unwrap().step, 1000);

    // The damaged one does not count as the previous one of the next.
    save(&run, 3000);
    assert_eq!(
        file_names(&checkpoints_folder(folder.path())),
        ["step_001000.ckpt", "step_002000.ckpt.damaged", "step_003000.ckpt"]
    );
}

#[test]
fn a_checkpoint_that_is_not_damaged_but_cannot_be_read_is_an_error_and_stays() {
    let folder = temporary_folder();
    let run = new_run(folder.path());
    for step in [1000, 2000] {
        save(&run, step);
        let path = checkpoint_path(folder.path(), step);
        let mut bytes = std::fs::read(&path).unwrap();
        // The version of the format.
        bytes[8] = 2;
        std::fs::write(&path, bytes).unwrap();
    }
    let said = line(&run.newest_checkpoint(&Disk).unwrap_err(), folder.path());
    assert!(said.starts_with("RUN/checkpoints/step_002000.ckpt: ") && said.contains("found 2"), "{said}");
    assert_eq!(line(&newest_checkpoint(&Disk, folder.path()).unwrap_err(), folder.path()), said);
    let names = file_names(&checkpoints_folder(folder.path()));
    assert_eq!(names, ["step_001000.ckpt", "step_002000.ckpt"]);
}

#[test]
fn with_no_whole_checkpoint_the_run_starts_again() {
    let folder = temporary_folder();
    let run = new_run(folder.path());
    assert!(run.newest_checkpoint(&Disk).unwrap().found.is_none());
    std::fs::write(checkpoint_path(folder.path(), 5), "not a checkpoint at all, but long enough for one")
        .unwrap();
    // Names that Gausset does not use are left alone.
    for name in ["step_7.ckpt", "step_+00007.ckpt", "step_x.ckpt", "notes.txt"] {
        std::fs::write(checkpoints_folder(folder.path()).join(name), "").unwrap();
    }
    let search = run.newest_checkpoint(&Disk).unwrap();
    assert!(search.found.is_none());
    assert_eq!(
        line(&search.lines()[0], folder.path()),
        "RUN/checkpoints/step_000005.ckpt: first bytes: not a checkpoint (expected \"GAUSSETC\", found \"not a ch\"); \
         starting again from step 0"
    );
}

#[test]
fn checkpoints_of_a_future_that_was_given_up_are_removed() {
    let folder = temporary_folder();
    let run = new_run(folder.path());
    save(&run, 1000);
    save(&run, 5000);
    save(&run, 2000);
    assert_eq!(list_checkpoints(&Disk, folder.path()).unwrap(), [1000, 2000]);
}

#[test]
fn a_folder_that_holds_a_run_is_refused_without_force() {
    let folder = temporary_folder();
    let keep = folder.path().join("my-notes.txt");
    std::fs::write(&keep, "keep me").unwrap();
    let run = new_run(folder.path());
    save(&run, 10);
    let in_use = RunFolder::create(&Disk, folder.path(), Overwrite::Replace).unwrap_err();
    assert!(line(&in_use, folder.path()).starts_with("RUN: in use by process "), "{in_use}");
    drop(run);
    let refused = RunFolder::create(&Disk, folder.path(), Overwrite::Refuse).unwrap_err();
    assert_eq!(
        line(&refused, folder.path()),
        "RUN: run folder: already holds a run (expected an empty or new folder, found config.toml); continue it with \
         ⟨resume⟩, choose another folder, or replace it with ⟨force⟩"
    );
    assert_eq!(list_checkpoints(&Disk, folder.path()).unwrap(), [10], "a refusal changes nothing");

    let none = std::iter::empty::<&Path>;
    for (place, purpose) in [
        ("eval", EVALUATION_MARKER),
        ("eval/train", EVALUATION_MARKER),
        ("cameras", CAMERAS_MARKER),
        ("depth", DEPTH_MARKER),
    ] {
        ownership::claim_for_files(&Disk, &folder.path().join(place), purpose, none(), Overwrite::Refuse)
            .unwrap();
    }
    let left = [
        "eval/contact_sheet.png",
        "eval/0003_view.png",
        "eval/train/metrics.json",
        "cameras/images.bin",
        "cameras/transforms.json",
        "depth/0003_view.npy",
        "profile.csv",
        ".tmp-1-0-splats.ply",
        "eval/.tmp-12-3-0003_view.png",
    ];
    let mine =
        ["cameras/mine.txt", "depth/mine.npy", "eval/holiday.png", ".tmp-notes", "checkpoints/best.ckpt"];
    for file in left.iter().chain(&mine) {
        std::fs::write(folder.path().join(file), "old").unwrap();
    }
    // A check changes nothing.
    let refused = RunFolder::check(&Disk, folder.path(), Overwrite::Refuse).unwrap_err();
    assert!(matches!(refused, RunFolderError::HoldsARun { .. }), "{refused}");
    RunFolder::check(&Disk, folder.path(), Overwrite::Replace).unwrap();
    RunFolder::check(&Disk, &folder.path().join("new"), Overwrite::Refuse).unwrap();
    assert!(left.iter().all(|file| folder.path().join(file).exists()) && !folder.path().join("new").exists());
    let run = RunFolder::create(&Disk, folder.path(), Overwrite::Replace).unwrap();
    assert!(list_checkpoints(&Disk, folder.path()).unwrap().is_empty());
    for file in left {
        assert!(!folder.path().join(file).exists(), "{file}");
    }
    for file in mine {
        assert_eq!(std::fs::read(folder.path().join(file)).unwrap(), b"old", "{file}");
    }
    assert_eq!(std::fs::read(&keep).unwrap(), b"keep me");
    drop(run);
    // Nothing of the run remains, so the next one can start.
    RunFolder::create(&Disk, folder.path(), Overwrite::Refuse).unwrap();
}

#[test]
fn files_in_a_sub_folder_without_a_marker_are_in_the_way() {
    for theirs in ["eval/0001_holiday.png", "cameras/images.bin", "depth/0001_mine.npy"] {
        let folder = temporary_folder();
        drop(RunFolder::create(&Disk, folder.path(), Overwrite::Refuse).unwrap());
        let file = folder.path().join(theirs);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "x").unwrap();
        for overwrite in [Overwrite::Refuse, Overwrite::Replace] {
            let refused = RunFolder::create(&Disk, folder.path(), overwrite).unwrap_err();
            assert_eq!(
                line(&refused, folder.path()),
                format!(
                    "RUN: run folder: holds files that gausset did not write (expected an empty or new folder, found \
                     {theirs}); choose another folder, or move them away"
                )
            );
            assert!(file.is_file(), "a refusal changes nothing");
        }
    }
}

#[test]
fn files_of_somebody_else_are_not_a_run() {
    let folder = temporary_folder();
    for place in ["eval", "checkpoints"] {
        std::fs::create_dir(folder.path().join(place)).unwrap();
    }
    for file in ["config.toml", "crash.txt", ".tmp-1-0-a", "eval/holiday.png", "checkpoints/best.ckpt"] {
        std::fs::write(folder.path().join(file), "mine").unwrap();
    }
    let refused = RunFolder::create(&Disk, folder.path(), Overwrite::Refuse).unwrap_err();
    assert_eq!(
        line(&refused, folder.path()),
        "RUN: run folder: holds files that gausset did not write (expected an empty or new folder, found config.toml); \
         choose another folder, or replace that file with ⟨force⟩"
    );
    assert_eq!(std::fs::read(folder.path().join(".tmp-1-0-a")).unwrap(), b"mine", "not our folder");
    // Only files that are about to be written are replaced.
    drop(RunFolder::create(&Disk, folder.path(), Overwrite::Replace).unwrap());
    assert!(!folder.path().join("config.toml").exists());
    for file in ["crash.txt", ".tmp-1-0-a", "eval/holiday.png", "checkpoints/best.ckpt"] {
        assert_eq!(std::fs::read(folder.path().join(file)).unwrap(), b"mine", "{file}");
    }
    // Checkpoints are removed one after the other during a run, which would remove the user's as well.
    std::fs::write(folder.path().join("checkpoints/step_000100.ckpt"), "mine").unwrap();
    assert!(RunFolder::create(&Disk, folder.path(), Overwrite::Replace).is_err());
    assert_eq!(std::fs::read(folder.path().join("checkpoints/step_000100.ckpt")).unwrap(), b"mine");
}

#[test]
fn no_link_leads_out_of_a_run_folder() {
    use std::os::unix::fs::symlink;
    let root = temporary_folder();
    let (outside, run) = (root.path().join("mine"), root.path().join("run"));
    std::fs::create_dir(&outside).unwrap();
    for file in ["thesis.txt", "metrics.json", "holiday.png", "0000_a.png", "step_000007.ckpt"] {
        std::fs::write(outside.join(file), "mine").unwrap();
    }
    let names = [
        (".lock", "thesis.txt"),
        ("config.toml", "thesis.txt"),
        ("splats.ply", "thesis.txt"),
        ("metrics.jsonl", "thesis.txt"),
        ("profile.json", "thesis.txt"),
        ("crash.txt", "thesis.txt"),
        ("trace.json", "nowhere.txt"),
        ("eval", "."),
        ("checkpoints", "."),
        ("cameras", "."),
        ("depth", "."),
        ("render", "."),
        ("eval/metrics.json", "metrics.json"),
        ("eval/train", "."),
        ("eval/0000_a.png", "0000_a.png"),
        ("checkpoints/step_000007.ckpt", "step_000007.ckpt"),
    ];
    for (name, target) in names {
        let _ = std::fs::remove_dir_all(&run);
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join("config.toml"), format!("{CONFIG_START}\n")).unwrap();
        let link = run.join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&link);
        symlink(outside.join(target), &link).unwrap();
        let mut refusals = vec![RunFolder::create(&Disk, &run, Overwrite::Replace).map(|_| ())];
        if name != "config.toml" {
            refusals.push(RunFolder::open(&Disk, &run).map(|_| ()));
        }
        for refusal in refusals {
            let refusal = refusal.unwrap_err().to_string();
            let expected = [
                ": output: is a link that leads ",
                ": output: is a broken symbolic link",
                ": lock: is a link (expected",
            ];
            let is_told =
                expected.iter().any(|what| refusal.starts_with(&format!("{}{what}", link.display())));
            assert!(is_told, "{name}: {refusal}");
        }
        for file in file_names(&outside) {
            assert_eq!(std::fs::read(outside.join(&file)).unwrap(), b"mine", "{name}: {file}");
        }
        assert_eq!(file_names(&outside).len(), 5, "{name}");
    }
    // The folder itself may be a link, and so may anything that stays within it.
    let _ = std::fs::remove_dir_all(&run);
    std::fs::create_dir(&run).unwrap();
    symlink(&run, root.path().join("link")).unwrap();
    let through = new_run(&root.path().join("link"));
    save(&through, 3);
    drop(through);
    std::fs::rename(run.join("checkpoints"), run.join("elsewhere")).unwrap();
    symlink("elsewhere", run.join("checkpoints")).unwrap();
    let through = RunFolder::open(&Disk, &root.path().join("link")).unwrap();
    assert_eq!(through.newest_checkpoint(&Disk).unwrap().found.unwrap().step, 3);
}

#[test]
fn going_on_needs_a_run() {
    let folder = temporary_folder();
    let open = |path: &Path| line(&RunFolder::open(&Disk, path).unwrap_err(), folder.path());
    let hint = "start one with `gausset train DATA -o";
    assert_eq!(
        open(folder.path()),
        format!("RUN: run folder: holds no run (expected config.toml in it, found none); {hint} RUN`")
    );
    assert_eq!(
        open(&folder.path().join("no")),
        format!("RUN/no: run folder: holds no run (expected a folder, found nothing); {hint} RUN/no`")
    );
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(
        open(&folder.path().join("file")),
        format!("RUN/file: run folder: holds no run (expected a folder, found a file); {hint} RUN/file`")
    );
    assert!(file_names(folder.path()) == ["file"], "asking changes nothing");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = RunFolder::create(&Disk, &folder.path().join("file/run"), Overwrite::Refuse).unwrap_err();
    assert!(matches!(error, RunFolderError::Write(WriteError::Io { .. })));
    assert_eq!(
        line(&error, folder.path()),
        "RUN/file/run: create folder: a part of the path is not a folder"
    );
}

#[test]
fn single_outputs_are_not_overwritten_without_force() {
    let folder = temporary_folder();
    let path = folder.path().join("out.png");
    check_free(&Disk, &path, Overwrite::Refuse).unwrap();
    std::fs::write(&path, "x").unwrap();
    check_free(&Disk, &path, Overwrite::Replace).unwrap();
    let refused = |path: &Path| line(&check_free(&Disk, path, Overwrite::Refuse).unwrap_err(), folder.path());
    let what = "exists already (expected a free name, found";
    let hint = "choose another name or add ⟨force⟩";
    assert_eq!(refused(&path), format!("RUN/out.png: output: {what} a file); {hint}"));
    assert_eq!(refused(folder.path()), format!("RUN: output: {what} a folder); {hint}"));
    check_free(&Disk, Path::new("/dev/null"), Overwrite::Refuse).unwrap();
}

fn steps(path: &Path) -> Vec<u64> {
    read_metrics(path).unwrap().0.iter().map(|r| r["step"].as_u64().unwrap()).collect()
}

#[test]
fn a_log_is_trimmed_to_the_step_of_the_checkpoint() {
    let folder = temporary_folder();
    let path = metrics_path(folder.path());
    let mut log = MetricsLog::open(&Disk, &path, None).unwrap();
    for step in [100, 200, 300] {
        log.append(&Disk, &json!({"step": step, "loss": 0.1})).unwrap();
    }
    log.append(&Disk, &json!({"note": "a line without a step stays"})).unwrap();
    drop(log);
    // A kill in the middle of a line.
    std::fs::write(&path, [&std::fs::read(&path).unwrap()[..], b"{\"step\": 40"].concat()).unwrap();
    let mut log = MetricsLog::open(&Disk, &path, Some(200)).unwrap();
    log.append(&Disk, &json!({"step": 201})).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let expected = "{\"loss\":0.1,\"step\":100}\n{\"loss\":0.1,\"step\":200}\n\
                    {\"note\":\"a line without a step stays\"}\n{\"step\":201}\n";
    assert_eq!(text, expected);
    // A new run starts an empty log.
    MetricsLog::open(&Disk, &path, None).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

#[test]
fn a_log_that_grows_too_large_loses_every_second_line() {
    let folder = temporary_folder();
    let path = metrics_path(folder.path());
    let mut log = MetricsLog::open(&Disk, &path, None).unwrap().with_limit(200);
    for step in 0..100 {
        log.append(&Disk, &json!({"step": step})).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() <= 200);
    }
    let kept = steps(&path);
    assert_eq!((kept[0], *kept.last().unwrap()), (0, 99), "first and last are kept");
    assert!(kept.is_sorted() && kept.len() > 5, "{kept:?}");
}

#[test]
fn lines_that_are_not_ours_are_dropped_and_counted() {
    let folder = temporary_folder();
    let path = metrics_path(folder.path());
    let long = "9".repeat(3 << 20);
    std::fs::write(&path, format!("{{\"step\":1}}\nnonsense\n[1]\n{long}\n\n{{\"step\":2}}\n{{\"st"))
        .unwrap();
    let (records, other) = read_metrics(&path).unwrap();
    assert_eq!(records, [json!({"step": 1}), json!({"step": 2})]);
    assert_eq!(
        other, 3,
        "nonsense, an array and an empty line; the endless line and the torn one are no lines"
    );
    assert_eq!(
        line(&read_metrics(&folder.path().join("no")).unwrap_err(), folder.path()),
        "RUN/no: read: no such file or folder"
    );
    assert!(records.iter().all(Value::is_object));
}

#[test]
fn too_little_free_space_is_said_before_anything_is_written() {
    let folder = temporary_folder();
    let path = folder.path().join("big.bin");
    let options = WriteOptions { needed_bytes: 1 << 60, ..WriteOptions::default() };
    let error = write_atomic_with(&Disk, &path, &options, |_| -> std::io::Result<()> {
        panic!("nothing may be written");
    });
    let said = line(&error.unwrap_err(), folder.path());
    let start = "RUN/big.bin: free space: not enough (expected 1024.0 PiB, found ";
    assert!(
        said.starts_with(start) && said.ends_with("); free some space or choose another folder"),
        "{said}"
    );
    assert!(file_names(folder.path()).is_empty());
}

#[test]
fn reasons_of_the_system_are_in_plain_words() {
    use rustix::io::Errno;
    let errors = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::FBIG,
        Errno::ACCESS,
        Errno::PERM,
        Errno::ROFS,
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::NAMETOOLONG,
        Errno::IO,
        Errno::MFILE,
        Errno::XDEV,
    ];
    let lines: Vec<String> = errors.iter().map(|&e| plain_reason(&e.into())).collect();
    assert_eq!(
        lines,
        [
            "no space left on the device; free some space or choose another folder",
            "the disk quota is used up; free some space or choose another folder",
            "the file would be larger than the system allows (see `ulimit -f`)",
            "permission denied",
            "permission denied",
            "the file system is read-only; choose another folder",
            "no such file or folder",
            "a part of the path is not a folder",
            "is a folder (expected a file)",
            "the name is too long or not allowed by the file system",
            "the device reports an input/output error; check the disk",
            "too many open files (see `ulimit -n`)",
            "invalid cross-device link",
        ]
    );
}

#[test]
fn a_body_that_fails_leaves_nothing_and_keeps_its_words() {
    let folder = temporary_folder();
    let path = folder.path().join("picture.png");
    let error =
        write_atomic(&Disk, &path, |_| Err::<(), _>(std::io::Error::other("the picture has no pixels")));
    assert_eq!(line(&error.unwrap_err(), folder.path()), "RUN/picture.png: write: the picture has no pixels");
    assert!(file_names(folder.path()).is_empty());
}

#[test]
fn a_folder_without_room_for_a_lock_file_is_named() {
    let error = FolderLock::acquire(Path::new("/proc")).unwrap_err().to_string();
    assert_eq!(error, "/proc/.lock: lock: no such file or folder");
}

#[test]
fn a_log_that_is_appended_to_keeps_every_byte() {
    let folder = temporary_folder();
    let path = folder.path().join("events.jsonl");
    let append = |record: &str| MetricsLog::resume(&Disk, &path).unwrap().append_line(&Disk, record).unwrap();
    append("{\"a\":1}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\":1}\n");
    // A line that a kill has cut, and one that is no JSON, stay; the next line begins after them.
    std::fs::write(&path, "notes\n{\"a\":").unwrap();
    append("{\"a\":2}");
    append("{\"a\":3}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes\n{\"a\":\n{\"a\":2}\n{\"a\":3}\n");
}
