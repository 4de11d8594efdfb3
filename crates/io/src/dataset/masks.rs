//! Finds the masks of images, by the conventions of other programs, with any extension of a picture:
//!
//! | place | names for `sub/a.jpg` |
//! |---|---|
//! | mask folder: `masks`, `mask` or `segmentation`, in any case, beside the images, in the dataset's folder or among the images | `sub/a.jpg.png` (COLMAP), `sub/a.png` (Brush, LichtFeld), `sub/a.jpg.mask.png` (RealityCapture), `sub/a.mask.png`, `sub/a_mask.png` (Metashape, 360toolkit) |
//! | image folder | `sub/a.jpg.mask.png`, `sub/a.mask.png`, `sub/a_mask.png`, `sub/.mask/a.png` (RealityCapture) |
//!
//! In the mask folder, sub-folders may be missing where that is unique.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::paths::file_in;
use super::similar::NameIndex;
use super::warning::Warning;
use crate::image::formats::named_format;
use crate::image::{decode_mask_file, read_header};

/// Names of mask folders, in the order in which they are tried.
const MASK_FOLDERS: [&str; 3] = ["masks", "mask", "segmentation"];
/// Extensions of masks next to images.
const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];
/// Number of masks that are decoded to see whether they are inverted.
const MASKS_LOOKED_AT: usize = 4;
/// Larger masks are not decoded for that: the memory limit does not cover it.
const MAX_PROBED_PIXELS: u64 = 1 << 25;
/// Fraction of kept pixels below which a mask is probably inverted.
const FEW_PIXELS: f64 = 0.05;

/// The mask of each image, as for training (docs/reference/datasets.md): in a folder of masks, or beside it. Names are
/// relative to `images`.
#[must_use]
pub fn find_masks(folder: Option<&Path>, images: &Path, names: &[&str]) -> Vec<Option<PathBuf>> {
    MaskFinder::of_folder(folder, images).find(names.iter().map(|name| [*name; 2]))
}

/// The mask folder of a dataset in the folder `root`, with these images.
#[must_use]
pub fn mask_folder(root: &Path, images: &Path) -> Option<PathBuf> {
    let above = images.parent().map(Path::to_owned);
    let places = [Some(root.to_owned()), above, Some(images.to_owned()), Some(file_in(root, "images"))];
    let mut folders = places.iter().flatten().flat_map(|place| MASK_FOLDERS.map(|name| file_in(place, name)));
    folders.find(|folder| folder.is_dir())
}

/// The masks of a dataset that its files do not name.
pub(super) struct MaskFinder {
    images: PathBuf,
    folder: Option<(PathBuf, NameIndex)>,
}

impl MaskFinder {
    /// Looks into the mask folder `named`, or into the one of the dataset.
    pub(super) fn new(named: Option<&Path>, root: &Path, images: &Path) -> Self {
        let usual = || mask_folder(root, images);
        Self::of_folder(named.map(Path::to_owned).or_else(usual).as_deref(), images)
    }

    fn of_folder(folder: Option<&Path>, images: &Path) -> Self {
        let folder = folder.map(|folder| (folder.to_owned(), NameIndex::of_folder(folder)));
        Self { images: images.to_owned(), folder }
    }

    /// The mask of each image, given as its names: as the file is named, then as the dataset spells it.
    pub(super) fn find<'n>(&self, images: impl Iterator<Item = [&'n str; 2]>) -> Vec<Option<PathBuf>> {
        let found: Vec<Option<(PathBuf, bool)>> = images
            .map(|names| {
                names
                    .iter()
                    .find_map(|name| self.in_folder(name))
                    .or_else(|| self.beside(names[0]).map(|path| (path, true)))
            })
            .collect();
        // `a.png` without a sub-folder is the mask of one image only.
        let mut uses: BTreeMap<PathBuf, usize> = BTreeMap::new();
        found.iter().flatten().for_each(|(path, _)| *uses.entry(path.clone()).or_default() += 1);
        let unique =
            |(path, is_whole): (PathBuf, bool)| (is_whole || uses.get(&path) == Some(&1)).then_some(path);
        found.into_iter().map(|mask| mask.and_then(unique)).collect()
    }

    /// A mask in the mask folder, and whether its sub-folders are those of the image.
    fn in_folder(&self, name: &str) -> Option<(PathBuf, bool)> {
        let (folder, index) = self.folder.as_ref()?;
        let last = name.rsplit_once(['/', '\\']).map_or(name, |(_, last)| last);
        let stem = stem(last);
        let mut names = vec![
            last.to_owned(),
            stem.to_owned(),
            format!("{last}.mask"),
            format!("{stem}.mask"),
            format!("{stem}_mask"),
        ];
        // The copy `a.heic.jpg` of a photograph takes the mask of `a.heic`.
        if named_format(Path::new(stem)).is_some() {
            let stem = self::stem(stem);
            names.extend([stem.to_owned(), format!("{stem}.mask"), format!("{stem}_mask")]);
        }
        let (found, is_whole) = names.iter().find_map(|stem| index.find_companion(name, stem))?;
        Some((folder.join(found), is_whole))
    }

    /// A mask next to the image.
    fn beside(&self, name: &str) -> Option<PathBuf> {
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        let folder = self.images.join(folder);
        let stem = stem(last);
        let names =
            [format!("{last}.mask"), format!("{stem}.mask"), format!("{stem}_mask"), format!(".mask/{stem}")];
        let mut paths = names
            .iter()
            .flat_map(|name| EXTENSIONS.map(|extension| folder.join(format!("{name}.{extension}"))));
        // A pipe or folder of such a name fails when it is opened.
        paths.find(|path| path.exists())
    }

    /// What is to be said of a mask folder in which images have no mask; `without` is the first of them.
    pub(super) fn coverage(&self, with: usize, pictures: usize, without: Option<&str>) -> Option<Warning> {
        let (folder, index) = self.folder.as_ref()?;
        let (folder, files, name) = (folder.clone(), index.names().len(), without?.to_owned());
        let other = if files == 0 { first_file(&folder) } else { None };
        Some(Warning::MasksMissing { folder, files, other, with, pictures, name })
    }
}

