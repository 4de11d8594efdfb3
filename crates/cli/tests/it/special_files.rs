//! Input files: no command waits for a pipe or reads a device that is in place of a file.
#![cfg(unix)]

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkfifoat};

use crate::support::{ProcessResult, TIMEOUT, TestFolder};

/// A pipe without a writer.
fn pipe(path: &Path) {
    let _ = std::fs::remove_file(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("a pipe");
}

/// Runs a command that might wait forever.
fn run(workshop: &TestFolder, arguments: &[&str]) -> ProcessResult {
    let mut child = workshop.start(arguments);
    let since = Instant::now();
    while child.try_wait().expect("the program").is_none() {
        if since.elapsed() > TIMEOUT {
            let _ = child.kill();
            panic!("{arguments:?} waits for a pipe");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    ProcessResult::new(arguments, child.wait_with_output().expect("its output"))
}

#[test]
fn no_command_waits_for_a_pipe_in_place_of_a_file() {
    let workshop = TestFolder::with_data();
    let steps = ["--steps", "10", "--max-splats", "300", "-q"];
    let train = |data: &'static str| [&["train", data, "-o", "r"][..], &steps].concat();
    workshop.succeed(&[&["train", "data", "-o", "run"][..], &steps].concat());
    let checkpoint = "run/checkpoints/step_000010.ckpt";
    assert!(workshop.path(checkpoint).is_file());
    let is_pipe = "is a pipe (expected a regular file)";
    let read = |name: &'static str, arguments: &[&'static str]| (name, arguments.to_vec(), 2, is_pipe);
    let cases: Vec<(&str, Vec<&str>, i32, &str)> = vec![
        ("data/sparse/0/cameras.bin", train("data"), 2, is_pipe),
        ("data/sparse/0/images.bin", train("data"), 2, is_pipe),
        ("data/sparse/0/points3D.bin", train("data"), 2, is_pipe),
        ("data/sparse/0/frames.bin", vec!["info", "data"], 0, is_pipe),
        // One of eight is more than a tenth, so the run fails.
        ("data/images/view_003.png", train("data"), 2, is_pipe),
        ("data/masks/view_003.png", train("data"), 2, is_pipe),
        ("json/transforms.json", train("json"), 2, is_pipe),
        ("blender/transforms_train.json", train("blender"), 2, is_pipe),
        ("pipe.toml", [train("data"), vec!["--config", "pipe.toml"]].concat(), 2, is_pipe),
        ("pipe.ply", [train("data"), vec!["--init", "pipe.ply"]].concat(), 2, is_pipe),
        read("pipe.ply", &["convert", "pipe.ply", "out.ply"]),
        read("pipe.ply", &["render", "pipe.ply", "--orbit", "1", "--size", "16x16", "-o", "out"]),
        read("pipe.onnx", &["mask", "data/images", "-o", "out", "--model", "pipe.onnx"]),
        read("pipe.jpg", &["pano", "split", "pipe.jpg", "-o", "out"]),
        read("pipe.jpg", &["pano", "preview", "pipe.jpg", "-o", "out.png"]),
        read("pipe.png", &["pano", "masks", "pipe.png", "-o", "out"]),
        read("pipe.mp4", &["pano", "calibrate", "pipe.mp4", "-o", "out.json"]),
        read("pipe.json", &["render", "run", "--path", "pipe.json", "-o", "out"]),
        read("pipe.json", &["profile", "show", "pipe.json"]),
        ("run/config.toml", vec!["eval", "run"], 2, ""),
        ("run/splats.ply", vec!["render", "run", "--orbit", "1", "-o", "out"], 2, ""),
        ("run/metrics.jsonl", vec!["info", "run"], 0, ""),
        // A run folder with a pipe in it is not written to.
        ("run/fingerprint.txt", vec!["eval", "run"], 2, "is a pipe"),
        (checkpoint, vec!["train", "--resume", "run"], 2, "is a pipe"),
    ];
    for (name, arguments, code, expected) in cases {
        let path = workshop.path(name);
        let original = std::fs::read(&path).ok();
        pipe(&path);
        let finished = run(&workshop, &arguments);
        assert_eq!(finished.code, code, "{name}: {finished:?}");
        assert!(finished.stderr.contains(expected), "{name}: {finished:?}");
        assert!(!finished.stderr.contains("internal error"), "{name}: {finished:?}");
        let _ = std::fs::remove_file(&path);
        if let Some(original) = original {
            std::fs::write(&path, original).expect("write");
        }
    }
}
