//! Options of footage as command-line arguments, generated from the table of options ([`gausset::footage_options`]).

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};
use gausset::footage_options::{OptionGroup, OptionInfo, OptionValue, ValueSyntax};

/// The arguments of a group of options. An option that is not given has its default.
#[derive(Clone, Debug, Default)]
pub(crate) struct FootageArgs<G>(pub(crate) G);

impl<G: OptionGroup> Args for FootageArgs<G> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(G::table().into_iter().map(argument))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<G: OptionGroup> FromArgMatches for FootageArgs<G> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for OptionInfo { key, .. } in G::table() {
            if matches.value_source(key) != Some(ValueSource::CommandLine) {
                continue;
            }
            let given = matches.get_raw(key).and_then(|mut texts| texts.next_back());
            // The argument parsers have already accepted the text.
            let set = given.and_then(|text| self.0.set(key, text)).unwrap_or(Ok(()));
            set.map_err(|what| clap::Error::raw(clap::error::ErrorKind::InvalidValue, what))?;
        }
        Ok(())
    }
}

/// The command-line argument of an option.
fn argument(option: OptionInfo) -> Arg {
    let argument = Arg::new(option.key)
        .long(option.key)
        .help(option.help)
        .hide_possible_values(option.has_words_in_help)
        .allow_hyphen_values(option.allows_hyphen)
        .conflicts_with_all(option.conflicts);
    let argument = match option.heading {
        "" => argument,
        heading => argument.help_heading(heading),
    };
    let argument = match option.needs {
        Some(key) => argument.requires(key),
        None => argument,
    };
    let argument = match option.default {
        // Clap borrows defaults for the life of the program.
        Some(text) => argument.default_value(&*text.leak()),
        None => argument,
    };
    let check = option.check;
    let argument = match option.syntax {
        ValueSyntax::Flag => return argument.action(ArgAction::SetTrue),
        ValueSyntax::Whole { least, most } => {
            argument.value_parser(value_parser!(u32).range(i64::from(least)..=i64::from(most)))
        }
        ValueSyntax::Path => argument.value_parser(value_parser!(PathBuf)),
        ValueSyntax::Words(words) => argument.value_parser(PossibleValuesParser::new(words)),
        ValueSyntax::Text => argument.value_parser(move |text: &str| check(text).map(|()| text.to_owned())),
    };
    argument.value_name(option.value_name)
}

/// Parses a value of an option that is declared outside of the table.
pub(crate) fn parse_value<T: OptionValue>(text: &str) -> Result<T, String> {
    T::from_text(OsStr::new(text))
}
