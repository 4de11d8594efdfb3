//! The output files of a frame. Views and masks are written under temporary names and renamed together once the last
//! one is synced; then the manifest records the frame.

use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, UnnamedFile, commit_all, write_uncommitted};
use gausset_io::image::encode::{PngPixels, png};

use super::error::{SplitError, write_error};
use super::record::{ManifestLine, ManifestWriter, check_inside, mask_path, view_path};
use super::settings::SplitSettings;
use crate::cut::cutter::CutView;
use crate::source::frames::SourceFrame;

/// The files of a frame that is being cut.
pub(super) struct ViewFiles<'a> {
    settings: &'a SplitSettings,
    folder: &'a Path,
    frame: &'a SourceFrame,
    index: usize,
    pub(super) unnamed: Vec<UnnamedFile>,
    /// Mask paths without a mask in this frame; files of earlier runs at these paths are removed.
    pub(super) absent_masks: Vec<PathBuf>,
    /// Length of each image file, bytes.
    pub(super) view_bytes: Vec<u64>,
    /// Length of each mask file, bytes; 0 = no mask.
    pub(super) mask_bytes: Vec<u64>,
}

impl<'a> ViewFiles<'a> {
    pub(super) fn new(
        settings: &'a SplitSettings,
        folder: &'a Path,
        frame: &'a SourceFrame,
        index: usize,
    ) -> Self {
        let none = vec![0; settings.views.len()];
        Self {
            settings,
            folder,
            frame,
            index,
            unnamed: Vec::new(),
            absent_masks: Vec::new(),
            view_bytes: none.clone(),
            mask_bytes: none,
        }
    }

    pub(super) fn write(&mut self, view: &CutView<'_>) -> Result<(), SplitError> {
        let path = view_path(self.settings, self.folder, self.frame, self.index, view.index);
        check_inside(self.folder, &path)?;
        self.unnamed.push(write_uncommitted(&path, view.encoded)?);
        self.view_bytes[view.index] = view.encoded.len() as u64;
        let path = mask_path(self.settings, self.folder, self.frame, self.index, view.index);
        if let Some(pixels) = view.mask {
            if let Some(parent) = path.parent() {
                Disk.create_folder(parent).map_err(write_error(parent, "folder"))?;
            }
            let size = &self.settings.views[view.index];
            let png = png(size.width, size.height, PngPixels::Grey8(pixels), &[]).map_err(|e| {
                SplitError::Write { path: path.clone(), action: "encode", reason: e.to_string() }
            })?;
            check_inside(self.folder, &path)?;
            self.unnamed.push(write_uncommitted(&path, &png)?);
            self.mask_bytes[view.index] = png.len() as u64;
        } else {
            self.absent_masks.push(path);
        }
        Ok(())
    }
}

/// A frame whose files are written but not renamed yet.
pub(super) struct WrittenFrame {
    pub(super) index: usize,
    pub(super) line: ManifestLine,
    pub(super) files: Vec<UnnamedFile>,
    pub(super) absent_masks: Vec<PathBuf>,
}

/// Renames the files of several frames, with one sync for all, and records the frames in the manifest.
pub(super) fn name_and_record(
    cuts: &mut [WrittenFrame],
    manifest: &mut ManifestWriter,
) -> Result<(), SplitError> {
    commit_all(cuts.iter_mut().flat_map(|cut| std::mem::take(&mut cut.files)).collect())?;
    for path in cuts.iter().flat_map(|cut| &cut.absent_masks) {
        match Disk.remove(path) {
            Err(e)
                if e.kind() != std::io::ErrorKind::NotFound
                    && e.kind() != std::io::ErrorKind::NotADirectory =>
            {
                return Err(write_error(path, "remove")(e));
            }
            _ => {}
        }
    }
    manifest.append(cuts.iter().map(|cut| &cut.line))
}
