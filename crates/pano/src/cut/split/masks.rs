//! Masks of frames: read from files next to the frames, or made by an external program.

use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, Overwrite, write_atomic};
use gausset_io::image::MAX_FILE_BYTES;
use gausset_io::{input, ownership};
use gausset_jpeg::encode_frame;
use gausset_jpeg::plane::{ColourModel, Frame, Plane};
use serde::{Deserialize, Serialize};

use super::error::FrameError;
use super::mask_command::MaskCommand;
use super::settings::SplitSettings;
use super::shared::SharedState;
use crate::source::frames::SourceFrame;
use crate::sphere::projection::Projection;

/// Output subfolder for masks from a command, removed at the end.
pub(super) const MASK_FOLDER: &str = ".masks";
/// Purpose that marks the folder as created by Gausset.
pub(super) const MASK_FOLDER_PURPOSE: &str = "masks for a moment";
/// JPEG quality of video frames passed to a mask command.
const SNAPSHOT_QUALITY: u8 = 95;

/// The mask file with which a frame was cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskFile {
    /// File name, without its folder.
    pub file: String,
    /// Hash of the content. Length and modification time are not sufficient: painting tools write many files of the
    /// same length within a second, and copies keep the time. Masks are small.
    pub hash: String,
}

impl MaskFile {
    fn new(path: &Path, content: &[u8]) -> Self {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self { file, hash: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(content)) }
    }
}

/// The current mask file of a frame. An unreadable file gets the hash of an empty one, which never matches.
pub(super) fn current_mask_file(settings: &SplitSettings, frame: &SourceFrame) -> Option<MaskFile> {
    let path = mask_path(settings, frame)?;
    let content = input::read(&path, MAX_FILE_BYTES).unwrap_or_default();
    Some(MaskFile::new(&path, &content))
}

/// Bytes per pixel of a mask's plane and its halved copies.
const PLANE_BYTES: u64 = 2;
/// Bytes per pixel of a mask from a command: an 8-bit grey PNG or JPEG.
pub(super) const COMMAND_MASK_BYTES: u64 = 3 + PLANE_BYTES;

/// Bytes that decoding the mask of a frame needs, if it has one.
pub(super) fn mask_bytes(settings: &SplitSettings, frame: &SourceFrame, pixels: u64) -> u64 {
    if settings.mask_command.is_some() {
        return COMMAND_MASK_BYTES * pixels;
    }
    // An unreadable mask is reported when it is decoded.
    let header = mask_path(settings, frame).and_then(|path| gausset_io::image::read_header(&path).ok());
    header.map_or(0, |header| header.pixels() * (header.mask_bytes_per_pixel() + PLANE_BYTES))
}

/// Path of the mask file of a frame, if there is one.
fn mask_path(settings: &SplitSettings, frame: &SourceFrame) -> Option<PathBuf> {
    if settings.mask_command.is_some() {
        return None;
    }
    if settings.video.is_some() {
        let folder = settings.masks.as_deref()?;
        return video_mask_names(&frame.stem)
            .map(|name| folder.join(name))
            .into_iter()
            .find(|path| path.is_file());
    }
    find_mask(frame.files.first()?, &frame.stem, settings.masks.as_deref())
}

/// Whether a frame has a mask file.
#[must_use]
pub fn has_mask(settings: &SplitSettings, frame: &SourceFrame) -> bool {
    mask_path(settings, frame).is_some()
}

/// Source of a frame's mask.
pub(super) enum MaskSource {
    Absent,
    /// Made by the command.
    Command,
    File(MaskFile),
}

/// Decodes the mask of a frame into `out`, if it has one; `stored` is the frame as decoded, not folded.
pub(super) fn load(
    shared: &SharedState<'_>,
    source: &SourceFrame,
    stored: &Frame,
    out: &mut Frame,
) -> Result<MaskSource, FrameError> {
    let settings = shared.settings;
    if let Some(command) = &settings.mask_command {
        let mask = run_mask_command(shared, command, source, stored, settings.video.is_some())?;
        if !mask.is_file() {
            return Ok(MaskSource::Absent);
        }
        decode(&mask, out, stored, settings)?;
        let _ = Disk.remove(&mask);
        return Ok(MaskSource::Command);
    }
    match mask_path(settings, source) {
        Some(path) => decode(&path, out, stored, settings).map(MaskSource::File),
        None => Ok(MaskSource::Absent),
    }
}

