//! `TrainConfig`: the options of a run, resolved once and checked.
//!
//! ```text
//! built-in < strategy < quality < config file < command line  ─▶  TrainConfig  ⇄  RUN/config.toml
//! ```
//! Presets are data: [`defaults`], [`strategy_defaults`] and [`quality_defaults`] are ordinary [`TrainOptions`], and a
//! further preset is one more layer between them and the config file. `RUN/config.toml` holds every option under its
//! own name, so it is itself a config file (`--config RUN/config.toml` repeats the run), and a table `[run]` with the
//! run's record.

mod defaults;
mod error;
mod ineffective;
mod record;

use std::path::{Path, PathBuf};

use gausset_io::dataset::{self, AlphaMode, Dataset, OpenOptions};

pub use defaults::{DatasetFacts, defaults, equivalent_views, quality_defaults, strategy_defaults};
pub(crate) use defaults::{full_size_at, growth};
pub use error::ConfigError;
pub(crate) use ineffective::Requirement;
pub use record::{BudgetGrowth, RecordedRun, RunRecord};

use crate::block::Blocks;
use crate::memory::MemoryPlan;
use crate::option_values::{
    Alpha, Background, MemoryLimit, Panoramas, Quality, SpzFrame, Strategy, TimeBudget, Up,
};
use crate::options::TrainOptions;
use crate::plan::StepPlan;
use crate::recipe::Recipe;

/// The complete configuration of a training run.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainConfig {
    /// Images and how they are read.
    pub data: DataConfig,
    /// Colour behind the splats.
    pub background: Background,
    /// Which direction is up in the saved scene.
    pub up: Up,
    /// The preset that filled in options that were not given; their values are in the other fields.
    pub quality: Quality,
    /// Everything that determines the result. Its steps are those of the schedules, which equal the run's unless it has
    /// a time budget.
    pub recipe: Recipe,
    /// Maps steps of the run to steps of the schedules.
    pub plan: StepPlan,
    /// Whether the scene is trained in blocks.
    pub blocks: Blocks,
    /// Seconds that the run may take.
    pub time_budget: TimeBudget,
    /// Resources that the run may use; they do not affect the result.
    pub limits: Limits,
    /// Output files and intervals; they do not affect the result.
    pub outputs: Outputs,
}

/// Images and how they are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataConfig {
    /// Folder of the dataset, or its JSON file.
    pub path: PathBuf,
    /// Image folder; `None` = the one that the dataset names.
    pub images: Option<PathBuf>,
    /// Mask folder; `None` = `masks`, `mask` or `segmentation`.
    pub masks: Option<PathBuf>,
    /// Masks are black where pixels are kept.
    pub invert_masks: bool,
    /// Folder of the COLMAP model.
    pub sparse: Option<PathBuf>,
    /// Splats or points to start from.
    pub init: Option<PathBuf>,
    /// Axes of an SPZ file to start from that does not specify them.
    pub spz_frame: Option<SpzFrame>,
    /// Images may be outside the image folder.
    pub allow_outside: bool,
    /// Missing or unreadable images do not change the exit code.
    pub allow_missing: bool,
    /// Every n-th image is held out; 0 = none.
    pub test_every: u32,
    /// Longest side of an image in px; 0 = no limit.
    pub max_resolution: u32,
    /// Meaning of alpha channels.
    pub alpha: Alpha,
    /// How panoramas are trained on.
    pub panoramas: Panoramas,
    /// Scene extent in scene units; 0 = from the cameras.
    pub scene_extent: f64,
}

/// Resources that a run may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Threads; 0 = all available CPUs.
    pub threads: u32,
    /// Largest amount of memory that the run may use.
    pub max_memory: MemoryLimit,
}

/// Output files and intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Steps between checkpoints; 0 = no limit by steps.
    pub checkpoint_every: u64,
    /// Seconds between checkpoints; 0 = no limit by time.
    pub checkpoint_seconds: u64,
    /// Steps between evaluations; 0 = at the end only.
    pub eval_every: u64,
    /// Steps between exports; 0 = at the end only.
    pub export_every: u64,
    /// Keep the depth maps of the training images, if they are computed.
    pub keep_depth: bool,
}

