//! Reads a SOG: from a zip, or from the folder of its `meta.json`.
#![deny(clippy::indexing_slicing, reason = "what comes from outside is never an index")]

use std::f64::consts::FRAC_1_SQRT_2;
use std::io::{Cursor, Read};
use std::path::Path;

use gausset_core::sh;
use image_webp::WebPDecoder;
use zip::ZipArchive;

use super::meta::Meta;
use super::{FIRST_LARGEST, META, PALETTE_COLUMNS};
use crate::splat::format::FileStart;
use crate::splat::metadata;
use crate::splat::source::{SeekableRead, SourceFile};
use crate::splat::usable::{SplatCollector, row_values};
use crate::splat::values::{self, EXTREME_LOGIT};
use crate::splat::{Format, Initial, SplatError, SplatFile};
use crate::text::{self, quote};
use crate::{catch_panic, input};

/// Longest `meta.json`, bytes.
const MAX_META_BYTES: u64 = 1 << 20;
/// Largest number of files in a zip.
const MAX_ENTRIES: usize = 64;
/// Longest side of an image, px.
const MAX_SIDE: u32 = 16_383;
/// Pixels of an image in addition to those of its splats: incomplete rows, and sides that are powers of two.
const SPARE_PIXELS: u64 = 1 << 16;
/// Bytes of a WebP in addition to its pixels.
const SPARE_BYTES: u64 = 1 << 20;
/// Bytes per pixel that the decoder needs in addition to the image: its colours, and transforms for tiles of 16 pixels.
const DECODER_BYTES: u64 = 5;

/// Detects a zip, or a `meta.json`.
pub(in crate::splat) fn sniff(start: &FileStart) -> bool {
    let is_meta = start.is_json() && start.contains("\"means\"") && start.contains("\"sh0\"");
    start.bytes.starts_with(b"PK\x03\x04") || is_meta
}

