//! Builds names of output files from names in third-party files, which must never choose the folder.
//!
//! An image may be named `/home/me/a.jpg`, `../../a.jpg`, `C:\a.jpg` or `.ssh/config`. The result is a path below the
//! output folder on every system; harmless names are unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Longest name of a file or folder in bytes: file systems allow 255, and suffixes are added.
const MAX_PART_BYTES: usize = 200;
/// Longest result of [`flat`].
const MAX_FLAT_CHARS: usize = 60;
/// Name for inputs without a usable one.
const NAMELESS: &str = "picture";

/// A name as a path below a folder: sub-folders are kept; everything that could lead out of the folder, hide the file
/// or have a special meaning is removed or replaced by `_`.
///
/// ```
/// use gausset_io::output_names::safe_path;
///
/// assert_eq!(safe_path("left/0001.jpg"), std::path::Path::new("left/0001.jpg"));
/// assert!(safe_path("../../etc/passwd").starts_with("etc"));
/// ```
#[must_use]
pub fn safe_path(name: &str) -> PathBuf {
    let parts = name.split(['/', '\\']).map(safe_component).filter(|part| !part.is_empty());
    let path: PathBuf = parts.collect();
    if path.as_os_str().is_empty() { PathBuf::from(NAMELESS) } else { path }
}

/// A name as part of a file name: letters, digits, `-`, `_` and `.` only, without extension; long ones keep their end.
#[must_use]
pub fn flat_name(name: &str) -> String {
    let stem = Path::new(name).with_extension("");
    let stem = safe_path(&stem.to_string_lossy());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain: Vec<char> =
        stem.to_string_lossy().chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    plain[plain.len().saturating_sub(MAX_FLAT_CHARS)..].iter().collect()
}

/// A path below a folder for each image, without extension, to which `""` and the endings are appended: no two
/// resulting files have the same name, even if case is ignored. Images that differ only in their extension (`a.jpg`,
/// `a.png`) keep it.
#[must_use]
pub fn distinct_paths(names: &[&str], endings: &[&str]) -> Vec<PathBuf> {
    let stem = |name: &str| safe_path(&Path::new(name).with_extension("").to_string_lossy());
    let key = |path: &Path| path.to_string_lossy().to_lowercase();
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *count.entry(key(&stem(name))).or_default() += 1;
    }
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut take = |path: &Path| {
        let files: Vec<String> =
            [""].iter().chain(endings).map(|ending| key(path) + &ending.to_lowercase()).collect();
        let is_free = !files.iter().any(|file| taken.contains(file));
        if is_free {
            taken.extend(files);
        }
        is_free
    };
    let apart = |name: &&str| {
        let stem = stem(name);
        let whole = if count.get(&key(&stem)) == Some(&1) { stem } else { safe_path(name) };
        let numbered = (2u64..).map(|number| PathBuf::from(format!("{}_{number}", whole.display())));
        std::iter::once(whole.clone()).chain(numbered).find(|path| take(path)).unwrap_or(whole)
    };
    names.iter().map(apart).collect()
}

/// A path component without special characters; may become empty.
fn safe_component(part: &str) -> String {
    // `C:` and `C:name` are drives on other systems; `.`, `..`, and trailing dots and spaces are special or ignored.
    let part = match part.as_bytes() {
        [letter, b':', ..] if letter.is_ascii_alphabetic() => part.get(2..).unwrap_or_default(),
        _ => part,
    };
    let part = part.trim_end_matches(['.', ' ']);
    let is_odd = |c: char| c.is_control() || matches!(c, ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let mut plain: String = part.chars().map(|c| if is_odd(c) { '_' } else { c }).collect();
    if plain.starts_with('.') {
        plain.replace_range(..1, "_");
    }
    let stem = plain.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_number = |text: &str| matches!(text.as_bytes(), [b'0'..=b'9']);
    let is_device = matches!(stem.as_str(), "con" | "prn" | "aux" | "nul")
        || ["com", "lpt"].iter().any(|device| stem.strip_prefix(device).is_some_and(is_number));
    if is_device {
        plain.insert(0, '_');
    }
    let mut start = plain.len().saturating_sub(MAX_PART_BYTES);
    while !plain.is_char_boundary(start) {
        start += 1;
    }
    plain.split_off(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn harmless_names_stay_as_they_are() {
        for name in ["a", "sub/view 1", "Kirche_ä.b", "2024-01-01/IMG_0001", "pano.jpg/front"] {
            assert_eq!(safe_path(name), Path::new(name));
        }
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for (name, expected) in [
            ("/etc/passwd", "etc/passwd"),
            ("../../a", "a"),
            ("a/../../b", "a/b"),
            ("..\\..\\a", "a"),
            ("C:\\Users\\me\\a", "Users/me/a"),
            ("c:a", "a"),
            ("\\\\server\\share\\a", "server/share/a"),
            ("a\0b\nc", "a_b_c"),
            (".ssh/config", "_ssh/config"),
            (".gausset", "_gausset"),
            ("... /a", "a"),
            ("NUL", "_NUL"),
            ("com1.jpg", "_com1.jpg"),
            ("a:stream", "stream"),
            ("ab:stream", "ab_stream"),
            ("", "picture"),
            ("..", "picture"),
            ("/", "picture"),
        ] {
            let path = safe_path(name);
            assert_eq!(path, Path::new(expected), "{name:?}");
            assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
        assert!(safe_path(&"ä".repeat(4000)).to_str().unwrap().len() <= MAX_PART_BYTES);
    }

    #[test]
    fn a_flat_name_is_plain_and_short() {
        assert_eq!(flat_name("a/b c.jpg"), "a_b_c");
        assert_eq!(flat_name("../../etc/passwd"), "etc_passwd");
        let long = flat_name(&"é".repeat(4000));
        assert!(long.is_ascii() && long.len() == MAX_FLAT_CHARS);
    }

    #[test]
    fn two_pictures_never_share_an_output() {
        let endings = ["_alpha", "_depth"];
        let made = distinct_paths(&["a.jpg", "a.png", "b.png", "b_alpha.png", "s/a.png"], &endings);
        assert_eq!(texts(&made), ["a.jpg", "a.png", "b", "b_alpha_2", "s/a"]);
        let made = distinct_paths(&["../x.png", "x.png", "/x.png", "X.PNG", "x.png"], &endings);
        assert_eq!(texts(&made), ["x.png", "x.png_2", "x.png_3", "X.PNG_4", "x.png_5"]);
        assert_eq!(texts(&distinct_paths(&["dir.1/a.png", "dir.1/b.png"], &endings)), ["dir.1/a", "dir.1/b"]);
    }
}