impl TrainConfig {
    /// Resolves the options of command line and config file, without reading the dataset.
    ///
    /// # Errors
    /// No dataset, a value out of range, a window that is empty or out of order, an option without effect.
    pub fn resolve(command_line: &TrainOptions, file: Option<&TrainOptions>) -> Result<Self, ConfigError> {
        let given = command_line.clone().layered_over(file.cloned().unwrap_or_default());
        ineffective::reject(&given)?;
        Self::from_complete(with_defaults(given, None))
    }

    /// Resolves the given options for a dataset whose images are known. A run's own `config.toml` gives all options,
    /// and then the images change nothing.
    ///
    /// # Errors
    /// As [`Self::resolve`]; an option that has no effect on this dataset.
    pub fn resolve_for(given: &TrainOptions, dataset: &Dataset) -> Result<Self, ConfigError> {
        ineffective::reject(given)?;
        ineffective::reject_for(given, dataset)?;
        Self::from_complete(with_defaults(given.clone(), Some(DatasetFacts::from_dataset(dataset))))
    }

    /// Resolves the options that a run has recorded, which include options without effect.
    fn resolve_recorded(recorded: TrainOptions) -> Result<Self, ConfigError> {
        Self::from_complete(with_defaults(recorded, None))
    }

    /// Resolves the options of a part of a run, some of which the whole has decided, for a dataset if it is known. Those
    /// may include options without effect.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn resolve_part(options: TrainOptions, known: Option<DatasetFacts>) -> Result<Self, ConfigError> {
        Self::from_complete(with_defaults(options, known))
    }

    /// The options that the user gave, as far as they matter: those that differ from the presets for this configuration's
    /// size. For another size, the presets fill in the others again.
    pub(crate) fn given_options(&self, known: DatasetFacts) -> TrainOptions {
        let own = self.to_options();
        let TrainOptions { quality, strategy, abs_grad, steps, max_splats, blocks, .. } = own.clone();
        let size = TrainOptions {
            quality,
            strategy,
            abs_grad,
            steps,
            max_splats,
            blocks,
            ..TrainOptions::default()
        };
        let preset = with_defaults(size, Some(known));
        TrainOptions { quality, strategy, abs_grad, ..own.otherwise_than(&preset) }
    }

    /// Resolves the options for a resumed run. Options equal to the recorded ones count as not given.
    fn resolve_resumed(given: &TrainOptions, recorded: &TrainOptions) -> Result<Self, ConfigError> {
        let changed = given.clone().otherwise_than(recorded);
        let merged = changed.clone().layered_over(recorded.clone());
        ineffective::reject_if(&merged, |option| changed.gives(option))?;
        Self::resolve_recorded(merged)
    }

    /// Resolves options in which every option that has a default is given.
    fn from_complete(options: TrainOptions) -> Result<Self, ConfigError> {
        let options = options.checked()?;
        if let (Some(steps), Some(plan)) = (options.steps, &options.plan)
            && plan.end() != steps
        {
            let found = format!("{steps}, where the plan ends with {}", plan.end());
            return Err(ConfigError::Range { option: "steps", expected: "the last step of the plan", found });
        }
        let mut config = Self::blank();
        options.write_to(&mut config);
        check_density_window(&config.recipe)?;
        Ok(config)
    }

    /// A blank configuration that options are written to.
    fn blank() -> Self {
        Self {
            data: DataConfig::default(),
            background: Background::default(),
            up: Up::default(),
            quality: Quality::default(),
            recipe: Recipe::default(),
            plan: StepPlan::identity(0),
            blocks: Blocks::default(),
            time_budget: TimeBudget::default(),
            limits: Limits::default(),
            outputs: Outputs::default(),
        }
    }

    /// The plan, if it differs from one step of the schedules per step.
    pub(crate) fn custom_plan(&self) -> Option<StepPlan> {
        (!self.plan.is_identity()).then(|| self.plan.clone())
    }

    /// Sets the plan of the run, and the schedules that it is for.
    pub(crate) fn set_plan(&mut self, plan: StepPlan) {
        self.recipe.steps = plan.schedule_steps();
        self.plan = plan;
    }
}

