//! Mistakes in arguments as one line: `--strat: no such option; did you mean --strategy?`.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The line of an error that clap has found.
pub(crate) fn line(error: &clap::Error) -> String {
    let context = |kind| error.get(kind).map(plain).unwrap_or_default();
    let argument = context(ContextKind::InvalidArg);
    let value = context(ContextKind::InvalidValue);
    // Clap repeats the value's name (`--steps <N>`); the option alone is the place.
    let place = argument.split([' ', '=']).next().unwrap_or_default().to_owned();
    let place = if place.is_empty() { "arguments".to_owned() } else { place };
    match error.kind() {
        ErrorKind::UnknownArgument => match error.get(ContextKind::SuggestedArg) {
            Some(suggested) => format!("{place}: no such option; did you mean {}?", plain(suggested)),
            None if place.starts_with('-') => format!("{place}: no such option; see --help"),
            None => format!("{place}: one argument too many; see --help"),
        },
        ErrorKind::InvalidSubcommand => {
            let name = context(ContextKind::InvalidSubcommand);
            let suggested = context(ContextKind::SuggestedSubcommand);
            if suggested.is_empty() {
                format!("{name}: no such command; see --help")
            } else {
                format!("{name}: no such command; did you mean {suggested}?")
            }
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("{place}: no value given; see --help"),
        ErrorKind::InvalidValue => {
            let valid = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(words)) => words.join("|"),
                _ => "another value".to_owned(),
            };
            format!("{place}: expected {valid}, found `{value}`")
        }
        ErrorKind::ValueValidation => {
            let reason = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            if reason.starts_with("expected") {
                format!("{place}: {reason}")
            } else {
                format!("{place}: `{value}`: {reason}")
            }
        }
        ErrorKind::ArgumentConflict => {
            let other = context(ContextKind::PriorArg);
            if other == argument {
                format!("{place}: given twice (expected once)")
            } else {
                format!("{place}: cannot be used together with {other}")
            }
        }
        ErrorKind::MissingRequiredArgument => {
            format!("arguments: {argument} not given; see --help")
        }
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "arguments: no command given (expected one of demo, train, eval, render, info, …); see --help"
                .to_owned()
        }
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    }
}

/// A value of the context as words.
fn plain(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(words) => words.join(", "),
        other => other.to_string(),
    }
}
