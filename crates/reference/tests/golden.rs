//! The reference compared with golden vectors of another implementation (NumPy, f64): a scene of three splats, and the
//! training loss of two small images.
//!
//! The vectors are given for activated parameters (scales, opacities, colours) to nine digits.

use gausset_core::sh::C0;
use gausset_core::{Camera, Pose, se3};
use gausset_reference::{Rendering, Scene, SplatsF64, Upstream, loss, render, vjp};

/// Nine digits are printed; differences of gradients with opposite signs lose one or two.
const TOLERANCE: f64 = 2e-8;

const MEANS: [[f64; 3]; 3] = [[0.2, -0.1, 0.3], [-0.3, 0.15, -0.2], [0.05, 0.25, 0.6]];
const SCALES: [[f64; 3]; 3] = [[0.3, 0.1, 0.05], [0.2, 0.25, 0.1], [0.4, 0.15, 0.3]];
const QUATS: [[f64; 4]; 3] = [[0.7, 0.2, -0.4, 0.5], [1.0, 0.1, 0.0, -0.3], [0.2, -0.5, 0.6, 0.4]];
const OPACITIES: [f64; 3] = [0.8, 0.5, 0.9];
const COLORS: [[f64; 3]; 3] = [[0.9, 0.2, 0.1], [0.1, 0.7, 0.3], [0.2, 0.3, 0.8]];

fn scene() -> Scene {
    let splats = SplatsF64 {
        means: MEANS.to_vec(),
        log_scales: SCALES.map(|s| s.map(f64::ln)).to_vec(),
        quats: QUATS.to_vec(),
        opacity_logits: OPACITIES.map(|o| (o / (1.0 - o)).ln()).to_vec(),
        sh: COLORS.as_flattened().iter().map(|c| (c - 0.5) / C0).collect(),
        sh_stride: 3,
    };
    Scene {
        splats,
        camera: Camera::new(64, 48, 50.0, 52.0, 31.5, 24.25).unwrap(),
        pose: Pose {
            rotation: se3::rotation_from_quaternion([0.9, 0.1, -0.2, 0.3]),
            translation: [0.1, -0.2, 4.0],
        },
        sh_degree: 0,
        background: [0.1, 0.2, 0.3],
        sky: None,
        antialiased: false,
        max_splats_per_tile: 0,
        near_plane: 0.01,
    }
}

#[track_caller]
fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs();
        assert!(error <= TOLERANCE * expected.abs().max(0.1), "found {found}, expected {expected}");
    }
}

#[test]
fn three_splats_land_on_the_screen_where_they_should() {
    let screen = render(&scene()).screen;
    let expected = [
        (
            [0.211578947, -0.268421053, 4.35052632],
            [33.9316477, 21.0416767],
            [4.85457576, -1.95435679, 1.93555243],
        ),
        (
            [-0.146315789, -0.176315789, 3.69789474],
            [29.5216339, 21.7706376],
            [7.47699301, -1.0513636, 10.6504997],
        ),
        (
            [-0.205789474, -0.165789474, 4.57473684],
            [29.2508053, 22.3655085],
            [7.01098888, -5.10788045, 9.80136763],
        ),
    ];
    for (splat, (in_camera, mean2d, [a, b, c])) in screen.iter().zip(expected) {
        let splat = splat.expect("all three are in front");
        assert_close(&splat.mean_in_camera, &in_camera);
        assert_close(&splat.mean2d, &mean2d);
        // The printed covariances include the low-pass variance.
        assert_close(&splat.covariance2d, &[a - 0.3, b, c - 0.3]);
    }
}

#[test]
fn three_splats_make_the_right_picture() {
    let rendering = render(&scene());
    let expected = [
        ((31, 24), [0.132125487, 0.339251709, 0.366268567], 0.585811231),
        ((36, 20), [0.386854789, 0.21009862, 0.230943598], 0.617817751),
        ((25, 28), [0.112386851, 0.226276765, 0.361934253], 0.848351666),
        ((0, 0), [0.1, 0.2, 0.3], 1.0),
        ((40, 30), [0.1, 0.2, 0.3], 1.0),
    ];
    for ((column, row), color, transmittance) in expected {
        let pixel = row * 64 + column;
        assert_close(&rendering.color[3 * pixel..3 * pixel + 3], &color);
        assert_close(&[1.0 - rendering.alpha[pixel]], &[transmittance]);
    }
    let mean = |channel: usize| rendering.color.iter().skip(channel).step_by(3).sum::<f64>() / (64.0 * 48.0);
    assert_close(&[mean(0), mean(1), mean(2)], &[0.103376327, 0.205307988, 0.303416165]);
}

