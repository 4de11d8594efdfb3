//! Memory of conversions: they take no more than estimated, measured in separate processes.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "the children tell what they measured")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset::panos::convert::{PanoConvertResult, TargetProjection, convert};
use gausset::panos::{
    ColourOptions, FrameOptions, PanoConvertOptions, ProjectionOptions, SelectionOptions, SourceProjection,
};
use gausset::{Event, Failure, Host};
use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_jpeg::encode_planes;
use gausset_pano::cutter::Format;
use gausset_pano::selection::SelectBy;
use gausset_scenes::panorama::detailed;
use gausset_testkit::skip_for_tool;
use gausset_train::MemoryLimit;

const WIDTH: usize = 3072;
const MIB: f64 = 1024.0 * 1024.0;

/// Converts an image to a panorama as PNG, and a video of strips to panoramas as JPEG.
fn converted(input: &Path, limit: u64) -> Result<PanoConvertResult, Failure> {
    let is_film = input.extension().is_some_and(|kind| kind == "mp4");
    let output = tempfile::tempdir().unwrap();
    let shape = ProjectionOptions {
        from: is_film.then_some(SourceProjection::Strip),
        ..ProjectionOptions::default()
    };
    let select = SelectionOptions { select: is_film.then_some(SelectBy::All), step: None };
    let options = PanoConvertOptions {
        input: input.to_owned(),
        output: output.path().join(if is_film { "frames" } else { "pano.png" }),
        to: TargetProjection::Equirect,
        size: None,
        format: if is_film { Format::Jpeg(95) } else { Format::Png },
        colours: ColourOptions::default(),
        frames: FrameOptions { shape, select, ..FrameOptions::default() },
        force: false,
        tool_timeout: 60,
        max_memory: MemoryLimit::Bytes(limit),
        threads: 2,
        simd: SimdLevel::Auto,
    };
    let stop = Arc::new(AtomicBool::new(false));
    let mut ignore = |_: Event| {};
    convert(&options, false, &mut Host::new(&stop, &mut ignore))
}

/// Converts in a separate process, started by the test below.
#[test]
#[ignore = "a part of the other test"]
fn child() {
    let Ok(input) = std::env::var("GAUSSET_TEST_INPUT") else { return };
    let limit = std::env::var("GAUSSET_TEST_BUDGET").unwrap().parse().unwrap();
    let done = converted(Path::new(&input), limit).unwrap();
    assert_eq!((done.frames, done.skipped.len()), (1, 0));
    println!("peak of {} bytes", gausset_compute::machine::resident_memory(None).unwrap().peak);
}

fn measured(input: &Path, limit: u64) -> f64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env("GAUSSET_TEST_INPUT", input)
        .env("GAUSSET_TEST_BUDGET", limit.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let peak = text.split("peak of ").nth(1).and_then(|rest| rest.split(' ').next());
    peak.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
fn a_conversion_stays_within_its_memory_or_is_refused_with_what_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("pano.jpg");
    let planes = detailed(WIDTH, 0, &Pool::new(1));
    std::fs::write(&picture, encode_planes(WIDTH, &planes, 95, dispatch_level(SimdLevel::Auto).unwrap()))
        .unwrap();
    let film = folder.path().join("strip.mp4");
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-i", "pano.jpg", "-vf", "v360=e:c3x2:w=3072:h=2048", "-c:v", "libx264"])
        .args(["-preset", "ultrafast", "-qp", "12", "-pix_fmt", "yuv420p", "strip.mp4"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .status();
    let mut inputs = vec![picture];
    if made.is_ok_and(|status| status.success()) {
        inputs.push(film);
    } else {
        let test = "a_conversion_stays_within_its_memory_or_is_refused_with_what_it_takes";
        skip_for_tool(test, "ffmpeg with v360 is not there");
    }
    for input in inputs {
        let name = input.file_name().unwrap().to_string_lossy().into_owned();
        let refusal = match converted(&input, 64 << 20) {
            Err(refusal) if refusal.code == "memory" => refusal.message,
            other => panic!("{name}: {:?}", other.map(|done| done.skipped)),
        };
        assert!(
            refusal.contains(", or make it smaller: ") && refusal.contains("px of this kind fit"),
            "{refusal}"
        );
        // `…: memory: converting it takes 97.5 MiB (expected …`: that, plus the memory of the program itself.
        let told = refusal.split("takes ").nth(1).and_then(|rest| rest.split(' ').next());
        let told: f64 = told.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{refusal}"));
        let limit = (told + 0.1 + 24.0) * MIB;
        let peak = measured(&input, limit as u64);
        println!("{name}: at most {:.0} MiB, measured {:.0} MiB", limit / MIB, peak / MIB);
        assert!(peak <= 1.1 * limit, "{name}: {:.0} of {:.0} MiB", peak / MIB, limit / MIB);
        // The estimate is not far too large either.
        assert!(peak >= limit / 3.0, "{name}: {:.0} of {:.0} MiB", peak / MIB, limit / MIB);
    }
}
