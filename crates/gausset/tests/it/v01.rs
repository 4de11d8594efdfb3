//! The program reads what version 0.1 wrote (`testdata/v0.1`).

use std::path::{Path, PathBuf};

use crate::support::Workshop;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0.1").join(name)
}

/// A copy of the run of 0.1 in `run`, with its data in `data`.
fn workshop() -> Workshop {
    let workshop = Workshop::empty();
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

/// What follows the header of a PLY.
fn rows(ply: &[u8]) -> &[u8] {
    let end = b"end_header\n";
    let at = ply.windows(end.len()).position(|part| part == end).expect("a header");
    &ply[at..]
}

#[test]
fn a_run_of_01_is_told_rendered_evaluated_and_goes_on() {
    let workshop = workshop();
    let told = workshop.succeed(&["info", "run", "--json"]).json();
    assert_eq!((&told["kind"], &told["steps"], &told["splats"]), (&"run".into(), &6.into(), &80.into()));
    assert_eq!(told["psnr"], 8.650_030_884_133_29);
    let splats = workshop.succeed(&["info", "run/splats.ply", "--json"]).json();
    assert_eq!((&splats["count"], &splats["sh_degree"]), (&80.into(), &3.into()));

    workshop.succeed(&["render", "run", "--data", "data", "-o", "views"]);
    let picture = workshop.read("views/view_000.png");
    assert!(picture.starts_with(b"\x89PNG"));
    let eval = workshop.succeed(&["eval", "run", "--data", "data", "-o", "eval", "--json"]).json();
    // The splats are turned when they are saved: equal but for its rounding.
    let psnr = eval["psnr"].as_f64().expect("a number");
    assert!((psnr - 8.650_030_884_133_29).abs() < 1e-3, "{eval}");

    for file in ["splats.ply", "checkpoints/step_000006.ckpt"] {
        std::fs::remove_file(workshop.path("run").join(file)).expect("remove");
    }
    let resumed = workshop.succeed(&["train", "data", "--resume", "run", "--json"]);
    assert!(resumed.stderr.contains("3 of 6 are done"), "{resumed:?}");
    // The header has a comment more: how the splats stand to their dataset.
    let old = std::fs::read(fixture("run/splats.ply")).expect("a file");
    assert!(rows(&workshop.read("run/splats.ply")) == rows(&old));
}
