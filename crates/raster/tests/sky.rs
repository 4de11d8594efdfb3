//! The sky of the kernels compared with the reference: renders, its gradient, gradients of splats in front of it,
//! bytes.

use gausset_compute::{Exec, Pool, SimdLevel, dispatch_level};
use gausset_core::Splats;
use gausset_core::engine::Outputs;
use gausset_core::engine::{RenderOptions, Rendering, SKY_VALUES};
use gausset_raster::blend_vjp::{AbsoluteSums, PlanarImage, Upstream};
use gausset_raster::layout::Blocks;
use gausset_raster::pipeline::Pipeline;
use gausset_raster::sky::SkyCoefficients;
use gausset_raster::view::KernelView;
use gausset_reference::{self as reference, Scene};
use gausset_testkit::RandomScene;
use gausset_testkit::scene::{Random, TestScene};

/// Not a multiple of a tile, and wide enough for directions to differ.
const RECIPE: RandomScene = RandomScene {
    seed: 3,
    splats: 60,
    sh_degree: 1,
    width: 61,
    height: 43,
    depth: [1.0, 6.0],
    margin: 0.1,
    size_in_px: [0.8, 6.0],
    opacity_logit: [-2.0, 4.0],
};

fn options() -> RenderOptions {
    RenderOptions { sh_degree: 1, background: [0.1, 0.0, 0.3], ..RenderOptions::default() }
}

/// Strong enough to be black in places.
fn sky(seed: u64) -> SkyCoefficients {
    let mut random = Random::new(seed);
    [0; SKY_VALUES].map(|_| random.uniform(-0.9, 0.9) as f32)
}

/// The render, the gradient of the sky and those of the splats, for random weights of the colours.
struct Pass {
    rendering: Rendering,
    sky: SkyCoefficients,
    splats: Splats,
}

/// `dL/d colour` of each value of the render.
fn weights(scene: &TestScene) -> Vec<f64> {
    let mut random = Random::new(77);
    (0..3 * scene.camera.pixels()).map(|_| f64::from(random.uniform(-1.0, 1.0) as f32)).collect()
}

fn kernels(scene: &TestScene, sky: SkyCoefficients, threads: usize, vector: SimdLevel) -> Option<Pass> {
    let exec = Exec { pool: &Pool::new(threads), level: dispatch_level(vector)? };
    let (splats, options) = (Blocks::from_splats(&scene.splats), options());
    let view = KernelView::new(&scene.camera, &scene.pose);
    let mut pipeline = Pipeline::default();
    pipeline.sky = Some(sky);
    pipeline.forward(exec, &splats, &view, &options, Outputs::All).expect("few entries");
    let rendering = pipeline.rendering(&view);

    let (width, height) = (scene.camera.width as usize, scene.camera.height as usize);
    let stride = width.next_multiple_of(16);
    // Padding outside the image must not count.
    let mut data = vec![1e9f32; 3 * stride * height.next_multiple_of(16)];
    for (i, weight) in weights(scene).iter().enumerate() {
        let (pixel, channel) = (i / 3, i % 3);
        data[(pixel / width) * 3 * stride + channel * stride + pixel % width] = *weight as f32;
    }
    let color = PlanarImage { data: &data, stride, row_len: 3 * stride };
    let upstream = Upstream { color, alpha_depth: None };
    pipeline.backward(exec, &view, upstream, AbsoluteSums::Off);
    let splats = pipeline.gradients(exec, &splats, &view, &options).parameters.to_splats();
    Some(Pass { rendering, sky: pipeline.sky_gradient, splats })
}

/// Relative L2 distance.
fn distance<'a>(
    found: impl IntoIterator<Item = &'a f32>,
    expected: impl IntoIterator<Item = &'a f64>,
) -> f64 {
    let pairs: Vec<(f64, f64)> =
        found.into_iter().map(|&f| f64::from(f)).zip(expected.into_iter().copied()).collect();
    let norm = |f: fn(&(f64, f64)) -> f64| pairs.iter().map(|p| f(p) * f(p)).sum::<f64>().sqrt();
    assert!(norm(|p| p.1) > 1e-3, "nothing was tested");
    norm(|p| p.0 - p.1) / norm(|p| p.1)
}

