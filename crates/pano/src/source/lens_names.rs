//! Pairs the image files of two fisheye lenses by their names.

use crate::source::frames::{SourceFrame, source_frame_from_files};

/// Names of the files of two lenses: prefixes of a GoPro Fusion, and suffixes after one of the separators.
const LENS_PREFIXES: [[&str; 2]; 2] = [["gpfr", "gpbk"], ["gf", "gb"]];
const LENS_SUFFIXES: [[&str; 2]; 2] = [["front", "back"], ["0", "1"]];
const SEPARATORS: [char; 4] = ['_', '-', '.', ' '];
/// Words that probably name the two lenses, anywhere in a name.
const PROBABLE_WORDS: [[&str; 2]; 6] = [
    ["front", "back"],
    ["left", "right"],
    ["lens0", "lens1"],
    ["lens1", "lens2"],
    ["cam0", "cam1"],
    ["cam1", "cam2"],
];

/// A file name of one lens.
pub(crate) struct LensName {
    /// Name of the frame.
    frame: String,
    /// 0 or 1.
    pub(crate) lens: usize,
    /// Stem of the file of the other lens.
    pub(crate) other: String,
}

impl LensName {
    /// `None` if the stem does not name a lens.
    fn new(stem: &str) -> Option<Self> {
        Self::of_prefix(stem).or_else(|| LENS_SUFFIXES.iter().find_map(|words| Self::of_suffix(stem, *words)))
    }

    /// As [`Self::new`], without names that end in a digit, as parts of a video do.
    pub(crate) fn of_video(stem: &str) -> Option<Self> {
        Self::of_prefix(stem).or_else(|| Self::of_suffix(stem, LENS_SUFFIXES[0]))
    }

    /// By words that the names contain; the last occurrence counts.
    fn of_words(stem: &str, words: &[String; 2]) -> Option<Self> {
        let (lens, at) = (0..2).find_map(|lens| Some((lens, stem.rfind(words[lens].as_str())?)))?;
        let (before, after) = (&stem[..at], &stem[at + words[lens].len()..]);
        let name = |word: &str| format!("{before}{word}{after}");
        let frame = name("").trim_matches(['_', '-', '.', ' ']).to_owned();
        let frame = if frame.is_empty() { name(&words[0]) } else { frame };
        Some(Self { frame, lens, other: name(&words[1 - lens]) })
    }

    fn of_prefix(stem: &str) -> Option<Self> {
        let numbered = |word: &str| {
            let rest = stem.get(word.len()..)?;
            let is_one = stem[..word.len()].eq_ignore_ascii_case(word)
                && rest.starts_with(|c: char| c.is_ascii_digit());
            is_one.then_some(rest)
        };
        LENS_PREFIXES.iter().find_map(|words| {
            let (lens, rest) = (0..2).find_map(|lens| Some((lens, numbered(words[lens])?)))?;
            let word = |lens: usize| in_case_of(stem, words[lens]);
            Some(Self {
                frame: format!("{}{rest}", word(0)),
                lens,
                other: format!("{}{rest}", word(1 - lens)),
            })
        })
    }

    fn of_suffix(stem: &str, words: [&str; 2]) -> Option<Self> {
        let (lens, at) = (0..2).find_map(|lens| {
            let at = stem.len().checked_sub(words[lens].len())?;
            stem.get(at..)?.eq_ignore_ascii_case(words[lens]).then_some((lens, at))
        })?;
        let (before, own) = stem.split_at(at);
        let name = before.strip_suffix(SEPARATORS).filter(|name| !name.is_empty())?;
        let other = in_case_of(own, words[1 - lens]);
        Some(Self { frame: name.to_owned(), lens, other: format!("{before}{other}") })
    }
}

/// `word` in the case in which `like` begins: `front`, `Front` or `FRONT`.
fn in_case_of(like: &str, word: &str) -> String {
    let letters: Vec<char> = like.chars().take_while(char::is_ascii_alphabetic).collect();
    match letters.as_slice() {
        [first, ..] if !first.is_ascii_uppercase() => word.to_owned(),
        [_, second, ..] if second.is_ascii_lowercase() => {
            let at = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
            format!("{}{}{}", &word[..at], word[at..=at].to_ascii_uppercase(), &word[at + 1..])
        }
        _ => word.to_ascii_uppercase(),
    }
}

/// Pairs the files of two lenses into frames: `GPFR0001` and `GPBK0001`, `GF…` and `GB…`, `NAME_front` and `NAME_back`,
/// `NAME_0` and `NAME_1`, or names that differ in the given words; the first is the left half. `None` if other images are among them. A file without its
/// counterpart is returned as the error: the name of the missing one.
#[must_use]
pub fn pair_lens_files(
    frames: &[SourceFrame],
    words: Option<&[String; 2]>,
) -> Option<Result<Vec<SourceFrame>, String>> {
    let name = |frame: &SourceFrame| match words {
        Some(words) => LensName::of_words(&frame.stem, words),
        None => LensName::new(&frame.stem),
    };
    let names: Option<Vec<LensName>> = frames.iter().map(name).collect();
    let names = names?;
    let mut pairs = Vec::new();
    for (frame, LensName { frame: name, lens, other }) in frames.iter().zip(&names) {
        let Some(second) = frames.iter().find(|frame| frame.stem.eq_ignore_ascii_case(other)) else {
            return Some(Err(other.clone()));
        };
        if *lens == 0 {
            pairs.push(source_frame_from_files(name, [frame.files.clone(), second.files.clone()].concat()));
        }
    }
    (!pairs.is_empty()).then_some(Ok(pairs))
}

