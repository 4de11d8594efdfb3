//! The demo from beginning to end, and its output for scripts.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{ProcessResult, TestFolder, contains_result, wait_until};

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// One demo for all checks, because it is the longest test.
#[test]
fn the_small_demo_trains_evaluates_and_can_be_looked_at_afterwards() {
    let workshop = TestFolder::empty();
    let demo = workshop.succeed(&["demo", "--size", "small", "-o", "d", "--json", "--profile"]);
    let run = demo.json();
    let scores = [
        "covisible_share",
        "scarce_share",
        "haze",
        "psnr",
        "psnr_colour_corrected",
        "psnr_covisible",
        "ssim",
        "ssim_colour_corrected",
    ];
    let mut expected = [
        &[
            "confirmed_share",
            "cpu_seconds",
            "kind",
            "left_out",
            "lpips",
            "seconds",
            "splats",
            "step_seconds",
            "steps",
            "training_haze",
            "training_psnr",
        ][..],
        &scores,
    ]
    .concat();
    expected.sort_unstable();
    assert_eq!(keys(&run), expected);
    assert_eq!((&run["kind"], &run["steps"]), (&Value::from("run"), &Value::from(300)));
    // 22.3 dB on every machine, so that a change of the recipe or a kernel that costs a third of a decibel is noticed.
    assert!(run["psnr"].as_f64().is_some_and(|psnr| psnr > 22.0), "{run}");
    for file in [
        "config.toml",
        "splats.ply",
        "metrics.jsonl",
        "profile.json",
        "trace.json",
        "eval/contact_sheet.png",
        "eval/metrics.json",
    ] {
        assert!(workshop.path("d/run").join(file).is_file(), "{file}");
    }
    assert!(demo.stderr.contains("memory") && demo.stderr.contains("step 300/300: loss"), "{demo:?}");
    assert!(demo.stderr.contains(" at the speed of the first steps"), "the time is predicted: {demo:?}");
    assert!(demo.stderr.contains("critical path") && demo.stderr.contains("blend_vjp"), "{demo:?}");

    let again = workshop.run(&["demo", "--size", "small", "-o", "d"]);
    assert_eq!(again.code, 0);
    assert!(again.stdout.contains("300") && !again.stderr.contains("step 300/300"), "{again:?}");
    let other = workshop.run(&["demo", "--size", "small", "-o", "d", "--steps", "5"]);
    assert!(other.code == 2 && other.stderr.contains("was started with steps = 300"), "{other:?}");

    // The run folder reports the same.
    assert!(contains_result(&run, &workshop.succeed(&["info", "d/run", "--json"]).json()));
    let table = workshop.succeed(&["info", "d/run"]).stdout;
    assert!(table.contains("steps       300 of 300"), "{table}");

    let data = workshop.succeed(&["info", "d/data", "--json"]).json();
    for (key, value) in [("cameras", 1), ("images", 60), ("skipped", 0), ("train", 52), ("test", 8)] {
        assert_eq!(data[key], Value::from(value), "{key}: {data}");
    }
    assert_eq!(data["kind"], "dataset");
    assert_eq!(data["camera_models"], serde_json::json!(["PINHOLE"]));
    assert!(data["points"].as_u64().is_some_and(|points| points > 1000), "{data}");

    let splats = workshop.succeed(&["info", "d/run/splats.ply", "--json"]).json();
    assert_eq!((&splats["kind"], &splats["format"]), (&Value::from("splats"), &Value::from("ply")));
    // The file also contains the sky.
    let scene = splats["count"].as_u64().zip(splats["sky"].as_u64()).map(|(all, sky)| all - sky);
    assert_eq!((scene, &splats["sh_degree"]), (run["splats"].as_u64(), &Value::from(3)));
    assert_eq!(keys(&splats["bounds"]), ["max", "min"]);
    assert_eq!(splats["bounds"]["min"].as_array().map(Vec::len), Some(3));

    // The evaluation of the saved file agrees with that of the run, except for the rounding of the rotated splats.
    let eval = workshop.succeed(&["eval", "d/run", "--json"]).json();
    let psnr = |object: &Value| object["psnr"].as_f64().expect("a number");
    assert!((psnr(&eval) - psnr(&run)).abs() < 1e-3, "{eval} {run}");
    assert_eq!((&eval["split"], &eval["images"]), (&Value::from("test"), &Value::from(8)));
    assert_eq!(eval["valid_share"], 1.0);
    for object in [&eval, &run, &eval["per_image"][7]] {
        assert!(scores.iter().all(|key| object[key].is_number()), "{object}");
    }
    assert_eq!(eval["per_image"].as_array().map(Vec::len), Some(8));
    let train = workshop.succeed(&["eval", "d/run", "--split", "train", "--json"]).json();
    assert_eq!(train["images"], 52);

    // Moved data is accepted if its new path is given; other data is refused.
    std::fs::rename(workshop.path("d/data"), workshop.path("moved")).expect("rename");
    assert_eq!(workshop.run(&["eval", "d/run"]).code, 2);
    assert_eq!(workshop.succeed(&["eval", "d/run", "--data", "moved", "--json"]).json(), eval);

    let rendered = workshop.succeed(&[
        "render", "d/run", "--data", "moved", "--orbit", "3", "-o", "orbit", "--depth", "png", "--alpha",
    ]);
    assert_eq!(rendered.stdout, "3 images in orbit\n");
    for file in ["orbit_0000.png", "orbit_0002_depth.png", "orbit_0001_alpha.png"] {
        assert!(workshop.read(&format!("orbit/{file}")).starts_with(b"\x89PNG"), "{file}");
    }
    let depth = workshop.read("orbit/orbit_0000_depth.png");
    assert!(depth.windows(11).any(|bytes| bytes == b"depth-scale"), "the scale stands in a text chunk");
    workshop.succeed(&["render", "d/run/splats.ply", "--data", "moved", "-o", "views", "--depth", "npy"]);
    assert!(workshop.read("views/view_000_depth.npy").starts_with(b"\x93NUMPY"));

    // Without options a file is written as it was read.
    workshop.succeed(&["convert", "d/run/splats.ply", "same.ply"]);
    assert!(workshop.read("same.ply") == workshop.read("d/run/splats.ply"));
    workshop.succeed(&["convert", "d/run/splats.ply", "less.ply", "--sh-degree", "0", "--up", "-z"]);
    assert_eq!(workshop.succeed(&["info", "less.ply", "--json"]).json()["sh_degree"], 0);

    // A crop keeps the splats inside. A run knows its cameras even if its dataset was moved.
    let splats =
        |file: &str| workshop.succeed(&["info", file, "--json"]).json()["count"].as_u64().expect("a count");
    let all = splats("same.ply");
    workshop.succeed(&["convert", "d/run", "wide.ply", "--crop=-1e9,-1e9,-1e9,1e9,1e9,1e9"]);
    assert!(workshop.read("wide.ply") == workshop.read("same.ply"));
    workshop.succeed(&["convert", "d/run", "near.ply", "--crop-to-cameras", "0.5", "--data", "moved"]);
    workshop.succeed(&["convert", "d/run", "far.ply", "--crop-to-cameras", "2", "--data", "moved"]);
    let [near, far] = ["near.ply", "far.ply"].map(splats);
    assert!(0 < near && near < far && far < all, "{near} {far} {all}");
}

