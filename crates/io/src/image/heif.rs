//! Reads size, orientation and EXIF of a HEIF file (ISO/IEC 23008-12; HEIC, AVIF). Its pixels need another program.
//!
//! A file is a list of boxes (ISO/IEC 14496-12): size, name, content. The box `meta` describes numbered items:
//!
//! | box | content |
//! |---|---|
//! | `pitm` | number of the primary image |
//! | `iinf` | type of each item, such as `Exif` |
//! | `iref` | `cdsc`: the image that an item describes |
//! | `iloc` | where an item lies: in the file, or in the box `idat` |
//! | `iprp` | `ipco`, a list of properties, and `ipma`, those of each item in the order in which they apply |
//!
//! Properties: `ispe` (size), `clap` (crop), `irot` (quarter turns anticlockwise), `imir` (0: top and bottom exchanged,
//! 1: left and right). They alone turn the image: as in libheif, the orientation in EXIF is ignored.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::header::io;
use super::{ImageError, ImageProblem, MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE, turned_size};
use crate::input;

/// Largest `meta` box that is read, bytes. Those of phones have 3 to 10 KB.
const MAX_META_BYTES: u64 = 4 << 20;
/// Largest number of boxes that are searched.
const MAX_BOXES: usize = 4096;
/// Longest EXIF that is kept, bytes: what a JPEG segment can hold.
const MAX_EXIF_BYTES: usize = 65_527;

/// What a HEIF file says about its primary image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeifHeader {
    /// Width and height of the stored pixels.
    pub size: [u32; 2],
    /// Width and height of the part that is shown, before it is turned.
    pub cropped_size: [u32; 2],
    /// The turn from stored to upright pixels, as an EXIF orientation, 1..8.
    pub orientation: u8,
    /// EXIF of the image, a TIFF structure. Its orientation does not apply.
    pub exif: Option<Vec<u8>>,
    /// Offsets in the file of the values of `irot` and `imir`.
    turns: Vec<u64>,
}

impl HeifHeader {
    /// Width and height of the upright image.
    #[must_use]
    pub fn upright_size(&self) -> [u32; 2] {
        turned_size(self.cropped_size, self.orientation)
    }

    /// Changes the content of the file, so that decoders do not turn the image.
    pub fn remove_turn(&self, file: &mut [u8]) {
        for turn in &self.turns {
            // The name of the box precedes its value.
            let start = usize::try_from(*turn).ok().and_then(|at| at.checked_sub(4));
            let Some(turn) = start.and_then(|at| file.get_mut(at..)?.first_chunk_mut::<5>()) else {
                continue;
            };
            if turn.starts_with(b"irot") {
                *turn = *b"irot\0";
            } else if turn.starts_with(b"imir") {
                // No mirror is none.
                *turn = *b"free\0";
            }
        }
    }
}

/// Reads the header of a HEIF file.
///
/// # Errors
/// The file cannot be read, is damaged, or has no primary image with a size within the limits.
pub fn read_heif_header(path: &Path) -> Result<HeifHeader, ImageError> {
    let error = |problem| ImageError::new(path, problem);
    let file = input::open(path, MAX_FILE_BYTES).map_err(|e| error(io(&e)))?;
    parse_heif_header(file).map_err(error)
}