/// Location of the images.
enum ImageSource<'a> {
    /// An archive, and the path of the folder in it with the files, with its separator.
    Zip(Box<ZipArchive<&'a mut dyn SeekableRead>>, String),
    Folder(Option<&'a Path>),
}

/// A decoded image.
struct SogImage {
    width: u32,
    height: u32,
    /// Whether pixels have four bytes instead of three.
    has_alpha: bool,
    pixels: Vec<u8>,
}

impl SogImage {
    fn pixel(&self, index: usize) -> [u8; 4] {
        if self.has_alpha {
            return self.pixels.as_chunks::<4>().0.get(index).copied().unwrap_or_default();
        }
        self.pixels.as_chunks::<3>().0.get(index).map_or([0; 4], |&[r, g, b]| [r, g, b, 255])
    }
}

/// Reads a file.
pub(in crate::splat) fn read(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    let mut magic = [0; 2];
    source.read_exact(&mut magic)?;
    source.stream.rewind().map_err(|error| source.io(error))?;
    // The stream is borrowed by the zip, the other fields by messages.
    let SourceFile { stream, bytes, path, folder, options, memory } = source;
    let mut nothing = std::io::empty();
    let about = SourceFile { stream: &mut nothing, bytes: *bytes, path, folder: *folder, options, memory };
    let mut place = ImageSource::Folder(*folder);
    let json = if magic == *b"PK" {
        let archive = ZipArchive::new(&mut **stream as &mut dyn SeekableRead);
        let archive = archive.map_err(|error| {
            about.damaged_error("zip", "cannot be opened", "a whole zip archive", quote(&error.to_string()))
        })?;
        if archive.len() > MAX_ENTRIES {
            let expected = format!("at most {MAX_ENTRIES}");
            return Err(about.damaged_error("zip", "too many files", expected, archive.len().to_string()));
        }
        let folder = folder_in_zip(&archive, &about)?;
        place = ImageSource::Zip(Box::new(archive), folder);
        place.file(META, MAX_META_BYTES, &about)?
    } else {
        if *bytes > MAX_META_BYTES {
            return Err(about.damaged_error(META, "too long", "at most 1 MiB", format!("{bytes} bytes")));
        }
        let mut json = memory.vec_with_capacity(*bytes)?;
        stream.take(MAX_META_BYTES).read_to_end(&mut json).map_err(|error| about.io(error))?;
        json
    };
    memory.reserve_json(&json)?;
    let mut parser = serde_json::Deserializer::from_slice(&json);
    let meta: Meta = serde_path_to_error::deserialize(&mut parser).map_err(|error| {
        let name = format!("{META} {}", quote(&error.path().to_string()));
        about.damaged_error(
            name,
            "not the description of a SOG",
            "version 1 or 2",
            quote(&error.inner().to_string()),
        )
    })?;
    if let Some(version) = meta.version.filter(|version| *version != 2) {
        return Err(about.damaged_error(
            META,
            "unknown version of SOG",
            "2, or none for 1",
            version.to_string(),
        ));
    }
    let Some(count) = meta.count() else {
        return Err(about.damaged_error(META, "the number of splats is missing", "count", "none"));
    };
    let degree = meta.sh_rest.as_ref().map_or(Ok(0), |rest| {
        let known = rest.bands.filter(|bands| (1..=sh::MAX_DEGREE).contains(bands));
        match (rest.bands, known) {
            (Some(bands), None) => {
                Err(about.damaged_error(META, "unknown SH degree", "shN.bands 1..3", bands.to_string()))
            }
            // Version 1 encodes the degree by the width of its image.
            (_, known) => Ok(known.unwrap_or(sh::MAX_DEGREE)),
        }
    })?;
    let mut splats = SplatCollector::new(degree, count, memory)?;
    let attributes = Attributes::read(&meta, count, &mut place, &about)?;
    let rest = match &meta.sh_rest {
        Some(rest) => Some(HigherSh::read(rest, count, attributes.size, &mut place, &about)?),
        None => None,
    };
    let degree = rest.as_ref().map_or(0, |rest| rest.degree);
    splats.cut_degree(degree);
    let mut row = vec![0.0; row_values(degree)];
    for i in 0..count as usize {
        attributes.splat(i, &mut row);
        if let Some(rest) = &rest {
            rest.splat(i, row.get_mut(row_values(0)..).unwrap_or_default());
        }
        splats.push(&mut row);
    }
    let document = SplatFile {
        antialiased: meta.is_antialiased(),
        flat: meta.is_flat(),
        version: Some(meta.version.unwrap_or(1).to_string()),
        ..splats.into_document(Format::Sog)
    };
    Ok(Initial::Splats(metadata::apply_metadata(document, metadata::json_lines(&meta.asset))))
}

/// The folder of the files in a zip: that of the `meta.json` nearest to the top, which must be one. Archivers of some
/// systems pack the folder itself, and macOS adds a second tree, `__MACOSX`.
fn folder_in_zip(
    archive: &ZipArchive<&mut dyn SeekableRead>,
    about: &SourceFile<'_>,
) -> Result<String, SplatError> {
    let names = || archive.file_names().filter_map(|name| name.ok());
    let folders = names().filter_map(|name| {
        let folder = name.strip_suffix(META)?;
        let is_whole_name = folder.is_empty() || folder.ends_with(['/', '\\']);
        (is_whole_name && !folder.starts_with("__MACOSX")).then(|| folder.to_owned())
    });
    let depth = |folder: &String| folder.matches(['/', '\\']).count();
    let mut folders: Vec<String> = folders.collect();
    folders.sort_by(|a, b| depth(a).cmp(&depth(b)).then(a.cmp(b)));
    match folders.as_slice() {
        [] => {
            let found = names().next().map_or("no files".to_owned(), |name| quote(&name));
            let what = "not a SOG; a file of another format must be unpacked first";
            Err(about.damaged_error("zip", what, META, found))
        }
        [first, second, ..] if depth(first) == depth(second) => {
            let found = [first, second].map(|folder| quote(&format!("{folder}{META}"))).join(" and ");
            Err(about.damaged_error("zip", "several SOGs; unpack it and name one", "one", found))
        }
        [first, ..] => Ok(first.clone()),
    }
}

impl ImageSource<'_> {
    /// Content of a file that `meta.json` names.
    fn file(&mut self, name: &str, limit: u64, about: &SourceFile<'_>) -> Result<Vec<u8>, SplatError> {
        let place = || format!("file {}", quote(name));
        if name.is_empty() || name == ".." || name.contains(['/', '\\', ':']) {
            return Err(about.damaged_error(
                place(),
                "a name that leads out",
                "a plain file name",
                quote(name),
            ));
        }
        let too_long = || {
            about.damaged_error(place(), "too long for its splats", format!("at most {limit} bytes"), "more")
        };
        match self {
            ImageSource::Zip(archive, folder) => {
                let broken = |error: &dyn std::fmt::Display| {
                    let found = quote(&error.to_string());
                    about.damaged_error(place(), "cannot be read from the zip", "a file in it", found)
                };
                let entry = archive.by_name(&format!("{folder}{name}")).map_err(|error| broken(&error))?;
                let size = entry.size();
                if size > limit {
                    return Err(too_long());
                }
                let mut content = about.memory.vec_with_capacity(size)?;
                // Read to the end, where the checksum is verified.
                let read = entry.take(size + 1).read_to_end(&mut content);
                read.map_err(|error| broken(&error))?;
                if content.len() as u64 > size { Err(too_long()) } else { Ok(content) }
            }
            ImageSource::Folder(folder) => {
                let Some(folder) = folder else {
                    return Err(about.damaged_error(place(), "not there", "a file next to this one", "none"));
                };
                let path = folder.join(name);
                let io_error = |source| SplatError::Io { path: path.clone(), action: "read", source };
                let file = input::open(&path, limit).map_err(io_error)?;
                let mut content = about.memory.vec_with_capacity(file.metadata().map_err(io_error)?.len())?;
                file.take(content.capacity() as u64).read_to_end(&mut content).map_err(io_error)?;
                Ok(content)
            }
        }
    }

    /// Reads an image of at most `most` pixels.
    fn picture(&mut self, name: &str, most: u64, about: &SourceFile<'_>) -> Result<SogImage, SplatError> {
        let bytes = self.file(name, 4 * most + SPARE_BYTES, about)?;
        if text::is_lfs_pointer(&bytes) {
            let path = about.folder.map_or_else(|| about.path.to_owned(), |folder| folder.join(name));
            return Err(SplatError::LfsPointer { path });
        }
        let place = format!("file {}", quote(name));
        let broken =
            |found: String| about.damaged_error(&*place, "not an image of a SOG", "a lossless WebP", found);
        let mut decoder = match catch_panic::catch(|| WebPDecoder::new(Cursor::new(&bytes))) {
            Ok(Ok(decoder)) => decoder,
            Ok(Err(error)) => return Err(broken(quote(&error.to_string()))),
            Err(panic) => return Err(broken(quote(&panic.0))),
        };
        let (width, height) = decoder.dimensions();
        if decoder.is_animated() || decoder.is_lossy() {
            return Err(broken("an animation, or a lossy image".to_owned()));
        }
        if width > MAX_SIDE || height > MAX_SIDE || u64::from(width) * u64::from(height) > most {
            let expected = format!("at most {most} pixels");
            return Err(about.damaged_error(
                place,
                "too large for its splats",
                expected,
                format!("{width}x{height}"),
            ));
        }
        let (area, length) =
            (u64::from(width) * u64::from(height), decoder.output_buffer_size().unwrap_or(0));
        let mut pixels = about.memory.vec_with_capacity(length as u64)?;
        about.memory.reserve(area * DECODER_BYTES)?;
        pixels.resize(length, 0);
        match catch_panic::catch(|| decoder.read_image(&mut pixels)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(broken(quote(&error.to_string()))),
            Err(panic) => return Err(broken(quote(&panic.0))),
        }
        about.memory.release(area * DECODER_BYTES + bytes.len() as u64);
        Ok(SogImage { width, height, has_alpha: decoder.has_alpha(), pixels })
    }
}

