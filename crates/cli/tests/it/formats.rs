//! Splat formats on the command line: each is written by its name, read by its content, and used like any other.

use serde_json::Value;

use crate::support::TestFolder;

/// A scene of `count` splats on a spiral, the last one far out; SH of degree 1.
fn scene(count: usize) -> String {
    let mut text = format!("ply\nformat ascii 1.0\nelement vertex {count}\n");
    let names = "x y z f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3";
    let rest = (0..9).map(|k| format!("f_rest_{k}"));
    for name in names.split(' ').map(str::to_owned).chain(rest) {
        text += &format!("property float {name}\n");
    }
    text += "end_header\n";
    for i in 0..count {
        let t = i as f64 * 0.3;
        let far = if i + 1 == count { 50_000.0 } else { 1.0 };
        let mean = [far * t.cos(), t / count as f64, t.sin()];
        text += &format!(
            "{} {} {} 0.4 -0.2 0.1 {} -4 -3.5 -11 1 0.1 0.2 -0.3",
            mean[0],
            mean[1],
            mean[2],
            t.sin() * 3.0
        );
        text += &format!("{}\n", " 0.13".repeat(9));
    }
    text
}

#[test]
fn every_format_is_written_by_its_name_and_read_by_its_content() {
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("a.ply"), scene(300)).expect("write");
    let info = |file: &str| workshop.succeed(&["info", file, "--json"]).json();
    let files = [
        ("b.compressed.ply", "compressed-ply", Value::Null),
        ("b.splat", "splat", Value::Null),
        ("b.spz", "spz", "4".into()),
        ("b.sog", "sog", "2".into()),
        ("b.glb", "glb", "2.0, binary".into()),
    ];
    for (file, format, version) in files {
        let converted = workshop.succeed(&["convert", "a.ply", file, "--json"]).json();
        let output = &converted["output"];
        assert_eq!((&converted["kind"], &output["format"]), (&"convert".into(), &Value::from(format)));
        assert_eq!(output["bytes"], workshop.read(file).len());
        let facts = info(file);
        assert_eq!(
            (&facts["format"], &facts["version"], &facts["count"]),
            (&format.into(), &version, &300.into())
        );
        // Files are recognised by content, not by name, and writing twice gives the same bytes.
        std::fs::copy(workshop.path(file), workshop.path("named.ply")).expect("copy");
        assert_eq!(info("named.ply"), facts);
        workshop.succeed(&["convert", "a.ply", "again", "--format", format, "--force", "-q"]);
        assert!(workshop.read("again") == workshop.read(file), "{file}");
        let back = format!("{format}.ply");
        workshop.succeed(&["convert", file, &back]);
        assert_eq!(info(&back)["count"], 300);
        let pictures = ["render", file, "--orbit", "1", "-o", format, "--width", "40", "--height", "30"];
        workshop.succeed(&pictures);
    }
    // One distant splat does not dominate the reported bounds of the others.
    let facts = info("a.ply");
    assert!(
        facts["bounds"]["max"][0].as_f64().expect("a number").abs() > 100.0
            || facts["bounds"]["min"][0].as_f64().expect("a number") < -100.0
    );
    assert!(facts["middle"]["max"][0].as_f64().expect("a number") <= 1.0);
    assert_eq!(
        (&facts["mode"], &facts["dropped"], &facts["repaired"]),
        (&"default".into(), &0.into(), &0.into())
    );
}

#[test]
fn what_a_format_does_not_hold_is_said() {
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("a.ply"), scene(300)).expect("write");
    let finished = workshop.succeed(&["convert", "a.ply", "b.spz"]);
    let clipped = "clipped to the range of the format: log scale below -10 (300 splats)";
    assert!(finished.stderr.contains(clipped), "{finished:?}");
    assert!(finished.stderr.contains("b.spz: positions: scene to "), "{finished:?}");
    let finished = workshop.succeed(&["convert", "a.ply", "b.splat"]);
    assert!(finished.stderr.contains("not stored: SH above degree 0"), "{finished:?}");
    let object = workshop.succeed(&["convert", "a.ply", "c.spz", "--spz-version", "3", "--json"]).json();
    assert_eq!(object["output"]["clipped"]["log scale below -10"], 300);

    // Version 3 names no axes: the assumed ones are reported, and others can be selected.
    let frame = |object: &Value| object["frame"].as_str().expect("a frame").to_owned();
    let assumed = workshop.succeed(&["info", "c.spz", "--json"]).json();
    assert_eq!(
        (assumed["version"].as_str(), frame(&assumed)),
        (Some("3"), "as is (assumed; the file does not specify them)".to_owned())
    );
    let finished = workshop.succeed(&["convert", "c.spz", "d.ply", "--spz-frame", "rub", "--json"]);
    assert_eq!(frame(&finished.json()["input"]), "RUB, as requested");
    assert!(finished.stderr.contains("c.spz: axes: RUB, as requested"), "{finished:?}");
    let named = workshop.succeed(&["info", "b.spz", "--json"]).json();
    assert_eq!(frame(&named), "RDF, as the file says");
    // Other SH bits give another file.
    workshop.succeed(&["convert", "a.ply", "e.spz", "--sh-bits", "8,8"]);
    assert!(workshop.read("e.spz") != workshop.read("b.spz"));
}

