//! `TrainConfig`: the options of a run, resolved once and checked.
//!
//! ```text
//! built-in < strategy < quality < config file < command line  ─▶  TrainConfig  ⇄  RUN/config.toml
//! ```
//! Presets are data: [`defaults`], [`strategy_defaults`] and [`quality_defaults`] are ordinary [`TrainOptions`], and a
//! further preset is one more layer between them and the config file. `RUN/config.toml` holds every option under its own name, so it serves
//! as a config file itself (`--config RUN/config.toml` repeats the run), and a table `[run]` with what the run recorded.

mod defaults;
mod idle;
mod record;

use std::path::PathBuf;

use gausset_core::constants::MIN_NEAR_PLANE;
use gausset_core::engine::AdamMode;
use gausset_core::sh;
use gausset_io::dataset::{AlphaMode, Dataset, OpenOptions};

pub use defaults::{Known, defaults, exposure_defaults, quality_defaults, strategy_defaults};
pub use record::{RecordedRun, RunRecord};

use crate::memory::MemoryPlan;
use crate::options::{OptionsError, TrainOptions};
use crate::plan::Plan;
use crate::recipe::{
    ClassicRecipe, CoarseRecipe, DensityRecipe, DensityRules, ExposureRecipe, LossRecipe, McmcRecipe,
    PoseRecipe, RateRecipe, Recipe, StartRecipe,
};
use crate::words::{Adam, Alpha, Background, Exposure, MemoryLimit, Quality, Strategy, TimeBudget, Up};

/// A whole training configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainConfig {
    /// Which pictures, and how they are read.
    pub data: DataConfig,
    /// Colour behind the splats.
    pub background: Background,
    /// Which direction is up in the saved scene.
    pub up: Up,
    /// The preset that options nobody gave came from; they are all in the other fields.
    pub quality: Quality,
    /// What decides the result. Its steps are those of the schedules, which are the run's unless it has a time budget.
    pub recipe: Recipe,
    /// Which step of the schedules each step is.
    pub plan: Plan,
    /// Seconds that the run may take.
    pub time_budget: TimeBudget,
    /// What the run may use; without influence on the result.
    pub limits: Limits,
    /// What is written when; without influence on the result.
    pub outputs: Outputs,
}

/// Which pictures, and how they are read.
#[derive(Clone, Debug, PartialEq)]
pub struct DataConfig {
    /// The dataset.
    pub path: PathBuf,
    /// Folder of the pictures.
    pub images: Option<PathBuf>,
    /// Folder of the masks.
    pub masks: Option<PathBuf>,
    /// Folder of the COLMAP model.
    pub sparse: Option<PathBuf>,
    /// Splats or points to start from.
    pub init: Option<PathBuf>,
    /// Pictures may lie outside the picture folder.
    pub allow_outside: bool,
    /// Every n-th picture is held out; 0 = none.
    pub test_every: u32,
    /// Longest side of a picture in px; 0 = no limit.
    pub max_resolution: u32,
    /// What alpha channels mean.
    pub alpha: Alpha,
    /// Scene extent instead of the cameras'; `None` = from the cameras.
    pub scene_extent: Option<f64>,
}

/// What a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads; 0 = all processors available.
    pub threads: u32,
    /// Memory.
    pub max_memory: MemoryLimit,
}

/// What a run writes when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outputs {
    /// Steps between checkpoints; 0 = no limit by steps.
    pub checkpoint_every: u64,
    /// Seconds between checkpoints; 0 = no limit by time.
    pub checkpoint_seconds: u64,
    /// Steps between evaluations; 0 = at the end only.
    pub eval_every: u64,
    /// Steps between exports; 0 = at the end only.
    pub export_every: u64,
    /// Depth maps of the training pictures, where they are made.
    pub keep_depth: bool,
}

