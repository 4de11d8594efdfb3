//! Cubes: conversion in both directions, comparison with ffmpeg's `v360`, and cubes as sources of views.
#![allow(clippy::print_stderr, reason = "tests say what they measured")]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_io::image::encode::png_rgb8;
use gausset_pano::convert::{
    DecodedFrame, OutputContext, OutputProjection, SourceSampler, decode_frame, render_encoded,
};
use gausset_pano::cube::{Cube, CubeLayout, Face, Faces, StripOrder};
use gausset_pano::cutter::Format;
use gausset_pano::load::ImageLimits;
use gausset_pano::projection::{Equirect, Projection};
use gausset_scenes::room::{Room, pose};
use gausset_testkit::skip_for_tool;

fn limits() -> ImageLimits {
    ImageLimits { width: 49_152, height: 49_152, ..ImageLimits::default() }
}

fn moment(file: &Path, projection: Option<&Projection>) -> DecodedFrame {
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    decode_frame(&[file.to_owned()], projection, false, &limits(), level).unwrap()
}

fn made(moment: &DecodedFrame, shown: &OutputProjection, threads: usize, wanted: SimdLevel) -> Vec<u8> {
    let pool = Pool::new(threads);
    let stop = AtomicBool::new(false);
    let level = dispatch_level(wanted).unwrap();
    let writing = OutputContext { format: Format::Png, level, pool: &pool, stop: &stop, segments: &[] };
    render_encoded(&SourceSampler::new(&moment.projection, &moment.frame, shown), shown, writing).unwrap()
}

fn pixels(png: &[u8]) -> Vec<f32> {
    let picture = gausset_io::image::decode(png).unwrap();
    picture.rgb.iter().map(|&v| f32::from(v) / 255.0).collect()
}

/// A room without sharp edges, from one position.
fn smooth_room(width: u32) -> Vec<u8> {
    let room = Room { octaves: 2, has_spots: false, has_pillars: false, seed: 0 };
    png_rgb8(&room.panorama(width, &pose(1, 8), &Pool::new(2))).unwrap()
}

fn cube(faces: Faces) -> Projection {
    Projection::Cube(Cube { faces })
}

#[test]
fn a_panorama_survives_every_net_to_and_fro() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("room.png");
    std::fs::write(&source, smooth_room(2048)).unwrap();
    let panorama = moment(&source, None);
    let original = pixels(&std::fs::read(&source).unwrap());
    let order = StripOrder { faces: StripOrder::parse_faces("bfdulr").unwrap(), turns: [0, 1, 2, 3, 1, 0] };
    for net in CubeLayout::ALL {
        let faces = Faces::new(net, order, 512);
        let file = folder.path().join("net.png");
        let there = made(&panorama, &OutputProjection::Faces(faces.clone()), 2, SimdLevel::Auto);
        std::fs::write(&file, there).unwrap();
        let projection = cube(faces);
        let back =
            made(&moment(&file, Some(&projection)), &OutputProjection::Equirect(2048), 2, SimdLevel::Auto);
        let psnr = gausset_testkit::psnr(&original, &pixels(&back));
        eprintln!("{}: {psnr:.2} dB", net.name());
        // 45 dB is required; half a pixel of shift gives 40.
        assert!(psnr > 48.0, "{}: {psnr}", net.name());
    }
}

#[test]
fn threads_and_vector_levels_do_not_change_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("room.png");
    std::fs::write(&source, smooth_room(256)).unwrap();
    let panorama = moment(&source, None);
    // Finer than the source, equal, and so much coarser that the source is halved.
    for side in [128, 64, 16] {
        let shown = OutputProjection::Faces(Faces::new(CubeLayout::Cross4x3, StripOrder::default(), side));
        let one = made(&panorama, &shown, 1, SimdLevel::Auto);
        assert!(one == made(&panorama, &shown, 2, SimdLevel::Auto));
        assert!(one == made(&panorama, &shown, 2, SimdLevel::Fallback));
    }
}

/// Images from ffmpeg's `v360` of a panorama; `output` gives format and options.
fn v360(folder: &Path, input: &str, filter: &str, output: &str) -> bool {
    let run = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-y",
            "-i",
            input,
            "-vf",
            &format!("v360={filter}"),
            "-pix_fmt",
            "rgb24",
            output,
        ])
        .current_dir(folder)
        .status();
    run.is_ok_and(|status| status.success())
}

