//! VTK image data (`.vti`): one piece of point or cell data; text, base64 or appended; plain or zlib.
//!
//! ```text
//! block, plain        bytes, data                        counts are of `header_type`, UInt32 or UInt64
//! block, compressed   blocks, size of a block, of the last, compressed size of each; then the blocks
//! ```
//! In base64, the counts of a compressed block are encoded by themselves. Format: VTK user's guide, XML file formats.

use std::io::Read;

use gausset_io::text::{excerpt, quote};
use roxmltree::{Document, Node};

use crate::error::ContentError;
use crate::input::checks::{ReadRequest, read_exactly, voxels};
use crate::input::scalar::Scalar;
use crate::input::volume::Volume;

/// Reads a volume.
pub(crate) fn read(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Volume, ContentError> {
    // Appended data may be raw, which is no XML: the document ends before them.
    let mark = b"<AppendedData";
    let at = bytes.windows(mark.len()).position(|part| part == mark);
    let (head, appended) = bytes.split_at(at.unwrap_or(bytes.len()));
    let text = std::str::from_utf8(head).map_err(|_| ContentError::unread("XML", "not text"))?;
    let text = if at.is_some() { format!("{text}</VTKFile>") } else { text.to_owned() };
    let document =
        Document::parse(&text).map_err(|error| ContentError::unread("XML", excerpt(&error.to_string())))?;
    wanted.frame_of(1)?;
    let piece = Piece::new(&document, appended)?;
    piece.volume(wanted)
}

/// An image and how its arrays are stored.
struct Piece<'a, 'x> {
    image: Node<'a, 'x>,
    piece: Node<'a, 'x>,
    /// First and last index along x, y, z.
    extent: [i64; 6],
    appended: &'a [u8],
    is_big_endian: bool,
    /// Counts are UInt64.
    is_wide: bool,
    is_compressed: bool,
}

impl<'a, 'x> Piece<'a, 'x> {
    fn new(document: &'a Document<'x>, appended: &'a [u8]) -> Result<Self, ContentError> {
        let file = document.root_element();
        let kind = file.attribute("type").unwrap_or_default();
        if file.tag_name().name() != "VTKFile" || kind != "ImageData" {
            return Err(ContentError::unexpected("XML", "not image data", "type=\"ImageData\"", quote(kind)));
        }
        let children =
            |node: Node<'a, 'x>, name: &'static str| node.children().filter(move |n| n.has_tag_name(name));
        let missing = |name: &str| ContentError::unread("XML", format_args!("no element `{name}`"));
        let image = children(file, "ImageData").next().ok_or_else(|| missing("ImageData"))?;
        let pieces: Vec<_> = children(image, "Piece").collect();
        let [piece] = pieces[..] else {
            return Err(ContentError::unexpected("Piece", "not one piece", "1", pieces.len()));
        };
        let extent = piece.attribute("Extent").or_else(|| image.attribute("WholeExtent")).unwrap_or_default();
        let numbers: Option<Vec<i64>> = extent.split_whitespace().map(|word| word.parse().ok()).collect();
        let numbers = numbers.and_then(|n| <[i64; 6]>::try_from(n).ok());
        let numbers = numbers.filter(|n| n.iter().all(|v| v.unsigned_abs() < 1 << 40));
        let extent = numbers
            .ok_or_else(|| ContentError::unexpected("Piece", "Extent", "six whole numbers", quote(extent)))?;
        let is_compressed = match file.attribute("compressor") {
            None => false,
            Some("vtkZLibDataCompressor") => true,
            Some(other) => {
                let error = ContentError::unexpected("XML", "compressor is not read", "zlib", quote(other));
                return Err(error.with_advice("save it without compression"));
            }
        };
        Ok(Self {
            image,
            piece,
            extent,
            appended,
            is_big_endian: file.attribute("byte_order") == Some("BigEndian"),
            is_wide: file.attribute("header_type") == Some("UInt64"),
            is_compressed,
        })
    }

    /// The array that is read, and whether it has a value per cell instead of per point.
    fn array(&self) -> Result<(Node<'a, 'x>, bool), ContentError> {
        for (group, is_cells) in [("PointData", false), ("CellData", true)] {
            let Some(data) = self.piece.children().find(|n| n.has_tag_name(group)) else { continue };
            let arrays: Vec<_> = data.children().filter(|n| n.has_tag_name("DataArray")).collect();
            let active = data.attribute("Scalars");
            let named = arrays.iter().find(|n| active.is_some() && n.attribute("Name") == active);
            match (named, &arrays[..]) {
                (Some(array), _) | (None, [array]) => return Ok((*array, is_cells)),
                (None, []) => {}
                (None, several) => {
                    let names: Vec<String> = several
                        .iter()
                        .take(8)
                        .map(|n| quote(n.attribute("Name").unwrap_or_default()))
                        .collect();
                    let error = ContentError::unexpected(group, "several arrays", "one", names.join(", "));
                    return Err(error.with_advice("save it with one array, or with one as `Scalars`"));
                }
            }
        }
        Err(ContentError::unread("XML", "no array in `PointData` or `CellData`"))
    }

    fn volume(&self, wanted: &ReadRequest<'_>) -> Result<Volume, ContentError> {
        let (array, is_cells) = self.array()?;
        let points: [i64; 3] = std::array::from_fn(|k| self.extent[2 * k + 1] - self.extent[2 * k] + 1);
        // A flat image has one layer of cells.
        let sides = points.map(|n| if is_cells { (n - 1).max(1) } else { n });
        let dims = sides.map(|n| u64::try_from(n).unwrap_or(0));
        let count = voxels(&dims)?;
        wanted.check_count(count)?;
        let components = match array.attribute("NumberOfComponents") {
            Some(text) => text.trim().parse().ok().filter(|n| (1..=1 << 20).contains(n)),
            None => Some(1),
        };
        let components: usize =
            components.ok_or_else(|| ContentError::unread("DataArray", "NumberOfComponents"))?;
        let channel = wanted.channel_of(components, &[])?;
        let kind = array.attribute("type").unwrap_or_default();
        let scalar = scalar_of(kind)
            .ok_or_else(|| ContentError::unexpected("DataArray", "type", "a number type", quote(kind)))?;
        let numbers = count * components as u64;
        let all = self.numbers(array, scalar, numbers, wanted)?;
        let values = all.into_iter().skip(channel).step_by(components).collect();
        let volume = Volume::on_grid(dims.map(|d| d as usize), [1.0; 3], values);
        self.placed(volume, is_cells)
    }

    /// `numbers` numbers of an array.
    fn numbers(
        &self,
        array: Node<'a, 'x>,
        scalar: Scalar,
        numbers: u64,
        wanted: &ReadRequest<'_>,
    ) -> Result<Vec<f64>, ContentError> {
        let length = numbers * scalar.bytes() as u64;
        let bytes = match array.attribute("format").unwrap_or("ascii") {
            "ascii" => {
                let words = wanted.words(array.text().unwrap_or_default(), numbers)?;
                return words.ok_or_else(|| {
                    ContentError::missing("data", "cut off", format_args!("{numbers} values"))
                });
            }
            "binary" => self.encoded(array.text().unwrap_or_default().as_bytes(), length, wanted)?,
            "appended" => self.appended(array, length, wanted)?,
            other => {
                return Err(ContentError::unexpected(
                    "DataArray",
                    "format",
                    "ascii, binary or appended",
                    quote(other),
                ));
            }
        };
        Ok(scalar.decode(&bytes, self.is_big_endian))
    }

    fn appended(
        &self,
        array: Node<'a, 'x>,
        length: u64,
        wanted: &ReadRequest<'_>,
    ) -> Result<Vec<u8>, ContentError> {
        let cut_off = || ContentError::missing("AppendedData", "cut off", "data after `_`");
        let tag = self.appended.iter().position(|b| *b == b'>').ok_or_else(cut_off)?;
        let (tag, rest) = self.appended.split_at(tag);
        let start = rest.iter().position(|b| *b == b'_').ok_or_else(cut_off)?;
        let offset = array.attribute("offset").unwrap_or("0");
        let offset: usize = offset
            .trim()
            .parse()
            .map_err(|_| ContentError::unexpected("DataArray", "offset", "a whole number", quote(offset)))?;
        let data = rest.get(start + 1..).and_then(|rest| rest.get(offset..)).ok_or_else(cut_off)?;
        if tag.windows(6).any(|part| part == b"base64") {
            return self.encoded(data, length, wanted);
        }
        if !self.is_compressed {
            return read_exactly(
                wanted.stoppable(data.get(self.word()..).unwrap_or_default()),
                length,
                "data",
            );
        }
        let sizes = self.block_sizes(data, length)?;
        let from = (3 + sizes.len()) * self.word();
        self.inflate(data.get(from..).unwrap_or_default(), &sizes, length, wanted)
    }

    /// Data in base64.
    fn encoded(&self, text: &[u8], length: u64, wanted: &ReadRequest<'_>) -> Result<Vec<u8>, ContentError> {
        let text: Vec<u8> =
            text.iter().copied().filter(|b| !b.is_ascii_whitespace()).take_while(|b| *b != b'<').collect();
        let characters = |bytes: usize| bytes.div_ceil(3) * 4;
        if !self.is_compressed {
            let wide = (self.word() as u64).saturating_add(length);
            let most = usize::try_from(wide).map_or(usize::MAX, |n| n.saturating_add(2) / 3 * 4);
            let bytes = base64(&text[..text.len().min(most)])?;
            return read_exactly(
                wanted.stoppable(bytes.get(self.word()..).unwrap_or_default()),
                length,
                "data",
            );
        }
        let first = base64(&text[..text.len().min(characters(3 * self.word()))])?;
        let count = self.count(&first, 0).unwrap_or(0);
        let cut_off = || ContentError::missing("data", "cut off", "the sizes of its blocks");
        let header = usize::try_from(count).ok().and_then(|n| n.checked_add(3)?.checked_mul(self.word()));
        let header = characters(header.filter(|n| *n <= text.len()).ok_or_else(cut_off)?);
        let sizes = self.block_sizes(&base64(text.get(..header).ok_or_else(cut_off)?)?, length)?;
        self.inflate(&base64(&text[header..])?, &sizes, length, wanted)
    }

    /// Bytes of a count.
    const fn word(&self) -> usize {
        if self.is_wide { 8 } else { 4 }
    }

    /// The count at an index.
    fn count(&self, bytes: &[u8], index: usize) -> Option<u64> {
        let at = index.checked_mul(self.word())?;
        let bytes = bytes.get(at..at.checked_add(self.word())?)?;
        let number = |wide: [u8; 8]| {
            if self.is_big_endian { u64::from_be_bytes(wide) } else { u64::from_le_bytes(wide) }
        };
        let mut wide = [0; 8];
        let from = if self.is_big_endian { 8 - bytes.len() } else { 0 };
        wide[from..from + bytes.len()].copy_from_slice(bytes);
        Some(number(wide))
    }

    /// Compressed sizes of the blocks.
    fn block_sizes(&self, bytes: &[u8], length: u64) -> Result<Vec<usize>, ContentError> {
        let cut_off = || ContentError::missing("data", "cut off", "the sizes of its blocks");
        let count = self.count(bytes, 0).ok_or_else(cut_off)?;
        if count > length || count > bytes.len() as u64 {
            return Err(cut_off());
        }
        (0..count as usize)
            .map(|i| self.count(bytes, 3 + i).and_then(|size| usize::try_from(size).ok()).ok_or_else(cut_off))
            .collect()
    }

    fn inflate(
        &self,
        data: &[u8],
        sizes: &[usize],
        length: u64,
        wanted: &ReadRequest<'_>,
    ) -> Result<Vec<u8>, ContentError> {
        let (mut out, mut at) = (Vec::new(), 0usize);
        for size in sizes {
            let block = at.checked_add(*size).and_then(|end| data.get(at..end));
            let block = block.ok_or_else(|| ContentError::missing("data", "cut off", "all of its blocks"))?;
            at += size;
            let rest = length - out.len() as u64;
            let read = wanted.unzlib(block).take(rest).read_to_end(&mut out);
            read.map_err(|error| ContentError::unread("data", format_args!("damaged ({error})")))?;
        }
        if out.len() as u64 == length {
            Ok(out)
        } else {
            Err(ContentError::unexpected("data", "cut off", format_args!("{length} bytes"), out.len()))
        }
    }

    /// Sets spacing, directions and origin. The origin is that of index 0, and cells have their values in their middle.
    fn placed(&self, mut volume: Volume, is_cells: bool) -> Result<Volume, ContentError> {
        let numbers = |name: &str, count: usize| -> Result<Option<Vec<f64>>, ContentError> {
            let Some(text) = self.image.attribute(name) else { return Ok(None) };
            let numbers: Option<Vec<f64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
            let numbers = numbers.filter(|n| n.len() == count && n.iter().all(|v| v.is_finite()));
            let expected = format!("{count} numbers");
            let wrong = || ContentError::unexpected("ImageData", name, expected, quote(text));
            numbers.map(Some).ok_or_else(wrong)
        };
        let spacing = numbers("Spacing", 3)?.unwrap_or_else(|| vec![1.0; 3]);
        let origin = numbers("Origin", 3)?.unwrap_or_else(|| vec![0.0; 3]);
        let direction = numbers("Direction", 9)?;
        for k in 0..3 {
            volume.spacing[k] = if spacing[k].abs() > 0.0 { spacing[k].abs() } else { 1.0 };
        }
        let middle = if is_cells { 0.5 } else { 0.0 };
        for row in 0..3 {
            let mut at = origin[row];
            for k in 0..3 {
                let straight = if row == k { 1.0 } else { 0.0 };
                let column = direction.as_ref().map_or(straight, |d| d[3 * row + k]) * volume.spacing[k];
                volume.world_from_index[row][k] = column;
                at += column * (self.extent[2 * k] as f64 + middle);
            }
            volume.world_from_index[row][3] = at;
        }
        Ok(volume)
    }
}

fn scalar_of(name: &str) -> Option<Scalar> {
    Some(match name {
        "Int8" => Scalar::I8,
        "UInt8" => Scalar::U8,
        "Int16" => Scalar::I16,
        "UInt16" => Scalar::U16,
        "Int32" => Scalar::I32,
        "UInt32" => Scalar::U32,
        "Int64" => Scalar::I64,
        "UInt64" => Scalar::U64,
        "Float32" => Scalar::F32,
        "Float64" => Scalar::F64,
        _ => return None,
    })
}

/// Decodes base64; `=` may end any group of four.
fn base64(text: &[u8]) -> Result<Vec<u8>, ContentError> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.chunks(4) {
        let (mut bits, mut known) = (0u32, 0);
        for letter in group.iter().take_while(|letter| **letter != b'=') {
            let digit = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return Err(ContentError::unread("data", "not base64")),
            };
            bits = bits << 6 | u32::from(digit);
            known += 1;
        }
        bits <<= 6 * (4 - known);
        let bytes = bits.to_be_bytes();
        out.extend(&bytes[1..(1 + known * 6 / 8).min(4)]);
    }
    Ok(out)
}
