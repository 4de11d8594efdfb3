//! Profiles: rows that add up, tables, comparisons, and benchmarks with their floors.

use serde_json::Value;

use crate::support::TestFolder;

/// Times of the rows that do not overlap, ms.
fn exclusive_sum(profile: &Value) -> f64 {
    let rows = profile["rows"].as_array().expect("rows");
    let depth = |index: usize| rows.get(index).and_then(|row| row["depth"].as_u64());
    let exclusive = rows.iter().enumerate().filter(|(index, _)| depth(index + 1) <= depth(*index));
    exclusive.filter_map(|(_, row)| row["total_ms"].as_f64()).sum()
}

#[test]
fn the_rows_of_a_profile_sum_to_the_wall_time_and_are_shown_and_compared() {
    let workshop = TestFolder::with_data();
    for name in ["a", "b"] {
        let train = [
            "train",
            "data",
            "-o",
            name,
            "--steps",
            "70",
            "--profile",
            "--threads",
            "2",
            "--eval-every",
            "40",
        ];
        let finished = workshop.succeed(&train);
        for part in ["critical path", "other thread", "most time", "time budget", "what the machine allows"] {
            assert!(finished.stderr.contains(part), "{part}: {finished:?}");
        }
    }
    let profile = workshop.succeed(&["profile", "show", "a", "--json"]).json();
    let wall = profile["wall_ms"].as_f64().expect("a number");
    // Exact up to rounding (2 % are promised), because time outside all spans has its own row.
    assert!((exclusive_sum(&profile) / wall - 1.0).abs() < 1e-6, "{} {wall}", exclusive_sum(&profile));
    let row = |path: &str| {
        let rows = profile["rows"].as_array().expect("rows");
        rows.iter().find(|row| row["path"] == path).unwrap_or_else(|| panic!("{path}: {profile}")).clone()
    };
    assert_eq!(row("step")["count"], 70);
    for stage in ["next_view", "project", "sort", "tile", "blend", "loss", "blend_vjp", "project_vjp+adam"] {
        assert_eq!(row(&format!("step/{stage}"))["count"], 70, "{stage}");
    }
    for path in ["open", "predict", "step/unattributed", "eval/blend", "export", "unattributed"] {
        assert!(row(path)["total_ms"].as_f64().is_some_and(|ms| ms >= 0.0));
    }
    let workers = profile["worker_rows"].as_array().expect("rows");
    assert!(
        workers.iter().any(|row| row["path"] == "blend_vjp"),
        "the second thread works, too: {workers:?}"
    );
    let counter = |name: &str| {
        let counters = profile["counters"].as_array().expect("counters");
        let found = counters.iter().find(|counter| counter["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {counters:?}"))["max"].as_f64().expect("a number")
    };
    // Eight images are few, so a tenth of the visible splats is dropped in each step. The reasons of the other counts
    // are tested in `gausset-cpu`, tests/engine.rs.
    let left_out = counter("left out at random") / (counter("left out at random") + counter("visible"));
    assert!((0.02..0.25).contains(&left_out), "{left_out}");
    for name in ["list of a tile, p99", "contributors of a pixel, mean", "cells evaluated", "blocks updated"]
    {
        assert!(counter(name) > 0.0, "{name}");
    }
    let floors = profile["floors"].as_array().expect("floors");
    assert!(floors.len() == 7 && floors.iter().all(|floor| floor["floor_ms"].as_f64() > Some(0.0)));
    for floor in floors {
        // The floor is below the time of the stage, also if everything is in a cache. The factor of two allows for
        // other work on the machine, which may slow the measurement of the rates more than the steps.
        let name = floor["name"].as_str().expect("a name");
        let took = row(&format!("step/{name}"))["median_ms"].as_f64().expect("a number");
        let least = floor["floor_ms"].as_f64().expect("a number");
        assert!(least < 2.0 * took, "{name}: {took} ms, at least {least} ms");
    }

    let shown = workshop.succeed(&["profile", "show", "a/profile.json"]).stdout;
    assert!(shown.contains("gradients and update") && shown.contains("GB/s read and written"), "{shown}");
    let same = workshop.succeed(&["profile", "diff", "a", "a"]).stdout;
    assert!(same.contains("0 faster, 0 slower"), "{same}");
    let changes = workshop.succeed(&["profile", "diff", "a", "b", "--json"]).json();
    assert!(changes["changes"].as_array().is_some_and(|changes| changes.len() > 10), "{changes}");

    let csv = String::from_utf8(workshop.read("a/profile.csv")).expect("text");
    assert!(csv.starts_with("section,path,kind,unit,count") && csv.contains("critical,step/blend,"), "{csv}");
    let trace: Value = serde_json::from_slice(&workshop.read("a/trace.json")).expect("JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 700));
}

#[test]
fn what_is_no_profile_is_refused_with_a_line() {
    let workshop = TestFolder::with_data();
    std::fs::write(workshop.path("profile.json"), "{\"wall_ms\": \"long\"}").expect("write");
    for (argument, reason) in [
        ("nowhere", "read: no such file or folder; record one with --profile"),
        ("data", "data/profile.json: read: no such file or folder; record one with --profile"),
        ("profile.json", "line 1: invalid type"),
    ] {
        let finished = workshop.run(&["profile", "show", argument]);
        assert_eq!((finished.code, finished.stderr.lines().count()), (2, 1), "{finished:?}");
        assert!(finished.stderr.contains(reason), "{finished:?}");
    }
}

#[test]
fn a_splat_file_can_be_measured_from_a_camera_and_its_steps_profiled() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&["train", "data", "-o", "run", "--steps", "20", "-q"]);
    let path = r#"{"camera_type": "perspective", "render_width": 64, "render_height": 48,
        "camera_path": [{"camera_to_world": [1,0,0,0, 0,1,0,0, 0,0,1,9, 0,0,0,1], "fov": 50},
                        {"camera_to_world": [1,0,0,0, 0,1,0,0, 0,0,1,7, 0,0,0,1], "fov": 50}]}"#;
    std::fs::write(workshop.path("path.json"), path).expect("write");
    let bench = [
        "bench",
        "raster",
        "--ply",
        "run/splats.ply",
        "--steps",
        "2",
        "--camera",
        "path.json",
        "--view",
        "1",
    ];
    let measured = workshop.succeed(&[&bench[..], &["--json"]].concat()).json();
    assert_eq!((&measured["workload"]["width"], &measured["workload"]["height"]), (&64.into(), &48.into()));
    let missing = workshop.run(&[&bench[..8], &["--view", "2"]].concat());
    assert!(missing.code == 2 && missing.stderr.contains("no camera 2 (found 2 cameras)"), "{missing:?}");
    let train = ["bench", "train", "--ply", "run/splats.ply", "--size", "96x64", "--steps", "3", "--json"];
    let measured = workshop.succeed(&[&train[..], &["--profile", "where"]].concat()).json();
    assert_eq!(measured["workload"]["width"], 96);
    for file in ["profile.json", "profile.csv", "trace.json"] {
        assert!(workshop.path("where").join(file).is_file(), "{file}");
    }
    let shown = workshop.succeed(&["profile", "show", "where"]).stdout;
    assert!(shown.contains("bench train") && shown.contains("cells evaluated"), "{shown}");
}
