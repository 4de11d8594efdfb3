//! The saved result: `splats.ply`, rotated upright.

use gausset_core::Splats;
use gausset_core::se3::{IDENTITY3, Mat3};
use gausset_core::splats_transform::Similarity;
use gausset_io::atomic::{FileSystem, Overwrite, WriteError, WriteOptions};
use gausset_io::run_folder::{RunFolder, splats_path};
use gausset_io::splat::{self, SaveOptions, SaveReport, SplatFile};

use crate::up::SAVED_UP;

/// Writes `splats.ply`: the splats rotated by `saved_from_dataset`, unchanged to the bit if that is the identity. The
/// last `sky` of them form the sky.
pub(super) fn save_splats(
    fs: &dyn FileSystem,
    folder: &RunFolder,
    splats: Splats,
    sky: usize,
    antialiased: bool,
    saved_from_dataset: &Mat3,
) -> Result<SaveReport, WriteError> {
    let is_turned = *saved_from_dataset != IDENTITY3;
    let vertical_axis = is_turned.then(|| SAVED_UP.map(|v| v as f32));
    let mut document = SplatFile { antialiased, sky, vertical_axis, ..SplatFile::new(splats) };
    // An identity rotation must not change any bits.
    document.transform(&Similarity::from_rotation(*saved_from_dataset));
    let write = WriteOptions { label: "splats", needed_bytes: 0, overwrite: Overwrite::Replace };
    splat::save(fs, &splats_path(folder.root()), &document, &SaveOptions::default(), &write)
}
