//! External programs: hanging child processes end with the program in all cases, and programs in the working folder are
//! not run.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{ProcessResult, TestFolder, script, wait_until, with_walk};

/// Far longer than needed, and far shorter than a hanging stand-in would take.
const SOON: Duration = Duration::from_secs(20);

/// The stage at which a stand-in hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hangs {
    Ffprobe,
    Ffmpeg,
    ColmapVersion,
    Colmap,
    Mask,
}

/// A walk of panoramas, a video, and stand-ins for the programs in `bin`. One of them hangs without output, and so does
/// its child process.
fn with_stand_ins(hangs: Hangs) -> TestFolder {
    let workshop = with_walk(3);
    std::fs::write(workshop.path("clip.mp4"), b"a film").expect("a file");
    std::fs::create_dir(workshop.path("bin")).expect("a folder");
    let pids = workshop.path("pids");
    let hang = |here: Hangs| {
        let hang = format!("sleep 97 & echo $$ $! > {0}.part; mv {0}.part {0}; wait", pids.display());
        if hangs == here { hang } else { ":".to_owned() }
    };
    let probe =
        r#"echo '{"streams": [{"width": 256, "height": 128, "avg_frame_rate": "30/1", "duration": "9.0"}]}'"#;
    script(&workshop.path("bin/ffprobe"), &format!("{}\n{probe}", hang(Hangs::Ffprobe)));
    script(&workshop.path("bin/ffmpeg"), &hang(Hangs::Ffmpeg));
    let version = "echo 'COLMAP 3.13.0 -- Structure-from-Motion'; exit 0";
    let colmap = format!(
        "if [ \"$1\" = help ]; then {}\n{version}; fi\n{}",
        hang(Hangs::ColmapVersion),
        hang(Hangs::Colmap)
    );
    script(&workshop.path("bin/colmap"), &colmap);
    script(&workshop.path("bin/mask"), &hang(Hangs::Mask));
    workshop
}

/// Starts a command and waits until the stand-in hangs. Also returns the process ids of the stand-in and its child.
fn hanging(workshop: &TestFolder, arguments: &[&str], variables: &[(&str, &Path)]) -> (Child, Vec<u32>) {
    let path = std::env::var_os("PATH").expect("a PATH");
    let bin = workshop.path("bin");
    let path =
        std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).expect("a PATH");
    let mut command = workshop.command(arguments);
    command.env("PATH", path).env_remove("GAUSSET_PYTHON");
    command.envs(variables.iter().copied());
    let output = || std::process::Stdio::piped();
    let child = command.stdout(output()).stderr(output()).spawn().expect("the program starts");
    wait_until("the stand-in hangs", || workshop.path("pids").exists());
    let text = String::from_utf8(workshop.read("pids")).expect("numbers");
    let pids: Vec<u32> = text.split_whitespace().map(|pid| pid.parse().expect("a number")).collect();
    assert!(pids.len() == 2 && pids.iter().all(|&pid| is_running(pid)), "{pids:?}");
    (child, pids)
}

/// Whether a process is running; a zombie is not.
fn is_running(pid: u32) -> bool {
    let about = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    about.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("the signal is sent");
}

/// Waits for the end of the program and the stand-in. Returns the time until the program ended.
fn ends(what: &str, mut child: Child, pids: &[u32], sent: Instant) -> (ProcessResult, Duration) {
    wait_until("the program ends", || {
        assert!(sent.elapsed() < SOON, "{what}: the program goes on");
        child.try_wait().expect("wait").is_some()
    });
    let took = sent.elapsed();
    while pids.iter().any(|&pid| is_running(pid)) {
        assert!(sent.elapsed() < SOON, "{what}: {pids:?} live on");
        std::thread::sleep(Duration::from_millis(1));
    }
    (ProcessResult::new(&[what], child.wait_with_output().expect("output")), took)
}

const SPLIT: &[&str] = &["pano", "split", "clip.mp4", "-o", "w"];
const ALIGN: &[&str] = &["align", "walk", "-o", "out", "--colmap", "bin/colmap"];
const MASK: &[&str] = &["pano", "split", "walk", "-o", "w", "--mask-command", "bin/mask"];
const PANO: &[&str] = &["pano", "run", "walk", "-o", "out", "--colmap", "bin/colmap"];
const FILM: &[&str] = &["run", "clip.mp4", "-o", "out", "--colmap", "bin/colmap"];

