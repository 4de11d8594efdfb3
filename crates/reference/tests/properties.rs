//! Properties of every scene, and degenerate scenes: the reference renders and differentiates any input without
//! producing a value that is not finite.

use gausset_core::engine::RenderOptions;
use gausset_core::{Camera, Pose, Splats, se3, sh};
use gausset_reference::{Gradients, Rendering, Scene, SplatsF64, Upstream, render, vjp};
use gausset_testkit::RandomScene;
use gausset_testkit::scene::Random;
use proptest::collection::vec;
use proptest::prelude::*;

fn scene(seed: u64, antialiased: bool, max_splats_per_tile: u32) -> Scene {
    let made = RandomScene { seed, ..RandomScene::default() }.build();
    let options = RenderOptions {
        background: [0.3, 0.6, 0.9],
        antialiased,
        max_splats_per_tile,
        ..RenderOptions::default()
    };
    Scene::new(&made.splats, &made.camera, &made.pose, &options)
}

fn random_upstream(scene: &Scene, seed: u64) -> Upstream {
    let mut random = Random::new(seed);
    let mut upstream = Upstream::zeros(&scene.camera);
    for weights in [&mut upstream.color, &mut upstream.alpha, &mut upstream.depth] {
        weights.iter_mut().for_each(|w| *w = random.uniform(-1.0, 1.0));
    }
    upstream
}

/// The splats of a scene in another order.
fn reordered(scene: &Scene, order: &[usize]) -> Scene {
    let s = &scene.splats;
    let splats = SplatsF64 {
        means: order.iter().map(|&i| s.means[i]).collect(),
        log_scales: order.iter().map(|&i| s.log_scales[i]).collect(),
        quats: order.iter().map(|&i| s.quats[i]).collect(),
        opacity_logits: order.iter().map(|&i| s.opacity_logits[i]).collect(),
        sh: order.iter().flat_map(|&i| s.sh_of(i).as_flattened().to_vec()).collect(),
        sh_stride: s.sh_stride,
    };
    Scene { splats, ..scene.clone() }
}

#[test]
fn splats_of_the_background_colour_are_invisible_in_the_picture() {
    // Weights and remaining transmittance add up to 1 at every pixel.
    let mut scene = scene(1, false, 0);
    scene.sh_degree = 0;
    for i in 0..scene.splats.len() {
        let color = scene.background;
        scene.splats.sh_of_mut(i)[0] = color.map(|c| (c - 0.5) / sh::C0);
    }
    let rendering = render(&scene);
    assert!(rendering.alpha.iter().any(|&a| a > 0.5), "there is something to see");
    for pixel in rendering.color.as_chunks::<3>().0 {
        for channel in 0..3 {
            // Up to fifty terms, each of which is rounded.
            assert!((pixel[channel] - scene.background[channel]).abs() < 1e-14);
        }
    }
}

#[test]
fn the_order_in_which_splats_are_stored_changes_nothing() {
    let scene = scene(2, true, 8);
    let n = scene.splats.len();
    let order: Vec<usize> = (0..n).map(|i| (i * 17 + 5) % n).collect();
    let other = reordered(&scene, &order);
    let (a, b) = (render(&scene), render(&other));
    assert_eq!((&a.color, &a.alpha, &a.depth, &a.count), (&b.color, &b.alpha, &b.depth, &b.count));
    let upstream = random_upstream(&scene, 3);
    let (da, db) = (vjp(&scene, &a, &upstream), vjp(&other, &b, &upstream));
    for (new, &old) in order.iter().enumerate() {
        assert_eq!(db.splats.means[new], da.splats.means[old]);
        assert_eq!(db.splats.quats[new], da.splats.quats[old]);
    }
}

#[test]
fn moving_the_world_and_the_camera_together_changes_nothing_so_the_gradients_cancel() {
    // m -> m + d and t -> t - R d give the same render: sum of dL/dm = Rᵀ dL/dt.
    let scene = scene(4, true, 0);
    let gradients = vjp(&scene, &render(&scene), &random_upstream(&scene, 5));
    let back = se3::transpose_mul_vec(&scene.pose.rotation, gradients.pose.translation);
    for axis in 0..3 {
        let sum: f64 = gradients.splats.means.iter().map(|g| g[axis]).sum();
        let size: f64 = gradients.splats.means.iter().map(|g| g[axis].abs()).sum();
        assert!((sum - back[axis]).abs() <= 1e-12 * size, "{sum} {}", back[axis]);
    }
}

