//! Panoramas by the kernels: renders and gradients equal the reference, also at the seam and at the poles; agreement
//! with six pinholes; the same bytes for any threads and SIMD level.
#![allow(clippy::print_stdout, reason = "measured errors, shown with --nocapture")]

use gausset_compute::{Exec, Pool, SimdLevel, dispatch_level};
use gausset_core::engine::{Outputs, RenderOptions, Rendering};
use gausset_core::{Camera, Pose, Splats, se3};
use gausset_raster::blend_vjp::{AbsoluteSums, PlanarImage, Upstream};
use gausset_raster::layout::Blocks;
use gausset_raster::pipeline::Pipeline;
use gausset_raster::project_vjp::Gradients;
use gausset_raster::view::KernelView;
use gausset_reference::{self as reference, Scene};
use gausset_testkit::scene::{Random, TestScene};

const OPTIONS: RenderOptions = RenderOptions {
    sh_degree: 1,
    background: [0.2, 0.1, 0.3],
    antialiased: false,
    max_splats_per_tile: 0,
    near_plane: 0.01,
    sky: false,
    splat_limit: None,
};

/// Splats all around a panorama whose width is not a multiple of the tile size: every fourth at the seam, every fourth
/// near a pole.
fn scene(seed: u64, splats: usize, size_in_px: [f64; 2]) -> TestScene {
    let mut random = Random::new(seed);
    let camera = Camera::panorama(120, 60).unwrap();
    let pose = se3::exp(std::array::from_fn(|_| random.uniform(-2.0, 2.0)));
    let world_from_camera = pose.inverse();
    let mut made = Splats::with_capacity(1, splats);
    for i in 0..splats {
        let n = random.uniform(1.0, 5.0);
        let pixel = match i % 4 {
            0 => [random.uniform(-3.0, 3.0), random.uniform(6.0, 54.0)],
            1 => [
                random.uniform(0.0, 120.0),
                29.0 * f64::from(i as u32 / 4 % 2 * 2) + random.uniform(0.5, 1.5),
            ],
            _ => [random.uniform(0.0, 120.0), random.uniform(6.0, 54.0)],
        };
        let mean = world_from_camera.apply(camera.ray(pixel).map(|v| n * v)).map(|v| v as f32);
        let [low, high] = size_in_px.map(|px: f64| (px * n / camera.fx).ln());
        let log_scale = [0; 3].map(|_| random.uniform(low, high) as f32);
        let quat = random.rotation().map(|v| v as f32);
        let logit = random.uniform(-2.0, 3.0) as f32;
        let sh: Vec<f32> = (0..12).map(|_| random.uniform(-0.8, 0.8) as f32).collect();
        made.push(mean, log_scale, quat, logit, &sh);
    }
    TestScene { splats: made, camera, pose }
}

struct Pass {
    rendering: Rendering,
    gradients: Gradients,
}

/// Weights of colour, alpha and depth of each pixel.
fn weights(camera: &Camera) -> Vec<[f64; 5]> {
    let mut random = Random::new(91);
    (0..camera.pixels()).map(|_| [0; 5].map(|_| f64::from(random.uniform(-1.0, 1.0) as f32))).collect()
}

fn kernels(scene: &TestScene, options: &RenderOptions, threads: usize, vector: SimdLevel) -> Option<Pass> {
    let exec = Exec { pool: &Pool::new(threads), level: dispatch_level(vector)? };
    let splats = Blocks::from_splats(&scene.splats);
    let view = KernelView::new(&scene.camera, &scene.pose);
    let mut pipeline = Pipeline::default();
    pipeline.forward(exec, &splats, &view, options, Outputs::All).expect("few entries");
    let rendering = pipeline.rendering(&view);
    let (width, height) = (scene.camera.width as usize, scene.camera.height as usize);
    let stride = width.next_multiple_of(16);
    let lines = |channels: std::ops::Range<usize>| {
        let row_len = channels.len() * stride;
        let mut data = vec![1e9f32; row_len * height.next_multiple_of(16)];
        for (i, weights) in weights(&scene.camera).iter().enumerate() {
            for (line, channel) in channels.clone().enumerate() {
                data[i / width * row_len + line * stride + i % width] = weights[channel] as f32;
            }
        }
        (data, row_len)
    };
    let (color, extras) = (lines(0..3), lines(3..5));
    let upstream = Upstream {
        color: PlanarImage { data: &color.0, stride, row_len: color.1 },
        alpha_depth: Some(PlanarImage { data: &extras.0, stride, row_len: extras.1 }),
    };
    pipeline.backward(exec, &view, upstream, AbsoluteSums::Off);
    let gradients = pipeline.gradients(exec, &splats, &view, options);
    Some(Pass { rendering, gradients })
}

