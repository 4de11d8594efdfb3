//! `masks.jsonl`: a line per finished frame, from which the same command resumes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, write_atomic};
use gausset_io::{input, ownership};
use gausset_pano::frames::SourceFrame;
use serde::{Deserialize, Serialize};

use super::report::DetectionRecord;
use crate::Failure;

/// File name of the manifest.
pub(super) const MANIFEST: &str = "masks.jsonl";
/// Size limit of the manifest.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;

/// A line of the manifest: a finished frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ManifestEntry {
    pub(super) frame: String,
    /// Total size of its image files in bytes; `modified` is their modification time.
    pub(super) bytes: u64,
    pub(super) modified: u64,
    /// Hash of everything that the output depends on: model, engine, description, options, neighbouring frames.
    pub(super) settings: String,
    /// Hash of the options alone.
    pub(super) options: String,
    pub(super) engine: String,
    pub(super) model: String,
    pub(super) detections: usize,
    pub(super) finds: Vec<DetectionRecord>,
    /// Number of detections dropped because no neighbouring frame confirms them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) dropped: usize,
    /// Whether neighbouring frames should have been used but could not be compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_alone: bool,
    /// Masked fraction of the sphere, or of the photograph.
    pub(super) removed: f64,
    /// Output files with their sizes in bytes.
    pub(super) files: BTreeMap<String, u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The manifest of earlier runs in an output folder.
pub(super) struct Manifest {
    folder: PathBuf,
    known: BTreeMap<String, ManifestEntry>,
    /// Lines of frames that are not in this run.
    others: Vec<ManifestEntry>,
}

impl Manifest {
    pub(super) fn read(folder: &Path, frames: &[SourceFrame]) -> Self {
        let text = input::read_to_string(&folder.join(MANIFEST), MAX_MANIFEST_BYTES).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<ManifestEntry>(line).ok());
        let frames: BTreeSet<&str> = frames.iter().map(|frame| frame.stem.as_str()).collect();
        let (known, others) = lines.partition::<Vec<_>, _>(|line| frames.contains(line.frame.as_str()));
        let known = known.into_iter().map(|line| (line.frame.clone(), line)).collect();
        Self { folder: folder.to_owned(), known, others }
    }

    /// The earlier line of a frame.
    pub(super) fn earlier_entry(&self, frame: &SourceFrame) -> Option<&ManifestEntry> {
        self.known.get(&frame.stem)
    }

    /// Whether all earlier masks were made with other options.
    pub(super) fn has_other_options(&self, options: &str) -> bool {
        let mut lines = self.known.values().chain(&self.others).peekable();
        lines.peek().is_some() && lines.all(|line| line.options != options)
    }

    /// The line of a frame whose masks exist and were made of it with these settings.
    pub(super) fn finished(&self, settings: &str, frame: &SourceFrame) -> Option<ManifestEntry> {
        let line = self.earlier_entry(frame)?;
        let is_same =
            line.bytes == frame.bytes && line.modified == frame.modified && line.settings == settings;
        (is_same && line.files.keys().all(|name| self.length(name).is_some())).then(|| line.clone())
    }

    /// The files of a line that were edited since they were made.
    pub(super) fn edited<'a>(&self, line: &'a ManifestEntry) -> impl Iterator<Item = &'a String> {
        line.files.iter().filter(|(name, length)| self.length(name) != Some(**length)).map(|(name, _)| name)
    }

    /// The length of an output file; `None` if there is none.
    fn length(&self, name: &str) -> Option<u64> {
        ownership::check_inside(&self.folder, Path::new(name)).ok()?;
        Some(Disk.info(&self.folder.join(name)).ok()??.bytes)
    }

    /// Writes the lines of finished frames in frame order. Lines of later and of other frames that were finished before are
    /// kept.
    pub(super) fn write(
        &self,
        frames: &[SourceFrame],
        lines: &BTreeMap<usize, ManifestEntry>,
    ) -> Result<(), Failure> {
        let later = frames.iter().enumerate().filter(|(index, _)| !lines.contains_key(index));
        let later = later.filter_map(|(_, frame)| self.earlier_entry(frame));
        self.write_lines(lines.values().chain(later).chain(&self.others))
    }

    /// At the end of a run over a video, whose other selections give other frames the same names: removes the files of
    /// frames that are not in it, and writes the lines of the others.
    pub(super) fn finish(&self, lines: &BTreeMap<usize, ManifestEntry>) -> Result<(), Failure> {
        let current: BTreeSet<&String> = lines.values().flat_map(|line| line.files.keys()).collect();
        for name in
            self.others.iter().flat_map(|line| line.files.keys()).filter(|name| !current.contains(name))
        {
            if ownership::check_inside(&self.folder, Path::new(name)).is_ok() {
                let _ = Disk.remove(&self.folder.join(name));
            }
        }
        self.write_lines(lines.values())
    }

    fn write_lines<'a>(&self, lines: impl Iterator<Item = &'a ManifestEntry>) -> Result<(), Failure> {
        let text: String =
            lines.filter_map(|line| serde_json::to_string(line).ok()).map(|line| line + "\n").collect();
        Ok(write_atomic(&Disk, &self.folder.join(MANIFEST), |file| file.write_all(text.as_bytes()))?)
    }
}

#[cfg(test)]
mod tests {
    use gausset_pano::frames::source_frame_from_files;
    use serde_json::json;

    use super::*;

    #[test]
    fn masks_of_frames_that_are_not_in_a_run_are_removed_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let line = |frame: &str, files: &[&str]| {
            let files: BTreeMap<&str, u64> = files.iter().map(|name| (*name, 1)).collect();
            let line = json!({ "frame": frame, "bytes": 0, "modified": 0, "settings": "", "options": "", "engine": "",
                "model": "", "detections": 0, "finds": [], "removed": 0.0, "files": files });
            serde_json::from_value::<ManifestEntry>(line).unwrap()
        };
        let known = [line("a", &["a.png"]), line("b", &["b.png", "a.png", "../out.png"])];
        let text = known.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect::<String>();
        std::fs::write(at(MANIFEST), &text).unwrap();
        for name in ["a.png", "b.png", "c.png"] {
            std::fs::write(at(name), b"x").unwrap();
        }
        let frames = [source_frame_from_files("a", Vec::new())];
        let manifest = Manifest::read(folder.path(), &frames);
        let lines = BTreeMap::from([(0, line("a", &["a.png"]))]);
        manifest.write(&frames, &lines).unwrap();
        assert_eq!(std::fs::read_to_string(at(MANIFEST)).unwrap(), text);
        manifest.finish(&lines).unwrap();
        assert_eq!(["a.png", "b.png", "c.png"].map(|name| at(name).exists()), [true, false, true]);
        assert_eq!(std::fs::read_to_string(at(MANIFEST)).unwrap().lines().count(), 1);
    }
}
