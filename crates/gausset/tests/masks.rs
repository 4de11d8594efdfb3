//! Masks end to end: a network that segments red pixels, on panoramas and photographs with red figures of known pixels.
#![cfg(feature = "masks")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gausset::mask::{Dilation, MaskOptions, MaskResult, OutputModes, mask};
use gausset::panos::{FrameMaskOptions, SplitOptions, split, split::split as split_panoramas};
use gausset::{Event, Failure, Host};
use gausset_compute::{SimdLevel, dispatch_level};
use gausset_io::image::decode_file;
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::exif_write::marker_segment;
use gausset_jpeg::colour::ycbcr_from_rgb;
use gausset_jpeg::encode_image;
use gausset_pano::geometry::direction_from_equirect;
use gausset_testkit::onnx::TestNetwork;
use tempfile::TempDir;

/// A disc on the sphere: yaw and pitch of its centre and its radius, in degrees.
type Disc = [f64; 3];

const W: usize = 1440;

fn is_in(disc: &Disc, direction: [f64; 3]) -> bool {
    let [yaw, pitch, radius] = disc.map(f64::to_radians);
    let towards = [pitch.cos() * yaw.sin(), -pitch.sin(), pitch.cos() * yaw.cos()];
    let cosine: f64 = towards.iter().zip(direction).map(|(a, b)| a * b).sum();
    cosine > radius.cos()
}

/// The pixels of a panorama that show a figure.
fn figure(discs: &[Disc]) -> Vec<bool> {
    let pixel = |k: usize| {
        let (x, y) = ((k % W) as f64 + 0.5, (k / W) as f64 + 0.5);
        let direction = direction_from_equirect(x, y, W as f64, W as f64 / 2.0);
        discs.iter().any(|disc| is_in(disc, direction))
    };
    (0..W * W / 2).map(pixel).collect()
}

/// A room of soft colours with red discs.
fn panorama(discs: &[Disc]) -> Vec<u8> {
    let colour = |(k, is_red): (usize, bool)| {
        let (x, y) = ((k % W) as f64 / W as f64, (k / W) as f64 / W as f64);
        let wave = |f: f64| (120.0 + 60.0 * (std::f64::consts::TAU * f).sin()) as u8;
        if is_red { [220, 20, 30] } else { [wave(x), wave(x + 0.05 * y), wave(3.0 * y)] }
    };
    figure(discs).into_iter().enumerate().flat_map(colour).collect()
}

struct Workplace {
    folder: TempDir,
}

impl Workplace {
    fn new(frames: &[(&str, &[Disc])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("walk")).unwrap();
        for (name, discs) in frames {
            let rgb = panorama(discs);
            let file = png(W as u32, W as u32 / 2, PngPixels::Rgb8(&rgb), &[]).unwrap();
            fs::write(folder.path().join("walk").join(name), file).unwrap();
        }
        fs::write(folder.path().join("red.onnx"), TestNetwork::red_segmenter(160).bytes()).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Options without dilation and with the edges of the network.
    fn options(&self) -> MaskOptions {
        let options = MaskOptions::new(self.path("walk"), self.path("masks"));
        MaskOptions {
            model: Some(self.path("red.onnx")),
            dilate: Dilation::Degrees(0.0),
            edges: 0.0,
            threads: 1,
            ..options
        }
    }

    fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.path(folder)];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.path(folder)).unwrap().display().to_string();
                    files.insert(name, fs::read(path).unwrap());
                }
            }
        }
        files
    }
}

fn run(options: &MaskOptions) -> Result<MaskResult, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    mask(options, false, &mut Host::new(&stop, &mut |_: Event| {}))
}

