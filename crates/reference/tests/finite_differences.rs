//! The gradients of the f64 reference compared with central differences.
//!
//! A render is a smooth function of its parameters as long as no decision changes: which splats a pixel blends, which
//! alphas, Jacobians and colours are clamped, which splats a cap removes. So every difference is taken between two
//! scenes with the same decisions; the step is reduced until they agree. Parameters for which it cannot be reduced far
//! enough are counted, and their number is bounded.
#![allow(clippy::print_stdout, reason = "measured errors, shown with --nocapture")]

use gausset_core::{Camera, Pose, se3};
use gausset_reference::{
    self, Gradients, Rendering, Scene, ScreenSplat, Upstream, blend::blend, blend::contributions, loss::loss,
    project::linearise, project_vjp::covariance_vjp, render, sky::background_colour, tile::pixel_centre, vjp,
};
use gausset_testkit::RandomScene;
use gausset_testkit::scene::Random;

/// Central differences with step h are off by h² f'''/6 and by about 1e-16 f/h: with h = 1e-5 near 1e-10 for a smooth loss
/// of size 1. Losses here reach 100, third derivatives of splats smaller than a pixel 1000: most kinds agree to 1e-9,
/// the worst to 3e-8.
const RELATIVE_TOLERANCE: f64 = 1e-7;
const STEPS: [f64; 3] = [1e-5, 1e-6, 1e-7];

#[derive(Clone, Copy, Debug)]
enum Parameter {
    Mean(usize, usize),
    LogScale(usize, usize),
    Quat(usize, usize),
    OpacityLogit(usize),
    Sh(usize),
    Background(usize),
    Sky(usize, usize),
    Rotation(usize, usize),
    Translation(usize),
    Twist(usize),
}

impl Parameter {
    /// Every parameter of a scene, by kind.
    fn by_kind(scene: &Scene) -> Vec<(&'static str, Vec<Self>)> {
        let n = scene.splats.len();
        let each = |width: usize, make: fn(usize, usize) -> Self| -> Vec<Self> {
            (0..n).flat_map(|i| (0..width).map(move |k| make(i, k))).collect()
        };
        let sky = (0..27).map(|k| Self::Sky(k / 3, k % 3)).collect();
        let mut kinds = vec![
            ("means", each(3, Self::Mean)),
            ("log scales", each(3, Self::LogScale)),
            ("quaternions", each(4, Self::Quat)),
            ("opacity logits", (0..n).map(Self::OpacityLogit).collect()),
            ("SH", (0..scene.splats.sh.len()).map(Self::Sh).collect()),
            ("background", (0..3).map(Self::Background).collect()),
        ];
        if scene.sky.is_some() {
            // The derivative of the sky with respect to the pose is left out.
            kinds.push(("sky", sky));
            return kinds;
        }
        kinds.extend([
            ("rotation", (0..9).map(|k| Self::Rotation(k / 3, k % 3)).collect()),
            ("translation", (0..3).map(Self::Translation).collect()),
            ("twist", (0..6).map(Self::Twist).collect()),
        ]);
        kinds
    }

    fn moved(self, scene: &Scene, by: f64) -> Scene {
        let mut moved = scene.clone();
        match self {
            Self::Mean(i, k) => moved.splats.means[i][k] += by,
            Self::LogScale(i, k) => moved.splats.log_scales[i][k] += by,
            Self::Quat(i, k) => moved.splats.quats[i][k] += by,
            Self::OpacityLogit(i) => moved.splats.opacity_logits[i] += by,
            Self::Sh(k) => moved.splats.sh[k] += by,
            Self::Background(channel) => moved.background[channel] += by,
            Self::Sky(k, channel) => {
                moved.sky.iter_mut().for_each(|sky| sky[k][channel] += by);
            }
            Self::Rotation(i, j) => moved.pose.rotation[i][j] += by,
            Self::Translation(i) => moved.pose.translation[i] += by,
            Self::Twist(k) => {
                let mut twist = [0.0; 6];
                twist[k] = by;
                moved.pose = se3::exp(twist).compose(&scene.pose);
            }
        }
        moved
    }