/// Why options do not make a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The config file cannot be used.
    #[error(transparent)]
    File(#[from] OptionsError),
    /// An option that is needed was not given.
    #[error("--{option}: not given (expected {expected})")]
    Missing {
        /// Long name.
        option: &'static str,
        /// What is needed.
        expected: &'static str,
    },
    /// A value out of range.
    #[error("--{option}: {found} is out of range (expected {expected})")]
    Range {
        /// Long name.
        option: &'static str,
        /// Values that are accepted.
        expected: &'static str,
        /// The value.
        found: String,
    },
    /// An option that the others leave without effect.
    #[error("--{option}: has no effect {why}")]
    NoEffect {
        /// Long name.
        option: &'static str,
        /// What leaves it without effect, and what to do.
        why: &'static str,
    },
    /// A window of the schedule that is empty or out of order.
    #[error("--{from_option} {from} and --{until_option} {until}: {what}")]
    Window {
        /// Long name of the beginning.
        from_option: &'static str,
        /// Beginning as a fraction of the run.
        from: f64,
        /// Long name of the end.
        until_option: &'static str,
        /// End as a fraction of the run.
        until: f64,
        /// What is wrong and what was expected.
        what: String,
    },
    /// A path that cannot be written into a config file.
    #[error(
        "--{option}: {path:?} is not Unicode (expected a path that can be written into config.toml); rename it"
    )]
    NotUnicode {
        /// Long name.
        option: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// A run that is resumed with options that would change its result.
    #[error("{}: the run was started with {}; resume without these options or start a new run", config.display(), differences.join(", "))]
    Differs {
        /// The run's `config.toml`.
        config: PathBuf,
        /// Each differing option: `steps = 7000 (given: 300)`.
        differences: Vec<String>,
    },
}

impl TrainConfig {
    /// Resolves the options of command line and config file, without a look at the dataset.
    ///
    /// # Errors
    /// No dataset, a value out of range, a window that is empty or out of order, an option that the others leave
    /// without effect.
    pub fn resolve(command_line: &TrainOptions, file: Option<&TrainOptions>) -> Result<Self, ConfigError> {
        let given = command_line.clone().over(file.cloned().unwrap_or_default());
        idle::refuse(&given)?;
        Self::from_complete(complete(given, None))
    }

    /// Resolves the options that somebody gave for a dataset whose pictures are known. A run's own `config.toml` gives
    /// all of them, and then the pictures change nothing.
    ///
    /// # Errors
    /// As [`Self::resolve`]; an option that this dataset leaves without effect.
    pub fn resolve_for(given: &TrainOptions, dataset: &Dataset) -> Result<Self, ConfigError> {
        idle::refuse(given)?;
        idle::refuse_for(given, dataset)?;
        Self::from_complete(complete(given.clone(), Some(Known::of(dataset))))
    }

    /// Resolves what a run has recorded, which holds options without effect as well.
    fn resolve_recorded(recorded: TrainOptions) -> Result<Self, ConfigError> {
        Self::from_complete(complete(recorded.or(defaults::not_recorded()), None))
    }

    /// Resolves what somebody says about a run that goes on. What is as it was recorded is not said.
    fn resolve_resumed(given: &TrainOptions, recorded: &TrainOptions) -> Result<Self, ConfigError> {
        let changed = given.clone().otherwise_than(recorded);
        let merged = changed.clone().over(recorded.clone());
        idle::refuse_those(&merged, |option| changed.gives(option))?;
        Self::resolve_recorded(merged)
    }

