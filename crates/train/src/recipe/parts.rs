//! The parts of a recipe: blank ones are filled by options, full ones are read by [`super::Recipe`].

use crate::words::{Exposure, InitPoints, Strategy};

/// Coarse to fine: small pictures first, which cost less and spread splats over what is large.
///
/// With `factor = 2^k` the side of a picture doubles k times, the i-th time after `until (2^i - 1) / (2^k - 1)` of the
/// run, so that each size has twice as many steps as the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoarseRecipe {
    /// Pictures start at one part in so many of their size; a power of two, 1 = always the full size.
    pub factor: u32,
    /// Fraction of the run after which they have their full size.
    pub until: f64,
}

/// Splats at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StartRecipe {
    /// Which points splats start from.
    pub points: InitPoints,
    /// Random splats when there are no points.
    pub random_splats: u64,
    /// Opacity.
    pub opacity: f64,
    /// Factor on the neighbour distance.
    pub scale: f64,
}

/// Terms of the loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossRecipe {
    /// Share of D-SSIM; the rest is L1.
    pub dssim_weight: f64,
    /// Weight of the mean opacity …
    pub opacity_regularisation: f64,
    /// … before this fraction of the run.
    pub opacity_regularisation_until: f64,
    /// Weight of the mean scale over splats and axes.
    pub scale_regularisation: f64,
}

/// Learning rates over the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateRecipe {
    /// Means at the start, in scene extents.
    pub means: f64,
    /// Means at the end, in scene extents; log-linear in between.
    pub means_final: f64,
    /// Log scales.
    pub scales: f64,
    /// Quaternions.
    pub quats: f64,
    /// Opacity logits.
    pub opacities: f64,
    /// SH coefficient 0.
    pub sh_dc: f64,
    /// Other SH coefficients.
    pub sh_rest: f64,
}

/// When and how the set of splats changes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DensityRecipe {
    /// After this fraction of the run …
    pub from: f64,
    /// … and before this one …
    pub until: f64,
    /// … every so many steps; 0 = 100, fewer for runs under 3,000 steps.
    pub every: u64,
    /// By which rules.
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
    pub(crate) fn of(strategy: Strategy) -> Self {
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
        Self::of(Strategy::Mcmc)
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
    /// Splats of at most this opacity are dead; the noise fades around it.
    pub dead_opacity: f64,
    /// Growth of the set per change.
    pub growth: f64,
    /// Share of the splats, the largest, that are split rather than copied.
    pub split_largest: f64,
    /// Noise on the means as a multiple of their rate.
    pub noise: f64,
}

/// Schedule of colour corrections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExposureRecipe {
    /// When, and by what.
    pub mode: Exposure,
    /// Rate at the start; of gains in a run that visits each picture [`super::PACE_VISITS`] times.
    pub rate: f64,
    /// Rate at the end; log-linear in between.
    pub rate_final: f64,
    /// Share by which a correction returns to the identity at each visit.
    pub decay: f64,
}

impl ExposureRecipe {
    /// A blank schedule, if colours are corrected at all.
    pub(crate) fn of(mode: Exposure) -> Option<Self> {
        (mode != Exposure::Off).then(|| Self { mode, ..Self::default() })
    }
}

/// Schedule of pose refinement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoseRecipe {
    /// Rate: radians for rotations, scene extents for translations.
    pub rate: f64,
    /// Share by which a correction returns to zero each step.
    pub decay: f64,
    /// Begins at this fraction of the run.
    pub from: f64,
    /// Ends at this fraction of the run.
    pub until: f64,
}