#[test]
fn a_longer_quaternion_is_the_same_rotation_with_a_smaller_gradient() {
    let scene = scene(6, false, 0);
    let mut longer = scene.clone();
    // A power of two, so that nothing is rounded.
    longer.splats.quats.iter_mut().for_each(|q| *q = q.map(|v| 8.0 * v));
    let (a, b) = (render(&scene), render(&longer));
    assert_eq!(a.color, b.color);
    let upstream = random_upstream(&scene, 7);
    let (da, db) = (vjp(&scene, &a, &upstream), vjp(&longer, &b, &upstream));
    for (a, b) in da.splats.quats.iter().zip(&db.splats.quats) {
        assert_eq!(a.map(|v| v / 8.0), *b);
    }
}

#[test]
fn a_cap_above_the_longest_list_changes_nothing_and_a_lower_one_keeps_the_nearest() {
    let whole = render(&scene(8, false, 0));
    let longest = whole.tiles.longest_list as u32;
    let roomy = render(&scene(8, false, longest));
    assert_eq!(roomy, whole);
    let capped = render(&scene(8, false, 4));
    assert!(capped.tiles.capped_tiles > 0 && capped.tiles.longest_list == whole.tiles.longest_list);
    for (capped, whole) in capped.tiles.lists.iter().zip(&whole.tiles.lists) {
        assert_eq!(capped[..], whole[..whole.len().min(4)]);
    }
    assert!(capped.count.iter().all(|&count| count <= 4));
}

#[test]
fn higher_coefficients_than_the_active_degree_have_no_effect_and_no_gradient() {
    let scene = Scene { sh_degree: 1, ..scene(9, false, 0) };
    let mut cut = scene.clone();
    for i in 0..cut.splats.len() {
        cut.splats.sh_of_mut(i)[4..].fill([0.0; 3]);
    }
    let rendering = render(&scene);
    assert_eq!(render(&cut).color, rendering.color);
    let gradients = vjp(&scene, &rendering, &random_upstream(&scene, 10));
    for i in 0..scene.splats.len() {
        assert!(gradients.splats.sh_of(i)[4..].iter().flatten().all(|&g| g == 0.0));
    }
    assert!(gradients.splats.sh.iter().any(|&g| g != 0.0));
}

#[test]
fn a_splat_with_a_parameter_that_is_not_finite_is_not_drawn() {
    let scene = scene(11, true, 0);
    let order: Vec<usize> = (1..scene.splats.len()).collect();
    let expected = render(&reordered(&scene, &order));
    let poisons: [fn(&mut SplatsF64, f64); 5] = [
        |s, v| s.means[0][1] = v,
        |s, v| s.log_scales[0][2] = v,
        |s, v| s.quats[0][3] = v,
        |s, v| s.opacity_logits[0] = v,
        |s, v| s.sh[46] = v,
    ];
    for poison in poisons {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut poisoned = scene.clone();
            poison(&mut poisoned.splats, value);
            let rendering = render(&poisoned);
            assert_eq!((&rendering.color, &rendering.depth), (&expected.color, &expected.depth));
            assert_all_finite(&rendering, &vjp(&poisoned, &rendering, &random_upstream(&poisoned, 12)));
        }
    }
}

#[test]
fn a_splat_behind_the_near_plane_or_below_a_255th_is_not_drawn_and_has_no_gradient() {
    let camera = Camera::new(8, 8, 8.0, 8.0, 4.0, 4.0).unwrap();
    // o = 1/255 at logit -5.537: one just below at the centre of a pixel, one behind, one on the near plane.
    let mut splats = Splats::with_capacity(0, 3);
    for (z, logit) in [(2.0, -5.6), (-1.0, 4.0), (0.009, 4.0)] {
        splats.push([0.0, 0.0, z], [-1.0; 3], [1.0, 0.0, 0.0, 0.0], logit, &[1.0; 3]);
    }
    let options = RenderOptions { sh_degree: 0, ..RenderOptions::default() };
    let scene = Scene::new(&splats, &camera, &Pose::IDENTITY, &options);
    let rendering = render(&scene);
    assert!(rendering.count.iter().all(|&count| count == 0));
    assert_eq!(rendering.screen.iter().filter(|s| s.is_some()).count(), 1, "the faint one is in front");
    let gradients = vjp(&scene, &rendering, &random_upstream(&scene, 1));
    assert_eq!(gradients.splats, SplatsF64::zeros(3, 3));
    assert_eq!(gradients.pose.twist(&scene.pose), [0.0; 6]);
}

