//! Rendering runs and splat files: orbits without a dataset, locks, renders that equal their photographs.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{ProcessResult, TestFolder, files_below, wait_until};

/// Width and height of a PNG.
fn size_of(png: &[u8]) -> [u32; 2] {
    let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    [side(16), side(20)]
}

#[test]
fn the_transform_that_a_file_says_was_applied_is_shown() {
    let workshop = TestFolder::with_data();
    let matrix = "[[1, 0, 0, 0.5], [0, 0, 1, -2], [0, -1, 0, 0]]";
    let pose = "[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]]";
    let frames =
        (0..3).map(|k| format!("{{\"file_path\": \"images/view_00{k}.png\", \"transform_matrix\": {pose}}}"));
    let frames: Vec<String> = frames.collect();
    let text = format!(
        "{{\"fl_x\": 30, \"applied_transform\": {matrix}, \"applied_scale\": 0.25, \"frames\": [{}]}}",
        frames.join(", ")
    );
    std::fs::write(workshop.path("data/transforms.json"), text).expect("a file");
    let info = workshop.succeed(&["info", "data/transforms.json", "--json"]).json();
    assert_eq!(info["applied_scale"], 0.25);
    let rows = [[1.0, 0.0, 0.0, 0.5], [0.0, 0.0, 1.0, -2.0], [0.0, -1.0, 0.0, 0.0]];
    assert_eq!(info["applied_transform"], serde_json::json!(rows));
    let shown = workshop.succeed(&["info", "data/transforms.json"]).stdout;
    assert!(shown.contains("then scaled by 0.250"), "{shown}");
    assert!(workshop.succeed(&["info", "data", "--json"]).json()["applied_scale"].is_null());
}

#[test]
fn a_bare_splat_file_can_be_orbited() {
    let workshop = TestFolder::trained();
    std::fs::copy(workshop.path("run/splats.ply"), workshop.path("scene.ply")).expect("copy");
    let rendered =
        workshop.succeed(&["render", "scene.ply", "--orbit", "3", "--width", "96", "--fov", "40", "-o", "o"]);
    assert_eq!(rendered.stdout, "3 images in o\n");
    for k in 0..3 {
        let png = workshop.read(&format!("o/orbit_000{k}.png"));
        // 16:9 if only one side is given. Splats are visible in each render.
        assert_eq!(size_of(&png), [96, 54]);
        assert!(png.len() > 500, "{}", png.len());
    }
    let more =
        ["render", "scene.ply", "--orbit", "--frames", "2", "--width", "40", "--height", "30", "-o", "p"];
    assert_eq!(workshop.succeed(&more).stdout, "2 images in p\n");
    assert_eq!(size_of(&workshop.read("p/orbit_0001.png")), [40, 30]);
    // With a dataset the orbit is the same as before, in any size.
    workshop.succeed(&["render", "run", "--orbit", "2", "--size", "64x48", "-o", "q"]);
    assert_eq!(size_of(&workshop.read("q/orbit_0001.png")), [64, 48]);
    let refused = workshop.run(&["render", "scene.ply"]);
    assert!(refused.code == 2 && refused.stderr.contains("expected --orbit, --path FILE"), "{refused:?}");
}

#[test]
fn a_near_plane_behind_everything_leaves_the_background() {
    let workshop = TestFolder::trained();
    let psnr = |more: &[&str]| {
        let seen = workshop.succeed(&[&["eval", "run", "-o", "seen", "--json"][..], more].concat());
        serde_json::from_str::<Value>(&seen.stdout).expect("JSON")["psnr"].as_f64().expect("a number")
    };
    let (all, none) = (psnr(&[]), psnr(&["--near-plane", "1e6"]));
    assert!(none < all - 1.0, "{none}, {all}");
    workshop.succeed(&["render", "run", "--near-plane", "1e6", "--alpha", "-o", "cut"]);
    let alphas: Vec<_> = std::fs::read_dir(workshop.path("cut"))
        .expect("folder")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.to_string_lossy().ends_with("_alpha.png"))
        .collect();
    assert!(!alphas.is_empty());
    for path in alphas {
        let alpha = gausset_io::image::decode_mask_file(&path).expect("PNG");
        assert!(alpha.values.iter().all(|&level| level == 0), "{}", path.display());
    }
    let refused = workshop.run(&["render", "run", "--near-plane", "0"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("expected 0.000001 or more scene units"),
        "{refused:?}"
    );
}

