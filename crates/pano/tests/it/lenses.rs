//! Two fisheye lenses: calibrated from frames of a known room, and minified like panoramas.
#![allow(clippy::print_stdout, reason = "measurements for research/benchmarks-log.md")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_core::{Pose, se3};
use gausset_io::image::encode::{PngPixels, png};
use gausset_pano::calibrate::{
    CalibrationError, CircleError, InitialCalibration, LumaImage, calibrate, circle, circle_cells,
};
use gausset_pano::cutter::{CutJob, CutTimes, CutView, Cutter, Format, Plan};
use gausset_pano::eac::Eac;
use gausset_pano::fisheye::{DualFisheye, Lens};
use gausset_pano::geometry::{View, rotation};
use gausset_pano::lens_views::LensViews;
use gausset_pano::plane::{ColourModel, Frame, FrameShape, Plane};
use gausset_pano::projection::Projection;
use gausset_pano::sphere_video::{SphereVideo, open_two_circles};
use gausset_pano::video::{FrameSelection, Video, VideoError};
use gausset_scenes::room::{self, Room};

use crate::two_circles::{DETAILED, Drawing, angles_between, poor_start, rotation_between};

/// Lenses with a nonlinear mapping, axes that are not opposite, and circles off the centres of their halves.
const LENSES: &str = r#"{ "width": 1600, "height": 800, "blend_degrees": 4, "lenses": [
    { "cx": 402.4, "cy": 397.2, "radius": 381.3, "half_angle": 99, "polynomial": [1, -0.06, 0.012] },
    { "cx": 1196.7, "cy": 402.8, "radius": 383.1, "half_angle": 99, "polynomial": [1, -0.06, 0.012],
      "yaw": 180.9, "pitch": 0.6, "roll": -0.5 } ] }"#;

fn truth() -> DualFisheye {
    DualFisheye::parse(LENSES.as_bytes()).unwrap()
}

/// Six frames of a camera that only rotates.
fn turned_frames(drawing: &Drawing, pool: &Pool) -> Vec<LumaImage> {
    (0..6)
        .map(|k| {
            let k = f64::from(k);
            let turn = rotation(50.0 * k, 8.0 * (1.7 * k).sin(), 6.0 * (2.3 * k).cos());
            let centre = room::pose(0, 6).centre();
            let translation = se3::mul_vec(&turn, centre).map(|v| -v);
            drawing.room(DETAILED, &Pose { rotation: turn, translation }, 0.0, pool)
        })
        .collect()
}

/// Sum of uniform noise: approximately Gaussian and identical on every machine.
fn noise(seed: &mut u64) -> f64 {
    (0..6)
        .map(|_| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 40) as f64 / (1u64 << 24) as f64 - 0.5
        })
        .sum::<f64>()
        * std::f64::consts::SQRT_2
}

#[test]
fn lenses_are_calibrated_from_a_poor_start_and_from_none() {
    let (pool, never) = (Pool::new(2), AtomicBool::new(false));
    let truth = truth();
    let frames = turned_frames(&Drawing::of(&truth, &pool), &pool);
    for start in [
        InitialCalibration { lenses: Some(poor_start(&truth)), ..InitialCalibration::default() },
        InitialCalibration::default(),
    ] {
        let found = calibrate(&frames, &start, &pool, &never).unwrap();
        let [mean, worst] = angles_between(&found.lenses, &truth);
        let turn = rotation_between(&found.lenses, &truth);
        println!(
            "angles {mean:.4} rms, {worst:.4} worst, rotation {turn:.4} degrees; tracks {:?}, {} turned, spread {:.3} px, doubts {:.3} px {:.4} deg",
            found.matches, found.rotations, found.residual_spread, found.centre_sigma, found.rotation_sigma
        );
        for (circle, lens) in found.circles.iter().zip(&truth.lenses) {
            let circle = circle.unwrap();
            let off = (circle.centre[0] - lens.centre[0]).hypot(circle.centre[1] - lens.centre[1]);
            println!(
                "circle {off:.3} px off, radius {:.3} px off, doubts {:.3} {:.3}",
                circle.radius - lens.radius,
                circle.centre_sigma,
                circle.radius_sigma
            );
        }
        assert!(mean < 0.05 && worst < 0.15, "angles {mean} rms, {worst} worst");
        assert!(turn < 0.03, "rotation between the lenses {turn}");
        let psnr = views_against_truth(&found.lenses, &truth, &pool);
        println!(
            "views against truth {psnr:.1} dB, with the exact lens file {:.1}",
            views_against_truth(&truth, &truth, &pool)
        );
        assert!(psnr > 45.0, "{psnr:.1} dB");
    }
    // The same bytes on any number of threads.
    let [one, three] = [1, 3].map(|threads| {
        calibrate(&frames[..2], &InitialCalibration::default(), &Pool::new(threads), &never)
            .unwrap()
            .lenses
            .to_json()
    });
    assert_eq!(one, three);
}

