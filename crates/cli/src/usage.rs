//! One-line messages for wrong arguments: `--strat: no such option; did you mean --strategy?`.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::other_programs;

/// Formats an error of clap's parser as one line.
pub(crate) fn format_error(error: &clap::Error, command: &clap::Command) -> String {
    let context = |kind| error.get(kind).map(format_context).unwrap_or_default();
    let argument = context(ContextKind::InvalidArg);
    let value = context(ContextKind::InvalidValue);
    let place =
        if argument.is_empty() { "arguments".to_owned() } else { argument_name(&argument).to_owned() };
    let here = other_programs::equivalent_of(command, &place);
    match error.kind() {
        ErrorKind::UnknownArgument => match error.get(ContextKind::SuggestedArg) {
            _ if here.is_some() => {
                format!("{place}: no such option; Gausset calls it {}", here.unwrap_or_default())
            }
            // The parser also suggests names that have little in common.
            Some(suggested) if is_like(&place, &format_context(suggested)) => {
                format!("{place}: no such option; did you mean {}?", format_context(suggested))
            }
            _ if place.starts_with('-') => match other_programs::near_equivalent_of(command, &place) {
                Some(option) => format!("{place}: no such option; did you mean {option}?"),
                None => format!("{place}: no such option; see --help"),
            },
            _ if command.get_name() == "convert" => {
                format!("{place}: unexpected argument (expected one IN and one OUT: files cannot be merged)")
            }
            _ => format!("{place}: unexpected argument; see --help"),
        },
        ErrorKind::InvalidSubcommand => {
            let name = context(ContextKind::InvalidSubcommand);
            let suggested = context(ContextKind::SuggestedSubcommand);
            if name == "merge" {
                format!("{name}: no such command: splat files cannot be merged; see --help")
            } else if command.get_name() == "profile" && ["", "help"].contains(&&*suggested) {
                format!("{name}: no such command; did you mean gausset profile show {name}?")
            } else if suggested.is_empty() {
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
            format!("{place}: {}", format_value_error(&reason, &value))
        }
        ErrorKind::ArgumentConflict => {
            let other = context(ContextKind::PriorArg);
            if other == argument {
                format!("{place}: given twice (expected once)")
            } else {
                format!("{place}: cannot be used together with {}", argument_name(&other))
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(names)) => names.iter().map(|name| argument_name(name)).collect(),
                _ => vec![argument_name(&argument)],
            };
            format!("{}: not given; see --help", missing.join(", "))
        }
        ErrorKind::MissingSubcommand => "arguments: no command given; see --help".to_owned(),
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    }
}

/// Whether a name is what was typed, but for a missing end or a few letters.
fn is_like(typed: &str, name: &str) -> bool {
    name.starts_with(typed) || is_misspelt(typed, name)
}

/// Whether a name is what was typed, but for a few letters.
pub(crate) fn is_misspelt(typed: &str, name: &str) -> bool {
    edit_distance(typed, name) <= typed.len() / 3
}

/// Number of letters to insert, delete or replace (Levenshtein 1966).
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Formats the reason why a value was refused as `expected …, found …`, also for parsers of the standard library.
fn format_value_error(reason: &str, value: &str) -> String {
    let expected = match reason {
        _ if reason.starts_with("expected") => return reason.to_owned(),
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "a whole number, 0 or more"
        }
        "invalid float literal" | "cannot parse float from empty string" => "a number",
        _ if reason.starts_with("number too large") => "a smaller number",
        _ => match reason.split_once(" is not in ") {
            Some((_, range)) => return format!("expected {}, found `{value}`", range.replace("..=", "..")),
            None => return format!("`{value}`: {reason}"),
        },
    };
    format!("expected {expected}, found `{value}`")
}

/// The name of an argument without the name of its value. Clap writes `--steps <N>`, `--exposure[=<BOOL>]`,
/// `--verbose...`, `<DATA>`.
fn argument_name(argument: &str) -> &str {
    let name = argument.split([' ', '=', '[']).find(|part| !part.is_empty()).unwrap_or(argument);
    name.trim_start_matches('<').trim_end_matches([']', '>', '.'])
}

/// Formats a context value of clap.
fn format_context(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(words) => words.join(", "),
        other => other.to_string(),
    }
}
