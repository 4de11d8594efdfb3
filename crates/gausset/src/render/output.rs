//! Writes rendered views: colour, alpha and depth files.

use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_core::RgbImage8;
use gausset_core::engine::Rendering;
use gausset_core::image::quantise;
use gausset_io::atomic::{
    Disk, FileSystem, Overwrite, WriteOptions, check_free, plain_reason, write_atomic_with,
};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::npy;
use gausset_io::ownership;
use gausset_train::cameras::NamedCamera;

use crate::Failure;

/// Alpha below which a pixel has no depth: almost nothing was hit.
const MIN_ALPHA: f32 = 0.01;

/// File format of depths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthFormat {
    /// 16-bit PNG; the text chunk `depth-scale` holds the scene units per level. 0 = no depth.
    Png,
    /// NumPy array of f32 in scene units; NaN = no depth.
    Npy,
}

/// Output folder and the kinds of files to write.
pub(super) struct ViewWriter<'a> {
    pub(super) folder: &'a Path,
    pub(super) depth: Option<DepthFormat>,
    pub(super) alpha: bool,
    pub(super) overwrite: Overwrite,
}

impl ViewWriter<'_> {
    /// Path of an output file; names may contain folders.
    fn path(&self, name: &Path, ending: &str) -> PathBuf {
        self.folder.join(with_ending(name, ending))
    }

    /// Refuses existing names and names that lead out of the folder before anything is rendered, then creates the
    /// folders.
    pub(super) fn make_folder(&self, cameras: &[NamedCamera]) -> Result<(), Failure> {
        for view in cameras {
            for ending in self.endings() {
                ownership::check_inside(self.folder, &with_ending(&view.name, ending))?;
                check_free(&Disk, &self.path(&view.name, ending), self.overwrite)?;
            }
        }
        for view in cameras {
            if let Some(parent) = self.path(&view.name, ".png").parent() {
                Disk.create_folder(parent).map_err(|error| {
                    let reason = plain_reason(&error);
                    Failure::new("write", format!("{}: folder: {reason}", parent.display()))
                })?;
            }
        }
        Ok(())
    }

    /// File name endings of each view.
    fn endings(&self) -> impl Iterator<Item = &'static str> {
        let alpha = self.alpha.then_some("_alpha.png");
        let depth = self.depth.map(|format| match format {
            DepthFormat::Png => "_depth.png",
            DepthFormat::Npy => "_depth.npy",
        });
        [Some(".png"), alpha, depth].into_iter().flatten()
    }

    pub(super) fn save(&self, name: &Path, rendering: &Rendering) -> Result<(), Failure> {
        let (width, height) = (rendering.width, rendering.height);
        let colour = RgbImage8::from_f32(width, height, &rendering.color);
        let write_png = |ending: &str, pixels: PngPixels<'_>, texts: &[(&str, &str)]| {
            let path = self.path(name, ending);
            let bytes = png(width, height, pixels, texts)
                .map_err(|error| Failure::new("write", format!("{}: png: {error}", path.display())))?;
            self.write(&path, &bytes)
        };
        write_png(".png", PngPixels::Rgb8(&colour.data), &[])?;
        if self.alpha {
            let alpha: Vec<u8> = rendering.alpha.iter().map(|&alpha| quantise(alpha)).collect();
            write_png("_alpha.png", PngPixels::Grey8(&alpha), &[])?;
        }
        match self.depth {
            Some(DepthFormat::Png) => {
                let (levels, scale) = depth_levels(rendering);
                write_png("_depth.png", PngPixels::Grey16(&levels), &[("depth-scale", &scale.to_string())])?;
            }
            Some(DepthFormat::Npy) => {
                let depths = depths(rendering).map(|depth| depth.unwrap_or(f32::NAN));
                let mut bytes = Vec::new();
                // Writing to a `Vec` cannot fail.
                let _ = npy::write(&mut bytes, &[height as usize, width as usize], depths);
                self.write(&self.path(name, "_depth.npy"), &bytes)?;
            }
            None => {}
        }
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let options = WriteOptions { label: "picture", overwrite: self.overwrite, ..WriteOptions::default() };
        let fs: &dyn FileSystem = &Disk;
        write_atomic_with(fs, path, &options, |file| file.write_all(bytes))?;
        Ok(())
    }
}

/// Appends an ending to a name and keeps dots in the name.
fn with_ending(name: &Path, ending: &str) -> PathBuf {
    let mut path = name.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Expected depth of each pixel in scene units; `None` where nothing was hit.
fn depths(rendering: &Rendering) -> impl Iterator<Item = Option<f32>> + '_ {
    let pixels = rendering.depth.iter().zip(&rendering.alpha);
    pixels.map(|(&depth, &alpha)| (alpha >= MIN_ALPHA).then(|| depth / alpha))
}

/// Depths as 16-bit levels (0 = no depth), and scene units per level.
fn depth_levels(rendering: &Rendering) -> (Vec<u16>, f32) {
    let largest = depths(rendering).flatten().fold(0.0f32, f32::max);
    let scale = if largest > 0.0 { largest / f32::from(u16::MAX) } else { 1.0 };
    let level = |depth: f32| (depth / scale).round().clamp(1.0, f32::from(u16::MAX)) as u16;
    (depths(rendering).map(|depth| depth.map_or(0, level)).collect(), scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_levels_use_the_whole_range_and_keep_zero_for_nothing() {
        let rendering = Rendering {
            width: 3,
            height: 1,
            alpha: vec![0.5, 1.0, 0.0],
            depth: vec![1.0, 8.0, 0.0],
            ..Rendering::default()
        };
        let (levels, scale) = depth_levels(&rendering);
        assert_eq!(levels, [16_384, 65_535, 0]);
        assert!((scale * 65_535.0 - 8.0).abs() < 1e-5);
    }
}