    fn of(self, gradients: &Gradients, pose: &Pose) -> f64 {
        match self {
            Self::Mean(i, k) => gradients.splats.means[i][k],
            Self::LogScale(i, k) => gradients.splats.log_scales[i][k],
            Self::Quat(i, k) => gradients.splats.quats[i][k],
            Self::OpacityLogit(i) => gradients.splats.opacity_logits[i],
            Self::Sh(k) => gradients.splats.sh[k],
            Self::Background(channel) => gradients.background[channel],
            Self::Sky(k, channel) => gradients.sky[k][channel],
            Self::Rotation(i, j) => gradients.pose.rotation[i][j],
            Self::Translation(i) => gradients.pose.translation[i],
            Self::Twist(k) => gradients.pose.twist(pose)[k],
        }
    }
}

/// All decisions of a render: per pixel the blended splats, whether their alpha is clamped and where the sky is black;
/// per splat whether it is visible, its clamped Jacobian entries and its clamped channels.
fn decisions(scene: &Scene, rendering: &Rendering) -> Vec<u64> {
    let mut decisions = Vec::new();
    for row in 0..rendering.height {
        for column in 0..rendering.width {
            let list = rendering.tiles.list_at_pixel(column, row);
            let (contributions, _) = contributions(&rendering.screen, list, pixel_centre(column, row));
            decisions.push(contributions.len() as u64);
            decisions
                .extend(contributions.iter().map(|c| 2 * u64::from(c.splat) + u64::from(c.alpha.clamped)));
            let behind = background_colour(scene, column, row);
            decisions.extend((0..3).map(|channel| u64::from(behind[channel] > scene.background[channel])));
        }
    }
    for splat in &rendering.screen {
        decisions.push(splat.map_or(0, |splat| {
            let clamped = linearise(&scene.camera, &scene.pose, splat.mean_in_camera).clamped;
            let flags = clamped.into_iter().chain(splat.color.map(|channel| channel > 0.0));
            flags.fold(1, |bits, flag| 2 * bits + u64::from(flag))
        }));
    }
    decisions
}

/// A loss of all outputs, with random weights.
fn random_upstream(scene: &Scene, seed: u64) -> Upstream {
    let mut random = Random::new(seed);
    let mut upstream = Upstream::zeros(&scene.camera);
    for weights in [&mut upstream.color, &mut upstream.alpha, &mut upstream.depth] {
        weights.iter_mut().for_each(|w| *w = random.uniform(-1.0, 1.0));
    }
    upstream
}

fn linear_loss(upstream: &Upstream, rendering: &Rendering) -> f64 {
    let dot = |w: &[f64], x: &[f64]| w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    dot(&upstream.color, &rendering.color)
        + dot(&upstream.alpha, &rendering.alpha)
        + dot(&upstream.depth, &rendering.depth)
}

/// `(f(+h) - f(-h)) / 2h` with the largest step at which both sides have the same decisions as the centre; `None` on an
/// edge.
fn difference(at: impl Fn(f64) -> (f64, Vec<u64>), decided: &[u64]) -> Option<f64> {
    STEPS.into_iter().find_map(|h| {
        let ((above, a), (below, b)) = (at(h), at(-h));
        (a == decided && b == decided).then(|| (above - below) / (2.0 * h))
    })
}

/// Compares pairs (analytic, numeric; `None` on an edge) by their relative L2 error.
fn assert_agree(what: &str, pairs: &[(f64, Option<f64>)]) {
    let known: Vec<(f64, f64)> = pairs.iter().filter_map(|&(a, n)| Some((a, n?))).collect();
    let on_edges = pairs.len() - known.len();
    assert!(on_edges * 50 <= pairs.len(), "{what}: {on_edges} of {} parameters sit on an edge", pairs.len());
    let norm = |f: fn(&(f64, f64)) -> f64| known.iter().map(|p| f(p).powi(2)).sum::<f64>().sqrt();
    let (error, size) = (norm(|(a, n)| a - n), norm(|(a, _)| *a));
    assert!(size > 1e-3, "{what}: the gradient is {size}: nothing was tested");
    println!("{what}: relative L2 error {:.1e}, {on_edges} of {} on an edge", error / size, pairs.len());
    assert!(error <= RELATIVE_TOLERANCE * size, "{what}: relative L2 error {:.2e}", error / size);
}

