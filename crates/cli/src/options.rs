//! Training options as command-line arguments, generated from the table of options ([`TrainOptions::table`]).
//!
//! An option that is not given is `None`. Defaults are filled in when options are resolved; the help shows them from
//! the same tables ([`Defaults`]). `-h` shows the common options, one line each; `--help` shows all options.

use std::ffi::OsString;
use std::marker::PhantomData;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Args, FromArgMatches, value_parser};
use gausset::Failure;
use gausset_train::config::{defaults, quality_defaults, strategy_defaults};
use gausset_train::options::{OptionInfo, Presentation, ValueSyntax};
use gausset_train::{Quality, Strategy, TrainOptions};

use crate::usage;

/// A command that trains, with the training options that it sets itself or offers with another meaning.
pub(crate) trait TrainingCommand: Clone + std::fmt::Debug + Default {
    /// Long names of these options.
    const EXCLUDED_OPTIONS: &'static [&'static str];
}

/// `train`: the dataset is a positional argument.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrainCommand;

impl TrainingCommand for TrainCommand {
    const EXCLUDED_OPTIONS: &'static [&'static str] = &["data"];
}

/// `run`: it creates images and model itself and takes no panoramas; masks and threads are arguments of all its stages.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunCommand;

impl TrainingCommand for RunCommand {
    const EXCLUDED_OPTIONS: &'static [&'static str] =
        &["data", "images", "masks", "sparse", "threads", "panoramas"];
}

/// `pano run`: it creates views, masks and model itself, and holds out views by panorama.
#[derive(Clone, Debug, Default)]
pub(crate) struct PanoRunCommand;

impl TrainingCommand for PanoRunCommand {
    const EXCLUDED_OPTIONS: &'static [&'static str] = &[
        "data",
        "images",
        "masks",
        "invert-masks",
        "sparse",
        "threads",
        "test-every",
        "scene-extent",
        "alpha",
    ];
}

/// Training options as given on the command line of the command `C`.
#[derive(Clone, Debug, Default)]
pub(crate) struct OptionArgs<C: TrainingCommand>(TrainOptions, PhantomData<C>);

impl<C: TrainingCommand> OptionArgs<C> {
    /// The options in the form that the trainer takes.
    pub(crate) fn into_options(self) -> TrainOptions {
        self.0
    }

    fn offers(name: &str) -> bool {
        !C::EXCLUDED_OPTIONS.contains(&name)
    }
}

impl<C: TrainingCommand> Args for OptionArgs<C> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let defaults = Defaults::new();
        let options = sort_for_help(TrainOptions::table());
        let offered = options.into_iter().filter(|option| Self::offers(option.name));
        command.args(offered.filter_map(|option| argument(option, &defaults)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<C: TrainingCommand> FromArgMatches for OptionArgs<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let offered = TrainOptions::table().into_iter().filter(|option| option.shown.is_some());
        for key in offered.map(|option| option.name).filter(|key| Self::offers(key)) {
            if let Some(text) = matches.get_raw(key).and_then(|mut texts| texts.next_back()) {
                // The argument parsers have already accepted the text.
                let set = self.0.set(key, text);
                set.map_err(|what| clap::Error::raw(clap::error::ErrorKind::InvalidValue, what))?;
            }
        }
        Ok(())
    }
}

/// Training options from a config file and from the arguments after `--`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ExtraOptionArgs {
    /// TOML file of training options (`name = value`); the command line overrides it.
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    config: Option<PathBuf>,
    /// Training options of `gausset train`.
    #[arg(last = true, allow_hyphen_values = true, value_name = "TRAINING OPTIONS")]
    training: Vec<OsString>,
}

impl ExtraOptionArgs {
    /// Merges the options: `given` and those after `--` override the config file.
    ///
    /// # Errors
    /// An option does not exist, refuses its value or is given twice; the file cannot be read.
    pub(crate) fn merge<C: TrainingCommand>(&self, given: OptionArgs<C>) -> Result<TrainOptions, Failure> {
        let named = |text: &OsString| {
            let text = text.to_str()?.strip_prefix("--")?;
            C::EXCLUDED_OPTIONS.iter().find(|name| text.split('=').next() == Some(**name))
        };
        if let Some(name) = self.training.iter().find_map(named) {
            let line = format!("--{name}: set by this command, or given before `--`; see --help");
            return Err(Failure::usage(line));
        }
        let mut command = OptionArgs::<C>::augment_args(clap::Command::new("--").no_binary_name(true));
        let typed = command.try_get_matches_from_mut(&self.training);
        let typed = typed.and_then(|matches| OptionArgs::<C>::from_arg_matches(&matches));
        let typed = typed.map_err(|error| Failure::usage(usage::format_error(&error, &command)))?;
        let (given, typed) = (given.into_options(), typed.into_options());
        let names = |options: &TrainOptions| options.given_values().into_iter().map(|(name, _)| name);
        let before: Vec<String> = names(&given).collect();
        if let Some(name) = names(&typed).find(|name| before.contains(name)) {
            return Err(Failure::usage(format!("--{name}: given before and after `--` (expected once)")));
        }
        let mut file = self.config.as_deref().map(TrainOptions::read).transpose()?.unwrap_or_default();
        // A config file cannot set what the command sets itself.
        for key in C::EXCLUDED_OPTIONS {
            file.clear(key);
        }
        Ok(given.layered_over(typed).layered_over(file))
    }
}