#[test]
fn nothing_is_put_into_a_run_folder_while_a_training_has_it() {
    let workshop = TestFolder::with_data();
    let endless = [
        "train",
        "data",
        "-o",
        "run",
        "--steps",
        "1000000",
        "--checkpoint-every",
        "5",
        "--export-every",
        "5",
    ];
    let mut child = workshop.start(&endless);
    wait_until("there is a result", || workshop.path("run/splats.ply").is_file());
    let (eval, render) = (workshop.run(&["eval", "run"]), workshop.run(&["render", "run", "--orbit", "2"]));
    // Reading is allowed: all files in the folder are complete.
    let elsewhere = workshop.run(&["eval", "run", "-o", "seen", "--json"]);
    child.kill().expect("kill");
    child.wait().expect("wait");
    for finished in [eval, render] {
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.starts_with("gausset: run: in use by process "), "{finished:?}");
        assert!(finished.stderr.trim_end().ends_with("or name another folder with -o"), "{finished:?}");
    }
    assert_eq!(elsewhere.code, 0, "{elsewhere:?}");
    assert!(!workshop.path("run/eval").exists() && !workshop.path("run/render").exists());
}

#[test]
fn the_psnr_of_equal_pictures_is_null_for_programs_and_inf_for_people() {
    let workshop = TestFolder::with_data();
    let black = gausset_io::image::encode::png_rgb8(&gausset_core::RgbImage8 {
        width: 32,
        height: 24,
        data: vec![0; 3 * 32 * 24],
    })
    .expect("a picture");
    for entry in std::fs::read_dir(workshop.path("data/images")).expect("folder") {
        std::fs::write(entry.expect("entry").path(), &black).expect("write");
    }
    // Splats so far to the side that no camera sees them: only the black background remains.
    let header = "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n\
                  property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n";
    let points: String = (0..4).map(|k| format!("{k} 1000000 0 9 9 9\n")).collect();
    std::fs::write(workshop.path("far.ply"), header.to_owned() + &points).expect("write");
    let run = workshop.succeed(&[
        "train", "data", "-o", "run", "--steps", "2", "--init", "far.ply", "--json", "--up", "none",
    ]);
    assert_eq!(run.json()["psnr"], Value::Null);
    let eval = workshop.succeed(&["eval", "run", "--json"]).json();
    assert_eq!((&eval["psnr"], &eval["ssim"]), (&Value::Null, &Value::from(1.0)));
    assert_eq!(eval["per_image"][0]["psnr"], Value::Null);
    let table = workshop.succeed(&["eval", "run"]).stdout;
    assert!(table.lines().filter(|line| line.contains("inf dB")).count() == 2, "{table}");
}

#[test]
fn refined_poses_are_those_that_the_training_views_are_looked_at_from() {
    let workshop = TestFolder::with_data();
    let train =
        ["train", "data", "-o", "run", "--steps", "150", "--refine-poses", "--lr-poses", "1e-3", "-q"];
    workshop.succeed(&train);
    let psnr = |finished: &ProcessResult| finished.json()["psnr"].as_f64().expect("a number");
    let refined = psnr(&workshop.succeed(&["eval", "run", "--split", "train", "--json"]));
    workshop.succeed(&["render", "run", "--split", "train", "-o", "views"]);
    let config = String::from_utf8(workshop.read("run/config.toml")).expect("text");
    std::fs::write(
        workshop.path("run/config.toml"),
        config.replace("refine-poses = true", "refine-poses = false"),
    )
    .expect("write");
    let before = psnr(&workshop.succeed(&["eval", "run", "--split", "train", "--json"]));
    assert!(refined > before, "{refined} dB with the refined poses, {before} dB with the given ones");
}