/// The name at an index of a list of files.
fn file_name<'a>(
    files: &'a [String],
    index: usize,
    of: &str,
    about: &SourceFile<'_>,
) -> Result<&'a str, SplatError> {
    files.get(index).map(String::as_str).ok_or_else(|| {
        about.damaged_error(META, "a file name is missing", format!("{of}.files[{index}]"), "none")
    })
}

/// All parameters except SH above degree 0.
struct Attributes {
    size: [u32; 2],
    low: SogImage,
    high: SogImage,
    scales: SogImage,
    quats: SogImage,
    sh0: SogImage,
    mins: [f64; 3],
    maxs: [f64; 3],
    scale_tables: [[f32; 256]; 3],
    colour_tables: [[f32; 256]; 3],
    logits: [f32; 256],
}

impl Attributes {
    fn read(
        meta: &Meta,
        count: u64,
        place: &mut ImageSource<'_>,
        about: &SourceFile<'_>,
    ) -> Result<Self, SplatError> {
        let most = count.saturating_mul(4).saturating_add(SPARE_PIXELS);
        let mut size = None;
        let mut picture = |files: &[String], index: usize, of: &str| -> Result<SogImage, SplatError> {
            let name = file_name(files, index, of, about)?;
            let picture = place.picture(name, most, about)?;
            check_size(&picture, &mut size, count, name, about)?;
            Ok(picture)
        };
        let numbers = |of: &str| {
            about.damaged_error(META, "invalid numbers", format!("{of} with 256 finite numbers"), "others")
        };
        let Meta { means, scales, quats, sh0, .. } = meta;
        if means.mins.iter().chain(&means.maxs).any(|v| !v.is_finite() || v.abs() > 80.0) {
            return Err(numbers("means.mins and maxs within 80, not a codebook"));
        }
        let scale_tables = scales.tables().ok_or_else(|| numbers("scales.codebook"))?;
        let colour_tables = sh0.tables().ok_or_else(|| numbers("sh0.codebook"))?;
        let low = picture(&means.files, 0, "means")?;
        let high = picture(&means.files, 1, "means")?;
        let scales = picture(&scales.files, 0, "scales")?;
        let quats = picture(&quats.files, 0, "quats")?;
        let logits = sh0.logits().unwrap_or_else(|| values::byte_logits(EXTREME_LOGIT));
        let sh0 = picture(&sh0.files, 0, "sh0")?;
        let (mins, maxs) = (means.mins, means.maxs);
        let size = size.unwrap_or_default();
        Ok(Self { size, low, high, scales, quats, sh0, mins, maxs, scale_tables, colour_tables, logits })
    }

