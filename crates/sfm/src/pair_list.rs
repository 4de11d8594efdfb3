//! Which pairs of frames are matched, and the file that lists them: that of COLMAP's `matches_importer` with the match type
//! `pairs`.
//!
//! ```text
//! NAME1 NAME2     one pair a line, names as in the model; empty lines and lines that begin with # are ignored
//! ```
//! COLMAP splits a line at its first space, so its users rename images whose names have spaces. Here a line is split where
//! both parts are names of images; if there are several such places, it is refused.
//! Source: COLMAP documentation, "Feature Matching and Geometric Verification".

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gausset_io::input;

use crate::model::FrameImages;
use crate::work_cache::checksum;

/// Largest list, bytes: a million pairs of names of 120 bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Characters of a line that an error quotes.
const QUOTED: usize = 80;

/// Which pairs of frames are matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PairChoice {
    /// The aligner decides.
    #[default]
    Auto,
    /// Every pair.
    All,
    /// These: indices of frames, ascending, each pair once.
    Listed(Vec<[usize; 2]>),
}

impl PairChoice {
    /// Number of pairs of so many frames; `None` if the aligner decides.
    pub(crate) fn count(&self, frames: usize) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::All => Some(frames * frames.saturating_sub(1) / 2),
            Self::Listed(pairs) => Some(pairs.len()),
        }
    }

    /// `auto`, `all`, or the number of pairs and their checksum: equal for equal choices.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::All => "all".to_owned(),
            Self::Listed(pairs) => {
                let bytes = pairs.as_flattened().iter().flat_map(|&frame| (frame as u64).to_le_bytes());
                let sum = u64::from_le_bytes(checksum(bytes));
                format!("{} listed ({sum:016x})", pairs.len())
            }
        }
    }
}

/// A list of pairs that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PairListError {
    /// The file cannot be read.
    #[error("{}: pairs: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It has no pair.
    #[error("{}: pairs: none (expected one a line: NAME1 NAME2)", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line that is not a pair of frames.
    #[error("{}: line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What was expected and found.
        problem: String,
    },
}

/// Lines of a list of pairs, each with its number.
#[derive(Clone, Debug)]
pub struct PairList {
    path: PathBuf,
    lines: Vec<(usize, String)>,
}

impl PairList {
    /// Reads a list. Every line has two names or more words.
    ///
    /// # Errors
    /// The file cannot be read, is too large, has no pair, or a line has one word.
    pub fn read(path: &Path) -> Result<Self, PairListError> {
        let text = input::read_to_string(path, MAX_BYTES)
            .map_err(|source| PairListError::Read { path: path.to_owned(), source })?;
        Self::of_text(path, &text)
    }

    fn of_text(path: &Path, text: &str) -> Result<Self, PairListError> {
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines: Vec<(usize, String)> = lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(number, line)| (number, line.to_owned()))
            .collect();
        let list = Self { path: path.to_owned(), lines };
        if list.lines.is_empty() {
            return Err(PairListError::Empty { path: list.path });
        }
        match list.lines.iter().find(|(_, line)| splits(line).next().is_none()) {
            None => Ok(list),
            Some((number, line)) => {
                Err(list.error(*number, format!("one name (expected two, found {})", quoted(line))))
            }
        }
    }

    /// The pairs of these frames, ascending. A frame is known by the name of its first image.
    ///
    /// # Errors
    /// A line does not name two different frames, can be read as several pairs, or repeats a pair.
    pub fn pairs(&self, frames: &[FrameImages]) -> Result<Vec<[usize; 2]>, PairListError> {
        let names = frames.iter().map(|frame| frame.images.first().map_or("", String::as_str));
        let index_of: HashMap<&str, usize> = names.zip(0..).collect();
        let mut line_of: HashMap<[usize; 2], usize> = HashMap::with_capacity(self.lines.len());
        let mut pairs = Vec::with_capacity(self.lines.len());
        for (number, line) in &self.lines {
            let pair = self.pair_of_line(*number, line, &index_of)?;
            if let Some(first) = line_of.insert(pair, *number) {
                let problem =
                    format!("the pair of line {first} (expected each pair once, found {})", quoted(line));
                return Err(self.error(*number, problem));
            }
            pairs.push(pair);
        }
        pairs.sort_unstable();
        Ok(pairs)
    }

    /// The pair that a line names, ascending.
    fn pair_of_line(
        &self,
        number: usize,
        line: &str,
        index_of: &HashMap<&str, usize>,
    ) -> Result<[usize; 2], PairListError> {
        let mut found = splits(line).filter_map(|(a, b)| Some([*index_of.get(a)?, *index_of.get(b)?]));
        let problem = match (found.next(), found.next()) {
            (Some([a, b]), None) if a != b => return Ok([a.min(b), a.max(b)]),
            (Some(_), None) => format!("an image with itself (expected two images, found {})", quoted(line)),
            (Some(_), Some(_)) => format!(
                "several pairs (expected names of which one pair can be read, found {}); rename images so that names have no spaces",
                quoted(line)
            ),
            (None, _) => {
                let expected = "expected two names of images to align, separated by a space";
                let both: Vec<(&str, &str)> = splits(line).collect();
                let name = match both[..] {
                    [(a, b)] => [a, b].into_iter().find(|name| !index_of.contains_key(name)),
                    _ => None,
                };
                match name {
                    Some(name) => format!("no image {} ({expected})", quoted(name)),
                    None => format!("no two images ({expected}, found {})", quoted(line)),
                }
            }
        };
        Err(self.error(number, problem))
    }

    fn error(&self, line: usize, problem: String) -> PairListError {
        PairListError::Line { path: self.path.clone(), line, problem }
    }
}