/// Every parameter of a scene, for a loss with gradient `upstream(rendering)`.
fn check(name: &str, scene: &Scene, evaluate: &dyn Fn(&Rendering) -> (f64, Upstream)) {
    let rendering = render(scene);
    let (_, upstream) = evaluate(&rendering);
    let gradients = vjp(scene, &rendering, &upstream);
    let decided = decisions(scene, &rendering);
    for (kind, parameters) in Parameter::by_kind(scene) {
        let pairs: Vec<(f64, Option<f64>)> = parameters
            .into_iter()
            .map(|parameter| {
                let at = |by: f64| {
                    let moved = parameter.moved(scene, by);
                    let rendering = render(&moved);
                    (evaluate(&rendering).0, decisions(&moved, &rendering))
                };
                (parameter.of(&gradients, &scene.pose), difference(at, &decided))
            })
            .collect();
        assert_agree(&format!("{name}: {kind}"), &pairs);
    }
}

fn check_linear(name: &str, scene: &Scene) {
    let upstream = random_upstream(scene, 7);
    check(name, scene, &|rendering| (linear_loss(&upstream, rendering), upstream.clone()));
}

fn scene_of(recipe: RandomScene, antialiased: bool) -> Scene {
    let made = recipe.build();
    let options = gausset_core::engine::RenderOptions {
        sh_degree: recipe.sh_degree,
        background: [0.2, 0.7, 1.1],
        antialiased,
        max_splats_per_tile: 0,
        ..Default::default()
    };
    Scene::new(&made.splats, &made.camera, &made.pose, &options)
}

const SMALL: RandomScene = RandomScene {
    seed: 1,
    splats: 10,
    sh_degree: 1,
    width: 21,
    height: 14,
    depth: [1.0, 4.0],
    margin: 0.1,
    size_in_px: [0.8, 4.0],
    opacity_logit: [-2.0, 3.0],
};

#[test]
fn classic_gradients_are_the_slopes_of_every_parameter_kind() {
    for seed in 1..=3 {
        check_linear("classic", &scene_of(RandomScene { seed, ..SMALL }, false));
    }
}

#[test]
fn antialiased_gradients_are_the_slopes_of_every_parameter_kind() {
    for seed in 1..=3 {
        // Down to a fifth of a pixel, where compensation has an effect.
        let recipe = RandomScene { seed, size_in_px: [0.2, 3.0], opacity_logit: [0.0, 4.0], ..SMALL };
        check_linear("antialiased", &scene_of(recipe, true));
    }
}

#[test]
fn gradients_of_sh_degree_3_are_slopes() {
    check_linear("degree 3", &scene_of(RandomScene { seed: 5, splats: 6, sh_degree: 3, ..SMALL }, false));
}

#[test]
fn gradients_are_slopes_of_the_sky_and_of_splats_with_a_sky_behind_them() {
    for seed in 1..=3 {
        let mut random = Random::new(40 + seed);
        // Bright in one direction and dark in another, so that some channels are partly black.
        let sky = [[0; 3]; 9].map(|row| row.map(|_| random.uniform(-0.9, 0.9)));
        let scene = Scene { sky: Some(sky), ..scene_of(RandomScene { seed, ..SMALL }, false) };
        let pixels = (0..scene.camera.height).flat_map(|y| (0..scene.camera.width).map(move |x| (x, y)));
        let red: Vec<f64> = pixels.map(|(x, y)| background_colour(&scene, x, y)[0]).collect();
        let (least, most) = red.iter().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
        assert!(most > least + 0.1, "the sky varies: {least} to {most}");
        check_linear("sky", &scene);
    }
}

#[test]
fn gradients_are_slopes_where_the_jacobian_is_clamped() {
    // Means up to one and a half image sizes outside, with splats large enough to reach in.
    let recipe = RandomScene { seed: 9, margin: 0.8, size_in_px: [6.0, 20.0], ..SMALL };
    let scene = scene_of(recipe, false);
    let is_clamped =
        |splat: &ScreenSplat| linearise(&scene.camera, &scene.pose, splat.mean_in_camera).clamped;
    let clamped = render(&scene).screen.iter().flatten().filter(|s| is_clamped(s).contains(&true)).count();
    assert!(clamped >= 3, "{clamped} splats are clamped");
    check_linear("clamped", &scene);
}

