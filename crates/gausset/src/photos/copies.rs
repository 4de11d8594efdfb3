//! Copies of photographs, where COLMAP cannot use the originals: WebP, which its packages do not read, and pictures that
//! are stored mirrored (EXIF orientations 2, 4, 5, 7), whose matches with the others would fit no pose.
//!
//! COLMAP reads one folder, so that all photographs are copied as soon as one needs it: these as upright PNG files
//! `NAME.png`, the others byte by byte.

use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_core::RgbImage8;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError, write_atomic};
use gausset_io::image::encode::{PngPixels, png, png_rgb8};
use gausset_io::image::{DecodedImage, ImageFormat, ImageHeader, MAX_FILE_BYTES, decode_file, upright};
use gausset_io::input;
use gausset_io::ownership;
use gausset_io::unfinished_folder::UnfinishedFolder;
use gausset_pano::frames::source_frame_from_files;
use serde_json::{Value, json};

use super::PhotoOptions;
use crate::{CountedItem, Event, Failure, Host, records};

/// Name of the folder in the output folder, and the purpose in its ownership marker.
const COPIES: &str = "images";
/// File name of the record in it.
const COPIES_RECORD: &str = "images.json";

/// Whether COLMAP needs a copy of a photograph.
fn needs_copy(header: &ImageHeader) -> bool {
    header.format == ImageFormat::WebP || matches!(header.orientation, 2 | 4 | 5 | 7)
}

/// Folder and names of the images to align: `output/images`, if a photograph needs a copy, else the photographs.
pub(super) fn usable_images(
    options: &PhotoOptions,
    names: &[String],
    headers: &[ImageHeader],
    host: &mut Host<'_>,
) -> Result<(PathBuf, Vec<String>), Failure> {
    let count = headers.iter().filter(|header| needs_copy(header)).count();
    if count == 0 {
        return Ok((options.photos.clone(), names.to_vec()));
    }
    let copied = names.iter().zip(headers).map(|(name, header)| match needs_copy(header) {
        true => format!("{name}.png"),
        false => name.clone(),
    });
    let copied: Vec<String> = copied.collect();
    let folder = options.output.join(COPIES);
    let record = record(options, names);
    if ownership::is_gausset_owned(&folder, COPIES) {
        let known = records::read_record(&folder.join(COPIES_RECORD)).unwrap_or_default();
        let differences = records::differences(&known, &record);
        if differences.is_empty() {
            return Ok((folder, copied));
        }
        if options.overwrite == Overwrite::Refuse {
            return Err(records::other_options(&folder, &differences));
        }
    } else {
        super::images::refuse_unowned(&folder)?;
    }
    host.warn(
        "photographs",
        format!(
            "{}: {count} of {} photographs are WebP or stored mirrored; aligned as upright PNG copies",
            folder.display(),
            names.len()
        ),
    );
    let draft = UnfinishedFolder::new(&Disk, &options.output, COPIES)?;
    host.report(Event::Begun { item: CountedItem::Frames, done: 0, total: names.len() as u64 });
    for (at, ((name, header), copy)) in names.iter().zip(headers).zip(&copied).enumerate() {
        write_copy(&options.photos.join(name), header, &draft.path().join(copy))?;
        host.report(Event::Done { done: at as u64 + 1, views_per_s: None });
        if host.is_stopping() {
            return Err(Failure::stopped());
        }
    }
    host.report(Event::Ended);
    records::write_record(&draft.path().join(COPIES_RECORD), &record)?;
    draft.publish(&Disk, &folder)?;
    Ok((folder, copied))
}

/// Record of everything that the copies depend on.
fn record(options: &PhotoOptions, names: &[String]) -> Value {
    let files = names.iter().map(|name| {
        let file = source_frame_from_files(name, vec![options.photos.join(name)]);
        json!([name, file.bytes, file.modified])
    });
    json!({ "photographs": files.collect::<Vec<_>>() })
}

/// Writes an upright PNG, or the bytes of the original.
fn write_copy(original: &Path, header: &ImageHeader, copy: &Path) -> Result<(), Failure> {
    let failed = |reason: String| Failure::new("frames", format!("{}: {reason}", original.display()));
    let bytes = if needs_copy(header) {
        let picture = decode_file(original).map_err(|e| Failure::new("frames", e))?;
        encoded(upright(picture, header.orientation)).map_err(|e| failed(e.to_string()))?
    } else {
        input::read(original, MAX_FILE_BYTES).map_err(|e| failed(e.to_string()))?
    };
    if let Some(folder) = copy.parent() {
        let failed = |source| WriteError::Io { path: folder.to_owned(), action: "folder", source };
        Disk.create_folder(folder).map_err(failed)?;
    }
    write_atomic(&Disk, copy, |file| file.write_all(&bytes))?;
    Ok(())
}

fn encoded(picture: DecodedImage) -> Result<Vec<u8>, gausset_io::image::encode::EncodingError> {
    let DecodedImage { width, height, rgb, alpha } = picture;
    match alpha {
        None => png_rgb8(&RgbImage8 { width, height, data: rgb }),
        Some(alpha) => {
            let pixels = rgb.chunks_exact(3).zip(alpha).flat_map(|(p, a)| [p[0], p[1], p[2], a]);
            png(width, height, PngPixels::Rgba8(&pixels.collect::<Vec<u8>>()), &[])
        }
    }
}