#[track_caller]
fn assert_all_finite(rendering: &Rendering, gradients: &Gradients) {
    let finite = |what: &str, values: &[f64]| {
        assert!(values.iter().all(|v| v.is_finite()), "{what} has a value that is not finite");
    };
    finite("colour", &rendering.color);
    finite("depth", &rendering.depth);
    assert!(rendering.alpha.iter().all(|a| (0.0..=1.0).contains(a)), "alpha leaves 0..1");
    finite("d means", gradients.splats.means.as_flattened());
    finite("d log scales", gradients.splats.log_scales.as_flattened());
    finite("d quats", gradients.splats.quats.as_flattened());
    finite("d opacity logits", &gradients.splats.opacity_logits);
    finite("d sh", &gradients.splats.sh);
    finite("d background", &gradients.background);
    finite("d pose", gradients.pose.viewmat().as_flattened());
    for g in &gradients.screen {
        finite("d mean2d", &[g.mean2d, g.mean2d_abs].concat());
    }
}

/// An f32 from a list of extremes, or an ordinary one.
fn hostile() -> impl Strategy<Value = f32> {
    let extremes = [
        0.0,
        -0.0,
        1e-45,
        -1e-40,
        1e-30,
        1e-12,
        0.01,
        -0.01,
        0.010_000_001,
        20.0,
        -20.0,
        88.0,
        -88.0,
        104.0,
        -104.0,
        150.0,
        350.0,
        -350.0,
        700.0,
        1e5,
        -1e5,
        1e19,
        -1e19,
        f32::MAX,
        f32::MIN,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ];
    prop_oneof![
        3 => -3.0f32..3.0,
        2 => 1.0f32..6.0,
        2 => proptest::sample::select(extremes.to_vec()),
        1 => any::<u32>().prop_map(f32::from_bits),
    ]
}

fn hostile_splats() -> impl Strategy<Value = Splats> {
    (0u8..=2, 0usize..8).prop_flat_map(|(sh_degree, n)| {
        (
            vec([hostile(), hostile(), hostile()], n),
            vec([hostile(), hostile(), hostile()], n),
            vec([hostile(), hostile(), hostile(), hostile()], n),
            vec(hostile(), n),
            vec(-2.0f32..2.0, n * 3 * sh::coefficients(sh_degree)),
        )
            .prop_map(move |(means, log_scales, quats, opacity_logits, sh)| Splats {
                sh_degree,
                means,
                log_scales,
                quats,
                opacity_logits,
                sh,
            })
    })
}

/// Visible splats with one hostile parameter kind each: nothing else drops them.
fn half_hostile_splats() -> impl Strategy<Value = Splats> {
    vec(
        (0usize..4, [hostile(), hostile(), hostile(), hostile()], -1.0f32..1.0, -1.0f32..1.0, 0.5f32..5.0),
        1..6,
    )
    .prop_map(|recipes| {
        let mut splats = Splats::with_capacity(0, recipes.len());
        for (kind, values, x, y, z) in recipes {
            let [a, b, c, _] = values;
            splats.push(
                if kind == 0 { [x, y, z + 1e-3 * b.clamp(-100.0, 1e30)] } else { [x, y, z] },
                if kind == 1 { [a, b, c] } else { [x - 2.0, y - 2.0, x + y - 3.0] },
                if kind == 2 { values } else { [1.0, x, y, 0.5] },
                if kind == 3 { a } else { 2.0 * x },
                &[x, y, z],
            );
        }
        splats
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn hostile_scenes_give_finite_pictures_and_gradients(
        splats in prop_oneof![hostile_splats(), half_hostile_splats()],
        (width, height) in (1u32..20, 1u32..20),
        (fx, fy) in (0.5f64..200.0, 0.5f64..200.0),
        (cx, cy) in (-30.0f64..30.0, -30.0f64..30.0),
        antialiased: bool,
        cap in 0u32..4,
    ) {
        let camera = Camera::new(width, height, fx, fy, cx, cy).unwrap();
        let options = RenderOptions {
            sh_degree: 3,
            background: [0.1, 0.5, 2.0],
            antialiased,
            max_splats_per_tile: cap,
            ..RenderOptions::default()
        };
        let scene = Scene::new(&splats, &camera, &Pose::IDENTITY, &options);
        let rendering = render(&scene);
        let gradients = vjp(&scene, &rendering, &random_upstream(&scene, 1));
        assert_all_finite(&rendering, &gradients);
        for (drawn, d_mean) in rendering.contributes.iter().zip(&gradients.splats.means) {
            prop_assert!(*drawn || *d_mean == [0.0; 3], "a splat that is not drawn has a gradient");
        }
    }
}
