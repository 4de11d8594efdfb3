//! Makes a mask for every image: COLMAP 4 skips images without one as soon as there is a folder of masks.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_compute::Pool;
use gausset_io::atomic::{Disk, FileSystem, WriteError, write_atomic};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::read_header;

use crate::align::{AlignError, AlignJob};
use crate::built_in::keep_of;
use crate::model::FrameImages;

/// The masks of the images of frames in a folder, named `NAME.png`.
#[must_use]
pub fn masks_in(folder: &Path, frames: &[FrameImages]) -> BTreeMap<String, PathBuf> {
    let mask = |name: &String| (name.clone(), folder.join(format!("{name}.png")));
    frames.iter().flat_map(|frame| &frame.images).map(mask).filter(|(_, path)| path.is_file()).collect()
}

/// The folder in which COLMAP finds a mask for every image, if there are masks.
pub(crate) fn folder_for_colmap(job: &AlignJob) -> Option<PathBuf> {
    (!job.masks.is_empty()).then(|| job.work_folder.join("masks"))
}

/// Makes the folder of masks for COLMAP, which takes only 0 for ignored, and keypoints outside a smaller mask too: black and
/// white copies of the size of their images, and white masks for those without one.
///
/// # Errors
/// A mask cannot be read or written, or `stop` is set.
pub(crate) fn complete_masks(job: &AlignJob, stop: &AtomicBool) -> Result<(), AlignError> {
    /// Masks at a time, which memory holds.
    const TOGETHER: usize = 8;
    let Some(folder) = folder_for_colmap(job) else { return Ok(()) };
    let names: Vec<&String> = job.frames.iter().flat_map(|frame| &frame.images).collect();
    let pool = Pool::new(job.threads.min(TOGETHER));
    let written = pool.map(names.len(), |index| match stop.load(Ordering::Relaxed) {
        true => Err(AlignError::Stopped),
        false => write_mask(job, &folder, names[index]),
    });
    written.into_iter().collect()
}

fn write_mask(job: &AlignJob, folder: &Path, name: &str) -> Result<(), AlignError> {
    // COLMAP reports an image that cannot be opened.
    let Ok(header) = read_header(&job.image_folder.join(name)) else { return Ok(()) };
    let size @ [width, height] = [header.width, header.height];
    let keep = keep_of(job, name, size)?.unwrap_or_else(|| vec![255; width as usize * height as usize]);
    let bytes = png(width, height, PngPixels::Grey8(&keep), &[]).unwrap_or_default();
    let path = folder.join(format!("{name}.png"));
    if let Some(parent) = path.parent() {
        let failed = |source| WriteError::Io { path: parent.to_owned(), action: "folder", source };
        Disk.create_folder(parent).map_err(failed)?;
    }
    Ok(write_atomic(&Disk, &path, |out| out.write_all(&bytes))?)
}

#[cfg(test)]
mod tests {
    use gausset_io::image::decode_file;

    use super::*;
    use crate::align::tests::job_in;

    #[test]
    fn colmap_gets_a_mask_for_every_image_in_black_and_white_and_of_its_size() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let write = |name: &str, width: u32, values: &[u8]| {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            let bytes = png(width, values.len() as u32 / width, PngPixels::Grey8(values), &[]).unwrap();
            std::fs::write(at(name), bytes).unwrap();
        };
        write("images/a/p.png", 4, &[9; 8]);
        write("images/b/p.png", 5, &[9; 10]);
        let images = ["a/p.png", "b/p.png"].map(str::to_owned).to_vec();
        let mut job = job_in(place.path(), vec![FrameImages { name: "p".to_owned(), images }]);
        write("masks/p.png.png", 2, &[0; 2]);
        job.masks = masks_in(&at("masks"), &job.frames);
        assert_eq!(folder_for_colmap(&job), None);
        // Half the size, and grey.
        write("masks/a/p.png.png", 2, &[90, 200]);
        job.masks = masks_in(&at("masks"), &job.frames);
        let stopped = complete_masks(&job, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(AlignError::Stopped)) && !folder_for_colmap(&job).unwrap().exists());
        let mut copies = |invert_masks| {
            job.invert_masks = invert_masks;
            complete_masks(&job, &AtomicBool::new(false)).unwrap();
            let folder = folder_for_colmap(&job).unwrap();
            ["a", "b"].map(|view| decode_file(&folder.join(view).join("p.png.png")).unwrap().rgb)
        };
        let row =
            |values: [u8; 4]| [values, values].concat().iter().flat_map(|&v| [v; 3]).collect::<Vec<_>>();
        assert_eq!(copies(false), [row([0, 0, 255, 255]), vec![255; 30]]);
        assert_eq!(copies(true), [row([255, 255, 0, 0]), vec![255; 30]]);
    }
}
