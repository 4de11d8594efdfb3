//! Every row of the table of options: a value given by name reaches a configuration and survives a round trip through a
//! file, and a value out of range is rejected with one line.

use std::ffi::OsStr;
use std::path::Path;

use gausset_train::options::{OptionInfo, ValueSyntax};
use gausset_train::{ConfigError, RecordedRun, TrainConfig, TrainOptions};

/// Texts among which each option finds some valid and some invalid values.
const TEXTS: [&str; 25] = [
    "true",
    "false",
    "0",
    "1",
    "2",
    "300",
    "-1",
    "0.25",
    "0.75",
    "1.25",
    "1.75",
    "1e300",
    "nan",
    "5000000000",
    "18446744073709551615",
    "99999999999999999999",
    "some/place",
    "0.1,0.2,1",
    "5GiB",
    "90s",
    "9 0:500",
    "auto",
    "none",
    "perhaps",
    "",
];

/// Choices of which at least one makes an option effective.
const CHOICES: [&str; 7] = [
    "",
    "strategy = 'classic'",
    "refine-poses = true",
    "steps = 500",
    "init-points = 'dense'",
    "coarse-factor = 8",
    "init = 'points.spz'",
];

fn read(text: &str) -> TrainOptions {
    TrainOptions::from_toml(text, Path::new("c.toml")).unwrap()
}

/// The configuration with these options, and the first choices that make them effective.
fn resolve(given: &TrainOptions) -> Result<TrainConfig, ConfigError> {
    let given = given.clone().or(TrainOptions { data: Some("scene".into()), ..TrainOptions::default() });
    let mut last = None;
    for choices in CHOICES {
        match TrainConfig::resolve(&given.clone().or(read(choices)), None) {
            // Neither error is about the value: another choice may make it valid.
            Err(error @ (ConfigError::NoEffect { .. } | ConfigError::Range { option: "steps", .. })) => {
                last.get_or_insert(error);
            }
            other => return other,
        }
    }
    Err(last.unwrap())
}

/// Texts for an option: the common ones, and its words.
fn texts(option: &OptionInfo) -> Vec<&'static str> {
    let words = match option.form {
        ValueSyntax::Word { words } => words,
        _ => &[],
    };
    TEXTS.iter().chain(words).copied().collect()
}

fn with(option: &OptionInfo, text: &str) -> Result<TrainOptions, String> {
    let mut given = TrainOptions::default();
    given.set(option.name, OsStr::new(text)).map(|()| given).map_err(|error| error.to_string())
}

#[test]
fn every_option_reaches_a_configuration_and_comes_back_from_its_file() {
    let record = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0.2/run/config.toml"),
    )
    .unwrap();
    let record = RecordedRun::from_toml(&record, Path::new("c.toml")).unwrap().record;
    for option in TrainOptions::table() {
        let mut values = Vec::new();
        for text in texts(&option) {
            let Ok(given) = with(&option, text) else { continue };
            let Ok(config) = resolve(&given) else { continue };
            let value = given.given_values().remove(0);
            assert_eq!(value.0, option.name);
            // Only this option, as a config file.
            assert_eq!(read(&toml::to_string(&given).unwrap()), given, "{} = {text}", option.name);
            // All options, as a run records them.
            assert!(config.to_options().given_values().contains(&value), "{} = {text}", option.name);
            let run = RecordedRun { config, record: record.clone() };
            assert_eq!(RecordedRun::from_toml(&run.to_toml(), Path::new("c.toml")).unwrap(), run);
            values.push(value.1);
        }
        values.dedup();
        // With a single value the default could be mistaken for it. Only one of the texts is a plan, and plans have no
        // default.
        assert!(
            values.len() > 1 || option.name == "plan" && values.len() == 1,
            "{}: {values:?}",
            option.name
        );
    }
}

#[test]
fn what_an_option_does_not_take_is_refused_with_a_line_that_says_what_it_takes() {
    for option in TrainOptions::table().into_iter().filter(|option| option.form != ValueSyntax::Path) {
        let mut refusals = 0;
        for text in texts(&option) {
            match with(&option, text) {
                Err(line) => {
                    assert!(line.starts_with("expected "), "{}: {line}", option.name);
                    assert!(line.ends_with(&format!(", found `{text}`")), "{}: {line}", option.name);
                    assert_eq!((option.check)(text).map_err(|error| error.to_string()), Err(line));
                    refusals += 1;
                }
                Ok(given) => {
                    let Err(ConfigError::Range { option: name, expected, found }) = resolve(&given) else {
                        continue;
                    };
                    let line =
                        ConfigError::Range { option: name, expected, found: found.clone() }.to_string();
                    assert_eq!(name, option.name);
                    let is_told = option.expected == expected || expected == "0..2^63-1";
                    assert!(is_told, "{line}, and the table says {}", option.expected);
                    assert_eq!(line, format!("⟨{name}⟩: {found} is out of range (expected {expected})"));
                    // Long numbers are shown with an exponent.
                    let number = |text: &str| text.parse::<f64>().map(f64::to_bits);
                    assert_eq!(number(&found), number(text), "{line}");
                    refusals += 1;
                }
            }
        }
        assert!(refusals > 0, "{}", option.name);
        // For a file the line also names the file.
        let line = TrainOptions::from_toml(&format!("{} = 'perhaps'", option.name), Path::new("c.toml"));
        let line = line.unwrap_err().to_string();
        assert!(
            line.starts_with(&format!("c.toml: {}: ", option.name)) && line.lines().count() == 1,
            "{line}"
        );
        assert!(line.contains("perhaps"), "{line}");
    }
}

#[test]
fn options_that_may_change_when_a_run_goes_on_are_those_without_influence_on_its_result() {
    let table = TrainOptions::table();
    let free: Vec<&str> = table.iter().filter(|o| o.is_free_on_resume).map(|o| o.name).collect();
    let expected = [
        "data",
        "images",
        "masks",
        "sparse",
        "allow-missing",
        "threads",
        "max-memory",
        "checkpoint-every",
        "checkpoint-seconds",
        "eval-every",
        "export-every",
    ];
    assert_eq!(free, expected);
}

#[test]
fn rows_that_are_shown_elsewhere_name_an_option_that_is_shown() {
    let table = TrainOptions::table();
    for option in &table {
        let Some(shown) = option.shown else { continue };
        assert!(!option.help.is_empty() && !option.help.ends_with('.'), "{}", option.name);
        let Some(after) = shown.after else { continue };
        let before = table.iter().find(|other| other.name == after).and_then(|other| other.shown);
        assert_eq!(before.map(|before| before.heading), Some(shown.heading), "{}", option.name);
    }
}
