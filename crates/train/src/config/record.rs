//! `RUN/config.toml`: the configuration of a run, and the record that the run writes about itself.

use std::path::Path;

use gausset_core::splats_transform::Similarity;
use gausset_io::dataset::Normalisation;
use gausset_io::input::absolute;
use serde::{Deserialize, Serialize};

use super::{ConfigError, TrainConfig};
use crate::option_values::Colours;
use crate::options::{self, OptionInfo, OptionsError, RECORD_TABLE, TrainOptions};

/// Whether a time budget chooses the growth of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetGrowth {
    /// It is as configured, because it was given.
    Given,
    /// It follows from the chosen splats and steps.
    Chosen,
}

/// The table `[run]` of a run's `config.toml`, written by the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunRecord {
    /// Version of Gausset.
    pub version: String,
    /// Kind of the device: `cpu`.
    pub device: String,
    /// Name of the device for display.
    pub device_name: String,
    /// Why this device was selected, if the user did not name one and there was a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_choice: Option<String>,
    /// Fingerprint of the dataset.
    pub fingerprint: String,
    /// Length and sample of the file given with `--init`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_file: Option<String>,
    /// Number of training images.
    pub train_images: u64,
    /// Number of held-out images.
    pub test_images: u64,
    /// Origin of the initial splats.
    pub start: String,
    /// Scene extent in scene units.
    pub scene_extent: f64,
    /// Near plane in scene units. Older runs have it among their options only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_plane: Option<f64>,
    /// Colour behind the splats, 0..1 per channel.
    pub background: [f32; 3],
    /// Whether the background was learnt as a sky.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sky: bool,
    /// Whether each training step had a random background colour.
    pub random_background: bool,
    /// How the colours of the images are corrected.
    pub colours: Colours,
    /// Longest side of the depth maps in px, of a run that made some for its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stereo_side: Option<u32>,
    /// Number of splats that the run started with in the background, of a run that had some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_points: Option<u64>,
    /// See [`StepParams::contraction_radius`](gausset_core::engine::StepParams::contraction_radius), in scene units; of a
    /// run that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contraction_radius: Option<f64>,
    /// Fraction of the run after which the learning rates fall to zero. Those of older runs do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown: Option<f64>,
    /// The time budget, and what it has changed, as it was before; of a run that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_budget: Option<TrainOptions>,
    /// Which block of which division the run trains, if it trains one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// What was subtracted from the coordinates of the dataset, because they are far from the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<[f64; 3]>,
    /// Coordinates of training and of checkpoints. Older runs trained in those of the dataset.
    #[serde(default)]
    pub normalisation: Normalisation,
    /// Rotation `saved_from_dataset` of all saved results (rows); it maps up to -y.
    pub up_rotation: [[f64; 3]; 3],
}

impl RunRecord {
    /// Records the options that a time budget may change.
    pub(crate) fn record_before_budget(&mut self, config: &TrainConfig, growth: BudgetGrowth) {
        let TrainOptions { time_budget, steps, max_splats, coarse_until, growth: was, .. } =
            config.to_options();
        let growth = was.filter(|_| growth == BudgetGrowth::Chosen);
        let before =
            TrainOptions { time_budget, steps, max_splats, coarse_until, growth, ..TrainOptions::default() };
        self.before_budget = Some(before);
    }

    /// `config` as it was before the time budget; unchanged without one.
    pub(crate) fn config_before_budget(&self, config: &TrainConfig) -> Result<TrainConfig, ConfigError> {
        let Some(before) = &self.before_budget else { return Ok(config.clone()) };
        let after = TrainOptions { plan: None, start_max_splats: None, ..config.to_options() };
        TrainConfig::resolve_recorded(before.clone().or(after))
    }

    /// Rotation from the axes of the dataset to those of saved results.
    #[must_use]
    pub fn saved_from_dataset(&self) -> Similarity {
        Similarity::from_rotation(self.up_rotation)
    }

    /// Transform from normalised coordinates, in which the device holds the splats, to those of saved results.
    #[must_use]
    pub fn saved_from_normalised(&self) -> Similarity {
        self.normalisation.dataset_from_normalised().then(&self.saved_from_dataset())
    }
}

/// The `config.toml` of a run as read back.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// The resolved configuration of the run.
    pub config: TrainConfig,
    /// The record of the run.
    pub record: RunRecord,
}

