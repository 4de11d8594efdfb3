//! `pano align`, `pano export`, `pano compare` and `pano run` with stand-ins that replay a recorded run of COLMAP
//! (`testdata/colmap`). The jobs themselves are tested in `crates/gausset/tests/panos`.
#![cfg(unix)]

use std::path::Path;

use gausset_core::se3;
use gausset_io::dataset::colmap::{ModelFolder, ModelFormat, Observations};
use gausset_pano::export::AlignedPoses;
use gausset_testkit::programs::{colmap_recording, write_colmap_stand_ins};

use crate::support::{TestFolder, with_walk};

/// Three panoramas with the names of the recording, split into views of the same cameras, and a model to copy.
fn workshop(model: &Path) -> TestFolder {
    let workshop = with_walk(3);
    for k in 0..3 {
        let name = |stem: &str| workshop.path(&format!("walk/{stem}{k}.jpg"));
        std::fs::rename(name("p"), name("frame_0")).expect("a file");
    }
    workshop.succeed(&["-q", "pano", "split", "walk", "-o", "w", "--size", "224"]);
    write_colmap_stand_ins(&workshop.path(""), model);
    workshop
}

#[test]
fn a_recorded_run_of_pycolmap_gives_its_poses() {
    let workshop = workshop(&colmap_recording().join("model"));
    let finished = workshop.succeed(&["pano", "align", "w", "--python", "./python", "--json"]);
    let result = finished.json();
    assert_eq!((result["frames"].as_u64(), result["registered"].as_u64()), (Some(3), Some(3)));
    assert_eq!(result["points"].as_u64(), Some(150));
    assert!(result["mean_reprojection_px"].as_f64().is_some_and(|e| e > 0.01 && e < 0.8), "{result}");
    for word in ["pycolmap 4.2.1", "features", "matching", "mapping", " %"] {
        assert!(finished.stderr.contains(word), "{}", finished.stderr);
    }
    // Each frame of the room is rotated by 0.35 rad.
    let poses = AlignedPoses::read(&workshop.path("w/poses.json")).expect("poses");
    let rotations: Vec<se3::Mat3> = poses.frames.iter().map(|f| f.pose().expect("a pose").rotation).collect();
    for (frame, rotation) in rotations.iter().enumerate() {
        let turn = se3::mul(rotation, &se3::transpose(&rotations[0]));
        let heading = ((turn[0][0] + turn[1][1] + turn[2][2] - 1.0) / 2.0).clamp(-1.0, 1.0).acos();
        assert!((heading - 0.35 * frame as f64).abs() < 5e-3, "{frame}: {heading}");
    }
    assert!(workshop.path("w/sparse/0/rigs.bin").is_file());
    let left = std::fs::read_dir(workshop.path("w")).expect("a folder").filter_map(Result::ok);
    let left: Vec<_> = left.map(|e| e.file_name()).filter(|n| n.to_string_lossy().contains("sfm")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_comparison_is_told_to_people_and_programs() {
    let workshop = workshop(&colmap_recording().join("model"));
    workshop.succeed(&["-q", "pano", "align", "w", "--python", "./python"]);
    let exported =
        workshop.succeed(&["pano", "export", "w", "--format", "csv", "-o", "poses", "--json"]).json();
    assert_eq!((exported["schema"].as_u64(), exported["registered"].as_u64()), (Some(1), Some(3)));
    let compare = ["pano", "compare", "w", "poses/trajectory.csv"];
    let found = workshop.succeed(&[&compare[..], &["--csv", "e.csv", "--json"]].concat()).json();
    assert_eq!((found["schema"].as_u64(), found["matched_by"].as_str()), (Some(1), Some("name")));
    let csv = String::from_utf8(workshop.read("e.csv")).expect("text");
    assert_eq!(csv.lines().count(), 4);
    assert!(csv.starts_with("name,centre_error,rotation_error_degrees,"));
    let people = workshop.succeed(&compare).stdout;
    for word in ["3 of 3 poses of the reference (100.0 %), matched by name", "scale 1.00", "drift"] {
        assert!(people.contains(word), "{people}");
    }
    let refused = workshop.run(&[&compare[..], &["--csv", "e.csv"]].concat());
    assert_eq!((refused.code, refused.stderr.lines().count()), (2, 1), "{refused:?}");
    assert!(refused.stderr.contains("e.csv: output: exists already"), "{refused:?}");
}

#[test]
fn a_panorama_run_tells_its_result_again_and_is_replaced_by_force_only() {
    let workshop = workshop(&colmap_recording().join("model"));
    std::fs::remove_dir_all(workshop.path("w")).expect("remove");
    let here = std::fs::canonicalize(workshop.path("")).expect("a folder").display().to_string();
    let common = ["--colmap", "./colmap", "--steps", "20", "--train-size", "32", "--json"];
    let with = |input: &str, out: &str, more: &[&str]| {
        workshop.run(&[&["pano", "run", input, "-o", out][..], &common, more].concat())
    };
    let first = with("walk", "out", &[]);
    assert_eq!(first.code, 0, "{first:?}");
    let calls = || workshop.read("calls").iter().filter(|b| **b == b'\n').count();
    let (asked, splats) = (calls(), workshop.read("out/run/splats.ply"));
    let absolute = (format!("{here}/walk"), format!("{here}/out"));
    for (input, out) in [("walk", "out"), ("./walk/", "./out"), (&absolute.0, &absolute.1)] {
        let again = with(input, out, &[]);
        assert!(again.code == 0 && again.stderr.contains("already finished"), "{again:?}");
        assert_eq!(again.json(), first.json());
    }
    let view = workshop.read("out/train/images/view00/frame_00.jpg");
    for (more, words) in [
        (&["--seed", "1"][..], "seed = 0 (given: 1)"),
        (&["--train-layout", "ring4"], r#"train-layout = \"cube6\" (given: \"ring4\")"#),
        (&["--crop-bottom", "30"], "crop-bottom = 0.0 (given: 30.0)"),
    ] {
        let other = with("walk", "out", more);
        assert!(other.code == 2 && other.stderr.contains(words), "{other:?}");
        assert!(other.stderr.contains("--force"), "{other:?}");
    }
    assert!(workshop.read("out/run/splats.ply") == splats);
    assert!(workshop.read("out/train/images/view00/frame_00.jpg") == view, "the views are those of the run");
    let forced = with("walk", "out", &["--seed", "1", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert!(workshop.read("out/run/splats.ply") != splats);
    assert_eq!(calls(), asked, "the alignment is the same and is used again");
}

#[test]
fn a_frame_that_did_not_register_is_named_and_the_exit_code_is_1() {
    let found = ModelFolder::find(&colmap_recording().join("model")).expect("a folder").expect("a model");
    let mut model = found.read(Observations::Keep).expect("a model");
    model.images.retain(|image| !image.name.ends_with("frame_02.jpg"));
    let partial = tempfile::tempdir().expect("a folder");
    for (name, bytes) in model.to_files(ModelFormat::Binary) {
        std::fs::write(partial.path().join(name), bytes).expect("a file");
    }
    let workshop = workshop(partial.path());
    let finished = workshop.run(&["pano", "align", "w", "--colmap", "./colmap", "--json"]);
    assert_eq!(finished.code, 1, "{finished:?}");
    assert_eq!(finished.json()["unregistered"], serde_json::json!(["frame_02"]));
    assert!(finished.stderr.contains("frame_02: frame: did not register"), "{}", finished.stderr);
    // Two of three are too few, so all recipes were tried.
    let calls = String::from_utf8(workshop.read("calls")).expect("text");
    assert_eq!(calls.lines().filter(|line| line.starts_with("mapper")).count(), 4);
}
