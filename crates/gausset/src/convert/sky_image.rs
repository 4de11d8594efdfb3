//! The sky of a conversion as an image beside the output.

use std::io::Write;

use gausset_io::atomic::{AtomicWriter, Disk, WriteOptions, check_free, write_atomic_with};
use gausset_io::image::encode::png_rgb8;
use gausset_io::splat::{SplatFile, sky_image};

use super::ConvertOptions;
use crate::Failure;

/// Width of the image, px: a third of a degree a pixel. A learnt sky has no finer detail.
const WIDTH: u32 = 1024;

impl ConvertOptions {
    /// Refuses an image at the place of the output or of an existing file.
    pub(super) fn check_sky_image(&self) -> Result<(), Failure> {
        let Some(path) = &self.sky_image else { return Ok(()) };
        if *path == self.output {
            let line = format!("{}: ⟨sky-image⟩: is the output (expected another name)", path.display());
            return Err(Failure::usage(line));
        }
        Ok(check_free(&Disk, path, self.overwrite())?)
    }

    /// The image as a PNG, if one is wanted, in the axes of the output.
    pub(super) fn sky_image(&self, document: &SplatFile) -> Result<Option<Vec<u8>>, Failure> {
        let Some(path) = &self.sky_image else { return Ok(None) };
        let image = sky_image(document, &self.edits.transform(), WIDTH).ok_or_else(|| {
            let input = self.input.display();
            Failure::usage(format!(
                "{input}: ⟨sky-image⟩: no splats are marked as a sky (expected splats that were trained with one)"
            ))
        })?;
        let bytes = png_rgb8(&image);
        let bytes =
            bytes.map_err(|error| Failure::new("write", format!("{}: png: {error}", path.display())))?;
        Ok(Some(bytes))
    }

    /// Writes the PNG.
    pub(super) fn write_sky_image(&self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(path) = &self.sky_image else { return Ok(()) };
        let options =
            WriteOptions { label: "picture", overwrite: self.overwrite(), needed_bytes: bytes.len() as u64 };
        write_atomic_with(&Disk, path, &options, |file: &mut AtomicWriter<'_>| file.write_all(bytes))?;
        Ok(())
    }
}