#[test]
fn the_ring_alone_says_how_lenses_stand_to_each_other() {
    let (pool, never) = (Pool::new(2), AtomicBool::new(false));
    let truth = truth();
    let drawing = Drawing::of(&truth, &pool);
    let frames: Vec<LumaImage> =
        (0..3).map(|k| drawing.room(DETAILED, &room::pose(2 * k, 6), 0.0, &pool)).collect();
    let start = InitialCalibration { lenses: Some(poor_start(&truth)), ..InitialCalibration::default() };
    let found = calibrate(&frames, &start, &pool, &never).unwrap();
    let [mean, worst] = angles_between(&found.lenses, &truth);
    let turn = rotation_between(&found.lenses, &truth);
    println!("ring alone: {mean:.4} rms, {worst:.4} worst, rotation {turn:.4}; {} turned", found.rotations);
    assert!(turn < 0.06 && mean < 0.2, "{turn} {mean} {worst}");
}

#[test]
fn circles_are_found_in_noise_flare_and_dark_rooms() {
    let pool = Pool::new(2);
    let truth = truth();
    let drawing = Drawing::of(&truth, &pool);
    let scene = drawing.drawn(&pool, &|d: [f64; 3], _| {
        let p = room::pose(0, 6);
        255.0 * DETAILED.colour(p.centre(), se3::transpose_mul_vec(&p.rotation, d))[1]
    });
    let cells = circle_cells(truth.canvas()).unwrap();
    let mut seed = 7;
    // Light, noise, flare: a glow around a lamp near the rim that extends beyond it.
    for (light, sigma, flare) in [(1.0, 2.0, 0.0), (1.0, 6.0, 60.0), (0.06, 3.0, 0.0), (0.1, 3.0, 20.0)] {
        let frames: Vec<LumaImage> = (0..6)
            .map(|_| {
                let data: Vec<f64> = scene
                    .iter()
                    .enumerate()
                    .map(|(at, v)| {
                        let (x, y) = ((at % 1600) as f64, (at / 1600) as f64);
                        let glow = flare * (-((x - 700.0).powi(2) + (y - 250.0).powi(2)) / 8000.0).exp();
                        light * v + glow + sigma * noise(&mut seed)
                    })
                    .collect();
                drawing.grey(&data)
            })
            .collect();
        for (lens, cell) in cells.into_iter().enumerate() {
            let circle = circle::find_circle(&frames, cell, lens).unwrap();
            let wanted = &truth.lenses[lens];
            let off = (circle.centre[0] - wanted.centre[0]).hypot(circle.centre[1] - wanted.centre[1]);
            let radius = 100.0 * (circle.radius / wanted.radius - 1.0).abs();
            println!(
                "light {light} noise {sigma} flare {flare} lens {lens}: centre {off:.3} px, radius {radius:.3} %, doubts {:.3} {:.3}",
                circle.centre_sigma, circle.radius_sigma
            );
            assert!(off < 1.0 && radius < 0.3, "centre {off} px, radius {radius} %");
        }
    }
}

