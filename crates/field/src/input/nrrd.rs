//! NRRD volumes (Nearly Raw Raster Data, version 1 to 5): header lines, a blank line, data.
//!
//! Read: `raw`, `gzip`, `bzip2`, `ascii`; both byte orders; data in the file or beside it (`data file`), `line skip`,
//! `byte skip`; one axis that is not of space becomes frames. Not read: `block` and `hex`, lists of data files.

use std::io::Read;

use gausset_io::units::quote;

use crate::input::scalar::Scalar;
use crate::input::{Affine, DecodeError, MAX_SKIP, Volume, all_finite, read_exactly, scaling, voxels};

/// How data are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Raw,
    Gzip,
    Bzip2,
    Ascii,
}

/// A header that makes sense.
#[derive(Clone, Debug)]
pub struct NrrdHeader {
    scalar: Scalar,
    encoding: Encoding,
    is_big_endian: bool,
    /// Sizes of the three axes of space.
    dims: [u64; 3],
    spacing: [f64; 3],
    world_from_index: Affine,
    /// Number of frames and whether they are the fastest axis.
    frames: u64,
    frames_first: bool,
    data_file: Option<String>,
    line_skip: u64,
    byte_skip: i64,
    /// Bytes of the header in its file.
    length: usize,
}

/// Reads a volume.
pub(crate) fn read(
    bytes: &[u8],
    frame: usize,
    beside: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
) -> Result<Volume, DecodeError> {
    let header = parse_header(bytes)?;
    let data_file = header.data_file.as_deref();
    let detached = data_file
        .map(|name| beside(name).map_err(|source| DecodeError::Beside { name: name.to_owned(), source }))
        .transpose()?;
    let data = detached.as_deref().unwrap_or_else(|| bytes.get(header.length..).unwrap_or_default());
    Ok(header.volume(data, frame)?)
}

