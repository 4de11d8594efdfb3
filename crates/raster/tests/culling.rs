//! Culling, tile lists and column spans only save work: renders equal those of evaluating every splat at every pixel.
//!
//! The brute-force renderer here takes all splats in front of the camera from `probe`, which does not cull, and blends
//! them with the arithmetic of the kernels, operation by operation. Renders are then bit-identical: a missing pair of
//! pixel and splat, or a wrong order, would show.

use fearless_simd::Level;
use gausset_compute::simd::{LANES, LOG2_E, Row, exp2, ln, load, splat};
use gausset_compute::{Exec, Pool, SimdLevel, at_level, dispatch_level};
use gausset_core::Splats;
use gausset_core::constants::{ALPHA_MAX, ALPHA_MIN, TRANSMITTANCE_STOP};
use gausset_core::engine::Outputs;
use gausset_core::engine::{RenderOptions, Rendering};
use gausset_raster::blend_vjp::{AbsoluteSums, PlanarImage, Upstream};
use gausset_raster::layout::Blocks;
use gausset_raster::pipeline::Pipeline;
use gausset_raster::probe::screen_splats;
use gausset_raster::project::record;
use gausset_raster::project_vjp::Gradients;
use gausset_raster::view::KernelView;
use gausset_reference as reference;
use gausset_testkit::RandomScene;
use gausset_testkit::scene::{Random, TestScene};

const BACKGROUND: [f32; 3] = [0.2, 0.5, 0.8];

fn any_level() -> Level {
    dispatch_level(SimdLevel::Auto).expect("there is always a level")
}

fn options(antialiased: bool) -> RenderOptions {
    RenderOptions { sh_degree: 1, background: BACKGROUND, antialiased, ..RenderOptions::default() }
}

/// Scenes that are hard to cull correctly, with a name for messages.
fn scenes() -> Vec<(&'static str, TestScene)> {
    let recipe = RandomScene { splats: 150, sh_degree: 1, width: 61, height: 43, ..RandomScene::default() };
    let named = [
        ("ordinary", recipe),
        ("faint", RandomScene { opacity_logit: [-5.8, -5.0], ..recipe }),
        ("opaque", RandomScene { opacity_logit: [3.0, 12.0], ..recipe }),
        ("tiny", RandomScene { size_in_px: [1e-4, 0.1], ..recipe }),
        ("long and thin", RandomScene { size_in_px: [0.01, 300.0], ..recipe }),
        ("huge", RandomScene { size_in_px: [100.0, 3000.0], ..recipe }),
        ("off-screen", RandomScene { margin: 4.0, size_in_px: [1.0, 100.0], ..recipe }),
        ("thin and off-screen", RandomScene { margin: 3.0, size_in_px: [0.01, 200.0], ..recipe }),
        ("needles", RandomScene { size_in_px: [0.001, 3000.0], ..recipe }),
        ("needles off-screen", RandomScene { margin: 20.0, size_in_px: [0.001, 1000.0], ..recipe }),
        ("huge and off-screen", RandomScene { margin: 50.0, size_in_px: [300.0, 100000.0], ..recipe }),
        ("around the near plane", RandomScene { depth: [-0.02, 0.05], size_in_px: [0.5, 20.0], ..recipe }),
    ];
    let seeds = 40..43;
    seeds
        .flat_map(|seed| named.map(|(name, recipe)| (name, RandomScene { seed, ..recipe }.build())))
        .collect()
}

fn forward(splats: &Splats, scene: &TestScene, options: &RenderOptions) -> (Pipeline, Rendering) {
    let view = KernelView::new(&scene.camera, &scene.pose);
    let mut pipeline = Pipeline::default();
    pipeline
        .forward(Exec::best(&Pool::new(2)), &Blocks::from_splats(splats), &view, options, Outputs::All)
        .expect("few entries");
    let rendering = pipeline.rendering(&view);
    (pipeline, rendering)
}

/// The data that a pixel needs of a splat, named as in `record`, and the splat's index.
struct Drawn {
    values: Row,
    number: usize,
}