    /// Resolves options of which every one that has a default is given.
    fn from_complete(o: TrainOptions) -> Result<Self, ConfigError> {
        let path = need(o.data, "data", "the folder of a dataset")?;
        for (option, path) in [
            ("data", Some(&path)),
            ("images", o.images.as_ref()),
            ("masks", o.masks.as_ref()),
            ("sparse", o.sparse.as_ref()),
            ("init", o.init.as_ref()),
        ] {
            if let Some(path) = path.filter(|path| path.to_str().is_none()) {
                return Err(ConfigError::NotUnicode { option, path: path.clone() });
            }
        }
        let strategy = need(o.strategy, "strategy", "mcmc|classic")?;
        let rules = match strategy {
            Strategy::Classic => DensityRules::Classic(ClassicRecipe {
                grow_gradient: at_least_zero("grow-gradient", o.grow_gradient)?,
                absolute_gradient: flag("abs-grad", o.abs_grad)?,
                clone_scale: at_least_zero("clone-scale", o.clone_scale)?,
                prune_opacity: share("prune-opacity", o.prune_opacity)?,
                prune_scale: positive("prune-scale", o.prune_scale)?,
                prune_screen: at_least_zero("prune-screen", o.prune_screen)?,
                reset_every: share("opacity-reset-every", o.opacity_reset_every)?,
            }),
            Strategy::Mcmc => DensityRules::Mcmc(McmcRecipe {
                dead_opacity: share("dead-opacity", o.dead_opacity)?,
                growth: number("growth", o.growth, "1..2", |v| (1.0..=2.0).contains(&v))?,
                split_largest: share("split-largest", o.split_largest)?,
                noise: at_least_zero("noise", o.noise)?,
            }),
        };
        let mode = need(o.exposure, "exposure", "auto|on|off|affine")?;
        let exposure = ExposureRecipe {
            mode,
            rate: positive("lr-exposure", o.lr_exposure)?,
            rate_final: positive("lr-exposure-final", o.lr_exposure_final)?,
            decay: share("exposure-decay", o.exposure_decay)?,
        };
        let poses = PoseRecipe {
            rate: at_least_zero("lr-poses", o.lr_poses)?,
            decay: share("pose-decay", o.pose_decay)?,
            from: share("poses-from", o.poses_from)?,
            until: share("poses-until", o.poses_until)?,
        };
        let steps = whole("steps", o.steps, 1, 1_000_000_000, "1..1000000000")?;
        let plan = o.plan.unwrap_or_else(|| Plan::even(steps));
        if plan.end() != steps {
            let found = format!("{steps}, where the plan ends with {}", plan.end());
            return Err(ConfigError::Range { option: "steps", expected: "the last step of the plan", found });
        }
        let recipe = Recipe {
            // Random numbers count steps below 2^48; a run of 10^9 steps takes a year on any machine.
            steps: plan.schedule_steps(),
            // TOML has signed 64-bit integers.
            seed: whole("seed", o.seed, 0, i64::MAX as u64, "0..2^63-1")?,
            // Splats have 32-bit ids.
            max_splats: whole("max-splats", o.max_splats, 1, 1_000_000_000, "1..1000000000")?,
            sh_degree: whole("sh-degree", o.sh_degree.map(u64::from), 0, u64::from(sh::MAX_DEGREE), "0..3")?
                as u8,
            sh_every: share("sh-every", o.sh_every)?,
            antialiased: flag("antialiased", o.antialiased)?,
            max_splats_per_tile: need(o.max_splats_per_tile, "max-splats-per-tile", "a number")?,
            near_plane: number("near-plane", o.near_plane, "0.001 or more", |v| v >= MIN_NEAR_PLANE)?,
            dropout: number("dropout", o.dropout, "0 or more, less than 1", |v| (0.0..1.0).contains(&v))?,
            random_background: need(o.random_background, "random-background", "auto|always|never")?,
            free_space: need(o.free_space, "free-space", "auto|off")?,
            coarse: CoarseRecipe {
                factor: match need(o.coarse_factor, "coarse-factor", "1, 2, 4 or 8")? {
                    factor @ (1 | 2 | 4 | 8) => factor,
                    other => {
                        return Err(ConfigError::Range {
                            option: "coarse-factor",
                            expected: "1, 2, 4 or 8",
                            found: other.to_string(),
                        });
                    }
                },
                until: share("coarse-until", o.coarse_until)?,
            },
            start: StartRecipe {
                points: need(o.init_points, "init-points", "auto|sfm|dense")?,
                random_splats: whole("initial-splats", o.initial_splats, 1, 100_000_000, "1..100000000")?,
                opacity: number("initial-opacity", o.initial_opacity, "more than 0, less than 1", |v| {
                    v > 0.0 && v < 1.0
                })?,
                scale: positive("initial-scale", o.initial_scale)?,
            },
            loss: LossRecipe {
                dssim_weight: share("dssim-weight", o.dssim_weight)?,
                opacity_regularisation: at_least_zero("opacity-regularisation", o.opacity_regularisation)?,
                opacity_regularisation_until: share(
                    "opacity-regularisation-until",
                    o.opacity_regularisation_until,
                )?,
                scale_regularisation: at_least_zero("scale-regularisation", o.scale_regularisation)?,
            },
            adam: match need(o.adam, "adam", "dense|sparse")? {
                Adam::Dense => AdamMode::Dense,
                Adam::Sparse => AdamMode::Sparse,
            },
            rates: RateRecipe {
                means: positive("lr-means", o.lr_means)?,
                means_final: positive("lr-means-final", o.lr_means_final)?,
                scales: at_least_zero("lr-scales", o.lr_scales)?,
                quats: at_least_zero("lr-quats", o.lr_quats)?,
                opacities: at_least_zero("lr-opacities", o.lr_opacities)?,
                sh_dc: at_least_zero("lr-sh-dc", o.lr_sh_dc)?,
                sh_rest: at_least_zero("lr-sh-rest", o.lr_sh_rest)?,
            },
            density: DensityRecipe {
                from: share("density-from", o.density_from)?,
                until: share("density-until", o.density_until)?,
                every: need(o.density_every, "density-every", "a number of steps")?,
                rules,
            },
            exposure: (mode != Exposure::Off).then_some(exposure),
            vignetting: flag("vignetting", o.vignetting)?,
            poses: flag("refine-poses", o.refine_poses)?.then_some(poses),
        };
        check_windows(&recipe, &poses)?;
        let scene_extent = at_least_zero("scene-extent", o.scene_extent)?;
        Ok(Self {
            data: DataConfig {
                path,
                images: o.images,
                masks: o.masks,
                sparse: o.sparse,
                init: o.init,
                allow_outside: flag("allow-outside", o.allow_outside)?,
                test_every: need(o.test_every, "test-every", "a number")?,
                max_resolution: need(o.max_resolution, "max-resolution", "a number of px")?,
                alpha: need(o.alpha, "alpha", "composite|mask")?,
                scene_extent: (scene_extent > 0.0).then_some(scene_extent),
            },
            background: need(o.background, "background", "a colour")?,
            up: need(o.up, "up", "a direction")?,
            quality: need(o.quality, "quality", "fast|default|best")?,
            recipe,
            plan,
            time_budget: need(o.time_budget, "time-budget", "none, or a time")?,
            limits: Limits {
                threads: whole("threads", o.threads.map(u64::from), 0, 1024, "0..1024")? as u32,
                max_memory: need(o.max_memory, "max-memory", "an amount of memory")?,
            },
            outputs: Outputs {
                checkpoint_every: need(o.checkpoint_every, "checkpoint-every", "a number of steps")?,
                checkpoint_seconds: need(o.checkpoint_seconds, "checkpoint-seconds", "a number of seconds")?,
                eval_every: need(o.eval_every, "eval-every", "a number of steps")?,
                export_every: need(o.export_every, "export-every", "a number of steps")?,
                keep_depth: flag("keep-depth", o.keep_depth)?,
            },
        })
    }
}

