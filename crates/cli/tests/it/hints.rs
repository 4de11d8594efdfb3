//! Options that messages and help texts name exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::TestFolder;

/// Options of other programs that messages and help texts name, and own options that completions do not list.
const OTHER_OPTIONS: &[(&str, &str)] = &[
    ("--release", "cargo build --release, for benchmarks"),
    ("--upgrade", "pip install --upgrade pycolmap"),
    ("--version", "asked of Python and COLMAP; ours is in the completions"),
    ("--help", "of every command"),
];

/// All long options of all commands, from the shell completions.
fn options() -> BTreeSet<String> {
    let script = TestFolder::empty().succeed(&["completions", "bash"]).stdout;
    let lists = script.lines().filter_map(|line| line.trim().strip_prefix("opts=\""));
    lists.flat_map(words).collect()
}

/// The words of a text that look like long options.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("--") {
        let is_inside = rest[..start].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
        rest = &rest[start + 2..];
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('-');
        if !is_inside && name.starts_with(|c: char| c.is_ascii_lowercase()) {
            found.push(format!("--{name}"));
        }
    }
    found
}

/// The settings that a line of a library names, `⟨max-memory⟩` or `⟨strategy = mcmc⟩`, as the long options that the
/// program makes of them.
fn settings(code: &str) -> Vec<String> {
    let inside = code.split('⟨').skip(1).filter_map(|rest| rest.split_once('⟩'));
    let keys = inside.map(|(setting, _)| setting.split(" = ").next().unwrap_or(setting));
    // A key in braces is inserted at run time.
    keys.filter(|key| !key.starts_with('{')).map(|key| format!("--{key}")).collect()
}

/// Everything below a folder that ends in `.rs`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|end| end == "rs") {
            found.push(entry);
        }
    }
}

#[test]
fn every_option_that_a_message_or_a_help_text_names_is_one() {
    let known = options();
    assert!(known.len() > 100 && known.contains("--max-splats"), "{known:?}");
    let is_known =
        |word: &str| known.contains(word) || OTHER_OPTIONS.iter().any(|(foreign, _)| *foreign == word);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    let mut files = Vec::new();
    for member in std::fs::read_dir(crates).expect("crates/").map(|entry| entry.expect("an entry").path()) {
        // Only tests use the testkit.
        if member.join("src").is_dir() && !member.ends_with("testkit") {
            sources(&member.join("src"), &mut files);
        }
    }
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        // Tests use wrong options on purpose. Doc comments are help texts; other comments are not checked.
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let code = line.trim_start();
            if code.starts_with("//") && !code.starts_with("///") {
                continue;
            }
            for word in words(code).into_iter().chain(settings(code)) {
                if !is_known(&word) {
                    wrong.push(format!("{}:{number}: {word}", file.display()));
                }
                seen.insert(word);
            }
        }
    }
    assert!(wrong.is_empty(), "options that do not exist:\n{}", wrong.join("\n"));
    // The scan has found hints, not only files.
    for hint in ["--force", "--max-memory", "--prune-opacity", "--time-budget", "--resume"] {
        assert!(seen.contains(hint), "{hint}: {seen:?}");
    }
    let unused: Vec<_> = OTHER_OPTIONS.iter().filter(|(foreign, _)| !seen.contains(*foreign)).collect();
    assert!(unused.is_empty(), "in the list for nothing: {unused:?}");
}

#[test]
fn every_option_that_the_line_of_a_known_mistake_names_is_one_or_was_typed() {
    let known = options();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots");
    let name = "it__mistakes__every_known_mistake_gives_one_line_and_exit_code_2.snap";
    let text = std::fs::read_to_string(folder.join(name)).expect("the mistakes");
    let (mut typed, mut hints) = (Vec::new(), 0);
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ gausset ") {
            typed = words(command);
            continue;
        }
        for word in words(line) {
            hints += 1;
            let is_one = known.contains(&word) || word == "--help" || typed.contains(&word);
            assert!(is_one, "{word}: {line}");
        }
    }
    assert!(hints > 50, "{hints}");
}

#[test]
fn words_that_look_like_options_are_found_in_any_text() {
    assert_eq!(
        words("`--max-splats`, --up=-y; lower --steps... -- --x-- a--b --{option} ---- --4"),
        ["--max-splats", "--up", "--steps", "--x"]
    );
}
