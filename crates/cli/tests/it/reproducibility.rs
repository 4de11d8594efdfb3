//! Same inputs, same bytes: `splats.ply` does not depend on threads, interruptions or viewers.

use crate::support::TestFolder;

/// Long enough for several density events, opacity below and above all thresholds, and SH degrees up to 3.
const STEPS: &str = "150";

/// The result of an uninterrupted training with additional arguments.
fn splats(workshop: &TestFolder, name: &str, more: &[&str]) -> Vec<u8> {
    let arguments = [&["train", "data", "-o", name, "--steps", STEPS, "-q"], more].concat();
    workshop.succeed(&arguments);
    workshop.read(&format!("{name}/splats.ply"))
}

#[test]
fn the_result_does_not_depend_on_threads_checkpoints_or_evaluations() {
    let workshop = TestFolder::with_data();
    let expected = splats(&workshop, "one", &["--threads", "1", "--checkpoint-every", "0"]);
    for (name, more) in [
        ("again", &["--threads", "1", "--checkpoint-every", "0"][..]),
        ("two", &["--threads", "2"]),
        ("seven", &["--threads", "7"]),
        ("checkpoints", &["--checkpoint-every", "1"]),
        ("watched", &["--eval-every", "40", "--export-every", "70", "--profile"]),
    ] {
        assert!(splats(&workshop, name, more) == expected, "{name}");
    }
}

#[test]
fn the_result_does_not_depend_on_the_vector_level() {
    let workshop = TestFolder::with_data();
    let expected = splats(&workshop, "auto", &["--strategy", "classic"]);
    for level in ["avx512", "avx2", "fallback"] {
        let arguments =
            ["train", "data", "-o", level, "--steps", STEPS, "-q", "--strategy", "classic", "--simd", level];
        let finished = workshop.run(&arguments);
        if finished.code == 2 && finished.stderr.contains("this CPU does not support") {
            let test = "the_result_does_not_depend_on_the_vector_level";
            gausset_testkit::skip_for_machine(test, &finished.stderr);
            continue;
        }
        assert_eq!(finished.code, 0, "{finished:?}");
        assert!(workshop.read(&format!("{level}/splats.ply")) == expected, "{level}");
    }
}

#[test]
fn another_seed_gives_another_result() {
    let workshop = TestFolder::with_data();
    assert!(splats(&workshop, "a", &["--seed", "1"]) != splats(&workshop, "b", &["--seed", "2"]));
}

#[test]
fn corrections_of_exposure_and_poses_are_part_of_what_is_resumed() {
    let workshop = TestFolder::with_data();
    let corrected = ["--exposure", "--refine-poses", "--random-background", "--checkpoint-every", "50"];
    let expected = splats(&workshop, "whole", &corrected);
    // Killed when the second checkpoint (step 100) has its final name.
    let arguments = [&["train", "data", "-o", "cut", "--steps", STEPS, "-q"], &corrected[..]].concat();
    let mut command = workshop.command(&arguments);
    let status = command.env("GAUSSET_CRASH_AT", "checkpoint:after_rename:2").status().expect("starts");
    assert!(!status.success());
    workshop.succeed(&["train", "--resume", "cut", "-q"]);
    assert!(workshop.read("cut/splats.ply") == expected);
}
