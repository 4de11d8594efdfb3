//! Output files of a frame. A worker encodes and writes them under temporary names; the calling thread renames them.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{
    Disk, FileSystem, Overwrite, UnnamedFile, WriteError, check_free, commit_all, write_uncommitted,
};
use gausset_io::image::encode::{PngPixels, png, webp_rgba8};
use gausset_io::image::{Mask, inverse_orientation, upright_mask};
use gausset_io::ownership;
use gausset_pano::sphere_mask::REMOVED;

use super::frame::{FrameError, FrameMasks};
use super::input::OutputNames;
use super::manifest::ManifestEntry;
use super::{CutoutFormat, MaskJob, OutputModes};
use crate::Failure;

/// Purpose in the ownership marker of a mask folder.
pub(super) const PURPOSE: &str = "masks";
/// Subfolder of the cut-outs, next to the masks.
const CUTOUTS: &str = "cutouts";

/// Encodes the masks as PNG, and cut-outs if requested. A mask that keeps everything is not written.
pub(super) fn encoded(
    job: &MaskJob<'_>,
    frame: usize,
    outcome: &FrameMasks,
) -> Result<Vec<(PathBuf, Vec<u8>)>, FrameError> {
    let names = job.input.names(frame);
    let failed =
        |error: &dyn Display| FrameError::Frame(format!("{}: mask: {error}", job.input.frames()[frame].stem));
    let mut files = Vec::new();
    let modes = job.options.modes;
    // With a soft edge, the removed region of the mask ends where the edge begins.
    let removed = if job.options.feather > 0.0 { 1 } else { REMOVED };
    let hardened = |mask: &[u8]| mask.iter().map(|k| if *k < removed { 0 } else { 255 }).collect::<Vec<u8>>();
    for (index, (mask, [w, h])) in outcome.masks.iter().enumerate() {
        let (w, h) = (*w as u32, *h as u32);
        let hard = hardened(mask);
        let is_needed = job.options.empty_masks || hard.contains(&0);
        if modes != OutputModes::Cutouts && is_needed {
            let bytes = match outcome.orientation {
                2..=8 => {
                    let mask = Mask { width: w, height: h, values: hard.clone() };
                    let mask = upright_mask(mask, inverse_orientation(outcome.orientation));
                    png(mask.width, mask.height, PngPixels::Grey8(&mask.values), &[])
                }
                _ => png(w, h, PngPixels::Grey8(&hard), &[]),
            };
            files.push((names[index].mask.clone(), bytes.map_err(|e| failed(&e))?));
        }
        if let Some(rgb) = outcome.rgb.get(index) {
            let alpha = if job.options.feather > 0.0 { mask } else { &hard };
            let pixels: Vec<u8> =
                rgb.chunks_exact(3).zip(alpha).flat_map(|(p, &a)| [p[0], p[1], p[2], a]).collect();
            let (bytes, extension) = match job.options.cutouts {
                CutoutFormat::Png => {
                    (png(w, h, PngPixels::Rgba8(&pixels), &[]).map_err(|e| failed(&e))?, "png")
                }
                CutoutFormat::Webp => (webp_rgba8(w, h, &pixels).map_err(|e| failed(&e))?, "webp"),
            };
            let name = format!("{}.{extension}", names[index].cutout.display());
            files.push((Path::new(CUTOUTS).join(name), bytes));
        }
    }
    Ok(files)
}

/// Folders below the output that contain the files of an image.
pub(super) fn folders(names: &OutputNames) -> [PathBuf; 2] {
    [names.mask.clone(), Path::new(CUTOUTS).join(&names.cutout)]
        .map(|path| path.parent().map(Path::to_owned).unwrap_or_default())
}

/// Writes the files of a frame under temporary names.
pub(super) fn written(
    job: &MaskJob<'_>,
    files: &[(PathBuf, Vec<u8>)],
    before: Option<&ManifestEntry>,
) -> Result<Vec<UnnamedFile>, Failure> {
    let folder = job.options.output.as_path();
    let overwrite =
        if job.options.force || before.is_some() { Overwrite::Replace } else { Overwrite::Refuse };
    let mut unnamed = Vec::new();
    for (path, bytes) in files {
        ownership::check_inside(folder, path)?;
        let whole = folder.join(path);
        if !ownership::is_gausset_owned(folder, PURPOSE) {
            check_free(&Disk, &whole, overwrite)?;
        }
        if let Some(parent) = whole.parent() {
            Disk.create_folder(parent).map_err(|source| WriteError::Io {
                path: parent.to_owned(),
                action: "create folder",
                source,
            })?;
        }
        unnamed.push(write_uncommitted(&whole, bytes)?);
    }
    Ok(unnamed)
}

/// Renames the files to their final names, and removes files of an earlier mask that no longer exist.
pub(super) fn named(
    folder: &Path,
    files: Vec<UnnamedFile>,
    line: &ManifestEntry,
    before: Option<&ManifestEntry>,
) -> Result<(), Failure> {
    commit_all(files)?;
    for name in before.into_iter().flat_map(|line| line.files.keys()) {
        let path = Path::new(name);
        if !line.files.contains_key(name) && ownership::check_inside(folder, path).is_ok() {
            let _ = Disk.remove(&folder.join(path));
        }
    }
    Ok(())
}