/// Every external program, with a command that waits for it.
const WAITS: [(Hangs, &[&str]); 10] = [
    (Hangs::Ffprobe, SPLIT),
    (Hangs::Ffprobe, FILM),
    (Hangs::Ffmpeg, SPLIT),
    (Hangs::Ffmpeg, FILM),
    (Hangs::ColmapVersion, ALIGN),
    (Hangs::ColmapVersion, PANO),
    (Hangs::Colmap, ALIGN),
    (Hangs::Colmap, &["run", "walk", "-o", "out", "--colmap", "bin/colmap"]),
    (Hangs::Colmap, PANO),
    (Hangs::Mask, MASK),
];

#[test]
fn the_first_signal_ends_a_silent_outside_program_and_then_this_one() {
    let mut times = Vec::new();
    for (hangs, arguments) in WAITS {
        let what = format!("{hangs:?}: {}", arguments.join(" "));
        let workshop = with_stand_ins(hangs);
        let (child, pids) = hanging(&workshop, arguments, &[]);
        let sent = Instant::now();
        send(&child, Signal::TERM);
        let (finished, took) = ends(&what, child, &pids, sent);
        assert_eq!(finished.code, 143, "{what}: {finished:?}");
        assert!(!finished.stderr.contains("skipped"), "what was stopped is not broken: {finished:?}");
        println!("{:.3} s from SIGTERM to the end of {what}", took.as_secs_f64());
        times.push(took);
    }
    times.sort_unstable();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{:.3} s median, {:.3} s longest", median.as_secs_f64(), longest.as_secs_f64());
}

#[test]
fn a_second_signal_leaves_no_outside_program_behind() {
    for (hangs, arguments) in [(Hangs::Ffmpeg, SPLIT), (Hangs::Colmap, ALIGN)] {
        let workshop = with_stand_ins(hangs);
        let (child, pids) = hanging(&workshop, arguments, &[]);
        // Both signals are pending while the process is stopped, so the second comes before the first is handled.
        for signal in [Signal::STOP, Signal::INT, Signal::TERM] {
            send(&child, signal);
        }
        let sent = Instant::now();
        send(&child, Signal::CONT);
        let (finished, _) = ends("two signals", child, &pids, sent);
        assert!([130, 143].contains(&finished.code), "{finished:?}");
    }
}

#[test]
fn a_panic_leaves_no_outside_program_behind() {
    for (hangs, arguments) in [(Hangs::Ffmpeg, SPLIT), (Hangs::Colmap, ALIGN)] {
        let workshop = with_stand_ins(hangs);
        let go = workshop.path("go");
        let (child, pids) = hanging(&workshop, arguments, &[("GAUSSET_REHEARSE_PANIC", &go)]);
        let sent = Instant::now();
        std::fs::write(&go, "").expect("a file");
        let (finished, _) = ends("a panic", child, &pids, sent);
        assert_eq!(finished.code, 101, "{finished:?}");
        assert!(finished.stderr.contains("this is a rehearsal beside other work"), "{finished:?}");
    }
}

/// Any Python.
fn python(test: &str) -> Option<std::path::PathBuf> {
    let found = gausset_process::find_program("python3");
    if found.is_none() {
        gausset_testkit::skip_for_tool(test, "needs python3");
    }
    found
}

#[test]
fn a_killed_program_takes_the_driver_of_colmap_with_it() {
    let Some(python) = python("a_killed_program_takes_the_driver_of_colmap_with_it") else { return };
    let workshop = with_stand_ins(Hangs::Colmap);
    // A module in a folder that the user names by an absolute path is found.
    let modules = workshop.path("modules");
    std::fs::create_dir(&modules).expect("a folder");
    let text = format!(
        "import os, time
__version__ = '4.9.9'
def set_random_seed(seed):
    with open({pids:?} + '.part', 'w') as file:
        file.write(f'{{os.getpid()}} {{os.getpid()}}')
    os.rename({pids:?} + '.part', {pids:?})
    time.sleep(97)
",
        pids = workshop.path("pids").display().to_string()
    );
    std::fs::write(modules.join("pycolmap.py"), text).expect("a module");
    let python = python.to_str().expect("a name");
    let arguments = ["align", "walk", "-o", "out", "--python", python];
    let (child, pids) = hanging(&workshop, &arguments, &[("PYTHONPATH", &modules)]);
    let sent = Instant::now();
    send(&child, Signal::KILL);
    let (finished, _) = ends("a kill", child, &pids, sent);
    assert_eq!(finished.code, -1, "{finished:?}");
}

