//! Copies of photographs, where COLMAP cannot use the originals: HEIC and WebP, which its packages do not read, and
//! pictures that are stored mirrored (EXIF orientations 2, 4, 5, 7), whose matches with the others would fit no pose.
//!
//! COLMAP reads one folder, so that all photographs are copied as soon as one needs it: HEIC as upright JPEG files
//! `NAME.jpg`, WebP and mirrored ones as upright PNG files `NAME.png`, the others byte by byte.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use gausset_core::RgbImage8;
use gausset_io::atomic::{Disk, FileSystem, Overwrite, WriteError, write_atomic};
use gausset_io::image::encode::{PngPixels, png, png_rgb8};
use gausset_io::image::exif::Exif;
use gausset_io::image::{
    DecodedImage, HeifHeader, ImageFormat, ImageHeader, MAX_FILE_BYTES, decode_file, upright,
};
use gausset_io::input;
use gausset_io::ownership;
use gausset_io::unfinished_folder::UnfinishedFolder;
use gausset_pano::frames::source_frame_from_files;
use serde_json::{Value, json};

use super::alignment::LeftOut;
use super::heif::HeifPhotographs;
use super::list::{Lens, unreadable_line};
use super::{PhotoOptions, PhotographList};
use crate::{CountedItem, Event, Failure, Host, records};

/// Name of the folder in the output folder, and the purpose in its ownership marker.
const COPIES: &str = "images";
/// File name of the record in it.
const COPIES_RECORD: &str = "images.json";

/// Name of the folder for files of other programs in it.
const WORK: &str = "decoding";

/// The photographs of a folder.
pub(super) struct Photographs {
    pub(super) list: PhotographList,
    /// In the order of [`PhotographList::names`].
    pub(super) headers: Vec<ImageHeader>,
    pub(super) heif: HeifPhotographs,
}

