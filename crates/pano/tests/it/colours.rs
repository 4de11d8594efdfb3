//! Colour processing from files to files: LUTs against ffmpeg, neutral settings, equalisation of lenses and frames.
#![allow(clippy::print_stderr, reason = "tests say what they measured")]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::RgbImage8;
use gausset_io::image::encode::{PngPixels, png, png_rgb8};
use gausset_pano::convert::{OutputContext, decode_frame, to_panorama};
use gausset_pano::cutter::Format;
use gausset_pano::equalise::Equalise;
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::frame_gains::{self, FrameEqualiser, FrameFeatures};
use gausset_pano::frames::list_frames;
use gausset_pano::grade::Colouring;
use gausset_pano::layout::Layout;
use gausset_pano::load::ImageLimits;
use gausset_pano::look::{ColourSettings, linear_from_srgb, srgb_from_linear};
use gausset_pano::lut::Lut;
use gausset_pano::projection::Projection;
use gausset_pano::split::{OnError, SplitSettings, WorkerSettings, read_manifest, split};
use gausset_scenes::room::{Room, pose};
use gausset_testkit::skip_for_tool;

fn cut(input: &Path, settings: &SplitSettings, out: &Path) {
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let work =
        WorkerSettings { threads: 2, level, on_error: OnError::Stop, force: false, memory_budget: 256 << 20 };
    let frames = list_frames(input).unwrap();
    split(&frames, settings, &work, out, &AtomicBool::new(false), &mut |_| {}).unwrap();
}

/// A table of 33 points with curves and mixed channels.
fn table() -> String {
    let mut text = "LUT_3D_SIZE 33\n".to_owned();
    for k in 0..33 * 33 * 33 {
        let [r, g, b] = [k % 33, k / 33 % 33, k / (33 * 33)].map(|v| v as f64 / 32.0);
        let curve = |v: f64| v * v * (3.0 - 2.0 * v);
        let out = [
            0.9 * curve(r) + 0.1 * g,
            0.05 + 0.8 * g.powf(0.8) + 0.1 * r * b,
            (b.powf(1.3) + 0.2 * (r - g)).clamp(0.0, 1.0),
        ];
        text += &format!("{:.6} {:.6} {:.6}\n", out[0], out[1], out[2]);
    }
    text
}

#[test]
fn a_lut_is_that_of_ffmpeg_within_a_level() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 5u32;
    let pixels: Vec<u8> = (0..3 * 256 * 128)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    std::fs::write(folder.path().join("in.png"), png(256, 128, PngPixels::Rgb8(&pixels), &[]).unwrap())
        .unwrap();
    std::fs::write(folder.path().join("t.cube"), table()).unwrap();
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-i", "in.png", "-vf", "lut3d=file=t.cube:interp=tetrahedral"])
        .args(["-pix_fmt", "rgb24", "out.png"])
        .current_dir(folder.path())
        .status();
    if !run.is_ok_and(|status| status.success()) {
        skip_for_tool("a_lut_is_that_of_ffmpeg_within_a_level", "ffmpeg with lut3d is not there");
        return;
    }
    let theirs = gausset_io::image::decode(&std::fs::read(folder.path().join("out.png")).unwrap()).unwrap();
    let lut = Lut::read(&folder.path().join("t.cube")).unwrap();
    let (mut worst, mut other) = (0, 0);
    for (own, theirs) in pixels.chunks_exact(3).zip(theirs.rgb.chunks_exact(3)) {
        let out = lut.apply([0, 1, 2].map(|c| f32::from(own[c]) / 255.0));
        for c in 0..3 {
            let found = (255.0 * out[c].clamp(0.0, 1.0) + 0.5) as u8;
            worst = worst.max(found.abs_diff(theirs[c]));
            other += usize::from(found != theirs[c]);
        }
    }
    eprintln!("worst {worst} levels; {other} of {} samples differ", pixels.len());
    assert!(worst <= 1, "{worst}");
}

