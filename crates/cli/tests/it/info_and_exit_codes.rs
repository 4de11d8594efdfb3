//! `info` on files created by Gausset and by other programs, and exit codes if some files are missing.

use std::path::Path;

use serde_json::Value;

use crate::support::{TestFolder, checkpoints, write_walk};

fn info(workshop: &TestFolder, path: &str) -> Value {
    workshop.succeed(&["info", path, "--json"]).json()
}

#[test]
fn info_knows_what_the_program_makes_and_reads_and_the_command_for_it() {
    let workshop = TestFolder::with_data();
    // As `demo` leaves its folders, with a smaller scene.
    std::fs::create_dir(workshop.path("my demo")).expect("a folder");
    std::fs::rename(workshop.path("data"), workshop.path("my demo/data")).expect("the scene");
    std::fs::write(workshop.path("my demo/data/demo.json"), "{}").expect("the note");
    workshop.succeed(&["train", "my demo/data", "-o", "my demo/run", "--steps", "12", "--profile", "-q"]);
    std::fs::write(workshop.path("my demo/run/confidence.json"), "{}").expect("a file");
    workshop.succeed(&["render", "my demo/run", "-q"]);
    let step = checkpoints(&workshop.path("my demo/run"))[0];
    std::fs::create_dir(workshop.path("walk")).expect("a folder");
    write_walk(&workshop.path("walk"), 2);
    let copy = |from: &str, to: &str| {
        std::fs::copy(workshop.path(from), workshop.path(to)).expect("a copy");
    };
    std::fs::create_dir(workshop.path("photos")).expect("a folder");
    copy("my demo/data/images/view_000.png", "photos/a.png");
    copy("my demo/data/images/view_001.png", "photos/b.png");
    std::fs::create_dir_all(workshop.path("splats/city")).expect("a folder");
    copy("my demo/run/splats.ply", "splats/a.ply");
    copy("my demo/run/splats.ply", "splats/city/lod-meta.json");
    copy("photos/a.png", "splats/city/means_l.webp");
    std::fs::write(workshop.path("lonely.mp4"), "not really").expect("a file");
    let npy =
        b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 2), }        \n";
    let volume = [&npy[..], &[0; 32]].concat();
    std::fs::write(workshop.path("density.npy"), volume).expect("a file");
    let cases = [
        ("my demo", "demo", "gausset info 'my demo/run'"),
        ("my demo/run/metrics.jsonl", "log", "gausset info 'my demo/run'"),
        (
            &format!("my demo/run/checkpoints/step_{step:06}.ckpt"),
            "checkpoint",
            "gausset train --resume 'my demo/run'",
        ),
        ("my demo/run/checkpoints", "checkpoints", "gausset train --resume 'my demo/run'"),
        ("my demo/run/config.toml", "config", "gausset train --config 'my demo/run/config.toml' -o again/"),
        (
            "my demo/run/cameras.json",
            "cameras",
            "gausset render 'my demo/run' --path 'my demo/run/cameras.json' -o frames/",
        ),
        ("my demo/run/eval/metrics.json", "evaluation", "gausset eval 'my demo/run'"),
        ("my demo/run/metrics.json", "report-metrics", "gausset report 'my demo/run'"),
        ("my demo/run/profile.json", "profile", "gausset profile show 'my demo/run'"),
        ("my demo/run/profile.csv", "profile", "gausset profile show 'my demo/run'"),
        ("my demo/run/trace.json", "profile", "gausset profile show 'my demo/run'"),
        ("my demo/run/fingerprint.txt", "fingerprint", "gausset info 'my demo/run'"),
        ("my demo/run/confidence.json", "confidence", "gausset report 'my demo/run'"),
        ("my demo/run/eval", "renders", "gausset view 'my demo/run'"),
        ("my demo/run/eval/contact_sheet.png", "render", "gausset view 'my demo/run'"),
        ("my demo/run/render", "renders", "gausset view 'my demo/run'"),
        ("splats", "splat-files", "gausset info splats/a.ply"),
        ("walk", "panoramas", "gausset pano run walk -o scene/"),
        ("walk/p0.jpg", "picture", "gausset pano preview walk/p0.jpg --page"),
        ("photos", "photographs", "gausset run photos -o scene/"),
        ("photos/a.png", "picture", "gausset run photos -o scene/"),
        ("lonely.mp4", "video", "gausset run lonely.mp4 -o scene/"),
        ("density.npy", "volume", "gausset field fit density.npy -o field.safetensors"),
    ];
    for (path, kind, command) in cases {
        let found = info(&workshop, path);
        assert_eq!(
            (found["kind"].as_str(), found["commands"][0].as_str()),
            (Some(kind), Some(command)),
            "{path}"
        );
        let text = workshop.succeed(&["info", path]).stdout;
        assert!(text.starts_with("what") && text.contains(command), "{path}: {text}");
    }
    assert_eq!(info(&workshop, "my demo/run/report.html")["kind"], "report");
    std::fs::create_dir(workshop.path("phone")).expect("a folder");
    std::fs::write(workshop.path("phone/a.heic"), b"\0\0\0\x18ftypheic").expect("a file");
    let heic = info(&workshop, "phone")["what"].to_string();
    assert!(heic.contains("1 HEIC photograph: needs libheif (heif-convert) or an ffmpeg"), "{heic}");
    // A command that needs something else names what it was given, and its command.
    for (arguments, command) in [
        (&["view", "density.npy"][..], "gausset field fit density.npy"),
        (&["train", "photos", "-o", "never"], "photos -o scene/"),
        (&["train", "photos"], "photos -o scene/"),
    ] {
        let refused = workshop.run(arguments);
        assert!(refused.code == 2 && refused.stderr.contains(command), "{refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    }
    assert!(!workshop.path("never").exists());
    // Splats, datasets and runs are recognised as before.
    assert_eq!(info(&workshop, "my demo/run/splats.ply")["kind"], "splats");
    assert_eq!(info(&workshop, "my demo/data")["kind"], "dataset");
    assert_eq!(info(&workshop, "my demo/run")["kind"], "run");
    let refused = workshop.run(&["train", "my demo/run", "-o", "again"]);
    let expected = "my demo/run: is a run folder (expected a dataset); try: gausset train --resume '";
    assert!(refused.code == 2 && refused.stderr.contains(expected), "{refused:?}");
    assert!(refused.stderr.contains(", gausset view '"), "{refused:?}");
}

#[test]
fn a_run_tells_programs_what_it_tells_people_and_a_splat_how_it_is_spread() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&["train", "data", "-o", "run", "--steps", "12", "--seed", "3", "-q"]);
    let run = info(&workshop, "run");
    let text = workshop.succeed(&["info", "run"]).stdout;
    for (row, key) in [
        ("steps", "total_steps"),
        ("splats", "splats"),
        ("PSNR", "psnr"),
        ("time", "seconds"),
        ("CPU time", "cpu_seconds"),
        ("data", "data"),
        ("images", "train_images"),
        ("images", "test_images"),
        ("start", "start"),
        ("strategy", "strategy"),
        ("seed", "seed"),
        ("device", "device"),
        ("version", "version"),
    ] {
        assert!(text.lines().any(|line| line.starts_with(row)) && !run[key].is_null(), "{row}: {text}{run}");
    }
    assert_eq!((run["total_steps"].as_u64(), run["seed"].as_u64()), (Some(12), Some(3)));

    let spread = &info(&workshop, "run/splats.ply")["spread"];
    let bytes = workshop.read("run/splats.ply").len() as f64;
    let about = spread["bytes"]["ply"].as_f64().expect("bytes");
    assert!((about / bytes - 1.0).abs() < 0.01 && spread["bytes"]["spz"].as_f64() < Some(bytes), "{spread}");
    assert!(spread["far_share"].is_number() && spread["transparent_share"].is_number(), "{spread}");
    let rendered = workshop.succeed(&["render", "run", "-o", "views", "--json"]).json();
    assert_eq!((rendered["kind"].as_str(), rendered["folder"].as_str()), (Some("render"), Some("views")));
    assert!(rendered["pictures"].as_u64() > Some(0));

    // The log has the values that a chart needs.
    let log = String::from_utf8(workshop.read("run/metrics.jsonl")).expect("text");
    let first: Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    for key in ["loss", "splats", "visible", "added", "pruned", "relocated", "seconds"] {
        assert!(first[key].is_number(), "{key}: {first}");
    }
    #[cfg(target_os = "linux")]
    assert!(first["memory"].as_u64() > Some(1 << 20), "{first}");
}