#[test]
fn a_streamed_sog_is_a_folder_that_every_command_reads() {
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("a.ply"), scene(300)).expect("write");
    let converted =
        workshop.succeed(&["convert", "a.ply", "city/lod-meta.json", "--levels", "2", "--json"]).json();
    let facts = workshop.succeed(&["info", "city", "--json"]).json();
    assert_eq!(
        (&facts["format"], &facts["version"], &facts["count"]),
        (&"streamed-sog".into(), &"1".into(), &300.into())
    );
    assert_eq!(facts["levels"], serde_json::json!([300, 150]));
    // All of its files.
    let bytes = converted["output"]["bytes"].as_f64().expect("a number");
    let shown = workshop.succeed(&["info", "city"]).stdout;
    assert!(shown.contains(&format!("streamed-sog 1, {:.1} KiB", bytes / 1024.0)), "{bytes}: {shown}");
    assert!(shown.contains("2: 300 | 150 splats"), "{shown}");
    workshop.succeed(&["convert", "city", "b.ply"]);
    assert_eq!(workshop.succeed(&["info", "b.ply", "--json"]).json()["count"], 300);
    let coarse = workshop.succeed(&["info", "city/1_0/meta.json", "--json"]).json();
    assert_eq!(coarse["count"], 150);

    for (options, line) in [
        (["city/lod-meta.json"].as_slice(), "city/lod-meta.json"),
        (&["new/lod-meta.json", "--report"], "--report: has no effect from PLY to streamed SOG"),
        (&["c.sog", "--levels", "2"], "--levels: has no effect from PLY to SOG"),
        (&["new/city.json", "--format", "streamed-sog"], "expected lod-meta.json in a folder of its own"),
    ] {
        let refused = workshop.run(&[&["convert", "a.ply"], options].concat());
        assert!(refused.code == 2 && refused.stderr.contains(line), "{options:?}: {refused:?}");
        assert!(!workshop.path("new").exists(), "{options:?}");
    }
}

/// The entries of a zip without compression, as Gausset writes it.
fn unpack(bytes: &[u8], folder: &std::path::Path) {
    std::fs::create_dir(folder).expect("folder");
    let number = |at: usize, bytes_of: &[u8]| u16::from_le_bytes([bytes_of[at], bytes_of[at + 1]]) as usize;
    let mut rest = bytes;
    while rest.starts_with(b"PK\x03\x04") {
        let (length, name, extra) =
            (number(18, rest) | number(20, rest) << 16, number(26, rest), number(28, rest));
        let begin = 30 + name + extra;
        let file = std::str::from_utf8(&rest[30..30 + name]).expect("a name");
        std::fs::write(folder.join(file), &rest[begin..begin + length]).expect("write");
        rest = &rest[begin + length..];
    }
}

#[test]
fn a_folder_with_the_parts_of_a_sog_is_splats_wherever_it_is_named() {
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("a.ply"), scene(300)).expect("write");
    workshop.succeed(&["convert", "a.ply", "a.sog"]);
    unpack(&workshop.read("a.sog"), &workshop.path("parts"));
    let packed = workshop.succeed(&["info", "a.sog", "--json"]).json();
    for path in ["parts", "parts/meta.json"] {
        assert_eq!(workshop.succeed(&["info", path, "--json"]).json(), packed);
        assert!(workshop.succeed(&["info", path]).stdout.contains("sog 2, "));
        let finished = workshop.run(&["train", path, "-o", "run"]);
        let line = "found splats, SOG); see them with `gausset view`, start from them with --init";
        assert!(finished.code == 2 && finished.stderr.contains(line), "{finished:?}");
    }
    let render = ["render", "parts", "--orbit", "1", "--width", "40", "--height", "30", "-o", "views"];
    workshop.succeed(&render);
    workshop.succeed(&["convert", "parts", "b.ply"]);
    assert_eq!(workshop.succeed(&["info", "b.ply", "--json"]).json()["count"], 300);
}

#[test]
fn a_report_and_a_wanted_quality_are_told_to_people_and_programs() {
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("a.ply"), scene(300)).expect("write");
    let convert =
        ["convert", "a.ply", "b.spz", "--report", "--drop-far", "20", "--min-opacity", "0.1", "--json"];
    let finished = workshop.succeed(&convert);
    let object = finished.json();
    assert_eq!(object["output"]["removed"]["far"], 1);
    assert!(object["output"]["removed"]["faint"].as_u64().is_some_and(|count| count > 0));
    assert_eq!((&object["output"]["version"], &object["output"]["mode"]), (&"4".into(), &"default".into()));
    assert_eq!((&object["loss"]["views"], &object["loss"]["cameras"]), (&12.into(), &"around".into()));
    assert!(object["loss"]["psnr"].as_f64().is_some_and(|psnr| psnr > 30.0), "{object}");
    assert!(object["edits_loss"]["psnr"].is_number());
    assert!(finished.stderr.contains("b.spz: loss by the format: PSNR "), "{finished:?}");
    let refused = workshop.run(&["convert", "a.ply", "c.splat", "--min-psnr", "120", "--json"]);
    let line = refused.stderr.lines().last().unwrap_or_default();
    let object: Value = serde_json::from_str(line).expect("an object");
    assert_eq!((refused.code, &object["error"]["code"]), (2, &"convert-loss".into()));
    assert!(!workshop.path("c.splat").exists());
}