#[test]
fn neutral_colours_give_the_same_views_and_others_are_in_the_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    std::fs::create_dir(&input).unwrap();
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let planes = gausset_scenes::panorama::detailed(256, 1, &Pool::new(1));
    std::fs::write(input.join("a.jpg"), gausset_jpeg::encode_planes(256, &planes, 90, level)).unwrap();
    let plain = SplitSettings::new(Layout::Cube6.views(64, 64, None), Format::Jpeg(90));
    let mut identity = "LUT_3D_SIZE 33\n".to_owned();
    for k in 0..33 * 33 * 33 {
        let [r, g, b] = [k % 33, k / 33 % 33, k / (33 * 33)].map(|v| v as f64 / 32.0);
        identity += &format!("{r:.6} {g:.6} {b:.6}\n");
    }
    let neutral =
        Colouring { look: ColourSettings::default(), lut: Some(Lut::parse(identity.as_bytes()).unwrap()) };
    let bright = Colouring { look: ColourSettings::parse("exposure=1").unwrap(), lut: None };
    let view = |name: &str, settings: &SplitSettings| {
        let out = folder.path().join(name);
        cut(&input, settings, &out);
        let line = read_manifest(&out).remove(0);
        (std::fs::read(out.join("images/view05/a.jpg")).unwrap(), line)
    };
    let (before, line) = view("plain", &plain);
    assert_eq!((line.colours, line.gains), (None, None));
    let (same, other) = view("neutral", &SplitSettings { colouring: neutral, ..plain.clone() });
    assert!(before == same, "a neutral LUT changes nothing");
    assert_ne!(line.settings, other.settings, "but the frame was cut with it");
    let (brighter, line) = view("bright", &SplitSettings { colouring: bright, ..plain.clone() });
    assert_eq!(line.colours.as_deref(), Some("exposure=1"));
    let mean = |bytes: &[u8]| {
        let picture = gausset_io::image::decode(bytes).unwrap();
        picture.rgb.iter().map(|&v| linear_from_srgb(f64::from(v) / 255.0)).sum::<f64>()
            / picture.rgb.len() as f64
    };
    let ratio = mean(&brighter) / mean(&before);
    // Twice the light, minus clipped pixels.
    assert!((1.7..=2.02).contains(&ratio), "{ratio}");
}

/// Multiplies the linear light of each pixel by gains that depend on the column.
fn gained(picture: &RgbImage8, factors: impl Fn(usize) -> [f64; 3]) -> RgbImage8 {
    let width = picture.width as usize;
    let data = picture.data.chunks_exact(3).enumerate().flat_map(|(at, rgb)| {
        let factors = factors(at % width);
        [0, 1, 2].map(|c| {
            let light = linear_from_srgb(f64::from(rgb[c]) / 255.0) * factors[c];
            (255.0 * srgb_from_linear(light.min(1.0)) + 0.5) as u8
        })
    });
    RgbImage8 { data: data.collect(), ..*picture }
}