#[test]
fn what_are_no_two_circles_is_told() {
    let (pool, never) = (Pool::new(1), AtomicBool::new(false));
    let failed = |width: usize, height: usize, value: &dyn Fn(f64, f64) -> u8| {
        let data = (0..width * height).map(|at| value((at % width) as f64, (at / width) as f64)).collect();
        calibrate(&[LumaImage { width, height, data }], &InitialCalibration::default(), &pool, &never)
            .unwrap_err()
    };
    let disc = |x: f64, y: f64, cx: f64, cy: f64, r: f64| (x - cx).hypot(y - cy) < r;
    assert_eq!(failed(900, 300, &|_, _| 99), CalibrationError::Shape(900, 300));
    assert_eq!(failed(600, 300, &|_, _| 2), CalibrationError::Circle(CircleError::Dark(0)));
    let cap = |x: f64, y: f64| if disc(x, y, 150.0, 150.0, 140.0) { 120 } else { 1 };
    assert_eq!(failed(600, 300, &cap), CalibrationError::Circle(CircleError::Dark(1)));
    // No black pixels.
    let panorama = |x: f64, y: f64| (120.0 + 40.0 * (x / 37.0).sin() * (y / 23.0).cos()) as u8;
    assert_eq!(failed(600, 300, &panorama), CalibrationError::Circle(CircleError::NotFound(0)));
    let three = |x: f64, y: f64| {
        let is_inside = disc(x, y, 150.0, 75.0, 74.0)
            || disc(x, y, 150.0, 225.0, 74.0)
            || disc(x, y, 450.0, 150.0, 140.0);
        if is_inside { 120 } else { 0 }
    };
    assert!(matches!(
        failed(600, 300, &three),
        CalibrationError::Circle(CircleError::BrightOutside(0, _) | CircleError::NotFound(0))
    ));
    // Two uniform circles without corners.
    let even = |x: f64, y: f64| {
        if disc(x, y, 150.0, 150.0, 140.0) || disc(x, y, 450.0, 150.0, 140.0) { 120 } else { 0 }
    };
    assert!(matches!(failed(600, 300, &even), CalibrationError::TooLittleOverlap(..)));
}

/// Renders a view from one plane.
fn cut(projection: &Projection, plane: Plane, view: &View, pool: &Pool) -> Vec<u8> {
    let size = [plane.width as u32, plane.height as u32];
    let shape = FrameShape { colour: ColourModel::Grey, sizes: vec![size], has_alpha: false };
    let plan = Plan::new(vec![view.clone()], Format::Png, projection, shape, 0.0, pool);
    let mut frame = Frame { colour: ColourModel::Grey, planes: vec![plane], alpha: None };
    let mut out = Vec::new();
    let job = CutJob {
        level: dispatch_level(SimdLevel::Auto).unwrap(),
        plan: &plan,
        frame: &mut frame,
        mask: None,
        cancel: &AtomicBool::new(false),
        segments: &|_| Vec::new(),
    };
    let mut receive = |view: CutView<'_>| -> Result<(), ()> {
        let picture = gausset_io::image::decode(view.encoded).unwrap();
        out = picture.rgb.chunks_exact(3).map(|p| p[0]).collect();
        Ok(())
    };
    Cutter::default().cut(job, &mut CutTimes::default(), &mut receive).unwrap();
    out
}

/// The circles of the frame have one grey each on black, and some views are so small that the frame is downsampled.
#[test]
fn views_of_a_lens_show_nothing_of_the_other_and_nothing_beside_its_circle() {
    let (mut truth, pool) = (truth(), Pool::new(2));
    // So narrow that views off the axis must be rotated back from the rim.
    truth.lenses.iter_mut().for_each(|lens| lens.half_angle = 88f64.to_radians());
    let greys = [100.0, 200.0];
    let size = truth.canvas().map(|side| side as usize);
    let value = |x: usize, y: usize| {
        // A pixel that the rim crosses is not inside.
        let far =
            |lens: &Lens| (x as f64 + 0.5 - lens.centre[0]).hypot(y as f64 + 0.5 - lens.centre[1]) + 1.0;
        let inside = (0..2).find(|&k| far(&truth.lenses[k]) < truth.lenses[k].radius);
        inside.map_or(0.0, |k| greys[k])
    };
    let data: Vec<f64> = (0..size[0] * size[1]).map(|k| value(k % size[0], k / size[0])).collect();
    for side in [48, 96, 320] {
        let views = LensViews::new(&truth, side, 90.0).unwrap();
        for (lens, views) in [0, 1].map(|lens| views.views_of(lens)).iter().enumerate() {
            let projection = Projection::Fisheye(truth.single_lens(lens));
            for view in views {
                let cut = cut(&projection, plane_of(size, &data), view, &pool);
                let wrong = cut.iter().filter(|v| f64::from(**v) != greys[lens]).count();
                assert_eq!((wrong, cut.len()), (0, (side * side) as usize), "lens {lens}, {view:?}");
            }
        }
    }
}

