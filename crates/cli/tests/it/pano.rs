//! `gausset pano` end to end.

use std::path::Path;

use gausset_core::RgbImage8;
use gausset_io::image::encode;
use serde_json::Value;

use crate::support::{ProcessResult, TestFolder, files_below, with_walk, write_walk};
#[cfg(target_os = "linux")]
use crate::support::{script, wait_until};

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn splitting_tells_scripts_what_it_did() {
    let workshop = with_walk(3);
    std::fs::write(workshop.path("walk/broken.jpg"), b"\xFF\xD8\xFF").expect("a file");
    let finished = workshop.run(&["pano", "split", "walk", "-o", "out", "--size", "64", "--json"]);
    assert_eq!(finished.code, 1, "{finished:?}");
    let result = json(&finished.stdout);
    assert_eq!((result["frames"].as_u64(), result["views"].as_u64()), (Some(3), Some(24)));
    assert_eq!(result["skipped"][0]["frame"], "broken");
    assert!(finished.stderr.contains("walk/broken.jpg: picture: "), "{}", finished.stderr);
    for path in ["out/pano.json", "out/pano.jsonl", "out/rig_config.json", "out/images/view07/p2.jpg"] {
        assert!(workshop.path(path).is_file(), "{path}");
    }
    let forecast = workshop.succeed(&[
        "pano",
        "split",
        "walk",
        "-o",
        "dry",
        "--layout",
        "dome16",
        "--dry-run",
        "--json",
    ]);
    assert_eq!(json(&forecast.stdout)["views"], 4 * 16);
    for (object, is_dry) in [(&result, None), (&json(&forecast.stdout), Some(true))] {
        assert_eq!((&object["schema"], &object["kind"]), (&1.into(), &"split".into()));
        assert_eq!(object["is_dry_run"].as_bool(), is_dry);
    }
    let ends = finished.stderr.lines().filter(|line| line.starts_with("frame 4/4")).count();
    assert_eq!(ends, 1, "{}", finished.stderr);
    assert!(!workshop.path("dry").exists());
}

/// Rows of the table of stages, which account for the whole time of all workers, as in the profile.
#[test]
fn a_split_says_where_its_time_went() {
    let workshop = with_walk(4);
    let split = ["pano", "split", "walk", "-o", "out", "--size", "400", "--threads", "2", "--json"];
    let result = json(&workshop.succeed(&[&split[..], &["--profile", "where"]].concat()).stdout);
    let times = &result["times"];
    let number = |value: &Value| value.as_f64().expect("a number");
    let stages = times["stages"].as_array().expect("stages");
    let wall = |name: &str| {
        let row = stages.iter().find(|row| row["stage"] == name).expect("a stage");
        number(&row["wall_s"])
    };
    let all: f64 = stages.iter().map(|row| number(&row["wall_s"])).sum();
    let workers = number(&times["workers"]) * number(&times["wall_s"]);
    assert_eq!(times["workers"], 2);
    assert!((all / workers - 1.0).abs() < 0.03, "{all} of {workers}: {times}");
    assert!(wall("remap") > 0.0 && wall("encode") > 0.0 && wall("decode") > 0.0, "{times}");
    assert!(wall("colour") < 0.01 * workers && wall("idle") < workers, "{times}");
    for row in stages {
        assert!(number(&row["cpu_s"]) <= number(&row["wall_s"]) + 0.02, "{row}");
    }
    let limit = result["limit"].as_str().expect("a limit");
    assert!(limit == "sync" || stages.iter().any(|row| row["stage"] == limit), "{limit}");
    let shown = workshop.succeed(&["profile", "show", "where"]).stdout;
    assert!(shown.contains("cut") && shown.contains("sync"), "{shown}");
    for (folder, verbosity) in [("again", &[][..]), ("told", &["-v"])] {
        let split = ["pano", "split", "walk", "-o", folder, "--size", "64"];
        let table = workshop.succeed(&[&split[..], verbosity].concat()).stdout;
        assert!(table.contains("limited by  "), "{table}");
        assert_eq!(table.contains("beside: sync"), folder == "told", "{table}");
    }
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    let workshop = with_walk(1);
    std::fs::create_dir(workshop.path("empty")).expect("a folder");
    std::fs::write(workshop.path("file"), b"x").expect("a file");
    let cases: [(&[&str], &str); 9] = [
        (&["pano", "split", "nothing", "-o", "o"], "gausset: nothing: folder: no such file or folder"),
        (&["pano", "split", "empty", "-o", "o"], "gausset: empty: frames: none found"),
        (&["pano", "split", "walk", "-o", "file"], "gausset: file: create folder: "),
        (
            &["pano", "split", "walk", "-o", "o", "--crop-bottom", "200"],
            "gausset: --crop-bottom: expected 0..90",
        ),
        (&["pano", "split", "walk", "-o", "o", "--fov", "300"], "gausset: --fov"),
        (&["pano", "split", "walk", "-o", "o", "--fps", "2"], "gausset: --fps"),
        (&["pano", "split", "walk", "-o", "o", "--layout", "ring9"], "gausset: --layout"),
        (&["pano", "align", "empty"], "gausset: empty/pano.json: file: "),
        (&["pano", "align", "walk", "--python", "/nonexistent/python"], "gausset: walk/pano.json"),
    ];
    for (arguments, start) in cases {
        let finished = workshop.run(arguments);
        assert_eq!(finished.code, 2, "{arguments:?} {finished:?}");
        assert!(finished.stderr.starts_with(start), "{arguments:?}: {}", finished.stderr);
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{}", finished.stderr);
    }
    assert!(!workshop.path("o").exists());
}