/// Relative L2 distance.
fn distance(what: &str, found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let norm = |f: &dyn Fn(f64, f64) -> f64| {
        found.iter().zip(expected).map(|(&a, &b)| f(a, b).powi(2)).sum::<f64>().sqrt()
    };
    let size = norm(&|_, b| b);
    assert!(size > 1e-3, "{what}: nothing was tested");
    let error = norm(&|a, b| a - b) / size;
    println!("{what}: {error:.1e}");
    error
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

#[test]
fn pictures_and_gradients_are_those_of_the_reference() {
    for seed in 1..=4 {
        let scene = scene(seed, 80, if seed == 4 { [0.3, 12.0] } else { [0.6, 3.0] });
        let options = RenderOptions { antialiased: seed % 2 == 0, ..OPTIONS };
        let found = kernels(&scene, &options, 2, SimdLevel::Auto).unwrap();
        let truth_scene = Scene::new(&scene.splats, &scene.camera, &scene.pose, &options);
        let truth = reference::render(&truth_scene);
        let all = weights(&scene.camera);
        let upstream = reference::Upstream {
            color: all.iter().flat_map(|w| [w[0], w[1], w[2]]).collect(),
            alpha: all.iter().map(|w| w[3]).collect(),
            depth: all.iter().map(|w| w[4]).collect(),
        };
        let expected = reference::vjp(&truth_scene, &truth, &upstream);
        let splats = found.gradients.parameters.to_splats();
        let flat = |values: &[[f32; 3]]| wide(values.as_flattened());
        let pairs = [
            ("colour", wide(&found.rendering.color), truth.color.clone()),
            ("alpha", wide(&found.rendering.alpha), truth.alpha.clone()),
            ("depth", wide(&found.rendering.depth), truth.depth.clone()),
            ("means", flat(&splats.means), expected.splats.means.as_flattened().to_vec()),
            ("log scales", flat(&splats.log_scales), expected.splats.log_scales.as_flattened().to_vec()),
            ("quaternions", wide(splats.quats.as_flattened()), expected.splats.quats.as_flattened().to_vec()),
            ("logits", wide(&splats.opacity_logits), expected.splats.opacity_logits.clone()),
            ("SH", wide(&splats.sh), expected.splats.sh.clone()),
            (
                "pose",
                found.gradients.pose.twist(&scene.pose).to_vec(),
                expected.pose.twist(&scene.pose).to_vec(),
            ),
        ];
        for (what, found, expected) in pairs {
            let error = distance(&format!("seed {seed}: {what}"), &found, &expected);
            assert!(error < 1e-5, "seed {seed}: {what} is off by {error:.1e}");
        }
    }
}

#[test]
fn a_splat_at_the_seam_is_drawn_on_both_sides_and_gets_the_gradients_of_both() {
    let camera = Camera::panorama(120, 60).unwrap();
    let drawn = |longitude: f64| {
        let mut splats = Splats::with_capacity(0, 1);
        let mean = camera.ray([longitude, 30.0]).map(|v| (2.0 * v) as f32);
        splats.push(mean, [-2.0; 3], [1.0, 0.0, 0.0, 0.0], 1.0, &[1.0, 0.5, 0.0]);
        let scene = TestScene { splats, camera, pose: Pose::IDENTITY };
        kernels(&scene, &RenderOptions { sh_degree: 0, ..OPTIONS }, 1, SimdLevel::Auto).unwrap().rendering
    };
    // Rotated by half the image it is the same image, shifted by 60 columns.
    for offset in [-0.4, 0.0, 0.3] {
        let (middle, seam) = (drawn(60.0 + offset), drawn(offset));
        assert!(seam.alpha[30 * 120] > 0.1 && seam.alpha[30 * 120 + 119] > 0.1);
        for (pixel, alpha) in seam.alpha.iter().enumerate() {
            let turned = pixel / 120 * 120 + (pixel + 60) % 120;
            assert!((alpha - middle.alpha[turned]).abs() < 1e-4, "{offset}: pixel {pixel}");
        }
    }
}

#[test]
fn a_panorama_shows_what_the_faces_of_a_cube_show() {
    // Small splats, as in a trained scene: the test compares the projection, not its linearisation.
    let mut random = Random::new(7);
    let mut splats = Splats::with_capacity(0, 6000);
    for _ in 0..6000 {
        let [w, x, y, z] = random.rotation();
        let axis = se3::rotation_from_quaternion([w, x, y, z]).map(|row| row[2]);
        let n = random.uniform(2.0, 4.0);
        let size = (n * random.uniform(0.015, 0.05)).ln() as f32;
        let wave = |k: usize| (0.9 * libm::sin(3.0 * axis[k])) as f32;
        let colour = [wave(0), wave(1), wave(2)];
        splats.push(axis.map(|v| (n * v) as f32), [size; 3], [1.0, 0.0, 0.0, 0.0], 2.0, &colour);
    }
    let blocks = Blocks::from_splats(&splats);
    let options = RenderOptions { sh_degree: 0, ..OPTIONS };
    let pool = Pool::new(2);
    let draw = |camera: &Camera, pose: &Pose| {
        let (view, mut pipeline) = (KernelView::new(camera, pose), Pipeline::default());
        pipeline.forward(Exec::best(&pool), &blocks, &view, &options, Outputs::Color).expect("few entries");
        pipeline.rendering(&view).color
    };
    let panorama = Camera::panorama(512, 256).unwrap();
    let found = draw(&panorama, &Pose::IDENTITY);
    // Faces of 1024 px, so that nearest-pixel sampling costs little accuracy.
    let side = 1024u32;
    let half = f64::from(side) / 2.0;
    let face = Camera::new(side, side, half, half, half, half).unwrap();
    let turns = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
        [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]],
        [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]],
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]],
        [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]],
    ];
    let faces = turns.map(|rotation| draw(&face, &Pose { rotation, translation: [0.0; 3] }));
    let mut squares = 0.0;
    for row in 0..256u32 {
        for column in 0..512u32 {
            let mut sum = [0.0f64; 3];
            // Four samples a pixel, as the faces are finer.
            for k in 0..4 {
                let at = [
                    f64::from(column) + 0.25 + 0.5 * f64::from(k % 2),
                    f64::from(row) + 0.25 + 0.5 * f64::from(k / 2),
                ];
                let ray = panorama.ray(at);
                let in_faces = turns.map(|turn| se3::mul_vec(&turn, ray));
                let is_seen = |p: &[f64; 3]| p[2] > 0.0 && p[0].abs() <= p[2] && p[1].abs() <= p[2];
                let index = in_faces.iter().position(is_seen).expect("a cube has no holes");
                let [u, v] = face.project(in_faces[index]).map(|c| (c as usize).min(side as usize - 1));
                for c in 0..3 {
                    sum[c] += 0.25 * f64::from(faces[index][3 * (v * side as usize + u) + c]);
                }
            }
            for c in 0..3 {
                squares += (sum[c] - f64::from(found[3 * (row * 512 + column) as usize + c])).powi(2);
            }
        }
    }
    let psnr = -10.0 * libm::log10(squares / f64::from(3 * 512 * 256));
    println!("panorama against the faces of a cube: {psnr:.1} dB");
    assert!(psnr >= 38.0, "{psnr:.2} dB");
}

#[test]
fn panoramas_are_the_same_bytes_for_any_threads_and_vector_level() {
    let scene = scene(11, 3000, [0.5, 4.0]);
    let bits = |pass: Pass| {
        let mut bits: Vec<u32> = pass.rendering.color.iter().map(|v| v.to_bits()).collect();
        let rows = pass.gradients.parameters.geometry;
        bits.extend(rows.iter().flatten().flat_map(|row| row.0).map(|v| (v + 0.0).to_bits()));
        bits
    };
    let expected = bits(kernels(&scene, &OPTIONS, 1, SimdLevel::Auto).unwrap());
    for vector in SimdLevel::ALL {
        for threads in [1, 2, 5] {
            if let Some(pass) = kernels(&scene, &OPTIONS, threads, vector) {
                assert!(bits(pass) == expected, "{threads} threads at {}", vector.level_name());
            }
        }
    }
}
