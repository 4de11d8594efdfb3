//! Killed runs: the remaining files are complete, and resumed runs end with the same bytes.

use std::path::Path;
use std::time::Duration;

use crate::support::{TestFolder, checkpoints, wait_until};

const STEPS: &str = "240";

fn train<'a>(name: &'a str, every: &'a str) -> Vec<&'a str> {
    vec!["train", "data", "-o", name, "--steps", STEPS, "--checkpoint-every", every, "-q"]
}

/// A run with three checkpoints.
fn short(name: &str) -> [&str; 9] {
    ["train", "data", "-o", name, "--steps", "60", "--checkpoint-every", "20", "-q"]
}

#[test]
fn a_run_that_is_killed_ten_times_ends_with_the_same_bytes() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&train("whole", "0"));
    let run = workshop.path("killed");
    let mut seen = 0;
    for kill in 0..10u64 {
        let resumes = run.join("config.toml").is_file();
        let arguments =
            if resumes { vec!["train", "--resume", "killed", "-q"] } else { train("killed", "2") };
        let mut child = workshop.start(&arguments);
        // Killed after a new checkpoint, a little later each time, in order to hit different operations.
        wait_until("there is a newer checkpoint", || {
            checkpoints(&run).last().is_some_and(|step| *step > seen)
        });
        std::thread::sleep(Duration::from_millis(kill * 3));
        child.kill().expect("kill");
        let status = child.wait().expect("wait");
        assert_eq!(status.code(), None, "killed by a signal, not finished");
        seen = checkpoints(&run).last().copied().unwrap_or(0);
        // All files with their final name are complete.
        workshop.succeed(&["info", "killed", "--json"]);
    }
    assert!(seen > 0 && seen < 240, "{seen}");
    workshop.succeed(&["train", "--resume", "killed", "-q"]);
    assert!(workshop.read("killed/splats.ply") == workshop.read("whole/splats.ply"));
    let temporaries = std::fs::read_dir(run.join("checkpoints")).expect("folder").filter_map(Result::ok);
    let is_ours = |path: &Path| path.extension() == Some("ckpt".as_ref()) || path.ends_with(".gausset");
    let left: Vec<_> = temporaries.filter(|entry| !is_ours(&entry.path())).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_run_in_blocks_that_is_killed_anywhere_ends_with_the_same_bytes() {
    let workshop = TestFolder::with_data();
    let begin = |name: &'static str| {
        let size = ["--blocks", "2", "--steps", "120", "--checkpoint-every", "20", "-q"];
        [&["train", "data", "-o", name], &size[..]].concat()
    };
    workshop.succeed(&begin("whole"));
    let run = workshop.path("killed");
    let mut kills = 0;
    while !run.join("eval/metrics.json").is_file() {
        assert!(kills < 100, "it does not get on");
        let resumes = run.join("config.toml").is_file();
        let arguments = if resumes { vec!["train", "--resume", "killed", "-q"] } else { begin("killed") };
        let mut child = workshop.start(&arguments);
        // Long enough to get on from one checkpoint to the next, and a little longer each time.
        std::thread::sleep(Duration::from_millis(100 + 7 * kills));
        child.kill().expect("kill");
        child.wait().expect("wait");
        kills += 1;
    }
    workshop.succeed(&["train", "--resume", "killed", "-q"]);
    for file in ["splats.ply", "blocks/division.json", "blocks/shared.json", "blocks/002/splats.ply"] {
        let [killed, whole] = ["killed", "whole"].map(|name| workshop.read(&format!("{name}/{file}")));
        assert!(killed == whole, "{file} after {kills} kills");
    }
}

