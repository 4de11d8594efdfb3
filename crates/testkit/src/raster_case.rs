//! Render cases in the types of `core`: inputs from tensors, results to tensors.

use gausset_core::engine::RenderOptions;
use gausset_core::{Camera, Pose, Splats, sh};

use crate::backend::Outputs;
use crate::fixtures::Case;
use crate::tensor::Tensor;

/// Weights of the loss `Σ w_image · image + Σ w_alpha · alpha + Σ w_depth · depth`, which are also its gradients with
/// respect to the three images.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearLoss {
    /// `[H, W, 3]`.
    pub image: Vec<f32>,
    /// `[H, W]`.
    pub alpha: Vec<f32>,
    /// `[H, W]`.
    pub depth: Vec<f32>,
}

impl LinearLoss {
    /// The loss of a render, summed in f64.
    #[must_use]
    pub fn value(&self, image: &[f64], alpha: &[f64], depth: &[f64]) -> f64 {
        let dot = |w: &[f32], x: &[f64]| w.iter().zip(x).map(|(&w, &x)| f64::from(w) * x).sum::<f64>();
        dot(&self.image, image) + dot(&self.alpha, alpha) + dot(&self.depth, depth)
    }
}

/// The results of a backend for a raster case at one cap.
#[derive(Clone, Debug, PartialEq)]
pub struct RasterResult {
    /// Colour, `[H, W, 3]`.
    pub image: Vec<f64>,
    /// Alpha, `[H, W]`.
    pub alpha: Vec<f64>,
    /// Depth (not divided by alpha), `[H, W]`.
    pub depth: Vec<f64>,
    /// Blended splats, `[H, W]`.
    pub count: Vec<u32>,
    /// Loss.
    pub loss: f64,
    /// Gradient of the loss with respect to the image, for `raster_loss` cases.
    pub grad_image: Option<Vec<f64>>,
    /// Gradients of the loss.
    pub gradients: RasterGradients,
    /// Intermediates, if the backend supplies them.
    pub intermediates: Option<RasterIntermediates>,
}

/// Gradients of a raster case.
#[derive(Clone, Debug, PartialEq)]
pub struct RasterGradients {
    /// `[N]` rows.
    pub means: Vec<[f64; 3]>,
    /// `[N]` rows.
    pub quats: Vec<[f64; 4]>,
    /// `[N]` rows.
    pub log_scales: Vec<[f64; 3]>,
    /// `[N]`.
    pub opacity_logits: Vec<f64>,
    /// `[N, K, 3]`.
    pub sh: Vec<f64>,
    /// Background colour.
    pub background: [f64; 3],
    /// `[R | t]`, the upper three rows of `viewmat`; `None` if the backend has only the twist.
    pub viewmat: Option<[[f64; 4]; 3]>,
    /// Left twist `(rho, phi)`.
    pub twist: [f64; 6],
    /// Per splat, 1/px.
    pub mean2d: Vec<[f64; 2]>,
    /// Per splat, 1/px.
    pub mean2d_abs: Vec<[f64; 2]>,
}

/// Intermediates of a raster case; zero for splats that are not in front.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasterIntermediates {
    /// Projected means in px.
    pub mean2d: Vec<[f64; 2]>,
    /// Inverse screen covariances (A, B, C).
    pub conic: Vec<[f64; 3]>,
    /// Camera z.
    pub z: Vec<f64>,
    /// Opacities after compensation.
    pub opacity: Vec<f64>,
    /// Colours after the clamp.
    pub color: Vec<[f64; 3]>,
    /// Whether z is beyond the near plane.
    pub in_front: Vec<bool>,
    /// Whether the splat is blended at one pixel or more.
    pub contributes: Vec<bool>,
}

impl Case {
    /// `in.means`, `in.quats`, ...: every input is exactly representable in f32.
    ///
    /// # Panics
    /// If the number of SH coefficients does not match a degree.
    #[must_use]
    pub fn splats(&self) -> Splats {
        let coefficients = self.tensor("in.sh").shape[1];
        let splats = Splats {
            sh_degree: sh::degree_from_coefficients(coefficients)
                .unwrap_or_else(|| panic!("{}: in.sh: {coefficients} coefficients per channel", self.name)),
            means: self.tensor("in.means").to_f32_rows(),
            log_scales: self.tensor("in.log_scales").to_f32_rows(),
            quats: self.tensor("in.quats").to_f32_rows(),
            opacity_logits: self.tensor("in.opacity_logits").to_f32(),
            sh: self.tensor("in.sh").to_f32(),
        };
        splats.validate().unwrap_or_else(|err| panic!("{}: {err}", self.name));
        splats
    }

