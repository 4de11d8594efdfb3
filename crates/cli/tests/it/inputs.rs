//! Inputs are never overwritten: every command that writes is asked to replace one of its inputs, with and without
//! `--force`, and refuses; all files keep their bytes.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::foreign_files::{listed, write_inputs};
use crate::support::TestFolder;

/// Command lines that would overwrite an input, in a folder `in` with inputs. For commands without arguments here,
/// `EXEMPT_COMMANDS` gives the reason.
const CASES: &[&[&str]] = &[
    &["train", "in/data", "-o", "in/run", "--init", "in/run/splats.ply", "--steps", "2"],
    &["train", "in/data", "-o", "in/run", "--config", "in/run/config.toml"],
    &["train", "in/data", "-o", "in/refined", "--sparse", "in/refined/cameras", "--steps", "2"],
    &["eval", "in/run", "--data", "in/sheet", "--accept-changed-data", "-o", "in/sheet"],
    &["render", "in/run", "--split", "all", "-o", "in/data/images"],
    &["render", "in/run/splats.ply", "--data", "in/data", "--split", "all", "-o", "in/data/images"],
    &["render", "in/odd/orbit_0000.png", "--orbit", "1", "--size", "16x16", "-o", "in/odd"],
    &["report", "in/run", "-o", "in/run/splats.ply"],
    &["report", "in/run", "-o", "in/run/config.toml"],
    &["report", "in/run", "-o", "in/run/metrics.jsonl"],
    &["report", "in/run", "-o", "in/run/fingerprint.txt"],
    &["report", "in/run", "-o", "in/run/checkpoints/step_000002.ckpt"],
    &["report", "in/run", "-o", "in/run/eval/metrics.json"],
    &["convert", "in/run/splats.ply", "in/run/splats.ply"],
    &["convert", "in/run/splats.ply", "in/run/../run/splats.ply"],
    &["convert", "in/run/splats.ply", "in/names/link.ply"],
    &["convert", "in/run/splats.ply", "in/names/hard.ply"],
    &["convert", "in/run", "in/run/config.toml", "--format", "ply"],
    &["convert", "in/run", "in/data/images/view_000.png", "--format", "html"],
    &["convert", "in/run", "in/data/sparse/0/points3D.bin", "--format", "ply", "--crop-to-cameras", "20"],
    &["clean", "in/run", "-o", "in/run/splats.ply"],
    &["clean", "in/run", "-o", "in/names/picture.ply"],
    &["align", "in/data/images", "-o", "in/data", "--masks", "in/data/sparse/0", "--colmap", "in/colmap"],
    &[
        "run",
        "in/data/images",
        "-o",
        "in/project",
        "--config",
        "in/project/run/config.toml",
        "--colmap",
        "in/colmap",
    ],
    &["mask", "in/walk", "-o", "in/odd", "--model", "in/odd/p0.jpg.png", "--empty-masks"],
    &["pano", "split", "in/again/images/view00", "-o", "in/again", "--size", "32"],
    &["pano", "split", "in/walk", "-o", "in/odd", "--size", "32", "--lut", "in/odd/pano.jsonl"],
    &["pano", "align", "in/split", "--aligner", "own", "--reference", "in/split/poses.json"],
    &["pano", "run", "in/walk", "-o", "in/odd", "--aligner", "own", "--lut", "in/odd/pano_run.json"],
    &["pano", "preview", "in/walk/p0.jpg", "-o", "in/walk/../odd/mask.png", "--mask", "in/odd/mask.png"],
    &["pano", "convert", "in/walk/p0.jpg", "in/walk/p0.jpg", "--to", "cross"],
    &["pano", "convert", "in/walk", "./in/walk", "--to", "cross"],
    &["pano", "masks", "in/odd/mask.png", "-o", "in/odd/mask.png"],
    &["pano", "masks", "in/masks", "-o", "in/masks"],
    &["pano", "calibrate", "in/walk/p0.jpg", "-o", "in/walk/p0.jpg"],
    &["pano", "frames", "in/clip.mp4", "-o", "in/clip.mp4"],
    &[
        "pano",
        "frames",
        "in/clip.mp4",
        "-o",
        "f.jsonl",
        "--track",
        "in/odd/track.png",
        "--sheet",
        "in/odd/track.png",
    ],
    &[
        "pano",
        "export",
        "in/split",
        "--format",
        "transforms",
        "-o",
        "in/walk/../split",
        "--masks",
        "colmap",
        "--invert",
    ],
    &["pano", "compare", "in/poses.csv", "in/poses.csv", "--csv", "in/poses.csv"],
    &["field", "fit", "in/samples.csv", "-o", "in/names/samples.safetensors", "-n", "2", "--steps", "2"],
    &["field", "query", "in/field.safetensors", "in/points.csv", "-o", "in/points.csv"],
    &["field", "slice", "in/field.safetensors", "-o", "in/names/field.png"],
    &["field", "mip", "in/field.safetensors", "-o", "in/names/field.png"],
    &["field", "voxelize", "in/field.safetensors", "-o", "in/names/field.npy", "--shape", "4,4,4"],
    &["field", "export", "in/field.safetensors", "-o", "in/names/field.ply"],
    &["bench", "train", "--ply", "in/odd/profile.json", "--steps", "1", "--profile", "in/odd"],
    &["bench", "raster", "--ply", "in/odd/profile.json", "--steps", "1", "--profile", "in/odd"],
];