    /// Decodes a splat into the start of a row.
    fn splat(&self, i: usize, row: &mut [f32]) {
        let (low, high) = (self.low.pixel(i), self.high.pixel(i));
        let mut axes = low.into_iter().zip(high).zip(self.mins.into_iter().zip(self.maxs));
        let mean = [(); 3].map(|()| {
            let ((low, high), (min, max)) = axes.next().unwrap_or_default();
            let range = if max - min == 0.0 { 1.0 } else { max - min };
            let log = min + range * f64::from(u16::from_le_bytes([low, high])) / 65_535.0;
            (libm::expm1(log.abs()).copysign(log)) as f32
        });
        let looked_up = |tables: &[[f32; 256]; 3], [r, g, b, _]: [u8; 4]| {
            let mut values = tables.iter().zip([r, g, b]).map(|(table, byte)| table.get(usize::from(byte)));
            [(); 3].map(|()| values.next().flatten().copied().unwrap_or_default())
        };
        let sh0 = self.sh0.pixel(i);
        let logit = self.logits.get(usize::from(sh0[3])).copied().unwrap_or_default();
        let geometry = mean
            .into_iter()
            .chain(looked_up(&self.scale_tables, self.scales.pixel(i)))
            .chain(rotation(self.quats.pixel(i)))
            .chain([logit])
            .chain(looked_up(&self.colour_tables, sh0));
        row.iter_mut().zip(geometry).for_each(|(out, v)| *out = v);
    }
}

