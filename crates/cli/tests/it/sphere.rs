//! Training on and rendering of whole panoramas.

use serde_json::{Value, json};

use crate::support::{TestFolder, with_walk};

/// Four panoramas with poses: a step apart, level.
fn walk_with_poses() -> TestFolder {
    let workshop = with_walk(4);
    let frames: Vec<Value> = (0..4)
        .map(|k| {
            let matrix = [[1, 0, 0, k], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]];
            json!({ "file_path": format!("p{k}.jpg"), "transform_matrix": matrix })
        })
        .collect();
    let all = json!({ "camera_model": "EQUIRECTANGULAR", "w": 256, "h": 128, "frames": frames });
    std::fs::write(workshop.path("walk/transforms.json"), all.to_string()).expect("a file");
    workshop
}

fn size_of(png: &[u8]) -> [u32; 2] {
    [16, 20].map(|at| u32::from_be_bytes([png[at], png[at + 1], png[at + 2], png[at + 3]]))
}

#[test]
fn whole_panoramas_train_are_judged_by_faces_and_drawn() {
    let workshop = walk_with_poses();
    let train = |route: &str, more: &[&str]| {
        let run = format!("run_{route}");
        let arguments = [
            "train",
            "walk",
            "-o",
            &run,
            "--panoramas",
            route,
            "--test-every",
            "4",
            "--steps",
            "40",
            "--json",
        ];
        workshop.succeed(&[&arguments[..], more].concat()).json()
    };
    let small = ["--initial-splats", "500", "--max-resolution", "32"];
    for route in ["cube", "sphere"] {
        assert_eq!(train(route, &small)["steps"], 40);
    }
    // The same held-out images: the faces of one panorama.
    let pictures = |run: &str| -> Vec<String> {
        let folder = std::fs::read_dir(workshop.path(run).join("eval")).expect("an evaluation");
        let names = folder.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.contains("_p2.jpg_")).collect();
        names.sort();
        names
    };
    assert_eq!(pictures("run_cube"), pictures("run_sphere"));
    assert_eq!(pictures("run_sphere").len(), 6, "the middle one is held out");

    workshop.succeed(&["render", "run_sphere", "--split", "train", "--panorama", "96", "-o", "drawn"]);
    assert_eq!(size_of(&workshop.read("drawn/p1.png")), [96, 48]);
    workshop.succeed(&["render", "run_sphere", "--path", "walk/transforms.json", "-o", "path"]);
    let refused = workshop.run(&["render", "run_sphere", "--orbit", "2", "--fov", "40", "-o", "fov"]);
    assert!(refused.code == 2 && refused.stderr.contains("--fov: has no effect"), "{refused:?}");
    assert_eq!(size_of(&workshop.read("path/0002_p2.png")), [256, 128]);
    // A run trained on the sphere resumes on the sphere.
    let other = workshop.run(&["train", "--resume", "run_sphere", "--panoramas", "cube"]);
    assert!(other.code == 2 && other.stderr.contains("panoramas"), "{other:?}");
}

#[test]
fn stereo_does_not_take_panoramas() {
    let workshop = walk_with_poses();
    let refused = workshop.run(&[
        "train",
        "walk",
        "-o",
        "run",
        "--panoramas",
        "sphere",
        "--init-points",
        "dense",
        "--steps",
        "5",
    ]);
    assert!(refused.code != 0 && refused.stderr.contains("--panoramas cube"), "{refused:?}");
}
