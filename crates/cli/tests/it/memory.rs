//! `--max-memory` against measured memory: each input either stays within a tenth above the limit, or is refused before
//! it is loaded.

use gausset_core::Splats;
use gausset_io::atomic::{Disk, WriteOptions};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::splat::{self, SaveOptions, SplatFile};

use crate::limits::peak_of;
use crate::support::TestFolder;
use crate::viewer::{PageClient, RunningViewer};

/// The limit of every row.
const LIMIT_MIB: u64 = 256;
const MIB: u64 = 1 << 20;

/// Four images of one value in a folder, optionally with white masks; their cameras are side by side with the same
/// rotation.
struct Scene {
    pictures: [u32; 2],
    /// Bits of a grey pixel; 24 = eight bits for each colour.
    bits: u8,
    /// Side of the masks.
    mask: Option<u32>,
}

impl Scene {
    fn write(&self, workshop: &TestFolder, name: &str) {
        let [width, height] = self.pictures;
        let folder = workshop.path(name);
        for below in ["images", "masks/images"] {
            std::fs::create_dir_all(folder.join(below)).expect("a folder");
        }
        let picture = match self.bits {
            1 => one_bit_png(width, height),
            _ => {
                let pixels = vec![100; 3 * width as usize * height as usize];
                png(width, height, PngPixels::Rgb8(&pixels), &[]).expect("a picture")
            }
        };
        let mask = self.mask.map(|side| one_bit_png(side, side));
        let mut frames = Vec::new();
        for i in 0..4 {
            std::fs::write(folder.join(format!("images/{i}.png")), &picture).expect("written");
            if let Some(mask) = &mask {
                std::fs::write(folder.join(format!("masks/images/{i}.png")), mask).expect("written");
            }
            let x = 0.1 * f64::from(i);
            frames.push(format!(
                r#"{{"file_path": "images/{i}.png",
                    "transform_matrix": [[1, 0, 0, {x}], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]]}}"#
            ));
        }
        let (focal, frames) = (1.2 * f64::from(width), frames.join(","));
        let json = format!(
            r#"{{"camera_model": "PINHOLE", "fl_x": {focal}, "fl_y": {focal}, "cx": {}, "cy": {},
                "w": {width}, "h": {height}, "frames": [{frames}]}}"#,
            width / 2,
            height / 2
        );
        std::fs::write(folder.join("transforms.json"), json).expect("written");
    }
}

/// A white PNG of one bit a pixel: a few hundred kilobytes whatever its size.
fn one_bit_png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&vec![0xFF; width.div_ceil(8) as usize * height as usize]).expect("pixels");
    writer.finish().expect("an end");
    bytes
}

/// A copy of the tiny dataset with `points` points; without `are_there` only the length of their file is right.
fn write_points(workshop: &TestFolder, name: &str, count: u64, are_there: bool) {
    use std::io::Write;
    const RECORD: usize = 8 + 24 + 3 + 8 + 8;
    let mut copy = std::process::Command::new("cp");
    copy.args(["-r", "data", name]).current_dir(workshop.path("."));
    assert!(copy.status().expect("cp").success());
    let path = workshop.path(&format!("{name}/sparse/0/points3D.bin"));
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("created"));
    file.write_all(&count.to_le_bytes()).expect("written");
    // In reverse order, the worst case for a reader.
    for id in (1..=count).rev().take(if are_there { count as usize } else { 0 }) {
        let mut record = [0; RECORD];
        record[..8].copy_from_slice(&id.to_le_bytes());
        for (axis, place) in [id % 200, id / 200 % 200, id / 40_000].into_iter().enumerate() {
            let value = place as f64 / 100.0 - 1.0;
            record[8 + 8 * axis..16 + 8 * axis].copy_from_slice(&value.to_le_bytes());
        }
        file.write_all(&record).expect("written");
    }
    let file = file.into_inner().expect("written");
    file.set_len(8 + count * RECORD as u64).expect("as long as it should be");
}

/// A SOG of equal splats, which is a few kilobytes.
fn write_sog(workshop: &TestFolder, name: &str, count: usize) {
    let mut splats = Splats::zeros(0, count);
    splats.quats.fill([1.0, 0.0, 0.0, 0.0]);
    let options = (SaveOptions::default(), WriteOptions::default());
    splat::save(&Disk, &workshop.path(name), &SplatFile::new(splats), &options.0, &options.1)
        .expect("written");
}

/// Expected outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Must {
    Finish,
    /// Refused with code `memory` and this message.
    Refuse(&'static str),
}