#[test]
fn a_split_that_is_killed_again_and_again_ends_as_if_it_never_was() {
    let workshop = with_walk(12);
    workshop.succeed(&["pano", "split", "walk", "-o", "whole", "--size", "96", "--layout", "dome16"]);
    for k in 0..4u64 {
        let mut child =
            workshop.start(&["pano", "split", "walk", "-o", "torn", "--size", "96", "--layout", "dome16"]);
        std::thread::sleep(std::time::Duration::from_millis(15 + 23 * k));
        // It may already have finished.
        let _ = child.kill();
        child.wait().expect("its end");
    }
    workshop.succeed(&["pano", "split", "walk", "-o", "torn", "--size", "96", "--layout", "dome16"]);
    let list = |name: &str| {
        let mut files = files_below(&workshop.path(name));
        let is_ours = |path: &Path| path.file_name().is_some_and(|n| !n.to_string_lossy().starts_with('.'));
        files.retain(|(path, _)| is_ours(path));
        files
    };
    assert!(list("torn") == list("whole"));
}

/// The letter of a process's state: `T` when it is stopped.
#[cfg(target_os = "linux")]
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(target_os = "linux")]
#[test]
fn a_split_can_be_paused_with_everything_it_started() {
    let workshop = with_walk(3);
    script(&workshop.path("mask"), "echo x >> count; sleep 0.4; echo x >> count");
    let arguments =
        ["pano", "split", "walk", "-o", "w", "--size", "32", "--threads", "1", "--mask-command", "./mask"];
    let child = workshop.start(&arguments);
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").arg(name).arg(child.id().to_string()).status();
        assert!(sent.is_ok_and(|s| s.success()));
    };
    let count = || std::fs::metadata(workshop.path("count")).map_or(0, |m| m.len());
    wait_until("the first mask is under way", || count() > 0);
    signal("-TSTP");
    wait_until("it is paused", || state(child.id()) == Some('T'));
    let before = count();
    std::thread::sleep(std::time::Duration::from_millis(700));
    // Without the stop, the script would have written its second line by now.
    assert_eq!(count(), before);
    signal("-CONT");
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(count(), 3 * 4);
}

/// A panic in a frame only skips the frame; unhandled, the panic hook would end the process with exit code 101.
#[cfg(debug_assertions)]
#[test]
fn a_frame_on_which_the_splitter_breaks_down_is_named_and_left_out() {
    let workshop = with_walk(3);
    let arguments = ["pano", "split", "walk", "-o", "w", "--size", "32", "--json"];
    let mut command = workshop.command(&arguments);
    let output = command.env("GAUSSET_REHEARSE_BREAKDOWN", "p1").output().expect("the program starts");
    let finished = ProcessResult::new(&arguments, output);
    assert_eq!(finished.code, 1, "{finished:?}");
    assert_eq!(json(&finished.stdout)["frames"], 2);
    let told = "walk/p1.jpg: picture: internal error while splitting (this is a rehearsal); please report it";
    assert!(finished.stderr.contains(told), "{}", finished.stderr);
    // The same command processes the frame.
    let again = workshop.succeed(&arguments);
    assert_eq!(json(&again.stdout)["frames"], 3);
}

