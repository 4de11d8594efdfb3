//! Frames of an input: images of a folder, or frames of a video.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;
use gausset_io::image::formats::{NamedFormat, is_readable, left_out_line, named_format};
use gausset_io::input;
use gausset_io::text::counted;

use crate::source::video::{Video, is_video_name};

/// Largest number of sub-folders in which images are looked for.
const MAX_FOLDERS_BELOW: usize = 1000;

/// The frames of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameList {
    /// Sorted by name.
    pub frames: Vec<SourceFrame>,
    /// Pictures of formats that are not read: format, ending, number.
    pub left_out: Vec<(NamedFormat, String, usize)>,
    /// Number of images that are masks of others by their names.
    pub masks: usize,
}

/// A frame of the input, with the files that it is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Name in the output: letters, digits, `.`, `-`, `_`.
    pub stem: String,
    /// The image file, or several files that together hold one frame.
    pub files: Vec<PathBuf>,
    /// Total size of the files, bytes.
    pub bytes: u64,
    /// Latest modification time, seconds since 1970.
    pub modified: u64,
}

/// Why the frames of a folder cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum FramesError {
    /// It cannot be read.
    #[error("{}: folder: {reason}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// Two files would get the same frame name.
    #[error(
        "{}: frames: {first} and {second} would get the same name (expected names that differ in plain letters and digits, without extension and case); rename one", path.display()
    )]
    DuplicateName {
        /// The folder.
        path: PathBuf,
        /// Name of the first file.
        first: String,
        /// Name of the second file.
        second: String,
    },
    /// The folder has no images.
    #[error("{}: frames: none found (expected .jpg, .png, .tif or .webp files{})", path.display(), found_instead(left_out, *masks, below.as_ref(), film.as_ref()))]
    NoImages {
        /// The folder.
        path: PathBuf,
        /// Pictures of formats that are not read: format, ending, number.
        left_out: Vec<(NamedFormat, String, usize)>,
        /// Number of images that are masks of others by their names.
        masks: usize,
        /// The sub-folder with most images, and their number.
        below: Option<(PathBuf, usize)>,
        /// Name of the first video in it.
        film: Option<OsString>,
    },
}

/// `3 pictures left out: masks by their names`; `None` for 0.
#[must_use]
pub fn masks_line(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{} left out: masks by their names", counted(count as u64, "picture")))
}

/// `; 40 HEIC files left out: convert them …; 12 images in its folder 100RICOH: name that folder`
fn found_instead(
    left_out: &[(NamedFormat, String, usize)],
    masks: usize,
    below: Option<&(PathBuf, usize)>,
    film: Option<&OsString>,
) -> String {
    let lines = left_out.iter().filter_map(|(format, ending, count)| left_out_line(*format, ending, *count));
    let below = below.map(|(folder, count)| {
        let name = folder.file_name().unwrap_or_default().display();
        format!("{} in its folder {name}: name that folder", counted(*count as u64, "image"))
    });
    let film = film.map(|name| format!("{} is a video: name that file", name.display()));
    lines.chain(masks_line(masks)).chain(below).chain(film).map(|line| format!("; {line}")).collect()
}

/// The sub-folder with most images, of the first names in byte order; `None` if there is none with images.
fn images_below(folder: &Path, names: &[&OsString]) -> Option<(PathBuf, usize)> {
    let count = |folder: &Path| {
        let names = input::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.file_name()));
        let images = names.filter(|name| !is_hidden(name) && is_readable(Path::new(name)));
        Some(images.count()).filter(|count| *count > 0)
    };
    let folders = names.iter().map(|name| folder.join(name)).filter(|path| path.is_dir());
    let counts = folders.take(MAX_FOLDERS_BELOW).filter_map(|path| count(&path).map(|count| (path, count)));
    counts.reduce(|most, other| if other.1 > most.1 { other } else { most })
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Counts the pictures of formats that are not read, by format and ending.
#[must_use]
pub fn count_left_out<'a>(names: impl Iterator<Item = &'a Path>) -> Vec<(NamedFormat, String, usize)> {
    let mut counts: BTreeMap<(NamedFormat, String), usize> = BTreeMap::new();
    for name in names {
        if let Some(format) = named_format(name).filter(|format| *format != NamedFormat::Readable) {
            let ending = name.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
            *counts.entry((format, ending)).or_default() += 1;
        }
    }
    counts.into_iter().map(|((format, ending), count)| (format, ending, count)).collect()
}

/// Lists the frames of a folder: JPEG (also .insp), PNG, TIFF and WebP files without masks, sorted by name (byte order).
///
/// # Errors
/// The folder cannot be read or has no images, or two names are equal without extension and case.
pub fn list_frames(folder: &Path) -> Result<Vec<SourceFrame>, FramesError> {
    list_folder(folder).map(|list| list.frames)
}

/// Lists the frames of a folder as [`list_frames`], and counts the pictures of formats that are not read.
///
/// # Errors
/// As [`list_frames`].
pub fn list_folder(folder: &Path) -> Result<FrameList, FramesError> {
    let unreadable =
        |e: std::io::Error| FramesError::Folder { path: folder.to_owned(), reason: plain_reason(&e) };
    let entries = input::read_dir(folder).map_err(unreadable)?;
    let names: Result<Vec<OsString>, _> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
    let mut names = names.map_err(unreadable)?;
    names.sort();
    let mut frames: Vec<SourceFrame> = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut masks = 0;
    for name in &names {
        let path = folder.join(name);
        let name = name.to_string_lossy().into_owned();
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        if name.starts_with('.') || !is_readable(&path) {
            continue;
        }
        if is_mask_name(&path) {
            masks += 1;
            continue;
        }
        frames.push(source_frame_from_files(&stem, vec![path]));
        if let Some(first) = seen.insert(portable_stem(&stem).to_lowercase(), name.clone()) {
            return Err(FramesError::DuplicateName { path: folder.to_owned(), first, second: name });
        }
    }
    let visible: Vec<&OsString> = names.iter().filter(|name| !is_hidden(name)).collect();
    let left_out = count_left_out(visible.iter().map(Path::new));
    if frames.is_empty() {
        let below = images_below(folder, &visible);
        let film = visible.into_iter().find(|name| is_video_name(Path::new(name))).cloned();
        return Err(FramesError::NoImages { path: folder.to_owned(), left_out, masks, below, film });
    }
    Ok(FrameList { frames, left_out, masks })
}

