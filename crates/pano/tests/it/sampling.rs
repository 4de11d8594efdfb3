//! Compares views of a panorama with the truth: a room rendered directly, and supersampled views.
#![allow(clippy::print_stdout, reason = "measurements for research/benchmarks-log.md")]

use std::sync::atomic::AtomicBool;

use gausset_compute::{Pool, SimdLevel, dispatch_level};
use gausset_pano::cutter::{CutJob, CutTimes, CutView, Cutter, Format, HALVE_ABOVE, Plan};
use gausset_pano::geometry::{View, equirect_from_direction};
use gausset_pano::plane::{ColourModel, Frame, FrameShape, Plane};
use gausset_pano::projection::{Equirect, Projection};
use gausset_scenes::room::{self, Room};

/// One channel of an image.
struct Grey {
    width: usize,
    height: usize,
    data: Vec<u8>,
}

impl Grey {
    fn green(picture: &gausset_core::RgbImage8) -> Self {
        let data = picture.data.chunks_exact(3).map(|p| p[1]).collect();
        Self { width: picture.width as usize, height: picture.height as usize, data }
    }

    /// Columns wrap around, rows are clamped.
    fn at(&self, x: i64, y: i64) -> f64 {
        let x = x.rem_euclid(self.width as i64) as usize;
        let y = y.clamp(0, self.height as i64 - 1) as usize;
        f64::from(self.data[y * self.width + x])
    }

    fn bilinear(&self, u: f64, v: f64) -> f64 {
        let (u, v) = (u - 0.5, v - 0.5);
        let (i, j) = (u.floor(), v.floor());
        let (a, b) = (u - i, v - j);
        let (i, j) = (i as i64, j as i64);
        let top = self.at(i, j) * (1.0 - a) + self.at(i + 1, j) * a;
        let bottom = self.at(i, j + 1) * (1.0 - a) + self.at(i + 1, j + 1) * a;
        top * (1.0 - b) + bottom * b
    }
}

fn view(yaw: f64, pitch: f64, roll: f64, side: u32) -> View {
    View { name: "v".into(), yaw, pitch, roll, hfov: 90.0, width: side, height: side }
}

/// The view as the splitter cuts it.
fn cut(pano: &Grey, view: &View) -> Vec<u8> {
    let (w, h) = (pano.width as u32, pano.height as u32);
    let shape = FrameShape { colour: ColourModel::Grey, sizes: vec![[w, h]], has_alpha: false };
    let projection = Projection::Equirect(Equirect::whole(w, h));
    let plan = Plan::new(vec![view.clone()], Format::Png, &projection, shape, 0.0, &Pool::new(1));
    let mut plane = Plane::default();
    plane.reshape(pano.width, pano.height, [-1, h as i32]);
    for (y, row) in pano.data.chunks_exact(pano.width).enumerate() {
        plane.row_mut(y as i32).copy_from_slice(row);
    }
    let mut frame = Frame { colour: ColourModel::Grey, planes: vec![plane], alpha: None };
    let mut out = Vec::new();
    let mut receive = |view: CutView<'_>| -> Result<(), ()> {
        let picture = gausset_io::image::decode(view.encoded).map_err(|_| ())?;
        out = picture.rgb.chunks_exact(3).map(|p| p[1]).collect();
        Ok(())
    };
    let level = dispatch_level(SimdLevel::Auto).unwrap();
    let (never, mut times) = (AtomicBool::new(false), CutTimes::default());
    let (frame, segments) = (&mut frame, |_: &View| Vec::new());
    let job = CutJob { level, plan: &plan, frame, mask: None, cancel: &never, segments: &segments };
    Cutter::default().cut(job, &mut times, &mut receive).unwrap();
    out
}

fn psnr(a: impl Iterator<Item = f64>, b: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = a.zip(b).fold((0.0, 0.0), |(sum, n), (a, b)| (sum + (a - b) * (a - b), n + 1.0));
    10.0 * (255.0f64 * 255.0 * count / sum).log10()
}

fn bytes(data: &[u8]) -> impl Iterator<Item = f64> + '_ {
    data.iter().map(|&v| f64::from(v))
}

/// Half a pixel of error anywhere costs 10 dB here: without the -0.5 in the formulas, 40 to 46 dB remain.
#[test]
fn views_of_a_smooth_room_are_the_room_rendered_directly() {
    let (pool, pose) = (Pool::new(1), room::pose(1, 8));
    let pano = Grey::green(&Room::SMOOTH.panorama(2048, &pose, &pool));
    // Ahead, across the seam, both poles, and two rotated about all axes.
    for (yaw, pitch, roll) in [
        (0.0, 0.0, 0.0),
        (180.0, 0.0, 0.0),
        (30.0, 90.0, 0.0),
        (0.0, -90.0, 0.0),
        (137.0, 31.0, 20.0),
        (-60.0, -40.0, -75.0),
    ] {
        let view = view(yaw, pitch, roll, 512);
        let direct =
            Grey::green(&Room::SMOOTH.picture([512; 2], &pose, &pool, &|x, y| view.ray_in_panorama(x, y)));
        let psnr = psnr(bytes(&cut(&pano, &view)), bytes(&direct.data));
        println!("smooth room, yaw {yaw} pitch {pitch} roll {roll}: {psnr:.1} dB");
        assert!(psnr >= 54.0, "yaw {yaw} pitch {pitch} roll {roll}: {psnr:.1} dB");
    }
}

