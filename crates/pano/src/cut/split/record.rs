//! The records in the output folder: the manifest of finished frames, the description of the split, and the names of
//! all files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, OutputFile, Overwrite, write_atomic};
use gausset_io::input;
use gausset_io::ownership::{self, OwnershipError};
use serde::{Deserialize, Serialize};

use super::error::{SplitError, write_error};
use super::mask_command::MaskCommand;
use super::masks::{self, MaskFile};
use super::settings::{Naming, Numbering, SplitSettings, WorkerSettings};
use crate::cut::equalise::Equalise;
use crate::source::frames::{SourceFrame, portable_stem};
use crate::source::json::{self, JsonError};
use crate::source::metadata::GpsPosition;
use crate::sphere::geometry::View;
use crate::sphere::layout::{ViewError, check_view};
use crate::sphere::lens_views::{frame_of_lens, lens_frame};
use crate::sphere::projection::Projection;
use crate::sphere::rig;

/// File name of the manifest in the output folder.
pub const MANIFEST: &str = "pano.jsonl";
/// File name of the description of the split.
pub const DESCRIPTION: &str = "pano.json";
/// File name of the rig configuration for COLMAP.
const RIG_CONFIG: &str = "rig_config.json";
/// Purpose that marks an output folder as created by Gausset.
const FOLDER_PURPOSE: &str = "panoramas";
/// Largest manifest and largest description that are read, bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 30;
const MAX_DESCRIPTION_BYTES: u64 = 64 << 20;
/// Part of the settings hash; incremented when the same input produces different bytes.
const BYTES_VERSION: u32 = 3;

/// A line of the manifest: one finished frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestLine {
    /// Name of the frame.
    pub frame: String,
    /// File name of the first source image.
    pub source: String,
    /// Length of the source file, or of all of them, bytes.
    pub bytes: u64,
    /// Modification time of the source.
    pub modified: u64,
    /// Hash of the settings.
    pub settings: String,
    /// Length of each view's file, bytes.
    pub views: Vec<u64>,
    /// GPS position: latitude, longitude (degrees), and altitude (m) if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gps: Option<GpsPosition>,
    /// Pitch and roll by which the panorama was levelled, degrees, if the panoramas of the split were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tilt: Option<[f64; 2]>,
    /// The mask file, if the frame has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<MaskFile>,
    /// Length of each view's mask, 0 = none.
    pub masks: Vec<u64>,
    /// What was done to its colours: settings, and the name of a LUT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colours: Option<String>,
    /// Gains of red, green and blue from equalisation: two for lenses, one for a frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gains: Option<Vec<[f64; 3]>>,
}

/// Reads a manifest; damaged lines are ignored.
#[must_use]
pub fn read_manifest(folder: &Path) -> Vec<ManifestLine> {
    let text = input::read_to_string(&folder.join(MANIFEST), MAX_MANIFEST_BYTES).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Whether an output folder of Gausset holds frames that were cut with other settings, or by a version that writes
/// other bytes.
#[must_use]
pub fn has_other_settings(folder: &Path, settings: &SplitSettings) -> bool {
    let hash = settings_hash(settings);
    is_split_output(folder) && read_manifest(folder).iter().any(|line| line.settings != hash)
}

/// The description of a split, for alignment and training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitDescription {
    /// The views that each frame was cut into.
    pub views: Vec<View>,
    /// Naming scheme of the files.
    pub naming: Naming,
    /// File name extension of the views.
    pub extension: String,
    /// Names of the frames, in order.
    pub frames: Vec<String>,
    /// Numbers of the frames in flat names; if empty, their indices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<u64>,
    /// For separate lenses, where each frame is one lens of two (`NAME_lens0`, `NAME_lens1`): yaw and pitch of the axis
    /// of each lens from the lens file, degrees. The views are then relative to an upright lens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lens_axes: Option<[[f64; 2]; 2]>,
    /// Whether the panoramas were levelled by their metadata: poses are those of the levelled panoramas.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub levelled: bool,
    /// Whether the sources are other footage than equirectangular image files: panoramas come from a conversion.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_conversion: bool,
}

