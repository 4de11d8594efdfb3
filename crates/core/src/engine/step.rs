//! One training step: its view, its rates and its other inputs.

use std::sync::Arc;

use super::EngineError;
use super::render_options::RenderOptions;
use crate::constants::DSSIM_WEIGHT;
use crate::{Camera, Pose, TargetImage};

/// A training view: a target image with the camera that should reproduce it.
#[derive(Clone, Debug)]
pub struct TrainView {
    /// Index of the view in the dataset, for messages and for caches.
    pub index: u32,
    /// Factor by which the image is downscaled from the dataset's image; 1 = full size. `index` and this factor
    /// identify the bytes of `target`: the same pair is always the same image.
    pub downscale: u32,
    /// Name of the image, for messages.
    pub name: Arc<str>,
    /// Intrinsics at the size of `target`.
    pub camera: Camera,
    /// `camera_from_world` before any learned correction.
    pub pose: Pose,
    /// The image; its size is the camera's.
    pub target: Arc<TargetImage>,
    /// Row of `CorrectionKind::Gain`, if the colours of this view are corrected.
    pub exposure_row: Option<u32>,
    /// Row of `CorrectionKind::Vignetting`; `None` if the vignetting of this camera is not fitted.
    pub vignetting_row: Option<u32>,
    /// Row of `CorrectionKind::Pose`; `None` if the pose of this view is not refined.
    pub pose_row: Option<u32>,
    /// Pose of this camera in the rig that the row moves, `camera_from_rig`; `None` if the row moves the camera itself.
    pub camera_from_rig: Option<Pose>,
}

/// Learning rates of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningRates {
    /// Means, scene units.
    pub means: f32,
    /// Log scales: relative changes of the scales.
    pub log_scales: f32,
    /// Quaternions, before normalisation.
    pub quats: f32,
    /// Opacity logits, without unit.
    pub opacity_logits: f32,
    /// SH coefficient 0.
    pub sh_dc: f32,
    /// All other SH coefficients.
    pub sh_rest: f32,
}

/// Which splats Adam updates in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdamMode {
    /// Every splat, with one clock per group: moments decay and parameters keep moving at zero gradients.
    #[default]
    Dense,
    /// Only splats with a non-zero gradient in this step, each with its own clock; others are unchanged.
    Sparse,
}

/// Which density statistic a step accumulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GradientStatistic {
    /// No statistic is kept.
    #[default]
    Off,
    /// Norm of the summed screen-space gradient (Kerbl et al. 2023).
    Signed,
    /// Norm of the per-axis sums of absolute pixel gradients (Ye et al. 2024, AbsGS).
    Absolute,
}

/// Langevin noise on the means after the update (Kheradmand et al. 2024, eq. 12).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PositionNoise {
    /// Factor on `Σ z`: noise rate x the current rate of the means.
    pub scale: f32,
    /// Opacity around which the noise fades out: `sigmoid(-100 (opacity - fade))`.
    pub fade_opacity: f32,
}

/// Rates of a group of per-view corrections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorrectionRates {
    /// Learning rate of the first half of a row (`rho`, scene units; for exposure: of all values).
    pub first: f32,
    /// Learning rate of the second half of a row (`phi`, radians; for exposure: unused).
    pub second: f32,
    /// Fraction by which a row decays towards its identity each step (decoupled weight decay, not scaled by the rate).
    pub decay: f32,
}

/// The inputs of a step in addition to its view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepParams {
    /// Number of the step, from 0. Identifies the step in errors and is the counter of its random numbers.
    pub step: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Render options; `background` is the colour of this step, composited under target and render alike.
    pub render: RenderOptions,
    /// Fraction of the splats, in 0..1, that the step leaves out at random, against overfitting to few views (Park et
    /// al. 2025, DropGaussian). The selection is a function of the seed, the step and the index of a splat; splats left
    /// out get no gradient.
    pub dropout: f32,
    /// Weight of D-SSIM in the loss.
    pub dssim_weight: f32,
    /// Learning rates of the splats' parameters.
    pub rates: LearningRates,
    /// Which splats are updated.
    pub adam: AdamMode,
    /// Weight of the mean opacity in the loss (MCMC: 0.01; 0 = off).
    pub opacity_regularisation: f32,
    /// Weight of the mean scale over splats and axes in the loss (MCMC: 0.01; 0 = off).
    pub scale_regularisation: f32,
    /// Noise on the means after the update.
    pub noise: Option<PositionNoise>,
    /// Radius around the origin beyond which splats train in units of their distance d, as in a contracted space: the
    /// rate of the means is multiplied by d / radius, 10 at most, scale regularisation and noise are divided by it.
    /// Infinite = nowhere.
    pub contraction_radius: f32,
    /// Density statistic to accumulate.
    pub statistic: GradientStatistic,
    /// Rates of the exposure row of the view; `None` applies the row without updating it.
    pub exposure: Option<CorrectionRates>,
    /// Rates of the vignetting row of the view; `None` applies the row without updating it.
    pub vignetting: Option<CorrectionRates>,
    /// Rates of the pose row of the view; `None` applies the row without updating it.
    pub pose: Option<CorrectionRates>,
    /// Rates of the sky, if the step renders it; `None` does not update it.
    pub sky: Option<CorrectionRates>,
}

impl StepParams {
    /// A step that renders with `render` and updates parameters with `rates`; everything optional is off.
    #[must_use]
    pub fn new(step: u64, seed: u64, render: RenderOptions, rates: LearningRates) -> Self {
        Self {
            step,
            seed,
            render,
            dropout: 0.0,
            dssim_weight: DSSIM_WEIGHT,
            rates,
            adam: AdamMode::Dense,
            opacity_regularisation: 0.0,
            scale_regularisation: 0.0,
            noise: None,
            contraction_radius: f32::INFINITY,
            statistic: GradientStatistic::Off,
            exposure: None,
            vignetting: None,
            pose: None,
            sky: None,
        }
    }

    /// The view of a step, for devices that take one view at a time.
    ///
    /// # Errors
    /// Returns [`EngineError::InvalidInput`] if there is not exactly one view.
    pub fn single_view<'a>(&self, views: &'a [TrainView]) -> Result<&'a TrainView, EngineError> {
        let [view] = views else {
            let what = format!("{} views in step {} (expected 1 at a time)", views.len(), self.step);
            return Err(EngineError::InvalidInput(what));
        };
        Ok(view)
    }

    /// The same step under another number, and so with other random numbers.
    #[must_use]
    pub fn with_step(mut self, step: u64) -> Self {
        self.step = step;
        self
    }
}
