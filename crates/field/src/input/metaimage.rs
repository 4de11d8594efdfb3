//! MetaImage volumes of ITK (`.mha`, `.mhd`): lines `Key = value`, the last of them `ElementDataFile`, then the data.
//!
//! Read: plain, zlib and text data, in the file or in another one; either byte order; a fourth axis becomes frames. Not
//! read: lists and patterns of data files. Axes and origin are those of ITK, left-posterior-superior, and are converted
//! to RAS+. Rows of `TransformMatrix` are the directions of the axes.

use std::io::Read;

use gausset_io::text::quote;

use crate::error::ContentError;
use crate::input::checks::{MAX_SKIP, ReadRequest, read_exactly, voxels};
use crate::input::error::DecodeError;
use crate::input::scalar::Scalar;
use crate::input::volume::Volume;

/// Longest header, bytes.
const MAX_HEADER: usize = 1 << 20;

/// Reads a volume.
pub(crate) fn read(
    bytes: &[u8],
    wanted: &ReadRequest<'_>,
    beside: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
) -> Result<Volume, DecodeError> {
    let fields = Fields::parse(bytes)?;
    let header = Header::new(&fields, wanted)?;
    if fields.data_file.eq_ignore_ascii_case("LOCAL") {
        return Ok(header.volume(&bytes[fields.length..], wanted)?);
    }
    let name = fields.data_file;
    if name.starts_with("LIST") || name.contains('%') {
        let error = ContentError::unusable("ElementDataFile", "lists of files are not read", quote(name));
        return Err(error.with_advice("save it as one .mha").into());
    }
    let data = beside(name).map_err(|source| DecodeError::DataFile { name: name.to_owned(), source })?;
    Ok(header.volume(&data, wanted)?)
}

/// The lines of a header.
struct Fields<'a> {
    entries: Vec<(usize, &'a str, &'a str)>,
    data_file: &'a str,
    /// Bytes up to the data.
    length: usize,
}

impl<'a> Fields<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, ContentError> {
        let (mut entries, mut length, mut number) = (Vec::new(), 0, 0);
        loop {
            number += 1;
            let rest = bytes.get(length..).filter(|rest| !rest.is_empty() && length < MAX_HEADER);
            let rest =
                rest.ok_or_else(|| ContentError::missing("header", "cut off", "ElementDataFile = …"))?;
            let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
            length += (end + 1).min(rest.len());
            let place = format!("line {number}");
            let line =
                std::str::from_utf8(&rest[..end]).map_err(|_| ContentError::unread(&place, "not text"))?;
            if line.trim().is_empty() {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                return Err(ContentError::unexpected(place, "not a field", "`Key = value`", quote(line)));
            };
            let (key, value) = (key.trim(), value.trim());
            if key == "ElementDataFile" {
                return Ok(Self { entries, data_file: value, length });
            }
            entries.push((number, key, value));
        }
    }

    /// The first of these keys, with its line.
    fn find(&self, keys: &[&str]) -> Option<(usize, &'a str)> {
        self.entries.iter().find(|(_, key, _)| keys.contains(key)).map(|(line, _, value)| (*line, *value))
    }

    fn is_true(&self, keys: &[&str]) -> bool {
        self.find(keys).is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"))
    }

    /// `count` finite numbers; `None` if none of the keys is there.
    fn numbers(&self, keys: &[&str], count: usize) -> Result<Option<Vec<f64>>, ContentError> {
        let Some((line, text)) = self.find(keys) else { return Ok(None) };
        let numbers: Option<Vec<f64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let numbers = numbers.filter(|n| n.len() == count && n.iter().all(|v| v.is_finite()));
        let expected = format!("{count} numbers");
        let wrong = || ContentError::unexpected(format_args!("line {line}"), keys[0], expected, quote(text));
        numbers.map(Some).ok_or_else(wrong)
    }

    fn whole(&self, key: &'static str, count: usize) -> Result<Option<Vec<u64>>, ContentError> {
        let numbers = self.numbers(&[key], count)?;
        let whole = |v: &f64| v.fract() == 0.0 && (0.0..=1e15).contains(v);
        if let Some(wrong) = numbers.iter().flatten().find(|v| !whole(v)) {
            return Err(ContentError::unexpected("header", key, "whole numbers", wrong));
        }
        Ok(numbers.map(|numbers| numbers.into_iter().map(|v| v as u64).collect()))
    }
}

struct Header {
    /// Sizes along x, y, z.
    dims: [u64; 3],
    frames: u64,
    frame: u64,
    channels: usize,
    channel: usize,
    scalar: Scalar,
    is_big_endian: bool,
    is_text: bool,
    is_compressed: bool,
    /// Bytes before the data; -1 = all but the last that are needed.
    skip: i64,
    volume: Volume,
}

