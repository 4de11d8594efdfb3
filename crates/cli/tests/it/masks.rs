//! `gausset mask` and `pano run --mask-model` end to end: the room with a red figure whose pixels are known, as images
//! and as a video, and a network that detects red.

use std::path::Path;

use gausset_compute::Pool;
use gausset_core::{Pose, RgbImage8, se3};
use gausset_io::image::decode_file;
use gausset_io::image::encode::png_rgb8;
use gausset_pano::eac::Eac;
use gausset_pano::fisheye::DualFisheye;
use gausset_pano::geometry::direction_from_equirect;
use gausset_pano::projection::Projection;
use gausset_pano::unproject::Unprojection;
use gausset_scenes::room::{self, Room};
use gausset_testkit::onnx::TestNetwork;

use crate::support::{TestFolder, write_video};

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

/// A video in a folder with the network; `None` if ffmpeg is not installed.
fn with_film(test: &str, width: usize, frames: &[RgbImage8]) -> Option<TestFolder> {
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("red.onnx"), TestNetwork::red_segmenter(160).bytes()).expect("a model");
    write_video(test, &workshop.path("tour.mp4"), width, frames).then_some(workshop)
}

/// Which pixels a mask removes.
fn removed(path: &Path, pixels: usize) -> Vec<bool> {
    if !path.is_file() {
        return vec![false; pixels];
    }
    let mask = decode_file(path).expect("a mask");
    assert_eq!((mask.width * mask.height) as usize, pixels, "{}", path.display());
    mask.rgb.chunks_exact(3).map(|rgb| rgb[0] == 0).collect()
}

fn count(pixels: &[bool]) -> usize {
    pixels.iter().filter(|is_there| **is_there).count()
}

fn both(a: &[bool], b: &[bool]) -> usize {
    a.iter().zip(b).filter(|(a, b)| **a && **b).count()
}

