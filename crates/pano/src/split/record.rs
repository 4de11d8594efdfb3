//! What stays in the output folder beside the views: the manifest of what is finished, the description of the split,
//! the names of everything.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use gausset_io::atomic::{Disk, plain_reason, write_atomic};
use gausset_io::units::json_problem;
use serde::{Deserialize, Serialize};

use super::source::{SourceFrame, plain_stem};
use super::{Settings, SplitError, Work, write_error};
use crate::geometry::View;
use crate::rig;

/// Name of the manifest in the output folder.
pub const MANIFEST: &str = "pano.jsonl";
/// Name of the description of the split.
pub const DESCRIPTION: &str = "pano.json";
/// Part of the settings hash: changes when the same input would give other bytes.
const BYTES_VERSION: u32 = 2;

/// How files are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naming {
    /// `images/view00/FRAME.jpg`: COLMAP sees the views of a frame as one moment of a rig.
    #[default]
    Rig,
    /// `images/frame_00000_cam_00.jpg`.
    Flat,
}

/// A line of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestLine {
    /// Name of the frame.
    pub frame: String,
    /// Name of the source file.
    pub source: String,
    /// Its length.
    pub bytes: u64,
    /// Its time of change.
    pub modified: u64,
    /// Hash of the settings.
    pub settings: String,
    /// Length of each view's file.
    pub views: Vec<u64>,
    /// Latitude, longitude (degrees) and altitude (m), when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gps: Option<[f64; 3]>,
}

/// Reads a manifest; lines that are damaged are left out.
#[must_use]
pub fn read_manifest(folder: &Path) -> Vec<ManifestLine> {
    let path = folder.join(MANIFEST);
    let is_small = fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() < 1 << 30);
    let text = if is_small { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The description of a split: what alignment and training need to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The views.
    pub views: Vec<View>,
    /// How files are named.
    pub naming: Naming,
    /// Extension of the views.
    pub extension: String,
    /// Names of the frames, in order.
    pub frames: Vec<String>,
}

impl Description {
    /// Reads the description of the split in a folder.
    ///
    /// # Errors
    /// One line.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(DESCRIPTION);
        let error = |what: String| format!("{}: {what}", path.display());
        let info = fs::metadata(&path).map_err(|e| {
            error(format!("file: {} (expected the folder of `gausset pano split`)", plain_reason(&e)))
        })?;
        if !info.is_file() || info.len() > 64 << 20 {
            return Err(error("file: is not a description of at most 64 MiB".to_owned()));
        }
        let bytes = fs::read(&path).map_err(|e| error(format!("read: {}", plain_reason(&e))))?;
        let found: Self = serde_json::from_slice(&bytes).map_err(|e| error(json_problem(&e)))?;
        for (k, view) in found.views.iter().enumerate() {
            crate::layout::check_view(view).map_err(|what| error(format!("view {k}: {what}")))?;
        }
        if found.views.is_empty() {
            return Err(error("views: none".to_owned()));
        }
        if let Some(bad) = found.frames.iter().find(|f| **f != plain_stem(f)) {
            return Err(error(format!("frames: {bad:?} is no name of a frame")));
        }
        Ok(found)
    }

    /// Name of a picture relative to `images/`.
    #[must_use]
    pub fn picture_name(&self, frame: usize, view: usize) -> String {
        picture_name(self.naming, &self.frames[frame], frame, &self.views[view].name, view, &self.extension)
    }
}

fn picture_name(
    naming: Naming,
    stem: &str,
    frame: usize,
    view_name: &str,
    view: usize,
    extension: &str,
) -> String {
    match naming {
        Naming::Rig => format!("{view_name}/{stem}.{extension}"),
        Naming::Flat => format!("frame_{frame:05}_cam_{view:02}.{extension}"),
    }
}

