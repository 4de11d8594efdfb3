//! Samples and volumes from files.
//!
//! | file | content |
//! |---|---|
//! | `.csv` `.txt` `.tsv` | rows `x y z value`, header line optional |
//! | `.npy` `.npz` | (N, 4) rows `x y z value`; or a 3-D volume `[x][y][z]`; `.npz`: `points` and `values`, or one array |
//! | `.nrrd` `.nhdr` | volume: raw, gzip, bzip2, ascii; either byte order; detached data |
//! | `.nii` `.nii.gz` `.hdr` | NIfTI-1 volume; 4-D with a frame number |
//! | `.tif` `.tiff` | pages are slices |
//!
//! Headers are not trusted: sizes are checked against the available bytes before memory is allocated, and a data file
//! that a header names must be in the same folder or below.

mod checks;
mod error;
mod nifti;
mod npy;
mod nrrd;
mod scalar;
mod table;
mod tiff;
mod volume;

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

/// File name extensions that can be read.
const FORMATS: &str = ".csv, .npy, .npz, .nrrd, .nhdr, .nii, .nii.gz, .hdr, .tif";

/// Reads a file of samples or a volume.
///
/// # Errors
/// The file cannot be read, is invalid or exceeds a limit; or reading was stopped.
pub fn read(path: &Path, wanted: &ReadRequest<'_>) -> Result<Input, InputError> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let content = |what| InputError::Content { path: path.to_owned(), what: Box::new(what) };
    if format(&name).is_none() {
        return Err(content(no_format()));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = |name: &str| {
        let path =
            resolve_inside(folder, name).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        read_whole(&path, wanted)
    };
    let bytes =
        read_whole(path, wanted).map_err(|source| InputError::Io { path: path.to_owned(), source })?;
    let decoded = catch_decoder_panic(|| decode(&name, &bytes, wanted, &beside));
    decoded.unwrap_or_else(|| Err(ContentError::Decoder.into())).map_err(content)
}

fn no_format() -> DecodeError {
    ContentError::missing("name", "no known format", FORMATS).into()
}

#[derive(Clone, Copy)]
enum Format {
    Table,
    Npy,
    Npz,
    Nrrd,
    Nifti,
    Tiff,
}

fn format(name: &str) -> Option<Format> {
    let name = name.to_lowercase();
    let known: [(&[&str], Format); 6] = [
        (&[".csv", ".txt", ".tsv"], Format::Table),
        (&[".npy"], Format::Npy),
        (&[".npz"], Format::Npz),
        (&[".nrrd", ".nhdr"], Format::Nrrd),
        (&[".nii", ".nii.gz", ".hdr", ".hdr.gz"], Format::Nifti),
        (&[".tif", ".tiff"], Format::Tiff),
    ];
    known.iter().find(|(ends, _)| ends.iter().any(|end| name.ends_with(end))).map(|(_, format)| *format)
}

/// Decodes the bytes of a file, whose name determines the format; `beside` reads files that headers name.
///
/// # Errors
/// The contents are invalid, or a file that the header names cannot be read.
pub fn decode(
    name: &str,
    bytes: &[u8],
    wanted: &ReadRequest<'_>,
    beside: &dyn Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<Input, DecodeError> {
    let (format, frame) = (format(name), wanted.frame);
    if frame > 0 && !matches!(format, None | Some(Format::Nrrd | Format::Nifti)) {
        return Err(ContentError::missing(format_args!("frame {frame}"), "no such frame", 0).into());
    }
    Ok(match format {
        Some(Format::Table) => Input::Samples(table::read(bytes, wanted)?),
        Some(Format::Npy) => npy::read_npy(bytes, wanted)?,
        Some(Format::Npz) => npy::read_npz(bytes, wanted)?,
        Some(Format::Nrrd) => Input::Volume(nrrd::read(bytes, wanted, beside)?),
        Some(Format::Nifti) => Input::Volume(nifti::read(name, bytes, wanted, beside)?),
        Some(Format::Tiff) => Input::Volume(tiff::read(bytes, wanted)?),
        None => return Err(no_format()),
    })
}

/// Reads points `x y z` (further columns are ignored): `.csv` or `.npy`.
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