/// Why a description cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] JsonError),
    /// A view is invalid.
    #[error("{}: view {index}: {problem}", path.display())]
    View {
        /// The description file.
        path: PathBuf,
        /// Index of the view, from 0.
        index: usize,
        /// The problem.
        problem: ViewError,
    },
    /// There is no view.
    #[error("{}: views: none", .0.display())]
    NoViews(PathBuf),
    /// A frame name is invalid.
    #[error("{}: frames: {frame:?} is not a valid frame name", path.display())]
    Frame {
        /// The description file.
        path: PathBuf,
        /// The name in the file.
        frame: String,
    },
}

impl SplitDescription {
    /// Reads the description of the split in a folder.
    ///
    /// # Errors
    /// It cannot be read, or its content is invalid.
    pub fn read(folder: &Path) -> Result<Self, DescriptionError> {
        let path = folder.join(DESCRIPTION);
        let found: Self =
            json::read_json(&path, MAX_DESCRIPTION_BYTES, "the folder of `gausset pano split`")?;
        let problem = |(index, view)| check_view(view).err().map(|problem| (index, problem));
        if let Some((index, problem)) = found.views.iter().enumerate().find_map(problem) {
            return Err(DescriptionError::View { path, index, problem });
        }
        if found.views.is_empty() {
            return Err(DescriptionError::NoViews(path));
        }
        match found.frames.iter().find(|frame| **frame != portable_stem(frame)) {
            Some(frame) => Err(DescriptionError::Frame { path, frame: frame.clone() }),
            None => Ok(found),
        }
    }

    /// The source frame of a frame: the frame itself, or the one of which it is a lens.
    #[must_use]
    pub fn source_frame<'a>(&self, frame: &'a str) -> &'a str {
        let lens = self.lens_axes.and_then(|_| frame_of_lens(frame));
        lens.map_or(frame, |(source, _)| source)
    }

    /// File name of a panorama by the manifest of the split, or of its conversion.
    #[must_use]
    pub fn panorama_file(&self, frame: &str, manifest: &[ManifestLine]) -> String {
        if self.needs_conversion {
            return format!("{frame}.jpg");
        }
        let line = manifest.iter().find(|line| line.frame == frame);
        line.map_or(frame, |line| &line.source).to_owned()
    }

    /// Path of an image relative to `images/`.
    #[must_use]
    pub fn image_name(&self, frame: usize, view: usize) -> String {
        let number = self.numbers.get(frame).copied().unwrap_or(frame as u64);
        image_name(self.naming, &self.frames[frame], number, &self.views[view].name, view, &self.extension)
    }

    /// Paths of an image and its mask relative to the folder.
    fn files(&self, frame: usize, view: usize) -> [String; 2] {
        let name = self.image_name(frame, view);
        [format!("images/{name}"), format!("masks/{name}.png")]
    }
}

fn image_name(
    naming: Naming,
    stem: &str,
    number: u64,
    view_name: &str,
    view: usize,
    extension: &str,
) -> String {
    match naming {
        Naming::Rig => format!("{view_name}/{stem}.{extension}"),
        Naming::Flat => format!("frame_{number:05}_cam_{view:02}.{extension}"),
    }
}

