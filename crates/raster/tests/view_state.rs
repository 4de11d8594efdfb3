//! A view as stages with gradients draws what the pipeline of training draws, and has its gradients.

use std::sync::Arc;

use gausset_compute::{Exec, Pool};
use gausset_core::engine::{Outputs, RenderOptions};
use gausset_core::sh;
use gausset_raster::blend_vjp::{AbsoluteSums, PlanarImage, Upstream};
use gausset_raster::layout::Blocks;
use gausset_raster::pipeline::{ListCapacity, Pipeline};
use gausset_raster::view::KernelView;
use gausset_raster::view_state::{BlendOptions, ImageGradients, ViewState};
use gausset_testkit::RandomScene;

const BACKGROUND: [f32; 3] = [0.2, 0.5, 0.8];
/// Red, green, blue, and red again in a second group of three.
const CHANNELS: usize = 4;

/// Largest difference over largest value.
fn relative(found: impl Iterator<Item = f32>, expected: impl Iterator<Item = f32>) -> f32 {
    let (mut off, mut largest) = (0.0f32, 0.0f32);
    for (found, expected) in found.zip(expected) {
        off = off.max((found - expected).abs());
        largest = largest.max(expected.abs());
    }
    off / largest
}

#[test]
fn activated_splats_in_channels_are_the_picture_and_the_gradients_of_training() {
    let scene = RandomScene { splats: 300, sh_degree: 0, width: 61, height: 43, ..RandomScene::default() };
    let scene = scene.build();
    let splats = &scene.splats;
    let (pool, view) = (Pool::new(2), KernelView::new(&scene.camera, &scene.pose));
    let exec = Exec::best(&pool);
    let (width, height) = (scene.camera.width as usize, scene.camera.height as usize);
    let weight = |pixel: usize, k: usize| ((pixel * 7 + k * 3) % 11) as f32 / 11.0 - 0.4;
    for antialiased in [false, true] {
        let options =
            RenderOptions { sh_degree: 0, background: BACKGROUND, antialiased, ..RenderOptions::default() };
        let blocks = Blocks::from_splats(splats);
        let mut pipeline = Pipeline::default();
        pipeline.forward(exec, &blocks, &view, &options, Outputs::All).expect("few entries");
        let expected = pipeline.rendering(&view);
        let stride = width.next_multiple_of(16);
        let mut lines = vec![0.0; 3 * stride * height.next_multiple_of(16)];
        for y in 0..height {
            for (x, k) in (0..width).flat_map(|x| (0..3).map(move |k| (x, k))) {
                lines[(3 * y + k) * stride + x] = weight(y * width + x, k);
            }
        }
        let color = PlanarImage { data: &lines, stride, row_len: 3 * stride };
        pipeline.backward(exec, &view, Upstream { color, alpha_depth: None }, AbsoluteSums::Off);
        let of_training = pipeline.gradients(exec, &blocks, &view, &options).parameters.to_splats();

        let scales: Vec<[f32; 3]> = splats.log_scales.iter().map(|s| s.map(libm::expf)).collect();
        let logistic = |&x: &f32| 1.0 / (1.0 + libm::expf(-x));
        let opacities: Vec<f32> = splats.opacity_logits.iter().map(logistic).collect();
        let raw: Vec<[f32; 3]> =
            splats.sh.chunks_exact(3).map(|dc| [0, 1, 2].map(|k| sh::C0 as f32 * dc[k] + 0.5)).collect();
        let colors: Vec<f32> =
            raw.iter().flat_map(|c| [c[0], c[1], c[2], c[0]].map(|v| v.max(0.0))).collect();
        let activated =
            Arc::new(Blocks::from_activated(&splats.means, &splats.quats, &scales, &opacities, &pool));
        let (mut state, _) = ViewState::project(exec, activated, &view, antialiased, 0.0);
        let background = [BACKGROUND[0], BACKGROUND[1], BACKGROUND[2], BACKGROUND[0]];
        let blend = BlendOptions {
            channels: CHANNELS,
            background: &background,
            with_depth: true,
            list_capacity: ListCapacity::UNLIMITED,
        };
        let images = state.blend(exec, &colors, &blend).expect("few entries");
        let pixels = || images.color.chunks_exact(CHANNELS);
        assert!(pixels().all(|pixel| pixel[3] == pixel[0]));
        let found = pixels().flat_map(|pixel| pixel[..3].iter().copied());
        assert!(relative(found, expected.color.iter().copied()) < 1e-4);
        assert!(relative(images.alpha.iter().copied(), expected.alpha.iter().copied()) < 1e-4);
        assert!(relative(images.depth.iter().copied(), expected.depth.iter().copied()) < 1e-4);

        let upstream: Vec<f32> = (0..width * height)
            .flat_map(|pixel| [0, 1, 2, 3].map(|k| if k < 3 { weight(pixel, k) } else { 0.0 }))
            .collect();
        let upstream = ImageGradients { color: Some(&upstream), ..ImageGradients::default() };
        let of_blend = state.blend_vjp(exec, &colors, CHANNELS, &upstream, AbsoluteSums::Off);
        let of_colors =
            of_blend.color.chunks_exact(CHANNELS).zip(&raw).flat_map(|(g, raw)| {
                [0, 1, 2].map(|k| if raw[k] > 0.0 { sh::C0 as f32 * g[k] } else { 0.0 })
            });
        assert!(relative(of_colors, of_training.sh.iter().copied()) < 1e-4);
        let found = state.project_vjp(exec, of_blend.screen).parameters.to_splats();
        let flat = |rows: &[[f32; 3]]| rows.iter().flatten().copied().collect::<Vec<f32>>().into_iter();
        assert!(relative(flat(&found.means), flat(&of_training.means)) < 1e-4);
        let chain = found.log_scales.iter().zip(&scales).flat_map(|(g, s)| [0, 1, 2].map(|k| g[k] * s[k]));
        assert!(relative(chain, flat(&of_training.log_scales)) < 1e-4);
        let chain = found.opacity_logits.iter().zip(&opacities).map(|(g, o)| g * o * (1.0 - o));
        assert!(relative(chain, of_training.opacity_logits.iter().copied()) < 1e-4);
        let quats = |rows: &[[f32; 4]]| rows.iter().flatten().copied().collect::<Vec<f32>>().into_iter();
        assert!(relative(quats(&found.quats), quats(&of_training.quats)) < 1e-4);
    }
}