impl Header {
    fn new(fields: &Fields<'_>, wanted: &ReadRequest<'_>) -> Result<Self, ContentError> {
        let missing = |key: &str| ContentError::unread("header", format_args!("no field `{key}`"));
        let axes = fields.whole("NDims", 1)?.ok_or_else(|| missing("NDims"))?[0];
        if !(1..=4).contains(&axes) {
            return Err(ContentError::unexpected("header", "NDims", "1 to 4", axes));
        }
        let axes = axes as usize;
        let sizes = fields.whole("DimSize", axes)?.ok_or_else(|| missing("DimSize"))?;
        let size = |axis: usize| sizes.get(axis).copied().unwrap_or(1);
        let dims = [size(0), size(1), size(2)];
        wanted.check_count(voxels(&dims)?)?;
        let frames = size(3);
        let (line, kind) = fields.find(&["ElementType"]).ok_or_else(|| missing("ElementType"))?;
        let scalar = scalar_of(kind).ok_or_else(|| {
            let place = format_args!("line {line}");
            ContentError::unexpected(place, "ElementType", "a number type such as MET_SHORT", quote(kind))
        })?;
        let channels =
            fields.whole("ElementNumberOfChannels", 1)?.map_or(1, |n| n[0].clamp(1, 1 << 20)) as usize;
        let skip = fields.numbers(&["HeaderSize"], 1)?.map_or(0, |n| n[0] as i64);
        if !(-1..=MAX_SKIP as i64).contains(&skip) {
            return Err(ContentError::unexpected(
                "header",
                "HeaderSize",
                format_args!("-1 to {MAX_SKIP}"),
                skip,
            ));
        }
        let is_text =
            fields.find(&["BinaryData"]).is_some_and(|(_, value)| value.eq_ignore_ascii_case("false"));
        Ok(Self {
            dims,
            frames,
            frame: wanted.frame_of(frames)?,
            channels,
            channel: wanted.channel_of(channels, &[])?,
            scalar,
            is_big_endian: fields.is_true(&["BinaryDataByteOrderMSB", "ElementByteOrderMSB"]),
            is_text,
            is_compressed: fields.is_true(&["CompressedData"]),
            skip,
            volume: placed(fields, axes, dims)?,
        })
    }

    /// Decodes the volume from `data`: the bytes after the header, or another file.
    fn volume(self, data: &[u8], wanted: &ReadRequest<'_>) -> Result<Volume, ContentError> {
        let numbers = voxels(&self.dims)?
            .checked_mul(self.frames)
            .and_then(|n| n.checked_mul(self.channels as u64))
            .filter(|n| *n < 1 << 40)
            .ok_or_else(|| ContentError::unread("DimSize", "too many voxels"))?;
        let length = numbers * self.scalar.bytes() as u64;
        let all = if self.is_text {
            let text = std::str::from_utf8(data).map_err(|_| ContentError::unread("data", "not text"))?;
            let words = wanted.words(text, numbers)?;
            words.ok_or_else(|| ContentError::missing("data", "cut off", format_args!("{numbers} values")))?
        } else {
            let skip = match usize::try_from(self.skip) {
                Ok(skip) => skip,
                Err(_) if self.is_compressed => 0,
                Err(_) => data.len().saturating_sub(usize::try_from(length).unwrap_or(usize::MAX)),
            };
            let data = data.get(skip..).unwrap_or_default();
            let mut stream: Box<dyn Read + '_> = match (self.is_compressed, data.starts_with(&[0x1F, 0x8B])) {
                (false, _) => Box::new(wanted.stoppable(data)),
                (true, false) => Box::new(wanted.unzlib(data)),
                (true, true) => Box::new(wanted.gunzip(data)),
            };
            let bytes = read_exactly(&mut stream, length, "data")?;
            wanted.note_left_over(stream);
            self.scalar.decode(&bytes, self.is_big_endian)
        };
        let count = (numbers / self.frames) as usize;
        let frame = all.into_iter().skip(self.frame as usize * count).take(count);
        let values = frame.skip(self.channel).step_by(self.channels).collect();
        Ok(Volume { values, frames: self.frames as usize, ..self.volume })
    }
}

/// The volume without values: spacing, directions and origin, in RAS+.
fn placed(fields: &Fields<'_>, axes: usize, dims: [u64; 3]) -> Result<Volume, ContentError> {
    let spacing = fields.numbers(&["ElementSpacing", "ElementSize"], axes)?.unwrap_or_default();
    let spacing: [f64; 3] = std::array::from_fn(|k| match spacing.get(k).map(|s| s.abs()) {
        Some(s) if s > 0.0 => s,
        _ => 1.0,
    });
    let origin = fields.numbers(&["Offset", "Origin", "Position"], axes)?.unwrap_or_default();
    let matrix = fields.numbers(&["TransformMatrix", "Rotation", "Orientation"], axes * axes)?;
    let mut volume = Volume::on_grid(dims.map(|d| d as usize), spacing, Vec::new());
    for row in 0..3 {
        let flip = if row < 2 { -1.0 } else { 1.0 };
        for k in 0..3 {
            let straight = if row == k { 1.0 } else { 0.0 };
            let direction = match &matrix {
                Some(matrix) if row < axes && k < axes => matrix[k * axes + row],
                _ => straight,
            };
            volume.world_from_index[row][k] = flip * direction * spacing[k];
        }
        volume.world_from_index[row][3] = flip * origin.get(row).copied().unwrap_or(0.0);
    }
    Ok(volume)
}

fn scalar_of(name: &str) -> Option<Scalar> {
    // Names of several numbers a voxel end in `_ARRAY`.
    let name = name.to_uppercase();
    Some(match name.strip_suffix("_ARRAY").unwrap_or(&name) {
        "MET_CHAR" | "MET_ASCII_CHAR" => Scalar::I8,
        "MET_UCHAR" => Scalar::U8,
        "MET_SHORT" => Scalar::I16,
        "MET_USHORT" => Scalar::U16,
        "MET_INT" | "MET_LONG" => Scalar::I32,
        "MET_UINT" | "MET_ULONG" => Scalar::U32,
        "MET_LONG_LONG" => Scalar::I64,
        "MET_ULONG_LONG" => Scalar::U64,
        "MET_FLOAT" => Scalar::F32,
        "MET_DOUBLE" => Scalar::F64,
        _ => return None,
    })
}