#[test]
fn masks_of_other_frames_are_told() {
    let workshop = with_walk(1);
    std::fs::create_dir_all(workshop.path("theirs")).expect("a folder");
    let split = ["pano", "split", "walk", "-o", "o", "--size", "32", "--masks", "theirs"];
    let warned = workshop.succeed(&split).stderr;
    assert!(warned.contains("warning: theirs: no mask matches a frame"), "{warned}");
    // Nothing was found in any frame: what `gausset mask` leaves then.
    std::fs::write(workshop.path("theirs/masks.jsonl"), "").expect("a file");
    assert!(!workshop.succeed(&split).stderr.contains("warning"));
}

#[cfg(feature = "masks")]
#[test]
fn another_model_is_no_other_run_where_the_first_one_could_not_be_used() {
    let workshop = with_walk(2);
    std::fs::write(workshop.path("broken.onnx"), "no model").expect("a file");
    let run = ["pano", "run", "walk", "-o", "o", "--aligner", "own", "--mask-model", "broken.onnx"];
    let finished = workshop.run(&run);
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("broken.onnx: model: is not an ONNX model"), "{finished:?}");
    assert!(!workshop.path("o/pano_run.json").exists());
}

#[test]
fn a_panorama_that_does_not_fit_into_memory_is_named_with_what_would() {
    let workshop = TestFolder::empty();
    std::fs::create_dir(workshop.path("walk")).expect("a folder");
    // 8192x4096 px of one colour, 16 bits, grey: 64 MiB decoded, a file of some 100 KB.
    let pixels = vec![7u16; 8192 * 4096];
    let kind = encode::PngPixels::Grey16(&pixels);
    let png = encode::png(8192, 4096, kind, &[]).expect("a picture");
    std::fs::write(workshop.path("walk/p.png"), png).expect("a file");
    let split =
        |memory| workshop.run(&["pano", "split", "walk", "-o", "o", "--size", "64", "--max-memory", memory]);
    let refused = split("256MiB");
    assert_eq!(refused.code, 2, "{refused:?}");
    let line = refused.stderr.lines().last().expect("a line").to_owned();
    assert!(line.contains("walk/p.png: memory: cutting it takes "), "{line}");
    assert!(
        line.contains("raise --max-memory, or make it smaller: ") && line.contains("px of this kind fit"),
        "{line}"
    );
    let refused = split("1MiB");
    assert!(refused.stderr.starts_with("gausset: --max-memory: expected at least 64.0 MiB"), "{refused:?}");
}

#[test]
fn the_bench_keeps_its_contract() {
    let workshop = TestFolder::empty();
    let finished =
        workshop.succeed(&["bench", "pano", "--width", "256", "--frames", "1", "--passes", "1", "--json"]);
    let result = json(&finished.stdout);
    for key in ["views_per_s", "cpu_ms_per_view", "stages", "peak_bytes"] {
        assert!(!result[key].is_null(), "{key}");
    }
    // No ratio to a floor is reported, because a floor of another machine and workload would be meaningless.
    assert!(result["ratio_to_floor"].is_null());
    assert_eq!(result["stages"].as_array().map(Vec::len), Some(5));
}

#[test]
fn layouts_say_what_they_see_and_what_closes_their_hole() {
    let workshop = with_walk(1);
    let table = workshop.succeed(&["pano", "layouts"]).stdout;
    assert_eq!(table.lines().count(), 12, "{table}");
    let ring = table.lines().find(|line| line.starts_with("ring8 ")).expect("a line");
    assert!(ring.contains("69.78 %") && ring.contains("around the nadir"), "{ring}");
    let one = workshop.succeed(&["pano", "layouts", "ring8", "--full-sphere"]).stdout;
    assert!(one.contains("2 views added: view08 (yaw 0, pitch 90, roll 0), view09"), "{one}");
    let object = json(&workshop.succeed(&["pano", "layouts", "cube8", "--json"]).stdout);
    let layout = &object["layouts"][0];
    assert_eq!((object["schema"].as_u64(), layout["name"].as_str()), (Some(1), Some("cube8")));
    assert!((layout["share"].as_f64().expect("a number") - 0.8120).abs() < 5e-5);
    assert_eq!(layout["holes"].as_array().map(Vec::len), Some(2));
    // The same views are cut.
    let cut = ["pano", "split", "walk", "-o", "out", "--size", "32", "--layout", "ring4", "--full-sphere"];
    let finished = workshop.succeed(&cut);
    assert!(finished.stderr.contains("full sphere: 2 views added"), "{}", finished.stderr);
    assert!(workshop.path("out/images/view05/p0.jpg").is_file());
    let narrow = workshop.run(&["pano", "layouts", "ring4", "--fov", "5", "--full-sphere"]);
    assert_eq!(narrow.code, 2);
    assert!(
        narrow.stderr.starts_with("gausset: --full-sphere: more than 256 views of 5 degrees"),
        "{narrow:?}"
    );
}