/// Reads the header of a HEIF file.
///
/// # Errors
/// As [`read_heif_header`].
pub fn parse_heif_header(mut source: impl Read + Seek) -> Result<HeifHeader, ImageProblem> {
    let (meta_at, meta) = find_meta(&mut source)?;
    let damaged = |what: &str| ImageProblem::Header(format!("HEIF: {what}"));
    // Version and flags.
    let meta = Boxes { at: 4, bytes: meta.get(4..).unwrap_or_default() };
    let primary = meta
        .find(b"pitm")
        .and_then(|content| primary_item(content.bytes))
        .ok_or_else(|| damaged("no primary image"))?;
    let properties = meta.find(b"iprp").map(|content| properties(content, primary)).unwrap_or_default();
    let (mut size, mut crop, mut turn, mut turns) = (None, None, Turn::NONE, Vec::new());
    for (name, Boxes { at, bytes }) in properties {
        if matches!(&name, b"irot" | b"imir") {
            turns.push(meta_at + at as u64);
        }
        let mut content = Content(bytes);
        match &name {
            // Version and flags.
            b"ispe" => size = content.skip(4).and_then(|()| Some([content.number(4)?, content.number(4)?])),
            b"clap" => crop = Some(content.ratio().and_then(|width| Some([width, content.ratio()?]))),
            b"irot" => turn = turn.then_quarters(content.number(1).unwrap_or(0) & 3),
            b"imir" => turn = turn.then_mirrored(content.number(1).unwrap_or(0) & 1 == 1),
            _ => {}
        }
    }
    let Some([Ok(width), Ok(height)]) = size.map(|size| size.map(u32::try_from)) else {
        return Err(damaged("the primary image has no size"));
    };
    let is_too_large = width.max(height) > MAX_SIDE || u64::from(width) * u64::from(height) > MAX_PIXELS;
    if is_too_large {
        return Err(ImageProblem::Size { width, height });
    }
    let cropped_size = match crop {
        None => [width, height],
        Some(Some([w, h])) if w <= width && h <= height => [w, h],
        Some(_) => return Err(damaged("the crop of the primary image is none")),
    };
    if cropped_size.contains(&0) {
        return Err(damaged(&format!("size is {width}x{height} px")));
    }
    let exif = read_exif(&mut source, meta, primary);
    Ok(HeifHeader { size: [width, height], cropped_size, orientation: turn.orientation(), exif, turns })
}

/// Offset and content of the first `meta` box.
fn find_meta(source: &mut (impl Read + Seek)) -> Result<(u64, Vec<u8>), ImageProblem> {
    let damaged = |what: &str| ImageProblem::Header(format!("HEIF: {what}"));
    let mut at = 0_u64;
    for index in 0..MAX_BOXES {
        let mut head = [0; 16];
        let bytes = read_up_to(source, at, &mut head)?;
        let Some((name, length, start)) = box_head(head.get(..bytes).unwrap_or_default()) else { break };
        if index == 0 && &name != b"ftyp" {
            return Err(damaged("does not begin with a box `ftyp`"));
        }
        if &name == b"meta" {
            let content = length.map_or(MAX_META_BYTES, |length| length - start);
            if content > MAX_META_BYTES {
                return Err(damaged("the box `meta` is too large"));
            }
            let mut meta = Vec::new();
            source.by_ref().seek(SeekFrom::Start(at + start)).map_err(|e| io(&e))?;
            source.by_ref().take(content).read_to_end(&mut meta).map_err(|e| io(&e))?;
            let is_whole = length.is_none() || meta.len() as u64 == content;
            return if is_whole { Ok((at + start, meta)) } else { Err(ImageProblem::Truncated) };
        }
        let Some(next) = length.and_then(|length| at.checked_add(length)) else { break };
        at = next;
    }
    Err(if at == 0 { ImageProblem::Truncated } else { damaged("no box `meta`") })
}

/// Reads bytes at an offset until the buffer is full or the file ends, and returns their number.
fn read_up_to(source: &mut (impl Read + Seek), at: u64, buffer: &mut [u8]) -> Result<usize, ImageProblem> {
    source.seek(SeekFrom::Start(at)).map_err(|e| io(&e))?;
    let mut bytes = Vec::new();
    source.take(buffer.len() as u64).read_to_end(&mut bytes).map_err(|e| io(&e))?;
    buffer.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
    Ok(bytes.len())
}

/// Name and length of a box, and the length of its head; the length is `None` if the box lasts to the end of the file.
fn box_head(bytes: &[u8]) -> Option<([u8; 4], Option<u64>, u64)> {
    let mut content = Content(bytes);
    let length = content.number(4)?;
    let name = content.take()?;
    let (length, start) = match length {
        0 => (None, 8),
        1 => (Some(content.number(8)?), 16),
        length => (Some(length), 8),
    };
    length.is_none_or(|length| length >= start).then_some((name, length, start))
}

