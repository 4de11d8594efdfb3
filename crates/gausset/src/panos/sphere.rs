//! Prepares whole panoramas for training: a model with one EQUIRECTANGULAR camera per image size, and masks.
//!
//! ```text
//! DIR/sphere/sparse/0   cameras, poses of the panoramas, points
//! DIR/sphere/masks      NAME.png, 0 = ignore; only if there is something to ignore
//! ```
//! Images are not copied.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gausset_core::Pose;
use gausset_io::atomic::{Disk, FileSystem};
use gausset_io::dataset::colmap::{ColmapImage, ColmapModel, ColmapPoint, ModelFormat};
use gausset_io::dataset::{CameraModel, SourceCamera, is_full_panorama};
use gausset_io::image::encode::{PngPixels, png};
use gausset_io::image::{decode_mask_file, read_header};
use gausset_io::input::absolute;
use gausset_io::ownership;
use gausset_pano::export::AlignedPoses;
use gausset_pano::frames::SourceFrame;
use gausset_pano::load;
use gausset_pano::split::find_mask;

use super::model;
use super::run::PanoOptions;
use super::source::Footage;
use crate::footage_options::TrainViewOptions;
use crate::{Failure, records};

/// Purpose in the ownership marker of the mask folder.
const MASKS_PURPOSE: &str = "masks of panoramas";

/// Refuses footage and options that training on whole panoramas does not support.
///
/// # Errors
/// Frames that are not panoramas in image files; colour options, a mask command, a view size.
pub(super) fn check(options: &PanoOptions, source: &Footage) -> Result<(), Failure> {
    let bad = |what: &str| {
        Err(Failure::usage(format!(
            "⟨panoramas = sphere⟩: {what}; leave it out, or make panoramas first (`gausset pano convert`)"
        )))
    };
    let colours = &options.colours;
    if source.film.is_some() || source.projection.is_some() || source.is_stereo || source.has_parts() {
        return bad("needs equirectangular image files of 2:1 (found other footage)");
    }
    if !colours.look.text().is_empty() || colours.lut.is_some() || colours.equalise.is_some() {
        return bad("does not change colours (found ⟨look⟩, ⟨lut⟩ or ⟨equalise⟩)");
    }
    if options.masking.mask_command.is_some() {
        return bad("reads masks from files only (found ⟨mask-command⟩)");
    }
    let TrainViewOptions { layout, size, .. } = &options.views;
    if size.is_some() || *layout != TrainViewOptions::default().layout {
        return bad(
            "has no views (found ⟨train-layout⟩ or ⟨train-size⟩; use ⟨max-resolution⟩ to reduce panoramas)",
        );
    }
    source.frames.iter().flat_map(|frame| &frame.files).try_for_each(|file| check_file(file))
}

/// Refuses an image that is cut into views, but shows a part of the sphere or is not exactly 2:1. What cannot be read is
/// reported when it is cut.
fn check_file(file: &Path) -> Result<(), Failure> {
    let Ok(header) = read_header(file) else { return Ok(()) };
    let metadata = load::read_metadata(file).unwrap_or_default();
    let [width, height] = [header.width, header.height];
    let upright = if metadata.orientation() >= 5 { [height, width] } else { [width, height] };
    let Ok(shown) = metadata.equirect(upright[0], upright[1]) else { return Ok(()) };
    let is_whole = shown.is_nearly_whole();
    if is_whole && is_full_panorama([width, height]) {
        return Ok(());
    }
    let (found, or_convert) = if is_whole {
        (format!("{width}x{height} px"), ", or convert it first (`gausset pano convert`)")
    } else {
        ("a part of the sphere".to_owned(), "")
    };
    Err(Failure::new(
        "frames",
        format!(
            "{}: picture: is {found} (expected the whole sphere, stored 2:1 within 2 px, for ⟨panoramas = sphere⟩); leave that out{or_convert}",
            file.display()
        ),
    ))
}

/// Folder that image names are relative to.
pub(super) fn image_folder(options: &PanoOptions) -> PathBuf {
    let input = &options.input;
    let folder = if input.is_file() { input.parent().unwrap_or(Path::new("")) } else { input };
    absolute(folder)
}

/// A panorama with a pose.
struct PosedPanorama<'a> {
    frame: &'a SourceFrame,
    /// Path of the image file; `name` is the path relative to the image folder.
    file: &'a Path,
    name: String,
    size: [u32; 2],
    pose: Pose,
}

/// Writes model and masks into `folder`.
///
/// # Errors
/// An image or mask that cannot be read, files that Gausset did not create, or a file that cannot be written.
pub(super) fn write(
    options: &PanoOptions,
    folder: &Path,
    source: &Footage,
    poses: &AlignedPoses,
    points: Vec<ColmapPoint>,
) -> Result<(), Failure> {
    let pictures = image_folder(options);
    let mut posed = Vec::new();
    for frame in &source.frames {
        let pose = poses.frames.iter().find(|found| found.name == frame.stem).and_then(|found| found.pose());
        let (Some(pose), Some(file)) = (pose, frame.files.first()) else { continue };
        let whole = absolute(file);
        let name = whole.strip_prefix(&pictures).unwrap_or(&whole).to_string_lossy().replace('\\', "/");
        let header = read_header(file).map_err(|error| Failure::new("frames", error))?;
        posed.push(PosedPanorama { frame, file, name, size: [header.width, header.height], pose });
    }
    let model_folder = records::claim_model(folder, options.overwrite)?;
    for (name, bytes) in model_of(&posed, points) {
        model::write(&model_folder.join(name), &bytes)?;
    }
    write_masks(options, &folder.join("masks"), &posed)
}