#[test]
fn a_town_is_written_alone_and_trained_by_the_next_command() {
    let workshop = TestFolder::empty();
    let town = ["demo", "--scene", "town", "--pictures", "40", "--size", "small", "-o", "t", "--json"];
    let written = workshop.succeed(&[&town[..], &["--steps", "0"]].concat()).json();
    assert_eq!(written["kind"], "dataset");
    let data = workshop.succeed(&["info", "t/data", "--json"]).json();
    assert_eq!((&data["images"], &data["skipped"]), (&Value::from(40), &Value::from(0)));
    assert!(!workshop.path("t/run").exists());
    let picture = workshop.read("t/data/images/view_007.jpg");

    // Another number of pictures is another scene.
    let other = workshop.run(&["demo", "--pictures", "41", "--size", "small", "-o", "t", "--steps", "0"]);
    assert!(other.code == 2 && other.stderr.contains("contains a demo already"), "{other:?}");
    let trained = workshop.succeed(&[&town[..], &["--steps", "5"]].concat()).json();
    assert_eq!((&trained["kind"], &trained["steps"]), (&Value::from("run"), &Value::from(5)));
    assert!(workshop.read("t/data/images/view_007.jpg") == picture);
}

#[test]
fn quiet_means_that_nothing_is_printed_at_success() {
    let workshop = TestFolder::with_data();
    let finished = workshop.succeed(&["train", "data", "-o", "run", "--steps", "20", "-q"]);
    assert!(finished.stderr.is_empty(), "{finished:?}");
    assert!(finished.stdout.is_empty(), "{finished:?}");
    // What is asked for is printed: JSON, and the answers of commands that only answer.
    assert_eq!(
        workshop.succeed(&["train", "data", "-o", "r2", "--steps", "2", "-q", "--json"]).json()["steps"],
        2
    );
    assert!(workshop.succeed(&["info", "run", "-q"]).stdout.contains("steps"));
}