/// The two words by which the files of two lenses are probably named, if all names contain one of them: as they are
/// written there, the first lens first.
#[must_use]
pub fn probable_lens_words(frames: &[SourceFrame]) -> Option<[String; 2]> {
    PROBABLE_WORDS.iter().find_map(|words| {
        let found = |word: &str| {
            frames.iter().find_map(|frame| find_word(&frame.stem, word)).map(|word| word.to_owned())
        };
        let words = [found(words[0])?, found(words[1])?];
        let is_one = |frame: &SourceFrame| {
            let [first, second] =
                [0, 1].map(|lens| find_word(&frame.stem, &words[lens]) == Some(&words[lens]));
            first != second
        };
        frames.iter().all(is_one).then_some(words)
    })
}

/// A word in a stem, in any case, that is not part of a longer one.
fn find_word<'a>(stem: &'a str, word: &str) -> Option<&'a str> {
    let at = stem.to_ascii_lowercase().rfind(&word.to_ascii_lowercase())?;
    let (before, rest) = stem.split_at_checked(at)?;
    let (own, after) = rest.split_at_checked(word.len())?;
    let is_digit = word.ends_with(|c: char| c.is_ascii_digit());
    let continues = |c: char| if is_digit { c.is_ascii_digit() } else { c.is_alphabetic() };
    (!before.ends_with(char::is_alphabetic) && !after.starts_with(continues)).then_some(own)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn files_of_two_lenses_are_joined_by_their_names() {
        let frame = |stem: &str| source_frame_from_files(stem, vec![PathBuf::from(format!("{stem}.JPG"))]);
        let pairs = |stems: &[&str]| {
            let frames: Vec<SourceFrame> = stems.iter().map(|stem| frame(stem)).collect();
            let pairs = pair_lens_files(&frames, None)?;
            let name = |path: &PathBuf| path.display().to_string();
            Some(pairs.map(|pairs| {
                pairs
                    .iter()
                    .map(|pair| (pair.stem.clone(), pair.files.iter().map(name).collect::<Vec<_>>()))
                    .collect::<Vec<_>>()
            }))
        };
        let one = |stem: &str, files: [&str; 2]| {
            Some(Ok(vec![(stem.to_owned(), files.map(str::to_owned).to_vec())]))
        };
        assert_eq!(pairs(&["GPBK0001", "GPFR0001"]), one("GPFR0001", ["GPFR0001.JPG", "GPBK0001.JPG"]));
        assert_eq!(pairs(&["GB010002", "GF010002"]), one("GF010002", ["GF010002.JPG", "GB010002.JPG"]));
        assert_eq!(pairs(&["Room_back", "Room_front"]), one("Room", ["Room_front.JPG", "Room_back.JPG"]));
        assert_eq!(pairs(&["a_0", "a_1"]), one("a", ["a_0.JPG", "a_1.JPG"]));
        assert_eq!(pairs(&["GPFR0001", "GPBK0001", "GPFR0002"]), Some(Err("GPBK0002".to_owned())));
        assert_eq!(pairs(&["a_0", "a_1", "b"]), None);
        assert_eq!(pairs(&["gfather", "gbase"]), None);
        assert_eq!(pairs(&["p-BACK", "p-FRONT"]), one("p", ["p-FRONT.JPG", "p-BACK.JPG"]));
        assert_eq!(pairs(&["p.0", "p.1"]), one("p", ["p.0.JPG", "p.1.JPG"]));
        assert_eq!(pairs(&["front", "back"]), None);
        assert_eq!(pairs(&["shopfront", "throwback"]), None);
        let words = ["left", "right"].map(str::to_owned);
        let frames = [frame("left"), frame("right"), frame("b-right"), frame("b-left")];
        let stems: Vec<String> =
            pair_lens_files(&frames, Some(&words)).unwrap().unwrap().into_iter().map(|f| f.stem).collect();
        assert_eq!(stems, ["left", "b"]);
        assert!(pair_lens_files(&[frame("a"), frame("left")], Some(&words)).is_none());
    }

    #[test]
    fn words_that_probably_name_lenses_are_found_as_they_are_written() {
        let of = |stems: &[&str]| {
            let frames: Vec<SourceFrame> =
                stems.iter().map(|stem| source_frame_from_files(stem, Vec::new())).collect();
            probable_lens_words(&frames)
        };
        let words = |a: &str, b: &str| Some([a.to_owned(), b.to_owned()]);
        assert_eq!(of(&["cam0_left", "cam0_right", "cam1_left", "cam1_right"]), words("left", "right"));
        assert_eq!(of(&["FRONT_0", "BACK_0", "FRONT_1"]), words("FRONT", "BACK"));
        assert_eq!(of(&["p0_lens0", "p0_lens1"]), words("lens0", "lens1"));
        for others in [
            &["a_front", "a_left"][..],
            &["a_front", "a_back", "a_up"],
            &["waterfront", "feedback"],
            &["a_lens0", "a_lens10"],
            &["front_back"],
            &[],
        ] {
            assert_eq!(of(others), None, "{others:?}");
        }
    }
}
