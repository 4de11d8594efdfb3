//! `RUN/config.toml`: the configuration of a run, and what the run recorded about itself.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{ConfigError, TrainConfig};
use crate::options::{self, OptionInfo, OptionsError, RECORD_TABLE, TrainOptions};
use crate::words::Colours;

/// What a run records about itself in the table `[run]` of its `config.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunRecord {
    /// Version of Gausset.
    pub version: String,
    /// Kind of the device: `cpu`.
    pub device: String,
    /// The device for people.
    pub device_name: String,
    /// Why it was this one, where nobody had named it and there was a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_choice: Option<String>,
    /// Fingerprint of the dataset.
    pub fingerprint: String,
    /// Length and sample of the file given with `--init`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_file: Option<String>,
    /// Pictures to train on.
    pub train_images: u64,
    /// Pictures held out.
    pub test_images: u64,
    /// Where the first splats came from.
    pub start: String,
    /// Scene extent in scene units.
    pub scene_extent: f64,
    /// Colour behind the splats.
    pub background: [f32; 3],
    /// Whether the colour behind them was learnt: a sky.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sky: bool,
    /// Whether each training step had a colour of its own behind them.
    pub random_background: bool,
    /// How the colours of the images are corrected.
    pub colours: Colours,
    /// Longest side of the depth maps in px, of a run that made some for its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stereo_side: Option<u32>,
    /// Rotation `saved_from_dataset` of everything that is saved (rows), which turns up to -y.
    pub up_rotation: [[f64; 3]; 3],
}

/// A run's `config.toml` as read back.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// The configuration.
    pub config: TrainConfig,
    /// What the run recorded.
    pub record: RunRecord,
}

impl RecordedRun {
    /// The text of `config.toml`.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Everything needed to repeat this run: `gausset train --config config.toml -o NEW_FOLDER`\n",
        );
        // Neither can fail: keys are strings, and paths were checked to be Unicode when the options were resolved.
        text.push_str(&toml::to_string(&self.config.to_options()).unwrap_or_default());
        let record = toml::Table::try_from(&self.record).unwrap_or_default();
        let record = toml::Table::from_iter([(RECORD_TABLE.to_owned(), toml::Value::Table(record))]);
        text.push('\n');
        text.push_str(&toml::to_string(&record).unwrap_or_default());
        text
    }

    /// Reads a `config.toml` that a run has written.
    ///
    /// # Errors
    /// As [`TrainOptions::read`] and [`TrainConfig::resolve`]; no usable table `[run]`.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::from_toml(&options::read_text(path)?, path)
    }

    /// As [`Self::read`], from text; `path` is for messages.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn from_toml(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let config = TrainConfig::resolve_recorded(TrainOptions::from_toml(text, path)?)?;
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
        let numbers = record.up_rotation.iter().flatten().copied();
        let numbers = numbers.chain(record.background.map(f64::from)).chain([record.scene_extent]);
        if !numbers.into_iter().all(f64::is_finite) {
            return Err(bad("a number is not finite".to_owned()));
        }
        Ok(Self { config, record })
    }

    /// The configuration with which the run goes on when `given` is said on the command line: limits and outputs may
    /// change, and the place of the data.
    ///
    /// # Errors
    /// Options that differ from the run's and would change its result, all of them listed; an option without effect.
    pub fn resumed_with(&self, given: &TrainOptions, config_path: &Path) -> Result<TrainConfig, ConfigError> {
        let recorded = self.config.to_options();
        let resumed = TrainConfig::resolve_resumed(&spelled_as(&recorded, given.clone()), &recorded)?;
        let differences = self.differences(&resumed);
        if differences.is_empty() {
            Ok(resumed)
        } else {
            Err(ConfigError::Differs { config: config_path.to_owned(), differences })
        }
    }

    /// Options with an influence on the result that are others in `config`, each as `steps = 7000 (given: 300)`. Two
    /// spellings of one place are equal.
    #[must_use]
    pub fn differences(&self, config: &TrainConfig) -> Vec<String> {
        let recorded = self.config.to_options();
        let (before, after) = (recorded.given(), spelled_as(&recorded, config.to_options()).given());
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

/// `given` with every path spelled as in `recorded` if both lead to the same place, and from the root if not: a run
/// records absolute paths, people say relative ones.
fn spelled_as(recorded: &TrainOptions, mut given: TrainOptions) -> TrainOptions {
    let mut recorded = recorded.clone();
    for (path, known) in given.paths().zip(recorded.paths()) {
        let Some(path) = path else { continue };
        match known {
            Some(known) if is_same_place(path, known) => path.clone_from(known),
            _ => *path = from_root(path),
        }
    }
    given
}

/// Whether two paths are spellings of one place: `photos`, `./photos/`, `/home/me/photos` and links to it.
fn is_same_place(a: &Path, b: &Path) -> bool {
    // Paths compare by their parts: a slash at the end is none.
    from_root(a) == from_root(b)
        || std::fs::canonicalize(a).is_ok_and(|a| std::fs::canonicalize(b).is_ok_and(|b| a == b))
}

/// The path from the root; as it is where there is no working folder any more.
fn from_root(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
