//! NIfTI-1 and NIfTI-2 volumes: `.nii`, `.nii.gz`, `.hdr` with `.img`.
//!
//! The header of version 1 is parsed by the `nifti` crate, that of version 2 and all voxels here, so that declared
//! sizes are checked first. Version 2 (<https://nifti.nimh.nih.gov/nifti-2>): 540 bytes, wider numbers, other places.
//! World coordinates: sform if its code is set, else qform, else the voxel sizes; RAS+ millimetres.

use std::io::Read;

use nifti::Endianness;
use nifti::NiftiHeader;

use crate::error::ContentError;
use crate::input::checks::{MAX_INFLATED, MAX_SKIP, ReadRequest, read_exactly, voxels};
use crate::input::error::DecodeError;
use crate::input::scalar::Scalar;
use crate::input::volume::{Affine, Volume, scaling};

/// Lengths of the two kinds of header, which are their first number.
const HEADER_1: usize = 348;
const HEADER_2: usize = 540;

/// A header of either version.
struct Header {
    is_big_endian: bool,
    /// Whether the data are in the same file.
    is_single_file: bool,
    bytes: usize,
    /// Number of axes, then their lengths.
    dim: [u64; 8],
    datatype: i16,
    pixdim: [f64; 8],
    vox_offset: f64,
    slope: f64,
    inter: f64,
    qform_code: i32,
    sform_code: i32,
    quatern: [f64; 3],
    qoffset: [f64; 3],
    srow: Affine,
}

/// Reads a volume from the bytes of a file of this name.
pub(crate) fn read(
    name: &str,
    bytes: &[u8],
    wanted: &ReadRequest<'_>,
    beside: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
) -> Result<Volume, DecodeError> {
    let mut header_bytes = read_exactly(stream(bytes, wanted), HEADER_1 as u64, "header")?;
    let header = match header_bytes.first_chunk::<4>().map(|b| i32::from_le_bytes(*b)) {
        Some(540 | 0x1C02_0000) => {
            header_bytes = read_exactly(stream(bytes, wanted), HEADER_2 as u64, "header")?;
            Header::second(&header_bytes)?
        }
        _ => Header::first(&header_bytes)?,
    };
    let layout = Layout::from_header(&header, wanted)?;
    if header.is_single_file {
        return Ok(volume(&header, &layout, stream(bytes, wanted))?);
    }
    let name = image_file_name(name);
    let data = beside(&name).map_err(|source| DecodeError::DataFile { name, source })?;
    Ok(volume(&header, &layout, stream(&data, wanted))?)
}

/// The bytes, inflated if they are gzip.
fn stream<'a>(bytes: &'a [u8], wanted: &ReadRequest<'a>) -> Box<dyn Read + 'a> {
    if bytes.starts_with(&[0x1F, 0x8B]) {
        Box::new(wanted.gunzip(bytes).take(MAX_INFLATED))
    } else {
        Box::new(wanted.stoppable(bytes))
    }
}

/// `NAME.hdr` → `NAME.img`, with `.gz` if the header has it.
fn image_file_name(name: &str) -> String {
    let cut = |name: &str, end: &str| -> Option<String> {
        let at = name.len().checked_sub(end.len())?;
        let (stem, found) = (name.get(..at)?, name.get(at..)?);
        found.eq_ignore_ascii_case(end).then(|| stem.to_owned())
    };
    let (stem, suffix) = cut(name, ".gz").map_or_else(|| (name.to_owned(), ""), |stem| (stem, ".gz"));
    format!("{}.img{suffix}", cut(&stem, ".hdr").unwrap_or(stem))
}

