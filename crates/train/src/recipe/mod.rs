//! The recipe: what each step of a run does, as pure functions of (recipe, step).
//!
//! Everything that papers state in steps of a 30,000-step run is a *fraction of the run* here, so that a run of any
//! length is complete. A fraction becomes a step by rounding to nearest. Steps count from 0; `done` counts finished
//! steps, so after step `s` `done = s + 1`, which is the iteration number of the papers' programs.
//!
//! ```text
//! step s:  views ─▶ step_params(s) ─▶ Engine::step ─▶ density_after(s + 1) ─▶ Engine::densify …
//! ```
//! Sources: Kerbl et al. 2023 with released code (rates, classic density control), Kheradmand et al. 2024 and gsplat
//! 1.6 (relocation, growth, noise and their regularisers).

mod parts;

use gausset_compute::rng;
use gausset_core::engine::{
    AdamMode, ClassicRule, CorrectionRates, DensityRule, GradientStatistic, LearningRates, McmcRule,
    PositionNoise, RenderOptions, StepParams,
};

use gausset_io::dataset::NORMALISED_EXTENT;

pub use parts::{
    ClassicRecipe, CoarseRecipe, DensityRecipe, DensityRules, ExposureRecipe, LossRecipe, McmcRecipe,
    PoseRecipe, RateRecipe, StartRecipe,
};

use crate::option_values::{Exposure, FreeSpace, NearPlane, RandomBackground, Strategy};

/// Steps between two changes of the set of splats in runs of at least [`FULL_CADENCE_STEPS`] steps.
const DENSITY_CADENCE: u64 = 100;
/// Shorter runs change the set proportionally more often, so that they have as many changes as a run of this length.
const FULL_CADENCE_STEPS: u64 = 3_000;
/// Steps between two changes of the set in a run of `steps` steps, by default.
pub(crate) fn automatic_cadence(steps: u64) -> u64 {
    (steps * DENSITY_CADENCE / FULL_CADENCE_STEPS).clamp(1, DENSITY_CADENCE)
}

/// No opacity reset after this fraction of the run: opacities need time to come back.
const LAST_RESET: f64 = 0.75;
/// Minimum side of a downsampled image, px.
pub const MIN_SIDE: u32 = 48;
/// Fraction of the run between two raises of the SH degree: 1,000 of 30,000 iterations (Kerbl et al. 2023, code).
const SH_INTERVAL: f64 = 1.0 / 30.0;
/// Splats of at most this opacity are relocated, and the noise fades around it (gsplat 1.6, `min_opacity`).
const DEAD_OPACITY: f32 = 0.005;
/// Fraction of a run after which all learning rates of splats fall linearly to zero. Constant rates leave every parameter a
/// step away from its optimum. Determined on 14 scenes; from 0.7 on, fine details are missing.
pub const COOLDOWN: f64 = 0.9;
/// Opacity after a reset (Kerbl et al. 2023, code).
const RESET_OPACITY: f32 = 0.01;
/// Factor by which the scales of split halves shrink: 0.8 x 2 (Kerbl et al. 2023, code).
const SPLIT_SHRINK: f32 = 1.6;

/// Everything that determines the result of a run, apart from its data. The default is blank; options are written into
/// it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipe {
    /// Steps of the whole run.
    pub steps: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Maximum number of splats.
    pub max_splats: u64,
    /// Highest SH degree.
    pub sh_degree: u8,
    /// Opacity compensation for splats smaller than a pixel.
    pub antialiased: bool,
    /// Longest list of a tile; 0 = no limit.
    pub max_splats_per_tile: u32,
    /// Depth that a splat must exceed to be drawn; see [`SceneFacts::near_plane`].
    pub near_plane: NearPlane,
    /// Fraction of the splats that a step leaves out at random.
    pub dropout: f64,
    /// Whether each step has a random background colour; see [`SceneFacts::random_background`].
    pub random_background: RandomBackground,
    /// Whether space that is known to be empty is kept empty; see [`crate::free_space`].
    pub free_space: FreeSpace,
    /// Image sizes over the run.
    pub coarse: CoarseRecipe,
    /// How the splats start.
    pub start: StartRecipe,
    /// The training loss.
    pub loss: LossRecipe,
    /// Which splats Adam updates.
    pub adam: AdamMode,
    /// Learning rates of the splats' parameters.
    pub rates: RateRecipe,
    /// When and how the set of splats changes.
    pub density: DensityRecipe,
    /// Exposure compensation per image.
    pub exposure: Option<ExposureRecipe>,
    /// Whether the vignetting of each camera is learned.
    pub vignetting: bool,
    /// Refinement of camera poses.
    pub poses: Option<PoseRecipe>,
}

