//! Samples and volumes from files.
//!
//! | file | content |
//! |---|---|
//! | `.csv` `.txt` `.tsv` | rows `x y z value`, or columns by their names |
//! | `.npy` `.npz` | (N, 4) rows `x y z value`; or a 3-D volume `[x][y][z]`; `.npz`: `points` and `values`, or one array |
//! | `.nrrd` `.nhdr` | volume: raw, gzip, bzip2, ascii; either byte order; detached data |
//! | `.nii` `.nii.gz` `.hdr` | NIfTI-1 and NIfTI-2 volume; 4-D with a frame number |
//! | `.mha` `.mhd` | MetaImage: raw, zlib, ascii; local or detached data |
//! | `.vti` | VTK image data: ascii, base64 or raw, zlib |
//! | `.tif` `.tiff` | pages are slices, channels or frames, as ImageJ or OME-XML describe them |
//! | a folder | a slice per `.tif` or `.png`, in the order of the numbers in the names |
//!
//! Headers are not trusted: sizes are checked against the available bytes before memory is allocated, and a data file
//! that a header names must be in the same folder or below.

mod checks;
mod column_names;
mod error;
mod metaimage;
mod nifti;
mod npy;
mod nrrd;
mod png;
mod scalar;
mod slices;
mod table;
mod tiff;
mod tiff_axes;
mod unread;
mod volume;
mod vti;

use std::io;
use std::path::Path;

use gausset_io::image::catch_decoder_panic;
use gausset_io::input::{self, resolve_inside};

pub use checks::ReadRequest;
pub use error::{DecodeError, InputError};
pub use nrrd::{NrrdHeader, parse_header as parse_nrrd_header};
pub use volume::{Affine, IDENTITY, Input, Volume};

use crate::error::ContentError;
use crate::memory;

