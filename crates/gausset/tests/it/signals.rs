//! Ctrl-C, termination, threads, locks, broken pipes and panics.

use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Finished, PATIENCE, Workshop, checkpoints, wait_until};

/// More steps than anybody waits for.
const ENDLESS: [&str; 8] = ["train", "data", "-o", "run", "--steps", "1000000", "--checkpoint-every", "5"];

/// Starts an endless run and waits until it trains.
fn endless(workshop: &Workshop, more: &[&str]) -> std::process::Child {
    let child = workshop.start(&[&ENDLESS[..], more].concat());
    wait_until("the run trains", || !checkpoints(&workshop.path("run")).is_empty());
    child
}

fn send(child: &std::process::Child, signal: Signal) {
    let pid = Pid::from_child(child);
    kill_process(pid, signal).expect("the signal is sent");
}

#[test]
fn a_signal_saves_a_checkpoint_and_stops_the_run_with_its_own_exit_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let workshop = Workshop::with_data();
        let child = endless(&workshop, &["--json"]);
        let sent = Instant::now();
        send(&child, signal);
        let finished = Finished::new(&ENDLESS, child.wait_with_output().expect("wait"));
        assert!(sent.elapsed() < PATIENCE);
        assert_eq!(finished.code, code, "{finished:?}");
        assert!(finished.stderr.contains("go on with: gausset train --resume run"), "{finished:?}");
        let steps = finished.json()["steps"].as_u64();
        assert_eq!(checkpoints(&workshop.path("run")).last().copied(), steps, "saved where it stopped");
    }
}

#[test]
fn a_second_signal_ends_the_run_at_once_and_it_can_go_on() {
    let workshop = Workshop::with_data();
    let child = endless(&workshop, &[]);
    // Both wait while the process stands still, so the second one comes before the first could be answered.
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        send(&child, signal);
    }
    let finished = Finished::new(&ENDLESS, child.wait_with_output().expect("wait"));
    assert!([130, 143].contains(&finished.code), "{finished:?}");
    assert!(!finished.stderr.contains("go on with"), "it did not take the time to save: {finished:?}");
    let before = checkpoints(&workshop.path("run"));
    assert!(!before.is_empty());
    let mut child = workshop.start(&["train", "--resume", "run"]);
    let is_further = || checkpoints(&workshop.path("run")).last() > before.last();
    wait_until("the run goes on", is_further);
    child.kill().expect("kill");
    child.wait().expect("wait");
}

#[test]
fn a_folder_in_use_is_refused() {
    let workshop = Workshop::with_data();
    let mut child = endless(&workshop, &[]);
    let second = workshop.run(&["train", "data", "-o", "run", "--force"]);
    let resumed = workshop.run(&["train", "--resume", "run"]);
    child.kill().expect("kill");
    child.wait().expect("wait");
    for finished in [second, resumed] {
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.starts_with("gausset: run"), "{finished:?}");
        assert!(finished.stderr.contains("in use"), "{finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn there_are_never_more_threads_than_asked_for_and_three() {
    let workshop = Workshop::with_data();
    let mut child = endless(&workshop, &["--threads", "2", "--eval-every", "3"]);
    let tasks = format!("/proc/{}/task", child.id());
    let most = (0..200)
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            std::fs::read_dir(&tasks).map_or(0, Iterator::count)
        })
        .max();
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(most.is_some_and(|most| (2..=5).contains(&most)), "{most:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let workshop = Workshop::empty();
    let mut command = workshop.command(&["completions", "bash"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = command.stdout(writer).stderr(Stdio::piped()).spawn().expect("starts").wait_with_output();
    let output = output.expect("wait");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let workshop = Workshop::empty();
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = workshop.command(&["--version"]).stdout(full).output().expect("starts");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr).trim_end(),
        "gausset: stdout: write: no space left on the device; free some space or choose another folder"
    );
}

#[test]
fn a_panic_is_one_line_that_asks_for_a_report() {
    let workshop = Workshop::empty();
    let output =
        workshop.command(&["info", "."]).env("GAUSSET_REHEARSE_PANIC", "1").output().expect("starts");
    assert_eq!(output.status.code(), Some(101));
    let line = String::from_utf8_lossy(&output.stderr);
    assert!(line.starts_with("gausset: internal error at crates/gausset/src/crash.rs:"), "{line}");
    assert!(line.trim_end().ends_with("please report") && line.lines().count() == 1, "{line}");
}