/// Sorts options for the help: an option whose row names another one follows it.
fn sort_for_help(options: Vec<OptionInfo>) -> Vec<OptionInfo> {
    let place_of = |option: &OptionInfo| option.shown.and_then(|shown| shown.after);
    let (moved, mut ordered): (Vec<_>, Vec<_>) =
        options.into_iter().partition(|option| place_of(option).is_some());
    for option in moved {
        let before = ordered.iter().position(|other| Some(other.name) == place_of(&option));
        ordered.insert(before.map_or(ordered.len(), |before| before + 1), option);
    }
    ordered
}

/// The command-line argument of an option; `None` if it is not listed.
fn argument(option: OptionInfo, defaults: &Defaults) -> Option<Arg> {
    let Presentation { heading, value_name, has_words_in_help, bare, may_stand_apart, .. } = option.shown?;
    let default = match defaults.get(option.name) {
        // Flags default to off; the help does not repeat that.
        Some(default) if default != "false" => format!(" [default: {default}]"),
        _ => String::new(),
    };
    let argument = Arg::new(option.name)
        .long(option.name)
        .value_name(value_name)
        .help(format!("{}{default}", first_clause(&option.help)))
        .long_help(format!("{}{default}", option.help))
        .help_heading(heading.title())
        .aliases(american_spelling(option.name));
    let argument = match option.form {
        ValueSyntax::Flag => argument.value_parser(value_parser!(bool)),
        ValueSyntax::Path => argument.value_parser(value_parser!(PathBuf)),
        ValueSyntax::Word { words } => argument
            .value_parser(PossibleValuesParser::new(words))
            .allow_hyphen_values(words.iter().any(|word| word.starts_with('-'))),
        ValueSyntax::Whole(_) | ValueSyntax::Number | ValueSyntax::Text => {
            argument.value_parser(move |text: &str| (option.check)(text).map(|()| text.to_owned()))
        }
    };
    let argument = argument.hide_possible_values(has_words_in_help || option.form == ValueSyntax::Flag);
    Some(match bare {
        Some(meaning) => {
            argument.num_args(0..=1).default_missing_value(meaning).require_equals(!may_stand_apart)
        }
        None => argument,
    })
}

/// The first clause of a help text, for `-h`, where each option has one line.
fn first_clause(help: &str) -> &str {
    let ends = ["; ", ". "].iter().filter_map(|mark| help.find(mark));
    ends.min().map_or(help, |end| &help[..end])
}

/// The American spelling of an option name, if it differs.
fn american_spelling(name: &str) -> Option<&'static str> {
    match name {
        "opacity-regularisation" => Some("opacity-regularization"),
        "opacity-regularisation-until" => Some("opacity-regularization-until"),
        "scale-regularisation" => Some("scale-regularization"),
        _ => None,
    }
}

/// Default values for the help, by preset.
struct Defaults {
    general: OptionValues,
    mcmc: OptionValues,
    classic: OptionValues,
    fast_quality: OptionValues,
    default_quality: OptionValues,
    best_quality: OptionValues,
}

/// Option values by key.
type OptionValues = Vec<(String, toml::Value)>;

impl Defaults {
    fn new() -> Self {
        let [fast, usual, best] = [Quality::Fast, Quality::Default, Quality::Best]
            .map(|quality| TrainOptions { quality: Some(quality), ..TrainOptions::default() })
            .map(|given| quality_defaults(&given, None).given_values());
        Self {
            general: defaults().given_values(),
            mcmc: strategy_defaults(Strategy::Mcmc, false).given_values(),
            classic: strategy_defaults(Strategy::Classic, false).given_values(),
            fast_quality: fast,
            default_quality: usual,
            best_quality: best,
        }
    }

    /// Formats the default of an option, with those of the presets where they differ.
    fn get(&self, name: &str) -> Option<String> {
        let value_in = |table: &OptionValues| {
            table.iter().find(|(known, _)| known == name).map(|(_, value)| format_default(value))
        };
        let [general, mcmc, classic, fast, usual, best] = [
            &self.general,
            &self.mcmc,
            &self.classic,
            &self.fast_quality,
            &self.default_quality,
            &self.best_quality,
        ]
        .map(value_in);
        match (general, mcmc.zip(classic), usual) {
            (Some(value), ..) => Some(value),
            (_, Some((mcmc, classic)), _) if mcmc == classic => Some(mcmc),
            (_, Some((mcmc, classic)), _) => Some(format!("{mcmc}, classic: {classic}")),
            (_, _, Some(usual)) => Some(
                [("fast", fast), ("best", best)]
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value.filter(|value| *value != usual)?)))
                    .fold(usual.clone(), |text, (name, value)| format!("{text}, {name}: {value}")),
            ),
            _ => None,
        }
    }
}

