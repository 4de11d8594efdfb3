//! Memory of a split against its budget: the estimates from headers are compared with measurements, in separate
//! processes.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "the children tell what they measured")]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_jpeg::encode_planes;
use gausset_pano::cutter::Format;
use gausset_pano::frames::list_frames;
use gausset_pano::layout::Layout;
use gausset_pano::load::{ImageLimits, estimate_memory};
use gausset_pano::split::{OnError, SplitError, SplitSettings, WorkerSettings, split};
use gausset_scenes::panorama::detailed;
use image::{DynamicImage, ImageBuffer, ImageFormat};

const WIDTH: u32 = 4096;
const HEIGHT: u32 = 2048;
const MIB: f64 = 1024.0 * 1024.0;

/// File kind, and whether frames have a mask.
const KINDS: [(&str, bool); 8] = [
    ("own.jpg", false),
    ("own.jpg", true),
    ("grey.jpg", false),
    ("rgb8.png", false),
    ("rgba16.png", true),
    ("grey16.png", false),
    ("rgb8.tif", false),
    ("rgba16.tif", false),
];

fn write(path: &Path) {
    let ramp = |x: u32, y: u32, c: u32| ((x >> 4) + (y >> 3) + 40 * c) & 0xFF;
    let narrow = |x, y, c| ramp(x, y, c) as u8;
    let wide = |x, y, c| (ramp(x, y, c) * 257) as u16;
    let name = path.file_name().unwrap().to_string_lossy().split_once('_').unwrap().1.to_owned();
    let picture: DynamicImage = match name.split('.').next().unwrap() {
        "own" => {
            let level = dispatch_level(SimdLevel::Auto).unwrap();
            let planes = detailed(WIDTH as usize, 0, &Pool::new(1));
            std::fs::write(path, encode_planes(WIDTH as usize, &planes, 90, level)).unwrap();
            return;
        }
        "grey" => ImageBuffer::from_fn(WIDTH, HEIGHT, |x, y| image::Luma([narrow(x, y, 0)])).into(),
        "rgb8" => {
            ImageBuffer::from_fn(WIDTH, HEIGHT, |x, y| image::Rgb([0, 1, 2].map(|c| narrow(x, y, c)))).into()
        }
        "grey16" => ImageBuffer::from_fn(WIDTH, HEIGHT, |x, y| image::Luma([wide(x, y, 0)])).into(),
        _ => ImageBuffer::from_fn(WIDTH, HEIGHT, |x, y| image::Rgba([0, 1, 2, 3].map(|c| wide(x, y, c))))
            .into(),
    };
    picture.save_with_format(path, ImageFormat::from_path(path).unwrap()).unwrap();
}

/// Current and peak memory of this process, bytes.
fn resident() -> [f64; 2] {
    let resident = gausset_compute::machine::resident_memory(None).unwrap();
    [resident.now as f64, resident.peak as f64]
}

fn settings() -> SplitSettings {
    SplitSettings::new(Layout::Ring4.views(512, 512, None), Format::Jpeg(90))
}

fn cut(input: &Path, budget: u64) -> Result<usize, SplitError> {
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let work =
        WorkerSettings { threads: 3, level, on_error: OnError::Stop, force: false, memory_budget: budget };
    let out = tempfile::tempdir().unwrap();
    let frames = list_frames(input).unwrap();
    split(&frames, &settings(), &work, out.path(), &AtomicBool::new(false), &mut |_| {}).map(|r| r.frames)
}

/// Runs a split in a separate process, started by the tests below.
#[test]
#[ignore = "a part of the other tests"]
fn child() {
    let Ok(input) = std::env::var("GAUSSET_TEST_INPUT") else { return };
    let budget = std::env::var("GAUSSET_TEST_BUDGET").unwrap().parse().unwrap();
    let [before, _] = resident();
    assert_eq!(cut(Path::new(&input), budget).unwrap(), 3);
    println!("grew by {} bytes", resident()[1] - before);
}