/// The first visible file by name in a folder or, if there is none, in those directly below it.
fn first_file(folder: &Path) -> Option<String> {
    let visible = |folder: &Path| -> Vec<PathBuf> {
        let entries = crate::input::read_dir(folder).into_iter().flatten().flatten();
        let is_visible = |entry: &std::fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
        let mut paths: Vec<PathBuf> = entries.filter(is_visible).map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let first = |paths: &[PathBuf]| paths.iter().find(|path| path.is_file()).cloned();
    let here = visible(folder);
    let found = first(&here).or_else(|| here.iter().find_map(|below| first(&visible(below))))?;
    Some(crate::text::excerpt(&found.file_name()?.to_string_lossy()))
}

/// A file name without its extension.
fn stem(last: &str) -> &str {
    match last.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => last,
    }
}

/// Whether masks keep almost nothing: of a few of them, evenly chosen.
pub(super) fn inverted(masks: &[&Path], invert: bool) -> Option<Warning> {
    let step = masks.len().div_ceil(MASKS_LOOKED_AT).max(1);
    let shares = masks.iter().step_by(step).filter_map(|&path| {
        let header = read_header(path).ok()?;
        if u64::from(header.width) * u64::from(header.height) > MAX_PROBED_PIXELS {
            return None;
        }
        let mask = decode_mask_file(path).ok()?;
        let above = mask.values.iter().filter(|&&v| v > 0).count();
        let kept = if invert { mask.values.len() - above } else { above };
        Some((path, kept as f64 / mask.values.len().max(1) as f64))
    });
    let shares: Vec<(&Path, f64)> = shares.collect();
    // A black mask is an error of its own when its image is loaded.
    let mut few = shares.iter().filter(|(_, kept)| *kept > 0.0 && *kept < FEW_PIXELS);
    let &(path, kept) = few.next()?;
    Some(Warning::InvertedMasks {
        path: path.to_owned(),
        few: 1 + few.count(),
        looked_at: shares.len(),
        kept,
    })
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn found(root: &Path, name: &str) -> Option<PathBuf> {
        let finder = MaskFinder::new(None, root, &root.join("images"));
        finder.find(std::iter::once([name, name])).pop().flatten()
    }

    #[test]
    fn masks_are_found_where_programs_lay_them() {
        let root = tempfile::tempdir().unwrap();
        for name in [
            "masks/sub/a.jpg.png",
            "masks/sub/a.png",
            "masks/sub/a.jpg",
            "masks/sub/A.JPEG",
            "masks/sub/a.tif",
            "masks/a.png",
            "masks/sub/a.jpg.mask.png",
            "masks/sub/a_mask.png",
            "mask/sub/a.png",
            "segmentation/sub/a.jpg",
            "Masks/sub/a.PNG",
            "MASK/sub/a.png",
            "Segmentation/sub/a.tif",
            "images/masks/sub/a.png",
            "images/Mask/a.png",
            "images/sub/a.jpg.mask.png",
            "images/sub/a_mask.png",
            "images/sub/a_mask.jpg",
            "images/sub/.mask/a.png",
        ] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, b"x").unwrap();
            assert_eq!(found(root.path(), "sub/a.jpg"), Some(path.clone()), "{name}");
            assert_eq!(found(root.path(), "sub/b.jpg"), None);
            std::fs::remove_dir_all(root.path().join(name.split('/').next().unwrap())).unwrap();
        }
    }

    #[test]
    fn a_copy_takes_the_mask_of_its_original() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("masks")).unwrap();
        for name in ["masks/a.HEIC.png", "masks/a.png", "masks/a_mask.png"] {
            let path = root.path().join(name);
            std::fs::write(&path, b"x").unwrap();
            assert_eq!(found(root.path(), "a.HEIC.jpg"), Some(path.clone()));
            assert_eq!(found(root.path(), "a.b.jpg"), None);
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_mask_without_sub_folder_is_not_that_of_two_cameras() {
        let root = tempfile::tempdir().unwrap();
        let masks = root.path().join("masks");
        std::fs::create_dir(&masks).unwrap();
        std::fs::write(masks.join("a.png"), b"x").unwrap();
        let finder = MaskFinder::new(Some(&masks), root.path(), &root.path().join("images"));
        assert_eq!(
            finder.find(["left/a.jpg", "right/a.jpg"].map(|name| [name; 2]).into_iter()),
            [None, None]
        );
    }
}
