//! Help texts, completions and manual pages.

use crate::support::TestFolder;

fn help_of(arguments: &[&str]) -> String {
    TestFolder::empty().succeed(arguments).stdout
}

#[test]
fn the_program_introduces_itself() {
    insta::assert_snapshot!(help_of(&["--help"]));
}

#[test]
fn every_command_explains_itself() {
    for command in [
        "demo",
        "train",
        "eval",
        "render",
        "view",
        "info",
        "convert",
        "clean",
        "mask",
        "pano",
        "align",
        "run",
        "doctor",
        "bench",
        "profile",
        "completions",
    ] {
        insta::assert_snapshot!(format!("help_{command}"), help_of(&[command, "--help"]));
    }
    let short = help_of(&["train", "-h"]);
    assert!(short.lines().count() <= 40, "more than a screen: {} lines", short.lines().count());
    insta::assert_snapshot!("help_train_short", short);
    insta::assert_snapshot!("help_bench_train", help_of(&["bench", "train", "--help"]));
}

#[test]
fn the_inputs_of_a_fit_are_one_paragraph() {
    let help = help_of(&["field", "fit", "--help"]);
    let lines: Vec<&str> = help.lines().skip_while(|line| !line.starts_with("IN: ")).collect();
    let last = lines.iter().position(|line| line.ends_with("slices (.tif, .png).")).expect("the end");
    // Wrapped at the width of the help, and nowhere else.
    assert!(lines[..last].iter().all(|line| line.len() > 80), "{help}");
}

#[test]
fn a_bare_name_gives_help_on_stderr_and_exit_code_2() {
    let finished = TestFolder::empty().run(&[]);
    assert_eq!(finished.code, 2);
    assert!(finished.stdout.is_empty() && finished.stderr.contains("Usage: gausset"), "{finished:?}");
}

#[test]
fn the_version_is_that_of_the_package() {
    let package = concat!("gausset ", env!("CARGO_PKG_VERSION"));
    assert_eq!(help_of(&["-V"]), format!("{package}\n"));
    // In a checkout, followed by the commit: ` (1a2b3c4d)`.
    let version = help_of(&["--version"]);
    let commit = version.strip_prefix(package).expect("the version of the package");
    let digits = commit.strip_prefix(" (").and_then(|rest| rest.strip_suffix(")\n"));
    assert!(commit == "\n" || digits.is_some_and(|digits| digits.len() == 8), "{version}");
}

#[test]
fn completions_know_the_options_of_training() {
    for shell in ["bash", "zsh", "fish"] {
        let script = help_of(&["completions", shell]);
        assert!(script.contains("max-splats"), "{shell}");
        // Values are completed, too: those of a device, which may also be a name.
        assert!(script.contains("auto cpu gpu") || script.contains("auto\\t''\ncpu\\t''\ngpu"), "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let workshop = TestFolder::empty();
    workshop.succeed(&["man", "-o", "pages"]);
    let train = String::from_utf8(workshop.read("pages/gausset-train.1")).expect("text");
    assert!(train.contains("max\\-splats"), "{train}");
    for page in ["gausset", "gausset-demo", "gausset-eval", "gausset-render", "gausset-info", "gausset-bench"]
    {
        assert!(workshop.path(&format!("pages/{page}.1")).is_file(), "{page}");
    }
    // All options have a text, and all pages that a page names exist.
    for entry in std::fs::read_dir(workshop.path("pages")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let page = std::fs::read_to_string(&path).expect("text").replace("\\-", "-");
        let lines: Vec<&str> = page.lines().collect();
        for pair in lines.windows(3).filter(|pair| pair[0] == ".TP") {
            assert!(!pair[2].is_empty() && !pair[2].starts_with('.'), "{}: {pair:?}", path.display());
        }
        for name in lines.iter().filter_map(|line| line.strip_suffix("(1)")) {
            assert!(workshop.path(&format!("pages/{name}.1")).is_file(), "{}: {name}", path.display());
        }
    }
    assert!(workshop.path("pages/gausset-pano-split.1").is_file());
    // Without a folder, one page is printed and no file is written.
    let printed = workshop.succeed(&["man", "train"]).stdout;
    assert_eq!(printed.trim_end(), train.trim_end());
    assert!(workshop.succeed(&["man"]).stdout.contains("gausset\\-train"));
    let unknown = workshop.run(&["man", "pano", "train"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("split|"), "{unknown:?}");
    assert_eq!(std::fs::read_dir(workshop.path(".")).expect("a folder").count(), 1);
    // An existing page is only replaced with --force.
    std::fs::write(workshop.path("pages/gausset-train.1"), "mine").expect("write");
    let refused = workshop.run(&["man", "-o", "pages"]);
    assert!(refused.code == 2 && refused.stderr.contains("exists already"), "{refused:?}");
    assert_eq!(workshop.read("pages/gausset-train.1"), b"mine");
    workshop.succeed(&["man", "-o", "pages", "--force"]);
    assert_eq!(String::from_utf8(workshop.read("pages/gausset-train.1")).expect("text"), train);
}
