//! NRRD volumes (Nearly Raw Raster Data, version 1 to 5): header lines, a blank line, data.
//!
//! Read: `raw`, `gzip`, `bzip2`, `ascii`; both byte orders; data in the file or in another one (`data file`), `line
//! skip`, `byte skip`; one axis that is not spatial becomes frames, or channels if its kind is a colour. Not read:
//! `block` and `hex`, lists of data files.

use std::fmt::Display;
use std::io::Read;

use gausset_io::text::quote;

use crate::error::ContentError;
use crate::input::checks::{MAX_SKIP, ReadRequest, read_exactly, read_last, voxels};
use crate::input::error::DecodeError;
use crate::input::scalar::Scalar;
use crate::input::volume::{Affine, Volume, scaling};

/// Encoding of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Raw,
    Gzip,
    Bzip2,
    Ascii,
}

/// A parsed and checked header.
#[derive(Clone, Debug)]
pub struct NrrdHeader {
    scalar: Scalar,
    encoding: Encoding,
    is_big_endian: bool,
    /// Sizes of the three spatial axes.
    dims: [u64; 3],
    spacing: [f64; 3],
    world_from_index: Affine,
    /// Number of frames and whether they are the fastest axis.
    frames: u64,
    frames_first: bool,
    /// Whether the frames are the channels of a colour.
    is_colour: bool,
    data_file: Option<String>,
    line_skip: u64,
    byte_skip: i64,
    /// Length of the header in its file, bytes.
    length: usize,
}

/// Reads a volume.
pub(crate) fn read(
    bytes: &[u8],
    wanted: &ReadRequest<'_>,
    beside: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
) -> Result<Volume, DecodeError> {
    let header = parse_header(bytes)?;
    wanted.check_count(header.dims.iter().product())?;
    let data_file = header.data_file.as_deref();
    let detached = data_file
        .map(|name| beside(name).map_err(|source| DecodeError::DataFile { name: name.to_owned(), source }))
        .transpose()?;
    let data = detached.as_deref().unwrap_or_else(|| bytes.get(header.length..).unwrap_or_default());
    Ok(header.volume(data, wanted)?)
}