impl RecordedRun {
    /// The text of `config.toml`.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Everything needed to repeat this run: `gausset train --config config.toml -o NEW_FOLDER`\n",
        );
        // Neither call can fail: keys are strings, and paths were checked to be Unicode when the options were resolved.
        text.push_str(&toml::to_string(&self.config.to_options()).unwrap_or_default());
        let record = toml::Table::try_from(&self.record).unwrap_or_default();
        let record = toml::Table::from_iter([(RECORD_TABLE.to_owned(), toml::Value::Table(record))]);
        text.push('\n');
        text.push_str(&toml::to_string(&record).unwrap_or_default());
        text
    }

    /// Reads the `config.toml` of a run.
    ///
    /// # Errors
    /// As [`TrainOptions::read`] and [`TrainConfig::resolve`]; no valid table `[run]`.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::from_toml(&options::read_text(path)?, path)
    }

    /// As [`Self::read`], from text; `path` is used in messages.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn from_toml(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let options = TrainOptions::from_toml(text, path)?;
        let bad = |what: String| {
            ConfigError::File(OptionsError::Value {
                path: path.to_owned(),
                key: RECORD_TABLE.to_owned(),
                what,
            })
        };
        let record = options::parse_table(text, path)?.remove(RECORD_TABLE).ok_or_else(|| {
            bad("no such table (expected what the run recorded: not a run's config.toml)".to_owned())
        })?;
        let record: RunRecord =
            record.try_into().map_err(|error: toml::de::Error| bad(error.message().trim_end().to_owned()))?;
        // After the record: a file without one is not that of a run, which is the error to report first.
        let config = TrainConfig::resolve_recorded(options)?;
        let numbers = record.up_rotation.iter().flatten().copied();
        let numbers = numbers.chain(record.offset.into_iter().flatten());
        let numbers = numbers.chain(record.background.map(f64::from)).chain([record.scene_extent]);
        let Normalisation { centre, unit } = record.normalisation;
        let numbers =
            numbers.chain(centre).chain([unit]).chain(record.near_plane).chain(record.contraction_radius);
        if !numbers.into_iter().all(f64::is_finite) {
            return Err(bad("a number is not finite".to_owned()));
        }
        let lengths = [
            ("near-plane", record.near_plane),
            ("contraction-radius", record.contraction_radius),
            ("normalisation: unit", Some(unit)),
        ];
        for (key, length) in lengths {
            if let Some(length) = length.filter(|length| *length <= 0.0) {
                return Err(bad(format!("{key}: expected more than 0, found {length}")));
            }
        }
        if let Some(cooldown) = record.cooldown.filter(|cooldown| !(0.0..=1.0).contains(cooldown)) {
            return Err(bad(format!("cooldown: expected 0..1, found {cooldown}")));
        }
        Ok(Self { config, record })
    }

    /// The run as it was before its time budget chose steps and splats; unchanged without one.
    ///
    /// # Errors
    /// What the run has recorded of that is invalid.
    pub fn before_budget(self) -> Result<Self, ConfigError> {
        let config = self.record.config_before_budget(&self.config)?;
        Ok(Self { config, ..self })
    }

    /// The configuration with which the run resumes if `given` is on the command line: limits, outputs and the location
    /// of the data may change. The options of a run with a time budget are also those with which it was started.
    ///
    /// # Errors
    /// Options differ from the run's and would change its result (all are listed); an option has no effect.
    pub fn resumed_with(&self, given: &TrainOptions, config_path: &Path) -> Result<TrainConfig, ConfigError> {
        let recorded = self.config.to_options();
        let given = match &self.record.before_budget {
            Some(before) if before.time_budget == given.time_budget => given.clone().otherwise_than(before),
            _ => given.clone(),
        };
        let resumed = TrainConfig::resolve_resumed(&with_paths_as(&recorded, given), &recorded)?;
        let differences = self.differences(&resumed);
        if differences.is_empty() {
            Ok(resumed)
        } else {
            Err(ConfigError::Differs { config: config_path.to_owned(), differences })
        }
    }

    /// Options that affect the result and differ in `config`, each as `steps = 7000 (given: 300)`. Two spellings of one
    /// path are equal.
    #[must_use]
    pub fn differences(&self, config: &TrainConfig) -> Vec<String> {
        let recorded = self.config.to_options();
        let (before, after) =
            (recorded.given_values(), with_paths_as(&recorded, config.to_options()).given_values());
        let value_in = |list: &[(String, toml::Value)], key: &str| {
            list.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone())
        };
        let show = |value: Option<toml::Value>| value.map_or("nothing".to_owned(), |v| v.to_string());
        let bound = TrainOptions::table().into_iter().filter(|option| !option.is_free_on_resume);
        bound
            .filter_map(|OptionInfo { name, .. }| {
                let (was, is) = (value_in(&before, name), value_in(&after, name));
                (was != is).then(|| format!("{name} = {} (given: {})", show(was), show(is)))
            })
            .collect()
    }
}

/// `given` with every path spelled as in `recorded` if both refer to the same location, and absolute otherwise: a run
/// records absolute paths, users give relative ones.
fn with_paths_as(recorded: &TrainOptions, mut given: TrainOptions) -> TrainOptions {
    let mut recorded = recorded.clone();
    for (path, known) in given.paths().zip(recorded.paths()) {
        let Some(path) = path else { continue };
        match known {
            Some(known) if is_same_path(path, known) => path.clone_from(known),
            _ => *path = absolute(path),
        }
    }
    given
}

/// Whether two paths refer to the same location: `photos`, `./photos/`, `/home/me/photos` and links to it.
fn is_same_path(a: &Path, b: &Path) -> bool {
    // Paths compare by component, so a trailing slash does not matter.
    absolute(a) == absolute(b)
        || std::fs::canonicalize(a).is_ok_and(|a| std::fs::canonicalize(b).is_ok_and(|b| a == b))
}
