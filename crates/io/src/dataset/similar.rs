//! Finds the file that a name means although the file is spelled or placed differently.
//!
//! Data sets are moved, converted and copied between systems: pictures become PNG, names of macOS are decomposed
//! Unicode, names of Windows have another case and `D:\…\images\` in front, scripts drop sub-folders. A name stands for
//! the file with which it shares most parts of its path, counted from the end, where
//!
//! - parts are compared in Unicode's composed form and without case, the last one without the extension of a picture,
//!   also of one that is not read: `a.HEIC` may be `a.jpg`;
//! - `images/` at the start counts for nothing;
//! - of equals, the one with the same extension and case is taken;
//! - a path whose folders are joined by `_` stands for the path;
//! - a file with two extensions of pictures, `a.jpg.png`, stands for `a.jpg` if no other file does.
//!
//! Two candidates that are alike leave the name unresolved.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization as _;

use crate::image::formats::{NamedFormat, format_of_ending};
use crate::ownership::is_gausset_owned;
use crate::run_folder::{EVALUATION_MARKER, RUN_MARKER};

/// Folder at the start of a name that counts for nothing.
const IMAGE_FOLDER: &str = "images";
/// Folders of files that belong to pictures but are none that are trained on.
const OTHER_FOLDERS: [&str; 14] = [
    "mask",
    "masks",
    "segmentation",
    "depth",
    "depths",
    "normal",
    "normals",
    "thumb",
    "thumbs",
    "thumbnails",
    "rejected",
    "sky_masks",
    "mono_depth",
    "confidence",
];
/// Halves of a split, which never stand for each other.
const SPLIT_FOLDERS: [&str; 4] = ["train", "test", "val", "eval"];
/// Deepest folder, and most files, that are looked at.
const MAX_DEPTH: usize = 8;
const MAX_FILES: usize = 400_000;

/// What a name is a name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Picture,
    Mask,
    Points,
    /// A picture in a list; it may lack its extension.
    Listed,
}

/// What a name may stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Similar<'a> {
    Nothing,
    One(usize),
    /// Two names that are equally like it.
    Several([&'a str; 2]),
}

/// Names, by what they may be spelled like.
#[derive(Clone, Debug, Default)]
pub(super) struct NameIndex {
    names: Vec<String>,
    parts: Vec<Parts>,
    by_stem: BTreeMap<String, Vec<usize>>,
    by_joined_path: BTreeMap<String, Vec<usize>>,
    /// Names with two extensions, by what is left without both.
    by_inner_stem: BTreeMap<String, Vec<usize>>,
    /// Number of pictures that are not read, by extension.
    unread: BTreeMap<String, usize>,
}

/// A name in parts that are compared.
#[derive(Clone, Debug)]
struct Parts {
    /// Keys of the folders.
    all_folders: Vec<String>,
    /// Key of the last part without the extension of a picture.
    stem: String,
    /// The last part in composed form.
    last: String,
}

impl Parts {
    fn new(name: &str) -> Self {
        let mut parts: Vec<&str> =
            name.split(['/', '\\']).filter(|part| !matches!(*part, "" | ".")).collect();
        let last: String = parts.pop().unwrap_or_default().nfc().collect();
        Self { all_folders: parts.into_iter().map(key).collect(), stem: key(stem(&last)), last }
    }

    /// The folders without `images` at the start.
    fn folders(&self) -> &[String] {
        match self.all_folders.split_first() {
            Some((first, rest)) if first == IMAGE_FOLDER => rest,
            _ => &self.all_folders,
        }
    }

    /// The path with its folders joined to the name.
    fn joined(&self) -> String {
        let mut all = self.folders().to_vec();
        all.push(self.stem.clone());
        all.join("_")
    }

    fn common_folders(&self, other: &Self) -> usize {
        common_tail(self.folders(), other.folders())
    }
}

/// Number of parts, from the end, that both have.
fn common_tail(a: &[String], b: &[String]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// Composed Unicode in lower case.
fn key(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.nfc().collect::<String>().to_lowercase() }
}

/// A file name without the extension of a picture.
fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && format_of_ending(extension).is_some() => stem,
        _ => name,
    }
}