#[test]
fn missing_pictures_are_counted_and_whoever_allows_them_gets_exit_code_0() {
    let workshop = TestFolder::with_data();
    std::fs::remove_file(workshop.path("data/images/view_005.png")).expect("remove");
    let train = ["train", "data", "-o", "run", "--steps", "10", "--json"];
    let strict = workshop.run(&train);
    assert_eq!((strict.code, strict.json()["left_out"].as_u64()), (1, Some(1)), "{strict:?}");
    assert!(strict.stderr.contains("view_005.png") && strict.json()["steps"] == 10, "{strict:?}");
    let lenient = workshop.succeed(&[&train[..], &["--force", "--allow-missing"]].concat());
    assert_eq!(lenient.json()["left_out"], 1);
    let config = String::from_utf8(workshop.read("run/config.toml")).expect("text");
    assert!(config.contains("allow-missing = true"), "{config}");
    // The run records the option in its configuration.
    assert_eq!(workshop.succeed(&["eval", "run", "--json"]).json()["left_out"], 1);
    std::fs::copy(workshop.path("run/splats.ply"), workshop.path("sent.ply")).expect("a copy");
    let eval = ["eval", "sent.ply", "--data", "data"];
    assert_eq!(workshop.run(&eval).code, 1);
    workshop.succeed(&[&eval[..], &["--allow-missing"]].concat());
    assert_eq!(workshop.run(&["info", "data", "--json"]).code, 1);
    assert_eq!(workshop.succeed(&["info", "data", "--allow-missing", "--json"]).json()["skipped"], 1);
}

#[test]
fn a_training_says_what_to_do_next_and_a_budget_is_told_in_seconds() {
    let workshop = TestFolder::with_data();
    let run = "it's mine";
    let done = workshop.succeed(&["train", "data", "-o", run, "--time-budget", "4s"]);
    let last = done.stdout.lines().last().expect("a line");
    assert_eq!(
        last.split_once("  ").map(|(_, command)| command.trim()),
        Some(r"gausset view 'it'\''s mine'")
    );
    let told: Vec<&str> = done.stderr.lines().filter(|line| line.contains(": step ")).collect();
    assert!(!told.is_empty(), "{done:?}");
    for line in &told {
        assert!(line.contains(" of 4") && line.contains(" of about "), "{line}");
    }
    assert!(done.stderr.contains("as the time budget allows"), "{}", done.stderr);
    assert!(Path::new(&workshop.path(run)).join("cameras.json").is_file());
}
