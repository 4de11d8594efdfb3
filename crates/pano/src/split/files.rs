//! The output files of a frame. Views and masks are written under temporary names and renamed together once the last
//! one is synced; then the manifest records the frame.

use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, Unnamed, name_together, write_unnamed};
use gausset_io::image::encode::{PngPixels, png};

use super::error::{SplitError, write_error};
use super::record::{Manifest, ManifestLine, mask_path, stays_inside, view_path};
use super::settings::Settings;
use crate::cutter::CutView;
use crate::frames::SourceFrame;

/// The files of a frame that is being cut.
pub(super) struct ViewFiles<'a> {
    settings: &'a Settings,
    folder: &'a Path,
    frame: &'a SourceFrame,
    index: usize,
    pub(super) files: Vec<Unnamed>,
    /// Mask paths without a mask in this frame; files of earlier runs at these paths are removed.
    pub(super) without: Vec<PathBuf>,
    /// Length of each image file, bytes.
    pub(super) views: Vec<u64>,
    /// Length of each mask file, bytes; 0 = no mask.
    pub(super) masks: Vec<u64>,
}

impl<'a> ViewFiles<'a> {
    pub(super) fn new(
        settings: &'a Settings,
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
            files: Vec::new(),
            without: Vec::new(),
            views: none.clone(),
            masks: none,
        }
    }

    pub(super) fn write(&mut self, view: &CutView<'_>) -> Result<(), SplitError> {
        let path = view_path(self.settings, self.folder, self.frame, self.index, view.index);
        stays_inside(self.folder, &path)?;
        self.files.push(write_unnamed(&path, view.picture)?);
        self.views[view.index] = view.picture.len() as u64;
        let path = mask_path(self.settings, self.folder, self.frame, self.index, view.index);
        if let Some(pixels) = view.mask {
            if let Some(parent) = path.parent() {
                Disk.create_folder(parent).map_err(write_error(parent, "folder"))?;
            }
            let size = &self.settings.views[view.index];
            let png = png(size.width, size.height, PngPixels::Grey8(pixels), &[]).map_err(|e| {
                SplitError::Write { path: path.clone(), action: "encode", reason: e.to_string() }
            })?;
            stays_inside(self.folder, &path)?;
            self.files.push(write_unnamed(&path, &png)?);
            self.masks[view.index] = png.len() as u64;
        } else {
            self.without.push(path);
        }
        Ok(())
    }
}

/// A frame whose files are written but not renamed yet.
pub(super) struct Cut {
    pub(super) index: usize,
    pub(super) line: ManifestLine,
    pub(super) files: Vec<Unnamed>,
    pub(super) without: Vec<PathBuf>,
}

/// Renames the files of several frames, with one sync for all, and records the frames in the manifest.
pub(super) fn finish(cuts: &mut [Cut], manifest: &mut Manifest) -> Result<(), SplitError> {
    name_together(cuts.iter_mut().flat_map(|cut| std::mem::take(&mut cut.files)).collect())?;
    for path in cuts.iter().flat_map(|cut| &cut.without) {
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
