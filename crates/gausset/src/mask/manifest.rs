//! `masks.jsonl`: a line per finished frame, from which the same command resumes.

use std::collections::BTreeMap;
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
}

impl Manifest {
    pub(super) fn read(folder: &Path) -> Self {
        let text = input::read_to_string(&folder.join(MANIFEST), MAX_MANIFEST_BYTES).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<ManifestEntry>(line).ok());
        Self { folder: folder.to_owned(), known: lines.map(|line| (line.frame.clone(), line)).collect() }
    }

    /// The earlier line of a frame.
    pub(super) fn earlier_entry(&self, frame: &SourceFrame) -> Option<&ManifestEntry> {
        self.known.get(&frame.stem)
    }

    /// Whether all earlier masks were made with other options.
    pub(super) fn has_other_options(&self, options: &str) -> bool {
        !self.known.is_empty() && self.known.values().all(|line| line.options != options)
    }

    /// The line of a frame whose masks exist and are up to date.
    pub(super) fn finished(&self, settings: &str, frame: &SourceFrame) -> Option<ManifestEntry> {
        let line = self.earlier_entry(frame)?;
        let is_same =
            line.bytes == frame.bytes && line.modified == frame.modified && line.settings == settings;
        let is_there = |(name, length): (&String, &u64)| {
            ownership::check_inside(&self.folder, Path::new(name)).is_ok()
                && Disk.info(&self.folder.join(name)).ok().flatten().is_some_and(|info| info.bytes == *length)
        };
        (is_same && line.files.iter().all(is_there)).then(|| line.clone())
    }

    /// Writes the lines of finished frames in frame order. Lines of later frames in `frames` that were finished before
    /// are kept, in case this run is interrupted.
    pub(super) fn write(
        &self,
        frames: &[SourceFrame],
        lines: &BTreeMap<usize, ManifestEntry>,
    ) -> Result<(), Failure> {
        let later = frames.iter().enumerate().filter(|(index, _)| !lines.contains_key(index));
        let later = later.filter_map(|(_, frame)| self.earlier_entry(frame));
        let text: String = lines
            .values()
            .chain(later)
            .filter_map(|line| serde_json::to_string(line).ok())
            .map(|line| line + "\n")
            .collect();
        Ok(write_atomic(&Disk, &self.folder.join(MANIFEST), |file| file.write_all(text.as_bytes()))?)
    }
}