/// Visits of a row in a run for which colour rates are specified. A row changes only when one of its images is drawn,
/// by about its rate: with rates in inverse proportion to the visits it changes equally far in any run.
pub const REFERENCE_VISITS: f64 = 100.0;
/// Maximum factor on rates of rows with fewer visits.
const MAX_RATE_FACTOR: f64 = 3.0;
/// Factor on the rates of gains that were not initialised from measurements, which have farther to move.
const UNMEASURED_RATE_FACTOR: f64 = 3.0;
/// Fraction by which a pose correction decays towards zero each step (gsplat 1.6, `pose_opt_reg`).
const POSE_DECAY: f32 = 1e-6;
/// Fractions of the run at which pose refinement begins and ends: gradients need splats that are roughly in place, and
/// the last steps train splats for the final poses.
const POSE_WINDOW: [f64; 2] = [0.1, 0.9];
/// Learning rates of the sky coefficients at the start and end of a run.
const SKY_RATES: [f64; 2] = [2e-2, 2e-3];
/// With random backgrounds, the sky replaces them at this fraction of the run.
const SKY_AFTER_RANDOM: f64 = 0.5;
/// Learning rates of the vignetting at the start and end of a run.
const VIGNETTING_RATES: [f64; 2] = [5e-3, 5e-4];

/// Number of rows that correct colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColourRows {
    /// Rows of gains.
    pub gains: usize,
    /// Rows of vignetting.
    pub vignetting: usize,
    /// Whether the gains are initialised from the tracks.
    pub is_measured: bool,
}

/// Facts about the scene that a recipe needs, in normalised coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SceneFacts {
    /// Size of the scene.
    pub extent: f64,
    /// Depth that a trained splat must exceed to be drawn.
    pub near_plane: f64,
    /// See [`StepParams::contraction_radius`].
    pub contraction_radius: f64,
    /// Fraction of the run after which the learning rates fall to zero; 1 = they do not.
    pub cooldown: f64,
    /// Background colour if it is not random; black with a sky.
    pub background: [f32; 3],
    /// Whether a sky is learnt.
    pub sky: bool,
    /// Whether each training step has a random background colour.
    pub random_background: bool,
    /// Number of rows that correct colours.
    pub colours: ColourRows,
    /// Whether the corrections and the sky are given, and not learnt.
    pub has_given_corrections: bool,
}

impl Default for SceneFacts {
    fn default() -> Self {
        Self {
            extent: NORMALISED_EXTENT,
            near_plane: RenderOptions::default().near_plane,
            contraction_radius: f64::INFINITY,
            cooldown: COOLDOWN,
            background: [0.0; 3],
            sky: false,
            random_background: false,
            colours: ColourRows::default(),
            has_given_corrections: false,
        }
    }
}