/// The extension of a file name; empty if it has none.
fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn is_readable(extension: &str) -> bool {
    format_of_ending(extension) == Some(NamedFormat::Readable)
}

impl NameIndex {
    pub(super) fn new(names: Vec<String>) -> Self {
        let mut index =
            Self { parts: names.iter().map(|name| Parts::new(name)).collect(), ..Self::default() };
        for (number, parts) in index.parts.iter().enumerate() {
            index.by_stem.entry(parts.stem.clone()).or_default().push(number);
            index.by_joined_path.entry(parts.joined()).or_default().push(number);
            let inner = stem(&parts.stem);
            if inner != parts.stem {
                index.by_inner_stem.entry(inner.to_owned()).or_default().push(number);
            }
        }
        index.names = names;
        index
    }

    /// The pictures and PLY files in a folder and in those below it, without hidden ones. Links are followed.
    pub(super) fn of_folder(folder: &Path) -> Self {
        let mut list = FileList::default();
        list.add(folder, "", MAX_DEPTH);
        Self { unread: list.unread, ..Self::new(list.names) }
    }

    /// Number of pictures in the folder that are not read, by extension in lower case.
    pub(super) fn unread(&self) -> &BTreeMap<String, usize> {
        &self.unread
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn name(&self, index: usize) -> &str {
        self.names.get(index).map_or("", String::as_str)
    }

    /// The name that `name` stands for.
    pub(super) fn find(&self, name: &str, kind: FileKind) -> Similar<'_> {
        let wanted = Parts::new(name);
        let of = |map: &BTreeMap<String, Vec<usize>>, key: &str| -> Vec<usize> {
            let found = map.get(key).into_iter().flatten().copied();
            found
                .filter(|&i| self.parts.get(i).is_some_and(|parts| parts.may_stand_for(&wanted, kind)))
                .collect()
        };
        // `a.heic.jpg` was made of `a.heic`, whatever else is called `a`.
        if format_of_ending(extension(&wanted.last)).is_some_and(|format| format != NamedFormat::Readable) {
            let best = self.best(&wanted, of(&self.by_stem, &key(&wanted.last)));
            if best != Similar::Nothing {
                return best;
            }
        }
        let best = self.best(&wanted, of(&self.by_stem, &wanted.stem));
        if best != Similar::Nothing {
            return best;
        }
        // `left/a.jpg` became `left_a.jpg`, or the other way round.
        let joined = wanted.joined();
        let flat = of(&self.by_stem, &joined).into_iter().chain(of(&self.by_joined_path, &wanted.stem));
        let best = self.best(&wanted, flat.collect::<BTreeSet<_>>().into_iter().collect());
        if best != Similar::Nothing || kind != FileKind::Picture {
            return best;
        }
        self.best(&wanted, of(&self.by_inner_stem, &wanted.stem))
    }

    /// The file `stem` + the extension of a picture: in the folder of `name`, or in one whose path `name` ends with.
    /// Returns it with whether the whole paths agree.
    pub(super) fn find_companion(&self, name: &str, stem: &str) -> Option<(&str, bool)> {
        let wanted = Parts::new(name);
        let companions = self.by_stem.get(&key(stem))?.iter().filter_map(|&i| {
            let parts = self.parts.get(i)?;
            let is_suffix = wanted.common_folders(parts) == parts.folders().len();
            let is_png = parts.last.to_ascii_lowercase().ends_with(".png");
            is_suffix.then_some((Reverse(parts.folders().len()), !is_png, i))
        });
        let (Reverse(folders), _, index) = companions.min()?;
        Some((self.name(index), folders == wanted.folders().len()))
    }

    /// The best of some names; several if two are equally good.
    fn best(&self, wanted: &Parts, candidates: Vec<usize>) -> Similar<'_> {
        let mut ranked: Vec<_> = candidates
            .into_iter()
            .filter_map(|i| self.parts.get(i).map(|parts| (parts.rank(wanted), i)))
            .collect();
        ranked.sort();
        match ranked.as_slice() {
            [] => Similar::Nothing,
            [(first, a), (second, b), ..] if first == second => {
                Similar::Several([self.name(*a), self.name(*b)])
            }
            [(_, index), ..] => Similar::One(*index),
        }
    }
}