/// Source pixels per view pixel, PSNR of the splitter and of plain bilinear sampling against 4x4 supersampling, dB.
fn minified(pano: &Grey, ratios: &[f64]) -> Vec<[f64; 3]> {
    let around = pano.width as f64;
    let mut out = Vec::new();
    for &ratio in ratios {
        let side = ((around / std::f64::consts::PI / ratio) as u32) & !1;
        let small = view(20.0, 0.0, 0.0, side);
        let r = small.pano_from_camera();
        let sample = |x: f64, y: f64| {
            let ray = gausset_core::se3::mul_vec(&r, small.ray_in_camera(x, y));
            let [u, v] = equirect_from_direction(ray, around, around / 2.0);
            pano.bilinear(u, v)
        };
        let n = side as usize;
        let pixels = || (0..n * n).map(|i| ((i % n) as f64, (i / n) as f64));
        let truth: Vec<f64> = pixels()
            .map(|(x, y)| {
                let offsets = [0.125, 0.375, 0.625, 0.875];
                offsets.iter().flat_map(|b| offsets.map(|a| sample(x + a, y + *b))).sum::<f64>() / 16.0
            })
            .collect();
        let plain = psnr(pixels().map(|(x, y)| sample(x + 0.5, y + 0.5).round()), truth.iter().copied());
        let ours = psnr(bytes(&cut(pano, &small)), truth.iter().copied());
        out.push([small.minification(pano.width as u32), ours, plain]);
    }
    out
}

/// All five octaves of the room: detail down to the pixels of the panorama.
fn detailed_room(width: u32) -> Grey {
    let room = Room { octaves: 5, has_spots: true, has_pillars: true, seed: 0 };
    Grey::green(&room.panorama(width, &room::pose(2, 8), &Pool::new(1)))
}

#[test]
fn views_that_minify_four_times_gain_three_decibels_over_plain_bilinear() {
    let [ratio, ours, plain] = minified(&detailed_room(2048), &[4.0])[0];
    println!("minified {ratio:.2}: {ours:.1} dB, plain bilinear {plain:.1} dB");
    assert!((3.9..4.1).contains(&ratio));
    assert!(ours >= plain + 3.0, "{ours:.1} dB, plain bilinear {plain:.1} dB");
    // At the ratios of the default layouts (4 / pi, below the limit) nothing is averaged.
    let [ratio, ours, plain] = minified(&detailed_room(1024), &[1.27])[0];
    assert!(ratio < HALVE_ABOVE && (ours - plain).abs() < 0.5, "{ours:.1} dB, plain bilinear {plain:.1} dB");
}

/// The measurement behind [`HALVE_ABOVE`]: `cargo test --release -p gausset-pano --test it sampling -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement; says where averaging overtakes plain sampling"]
fn crossover_of_averaging_and_plain_sampling() {
    let mut sources = vec![("room 4096", detailed_room(4096))];
    if let Some(data) = gausset_testkit::paths::data_dir() {
        for name in ["pano/gopro_max_5760.jpg", "pano/walk/pano_01.jpg", "pano/garden/a1.jpg"] {
            let picture = gausset_io::image::decode_file(&data.join(name)).unwrap();
            let (width, height) = (picture.width as usize, picture.height as usize);
            let data = picture.rgb.chunks_exact(3).map(|p| p[1]).collect();
            sources.push((name, Grey { width, height, data }));
        }
    }
    for (name, pano) in &sources {
        // Halving is forced by passing a halved panorama.
        let (w, h) = (pano.width / 2, pano.height / 2);
        let mean = |x: usize, y: usize| {
            let p = |i: usize, j: usize| u32::from(pano.data[(2 * y + j) * pano.width + 2 * x + i]);
            ((p(0, 0) + p(1, 0) + p(0, 1) + p(1, 1) + 2) / 4) as u8
        };
        let half = Grey { width: w, height: h, data: (0..w * h).map(|i| mean(i % w, i / w)).collect() };
        for ratio in [1.27, 1.6, 2.0, 2.3, 2.6, 2.8, 3.0, 3.2, 3.5, 4.0, 5.0] {
            let [found, _, plain] = minified(pano, &[ratio])[0];
            let around = pano.width as f64;
            let side = ((around / std::f64::consts::PI / ratio) as u32) & !1;
            let small = view(20.0, 0.0, 0.0, side);
            let r = small.pano_from_camera();
            let sample = |of: &Grey, x: f64, y: f64| {
                let ray = gausset_core::se3::mul_vec(&r, small.ray_in_camera(x, y));
                let [u, v] = equirect_from_direction(ray, of.width as f64, of.height as f64);
                of.bilinear(u, v)
            };
            let n = side as usize;
            let pixels = || (0..n * n).map(|i| ((i % n) as f64, (i / n) as f64));
            let offsets = [0.125, 0.375, 0.625, 0.875];
            let truth = pixels().map(|(x, y)| {
                offsets.iter().flat_map(|b| offsets.map(|a| sample(pano, x + a, y + *b))).sum::<f64>() / 16.0
            });
            let averaged = psnr(pixels().map(|(x, y)| sample(&half, x + 0.5, y + 0.5).round()), truth);
            println!("{name} {found:.2}: plain {plain:.1} dB, halved first {averaged:.1} dB");
        }
    }
}