/// All splats that `project` could render, nearest first, with the values of their records.
fn all_drawn(scene: &TestScene, options: &RenderOptions) -> Vec<Drawn> {
    let view = KernelView::new(&scene.camera, &scene.pose);
    let screen = screen_splats(any_level(), &Blocks::from_splats(&scene.splats), &view, options);
    let mut drawn: Vec<Drawn> = Vec::new();
    for (number, s) in screen.iter().enumerate().filter(|(_, s)| s.in_front) {
        let log: Row = at_level!(any_level(), simd => ln(simd, splat(simd, s.opacity.max(1e-37))).into());
        let mut values = [0.0; LANES];
        values[record::X] = s.mean2d[0];
        values[record::Y] = s.mean2d[1];
        values[record::A] = s.conic[0] * (-0.5 * LOG2_E);
        values[record::B] = s.conic[1] * -LOG2_E;
        values[record::C] = s.conic[2] * (-0.5 * LOG2_E);
        values[record::L] = log[0] * LOG2_E;
        values[record::RED..record::RED + 3].copy_from_slice(&s.color);
        values[record::DEPTH] = s.z;
        drawn.push(Drawn { values, number });
    }
    drawn.sort_by(|a, b| a.values[record::DEPTH].total_cmp(&b.values[record::DEPTH]));
    drawn
}

/// Blends every splat at every pixel.
fn brute_force(scene: &TestScene, drawn: &[Drawn]) -> Rendering {
    let (width, height) = (scene.camera.width, scene.camera.height);
    let pixels = scene.camera.pixels();
    let mut out = Rendering {
        width,
        height,
        color: vec![0.0; 3 * pixels],
        alpha: vec![0.0; pixels],
        depth: vec![0.0; pixels],
        count: vec![0; pixels],
        capped_tiles: 0,
    };
    let mut transmittance = vec![1.0f32; pixels];
    let mut last = vec![1.0f32; pixels];
    for Drawn { values: r, .. } in drawn {
        for first in (0..pixels).step_by(LANES) {
            let lanes = first..pixels.min(first + LANES);
            let mut exponents: Row = [0.0; LANES];
            for (exponent, pixel) in exponents.iter_mut().zip(lanes.clone()) {
                let dx = (pixel as u32 % width) as f32 + 0.5 - r[record::X];
                let dy = (pixel as u32 / width) as f32 + 0.5 - r[record::Y];
                let along_x = r[record::B].mul_add(dy, r[record::A] * dx);
                let along_y = (r[record::C] * dy).mul_add(dy, r[record::L]);
                *exponent = along_x.mul_add(dx, along_y);
            }
            let raw: Row = at_level!(any_level(), simd => exp2(simd, load(simd, &exponents)).into());
            for (raw, pixel) in raw.into_iter().zip(lanes) {
                let alpha = raw.min(ALPHA_MAX);
                let t = transmittance[pixel];
                if alpha < ALPHA_MIN {
                    continue;
                }
                let next = (-alpha).mul_add(t, t);
                transmittance[pixel] = next;
                if next > TRANSMITTANCE_STOP {
                    let weight = alpha * t;
                    for k in 0..3 {
                        let sum = &mut out.color[3 * pixel + k];
                        *sum = weight.mul_add(r[record::RED + k], *sum);
                    }
                    out.depth[pixel] = weight.mul_add(r[record::DEPTH], out.depth[pixel]);
                    out.count[pixel] += 1;
                    last[pixel] = next;
                }
            }
        }
    }
    for pixel in 0..pixels {
        for k in 0..3 {
            let sum = &mut out.color[3 * pixel + k];
            *sum = last[pixel].mul_add(BACKGROUND[k], *sum);
        }
        out.alpha[pixel] = 1.0 - last[pixel];
    }
    out
}

#[test]
fn no_pair_of_pixel_and_splat_is_lost() {
    for (name, scene) in scenes() {
        for antialiased in [false, true] {
            let options = options(antialiased);
            let drawn = all_drawn(&scene, &options);
            let (pipeline, found) = forward(&scene.splats, &scene, &options);
            // The brute force uses the same values as the kernels.
            let visible: Vec<&Drawn> =
                drawn.iter().filter(|d| pipeline.projected.rects[d.number].area() > 0).collect();
            for d in &visible {
                assert_eq!(d.values[..10], pipeline.projected.records[d.number].0[..10], "{name}");
            }
            let expected = brute_force(&scene, &drawn);
            assert_eq!(found.count, expected.count, "{name}, antialiased: {antialiased}");
            assert!(found == expected, "{name}, antialiased: {antialiased}: same counts, other pictures");
            if name != "tiny" || !antialiased {
                assert!(visible.len() > 10, "{name} shows {} splats", visible.len());
                assert!(found.count.iter().any(|&n| n > 0), "{name} shows something");
            }
        }
    }
}

