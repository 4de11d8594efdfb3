//! Gradients of the rendered images propagated back to the splats on the screen.
//!
//! With upstream gradients `G` of colour, `G_alpha` and `G_depth` of a pixel, the blended splats i from front to back,
//! `v_i = G · color_i + G_depth z_i`, and `T_end` after the last:
//!
//! ```text
//! L          = Σ_i alpha_i T_i v_i + T_end v_end,       v_end = G · background - G_alpha
//! dL/dalpha_i = T_i v_i - (Σ_{j>i} alpha_j T_j v_j + T_end v_end) / (1 - alpha_i)
//! ```
//!
//! The bracket is the contribution behind i; it is summed from the back. Through `alpha = o exp(-sigma)`, unless
//! clamped: `do = exp(-sigma) dalpha`, `dsigma = -alpha dalpha`, `dA = dx²/2 dsigma`, `dB = dx dy dsigma`,
//! `dC = dy²/2 dsigma`, `dmean2d = -(A dx + B dy, B dx + C dy) dsigma`.

use gausset_core::Camera;
use gausset_core::se3::dot;

use super::blend::{Rendering, contributions};
use super::scene::{Scene, SkyF64};
use super::sky::{background_colour, background_colour_vjp};
use super::tile::pixel_centre;

/// Gradients of a loss with respect to the images of a [`Rendering`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Upstream {
    /// `[H, W, 3]`.
    pub color: Vec<f64>,
    /// `[H, W]`.
    pub alpha: Vec<f64>,
    /// `[H, W]`, with respect to `Σ w z`.
    pub depth: Vec<f64>,
}

/// Gradient with respect to one splat on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScreenGradient {
    /// Projected mean, 1/px.
    pub mean2d: [f64; 2],
    /// Sum over pixels of the absolute value of each pixel's part of `mean2d` (Ye et al. 2024, AbsGS).
    pub mean2d_abs: [f64; 2],
    /// Conic (A, B, C), B counted once.
    pub conic: [f64; 3],
    /// Camera z as blended into the depth image; the dependence of `mean2d` and `conic` on z is not included.
    pub depth: f64,
    /// Opacity after compensation.
    pub opacity: f64,
    /// Colour after the clamp.
    pub color: [f64; 3],
}

impl Upstream {
    /// Zero gradients.
    #[must_use]
    pub fn zeros(camera: &Camera) -> Self {
        let pixels = camera.pixels();
        Self { color: vec![0.0; 3 * pixels], alpha: vec![0.0; pixels], depth: vec![0.0; pixels] }
    }
}

/// Gradients with respect to every splat on the screen (zero for dropped ones), to the background and to the sky.
#[must_use]
pub fn blend_vjp(
    scene: &Scene,
    rendering: &Rendering,
    upstream: &Upstream,
) -> (Vec<ScreenGradient>, [f64; 3], SkyF64) {
    let mut gradients = vec![ScreenGradient::default(); rendering.screen.len()];
    let mut d_background = [0.0; 3];
    let mut d_sky = SkyF64::default();
    for row in 0..rendering.height {
        for column in 0..rendering.width {
            let pixel = (row * rendering.width + column) as usize;
            let d_color = [0, 1, 2].map(|channel| upstream.color[3 * pixel + channel]);
            let d_depth = upstream.depth[pixel];

            let list = rendering.tiles.list_at_pixel(column, row);
            let (contributions, t_end) = contributions(&rendering.screen, list, pixel_centre(column, row));
            let mut behind =
                t_end * (dot(d_color, background_colour(scene, column, row)) - upstream.alpha[pixel]);
            for contribution in contributions.iter().rev() {
                let Some(splat) = &rendering.screen[contribution.splat as usize] else { continue };
                let gradient = &mut gradients[contribution.splat as usize];
                let (at, t) = (contribution.alpha, contribution.transmittance);
                let weight = at.alpha * t;
                for channel in 0..3 {
                    gradient.color[channel] += weight * d_color[channel];
                }
                gradient.depth += weight * d_depth;

                let value = dot(d_color, splat.color) + d_depth * splat.depth;
                let d_alpha = t * value - behind / (1.0 - at.alpha);
                behind += weight * value;
                if at.clamped {
                    continue;
                }
                gradient.opacity += at.falloff * d_alpha;
                let d_sigma = -at.alpha * d_alpha;
                let [dx, dy] = at.offset;
                let [a, b, c] = splat.conic;
                gradient.conic[0] += 0.5 * dx * dx * d_sigma;
                gradient.conic[1] += dx * dy * d_sigma;
                gradient.conic[2] += 0.5 * dy * dy * d_sigma;
                let d_mean2d = [-(a * dx + b * dy) * d_sigma, -(b * dx + c * dy) * d_sigma];
                for axis in 0..2 {
                    gradient.mean2d[axis] += d_mean2d[axis];
                    gradient.mean2d_abs[axis] += d_mean2d[axis].abs();
                }
            }
            for channel in 0..3 {
                d_background[channel] += t_end * d_color[channel];
            }
            background_colour_vjp(scene, column, row, d_color.map(|d| t_end * d), &mut d_sky);
        }
    }
    (gradients, d_background, d_sky)
}
