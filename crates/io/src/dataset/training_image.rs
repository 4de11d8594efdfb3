//! Creates one training image: decodes, undistorts and downscales, and applies alpha and masks.

use gausset_core::TargetImage;

use super::warning::SkipReason;
use super::{AlphaMode, Dataset, ImageEntry, Sample, Turn, panorama};
use crate::image::{
    DecodedImage, ImageFormat, ImageHeader, ImageProblem, Mask, area_filter, decode, decode_mask_file, turn,
    upright, warp,
};

/// The training image of `dataset.images[index]`.
///
/// # Errors
/// The file cannot be read, has changed since the dataset was opened, or its mask ignores everything.
pub(super) fn create(dataset: &Dataset, index: usize) -> Result<TargetImage, SkipReason> {
    let image = &dataset.images[index];
    let mut picture = {
        let _span = gausset_prof::span("decode");
        read_unchanged(image).map_err(SkipReason::Unreadable)?
    };
    let mut mask = match &image.mask {
        Some(path) => {
            let read = decode_mask_file(path);
            let mut mask = read.map_err(|e| SkipReason::Mask { path: path.clone(), problem: e.problem })?;
            if dataset.invert_masks {
                mask.values.iter_mut().for_each(|v| *v = if *v == 0 { 255 } else { 0 });
            }
            let orientation = mask_turn(image.turn, [mask.width, mask.height], image.stored_size);
            Some(turn::upright_mask(mask, orientation))
        }
        None => None,
    };
    let drop_alpha = dataset.alpha == AlphaMode::Mask;
    if drop_alpha && let Some(alpha) = &picture.alpha {
        mask = Some(opaque_mask(alpha, &picture, mask.as_ref()));
    }

    let lens = dataset.lens(index);
    // Up to here all is as the source camera sees it; the view is turned at the end.
    let camera = image.turn.back().view_camera(image.camera);
    let (width, height) = (camera.width, camera.height);
    let keep = if lens.is_pinhole() || !camera.is_pinhole() {
        // No undistortion, only scaling; also for whole panoramas.
        picture = area_filter::downscale(picture, width, height);
        mask.as_ref().map(|mask| mask.resampled(width, height))
    } else {
        let mut lens = lens;
        if image.face.is_some() {
            let size = [picture.width, picture.height];
            let strip = panorama::padding_columns(size[0], width);
            picture = panorama::padded(&picture, strip);
            mask = mask.map(|mask| panorama::padded_mask(&mask, size, strip));
            lens = lens.shifted(f64::from(strip));
        }
        let warped = warp::warp(&picture, mask.as_ref(), &lens, &camera);
        picture = warped.picture;
        warped.keep
    };
    let mask = keep.filter(|keep| keep.contains(&0));
    let alpha = picture.alpha.filter(|_| !drop_alpha);
    let target = TargetImage { width, height, rgb: picture.rgb, alpha, mask };
    let ignored = image.camera.pixels() - target.valid_pixels();
    if ignored == image.camera.pixels() {
        return Err(match &image.mask {
            Some(path) => SkipReason::EmptyMask { path: path.clone() },
            None => SkipReason::NoPixels,
        });
    }
    Ok(match image.turn {
        Turn::View(orientation) => turn::upright_target(target, orientation),
        Turn::None | Turn::Pixels(_) => target,
    })
}

/// The orientation that a mask gets: that of the decoded image of this size. A mask may be upright already.
pub(super) fn mask_turn(turn: Turn, mask: [u32; 2], size: [u32; 2]) -> u8 {
    match turn {
        Turn::None => 1,
        Turn::View(orientation) => turn::stored_mask_turn(mask, size, orientation),
        Turn::Pixels(orientation) => {
            let stored = turn::turned_size(size, orientation);
            if turn::stored_mask_turn(mask, stored, orientation) == 1 { orientation } else { 1 }
        }
    }
}

/// An image or mask file, as its header describes it.
#[derive(Clone, Copy)]
pub(super) struct StoredFile<'a> {
    pub(super) header: &'a ImageHeader,
    pub(super) file_bytes: u64,
}

/// Upper bound on the bytes that [`make`] needs in addition to its result, for an image with its mask. A panorama is
/// split into faces of side `face`.
pub(super) fn decode_bytes(
    picture: StoredFile<'_>,
    mask: Option<StoredFile<'_>>,
    face: Option<u32>,
    turn: Turn,
) -> u64 {
    // The decoders of JPEG and WebP copy the whole file into their own memory.
    let files = |stored: StoredFile<'_>| match stored.header.format {
        ImageFormat::Jpeg | ImageFormat::WebP => 2 * stored.file_bytes,
        ImageFormat::Png | ImageFormat::Tiff => stored.file_bytes,
    };
    let pixels = picture.header.pixels();
    let decoding = files(picture) + pixels * picture.header.decoding_bytes_per_pixel();
    // Where alpha is used as a mask, that mask has the size of the image.
    let has_alpha = u64::from(picture.header.may_have_alpha());
    let decoded = pixels * (3 + has_alpha);
    let decoding_mask =
        mask.map_or(0, |mask| files(mask) + mask.header.pixels() * mask.header.mask_bytes_per_pixel());
    let masks = mask.map_or(0, |mask| mask.header.pixels()) + has_alpha * pixels;
    let around = face.map_or(0, |side| {
        let width = picture.header.width;
        let columns = u64::from(width) + 2 * u64::from(panorama::padding_columns(width, side));
        columns * u64::from(picture.header.height) * (3 + has_alpha + u64::from(masks > 0))
    });
    // Turned pixels are a copy.
    let turned = if turn == Turn::None { 0 } else { decoded + masks };
    decoding.max(decoded + decoding_mask).max(decoded + masks + around) + turned
}

/// Decodes an image after checking that its length, sample and size are those found when the dataset was opened.
fn read_unchanged(image: &ImageEntry) -> Result<DecodedImage, ImageProblem> {
    let (bytes, size) = (image.file_bytes, image.stored_size);
    let content = decode::read(&image.path)?;
    if content.len() as u64 != bytes {
        return Err(ImageProblem::Changed {
            expected: format!("{bytes} bytes"),
            found: format!("{} bytes", content.len()),
        });
    }
    let sample = Sample::fingerprint(&content);
    if sample != image.sample {
        return Err(ImageProblem::Changed {
            expected: format!("content {}", image.sample),
            found: sample.to_string(),
        });
    }
    let picture = match image.turn {
        Turn::Pixels(orientation) => upright(decode(&content)?, orientation),
        Turn::None | Turn::View(_) => decode(&content)?,
    };
    if [picture.width, picture.height] != size {
        return Err(ImageProblem::Changed {
            expected: format!("{}x{} px", size[0], size[1]),
            found: format!("{}x{} px", picture.width, picture.height),
        });
    }
    Ok(picture)
}

/// Mask of pixels with alpha above 0 that `mask` keeps.
fn opaque_mask(alpha: &[u8], picture: &DecodedImage, mask: Option<&Mask>) -> Mask {
    let (width, height) = (picture.width, picture.height);
    let mut keep = match mask {
        Some(mask) => mask.resampled(width, height),
        None => vec![255; alpha.len()],
    };
    keep.iter_mut().zip(alpha).filter(|(_, a)| **a == 0).for_each(|(k, _)| *k = 0);
    Mask { width, height, values: keep }
}