/// One command turns a video with a figure into splats.
#[test]
fn a_film_with_somebody_in_it_becomes_a_splat() {
    const FRAMES: usize = 8;
    const WIDTH: usize = 1024;
    let test = "a_film_with_somebody_in_it_becomes_a_splat";
    if crate::colmap::python(test).is_none() {
        return;
    }
    let poses: Vec<Pose> = (0..FRAMES).map(|k| room::pose(k, 24)).collect();
    let frames: Vec<RgbImage8> = poses.iter().map(|pose| panorama(&[FIGURE], pose, WIDTH)).collect();
    let Some(workshop) = with_film(test, WIDTH, &frames) else { return };
    let arguments = [
        &[
            "pano",
            "run",
            "tour.mp4",
            "-o",
            "out",
            "--select",
            "all",
            "--quality",
            "fast",
            "--train-size",
            "128",
        ][..],
        &["--steps", "150", "--no-report"],
    ];
    let masked = [&arguments.concat()[..], &["--mask-model", "red.onnx"]].concat();
    let finished = workshop.succeed(&masked);
    // The output summarises its choices.
    for line in
        ["frames      8 of 8 frames registered", "aligned by  ", "incremental mapper", "masks  ", "error  "]
    {
        assert!(finished.stdout.contains(line), "{line}: {}", finished.stdout);
    }
    // The masks cover the figure, are named after the frames, and are cut into the training views.
    for (k, pose) in poses.iter().enumerate() {
        let truth = pixels(&FIGURE, pose, WIDTH);
        let mask = removed(&workshop.path(&format!("out/masks/frame_{k:06}.png")), truth.len());
        let (both, mask, truth) = (both(&mask, &truth), count(&mask), count(&truth));
        assert!(both * 100 >= truth * 99 && mask * 100 <= truth * 125, "frame {k}: {both} {mask} {truth}");
    }
    let masks = std::fs::read_dir(workshop.path("out/train/masks")).expect("masks").count();
    assert!(masks > 1, "{masks}");
    // The trainer uses them: masked pixels count neither in the evaluation nor in the loss.
    let valid =
        finished.stdout.lines().find_map(|line| line.strip_prefix("valid")).expect("a share of valid pixels");
    let valid: f64 = valid.trim().split(' ').next().and_then(|v| v.parse().ok()).expect("percent");
    assert!((85.0..99.9).contains(&valid), "{valid}");
    // The same command prints the same result again, also as JSON.
    let told = workshop.succeed(&[&masked[..], &["--json"]].concat()).json();
    assert_eq!((told["frames"].as_u64(), told["registered"].as_u64()), (Some(8), Some(8)));
    assert_eq!((told["masks"]["frames"].as_u64(), told["masks"]["with_finds"].as_u64()), (Some(8), Some(8)));
    assert!(told["masks"]["removed_mean"].as_f64().is_some_and(|share| share > 0.003 && share < 0.1));
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
    const WIDTH: usize = 480;
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
    let workshop = TestFolder::empty();
    std::fs::create_dir(workshop.path("walk")).expect("a folder");
    let mut table = "name,x,y,z,qw,qx,qy,qz\n".to_owned();
    for k in (0..FRAMES).step_by(3) {
        let name = format!("{k:02}.png");
        let file = png_rgb8(&frames[k]).expect("a picture");
        std::fs::write(workshop.path("walk").join(&name), file).expect("a picture");
        let [x, y, z] = level(k).centre();
        table += &format!("{name},{x},{y},{z},1,0,0,0\n");
    }
    std::fs::write(workshop.path("poses.csv"), table).expect("poses");
    let mask = ["mask", "walk", "-o", "masks", "--still-patch", "--dilate", "0"];
    let told = workshop.succeed(&[&mask[..], &["--poses", "poses.csv", "--json"]].concat()).json();
    assert!(told["still_share"].as_f64().is_some_and(|share| share > 0.03 && share < 0.08), "{told}");
    for k in (3..FRAMES - 3).step_by(3) {
        let mask = removed(&workshop.path(&format!("masks/{k:02}.png.png")), WIDTH * WIDTH / 2);
        assert!(iou(&mask, k) >= 0.8, "frame {k}: {}", iou(&mask, k));
    }
    // Without poses he cannot be detected.
    let alone =
        workshop.succeed(&["mask", "walk", "-o", "alone", "--still-patch", "--dilate", "0", "--json"]).json();
    assert!(alone["still_share"].as_f64().is_none_or(|share| share < 0.02), "{alone}");
    // A video shows the direction of travel.
    if !write_video(test, &workshop.path("tour.mp4"), WIDTH, &frames) {
        return;
    }
    let split =
        ["pano", "split", "tour.mp4", "-o", "work", "--layout", "cube6", "--step", "3", "--still-patch"];
    workshop.succeed(&split);
    let lines = String::from_utf8(workshop.read("work/frames.jsonl")).expect("text");
    let kept: Vec<(String, usize)> = lines
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object"))
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
            let mask = removed(&workshop.path(&format!("work/panorama_masks/{name}.png")), WIDTH * WIDTH / 2);
            iou(&mask, *k)
        })
        .collect();
    all.sort_by(f64::total_cmp);
    // Masks are dilated by 0.6 degrees here.
    assert!(all[0] >= 0.6 && all[all.len() / 2] >= 0.75, "{all:?}");
    let masks = std::fs::read_dir(workshop.path("work/masks")).expect("masks of views").count();
    assert!(masks > 0);
    let again = workshop.succeed(&split).stdout;
    assert!(again.contains("frames"), "{again}");
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
#[allow(clippy::print_stderr, reason = "figures of research/benchmarks-log.md")]
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
    let Some(workshop) = with_film(test, WIDTH, &frames) else { return };
    let look = |output: &str, more: &[&str]| {
        let plain = ["mask", "tour.mp4", "-o", output, "--model", "red.onnx", "--select", "all", "--json"];
        let told = workshop.succeed(&[&plain[..], &["--dilate", "0"], more].concat()).json();
        let (mut wanted, mut filled, mut false_ones, mut left) = (0, 0, 0, 0);
        for (k, pose) in poses.iter().enumerate() {
            let truth = pixels(&FIGURE, pose, WIDTH);
            let mask = removed(&workshop.path(&format!("{output}/frame_{k:06}.png")), truth.len());
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
    let (told, filled, left, false_ones) = look("masks", &[]);
    eprintln!(
        "temporal filter: {:.1} % filled, {left} of {false_ones} false detections left",
        100.0 * filled
    );
    assert!(filled >= 0.95 && left * 20 <= false_ones, "{filled} {left} of {false_ones}");
    assert_eq!((told["temporal"].as_u64(), told["filled"].as_u64()), (Some(1), Some(4)));
    assert_eq!(told["dropped"].as_u64(), Some(false_ones as u64));
    // Without the temporal filter the masks are those of the network.
    let (told, filled, left, _) = look("alone", &["--temporal", "0"]);
    assert!(filled < 0.02 && left == false_ones, "{filled} {left}");
    assert_eq!((told["temporal"].as_u64(), told["dropped"].as_u64()), (Some(0), Some(0)));
    // One and two threads give the same bytes, also for a video whose frames were not analysed before.
    let (told, ..) = look("two", &["--threads", "2"]);
    assert_eq!(told["resumed"].as_u64(), Some(0));
    // Deleted masks are recreated, using their neighbours.
    let name = "masks/frame_000002.png";
    let before = workshop.read(name);
    assert_eq!(before, workshop.read("two/frame_000002.png"));
    std::fs::remove_file(workshop.path(name)).expect("a mask");
    let (told, ..) = look("masks", &[]);
    assert_eq!((told["resumed"].as_u64(), workshop.read(name)), (Some(FRAMES as u64 - 1), before));
    let table =
        workshop.succeed(&["mask", "tour.mp4", "-o", "told", "--model", "red.onnx", "--fps", "2"]).stdout;
    for row in ["temporal filter: ", "limited by: ", "inference", "work over", "encode", "beside: sync"] {
        assert!(table.contains(row), "{row}: {table}");
    }
}

/// Masks of dual-fisheye frames, which the split of these frames uses.
#[test]
fn frames_of_two_circles_and_of_streams_are_masked_in_their_own_pixels() {
    let workshop = TestFolder::empty();
    std::fs::write(workshop.path("red.onnx"), TestNetwork::red_segmenter(160).bytes()).expect("a model");
    let lenses = r#"{ "width": 800, "height": 400, "lenses": [
        { "cx": 200, "cy": 200, "radius": 195, "half_angle": 98, "roll": 90 },
        { "cx": 600, "cy": 200, "radius": 195, "half_angle": 98, "yaw": 180 } ] }"#;
    std::fs::write(workshop.path("lens.json"), lenses).expect("a lens file");
    let fisheye = Projection::Fisheye(DualFisheye::parse(lenses.as_bytes()).expect("lenses"));
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
        std::fs::create_dir(workshop.path(name)).expect("a folder");
        let half = picture.data.len() / 2;
        let parts = match name {
            "circles" => vec![("f0.png", picture)],
            _ => [("f0_track0.png", &picture.data[..half]), ("f0_track5.png", &picture.data[half..])]
                .map(|(name, data)| (name, RgbImage8 { width: w, height: h / 2, data: data.to_vec() }))
                .to_vec(),
        };
        for (file, part) in &parts {
            let path = workshop.path(name).join(file);
            std::fs::write(path, png_rgb8(part).expect("a picture")).expect("a frame");
        }
        let lens: &[&str] = if name == "circles" { &["--lens", "lens.json"] } else { &[] };
        let output = format!("{name}_masks");
        let plain = ["mask", name, "-o", &output, "--model", "red.onnx", "--dilate", "0", "--modes", "both"];
        workshop.succeed(&[&plain[..], &["--cutout-format", "webp"], lens].concat());
        let file = if name == "circles" { "f0.png.png" } else { "f0.png" };
        let mask = removed(&workshop.path(&output).join(file), truth.len());
        let (both, mask, wanted) = (both(&mask, &truth), count(&mask), count(&truth));
        let iou = both as f64 / (mask + wanted - both) as f64;
        assert!(iou >= 0.95, "{name}: {iou}");
        let cutout = workshop.read(&format!("{output}/cutouts/f0.webp"));
        assert_eq!((&cutout[..4], &cutout[8..16]), (&b"RIFF"[..], &b"WEBPVP8L"[..]));
        // The split of the same frames takes them.
        let split = format!("{name}_split");
        workshop.succeed(&[&["pano", "split", name, "-o", &split, "--masks", &output][..], lens].concat());
        let masks = std::fs::read_dir(workshop.path(&split).join("masks")).expect("masks").count();
        assert!(masks > 0, "{name}");
    }
}

