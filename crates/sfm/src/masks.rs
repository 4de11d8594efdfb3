//! Makes a mask for every image: COLMAP 4 skips images without one as soon as there is a folder of masks.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, WriteError, write_atomic};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::{decode_mask_file, read_header};

use crate::align::{AlignError, AlignJob};
use crate::model::FrameImages;

/// The masks of the images of frames in a folder, named `NAME.png`.
#[must_use]
pub fn masks_in(folder: &Path, frames: &[FrameImages]) -> BTreeMap<String, PathBuf> {
    let mask = |name: &String| (name.clone(), folder.join(format!("{name}.png")));
    frames.iter().flat_map(|frame| &frame.images).map(mask).filter(|(_, path)| path.is_file()).collect()
}

/// The folder in which COLMAP finds a mask for every image, if there are masks.
pub(crate) fn folder_for_colmap(job: &AlignJob) -> Option<PathBuf> {
    let (name, path) = job.masks.first_key_value()?;
    // Whole components, so that the folder of `a/b.png.png` is not that of `b.png`.
    let above = Path::new(&format!("{name}.png")).components().count();
    let folder = path.ancestors().nth(above)?;
    let is_complete = job
        .frames
        .iter()
        .flat_map(|frame| &frame.images)
        .all(|name| job.masks.get(name).is_some_and(|path| *path == folder.join(format!("{name}.png"))));
    Some(if is_complete { folder.to_owned() } else { job.work_folder.join("masks") })
}

/// Makes the folder of masks for COLMAP, unless all are in one already: copies, and white masks of the size of their images
/// for those without one.
///
/// # Errors
/// A mask cannot be read or written.
pub(crate) fn complete_masks(job: &AlignJob) -> Result<(), AlignError> {
    let own = job.work_folder.join("masks");
    let Some(folder) = folder_for_colmap(job).filter(|folder| *folder == own) else { return Ok(()) };
    let mut white: BTreeMap<[u32; 2], Vec<u8>> = BTreeMap::new();
    for name in job.frames.iter().flat_map(|frame| &frame.images) {
        let bytes = if let Some(path) = job.masks.get(name) {
            let mask = decode_mask_file(path)?;
            png(mask.width, mask.height, PngPixels::Grey8(&mask.values), &[]).unwrap_or_default()
        } else {
            // COLMAP reports an image that cannot be opened.
            let Ok(header) = read_header(&job.image_folder.join(name)) else { continue };
            let size @ [width, height] = [header.width, header.height];
            let keep = || vec![255; width as usize * height as usize];
            let of = || png(width, height, PngPixels::Grey8(&keep()), &[]).unwrap_or_default();
            white.entry(size).or_insert_with(of).clone()
        };
        let path = folder.join(format!("{name}.png"));
        if let Some(parent) = path.parent() {
            let failed = |source| WriteError::Io { path: parent.to_owned(), action: "folder", source };
            Disk.create_folder(parent).map_err(failed)?;
        }
        write_atomic(&Disk, &path, |out| out.write_all(&bytes))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::tests::job_in;

    #[test]
    fn pictures_without_a_mask_get_a_white_one() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let grey =
            |width: u32, value: u8| png(width, 2, PngPixels::Grey8(&vec![value; 2 * width as usize]), &[]);
        for (folder, width) in [("images/a", 3), ("images/b", 5), ("masks/a", 3)] {
            std::fs::create_dir_all(at(folder)).unwrap();
            std::fs::write(at(folder).join("p.png"), grey(width, 9).unwrap()).unwrap();
        }
        let images = ["a/p.png", "b/p.png"].map(str::to_owned).to_vec();
        let mut job = job_in(place.path(), vec![FrameImages { name: "p".to_owned(), images }]);
        let mut complete = || {
            job.masks = masks_in(&at("masks"), &job.frames);
            complete_masks(&job).unwrap();
            folder_for_colmap(&job)
        };
        // The folder has only a file of another name.
        assert_eq!(complete(), None);
        std::fs::write(at("masks/a/p.png.png"), grey(3, 0).unwrap()).unwrap();
        assert_eq!(complete(), Some(at("sfm/masks")));
        assert_eq!(decode_mask_file(&at("sfm/masks/a/p.png.png")).unwrap().values, [0; 6]);
        let white = decode_mask_file(&at("sfm/masks/b/p.png.png")).unwrap();
        assert_eq!((white.width, white.values), (5, vec![255; 10]));
        std::fs::create_dir(at("masks/b")).unwrap();
        std::fs::write(at("masks/b/p.png.png"), grey(5, 0).unwrap()).unwrap();
        assert_eq!(complete(), Some(at("masks")));
        // Under another name, COLMAP would not find it.
        std::fs::rename(at("masks/b/p.png.png"), at("masks/b/p_mask.png")).unwrap();
        job.masks.insert("b/p.png".to_owned(), at("masks/b/p_mask.png"));
        complete_masks(&job).unwrap();
        assert_eq!(folder_for_colmap(&job), Some(at("sfm/masks")));
        assert_eq!(decode_mask_file(&at("sfm/masks/b/p.png.png")).unwrap().values, [0; 10]);
    }
}
