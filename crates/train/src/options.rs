//! `TrainOptions`: every option of a training run, each of them optional.
//!
//! This is the low-level form: what a command line, a config file or a preset says, and nothing about what it leaves
//! out. Layers are combined with [`TrainOptions::or`] and resolved once into a [`crate::TrainConfig`]. A key of a
//! config file is the long name of the option (`max-splats`), so the table below is the only list of names.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::words::{
    Adam, Alpha, Background, Exposure, FreeSpace, InitPoints, MemoryLimit, Quality, RandomBackground,
    Strategy, TimeBudget, Up,
};

/// Largest config file that is read, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Table of a config file that holds what a run recorded about itself; options are never read from it.
pub const RECORD_TABLE: &str = "run";

/// What a run records about its start when that was random splats.
const RANDOM_START: &str = " random splats in ";

/// Defines the options once: the struct, its keys, and the combination of layers.
macro_rules! options {
    ($($(#[$meta:meta])* $name:ident: $type:ty,)+) => {
        /// Options of a training run as given by one source; `None` = not given.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub struct TrainOptions {
            $(
                $(#[$meta])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $name: Option<$type>,
            )+
        }

        /// Field names in the order of the definition.
        const FIELDS: &[&str] = &[$(stringify!($name)),+];

        impl TrainOptions {
            /// What `self` says, and where it says nothing, what `lower` says.
            #[must_use]
            pub fn or(self, lower: Self) -> Self {
                Self { $($name: self.$name.or(lower.$name),)+ }
            }

            /// What `self` says otherwise than `other`.
            pub(crate) fn otherwise_than(self, other: &Self) -> Self {
                Self { $($name: self.$name.filter(|value| other.$name.as_ref() != Some(value)),)+ }
            }

            /// Whether the option of this long name is given.
            pub(crate) fn gives(&self, key: &str) -> bool {
                $((is_key_of(stringify!($name), key) && self.$name.is_some()))||+
            }

            /// Takes the option of this long name back.
            pub(crate) fn clear(&mut self, key: &str) {
                $(if is_key_of(stringify!($name), key) {
                    self.$name = None;
                })+
            }
        }
    };
}

/// Whether a field has this long name.
fn is_key_of(field: &str, key: &str) -> bool {
    field.bytes().map(|b| if b == b'_' { b'-' } else { b }).eq(key.bytes())
}

options! {
    /// The dataset: a folder or a `transforms.json`.
    data: PathBuf,
    /// Folder of the pictures, when it is not where the dataset says.
    images: PathBuf,
    /// Folder of the masks.
    masks: PathBuf,
    /// Folder of the COLMAP model.
    sparse: PathBuf,
    /// Splats or points to start from.
    init: PathBuf,
    /// Pictures may lie outside the picture folder.
    allow_outside: bool,
    /// Every n-th picture is held out; 0 = none.
    test_every: u32,
    /// Longest side of a picture in px; larger ones are downscaled; 0 = no limit.
    max_resolution: u32,
    /// What alpha channels mean.
    alpha: Alpha,
    /// Colour behind the splats.
    background: Background,
    /// Whether each step has a background colour of its own.
    random_background: RandomBackground,
    /// Whether space that is known to be empty is kept empty.
    free_space: FreeSpace,

    /// The preset from which options come that nobody gave.
    quality: Quality,
    /// Steps of the whole run; all schedules scale with it.
    steps: u64,
    /// Wall time that the run may take, from which it finds its steps.
    time_budget: TimeBudget,
    /// Decisions of a run with a time budget, with which it can be repeated ([`crate::Plan`]).
    plan: Plan,
    /// Seed of all random numbers.
    seed: u64,
    /// Pictures start at one part in so many of their size: 1, 2, 4 or 8.
    coarse_factor: u32,
    /// Fraction of the run after which pictures have their full size.
    coarse_until: f64,
    /// Strategy of density control.
    strategy: Strategy,
    /// Largest number of splats.
    max_splats: u64,
    /// Highest SH degree.
    sh_degree: u8,
    /// Fraction of the run between two raises of the SH degree.
    sh_every: f64,
    /// Opacity compensation for splats smaller than a pixel.
    antialiased: bool,
    /// Longest list of a tile, nearest first; 0 = no limit.
    max_splats_per_tile: u32,
    /// Depth that a splat must exceed to be drawn.
    near_plane: f64,
    /// Share of the splats that a step leaves out at random.
    dropout: f64,
    /// Which points splats start from.
    init_points: InitPoints,
    /// Random splats at the start of a dataset without points.
    initial_splats: u64,
    /// Opacity of splats that start from points.
    initial_opacity: f64,
    /// Factor on the neighbour distance that gives the starting scale.
    initial_scale: f64,
    /// Share of D-SSIM in the loss.
    dssim_weight: f64,
    /// Weight of the mean opacity in the loss.
    opacity_regularisation: f64,
    /// The same ends at this fraction of the run.
    opacity_regularisation_until: f64,
    /// Weight of the mean scale in the loss.
    scale_regularisation: f64,

    /// Which splats Adam moves.
    adam: Adam,
    /// Rate of the means at the start, in scene extents.
    lr_means: f64,
    /// Rate of the means at the end, in scene extents.
    lr_means_final: f64,
    /// Rate of the log scales.
    lr_scales: f64,
    /// Rate of the quaternions.
    lr_quats: f64,
    /// Rate of the opacity logits.
    lr_opacities: f64,
    /// Rate of SH coefficient 0.
    lr_sh_dc: f64,
    /// Rate of the other SH coefficients.
    lr_sh_rest: f64,

    /// Density control begins after this fraction of the run.
    density_from: f64,
    /// Density control ends at this fraction of the run.
    density_until: f64,
    /// Steps between two changes of the set; 0 = 100, fewer for short runs.
    density_every: u64,
    /// Classic: mean screen gradient above which a splat grows.
    grow_gradient: f64,
    /// Classic: use absolute pixel gradients for growth.
    abs_grad: bool,
    /// Classic: largest scale of a splat that is cloned rather than split, in scene extents.
    clone_scale: f64,
    /// Classic: splats of lower opacity are removed.
    prune_opacity: f64,
    /// Classic: splats with a larger scale (scene extents) are removed after the first opacity reset.
    prune_scale: f64,
    /// Classic: splats with a larger screen radius (px) are removed; 0 = off.
    prune_screen: f64,
    /// Classic: fraction of the run between two opacity resets; 0 = never.
    opacity_reset_every: f64,
    /// MCMC: splats of at most this opacity are dead and are relocated.
    dead_opacity: f64,
    /// MCMC: growth of the set per change.
    growth: f64,
    /// MCMC: this share of the splats, the largest, are split along their longest axis instead of being copied.
    split_largest: f64,
    /// MCMC: noise on the means, as a multiple of their rate.
    noise: f64,

    /// Correct the colours of each picture.
    exposure: Exposure,
    /// Rate of the colour corrections at the start, for 100 visits of a picture.
    lr_exposure: f64,
    /// Rate of the colour corrections at the end.
    lr_exposure_final: f64,
    /// Share by which a colour correction returns to the identity each step.
    exposure_decay: f64,
    /// Learn the vignetting of each camera.
    vignetting: bool,
    /// Refine the camera poses.
    refine_poses: bool,
    /// Rate of the poses: radians, and scene extents for the position.
    lr_poses: f64,
    /// Share by which a pose correction returns to zero each step.
    pose_decay: f64,
    /// Refinement begins at this fraction of the run.
    poses_from: f64,
    /// Refinement ends at this fraction of the run.
    poses_until: f64,

    /// Scene extent in scene units instead of the cameras'; 0 = from the cameras.
    scene_extent: f64,
    /// Which direction is up in the saved scene.
    up: Up,

    /// Threads; 0 = all processors available.
    threads: u32,
    /// Memory to stay within.
    max_memory: MemoryLimit,
    /// Steps between checkpoints; 0 = no limit by steps.
    checkpoint_every: u64,
    /// Seconds between checkpoints; 0 = no limit by time.
    checkpoint_seconds: u64,
    /// Steps between evaluations on held-out views; 0 = at the end only.
    eval_every: u64,
    /// Steps between exports of `splats.ply`; 0 = at the end only.
    export_every: u64,
    /// Depth maps are kept in the run folder.
    keep_depth: bool,
}

/// Options that a resumed run may change: none of them has an influence on the result.
pub const FREE_ON_RESUME: [&str; 7] =
    ["data", "threads", "max-memory", "checkpoint-every", "checkpoint-seconds", "eval-every", "export-every"];

/// Why a config file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// It could not be read.
    #[error("{}: read: {}", path.display(), gausset_io::atomic::plain_reason(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// It is not TOML.
    #[error("{}: line {line}: {what} (expected TOML: `key = value` lines)", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A key that is no option.
    #[error("{}: {key}: no such option{}", path.display(), nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The option whose name is most like it, if any is.
        nearest: Option<String>,
    },
    /// A value of the wrong type or form.
    #[error("{}: {key}: {what}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong.
        what: String,
    },
}