/// With known poses, a box in space gives masks of everything outside it.
#[test]
fn a_box_in_space_is_kept() {
    const WIDTH: usize = 640;
    let workshop = TestFolder::empty();
    std::fs::create_dir(workshop.path("walk")).expect("a folder");
    let mut csv = String::from("name,x,y,z,qw,qx,qy,qz\n");
    let poses: Vec<Pose> = (0..3).map(|k| room::pose(4 * k, 24)).collect();
    for (k, pose) in poses.iter().enumerate() {
        let picture = panorama(&[], pose, WIDTH);
        let path = workshop.path(&format!("walk/p{k}.png"));
        std::fs::write(path, png_rgb8(&picture).expect("a picture")).expect("a panorama");
        let ([x, y, z], inverse) = (pose.centre(), se3::transpose(&pose.rotation));
        let [w, i, j, l] = se3::quaternion_from_rotation(&inverse);
        csv += &format!("p{k}.png,{x},{y},{z},{w},{i},{j},{l}\n");
    }
    std::fs::write(workshop.path("poses.csv"), csv).expect("poses");
    let keep = ["--keep-box", "-0.3,-0.4,-0.6,0.5,0.5,0.2", "--poses", "poses.csv"];
    workshop.succeed(&[&["mask", "walk", "-o", "masks"][..], &keep].concat());
    let [low, high] = [[-0.3, -0.4, -0.6], [0.5, 0.5, 0.2]];
    for (k, pose) in poses.iter().enumerate() {
        let mask = removed(&workshop.path(&format!("masks/p{k}.png.png")), WIDTH * WIDTH / 2);
        // Stepping along each ray gives the same box.
        let mut wrong = 0;
        for (at, is_removed) in mask.iter().enumerate() {
            let (x, y) = ((at % WIDTH) as f64 + 0.5, (at / WIDTH) as f64 + 0.5);
            let ray = direction_from_equirect(x, y, WIDTH as f64, WIDTH as f64 / 2.0);
            let (origin, ray) = (pose.centre(), se3::transpose_mul_vec(&pose.rotation, ray));
            let is_inside = |step: usize| {
                let t = step as f64 * 0.01;
                (0..3).all(|k| (low[k]..=high[k]).contains(&(origin[k] + t * ray[k])))
            };
            wrong += usize::from((0..400).any(is_inside) == *is_removed);
        }
        assert!(wrong * 30 <= mask.len() - count(&mask), "frame {k}: {wrong} px");
    }
    // A frame without a pose is reported and left out.
    let others =
        std::fs::read_to_string(workshop.path("poses.csv")).expect("poses").replace("p2.png", "q.png");
    std::fs::write(workshop.path("poses.csv"), others).expect("poses");
    let finished = workshop.run(&[&["mask", "walk", "-o", "two"][..], &keep].concat());
    assert_eq!(finished.code, 1, "{finished:?}");
    assert!(finished.stderr.contains("p2: frame: has no pose"), "{}", finished.stderr);
}