/// Parses a header.
///
/// # Errors
/// The first problem, with its place.
pub fn parse_header(bytes: &[u8]) -> Result<NrrdHeader, ContentError> {
    let fields = Fields::parse(bytes)?;
    let data_file = fields.data_file()?;
    let scalar = fields.scalar()?;
    let sizes = fields.sizes()?;
    let encoding = fields.encoding()?;
    let is_big_endian = fields.is_big_endian(scalar, encoding)?;
    let directions = fields.directions(sizes.len())?;
    let spacings = fields.spacings(sizes.len())?;
    let (space, other) = fields.axes(sizes.len(), directions.as_deref())?;
    let mut header = NrrdHeader {
        scalar,
        encoding,
        is_big_endian,
        dims: [1; 3],
        spacing: [1.0; 3],
        world_from_index: scaling([1.0; 3]),
        frames: other.map_or(1, |axis| sizes[axis]),
        frames_first: other == Some(0) && sizes.len() > 1,
        is_colour: other.is_some_and(|axis| fields.is_colour(axis)),
        data_file,
        line_skip: fields.skip("lineskip")? as u64,
        byte_skip: fields.skip("byteskip")?,
        length: fields.length,
    };
    for (k, &axis) in space.iter().enumerate() {
        header.dims[k] = sizes[axis];
        let spacing = match directions.as_ref().and_then(|d| d[axis]) {
            Some(d) => (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt(),
            None => spacings[axis].abs(),
        };
        // `nan` means unknown.
        header.spacing[k] = if spacing.is_finite() && spacing > 0.0 { spacing } else { 1.0 };
    }
    header.world_from_index = scaling(header.spacing);
    for (k, &axis) in space.iter().enumerate() {
        if let Some(direction) = directions.as_ref().and_then(|d| d[axis]) {
            (0..3).for_each(|row| header.world_from_index[row][k] = direction[row]);
        }
    }
    let (flip, origin) = (fields.flip(), fields.origin());
    for row in 0..3 {
        header.world_from_index[row][3] = origin.map_or(0.0, |o| o[row]);
        header.world_from_index[row] = header.world_from_index[row].map(|v| flip[row] * v);
    }
    Ok(header)
}

/// An error for a field with an unexpected value.
fn unexpected_field(line: usize, what: &str, expected: impl Display, found: impl Display) -> ContentError {
    ContentError::unexpected(format_args!("line {line}"), what, expected, found)
}

/// The lines of a header.
struct Fields {
    /// Number of the line, key in lower case without blanks, value.
    entries: Vec<(usize, String, String)>,
    /// Whether a blank line ended them.
    is_closed: bool,
    /// Bytes up to the data.
    length: usize,
}

impl Fields {
    fn parse(bytes: &[u8]) -> Result<Self, ContentError> {
        if !bytes.starts_with(b"NRRD000") {
            return Err(ContentError::missing("line 1", "not an NRRD file", "NRRD000x"));
        }
        let mut fields = Self { entries: Vec::new(), is_closed: false, length: 0 };
        let mut number = 0;
        while fields.length < bytes.len() {
            let rest = &bytes[fields.length..];
            let end = rest.iter().position(|b| *b == b'\n');
            let line = &rest[..end.unwrap_or(rest.len())];
            fields.length += line.len() + usize::from(end.is_some());
            number += 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if number == 1 {
                continue;
            }
            if line.is_empty() {
                fields.is_closed = true;
                break;
            }
            let unread = |what| ContentError::unread(format_args!("line {number}"), what);
            if number > 10_000 || line.len() > 65_536 {
                return Err(unread("the header has no end"));
            }
            let text = std::str::from_utf8(line).map_err(|_| unread("not text"))?;
            // `:=` lines are key/value pairs for other programs.
            if text.starts_with('#') || text.contains(":=") {
                continue;
            }
            let Some((key, value)) = text.split_once(':') else {
                return Err(unexpected_field(number, "not a field", "`key: value`", quote(text)));
            };
            let key = key.trim().to_lowercase().replace(' ', "");
            let value = value.trim();
            let begins_list = key == "datafile" && value.starts_with("LIST");
            fields.entries.push((number, key, value.to_owned()));
            if begins_list {
                // The names of files follow, which are no fields.
                break;
            }
        }
        Ok(fields)
    }

    /// The first value of a key, with its line number.
    fn find(&self, name: &str) -> Option<(usize, &str)> {
        self.entries.iter().find(|(_, key, _)| key == name).map(|(line, _, value)| (*line, value.as_str()))
    }

    fn require(&self, name: &str) -> Result<(usize, &str), ContentError> {
        self.find(name).ok_or_else(|| ContentError::unread("header", format_args!("no field `{name}`")))
    }

    fn data_file(&self) -> Result<Option<String>, ContentError> {
        let Some((line, name)) = self.find("datafile") else {
            let cut_off = || ContentError::missing("header", "cut off", "a blank line before the data");
            return if self.is_closed { Ok(None) } else { Err(cut_off()) };
        };
        if name.starts_with("LIST") || name.contains('%') {
            let (place, what) = (format_args!("line {line}"), "data file: lists of files are not read");
            return Err(ContentError::unusable(place, what, quote(name)).with_advice("save it as one .nrrd"));
        }
        Ok(Some(name.to_owned()))
    }

    fn scalar(&self) -> Result<Scalar, ContentError> {
        let (line, kind) = self.require("type")?;
        scalar_of(kind).ok_or_else(|| unexpected_field(line, "unknown type", "a number type", quote(kind)))
    }

    /// Sizes of the axes, 1 to 4 of them.
    fn sizes(&self) -> Result<Vec<u64>, ContentError> {
        let (line, text) = self.require("dimension")?;
        let dimension = text.parse().ok().filter(|d| (1..=4).contains(d));
        let dimension: usize =
            dimension.ok_or_else(|| unexpected_field(line, "dimension", "1 to 4", quote(text)))?;
        let (line, sizes) = self.require("sizes")?;
        let sizes: Vec<u64> = sizes.split_whitespace().map_while(|word| word.parse().ok()).collect();
        if sizes.len() != dimension {
            return Err(unexpected_field(
                line,
                "sizes",
                format_args!("{dimension} whole numbers"),
                sizes.len(),
            ));
        }
        voxels(&sizes).map_err(|error| error.within(format_args!("line {line}")))?;
        Ok(sizes)
    }

    fn encoding(&self) -> Result<Encoding, ContentError> {
        let (line, word) = self.require("encoding")?;
        Ok(match word.to_lowercase().as_str() {
            "raw" => Encoding::Raw,
            "gzip" | "gz" => Encoding::Gzip,
            "bzip2" | "bz2" => Encoding::Bzip2,
            "ascii" | "text" | "txt" => Encoding::Ascii,
            _ => return Err(unexpected_field(line, "encoding", "raw, gzip, bzip2 or ascii", quote(word))),
        })
    }

    fn is_big_endian(&self, scalar: Scalar, encoding: Encoding) -> Result<bool, ContentError> {
        match self.find("endian") {
            Some((_, word)) if word.eq_ignore_ascii_case("big") => Ok(true),
            Some((_, word)) if word.eq_ignore_ascii_case("little") => Ok(false),
            Some((line, word)) => Err(unexpected_field(line, "endian", "little or big", quote(word))),
            None if scalar.bytes() > 1 && encoding != Encoding::Ascii => {
                Err(ContentError::unread("header", "no field `endian`, which this type needs"))
            }
            None => Ok(false),
        }
    }

    /// A direction for each spatial axis, `None` for other axes; `None` if the header has no directions.
    #[allow(clippy::type_complexity, reason = "the shape of the field in the header")]
    fn directions(&self, dimension: usize) -> Result<Option<Vec<Option<[f64; 3]>>>, ContentError> {
        let Some((line, text)) = self.find("spacedirections") else { return Ok(None) };
        let expected = || format!("{dimension} vectors or `none`");
        let found = vectors(text, dimension);
        found.map(Some).ok_or_else(|| unexpected_field(line, "space directions", expected(), quote(text)))
    }

    /// The distance of neighbours along each axis.
    fn spacings(&self, dimension: usize) -> Result<Vec<f64>, ContentError> {
        let Some((line, text)) = self.find("spacings") else { return Ok(vec![1.0; dimension]) };
        let found: Vec<f64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
        if found.len() != dimension {
            return Err(unexpected_field(line, "spacings", format_args!("{dimension} numbers"), quote(text)));
        }
        Ok(found)
    }

    /// What each axis is, in lower case; empty if the header does not say it.
    fn kinds(&self) -> Vec<String> {
        let kinds = self.find("kinds").map(|(_, text)| text.split_whitespace().map(str::to_lowercase));
        kinds.map(Iterator::collect).unwrap_or_default()
    }

    fn is_colour(&self, axis: usize) -> bool {
        self.kinds().get(axis).is_some_and(|kind| kind.ends_with("-color"))
    }

    /// The spatial axes, up to three, and the one that is not spatial.
    fn axes(
        &self,
        dimension: usize,
        directions: Option<&[Option<[f64; 3]>]>,
    ) -> Result<(Vec<usize>, Option<usize>), ContentError> {
        let kinds = self.kinds();
        let is_space = |axis: &usize| match directions {
            Some(directions) => directions[*axis].is_some(),
            None => kinds
                .get(*axis)
                .is_none_or(|kind| matches!(kind.as_str(), "domain" | "space" | "???" | "none")),
        };
        let mut space: Vec<usize> = (0..dimension).filter(is_space).collect();
        if dimension == 4 && space.len() == 4 {
            // Unless declared otherwise, the slowest axis counts frames.
            space.pop();
        }
        if space.len() > 3 || dimension - space.len() > 1 || space.is_empty() {
            let expected = "up to 3 of space and at most one other";
            return Err(ContentError::unexpected("header", "axes", expected, dimension));
        }
        let other = (0..dimension).find(|axis| !space.contains(axis));
        if other.is_some_and(|axis| axis != 0 && axis != dimension - 1) {
            let expected = "the axis that is not of space first or last";
            return Err(ContentError::missing("header", "axes", expected));
        }
        Ok((space, other))
    }

    /// Lines or bytes to skip; -1 bytes = all but the last that are needed.
    fn skip(&self, name: &str) -> Result<i64, ContentError> {
        let Some((line, text)) = self.find(name) else { return Ok(0) };
        let number = text.parse::<i64>().ok().filter(|n| *n >= -1);
        number.ok_or_else(|| unexpected_field(line, "skip", "a whole number", quote(text)))
    }

    /// Signs that convert the axes of the header's space to RAS+; LPS and LAS have opposite axes.
    fn flip(&self) -> [f64; 3] {
        match self.find("space").map(|(_, word)| word.to_lowercase()).as_deref() {
            Some("left-posterior-superior" | "lps") => [-1.0, -1.0, 1.0],
            Some("left-anterior-superior" | "las") => [-1.0, 1.0, 1.0],
            _ => [1.0; 3],
        }
    }

    fn origin(&self) -> Option<[f64; 3]> {
        self.find("spaceorigin").and_then(|(_, text)| vectors(text, 1)).and_then(|v| v[0])
    }
}

/// `(a,b,c) none (d,e,f)` → vectors; 2-D vectors get a zero.
fn vectors(text: &str, count: usize) -> Option<Vec<Option<[f64; 3]>>> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("none") {
            out.push(None);
            rest = after.trim_start();
            continue;
        }
        let (inside, after) = rest.strip_prefix('(')?.split_once(')')?;
        let numbers: Option<Vec<f64>> = inside.split(',').map(|word| word.trim().parse().ok()).collect();
        let numbers = numbers.filter(|n| (1..=3).contains(&n.len()) && n.iter().all(|v| v.is_finite()))?;
        out.push(Some(std::array::from_fn(|k| numbers.get(k).copied().unwrap_or(0.0))));
        rest = after.trim_start();
    }
    (out.len() == count).then_some(out)
}