/// Boxes one after the other, or the content of a box.
#[derive(Clone, Copy)]
struct Boxes<'a> {
    /// Offset in the box `meta`.
    at: usize,
    bytes: &'a [u8],
}

impl Iterator for Boxes<'_> {
    type Item = ([u8; 4], Self);

    /// The next box; one that lasts beyond the end is the last.
    fn next(&mut self) -> Option<Self::Item> {
        let (name, length, start) = box_head(self.bytes)?;
        let length = length.map_or(self.bytes.len(), |length| usize::try_from(length).unwrap_or(usize::MAX));
        let (own, rest) = self.bytes.split_at_checked(length).unwrap_or((self.bytes, &[]));
        let content = Self { at: self.at + start as usize, bytes: own.get(start as usize..)? };
        *self = Self { at: self.at + own.len(), bytes: rest };
        Some((name, content))
    }
}

impl Boxes<'_> {
    /// Content of the first box of this name.
    fn find(self, wanted: &[u8; 4]) -> Option<Self> {
        self.take(MAX_BOXES).find(|(name, _)| name == wanted).map(|(_, content)| content)
    }
}

/// Big-endian numbers one after the other.
struct Content<'a>(&'a [u8]);

impl Content<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    /// A number of 0 to 8 bytes.
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let (first, rest) = self.0.split_at_checked(bytes.min(8))?;
        self.0 = rest;
        Some(first.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Numerator and denominator, 32 bits each, as a whole number of pixels.
    fn ratio(&mut self) -> Option<u32> {
        let (over, under) = (self.number(4)?, self.number(4)?);
        u32::try_from(over.checked_div(under)?).ok()
    }

    /// Version and flags of a box that has them.
    fn version(&mut self) -> Option<(u64, u64)> {
        Some((self.number(1)?, self.number(3)?))
    }
}

fn primary_item(content: &[u8]) -> Option<u64> {
    let mut content = Content(content);
    let (version, _) = content.version()?;
    content.number(if version == 0 { 2 } else { 4 })
}

/// Properties of an item, in the order in which they apply.
fn properties(parts: Boxes<'_>, item: u64) -> Vec<([u8; 4], Boxes<'_>)> {
    let all: Vec<_> = parts.find(b"ipco").map(|list| list.take(MAX_BOXES).collect()).unwrap_or_default();
    let of_item = parts.take(MAX_BOXES).filter(|(name, _)| name == b"ipma");
    let indices = of_item.filter_map(|(_, content)| associations(content.bytes, item)).next();
    // Counted from 1; 0 is none.
    let of_index = |index: usize| all.get(index.checked_sub(1)?).copied();
    indices.unwrap_or_default().into_iter().filter_map(of_index).collect()
}

/// Indices of the properties of an item in a box `ipma`.
fn associations(content: &[u8], item: u64) -> Option<Vec<usize>> {
    let mut content = Content(content);
    let (version, flags) = content.version()?;
    let (id_bytes, index_bytes) = (if version == 0 { 2 } else { 4 }, if flags & 1 == 0 { 1 } else { 2 });
    for _ in 0..content.number(4)? {
        let (id, count) = (content.number(id_bytes)?, content.number(1)?);
        if id == item {
            // The first bit says whether a reader has to know the property.
            let mask = if index_bytes == 1 { 0x7F } else { 0x7FFF };
            let index = |_| content.number(index_bytes).map(|index| (index & mask) as usize);
            return (0..count).map(index).collect();
        }
        content.skip(count as usize * index_bytes)?;
    }
    None
}

/// EXIF of an image: of the item that describes it, or of the only one.
fn read_exif(source: &mut (impl Read + Seek), meta: Boxes<'_>, image: u64) -> Option<Vec<u8>> {
    let items = exif_items(meta.find(b"iinf")?.bytes)?;
    let describing = meta.find(b"iref").map(|content| describing_items(content.bytes, image));
    let item = match *items {
        [only] => only,
        _ => *items.iter().find(|item| describing.iter().flatten().any(|one| one == *item))?,
    };
    let data = read_item(source, meta, item)?;
    // Offset of the TIFF structure behind this number.
    let mut content = Content(&data);
    let offset = content.number(4)?;
    content.skip(usize::try_from(offset).ok()?)?;
    Some(content.0.to_vec())
}

