//! Samples and volumes from files.
//!
//! | file | what |
//! |---|---|
//! | `.csv` `.txt` `.tsv` | rows `x y z value`, header line optional |
//! | `.npy` `.npz` | (N, 4) rows `x y z value`; or a 3-D volume `[x][y][z]`; `.npz`: arrays `points` + `values`, or its only array |
//! | `.nrrd` `.nhdr` | volume: raw, gzip, bzip2, ascii; either byte order; detached data |
//! | `.nii` `.nii.gz` `.hdr` | NIfTI-1 volume; 4-D with a frame number |
//! | `.tif` `.tiff` | pages are slices |
//!
//! A header is never believed: sizes are checked against the bytes that are there before memory is taken for them, and
//! the data file that it names lies in its own folder or below.

mod nifti;
mod npy;
mod nrrd;
mod scalar;
mod table;
mod tiff;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use gausset_io::image::run_decoder;
use gausset_io::input::{self, inside};
use gausset_io::units::quote;

pub use nrrd::{NrrdHeader, parse_header as parse_nrrd_header};

use crate::fit::{Grid, Samples};
use crate::memory;

/// Most voxels or samples.
const MAX_SAMPLES: u64 = u32::MAX as u64 - 64;
/// Most bytes that a compressed file is inflated to.
const MAX_INFLATED: u64 = 64 << 30;
/// Farthest that data may begin in a file, frames apart.
const MAX_SKIP: u64 = 1 << 30;

/// An affine map of ℝ³: three rows of a 4x4 matrix.
pub type Affine = [[f64; 4]; 3];

/// The map that changes nothing.
pub const IDENTITY: Affine = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];

/// A dense volume, x fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Voxels along the axes.
    pub dims: [usize; 3],
    /// Distance of voxel centres along the axes, in the file's unit.
    pub spacing: [f64; 3],
    /// World position of a voxel index. NIfTI: RAS+ millimetres; NRRD with `left-posterior-superior`: turned to RAS+.
    pub world_from_index: Affine,
    /// Values, scaled as the header says.
    pub values: Vec<f64>,
    /// Frames in the file, of which this is one.
    pub frames: usize,
}

impl Volume {
    /// A volume on a plain grid.
    #[must_use]
    pub fn on_grid(dims: [usize; 3], spacing: [f64; 3], values: Vec<f64>) -> Self {
        let world_from_index = scaling(spacing);
        Self { dims, spacing, world_from_index, values, frames: 1 }
    }

    /// Its voxels as samples at `index * spacing`.
    #[must_use]
    pub fn samples(&self) -> Samples {
        let [nx, ny, nz] = self.dims;
        let mut points = Vec::with_capacity(self.values.len());
        for k in 0..nz {
            for j in 0..ny {
                for i in 0..nx {
                    let index = [i, j, k];
                    points.push(std::array::from_fn(|a| index[a] as f64 * self.spacing[a]));
                }
            }
        }
        let grid = Some(Grid { dims: self.dims, spacing: self.spacing });
        Samples { points, values: self.values.clone(), grid }
    }

    /// World position of a point at `index * spacing`.
    #[must_use]
    pub fn world_from_grid(&self) -> Affine {
        self.world_from_index
            .map(|[a, b, c, t]| [a / self.spacing[0], b / self.spacing[1], c / self.spacing[2], t])
    }
}

/// A diagonal affine map.
pub(crate) fn scaling(s: [f64; 3]) -> Affine {
    [[s[0], 0.0, 0.0, 0.0], [0.0, s[1], 0.0, 0.0], [0.0, 0.0, s[2], 0.0]]
}

/// What a file holds.
#[derive(Clone, Debug)]
pub enum Input {
    /// A volume.
    Volume(Volume),
    /// Scattered samples.
    Samples(Samples),
}

impl Input {
    /// Number of voxels or samples.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Volume(volume) => volume.values.len(),
            Self::Samples(samples) => samples.values.len(),
        }
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The samples, in the coordinates in which they are fitted.
    #[must_use]
    pub fn samples(&self) -> Samples {
        match self {
            Self::Volume(volume) => volume.samples(),
            Self::Samples(samples) => samples.clone(),
        }
    }

    /// World position of those coordinates.
    #[must_use]
    pub fn world_from_model(&self) -> Affine {
        match self {
            Self::Volume(volume) => volume.world_from_grid(),
            Self::Samples(_) => IDENTITY,
        }
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A call to the system failed.
    #[error("{}: read: {}", path.display(), gausset_io::atomic::plain_reason(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The content is not what it should be.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Place, what is wrong, what was expected and found.
        what: String,
    },
}

/// What is wrong inside a file: `place: what is wrong (expected …, found …)`.
pub(crate) type Wrong = String;

/// Reads a file of samples or a volume; `frame` chooses one of a 4-D volume.
///
/// # Errors
/// It cannot be read or makes no sense.
pub fn read(path: &Path, frame: usize) -> Result<Input, InputError> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if format(&name).is_none() {
        return Err(InputError::Content { path: path.to_owned(), what: NO_FORMAT.to_owned() });
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = |name: &str| {
        let path = inside(folder, name).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        read_whole(&path)
    };
    let bytes = read_whole(path).map_err(|source| InputError::Io { path: path.to_owned(), source })?;
    let decoded = run_decoder(|| decode(&name, &bytes, frame, &beside).map_err(|error| error.to_string()));
    decoded
        .unwrap_or_else(|| Err(BROKE_DOWN.to_owned()))
        .map_err(|what| InputError::Content { path: path.to_owned(), what })
}