/// An image of this size in one colour.
fn plain(path: &Path, [width, height]: [u32; 2]) {
    use gausset_io::image::encode::{PngPixels, png};
    let pixels = vec![90; (3 * width * height) as usize];
    std::fs::write(path, png(width, height, PngPixels::Rgb8(&pixels), &[]).expect("a PNG")).expect("a file");
}

#[test]
fn panoramas_become_cubes_and_cubes_panoramas() {
    let workshop = with_walk(3);
    let convert = |arguments: &[&str]| {
        let all: Vec<&str> = [&["pano", "convert"], arguments].concat();
        workshop.run(&all)
    };
    let done = convert(&["walk/p0.jpg", "cross.jpg", "--to", "cross", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let result = json(&done.stdout);
    assert_eq!((result["schema"].as_u64(), result["size"].clone()), (Some(1), serde_json::json!([256, 192])));
    // An existing file is kept without --force.
    let refused = convert(&["walk/p1.jpg", "cross.jpg", "--to", "cross"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(convert(&["walk/p0.jpg", "cross.jpg", "--to", "cross", "--force"]).code, 0);
    // A cross is recognised by its aspect ratio for splits and previews; its views equal those of its panorama.
    workshop.succeed(&["pano", "split", "cross.jpg", "-o", "views", "--layout", "cube6", "-q"]);
    assert!(workshop.path("views/images/view05/cross.jpg").is_file());
    workshop.succeed(&["pano", "preview", "cross.jpg", "-o", "preview.png"]);
    // A folder with six faces per frame, converted there and back; finished frames are kept, missing ones recreated.
    let faces = ["walk", "faces", "--to", "faces", "--format", "png", "--size", "32"];
    assert_eq!(convert(&faces).code, 0);
    let up = workshop.path("faces/p1_up.png");
    let bytes = std::fs::read(&up).expect("a face");
    std::fs::remove_file(&up).expect("a face");
    let again = convert(&[&faces[..], &["--json"]].concat());
    assert_eq!(json(&again.stdout)["resumed"], 2, "{again:?}");
    assert_eq!(std::fs::read(&up).expect("a face"), bytes);
    let back = convert(&["faces", "back", "--to", "equirect", "--dry-run", "--json"]);
    assert_eq!(
        (json(&back.stdout)["frames"].clone(), json(&back.stdout)["size"].clone()),
        (3.into(), serde_json::json!([128, 64]))
    );
    assert!(!workshop.path("back").exists());
    assert_eq!(convert(&["faces", "back", "--to", "equirect"]).code, 0);
    assert!(workshop.path("back/p2.jpg").is_file());
    workshop.succeed(&["pano", "split", "faces", "-o", "of-faces", "--size", "32", "-q"]);
}

#[test]
fn cubes_that_fit_nothing_are_one_line_each() {
    let workshop = with_walk(1);
    for folder in ["mixed", "set", "alpha"] {
        std::fs::create_dir(workshop.path(folder)).expect("a folder");
    }
    plain(&workshop.path("photo.png"), [96, 64]);
    plain(&workshop.path("square.png"), [64, 64]);
    plain(&workshop.path("odd.png"), [100, 77]);
    plain(&workshop.path("mixed/a.png"), [128, 64]);
    plain(&workshop.path("mixed/b.png"), [128, 96]);
    for face in ["right", "left", "up", "down", "front"] {
        plain(&workshop.path(&format!("set/x_{face}.png")), [64, 64]);
    }
    let rgba = vec![80; 4 * 128 * 64];
    let png = encode::png(128, 64, encode::PngPixels::Rgba8(&rgba), &[]);
    std::fs::write(workshop.path("alpha.png"), png.expect("a PNG")).expect("a file");
    let deep = vec![3000u16; 128 * 64];
    let png = encode::png(128, 64, encode::PngPixels::Grey16(&deep), &[]);
    std::fs::write(workshop.path("deep.png"), png.expect("a PNG")).expect("a file");
    let cases: [(&[&str], &str); 12] = [
        (
            &["photo.png", "o.png", "--to", "equirect"],
            "photo.png: picture: 96x64 px may be a strip of 3x2 faces, or a photograph (expected a panorama of 2:1); use --from strip if it is one",
        ),
        (
            &["square.png", "o.png", "--to", "equirect"],
            "square.png: picture: 64x64 px may be a face of a cube, or a stereo pair",
        ),
        (
            &["odd.png", "o.png", "--to", "equirect", "--from", "cross"],
            "odd.png: picture: 100x77 px is not a cross (expected 4 by 3 or 3 by 4 square faces)",
        ),
        (
            &["odd.png", "o.png", "--to", "equirect", "--from", "strip"],
            "odd.png: picture: 100x77 px is not a strip",
        ),
        (
            &["mixed", "o", "--to", "strip"],
            "mixed/b.png: picture: 128x96 px, but a.png has 128x64 (expected one shape in a folder); move one of them out",
        ),
        (
            &["set", "o", "--to", "equirect"],
            "set: frames: x_back is missing (expected six faces: right, left, up, down, front, back)",
        ),
        (&["alpha.png", "o.png", "--to", "cross"], "alpha.png: picture: has alpha (expected none)"),
        (&["deep.png", "o.png", "--to", "cross"], "deep.png: picture: has 16 bits per sample (expected 8)"),
        (
            &["walk/p0.jpg", "o.png", "--to", "equirect", "--from-faces", "rludfb"],
            "--from-faces, --from-turns: have no effect without a strip",
        ),
        (&["walk/p0.jpg", "o.png", "--to", "cross", "--size", "33"], "--size: expected an even number of px"),
        (&["walk/p0.jpg", "o", "--to", "cross"], "o: expected a name that ends with .jpg or .png"),
        (&["walk/p0.jpg", "o.png", "--to", "cross", "--quality", "80"], "--quality: has no effect on PNG"),
    ];
    for (arguments, start) in cases {
        let all: Vec<&str> = [&["pano", "convert"], arguments].concat();
        let finished = workshop.run(&all);
        assert_eq!(finished.code, 2, "{arguments:?} {finished:?}");
        assert!(
            finished.stderr.starts_with(&format!("gausset: {start}")),
            "{arguments:?}: {}",
            finished.stderr
        );
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{}", finished.stderr);
    }
    assert!(!workshop.path("o").exists() && !workshop.path("o.png").exists());
}

#[test]
fn colours_are_changed_alike_in_views_previews_and_conversions() {
    let workshop = with_walk(1);
    std::fs::write(workshop.path("warm.cube"), "LUT_1D_SIZE 2\n0.1 0 0\n1 0.9 0.8\n").expect("a LUT");
    let look = ["--look", "exposure=-0.5,saturation=-100", "--lut", "warm.cube"];
    workshop.succeed(&[&["pano", "split", "walk", "-o", "out", "--size", "32", "-q"], &look[..]].concat());
    let manifest = json(&String::from_utf8(workshop.read("out/pano.jsonl")).expect("a manifest"));
    let colours = manifest["colours"].as_str().expect("colours");
    assert!(colours.starts_with("exposure=-0.5,saturation=-100,lut="), "{colours}");
    let preview = ["pano", "preview", "walk/p0.jpg", "-o"];
    std::fs::write(workshop.path("plain.png"), b"theirs").expect("a file");
    let refused = workshop.run(&[&preview[..], &["plain.png"]].concat());
    assert_eq!((refused.code, refused.stderr.lines().count()), (2, 1), "{refused:?}");
    assert!(refused.stderr.starts_with("gausset: plain.png: output: exists already"), "{refused:?}");
    workshop.succeed(&[&preview[..], &["plain.png", "--force"]].concat());
    workshop.succeed(&[&preview[..], &["graded.png"], &look].concat());
    let convert = ["pano", "convert", "walk/p0.jpg", "graded.jpg", "--to", "cross"];
    workshop.succeed(&[&convert[..], &look].concat());
    let mean = |name: &str| {
        let picture = gausset_io::image::decode(&workshop.read(name)).expect(name);
        let sum = |c: usize| picture.rgb.iter().skip(c).step_by(3).map(|&v| f64::from(v)).sum::<f64>();
        [sum(0), sum(1), sum(2)].map(|sum| 3.0 * sum / picture.rgb.len() as f64)
    };
    let (plain, graded) = (mean("plain.png"), mean("graded.png"));
    assert!(graded[0] > graded[2] + 15.0 && graded[1] < plain[1], "{plain:?} {graded:?}");
}

/// A dual-fisheye frame, red in front and green behind, is shown as a panorama.
#[test]
fn a_preview_of_two_circles_is_a_panorama() {
    let workshop = TestFolder::empty();
    let (width, height) = (256usize, 128usize);
    let mut data = vec![0u8; 3 * width * height];
    for (at, pixel) in data.chunks_exact_mut(3).enumerate() {
        let (x, y) = ((at % width) as f64 + 0.5, (at / width) as f64 + 0.5);
        let circle = usize::from(x > 128.0);
        if (x - 64.0 - 128.0 * circle as f64).hypot(y - 64.0) <= 62.0 {
            pixel[circle] = 200;
        }
    }
    let png = encode::png_rgb8(&RgbImage8 { width: 256, height: 128, data }).expect("PNG");
    std::fs::write(workshop.path("two.png"), png).expect("write");
    let lens = |cx: u32, yaw: u32| {
        format!(r#"{{"cx": {cx}, "cy": 64, "radius": 60, "half_angle": 95, "yaw": {yaw}}}"#)
    };
    let lens = format!(r#"{{"width": 256, "height": 128, "lenses": [{}, {}]}}"#, lens(64, 0), lens(192, 180));
    std::fs::write(workshop.path("lens.json"), lens).expect("write");
    workshop.succeed(&[
        "pano",
        "preview",
        "two.png",
        "--lens",
        "lens.json",
        "--layout",
        "ring4",
        "-o",
        "p.png",
    ]);
    let sheet = gausset_io::image::decode(&workshop.read("p.png")).expect("PNG");
    let pixel = |x: u32, y: u32| {
        let at = 3 * (y * sheet.width + x) as usize;
        [sheet.rgb[at], sheet.rgb[at + 1], sheet.rgb[at + 2]].map(|c| c > 60)
    };
    assert_eq!(sheet.width, 1536);
    assert_eq!(pixel(768, 400), [true, false, false], "in front");
    assert_eq!((pixel(20, 400), pixel(1516, 400)), ([false, true, false], [false, true, false]), "behind");
}

#[test]
fn frames_that_were_made_with_other_options_are_replaced_by_force_only() {
    let workshop = with_walk(2);
    let cases: [(&[&str], &str, &str); 2] = [
        (&["pano", "split", "walk", "-o", "views", "-q", "--size"], "views/images/view00/p1.jpg", "views"),
        (&["pano", "convert", "walk", "nets", "-q", "--to", "cross", "--size"], "nets/p1.jpg", "nets"),
    ];
    for (command, made, folder) in cases {
        let sized = |size: &'static str| [command, &[size]].concat();
        workshop.succeed(&sized("32"));
        let before = workshop.read(made);
        workshop.succeed(&sized("32"));
        let refused = workshop.run(&sized("48"));
        assert_eq!(refused.code, 2, "{refused:?}");
        let start = format!("gausset: {folder}: made with other options");
        assert!(refused.stderr.starts_with(&start) && refused.stderr.contains("--force"), "{refused:?}");
        assert!(workshop.read(made) == before, "{command:?}");
        workshop.succeed(&[&sized("48")[..], &["--force"]].concat());
        assert!(workshop.read(made) != before, "{command:?}");
        // The same command processes new and changed frames.
        std::fs::copy(workshop.path("walk/p0.jpg"), workshop.path("walk/p1.jpg")).expect("another frame");
        workshop.succeed(&sized("48"));
        write_walk(&workshop.path("walk"), 2);
    }
}