impl Parts {
    /// Whether a file may be meant by a name at all.
    fn may_stand_for(&self, wanted: &Self, kind: FileKind) -> bool {
        let extension = extension(&self.last);
        let common = self.common_folders(wanted);
        // Folders that only one of the two has.
        let own = |parts: &'_ Self| parts.folders().len() - common;
        let (here, there) =
            (self.folders().iter().take(own(self)), wanted.folders().iter().take(own(wanted)));
        let has = |mut folders: std::iter::Take<std::slice::Iter<'_, String>>, names: &[&str]| {
            folders.any(|folder| names.contains(&folder.as_str()))
        };
        if has(here.clone(), &SPLIT_FOLDERS) && has(there, &SPLIT_FOLDERS) {
            return false;
        }
        match kind {
            FileKind::Picture => is_readable(extension) && !has(here, &OTHER_FOLDERS),
            FileKind::Mask => {
                let is_mask = has(here, &OTHER_FOLDERS) || self.stem.contains("mask");
                is_readable(extension) && (is_mask || common > 0)
            }
            FileKind::Listed => true,
            FileKind::Points => extension.eq_ignore_ascii_case("ply"),
        }
    }

    /// How well a file fits a name; the least is the best.
    fn rank(&self, wanted: &Self) -> (bool, Reverse<usize>, bool, bool, u8) {
        let common = self.common_folders(wanted);
        let is_tail = common == self.folders().len();
        let is_whole = is_tail && common == wanted.folders().len();
        // `images_4/a.jpg` only if there is no `a.jpg`.
        let mut own = self.folders().iter().take(self.folders().len() - common);
        let is_reduced = own.any(|folder| {
            folder.strip_prefix("images_").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        });
        let spelling = if self.last == wanted.last {
            0
        } else if key(&self.last) == key(&wanted.last) {
            1
        } else {
            2
        };
        let common = common_tail(&self.all_folders, &wanted.all_folders);
        (!is_whole, Reverse(common), !is_tail, is_reduced, spelling)
    }
}

/// Whether a folder is a run or an evaluation, whose pictures are renders with the names of the photographs.
fn is_made_by_training(folder: &Path) -> bool {
    [RUN_MARKER, EVALUATION_MARKER].iter().any(|purpose| is_gausset_owned(folder, purpose))
}

/// The files of a folder.
#[derive(Default)]
struct FileList {
    names: Vec<String>,
    unread: BTreeMap<String, usize>,
    /// Folders that were listed, with links resolved.
    seen: BTreeSet<PathBuf>,
}

impl FileList {
    /// Adds the files below `folder` under names that start with `prefix`.
    fn add(&mut self, folder: &Path, prefix: &str, depth: usize) {
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // Links may lead in circles.
        let is_new = here.canonicalize().is_ok_and(|path| self.seen.insert(path));
        let Ok(entries) = std::fs::read_dir(here) else { return };
        if !is_new {
            return;
        }
        let mut entries: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).take(MAX_FILES).collect();
        entries.sort();
        for name in entries {
            if self.names.len() >= MAX_FILES {
                return;
            }
            if name.starts_with('.') || matches!(name.as_str(), "__MACOSX" | "@eaDir") {
                continue;
            }
            let (extension, path) = (extension(&name), here.join(&name));
            if is_readable(extension) || extension.eq_ignore_ascii_case("ply") {
                self.names.push(format!("{prefix}{name}"));
            } else if depth > 0 && path.is_dir() && !is_made_by_training(&path) {
                self.add(&path, &format!("{prefix}{name}/"), depth - 1);
            } else if format_of_ending(extension).is_some() {
                *self.unread.entry(extension.to_ascii_lowercase()).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn found<'a>(names: &'a NameIndex, name: &str) -> Option<&'a str> {
        match names.find(name, FileKind::Picture) {
            Similar::One(index) => Some(names.name(index)),
            _ => None,
        }
    }