/// The options that somebody gave with the defaults of all others, of a dataset's pictures where they are known.
fn complete(given: TrainOptions, known: Option<Known>) -> TrainOptions {
    let base = defaults();
    let strategy = given.strategy.or(base.strategy).unwrap_or(Strategy::Mcmc);
    let absolute_gradient = given.abs_grad.unwrap_or(false);
    let presets = quality_defaults(&given, known).or(strategy_defaults(strategy, absolute_gradient));
    let presets = presets.or(exposure_defaults(given.exposure));
    given.or(presets).or(base)
}

/// Checks that the windows of density control and pose refinement hold steps.
fn check_windows(recipe: &Recipe, poses: &PoseRecipe) -> Result<(), ConfigError> {
    let density = |what: String| ConfigError::Window {
        from_option: "density-from",
        from: recipe.density.from,
        until_option: "density-until",
        until: recipe.density.until,
        what,
    };
    if recipe.density.from >= recipe.density.until {
        return Err(density(
            "the window of density control is empty or out of order (expected from < until)".to_owned(),
        ));
    }
    // A very short run may end before anything could change; a cadence that somebody chose should not.
    if recipe.density.every > 0 && recipe.first_density_step().is_none() {
        return Err(density(format!(
            "no multiple of --density-every {} lies between steps {} and {} (expected at least one)",
            recipe.density.every,
            recipe.steps_of(recipe.density.from),
            recipe.steps_of(recipe.density.until),
        )));
    }
    if recipe.poses.is_some() && poses.from >= poses.until {
        return Err(ConfigError::Window {
            from_option: "poses-from",
            from: poses.from,
            until_option: "poses-until",
            until: poses.until,
            what: "the window of pose refinement is empty or out of order (expected from < until)".to_owned(),
        });
    }
    Ok(())
}

