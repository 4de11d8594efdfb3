//! Translates settings in messages of the libraries into command-line flags.
//!
//! The libraries know no command line. A message that names a setting writes its key, or an assignment as in a config
//! file, between angle brackets: `raise ⟨max-memory⟩`, `take ⟨strategy = mcmc⟩`. This module turns them into
//! `--max-memory` and `--strategy mcmc`. Another front end, such as a Python binding, would write keyword arguments.

use std::borrow::Cow;

const OPEN: char = '⟨';
const CLOSE: char = '⟩';

/// Replaces each setting in angle brackets by its flag.
pub(crate) fn settings_to_flags(text: &str) -> Cow<'_, str> {
    if !text.contains(OPEN) {
        return Cow::Borrowed(text);
    }
    let (mut flags, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(OPEN) {
        flags.push_str(before);
        rest = match after.split_once(CLOSE).and_then(|(setting, end)| Some((setting_to_flag(setting)?, end)))
        {
            Some((flag, end)) => {
                flags.push_str(&flag);
                end
            }
            // A bracket that does not enclose a setting, for example in a file name.
            None => {
                flags.push(OPEN);
                after
            }
        };
    }
    flags.push_str(rest);
    Cow::Owned(flags)
}

/// Formats a key or an assignment as a flag; `None` if the text is neither.
fn setting_to_flag(setting: &str) -> Option<String> {
    let (key, value) = match setting.split_once(" = ") {
        Some((key, value)) => (key, Some(value)),
        None => (setting, None),
    };
    let is_key = key.starts_with(|c: char| c.is_ascii_lowercase())
        && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    is_key.then(|| value.map_or_else(|| format!("--{key}"), |value| format!("--{key} {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_flags_and_other_text_stays() {
        for (text, expected) in [
            ("nothing to say", "nothing to say"),
            ("raise ⟨max-memory⟩", "raise --max-memory"),
            ("⟨fps⟩, ⟨start⟩: are for videos", "--fps, --start: are for videos"),
            ("take ⟨init-points = auto or sfm⟩; it helps", "take --init-points auto or sfm; it helps"),
            ("a⟨b⟩c.ply: ⟨", "a--bc.ply: ⟨"),
            ("⟨A b⟩ and ⟨⟩ and ⟩", "⟨A b⟩ and ⟨⟩ and ⟩"),
        ] {
            assert_eq!(settings_to_flags(text), expected);
        }
    }
}