/// One face of an image, rotated clockwise by quarter turns.
fn square(
    picture: &gausset_io::image::DecodedImage,
    [column, row]: [usize; 2],
    side: usize,
    turns: usize,
) -> Vec<f32> {
    let width = picture.width as usize;
    let at = |x: usize, y: usize, c: usize| {
        f32::from(picture.rgb[3 * ((row * side + y) * width + column * side + x) + c]) / 255.0
    };
    let last = side - 1;
    let mut out = Vec::new();
    for y in 0..side {
        for x in 0..side {
            let (sx, sy) = match turns {
                0 => (x, y),
                1 => (y, last - x),
                2 => (last - x, last - y),
                _ => (last - y, x),
            };
            out.extend((0..3).map(|c| at(sx, sy, c)));
        }
    }
    out
}

#[test]
fn faces_are_where_and_as_ffmpeg_has_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("room.png"), smooth_room(1024)).unwrap();
    let (side, turned) = (256u32, "out_forder=bfdulr:out_frot=012310");
    let order = StripOrder { faces: StripOrder::parse_faces("bfdulr").unwrap(), turns: [0, 1, 2, 3, 1, 0] };
    let panorama = moment(&folder.path().join("room.png"), None);
    // ffmpeg has three arrangements of six faces; a cross has the same faces.
    for (net, format) in
        [(CubeLayout::Strip3x2, "c3x2"), (CubeLayout::Strip6x1, "c6x1"), (CubeLayout::Strip1x6, "c1x6")]
    {
        for (order, options) in [(StripOrder::default(), ""), (order, turned)] {
            let [columns, rows] = net.grid();
            let (w, h) = (columns * side, rows * side);
            if !v360(folder.path(), "room.png", &format!("e:{format}:w={w}:h={h}:{options}"), "ff.png") {
                skip_for_tool("faces_are_where_and_as_ffmpeg_has_them", "ffmpeg with v360 is not there");
                return;
            }
            let theirs =
                gausset_io::image::decode(&std::fs::read(folder.path().join("ff.png")).unwrap()).unwrap();
            let ours =
                made(&panorama, &OutputProjection::Faces(Faces::new(net, order, side)), 2, SimdLevel::Auto);
            let ours = gausset_io::image::decode(&ours).unwrap();
            assert_eq!((ours.width, ours.height), (theirs.width, theirs.height));
            let places: Vec<[usize; 2]> =
                (0..6).map(|k| [k % columns as usize, k / columns as usize]).collect();
            for (k, &place) in places.iter().enumerate() {
                let own = square(&ours, place, side as usize, 0);
                // The same cell and rotation matches, and none of the 23 others does.
                let psnr = |place: [usize; 2], turns: usize| {
                    gausset_testkit::psnr(&own, &square(&theirs, place, side as usize, turns))
                };
                let here = psnr(place, 0);
                assert!(here > 36.0, "{format} {options} face {k}: {here}");
                for (other, &elsewhere) in places.iter().enumerate() {
                    for turns in 0..4 {
                        if (other, turns) != (k, 0) {
                            let there = psnr(elsewhere, turns);
                            assert!(
                                there + 6.0 < here,
                                "{format} face {k} is {other} turned {turns}: {here} {there}"
                            );
                        }
                    }
                }
            }
            // And back: ffmpeg's image as a source gives the panorama again.
            let projection = cube(Faces::new(net, order, side));
            let theirs = moment(&folder.path().join("ff.png"), Some(&projection));
            let back = pixels(&made(&theirs, &OutputProjection::Equirect(1024), 2, SimdLevel::Auto));
            let original = pixels(&std::fs::read(folder.path().join("room.png")).unwrap());
            let psnr = gausset_testkit::psnr(&original, &back);
            eprintln!("{format} {options}: back from ffmpeg {psnr:.2} dB");
            assert!(psnr > 36.0, "{format} {options}: {psnr}");
        }
    }
    // Both crosses contain the same faces as the strip.
    let strip = made(
        &panorama,
        &OutputProjection::Faces(Faces::new(CubeLayout::Strip6x1, StripOrder::default(), side)),
        2,
        SimdLevel::Auto,
    );
    let strip = gausset_io::image::decode(&strip).unwrap();
    for net in [CubeLayout::Cross4x3, CubeLayout::Cross3x4] {
        let faces = Faces::new(net, StripOrder::default(), side);
        let cross = made(&panorama, &OutputProjection::Faces(faces.clone()), 2, SimdLevel::Auto);
        let cross = gausset_io::image::decode(&cross).unwrap();
        for (place, cell) in faces.cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let columns = faces.columns as usize;
            let own = square(
                &cross,
                [place % columns, place / columns],
                side as usize,
                (4 - usize::from(cell.turns)) % 4,
            );
            let wanted = square(&strip, [cell.face as usize, 0], side as usize, 0);
            let psnr = gausset_testkit::psnr(&own, &wanted);
            assert!(psnr > 60.0, "{net:?} {:?}: {psnr}", cell.face);
        }
    }
}