fn plane_of(size: [usize; 2], data: &[f64]) -> Plane {
    let mut plane = Plane::default();
    plane.reshape(size[0], size[1], [0, size[1] as i32]);
    for (y, row) in data.chunks_exact(size[0]).enumerate() {
        for (out, value) in plane.row_mut(y as i32).iter_mut().zip(row) {
            *out = (value + 0.5).clamp(0.0, 255.0) as u8;
        }
    }
    plane
}

fn view(yaw: f64, pitch: f64, side: u32) -> View {
    View { name: "v".into(), yaw, pitch, roll: 0.0, hfov: 90.0, width: side, height: side }
}

fn psnr(a: &[u8], wanted: &[f64]) -> f64 {
    let sum: f64 = a.iter().zip(wanted).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
    10.0 * (255.0f64.powi(2) * a.len() as f64 / sum).log10()
}

/// Renders a view as the mean of `times` x `times` rays per pixel.
fn supersampled(view: &View, times: usize, value: &dyn Fn([f64; 3]) -> f64) -> Vec<f64> {
    let side = view.width as usize;
    let part = |k: usize| (k as f64 + 0.5) / times as f64;
    (0..side * side)
        .map(|at| {
            let (x, y) = ((at % side) as f64, (at / side) as f64);
            let rays =
                (0..times * times).map(|k| view.ray_in_panorama(x + part(k % times), y + part(k / times)));
            rays.map(value).sum::<f64>() / (times * times) as f64
        })
        .collect()
}

/// Lowest PSNR of six views of a smooth room, rendered with the lens file `found` from a frame of the lenses `truth`.
fn views_against_truth(found: &DualFisheye, truth: &DualFisheye, pool: &Pool) -> f64 {
    let pose = room::pose(2, 6);
    let value = |d: [f64; 3]| 255.0 * Room::SMOOTH.colour(pose.centre(), d)[1];
    let drawing = Drawing::of(truth, pool);
    let data = drawing.drawn(pool, &|d, _| value(d));
    let projection = Projection::Fisheye(found.clone());
    let views = [
        view(0.0, 0.0, 320),
        view(90.0, 0.0, 320),
        view(180.0, 0.0, 320),
        view(45.0, 30.0, 320),
        view(0.0, 90.0, 320),
        view(-90.0, -30.0, 320),
    ];
    let each = views.iter().map(|view| {
        let wanted = supersampled(view, 1, &value);
        psnr(&cut(&projection, plane_of(drawing.size, &data), view, pool), &wanted)
    });
    each.fold(f64::INFINITY, f64::min)
}

#[test]
fn fisheyes_and_gopro_streams_are_averaged_before_they_are_minified() {
    let pool = Pool::new(2);
    let room = Room { octaves: 5, has_spots: true, has_pillars: false, seed: 0 };
    let pose = room::pose(1, 6);
    let value = |d: [f64; 3]| 255.0 * room.colour(pose.centre(), d)[1];
    let fisheye = truth();
    let drawing = Drawing::of(&fisheye, &pool);
    let fisheye = (Projection::Fisheye(fisheye), drawing.size, drawing.drawn(&pool, &|d, _| value(d)));
    let eac = Eac::from_stream_size(2272, 736).unwrap();
    let size = eac.canvas_size().map(|v| v as usize);
    // Every pixel of the canvas from its direction, by the inverse of the faces' formulas.
    let data = (0..size[0] * size[1]).map(|at| {
        let (x, y) = ((at % size[0]) as f64 + 0.5, (at / size[0]) as f64 + 0.5);
        value(eac_direction(&eac, x, y))
    });
    let eac = (Projection::Eac(eac), size, data.collect::<Vec<f64>>());
    for (projection, size, data) in [fisheye, eac] {
        // Four source pixels per pixel of the view.
        let side = (f64::from(projection.pixels_per_turn()) / std::f64::consts::PI / 4.0) as u32 / 2 * 2;
        for view in [view(0.0, 0.0, side), view(90.0, 0.0, side), view(160.0, 40.0, side)] {
            let wanted = supersampled(&view, 5, &value);
            let averaged = psnr(&cut(&projection, plane_of(size, &data), &view, &pool), &wanted);
            let bilinear: Vec<u8> = supersampled(&view, 1, &|d| plain_sample(&projection, size, &data, d))
                .into_iter()
                .map(|v| (v + 0.5) as u8)
                .collect();
            let plain = psnr(&bilinear, &wanted);
            println!("{} px, yaw {}: averaged {averaged:.1} dB, plain {plain:.1} dB", side, view.yaw);
            assert!(averaged > plain + 1.5, "averaged {averaged:.1} dB, plain {plain:.1} dB");
        }
    }
}

