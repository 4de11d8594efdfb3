//! Libraries do not use command-line flags in messages: a message refers to a setting as `⟨key⟩`, and each front end
//! replaces it by its own notation (`crates/cli/src/flags.rs`).

use std::path::Path;

/// Lines of a library's source, from 1, with a flag in a string. Tests and their support are exempt; arguments of
/// third-party programs and whole commands are not settings.
pub(crate) fn flags_in_library(workspace: &Path, path: &Path, text: &str) -> Vec<(usize, String)> {
    let inside = path.strip_prefix(workspace.join("crates")).unwrap_or(Path::new(""));
    let is_source = inside.components().nth(1).is_some_and(|part| part.as_os_str() == "src");
    if !is_source || ["cli", "testkit"].iter().any(|name| inside.starts_with(name)) {
        return Vec::new();
    }
    let code = text.lines().take_while(|line| *line != "#[cfg(test)]");
    (1..)
        .zip(code)
        .filter_map(|(number, line)| {
            let what = "in a message of a library (expected its key, as in ⟨max-memory⟩)";
            find_flag(line).map(|flag| (number, format!("--{flag} {what}")))
        })
        .collect()
}

/// The first flag in a line of a message.
fn find_flag(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    let is_for_programs =
        ["arg", "`gausset ", "\"gausset ", "pip install"].iter().any(|mark| line.contains(mark));
    if trimmed.starts_with("//") || is_for_programs {
        return None;
    }
    line.match_indices("--").find_map(|(at, _)| {
        let (before, name) = (&line[..at], &line[at + 2..]);
        let begins = before.ends_with([' ', '(', '"', '`', ',']) || before.trim().is_empty();
        let end = name.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(name.len());
        (begins && end > 1).then(|| &name[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_in_a_message_is_found_and_an_argument_of_another_program_is_not() {
        assert_eq!(find_flag("\"raise --max-memory\""), Some("max-memory"));
        assert_eq!(find_flag("         --test-every, or 0\","), Some("test-every"));
        assert_eq!(find_flag("    .arg(\"--version\")"), None);
        assert_eq!(find_flag("/// As `--init` does."), None);
        assert_eq!(find_flag("\"go on with `gausset train --resume {folder}`\""), None);
        assert_eq!(find_flag("a -- b, i--;"), None);
        let find = |path: &str| {
            flags_in_library(Path::new("root"), &Path::new("root").join(path), "\"--data DIR\"").len()
        };
        assert_eq!(
            (find("crates/io/src/a.rs"), find("crates/cli/src/a.rs"), find("crates/io/tests/a.rs")),
            (1, 0, 0)
        );
    }
}