/// How a photograph is copied.
#[derive(Clone, Copy)]
enum CopyKind<'a> {
    AsIs,
    UprightPng(&'a ImageHeader),
    Jpeg(&'a HeifHeader),
}

impl Photographs {
    /// Names and lenses.
    pub(super) fn lenses(&self) -> impl Iterator<Item = (&str, Lens)> {
        let plain = self.headers.iter().map(|header| ([header.width, header.height], header.focal_35mm));
        let focal = |header: &HeifHeader| Exif::read(header.exif.as_deref()?).focal_35mm;
        let heif = self.heif.headers.iter().map(move |header| (header.upright_size(), focal(header)));
        self.list.names.iter().chain(&self.list.heif).map(String::as_str).zip(plain.chain(heif))
    }

    /// Names in byte order.
    fn copies(&self) -> Vec<(&str, CopyKind<'_>)> {
        let plain = self.list.names.iter().zip(&self.headers).map(|(name, header)| {
            let is_mirrored = matches!(header.orientation, 2 | 4 | 5 | 7);
            let needs_copy = header.format == ImageFormat::WebP || is_mirrored;
            (name.as_str(), if needs_copy { CopyKind::UprightPng(header) } else { CopyKind::AsIs })
        });
        let heif = self.list.heif.iter().zip(&self.heif.headers);
        let heif = heif.map(|(name, header)| (name.as_str(), CopyKind::Jpeg(header)));
        let mut all: Vec<_> = plain.chain(heif).collect();
        all.sort_by_key(|(name, _)| *name);
        all
    }

    /// Originals of the copies without metadata (PNG), by the names of the copies.
    pub(super) fn originals(&self, folder: &Path) -> BTreeMap<String, PathBuf> {
        let copies = self.copies().into_iter();
        let without = copies.filter(|(_, copy)| matches!(copy, CopyKind::UprightPng(_)));
        without.map(|copy| (copy_name(&copy), folder.join(copy.0))).collect()
    }
}

/// Name of the copy of a photograph.
fn copy_name((name, copy): &(&str, CopyKind<'_>)) -> String {
    match copy {
        CopyKind::AsIs => (*name).to_owned(),
        CopyKind::UprightPng(_) => format!("{name}.png"),
        CopyKind::Jpeg(_) => format!("{name}.jpg"),
    }
}

/// Folder and names of the images to align: `output/images`, if a photograph needs a copy, else the photographs. Also the
/// photographs that could not be decoded.
pub(super) fn usable_images(
    options: &PhotoOptions,
    photographs: &Photographs,
    host: &mut Host<'_>,
) -> Result<(PathBuf, Vec<String>, Vec<LeftOut>), Failure> {
    let copies = photographs.copies();
    let count =
        |is_counted: fn(&CopyKind<'_>) -> bool| copies.iter().filter(|(_, copy)| is_counted(copy)).count();
    let jpegs = count(|copy| matches!(copy, CopyKind::Jpeg(_)));
    let pngs = count(|copy| matches!(copy, CopyKind::UprightPng(_)));
    if jpegs + pngs == 0 {
        return Ok((options.photos.clone(), photographs.list.names.clone(), Vec::new()));
    }
    let folder = options.output.join(COPIES);
    let record = record(options, &copies);
    if ownership::is_gausset_owned(&folder, COPIES) {
        let known = records::read_record(&folder.join(COPIES_RECORD)).unwrap_or_default();
        let differences = records::differences(&known, &record);
        if differences.is_empty() {
            // Those without a copy could not be decoded, which another decoder may.
            return make_copies(options, photographs, &copies, &folder, host)
                .map(|(usable, failed)| (folder, usable, failed));
        }
        if options.overwrite == Overwrite::Refuse {
            return Err(records::other_options(&folder, &differences));
        }
    } else {
        super::images::refuse_unowned(&folder)?;
    }
    let kinds = [
        (jpegs, "HEIC; aligned as upright JPEG copies"),
        (pngs, "WebP or stored mirrored; aligned as upright PNG copies"),
    ];
    for (count, kind) in kinds.into_iter().filter(|(count, _)| *count > 0) {
        let (folder, all) = (folder.display(), copies.len());
        host.warn("photographs", format!("{folder}: {count} of {all} photographs are {kind}"));
    }
    let draft = UnfinishedFolder::new(&Disk, &options.output, COPIES)?;
    let (usable, failed) = make_copies(options, photographs, &copies, draft.path(), host)?;
    records::write_record(&draft.path().join(COPIES_RECORD), &record)?;
    draft.publish(&Disk, &folder)?;
    Ok((folder, usable, failed))
}

/// Makes the copies that are not in `folder`. Returns the names of all copies, and the photographs that could not be
/// decoded, with a warning of them.
fn make_copies(
    options: &PhotoOptions,
    photographs: &Photographs,
    copies: &[(&str, CopyKind<'_>)],
    folder: &Path,
    host: &mut Host<'_>,
) -> Result<(Vec<String>, Vec<LeftOut>), Failure> {
    let is_missing = |copy: &&(&str, CopyKind<'_>)| !folder.join(copy_name(copy)).is_file();
    let missing: Vec<_> = copies.iter().filter(is_missing).collect();
    let mut failed = Vec::new();
    if !missing.is_empty() {
        // Not in the folder of the copies, in which others look for images.
        let work = UnfinishedFolder::new(&Disk, &options.output, WORK)?;
        host.report(Event::Begun { item: CountedItem::Frames, done: 0, total: missing.len() as u64 });
        for (at, copy) in missing.into_iter().enumerate() {
            let (name, original) = (copy.0, options.photos.join(copy.0));
            let decode =
                |header| photographs.heif.decoder.to_jpeg(&original, header, work.path(), host.stop());
            let bytes = match &copy.1 {
                CopyKind::AsIs => {
                    Ok(input::read(&original, MAX_FILE_BYTES).map_err(|e| unusable(&original, &e))?)
                }
                CopyKind::UprightPng(header) => Ok(upright_png(&original, header)?),
                CopyKind::Jpeg(header) => decode(header),
            };
            host.report(Event::Done { done: at as u64 + 1, views_per_s: None });
            if host.is_stopping() {
                return Err(Failure::stopped());
            }
            match bytes {
                Ok(bytes) => write_copy(&bytes, &folder.join(copy_name(copy)))?,
                Err(reason) => failed.push(LeftOut { name: name.to_owned(), reason: reason.to_string() }),
            }
        }
        host.report(Event::Ended);
    }
    if let Some(line) = unreadable_line(&failed) {
        host.warn("photographs", format!("{}: {line}", options.photos.display()));
    }
    let has_failed = |name: &str| failed.iter().any(|left_out| left_out.name == name);
    let usable = copies.iter().filter(|copy| !has_failed(copy.0)).map(copy_name).collect();
    Ok((usable, failed))
}

/// Record of everything that the copies depend on.
fn record(options: &PhotoOptions, copies: &[(&str, CopyKind<'_>)]) -> Value {
    let files = copies.iter().map(|(name, _)| {
        let file = source_frame_from_files(name, vec![options.photos.join(name)]);
        json!([name, file.bytes, file.modified])
    });
    json!({ "photographs": files.collect::<Vec<_>>() })
}

fn unusable(original: &Path, reason: &dyn std::fmt::Display) -> Failure {
    Failure::new("frames", format!("{}: {reason}", original.display()))
}

fn upright_png(original: &Path, header: &ImageHeader) -> Result<Vec<u8>, Failure> {
    let picture = decode_file(original).map_err(|e| Failure::new("frames", e))?;
    encoded(upright(picture, header.orientation)).map_err(|e| unusable(original, &e))
}

fn write_copy(bytes: &[u8], copy: &Path) -> Result<(), Failure> {
    if let Some(folder) = copy.parent() {
        let failed = |source| WriteError::Io { path: folder.to_owned(), action: "folder", source };
        Disk.create_folder(folder).map_err(failed)?;
    }
    write_atomic(&Disk, copy, |file| file.write_all(bytes))?;
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