#[test]
fn a_second_interrupt_ends_the_program_at_once_with_nothing_half_written() {
    let workshop = TestFolder::trained();
    let arguments =
        ["render", "run/splats.ply", "--orbit", "50", "--size", "4000x3000", "-o", "big", "--threads", "1"];
    let child = workshop.start(&arguments);
    wait_until("it begins", || workshop.path("big").is_dir());
    let pid = Pid::from_child(&child);
    for _ in 0..2 {
        kill_process(pid, Signal::INT).expect("the signal is sent");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let finished = ProcessResult::new(&arguments, child.wait_with_output().expect("wait"));
    assert_eq!(finished.code, 130, "{finished:?}");
    // A temporary file may remain, as after a kill; files with their final name are complete.
    for entry in std::fs::read_dir(workshop.path("big")).expect("folder") {
        let entry = entry.expect("entry");
        if !entry.file_name().to_string_lossy().starts_with(".tmp-") {
            let bytes = std::fs::read(entry.path()).expect("read");
            assert!(bytes.ends_with(b"IEND\xae\x42\x60\x82"), "{entry:?}");
        }
    }
}

/// A dataset whose images have these names, and a short run on it in `run`.
fn trained_on(names: &[&str]) -> TestFolder {
    let workshop = TestFolder::with_data();
    std::fs::create_dir_all(workshop.path("ds/images/sub")).expect("a folder");
    let mut frames = Vec::new();
    for (k, name) in names.iter().enumerate() {
        let name = name.replace("DS", workshop.path("ds").to_str().expect("a name"));
        let picture = workshop.read(&format!("data/images/view_00{k}.png"));
        std::fs::write(workshop.path("ds").join(&name), picture).expect("a picture");
        let matrix = [
            [1.0, 0.0, 0.0, 0.1 * k as f64],
            [0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 4.0],
            [0.0, 0.0, 0.0, 1.0],
        ];
        frames.push(serde_json::json!({ "file_path": name, "transform_matrix": matrix }));
    }
    let data = serde_json::json!({ "w": 32, "h": 24, "fl_x": 30.0, "fl_y": 30.0, "cx": 16.0, "cy": 12.0, "frames": frames });
    std::fs::write(workshop.path("ds/transforms.json"), data.to_string()).expect("a data set");
    workshop.succeed(&["train", "ds", "-o", "run", "--steps", "2", "-q", "--initial-splats", "200"]);
    workshop
}

/// Names of the images below a folder.
fn pictures_in(folder: &std::path::Path) -> Vec<String> {
    files_below(folder).into_iter().map(|(name, _)| name.to_str().expect("a name").to_owned()).collect()
}

#[test]
fn names_of_pictures_choose_no_place() {
    let names = ["DS/images/a.png", "images/../images/b.png", "./images/sub/c.png", "images/d.png"];
    let workshop = trained_on(&names);
    let before = pictures_in(&workshop.path("ds"));
    let pictures: Vec<_> = before.iter().map(|name| workshop.read(&format!("ds/{name}"))).collect();
    // Only --force may replace a photograph.
    let rendered = workshop.succeed(&["render", "run", "--split", "all", "-o", "out", "--force"]);
    assert_eq!(rendered.stdout, "4 images in out\n");
    assert_eq!(pictures_in(&workshop.path("out")).len(), 4);
    assert_eq!(pictures_in(&workshop.path("ds")), before);
    for (name, picture) in before.iter().zip(&pictures) {
        assert!(workshop.read(&format!("ds/{name}")) == *picture, "{name}");
    }
}

#[test]
fn another_dataset_is_accepted_by_its_own_word_and_not_by_force() {
    let workshop = trained_on(&["images/a.png", "images/b.png", "images/c.png"]);
    let picture = workshop.read("data/images/view_004.png");
    std::fs::write(workshop.path("ds/images/b.png"), picture).expect("another picture");
    let looks: [&[&str]; 2] =
        [&["render", "run", "--split", "all", "-o", "out"], &["eval", "run", "-o", "seen"]];
    for look in looks {
        for force in [&[][..], &["--force"]] {
            let refused = workshop.run(&[look, force].concat());
            assert_eq!(refused.code, 2, "{refused:?}");
            assert!(refused.stderr.contains("not the dataset of this run"), "{refused:?}");
            assert!(refused.stderr.ends_with(", or add --accept-changed-data\n"), "{refused:?}");
        }
        let accepted = workshop.succeed(&[look, &["--accept-changed-data"]].concat());
        assert!(accepted.stderr.contains("not the dataset of this run"), "{accepted:?}");
    }
    let clean = ["clean", "run", "-o", "clean.ply", "--force"];
    assert!(workshop.run(&clean).stderr.contains("or add --accept-changed-data"));
}

#[test]
fn pictures_that_differ_in_their_ending_only_are_all_rendered() {
    let workshop = trained_on(&["images/a.jpg", "images/a.png", "images/b.png", "images/b_alpha.png"]);
    let all = ["render", "run", "--split", "all", "-o", "out", "--alpha", "--depth", "npy"];
    assert_eq!(workshop.succeed(&all).stdout, "4 images in out\n");
    let made = pictures_in(&workshop.path("out"));
    assert_eq!(made.len(), 12, "{made:?}");
    for name in ["a.jpg.png", "a.png.png", "a.png_depth.npy", "b.png", "b_alpha.png", "b_alpha_2.png"] {
        assert!(made.iter().any(|path| path.ends_with(&format!("images/{name}"))), "{name}: {made:?}");
    }
    // All files that would be replaced are reported before rendering starts.
    for taken in ["a.png_alpha.png", "b_depth.npy"] {
        std::fs::remove_dir_all(workshop.path("out")).expect("remove");
        std::fs::create_dir_all(workshop.path("out/images")).expect("a folder");
        std::fs::write(workshop.path("out/images").join(taken), "mine").expect("write");
        let refused = workshop.run(&all);
        assert!(refused.code == 2 && refused.stderr.contains(taken), "{refused:?}");
        assert_eq!(pictures_in(&workshop.path("out")), [format!("images/{taken}")]);
    }
}

#[test]
fn an_evaluation_replaces_what_it_wrote_before_and_nothing_of_others() {
    let workshop = TestFolder::trained();
    for split in ["test", "train", "train", "test"] {
        workshop.succeed(&["eval", "run", "--split", split, "-q"]);
        workshop.succeed(&["eval", "run", "--split", split, "-o", "seen", "-q"]);
    }
    for theirs in ["metrics.json", "contact_sheet.png"] {
        let _ = std::fs::remove_dir_all(workshop.path("theirs"));
        std::fs::create_dir(workshop.path("theirs")).expect("a folder");
        std::fs::write(workshop.path("theirs").join(theirs), "mine").expect("write");
        let refused = workshop.run(&["eval", "run", "-o", "theirs"]);
        assert!(refused.code == 2 && refused.stderr.contains("add --force"), "{refused:?}");
        assert_eq!(pictures_in(&workshop.path("theirs")), [theirs]);
        workshop.succeed(&["eval", "run", "-o", "theirs", "--force", "-q"]);
    }
}

#[test]
fn cleaning_writes_another_file_and_tells_what_it_changed() {
    let workshop = TestFolder::trained();
    let before = workshop.read("run/splats.ply");
    let cleaned = workshop.succeed(&["clean", "run", "-o", "clean.ply", "--json"]).json();
    let splats = |path: &str| workshop.succeed(&["info", path, "--json"]).json()["count"].as_u64();
    let removed = cleaned["removed"].as_u64().expect("a number");
    assert_eq!(splats("clean.ply"), Some(cleaned["splats"].as_u64().expect("a number") - removed));
    assert_eq!(splats("run/splats.ply"), cleaned["splats"].as_u64());
    assert_eq!(cleaned["before"]["images"], cleaned["after"]["images"]);
    assert!(cleaned["after"]["haze"].is_number() && cleaned["after"]["per_image"][0]["psnr"].is_number());
    assert!(workshop.read("run/splats.ply") == before, "the run stays as it is");
    // Written files are only replaced with --force.
    let again = workshop.run(&["clean", "run", "-o", "clean.ply"]);
    assert!(again.code == 2 && again.stderr.contains("--force"), "{again:?}");
    let forced = workshop.succeed(&["clean", "run", "-o", "clean.ply", "--force"]);
    assert!(forced.stdout.contains("PSNR") && forced.stdout.contains("haze"), "{forced:?}");
}