#[test]
fn the_result_begins_with_scores_and_a_judgement_and_names_the_report() {
    let workshop = TestFolder::with_data();
    let names = |arguments: &[&str]| {
        let text = workshop.succeed(arguments).stdout;
        text.lines().map(|line| line.split("  ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let brief = names(&["train", "data", "-o", "run", "--steps", "20"]);
    assert_eq!(brief[..3], ["PSNR", "SSIM", "quality"], "{brief:?}");
    // 20 steps are too few for an advice.
    for absent in ["advice", "haze", "CC", "CPU time"] {
        assert!(!brief.iter().any(|name| name == absent), "{brief:?}");
    }
    assert!(brief.iter().any(|name| name == "report"), "{brief:?}");
    let full = names(&["train", "data", "-o", "run2", "--steps", "20", "-v"]);
    assert!(full.iter().any(|name| name == "CC") && full.iter().any(|name| name == "CPU time"), "{full:?}");
}

#[test]
fn a_config_file_is_read_and_the_command_line_wins() {
    let workshop = TestFolder::with_data();
    std::fs::write(workshop.path("my.toml"), "data = 'data'\nsteps = 30\nmax-splats = 300\n").expect("write");
    let run =
        workshop.succeed(&["train", "--config", "my.toml", "-o", "run", "--steps", "10", "--json"]).json();
    assert_eq!(run["steps"], 10);
    let config = String::from_utf8(workshop.read("run/config.toml")).expect("text");
    assert!(config.contains("max-splats = 300") && config.contains("steps = 10"), "{config}");
    // The recorded configuration of a run is a config file; repeating it gives the same bytes.
    workshop.succeed(&["train", "--config", "run/config.toml", "-o", "again", "-q"]);
    assert!(workshop.read("again/splats.ply") == workshop.read("run/splats.ply"));
}

#[test]
fn without_held_out_pictures_the_psnr_is_null() {
    let workshop = TestFolder::with_data();
    let run =
        workshop.succeed(&["train", "data", "-o", "run", "--steps", "10", "--test-every", "0", "--json"]);
    assert_eq!(run.json()["psnr"], Value::Null);
    let eval = workshop.succeed(&["eval", "run", "--json"]);
    assert_eq!((&eval.json()["psnr"], &eval.json()["images"]), (&Value::Null, &Value::from(0)));
}

#[test]
fn the_benchmarks_report_what_scripts_expect() {
    let workshop = TestFolder::empty();
    let small = ["--splats", "2000", "--steps", "3", "--threads", "1", "--json"];
    let train = workshop.succeed(&[&["bench", "train"], &small[..]].concat()).json();
    assert_eq!(
        keys(&train),
        ["cpu_ms", "it_per_s", "peak_bytes", "simd", "stages", "threads", "wall_ms", "workload"]
    );
    assert_eq!(keys(&train["workload"]), ["height", "intersections", "splats", "visible", "width"]);
    assert_eq!(train["workload"]["splats"], 2000);
    let names = |object: &Value| -> Vec<String> {
        let stages = object["stages"].as_array().expect("a list");
        stages.iter().filter_map(|stage| stage["name"].as_str().map(str::to_owned)).collect()
    };
    for stage in ["project", "tile", "blend", "loss", "blend_vjp"] {
        assert!(names(&train).iter().any(|name| name == stage), "{stage}: {train}");
    }
    assert!(["avx512", "avx2", "fallback"].iter().any(|level| train["simd"] == *level), "{train}");
    let stages = train["stages"].as_array().expect("a list");
    assert!(stages.iter().all(|stage| stage["floor_ms"].as_f64().is_some_and(|ms| ms > 0.0)), "{train}");
    let raster = workshop.succeed(&[&["bench", "raster"], &small[..]].concat()).json();
    assert!(raster["frames_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{raster}");
    assert!(raster["workload"]["visible"].as_u64().is_some_and(|visible| visible > 1000), "{raster}");
    assert!(!names(&raster).iter().any(|name| name == "loss"), "{raster}");
}

#[test]
fn a_demo_that_is_interrupted_goes_on_and_never_leaves_half_a_scene() {
    let workshop = TestFolder::empty();
    let demo = ["demo", "--size", "small", "-o", "d", "--seed", "5", "--steps", "150", "--json"];
    let mut child = workshop.start(&demo);
    wait_until("some pictures are made", || workshop.path("d/.tmp-data/images/view_002.png").is_file());
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(!workshop.path("d/data").exists());

    let child = workshop.start(&demo);
    wait_until("the training has begun", || workshop.path("d/run/metrics.jsonl").is_file());
    kill_process(Pid::from_child(&child), Signal::INT).expect("the signal is sent");
    let stopped = ProcessResult::new(&demo, child.wait_with_output().expect("wait"));
    assert_eq!(stopped.code, 130, "{stopped:?}");
    assert!(workshop.path("d/data/demo.json").is_file() && !workshop.path("d/.tmp-data").exists());

    // A demo with other options is refused.
    let of_another_seed = ["demo", "--size", "small", "-o", "d", "--seed", "6"];
    let other = workshop.run(&of_another_seed);
    assert!(other.code == 2 && other.stderr.contains("contains a demo already"), "{other:?}");
    let finished = workshop.succeed(&demo);
    assert!(finished.stderr.contains("resuming the run in d/run"), "{finished:?}");
    assert_eq!(finished.json()["steps"], 150);
    // Images not created by Gausset are not replaced, even with --force.
    std::fs::remove_file(workshop.path("d/data/.gausset")).expect("remove");
    for arguments in [&[&demo[..], &["--force"]].concat()[..], &of_another_seed] {
        let refused = workshop.run(arguments);
        assert!(refused.code == 2 && refused.stderr.contains("was not created by a demo"), "{refused:?}");
    }
    assert!(workshop.path("d/data/images/view_000.png").is_file());
}