pub(super) fn settings_hash(settings: &SplitSettings) -> String {
    let SplitSettings {
        views,
        lenses,
        format,
        naming,
        numbering,
        crop_bottom,
        level_gpano,
        projection,
        masks: _,
        mask_command,
        is_stereo,
        limits: _,
        video: film,
        colouring,
        equalise,
        frame_gains: _,
    } = settings;
    let video = film.as_ref().map(|film| (film.selection(), film.eac, film.video.size));
    let command = mask_command.as_ref().map(MaskCommand::argv);
    // Masks are compared frame by frame.
    let mut text = format!(
        "{BYTES_VERSION} {views:?} {format:?} {naming:?} {crop_bottom} {level_gpano} {projection:?} {command:?} {is_stereo} {video:?}"
    );
    // Settings added later enter the hash only where they are used, so that older hashes stay valid.
    if *numbering != Numbering::Order {
        text += &format!(" {numbering:?}");
    }
    let is_eac =
        matches!(projection, Some(Projection::Eac(_))) || film.as_ref().is_some_and(|f| f.eac.is_some());
    if is_eac {
        // Earlier versions mixed chroma over the edges of faces and did not average.
        text += " averaged";
    }
    if lenses.is_some() {
        text += " separate lenses";
    } else if matches!(settings.projection(), Some(Projection::Fisheye(_))) {
        // Earlier versions blended over the last degrees of each lens.
        text += " overlap";
    }
    if settings.has_colours() {
        // The gains of frames are compared per frame.
        text += &format!(" colours {} {}", colouring.text(), equalise.name());
    }
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

/// Makes the output folder ours, or refuses it: one that is new, empty or marked. With [`Overwrite::Replace`] any folder
/// is taken.
///
/// # Errors
/// The folder holds files that Gausset did not create, or cannot be written.
pub fn claim(folder: &Path, overwrite: Overwrite) -> Result<(), SplitError> {
    ownership::claim_folder(&Disk, folder, FOLDER_PURPOSE, overwrite).map_err(|error| match error {
        OwnershipError::Write(error) => SplitError::Atomic(error),
        other => SplitError::NotOwned(other),
    })
}

/// Whether the folder is the output of a split, or was claimed with force.
#[must_use]
pub fn is_split_output(folder: &Path) -> bool {
    ownership::is_gausset_owned(folder, FOLDER_PURPOSE)
}

/// The folders of the views, and those of the masks.
pub(super) fn subfolders(settings: &SplitSettings, folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let below = |top: PathBuf| match settings.naming {
        Naming::Rig => settings.views_per_frame().iter().map(|view| top.join(&view.name)).collect(),
        Naming::Flat => vec![top],
    };
    (below(folder.join("images")), below(folder.join("masks")))
}

/// Creates the folders of the views. In an output folder of Gausset, removes temporary files of a killed process.
pub(super) fn make_folders(settings: &SplitSettings, folder: &Path) -> Result<(), SplitError> {
    let (images, masks) = subfolders(settings, folder);
    for path in images.iter().chain(&masks) {
        check_inside(folder, path)?;
    }
    for name in [MANIFEST, DESCRIPTION, RIG_CONFIG] {
        check_inside(folder, &folder.join(name))?;
    }
    for path in &images {
        Disk.create_folder(path).map_err(write_error(path, "folder"))?;
    }
    let below = images.iter().chain(&masks).filter_map(|path| path.strip_prefix(folder).ok());
    Ok(ownership::clean_up(&Disk, folder, FOLDER_PURPOSE, below)?)
}

/// Returns an error if a path in the output folder leaves it through a link, or cannot hold a file.
pub(super) fn check_inside(folder: &Path, path: &Path) -> Result<(), SplitError> {
    let below = path.strip_prefix(folder).unwrap_or(path);
    Ok(ownership::check_inside(folder, below)?)
}

/// Divides the frames into those that are finished with these settings, and the remaining indices.
pub(super) fn split_by_state(
    frames: &[SourceFrame],
    settings: &SplitSettings,
    work: &WorkerSettings,
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
                // Earlier versions did not record it.
                && line.tilt.is_some() == settings.level_gpano
                && files_match(line, settings, folder, frame, index)
                && line.mask == masks::current_mask_file(settings, frame)
                && gains_match(line, settings, index)
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

/// Whether a frame was cut with its current gains.
fn gains_match(line: &ManifestLine, settings: &SplitSettings, index: usize) -> bool {
    let own = settings.frame_gains.get(index);
    settings.equalise != Equalise::Frames || line.gains.as_deref().and_then(<[_]>::first) == own
}

/// Whether views and masks have the lengths that the manifest records.
fn files_match(
    line: &ManifestLine,
    settings: &SplitSettings,
    folder: &Path,
    frame: &SourceFrame,
    index: usize,
) -> bool {
    let views: Vec<u64> = (0..settings.views.len())
        .map(|view| length(&view_path(settings, folder, frame, index, view)))
        .collect();
    let masks: Vec<u64> = (0..settings.views.len())
        .map(|view| length(&mask_path(settings, folder, frame, index, view)))
        .collect();
    line.views == views && line.masks == masks
}

/// Length of a file in bytes; 0 if there is none.
fn length(path: &Path) -> u64 {
    Disk.info(path).ok().flatten().map_or(0, |info| info.bytes)
}

pub(super) fn image_path_of(
    settings: &SplitSettings,
    frame: &SourceFrame,
    index: usize,
    view: usize,
) -> String {
    let extension = settings.format.extension();
    let number = frame_number(settings, frame, index);
    let views = settings.views_per_frame();
    let (lens, view) = (view / views.len(), view % views.len());
    let stem = output_frames(settings, &frame.stem).swap_remove(lens);
    let number = lens_number(settings, number, lens);
    image_name(settings.naming, &stem, number, &views[view].name, view, extension)
}

/// Names of the frames that a source frame becomes: itself, or each of its lenses.
fn output_frames(settings: &SplitSettings, stem: &str) -> Vec<String> {
    match settings.lenses {
        Some(_) => (0..2).map(|lens| lens_frame(stem, lens)).collect(),
        None => vec![stem.to_owned()],
    }
}

/// The number of a lens in flat names.
fn lens_number(settings: &SplitSettings, number: u64, lens: usize) -> u64 {
    if settings.lenses.is_some() { number.saturating_mul(2).saturating_add(lens as u64) } else { number }
}

/// The number of a frame in flat names.
fn frame_number(settings: &SplitSettings, frame: &SourceFrame, index: usize) -> u64 {
    let own = || {
        let end = frame.stem.rfind(|c: char| c.is_ascii_digit())? + 1;
        let start = frame.stem[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
        frame.stem[start..end].parse().ok()
    };
    match settings.numbering {
        Numbering::Source => own().unwrap_or(index as u64),
        Numbering::Order => index as u64,
    }
}

/// Returns an error if two frames would get the same number.
pub(super) fn check_unique_numbers(
    settings: &SplitSettings,
    frames: &[SourceFrame],
) -> Result<(), SplitError> {
    if settings.naming != Naming::Flat {
        return Ok(());
    }
    let mut known: BTreeMap<u64, &str> = BTreeMap::new();
    for (index, frame) in frames.iter().enumerate() {
        let number = frame_number(settings, frame, index);
        if let Some(first) = known.insert(number, &frame.stem) {
            return Err(SplitError::Input(format!(
                "frames: {first} and {} would both be number {number} (expected a different last number in each name); use ⟨numbering = order⟩",
                frame.stem
            )));
        }
    }
    Ok(())
}

/// Path of a view's file.
pub(super) fn view_path(
    settings: &SplitSettings,
    folder: &Path,
    frame: &SourceFrame,
    index: usize,
    view: usize,
) -> PathBuf {
    folder.join("images").join(image_path_of(settings, frame, index, view))
}

/// Path of a view's mask, where COLMAP looks for it.
pub(super) fn mask_path(
    settings: &SplitSettings,
    folder: &Path,
    frame: &SourceFrame,
    index: usize,
    view: usize,
) -> PathBuf {
    folder.join("masks").join(image_path_of(settings, frame, index, view) + ".png")
}

pub(super) fn write_manifest<'a>(
    folder: &Path,
    lines: impl Iterator<Item = &'a ManifestLine>,
) -> Result<(), SplitError> {
    let text = to_json_lines(lines);
    write_atomic(&Disk, &folder.join(MANIFEST), |file| file.write_all(text.as_bytes()))?;
    Ok(())
}

/// The manifest, opened for appending.
pub(super) struct ManifestWriter {
    path: PathBuf,
    file: Box<dyn OutputFile>,
}

impl ManifestWriter {
    pub(super) fn open(folder: &Path) -> Result<Self, SplitError> {
        let path = folder.join(MANIFEST);
        let file = Disk.append(&path).map_err(write_error(&path, "open"))?;
        Ok(Self { path, file })
    }

    /// Appends lines in one write, and syncs.
    pub(super) fn append<'a>(
        &mut self,
        lines: impl Iterator<Item = &'a ManifestLine>,
    ) -> Result<(), SplitError> {
        let text = to_json_lines(lines);
        self.file.write_all(text.as_bytes()).map_err(write_error(&self.path, "write"))?;
        self.file.sync().map_err(write_error(&self.path, "sync"))
    }
}

fn to_json_lines<'a>(lines: impl Iterator<Item = &'a ManifestLine>) -> String {
    lines.filter_map(|line| serde_json::to_string(line).ok()).map(|line| line + "\n").collect()
}