/// The parts of a line before and after each gap between words.
fn splits(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let gaps = line.match_indices([' ', '\t']).map(|(at, _)| line.split_at(at));
    let parts = gaps.map(|(a, b)| (a, b.trim_start_matches([' ', '\t'])));
    // Of several spaces in a row the first.
    parts.filter(|(a, _)| !a.ends_with([' ', '\t']))
}

fn quoted(text: &str) -> String {
    let more = if text.chars().nth(QUOTED).is_some() { "…" } else { "" };
    format!("`{}{more}`", text.chars().take(QUOTED).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<FrameImages> {
        let frame = |name: &&str| FrameImages { name: (*name).to_owned(), images: vec![(*name).to_owned()] };
        names.iter().map(frame).collect()
    }

    fn pairs(text: &str, names: &[&str]) -> Result<Vec<[usize; 2]>, String> {
        let list = PairList::of_text(Path::new("p.txt"), text);
        list.and_then(|list| list.pairs(&frames(names))).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_is_read_with_comments_empty_lines_and_names_with_spaces() {
        let text = "\u{FEFF}# NAME1 NAME2\n\nb.jpg a.jpg\r\n  my lake.jpg   b.jpg\nin/ä.jpg\tmy lake.jpg \n";
        let names = ["a.jpg", "b.jpg", "in/ä.jpg", "my lake.jpg"];
        assert_eq!(pairs(text, &names), Ok(vec![[0, 1], [1, 3], [2, 3]]));
    }

    #[test]
    fn each_mistake_has_its_line() {
        let long = format!("a.jpg {}", "x".repeat(300));
        for (text, expected) in [
            ("", "p.txt: pairs: none"),
            ("# nothing\n\n", "p.txt: pairs: none"),
            ("a.jpg b.jpg\nb.jpg\n", "p.txt: line 2: one name (expected two, found `b.jpg`)"),
            ("a.jpg b.jpg\n\na.jpg c.JPG\n", "p.txt: line 3: no image `c.JPG` (expected two names"),
            ("A.jpg b.jpg\n", "p.txt: line 1: no image `A.jpg` ("),
            ("a.jpg b.jpg c d.jpg\n", "p.txt: line 1: no two images ("),
            ("b.jpg b.jpg\n", "p.txt: line 1: an image with itself ("),
            ("a.jpg b.jpg\n# again\nb.jpg a.jpg\n", "p.txt: line 3: the pair of line 1 ("),
            ("x y z\n", "p.txt: line 1: several pairs ("),
        ] {
            let found = pairs(text, &["a.jpg", "b.jpg", "c d.jpg", "x", "y z", "x y", "z"]).unwrap_err();
            assert!(found.starts_with(expected) && !found.contains('\n'), "{text:?}: {found}");
        }
        assert!(pairs(&long, &["a.jpg"]).unwrap_err().len() < 250);
    }

    #[test]
    fn a_list_that_is_missing_a_folder_no_text_or_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |path: &Path| PairList::read(path).unwrap_err().to_string();
        let path = folder.path().join("pairs.txt");
        assert!(refusal(&path).starts_with(&path.display().to_string()));
        assert!(refusal(folder.path()).ends_with("is a directory"));
        std::fs::write(&path, b"a.jpg \xFF.jpg\n").unwrap();
        assert!(refusal(&path).contains("UTF-8"));
        std::fs::File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(refusal(&path).contains("is too large (expected at most 256"), "{}", refusal(&path));
    }
}