fn need<T>(value: Option<T>, option: &'static str, expected: &'static str) -> Result<T, ConfigError> {
    value.ok_or(ConfigError::Missing { option, expected })
}

fn flag(option: &'static str, value: Option<bool>) -> Result<bool, ConfigError> {
    need(value, option, "true|false")
}

fn number(
    option: &'static str,
    value: Option<f64>,
    expected: &'static str,
    accepts: impl Fn(f64) -> bool,
) -> Result<f64, ConfigError> {
    let value = need(value, option, expected)?;
    // Numbers travel as f32 to the device: what overflows there is not a number either.
    if (value as f32).is_finite() && accepts(value) {
        // -0 and 0 are one number, and only one of them is written back as it was.
        Ok(value + 0.0)
    } else {
        Err(ConfigError::Range { option, expected, found: gausset_io::units::number(value) })
    }
}

fn share(option: &'static str, value: Option<f64>) -> Result<f64, ConfigError> {
    number(option, value, "0..1", |v| (0.0..=1.0).contains(&v))
}

fn at_least_zero(option: &'static str, value: Option<f64>) -> Result<f64, ConfigError> {
    number(option, value, "0 or more", |v| v >= 0.0)
}

fn positive(option: &'static str, value: Option<f64>) -> Result<f64, ConfigError> {
    number(option, value, "more than 0", |v| v > 0.0)
}

fn whole(
    option: &'static str,
    value: Option<u64>,
    low: u64,
    high: u64,
    expected: &'static str,
) -> Result<u64, ConfigError> {
    let value = need(value, option, expected)?;
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(ConfigError::Range { option, expected, found: value.to_string() })
    }
}