/// Formats a default value; fractions are rounded to four decimals.
fn format_default(value: &toml::Value) -> String {
    match value {
        toml::Value::String(word) => word.clone(),
        toml::Value::Float(number) if *number != 0.0 && number.abs() < 1e-3 => format!("{number:e}"),
        toml::Value::Float(number) => {
            let rounded = (number * 1e4).round() / 1e4;
            rounded.to_string()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_that_has_a_default_shows_it() {
        let command = crate::cli::definition();
        let train = command.find_subcommand("train").unwrap();
        for (key, value) in defaults().given_values() {
            let argument = train.get_arguments().find(|a| a.get_long() == Some(&*key)).unwrap();
            let help = argument.get_help().unwrap().to_string();
            let is_flag = value.as_bool().is_some();
            assert!(
                is_flag || help.contains(&format!("[default: {}]", format_default(&value))),
                "--{key}: {help}"
            );
        }
    }

    #[test]
    fn every_option_of_the_table_has_a_line_in_the_help() {
        let mut command = crate::help_levels::unfolded(crate::cli::definition());
        let help = command.find_subcommand_mut("train").unwrap().render_long_help().to_string();
        for option in TrainOptions::table().into_iter().filter(|option| option.shown.is_some()) {
            let argument = format!("--{}", option.name);
            let is_shown = |line: &str| line.trim_start().split([' ', '[']).next() == Some(&argument);
            assert!(help.lines().any(is_shown), "{argument}");
        }
    }

    /// Generates docs/reference/options.md, the reference of all training options.
    fn page() -> String {
        let defaults = Defaults::new();
        let options = sort_for_help(TrainOptions::table());
        let mut page = String::from(
            "# Training options\n\n\
             Generated from the table of options (`crates/train/src/options/table.rs`) by \
             `GAUSSET_BLESS=1 cargo test -p gausset-cli --lib page`. The table shows the command-line form; a \
             file for `--config` has one `name = value` per line, with text in quotes. An empty default means none.\n",
        );
        let mut headings: Vec<_> = options.iter().filter_map(|option| Some(option.shown?.heading)).collect();
        headings.sort_by_key(|heading| *heading as usize);
        headings.dedup();
        for heading in headings {
            page +=
                &format!("\n## {}\n\n| option | values | default | |\n|---|---|---|---|\n", heading.title());
            for option in &options {
                let Some(shown) = option.shown.filter(|shown| shown.heading == heading) else { continue };
                let values = match option.form {
                    ValueSyntax::Path | ValueSyntax::Text => String::new(),
                    _ => option.expected.clone(),
                };
                let default = defaults.get(option.name).unwrap_or_default();
                let value = match shown.bare {
                    Some(_) if !shown.may_stand_apart => format!("[={}]", shown.value_name),
                    Some(_) => format!(" [{}]", shown.value_name),
                    None => format!(" {}", shown.value_name),
                };
                let row = format!("`--{}{value}` \0 {values} \0 {default} \0 {}", option.name, option.help);
                // An unescaped bar would end the table cell.
                page += &format!("| {} |\n", row.replace('|', "\\|").replace('\0', "|"));
            }
        }
        let free = options.iter().filter(|option| option.is_free_on_resume && option.shown.is_some());
        let free: Vec<String> = free.map(|option| format!("`--{}`", option.name)).collect();
        page + &format!(
            "\n## Resuming a run\n\n`--resume` accepts {} and another path of the dataset, which do not affect the \
             result. All other options keep the values with which the run was started.\n",
            free.join(", ")
        )
    }

    #[test]
    fn the_page_of_options_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/options.md");
        if std::env::var_os("GAUSSET_BLESS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap();
        for (written, page) in written.lines().zip(page().lines()) {
            assert_eq!(
                written, page,
                "docs/reference/options.md is out of date; its first paragraph says how to generate it"
            );
        }
        assert_eq!(written.lines().count(), page().lines().count());
    }

    #[test]
    fn defaults_are_shown_with_the_digits_that_matter() {
        let float = |v: f64| format_default(&toml::Value::Float(v));
        assert_eq!(
            [1.0 / 60.0, 0.2, 1.6e-6, 5e5, 2.5e-3, 0.0].map(float),
            ["0.0167", "0.2", "1.6e-6", "500000", "0.0025", "0"]
        );
        assert_eq!(float(2.5e-3 / 20.0), "1.25e-4");
    }
}
