//! Frames of an input: images of a folder, or frames of a video.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;
use gausset_io::input;

use crate::source::video::Video;

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
    #[error("{}: frames: none found (expected .jpg, .png or .tif files)", .0.display())]
    NoImages(PathBuf),
}

/// Lists the frames of a folder: JPEG (also .insp), PNG and TIFF files without masks, sorted by name (byte order).
///
/// # Errors
/// The folder cannot be read or has no images, or two names are equal without extension and case.
pub fn list_frames(folder: &Path) -> Result<Vec<SourceFrame>, FramesError> {
    let unreadable =
        |e: std::io::Error| FramesError::Folder { path: folder.to_owned(), reason: plain_reason(&e) };
    let entries = input::read_dir(folder).map_err(unreadable)?;
    let names: Result<Vec<OsString>, _> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
    let mut names = names.map_err(unreadable)?;
    names.sort();
    let mut frames: Vec<SourceFrame> = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for name in names {
        let path = folder.join(&name);
        let name = name.to_string_lossy().into_owned();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        let is_mask = stem.ends_with("_mask") || has_image_extension(Path::new(&stem));
        if name.starts_with('.') || !is_image_extension(&extension) || is_mask {
            continue;
        }
        frames.push(source_frame_from_files(&stem, vec![path]));
        if let Some(first) = seen.insert(portable_stem(&stem).to_lowercase(), name.clone()) {
            return Err(FramesError::DuplicateName { path: folder.to_owned(), first, second: name });
        }
    }
    if frames.is_empty() {
        return Err(FramesError::NoImages(folder.to_owned()));
    }
    Ok(frames)
}

fn is_image_extension(extension: &str) -> bool {
    matches!(extension, "jpg" | "jpeg" | "insp" | "png" | "tif" | "tiff")
}

fn has_image_extension(path: &Path) -> bool {
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| is_image_extension(&e.to_ascii_lowercase()))
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
        fs::write(folder.path().join("A.jpg"), b"x").unwrap();
        let message = list_frames(folder.path()).unwrap_err().to_string();
        assert!(message.contains("A.jpg and a.png would get the same name"), "{message}");
    }
}