impl TrainConfig {
    /// The options that resolve to this configuration: every one that has an influence is given.
    #[must_use]
    pub fn to_options(&self) -> TrainOptions {
        let (data, recipe) = (&self.data, &self.recipe);
        let mut o = TrainOptions {
            data: Some(data.path.clone()),
            images: data.images.clone(),
            masks: data.masks.clone(),
            sparse: data.sparse.clone(),
            init: data.init.clone(),
            allow_outside: Some(data.allow_outside),
            test_every: Some(data.test_every),
            max_resolution: Some(data.max_resolution),
            alpha: Some(data.alpha),
            background: Some(self.background),
            random_background: Some(recipe.random_background),
            free_space: Some(recipe.free_space),
            steps: Some(self.plan.end()),
            time_budget: Some(self.time_budget),
            plan: (!self.plan.is_even()).then(|| self.plan.clone()),
            seed: Some(recipe.seed),
            quality: Some(self.quality),
            coarse_factor: Some(recipe.coarse.factor),
            coarse_until: Some(recipe.coarse.until),
            strategy: Some(recipe.strategy()),
            max_splats: Some(recipe.max_splats),
            sh_degree: Some(recipe.sh_degree),
            sh_every: Some(recipe.sh_every),
            antialiased: Some(recipe.antialiased),
            max_splats_per_tile: Some(recipe.max_splats_per_tile),
            near_plane: Some(recipe.near_plane),
            dropout: Some(recipe.dropout),
            init_points: Some(recipe.start.points),
            initial_splats: Some(recipe.start.random_splats),
            initial_opacity: Some(recipe.start.opacity),
            initial_scale: Some(recipe.start.scale),
            dssim_weight: Some(recipe.loss.dssim_weight),
            opacity_regularisation: Some(recipe.loss.opacity_regularisation),
            opacity_regularisation_until: Some(recipe.loss.opacity_regularisation_until),
            scale_regularisation: Some(recipe.loss.scale_regularisation),
            adam: Some(match recipe.adam {
                AdamMode::Dense => Adam::Dense,
                AdamMode::Sparse => Adam::Sparse,
            }),
            lr_means: Some(recipe.rates.means),
            lr_means_final: Some(recipe.rates.means_final),
            lr_scales: Some(recipe.rates.scales),
            lr_quats: Some(recipe.rates.quats),
            lr_opacities: Some(recipe.rates.opacities),
            lr_sh_dc: Some(recipe.rates.sh_dc),
            lr_sh_rest: Some(recipe.rates.sh_rest),
            density_from: Some(recipe.density.from),
            density_until: Some(recipe.density.until),
            density_every: Some(recipe.density.every),
            exposure: Some(recipe.exposure.map_or(Exposure::Off, |exposure| exposure.mode)),
            vignetting: Some(recipe.vignetting),
            refine_poses: Some(recipe.poses.is_some()),
            scene_extent: Some(data.scene_extent.unwrap_or(0.0)),
            up: Some(self.up),
            threads: Some(self.limits.threads),
            max_memory: Some(self.limits.max_memory),
            checkpoint_every: Some(self.outputs.checkpoint_every),
            checkpoint_seconds: Some(self.outputs.checkpoint_seconds),
            eval_every: Some(self.outputs.eval_every),
            export_every: Some(self.outputs.export_every),
            keep_depth: Some(self.outputs.keep_depth),
            ..TrainOptions::default()
        };
        match recipe.density.rules {
            DensityRules::Classic(classic) => {
                o.grow_gradient = Some(classic.grow_gradient);
                o.abs_grad = Some(classic.absolute_gradient);
                o.clone_scale = Some(classic.clone_scale);
                o.prune_opacity = Some(classic.prune_opacity);
                o.prune_scale = Some(classic.prune_scale);
                o.prune_screen = Some(classic.prune_screen);
                o.opacity_reset_every = Some(classic.reset_every);
            }
            DensityRules::Mcmc(mcmc) => {
                o.dead_opacity = Some(mcmc.dead_opacity);
                o.growth = Some(mcmc.growth);
                o.split_largest = Some(mcmc.split_largest);
                o.noise = Some(mcmc.noise);
            }
        }
        if let Some(exposure) = recipe.exposure {
            o.lr_exposure = Some(exposure.rate);
            o.lr_exposure_final = Some(exposure.rate_final);
            o.exposure_decay = Some(exposure.decay);
        }
        if let Some(poses) = recipe.poses {
            o.lr_poses = Some(poses.rate);
            o.pose_decay = Some(poses.decay);
            o.poses_from = Some(poses.from);
            o.poses_until = Some(poses.until);
        }
        o
    }

    /// How the dataset of this configuration is opened.
    #[must_use]
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions {
            images: self.data.images.clone(),
            masks: self.data.masks.clone(),
            sparse: self.data.sparse.clone(),
            max_resolution: self.data.max_resolution,
            test_every: self.data.test_every as usize,
            alpha: match self.data.alpha {
                Alpha::Composite => AlphaMode::Composite,
                Alpha::Mask => AlphaMode::Mask,
            },
            scene_extent: self.data.scene_extent,
            allow_outside: self.data.allow_outside,
            memory_bytes: MemoryPlan::opening_budget(self.max_memory_bytes()),
        }
    }

    /// Threads to use on this machine.
    #[must_use]
    pub fn threads(&self) -> usize {
        match self.limits.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads as usize,
        }
    }

    /// Bytes of memory to stay within on this machine: half of it unless told otherwise.
    #[must_use]
    pub fn max_memory_bytes(&self) -> u64 {
        match self.limits.max_memory {
            MemoryLimit::Bytes(bytes) => bytes,
            MemoryLimit::Auto => physical_memory_bytes() / 2,
        }
    }

    /// The configuration with all its paths absolute, so that it means the same in another working folder.
    ///
    /// # Errors
    /// The working folder is gone.
    pub fn with_absolute_paths(mut self) -> std::io::Result<Self> {
        let data = &mut self.data;
        let optional = [&mut data.images, &mut data.masks, &mut data.sparse, &mut data.init];
        for path in optional.into_iter().flatten().chain([&mut data.path]) {
            *path = std::path::absolute(&*path)?;
        }
        Ok(self)
    }
}

/// Physical memory of the machine, or of nothing better than 4 GiB where the system does not tell.
fn physical_memory_bytes() -> u64 {
    gausset_compute::machine::memory_bytes().unwrap_or(4 << 30)
}
