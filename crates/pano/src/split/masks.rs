//! Masks of frames: found beside them, or made by an outside program.

use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, Overwrite, write_atomic};
use gausset_io::image::MAX_FILE_BYTES;
use gausset_io::{input, owned};
use serde::{Deserialize, Serialize};

use super::error::FrameError;
use super::mask_command::MaskCommand;
use super::settings::Settings;
use super::shared::Shared;
use crate::frames::SourceFrame;
use crate::jpeg::encode_frame;
use crate::plane::{Colour, Frame, Plane};
use crate::projection::Projection;

/// Folder in the output for masks that a command makes, while they are needed.
pub(super) const MASK_FOLDER: &str = ".masks";
/// What makes that folder ours.
pub(super) const MASK_FOLDER_PURPOSE: &str = "masks for a moment";
/// Quality of the pictures of video frames that a mask command sees.
const SNAPSHOT_QUALITY: u8 = 95;

/// The mask file that a frame was cut with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskFile {
    /// Its name, without its folder.
    pub file: String,
    /// Hash of its content. Length and time would not do: tools that paint masks write many files of the same length
    /// within a second, and copies keep the time. Masks are small.
    pub hash: String,
}

impl MaskFile {
    fn of(path: &Path, content: &[u8]) -> Self {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self { file, hash: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(content)) }
    }
}

/// The mask file of a frame as it is now; one that cannot be read is like none that was ever used.
pub(super) fn now(settings: &Settings, frame: &SourceFrame) -> Option<MaskFile> {
    let path = path_of(settings, frame)?;
    let content = input::read(&path, MAX_FILE_BYTES).unwrap_or_default();
    Some(MaskFile::of(&path, &content))
}

/// Bytes a pixel of a mask's plane, and of halves of it.
const PLANE_BYTES: u64 = 2;
/// Bytes a pixel of a mask that a command makes: as a grey PNG or JPEG of 8 bits.
pub(super) const MADE_BYTES: u64 = 3 + PLANE_BYTES;

/// Bytes that decoding the mask of a frame takes, if it has one.
pub(super) fn demand(settings: &Settings, frame: &SourceFrame, pixels: u64) -> u64 {
    if settings.mask_command.is_some() {
        return MADE_BYTES * pixels;
    }
    // One that cannot be read is told when it is.
    let header = path_of(settings, frame).and_then(|path| gausset_io::image::read_header(&path).ok());
    header.map_or(0, |header| header.pixels() * (header.mask_bytes_per_pixel() + PLANE_BYTES))
}

/// The mask file of a frame.
fn path_of(settings: &Settings, frame: &SourceFrame) -> Option<PathBuf> {
    if settings.mask_command.is_some() {
        return None;
    }
    if settings.film.is_some() {
        let folder = settings.masks.as_deref()?;
        return film_mask_names(&frame.stem)
            .map(|name| folder.join(name))
            .into_iter()
            .find(|path| path.is_file());
    }
    find_mask(frame.files.first()?, &frame.stem, settings.masks.as_deref())
}

/// Whether there is a file with a mask of a frame.
#[must_use]
pub fn has_mask(settings: &Settings, frame: &SourceFrame) -> bool {
    path_of(settings, frame).is_some()
}

/// Where the mask of a frame came from.
pub(super) enum Found {
    Nowhere,
    /// From the command.
    Made,
    File(MaskFile),
}

/// Decodes the mask of a frame, if it has one, into `out`; `stored` is the frame as its files have it.
pub(super) fn load(
    shared: &Shared<'_>,
    source: &SourceFrame,
    stored: &Frame,
    out: &mut Frame,
) -> Result<Found, FrameError> {
    let settings = shared.settings;
    if let Some(command) = &settings.mask_command {
        let mask = make(shared, command, source, stored, settings.film.is_some())?;
        if !mask.is_file() {
            return Ok(Found::Nowhere);
        }
        decode(&mask, out, stored, settings)?;
        let _ = Disk.remove(&mask);
        return Ok(Found::Made);
    }
    match path_of(settings, source) {
        Some(path) => decode(&path, out, stored, settings).map(Found::File),
        None => Ok(Found::Nowhere),
    }
}

/// Runs the command for a frame; returns the path at which the mask is, if it made one.
fn make(
    shared: &Shared<'_>,
    command: &MaskCommand,
    source: &SourceFrame,
    frame: &Frame,
    is_video: bool,
) -> Result<PathBuf, FrameError> {
    let folder = shared.folder.join(MASK_FOLDER);
    let error = |what: String| FrameError::Frame(format!("{}: mask command: {what}", source.stem));
    owned::claim(&Disk, &folder, MASK_FOLDER_PURPOSE, Overwrite::Refuse).map_err(|e| error(e.to_string()))?;
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

/// Decodes a mask that has the size of the frame; of a mask for two stacked eyes, the upper half. That of a cube is
/// folded like its picture.
fn decode(path: &Path, out: &mut Frame, stored: &Frame, settings: &Settings) -> Result<MaskFile, FrameError> {
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
    out.colour = Colour::Grey;
    out.planes.resize_with(1, Plane::default);
    let plane = &mut out.planes[0];
    plane.reshape(w, h, [-1, h as i32]);
    for (y, row) in picture.keep.chunks_exact(w).take(h).enumerate() {
        plane.row_mut(y as i32).copy_from_slice(row);
    }
    if let Some(Projection::Cube(cube)) = settings.projection() {
        let mut folded = Plane::default();
        cube.fold_plane(plane, &mut folded);
        *plane = folded;
    }
    Ok(MaskFile::of(path, &content))
}

/// Names of the mask of a frame of a film.
fn film_mask_names(stem: &str) -> [String; 3] {
    [format!("{stem}.png"), format!("{stem}.jpg.png"), format!("{stem}_mask.png")]
}

/// The mask of a frame, if there is one: `DIR/NAME.png`, `DIR/STEM.png`, `DIR/STEM_mask.png` in the folder of masks or in
/// `masks` beside the frame, or beside it.
#[must_use]
pub fn find_mask(file: &Path, stem: &str, masks: Option<&Path>) -> Option<PathBuf> {
    let name = file.file_name()?.to_string_lossy().into_owned();
    let own = file.file_stem()?.to_string_lossy().into_owned();
    let beside = file.parent()?;
    let folders = [masks.map(Path::to_owned), Some(beside.join("masks"))];
    let in_folders = folders.into_iter().flatten().flat_map(|folder| {
        [format!("{name}.png"), format!("{own}.png"), format!("{own}_mask.png"), format!("{stem}.png")]
            .map(|candidate| folder.join(candidate))
    });
    let beside = [format!("{name}.png"), format!("{own}_mask.png")].map(|candidate| beside.join(candidate));
    in_folders.chain(beside).find(|path| path.is_file())
}