#[test]
fn blocks_that_processes_train_at_the_same_time_give_the_same_bytes() {
    let workshop = TestFolder::with_data();
    let size = ["--blocks", "2", "--steps", "120", "-q"];
    let begin = |name: &'static str| [&["train", "data", "-o", name], &size[..]].concat();
    workshop.succeed(&begin("whole"));
    let early = workshop.run(&["train", "--resume", "apart", "--block", "1"]);
    assert_eq!(early.code, 2, "{early:?}");
    let divided = workshop.succeed(&[&begin("apart")[..], &["--until", "division", "--json"]].concat());
    assert_eq!(divided.json()["blocks"], 2);
    assert!(!workshop.path("apart/splats.ply").exists());
    // Reversed, and at the same time.
    let commands = String::from_utf8(workshop.read("apart/blocks/commands.txt")).expect("text");
    let mut commands: Vec<&str> = commands.lines().collect();
    commands.sort_unstable();
    let run = std::fs::canonicalize(workshop.path("apart")).expect("path");
    assert_eq!(commands, [1, 2].map(|k| format!("gausset train --resume {} --block {k}", run.display())));
    let start = |command: &&str| {
        let words: Vec<&str> = command.split(' ').skip(1).chain(["-q"]).collect();
        workshop.start(&words)
    };
    let running: Vec<_> = commands.iter().rev().map(start).collect();
    for mut child in running {
        assert_eq!(child.wait().expect("wait").code(), Some(0));
    }
    let outside = workshop.run(&["train", "--resume", "apart", "--block", "3"]);
    assert_eq!(outside.code, 2, "{outside:?}");
    assert!(outside.stderr.contains("expected 1..2"), "{outside:?}");
    let alone = workshop.run(&[&begin("alone")[..], &["--block", "1"]].concat());
    assert!(alone.code == 2 && alone.stderr.contains("--resume RUN"), "{alone:?}");
    // A block that is done is done.
    workshop.succeed(&["train", "--resume", "apart", "--block", "2", "-q"]);
    workshop.succeed(&["train", "--resume", "apart", "-q"]);
    assert!(workshop.read("apart/splats.ply") == workshop.read("whole/splats.ply"));
    let whole = workshop.run(&["train", "data", "-o", "plain", "--steps", "20", "--until", "division"]);
    assert!(whole.code == 2 && whole.stderr.contains("--blocks"), "{whole:?}");
}

#[test]
fn a_run_that_dies_at_any_point_of_a_checkpoint_goes_on_to_the_same_bytes() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&short("whole"));
    let expected = workshop.read("whole/splats.ply");
    let points = [
        "before_write",
        "mid_write",
        "after_write",
        "after_fsync",
        "after_rename",
        "after_folder_sync",
        "before_remove_old",
    ];
    for point in points {
        // An old checkpoint is removed when there are two newer ones: at the third.
        let visits = if point == "before_remove_old" { 1..=1 } else { 1..=2 };
        for visit in visits {
            let name = format!("{point}{visit}");
            let mut command = workshop.command(&short(&name));
            command.env("GAUSSET_CRASH_AT", format!("checkpoint:{point}:{visit}"));
            let finished = command.output().expect("starts");
            assert_eq!(finished.status.code(), None, "{name}: aborts: {finished:?}");
            workshop.succeed(&["train", "--resume", &name, "-q"]);
            assert!(workshop.read(&format!("{name}/splats.ply")) == expected, "{name}");
        }
    }
}

#[test]
fn a_torn_checkpoint_is_told_and_the_one_before_is_used() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&short("whole"));
    let mut command = workshop.command(&short("torn"));
    command.env("GAUSSET_CRASH_AT", "checkpoint:after_folder_sync:2").status().expect("starts");
    let newest = workshop.path("torn/checkpoints/step_000040.ckpt");
    let mut bytes = std::fs::read(&newest).expect("the second checkpoint");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).expect("write");
    let resumed = workshop.succeed(&["train", "--resume", "torn"]);
    assert!(resumed.stderr.contains("step_000040.ckpt"), "{resumed:?}");
    assert!(workshop.read("torn/splats.ply") == workshop.read("whole/splats.ply"));
}
