//! Splats of a run are rotated upright; cameras of the dataset are rotated with them, also for a copied file.

use crate::support::TestFolder;

/// A run whose splats are rotated by a large angle.
fn trained() -> TestFolder {
    let workshop = TestFolder::with_data();
    workshop.succeed(&["train", "data", "-o", "run", "--steps", "80", "--up", "x", "-q"]);
    std::fs::copy(workshop.path("run/splats.ply"), workshop.path("sent.ply")).expect("a copy");
    workshop
}

fn psnr(workshop: &TestFolder, arguments: &[&str]) -> f64 {
    let all = [&["eval"], arguments, &["--json"]].concat();
    workshop.succeed(&all).json()["psnr"].as_f64().expect("a PSNR")
}

#[test]
fn a_file_of_a_run_is_seen_from_the_cameras_of_its_dataset() {
    let workshop = trained();
    let header = String::from_utf8_lossy(&workshop.read("sent.ply")[..1000]).into_owned();
    assert!(header.contains("\ncomment gausset saved_from_dataset 1 "), "{header}");
    let truth = psnr(&workshop, &["run"]);
    assert!(truth > 10.0, "{truth}");
    // The file knows neither its background nor its gains, and this run has neither.
    let inputs = [
        ("sent.ply", 1e-9),
        ("run/splats.ply", 1e-9),
        ("small.compressed.ply", 1.0),
        ("small.spz", 1.0),
        ("small.sog", 1.0),
        ("small.glb", 0.01),
    ];
    for (input, within) in inputs {
        if input.starts_with("small") {
            workshop.succeed(&["convert", "sent.ply", input]);
        }
        let there = psnr(&workshop, &[input, "--data", "data"]);
        assert!((there - truth).abs() <= within, "{input}: {there} where the run has {truth}");
    }
    // A format that does not store the rotation: a warning is printed.
    workshop.succeed(&["convert", "sent.ply", "sent.splat"]);
    let told = workshop.succeed(&["eval", "sent.splat", "--data", "data"]).stderr;
    assert!(told.contains("sent.splat: has no transform relative to the dataset"), "{told}");
    assert!(workshop.path("sent-eval/contact_sheet.png").is_file());
    // Again with the run itself, which needs no --data.
    assert!((psnr(&workshop, &["run/splats.ply"]) - truth).abs() < 1e-9);

    workshop.succeed(&["render", "run", "-o", "of_run"]);
    workshop.succeed(&["render", "sent.ply", "--data", "data", "-o", "of_file"]);
    workshop.succeed(&["render", "sent.ply", "--path", "run/cameras.json", "-o", "of_list"]);
    let mut pictures = 0;
    for entry in std::fs::read_dir(workshop.path("of_run")).expect("pictures") {
        let name = entry.expect("a picture").file_name().into_string().expect("text");
        if name.ends_with(".png") {
            let truth = workshop.read(&format!("of_run/{name}"));
            assert!(workshop.read(&format!("of_file/{name}")) == truth, "{name}");
            assert!(workshop.read(&format!("of_list/{name}")) == truth, "{name}");
            pictures += 1;
        }
    }
    assert!(pictures > 0);
}

#[test]
fn cameras_follow_splats_that_were_moved_and_scaled() {
    let workshop = trained();
    workshop.succeed(&[
        "convert",
        "sent.ply",
        "moved.ply",
        "--scale",
        "2",
        "--rotate",
        "0,0,30",
        "--translate",
        "1,2,3",
    ]);
    let (truth, moved) =
        (psnr(&workshop, &["sent.ply", "--data", "data"]), psnr(&workshop, &["moved.ply", "--data", "data"]));
    assert!((moved - truth).abs() < 0.01, "{moved} where the file had {truth}");
    let refused = workshop.run(&["eval", "sent.ply"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("sent.ply: dataset: not given (expected --data DIR"), "{refused:?}");
}
