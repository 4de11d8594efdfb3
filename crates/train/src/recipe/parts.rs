//! The parts of a recipe: filled in from options, read by [`super::Recipe`].

use crate::option_values::{Exposure, InitPoints, Strategy};

/// Coarse to fine: training starts on downsampled images, which cost less and distribute splats over large structures.
///
/// With `factor = 2^k` the side of an image doubles k times, the i-th time after `until (2^i - 1) / (2^k - 1)` of the
/// run, so that each size has twice as many steps as the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoarseRecipe {
    /// Images start at `1 / factor` of their size; a power of two, 1 = always full size.
    pub factor: u32,
    /// Fraction of the run after which images have full size.
    pub until: f64,
}

/// How the splats start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StartRecipe {
    /// Points from which splats start.
    pub points: InitPoints,
    /// Maximum number of splats before a time budget lowered it.
    pub max_splats: Option<u64>,
    /// Number of random splats if there are no points.
    pub random_splats: u64,
    /// Opacity of each initial splat, 0..1.
    pub opacity: f64,
    /// Factor on the neighbour distance for the initial scale.
    pub scale: f64,
}

/// Terms of the loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossRecipe {
    /// Weight of D-SSIM; the rest is L1.
    pub dssim_weight: f64,
    /// Weight of the mean opacity.
    pub opacity_regularisation: f64,
    /// Fraction of the run until which that weight applies.
    pub opacity_regularisation_until: f64,
    /// Weight of the mean scale over splats and axes.
    pub scale_regularisation: f64,
}

/// Learning rates over the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateRecipe {
    /// Rate of means at the start, in scene extents.
    pub means: f64,
    /// Rate of means at the end, in scene extents; log-linear in between.
    pub means_final: f64,
    /// Rate of log scales.
    pub scales: f64,
    /// Rate of quaternions.
    pub quats: f64,
    /// Rate of opacity logits.
    pub opacities: f64,
    /// Rate of SH coefficient 0.
    pub sh_dc: f64,
    /// Rate of the other SH coefficients.
    pub sh_rest: f64,
}

/// When and how the set of splats changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DensityRecipe {
    /// Fraction of the run after which changes begin.
    pub from: f64,
    /// Fraction of the run before which changes end.
    pub until: f64,
    /// Steps between two changes; 0 = 100, fewer for runs under 3,000 steps.
    pub every: u64,
    /// Rules of the changes.
    pub rules: DensityRules,
}

/// The rules of a strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DensityRules {
    /// Adaptive density control.
    Classic(ClassicRecipe),
    /// Relocation and growth.
    Mcmc(McmcRecipe),
}

impl DensityRules {
    /// Blank rules of a strategy.
    pub(crate) fn for_strategy(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Classic => Self::Classic(ClassicRecipe::default()),
            Strategy::Mcmc => Self::Mcmc(McmcRecipe::default()),
        }
    }

    /// The thresholds, if these are the rules of adaptive density control.
    pub(crate) fn classic(&mut self) -> Option<&mut ClassicRecipe> {
        match self {
            Self::Classic(classic) => Some(classic),
            Self::Mcmc(_) => None,
        }
    }

    /// The parameters, if these are the rules of relocation and growth.
    pub(crate) fn mcmc(&mut self) -> Option<&mut McmcRecipe> {
        match self {
            Self::Mcmc(mcmc) => Some(mcmc),
            Self::Classic(_) => None,
        }
    }
}

impl Default for DensityRules {
    fn default() -> Self {
        Self::for_strategy(Strategy::Mcmc)
    }
}

/// Thresholds of adaptive density control.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassicRecipe {
    /// Mean screen gradient above which a splat grows.
    pub grow_gradient: f64,
    /// Use absolute pixel gradients.
    pub absolute_gradient: bool,
    /// Largest scale of a splat that is cloned rather than split, in scene extents.
    pub clone_scale: f64,
    /// Splats of lower opacity are removed.
    pub prune_opacity: f64,
    /// Splats with a larger scale (scene extents) are removed, after the first reset.
    pub prune_scale: f64,
    /// Splats with a larger screen radius (px) are removed, after the first reset; 0 = off.
    pub prune_screen: f64,
    /// Fraction of the run between two opacity resets; 0 = never.
    pub reset_every: f64,
}

/// Parameters of relocation and growth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct McmcRecipe {
    /// Growth of the set per change.
    pub growth: f64,
    /// Fraction of the splats, the largest, that are split rather than copied.
    pub split_largest: f64,
    /// Noise on the means as a multiple of their rate.
    pub noise: f64,
}

/// Schedule of exposure compensation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExposureRecipe {
    /// When and how colours are corrected.
    pub mode: Exposure,
    /// Rate at the start; for gains it applies to a run that visits each image [`super::REFERENCE_VISITS`] times.
    pub rate: f64,
    /// Rate at the end; log-linear in between.
    pub rate_final: f64,
}

impl ExposureRecipe {
    /// A blank schedule; `None` if colours are not corrected.
    pub(crate) fn for_mode(mode: Exposure) -> Option<Self> {
        (mode != Exposure::Off).then(|| Self { mode, ..Self::default() })
    }
}

/// Settings of pose refinement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoseRecipe {
    /// Rate: radians for rotations, scene extents for translations.
    pub rate: f64,
}
