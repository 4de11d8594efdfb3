//! Shows the detected static foreground: `still_look DIR PANORAMA...` writes DIR/NAME.png, the panoramas at 1200 px
//! with the removed part in red.
#![allow(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::path::{Path, PathBuf};

use gausset_core::RgbImage8;
use gausset_io::image::area_filter::downscale;
use gausset_io::image::decode::decode_file;
use gausset_io::image::encode::png_rgb8;
use gausset_pano::sphere_mask::static_foreground::ForegroundDetector;

fn small(path: &Path, width: u32) -> Result<RgbImage8, Box<dyn Error>> {
    let picture = downscale(decode_file(path)?, width, width / 2);
    Ok(RgbImage8 { width, height: width / 2, data: picture.rgb })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("usage: still_look DIR PANORAMA...")?;
    let files: Vec<PathBuf> = arguments.collect();
    let mut finder = ForegroundDetector::new();
    for file in &files {
        finder.add_frame(&small(file, 960)?, None);
    }
    let found = finder.detect()?;
    let mask = found.mask(1200, 600, 0.0);
    println!(
        "{:?}, {} frames, {:.2} % of the sphere",
        found.axes,
        found.frames,
        100.0 * mask.removed_fraction()
    );
    for file in &files {
        let mut picture = small(file, 1200)?;
        for (rgb, keep) in picture.data.chunks_exact_mut(3).zip(&mask.data) {
            if *keep < 128 {
                rgb[0] = rgb[0] / 2 + 127;
                rgb[1] /= 2;
                rgb[2] /= 2;
            }
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        std::fs::write(folder.join(format!("{name}.png")), png_rgb8(&picture)?)?;
    }
    Ok(())
}
