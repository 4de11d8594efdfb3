//! Inputs as strangers bring them: `gausset info` on each folder that `make/all.sh` of a collection of cases makes, compared
//! with its right answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::program;

/// The right answers, a line a folder: name, exit code, and format, images and points of the dataset; `photographs` for a
/// folder without cameras, `-` for a refusal.
const ANSWERS: &str = include_str!("cases.txt");

/// Checks all cases in a folder. Folders without an answer are named and left out.
pub(crate) fn run(folder: &Path) -> Result<(), String> {
    let mut answers: BTreeMap<&str, &str> = ANSWERS.lines().filter_map(|line| line.split_once(' ')).collect();
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let program = program()?;
    let (mut checked, mut wrong) = (0, 0);
    for name in &names {
        let Some(expected) = answers.remove(name.as_str()) else {
            println!("{name}: no answer is known");
            continue;
        };
        checked += 1;
        let found = answer(&program, &folder.join(name))?;
        if found != expected {
            wrong += 1;
            println!("{name}: expected {expected}, found {found}");
        }
    }
    for name in answers.keys() {
        println!("{name}: is not in {}", folder.display());
    }
    println!("{checked} cases, {wrong} wrong, {} missing", answers.len());
    if wrong + answers.len() == 0 { Ok(()) } else { Err("not all cases give the right answer".to_owned()) }
}

/// What `info` says of a folder, in the form of [`ANSWERS`].
fn answer(program: &Path, case: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .args(["info", "--json"])
        .arg(case)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let code = output.status.code().map_or_else(|| "killed".to_owned(), |code| code.to_string());
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let what = match info["kind"].as_str() {
        Some("dataset") => {
            let format = info["format"].as_str().unwrap_or("?");
            format!("{format} {} {}", info["images"], info["points"])
        }
        Some(kind) => kind.to_owned(),
        None => "-".to_owned(),
    };
    Ok(format!("{code} {what}"))
}
