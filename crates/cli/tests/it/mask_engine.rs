//! `gausset mask`: its inference engine, search path of its library, memory limits, and what it tells. The masks
//! themselves: `crates/gausset/tests`.

use gausset_testkit::onnx::TestNetwork;
use gausset_testkit::skip_for_tool;

use crate::support::TestFolder;

fn workshop() -> TestFolder {
    let workshop = TestFolder::empty();
    std::fs::create_dir(workshop.path("walk")).expect("a folder");
    let rgb: Vec<u8> =
        (0..256 * 128).flat_map(|k| if k % 256 < 40 { [220, 20, 30] } else { [90, 120, 140] }).collect();
    let kind = gausset_io::image::encode::PngPixels::Rgb8(&rgb);
    let picture = gausset_io::image::encode::png(256, 128, kind, &[]).expect("a picture");
    std::fs::write(workshop.path("walk/a.png"), picture).expect("written");
    std::fs::write(workshop.path("red.onnx"), TestNetwork::red_segmenter(64).bytes()).expect("written");
    workshop
}

fn refused(workshop: &TestFolder, more: &[&str], variables: &[(&str, &str)]) -> String {
    let mut arguments = vec!["mask", "walk", "-o", "out", "--model", "red.onnx"];
    arguments.extend(more);
    let mut command = workshop.command(&arguments);
    command.env_remove("ORT_DYLIB_PATH").envs(variables.iter().copied());
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let line = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    assert!(!line.contains('\n'), "{line}");
    assert!(!workshop.path("out").exists(), "{line}");
    line
}

#[test]
fn a_library_is_taken_where_it_was_named_and_nowhere_else() {
    let workshop = workshop();
    let engine = ["--mask-engine", "onnxruntime"];
    // A library in the working folder is ignored.
    std::fs::write(workshop.path("libonnxruntime.so"), "not a library").expect("written");
    let line = refused(&workshop, &engine, &[("ORT_DYLIB_PATH", "libonnxruntime.so")]);
    assert!(
        line.contains("libonnxruntime.so: ONNX Runtime: expected a whole path in ORT_DYLIB_PATH"),
        "{line}"
    );
    let line =
        refused(&workshop, &engine, &[("PATH", "/nonexistent"), ("GAUSSET_PYTHON", "/nonexistent/python")]);
    assert!(line.contains("/nonexistent/python"), "{line}");
    let line = refused(&workshop, &[&engine[..], &["--onnx-library", "absent.so"]].concat(), &[]);
    assert!(line.contains("absent.so: ONNX Runtime: no such file (named by --onnx-library)"), "{line}");
    let line = refused(&workshop, &["--mask-engine", "rten", "--onnx-library", "libonnxruntime.so"], &[]);
    assert!(line.contains("--onnx-library: has no effect with --mask-engine rten"), "{line}");
}

#[test]
fn both_engines_make_the_same_masks_and_are_written_down() {
    let Some(python) = std::env::var_os("GAUSSET_PYTHON") else {
        return skip_for_tool("masks by ONNX Runtime", "no $GAUSSET_PYTHON with onnxruntime");
    };
    let workshop = workshop();
    let mask = |engine: &str, folder: &str, more: &[&str]| {
        let arguments =
            ["mask", "walk", "-o", folder, "--model", "red.onnx", "--mask-engine", engine, "--json"];
        workshop
            .command(&[&arguments[..], more].concat())
            .env_remove("ORT_DYLIB_PATH")
            .env("GAUSSET_PYTHON", &python)
            .output()
            .expect("it runs")
    };
    let ours = mask("rten", "ours", &[]);
    let theirs = mask("onnxruntime", "theirs", &[]);
    if String::from_utf8_lossy(&theirs.stderr).contains("onnxruntime: not installed") {
        return skip_for_tool("masks by ONNX Runtime", "no onnxruntime in $GAUSSET_PYTHON");
    }
    assert_eq!((ours.status.code(), theirs.status.code()), (Some(0), Some(0)), "{theirs:?}");
    let told = String::from_utf8_lossy(&theirs.stdout).into_owned();
    assert!(
        told.contains("\"engine\": \"ONNX Runtime 1.") || told.contains("\"engine\":\"ONNX Runtime 1."),
        "{told}"
    );
    assert!(
        String::from_utf8_lossy(&workshop.read("theirs/masks.jsonl"))
            .contains("\"engine\":\"ONNX Runtime 1.")
    );
    assert_eq!(workshop.read("ours/a.png.png"), workshop.read("theirs/a.png.png"));
    // The same engine resumes; another engine counts as a changed option.
    let resumed = |output: &std::process::Output| {
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
        told["resumed"].as_u64()
    };
    assert_eq!(resumed(&mask("onnxruntime", "theirs", &[])), Some(1));
    assert_eq!(mask("rten", "theirs", &[]).status.code(), Some(2));
    assert_eq!(resumed(&mask("rten", "theirs", &["--force"])), Some(0));
}

#[test]
fn people_are_told_what_was_filtered_and_where_the_time_went() {
    let workshop = workshop();
    let mask = ["mask", "walk", "-o", "out", "--model", "red.onnx", "--temporal", "1"];
    let table = workshop.succeed(&mask).stdout;
    for row in ["temporal filter: ", "limited by: ", "inference", "work over", "encode", "beside: sync"] {
        assert!(table.contains(row), "{row}: {table}");
    }
}

#[test]
fn memory_decides_how_many_frames_are_under_way_and_too_little_is_refused() {
    let workshop = workshop();
    let workers = |limit: &str| {
        let arguments = [
            "mask",
            "walk",
            "-o",
            "out",
            "--model",
            "red.onnx",
            "--threads",
            "8",
            "--max-memory",
            limit,
            "--dry-run",
            "--json",
        ];
        let told: serde_json::Value =
            serde_json::from_slice(workshop.succeed(&arguments).stdout.as_bytes()).expect("an object");
        told["workers"].as_u64().expect("a number")
    };
    assert_eq!(workers("16GiB"), 8);
    let fewer = workers("512MiB");
    assert!((1..8).contains(&fewer), "{fewer}");
    let line = refused(&workshop, &["--max-memory", "64MiB"], &[]);
    assert!(
        line.contains("walk: memory: masking a frame takes ") && line.contains("raise --max-memory"),
        "{line}"
    );
}