/// Files of the model.
fn model_of(
    posed: &[PosedPanorama<'_>],
    points: Vec<ColmapPoint>,
) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let mut cameras: BTreeMap<[u32; 2], u32> = BTreeMap::new();
    for panorama in posed {
        let next = cameras.len() as u32 + 1;
        cameras.entry(panorama.size).or_insert(next);
    }
    let images: Vec<ColmapImage> = (1u32..)
        .zip(posed)
        .map(|(id, p)| ColmapImage::new(id, p.name.clone(), cameras[&p.size], &p.pose))
        .collect();
    let camera = |(&[width, height], &id): (&[u32; 2], &u32)| SourceCamera {
        id,
        model: CameraModel::Equirectangular,
        width,
        height,
        params: vec![f64::from(width), f64::from(height)],
    };
    let model = ColmapModel { cameras: cameras.iter().map(camera).collect(), images, points };
    model.to_files(ModelFormat::Binary).into_iter()
}

/// Writes masks for panoramas that have one, or whose bottom is cropped.
fn write_masks(options: &PanoOptions, folder: &Path, posed: &[PosedPanorama<'_>]) -> Result<(), Failure> {
    ownership::claim_folder(&Disk, folder, MASKS_PURPOSE, options.overwrite)?;
    for panorama in posed {
        let [width, height] = panorama.size;
        let given = find_mask(panorama.file, &panorama.frame.stem, options.masking.masks.as_deref());
        let own = format!("{}.png", panorama.name);
        ownership::check_inside(folder, Path::new(&own))?;
        let path = folder.join(own);
        if given.is_none() && options.masking.crop_bottom == 0.0 {
            // Remove a mask of earlier options, which would still be used.
            let _ = Disk.remove(&path);
            continue;
        }
        let mask = given.map(|path| decode_mask_file(&path).map_err(|error| Failure::new("frames", error)));
        let mask = mask.transpose()?;
        // Angle of the row from the nadir.
        let is_cropped =
            |y: u32| 180.0 * (1.0 - (f64::from(y) + 0.5) / f64::from(height)) < options.masking.crop_bottom;
        let mut keep = Vec::with_capacity(width as usize * height as usize);
        for y in 0..height {
            let v = (f64::from(y) + 0.5) / f64::from(height);
            for x in 0..width {
                let kept =
                    mask.as_ref().map_or(255, |m| m.at_fraction((f64::from(x) + 0.5) / f64::from(width), v));
                keep.push(if is_cropped(y) { 0 } else { kept });
            }
        }
        let bytes = png(width, height, PngPixels::Grey8(&keep), &[])
            .map_err(|error| Failure::new("write", format!("{}: png: {error}", path.display())))?;
        model::write(&path, &bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panoramas_that_cannot_be_trained_whole_are_refused_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let check = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            check_file(&path).err().map(|failure| failure.message)
        };
        let grey = |width: u32, height: u32| {
            png(width, height, PngPixels::Grey8(&vec![0; (width * height) as usize]), &[]).unwrap()
        };
        // Views are cut from both.
        assert_eq!(check(&grey(3002, 1500)), None);
        let refused = check(&grey(3003, 1500)).unwrap();
        assert!(refused.contains("is 3003x1500 px (expected the whole sphere"), "{refused}");
        // A JPEG of 256x128 px by its header, with the sizes of GPano.
        let jpeg = |full: [u32; 2], part: [u32; 2]| {
            let text = format!(
                "http://ns.adobe.com/xap/1.0/\0<x GPano:FullPanoWidthPixels=\"{}\" GPano:FullPanoHeightPixels=\"{}\" \
                 GPano:CroppedAreaImageWidthPixels=\"{}\" GPano:CroppedAreaImageHeightPixels=\"{}\"/>",
                full[0], full[1], part[0], part[1]
            );
            let mut jpeg = vec![0xFF, 0xD8, 0xFF, 0xE1];
            jpeg.extend((text.len() as u16 + 2).to_be_bytes());
            jpeg.extend(text.bytes());
            jpeg.extend([0xFF, 0xC0, 0, 11, 8, 0, 128, 1, 0, 1, 1, 0x11, 0]);
            jpeg.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0]);
            jpeg
        };
        assert_eq!(check(&jpeg([5760, 2880], [5760, 2880])), None);
        let refused = check(&jpeg([512, 256], [256, 128])).unwrap();
        assert!(refused.contains("is a part of the sphere (expected the whole sphere"), "{refused}");
        assert!(!refused.contains("convert"), "{refused}");
        // Reported when it is cut.
        assert_eq!(check(b"no picture"), None);
    }
}
