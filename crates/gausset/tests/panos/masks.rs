//! Masks of videos, walks and other projections: the room with a red figure whose pixels are known, as images and as
//! videos, and a network that detects red.

use std::path::Path;

use gausset::device::DeviceOptions;
use gausset::mask::{CutoutFormat, Dilation, KeepBox, MaskOptions, MaskResult, OutputModes, mask};
use gausset::panos::{PanoAlignment, PanoOptions, TrainViewOptions, run as pano_run};
use gausset::training::RunSettings;
use gausset_compute::Pool;
use gausset_core::{Pose, RgbImage8, se3};
use gausset_io::image::decode_file;
use gausset_io::image::encode::png_rgb8;
use gausset_pano::eac::Eac;
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::geometry::direction_from_equirect;
use gausset_pano::layout::Layout;
use gausset_pano::projection::Projection;
use gausset_pano::selection::SelectBy;
use gausset_pano::unproject::Unprojection;
use gausset_scenes::room::{self, Room};
use gausset_testkit::onnx::TestNetwork;
use gausset_testkit::programs::write_video;
use gausset_train::{Quality, TrainOptions};
use serde_json::Value;

use crate::support::{Place, pose_table, run};

/// A ball in the room.
#[derive(Clone, Copy)]
struct Ball {
    at: [f64; 3],
    radius: f64,
    colour: [u8; 3],
}

/// Colour that the network detects with high confidence.
const RED: [u8; 3] = [220, 20, 30];
/// Colour that the network does not detect.
const GREY: [u8; 3] = [90, 90, 90];

/// The figure in the middle of the room.
const FIGURE: Ball = Ball { at: [0.1, 0.3, -0.2], radius: 0.4, colour: RED };

/// Pixels of a panorama that show a ball.
fn pixels(ball: &Ball, pose: &Pose, width: usize) -> Vec<bool> {
    let towards = pose.apply(ball.at);
    let away = se3::norm(towards);
    let cosine = (1.0 - (ball.radius / away).powi(2)).sqrt();
    let shows = |k: usize| {
        let (x, y) = ((k % width) as f64 + 0.5, (k / width) as f64 + 0.5);
        let ray = direction_from_equirect(x, y, width as f64, width as f64 / 2.0);
        se3::dot(ray, towards) > cosine * away
    };
    (0..width * width / 2).map(shows).collect()
}

/// Some spots of the walls are red; at half saturation, the network detects none of them.
fn pale(pixel: &mut [u8]) {
    let mean = pixel.iter().map(|v| u32::from(*v)).sum::<u32>() / 3;
    pixel.iter_mut().for_each(|v| *v = ((u32::from(*v) + mean) / 2) as u8);
}

/// The room with balls in it.
fn panorama(balls: &[Ball], pose: &Pose, width: usize) -> RgbImage8 {
    let mut picture = Room::FOR_REGISTRATION.panorama(width as u32, pose, &Pool::with_all_cores());
    picture.data.chunks_exact_mut(3).for_each(pale);
    for ball in balls {
        let shown = pixels(ball, pose, width);
        for (pixel, _) in picture.data.chunks_exact_mut(3).zip(shown).filter(|(_, shown)| *shown) {
            pixel.copy_from_slice(&ball.colour);
        }
    }
    picture
}

/// Width of the panoramas of most tests, px.
const WIDTH: usize = 480;

/// A folder with the network.
fn with_network() -> Place {
    let place = Place::new();
    place.write("red.onnx", TestNetwork::red_segmenter(160).bytes());
    place
}

/// Options of a mask job without dilation.
fn options(place: &Place, input: &str, output: &str) -> MaskOptions {
    MaskOptions { dilate: Dilation::Degrees(0.0), ..MaskOptions::new(place.path(input), place.path(output)) }
}

fn masked(options: &MaskOptions) -> MaskResult {
    run(|host| mask(options, false, host)).0.unwrap()
}

