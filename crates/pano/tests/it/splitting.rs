//! Splits from files to files: the bytes depend neither on threads nor on the SIMD level, bad frames are skipped,
//! finished frames are kept, and no partial file remains.
#![allow(clippy::print_stderr, reason = "tests say why they skip something")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_jpeg::encode_planes;
use gausset_pano::cutter::Format;
use gausset_pano::frames::list_frames;
use gausset_pano::layout::Layout;
use gausset_pano::split::{
    OnError, SplitError, SplitEvent, SplitReport, SplitSettings, WorkerSettings, split,
};
use gausset_scenes::panorama::detailed;

fn settings(layout: Layout, side: u32) -> SplitSettings {
    SplitSettings::new(layout.views(side, side, None), Format::Jpeg(90))
}

fn work(threads: usize, wanted: SimdLevel) -> Option<WorkerSettings> {
    let level = dispatch_level(wanted)?;
    Some(WorkerSettings { threads, level, on_error: OnError::Skip, force: false, memory_budget: 64 << 20 })
}

fn run(
    input: &Path,
    settings: &SplitSettings,
    work: &WorkerSettings,
    out: &Path,
) -> Result<SplitReport, SplitError> {
    let frames = list_frames(input).unwrap();
    split(&frames, settings, work, out, &AtomicBool::new(false), &mut |_| {})
}

/// `count` panoramas of 256x128 px.
fn input(count: u32) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    for k in 0..count {
        let bytes = encode_planes(256, &detailed(256, k, &Pool::new(1)), 90, level);
        std::fs::write(folder.path().join(format!("p{k:03}.jpg")), bytes).unwrap();
    }
    folder
}

/// All files of a folder by relative name.
fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                out.insert(path.strip_prefix(folder).unwrap().to_owned(), std::fs::read(&path).unwrap());
            }
        }
    }
    out
}

#[test]
fn threads_and_vector_levels_do_not_change_a_byte() {
    let input = input(5);
    let mut first = None;
    for wanted in SimdLevel::ALL {
        for threads in [1, 2, 8] {
            let Some(work) = work(threads, wanted) else { continue };
            let out = tempfile::tempdir().unwrap();
            run(input.path(), &settings(Layout::Dome16, 64), &work, out.path()).unwrap();
            let files = content(out.path());
            // In addition to the views: the marker, the manifest, the description, and the rig.
            assert_eq!(files.len(), 5 * 16 + 4);
            assert!(
                *first.get_or_insert_with(|| files.clone()) == files,
                "{} {threads}",
                wanted.level_name()
            );
        }
    }
}

#[test]
fn bad_frames_are_named_and_the_others_are_as_without_them() {
    let input = input(8);
    let clean = tempfile::tempdir().unwrap();
    let work = work(2, SimdLevel::Auto).unwrap();
    let settings = settings(Layout::Ring8, 64);
    run(input.path(), &settings, &work, clean.path()).unwrap();
    let good = std::fs::read(input.path().join("p000.jpg")).unwrap();
    let bad: [(&str, Vec<u8>); 5] = [
        ("bad_empty.jpg", Vec::new()),
        ("bad_half.jpg", good[..good.len() / 2].to_vec()),
        ("bad_no_end.jpg", good[..good.len() - 2].to_vec()),
        ("bad_text.png", b"hello".to_vec()),
        (
            "bad_square.png",
            gausset_io::image::encode::png(8, 8, gausset_io::image::encode::PngPixels::Grey8(&[0; 64]), &[])
                .unwrap(),
        ),
    ];
    for (name, bytes) in &bad {
        std::fs::write(input.path().join(name), bytes).unwrap();
    }
    let out = tempfile::tempdir().unwrap();
    let report = run(input.path(), &settings, &work, out.path()).unwrap();
    let names: Vec<&str> = report.skipped.iter().map(|s| s.frame.as_str()).collect();
    assert_eq!(names, ["bad_empty", "bad_half", "bad_no_end", "bad_square", "bad_text"]);
    assert!(report.skipped[1].reason.contains("ends too early"), "{:?}", report.skipped[1]);
    let images = |folder: &Path| content(&folder.join("images"));
    assert!(images(out.path()) == images(clean.path()));
    assert_eq!(report.frames, 8);
}

