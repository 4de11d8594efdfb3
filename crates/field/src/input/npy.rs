//! NumPy arrays: `.npy` and `.npz`.

use std::fmt::Display;
use std::io::{Cursor, Read};

use gausset_io::text::excerpt;
use npyz::{DType, NpyFile, Order, TypeChar};

use crate::error::ContentError;
use crate::fit::Samples;
use crate::input::checks::{ReadRequest, read_exactly, voxels};
use crate::input::scalar::Scalar;
use crate::input::volume::{Input, Volume};

/// An array as f64, in C order.
struct Array {
    shape: Vec<u64>,
    values: Vec<f64>,
}

/// Samples (N, 4) or a volume.
pub(crate) fn read_npy(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Input, ContentError> {
    interpret(array(bytes, "array", wanted)?)
}

/// Points (N, 3) or (N, 4).
pub(crate) fn read_points(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Vec<[f64; 3]>, ContentError> {
    let array = array(bytes, "array", wanted)?;
    match array.shape[..] {
        [_, columns @ (3 | 4)] => {
            Ok(array.values.chunks_exact(columns as usize).map(|r| [r[0], r[1], r[2]]).collect())
        }
        _ => Err(wrong_shape("array", "(N, 3)", &array.shape)),
    }
}

/// Arrays `points` (N, 3) and `values` (N); or the only array of the archive, as [`read_npy`].
pub(crate) fn read_npz(bytes: &[u8], wanted: &ReadRequest<'_>) -> Result<Input, ContentError> {
    let mut archive =
        zip::ZipArchive::new(Cursor::new(bytes)).map_err(|e| ContentError::unread("archive", e))?;
    let names: Vec<String> = archive.file_names().filter_map(|name| Some(name.ok()?.into_owned())).collect();
    let mut load = |name: &str| -> Result<Array, ContentError> {
        let file = archive.by_name(name).map_err(|e| ContentError::unread(name, e))?;
        let mut file = wanted.stoppable(file);
        let mut content = read_header(&mut file).map_err(|error| error.within(name))?;
        // The header declares the inflated size: an archive can inflate to a thousand times its length.
        let (shape, size) = declared(&content, name)?;
        let data = voxels(&shape).map_err(|error| error.within(name))?.saturating_mul(size);
        wanted.check_count(samples(&shape))?;
        content.extend(read_exactly(file, data, name)?);
        array(&content, name, wanted)
    };
    let find =
        |wanted: &[&str]| names.iter().find(|name| wanted.contains(&name.trim_end_matches(".npy"))).cloned();
    match (find(&["points", "x", "xyz"]), find(&["values", "y", "v"])) {
        (Some(points), Some(values)) => {
            let (points, values) = (load(&points)?, load(&values)?);
            let n = values.values.len() as u64;
            if points.shape != [n, 3] {
                let expected = format_args!("({n}, 3) for {n} values");
                return Err(wrong_shape("points", expected, &points.shape));
            }
            let points = points.values.as_chunks().0.to_vec();
            Ok(Input::Samples(Samples { points, values: values.values, grid: None }))
        }
        _ if names.len() == 1 => interpret(load(&names[0])?),
        _ => {
            let what = "expected arrays `points` and `values`, or one array";
            Err(ContentError::unusable("archive", what, format_args!("{names:?}")))
        }
    }
}

/// Number of samples in an array: rows, or voxels.
fn samples(shape: &[u64]) -> u64 {
    match shape {
        [rows, 1..=4] => *rows,
        _ => shape.iter().fold(1, |count, side| count.saturating_mul(*side)),
    }
}

fn interpret(array: Array) -> Result<Input, ContentError> {
    match array.shape[..] {
        [_, 4] => {
            let rows: &[[f64; 4]] = array.values.as_chunks().0;
            let points = rows.iter().map(|[x, y, z, _]| [*x, *y, *z]).collect();
            let values = rows.iter().map(|row| row[3]).collect();
            Ok(Input::Samples(Samples { points, values, grid: None }))
        }
        [nx, ny, nz] => {
            voxels(&array.shape)?;
            let dims = [nx as usize, ny as usize, nz as usize];
            // In C order z is fastest; volumes here have x fastest.
            let mut values = vec![0.0; array.values.len()];
            for (from, value) in array.values.iter().enumerate() {
                let (i, j, k) = (from / (dims[1] * dims[2]), from / dims[2] % dims[1], from % dims[2]);
                values[i + dims[0] * (j + dims[1] * k)] = *value;
            }
            Ok(Input::Volume(Volume::on_grid(dims, [1.0; 3], values)))
        }
        _ => Err(wrong_shape("array", "(N, 4) rows x y z value or a 3-D volume", &array.shape)),
    }
}

fn wrong_shape(place: &str, expected: impl Display, found: &[u64]) -> ContentError {
    ContentError::unexpected(place, "wrong shape", expected, format_args!("{found:?}"))
}

/// The header of a `.npy` stream: magic, version, length, text.
fn read_header(stream: &mut impl Read) -> Result<Vec<u8>, ContentError> {
    let mut bytes = read_exactly(&mut *stream, 8, "header: magic")?;
    let wide = bytes[6] >= 2;
    bytes.extend(read_exactly(&mut *stream, if wide { 4 } else { 2 }, "header: length")?);
    let length = header_length(&bytes)?;
    bytes.extend(read_exactly(stream, length - bytes.len() as u64, "header: text")?);
    Ok(bytes)
}

/// Length of the header including everything before its text.
fn header_length(bytes: &[u8]) -> Result<u64, ContentError> {
    /// Largest length: headers are one line of text.
    const MAX_HEADER: u64 = 1 << 20;
    let length = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => 10 + u64::from(u16::from_le_bytes([*a, *b])),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            12 + u64::from(u32::from_le_bytes([*a, *b, *c, *d]))
        }
        _ => {
            let expected = "its magic and version 1 to 3";
            return Err(ContentError::missing("header", "not a .npy file", expected));
        }
    };
    if length > MAX_HEADER {
        let expected = format_args!("at most {MAX_HEADER} bytes");
        return Err(ContentError::unexpected("header", "too long", expected, length));
    }
    Ok(length)
}