fn scalar_of(name: &str) -> Option<Scalar> {
    Some(match name.to_lowercase().as_str() {
        "signed char" | "int8" | "int8_t" => Scalar::I8,
        "uchar" | "unsigned char" | "uint8" | "uint8_t" => Scalar::U8,
        "short" | "short int" | "signed short" | "signed short int" | "int16" | "int16_t" => Scalar::I16,
        "ushort" | "unsigned short" | "unsigned short int" | "uint16" | "uint16_t" => Scalar::U16,
        "int" | "signed int" | "int32" | "int32_t" => Scalar::I32,
        "uint" | "unsigned int" | "uint32" | "uint32_t" => Scalar::U32,
        "longlong"
        | "long long"
        | "long long int"
        | "signed long long"
        | "signed long long int"
        | "int64"
        | "int64_t" => Scalar::I64,
        "ulonglong" | "unsigned long long" | "unsigned long long int" | "uint64" | "uint64_t" => Scalar::U64,
        "float" => Scalar::F32,
        "double" => Scalar::F64,
        _ => return None,
    })
}

impl NrrdHeader {
    /// Decodes the volume from `data`: the bytes after the header, or another file.
    ///
    /// # Errors
    /// The first problem, with its place.
    pub fn volume(&self, data: &[u8], wanted: &ReadRequest<'_>) -> Result<Volume, ContentError> {
        let frames = self.frames as usize;
        // A frame other than the first also names a channel, as in earlier versions.
        let has_channels = self.is_colour && (wanted.channel.is_some() || wanted.frame == 0);
        let frame = if has_channels {
            wanted.channel_of(frames, &[])?
        } else {
            wanted.channel_of(1, &[])?;
            wanted.frame_of(self.frames)? as usize
        };
        let count = voxels(&self.dims)?;
        let total =
            count.checked_mul(self.frames).ok_or_else(|| ContentError::unread("size", "too many voxels"))?;
        let length = total * self.scalar.bytes() as u64;
        let mut data = data;
        for skipped in 0..self.line_skip {
            let end = data.iter().position(|b| *b == b'\n');
            let end = end.ok_or_else(|| cut_off(format_args!("{} lines", self.line_skip), skipped))?;
            data = &data[end + 1..];
        }
        let values = match self.encoding {
            Encoding::Ascii => ascii(data, total, wanted)?,
            // -1 = the data are the last bytes, whatever comes before.
            Encoding::Raw if self.byte_skip < 0 => {
                let skip = data.len().saturating_sub(usize::try_from(length).unwrap_or(usize::MAX));
                self.decode(&read_exactly(wanted.stoppable(&data[skip..]), length, "data")?)
            }
            Encoding::Raw => {
                let skip = usize::try_from(self.byte_skip).unwrap_or(usize::MAX);
                let mut from = wanted.stoppable(data.get(skip..).unwrap_or_default());
                let bytes = read_exactly(&mut from, length, "data")?;
                wanted.note_left_over(from);
                self.decode(&bytes)
            }
            Encoding::Gzip => self.inflate(wanted.gunzip(data), length, wanted)?,
            Encoding::Bzip2 => self.inflate(wanted.bunzip2(data), length, wanted)?,
        };
        let count = count as usize;
        let values: Vec<f64> = if self.frames_first && frames > 1 {
            values.into_iter().skip(frame).step_by(frames).collect()
        } else {
            values.into_iter().skip(frame * count).take(count).collect()
        };
        Ok(Volume {
            dims: self.dims.map(|d| d as usize),
            spacing: self.spacing,
            world_from_index: self.world_from_index,
            values,
            frames: if has_channels { 1 } else { frames },
        })
    }