#[test]
fn the_step_between_two_lenses_falls_to_a_tenth() {
    let lens = r#"{ "width": 1024, "height": 512, "lenses": [
        { "cx": 256, "cy": 256, "radius": 256, "half_angle": 100 },
        { "cx": 768, "cy": 256, "radius": 256, "half_angle": 100, "yaw": 180 } ] }"#;
    let fisheye = DualFisheye::parse(lens.as_bytes()).unwrap();
    let room = Room { octaves: 3, has_spots: false, has_pillars: true, seed: 0 };
    let truth = room.picture([1024, 512], &pose(1, 8), &Pool::new(2), &|u, v| {
        let (x, y) = (if u < 512.0 { u - 256.0 } else { u - 768.0 }, v - 256.0);
        let r = libm::sqrt(x * x + y * y);
        let angle = (r / 256.0 * 100f64.to_radians()).min(3.1);
        let (s, c) = (libm::sin(angle) / r.max(1e-9), libm::cos(angle));
        if u < 512.0 { [x * s, y * s, c] } else { [-x * s, y * s, -c] }
    });
    // Half as bright, so that no channel clips: clipped pixels stay white.
    let truth = gained(&truth, |_| [0.5; 3]);
    let folder = tempfile::tempdir().unwrap();
    let half = [0.85, 1.0, 1.15].map(|b: f64| libm::sqrt(b * 0.5));
    let dark = gained(&truth, |x| if x < 512 { half.map(|f| 1.0 / f) } else { half });
    for (name, picture) in [("truth", &truth), ("dark", &dark)] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("a.png"), png_rgb8(picture).unwrap()).unwrap();
    }
    // The seam of the lenses is in the middle of views 1 and 3.
    let settings = SplitSettings {
        projection: Some(Projection::Fisheye(fisheye)),
        ..SplitSettings::new(Layout::Ring4.views(256, 256, None), Format::Png)
    };
    let views = |source: &str, out: &str, equalise: Equalise| {
        let out = folder.path().join(out);
        cut(&folder.path().join(source), &SplitSettings { equalise, ..settings.clone() }, &out);
        let pictures = [1, 3].map(|view| {
            let file = out.join(format!("images/view0{view}/a.png"));
            gausset_io::image::decode(&std::fs::read(file).unwrap()).unwrap().rgb
        });
        (pictures, read_manifest(&out).remove(0).gains)
    };
    let (truth, _) = views("truth", "o1", Equalise::Off);
    let (as_is, none) = views("dark", "o2", Equalise::Off);
    let (alike, gains) = views("dark", "o3", Equalise::Lenses);
    assert_eq!(none, None);
    // Difference between the errors of the left and the right half of a view, in stops.
    let step = |views: &[Vec<u8>; 2]| {
        let mut worst = 0.0f64;
        for (view, truth) in views.iter().zip(&truth) {
            for c in 0..3 {
                let mut sums = [[0.0; 2]; 2];
                for (at, (own, wanted)) in view.chunks_exact(3).zip(truth.chunks_exact(3)).enumerate() {
                    let usable = |v: u8| (12..244).contains(&v);
                    if usable(own[c]) && usable(wanted[c]) {
                        let light = |v: u8| libm::log2(linear_from_srgb(f64::from(v) / 255.0));
                        let sum = &mut sums[usize::from(at % 256 >= 128)];
                        *sum = [sum[0] + light(own[c]) - light(wanted[c]), sum[1] + 1.0];
                    }
                }
                let [left, right] = sums.map(|[sum, count]| sum / count);
                worst = worst.max((left - right).abs());
            }
        }
        worst
    };
    let (before, after) = (step(&as_is), step(&alike));
    eprintln!("step at the seam: {before:.3} stops, made alike {after:.4}");
    assert!(before > 0.5 && after < 0.1 * before, "{before} {after}");
    let gains = gains.unwrap();
    for c in 0..3 {
        let error = libm::log2(gains[1][c] / gains[0][c] * half[c] * half[c]);
        eprintln!("channel {c}: {error:.4} stops off");
        // 1 % is 0.0144 stops.
        assert!(error.abs() < 0.0143, "{c}: {error}");
    }
}

/// Reads a panorama as a split does.
fn shown(picture: &RgbImage8, pool: &Pool) -> FrameFeatures {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.png");
    std::fs::write(&file, png_rgb8(picture).unwrap()).unwrap();
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let moment = decode_frame(&[file], None, false, &ImageLimits::default(), level).unwrap();
    let stop = AtomicBool::new(false);
    let writing = OutputContext { format: Format::Png, level, pool, stop: &stop, segments: &[] };
    FrameFeatures::from_panorama(&to_panorama(&moment, frame_gains::COMPARED_WIDTH, writing).unwrap())
}

/// Frames of a walk through a room; a known gain is applied to each and estimated again.
struct Walked {
    name: &'static str,
    room: Room,
    width: u32,
    /// Number of the first frame, and frames around the whole path.
    first: usize,
    around: usize,
    /// Brightness before gains.
    light: f64,
}

