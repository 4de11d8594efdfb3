//! Ctrl-C, termination, threads, locks, broken pipes and panics.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{ProcessResult, TIMEOUT, TestFolder, checkpoints, wait_until, with_walk};

/// More steps than any test runs.
const ENDLESS: [&str; 8] = ["train", "data", "-o", "run", "--steps", "1000000", "--checkpoint-every", "5"];

/// Starts an endless run and waits until it trains.
fn endless(workshop: &TestFolder, more: &[&str]) -> std::process::Child {
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
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let workshop = TestFolder::with_data();
        let child = endless(&workshop, &["--json"]);
        let sent = Instant::now();
        send(&child, signal);
        let finished = ProcessResult::new(&ENDLESS, child.wait_with_output().expect("wait"));
        assert!(sent.elapsed() < TIMEOUT);
        assert_eq!(finished.code, code, "{finished:?}");
        assert!(finished.stderr.contains("resume with: gausset train --resume run"), "{finished:?}");
        let steps = finished.json()["steps"].as_u64();
        assert_eq!(checkpoints(&workshop.path("run")).last().copied(), steps, "saved where it stopped");
        assert!(finished.stderr.contains("checkpoint and splats.ply saved"), "{finished:?}");
        workshop.succeed(&["render", "run", "--orbit", "1", "--width", "32", "-o", "frames", "-q"]);
    }
}

#[test]
fn a_run_whose_terminal_was_closed_goes_on_to_the_same_bytes() {
    let workshop = TestFolder::with_data();
    let options = ["--steps", "240", "--checkpoint-every", "5", "-q"];
    workshop.succeed(&[&["train", "data", "-o", "whole"][..], &options].concat());
    let arguments = [&["train", "data", "-o", "run"][..], &options].concat();
    let child = workshop.start(&arguments);
    wait_until("the run trains", || !checkpoints(&workshop.path("run")).is_empty());
    // The shell and the system both send SIGHUP, and a session manager also sends SIGTERM: together they count as one
    // request to stop.
    for signal in [Signal::STOP, Signal::HUP, Signal::TERM, Signal::CONT] {
        send(&child, signal);
    }
    std::thread::sleep(Duration::from_millis(5));
    let _ = kill_process(Pid::from_child(&child), Signal::HUP);
    let finished = ProcessResult::new(&arguments, child.wait_with_output().expect("wait"));
    assert!([129, 143].contains(&finished.code), "{finished:?}");
    assert!(workshop.path("run/splats.ply").is_file(), "what was trained so far: {finished:?}");
    workshop.succeed(&["train", "--resume", "run", "-q"]);
    assert!(workshop.read("run/splats.ply") == workshop.read("whole/splats.ply"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_was_told_to_ignore_closed_terminals_does() {
    let workshop = TestFolder::with_data();
    let program = workshop.command(&ENDLESS);
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(program.get_program()).args(program.get_args());
    shell.current_dir(workshop.path("")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = shell.spawn().expect("a shell");
    let last = || checkpoints(&workshop.path("run")).last().copied();
    wait_until("the run trains", || last().is_some());
    send(&child, Signal::HUP);
    let then = last();
    wait_until("the run goes on", || last() > then.map(|step| step + 10));
    send(&child, Signal::TERM);
    assert_eq!(child.wait().expect("wait").code(), Some(143));
}

#[test]
fn a_second_signal_ends_the_run_at_once_and_it_can_go_on() {
    let ended_at_once = |_: i32| {
        let workshop = TestFolder::with_data();
        let child = endless(&workshop, &[]);
        // Both signals are pending while the process is stopped, so the second comes before the first is handled.
        for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
            send(&child, signal);
        }
        let finished = ProcessResult::new(&ENDLESS, child.wait_with_output().expect("wait"));
        assert!([130, 143].contains(&finished.code), "{finished:?}");
        (!finished.stderr.contains("resume with")).then_some(workshop)
    };
    // Saving such a small run takes a millisecond, and the second signal may come too late: several attempts.
    let workshop = (0..5).find_map(ended_at_once).expect("a run that did not take the time to save");
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
    let workshop = TestFolder::with_data();
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

/// Whether a process handles SIGTERM.
#[cfg(target_os = "linux")]
fn catches_termination(child: &std::process::Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (Signal::TERM.as_raw() - 1) & 1 == 1)
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_the_reading_of_a_large_input() {
    let workshop = TestFolder::empty();
    let packed = |bytes: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(bytes).expect("packed");
        packed.finish().expect("packed")
    };
    // A volume of 128 x 128 x 128 bytes with 30,000 frames, truncated after 16 GiB: unpacking takes seconds before the
    // requested frame is found to be missing.
    let mut header = vec![0; 352];
    header[..4].copy_from_slice(&348i32.to_le_bytes());
    for (at, word) in [(40, 4u16), (42, 128), (44, 128), (46, 128), (48, 30_000), (70, 2), (72, 8)] {
        header[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }
    header[108..112].copy_from_slice(&352f32.to_le_bytes());
    header[344..348].copy_from_slice(b"n+1\0");
    let mut file = packed(&header);
    file.extend(packed(&vec![0; 16 << 20]).repeat(1024));
    std::fs::write(workshop.path("long.nii.gz"), file).expect("written");
    let arguments = ["field", "fit", "long.nii.gz", "-o", "out.safetensors", "--frame", "29999"];
    let child = workshop.start(&arguments);
    wait_until("the program waits for signals", || catches_termination(&child));
    send(&child, Signal::TERM);
    let finished = ProcessResult::new(&arguments, child.wait_with_output().expect("wait"));
    assert_eq!((finished.code, finished.stdout.as_str()), (143, ""), "{finished:?}");
    assert!(!workshop.path("out.safetensors").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn there_are_never_more_threads_than_asked_for_and_three() {
    let workshop = TestFolder::with_data();
    let mut child = endless(&workshop, &["--threads", "2", "--eval-every", "3"]);
    let tasks = format!("/proc/{}/task", child.id());
    let most = (0..200)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(2));
            std::fs::read_dir(&tasks).map_or(0, Iterator::count)
        })
        .max();
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(most.is_some_and(|most| (2..=5).contains(&most)), "{most:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let workshop = TestFolder::empty();
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
    let workshop = TestFolder::empty();
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = workshop.command(&["--version"]).stdout(full).output().expect("starts");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr).trim_end(),
        "gausset: stdout: write: no space left on the device; free some space or choose another folder"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_stderr_that_cannot_be_written_is_nothing_to_stop_for() {
    // A closed stderr, as after closing the terminal. Traces of the libraries also go there.
    let workshop = with_walk(1);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let arguments = ["-v", "pano", "split", "walk", "-o", "w", "--size", "64"];
    let output = workshop.command(&arguments).stderr(full).output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = workshop.succeed(&[&arguments[..], &["--force"]].concat()).stderr;
    assert!(told.contains("gausset_pano"), "something was traced: {told}");
}

#[test]
fn a_panic_is_one_line_that_asks_for_a_report() {
    let workshop = TestFolder::empty();
    let output =
        workshop.command(&["info", "."]).env("GAUSSET_REHEARSE_PANIC", "1").output().expect("starts");
    assert_eq!(output.status.code(), Some(101));
    let line = String::from_utf8_lossy(&output.stderr);
    assert!(line.starts_with("gausset: internal error at crates/cli/src/crash.rs:"), "{line}");
    assert!(line.trim_end().ends_with("please report") && line.lines().count() == 1, "{line}");
}
