//! Names on a terminal: names of images, classes, folders and files cannot inject control characters into the output.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;

use gausset_io::text::is_terminal_control;

use crate::foreign_files::{CASES, write_inputs};
use crate::support::{ProcessResult, TestFolder};

/// A file name that colours, clears, returns to the start of the line, forges a line and reverses the text direction.
const HOSTILE: &str = "a\x1b[31m\u{9b}2J\r\nforged: 99.9 dB\u{7f}\u{202e}\u{2067}\u{2028}\x07";
/// The escaped form of its beginning.
const SHOWN: &str = r"a\u{1b}[31m\u{9b}2J\r\nforged: 99.9 dB\u{7f}\u{202e}\u{2067}\u{2028}\u{7}";

/// Control characters in the output, and lines that a name has started.
fn obeyed(finished: &ProcessResult) -> Option<String> {
    let is_ours = |c| c == '\n' || !is_terminal_control(c);
    let lines = [&finished.stdout, &finished.stderr].map(|text| text.lines());
    let mut lines = lines.into_iter().flatten();
    lines
        .find(|line| !line.chars().all(is_ours) || line.starts_with("forged"))
        .map(|line| format!("{line:?}"))
}

#[track_caller]
fn shown(finished: &ProcessResult, expected: &str) {
    assert_eq!(obeyed(finished), None, "{finished:?}");
    let all = format!("{}{}", finished.stdout, finished.stderr);
    assert!(all.contains(expected), "{expected}: {finished:?}");
}

#[test]
fn no_command_prints_what_a_terminal_would_obey() {
    let workshop = TestFolder::empty();
    write_inputs(&workshop);
    symlink("in", workshop.path(HOSTILE)).expect("a link");
    let mut obeying = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        let here = format!("{number}{HOSTILE}");
        let spelt = |word: &&str| match word.split_once('/') {
            Some(("IN", rest)) => format!("{HOSTILE}/{rest}"),
            Some(("HERE", rest)) => format!("{here}/{rest}"),
            _ => word.replace("HERE", &here),
        };
        let arguments: Vec<String> = case.iter().map(spelt).collect();
        fs::create_dir(workshop.path(&here)).expect("a folder");
        // As text, and with `--json` if the command has it.
        for more in [&[][..], &["--json"]] {
            let arguments: Vec<&str> =
                arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
            let finished = workshop.run(&arguments);
            obeying.extend(obeyed(&finished).map(|line| format!("{case:?}: {line}")));
        }
    }
    assert!(obeying.is_empty(), "{}", obeying.join("\n"));
}

#[test]
fn names_of_pictures_stay_in_their_row() {
    let workshop = TestFolder::with_data();
    // Names of the same length, in the image list and on disk: one held out, one for training, one missing.
    let names = ["r\x1b[1m\n\u{9b}.png", "\u{202e}\u{2028}\x7f\r.png", "\x07\x1b[2J\n\u{61c}.png"];
    let list = workshop.path("data/sparse/0/images.bin");
    let mut bytes = fs::read(&list).expect("the list");
    for (number, name) in [0, 3, 5].into_iter().zip(names) {
        let old = format!("view_{number:03}.png");
        assert_eq!(old.len(), name.len());
        let at = bytes.windows(old.len()).position(|part| part == old.as_bytes()).expect("a name");
        bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        for folder in ["images", "masks"] {
            let path = workshop.path(&format!("data/{folder}"));
            let _ = fs::rename(path.join(&old), path.join(name));
        }
    }
    fs::write(&list, bytes).expect("the list");
    shown(&workshop.succeed(&["train", "data", "-o", "run", "--steps", "2"]), "PSNR");
    // The first in order is held out.
    shown(&workshop.succeed(&["eval", "run"]), r"\u{7}\u{1b}[2J\n\u{61c}.png");
    shown(&workshop.succeed(&["eval", "run", "--json"]), r"\u0007\u001b[2J\n\u061c.png");
    fs::remove_file(workshop.path("data/images").join(names[0])).expect("a picture");
    shown(&workshop.run(&["info", "data"]), r"r\u{1b}[1m\n\u{9b}.png");
    shown(&workshop.run(&["info", "data", "--exposure"]), "");
    shown(&workshop.succeed(&["pano", "compare", "data", "data"]), "matched by name");
    let profile =
        workshop.run(&["train", "data", "-o", "timed", "--steps", "2", "--profile", "--allow-missing"]);
    shown(&profile, "PSNR");
}

#[test]
fn names_in_profiles_stay_in_their_row() {
    let workshop = TestFolder::with_data();
    workshop.succeed(&["train", "data", "-o", "run", "--steps", "2", "--profile", "-q"]);
    let profile = String::from_utf8(workshop.read("run/profile.json")).expect("text");
    let escaped = serde_json::to_string(HOSTILE).expect("JSON");
    let renamed = profile.replace("blend", escaped.trim_matches('"'));
    assert_ne!(renamed, profile);
    fs::write(workshop.path("run/profile.json"), renamed).expect("a profile");
    shown(&workshop.succeed(&["profile", "show", "run"]), SHOWN);
    shown(&workshop.succeed(&["profile", "diff", "run", "run"]), SHOWN);
    shown(&workshop.succeed(&["profile", "diff", "run", "run", "--json"]), r"a\u001b[31m\u009b2J");
}

#[cfg(feature = "masks")]
#[test]
fn names_of_classes_stay_in_their_line() {
    let workshop = crate::support::with_walk(1);
    fs::write(workshop.path("red.onnx"), gausset_testkit::onnx::TestNetwork::red_segmenter(32).bytes())
        .expect("a model");
    let name = serde_json::to_string(HOSTILE).expect("a string").replace('\u{7f}', r"\u007f");
    let description = format!(
        "[output]\nkind = \"semantic\"\nmasks = \"mask\"\nactivation = \"none\"\n[classes]\nnames = [{name}]\n"
    );
    fs::write(workshop.path("red.toml"), description).expect("a description");
    let mask = ["mask", "walk", "-o", "masks", "--model", "red.onnx", "--confidence", "0.01", "--explain"];
    let all = [&mask[..], &["--remove", HOSTILE]].concat();
    shown(&workshop.succeed(&all), SHOWN);
    shown(&workshop.run(&[&all[..], &["--force", "--json"]].concat()), r"a\u001b[31m\u009b2J");
    shown(&workshop.run(&[&mask[..], &["--remove", "x\x1b[31m\ny"]].concat()), r"x\u{1b}[31m y");
}