/// Which pixels a mask removes.
fn removed(path: &Path, pixels: usize) -> Vec<bool> {
    if !path.is_file() {
        return vec![false; pixels];
    }
    let mask = decode_file(path).unwrap();
    assert_eq!((mask.width * mask.height) as usize, pixels, "{}", path.display());
    mask.rgb.chunks_exact(3).map(|rgb| rgb[0] == 0).collect()
}

fn count(pixels: &[bool]) -> usize {
    pixels.iter().filter(|is_there| **is_there).count()
}

fn both(a: &[bool], b: &[bool]) -> usize {
    a.iter().zip(b).filter(|(a, b)| **a && **b).count()
}

/// One call turns a video with a figure into splats.
#[test]
fn a_film_with_somebody_in_it_becomes_a_splat() {
    const FRAMES: usize = 8;
    const WIDTH: usize = 1024;
    let test = "a_film_with_somebody_in_it_becomes_a_splat";
    let poses: Vec<Pose> = (0..FRAMES).map(|k| room::pose(k, 24)).collect();
    let frames: Vec<RgbImage8> = poses.iter().map(|pose| panorama(&[FIGURE], pose, WIDTH)).collect();
    let place = with_network();
    if !write_video(test, &place.path("tour.mp4"), WIDTH, &frames) {
        return;
    }
    let mut options = PanoOptions {
        views: TrainViewOptions { size: Some(128), ..TrainViewOptions::default() },
        training: TrainOptions { quality: Some(Quality::Fast), steps: Some(50), ..TrainOptions::default() },
        ..PanoOptions::new(place.path("tour.mp4"), place.path("out"))
    };
    options.masking.removal.model = Some(place.path("red.onnx"));
    options.frames.select.select = Some(SelectBy::All);
    let settings = || RunSettings::for_device(DeviceOptions::default());
    let done = run(|host| pano_run::run(&options, settings(), host)).0.unwrap();
    assert_eq!((done.alignment.frames, done.alignment.registered), (8, 8));
    assert!(done.alignment.tool.starts_with("own aligner"), "{:?}", done.alignment);
    let masks = done.masked.expect("masks");
    assert_eq!((masks.frames, masks.with_finds), (8, 8));
    assert!((0.003..0.1).contains(&masks.removed_mean), "{masks:?}");
    // The masks cover the figure, are named after the frames, and are cut into the training views.
    for (k, pose) in poses.iter().enumerate() {
        let truth = pixels(&FIGURE, pose, WIDTH);
        let mask = removed(&place.path(&format!("out/masks/frame_{k:06}.png")), truth.len());
        let (both, mask, truth) = (both(&mask, &truth), count(&mask), count(&truth));
        assert!(both * 100 >= truth * 99 && mask * 100 <= truth * 125, "frame {k}: {both} {mask} {truth}");
    }
    assert!(std::fs::read_dir(place.path("out/train/masks")).unwrap().count() > 1);
    // The trainer uses them: masked pixels count neither in the evaluation nor in the loss.
    let report: Value = serde_json::from_slice(&place.read("out/run/eval/metrics.json")).unwrap();
    let valid = report["valid_share"].as_f64().expect("a share of valid pixels");
    assert!((0.85..0.999).contains(&valid), "{valid}");
    // The same call gives the same result again.
    let again = run(|host| pano_run::run(&options, settings(), host)).0.unwrap();
    let counts = |alignment: &PanoAlignment| (alignment.frames, alignment.registered);
    assert_eq!(counts(&again.alignment), counts(&done.alignment));
    let again = again.masked.expect("masks");
    assert_eq!((again.frames, again.with_finds), (8, 8));
}

/// Whether a direction in the axes of the operator (z is the direction of travel) shows head or shoulders.
fn operator(direction: [f64; 3]) -> Option<[u8; 3]> {
    let degrees = direction[1].clamp(-1.0, 1.0).acos().to_degrees();
    let longitude = direction[0].atan2(direction[2]);
    let (across, along) = (degrees * longitude.sin(), degrees * longitude.cos());
    // Strands of hair, and stripes of cloth behind.
    if across.hypot(along - 8.0) < 18.0 {
        let strand = 14.0 * (15.0 * longitude).sin();
        return Some([58.0, 44.0, 36.0].map(|v: f64| (v + strand) as u8));
    }
    (across.abs() < 28.0 && (along + 20.0).abs() < 12.0)
        .then(|| if (across / 3.0).sin() > 0.0 { [200, 90, 30] } else { [180, 190, 40] })
}