pub(super) fn settings_hash(settings: &Settings) -> String {
    let Settings {
        views,
        format,
        naming,
        crop_bottom,
        level_gpano,
        projection,
        masks,
        mask_command,
        is_stereo,
        limits: _,
        video,
    } = settings;
    let video = video.as_ref().map(|v| (&v.choice, v.eac, v.size));
    let command = mask_command.as_ref().map(super::MaskCommand::words);
    let text = format!(
        "{BYTES_VERSION} {views:?} {format:?} {naming:?} {crop_bottom} {level_gpano} {projection:?} {masks:?} {command:?} {is_stereo} {video:?}"
    );
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

pub(super) fn make_folders(settings: &Settings, folder: &Path) -> Result<(), SplitError> {
    let images = folder.join("images");
    let make = |path: &Path| fs::create_dir_all(path).map_err(write_error(path, "folder"));
    make(&images)?;
    if settings.naming == Naming::Rig {
        for view in &settings.views {
            make(&images.join(&view.name))?;
        }
    }
    Ok(())
}

/// Frames that are finished with these settings, and the others.
pub(super) fn find_todo(
    frames: &[SourceFrame],
    settings: &Settings,
    work: &Work,
    folder: &Path,
    hash: &str,
) -> (BTreeMap<usize, ManifestLine>, Vec<usize>) {
    let known: BTreeMap<String, ManifestLine> =
        read_manifest(folder).into_iter().map(|line| (line.frame.clone(), line)).collect();
    let (mut finished, mut todo) = (BTreeMap::new(), Vec::new());
    for (index, frame) in frames.iter().enumerate() {
        let line = known.get(&frame.stem).filter(|line| {
            !work.force
                && line.settings == hash
                && line.bytes == frame.bytes
                && line.modified == frame.modified
                && line.views.len() == settings.views.len()
                && line.views.iter().enumerate().all(|(view, &bytes)| {
                    let path = folder.join("images").join(name_of(settings, frame, index, view));
                    fs::metadata(path).is_ok_and(|m| m.len() == bytes)
                })
        });
        match line {
            Some(line) => {
                finished.insert(index, line.clone());
            }
            None => todo.push(index),
        }
    }
    (finished, todo)
}

pub(super) fn name_of(settings: &Settings, frame: &SourceFrame, index: usize, view: usize) -> String {
    let extension = settings.format.extension();
    picture_name(settings.naming, &frame.stem, index, &settings.views[view].name, view, extension)
}

pub(super) fn write_manifest<'a>(
    folder: &Path,
    lines: impl Iterator<Item = &'a ManifestLine>,
) -> Result<(), SplitError> {
    let text: String = lines.filter_map(|line| serde_json::to_string(line).ok()).map(|l| l + "\n").collect();
    write_atomic(&Disk, &folder.join(MANIFEST), |file| file.write_all(text.as_bytes()))?;
    Ok(())
}

pub(super) fn append_line(folder: &Path, line: &ManifestLine) -> Result<(), SplitError> {
    let path = folder.join(MANIFEST);
    let text = serde_json::to_string(line).unwrap_or_default() + "\n";
    let mut file =
        File::options().append(true).create(true).open(&path).map_err(write_error(&path, "open"))?;
    file.write_all(text.as_bytes()).map_err(write_error(&path, "write"))
}

/// Writes what the next steps need: the description and, for a rig, its configuration for COLMAP.
pub(super) fn describe(
    settings: &Settings,
    frames: &[SourceFrame],
    lines: &BTreeMap<usize, ManifestLine>,
    folder: &Path,
) -> Result<(), SplitError> {
    let description = Description {
        views: settings.views.clone(),
        naming: settings.naming,
        extension: settings.format.extension().to_owned(),
        frames: lines.keys().map(|&i| frames[i].stem.clone()).collect(),
    };
    let text = serde_json::to_string_pretty(&description).unwrap_or_default();
    write_atomic(&Disk, &folder.join(DESCRIPTION), |file| file.write_all(text.as_bytes()))?;
    if settings.naming == Naming::Rig {
        let text = rig::rig_config(&settings.views);
        write_atomic(&Disk, &folder.join("rig_config.json"), |file| file.write_all(text.as_bytes()))?;
    }
    Ok(())
}