    fn decode(&self, bytes: &[u8]) -> Vec<f64> {
        self.scalar.decode(bytes, self.is_big_endian)
    }

    fn inflate(
        &self,
        mut stream: impl Read,
        length: u64,
        wanted: &ReadRequest<'_>,
    ) -> Result<Vec<f64>, ContentError> {
        let Ok(skip) = u64::try_from(self.byte_skip) else {
            return Ok(self.decode(&read_last(stream, length, "data")?));
        };
        if skip > MAX_SKIP {
            let expected = format_args!("at most {MAX_SKIP}");
            return Err(ContentError::unexpected("byte skip", "too far", expected, skip));
        }
        std::io::copy(&mut stream.by_ref().take(skip), &mut std::io::sink())
            .map_err(|error| ContentError::unread("data", format_args!("damaged ({error})")))?;
        let bytes = read_exactly(&mut stream, length, "data")?;
        wanted.note_left_over(stream);
        Ok(self.decode(&bytes))
    }
}

fn cut_off(expected: impl Display, found: impl Display) -> ContentError {
    ContentError::unexpected("data", "cut off", expected, found)
}

fn ascii(data: &[u8], total: u64, wanted: &ReadRequest<'_>) -> Result<Vec<f64>, ContentError> {
    let text = std::str::from_utf8(data).map_err(|_| ContentError::unread("data", "not text"))?;
    let found = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    let values = wanted.words(text, total)?;
    values.ok_or_else(|| cut_off(format_args!("{total} values"), found.count()))
}