/// In panoramas with fixed orientation the operator rotates with the path. He is detected with the trajectory of a
/// video or with poses, and masked before the views are cut.
#[test]
fn an_operator_who_turns_with_the_walk_is_found_by_its_direction() {
    const FRAMES: usize = 36;
    const WIDTH: usize = 320;
    let test = "an_operator_who_turns_with_the_walk_is_found_by_its_direction";
    // A closed loop in the room; every panorama has the axes of the world.
    let level =
        |k: usize| Pose { rotation: se3::IDENTITY3, translation: room::pose(k, FRAMES).centre().map(|v| -v) };
    let heading = |k: usize| {
        let (before, behind) = (level(k + FRAMES - 1).centre(), level(k + 1).centre());
        (behind[0] - before[0]).atan2(behind[2] - before[2])
    };
    let shows = |k: usize, at: usize| {
        let (x, y) = ((at % WIDTH) as f64 + 0.5, (at / WIDTH) as f64 + 0.5);
        let d = direction_from_equirect(x, y, WIDTH as f64, WIDTH as f64 / 2.0);
        let (sine, cosine) = heading(k).sin_cos();
        operator([cosine * d[0] - sine * d[2], d[1], sine * d[0] + cosine * d[2]])
    };
    let frame = |k: usize| {
        let mut picture = panorama(&[], &level(k), WIDTH);
        for (at, pixel) in picture.data.chunks_exact_mut(3).enumerate() {
            if let Some(colour) = shows(k, at) {
                pixel.copy_from_slice(&colour);
            }
        }
        picture
    };
    let frames: Vec<RgbImage8> = (0..FRAMES).map(frame).collect();
    let iou = |mask: &[bool], k: usize| {
        let truth: Vec<bool> = (0..mask.len()).map(|at| shows(k, at).is_some()).collect();
        let both = both(mask, &truth);
        both as f64 / (count(mask) + count(&truth) - both) as f64
    };
    // Panoramas as image files, with poses.
    let place = Place::new();
    let mut names = Vec::new();
    for k in (0..FRAMES).step_by(3) {
        names.push((format!("{k:02}.png"), level(k)));
        place.write(&format!("walk/{k:02}.png"), png_rgb8(&frames[k]).unwrap());
    }
    place.write("poses.csv", pose_table(names.iter().map(|(name, pose)| (name.as_str(), *pose))));
    let alone = MaskOptions { still_patch: true, ..options(&place, "walk", "alone") };
    let with_poses =
        MaskOptions { poses: Some(place.path("poses.csv")), output: place.path("masks"), ..alone.clone() };
    let told = masked(&with_poses);
    assert!(told.still_share.is_some_and(|share| share > 0.03 && share < 0.08), "{told:?}");
    for k in (3..FRAMES - 3).step_by(3) {
        let mask = removed(&place.path(&format!("masks/{k:02}.png.png")), WIDTH * WIDTH / 2);
        assert!(iou(&mask, k) >= 0.8, "frame {k}: {}", iou(&mask, k));
    }
    // Without poses he cannot be detected.
    let told = masked(&alone);
    assert!(told.still_share.is_none_or(|share| share < 0.02), "{told:?}");
    // A video shows the direction of travel.
    if !write_video(test, &place.path("tour.mp4"), WIDTH, &frames) {
        return;
    }
    let split = || {
        place.split("tour.mp4", "work", |options| {
            options.views.layout = Layout::Cube6;
            options.frames.select.step = Some(3.0);
            options.masking.removal.still_patch = true;
        })
    };
    split();
    let kept: Vec<(String, usize)> = place
        .text("work/frames.jsonl")
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["kept"] == true)
        .map(|line| {
            let name = line["name"].as_str().expect("a name").to_owned();
            (name, line["frame"].as_u64().expect("a number") as usize)
        })
        .collect();
    assert!(kept.len() > 8, "{}", kept.len());
    let mut all: Vec<f64> = kept
        .iter()
        .map(|(name, k)| {
            let mask = removed(&place.path(&format!("work/panorama_masks/{name}.png")), WIDTH * WIDTH / 2);
            iou(&mask, *k)
        })
        .collect();
    all.sort_by(f64::total_cmp);
    // Masks are dilated by 0.6 degrees here.
    assert!(all[0] >= 0.6 && all[all.len() / 2] >= 0.75, "{all:?}");
    assert!(std::fs::read_dir(place.path("work/masks")).unwrap().count() > 0);
    assert_eq!(split().resumed, kept.len());
}

