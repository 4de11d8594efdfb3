//! The weight in front of a depth compared with the reference: every splat of every pixel, in f64.

use gausset_compute::{Exec, Pool};
use gausset_core::engine::{OcclusionQuery, RenderOptions};
use gausset_raster::in_front::weight_in_front;
use gausset_raster::layout::Blocks;
use gausset_raster::pipeline::Pipeline;
use gausset_raster::tile::BlendInput;
use gausset_raster::view::KernelView;
use gausset_reference::blend::contributions;
use gausset_reference::project::project;
use gausset_reference::scene::Scene;
use gausset_reference::tile::{depth_order, pixel_centre};
use gausset_testkit::RandomScene;
use gausset_testkit::scene::TestScene;

const OPTIONS: RenderOptions = RenderOptions {
    sh_degree: 0,
    background: [0.0; 3],
    antialiased: false,
    max_splats_per_tile: 0,
    near_plane: 0.01,
    sky: false,
    splat_limit: None,
};

fn scene() -> TestScene {
    RandomScene { splats: 600, sh_degree: 0, width: 61, height: 43, ..RandomScene::default() }.build()
}

fn measured(scene: &TestScene, queries: &[OcclusionQuery], threads: usize) -> Vec<f32> {
    let view = KernelView::new(&scene.camera, &scene.pose);
    let (pool, mut pipeline) = (Pool::new(threads), Pipeline::default());
    let splats = Blocks::from_splats(&scene.splats);
    pipeline.lists(Exec::best(&pool), &splats, &view, &OPTIONS).expect("few entries");
    let splats = BlendInput { view: &view, lists: &pipeline.lists, records: &pipeline.projected.records };
    weight_in_front(&pool, splats, queries)
}

#[test]
fn it_is_the_sum_of_the_weights_in_front_at_every_pixel_and_several_depths() {
    let scene = scene();
    let (width, height) = (scene.camera.width, scene.camera.height);
    let pixels = (0..height).flat_map(|row| (0..width).map(move |column| [column, row]));
    // Depths of the scene are 1 to 6.
    let queries: Vec<OcclusionQuery> = pixels
        .flat_map(|pixel| [0.5, 2.0, 3.1, 5.0, 9.0].map(|depth| OcclusionQuery { pixel, depth }))
        .collect();
    let found = measured(&scene, &queries, 2);
    assert_eq!(found, measured(&scene, &queries, 1));

    let reference = Scene::new(&scene.splats, &scene.camera, &scene.pose, &OPTIONS);
    let screen: Vec<_> = (0..scene.splats.len()).map(|i| project(&reference, i)).collect();
    // All splats, no tiles.
    let all = depth_order(&screen);
    let mut off = 0;
    for (query, found) in queries.iter().zip(&found) {
        let [column, row] = query.pixel;
        let (contributions, _) = contributions(&screen, &all, pixel_centre(column, row));
        let depth_of = |splat: u32| screen[splat as usize].as_ref().expect("it is blended").depth;
        let in_front = contributions.iter().filter(|c| depth_of(c.splat) < f64::from(query.depth));
        let expected: f64 = in_front.map(|c| c.alpha.alpha * c.transmittance).sum();
        let error = (f64::from(*found) - expected).abs();
        // As for renders: rounding, except for the few queries where a threshold decides differently.
        assert!(error < 1.5 / 255.0, "{query:?}: {found} {expected}");
        off += usize::from(error > 1e-5);
    }
    assert!(off <= queries.len() / 1000, "{off}");
    // The test would be meaningless if nothing, or everything, were in front.
    let between = found.iter().filter(|w| (0.2..0.8).contains(*w)).count();
    assert!(between > queries.len() / 10, "{between}");
}

#[test]
fn nothing_is_in_front_of_the_camera_outside_the_picture_or_of_a_depth_that_is_no_number() {
    let scene = scene();
    let query = |pixel, depth| OcclusionQuery { pixel, depth };
    let queries = [
        query([10, 10], 0.0),
        query([10, 10], -1.0),
        query([10, 10], f32::NAN),
        query([61, 10], 9.0),
        query([10, 43], 9.0),
        query([u32::MAX, u32::MAX], 9.0),
    ];
    assert_eq!(measured(&scene, &queries, 1), [0.0; 6]);
    let everything = measured(&scene, &[query([30, 20], f32::INFINITY)], 1);
    assert!(everything[0] > 0.2);
}