/// Commands that read no files, or write none.
const EXEMPT_COMMANDS: &[(&str, &str)] = &[
    ("demo", "reads nothing"),
    ("man", "reads nothing"),
    ("bench pano", "reads nothing"),
    ("info", "writes nothing"),
    ("view", "writes nothing"),
    ("doctor", "writes nothing"),
    ("profile show", "writes nothing"),
    ("profile diff", "writes nothing"),
    ("completions", "writes nothing"),
    ("pano layouts", "writes nothing"),
    ("field info", "writes nothing"),
    ("bench field", "writes nothing"),
];

/// Inputs in places where the command would write.
fn traps(workshop: &TestFolder) {
    let at = |name: &str| workshop.path(&format!("in/{name}"));
    for folder in ["odd", "names", "masks", "again/images", "project", "split/masks/view00", "sheet/images"] {
        fs::create_dir_all(at(folder)).expect("a folder");
    }
    let copy = |from: &str, to: &str| fs::copy(at(from), at(to)).map(drop).expect("a copy");
    copy("run/splats.ply", "odd/orbit_0000.png");
    copy("run/splats.ply", "odd/profile.json");
    copy("red.onnx", "odd/p0.jpg.png");
    let lut = "LUT_1D_SIZE 2\n0 0 0\n1 1 1\n";
    for name in ["odd/pano.jsonl", "odd/pano_run.json"] {
        fs::write(at(name), lut).expect("a LUT");
    }
    fs::write(at("odd/track.png"), "time,lat,lon\n0,50,7\n1,50,7\n").expect("a track");
    let mask = gausset_core::RgbImage8 { width: 8, height: 4, data: vec![0; 96] };
    let mask = gausset_io::image::encode::png_rgb8(&mask).expect("a PNG");
    for name in ["odd/mask.png", "masks/p0.jpg.png", "split/masks/view00/p0.jpg.png"] {
        fs::write(at(name), &mask).expect("a mask");
    }
    fs::create_dir_all(at("again/images/view00")).expect("a folder");
    copy("walk/p0.jpg", "again/images/view00/p0.jpg");
    let poses = r#"{ "tool": "a test", "input": "", "is_metric": false, "points": 0, "mean_reprojection_px": 0.5,
        "track_length": 2.0, "frames": [ { "name": "p0", "rotation": [1, 0, 0, 0], "translation": [0, 0, 0] },
        { "name": "p1", "rotation": [1, 0, 0, 0], "translation": [1, 0, 0] } ] }"#;
    fs::write(at("split/poses.json"), poses).expect("poses");
    workshop.succeed(&["train", "in/data", "-o", "in/project/run", "--steps", "2", "-q"]);
    workshop.succeed(&["train", "in/data", "-o", "in/refined", "--steps", "2", "--refine-poses", "-q"]);
    // An image with the name of an output of the evaluation.
    let frames: Vec<_> = (0..3)
        .map(|k| {
            let name = if k == 0 { "contact_sheet.png".to_owned() } else { format!("images/{k}.png") };
            copy(&format!("data/images/view_00{k}.png"), &format!("sheet/{name}"));
            let x = 0.1 * f64::from(k);
            let matrix =
                [[1.0, 0.0, 0.0, x], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 4.0], [0.0, 0.0, 0.0, 1.0]];
            serde_json::json!({ "file_path": name, "transform_matrix": matrix })
        })
        .collect();
    let data = serde_json::json!({ "w": 32, "h": 24, "fl_x": 30.0, "fl_y": 30.0, "cx": 16.0, "cy": 12.0, "frames": frames });
    fs::write(at("sheet/transforms.json"), data.to_string()).expect("a data set");
    for (to, name) in [
        ("run/splats.ply", "link.ply"),
        ("data/sparse/0/points3D.bin", "picture.ply"),
        ("samples.csv", "samples.safetensors"),
        ("field.safetensors", "field.png"),
        ("field.safetensors", "field.npy"),
        ("field.safetensors", "field.ply"),
    ] {
        std::os::unix::fs::symlink(at(to), at("names").join(name)).expect("a link");
    }
    fs::hard_link(at("run/splats.ply"), at("names/hard.ply")).expect("a hard link");
}