/// Numbers of the items that hold EXIF, of a box `iinf`.
fn exif_items(content: &[u8]) -> Option<Vec<u64>> {
    let mut content = Content(content);
    let (version, _) = content.version()?;
    content.number(if version == 0 { 2 } else { 4 })?;
    let entries = Boxes { at: 0, bytes: content.0 }.take(MAX_BOXES).filter(|(name, _)| name == b"infe");
    let exif = entries.filter_map(|(_, entry)| {
        let mut entry = Content(entry.bytes);
        let (version, _) = entry.version()?;
        let item = entry.number(if version < 3 { 2 } else { 4 })?;
        // Number of its protection.
        entry.skip(2)?;
        (version >= 2 && entry.take()? == *b"Exif").then_some(item)
    });
    Some(exif.collect())
}

/// Numbers of the items that describe an image, of a box `iref`.
fn describing_items(content: &[u8], image: u64) -> Vec<u64> {
    let mut content = Content(content);
    let id_bytes = if content.version().is_some_and(|(version, _)| version == 0) { 2 } else { 4 };
    let references = Boxes { at: 0, bytes: content.0 }.take(MAX_BOXES).filter(|(name, _)| name == b"cdsc");
    let from = references.filter_map(|(_, reference)| {
        let mut reference = Content(reference.bytes);
        let from = reference.number(id_bytes)?;
        let count = reference.number(2)?;
        (0..count).map_while(|_| reference.number(id_bytes)).any(|to| to == image).then_some(from)
    });
    from.collect()
}

/// Content of an item of at most [`MAX_EXIF_BYTES`] and the number before it.
fn read_item(source: &mut (impl Read + Seek), meta: Boxes<'_>, item: u64) -> Option<Vec<u8>> {
    let Extents { is_in_idat, parts } = extents(meta.find(b"iloc")?.bytes, item)?;
    let idat = meta.find(b"idat").map(|content| content.bytes).unwrap_or_default();
    let mut data = Vec::new();
    for [offset, length] in parts {
        if length > (MAX_EXIF_BYTES - data.len().min(MAX_EXIF_BYTES)) as u64 {
            return None;
        }
        if is_in_idat {
            let start = usize::try_from(offset).ok()?;
            data.extend(idat.get(start..start.checked_add(length as usize)?)?);
        } else {
            source.seek(SeekFrom::Start(offset)).ok()?;
            let read = source.by_ref().take(length).read_to_end(&mut data).ok()?;
            if read as u64 != length {
                return None;
            }
        }
    }
    Some(data)
}

/// Where an item lies.
struct Extents {
    is_in_idat: bool,
    /// Offset and length of each part.
    parts: Vec<[u64; 2]>,
}

/// Reads the entry of an item in a box `iloc`.
fn extents(content: &[u8], item: u64) -> Option<Extents> {
    let mut content = Content(content);
    let (version, _) = content.version()?;
    let [sizes, more] = content.take::<2>()?.map(usize::from);
    let (offset_bytes, length_bytes, base_bytes) = (sizes >> 4, sizes & 15, more >> 4);
    let index_bytes = if version == 0 { 0 } else { more & 15 };
    if [offset_bytes, length_bytes, base_bytes, index_bytes].iter().any(|bytes| *bytes > 8) {
        return None;
    }
    let id_bytes = if version < 2 { 2 } else { 4 };
    for _ in 0..content.number(id_bytes)? {
        let id = content.number(id_bytes)?;
        let method = if version == 0 { 0 } else { content.number(2)? & 15 };
        // The file that holds the data: 0 is this one.
        let file = content.number(2)?;
        let base = content.number(base_bytes)?;
        let count = content.number(2)?;
        if id == item {
            let mut part = || {
                content.number(index_bytes)?;
                Some([base.checked_add(content.number(offset_bytes)?)?, content.number(length_bytes)?])
            };
            let parts = (0..count).map(|_| part()).collect::<Option<_>>()?;
            return (file == 0 && method < 2).then_some(Extents { is_in_idat: method == 1, parts });
        }
        content.skip(count as usize * (index_bytes + offset_bytes + length_bytes))?;
    }
    None
}