/// Names of programs and modules that are searched for.
const PROGRAMS: [&str; 6] = ["ffmpeg", "ffprobe", "colmap", "python3", "python", "mask"];
const MODULES: [&str; 8] =
    ["pycolmap", "json", "os", "threading", "time", "numpy", "sitecustomize", "usercustomize"];

#[test]
fn nothing_that_lies_in_the_working_folder_the_pictures_or_the_output_is_run() {
    let test = "nothing_that_lies_in_the_working_folder_the_pictures_or_the_output_is_run";
    // One folder with a trap for every name; a trap that is run leaves a file.
    let workshop = with_walk(3);
    let here = workshop.path("walk");
    let trace = workshop.path("trace");
    for name in PROGRAMS {
        script(&here.join(name), &format!("echo program {name} >> {}", trace.display()));
    }
    for name in MODULES {
        let text = format!("open({:?}, 'a').write('module {name}\\n')\n", trace.display().to_string());
        std::fs::write(here.join(format!("{name}.py")), text).expect("a module");
    }
    std::fs::write(here.join("clip.mp4"), b"a film").expect("a file");
    workshop.succeed(&["-q", "pano", "split", "walk", "-o", "views", "--size", "64"]);
    for entry in std::fs::read_dir(workshop.path("views")).expect("a folder") {
        let entry = entry.expect("an entry");
        std::fs::rename(entry.path(), here.join(entry.file_name())).expect("moved");
    }
    // Empty and relative entries mean the working folder.
    let path = std::env::var("PATH").expect("a PATH");
    let variables = [
        ("PATH", format!(":.:../walk:{path}:")),
        ("PYTHONPATH", ":.:../walk:".to_owned()),
        ("LD_LIBRARY_PATH", ":.".to_owned()),
    ];
    let prepared = |mut command: Command| {
        command.current_dir(&here).envs(variables.clone()).env_remove("PYTHONSAFEPATH");
        command
    };
    let traces = || std::fs::read_to_string(&trace).unwrap_or_default();
    // The traps work if their folder is in PATH.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "ffmpeg; python3"]);
    prepared(shell).status().expect("a shell");
    assert_eq!(traces(), "program ffmpeg\nprogram python3\n");
    if let Some(python) = python(test) {
        let mut command = Command::new(python);
        command.args(["-c", "import json"]);
        prepared(command).status().expect("a Python");
        assert!(
            traces().contains("module json") && traces().contains("module sitecustomize"),
            "{}",
            traces()
        );
    }
    let commands: [&[&str]; 10] = [
        &["align", ".", "-o", "."],
        &["align", "clip.mp4", "-o", "out0"],
        &["run", ".", "-o", ".", "--quality", "fast"],
        &["run", "clip.mp4", "-o", "."],
        &["pano", "split", "clip.mp4", "-o", "out1"],
        &["pano", "split", ".", "-o", "out2", "--mask-command", "mask {frame} {mask}"],
        &["pano", "run", ".", "-o", ".", "--quality", "fast"],
        &["pano", "align", "."],
        &["pano", "align", ".", "--python", "python3"],
        &["pano", "align", ".", "--colmap", "colmap"],
    ];
    // With the Python of PATH, and with one that has pycolmap if the environment names it.
    let known = std::env::var_os("GAUSSET_PYTHON");
    for python in
        [None, known].into_iter().take(if std::env::var_os("GAUSSET_PYTHON").is_some() { 2 } else { 1 })
    {
        for arguments in commands {
            let _ = std::fs::remove_file(&trace);
            let mut command = prepared(workshop.command(arguments));
            match &python {
                Some(python) => command.env("GAUSSET_PYTHON", python),
                None => command.env_remove("GAUSSET_PYTHON"),
            };
            let output = command.output().expect("the program starts");
            assert_eq!(traces(), "", "{arguments:?} {python:?}: {output:?}");
            // It ran as far as possible without them, or to its end.
            assert!(output.status.code().is_some_and(|code| code <= 2), "{output:?}");
        }
    }
}
