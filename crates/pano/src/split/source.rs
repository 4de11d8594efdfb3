//! What there is to split: pictures of a folder, moments of two streams, frames of a video.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use gausset_io::atomic::plain_reason;

use super::error::SplitError;
use crate::video::Video;

/// A source of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Name in the output: letters, digits, `.`, `-`, `_`.
    pub stem: String,
    /// The picture, or both streams' pictures of one moment.
    pub files: Vec<PathBuf>,
    /// Length of the files.
    pub bytes: u64,
    /// Time of the last change, seconds since 1970.
    pub modified: u64,
}

/// Lists the frames of a folder: JPEG, PNG and TIFF files in byte order, masks left out.
///
/// # Errors
/// The folder cannot be read, holds no picture, or two files whose names are the same without extension and case.
pub fn list_frames(folder: &Path) -> Result<Vec<SourceFrame>, SplitError> {
    let input = |what: String| SplitError::Input(format!("{}: {what}", folder.display()));
    let entries = fs::read_dir(folder).map_err(|e| input(format!("folder: {}", plain_reason(&e))))?;
    let mut names: Vec<OsString> = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|e| input(format!("folder: {}", plain_reason(&e))))?.file_name());
    }
    names.sort();
    let mut frames: Vec<SourceFrame> = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for name in names {
        let path = folder.join(&name);
        let name = name.to_string_lossy().into_owned();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
        let is_mask = stem.ends_with("_mask") || has_picture_extension(Path::new(&stem));
        if name.starts_with('.') || !is_picture(&extension) || is_mask {
            continue;
        }
        frames.push(source_frame(&stem, vec![path]));
        if let Some(twin) = seen.insert(plain_stem(&stem).to_lowercase(), name.clone()) {
            return Err(input(format!(
                "frames: {twin} and {name} would get the same name (expected names that differ without extension and case); rename one"
            )));
        }
    }
    if frames.is_empty() {
        return Err(input("frames: none found (expected .jpg, .png or .tif files)".to_owned()));
    }
    Ok(frames)
}

fn is_picture(extension: &str) -> bool {
    matches!(extension, "jpg" | "jpeg" | "png" | "tif" | "tiff")
}

fn has_picture_extension(path: &Path) -> bool {
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| is_picture(&e.to_ascii_lowercase()))
}

/// The frames of a video: names and the facts that tell whether it has changed.
#[must_use]
pub fn video_frames(video: &Video) -> Vec<SourceFrame> {
    let one = source_frame("frame", vec![video.path.clone()]);
    (0..video.frames).map(|k| SourceFrame { stem: format!("frame_{k:06}"), ..one.clone() }).collect()
}

/// Joins the pictures `NAME_track0` and `NAME_track5` of GoPro MAX streams to frames; `None` when these are none.
#[must_use]
pub fn eac_pairs(frames: &[SourceFrame]) -> Option<Vec<SourceFrame>> {
    let mut pairs = Vec::new();
    for first in frames {
        if let Some(name) = first.stem.strip_suffix("_track0") {
            let other = format!("{name}_track5");
            let second = frames.iter().find(|f| f.stem == other)?;
            pairs.push(source_frame(name, [first.files.clone(), second.files.clone()].concat()));
        } else if !first.stem.ends_with("_track5") {
            return None;
        }
    }
    (!pairs.is_empty()).then_some(pairs)
}

/// A frame of these files, with their length and time.
#[must_use]
pub fn source_frame(stem: &str, files: Vec<PathBuf>) -> SourceFrame {
    let (mut bytes, mut modified) = (0, 0);
    for file in &files {
        if let Ok(info) = fs::metadata(file) {
            bytes += info.len();
            let time = info.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
            modified = modified.max(time.map_or(0, |t| t.as_secs()));
        }
    }
    SourceFrame { stem: plain_stem(stem), files, bytes, modified }
}

/// A name that every program reads: other characters become `_`.
pub(super) fn plain_stem(stem: &str) -> String {
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
