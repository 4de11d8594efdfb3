//! Memory of a long split, in a separate process because it measures the resident size.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_jpeg::encode_planes;
use gausset_pano::cutter::Format;
use gausset_pano::frames::list_frames;
use gausset_pano::layout::Layout;
use gausset_pano::split::{OnError, SplitEvent, SplitSettings, WorkerSettings, split};
use gausset_scenes::panorama::detailed;

fn resident_kib() -> f64 {
    gausset_compute::machine::resident_memory(None).unwrap().now as f64 / 1024.0
}

fn pictures(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    for view in std::fs::read_dir(folder.join("images")).unwrap() {
        let view = view.unwrap();
        for file in std::fs::read_dir(view.path()).unwrap() {
            let path = file.unwrap().path();
            let name = format!("{}/{}", view.file_name().display(), path.file_name().unwrap().display());
            out.insert(name, std::fs::read(&path).unwrap());
        }
    }
    out
}

/// 200 frames, every twentieth damaged: the others are as in a clean run, the damaged ones are reported, and memory
/// stays constant.
#[test]
fn two_hundred_frames_take_the_memory_of_twenty() {
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let sources: Vec<Vec<u8>> =
        (0..4).map(|k| encode_planes(1024, &detailed(1024, k, &Pool::new(1)), 90, level)).collect();
    let [clean, dirty] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for k in 0..200usize {
        let good = &sources[k % 4];
        let name = format!("p{k:03}.jpg");
        if k % 20 == 7 {
            let mut bad = good.clone();
            match k / 20 % 4 {
                // Truncated, emptied, an invalid marker, a header with an excessive size.
                0 => bad.truncate(good.len() / 2),
                1 => bad.clear(),
                2 => bad[good.len() / 2..][..2].copy_from_slice(&[0xFF, 0xC4]),
                _ => {
                    let at = bad.windows(2).position(|w| w == [0xFF, 0xC0]).unwrap() + 5;
                    bad[at..at + 4].fill(0xFF);
                }
            }
            std::fs::write(dirty.path().join(name), bad).unwrap();
        } else {
            std::fs::write(clean.path().join(&name), good).unwrap();
            std::fs::write(dirty.path().join(name), good).unwrap();
        }
    }
    let settings = SplitSettings::new(Layout::Ring8.views(160, 160, None), Format::Jpeg(90));
    let work =
        WorkerSettings { threads: 2, level, on_error: OnError::Skip, force: false, memory_budget: 64 << 20 };
    let run = |input: &Path| {
        let out = tempfile::tempdir().unwrap();
        let mut sizes = BTreeMap::new();
        let mut tell = |event: SplitEvent| {
            if let SplitEvent::Frame { done, .. } = event {
                sizes.insert(done, resident_kib());
            }
        };
        let never = AtomicBool::new(false);
        let report =
            split(&list_frames(input).unwrap(), &settings, &work, out.path(), &never, &mut tell).unwrap();
        (report, sizes, pictures(out.path()))
    };
    let (report, sizes, views) = run(dirty.path());
    let names: Vec<&str> = report.skipped.iter().map(|s| s.frame.as_str()).collect();
    let expected: Vec<String> = (0..10).map(|k| format!("p{:03}", 20 * k + 7)).collect();
    assert_eq!(names, expected);
    assert_eq!((report.frames, views.len()), (190, 190 * 8));
    // Skipped frames do not report a size, and the order of completion depends on the threads.
    let early = *sizes.range(20..).next().unwrap().1;
    let late = *sizes.values().next_back().unwrap();
    assert!(late <= 1.1 * early, "{early} KiB after 20 frames, {late} KiB at the end");
    assert!(run(clean.path()).2 == views);
}