    fn index(names: &[&str]) -> NameIndex {
        NameIndex::new(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn a_name_finds_the_file_that_other_systems_and_programs_made_of_it() {
        let cases = [
            ("M\u{fc}ller.jpg", "Mu\u{308}ller.jpg"),
            ("Mu\u{308}ller.jpg", "M\u{fc}ller.jpg"),
            ("IMG_1.JPG", "img_1.jpg"),
            ("a.jpg", "a.png"),
            ("a.JPG", "a.jpeg"),
            ("images/a.jpg", "a.jpg"),
            ("a.jpg", "images/a.jpg"),
            ("cam1/a.jpg", "a.jpg"),
            ("cam1/a.jpg", "cam1_a.jpg"),
            ("cam1_a.jpg", "cam1/a.jpg"),
            ("left\\a.jpg", "left/a.png"),
            ("D:\\My Project\\images\\a.jpg", "images/a.jpg"),
            ("/mnt/x/scene/images/a.jpg", "images/a.jpg"),
            ("/mnt/x/scene/images/a.jpg", "a.jpg"),
            ("images/a.jpg", "rgb/a.jpg"),
            ("a", "images/a.png"),
            ("a.jpg", "images_4/a.png"),
            ("a.HEIC", "a.jpg"),
            ("a.DNG", "images/a.tif"),
            ("a.bmp", "a.jfif"),
            ("a.jpg", "a.jpe"),
            ("a.heic", "a.heic.jpg"),
            ("a.jpg", "a.jpg.png"),
        ];
        for (name, file) in cases {
            let names = index(&[file, "images/other.jpg", "masks/a.png", "depth/a.png"]);
            assert_eq!(found(&names, name), Some(file), "{name}");
        }
    }

    #[test]
    fn the_longest_common_tail_and_the_closest_spelling_decide() {
        let names = index(&["cam0/a.jpg", "cam1/a.jpg", "cam1/a.png", "images_2/b.jpg", "images/b.jpg"]);
        assert_eq!(found(&names, "/data/cam1/a.jpg"), Some("cam1/a.jpg"));
        assert_eq!(found(&names, "/data/cam1/a.png"), Some("cam1/a.png"));
        assert_eq!(found(&names, "D:/x/b.jpg"), Some("images/b.jpg"));
        let names = index(&["old/a.jpg", "images/a.jpg", "old/b.jpg", "b.jpg"]);
        assert_eq!(found(&names, "/mnt/x/images/a.jpg"), Some("images/a.jpg"));
        assert_eq!(found(&names, "/mnt/x/images/b.jpg"), Some("b.jpg"));
        let names = index(&["cam0/a.jpg", "cam1/a.jpg"]);
        assert_eq!(
            names.find("a.jpg", FileKind::Picture),
            Similar::Several(["cam0/a.jpg", "cam1/a.jpg"]),
            "which of two cameras is not guessed"
        );
    }

    #[test]
    fn a_file_with_two_extensions_comes_after_one_with_its_own() {
        let names = index(&["a.jpg.png", "a.png", "b.jpg", "b.heic.jpg"]);
        assert_eq!(found(&names, "a.jpg"), Some("a.png"));
        assert_eq!(found(&names, "b.heic"), Some("b.heic.jpg"), "the copy of this very file");
        assert_eq!(found(&index(&["a.jpg.heic"]), "a.jpg"), None, "it is not read");
    }

    #[test]
    fn nothing_stands_for_a_picture_that_is_none() {
        let names = index(&["masks/a.png", "depth/a.png", "test/r_0.png", "a.ply", "thumbs/a.jpg"]);
        for name in ["a.jpg", "images/a.png", "train/r_0", "./train/r_0.png", "b.jpg"] {
            assert_eq!(names.find(name, FileKind::Picture), Similar::Nothing, "{name}");
        }
        let points = |name| names.find(name, FileKind::Points);
        assert_eq!(points("/mnt/x/a.ply"), Similar::One(3));
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_in_circles_end() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/a.jpg"), b"x").unwrap();
        std::os::unix::fs::symlink("..", folder.path().join("sub/up")).unwrap();
        assert_eq!(NameIndex::of_folder(folder.path()).names(), ["sub/a.jpg"]);
    }
}
