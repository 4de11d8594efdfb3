//! Options have their documented effect, or a message says that they have none.

use crate::support::{TestFolder, checkpoints, contains_result};

#[test]
fn a_run_that_loses_all_its_splats_fails_and_keeps_what_was_good() {
    let workshop = TestFolder::with_data();
    let train =
        [
            &[
                "train",
                "data",
                "-o",
                "run",
                "--steps",
                "100",
                "--strategy",
                "classic",
                "--prune-opacity",
                "1",
            ][..],
            &["--density-from", "0.4", "--density-until", "0.8", "--density-every", "10"],
            &["--checkpoint-every", "15", "--json"],
        ]
        .concat();
    let finished = workshop.run(&train);
    assert_eq!((finished.code, finished.stdout.as_str()), (2, ""), "{finished:?}");
    let last = finished.stderr.lines().last().unwrap_or_default();
    let object: serde_json::Value = serde_json::from_str(last).expect("one JSON object");
    assert_eq!(object["error"]["code"], "splats", "{object}");
    let message = object["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("step 50: splats: none is left that can be drawn"), "{message}");
    assert!(message.contains("lower --prune-opacity") && message.ends_with("that of step 45"), "{message}");
    assert!(!workshop.path("run/splats.ply").exists());
    assert!(checkpoints(&workshop.path("run")).contains(&45));
}

#[test]
fn lists_that_a_limit_cuts_are_told_after_training_evaluation_and_rendering() {
    let workshop = TestFolder::with_data();
    let train = "train data -o run --steps 5 --max-splats-per-tile 2 --free-space off --json";
    let train: Vec<&str> = train.split(' ').collect();
    let trained = workshop.succeed(&train);
    let count = |line: &str| line.contains("--max-splats-per-tile 2: the lists of ");
    assert_eq!(trained.stderr.lines().filter(|line| count(line)).count(), 2, "{trained:?}");
    assert!(trained.stderr.contains("tiles were cut, in 5 of 5 steps"), "{trained:?}");
    assert!(trained.json()["cut_tiles"].as_u64().is_some_and(|tiles| tiles >= 5), "{trained:?}");
    assert!(contains_result(&trained.json(), &workshop.succeed(&["info", "run", "--json"]).json()));

    let evaluated = workshop.succeed(&["eval", "run", "--split", "train", "--json"]);
    let count = |key: &str| evaluated.json()[key].as_u64().unwrap_or_default();
    let (tiles, views) = (count("cut_tiles"), count("cut_views"));
    assert!((1..=7).contains(&views) && (views..=4 * views).contains(&tiles), "{evaluated:?}");
    let said = format!("the lists of {tiles} tiles were cut, in {views} of 7 pictures");
    assert!(evaluated.stderr.contains(&said), "{evaluated:?}");
    let rendered = workshop.succeed(&["render", "run", "-o", "views", "--split", "all"]);
    assert!(rendered.stderr.contains("tiles were cut, in ") && rendered.stderr.contains(" of 8 pictures"));
}

#[test]
fn what_a_run_has_recorded_can_be_changed_with_one_option() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&["train", "data", "-o", "run", "--steps", "20", "--exposure", "-q"]);
    // Growth and rates that were derived from another choice are not kept.
    for (name, choice) in [
        ("classic", &["--strategy", "classic"][..]),
        ("plain", &["--exposure=off"]),
        ("flat", &["--sh-degree", "0", "--coarse-factor", "1"]),
        ("budget", &["--time-budget", "2s"]),
        ("all", &["--test-every", "0"]),
    ] {
        let again = [&["train", "--config", "run/config.toml", "-o", name, "-q"], choice].concat();
        workshop.succeed(&again);
    }
    let recorded = String::from_utf8(workshop.read("classic/config.toml")).expect("text");
    assert!(recorded.contains("grow-gradient") && !recorded.contains("growth"), "{recorded}");
    // The configuration of the classic run is also a config file.
    workshop.succeed(&["train", "--config", "classic/config.toml", "-o", "twice", "-q"]);
    assert!(workshop.read("twice/splats.ply") == workshop.read("classic/splats.ply"));
}