#[test]
fn gradients_are_slopes_where_pixels_stop_early_and_alphas_are_clamped() {
    let recipe =
        RandomScene { seed: 4, splats: 25, size_in_px: [3.0, 9.0], opacity_logit: [3.0, 7.0], ..SMALL };
    let scene = Scene { sh_degree: 0, ..scene_of(recipe, false) };
    let rendering = render(&scene);
    let stopped = rendering.alpha.iter().filter(|&&alpha| alpha > 0.9998).count();
    assert!(stopped > 50, "{stopped} pixels are nearly opaque");
    check_linear("opaque", &scene);
}

#[test]
fn gradients_are_slopes_under_a_cap() {
    let recipe = RandomScene { seed: 6, size_in_px: [2.0, 5.0], ..SMALL };
    let scene = Scene { max_splats_per_tile: 3, ..scene_of(recipe, false) };
    assert!(render(&scene).tiles.capped_tiles > 0, "the cap cuts a list");
    check_linear("capped", &scene);
}

/// Splats all around a panorama, some at its seam and at its poles.
fn panorama_of(seed: u64, splats: usize, size_in_px: [f64; 2]) -> Scene {
    let mut scene =
        scene_of(RandomScene { seed, splats, size_in_px, width: 40, ..SMALL }, seed.is_multiple_of(2));
    scene.camera = Camera::panorama(48, 24).unwrap();
    let (world_from_camera, mut random) = (scene.pose.inverse(), Random::new(seed));
    for (i, mean) in scene.splats.means.iter_mut().enumerate() {
        let n = random.uniform(1.0, 4.0);
        let pixel = match i % 4 {
            0 => [random.uniform(-1.5, 1.5), random.uniform(4.0, 20.0)],
            1 => [random.uniform(0.0, 48.0), [1.2, 23.0][i / 4 % 2]],
            _ => [random.uniform(0.0, 48.0), random.uniform(3.0, 21.0)],
        };
        *mean = world_from_camera.apply(scene.camera.ray(pixel).map(|v| n * v));
        let size = random.uniform(size_in_px[0], size_in_px[1]) * n / scene.camera.fx;
        scene.splats.log_scales[i] = [0; 3].map(|_| libm::log(size * random.uniform(0.5, 1.5)));
    }
    scene
}

#[test]
fn gradients_of_a_panorama_are_slopes_of_every_parameter_kind() {
    for seed in 1..=4 {
        let scene = panorama_of(seed, 12, [0.8, 2.0]);
        // A splat at the seam is visible on both sides.
        let rendering = render(&scene);
        let sees = |column: u32, splat: u32| {
            (0..24).any(|row| {
                let list = rendering.tiles.list_at_pixel(column, row);
                let (seen, _) = contributions(&rendering.screen, list, pixel_centre(column, row));
                seen.iter().any(|c| c.splat == splat)
            })
        };
        assert!((0..12).any(|splat| sees(0, splat) && sees(47, splat)), "seed {seed}");
        check_linear("panorama", &scene);
    }
}

#[test]
fn the_sky_of_a_panorama_has_slopes() {
    let sky = [[0; 3]; 9].map(|_| [0.3, -0.2, 0.5]);
    check_linear("panorama with a sky", &Scene { sky: Some(sky), ..panorama_of(5, 8, [0.8, 2.0]) });
}

#[test]
fn jacobians_of_a_panorama_are_slopes_up_to_the_poles() {
    let camera = Camera::panorama(2048, 1024).unwrap();
    let at = |p| linearise(&camera, &Pose::IDENTITY, p);
    for p in [[0.7, -0.4, 1.3], [-0.2, 2.0, -0.1], [1e-2, -1.0, 2e-3], [-3.0, 0.1, -1.0]] {
        for axis in 0..3 {
            let moved = |by: f64| {
                let mut q: [f64; 3] = p;
                q[axis] += by;
                camera.project(q)
            };
            let h = 1e-4 * libm::hypot(p[0], p[2]);
            let (above, below) = (moved(h), moved(-h));
            for k in 0..2 {
                let slope = (above[k] - below[k]) / (2.0 * h);
                let row = at(p).jacobian[k];
                let tolerance = 1e-7 * se3::norm(row);
                assert!((row[axis] - slope).abs() < tolerance, "{p:?}: {} {slope}", row[axis]);
            }
        }
    }
    assert!(!at([1.1e-3, -1.0, 0.0]).clamped[0]);
    let held = at([0.0, -1.0, 0.0]);
    assert!(held.clamped[0] && held.jacobian.as_flattened().iter().all(|v| v.is_finite()));
}