fn measured(input: &Path, budget: u64) -> f64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env("GAUSSET_TEST_INPUT", input)
        .env("GAUSSET_TEST_BUDGET", budget.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let grew = text.split("grew by ").nth(1).and_then(|rest| rest.split(' ').next());
    grew.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
fn frames_of_every_kind_stay_within_the_budget_or_are_refused() {
    for (kind, has_mask) in KINDS {
        let input = tempfile::tempdir().unwrap();
        let first = input.path().join(format!("0_{kind}"));
        write(&first);
        for k in 1..3 {
            std::fs::copy(&first, input.path().join(format!("{k}_{kind}"))).unwrap();
        }
        if has_mask {
            std::fs::create_dir(input.path().join("masks")).unwrap();
            let mask: ImageBuffer<image::Luma<u8>, Vec<u8>> =
                ImageBuffer::from_fn(WIDTH, HEIGHT, |x, _| image::Luma([if x < 1000 { 0 } else { 255u8 }]));
            for k in 0..3 {
                let stem = Path::new(kind).with_extension("png");
                mask.save(input.path().join(format!("masks/{k}_{}", stem.display()))).unwrap();
            }
        }
        let one = estimate_memory(&first, &ImageLimits::default()).unwrap();
        // An 8-bit grey PNG: decoded, possibly with alpha; the mask, its plane, and its halved copies.
        let mask = if has_mask { 5 * one.pixels } else { 0 };
        // One frame with the buffers of its views and the tables.
        let budget = one.peak_bytes + mask + (6 << 20);
        let grew = measured(input.path(), budget);
        println!(
            "{kind}{}: promised {:.0} MiB, measured {:.0} MiB",
            if has_mask { ", masked" } else { "" },
            budget as f64 / MIB,
            grew / MIB
        );
        assert!(grew <= 1.1 * budget as f64, "{kind}: {:.0} of {:.0} MiB", grew / MIB, budget as f64 / MIB);
        // The estimate is not too high: at least a third of it is used.
        assert!(grew >= budget as f64 / 3.0, "{kind}: {:.0} of {:.0} MiB", grew / MIB, budget as f64 / MIB);
        let refusal = cut(input.path(), one.peak_bytes / 2).unwrap_err().to_string();
        assert!(refusal.contains(&format!("_{kind}: memory: cutting it takes ")), "{refusal}");
        assert!(refusal.contains("px of this kind fit"), "{refusal}");
    }
}

#[test]
fn a_small_file_of_many_pixels_is_refused_before_it_is_decoded() {
    // 16384x8192 px of one colour: a small file with 400 MB of pixels.
    let input = tempfile::tempdir().unwrap();
    let path = input.path().join("bomb.tif");
    let strip = [0x81, 7].repeat(64 * 16_384 * 3 / 128);
    let strips = 8_192 / 64;
    let (data, lists) = (8 + 2 + 12 * 9 + 4, 8 + 2 + 12 * 9 + 4 + strip.len() as u32);
    let mut file = b"II*\0\x08\0\0\0\x09\0".to_vec();
    // Width, height, 3 x 8 bits, PackBits, RGB, offsets, samples, rows per strip, lengths.
    let entries = [
        (256, 4, 1, 16_384),
        (257, 4, 1, 8_192),
        (258, 3, 3, lists),
        (259, 3, 1, 32_773),
        (262, 3, 1, 2),
        (273, 4, strips, lists + 6),
        (277, 3, 1, 3),
        (278, 4, 1, 64),
        (279, 4, strips, lists + 6 + 4 * strips),
    ];
    for (tag, kind, count, value) in entries {
        file.extend([u16::to_le_bytes(tag), u16::to_le_bytes(kind)].concat());
        file.extend([u32::to_le_bytes(count), u32::to_le_bytes(value)].concat());
    }
    file.extend([0; 4]);
    file.extend(&strip);
    file.extend([8, 0, 8, 0, 8, 0]);
    // All strips are equal.
    file.extend((0..strips).flat_map(|_| u32::to_le_bytes(data)));
    file.extend((0..strips).flat_map(|_| u32::to_le_bytes(strip.len() as u32)));
    assert!(file.len() < 60_000);
    std::fs::write(&path, file).unwrap();
    let [_, before] = resident();
    let refusal = cut(input.path(), 256 << 20).unwrap_err().to_string();
    assert!(
        refusal.contains("bomb.tif: memory: cutting it takes 1.") && refusal.contains("GiB"),
        "{refusal}"
    );
    assert_eq!(estimate_memory(&path, &ImageLimits::default()).unwrap().pixels, 16_384 * 8_192);
    let grown = resident()[1] - before;
    assert!(grown < 32.0 * MIB, "{:.0} MiB", grown / MIB);
}