impl Recipe {
    /// The strategy that the density rules belong to.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        match self.density.rules {
            DensityRules::Classic(_) => Strategy::Classic,
            DensityRules::Mcmc(_) => Strategy::Mcmc,
        }
    }

    /// Whether and how colours are corrected.
    #[must_use]
    pub fn exposure_mode(&self) -> Exposure {
        self.exposure.map_or(Exposure::Off, |exposure| exposure.mode)
    }

    /// A fraction of the run as a number of steps, rounded to nearest.
    #[must_use]
    pub fn fraction_to_steps(&self, fraction: f64) -> u64 {
        (fraction * self.steps as f64).round() as u64
    }

    /// Log-linear interpolation from `start` to `end` over the run: `start^(1-t) end^t` with `t = step / steps`.
    #[must_use]
    pub fn log_linear(&self, start: f64, end: f64, step: u64) -> f64 {
        let t = step.min(self.steps) as f64 / self.steps.max(1) as f64;
        libm::exp((1.0 - t) * libm::log(start) + t * libm::log(end))
    }

    /// Learning rates at a step.
    #[must_use]
    pub fn rates(&self, step: u64, scene: &SceneFacts) -> LearningRates {
        let r = &self.rates;
        let left = 1.0 - step.min(self.steps) as f64 / self.steps.max(1) as f64;
        let factor = (left / (1.0 - scene.cooldown)).min(1.0);
        let rate = |rate: f64| (factor * rate) as f32;
        LearningRates {
            means: rate(scene.extent * self.log_linear(r.means, r.means_final, step)),
            log_scales: rate(r.scales),
            quats: rate(r.quats),
            opacity_logits: rate(r.opacities),
            sh_dc: rate(r.sh_dc),
            sh_rest: rate(r.sh_rest),
        }
    }

    /// SH degree at a step: one more at each multiple of `SH_INTERVAL`.
    #[must_use]
    pub fn sh_degree_at(&self, step: u64) -> u8 {
        let raises = step / self.fraction_to_steps(SH_INTERVAL).max(1);
        raises.min(u64::from(self.sh_degree)) as u8
    }

    /// Downsampling factor (a power of two) at a step, for images of this size.
    ///
    /// Never so large that a side is shorter than [`MIN_SIDE`].
    #[must_use]
    pub fn reduction_at(&self, step: u64, width: u32, height: u32) -> u32 {
        let doublings = self.coarse.factor.max(1).ilog2();
        let done = (0..doublings)
            .filter(|i| {
                let share = ((2u64 << i) - 1) as f64 / ((1u64 << doublings) - 1) as f64;
                step >= self.fraction_to_steps(self.coarse.until * share)
            })
            .count() as u32;
        let mut factor = 1 << (doublings - done);
        while factor > 1 && width.min(height) / factor < MIN_SIDE {
            factor /= 2;
        }
        factor
    }

    /// Background colour at a step.
    #[must_use]
    pub fn background_at(&self, step: u64, scene: &SceneFacts) -> [f32; 3] {
        if !scene.random_background || self.has_sky_at(step, scene) {
            return scene.background;
        }
        let [r, g, b, _] = rng::philox(self.seed, rng::stream::BACKGROUND, step, 0);
        [r, g, b].map(rng::uniform)
    }

    /// Whether a step renders the sky. With random backgrounds only the last part of a run does, so that splats are in
    /// place before there is a sky colour that could hide missing ones.
    fn has_sky_at(&self, step: u64, scene: &SceneFacts) -> bool {
        scene.sky && (!scene.random_background || step >= self.fraction_to_steps(SKY_AFTER_RANDOM))
    }

    /// Learning rates of the sky.
    fn sky_rates(&self, step: u64, scene: &SceneFacts) -> Option<CorrectionRates> {
        let [start, end] = SKY_RATES;
        let rate = self.log_linear(start, end, step) as f32;
        let rates = CorrectionRates { first: rate, second: rate, decay: 0.0 };
        self.has_sky_at(step, scene).then_some(rates)
    }

    /// Weight of the mean opacity in the loss at a step.
    fn opacity_regularisation_at(&self, step: u64) -> f64 {
        let is_on = step < self.fraction_to_steps(self.loss.opacity_regularisation_until);
        if is_on { self.loss.opacity_regularisation } else { 0.0 }
    }

    /// Options with which a training step renders.
    #[must_use]
    pub fn render_options_at(&self, step: u64, scene: &SceneFacts) -> RenderOptions {
        RenderOptions {
            sh_degree: self.sh_degree_at(step),
            background: self.background_at(step, scene),
            antialiased: self.antialiased,
            max_splats_per_tile: self.max_splats_per_tile,
            near_plane: self.near_plane.in_training(scene.near_plane),
            sky: self.has_sky_at(step, scene),
            splat_limit: None,
        }
    }

    /// Options with which an evaluation renders after `done` steps: as in training, on the fixed background or the sky,
    /// with the near plane of trained splats.
    #[must_use]
    pub fn eval_options(&self, done: u64, scene: &SceneFacts) -> RenderOptions {
        RenderOptions {
            sh_degree: self.sh_degree_at(done.saturating_sub(1)),
            background: scene.background,
            antialiased: self.antialiased,
            max_splats_per_tile: self.max_splats_per_tile,
            near_plane: scene.near_plane,
            sky: scene.sky,
            splat_limit: None,
        }
    }

    /// All parameters of a step except its view.
    #[must_use]
    pub fn step_params(&self, step: u64, scene: &SceneFacts) -> StepParams {
        let rates = self.rates(step, scene);
        let unless_given = |rates: Option<CorrectionRates>| rates.filter(|_| !scene.has_given_corrections);
        StepParams {
            step,
            seed: self.seed,
            render: self.render_options_at(step, scene),
            dropout: self.dropout as f32,
            dssim_weight: self.loss.dssim_weight as f32,
            rates,
            adam: self.adam,
            opacity_regularisation: self.opacity_regularisation_at(step) as f32,
            scale_regularisation: self.loss.scale_regularisation as f32,
            noise: self.noise(rates.means),
            contraction_radius: scene.contraction_radius as f32,
            statistic: self.statistic_at(step),
            exposure: unless_given(self.exposure_rates(step, &scene.colours)),
            vignetting: unless_given(self.vignetting_rates(step, scene.colours.vignetting)),
            pose: unless_given(self.pose_rates(step, scene.extent)),
            sky: unless_given(self.sky_rates(step, scene)),
        }
    }

    /// Noise on the means after a step with learning rate `means_rate` (MCMC, every step of the run).
    fn noise(&self, means_rate: f32) -> Option<PositionNoise> {
        match self.density.rules {
            DensityRules::Mcmc(mcmc) if mcmc.noise > 0.0 => Some(PositionNoise {
                scale: (mcmc.noise * f64::from(means_rate)) as f32,
                fade_opacity: DEAD_OPACITY,
            }),
            _ => None,
        }
    }

    /// The gradient statistic of classic density control, while it is active.
    fn statistic_at(&self, step: u64) -> GradientStatistic {
        match self.density.rules {
            DensityRules::Classic(classic) if step + 1 < self.fraction_to_steps(self.density.until) => {
                if classic.absolute_gradient {
                    GradientStatistic::Absolute
                } else {
                    GradientStatistic::Signed
                }
            }
            _ => GradientStatistic::Off,
        }
    }

    /// Learning rates of exposure compensation.
    fn exposure_rates(&self, step: u64, rows: &ColourRows) -> Option<CorrectionRates> {
        let exposure = self.exposure?;
        let distance = if rows.is_measured { 1.0 } else { UNMEASURED_RATE_FACTOR };
        let pace = distance * self.rate_factor(rows.gains);
        let rate = (pace * self.log_linear(exposure.rate, exposure.rate_final, step)) as f32;
        (pace > 0.0).then_some(CorrectionRates { first: rate, second: rate, decay: 0.0 })
    }

    /// Factor on the rates of `rows` rows of colours; 0 if there are none.
    fn rate_factor(&self, rows: usize) -> f64 {
        (REFERENCE_VISITS * rows as f64 / self.steps.max(1) as f64).min(MAX_RATE_FACTOR)
    }

    /// Learning rates of the vignetting.
    fn vignetting_rates(&self, step: u64, rows: usize) -> Option<CorrectionRates> {
        let pace = self.rate_factor(rows);
        let [start, end] = VIGNETTING_RATES;
        let rate = (pace * self.log_linear(start, end, step)) as f32;
        (self.vignetting && pace > 0.0).then_some(CorrectionRates { first: rate, second: rate, decay: 0.0 })
    }

    /// Learning rates of pose refinement, inside its window.
    fn pose_rates(&self, step: u64, extent: f64) -> Option<CorrectionRates> {
        let poses = self.poses?;
        let [from, until] = POSE_WINDOW.map(|fraction| self.fraction_to_steps(fraction));
        (from..until).contains(&step).then_some(CorrectionRates {
            first: (poses.rate * extent) as f32,
            second: poses.rate as f32,
            decay: POSE_DECAY,
        })
    }

    /// Steps between two changes of the set.
    #[must_use]
    pub fn density_cadence(&self) -> u64 {
        match self.density.every {
            0 => automatic_cadence(self.steps),
            every => every,
        }
    }

    /// Whether the set changes after `done` steps: inside the open window, at multiples of the cadence.
    #[must_use]
    pub fn is_density_step(&self, done: u64) -> bool {
        done > self.fraction_to_steps(self.density.from)
            && done < self.fraction_to_steps(self.density.until)
            && done.is_multiple_of(self.density_cadence())
    }

    /// The first number of steps after which the set changes, if any.
    #[must_use]
    pub fn first_density_step(&self) -> Option<u64> {
        let cadence = self.density_cadence();
        let first = (self.fraction_to_steps(self.density.from) / cadence + 1) * cadence;
        self.is_density_step(first).then_some(first)
    }

    /// Steps between two opacity resets; `None` = never.
    fn reset_interval(&self) -> Option<u64> {
        match self.density.rules {
            DensityRules::Classic(classic) if classic.reset_every > 0.0 => {
                Some(self.fraction_to_steps(classic.reset_every).max(1))
            }
            _ => None,
        }
    }

    /// Whether opacities are reset after `done` steps: never in the last quarter of the run, never after density
    /// control has stopped.
    #[must_use]
    pub fn is_reset_step(&self, done: u64) -> bool {
        let Some(interval) = self.reset_interval() else { return false };
        done > 0
            && done.is_multiple_of(interval)
            && done < self.fraction_to_steps(self.density.until)
            && done as f64 <= LAST_RESET * self.steps as f64
    }

    /// The changes of the set after `done` steps, in order.
    #[must_use]
    pub fn density_after(&self, done: u64, extent: f64) -> Vec<DensityRule> {
        let mut rules = Vec::new();
        if self.is_density_step(done) {
            rules.push(match self.density.rules {
                DensityRules::Classic(classic) => {
                    DensityRule::Classic(self.classic_rule(&classic, done, extent))
                }
                DensityRules::Mcmc(mcmc) => DensityRule::Mcmc(McmcRule {
                    seed: self.seed,
                    step: done,
                    dead_opacity: DEAD_OPACITY,
                    growth: mcmc.growth as f32,
                    max_splats: self.max_splats,
                    split_largest: mcmc.split_largest as f32,
                    reorder: true,
                }),
            });
        }
        if self.is_reset_step(done) {
            rules.push(DensityRule::ResetOpacity { max_opacity: RESET_OPACITY });
        }
        rules
    }

    fn classic_rule(&self, classic: &ClassicRecipe, done: u64, extent: f64) -> ClassicRule {
        // Large splats are removed only after a reset has shown which of them matter.
        let reset_was = self.reset_interval().is_none_or(|interval| done > interval);
        ClassicRule {
            seed: self.seed,
            step: done,
            gradient_threshold: classic.grow_gradient as f32,
            clone_scale_limit: (classic.clone_scale * extent) as f32,
            split_shrink: SPLIT_SHRINK,
            prune_opacity: classic.prune_opacity as f32,
            prune_scale: reset_was.then_some((classic.prune_scale * extent) as f32),
            prune_screen: (reset_was && classic.prune_screen > 0.0).then_some(classic.prune_screen as f32),
            max_splats: self.max_splats,
            reorder: true,
        }
    }
}
