//! Inputs as strangers bring them: `gausset info` on each input that `make/all.sh` of a collection of cases makes, and
//! on the photographs of the collection itself, compared with its right answer.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program;

/// The right answers, a line an input: name, exit code, and what it is:
///
/// - `FORMAT IMAGES POINTS` of a dataset
/// - `splats FORMAT COUNT DEGREE`
/// - `photographs` with their number, their size if they have one, and the number of HEIC files
/// - `-` for a refusal
const ANSWERS: &str = include_str!("cases.txt");

/// Checks all cases; each is in the first of the folders that has it. Folders without an answer in the first are named
/// and left out.
pub(crate) fn run(folders: &[PathBuf]) -> Result<(), String> {
    let answers: Vec<(&str, &str)> = ANSWERS.lines().filter_map(|line| line.split_once(' ')).collect();
    for name in folders.first().map(|folder| folders_in(folder)).transpose()?.unwrap_or_default() {
        let is_known = |answer: &str| answer.split('/').next() == Some(name.as_str());
        if !answers.iter().any(|(answer, _)| is_known(answer)) {
            println!("{name}: no answer is known");
        }
    }
    let program = program()?;
    let (mut checked, mut wrong, mut missing) = (0, 0, 0);
    for (name, expected) in answers {
        let Some(case) = folders.iter().map(|folder| folder.join(name)).find(|case| case.exists()) else {
            println!("{name}: is in none of the folders");
            missing += 1;
            continue;
        };
        checked += 1;
        let found = answer(&program, &case)?;
        if found != expected {
            wrong += 1;
            println!("{name}: expected {expected}, found {found}");
        }
    }
    println!("{checked} cases, {wrong} wrong, {missing} missing");
    if wrong + missing == 0 { Ok(()) } else { Err("not all cases give the right answer".to_owned()) }
}

/// Names of the folders in a folder, in order.
fn folders_in(folder: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// What `info` says of an input, in the form of [`ANSWERS`].
fn answer(program: &Path, case: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .args(["info", "--json"])
        .arg(case)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let code = output.status.code().map_or_else(|| "killed".to_owned(), |code| code.to_string());
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ok(format!("{code} {}", describe(&info)))
}

/// Describes the object that `info --json` prints.
fn describe(info: &serde_json::Value) -> String {
    let format = info["format"].as_str().unwrap_or("?");
    match info["kind"].as_str() {
        Some("dataset") => format!("{format} {} {}", info["images"], info["points"]),
        Some("splats") => format!("splats {format} {} {}", info["count"], info["sh_degree"]),
        Some(kind) => {
            // `4 photographs, different sizes, without cameras; 1 HEIC photograph, …`
            let what = info["what"].as_str().unwrap_or_default();
            let numbers =
                what.split_whitespace().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
            std::iter::once(kind).chain(numbers).collect::<Vec<_>>().join(" ")
        }
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn photographs_are_told_by_their_numbers() {
        let what =
            "4 photographs, 800x450 px, without cameras; 1 HEIC photograph, converted by ffmpeg or libheif";
        let info = serde_json::json!({ "kind": "photographs", "what": what });
        assert_eq!(describe(&info), "photographs 4 800x450 1");
        assert_eq!(describe(&serde_json::Value::Null), "-");
    }
}
