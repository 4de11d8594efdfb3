//! Checks that every relative link, and every file cited by a page or a comment, exists.

use std::path::{Path, PathBuf};

/// Folders of the repository: a word that starts with one of them is taken for a path.
const FOLDERS: [&str; 8] =
    ["crates/", "docs/", "research/", "testdata/", "xtask/", "fuzz/", "bench/", ".ci/"];

/// Folders in which a page is looked for that is cited by its file name alone.
const PAGES: [&str; 6] = ["", "docs", "docs/guide", "docs/reference", "docs/internals", "research"];

/// Findings of one file, with their lines (from 1). `text` is a page or a source file of the workspace.
pub(crate) fn findings_in(workspace: &Path, file: &Path, text: &str) -> Vec<(usize, String)> {
    let is_page = file.extension() == Some("md".as_ref());
    let folder = file.parent().unwrap_or(workspace);
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let prose = if is_page { Some(line) } else { line.split_once("//").map(|(_, comment)| comment) };
        let Some(prose) = prose else { continue };
        if is_page {
            for link in links(prose) {
                if let Some(why) = broken_link_reason(folder, file, text, link) {
                    findings.push((number, format!("the link {link} {why}")));
                }
            }
        }
        for cited in cited_paths(prose) {
            // Relative to the workspace, the page, or the crate that the comment is in.
            let mut places = [workspace, folder].into_iter().chain(folder.ancestors());
            if !places.any(|place| place.join(cited).exists()) {
                findings.push((number, format!("{cited} is cited and does not exist")));
            }
        }
        for page in cited_pages(prose) {
            let mut places = PAGES.iter().map(|place| workspace.join(place)).chain([folder.to_owned()]);
            if !places.any(|place| place.join(page).exists()) {
                findings.push((number, format!("{page} is cited and does not exist")));
            }
        }
    }
    findings
}

/// Targets of `[text](target)` that are files of this repository, with or without an anchor.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// Why a link is broken; `None` if it is not.
fn broken_link_reason(folder: &Path, file: &Path, text: &str, link: &str) -> Option<String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = if path.is_empty() { file.to_owned() } else { folder.join(path) };
    if !target.exists() {
        return Some("leads to a file that does not exist".to_owned());
    }
    let anchor = anchor?;
    let page = if path.is_empty() { text.to_owned() } else { std::fs::read_to_string(&target).ok()? };
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let mut anchors = headings.map(|line| anchor_of(line.trim_start_matches('#').trim()));
    (!anchors.any(|known| known == anchor)).then(|| "leads to a heading that does not exist".to_owned())
}

/// The anchor that repository hosts generate for a heading.
fn anchor_of(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Words that are paths in this repository, without patterns and placeholders.
fn cited_paths(line: &str) -> impl Iterator<Item = &str> {
    // `corpus/TARGET`: a placeholder.
    let is_place_to_fill =
        |word: &str| word.split('/').any(|part| part.chars().all(|c| c.is_ascii_uppercase()));
    words(line).filter(move |word| {
        let in_a_folder = FOLDERS.iter().any(|folder| word.starts_with(folder) && word.len() > folder.len());
        in_a_folder && !is_place_to_fill(word)
    })
}

/// Words that name a page, `training.md`.
fn cited_pages(line: &str) -> impl Iterator<Item = &str> {
    words(line).filter(|word| word.ends_with(".md") && !word.contains('/') && word.len() > ".md".len())
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_outside = |c: char| !(c.is_ascii_alphanumeric() || "._-/*{}<>$…".contains(c));
    let words = line.split(is_outside).map(|word| word.trim_end_matches(['.', '/', '-']));
    words.filter(|word| !word.contains(['*', '{', '}', '<', '>', '$', '…']))
}

/// All pages and sources of a workspace.
pub(crate) fn files(workspace: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    collect(workspace, &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("{}: {error}", folder.display()))?;
        let (path, name) = (entry.path(), entry.file_name());
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if path.is_dir() && !is_hidden && name != "target" {
            collect(&path, files)?;
        } else if matches!(path.extension().and_then(std::ffi::OsStr::to_str), Some("rs" | "md")) {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        findings_in(&workspace, &workspace.join(name), text).into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        assert_eq!(
            found(
                "README.md",
                "[a](docs/reference/files.md) [b](https://x.y/z) [c](#two-words)\n# Two words"
            ),
            [""; 0]
        );
        assert_eq!(
            found("README.md", "[a](docs/no.md)"),
            [
                "the link docs/no.md leads to a file that does not exist",
                "docs/no.md is cited and does not exist"
            ]
        );
        assert_eq!(found("README.md", "[a](docs/reference/files.md#nowhere)").len(), 1);
    }

    /// Not written out, so that this file does not find itself.
    fn comment(text: &str) -> String {
        format!("let a = 1; {}{text}", "/".repeat(2))
    }

    #[test]
    fn files_that_pages_and_comments_cite_exist() {
        assert_eq!(found("docs/x.md", "see `crates/io/src/lib.rs`, limits.md."), [""; 0]);
        assert_eq!(found("crates/io/src/x.rs", &comment("see crates/io/src/nothing.rs")).len(), 1);
        assert_eq!(found("crates/io/src/x.rs", "open(\"docs/nothing.md\")"), [""; 0], "only comments cite");
        assert_eq!(found("crates/io/src/x.rs", &comment("as no-such-page.md says")).len(), 1);
        assert_eq!(found("docs/x.md", "`testdata/mistakes/*.txt`, `crates/<name>/src`"), [""; 0]);
    }
}