/// Removes the description of other settings before the first frame is replaced, so that an interrupted split is not taken
/// for a whole one.
pub(super) fn remove_description(folder: &Path) -> Result<(), SplitError> {
    remove(&folder.join(DESCRIPTION))
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> Result<(), SplitError> {
    match Disk.remove(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(write_error(path, "remove")(e)),
        _ => Ok(()),
    }
}

/// Images of the split in a folder, and masks of the recorded length, which Gausset wrote: paths relative to it.
pub(super) fn own_files(folder: &Path) -> BTreeSet<String> {
    let Ok(description) = SplitDescription::read(folder) else { return BTreeSet::new() };
    let manifest: BTreeMap<String, ManifestLine> =
        read_manifest(folder).into_iter().map(|line| (line.frame.clone(), line)).collect();
    let count = description.views.len();
    let mut files = BTreeSet::new();
    for (index, frame) in description.frames.iter().enumerate() {
        let lens = description.lens_axes.and_then(|_| frame_of_lens(frame)).map_or(0, |(_, lens)| lens);
        let line = manifest.get(description.source_frame(frame));
        for view in 0..count {
            let [image, mask] = description.files(index, view);
            let recorded = line.and_then(|line| line.masks.get(lens * count + view)).filter(|&&n| n > 0);
            if recorded.is_some_and(|&bytes| length(&folder.join(&mask)) == bytes) {
                files.insert(mask);
            }
            files.insert(image);
        }
    }
    files
}

/// Writes the description, and for a rig its configuration for COLMAP. Removes those of the `earlier` files of the
/// folder that it does not describe.
pub(super) fn write_description(
    settings: &SplitSettings,
    frames: &[SourceFrame],
    lines: &BTreeMap<usize, ManifestLine>,
    folder: &Path,
    mut earlier: BTreeSet<String>,
) -> Result<(), SplitError> {
    let description = SplitDescription {
        views: settings.views_per_frame().to_vec(),
        naming: settings.naming,
        extension: settings.format.extension().to_owned(),
        frames: lines.keys().flat_map(|&i| output_frames(settings, &frames[i].stem)).collect(),
        numbers: match settings.naming {
            Naming::Flat => {
                let lenses = if settings.lenses.is_some() { 0..2 } else { 0..1 };
                let of = |&i: &usize| {
                    let number = frame_number(settings, &frames[i], i);
                    lenses.clone().map(move |lens| lens_number(settings, number, lens))
                };
                lines.keys().flat_map(of).collect()
            }
            Naming::Rig => Vec::new(),
        },
        lens_axes: settings.lenses.as_ref().map(|lenses| lenses.axes),
        levelled: settings.level_gpano,
        needs_conversion: settings.video.is_some() || settings.projection.is_some() || settings.is_stereo,
    };
    for frame in 0..description.frames.len() {
        for view in 0..description.views.len() {
            for path in description.files(frame, view) {
                earlier.remove(&path);
            }
        }
    }
    for path in earlier {
        ownership::check_inside(folder, Path::new(&path))?;
        remove(&folder.join(path))?;
    }
    let text = serde_json::to_string_pretty(&description).unwrap_or_default();
    write_atomic(&Disk, &folder.join(DESCRIPTION), |file| file.write_all(text.as_bytes()))?;
    if settings.naming == Naming::Rig {
        let text = rig::rig_config(settings.views_per_frame());
        write_atomic(&Disk, &folder.join(RIG_CONFIG), |file| file.write_all(text.as_bytes()))?;
    }
    Ok(())
}