/// Refuses deeply nested headers: the library's parser takes twice as long for each further bracket.
fn check_depth(header: &[u8]) -> Result<(), ContentError> {
    /// A dictionary that holds tuples and, for records, lists of tuples of lists.
    const MAX_DEPTH: usize = 6;
    let mut depth = 0usize;
    for byte in header {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            let expected = format_args!("at most {MAX_DEPTH} deep");
            return Err(ContentError::missing("header", "brackets nested too deep", expected));
        }
    }
    Ok(())
}

fn not_npy(place: &str, error: std::io::Error) -> ContentError {
    ContentError::unread("header", format_args!("not a .npy file ({})", excerpt(&error.to_string())))
        .within(place)
}

/// Shape, and bytes per number.
fn declared(bytes: &[u8], place: &str) -> Result<(Vec<u64>, u64), ContentError> {
    let length = header_length(bytes).map_err(|error| error.within(place))?;
    let header = usize::try_from(length).ok().and_then(|length| bytes.get(..length)).unwrap_or(bytes);
    check_depth(header).map_err(|error| error.within(place))?;
    let file = NpyFile::new(header).map_err(|error| not_npy(place, error))?;
    let header = file.header();
    let DType::Plain(kind) = header.dtype() else {
        let found = header.dtype().descr();
        return Err(ContentError::unexpected(place, "wrong type", "numbers", found));
    };
    Ok((header.shape().to_vec(), kind.size_field().max(1)))
}

fn array(bytes: &[u8], place: &str, wanted: &ReadRequest<'_>) -> Result<Array, ContentError> {
    let length = header_length(bytes).map_err(|error| error.within(place))?;
    let held = (bytes.len() as u64).checked_sub(length);
    let cut_off = || ContentError::missing("header", "cut off", format_args!("{length} bytes")).within(place);
    let held = held.ok_or_else(cut_off)?;
    let (shape, size) = declared(bytes, place)?;
    wanted.check_count(samples(&shape))?;
    let count = shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d)).unwrap_or(u64::MAX);
    if count.checked_mul(size).is_none_or(|wanted| wanted > held) {
        let what = format_args!("shape {shape:?} needs more bytes than there are ({held})");
        return Err(ContentError::unread(place, what));
    }
    let file = NpyFile::new(wanted.stoppable(bytes)).map_err(|error| not_npy(place, error))?;
    let header = file.header().clone();
    let DType::Plain(kind) = header.dtype() else {
        let found = header.dtype().descr();
        return Err(ContentError::unexpected(place, "wrong type", "numbers", found));
    };
    let wrong = |error: std::io::Error| ContentError::unread("data", error).within(place);
    macro_rules! read {
        ($type:ty) => {{
            let numbers = file.into_vec::<$type>().map_err(wrong)?;
            numbers.into_iter().map(|v| v as f64).collect::<Vec<f64>>()
        }};
    }
    let values = match (kind.type_char(), size) {
        (TypeChar::Bool, 1) => held_numbers(bytes, length, Scalar::U8, false, count),
        (TypeChar::Float, 2) => {
            let is_big = kind.endianness() == npyz::Endianness::Big;
            held_numbers(bytes, length, Scalar::F16, is_big, count)
        }
        (TypeChar::Float, 4) => read!(f32),
        (TypeChar::Float, 8) => read!(f64),
        (TypeChar::Int, 1) => read!(i8),
        (TypeChar::Int, 2) => read!(i16),
        (TypeChar::Int, 4) => read!(i32),
        (TypeChar::Int, 8) => read!(i64),
        (TypeChar::Uint, 1) => read!(u8),
        (TypeChar::Uint, 2) => read!(u16),
        (TypeChar::Uint, 4) => read!(u32),
        (TypeChar::Uint, 8) => read!(u64),
        _ => {
            let descr = header.dtype().descr();
            return Err(ContentError::unexpected(place, "wrong type", "real numbers", descr));
        }
    };
    let values = match header.order() {
        Order::C => values,
        Order::Fortran => to_c_order(&shape, &values),
    };
    Ok(Array { shape, values })
}

/// The numbers after the header, of types that the library does not read; their bytes are known to be there.
fn held_numbers(bytes: &[u8], header: u64, scalar: Scalar, is_big_endian: bool, count: u64) -> Vec<f64> {
    let data = &bytes[header as usize..];
    scalar.decode(&data[..count as usize * scalar.bytes()], is_big_endian)
}

fn to_c_order(shape: &[u64], values: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; values.len()];
    for (from, value) in values.iter().enumerate() {
        let mut rest = from;
        let mut to = 0;
        let mut index = Vec::with_capacity(shape.len());
        for &d in shape {
            index.push(rest % d as usize);
            rest /= d as usize;
        }
        for (i, &d) in index.iter().zip(shape) {
            to = to * d as usize + i;
        }
        out[to] = *value;
    }
    out
}