/// A camera that moves a tenth of a metre and rotates three degrees per frame.
fn pose(k: usize) -> Pose {
    let centre = room::pose(k, 100).centre();
    let rotation = se3::so3_exp([0.0, -0.05 * k as f64, 0.02 * (k as f64).sin()]);
    Pose { rotation, translation: se3::mul_vec(&rotation, centre).map(|v| -v) }
}

/// A person whom the network misses in every fifth frame of a video is masked there, too; detections in single frames
/// are dropped.
#[test]
fn what_a_frame_missed_is_filled_and_what_it_alone_has_is_dropped() {
    const FRAMES: usize = 20;
    // The network gives it a confidence of 0.63.
    let weak = [154, 20, 30];
    let poses: Vec<Pose> = (0..FRAMES).map(pose).collect();
    let is_missed = |k: usize| k % 5 == 2;
    let single = |k: usize| Ball {
        at: [[2.4, 0.5, -3.0], [-2.4, -0.6, 3.0], [2.3, -0.4, 2.9], [-2.4, 0.4, 2.0]][k / 3 % 4],
        radius: 0.4,
        colour: weak,
    };
    let frames: Vec<RgbImage8> = (0..FRAMES)
        .map(|k| {
            let mut balls = vec![Ball { colour: if is_missed(k) { GREY } else { RED }, ..FIGURE }];
            if k % 3 == 0 {
                // It fades into a grey of the same brightness: chroma subsampling and ringing at a sharp edge would
                // make some pixels redder than the ball.
                for step in 0..=6 {
                    let share = f64::from(step) / 6.0;
                    let colour = weak.map(|v| (62.0 + share * (f64::from(v) - 62.0)) as u8);
                    balls.push(Ball { radius: 0.7 - 0.3 * share, colour, ..single(k) });
                }
            }
            panorama(&balls, &poses[k], WIDTH)
        })
        .collect();
    let test = "what_a_frame_missed_is_filled_and_what_it_alone_has_is_dropped";
    let place = with_network();
    if !write_video(test, &place.path("tour.mp4"), WIDTH, &frames) {
        return;
    }
    let look = |output: &str, temporal: Option<u32>, threads: u32| {
        let mut options = MaskOptions {
            model: Some(place.path("red.onnx")),
            temporal,
            threads,
            ..options(&place, "tour.mp4", output)
        };
        options.frames.select.select = Some(SelectBy::All);
        let told = masked(&options);
        let (mut wanted, mut filled, mut false_ones, mut left) = (0, 0, 0, 0);
        for (k, pose) in poses.iter().enumerate() {
            let truth = pixels(&FIGURE, pose, WIDTH);
            let mask = removed(&place.path(&format!("{output}/frame_{k:06}.png")), truth.len());
            if is_missed(k) {
                (wanted, filled) = (wanted + count(&truth), filled + both(&mask, &truth));
                assert!(count(&mask) * 10 <= 14 * count(&truth) || output != "masks", "frame {k}");
            }
            if k % 3 == 0 {
                false_ones += 1;
                let alone = pixels(&single(k), pose, WIDTH);
                let elsewhere: Vec<bool> = alone.iter().zip(&truth).map(|(a, b)| *a && !*b).collect();
                left += usize::from(10 * both(&mask, &elsewhere) > count(&elsewhere));
            }
        }
        (told, filled as f64 / f64::from(wanted as u32), left, false_ones)
    };
    let (told, filled, left, false_ones) = look("masks", None, 0);
    println!("temporal filter: {:.1} % filled, {left} of {false_ones} false detections left", 100.0 * filled);
    assert!(filled >= 0.95 && left * 20 <= false_ones, "{filled} {left} of {false_ones}");
    assert_eq!((told.temporal, told.filled, told.dropped), (1, 4, false_ones));
    // Without the temporal filter the masks are those of the network.
    let (told, filled, left, _) = look("alone", Some(0), 0);
    assert!(filled < 0.02 && left == false_ones, "{filled} {left}");
    assert_eq!((told.temporal, told.dropped), (0, 0));
    // One and two threads give the same bytes, also for a video whose frames were not analysed before.
    assert_eq!(look("two", None, 2).0.resumed, 0);
    // Deleted masks are recreated, using their neighbours.
    let name = "masks/frame_000002.png";
    let before = place.read(name);
    assert_eq!(before, place.read("two/frame_000002.png"));
    std::fs::remove_file(place.path(name)).unwrap();
    let (told, ..) = look("masks", None, 0);
    assert_eq!((told.resumed, place.read(name)), (FRAMES - 1, before));
}