impl Walked {
    /// Largest errors over `count` frames: exposure in stops, and white balance as a fraction.
    fn errors(&self, count: usize) -> [f64; 2] {
        let stops = [0.0, 1.0, -0.4, -1.0, 0.3, 0.8, -0.7, 0.1];
        let balances = [1.0, 1.15, 0.9, 0.85, 1.1, 1.0, 0.95, 1.15];
        let pool = Pool::new(2);
        let (mut walk, mut truth) = (FrameEqualiser::default(), Vec::new());
        for k in 0..count {
            let picture = self.room.panorama(self.width, &pose(self.first + k, self.around), &pool);
            let (gain, balance) = (self.light * libm::exp2(stops[k % 8]), balances[k % 8]);
            let factors = [gain * balance, gain, gain / balance];
            truth.push(factors.map(libm::log2));
            walk.add(shown(&gained(&picture, |_| factors), &pool), &pool);
        }
        let mean = |c: usize| truth.iter().map(|t| t[c]).sum::<f64>() / count as f64;
        let (mut worst_ev, mut worst_balance) = (0.0f64, 0.0f64);
        for (found, truth) in walk.gains().iter().zip(&truth) {
            let errors = [0, 1, 2].map(|c| libm::log2(found[c]) + truth[c] - mean(c));
            let ev = errors.iter().sum::<f64>() / 3.0;
            worst_ev = worst_ev.max(ev.abs());
            worst_balance = errors.iter().fold(worst_balance, |worst, e| worst.max((e - ev).abs()));
        }
        let balance = libm::exp2(worst_balance) - 1.0;
        eprintln!("{}: worst {worst_ev:.4} stops, white balance {:.2} %", self.name, 100.0 * balance);
        [worst_ev, balance]
    }
}

/// Half as bright, so that little clips at one stop more.
const PLAIN: Walked = Walked {
    name: "a walk",
    room: Room { octaves: 4, has_spots: false, has_pillars: true, seed: 0 },
    width: 1024,
    first: 0,
    around: 16,
    light: 0.5,
};
/// The first frames of the example `room_sequence`.
const SPOTS: Walked = Walked { name: "dark spots", room: Room::FOR_REGISTRATION, width: 2048, ..PLAIN };
const DARK: Walked = Walked {
    name: "little light",
    room: Room { octaves: 5, has_spots: true, has_pillars: true, seed: 5 },
    first: 9,
    around: 20,
    light: 0.2,
    ..PLAIN
};

/// The requirement is 0.03 stops and 1 %. Clipped frames determine their brightness less accurately.
fn assert_found(walked: &Walked, count: usize) {
    let [stops, balance] = walked.errors(count);
    let most = if walked.light < 1.0 { 0.01 } else { 0.03 };
    assert!(stops < most && balance < 0.004, "{}: {stops} {balance}", walked.name);
}

#[test]
fn gains_of_frames_of_a_walk_are_found() {
    for walked in [Walked { width: 1024, ..SPOTS }, DARK] {
        assert_found(&walked, 6);
    }
}

#[test]
#[ignore = "a minute: figures for research/benchmarks-log.md"]
fn errors_of_gains_do_not_add_up_along_a_walk() {
    let long = Walked {
        name: "24 frames",
        room: Room { seed: 77, ..Room::FOR_REGISTRATION },
        width: 1024,
        first: 3,
        around: 40,
        light: 0.35,
    };
    let burnt = Walked { name: "dark spots, burnt out", light: 1.0, ..SPOTS };
    for (walked, count) in [(PLAIN, 8), (SPOTS, 8), (burnt, 8), (DARK, 8), (long, 24)] {
        assert_found(&walked, count);
    }
}

#[test]
fn gains_do_not_depend_on_threads_and_frames_that_share_nothing_have_none() {
    let room = Room { octaves: 3, has_spots: false, has_pillars: false, seed: 1 };
    let pool = Pool::new(2);
    let mut frames: Vec<FrameFeatures> = (0..3)
        .map(|k| {
            let dark = [0.4 / (k + 1) as f64; 3];
            shown(&gained(&room.panorama(1024, &pose(k, 30), &pool), |_| dark), &pool)
        })
        .collect();
    frames.push(shown(&RgbImage8::new(1024, 512), &pool));
    let gains = |threads: usize| {
        let (mut walk, pool) = (FrameEqualiser::default(), Pool::new(threads));
        frames.iter().for_each(|frame| walk.add(frame.clone(), &pool));
        walk.gains()
    };
    let one = gains(1);
    assert_eq!(one, gains(3));
    assert!(one[0][1] < 0.6 && one[2][1] > 1.5 && one[3] == [1.0; 3], "{one:?}");
}
