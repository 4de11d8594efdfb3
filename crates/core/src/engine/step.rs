//! One training step: its view, its rates and everything else that it needs.

use std::sync::Arc;

use super::EngineError;
use super::render::RenderOptions;
use crate::constants::DSSIM_WEIGHT;
use crate::{Camera, Pose, TargetImage};

/// A training view: a target picture with the camera that should reproduce it.
#[derive(Clone, Debug)]
pub struct TrainView {
    /// Index of the view in the dataset, for messages and for caches.
    pub index: u32,
    /// How many times smaller the picture is than the view's picture in the dataset; 1 = as it is. `index` and this
    /// together name the bytes of `target`: the same pair is always the same picture.
    pub reduction: u32,
    /// Name of the picture, for messages.
    pub name: Arc<str>,
    /// Intrinsics at the size of `target`.
    pub camera: Camera,
    /// `camera_from_world` before any learned correction.
    pub pose: Pose,
    /// The picture; its size is the camera's.
    pub target: Arc<TargetImage>,
    /// Row of `Group::Gain`, if the colours of this view are corrected.
    pub exposure_row: Option<u32>,
    /// Row of `Group::Vignetting`, if the vignetting of this camera is learned.
    pub vignetting_row: Option<u32>,
    /// Row of `Group::Pose`, if the pose of this view is refined.
    pub pose_row: Option<u32>,
    /// Pose of this camera in the rig that the row moves, `camera_from_rig`; `None`: the row moves the camera itself.
    pub camera_from_rig: Option<Pose>,
}

/// Learning rates of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Means, scene units.
    pub means: f32,
    /// Log scales.
    pub log_scales: f32,
    /// Quaternions, before they are normalised.
    pub quats: f32,
    /// Opacity logits.
    pub opacity_logits: f32,
    /// SH coefficient 0.
    pub sh_dc: f32,
    /// All other SH coefficients.
    pub sh_rest: f32,
}

/// Which splats Adam moves in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdamMode {
    /// Every splat, one clock per group: moments decay and parameters keep moving where the gradient is zero.
    #[default]
    Dense,
    /// Only splats with a non-zero gradient in this step, each with a clock of its own; others are frozen.
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
pub struct Noise {
    /// Factor on `Σ z`: noise rate x the current rate of the means.
    pub scale: f32,
    /// Opacity around which the noise fades: `sigmoid(-100 (opacity - fade))`.
    pub opacity_fade: f32,
}

/// Rates of a group of per-view corrections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorrectionRates {
    /// Learning rate of the first half of a row (`rho`, scene units; for exposure: all of it).
    pub first: f32,
    /// Learning rate of the second half of a row (`phi`, radians; for exposure: not used).
    pub second: f32,
    /// Share by which a row is pulled back to its identity each step (decoupled weight decay, not scaled by the rate).
    pub decay: f32,
}

/// Everything that one step needs besides its view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepParams {
    /// Number of the step, from 0. Names the step in errors and is the counter of its random numbers.
    pub step: u64,
    /// Seed of the run.
    pub seed: u64,
    /// Rendering; `background` is the step's colour, composited under target and render alike.
    pub render: RenderOptions,
    /// Share of the splats, in 0..1, that the step leaves out at random, so that few views are not learnt by heart (Park
    /// et al. 2025, DropGaussian). Which ones is a function of the seed, the step and the index of a splat; one that is
    /// left out gets no gradient.
    pub dropout: f32,
    /// Share of D-SSIM in the loss.
    pub dssim_weight: f32,
    /// Learning rates.
    pub rates: Rates,
    /// Which splats move.
    pub adam: AdamMode,
    /// Weight of the mean opacity in the loss (MCMC: 0.01; 0 = off).
    pub opacity_regularisation: f32,
    /// Weight of the mean scale over splats and axes in the loss (MCMC: 0.01; 0 = off).
    pub scale_regularisation: f32,
    /// Noise on the means after the update.
    pub noise: Option<Noise>,
    /// Density statistic to accumulate.
    pub statistic: GradientStatistic,
    /// The first so many splats are drawn and never moved, whatever the rates: they are somebody else's. 0 = none. A
    /// device may refuse others ([`EngineError::BadInput`](super::EngineError::BadInput)). Density rules do not know of
    /// them.
    pub frozen: u32,
    /// Rates of the exposure row of the view; `None` leaves it as it is (it is still applied).
    pub exposure: Option<CorrectionRates>,
    /// Rates of the vignetting row of the view; `None` leaves it as it is (it is still applied).
    pub vignetting: Option<CorrectionRates>,
    /// Rates of the pose row of the view; `None` leaves it as it is (it is still applied).
    pub pose: Option<CorrectionRates>,
    /// Rates of the sky where the step is rendered with it; `None` leaves it as it is.
    pub sky: Option<CorrectionRates>,
}

impl StepParams {
    /// A step that renders with `render` and moves parameters with `rates`; everything optional is off.
    #[must_use]
    pub fn new(step: u64, seed: u64, render: RenderOptions, rates: Rates) -> Self {
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
            statistic: GradientStatistic::Off,
            frozen: 0,
            exposure: None,
            vignetting: None,
            pose: None,
            sky: None,
        }
    }

    /// The view of a step, for a device that takes one at a time.
    ///
    /// # Errors
    /// There are more, or none.
    pub fn only_view<'a>(&self, views: &'a [TrainView]) -> Result<&'a TrainView, EngineError> {
        let [view] = views else {
            let what = format!("{} views in step {} (expected 1 at a time)", views.len(), self.step);
            return Err(EngineError::BadInput(what));
        };
        Ok(view)
    }

    /// The same step under another number: its random numbers are others.
    #[must_use]
    pub fn numbered(mut self, step: u64) -> Self {
        self.step = step;
        self
    }
}
