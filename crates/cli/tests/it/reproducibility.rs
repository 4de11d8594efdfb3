//! Same inputs, same bytes: `splats.ply` does not depend on threads, checkpoints or vector level. Seeds, kills and
//! corrections: `crates/train/tests/it/resume.rs`.

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
    let busy = "--threads 7 --checkpoint-every 1 --eval-every 40 --export-every 70 --profile";
    assert!(splats(&workshop, "busy", &busy.split(' ').collect::<Vec<_>>()) == expected);
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