#[test]
fn frames_that_are_finished_are_kept_and_the_end_is_the_same() {
    let input = input(6);
    let settings = settings(Layout::Cube6, 48);
    let work = work(2, SimdLevel::Auto).unwrap();
    let whole = tempfile::tempdir().unwrap();
    run(input.path(), &settings, &work, whole.path()).unwrap();
    // Stopped after two frames.
    let out = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let frames = list_frames(input.path()).unwrap();
    let mut told = |event: SplitEvent| {
        if matches!(event, SplitEvent::Frame { done: 2.., .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let report = split(&frames, &settings, &work, out.path(), &stop, &mut told).unwrap();
    assert!(report.is_cancelled);
    assert!(content(out.path()).keys().all(|name| !name.to_string_lossy().contains(".tmp-")));
    // A view of a finished frame is truncated, as after a power failure.
    let victim = out.path().join("images/view00/p000.jpg");
    if victim.exists() {
        std::fs::write(&victim, b"x").unwrap();
    }
    let report = run(input.path(), &settings, &work, out.path()).unwrap();
    assert_eq!(report.frames, 6);
    assert!(content(out.path()) == content(whole.path()));
    let again = run(input.path(), &settings, &work, out.path()).unwrap();
    assert_eq!(again.resumed, 6);
    // With other settings, all frames are cut again.
    let mut other = settings.clone();
    other.format = Format::Jpeg(80);
    assert_eq!(run(input.path(), &other, &work, out.path()).unwrap().resumed, 0);
}

#[test]
fn a_split_that_replaces_another_has_no_description_until_it_is_whole() {
    let input = input(3);
    let settings = settings(Layout::Ring4, 48);
    let work = WorkerSettings { force: true, ..work(1, SimdLevel::Auto).unwrap() };
    let out = tempfile::tempdir().unwrap();
    run(input.path(), &settings, &work, out.path()).unwrap();
    let frames = list_frames(input.path()).unwrap();
    let is_described_after_a_stop = |settings: &SplitSettings| {
        let stop = AtomicBool::new(false);
        let mut stop_at_first = |_| stop.store(true, Ordering::Relaxed);
        let report = split(&frames, settings, &work, out.path(), &stop, &mut stop_at_first).unwrap();
        assert!(report.is_cancelled);
        out.path().join("pano.json").is_file()
    };
    assert!(is_described_after_a_stop(&settings));
    let other = SplitSettings { format: Format::Jpeg(70), ..settings };
    assert!(!is_described_after_a_stop(&other));
    let resuming = WorkerSettings { force: false, ..work };
    assert_eq!(run(input.path(), &other, &resuming, out.path()).unwrap().frames, 3);
    assert!(out.path().join("pano.json").is_file());
}

#[test]
fn a_split_removes_the_files_of_an_earlier_one_that_it_does_not_have() {
    let input = input(4);
    let settings = settings(Layout::Ring8, 48);
    let mut work = work(1, SimdLevel::Auto).unwrap();
    let out = tempfile::tempdir().unwrap();
    run(input.path(), &settings, &work, out.path()).unwrap();
    let theirs = out.path().join("images/view07/mine.jpg");
    std::fs::write(&theirs, b"x").unwrap();
    let images = || content(&out.path().join("images")).len();
    assert_eq!(images(), 4 * 8 + 1);
    std::fs::remove_file(input.path().join("p002.jpg")).unwrap();
    run(input.path(), &settings, &work, out.path()).unwrap();
    assert_eq!(images(), 3 * 8 + 1);
    work.force = true;
    let fewer = SplitSettings::new(Layout::Cube6.views(48, 48, None), Format::Jpeg(90));
    run(input.path(), &fewer, &work, out.path()).unwrap();
    assert!(images() == 3 * 6 + 1 && theirs.is_file());
}

#[test]
fn masks_are_split_with_the_frames_and_alpha_becomes_a_mask() {
    use gausset_io::image::encode::{PngPixels, png};
    let input = tempfile::tempdir().unwrap();
    let (w, h) = (128u32, 64u32);
    // Transparent on the right half, and a mask that removes the upper half.
    let pixels: Vec<u8> =
        (0..w * h).flat_map(|i| [200, 100, 50, if i % w < w / 2 { 255 } else { 0 }]).collect();
    std::fs::write(input.path().join("a.png"), png(w, h, PngPixels::Rgba8(&pixels), &[]).unwrap()).unwrap();
    let mask: Vec<u8> = (0..w * h).map(|i| if i / w < h / 2 { 0 } else { 255 }).collect();
    std::fs::create_dir(input.path().join("masks")).unwrap();
    std::fs::write(input.path().join("masks/a.png"), png(w, h, PngPixels::Grey8(&mask), &[]).unwrap())
        .unwrap();
    let out = tempfile::tempdir().unwrap();
    let work = work(1, SimdLevel::Auto).unwrap();
    run(input.path(), &settings(Layout::Ring4, 64), &work, out.path()).unwrap();
    let keep = |view: usize| {
        let path = out.path().join(format!("masks/view{view:02}/a.jpg.png"));
        gausset_io::image::decode_mask_file(&path).unwrap().values
    };
    // View 3 looks left (opaque half): only the mask's upper half is removed. View 1 looks right: everything is
    // removed.
    let left = keep(3);
    assert!(left[..64 * 30].iter().all(|&k| k == 0) && left[64 * 34..].iter().all(|&k| k == 255));
    assert!(keep(1).iter().all(|&k| k == 0));
}

/// A mask of 256x128 px that removes `rows`.
fn mask_without(rows: std::ops::Range<u32>) -> Vec<u8> {
    use gausset_io::image::encode::{PngPixels, png};
    let pixels: Vec<u8> = (0..256 * 128).map(|i| if rows.contains(&(i / 256)) { 0 } else { 255 }).collect();
    png(256, 128, PngPixels::Grey8(&pixels), &[]).unwrap()
}

#[test]
fn masks_that_come_change_or_go_are_noticed() {
    let input = input(3);
    let masks = input.path().join("masks");
    std::fs::create_dir(&masks).unwrap();
    let settings = settings(Layout::Ring4, 64);
    let work = work(2, SimdLevel::Auto).unwrap();
    let out = tempfile::tempdir().unwrap();
    let again = || {
        let report = run(input.path(), &settings, &work, out.path()).unwrap();
        assert_eq!(report.frames, 3);
        report.resumed
    };
    let has_masks = |frame: &str| {
        (0..4).filter(|v| out.path().join(format!("masks/view0{v}/{frame}.jpg.png")).is_file()).count()
    };
    assert_eq!((again(), again()), (0, 3));
    // A mask is added.
    let mask = masks.join("p001.png");
    std::fs::write(&mask, mask_without(0..40)).unwrap();
    assert_eq!((again(), has_masks("p001"), has_masks("p000"), again()), (2, 4, 0, 3));
    // It changes, but keeps its length and modification time.
    let time = std::fs::metadata(&mask).unwrap().modified().unwrap();
    let mut other = mask_without(0..41);
    let length = std::fs::metadata(&mask).unwrap().len() as usize;
    assert!(other.len() <= length + 8, "{} {length}", other.len());
    other.resize(length.max(other.len()), 0);
    std::fs::write(&mask, &other).unwrap();
    std::fs::File::options().write(true).open(&mask).unwrap().set_modified(time).unwrap();
    assert_eq!((again(), again()), (2, 3));
    // A mask of a view is lost, or a foreign file appears in its place.
    std::fs::remove_file(out.path().join("masks/view02/p001.jpg.png")).unwrap();
    assert_eq!((again(), has_masks("p001")), (2, 4));
    std::fs::write(out.path().join("masks/view02/p002.jpg.png"), b"x").unwrap();
    assert_eq!((again(), has_masks("p002")), (2, 0));
    // It is deleted: nothing of it remains.
    std::fs::remove_file(&mask).unwrap();
    assert_eq!((again(), has_masks("p001"), again()), (2, 0, 3));
    // The same folder under another spelling.
    let spelled = SplitSettings {
        masks: Some(input.path().join("../").join(input.path()).join("masks")),
        ..settings.clone()
    };
    assert_eq!(run(input.path(), &spelled, &work, out.path()).unwrap().resumed, 3);
}

#[test]
fn files_of_somebody_else_are_neither_replaced_nor_removed() {
    let input = input(1);
    let mut settings = settings(Layout::Ring4, 64);
    settings.naming = gausset_pano::split::Naming::Flat;
    let mut work = work(1, SimdLevel::Auto).unwrap();
    let out = tempfile::tempdir().unwrap();
    let theirs = [
        "images/frame_00000_cam_00.jpg",
        "masks/frame_00000_cam_00.jpg.png",
        ".masks/a",
        "images/.tmp-1-1-x",
    ];
    for name in theirs {
        let path = out.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"theirs").unwrap();
    }
    let before = content(out.path());
    let refusal = run(input.path(), &settings, &work, out.path()).unwrap_err().to_string();
    assert!(refusal.contains("holds files that gausset did not write"), "{refusal}");
    assert!(content(out.path()) == before);
    // With force, only files with Gausset's names change, and the folder stays unclaimed.
    work.force = true;
    run(input.path(), &settings, &work, out.path()).unwrap();
    let after = content(out.path());
    assert!(after[Path::new(theirs[0])] != b"theirs" && !after.contains_key(Path::new(theirs[1])));
    assert!(after[Path::new(theirs[2])] == b"theirs" && after[Path::new(theirs[3])] == b"theirs");
    work.force = false;
    assert!(run(input.path(), &settings, &work, out.path()).is_err());
}

#[cfg(unix)]
#[test]
fn no_link_leads_out_of_the_output_folder() {
    use std::os::unix::fs::symlink;
    let input = input(1);
    let settings = settings(Layout::Ring4, 64);
    let mut work = work(1, SimdLevel::Auto).unwrap();
    work.force = true;
    for name in ["images/view01", "images/view01/p000.jpg", "pano.jsonl", "rig_config.json"] {
        let (out, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(outside.path().join("theirs"), b"theirs").unwrap();
        let link = out.path().join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        let target =
            if name == "images/view01" { outside.path().to_owned() } else { outside.path().join("theirs") };
        symlink(target, &link).unwrap();
        let refusal = run(input.path(), &settings, &work, out.path()).unwrap_err().to_string();
        assert!(refusal.contains("is a link that leads out of"), "{name}: {refusal}");
        assert_eq!(content(outside.path()), BTreeMap::from([(PathBuf::from("theirs"), b"theirs".to_vec())]));
    }
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_among_the_frames_and_masks_are_named_and_left_out() {
    let input = input(2);
    std::fs::create_dir(input.path().join("masks")).unwrap();
    for name in ["a.jpg", "b.png", "c.tif"] {
        let made = std::process::Command::new("mkfifo").arg(input.path().join(name)).status().unwrap();
        assert!(made.success());
    }
    std::os::unix::fs::symlink("/dev/zero", input.path().join("d.jpg")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let settings = settings(Layout::Ring4, 64);
    let report = run(input.path(), &settings, &work(2, SimdLevel::Auto).unwrap(), out.path()).unwrap();
    assert_eq!(report.frames, 2);
    let names: Vec<&str> = report.skipped.iter().map(|s| s.frame.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    for skipped in &report.skipped {
        let what = if skipped.frame == "d" { "a device" } else { "a pipe" };
        assert!(skipped.reason.contains(&format!("is {what} (expected a regular file)")), "{skipped:?}");
    }
}

#[test]
fn real_gopro_streams_are_cut_without_seams() {
    let test = "real_gopro_streams_are_cut_without_seams";
    let Some(folder) = gausset_testkit::data_file(test, "pano/eac") else { return };
    let frames = gausset_pano::recognise::pair_streams(&list_frames(&folder).unwrap()).unwrap();
    assert_eq!(frames.len(), 2);
    let eac = gausset_pano::eac::Eac::from_stream_size(2272, 736).unwrap();
    // Views centred on the edges between faces (yaw 45 + 90 k) and on the overlap strips (yaw 90 k).
    let mut settings = settings(Layout::Ring8, 368);
    settings.projection = Some(gausset_pano::projection::Projection::Eac(eac));
    settings.format = Format::Png;
    let out = tempfile::tempdir().unwrap();
    let work = work(2, SimdLevel::Auto).unwrap();
    let report = split(&frames, &settings, &work, out.path(), &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(report.frames, 2);
    let (mut across, mut beside) = (0.0, 0.0);
    for name in ["max3k_1", "max3k_2"] {
        for view in 0..8 {
            let path = out.path().join(format!("images/view{view:02}/{name}.png"));
            let picture = gausset_io::image::decode_file(&path).unwrap();
            let w = picture.width as usize;
            let step = |x: usize| -> f64 {
                let mean = picture.rgb.chunks_exact(3 * w).map(|row| {
                    (0..3).map(|c| f64::from(row[3 * x + c].abs_diff(row[3 * x + 3 + c]))).sum::<f64>()
                });
                mean.sum::<f64>() / f64::from(picture.height)
            };
            // The seam is between the two middle columns.
            across += step(w / 2 - 1);
            beside += (step(w / 2 - 4) + step(w / 2 - 3) + step(w / 2 + 1) + step(w / 2 + 2)) / 4.0;
        }
    }
    assert!(across <= 1.1 * beside, "step across seams {across:.1}, beside them {beside:.1}");
}

#[test]
fn a_view_of_a_smooth_room_is_the_room_rendered_directly() {
    // A panorama of a smooth function of the direction is split and compared with the function at the ray of each
    // pixel. Half a pixel of error anywhere would cost more than 10 dB.
    use gausset_io::image::encode::{PngPixels, png};
    let (w, h) = (1024usize, 512usize);
    let pixels: Vec<u8> = (0..w * h)
        .flat_map(|i| {
            let (u, v) = ((i % w) as f64 + 0.5, (i / w) as f64 + 0.5);
            colour(gausset_pano::geometry::direction_from_equirect(u, v, w as f64, h as f64))
                .map(|v| v.round() as u8)
        })
        .collect();
    let input = tempfile::tempdir().unwrap();
    std::fs::write(
        input.path().join("a.png"),
        png(w as u32, h as u32, PngPixels::Rgb8(&pixels), &[]).unwrap(),
    )
    .unwrap();
    let mut settings = settings(Layout::Cube6, 256);
    settings.format = Format::Png;
    settings.views[2].roll = 25.0;
    let out = tempfile::tempdir().unwrap();
    run(input.path(), &settings, &work(1, SimdLevel::Auto).unwrap(), out.path()).unwrap();
    for view in &settings.views {
        let psnr = psnr(&out.path().join(format!("images/{}/a.png", view.name)), view, colour);
        // Rounding of RGB and YCbCr alone limits the PSNR to about 48 dB.
        assert!(psnr > 46.0, "{}: {psnr:.1} dB", view.name);
    }
}

/// Colour as a smooth function of the direction, 0..255.
fn colour(d: [f64; 3]) -> [f64; 3] {
    let n = d.iter().map(|v| v * v).sum::<f64>().sqrt();
    let [x, y, z] = d.map(|v| v / n);
    let wave = |a: f64, b: f64, c: f64| 0.5 + 0.4 * (3.0 * (a * x + b * y + c * z)).sin();
    [wave(1.0, 2.0, 0.5), wave(-1.5, 0.3, 2.0), wave(0.2, -1.0, 1.7)].map(|v| 255.0 * v)
}

/// PSNR of a view's file against a colour function of the direction (panorama axes).
fn psnr(path: &Path, view: &gausset_pano::geometry::View, wanted: impl Fn([f64; 3]) -> [f64; 3]) -> f64 {
    let picture = gausset_io::image::decode_file(path).unwrap();
    assert_eq!((picture.width, picture.height), (view.width, view.height));
    let side = view.width as usize;
    let mut error = 0.0;
    for (i, p) in picture.rgb.chunks_exact(3).enumerate() {
        let wanted = wanted(view.ray_in_panorama((i % side) as f64 + 0.5, (i / side) as f64 + 0.5));
        error += p.iter().zip(wanted).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum::<f64>() / 3.0;
    }
    10.0 * (255.0f64.powi(2) / (error / (picture.rgb.len() / 3) as f64)).log10()
}

#[test]
fn views_of_two_fisheyes_are_the_world_at_their_rays() {
    use gausset_io::image::encode::{PngPixels, png};
    // The lenses look right and left, the second rotated by 90 degrees, with a non-linear mapping.
    const LENSES: &str = r#"{ "width": 1600, "height": 800, "blend_degrees": 4, "lenses": [
        { "cx": 402, "cy": 397, "radius": 390, "half_angle": 98, "yaw": 90, "pitch": 5 },
        { "cx": 1195, "cy": 401, "radius": 395, "half_angle": 97, "yaw": -90, "roll": 90,
          "polynomial": [1, -0.1, 0.02] } ] }"#;
    let fisheye = gausset_pano::fisheye::DualFisheye::parse(LENSES.as_bytes()).unwrap();
    // Rendered by the inverse mapping: the angle of each pixel from the axis, by bisection.
    let mut pixels = Vec::new();
    for i in 0..1600 * 800 {
        let (x, y) = ((i % 1600) as f64 + 0.5, (i / 1600) as f64 + 0.5);
        let first = x < 800.0;
        let (cx, cy, radius, half, k) = if first {
            (402.0, 397.0, 390.0, 98.0f64, [1.0, 0.0, 0.0])
        } else {
            (1195.0, 401.0, 395.0, 97.0, [1.0, -0.1, 0.02])
        };
        let (dx, dy): (f64, f64) = (x - cx, y - cy);
        let r = |t: f64| radius * t * (k[0] + k[1] * t * t + k[2] * t.powi(4)) / (k[0] + k[1] + k[2]);
        let (mut low, mut high) = (0.0, 1.3);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if r(middle) < dx.hypot(dy) { low = middle } else { high = middle }
        }
        let angle = (low * half).to_radians();
        let n = dx.hypot(dy).max(1e-12);
        let in_lens = [angle.sin() * dx / n, angle.sin() * dy / n, angle.cos()];
        let lens = if first {
            gausset_pano::geometry::rotation(90.0, 5.0, 0.0)
        } else {
            gausset_pano::geometry::rotation(-90.0, 0.0, 90.0)
        };
        pixels.extend(colour(gausset_core::se3::mul_vec(&lens, in_lens)).map(|v| v.round() as u8));
    }
    let input = tempfile::tempdir().unwrap();
    std::fs::write(input.path().join("a.png"), png(1600, 800, PngPixels::Rgb8(&pixels), &[]).unwrap())
        .unwrap();
    let mut settings = settings(Layout::Cube6, 200);
    settings.format = Format::Png;
    settings.views[3].roll = 30.0;
    settings.projection = Some(gausset_pano::projection::Projection::Fisheye(fisheye));
    let out = tempfile::tempdir().unwrap();
    run(input.path(), &settings, &work(2, SimdLevel::Auto).unwrap(), out.path()).unwrap();
    for view in &settings.views {
        let psnr = psnr(&out.path().join(format!("images/{}/a.png", view.name)), view, colour);
        // 8 bits of RGB and YCbCr limit the PSNR to about 48 dB; half a pixel of error costs 10 dB.
        assert!(psnr > 45.0, "{}: {psnr:.1} dB", view.name);
    }
    // The whole sphere is seen.
    assert!(!out.path().join("masks").exists());
}

#[test]
fn gpano_levels_a_panorama() {
    let (w, h) = (1024usize, 512usize);
    let level_from_pano = {
        use gausset_pano::geometry::{rotation_x, rotation_z};
        gausset_core::se3::mul(&rotation_x(15.0), &rotation_z(-8.0))
    };
    // The world as seen by a camera pitched up by 15 degrees and rolled by -8.
    let in_world = |d: [f64; 3]| colour(gausset_core::se3::mul_vec(&level_from_pano, d));
    let mut picture = image::RgbImage::new(w as u32, h as u32);
    for (x, y, pixel) in picture.enumerate_pixels_mut() {
        let d = gausset_pano::geometry::direction_from_equirect(
            f64::from(x) + 0.5,
            f64::from(y) + 0.5,
            w as f64,
            h as f64,
        );
        *pixel = image::Rgb(in_world(d).map(|v| v.round() as u8));
    }
    let mut jpeg = Vec::new();
    image::codecs::jpeg::JpegEncoder::new_with_quality(&mut jpeg, 98).encode_image(&picture).unwrap();
    let mut content = b"http://ns.adobe.com/xap/1.0/\0".to_vec();
    content.extend(br#"<x GPano:ProjectionType="equirectangular" GPano:PosePitchDegrees="15" GPano:PoseRollDegrees="-8"/>"#);
    let mut segment = vec![0xFF, 0xE1];
    segment.extend((content.len() as u16 + 2).to_be_bytes());
    segment.extend(content);
    jpeg.splice(2..2, segment);
    let input = tempfile::tempdir().unwrap();
    std::fs::write(input.path().join("a.jpg"), jpeg).unwrap();
    for level_gpano in [true, false] {
        let mut settings = settings(Layout::Cube6, 256);
        settings.format = Format::Png;
        settings.level_gpano = level_gpano;
        let out = tempfile::tempdir().unwrap();
        run(input.path(), &settings, &work(1, SimdLevel::Auto).unwrap(), out.path()).unwrap();
        for view in &settings.views {
            let path = out.path().join(format!("images/{}/a.png", view.name));
            let (level, tilted) = (psnr(&path, view, colour), psnr(&path, view, in_world));
            let (right, wrong) = if level_gpano { (level, tilted) } else { (tilted, level) };
            // The JPEG limits the PSNR to about 40 dB (chroma at half the size); an uncorrected tilt leaves only a few.
            assert!(right > 36.0 && wrong < 30.0, "{level_gpano} {}: {right:.1} {wrong:.1} dB", view.name);
        }
    }
}

#[test]
fn videos_are_cut_frame_by_frame_and_hostile_ones_are_refused() {
    use gausset_pano::frames::video_frames;
    use gausset_pano::sphere_video::SphereVideo;
    use gausset_pano::video::FrameSelection;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.mkv");
    let silence = std::time::Duration::from_secs(60);
    let never = AtomicBool::new(false);
    let open = |path: &Path| {
        SphereVideo::open(path, FrameSelection::default(), false, [16_384, 8192], silence, &never)
            .map_err(|e| e.to_string())
    };
    if gausset_process::find_program("ffmpeg").is_none() {
        std::fs::write(&path, b"x").unwrap();
        assert!(open(&path).unwrap_err().contains("ffmpeg is not installed"));
        let test = "videos_are_cut_frame_by_frame_and_hostile_ones_are_refused";
        return gausset_testkit::skip_for_tool(test, "ffmpeg is not installed");
    }
    let made = std::process::Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=256x128:rate=5:duration=2",
            "-pix_fmt",
            "yuv420p",
        ])
        .arg(&path)
        .stdin(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
    let film = open(&path).unwrap();
    assert_eq!(film.video.size, [256, 128]);
    let mut settings = settings(Layout::Ring4, 64);
    settings.video = Some(film.clone());
    let out = tempfile::tempdir().unwrap();
    let frames = video_frames(&film.video);
    for threads in [1, 3] {
        let mut work = work(threads, SimdLevel::Auto).unwrap();
        work.force = true;
        let report = split(&frames, &settings, &work, out.path(), &never, &mut |_| {}).unwrap();
        assert_eq!((report.frames, report.skipped.len()), (10, 0));
    }
    // A damaged stream ends the split with an error; the frames before it are kept.
    let mut damaged = std::fs::read(&path).unwrap();
    let middle = damaged.len() * 6 / 10;
    damaged[middle..middle + 200].fill(0xFF);
    std::fs::write(&path, damaged).unwrap();
    settings.video = Some(open(&path).unwrap());
    let half = tempfile::tempdir().unwrap();
    let work = work(2, SimdLevel::Auto).unwrap();
    let broken = split(&frames, &settings, &work, half.path(), &never, &mut |_| {}).unwrap_err();
    assert!(matches!(broken, SplitError::Video(_)), "{broken}");
    let kept = gausset_pano::split::read_manifest(half.path()).len();
    assert!((1..10).contains(&kept) && !half.path().join("pano.json").exists(), "{kept}");
    // A playlist as input must not open other files.
    let playlist = folder.path().join("list.m3u8");
    std::fs::write(&playlist, format!("#EXTM3U\n#EXTINF:1,\n{}\n", path.display())).unwrap();
    let _ = open(&playlist).map(|film| film.video.frames);
    std::fs::write(&path, b"this is no video").unwrap();
    assert!(open(&path).unwrap_err().starts_with(&path.display().to_string()));
}