#[test]
fn three_splats_have_the_right_gradients() {
    let scene = scene();
    let rendering = render(&scene);
    let mut upstream = Upstream::zeros(&scene.camera);
    for (i, weight) in upstream.color.iter_mut().enumerate() {
        let (x, y, channel) = (i / 3 % 64, i / 3 / 64, i % 3);
        *weight = (((x + 2 * y + 3 * channel) % 5) as f64 - 2.0) / 10.0;
    }
    let dot = |r: &Rendering| r.color.iter().zip(&upstream.color).map(|(c, w)| c * w).sum::<f64>();
    assert_close(&[dot(&rendering)], &[-0.0329466723]);

    let gradients = vjp(&scene, &rendering, &upstream);
    let means = [
        [-0.616710992, -0.364331838, 0.302891749],
        [-0.00968419603, 0.0276211569, 0.000450763161],
        [0.0454260647, 0.0122586374, -0.0258186609],
    ];
    let scales = [
        [0.0532178993, -0.230366597, -0.154663443],
        [0.0120778784, 0.0181136247, 0.00349574828],
        [0.00229546815, 0.139127001, 0.00774647957],
    ];
    let quats = [
        [0.0719403129, -0.0816649658, 0.0650004322, -0.0160501059],
        [-0.00014268228, -0.00398788952, 0.00382812807, -0.00180490411],
        [0.00662981432, 0.00131239927, 0.00529951711, -0.00962368374],
    ];
    let opacities = [0.00579689275, -0.00948663839, 0.003047584];
    let colors = [
        [-0.00487808685, 0.0276026018, -0.0368933473],
        [-0.00128891876, 0.00166860436, 0.000224365254],
        [-0.00752766721, 0.000600071277, 0.00687117038],
    ];
    let mean2d =
        [[-0.0280077722, -0.0585159171], [-0.00174390654, 0.00123089789], [0.00304043351, 0.00365569642]];
    for i in 0..3 {
        assert_close(&gradients.splats.means[i], &means[i]);
        assert_close(&gradients.splats.quats[i], &quats[i]);
        assert_close(&gradients.screen[i].mean2d, &mean2d[i]);
        assert_close(&gradients.screen[i].color, &colors[i]);
        // From raw parameters to activated ones: d log s = ds / s, d logit = do / (o (1 - o)).
        let d_scale: Vec<f64> = (0..3).map(|k| gradients.splats.log_scales[i][k] / SCALES[i][k]).collect();
        assert_close(&d_scale, &scales[i]);
        let slope = OPACITIES[i] * (1.0 - OPACITIES[i]);
        assert_close(&[gradients.splats.opacity_logits[i] / slope], &opacities[i..=i]);
    }
}

#[test]
fn the_loss_of_two_small_pictures_is_right() {
    let picture = |f: fn(usize, usize) -> f64| -> Vec<f64> {
        // One channel, three times: means over channels do not change.
        (0..12 * 12 * 3).map(|i| f(i / 36, i / 3 % 12)).collect()
    };
    let x = picture(|row, column| ((3 * row + 5 * column) % 17) as f64 / 17.0);
    let y = picture(|row, column| ((7 * row + 2 * column) % 13) as f64 / 13.0);
    let found = loss::loss(&x, &y, 12, 12, 0.2);
    assert_close(&[found.l1, found.ssim, found.loss], &[0.315956511, 0.303583168, 0.392048575]);
    let at = |row: usize, column: usize| 3 * (12 * row + column);
    assert_close(&[found.ssim_map[at(0, 0)], found.ssim_map[at(5, 6)]], &[0.757414711, -0.0457647128]);
    // Each of the three channels has a third of the gradient.
    let gradient = |row, column| 3.0 * found.gradient[at(row, column)];
    assert_close(
        &[gradient(0, 1), gradient(5, 6), gradient(11, 4)],
        &[0.00680072277, 0.00299520843, -0.00759804462],
    );
    let taps = [0.00102838008, 0.00759875814, 0.0360007721, 0.10936069, 0.213005538, 0.266011725];
    assert_close(&loss::taps()[..6], &taps);
}