/// Reads a file of samples or a volume, or a folder of slices.
///
/// # Errors
/// The file cannot be read, is invalid or exceeds a limit; or reading was stopped.
pub fn read(path: &Path, wanted: &ReadRequest<'_>) -> Result<Input, InputError> {
    let content = |what| InputError::Content { path: path.to_owned(), what: Box::new(what) };
    let io = |source| InputError::Io { path: path.to_owned(), source };
    if path.is_dir() {
        let volume = slices::read(path, wanted)?;
        return finished(Input::Volume(volume), wanted).map_err(|what| content(what.into()));
    }
    let mut source = path.to_owned();
    let mut name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if format(&name).is_none() {
        // The voxels of a NIfTI pair: its header says what they are.
        match unread::header_of(path) {
            Some(header) => {
                source.set_file_name(&header);
                name = header;
            }
            None => return Err(content(unread::no_format(path, &name).into())),
        }
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = |name: &str| {
        let path =
            resolve_inside(folder, name).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        read_whole(&path, wanted)
    };
    let bytes = read_whole(&source, wanted).map_err(io)?;
    let decoded = catch_decoder_panic(|| decode(&name, &bytes, wanted, &beside));
    decoded.unwrap_or_else(|| Err(ContentError::Decoder.into())).map_err(content)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Npy,
    Npz,
    Nrrd,
    Nifti,
    MetaImage,
    Vti,
    Tiff,
    Png,
}

fn format(name: &str) -> Option<Format> {
    let name = name.to_lowercase();
    let known: [(&[&str], Format); 9] = [
        (&[".csv", ".txt", ".tsv"], Format::Table),
        (&[".npy"], Format::Npy),
        (&[".npz"], Format::Npz),
        (&[".nrrd", ".nhdr"], Format::Nrrd),
        (&[".nii", ".nii.gz", ".hdr", ".hdr.gz"], Format::Nifti),
        (&[".mha", ".mhd"], Format::MetaImage),
        (&[".vti"], Format::Vti),
        (&[".tif", ".tiff"], Format::Tiff),
        (&[".png"], Format::Png),
    ];
    known.iter().find(|(ends, _)| ends.iter().any(|end| name.ends_with(end))).map(|(_, format)| *format)
}

/// Decodes the bytes of a file, whose name determines the format; `beside` reads files that headers name.
///
/// Samples that are NaN are left out; voxels stay NaN.
///
/// # Errors
/// The contents are invalid, or a file that the header names cannot be read.
pub fn decode(
    name: &str,
    bytes: &[u8],
    wanted: &ReadRequest<'_>,
    beside: &dyn Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<Input, DecodeError> {
    let Some(format) = format(name) else { return Err(unread::no_format(Path::new(name), name).into()) };
    if matches!(format, Format::Table | Format::Npy | Format::Npz) {
        wanted.frame_of(1)?;
    }
    if !matches!(format, Format::Nrrd | Format::MetaImage | Format::Vti | Format::Tiff | Format::Png) {
        wanted.channel_of(1, &[])?;
    }
    let input = match format {
        Format::Table => Input::Samples(table::read(bytes, wanted)?),
        Format::Npy => npy::read_npy(bytes, wanted)?,
        Format::Npz => npy::read_npz(bytes, wanted)?,
        Format::Nrrd => Input::Volume(nrrd::read(bytes, wanted, beside)?),
        Format::Nifti => Input::Volume(nifti::read(name, bytes, wanted, beside)?),
        Format::MetaImage => Input::Volume(metaimage::read(bytes, wanted, beside)?),
        Format::Vti => Input::Volume(vti::read(bytes, wanted)?),
        Format::Tiff => Input::Volume(tiff::read(bytes, wanted)?),
        Format::Png => Input::Volume(png::read(bytes, wanted)?),
    };
    Ok(finished(input, wanted)?)
}

/// Applies the spacing, counts what is NaN, and leaves such samples out.
fn finished(mut input: Input, wanted: &ReadRequest<'_>) -> Result<Input, ContentError> {
    match &mut input {
        Input::Volume(volume) => {
            checks::count_missing(&volume.values, "voxel", wanted)?;
            if let Some(spacing) = wanted.spacing {
                if !spacing.iter().all(|s| s.is_finite() && *s > 0.0) {
                    let found = format_args!("{} {} {}", spacing[0], spacing[1], spacing[2]);
                    return Err(ContentError::unexpected(
                        "⟨spacing⟩",
                        "unusable",
                        "three lengths above 0",
                        found,
                    ));
                }
                volume.set_spacing(spacing);
            }
        }
        Input::Samples(samples) => {
            if wanted.spacing.is_some() {
                let expected = "a volume: samples have their own positions";
                return Err(ContentError::missing("⟨spacing⟩", "no voxels", expected));
            }
            // A row without a coordinate has no value either.
            let points = samples.points.iter().zip(&mut samples.values);
            points.filter(|(x, _)| x.iter().any(|c| c.is_nan())).for_each(|(_, value)| *value = f64::NAN);
            if checks::count_missing(&samples.values, "sample", wanted)? > 0 {
                let mut kept = samples.values.iter().map(|value| !value.is_nan());
                samples.points.retain(|_| kept.next().unwrap_or(false));
                samples.values.retain(|value| !value.is_nan());
            }
            if let Some(row) = samples.points.iter().position(|x| x.iter().any(|c| c.is_infinite())) {
                let found = format_args!("{:?}", samples.points[row]);
                return Err(ContentError::unexpected(
                    format_args!("row {row}"),
                    "not finite",
                    "numbers",
                    found,
                ));
            }
        }
    }
    Ok(input)
}

/// Reads points `x y z` (a column of values is ignored): `.csv` or `.npy`.
///
/// # Errors
/// The file cannot be read or is invalid.
pub fn read_points(path: &Path) -> Result<Vec<[f64; 3]>, InputError> {
    let content =
        |what: ContentError| InputError::Content { path: path.to_owned(), what: Box::new(what.into()) };
    let wanted = ReadRequest::default();
    let bytes =
        read_whole(path, &wanted).map_err(|source| InputError::Io { path: path.to_owned(), source })?;
    let is_npy = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    let decoded = catch_decoder_panic(|| {
        if is_npy { npy::read_points(&bytes, &wanted) } else { table::read_points(&bytes, &wanted) }
    });
    let points = decoded.unwrap_or(Err(ContentError::Decoder)).map_err(content)?;
    let bad = points.iter().position(|point| !point.iter().all(|x| x.is_finite()));
    match bad {
        Some(row) => {
            let (place, found) = (format_args!("row {row}"), format_args!("{:?}", points[row]));
            Err(content(ContentError::unexpected(place, "not finite", "numbers", found)))
        }
        None => Ok(points),
    }
}

fn read_whole(path: &Path, wanted: &ReadRequest<'_>) -> io::Result<Vec<u8>> {
    input::read_unless(wanted.stop, path, memory::max_file_bytes())
}