    /// `in.K` at the case's size.
    ///
    /// # Panics
    /// If the matrix is not that of a pinhole without skew.
    #[must_use]
    pub fn camera(&self) -> Camera {
        let [row0, row1, row2] = self.tensor("in.K").to_rows::<3>()[..] else {
            panic!("{}: in.K is not 3x3", self.name)
        };
        assert_eq!(
            [row0[1], row1[0], row2[0], row2[1], row2[2]],
            [0.0, 0.0, 0.0, 0.0, 1.0],
            "{}: in.K",
            self.name
        );
        Camera::new(self.settings.width, self.settings.height, row0[0], row1[1], row0[2], row1[2])
            .unwrap_or_else(|err| panic!("{}: in.K: {err}", self.name))
    }

    /// `in.viewmat` unchanged: the rotation is rounded to f32 and not re-orthonormalised.
    ///
    /// # Panics
    /// If the last row is not (0, 0, 0, 1).
    #[must_use]
    pub fn pose(&self) -> Pose {
        let rows = self.tensor("in.viewmat").to_rows::<4>();
        assert_eq!(rows[3], [0.0, 0.0, 0.0, 1.0], "{}: in.viewmat", self.name);
        Pose {
            rotation: std::array::from_fn(|i| [rows[i][0], rows[i][1], rows[i][2]]),
            translation: std::array::from_fn(|i| rows[i][3]),
        }
    }

    /// Settings and background at a cap. Projection cases have no background: black.
    #[must_use]
    pub fn render_options(&self, max_splats_per_tile: u32) -> RenderOptions {
        let background = self.tensors.get("in.background").map_or([0.0; 3], |t| t.to_f32_rows::<3>()[0]);
        RenderOptions {
            sh_degree: self.settings.sh_degree,
            background,
            antialiased: self.settings.antialiased,
            max_splats_per_tile,
            ..RenderOptions::default()
        }
    }

    /// `in.w_image`, `in.w_alpha`, `in.w_depth`, for `raster` cases.
    #[must_use]
    pub fn linear_loss(&self) -> LinearLoss {
        LinearLoss {
            image: self.tensor("in.w_image").to_f32(),
            alpha: self.tensor("in.w_alpha").to_f32(),
            depth: self.tensor("in.w_depth").to_f32(),
        }
    }

    /// `in.target`, for `raster_loss` cases.
    #[must_use]
    pub fn target(&self) -> Vec<f64> {
        self.tensor("in.target").values.clone()
    }
}

impl RasterResult {
    /// Adds the result at a cap to the outputs of a case, named as in the fixtures.
    ///
    /// `mid.*` tensors other than `contributes` do not depend on the cap: they go with cap 0.
    pub fn insert_into(&self, outputs: &mut Outputs, case: &Case, cap: u32) {
        let infix = if cap == 0 { String::new() } else { format!("cap{cap}.") };
        let mut put = |prefix: &str, name: &str, tensor: Tensor| {
            outputs.insert(format!("{prefix}.{infix}{name}"), tensor);
        };
        let (h, w) = (case.settings.height as usize, case.settings.width as usize);
        put("out", "image", Tensor::new(&[h, w, 3], &self.image));
        put("out", "alpha", Tensor::new(&[h, w], &self.alpha));
        put("out", "depth", Tensor::new(&[h, w], &self.depth));
        let expected: Vec<f64> = self.depth.iter().zip(&self.alpha).map(|(d, a)| d / a.max(1e-10)).collect();
        put("out", "depth_expected", Tensor::new(&[h, w], &expected));
        put("out", "count", Tensor::new(&[h, w], &self.count));
        put("out", "loss", Tensor::scalar(self.loss));
        if let Some(grad_image) = &self.grad_image {
            put("out", "grad_image", Tensor::new(&[h, w, 3], grad_image));
        }

        let g = &self.gradients;
        put("grad", "means", Tensor::rows(&g.means));
        put("grad", "quats", Tensor::rows(&g.quats));
        put("grad", "log_scales", Tensor::rows(&g.log_scales));
        put("grad", "opacity_logits", Tensor::new(&[g.opacity_logits.len()], &g.opacity_logits));
        put("grad", "sh", Tensor::new(&case.tensor("in.sh").shape, &g.sh));
        put("grad", "background", Tensor::new(&[3], &g.background));
        put("grad", "twist", Tensor::new(&[6], &g.twist));
        put("grad", "mean2d", Tensor::rows(&g.mean2d));
        put("grad", "mean2d_abs", Tensor::rows(&g.mean2d_abs));
        if let Some([a, b, c]) = g.viewmat {
            put("grad", "viewmat", Tensor::rows(&[a, b, c, [0.0; 4]]));
        }

        if let Some(mid) = &self.intermediates {
            put("mid", "contributes", Tensor::flags(&mid.contributes));
            if cap == 0 {
                put("mid", "mean2d", Tensor::rows(&mid.mean2d));
                put("mid", "conic", Tensor::rows(&mid.conic));
                put("mid", "z", Tensor::new(&[mid.z.len()], &mid.z));
                put("mid", "opacity", Tensor::new(&[mid.opacity.len()], &mid.opacity));
                put("mid", "color", Tensor::rows(&mid.color));
                put("mid", "in_front", Tensor::flags(&mid.in_front));
            }
        }
    }
}