/// Whether an image is the mask of another by its name: `a_mask.png`, `a.jpg.png`. With two endings, only PNG files are
/// masks: `a.insp.jpg` is a converted image.
#[must_use]
pub fn is_mask_name(name: &Path) -> bool {
    let stem = name.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let is_png = name.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png"));
    stem.ends_with("_mask") || is_png && is_readable(Path::new(stem))
}

/// The frames of a video. Size and modification time of its files reveal a changed input.
#[must_use]
pub fn video_frames(video: &Video) -> Vec<SourceFrame> {
    let both = [&video.path].into_iter().chain(&video.second).cloned().collect();
    let one = SourceFrame { files: vec![video.path.clone()], ..source_frame_from_files("frame", both) };
    (0..video.frames).map(|k| SourceFrame { stem: format!("frame_{k:06}"), ..one.clone() }).collect()
}

/// A frame of these files, with their total size and latest modification time.
#[must_use]
pub fn source_frame_from_files(stem: &str, files: Vec<PathBuf>) -> SourceFrame {
    let (mut bytes, mut modified) = (0, 0);
    for file in &files {
        if let Ok(info) = fs::metadata(file) {
            bytes += info.len();
            let time = info.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
            modified = modified.max(time.map_or(0, |t| t.as_secs()));
        }
    }
    SourceFrame { stem: portable_stem(stem), files, bytes, modified }
}

/// A portable name: characters except letters, digits, `.`, `-`, `_` become `_`.
pub(crate) fn portable_stem(stem: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = stem.chars().take(120).map(|c| if plain(c) { c } else { '_' }).collect();
    let name = name.trim_start_matches('.').to_owned();
    if name.is_empty() { "frame".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_twins_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b c.JPG", "a.png", "a_mask.png", "x.jpg.png", ".hidden.jpg", "notes.txt"] {
            fs::write(folder.path().join(name), b"x").unwrap();
        }
        let stems: Vec<String> = list_frames(folder.path()).unwrap().into_iter().map(|f| f.stem).collect();
        assert_eq!(stems, ["a", "b_c"]);
        assert_eq!(list_folder(folder.path()).unwrap().masks, 2);
        fs::write(folder.path().join("A.jpg"), b"x").unwrap();
        let message = list_frames(folder.path()).unwrap_err().to_string();
        assert!(message.contains("A.jpg and a.png would get the same name"), "{message}");
    }

    #[test]
    fn images_with_two_endings_are_masks_only_if_they_are_png() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x.insp.jpg", "p.tif.jpg", "y.PNG.JPG", "z.jpg.PNG"] {
            fs::write(folder.path().join(name), b"x").unwrap();
        }
        let list = list_folder(folder.path()).unwrap();
        let stems: Vec<&str> = list.frames.iter().map(|f| f.stem.as_str()).collect();
        assert_eq!((stems, list.masks), (vec!["p.tif", "x.insp", "y.PNG"], 1));
        ["x.insp.jpg", "p.tif.jpg", "y.PNG.JPG"]
            .iter()
            .for_each(|name| fs::remove_file(folder.path().join(name)).unwrap());
        let message = list_frames(folder.path()).unwrap_err().to_string();
        assert!(message.ends_with("; 1 picture left out: masks by their names)"), "{message}");
    }

    #[test]
    fn a_folder_of_pictures_that_are_not_read_is_refused_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.HEIC", "b.heic", "c.DNG", "._d.heic"] {
            fs::write(folder.path().join(name), b"x").unwrap();
        }
        let message = list_frames(folder.path()).unwrap_err().to_string();
        assert!(message.contains("; 2 HEIC files left out: convert them"), "{message}");
        assert!(message.contains("; 1 DNG file left out: develop it"), "{message}");
        fs::write(folder.path().join("e.jpg"), b"x").unwrap();
        let list = list_folder(folder.path()).unwrap();
        let counts: Vec<(&str, usize)> = list.left_out.iter().map(|(_, e, n)| (e.as_str(), *n)).collect();
        assert_eq!((list.frames.len(), counts), (1, vec![("heic", 2), ("dng", 1)]));
    }

    #[test]
    fn a_folder_without_images_names_the_one_below_that_holds_them() {
        let folder = tempfile::tempdir().unwrap();
        for (below, count) in [("100RICOH", 1), ("101RICOH", 3), (".trash", 9), ("empty", 0)] {
            fs::create_dir(folder.path().join(below)).unwrap();
            for image in 0..count {
                fs::write(folder.path().join(below).join(format!("R{image}.JPG")), b"x").unwrap();
            }
        }
        let message = list_frames(folder.path()).unwrap_err().to_string();
        assert!(message.ends_with("; 3 images in its folder 101RICOH: name that folder)"), "{message}");
        fs::write(folder.path().join("R1.MOV"), b"x").unwrap();
        let message = list_frames(folder.path()).unwrap_err().to_string();
        assert!(message.ends_with("; R1.MOV is a video: name that file)"), "{message}");
    }
}