/// Runs the command for a frame. Returns the path where the mask is, if the command made one.
fn run_mask_command(
    shared: &SharedState<'_>,
    command: &MaskCommand,
    source: &SourceFrame,
    frame: &Frame,
    is_video: bool,
) -> Result<PathBuf, FrameError> {
    let folder = shared.folder.join(MASK_FOLDER);
    let error = |what: String| FrameError::Frame(format!("{}: mask command: {what}", source.stem));
    ownership::claim_folder(&Disk, &folder, MASK_FOLDER_PURPOSE, Overwrite::Refuse)
        .map_err(|e| error(e.to_string()))?;
    let mask = folder.join(format!("{}.png", source.stem));
    let _ = Disk.remove(&mask);
    let picture = if is_video {
        let path = folder.join(format!("{}.jpg", source.stem));
        let picture = encode_frame(frame, SNAPSHOT_QUALITY, shared.work.level);
        write_atomic(&Disk, &path, |file| file.write_all(&picture)).map_err(|e| error(e.to_string()))?;
        path
    } else {
        source.files.first().cloned().unwrap_or_default()
    };
    let ran = command.run(&picture, &mask, shared.stop);
    if is_video {
        let _ = Disk.remove(&picture);
    }
    ran.map_err(|e| error(e.to_string()))?;
    Ok(mask)
}

/// Decodes a mask of the frame's size. Of a mask for stacked stereo, the upper half is used. The mask of a cube is
/// folded like its image.
fn decode(
    path: &Path,
    out: &mut Frame,
    stored: &Frame,
    settings: &SplitSettings,
) -> Result<MaskFile, FrameError> {
    let error = |what: String| FrameError::Frame(format!("{}: {what}", path.display()));
    let content = input::read(path, MAX_FILE_BYTES)
        .map_err(|e| error(format!("mask: {}", gausset_io::atomic::plain_reason(&e))))?;
    let picture = gausset_io::image::decode_mask(&content).map_err(|e| error(e.to_string()))?;
    let [w, h] = [stored.planes[0].width, stored.planes[0].height];
    let (width, height) = (picture.width as usize, picture.height as usize);
    let is_both_eyes = settings.is_stereo && height == 2 * h;
    if width != w || (height != h && !is_both_eyes) {
        return Err(error(format!("mask: {width}x{height} px (expected {w}x{h}, the size of the frame)")));
    }
    out.colour = ColourModel::Grey;
    out.planes.resize_with(1, Plane::default);
    let plane = &mut out.planes[0];
    plane.reshape(w, h, [-1, h as i32]);
    for (y, row) in picture.values.chunks_exact(w).take(h).enumerate() {
        plane.row_mut(y as i32).copy_from_slice(row);
    }
    if let Some(Projection::Cube(cube)) = settings.projection() {
        let mut folded = Plane::default();
        cube.fold_plane(plane, &mut folded);
        *plane = folded;
    }
    Ok(MaskFile::new(path, &content))
}

/// File names of the mask of a video frame, in the order of the search.
fn video_mask_names(stem: &str) -> [String; 3] {
    [format!("{stem}.png"), format!("{stem}.jpg.png"), format!("{stem}_mask.png")]
}

/// The mask file of a frame, if there is one: `DIR/NAME.png`, `DIR/STEM.png` or `DIR/STEM_mask.png` in the mask folder.
/// Without a mask folder, in `masks` next to the frame, or in the frame's own folder.
#[must_use]
pub fn find_mask(file: &Path, stem: &str, masks: Option<&Path>) -> Option<PathBuf> {
    let name = file.file_name()?.to_string_lossy().into_owned();
    let own = file.file_stem()?.to_string_lossy().into_owned();
    let beside = file.parent()?;
    let folder = masks.map_or_else(|| beside.join("masks"), Path::to_owned);
    let in_folder =
        [format!("{name}.png"), format!("{own}.png"), format!("{own}_mask.png"), format!("{stem}.png")]
            .map(|candidate| folder.join(candidate));
    let beside = [format!("{name}.png"), format!("{own}_mask.png")].map(|candidate| beside.join(candidate));
    let beside = beside.into_iter().filter(|_| masks.is_none());
    in_folder.into_iter().chain(beside).find(|path| path.is_file())
}