/// Masks of dual-fisheye frames and of pairs of streams, which the split of these frames uses.
#[test]
fn frames_of_two_circles_and_of_streams_are_masked_in_their_own_pixels() {
    let place = with_network();
    let lenses = r#"{ "width": 800, "height": 400, "lenses": [
        { "cx": 200, "cy": 200, "radius": 195, "half_angle": 98, "roll": 90 },
        { "cx": 600, "cy": 200, "radius": 195, "half_angle": 98, "yaw": 180 } ] }"#;
    place.write("lens.json", lenses);
    let fisheye = Projection::Fisheye(DualFisheye::parse(lenses.as_bytes()).unwrap());
    let eac = Projection::Eac(Eac::from_stream_size(2272, 736).expect("sizes"));
    let pose = room::pose(3, 24);
    // Figures across the seams of either layout, above and below them.
    let figures = [FIGURE, Ball { at: [1.0, 1.2, 1.2], ..FIGURE }];
    let shows = |ray: [f64; 3]| {
        figures.iter().any(|ball| {
            let towards = pose.apply(ball.at);
            let (away, length) = (se3::norm(towards), se3::norm(ray));
            se3::dot(ray, towards) > (1.0 - (ball.radius / away).powi(2)).sqrt() * away * length
        })
    };
    for (name, projection) in [("circles", fisheye), ("streams", eac)] {
        let shown = Unprojection::new(&projection);
        let [w, h] = projection.canvas_size();
        let mut picture = RgbImage8::new(w, h);
        let mut truth = Vec::new();
        for (k, pixel) in picture.data.chunks_exact_mut(3).enumerate() {
            let (x, y) = ((k % w as usize) as f64 + 0.5, (k / w as usize) as f64 + 0.5);
            let Some(ray) = shown.direction(x, y) else {
                truth.push(false);
                continue;
            };
            let world = se3::transpose_mul_vec(&pose.rotation, ray);
            let mut wall = Room::FOR_REGISTRATION.colour(pose.centre(), world).map(|c| (255.0 * c) as u8);
            pale(&mut wall);
            truth.push(shows(ray));
            pixel.copy_from_slice(if shows(ray) { &RED } else { &wall });
        }
        let half = picture.data.len() / 2;
        let parts = match name {
            "circles" => vec![("f0.png", picture)],
            _ => [("f0_track0.png", &picture.data[..half]), ("f0_track5.png", &picture.data[half..])]
                .map(|(name, data)| (name, RgbImage8 { width: w, height: h / 2, data: data.to_vec() }))
                .to_vec(),
        };
        for (file, part) in &parts {
            place.write(&format!("{name}/{file}"), png_rgb8(part).unwrap());
        }
        let lens = (name == "circles").then(|| place.path("lens.json"));
        let output = format!("{name}_masks");
        let mut options = MaskOptions {
            model: Some(place.path("red.onnx")),
            modes: OutputModes::Both,
            cutouts: CutoutFormat::Webp,
            ..options(&place, name, &output)
        };
        options.frames.lens.clone_from(&lens);
        masked(&options);
        let file = if name == "circles" { "f0.png.png" } else { "f0.png" };
        let mask = removed(&place.path(&output).join(file), truth.len());
        let (both, mask, wanted) = (both(&mask, &truth), count(&mask), count(&truth));
        let iou = both as f64 / (mask + wanted - both) as f64;
        assert!(iou >= 0.95, "{name}: {iou}");
        let cutout = place.read(&format!("{output}/cutouts/f0.webp"));
        assert_eq!((&cutout[..4], &cutout[8..16]), (&b"RIFF"[..], &b"WEBPVP8L"[..]));
        // The split of the same frames takes them.
        let split = format!("{name}_split");
        place.split(name, &split, |options| {
            options.masking.masks = Some(place.path(&output));
            options.frames.lens = lens;
        });
        assert!(std::fs::read_dir(place.path(&split).join("masks")).unwrap().count() > 0, "{name}");
    }
}