#[test]
fn pictures_and_gradients_are_those_of_the_reference() {
    for seed in 1..=3 {
        let scene = RandomScene { seed, ..RECIPE }.build();
        let sky = sky(seed);
        let found = kernels(&scene, sky, 1, SimdLevel::Auto).expect("there is always a level");
        let wide = std::array::from_fn(|k| std::array::from_fn(|c| f64::from(sky[3 * k + c])));
        let exact =
            Scene { sky: Some(wide), ..Scene::new(&scene.splats, &scene.camera, &scene.pose, &options()) };
        let rendering = reference::render(&exact);
        // f32 rounding in some dozen operations; a splat that is blended in only one of the two has alpha 1/255.
        let picture = distance(&found.rendering.color, &rendering.color);
        assert!(picture < 1e-5, "{picture:e}");

        let mut upstream = reference::Upstream::zeros(&scene.camera);
        upstream.color = weights(&scene);
        let gradients = reference::vjp(&exact, &rendering, &upstream);
        let of_sky = distance(&found.sky, gradients.sky.as_flattened());
        assert!(of_sky < 1e-5, "{of_sky:e}");
        let of_opacities = distance(&found.splats.opacity_logits, &gradients.splats.opacity_logits);
        let of_means = distance(found.splats.means.as_flattened(), gradients.splats.means.as_flattened());
        // As without a sky: differences between the colours in front and behind.
        assert!(of_opacities < 1e-4 && of_means < 1e-4, "{of_opacities:e} {of_means:e}");
    }
}

#[test]
fn bytes_are_the_same_on_every_number_of_threads_and_vector_level() {
    let scene = RECIPE.build();
    let pass = |threads, vector| {
        let pass = kernels(&scene, sky(5), threads, vector)?;
        let splats = pass.splats.means.as_flattened().to_vec();
        let values = pass.rendering.color.into_iter().chain(pass.sky).chain(splats);
        Some(values.map(f32::to_bits).collect::<Vec<u32>>())
    };
    let expected = pass(1, SimdLevel::Fallback).expect("there is always the fallback");
    for threads in [1, 2, 3] {
        for vector in [SimdLevel::Auto, SimdLevel::Fallback, SimdLevel::Avx2, SimdLevel::Avx512] {
            if let Some(found) = pass(threads, vector) {
                assert!(found == expected, "{threads} threads, {vector:?}");
            }
        }
    }
}

#[test]
fn a_sky_without_colour_is_the_grey_of_splats_without_colour() {
    let scene = RandomScene { splats: 0, ..RECIPE }.build();
    let pass = kernels(&scene, [0.0; SKY_VALUES], 1, SimdLevel::Auto).expect("there is always a level");
    // On the background of the options.
    for pixel in pass.rendering.color.chunks_exact(3) {
        assert_eq!(pixel, [0.6, 0.5, 0.8]);
    }
}

#[test]
fn splats_behind_the_first_ones_are_not_drawn_when_these_are_asked_for() {
    let scene = RECIPE.build();
    let picture = |scene: &TestScene, only_first| {
        let pool = Pool::new(1);
        let exec = Exec::best(&pool);
        let view = KernelView::new(&scene.camera, &scene.pose);
        let options = RenderOptions { splat_limit: only_first, ..options() };
        let mut pipeline = Pipeline::default();
        let splats = Blocks::from_splats(&scene.splats);
        pipeline.forward(exec, &splats, &view, &options, Outputs::All).expect("few entries");
        pipeline.rendering(&view)
    };
    for count in [0, 1, 15, 16, 17, 59, 60] {
        let first: Vec<usize> = (0..count).collect();
        let alone = TestScene { splats: scene.splats.select(&first), ..scene.clone() };
        assert_eq!(picture(&scene, Some(count as u32)), picture(&alone, None), "{count}");
    }
}