impl Header {
    fn first(bytes: &[u8]) -> Result<Self, ContentError> {
        let magic = bytes.get(HEADER_1 - 4..).unwrap_or_default();
        let is_single_file = magic.starts_with(b"n+1");
        if !is_single_file && !magic.starts_with(b"ni1") {
            let found = format!("{:?}", String::from_utf8_lossy(magic));
            let error = ContentError::unexpected("header", "not NIfTI-1", "magic n+1 or ni1", found);
            // Analyze 7.5 has a header of this length without a magic number.
            let is_analyze =
                magic.starts_with(&[0]) && matches!(bytes[..4], [0x5C, 1, 0, 0] | [0, 0, 1, 0x5C]);
            let advice =
                "Analyze 7.5 is not read: convert it, for example with `mri_convert IN.img OUT.nii.gz`";
            return Err(if is_analyze { error.with_advice(advice) } else { error });
        }
        let header = NiftiHeader::from_reader(bytes)
            .map_err(|error| ContentError::unread("header", format_args!("not NIfTI-1 ({error})")))?;
        Ok(Self {
            is_big_endian: header.endianness == Endianness::Big,
            is_single_file,
            bytes: HEADER_1,
            dim: header.dim.map(u64::from),
            datatype: header.datatype,
            pixdim: header.pixdim.map(f64::from),
            vox_offset: f64::from(header.vox_offset),
            slope: f64::from(header.scl_slope),
            inter: f64::from(header.scl_inter),
            qform_code: i32::from(header.qform_code),
            sform_code: i32::from(header.sform_code),
            quatern: [header.quatern_b, header.quatern_c, header.quatern_d].map(f64::from),
            qoffset: [header.quatern_x, header.quatern_y, header.quatern_z].map(f64::from),
            srow: [header.srow_x, header.srow_y, header.srow_z].map(|row| row.map(f64::from)),
        })
    }

    /// `bytes` has [`HEADER_2`] bytes.
    fn second(bytes: &[u8]) -> Result<Self, ContentError> {
        let is_big_endian = bytes[0] == 0;
        let magic = &bytes[4..12];
        let is_single_file = magic.starts_with(b"n+2");
        if !is_single_file && !magic.starts_with(b"ni2") {
            let found = format!("{:?}", String::from_utf8_lossy(magic));
            return Err(ContentError::unexpected("header", "not NIfTI-2", "magic n+2 or ni2", found));
        }
        let f64s = |at: usize, count: usize| Scalar::F64.decode(&bytes[at..at + 8 * count], is_big_endian);
        let float = |at: usize| f64s(at, 1)[0];
        let int = |at: usize| Scalar::I32.decode(&bytes[at..at + 4], is_big_endian)[0] as i32;
        let row = |at: usize| std::array::from_fn(|k| float(at + 8 * k));
        let whole = |at: usize| Scalar::I64.decode(&bytes[at..at + 8], is_big_endian)[0];
        Ok(Self {
            is_big_endian,
            is_single_file,
            bytes: HEADER_2,
            // Negative lengths become 0, which is refused; the cast saturates.
            dim: std::array::from_fn(|k| whole(16 + 8 * k) as u64),
            datatype: Scalar::I16.decode(&bytes[12..14], is_big_endian)[0] as i16,
            pixdim: std::array::from_fn(|k| float(104 + 8 * k)),
            vox_offset: whole(168),
            slope: float(176),
            inter: float(184),
            qform_code: int(344),
            sform_code: int(348),
            quatern: std::array::from_fn(|k| float(352 + 8 * k)),
            qoffset: std::array::from_fn(|k| float(376 + 8 * k)),
            srow: [400, 432, 464].map(row),
        })
    }
}

/// Position and type of the data.
struct Layout {
    dims: [u64; 3],
    frames: u64,
    scalar: Scalar,
    /// Bytes before the frame.
    skip: u64,
    /// Bytes of the frame.
    bytes: u64,
}