/// The bytes of all files below a folder.
fn bytes_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut todo) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                files.insert(path, bytes);
            }
        }
    }
    files
}

#[test]
fn no_command_writes_over_what_it_reads_not_even_with_force() {
    let workshop = TestFolder::empty();
    write_inputs(&workshop);
    traps(&workshop);
    let has_films = fs::read(workshop.path("in/clip.mp4")).is_ok_and(|bytes| bytes != b"no video");
    let before = bytes_below(&workshop.path("in"));
    let mut faults = Vec::new();
    for case in CASES {
        let is_there = case.first() != Some(&"mask") || cfg!(feature = "masks");
        if !is_there || (case.contains(&"in/clip.mp4") && !has_films) {
            continue;
        }
        let is_benchmark = case.first() == Some(&"bench");
        for force in [&[][..], &["--force"]] {
            if is_benchmark && !force.is_empty() {
                continue;
            }
            let finished = workshop.run(&[case, force].concat());
            let is_told =
                finished.stderr.contains("output: is an input") || force.is_empty() && !is_benchmark;
            // A finished run is complete with the options of its own file.
            let is_complete =
                force.is_empty() && finished.stderr.contains("the training is already finished");
            if !is_complete && (finished.code != 2 || !is_told) {
                faults.push(format!("{finished:?}"));
            }
            let after = bytes_below(&workshop.path("in"));
            for (path, bytes) in &before {
                if after.get(path) != Some(bytes) {
                    faults.push(format!("{case:?} {force:?}: {} was written to", path.display()));
                    let _ = fs::write(path, bytes);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_command_that_writes_is_told_to_write_over_what_it_reads() {
    let workshop = TestFolder::empty();
    let help = |words: &[&str]| workshop.succeed(&[words, &["--help"]].concat()).stdout;
    let is_known = |words: &[&str]| {
        let cases = CASES.iter().filter(|case| case.starts_with(words)).count();
        cases + EXEMPT_COMMANDS.iter().filter(|(command, _)| *command == words.join(" ")).count() > 0
    };
    // The hidden command.
    assert!(is_known(&["man"]));
    for command in listed(&help(&[])) {
        let below = listed(&help(&[&command]));
        assert!(!below.is_empty() || is_known(&[&command]), "{command}: has no row");
        for sub in below {
            assert!(is_known(&[&command, &sub]), "{command} {sub}: has no row");
        }
    }
}
