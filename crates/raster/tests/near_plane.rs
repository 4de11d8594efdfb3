//! The near plane: splats in front of it are ignored, by kernels and reference alike.

use gausset_compute::{Exec, Pool};
use gausset_core::engine::Outputs;
use gausset_core::engine::RenderOptions;
use gausset_raster::layout::Blocks;
use gausset_raster::pipeline::Pipeline;
use gausset_raster::view::KernelView;
use gausset_reference::{self as reference, Scene};
use gausset_testkit::RandomScene;
use gausset_testkit::scene::TestScene;

fn scene() -> TestScene {
    RandomScene { splats: 2000, sh_degree: 1, width: 61, height: 43, ..RandomScene::default() }.build()
}

fn depths(scene: &TestScene) -> Vec<f64> {
    scene.splats.means.iter().map(|mean| scene.pose.apply(mean.map(f64::from))[2]).collect()
}

/// A depth that divides the splats of the scene in two, far from any of them.
fn middle(scene: &TestScene) -> f64 {
    let mut depths = depths(scene);
    depths.sort_by(f64::total_cmp);
    let from = depths.len() / 3;
    let widest = (from..2 * from).max_by(|&i, &j| {
        let gap = |k: usize| depths[k + 1] - depths[k];
        gap(i).total_cmp(&gap(j))
    });
    let i = widest.expect("there are splats");
    f64::midpoint(depths[i], depths[i + 1])
}

fn options(near_plane: f64) -> RenderOptions {
    RenderOptions { sh_degree: 1, background: [0.2, 0.5, 0.8], near_plane, ..RenderOptions::default() }
}

fn rendering(scene: &TestScene, options: &RenderOptions) -> gausset_core::engine::Rendering {
    let view = KernelView::new(&scene.camera, &scene.pose).with_near_plane(options.near_plane);
    let mut pipeline = Pipeline::default();
    let splats = Blocks::from_splats(&scene.splats);
    pipeline.forward(Exec::best(&Pool::new(2)), &splats, &view, options, Outputs::All).expect("few entries");
    pipeline.rendering(&view)
}

#[test]
fn the_picture_is_that_of_the_splats_behind_it() {
    let scene = scene();
    let near = middle(&scene);
    let behind: Vec<usize> =
        depths(&scene).iter().enumerate().filter(|(_, z)| **z > near).map(|(i, _)| i).collect();
    assert!(behind.len() > 100 && behind.len() < scene.splats.len() - 100);
    let rest = TestScene { splats: scene.splats.select(&behind), ..scene.clone() };
    let cut = rendering(&scene, &options(near));
    assert_eq!(cut, rendering(&rest, &RenderOptions { near_plane: 0.01, ..options(near) }));
    assert_ne!(cut, rendering(&scene, &options(0.01)));
}

#[test]
fn kernels_draw_what_the_reference_draws() {
    let scene = scene();
    let options = options(middle(&scene));
    let found = rendering(&scene, &options);
    let expected = reference::render(&Scene::new(&scene.splats, &scene.camera, &scene.pose, &options)).color;
    let worst = found.color.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    // As for the fixtures' renders: 1e-5, except for the few pixels where a threshold decides differently.
    assert!(worst < 1.5 / 255.0, "{worst}");
    let off = found.color.iter().zip(&expected).filter(|(a, b)| (f64::from(**a) - **b).abs() > 1e-5).count();
    assert!(off <= found.color.len() / 1000, "{off}");
}