impl TrainOptions {
    /// The long names of all options, in the order of the documentation.
    pub fn keys() -> impl Iterator<Item = String> {
        FIELDS.iter().map(|field| field.replace('_', "-"))
    }

    /// The option whose name is most like `key`, if any is near enough to be meant.
    #[must_use]
    pub fn nearest_key(key: &str) -> Option<String> {
        let (distance, nearest) =
            Self::keys().map(|known| (edit_distance(key, &known), known)).min_by_key(|(d, _)| *d)?;
        // A third of the letters wrong is a typing error; more is another word.
        (distance <= key.chars().count().max(3) / 3).then_some(nearest)
    }

    /// Reads a config file that somebody names. One that a run has written, with a table `[run]`, holds everything that
    /// the run resolved: what has no effect there is left out, because nobody gave it.
    ///
    /// # Errors
    /// A file that cannot be read or is not TOML, an unknown key, a value of the wrong type.
    pub fn read(path: &Path) -> Result<Self, OptionsError> {
        Self::from_config_file(&read_text(path)?, path)
    }

    /// As [`Self::read`], from text; `path` is for messages.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn from_config_file(text: &str, path: &Path) -> Result<Self, OptionsError> {
        let mut options = Self::from_toml(text, path)?;
        let Some(record) = parse_table(text, path)?.remove(RECORD_TABLE) else { return Ok(options) };
        let start = record.get("start").and_then(toml::Value::as_str).unwrap_or_default();
        if !start.contains(RANDOM_START) {
            options.initial_splats = None;
        }
        Ok(options.without_idle())
    }

    /// Options from the text of a config file, all of them; a table `[run]` is skipped. `path` is for messages.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn from_toml(text: &str, path: &Path) -> Result<Self, OptionsError> {
        let table = parse_table(text, path)?;
        let mut options = Self::default();
        for (key, value) in table {
            if key == RECORD_TABLE {
                continue;
            }
            if !Self::keys().any(|known| known == key) {
                let nearest = Self::nearest_key(&key);
                return Err(OptionsError::UnknownKey { path: path.to_owned(), key, nearest });
            }
            // One key at a time, so that the message can name it.
            let single = toml::Table::from_iter([(key.clone(), value)]);
            let one: Self = single.try_into().map_err(|error: toml::de::Error| OptionsError::Value {
                path: path.to_owned(),
                key,
                what: error.message().trim_end().to_owned(),
            })?;
            options = options.or(one);
        }
        Ok(options)
    }

    /// The options that are given, by key, as values that compare equal when the options do.
    #[must_use]
    pub fn given(&self) -> Vec<(String, toml::Value)> {
        match toml::Value::try_from(self) {
            Ok(toml::Value::Table(table)) => table.into_iter().collect(),
            // Only paths that are not Unicode cannot be told in TOML; `TrainConfig` refuses them.
            _ => Vec::new(),
        }
    }
}