impl Layout {
    /// Reads the layout from the header and checks it against the limits.
    fn from_header(header: &Header, wanted: &ReadRequest<'_>) -> Result<Self, ContentError> {
        let dimension = header.dim[0];
        if !(1..=7).contains(&dimension) {
            return Err(ContentError::unexpected("header", "dimension", "1 to 7", dimension));
        }
        let size = |axis: u64| if axis <= dimension { header.dim[axis as usize] } else { 1 };
        let dims = [size(1), size(2), size(3)];
        let count = voxels(&dims)?;
        wanted.check_count(count)?;
        let frames = (4..=7).map(size).try_fold(1u64, |n, d| n.checked_mul(d)).unwrap_or(u64::MAX);
        let frame = wanted.frame_of(frames)?;
        let scalar = match header.datatype {
            2 => Scalar::U8,
            4 => Scalar::I16,
            8 => Scalar::I32,
            16 => Scalar::F32,
            64 => Scalar::F64,
            256 => Scalar::I8,
            512 => Scalar::U16,
            768 => Scalar::U32,
            1024 => Scalar::I64,
            1280 => Scalar::U64,
            code => {
                let what = format_args!("datatype {code} is not read");
                return Err(ContentError::missing("header", what, "real numbers"));
            }
        };
        let bytes = count * scalar.bytes() as u64;
        let offset = if header.vox_offset >= 0.0 && header.vox_offset <= MAX_SKIP as f64 {
            (header.vox_offset as u64).max(if header.is_single_file { header.bytes as u64 } else { 0 })
        } else {
            let expected = format_args!("0 to {MAX_SKIP}");
            return Err(ContentError::unexpected("header", "vox_offset", expected, header.vox_offset));
        };
        let skip = frame
            .checked_mul(bytes)
            .and_then(|skip| skip.checked_add(offset))
            .filter(|skip| *skip < MAX_INFLATED)
            .ok_or_else(|| ContentError::unread("header", "data lie too far into the file"))?;
        Ok(Self { dims, frames, scalar, skip, bytes })
    }
}

fn volume(header: &Header, layout: &Layout, mut data: impl Read) -> Result<Volume, ContentError> {
    let &Layout { dims, frames, scalar, skip, bytes } = layout;
    let skipped = std::io::copy(&mut data.by_ref().take(skip), &mut std::io::sink())
        .map_err(|error| ContentError::unread("data", format_args!("damaged ({error})")))?;
    if skipped < skip {
        let (expected, found) = (format_args!("to begin at byte {skip}"), format_args!("{skipped} bytes"));
        return Err(ContentError::unexpected("data", "cut off", expected, found));
    }
    let raw = read_exactly(data, bytes, "data")?;
    let mut values = scalar.decode(&raw, header.is_big_endian);
    let (slope, inter) = (header.slope, header.inter);
    if slope != 0.0 && slope.is_finite() && inter.is_finite() && (slope, inter) != (1.0, 0.0) {
        values.iter_mut().for_each(|v| *v = slope * *v + inter);
    }
    let spacing = std::array::from_fn(|k| {
        let d = header.pixdim[k + 1].abs();
        if d.is_finite() && d > 0.0 { d } else { 1.0 }
    });
    Ok(Volume {
        dims: dims.map(|d| d as usize),
        spacing,
        world_from_index: affine(header, spacing),
        values,
        frames: frames as usize,
    })
}

fn affine(header: &Header, spacing: [f64; 3]) -> Affine {
    let is_usable = |m: &Affine| {
        let det = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
        det != 0.0 && m.as_flattened().iter().all(|v| v.is_finite())
    };
    if header.sform_code > 0 && is_usable(&header.srow) {
        return header.srow;
    }
    if header.qform_code > 0 {
        let [b, c, d] = header.quatern;
        let a = (1.0 - b * b - c * c - d * d).max(0.0).sqrt();
        let handedness = if header.pixdim[0] < 0.0 { -1.0 } else { 1.0 };
        let s = [spacing[0], spacing[1], spacing[2] * handedness];
        let t = header.qoffset;
        let r = [
            [a * a + b * b - c * c - d * d, 2.0 * (b * c - a * d), 2.0 * (b * d + a * c)],
            [2.0 * (b * c + a * d), a * a + c * c - b * b - d * d, 2.0 * (c * d - a * b)],
            [2.0 * (b * d - a * c), 2.0 * (c * d + a * b), a * a + d * d - b * b - c * c],
        ];
        let m = std::array::from_fn(|i| [r[i][0] * s[0], r[i][1] * s[1], r[i][2] * s[2], t[i]]);
        if is_usable(&m) {
            return m;
        }
    }
    scaling(spacing)
}