/// A turn by quarters and mirroring: the matrix from stored to shown coordinates, x to the right and y down.
#[derive(Clone, Copy, PartialEq)]
struct Turn([[i8; 2]; 2]);

impl Turn {
    const NONE: Self = Self([[1, 0], [0, 1]]);

    /// Turned by quarters anticlockwise afterwards.
    fn then_quarters(self, quarters: u64) -> Self {
        (0..quarters).fold(self, |Self([[a, b], [c, d]]), _| Self([[c, d], [-a, -b]]))
    }

    /// Mirrored afterwards: left and right exchanged, or top and bottom.
    fn then_mirrored(self, is_sideways: bool) -> Self {
        let Self([[a, b], [c, d]]) = self;
        if is_sideways { Self([[-a, -b], [c, d]]) } else { Self([[a, b], [-c, -d]]) }
    }

    /// The EXIF orientation ([`super::turn`]).
    fn orientation(self) -> u8 {
        match self.0 {
            [[-1, _], [_, 1]] => 2,
            [[-1, _], [_, -1]] => 3,
            [[1, _], [_, -1]] => 4,
            [[_, 1], [1, _]] => 5,
            [[_, -1], [1, _]] => 6,
            [[_, -1], [-1, _]] => 7,
            [[_, 1], [-1, _]] => 8,
            _ => 1,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::image::exif::Exif;

    fn boxed(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32 + 8).to_be_bytes()[..], name, content].concat()
    }

    /// A TIFF structure with the model `Phone` and orientation 6.
    const TIFF: &[u8] =
        b"MM\0\x2A\0\0\0\x08\0\x02\x01\x10\0\x02\0\0\0\x06\0\0\0\x26\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0Phone\0";

    /// A file of 40x30 px with these transforms and EXIF in `mdat`, or in `idat`.
    fn file(transforms: &[Vec<u8>], is_in_idat: bool) -> Vec<u8> {
        let ispe = boxed(b"ispe", &[0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 30]);
        // The first property is of another item.
        let other = boxed(b"ispe", &[0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0]);
        let ipco = boxed(b"ipco", &[other, ispe, transforms.concat()].concat());
        let mut ipma = vec![0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 1, 0x81, 0, 7, 1 + transforms.len() as u8, 2];
        ipma.extend((0..transforms.len()).map(|k| 0x83 + k as u8));
        let iprp = boxed(b"iprp", &[ipco, boxed(b"ipma", &ipma)].concat());
        let infe = |item: u8, kind: &[u8; 4]| {
            boxed(b"infe", &[&[2, 0, 0, 0, 0, item, 0, 0][..], kind, b"\0"].concat())
        };
        let entries = [infe(1, b"hvc1"), infe(7, b"grid"), infe(8, b"Exif"), infe(9, b"Exif")];
        let iinf = boxed(b"iinf", &[&[0, 0, 0, 0, 0, 4][..], &entries.concat()].concat());
        let cdsc = |from: u8, to: u8| boxed(b"cdsc", &[0, from, 0, 1, 0, to]);
        let iref = boxed(b"iref", &[&[0; 4][..], &cdsc(8, 1), &cdsc(9, 7)].concat());
        let exif = [&[0, 0, 0, 6][..], b"Exif\0\0", TIFF].concat();
        let ftyp = boxed(b"ftyp", b"heic\0\0\0\0mif1");
        let meta = |offset: u32| {
            let method = u8::from(is_in_idat);
            let mut iloc = vec![1, 0, 0, 0, 0x44, 0, 0, 1, 0, 9, 0, method, 0, 0, 0, 1];
            iloc.extend([offset.to_be_bytes(), (exif.len() as u32).to_be_bytes()].concat());
            let idat = boxed(b"idat", if is_in_idat { &exif } else { b"" });
            let parts = [boxed(b"pitm", &[0, 0, 0, 0, 0, 7]), iinf.clone(), iref.clone(), iprp.clone(), idat];
            boxed(b"meta", &[&[0; 4][..], &parts.concat(), &boxed(b"iloc", &iloc)].concat())
        };
        let place = if is_in_idat { 0 } else { (ftyp.len() + meta(0).len() + 8) as u32 };
        [ftyp, meta(place), boxed(b"mdat", if is_in_idat { b"" } else { &exif })].concat()
    }