/// Decodes the quaternion of a pixel.
fn rotation([a, b, c, largest]: [u8; 4]) -> [f32; 4] {
    let Some(largest) = largest.checked_sub(FIRST_LARGEST) else { return [1.0, 0.0, 0.0, 0.0] };
    let part = |byte: u8| (f64::from(byte) / 255.0 * 2.0 - 1.0) * FRAC_1_SQRT_2;
    values::from_smallest_three(usize::from(largest), [a, b, c].map(part))
}

/// Checks that all images have the size of the first and enough pixels for all splats.
fn check_size(
    picture: &SogImage,
    size: &mut Option<[u32; 2]>,
    count: u64,
    name: &str,
    about: &SourceFile<'_>,
) -> Result<(), SplatError> {
    let found = [picture.width, picture.height];
    let expected = *size.get_or_insert(found);
    let place = || format!("file {}", quote(name));
    let text = |[width, height]: [u32; 2]| format!("{width}x{height}");
    if found != expected {
        return Err(about.damaged_error(
            place(),
            "not the size of the first image",
            text(expected),
            text(found),
        ));
    }
    if u64::from(picture.width) * u64::from(picture.height) < count {
        let expected = format!("{count} pixels");
        return Err(about.damaged_error(place(), "too small for its splats", expected, text(found)));
    }
    Ok(())
}

/// SH above degree 0.
struct HigherSh {
    degree: u8,
    labels: SogImage,
    centroids: SogImage,
    table: [f32; 256],
    entries: usize,
}

impl HigherSh {
    fn read(
        rest: &super::meta::Palette,
        count: u64,
        size: [u32; 2],
        place: &mut ImageSource<'_>,
        about: &SourceFile<'_>,
    ) -> Result<Self, SplatError> {
        let Some(table) = rest.table() else {
            return Err(about.damaged_error(
                META,
                "invalid numbers",
                "shN.codebook with 256 finite numbers",
                "others",
            ));
        };
        let widest = u64::from(PALETTE_COLUMNS) * (sh::coefficients(sh::MAX_DEGREE) as u64 - 1);
        let entries = rest.count.unwrap_or(1 << 16).min(1 << 16);
        let most = widest * entries.div_ceil(u64::from(PALETTE_COLUMNS)).max(1);
        let centroids = place.picture(file_name(&rest.files, 0, "shN", about)?, most, about)?;
        let width = |degree: u8| PALETTE_COLUMNS * (sh::coefficients(degree) as u32 - 1);
        let degree = (1..=sh::MAX_DEGREE).find(|&degree| width(degree) == centroids.width);
        let Some(degree) = degree.filter(|degree| rest.bands.is_none_or(|bands| bands == *degree)) else {
            let found = centroids.width.to_string();
            return Err(about.damaged_error(
                "shN",
                "the palette is not as wide as its degree",
                "192, 512 or 960 pixels",
                found,
            ));
        };
        let labels_name = file_name(&rest.files, 1, "shN", about)?;
        let labels =
            place.picture(labels_name, count.saturating_mul(4).saturating_add(SPARE_PIXELS), about)?;
        check_size(&labels, &mut Some(size), count, labels_name, about)?;
        let entries = (PALETTE_COLUMNS * centroids.height) as usize;
        Ok(Self { degree, labels, centroids, table, entries })
    }

    /// Decodes the coefficients of a splat.
    fn splat(&self, i: usize, row: &mut [f32]) {
        let [low, high, ..] = self.labels.pixel(i);
        // A label beyond the palette means its last entry.
        let entry = usize::from(u16::from_le_bytes([low, high])).min(self.entries.saturating_sub(1));
        let coefficients = sh::coefficients(self.degree) - 1;
        let columns = PALETTE_COLUMNS as usize;
        let first = entry / columns * self.centroids.width as usize + entry % columns * coefficients;
        for (k, out) in row.chunks_exact_mut(3).enumerate() {
            let [r, g, b, _] = self.centroids.pixel(first + k);
            out.iter_mut().zip([r, g, b]).for_each(|(out, byte)| {
                *out = self.table.get(usize::from(byte)).copied().unwrap_or_default();
            });
        }
    }
}