/// Reads a text file of bounded size.
pub(crate) fn read_text(path: &Path) -> Result<String, OptionsError> {
    let io = |source| OptionsError::Io { path: path.to_owned(), source };
    let bytes = gausset_io::input::read(path, MAX_CONFIG_BYTES).map_err(io)?;
    String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&b| b == b'\n').count();
        OptionsError::Syntax { path: path.to_owned(), line, what: "not UTF-8 text".to_owned() }
    })
}

/// Parses TOML, with the line in the error.
pub(crate) fn parse_table(text: &str, path: &Path) -> Result<toml::Table, OptionsError> {
    text.parse::<toml::Table>().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        OptionsError::Syntax {
            path: path.to_owned(),
            line: 1 + text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count(),
            what: error.message().lines().next().unwrap_or_default().to_owned(),
        }
    })
}

/// Levenshtein's distance: insertions, deletions and replacements that turn one word into the other.
fn edit_distance(a: &str, b: &str) -> usize {
    // Keys of hostile files can be as long as the file; no option is.
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TrainOptions, OptionsError> {
        TrainOptions::from_toml(text, Path::new("my.toml"))
    }

    #[test]
    fn a_config_file_says_options_by_their_long_names() {
        let options =
            parse("steps = 300\nmax-splats = 5000\nstrategy = 'classic'\nup = '-y'\n[run]\nx = 1\n").unwrap();
        assert_eq!(options.steps, Some(300));
        assert_eq!(options.max_splats, Some(5000));
        assert_eq!(options.strategy, Some(Strategy::Classic));
        assert_eq!(options.up, Some(Up::MinusY));
        assert_eq!(options.seed, None);
    }

    #[test]
    fn the_upper_layer_wins_and_the_lower_fills_in() {
        let upper = TrainOptions { steps: Some(1), ..Default::default() };
        let lower = TrainOptions { steps: Some(2), seed: Some(3), ..Default::default() };
        let both = upper.or(lower);
        assert_eq!((both.steps, both.seed), (Some(1), Some(3)));
    }

    #[test]
    fn mistakes_are_named_with_file_key_and_what_to_do() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            message("max-splat = 5"),
            "my.toml: max-splat: no such option; did you mean `max-splats`?"
        );
        assert_eq!(message("bananas-in-pyjamas = 5"), "my.toml: bananas-in-pyjamas: no such option");
        assert_eq!(message("strategy = 'mcm'"), "my.toml: strategy: expected mcmc|classic, found `mcm`");
        assert!(message("steps = 'many'").starts_with("my.toml: steps: invalid type: string"));
        assert!(message("steps = -1").starts_with("my.toml: steps: "));
        assert!(message("seed = 1\nsteps = = 3").starts_with("my.toml: line 2: "));
        assert!(message("seed = 1\nseed = 2").starts_with("my.toml: line 2: "));
    }

    #[test]
    fn every_key_is_accepted_by_its_own_name() {
        for key in TrainOptions::keys() {
            // A table is no option's type, so a known key fails on its value and an unknown one on its name.
            let err = parse(&format!("{key} = {{}}")).unwrap_err();
            assert!(matches!(err, OptionsError::Value { .. }), "{key}: {err}");
        }
        assert!(FREE_ON_RESUME.iter().all(|free| TrainOptions::keys().any(|key| key == *free)));
    }
}