#[test]
fn whatever_comes_in_the_memory_limit_holds_or_the_run_is_refused() {
    use Must::{Finish, Refuse};
    let workshop = TestFolder::with_data();
    for (name, pictures, bits, mask) in [
        ("masks", [400, 400], 24, Some(4096)),
        ("huge_masks", [400, 400], 24, Some(16_384)),
        ("views", [400, 400], 24, None),
        ("large", [3000, 3000], 24, None),
        ("huge", [12_000, 12_000], 1, None),
        ("wide", [840, 600], 24, None),
    ] {
        Scene { pictures, bits, mask }.write(&workshop, name);
    }
    write_points(&workshop, "points", 4_000_000, true);
    write_points(&workshop, "many_points", 6_000_000, false);
    write_sog(&workshop, "splats.sog", 700_000);
    let few = "--initial-splats 200 --max-splats 300";
    let small = &format!("{few} --max-resolution 64");
    let many = "--initial-splats 20000 --max-splats 20000";
    let wide = &format!("{many} --coarse-factor 1 --initial-scale 300");
    let rows = [
        ("masks of 17 megapixels", "masks", &**small, Finish),
        ("masks of 268 megapixels", "huge_masks", small, Refuse(".png (400x400 px) and its mask takes 768")),
        ("4 million points", "points", "--max-splats 1000", Finish),
        ("6 million points", "many_points", "--max-splats 1000", Refuse("points3D.bin: points: too many")),
        // A sixth of the limit would hold the splats, but not the images that they are decoded from.
        (
            "a SOG of 700,000 splats",
            "data",
            "--init splats.sog",
            Refuse("splats.sog: size: exceeds the memory limit"),
        ),
        ("20,000 splats", "views", many, Finish),
        ("20,000 splats over the whole view", "views", wide, Refuse("entries, would need")),
        ("pictures of 9 megapixels", "large", small, Finish),
        ("pictures of 144 megapixels", "huge", small, Refuse("megapixels fit): make the pictures smaller")),
        ("evaluation of 0.5 megapixels", "wide", few, Finish),
    ];
    let mut table = String::from("| input | peak, MiB | of 256 MiB | outcome |\n");
    for (number, (what, data, options, must)) in rows.into_iter().enumerate() {
        let command = format!(
            "train {data} -o run{number} --steps 4 --max-memory {LIMIT_MIB}MiB --threads 1 -q --json {options}"
        );
        let (peak, finished) = peak_of(&workshop, &command.split(' ').collect::<Vec<_>>());
        let mebibytes = peak as f64 / MIB as f64;
        let outcome = if finished.code == 2 { "refused" } else { "finished" };
        table += &format!("| {what} | {mebibytes:.0} | {:.2} | {outcome} |\n", mebibytes / LIMIT_MIB as f64);
        match must {
            Finish => assert_eq!(finished.code, 0, "{what}: {finished:?}"),
            Refuse(reason) => {
                assert_eq!(finished.code, 2, "{what}: {finished:?}");
                let line = finished.stderr.lines().last().unwrap_or_default();
                let error = &serde_json::from_str::<serde_json::Value>(line).expect("JSON")["error"];
                assert_eq!(error["code"], "memory", "{what}: {finished:?}");
                assert!(error["message"].as_str().is_some_and(|text| text.contains(reason)), "{error}");
                assert!(
                    peak < LIMIT_MIB * MIB / 2,
                    "{what} is refused before it is held: {mebibytes:.0} MiB"
                );
            }
        }
        assert!(peak <= LIMIT_MIB * MIB * 11 / 10, "{what}: {mebibytes:.0} MiB\n{table}");
    }
    println!("{table}");
}

#[test]
fn a_view_that_no_memory_holds_is_refused() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&["train", "data", "-o", "run", "--steps", "5", "-q"]);
    let path = |side: u32| {
        let camera = r#"{"camera_to_world": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 4, 0, 0, 0, 1], "fov": 50}"#;
        let text = format!(
            r#"{{"camera_type": "perspective", "render_width": {side}, "render_height": {side},
                "camera_path": [{camera}]}}"#
        );
        std::fs::write(workshop.path("path.json"), text).expect("written");
        workshop.run(&["render", "run", "--path", "path.json", "-o", "views"])
    };
    let refused = path(32_768);
    assert_eq!(refused.code, 2, "{refused:?}");
    let line =
        "path.json: camera frame_0000: 32768x32768 px are too many (expected at most 268435456 in all)";
    assert!(refused.stderr.contains(line), "{refused:?}");
    assert_eq!(path(64).code, 0);
}

/// GPU memory has its own limit: a run that exceeds it is refused before its first step with the number of splats that
/// would fit, otherwise it stays within the limit.
#[test]
fn a_gpu_keeps_to_its_own_limit_or_the_run_is_refused() {
    let workshop = TestFolder::with_data();
    let doctor = workshop.succeed(&["doctor", "--json"]).json();
    if doctor["chosen"].is_null() {
        let reason = doctor["reason"].as_str().unwrap_or_default().to_owned();
        return gausset_testkit::skip_for_gpu("a_gpu_keeps_to_its_own_limit_or_the_run_is_refused", &reason);
    }
    let train = |limit: &str, splats: &str| {
        let arguments = [
            "train",
            "data",
            "-o",
            "run",
            "--device",
            "gpu",
            "--max-gpu-memory",
            limit,
            "--max-splats",
            splats,
        ];
        workshop.run(&[&arguments[..], &["--steps", "10", "--force"]].concat())
    };
    let refused = train("64MiB", "1000000");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let line = refused.stderr.lines().last().unwrap_or_default();
    assert!(line.contains("--max-gpu-memory: the run would need about"), "{line}");
    let possible = line.split("lower --max-splats to ").nth(1).and_then(|rest| rest.split(' ').next());
    let possible = possible.unwrap_or_else(|| panic!("{line}"));
    let kept = train("64MiB", possible);
    assert_eq!(kept.code, 0, "{}", kept.stderr);
}