/// Intersection over union of the removed region and a figure, by area on the sphere.
fn iou(mask: &Path, figure: &[bool]) -> f64 {
    let picture = decode_file(mask).unwrap();
    assert_eq!((picture.width as usize, picture.height as usize), (W, W / 2));
    let (mut both, mut either) = (0.0, 0.0);
    for (k, &is_figure) in figure.iter().enumerate() {
        let value = picture.rgb[3 * k];
        assert!(value == 0 || value == 255);
        let area = (std::f64::consts::PI * (0.5 - ((k / W) as f64 + 0.5) / (W / 2) as f64)).cos();
        let removed = value == 0;
        both += if removed && is_figure { area } else { 0.0 };
        either += if removed || is_figure { area } else { 0.0 };
    }
    both / either
}

#[test]
#[allow(clippy::print_stderr, reason = "figures of research/benchmarks-log.md")]
fn figures_at_the_seam_the_horizon_and_the_nadir_are_masked_to_their_pixels() {
    let discs: [Disc; 3] = [[179.0, 5.0, 9.0], [22.5, -20.0, 4.0], [70.0, -88.0, 25.0]];
    let place = Workplace::new(&[("a.png", &discs), ("b.png", &[])]);
    let done = run(&place.options()).unwrap();
    assert_eq!((done.frames, done.with_finds, done.detections), (2, 1, 3));
    assert_eq!(done.classes.get("person"), Some(&3));
    let truth = figure(&discs);
    let found = iou(&place.path("masks/a.png.png"), &truth);
    assert!(found >= 0.97, "{found}");
    // No detection: no mask file, but a manifest line.
    let files = place.files("masks");
    assert!(!files.contains_key("b.png.png"));
    let manifest = String::from_utf8(files["masks.jsonl"].clone()).unwrap();
    let lines: Vec<serde_json::Value> =
        manifest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[1]["detections"], 0);
    assert_eq!(lines[0]["files"]["a.png.png"], files["a.png.png"].len());
    // The second pass improves small figures.
    let one = MaskOptions { passes: 1, output: place.path("one"), ..place.options() };
    run(&one).unwrap();
    let coarse = iou(&place.path("one/a.png.png"), &truth);
    eprintln!("IoU {found:.4} with the second look, {coarse:.4} without");
    assert!(coarse < found && coarse > 0.9, "{coarse} {found}");
}

#[test]
fn what_a_kill_left_of_masks_goes_with_the_next_call_in_a_folder_of_ours() {
    let place = Workplace::new(&[("a.png", &[])]);
    let names = [".tmp-1-0-a.png.png", "cutouts/.tmp-1-1-a.png", ".tmp-notes", "mine/.tmp-1-0-x"];
    let leave = || {
        for name in names.map(|name| place.path("masks").join(name)) {
            fs::create_dir_all(name.parent().unwrap()).unwrap();
            fs::write(name, "x").unwrap();
        }
    };
    let left = || names.map(|name| place.path("masks").join(name).exists());
    run(&place.options()).unwrap();
    leave();
    run(&place.options()).unwrap();
    assert_eq!(left(), [false, false, true, true]);
    // Existing files stay in a folder that was claimed by force.
    fs::remove_file(place.path("masks/.gausset")).unwrap();
    leave();
    run(&MaskOptions { force: true, ..place.options() }).unwrap();
    assert_eq!(left(), [true; 4]);
}

#[test]
fn a_mask_grows_by_degrees_and_drops_what_is_small() {
    let place = Workplace::new(&[("a.png", &[[30.0, 20.0, 6.0], [-60.0, 0.0, 0.8]])]);
    let options = MaskOptions { dilate: Dilation::Degrees(3.0), smallest: 10.0, ..place.options() };
    let done = run(&options).unwrap();
    assert_eq!(done.detections, 1);
    let found = iou(&place.path("masks/a.png.png"), &figure(&[[30.0, 20.0, 9.0]]));
    assert!(found >= 0.96, "{found}");
}