    fn parse(file: &[u8]) -> Result<HeifHeader, ImageProblem> {
        parse_heif_header(Cursor::new(file))
    }

    #[test]
    fn size_turn_and_exif_are_those_of_the_primary_image() {
        for is_in_idat in [false, true] {
            let header = parse(&file(&[boxed(b"irot", &[3])], is_in_idat)).unwrap();
            assert_eq!((header.size, header.upright_size(), header.orientation), ([40, 30], [30, 40], 6));
            let exif = Exif::read(&header.exif.unwrap());
            assert_eq!((exif.model.as_deref(), exif.orientation), (Some("Phone"), Some(6)));
        }
    }

    #[test]
    fn turns_and_mirrors_apply_in_their_order() {
        let (irot, imir) = (|quarters| boxed(b"irot", &[quarters]), |mode| boxed(b"imir", &[mode]));
        for (transforms, orientation) in [
            (vec![], 1),
            (vec![irot(1)], 8),
            (vec![irot(2)], 3),
            (vec![irot(3)], 6),
            (vec![imir(1)], 2),
            (vec![imir(0)], 4),
            // A quarter clockwise, then left and right exchanged: the transposed image.
            (vec![irot(3), imir(1)], 5),
            (vec![imir(1), irot(3)], 7),
        ] {
            assert_eq!(parse(&file(&transforms, false)).unwrap().orientation, orientation);
        }
    }

    #[test]
    fn a_file_whose_turn_is_removed_is_read_as_it_is_stored() {
        let mut file = file(&[boxed(b"irot", &[3]), boxed(b"imir", &[1])], false);
        let turned = parse(&file).unwrap();
        turned.remove_turn(&mut file);
        let stored = parse(&file).unwrap();
        assert_eq!((turned.orientation, stored.orientation), (5, 1));
        assert_eq!((turned.size, turned.exif), (stored.size, stored.exif));
    }

    #[test]
    fn a_crop_lies_within_the_image() {
        let clap = |width: u32, under: u32| {
            let numbers = [width, under, 30, 1, 0, 1, 0, 1];
            boxed(b"clap", &numbers.map(u32::to_be_bytes).concat())
        };
        assert_eq!(parse(&file(&[clap(78, 2)], false)).unwrap().cropped_size, [39, 30]);
        for wrong in [clap(41, 1), clap(40, 0), clap(0, 1)] {
            assert!(parse(&file(&[wrong], false)).is_err());
        }
    }

    #[test]
    fn damaged_files_are_refused_or_lose_their_exif() {
        let whole = file(&[boxed(b"irot", &[1])], false);
        for length in 0..whole.len() {
            let _ = parse(&whole[..length]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                if let Ok(header) = parse(&damaged) {
                    assert!(header.exif.is_none_or(|exif| exif.len() <= whole.len()));
                }
            }
        }
        let message = |file: &[u8]| parse(file).unwrap_err().to_string();
        assert!(message(b"\xFF\xD8\xFF\xE0 a JPEG named HEIC").contains("does not begin with a box `ftyp`"));
        assert!(message(&boxed(b"ftyp", b"heic")).contains("no box `meta`"));
        let endless = [boxed(b"ftyp", b"heic"), vec![0xFF, 0xFF, 0xFF, 0xFF], b"meta".to_vec()].concat();
        assert!(message(&endless).contains("too large"));
        let mut large = whole.clone();
        let ispe = whole.windows(4).rposition(|four| four == b"ispe").unwrap();
        large[ispe + 8] = 0x7F;
        assert!(message(&large).contains("px are too many"));
    }
}
