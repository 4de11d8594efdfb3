//! Makes a mask for every image: COLMAP 4 skips images without one as soon as there is a folder of masks.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_io::atomic::{Disk, FileSystem, WriteError, write_atomic};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::{MAX_FILE_BYTES, read_header};
use gausset_io::input;

use crate::model::FrameImages;

/// Returns the folder of masks for COLMAP: `masks` if it has one for every image of the frames. Otherwise `folder`, to
/// which they are copied, with white masks of the size of their images for the others. `None` if no image has a mask.
///
/// # Errors
/// A mask cannot be written.
pub(crate) fn complete_masks(
    masks: &Path,
    images: &Path,
    frames: &[FrameImages],
    folder: &Path,
) -> Result<Option<PathBuf>, WriteError> {
    let names: Vec<&String> = frames.iter().flat_map(|frame| &frame.images).collect();
    let file = |name: &str| masks.join(format!("{name}.png"));
    let count = names.iter().filter(|name| file(name).is_file()).count();
    if count == 0 {
        return Ok(None);
    }
    if count == names.len() {
        return Ok(Some(masks.to_owned()));
    }
    let mut white: BTreeMap<[u32; 2], Vec<u8>> = BTreeMap::new();
    for name in names {
        let bytes = if let Ok(bytes) = input::read(&file(name), MAX_FILE_BYTES) {
            bytes
        } else {
            // COLMAP reports an image that cannot be opened.
            let Ok(header) = read_header(&images.join(name)) else { continue };
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
    Ok(Some(folder.to_owned()))
}

#[cfg(test)]
mod tests {
    use gausset_io::image::decode_mask_file;

    use super::*;

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
        let frames = [FrameImages { name: "p".to_owned(), images }];
        let found = || complete_masks(&at("masks"), &at("images"), &frames, &at("work")).unwrap();
        // The folder has only a file of another name.
        assert_eq!(found(), None);
        std::fs::write(at("masks/a/p.png.png"), grey(3, 0).unwrap()).unwrap();
        assert_eq!(found(), Some(at("work")));
        assert_eq!(decode_mask_file(&at("work/a/p.png.png")).unwrap().values, [0; 6]);
        let white = decode_mask_file(&at("work/b/p.png.png")).unwrap();
        assert_eq!((white.width, white.values), (5, vec![255; 10]));
        std::fs::create_dir(at("masks/b")).unwrap();
        std::fs::write(at("masks/b/p.png.png"), grey(5, 0).unwrap()).unwrap();
        assert_eq!(found(), Some(at("masks")));
    }
}
