//! `TrainOptions`: every option of a training run, each of them optional.
//!
//! This is the low-level form: the options given by a command line, a config file or a preset; all others are unset.
//! Layers are combined with [`TrainOptions::or`] and resolved once into a [`crate::TrainConfig`]. An option is defined
//! by its row in the table (`options/table.rs`); its long name (`max-splats`) is its key in files.

mod fields;
mod row;
mod table;
mod value;

use std::path::{Path, PathBuf};

pub use row::{OptionHeading, OptionInfo, Presentation};
pub use table::TrainOptions;
pub use value::{SetError, ValueSyntax};

/// Maximum size of a config file, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Table of a config file that holds the record of a run; options are never read from it.
pub const RECORD_TABLE: &str = "run";

/// Options of earlier versions that are constants of the recipe now, with their values. Files may still hold them.
const REMOVED_OPTIONS: [(&str, f64); 6] = [
    ("sh-every", 1.0 / 30.0),
    ("dead-opacity", 0.005),
    ("exposure-decay", 0.0),
    ("pose-decay", 1e-6),
    ("poses-from", 0.1),
    ("poses-until", 0.9),
];

/// Part of a run's record of its start if that was random splats.
const RANDOM_START_NOTE: &str = " random splats in ";

/// Why a config file is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The file could not be read.
    #[error("{}: read: {}", path.display(), gausset_io::atomic::plain_reason(source))]
    Io {
        /// The file that could not be read.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}: line {line}: {what} (expected TOML: `key = value` lines)", path.display())]
    Syntax {
        /// The file with the syntax error.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A key that is not an option.
    #[error("{}: {key}: no such option{}", path.display(), nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey {
        /// The file with the key.
        path: PathBuf,
        /// The key, which names no option.
        key: String,
        /// The option with the most similar name, if any is similar enough.
        nearest: Option<String>,
    },
    /// A value of the wrong type or form.
    #[error("{}: {key}: {what}", path.display())]
    Value {
        /// The file with the value.
        path: PathBuf,
        /// The key of the option.
        key: String,
        /// What is wrong.
        what: String,
    },
}

impl TrainOptions {
    /// The option with the most similar name to `key`, if it is similar enough to be meant.
    ///
    /// ```
    /// use gausset_train::TrainOptions;
    ///
    /// assert_eq!(TrainOptions::nearest_key("max-splat").as_deref(), Some("max-splats"));
    /// assert_eq!(TrainOptions::nearest_key("colour-of-the-cat"), None);
    /// ```
    #[must_use]
    pub fn nearest_key(key: &str) -> Option<String> {
        // Keys of malicious files can be as long as the file; option names are short.
        let start: String = key.chars().take(64).collect();
        let distances = Self::keys().map(|known| (strsim::levenshtein(&start, known), known));
        let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
        // A third of the letters wrong is a typing error; more is a different word.
        (distance <= key.chars().count().max(3) / 3).then(|| nearest.to_owned())
    }

    /// Reads a config file that the user names. A file written by a run, with a table `[run]`, contains all resolved
    /// options; those without effect are dropped, because the user did not give them.
    ///
    /// # Errors
    /// The file cannot be read or is not TOML, a key is unknown, a value has the wrong type, it is that of a block.
    pub fn read(path: &Path) -> Result<Self, OptionsError> {
        Self::from_config_file(&read_text(path)?, path)
    }

    /// As [`Self::read`], from text; `path` is used in messages.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn from_config_file(text: &str, path: &Path) -> Result<Self, OptionsError> {
        let mut options = Self::from_toml(text, path)?;
        let Some(record) = parse_table(text, path)?.remove(RECORD_TABLE) else { return Ok(options) };
        if let Some(block) = record.get("block").and_then(toml::Value::as_str) {
            return Err(OptionsError::Value {
                path: path.to_owned(),
                key: RECORD_TABLE.to_owned(),
                what: format!("{block}: a part of a run (expected the config.toml of the whole run)"),
            });
        }
        let start = record.get("start").and_then(toml::Value::as_str).unwrap_or_default();
        if !start.contains(RANDOM_START_NOTE) {
            options.initial_splats = None;
        }
        Ok(options.without_ineffective())
    }

    /// All options in the text of a config file; a table `[run]` is skipped, and so are options of earlier versions
    /// with the value that is constant now. `path` is used in messages.
    ///
    /// ```
    /// use gausset_train::{Strategy, TrainOptions};
    ///
    /// let options = TrainOptions::from_toml("strategy = 'classic'\nsteps = 500", "my.toml".as_ref())?;
    /// assert_eq!((options.strategy, options.steps, options.seed), (Some(Strategy::Classic), Some(500), None));
    /// let error = TrainOptions::from_toml("step = 500", "my.toml".as_ref()).unwrap_err();
    /// assert_eq!(error.to_string(), "my.toml: step: no such option; did you mean `steps`?");
    /// # Ok::<(), gausset_train::OptionsError>(())
    /// ```
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
            if let Some((_, constant)) = REMOVED_OPTIONS.iter().find(|(removed, _)| *removed == key) {
                check_removed(path, key, &value, *constant)?;
                continue;
            }
            if !Self::keys().any(|known| known == key) {
                let nearest = Self::nearest_key(&key);
                return Err(OptionsError::UnknownKey { path: path.to_owned(), key, nearest });
            }
            // One key at a time, so that the message can name the key.
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
    pub fn given_values(&self) -> Vec<(String, toml::Value)> {
        match toml::Value::try_from(self) {
            Ok(toml::Value::Table(table)) => table.into_iter().collect(),
            // Only paths that are not Unicode cannot be represented in TOML; `TrainConfig` rejects them.
            _ => Vec::new(),
        }
    }
}

/// Checks that a file gives a removed option the value that is constant now; another value cannot be honoured.
fn check_removed(path: &Path, key: String, value: &toml::Value, constant: f64) -> Result<(), OptionsError> {
    if value.as_float().or(value.as_integer().map(|whole| whole as f64)) == Some(constant) {
        return Ok(());
    }
    let what = format!("this option was removed (expected its constant value {constant}, found {value})");
    Err(OptionsError::Value { path: path.to_owned(), key, what })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option_values::{Strategy, Up};

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
    fn a_removed_option_is_skipped_with_its_constant_value_and_refused_with_another() {
        let text: String =
            REMOVED_OPTIONS.iter().map(|(key, value)| format!("{key} = {value:?}\n")).collect();
        assert_eq!(parse(&text).unwrap(), TrainOptions::default());
        assert_eq!(parse("exposure-decay = 0").unwrap(), TrainOptions::default());
        assert_eq!(
            parse("dead-opacity = 0.1").unwrap_err().to_string(),
            "my.toml: dead-opacity: this option was removed (expected its constant value 0.005, found 0.1)"
        );
    }

    #[test]
    fn every_key_is_accepted_by_its_own_name() {
        for key in TrainOptions::keys() {
            // No option is a table, so a known key fails on its value and an unknown one on its name.
            let err = parse(&format!("{key} = {{}}")).unwrap_err();
            assert!(matches!(err, OptionsError::Value { .. }), "{key}: {err}");
        }
    }
}