#[test]
fn a_panorama_has_the_known_pixel_and_jacobian() {
    // Independent values, computed with NumPy in f64.
    let camera = Camera::panorama(2048, 1024).unwrap();
    let p = [0.7, -0.4, 1.3];
    let [u, v] = camera.project(p);
    assert!((u - 1_184.999_86).abs() < 5e-6 && (v - 425.765_639).abs() < 5e-7, "{u} {v}");
    let wanted = [[194.373_45, 0.0, -104.662_627], [26.415_814_8, 205.665_987, 49.057_941_8]];
    let found = linearise(&camera, &Pose::IDENTITY, p).jacobian;
    for (found, wanted) in found.as_flattened().iter().zip(wanted.as_flattened()) {
        assert!((found - wanted).abs() < 5e-7 * (1.0 + wanted.abs()), "{found} {wanted}");
    }
}

#[test]
fn gradients_of_the_training_loss_are_slopes() {
    let scene = scene_of(RandomScene { seed: 8, ..SMALL }, true);
    let (width, height) = (scene.camera.width as usize, scene.camera.height as usize);
    let mut random = Random::new(3);
    let target: Vec<f64> = (0..3 * scene.camera.pixels()).map(|_| random.uniform(0.0, 1.0)).collect();
    // |x - y| has an edge at 0; scaled up, so that the gradient is not too small for the assertion.
    check("training loss", &scene, &|rendering| {
        let loss = loss(&rendering.color, &target, width, height, 0.2);
        let color = loss.gradient.iter().map(|g| 100.0 * g).collect();
        (100.0 * loss.loss, Upstream { color, ..Upstream::zeros(&scene.camera) })
    });
}

#[test]
fn gradients_of_screen_splats_are_slopes() {
    let scene = scene_of(RandomScene { seed: 2, ..SMALL }, false);
    let rendering = render(&scene);
    let upstream = random_upstream(&scene, 11);
    let gradients = vjp(&scene, &rendering, &upstream);
    let decided = decisions(&scene, &rendering);
    type Move = fn(&mut ScreenSplat, f64);
    type Analytic = fn(&gausset_reference::ScreenGradient) -> f64;
    let quantities: [(&str, Move, Analytic); 8] = [
        ("mean2d x", |s, by| s.mean2d[0] += by, |g| g.mean2d[0]),
        ("mean2d y", |s, by| s.mean2d[1] += by, |g| g.mean2d[1]),
        ("conic A", |s, by| s.conic[0] += by, |g| g.conic[0]),
        ("conic B", |s, by| s.conic[1] += by, |g| g.conic[1]),
        ("conic C", |s, by| s.conic[2] += by, |g| g.conic[2]),
        ("depth", |s, by| s.depth += by, |g| g.depth),
        ("opacity", |s, by| s.opacity += by, |g| g.opacity),
        ("green", |s, by| s.color[1] += by, |g| g.color[1]),
    ];
    for (name, move_by, analytic) in quantities {
        let pairs: Vec<(f64, Option<f64>)> = (0..scene.splats.len())
            .map(|index| {
                let at = |by: f64| {
                    let mut screen = rendering.screen.clone();
                    screen[index].iter_mut().for_each(|splat| move_by(splat, by));
                    let moved = blend(&scene, screen);
                    (linear_loss(&upstream, &moved), decisions(&scene, &moved))
                };
                (analytic(&gradients.screen[index]), difference(at, &decided))
            })
            .collect();
        assert_agree(name, &pairs);
    }
}