#[test]
fn views_of_a_cube_are_those_of_its_panorama() {
    use gausset_pano::cutter::{CutJob, CutTimes, CutView, Cutter, Plan};
    use gausset_pano::geometry::View;
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("room.png");
    std::fs::write(&source, smooth_room(1024)).unwrap();
    let mut panorama = moment(&source, None);
    let faces = Faces::new(CubeLayout::Cross3x4, StripOrder::default(), 256);
    let file = folder.path().join("cross.png");
    std::fs::write(&file, made(&panorama, &OutputProjection::Faces(faces.clone()), 2, SimdLevel::Auto))
        .unwrap();
    let mut cross = moment(&file, Some(&cube(faces)));
    // A view across an edge, one at a corner, one straight up, and one so small that planes are halved.
    let view = |name: &str, yaw, pitch, roll, side| View {
        name: name.into(),
        yaw,
        pitch,
        roll,
        hfov: 90.0,
        width: side,
        height: side,
    };
    let views = vec![
        view("a", 45.0, 0.0, 0.0, 256),
        view("b", 135.0, 35.26, 20.0, 256),
        view("c", 0.0, 90.0, 0.0, 256),
        view("d", 225.0, -35.26, 0.0, 256),
    ];
    let small = vec![view("s", 45.0, 35.26, 0.0, 48)];
    let stop = AtomicBool::new(false);
    let cut = |moment: &mut DecodedFrame, views: &[View]| {
        let plan = Plan::new(
            views.to_vec(),
            Format::Png,
            &moment.projection,
            moment.frame.shape(),
            0.0,
            &Pool::new(2),
        );
        let mut out = Vec::new();
        let mut receive = |view: CutView<'_>| {
            out.push(pixels(view.encoded));
            Ok::<(), ()>(())
        };
        let segments = |_: &View| Vec::new();
        let level = dispatch_level(SimdLevel::Auto).unwrap();
        let job = CutJob {
            level,
            plan: &plan,
            frame: &mut moment.frame,
            mask: None,
            cancel: &stop,
            segments: &segments,
        };
        Cutter::default().cut(job, &mut CutTimes::default(), &mut receive).unwrap();
        out
    };
    for views in [views, small] {
        let (from_panorama, from_cross) = (cut(&mut panorama, &views), cut(&mut cross, &views));
        for ((view, a), b) in views.iter().zip(from_panorama).zip(from_cross) {
            let psnr = gausset_testkit::psnr(&a, &b);
            eprintln!("{}: {psnr:.2} dB", view.name);
            // Faces have more pixels at their corners than the panorama, so a small view averages them differently.
            let least = if view.width > 64 { 48.0 } else { 42.0 };
            assert!(psnr > least, "{}: {psnr}", view.name);
            // A visible edge of a face would be a line of larger differences.
            let mut sums = [[0.0f64; 2]; 2];
            for (k, (a, b)) in a.chunks_exact(3).zip(b.chunks_exact(3)).enumerate() {
                let (x, y) = (k as u32 % view.width, k as u32 / view.width);
                let (_, at) =
                    Face::from_direction(view.ray_in_panorama(f64::from(x) + 0.5, f64::from(y) + 0.5));
                let is_near = at.iter().any(|c| c.abs() > 0.985);
                let square: f32 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
                let sum = &mut sums[usize::from(is_near)];
                *sum = [sum[0] + f64::from(square), sum[1] + 3.0];
            }
            let [elsewhere, near] = sums.map(|[sum, count]| 255.0 * (sum / count.max(1.0)).sqrt());
            eprintln!("{}: {near:.3} levels at edges of faces, {elsewhere:.3} elsewhere", view.name);
            assert!(near < 1.5 * elsewhere + 0.2, "{}: {near} {elsewhere}", view.name);
        }
    }
}

#[test]
fn a_panorama_of_the_same_size_is_the_same_picture() {
    // A whole panorama converted to its own size is unchanged.
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("room.png");
    std::fs::write(&source, smooth_room(256)).unwrap();
    let panorama = moment(&source, None);
    assert_eq!(panorama.projection, Projection::Equirect(Equirect::whole(256, 128)));
    let same = made(&panorama, &OutputProjection::Equirect(256), 1, SimdLevel::Auto);
    let worst = pixels(&same)
        .iter()
        .zip(&pixels(&std::fs::read(&source).unwrap()))
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    // Colours are converted to YCbCr and back.
    assert!(worst <= 2.5 / 255.0, "{worst}");
    assert_eq!(Face::ALL.map(Face::name), ["right", "left", "up", "down", "front", "back"]);
}