/// What is said where one of the libraries that read volumes panics.
const BROKE_DOWN: &str = "the decoder broke down; convert it";

const NO_FORMAT: &str =
    "name: no known format (expected .csv, .npy, .npz, .nrrd, .nhdr, .nii, .nii.gz, .hdr, .tif)";

/// Why bytes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// `place: what is wrong (expected …, found …)`.
    #[error("{0}")]
    Content(String),
    /// A file that the header names cannot be read.
    #[error("data file {}: {}", quote(name), gausset_io::atomic::plain_reason(source))]
    Beside {
        /// Its name in the header.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl From<Wrong> for DecodeError {
    fn from(what: Wrong) -> Self {
        // Names in files and the words of other libraries may have several lines.
        Self::Content(what.split(|c: char| c.is_control()).collect::<Vec<_>>().join(" "))
    }
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

/// The content of a file of this name, which says the format; `beside` reads files that headers name.
///
/// # Errors
/// It makes no sense, or a file beside it cannot be read.
pub fn decode(
    name: &str,
    bytes: &[u8],
    frame: usize,
    beside: &dyn Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<Input, DecodeError> {
    let format = format(name);
    if frame > 0 && !matches!(format, None | Some(Format::Nrrd | Format::Nifti)) {
        return Err(format!("frame {frame}: no such frame (expected 0)").into());
    }
    Ok(match format {
        Some(Format::Table) => Input::Samples(table::read(bytes)?),
        Some(Format::Npy) => npy::read_npy(bytes)?,
        Some(Format::Npz) => npy::read_npz(bytes)?,
        Some(Format::Nrrd) => Input::Volume(nrrd::read(bytes, frame, beside)?),
        Some(Format::Nifti) => Input::Volume(nifti::read(name, bytes, frame, beside)?),
        Some(Format::Tiff) => Input::Volume(tiff::read(bytes)?),
        None => return Err(NO_FORMAT.to_owned().into()),
    })
}

/// Reads points `x y z` (further columns are ignored): `.csv` or `.npy`.
///
/// # Errors
/// It cannot be read or makes no sense.
pub fn read_points(path: &Path) -> Result<Vec<[f64; 3]>, InputError> {
    let content = |what: Wrong| InputError::Content { path: path.to_owned(), what };
    let bytes = read_whole(path).map_err(|source| InputError::Io { path: path.to_owned(), source })?;
    let is_npy = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    let decoded = run_decoder(|| if is_npy { npy::read_points(&bytes) } else { table::read_points(&bytes) });
    let points = decoded.unwrap_or_else(|| Err(BROKE_DOWN.to_owned())).map_err(content)?;
    let bad = points.iter().position(|point| !point.iter().all(|x| x.is_finite()));
    match bad {
        Some(row) => {
            Err(content(format!("row {row}: not finite (expected numbers, found {:?})", points[row])))
        }
        None => Ok(points),
    }
}

fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    input::read(path, memory::largest_file())
}

/// Checks the axes of a volume and returns the number of voxels.
pub(crate) fn voxels(dims: &[u64]) -> Result<u64, Wrong> {
    let count = dims.iter().try_fold(1u64, |count, d| count.checked_mul(*d)).filter(|n| *n <= MAX_SAMPLES);
    match count {
        Some(0) => Err(format!("size: no voxels (expected at least one along each axis, found {dims:?})")),
        Some(count) => fits_in_memory(count, dims),
        None => Err(format!("size: too many voxels (expected at most {MAX_SAMPLES}, found {dims:?})")),
    }
}

/// Compressed files can hold a thousand times their length: what this machine could never hold is refused before it
/// tries.
fn fits_in_memory(count: u64, dims: &[u64]) -> Result<u64, Wrong> {
    /// Value, and the bytes it is read from.
    const BYTES: u64 = 16;
    let memory = memory::total();
    if count.saturating_mul(BYTES) <= memory {
        return Ok(count);
    }
    let gib = |bytes: u64| bytes.div_ceil(1 << 30);
    Err(format!(
        "size: too many voxels for the memory of this machine (expected at most {} GiB, found {dims:?} which take {} GiB)",
        gib(memory),
        gib(count.saturating_mul(BYTES))
    ))
}

/// Reads exactly `wanted` bytes of a stream that may lie about its length.
pub(crate) fn read_exactly(stream: impl Read, wanted: u64, place: &str) -> Result<Vec<u8>, Wrong> {
    let mut bytes = Vec::new();
    let outcome = stream.take(wanted).read_to_end(&mut bytes);
    if let Err(error) = outcome {
        return Err(format!("{place}: damaged after {} bytes ({error})", bytes.len()));
    }
    if (bytes.len() as u64) < wanted {
        return Err(format!("{place}: cut off (expected {wanted} bytes, found {})", bytes.len()));
    }
    Ok(bytes)
}

/// Refuses values that are not finite.
pub(crate) fn all_finite(values: &[f64]) -> Result<(), Wrong> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(format!("value {index}: not finite (expected a number, found {})", values[index])),
        None => Ok(()),
    }
}