/// With known poses, a box in space gives masks of everything outside it.
#[test]
fn a_box_in_space_is_kept() {
    const WIDTH: usize = 640;
    let place = Place::new();
    let poses: Vec<Pose> = (0..3).map(|k| room::pose(4 * k, 24)).collect();
    let names = ["p0.png", "p1.png", "p2.png"];
    for (name, pose) in names.iter().zip(&poses) {
        place.write(&format!("walk/{name}"), png_rgb8(&panorama(&[], pose, WIDTH)).unwrap());
    }
    place.write("poses.csv", pose_table(names.into_iter().zip(poses.iter().copied())));
    let [low, high] = [[-0.3, -0.4, -0.6], [0.5, 0.5, 0.2]];
    let keep = |output: &str| MaskOptions {
        keep_box: Some(KeepBox { corners: [low, high] }),
        poses: Some(place.path("poses.csv")),
        ..MaskOptions::new(place.path("walk"), place.path(output))
    };
    masked(&keep("masks"));
    for (k, pose) in poses.iter().enumerate() {
        let mask = removed(&place.path(&format!("masks/p{k}.png.png")), WIDTH * WIDTH / 2);
        // Stepping along the rays gives the same box; a pixel in nine is compared.
        let (mut wrong, mut kept) = (0, 0);
        let is_compared = |at: usize| [at % WIDTH, at / WIDTH].iter().all(|place| place.is_multiple_of(3));
        for (at, is_removed) in mask.iter().enumerate().filter(|(at, _)| is_compared(*at)) {
            let (x, y) = ((at % WIDTH) as f64 + 0.5, (at / WIDTH) as f64 + 0.5);
            let ray = direction_from_equirect(x, y, WIDTH as f64, WIDTH as f64 / 2.0);
            let (origin, ray) = (pose.centre(), se3::transpose_mul_vec(&pose.rotation, ray));
            let is_inside = |step: usize| {
                let t = step as f64 * 0.01;
                (0..3).all(|k| (low[k]..=high[k]).contains(&(origin[k] + t * ray[k])))
            };
            wrong += usize::from((0..400).any(is_inside) == *is_removed);
            kept += usize::from(!*is_removed);
        }
        assert!(kept > 100 && wrong * 30 <= kept, "frame {k}: {wrong} of {kept} px");
    }
    // A frame without a pose is reported and left out.
    place.write("poses.csv", place.text("poses.csv").replace("p2.png", "q.png"));
    let skipped = format!("{:?}", masked(&keep("two")).skipped);
    assert!(skipped.contains("p2: frame: has no pose"), "{skipped}");
}