/// Whether single precision must make the same decisions at a pixel as the reference (fixtures, section 4).
///
/// The exponents are off by rounding errors of the terms of the quadratic form, which for long thin splats are far
/// larger than their sum: the required margin grows with the terms.
fn is_robust(screen: &[Option<reference::ScreenSplat>], order: &[u32], point: [f64; 2]) -> bool {
    let mut transmittance: f64 = 1.0;
    let mut depth_before = f64::NEG_INFINITY;
    for s in order.iter().filter_map(|&i| screen[i as usize].as_ref()) {
        let (dx, dy) = (point[0] - s.mean2d[0], point[1] - s.mean2d[1]);
        let [a, b, c] = s.conic;
        let (xx, xy, yy) = (0.5 * a * dx * dx, b * dx * dy, 0.5 * c * dy * dy);
        let log_alpha = s.opacity.ln() - (xx + xy + yy);
        let margin = 2e-4 + 2e-6 * (xx + xy.abs() + yy);
        let close = |limit: f64| (log_alpha - limit.ln()).abs() < margin;
        if close(reference::ALPHA_MIN) || close(reference::ALPHA_MAX) {
            return false;
        }
        let alpha = log_alpha.exp().min(reference::ALPHA_MAX);
        if alpha < reference::ALPHA_MIN {
            continue;
        }
        transmittance *= 1.0 - alpha;
        if (transmittance / reference::TRANSMITTANCE_STOP).ln().abs() < 1e-3
            || s.depth - depth_before < 2e-6 * s.depth
        {
            return false;
        }
        if transmittance <= reference::TRANSMITTANCE_STOP {
            return true;
        }
        depth_before = s.depth;
    }
    true
}

#[test]
fn robust_pixels_are_those_of_the_reference() {
    for (name, scene) in scenes() {
        let options = options(false);
        let expected =
            reference::render(&reference::Scene::new(&scene.splats, &scene.camera, &scene.pose, &options));
        let (_, found) = forward(&scene.splats, &scene, &options);
        let order = reference::tile::depth_order(&expected.screen);
        let mut robust = 0;
        let mut largest: f64 = 0.0;
        for pixel in 0..scene.camera.pixels() {
            let (column, row) = (pixel as u32 % found.width, pixel as u32 / found.width);
            if !is_robust(&expected.screen, &order, reference::tile::pixel_centre(column, row)) {
                continue;
            }
            robust += 1;
            assert_eq!(found.count[pixel], expected.count[pixel], "{name}: ({column}, {row})");
            for k in 3 * pixel..3 * pixel + 3 {
                largest = largest.max((f64::from(found.color[k]) - expected.color[k]).abs());
            }
        }
        // An exponent that is off by the smallest margin of a robust pixel, times colours of the order of 1.
        assert!(largest < 2e-4, "{name}: off by {largest:e}");
        assert!(20 * robust > 19 * scene.camera.pixels(), "{name}: {robust} robust pixels");
    }
}

/// Adds a splat that is not visible: behind the camera, too faint, or far outside the image.
fn push_invisible(splats: &mut Splats, scene: &TestScene, kind: usize) {
    let in_camera = [[0.1, 0.1, -1.0], [0.0, 0.0, 2.0], [500.0, 0.0, 2.0]][kind % 3];
    let logit = [2.0, -7.0, 2.0][kind % 3];
    let mean = scene.pose.inverse().apply(in_camera).map(|v| v as f32);
    let coefficients = vec![0.7; splats.sh_stride()];
    splats.push(mean, [-3.0; 3], [1.0, 0.2, 0.3, 0.4], logit, &coefficients);
}

/// A render and the gradients of a random linear loss.
fn picture_and_gradients(splats: &Splats, scene: &TestScene) -> (Rendering, Gradients) {
    let view = KernelView::new(&scene.camera, &scene.pose);
    let options = options(true);
    let (mut pipeline, rendering) = forward(splats, scene, &options);
    let stride = (scene.camera.width as usize).next_multiple_of(16);
    let rows = (scene.camera.height as usize).next_multiple_of(16);
    let mut random = Random::new(9);
    let weights: Vec<f32> = (0..5 * stride * rows).map(|_| random.uniform(-1.0, 1.0) as f32).collect();
    let (color, alpha_depth) = weights.split_at(3 * stride * rows);
    let upstream = Upstream {
        color: PlanarImage { data: color, stride, row_len: 3 * stride },
        alpha_depth: Some(PlanarImage { data: alpha_depth, stride, row_len: 2 * stride }),
    };
    let (pool, blocks) = (Pool::new(2), Blocks::from_splats(splats));
    pipeline.backward(Exec::best(&pool), &view, upstream, AbsoluteSums::On);
    let gradients = pipeline.gradients(Exec::best(&pool), &blocks, &view, &options);
    (rendering, gradients)
}