#[test]
fn the_absolute_statistic_adds_what_each_pixel_alone_would_give() {
    let scene = scene_of(RandomScene { seed: 12, ..SMALL }, true);
    let rendering = render(&scene);
    let upstream = random_upstream(&scene, 13);
    let gradients = vjp(&scene, &rendering, &upstream);
    let mut expected = vec![[0.0f64; 2]; scene.splats.len()];
    for pixel in 0..scene.camera.pixels() {
        let mut alone = Upstream::zeros(&scene.camera);
        alone.color[3 * pixel..3 * pixel + 3].copy_from_slice(&upstream.color[3 * pixel..3 * pixel + 3]);
        alone.alpha[pixel] = upstream.alpha[pixel];
        alone.depth[pixel] = upstream.depth[pixel];
        for (sum, gradient) in expected.iter_mut().zip(vjp(&scene, &rendering, &alone).screen) {
            for axis in 0..2 {
                sum[axis] += gradient.mean2d[axis].abs();
            }
        }
    }
    for (gradient, expected) in gradients.screen.iter().zip(expected) {
        for axis in 0..2 {
            // The same terms in the same order: equal except for additions of zero.
            assert!((gradient.mean2d_abs[axis] - expected[axis]).abs() <= 1e-14 * expected[axis]);
            assert!(gradient.mean2d_abs[axis] >= gradient.mean2d[axis].abs());
        }
    }
}

#[test]
fn covariance_gradients_are_slopes_for_quaternions_of_any_length() {
    let mut random = Random::new(21);
    for length in [1e-3, 0.1, 1.0, 30.0, 1e3] {
        let quat = random.rotation().map(|v| v * length);
        let log_scales = [0; 3].map(|_| random.uniform(-1.5, 0.5));
        let weights = [[0; 3]; 3].map(|row| row.map(|_| random.uniform(-1.0, 1.0)));
        let loss = |quat, log_scales| {
            let sigma = gausset_reference::project::covariance(quat, log_scales).sigma;
            (0..3).map(|i| se3::dot(weights[i], sigma[i])).sum::<f64>()
        };
        let (d_quat, d_log_scales) = covariance_vjp(quat, log_scales, &weights);
        let pairs: Vec<(f64, Option<f64>)> = (0..7)
            .map(|k| {
                // Steps relative to the length; gradients scaled back, so that both kinds have equal weight.
                let (h, scale) = if k < 4 { (1e-5 * length, length) } else { (1e-5, 1.0) };
                let at = |by: f64| {
                    let (mut quat, mut log_scales) = (quat, log_scales);
                    if k < 4 {
                        quat[k] += by
                    } else {
                        log_scales[k - 4] += by
                    }
                    loss(quat, log_scales)
                };
                let analytic = if k < 4 { d_quat[k] } else { d_log_scales[k - 4] };
                (analytic * scale, Some((at(h) - at(-h)) / (2.0 * h) * scale))
            })
            .collect();
        assert_agree(&format!("length {length}"), &pairs);
    }
}

#[test]
fn the_gradient_of_ssim_is_its_slope_at_every_pixel() {
    // Smaller than the window in one direction.
    let (width, height) = (13, 6);
    let mut random = Random::new(31);
    let mut picture = || (0..3 * width * height).map(|_| random.uniform(0.0, 1.0)).collect::<Vec<f64>>();
    let (x, y) = (picture(), picture());
    let analytic = loss(&x, &y, width, height, 0.2);
    let at = |i: usize, by: f64| {
        let mut moved = x.clone();
        moved[i] += by;
        loss(&moved, &y, width, height, 0.2)
    };
    let h = 1e-5;
    let slope =
        |i: usize, f: fn(&gausset_reference::loss::Loss) -> f64| (f(&at(i, h)) - f(&at(i, -h))) / (2.0 * h);
    for (name, gradient, value) in [
        ("ssim", &analytic.ssim_gradient, (|l| l.ssim) as fn(&gausset_reference::loss::Loss) -> f64),
        ("loss", &analytic.gradient, |l| l.loss),
    ] {
        let pairs: Vec<(f64, Option<f64>)> =
            gradient.iter().enumerate().map(|(i, &g)| (g, Some(slope(i, value)))).collect();
        assert_agree(name, &pairs);
    }
}
