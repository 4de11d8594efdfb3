//! The training loss: `0.8 L1 + 0.2 (1 - SSIM)` (README, section 7).
//!
//! ```text
//! g[k] ∝ exp(-(k-5)² / (2·1.5²)), k = 0..10, sum 1;   K = correlation with g gᵀ, zero padding, not renormalised
//! mu_x = K x,  v_x = K x² - mu_x²,  v_xy = K xy - mu_x mu_y
//! S = A1 A2 / (B1 B2),   A1 = 2 mu_x mu_y + C1,  A2 = 2 v_xy + C2,
//!                        B1 = mu_x² + mu_y² + C1,  B2 = v_x + v_y + C2
//! ```
//!
//! Gradient of the mean of S, by the chain rule through mu_x, K x² and K xy: `D1 = dS/dmu_x` with the squares fixed,
//! `D2 = dS/d(K x²)`, `D3 = dS/d(K xy)`; K is its own transpose, so `dx = K(γ D1) + 2x K(γ D2) + y K(γ D3)` with γ = 1
//! / (number of values).

use gausset_core::constants::{SSIM_C1, SSIM_C2, SSIM_SIGMA, SSIM_TAPS};

/// Loss of a pair of images, and its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// `(1 - w) L1 + w (1 - SSIM)`.
    pub loss: f64,
    /// Mean absolute difference.
    pub l1: f64,
    /// Mean squared difference.
    pub mse: f64,
    /// Mean of `ssim_map`.
    pub ssim: f64,
    /// `[H, W, 3]`.
    pub ssim_map: Vec<f64>,
    /// d ssim / dx, `[H, W, 3]`.
    pub ssim_gradient: Vec<f64>,
    /// d loss / dx, `[H, W, 3]`.
    pub gradient: Vec<f64>,
}

/// Loss of a render `x` against a target `y`, both `[H, W, 3]`; not clamped. sign(0) = 0 in the gradient of L1.
///
/// # Panics
/// If the buffers do not have `height · width · 3` values.
#[must_use]
pub fn loss(x: &[f64], y: &[f64], width: usize, height: usize, dssim_weight: f64) -> Loss {
    assert!(x.len() == 3 * width * height && y.len() == x.len(), "pictures of {width}x{height} px");
    let count = x.len() as f64;
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / count;
    let l1 = mean(&mut x.iter().zip(y).map(|(x, y)| (x - y).abs()));
    let mse = mean(&mut x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)));
    let (ssim_map, ssim_gradient) = ssim(x, y, width, height);
    let ssim = mean(&mut ssim_map.iter().copied());
    let sign = |v: f64| if v == 0.0 { 0.0 } else { v.signum() };
    let gradient = (0..x.len())
        .map(|i| (1.0 - dssim_weight) * sign(x[i] - y[i]) / count - dssim_weight * ssim_gradient[i])
        .collect();
    let loss = (1.0 - dssim_weight) * l1 + dssim_weight * (1.0 - ssim);
    Loss { loss, l1, mse, ssim, ssim_map, ssim_gradient, gradient }
}

/// The SSIM of every pixel and channel, and the gradient of its mean with respect to `x`.
fn ssim(x: &[f64], y: &[f64], width: usize, height: usize) -> (Vec<f64>, Vec<f64>) {
    let window = |values: Vec<f64>| correlate(&values, width, height);
    let product = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a * b).collect() };
    let (mu_x, mu_y) = (window(x.to_vec()), window(y.to_vec()));
    let (k_xx, k_yy, k_xy) = (window(product(x, x)), window(product(y, y)), window(product(x, y)));

    let n = x.len();
    let (mut map, mut d1, mut d2, mut d3) = (vec![0.0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    for i in 0..n {
        let (mx, my) = (mu_x[i], mu_y[i]);
        let a1 = 2.0 * mx * my + SSIM_C1;
        let a2 = 2.0 * (k_xy[i] - mx * my) + SSIM_C2;
        let b1 = mx * mx + my * my + SSIM_C1;
        let b2 = (k_xx[i] - mx * mx) + (k_yy[i] - my * my) + SSIM_C2;
        let s = a1 * a2 / (b1 * b2);
        map[i] = s;
        // mu_x occurs in a1 (2 mu_y), in a2 (-2 mu_y), in b1 (2 mu_x) and in b2 (-2 mu_x).
        d1[i] = (2.0 * my * (a2 - a1) / (b1 * b2) - 2.0 * mx * s * (1.0 / b1 - 1.0 / b2)) / n as f64;
        d2[i] = -s / b2 / n as f64;
        d3[i] = 2.0 * a1 / (b1 * b2) / n as f64;
    }
    let (k1, k2, k3) = (window(d1), window(d2), window(d3));
    let gradient = (0..n).map(|i| k1[i] + 2.0 * x[i] * k2[i] + y[i] * k3[i]).collect();
    (map, gradient)
}

/// Correlation of `[H, W, 3]` values with the window, rows then columns, zero outside.
fn correlate(values: &[f64], width: usize, height: usize) -> Vec<f64> {
    let taps = taps();
    let along =
        |values: &[f64], stride: usize, length: usize, position: &dyn Fn(usize) -> usize| -> Vec<f64> {
            let mut out = vec![0.0; values.len()];
            for (i, sum) in out.iter_mut().enumerate() {
                let here = position(i);
                for (k, tap) in taps.iter().enumerate() {
                    let there = here + k;
                    if (SSIM_TAPS / 2..length + SSIM_TAPS / 2).contains(&there) {
                        *sum += tap * values[i + k * stride - SSIM_TAPS / 2 * stride];
                    }
                }
            }
            out
        };
    let rows = along(values, 3, width, &|i| i / 3 % width);
    along(&rows, 3 * width, height, &|i| i / (3 * width))
}

/// The 11 taps of the separable window.
#[must_use]
pub fn taps() -> [f64; SSIM_TAPS] {
    let centre = (SSIM_TAPS / 2) as f64;
    let raw: [f64; SSIM_TAPS] = std::array::from_fn(|k| {
        let distance = k as f64 - centre;
        libm::exp(-distance * distance / (2.0 * SSIM_SIGMA * SSIM_SIGMA))
    });
    let sum: f64 = raw.iter().sum();
    raw.map(|tap| tap / sum)
}
