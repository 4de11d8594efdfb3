//! Limits: memory, file sizes, images outside the dataset, images that make their decoder panic.

use std::process::Stdio;

use gausset_compute::machine;

use crate::support::{ProcessResult, TestFolder};

/// Peak resident size of a program in bytes, and its result.
#[cfg(target_os = "linux")]
pub(crate) fn peak_of(workshop: &TestFolder, arguments: &[&str]) -> (u64, ProcessResult) {
    let mut child = workshop.start(arguments);
    let mut peak = 0;
    // The peak only grows, so the last reading before the end is exact or nearly so.
    while child.try_wait().expect("wait").is_none() {
        peak = peak.max(machine::resident_memory(Some(child.id())).map_or(0, |resident| resident.peak));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    (peak, ProcessResult::new(arguments, child.wait_with_output().expect("wait")))
}

/// A run with the maximum number of splats that the program's own message allows reaches that number and stays within
/// its budget.
#[cfg(target_os = "linux")]
#[test]
fn memory_stays_within_its_budget_and_a_tenth() {
    let workshop = TestFolder::with_data();
    for mebibytes in [64u64, 320] {
        let budget = format!("{mebibytes}MiB");
        let name = format!("run{mebibytes}");
        let with = |splats: &str| -> Vec<String> {
            let words = format!(
                "train data -o {name} --max-memory {budget} --max-splats {splats} --steps 90 --growth 2 \
                 --density-every 4 --density-from 0 --density-until 0.9 --threads 2 --json -q"
            );
            words.split_whitespace().map(str::to_owned).collect()
        };
        let run = |arguments: Vec<String>| {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            peak_of(&workshop, &arguments)
        };
        let (_, refused) = run(with("100000000"));
        assert_eq!(refused.code, 2, "{refused:?}");
        let possible = refused.stderr.split("--max-splats to ").nth(1).expect("a number that fits");
        let possible = possible.split(' ').next().expect("a word").to_owned();
        let (peak, finished) = run(with(&possible));
        assert_eq!(finished.code, 0, "{finished:?}");
        assert_eq!(finished.json()["splats"].to_string(), possible, "the budget is used");
        assert!(peak <= (mebibytes << 20) * 11 / 10, "{budget}: {peak} bytes with {possible} splats");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_size_limit_of_the_shell_is_an_error_with_one_line() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&["train", "data", "-o", "before", "--steps", "5", "-q"]);
    // 4 blocks of 1024 bytes: config.toml fits, the first checkpoint does not.
    let script =
        format!("ulimit -f 4; exec {} train data -o run --steps 5 -q", env!("CARGO_BIN_EXE_gausset"));
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &script]).current_dir(workshop.path(".")).stdin(Stdio::null());
    let finished = ProcessResult::new(&["bash"], shell.output().expect("bash starts"));
    assert_eq!(finished.code, 2, "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    assert!(finished.stderr.starts_with("gausset: "), "{finished:?}");
    assert!(finished.stderr.contains("run/"), "{finished:?}");
    assert!(!workshop.path("run/splats.ply").exists());
    // The result of another run is unchanged if the new one cannot write.
    let splats = workshop.read("before/splats.ply");
    let script = format!(
        "ulimit -f 4; exec {} convert before/splats.ply before/copy.ply",
        env!("CARGO_BIN_EXE_gausset")
    );
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &script]).current_dir(workshop.path("."));
    let finished = ProcessResult::new(&["bash"], shell.output().expect("bash starts"));
    assert_eq!((finished.code, finished.stderr.lines().count()), (2, 1), "{finished:?}");
    assert!(!workshop.path("before/copy.ply").exists());
    assert!(workshop.read("before/splats.ply") == splats);
}

#[test]
fn pictures_outside_the_picture_folder_are_taken_when_they_are_allowed_and_that_is_recorded() {
    let workshop = TestFolder::with_data();
    // An image name that points outside the image folder, as long as the one that it replaces.
    let [inside, outside] = ["view_003.png", "../out03.png"];
    let folder = workshop.path("data/images");
    std::fs::rename(folder.join(inside), folder.join(outside)).expect("rename");
    let model = workshop.path("data/sparse/0/images.bin");
    let mut bytes = std::fs::read(&model).expect("a model");
    let at = bytes.windows(inside.len()).position(|name| name == inside.as_bytes()).expect("its name");
    bytes[at..at + outside.len()].copy_from_slice(outside.as_bytes());
    std::fs::write(&model, bytes).expect("a model");
    let train = ["train", "data", "-o", "run", "--steps", "5"];
    let refused = workshop.run(&train);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains(outside) && refused.stderr.contains("--allow-outside"), "{refused:?}");
    let allowed = [&train[..], &["--force", "--allow-outside"]].concat();
    workshop.succeed(&allowed);
    assert!(
        String::from_utf8(workshop.read("run/config.toml")).expect("text").contains("allow-outside = true")
    );
    workshop.succeed(&["eval", "run", "--json"]);
    workshop.succeed(&["render", "run", "--split", "all", "-o", "views"]);
    assert_eq!(workshop.run(&["info", "data", "--json"]).json()["skipped"], 1);
    assert_eq!(workshop.succeed(&["info", "data", "--allow-outside", "--json"]).json()["skipped"], 0);
}

#[test]
fn a_picture_that_breaks_its_decoder_is_an_error_of_that_picture() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/image_decode");
    let bytes = std::fs::read(format!("{corpus}/chroma_finer_than_luma.jpg")).expect("the corpus");
    let workshop = TestFolder::with_data();
    std::fs::create_dir(workshop.path("data/masks")).expect("folder");
    std::fs::write(workshop.path("data/masks/view_003.png.png"), bytes).expect("write");
    let finished = workshop.run(&["train", "data", "-o", "run", "--steps", "20", "-q"]);
    // One of seven is more than a tenth, so the run fails, but without a panic (exit code 101).
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("the decoder broke down; convert it"), "{finished:?}");
    assert!(!finished.stderr.contains("internal error"), "{finished:?}");
}