/// Parses a header.
///
/// # Errors
/// What is wrong, with its place.
pub fn parse_header(bytes: &[u8]) -> Result<NrrdHeader, String> {
    if !bytes.starts_with(b"NRRD000") {
        return Err("line 1: not an NRRD file (expected NRRD000x)".to_owned());
    }
    let mut fields: Vec<(usize, String, String)> = Vec::new();
    let mut at = 0;
    let mut number = 0;
    let mut is_closed = false;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = rest.iter().position(|b| *b == b'\n');
        let line = &rest[..end.unwrap_or(rest.len())];
        at += line.len() + usize::from(end.is_some());
        number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if number == 1 {
            continue;
        }
        if line.is_empty() {
            is_closed = true;
            break;
        }
        if number > 10_000 || line.len() > 65_536 {
            return Err(format!("line {number}: no end of the header in sight"));
        }
        let text = std::str::from_utf8(line).map_err(|_| format!("line {number}: not text"))?;
        // `:=` are key/value pairs for other programs.
        if text.starts_with('#') || text.contains(":=") {
            continue;
        }
        let Some((key, value)) = text.split_once(':') else {
            return Err(format!("line {number}: not a field (expected `key: value`, found {})", quote(text)));
        };
        let key = key.trim().to_lowercase().replace(' ', "");
        fields.push((number, key, value.trim().to_owned()));
    }
    let find = |names: &[&str]| {
        fields.iter().find(|(_, key, _)| names.contains(&key.as_str())).map(|(n, _, v)| (*n, v.as_str()))
    };
    let need = |name: &str| find(&[name]).ok_or_else(|| format!("header: no field `{name}`"));
    let data_file = find(&["datafile"]).map(|(_, name)| name.to_owned());
    if !is_closed && data_file.is_none() {
        return Err("header: cut off (expected a blank line before the data)".to_owned());
    }
    if let Some(name) = data_file.as_deref().filter(|name| name.starts_with("LIST") || name.contains('%')) {
        return Err(format!("data file: lists of files are not read (found {})", quote(name)));
    }
    let (line, kind) = need("type")?;
    let scalar = scalar_of(kind).ok_or_else(|| {
        format!("line {line}: unknown type (expected a number type, found {})", quote(kind))
    })?;
    let (line, dimension) = need("dimension")?;
    let dimension: usize = dimension
        .parse()
        .ok()
        .filter(|d| (1..=4).contains(d))
        .ok_or_else(|| format!("line {line}: dimension (expected 1 to 4, found {})", quote(dimension)))?;
    let (line, sizes) = need("sizes")?;
    let sizes: Vec<u64> = sizes.split_whitespace().map_while(|word| word.parse().ok()).collect();
    if sizes.len() != dimension {
        return Err(format!(
            "line {line}: sizes (expected {dimension} whole numbers, found {})",
            sizes.len()
        ));
    }
    voxels(&sizes).map_err(|what| format!("line {line}: {what}"))?;
    let (line, word) = need("encoding")?;
    let encoding = match word.to_lowercase().as_str() {
        "raw" => Encoding::Raw,
        "gzip" | "gz" => Encoding::Gzip,
        "bzip2" | "bz2" => Encoding::Bzip2,
        "ascii" | "text" | "txt" => Encoding::Ascii,
        _ => {
            return Err(format!(
                "line {line}: encoding (expected raw, gzip, bzip2 or ascii, found {})",
                quote(word)
            ));
        }
    };
    let is_big_endian = match find(&["endian"]) {
        Some((_, word)) if word.eq_ignore_ascii_case("big") => true,
        Some((_, word)) if word.eq_ignore_ascii_case("little") => false,
        Some((line, word)) => {
            return Err(format!("line {line}: endian (expected little or big, found {})", quote(word)));
        }
        None if scalar.bytes() > 1 && encoding != Encoding::Ascii => {
            return Err("header: no field `endian`, which this type needs".to_owned());
        }
        None => false,
    };
    let directions: Option<Vec<Option<[f64; 3]>>> = match find(&["spacedirections"]) {
        Some((line, text)) => Some(vectors(text, dimension).ok_or_else(|| {
            format!(
                "line {line}: space directions (expected {dimension} vectors or `none`, found {})",
                quote(text)
            )
        })?),
        None => None,
    };
    let spacings: Vec<f64> = match find(&["spacings"]) {
        Some((line, text)) => {
            let found: Vec<f64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
            if found.len() != dimension {
                return Err(format!(
                    "line {line}: spacings (expected {dimension} numbers, found {})",
                    quote(text)
                ));
            }
            found
        }
        None => vec![1.0; dimension],
    };
    let kinds: Vec<String> = find(&["kinds"])
        .map(|(_, text)| text.split_whitespace().map(str::to_lowercase).collect())
        .unwrap_or_default();
    let is_space = |axis: usize| match &directions {
        Some(directions) => directions[axis].is_some(),
        None => {
            kinds.get(axis).is_none_or(|kind| matches!(kind.as_str(), "domain" | "space" | "???" | "none"))
        }
    };
    let mut space: Vec<usize> = (0..dimension).filter(|&axis| is_space(axis)).collect();
    if dimension == 4 && space.len() == 4 {
        // Without a word about it, the slowest axis counts frames.
        space.pop();
    }
    if space.len() > 3 || dimension - space.len() > 1 || space.is_empty() {
        return Err(format!(
            "header: axes (expected up to 3 of space and at most one other, found {dimension})"
        ));
    }
    let other = (0..dimension).find(|axis| !space.contains(axis));
    if other.is_some_and(|axis| axis != 0 && axis != dimension - 1) {
        return Err("header: axes (expected the axis that is not of space first or last)".to_owned());
    }
    let mut header = NrrdHeader {
        scalar,
        encoding,
        is_big_endian,
        dims: [1; 3],
        spacing: [1.0; 3],
        world_from_index: scaling([1.0; 3]),
        frames: other.map_or(1, |axis| sizes[axis]),
        frames_first: other == Some(0) && dimension > 1,
        data_file,
        line_skip: number_of(find(&["lineskip"]))?.unwrap_or(0) as u64,
        byte_skip: number_of(find(&["byteskip"]))?.unwrap_or(0),
        length: at,
    };
    // LPS and LAS run the other way from RAS+.
    let flip = match find(&["space"]).map(|(_, word)| word.to_lowercase()).as_deref() {
        Some("left-posterior-superior" | "lps") => [-1.0, -1.0, 1.0],
        Some("left-anterior-superior" | "las") => [-1.0, 1.0, 1.0],
        _ => [1.0; 3],
    };
    let origin = find(&["spaceorigin"]).and_then(|(_, text)| vectors(text, 1)).and_then(|v| v[0]);
    for (k, &axis) in space.iter().enumerate() {
        header.dims[k] = sizes[axis];
        let spacing = match directions.as_ref().and_then(|d| d[axis]) {
            Some(d) => (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt(),
            None => spacings[axis].abs(),
        };
        // `nan` stands for unknown.
        header.spacing[k] = if spacing.is_finite() && spacing > 0.0 { spacing } else { 1.0 };
    }
    header.world_from_index = scaling(header.spacing);
    if let Some(directions) = &directions {
        for (k, &axis) in space.iter().enumerate() {
            if let Some(direction) = directions[axis] {
                (0..3).for_each(|row| header.world_from_index[row][k] = direction[row]);
            }
        }
    }
    for row in 0..3 {
        header.world_from_index[row][3] = origin.map_or(0.0, |o| o[row]);
        header.world_from_index[row] = header.world_from_index[row].map(|v| flip[row] * v);
    }
    Ok(header)
}

