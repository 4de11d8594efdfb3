//! Dropout of splats: the render is that of the remaining splats, and only they get gradients.

use gausset_compute::{Exec, Pool, SimdLevel, dispatch_level};
use gausset_core::engine::Outputs;
use gausset_core::engine::RenderOptions;
use gausset_raster::blend_vjp::{AbsoluteSums, PlanarImage, Upstream};
use gausset_raster::layout::Blocks;
use gausset_raster::pipeline::Pipeline;
use gausset_raster::project::Dropout;
use gausset_raster::view::KernelView;
use gausset_testkit::RandomScene;
use gausset_testkit::scene::TestScene;

fn scene() -> TestScene {
    RandomScene { splats: 3000, sh_degree: 1, width: 61, height: 43, ..RandomScene::default() }.build()
}

fn options() -> RenderOptions {
    RenderOptions { sh_degree: 1, background: [0.2, 0.5, 0.8], ..RenderOptions::default() }
}

/// Dropout of a fraction in a step.
fn leaving_out(share: f32, step: u64) -> Option<Dropout> {
    Some(Dropout { fraction: share, seed: 7, step })
}

fn forward(scene: &TestScene, dropout: Option<Dropout>, threads: usize, simd: SimdLevel) -> Pipeline {
    let view = KernelView::new(&scene.camera, &scene.pose);
    let mut pipeline = Pipeline::default();
    pipeline.dropout = dropout;
    let splats = Blocks::from_splats(&scene.splats);
    let simd = dispatch_level(simd).expect("there is always the fallback");
    pipeline
        .forward(Exec { pool: &Pool::new(threads), level: simd }, &splats, &view, &options(), Outputs::All)
        .expect("few entries");
    pipeline
}

/// Indices of the visible splats.
fn drawn(pipeline: &Pipeline) -> Vec<usize> {
    let mut drawn: Vec<usize> =
        pipeline.projected.sort_keys.iter().map(|key| (key & 0xFFFF_FFFF) as usize).collect();
    drawn.sort_unstable();
    drawn
}

#[test]
fn about_the_share_is_left_out_and_other_splats_in_other_steps() {
    let scene = scene();
    let all = drawn(&forward(&scene, leaving_out(0.0, 0), 1, SimdLevel::Auto));
    let [first, second] =
        [0, 1].map(|step| drawn(&forward(&scene, leaving_out(0.25, step), 1, SimdLevel::Auto)));
    for kept in [&first, &second] {
        // Four standard deviations of a binomial.
        let (n, expected) = (all.len() as f64, 0.75 * all.len() as f64);
        assert!(
            (kept.len() as f64 - expected).abs() < 4.0 * (n * 0.25 * 0.75).sqrt(),
            "{} of {n}",
            kept.len()
        );
        assert!(kept.iter().all(|splat| all.binary_search(splat).is_ok()));
    }
    let both = first.iter().filter(|splat| second.binary_search(splat).is_ok()).count() as f64;
    assert!((both / first.len() as f64 - 0.75).abs() < 0.05, "steps draw independently: {both}");
}

#[test]
fn the_picture_is_that_of_the_splats_that_are_left() {
    let scene = scene();
    let view = KernelView::new(&scene.camera, &scene.pose);
    let with = forward(&scene, leaving_out(0.3, 5), 2, SimdLevel::Auto);
    let rest = TestScene { splats: scene.splats.select(&drawn(&with)), ..scene.clone() };
    let without = forward(&rest, leaving_out(0.0, 5), 2, SimdLevel::Auto);
    assert_eq!(with.rendering(&view), without.rendering(&view));
}

#[test]
fn threads_and_vector_levels_leave_out_the_same() {
    let scene = scene();
    let expected = drawn(&forward(&scene, leaving_out(0.1, 3), 1, SimdLevel::Auto));
    for threads in [2, 5] {
        assert_eq!(drawn(&forward(&scene, leaving_out(0.1, 3), threads, SimdLevel::Auto)), expected);
    }
    assert_eq!(drawn(&forward(&scene, leaving_out(0.1, 3), 2, SimdLevel::Fallback)), expected);
}

#[test]
fn what_is_left_out_gets_no_gradient() {
    let scene = scene();
    let view = KernelView::new(&scene.camera, &scene.pose);
    let simd = dispatch_level(SimdLevel::Auto).expect("there is always the fallback");
    let pool = Pool::new(2);
    let mut pipeline = forward(&scene, leaving_out(0.5, 9), 2, SimdLevel::Auto);
    let [stride, rows] =
        [scene.camera.width, scene.camera.height].map(|side| side.next_multiple_of(16) as usize);
    let ones = vec![1.0; 3 * stride * rows];
    let color = PlanarImage { data: &ones, stride, row_len: 3 * stride };
    pipeline.backward(
        Exec { pool: &pool, level: simd },
        &view,
        Upstream { color, alpha_depth: None },
        AbsoluteSums::Off,
    );
    let splats = Blocks::from_splats(&scene.splats);
    let gradients = pipeline.gradients(Exec { pool: &pool, level: simd }, &splats, &view, &options());
    let kept = drawn(&pipeline);
    let moved: Vec<usize> = (0..scene.splats.len()).filter(|&i| gradients.mean2d[i] != [0.0; 2]).collect();
    assert!(moved.len() > kept.len() / 4, "{} of {}", moved.len(), kept.len());
    assert!(moved.iter().all(|splat| kept.binary_search(splat).is_ok()));
}
