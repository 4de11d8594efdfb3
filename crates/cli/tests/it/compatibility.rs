//! The program reads what version 0.2 wrote (`testdata/v0.2`).

use std::path::{Path, PathBuf};

use crate::support::TestFolder;

/// PSNR on the held-out view of the fixture, dB.
const PSNR: f64 = 8.652630772238307;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0.2").join(name)
}

/// A copy of the run in `run`, with its data in `data`.
fn workshop() -> TestFolder {
    let workshop = TestFolder::empty();
    for name in ["run", "data"] {
        let mut todo = vec![PathBuf::from(name)];
        while let Some(folder) = todo.pop() {
            std::fs::create_dir(workshop.path("").join(&folder)).expect("a folder");
            for entry in std::fs::read_dir(fixture("").join(&folder)).expect("the fixture") {
                let entry = entry.expect("an entry");
                let inside = folder.join(entry.file_name());
                if entry.path().is_dir() {
                    todo.push(inside);
                } else {
                    std::fs::copy(entry.path(), workshop.path("").join(inside)).expect("a copy");
                }
            }
        }
    }
    workshop
}

#[test]
fn the_program_shows_renders_evaluates_and_resumes_a_run_of_02() {
    let workshop = workshop();
    let info = workshop.succeed(&["info", "run", "--json"]).json();
    assert_eq!((&info["kind"], &info["steps"], &info["splats"]), (&"run".into(), &6.into(), &80.into()));
    assert_eq!(info["psnr"], PSNR);
    let splats = workshop.succeed(&["info", "run/splats.ply", "--json"]).json();
    assert_eq!((&splats["count"], &splats["sh_degree"]), (&80.into(), &3.into()));

    workshop.succeed(&["render", "run", "--data", "data", "-o", "views"]);
    assert!(workshop.read("views/view_000.png").starts_with(b"\x89PNG"));
    let eval = workshop.succeed(&["eval", "run", "--data", "data", "-o", "eval", "--json"]).json();
    // The splats are rotated when they are saved: equal but for its rounding.
    let psnr = eval["psnr"].as_f64().expect("a number");
    assert!((psnr - PSNR).abs() < 1e-3, "{eval}");

    for file in ["splats.ply", "checkpoints/step_000006.ckpt"] {
        std::fs::remove_file(workshop.path("run").join(file)).expect("remove");
    }
    let resumed = workshop.succeed(&["train", "data", "--resume", "run", "--json"]);
    assert!(resumed.stderr.contains("3 of 6 done"), "{resumed:?}");
    assert!(workshop.read("run/splats.ply") == std::fs::read(fixture("run/splats.ply")).expect("a file"));
}