#[test]
fn splats_that_are_not_drawn_change_no_bit() {
    // 37 splats: the last block has 5 of 16. Appending fills it, starts another and fills that too.
    let scene = RandomScene { splats: 37, sh_degree: 1, ..RandomScene::default() }.build();
    let (picture, gradients) = picture_and_gradients(&scene.splats, &scene);
    let expected = gradients.parameters.to_splats();
    assert!(picture.count.iter().any(|&n| n > 1), "there is something to see");
    for added in [1, 3, 10, 11, 12, 27, 28] {
        let mut splats = scene.splats.clone();
        (0..added).for_each(|kind| push_invisible(&mut splats, &scene, kind));
        let (same_picture, more) = picture_and_gradients(&splats, &scene);
        assert!(same_picture == picture, "{added} appended: another picture");
        let found = more.parameters.to_splats();
        let mut padded = expected.clone();
        let coefficients = vec![0.0; padded.sh_stride()];
        (0..added).for_each(|_| padded.push([0.0; 3], [0.0; 3], [0.0; 4], 0.0, &coefficients));
        assert_eq!(found, padded, "{added} appended: gradients");
        assert_eq!(more.mean2d[..37], gradients.mean2d[..], "{added} appended");
        assert_eq!(more.mean2d_abs[..37], gradients.mean2d_abs[..], "{added} appended");
        assert_eq!(more.pose.matrix(&scene.pose), gradients.pose.matrix(&scene.pose), "{added} appended");
    }
}

#[test]
fn the_place_of_a_splat_in_its_block_changes_no_bit_of_it() {
    let scene = RandomScene { splats: 37, sh_degree: 1, ..RandomScene::default() }.build();
    let (picture, gradients) = picture_and_gradients(&scene.splats, &scene);
    let expected = gradients.parameters.to_splats();
    for before in [1, 7, 16, 1030] {
        let mut splats = Splats::with_capacity(1, before + 37);
        (0..before).for_each(|kind| push_invisible(&mut splats, &scene, kind));
        let s = &scene.splats;
        for i in 0..s.len() {
            splats.push(s.means[i], s.log_scales[i], s.quats[i], s.opacity_logits[i], s.sh_coefficients(i));
        }
        let (same_picture, moved) = picture_and_gradients(&splats, &scene);
        assert!(same_picture == picture, "{before} in front: another picture");
        let found = moved.parameters.to_splats();
        assert_eq!(found.means[before..], expected.means[..], "{before} in front");
        assert_eq!(found.quats[before..], expected.quats[..], "{before} in front");
        assert_eq!(found.log_scales[before..], expected.log_scales[..], "{before} in front");
        assert_eq!(found.opacity_logits[before..], expected.opacity_logits[..], "{before} in front");
        assert_eq!(found.sh[before * 12..], expected.sh[..], "{before} in front");
        // The pose sums over lanes: other positions, another order of additions.
        let (a, b) = (moved.pose.twist(&scene.pose), gradients.pose.twist(&scene.pose));
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{before} in front: {a} {b}");
        }
    }
}

#[test]
fn a_splat_with_a_parameter_that_is_nan_is_not_drawn() {
    let scene =
        RandomScene { splats: 40, sh_degree: 1, width: 61, height: 43, ..RandomScene::default() }.build();
    let options = options(false);
    let mut without = scene.splats.clone();
    without.opacity_logits[3] = f32::NEG_INFINITY;
    let expected = forward(&without, &scene, &options).1;
    assert!(forward(&scene.splats, &scene, &options).1 != expected, "it is seen");
    let spoil: [fn(&mut Splats); 6] = [
        |s| s.means[3][1] = f32::NAN,
        |s| s.quats[3][2] = f32::NAN,
        |s| s.log_scales[3][0] = f32::NAN,
        |s| s.log_scales[3][2] = f32::NAN,
        |s| s.opacity_logits[3] = f32::NAN,
        |s| s.sh[12 * 3 + 5] = f32::NAN,
    ];
    for (number, spoil) in spoil.into_iter().enumerate() {
        let mut splats = scene.splats.clone();
        spoil(&mut splats);
        assert!(forward(&splats, &scene, &options).1 == expected, "{number}");
    }
}