/// Peak resident size of a training of `data` with this limit, with a viewer.
fn peak_while_looked_at(
    workshop: &TestFolder,
    limit: &str,
    options: &str,
    look: impl FnOnce(&RunningViewer),
) -> u64 {
    let command = format!(
        "train {} --steps 100000 --max-memory {limit} --threads 1 --viewer=0 --viewer-share 0.9 --json -q",
        options
    );
    let shown = RunningViewer::start(workshop, &command.split(' ').collect::<Vec<_>>());
    look(&shown);
    let resident = gausset_compute::machine::resident_memory(Some(shown.child.id())).expect("a size");
    shown.end(Some(rustix::process::Signal::KILL));
    resident.peak
}

#[test]
fn the_memory_limit_holds_while_pages_look_that_never_read() {
    use serde_json::json;
    let workshop = TestFolder::with_data();
    let window = json!([4096, 2304, 3000, 3000, 2048, 1152]);
    let few = "data -o run --max-splats 1000";
    let peak = peak_while_looked_at(&workshop, "256MiB", few, |shown| {
        let mut mute: Vec<PageClient> = (0..7).map(|_| PageClient::connect(shown)).collect();
        for page in &mut mute {
            page.ask(1, &window, &json!({"what": "depth"}));
        }
        // Pages are served in turn: when one page has received a few frames, all others have as well.
        let mut page = PageClient::connect(shown);
        for id in 2..8 {
            page.ask(id, &window, &json!({"what": "depth", "ack": id - 1}));
            page.wait_for_frame(id);
        }
    });
    println!("8 pages of 9.4 megapixels, 7 of which never read: {} of 256 MiB", peak / MIB);
    assert!(peak <= 256 * MIB * 11 / 10, "{} MiB", peak / MIB);
}

#[test]
fn the_memory_limit_holds_while_thumbnails_and_photographs_are_made() {
    use serde_json::json;
    let workshop = TestFolder::empty();
    Scene { pictures: [5000, 5000], bits: 24, mask: None }.write(&workshop, "large");
    let small = "large -o run --initial-splats 200 --max-splats 300 --max-resolution 64";
    let peak = peak_while_looked_at(&workshop, "240MiB", small, |shown| {
        let mut page = PageClient::connect(shown);
        for round in 0..3 {
            for camera in 0..4 {
                let id = 100 + 4 * round + camera;
                page.send(&json!({"t": "photo", "id": id, "camera": camera, "side": 2000}));
                assert_eq!(shown.get(&format!("/thumb/{camera}")).0, 200);
                page.wait_for_frame(id);
                page.send(&json!({"t": "ack", "id": id}));
            }
        }
    });
    println!("thumbnails and photographs of 25 megapixels: {} of 240 MiB", peak / MIB);
    assert!(peak <= 240 * MIB * 11 / 10, "{} MiB", peak / MIB);
}

/// The GPU driver allocates host memory before the first step. It is counted, so a lower limit is refused.
#[test]
fn what_a_driver_takes_is_counted_by_the_memory_limit() {
    let workshop = TestFolder::with_data();
    let doctor = workshop.succeed(&["doctor", "--json"]).json();
    if doctor["chosen"].is_null() {
        let reason = doctor["reason"].as_str().unwrap_or_default().to_owned();
        return gausset_testkit::skip_for_gpu("what_a_driver_takes_is_counted_by_the_memory_limit", &reason);
    }
    let train = |mebibytes: u64| {
        let limit = format!("{mebibytes}MiB");
        let few = ["--max-splats", "1000", "--steps", "10", "--force", "-q", "--json"];
        let arguments = ["train", "data", "-o", "run", "--device", "gpu", "--max-memory", &limit];
        peak_of(&workshop, &[&arguments[..], &few].concat())
    };
    let (_, refused) = train(30);
    assert_eq!(refused.code, 2, "{refused:?}");
    // The smallest limit that the program accepts, in steps of 50 MiB.
    let mut fits = None;
    for mebibytes in (100..4000).step_by(50) {
        let (peak, finished) = train(mebibytes);
        if finished.code == 0 {
            fits = Some((mebibytes, peak));
            break;
        }
        assert!(finished.stderr.contains("--max-memory: the run would need about"), "{finished:?}");
    }
    let (limit, peak) = fits.expect("a limit that is enough");
    println!("a GPU: {} of {limit} MiB", peak / MIB);
    assert!(peak <= limit * MIB * 11 / 10, "{} of {limit} MiB", peak / MIB);
}