fn number_of(field: Option<(usize, &str)>) -> Result<Option<i64>, String> {
    match field {
        None => Ok(None),
        Some((line, text)) => match text.parse::<i64>() {
            Ok(n) if n >= -1 => Ok(Some(n)),
            _ => Err(format!("line {line}: skip (expected a whole number, found {})", quote(text))),
        },
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
    /// The volume in `data`, which begins where the header ends or is a file of its own.
    ///
    /// # Errors
    /// What is wrong, with its place.
    pub fn volume(&self, data: &[u8], frame: usize) -> Result<Volume, String> {
        let frames = self.frames as usize;
        if frame >= frames {
            return Err(format!("frame {frame}: no such frame (expected 0 to {})", frames - 1));
        }
        let count = voxels(&self.dims)?;
        let total = count.checked_mul(self.frames).ok_or("size: too many voxels")?;
        let wanted = total * self.scalar.bytes() as u64;
        let mut data = data;
        for skipped in 0..self.line_skip {
            let end = data.iter().position(|b| *b == b'\n');
            let end = end.ok_or_else(|| {
                format!("data: cut off (expected {} lines, found {skipped})", self.line_skip)
            })?;
            data = &data[end + 1..];
        }
        let values = match self.encoding {
            Encoding::Ascii => ascii(data, total)?,
            Encoding::Raw => {
                let skip = match u64::try_from(self.byte_skip) {
                    Ok(skip) => skip,
                    Err(_) => (data.len() as u64).checked_sub(wanted).unwrap_or(u64::MAX),
                };
                let from = usize::try_from(skip).ok().and_then(|skip| data.get(skip..)).unwrap_or_default();
                self.decode(&read_exactly(from, wanted, "data")?)
            }
            Encoding::Gzip => self.inflate(flate2::read::MultiGzDecoder::new(data), wanted)?,
            Encoding::Bzip2 => self.inflate(bzip2::read::MultiBzDecoder::new(data), wanted)?,
        };
        let count = count as usize;
        let values: Vec<f64> = if self.frames_first && frames > 1 {
            values.into_iter().skip(frame).step_by(frames).collect()
        } else {
            values.into_iter().skip(frame * count).take(count).collect()
        };
        all_finite(&values)?;
        Ok(Volume {
            dims: self.dims.map(|d| d as usize),
            spacing: self.spacing,
            world_from_index: self.world_from_index,
            values,
            frames,
        })
    }

    fn decode(&self, bytes: &[u8]) -> Vec<f64> {
        self.scalar.decode(bytes, self.is_big_endian)
    }

    fn inflate(&self, mut stream: impl Read, wanted: u64) -> Result<Vec<f64>, String> {
        let skip = u64::try_from(self.byte_skip).unwrap_or(0);
        if skip > MAX_SKIP {
            return Err(format!("byte skip: too far (expected at most {MAX_SKIP}, found {skip})"));
        }
        std::io::copy(&mut stream.by_ref().take(skip), &mut std::io::sink())
            .map_err(|error| format!("data: damaged ({error})"))?;
        Ok(self.decode(&read_exactly(stream, wanted, "data")?))
    }
}

fn ascii(data: &[u8], total: u64) -> Result<Vec<f64>, String> {
    let text = std::str::from_utf8(data).map_err(|_| "data: not text".to_owned())?;
    let mut values = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()) {
        if values.len() as u64 == total {
            break;
        }
        let value: f64 = word
            .parse()
            .map_err(|_| format!("value {}: not a number (found {})", values.len(), quote(word)))?;
        values.push(value);
    }
    if (values.len() as u64) < total {
        return Err(format!("data: cut off (expected {total} values, found {})", values.len()));
    }
    Ok(values)
}