/// Bilinear sample of the full-resolution source.
fn plain_sample(projection: &Projection, size: [usize; 2], data: &[f64], direction: [f64; 3]) -> f64 {
    let at = |[u, v]: [f64; 2]| {
        let (u, v) =
            ((u - 0.5).clamp(0.0, size[0] as f64 - 1.001), (v - 0.5).clamp(0.0, size[1] as f64 - 1.001));
        let (x, y) = (u as usize, v as usize);
        let (a, b) = (u.fract(), v.fract());
        let get = |x: usize, y: usize| data[y * size[0] + x];
        (get(x, y) * (1.0 - a) + get(x + 1, y) * a) * (1.0 - b)
            + (get(x, y + 1) * (1.0 - a) + get(x + 1, y + 1) * a) * b
    };
    let place = projection.project(direction);
    let first = at([place.u, place.v]);
    place.second.map_or(first, |(second, share)| first + share * (at(second) - first))
}

/// Direction of a point on the two stacked streams of a GoPro MAX.
fn eac_direction(eac: &Eac, x: f64, y: f64) -> [f64; 3] {
    let (side, centre) = (f64::from(eac.side), f64::from(eac.centre));
    let (stream, y) = if y < centre { (0, y) } else { (1, y - centre) };
    let (face, q) = if x < side {
        (0, x / side)
    } else if x < side + centre {
        (1, (x - side) / centre)
    } else {
        (2, (x - side - centre) / side)
    };
    let strip = if face == 1 { 0.0 } else { 2.0 * f64::from(eac.overlap) / side };
    let s = (if q < 0.5 { q } else { q - strip }) / (1.0 - strip);
    let t = y / centre;
    let (u, v) = if stream == 0 { (s, 1.0 - t) } else { (t, s) };
    let tangent = |v: f64| ((2.0 * v - 1.0) * std::f64::consts::FRAC_PI_4).tan();
    let (a, b) = (tangent(u), tangent(v));
    match (stream, face) {
        (0, 0) => [-1.0, -b, a],
        (0, 1) => [a, -b, 1.0],
        (0, _) => [1.0, -b, -a],
        (_, 0) => [-a, 1.0, -b],
        (_, 1) => [-a, -b, -1.0],
        (_, _) => [-a, -1.0, b],
    }
}

const SMALL: &str = r#"{ "width": 400, "height": 200, "lenses": [
    { "cx": 100, "cy": 100, "radius": 98, "half_angle": 99 },
    { "cx": 300, "cy": 100, "radius": 98, "half_angle": 99, "yaw": 180, "roll": 90 } ] }"#;

fn ffmpeg(arguments: &str, folder: &Path) {
    let arguments = arguments.split_whitespace();
    let status = Command::new("ffmpeg").args(arguments).current_dir(folder).stdin(Stdio::null()).status();
    assert!(status.unwrap().success());
}

/// Luma of the first frame of a video.
fn first_frame(video: &Video) -> Plane {
    let never = AtomicBool::new(false);
    let mut frame = Frame::default();
    let mut reader = video.start(&never).unwrap();
    let all = [[-1, i32::MAX / 2]; 3];
    assert!(reader.read_frame(video, 0, &all, dispatch_level(SimdLevel::Auto).unwrap(), &mut frame).unwrap());
    frame.planes.swap_remove(0)
}