#[test]
fn the_same_command_goes_on_with_the_same_bytes_and_makes_anew_what_changed() {
    let frames: Vec<(String, Disc)> =
        (0..4).map(|k| (format!("f{k}.png"), [40.0 * f64::from(k), 0.0, 8.0])).collect();
    let frames: Vec<(&str, &[Disc])> =
        frames.iter().map(|(n, d)| (n.as_str(), std::slice::from_ref(d))).collect();
    let place = Workplace::new(&frames);
    run(&MaskOptions { threads: 2, output: place.path("two"), ..place.options() }).unwrap();
    // Stop after the second frame.
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let mut hear = |event: Event| {
        if matches!(event, Event::Done { done: 2, .. }) {
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    };
    let stopped = mask(&place.options(), false, &mut Host::new(&stop, &mut hear)).unwrap();
    assert!(stopped.is_cancelled && (2..4).contains(&stopped.frames), "{}", stopped.frames);
    let went_on = run(&place.options()).unwrap();
    assert!(went_on.resumed >= 2 && went_on.frames == 4);
    assert_eq!(place.files("masks"), place.files("two"));
    let again = |options: &MaskOptions| run(options).unwrap().resumed;
    assert_eq!(again(&place.options()), 4);
    // A command with other options replaces nothing without force.
    let other = MaskOptions { dilate: Dilation::Degrees(1.0), ..place.options() };
    let replaces_by_force_only = || {
        let before = place.files("masks");
        let refused = run(&other).unwrap_err();
        assert!(refused.code == "other-options" && place.files("masks") == before, "{refused}");
        assert_eq!(again(&MaskOptions { force: true, ..other.clone() }), 0);
        assert_eq!(again(&other), 4);
    };
    replaces_by_force_only();
    // Another model.
    fs::write(place.path("red.onnx"), TestNetwork::red_segmenter(176).bytes()).unwrap();
    replaces_by_force_only();
    // An image is replaced by one without a figure: its mask is removed.
    let empty = png(W as u32, W as u32 / 2, PngPixels::Rgb8(&panorama(&[])), &[]).unwrap();
    fs::write(place.path("walk/f1.png"), empty).unwrap();
    assert_eq!(again(&MaskOptions { dilate: Dilation::Degrees(1.0), ..place.options() }), 3);
    assert!(!place.path("masks/f1.png.png").exists() && place.path("masks/f0.png.png").exists());
    // A deleted mask is created again, an edited one is kept, and force replaces it.
    fs::remove_file(place.path("masks/f0.png.png")).unwrap();
    fs::write(place.path("masks/f2.png.png"), "mine").unwrap();
    let mut warnings = Vec::new();
    let mut hear = |event: Event| {
        if let Event::Warning { line, .. } = event {
            warnings.push(line);
        }
    };
    let done = mask(&other, false, &mut Host::new(&Arc::new(AtomicBool::new(false)), &mut hear)).unwrap();
    assert_eq!(done.resumed, 3);
    assert!(place.path("masks/f0.png.png").exists());
    assert!(warnings[0].contains("1 file changed since made (the first: f2.png.png); kept"), "{warnings:?}");
    assert_eq!(fs::read(place.path("masks/f2.png.png")).unwrap(), b"mine");
    run(&MaskOptions { force: true, ..other.clone() }).unwrap();
    assert!(fs::read(place.path("masks/f2.png.png")).unwrap() != b"mine");
    // Masks of other frames stay.
    fs::rename(place.path("walk"), place.path("first")).unwrap();
    fs::create_dir(place.path("walk")).unwrap();
    fs::copy(place.path("first/f3.png"), place.path("walk/g3.png")).unwrap();
    run(&other).unwrap();
    assert!(place.path("masks/g3.png.png").exists());
    fs::remove_dir_all(place.path("walk")).unwrap();
    fs::rename(place.path("first"), place.path("walk")).unwrap();
    assert_eq!(again(&other), 4);
}

#[test]
fn views_of_a_split_get_the_masks_of_one_sphere_and_a_split_takes_those_of_panoramas() {
    let discs: [Disc; 2] = [[45.0, -10.0, 12.0], [-120.0, 10.0, 10.0]];
    let place = Workplace::new(&[("a.png", &discs)]);
    let stop = Arc::new(AtomicBool::new(false));
    let host = &mut |_: Event| {};
    split_panoramas(&SplitOptions::new(place.path("walk"), place.path("work")), &mut Host::new(&stop, host))
        .unwrap();
    let done = run(&MaskOptions { input: place.path("work"), ..place.options() }).unwrap();
    assert_eq!((done.frames, done.detections, done.of), (1, 2, "frame"));
    run(&MaskOptions { output: place.path("whole"), ..place.options() }).unwrap();
    let masking = FrameMaskOptions { masks: Some(place.path("whole")), ..FrameMaskOptions::default() };
    let with = SplitOptions { masking, ..SplitOptions::new(place.path("walk"), place.path("masked")) };
    split::split(&with, &mut Host::new(&stop, &mut |_: Event| {})).unwrap();
    let (own, cut) = (place.files("masks"), place.files("masked/masks"));
    let mut compared = 0;
    for view in 0..8 {
        let name = format!("view{view:02}/a.jpg.png");
        assert_eq!(own.contains_key(&name), cut.contains_key(&name), "{name}");
        let (Some(_), Some(_)) = (own.get(&name), cut.get(&name)) else { continue };
        let of = |folder: &str| decode_file(&place.path(folder).join(&name)).unwrap().rgb;
        let (a, b) = (of("masks"), of("masked/masks"));
        let removed = a.iter().zip(&b).filter(|(a, b)| **a == 0 || **b == 0).count();
        let same = a.iter().zip(&b).filter(|(a, b)| **a == 0 && **b == 0).count();
        assert!(same as f64 > 0.93 * removed as f64, "{name}: {same} of {removed}");
        compared += 1;
    }
    assert!(compared >= 4, "{compared}");
}

#[test]
fn photographs_are_masked_by_pixels_and_cut_out() {
    let place = Workplace::new(&[]);
    fs::create_dir(place.path("photos")).unwrap();
    let (w, h) = (300, 200);
    let photo = |left: usize| -> Vec<u8> {
        (0..w * h)
            .flat_map(|k| {
                let is_red = (left..left + 60).contains(&(k % w)) && (80..140).contains(&(k / w));
                if is_red { [220, 20, 30] } else { [90, 110, 100] }
            })
            .collect()
    };
    for (name, left) in [("p.png", 100), ("q.png", 1000)] {
        fs::write(
            place.path("photos").join(name),
            png(w as u32, h as u32, PngPixels::Rgb8(&photo(left)), &[]).unwrap(),
        )
        .unwrap();
    }
    let options = MaskOptions {
        input: place.path("photos"),
        modes: OutputModes::Both,
        empty_masks: true,
        dilate: Dilation::Pixels(5.0),
        ..place.options()
    };
    let done = run(&options).unwrap();
    assert_eq!((done.frames, done.detections, done.of), (2, 1, "photograph"));
    let removed = |name: &str| {
        let rgb = decode_file(&place.path(name)).unwrap().rgb;
        rgb.chunks_exact(3).filter(|p| p[0] == 0).count() as f64
    };
    // 60 px and 5 more on each side, except for the corners, of which π 5² of 100 px remain.
    let expected = 70.0 * 70.0 - (4.0 - std::f64::consts::PI) * 25.0;
    let found = removed("masks/p.png.png");
    assert!((found / expected - 1.0).abs() < 0.06, "{found} {expected}");
    assert_eq!(removed("masks/q.png.png"), 0.0);
    let cut = decode_file(&place.path("masks/cutouts/p.png")).unwrap();
    let alpha = cut.alpha.unwrap();
    assert_eq!((alpha[110 * w + 130], alpha[20 * w + 20]), (0, 255));
    assert_eq!(cut.rgb[3 * (20 * w + 20)..][..3], [90, 110, 100]);
}

#[test]
fn photographs_in_sub_folders_are_masked_upright_and_others_are_named() {
    let place = Workplace::new(&[]);
    fs::create_dir_all(place.path("photos/cam2")).unwrap();
    // Red on the left; orientation 6 is upright after a quarter turn clockwise.
    let jpeg = |orientation: u8| {
        let colours = [[220, 20, 30], [90, 110, 100]].map(ycbcr_from_rgb);
        let plane = |channel: usize, w: usize| -> Vec<u8> {
            (0..w * w / 3).map(|k| colours[usize::from(k % w >= w / 2)][channel]).collect()
        };
        let exif =
            [b"Exif\0\0MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", &[orientation; 1][..], &[0; 6]];
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        let planes = [plane(0, 240), plane(1, 120), plane(2, 120)];
        encode_image([240, 80], &planes, 95, level, &[marker_segment(0xE1, &exif.concat())])
    };
    fs::write(place.path("photos/a.jpg"), jpeg(1)).unwrap();
    fs::write(place.path("photos/cam2/a.jpg"), jpeg(6)).unwrap();
    for name in ["b.heic", "c.dng", "a_mask.png"] {
        fs::write(place.path("photos").join(name), "x").unwrap();
    }
    let options = MaskOptions {
        input: place.path("photos"),
        modes: OutputModes::Both,
        dilate: Dilation::Pixels(0.0),
        ..place.options()
    };
    let mut warnings = Vec::new();
    let mut hear = |event: Event| {
        if let Event::Warning { line, .. } = event {
            warnings.push(line);
        }
    };
    mask(&options, false, &mut Host::new(&Arc::new(AtomicBool::new(false)), &mut hear)).unwrap();
    for what in ["1 HEIC file left out", "1 DNG file left out", "1 picture left out: masks by their names"] {
        assert!(warnings.iter().any(|line| line.contains(what)), "{warnings:?}");
    }
    let picture = |name: &str| decode_file(&place.path("masks").join(name)).unwrap();
    let size = |name: &str| [picture(name).width, picture(name).height];
    // Masks have the stored pixels, cut-outs are upright.
    let names = ["a.jpg.png", "cam2/a.jpg.png", "cutouts/cam2/a.png"];
    assert_eq!(names.map(size), [[240, 80], [240, 80], [80, 240]]);
    for name in &names[..2] {
        let rgb = picture(name).rgb;
        let removed = rgb.chunks_exact(3).enumerate().filter(|(_, p)| p[0] == 0).map(|(k, _)| k);
        let left = removed.clone().filter(|k| k % 240 < 120).count();
        assert!(left > 115 * 80 && removed.count() - left < 5 * 80, "{name}: {left}");
    }
    let feathered = MaskOptions { feather: 1.0, ..options };
    assert!(run(&feathered).unwrap_err().to_string().contains("⟨feather⟩: applies to panoramas"));
}

#[test]
fn what_cannot_be_used_is_told_in_one_line_with_its_code() {
    let place = Workplace::new(&[("a.png", &[])]);
    let refused = |options: &MaskOptions| {
        let failure = run(options).unwrap_err();
        (failure.code, failure.message.replace(&format!("{}/", place.folder.path().display()), ""))
    };
    fs::write(place.path("broken.onnx"), b"no model").unwrap();
    let (code, line) = refused(&MaskOptions { model: Some(place.path("broken.onnx")), ..place.options() });
    assert_eq!(code, "model");
    assert!(line.starts_with("broken.onnx: model: is not an ONNX model"), "{line}");
    let mut options = place.options();
    options.wanted.remove = Some(vec!["sky".to_owned()]);
    assert_eq!(
        refused(&options),
        ("usage", "⟨remove⟩: the model has no class or group `sky` (expected one of person)".to_owned())
    );
    let (code, line) = refused(&MaskOptions { dilate: Dilation::Pixels(3.0), ..place.options() });
    assert_eq!(
        (code, line.as_str()),
        ("usage", "⟨dilate⟩: pixels apply to photographs only; use degrees for panoramas and their views")
    );
    assert_eq!(refused(&MaskOptions { dilate: Dilation::Degrees(90.0), ..place.options() }).0, "usage");
    // A folder that Gausset did not create.
    fs::create_dir(place.path("masks")).unwrap();
    fs::write(place.path("masks/thesis.txt"), "mine").unwrap();
    assert_eq!(refused(&place.options()).0, "exists");
    // An unreadable frame is skipped and reported.
    fs::write(place.path("walk/z.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let done = run(&MaskOptions { output: place.path("fresh"), ..place.options() }).unwrap();
    assert_eq!((done.frames, done.skipped.len()), (1, 1));
}

/// An operator who moves with the camera is detected without a model, in frames of a room.
#[test]
fn what_rides_along_is_masked_without_a_model() {
    use gausset_compute::Pool;
    use gausset_scenes::room::{self, Room};
    const FRAMES: usize = 12;
    let (w, h) = (480usize, 240usize);
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("walk")).unwrap();
    let operator = [35.0, -90.0, 24.0];
    let direction =
        |k: usize| direction_from_equirect((k % w) as f64 + 0.5, (k / w) as f64 + 0.5, w as f64, h as f64);
    for frame in 0..FRAMES {
        let mut picture =
            Room::FOR_REGISTRATION.panorama(w as u32, &room::pose(frame, FRAMES), &Pool::new(2));
        for (k, rgb) in picture.data.chunks_exact_mut(3).enumerate() {
            if is_in(&operator, direction(k)) {
                // Strands of hair.
                let shade = ((k % w) as f64 / 4.0).sin() * 14.0;
                rgb.copy_from_slice(&[58.0, 44.0, 36.0].map(|c| (c + shade) as u8));
            }
        }
        let file = png(w as u32, h as u32, PngPixels::Rgb8(&picture.data), &[]).unwrap();
        fs::write(folder.path().join(format!("walk/{frame:02}.png")), file).unwrap();
    }
    let options = MaskOptions {
        still_patch: true,
        dilate: Dilation::Degrees(0.0),
        ..MaskOptions::new(folder.path().join("walk"), folder.path().join("masks"))
    };
    let done = run(&options).unwrap();
    let (mut both, mut either, mut wrong) = (0, 0, 0.0);
    let mask = decode_file(&folder.path().join("masks/05.png.png")).unwrap();
    assert_eq!([mask.width, mask.height], [w as u32, h as u32]);
    for (k, pixel) in mask.rgb.chunks_exact(3).enumerate() {
        let (removed, truth) = (pixel[0] == 0, is_in(&operator, direction(k)));
        both += usize::from(removed && truth);
        either += usize::from(removed || truth);
        let latitude = (k / w) as f64 / h as f64 * std::f64::consts::PI;
        wrong += if removed && !truth { latitude.sin() / (w * h) as f64 * 1.57 } else { 0.0 };
    }
    assert!(both as f64 >= 0.9 * either as f64 && wrong <= 1e-3, "{both} of {either}, {wrong} elsewhere");
    assert!(done.still_share.is_some_and(|share| share > 0.03 && share < 0.06), "{done:?}");
    assert_eq!(run(&options).unwrap().resumed, FRAMES);
    // One frame more or fewer changes the static foreground of all: masks are created again.
    fs::remove_file(folder.path().join("walk/00.png")).unwrap();
    fs::remove_file(folder.path().join("walk/07.png")).unwrap();
    assert!(run(&options).unwrap().resumed < FRAMES - 2);
    let nothing = run(&MaskOptions { still_patch: false, ..options.clone() }).unwrap_err();
    assert!(nothing.to_string().contains("nothing to remove"), "{nothing}");
    let photographs = MaskOptions { kind: Some(gausset::mask::InputKind::Photographs), ..options };
    let refused = run(&photographs).unwrap_err().to_string();
    assert!(refused.contains("⟨still-patch⟩: applies to panoramas only (found photographs)"), "{refused}");
}