/// The given options, completed with the defaults of all others; defaults depend on the dataset's images if they are
/// known. A rate of the poses implies that they are refined.
fn with_defaults(mut given: TrainOptions, known: Option<DatasetFacts>) -> TrainOptions {
    given.refine_poses = given.refine_poses.or(given.lr_poses.map(|_| true));
    let base = defaults();
    let strategy = given.strategy.or(base.strategy).unwrap_or(Strategy::Mcmc);
    let absolute_gradient = given.abs_grad.unwrap_or(false);
    let presets = quality_defaults(&given, known).or(strategy_defaults(strategy, absolute_gradient));
    given.or(presets).or(base)
}

/// Checks that the window of density control contains steps, unless there is none.
fn check_density_window(recipe: &Recipe) -> Result<(), ConfigError> {
    if recipe.density.until == 0.0 {
        return Ok(());
    }
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
    // A very short run may end before any change; a cadence that the user chose must take effect.
    if recipe.density.every > 0 && recipe.first_density_step().is_none() {
        return Err(density(format!(
            "no multiple of ⟨density-every⟩ {} is between steps {} and {} (expected at least one)",
            recipe.density.every,
            recipe.fraction_to_steps(recipe.density.from),
            recipe.fraction_to_steps(recipe.density.until),
        )));
    }
    Ok(())
}

impl TrainConfig {
    /// The options that resolve to this configuration; every option with an effect is given.
    #[must_use]
    pub fn to_options(&self) -> TrainOptions {
        TrainOptions::read_from(&mut self.clone())
    }

    /// The options with which this configuration opens its dataset.
    #[must_use]
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions {
            images: self.data.images.clone(),
            masks: self.data.masks.clone(),
            invert_masks: self.data.invert_masks,
            sparse: self.data.sparse.clone(),
            max_resolution: self.data.max_resolution,
            test_every: self.data.test_every as usize,
            alpha: match self.data.alpha {
                Alpha::Composite => AlphaMode::Composite,
                Alpha::Mask => AlphaMode::Mask,
            },
            panoramas: match self.data.panoramas {
                Panoramas::Cube => dataset::PanoramaTraining::Cube,
                Panoramas::Sphere => dataset::PanoramaTraining::Sphere,
            },
            scene_extent: (self.data.scene_extent > 0.0).then_some(self.data.scene_extent),
            allow_outside: self.data.allow_outside,
            offset: None,
            memory_bytes: MemoryPlan::opening_budget(self.max_memory_bytes()),
        }
    }

    /// The recipe with the splats of a block of a run in blocks, if they were equal and had nothing in common.
    #[must_use]
    pub fn least_block(&self) -> Recipe {
        let Blocks::Count(count) = self.blocks else { return self.recipe.clone() };
        Recipe { max_splats: self.recipe.max_splats.div_ceil(u64::from(count)), ..self.recipe.clone() }
    }

    /// Number of threads to use on this machine.
    #[must_use]
    pub fn threads(&self) -> usize {
        match self.limits.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads as usize,
        }
    }

    /// Memory limit on this machine in bytes: half of its memory by default.
    #[must_use]
    pub fn max_memory_bytes(&self) -> u64 {
        match self.limits.max_memory {
            MemoryLimit::Bytes(bytes) => bytes,
            MemoryLimit::Auto => memory_bytes() / 2,
        }
    }

    /// The configuration with absolute paths, so that it is valid in any working directory.
    ///
    /// # Errors
    /// The working directory no longer exists.
    pub fn with_absolute_paths(mut self) -> std::io::Result<Self> {
        let mut options = self.to_options();
        for path in options.paths().flatten() {
            *path = std::path::absolute(&*path)?;
        }
        options.write_to(&mut self);
        Ok(self)
    }

    /// The configuration with every path mapped by `name`.
    #[must_use]
    pub fn with_paths(mut self, name: impl Fn(&Path) -> PathBuf) -> Self {
        let mut options = self.to_options();
        for path in options.paths().flatten() {
            *path = name(path);
        }
        options.write_to(&mut self);
        self
    }
}

/// Memory of the machine, or of the container or batch job, in bytes; 4 GiB if the system does not report it.
fn memory_bytes() -> u64 {
    gausset_compute::machine::memory_bytes().unwrap_or(4 << 30)
}