#[test]
fn circles_come_in_one_stream_two_streams_or_two_files() {
    if gausset_process::find_program("ffmpeg").is_none() {
        let test = "circles_come_in_one_stream_two_streams_or_two_files";
        return gausset_testkit::skip_for_tool(test, "ffmpeg is not installed");
    }
    let (pool, never, folder) = (Pool::new(1), AtomicBool::new(false), tempfile::tempdir().unwrap());
    let folder = folder.path();
    let lenses = DualFisheye::parse(SMALL.as_bytes()).unwrap();
    let pose = room::pose(1, 6);
    let drawing = Drawing::of(&lenses, &pool);
    let data = drawing.drawn(&pool, &|d, _| 255.0 * Room::SMOOTH.colour(pose.centre(), d)[1]);
    let rgb: Vec<u8> = data.iter().flat_map(|v| [(v + 0.5) as u8; 3]).collect();
    std::fs::write(folder.join("both.png"), png(400, 200, PngPixels::Rgb8(&rgb), &[]).unwrap()).unwrap();
    let looped = |seconds: u32| format!("-v error -framerate 5 -loop 1 -t {seconds} -i both.png");
    let code = "-c:v libx264 -qp 4 -pix_fmt yuv420p -f mp4";
    let halves = ["crop=200:200:0:0", "crop=200:200:200:0"];
    ffmpeg(&format!("{} {code} VID_1_00_001.insv", looped(2)), folder);
    let two = |second: u32, name: &str| {
        let [a, b] = halves;
        let maps = format!("-filter_complex [0:v]{a}[a];[1:v]{b}[b] -map [a] -map [b]");
        ffmpeg(&format!("{} {} {maps} {code} {name}", looped(2), &looped(second)[8..]), folder);
    };
    two(2, "two.insv");
    two(1, "torn.insv");
    for (half, name) in halves.iter().zip(["VID_2_00_001.insv", "VID_2_10_001.insv"]) {
        ffmpeg(&format!("{} -vf {half} {code} {name}", looped(2)), folder);
    }
    std::fs::copy(folder.join("VID_2_10_001.insv"), folder.join("VID_3_10_001.insv")).unwrap();
    let limits = [16_384, 8192];
    let open = |name: &str, choice: FrameSelection| {
        SphereVideo::open_fisheye(
            &folder.join(name),
            &lenses,
            choice,
            limits,
            Duration::from_secs(60),
            &never,
        )
    };
    for name in ["VID_1_00_001.insv", "two.insv", "VID_2_00_001.insv", "VID_2_10_001.insv"] {
        let film = open(name, FrameSelection::default()).unwrap();
        assert_eq!((film.video.size, film.projection().canvas_size()), ([400, 200], [400, 200]), "{name}");
        let luma = first_frame(&film.video);
        let found: Vec<u8> = (0..200).flat_map(|y| luma.row(y).to_vec()).collect();
        let db = psnr(&found, &data);
        assert!(db > 38.0, "{name}: {db:.1} dB");
        // Without a lens file.
        let blind = open_two_circles(
            &folder.join(name),
            FrameSelection::default(),
            limits,
            Duration::from_secs(60),
            &never,
        );
        assert_eq!(blind.unwrap().size, [400, 200]);
    }
    let told = |result: Result<SphereVideo, VideoError>| match result {
        Ok(film) => format!("{:?}", film.video.size),
        Err(error) => error.to_string().replace(&format!("{}/", folder.display()), ""),
    };
    assert_eq!(
        told(open("torn.insv", FrameSelection::default())),
        "torn.insv: video: its two streams last 2.00 s and 1.00 s (expected the same); copy it again, or use ⟨end = 1.00⟩ for the part that both have"
    );
    assert_eq!(
        told(open("torn.insv", FrameSelection { end: Some(1.0), ..FrameSelection::default() })),
        "[400, 200]"
    );
    assert_eq!(
        told(open("VID_3_10_001.insv", FrameSelection::default())),
        "VID_3_10_001.insv: video: shows one of two lenses (expected a second stream in it or in VID_3_00_001.insv next to it); copy both files"
    );
    ffmpeg(&format!("{} -vf crop=200:100:0:0 {code} flat.insv", looped(1)), folder);
    assert_eq!(
        told(open("flat.insv", FrameSelection::default())),
        "flat.insv: video: has 200x100 px (expected 400x200 px, as the lens file says, in one stream, or each half in one of two)"
    );
    let panorama = SphereVideo::open(
        &folder.join("two.insv"),
        FrameSelection::default(),
        false,
        limits,
        Duration::from_secs(60),
        &never,
    );
    assert_eq!(
        told(panorama),
        "two.insv: video: shows two fisheye circles (expected a panorama or ordinary footage); use ⟨lens⟩ with a file from `gausset pano calibrate`, or stitch it first"
    );
}
