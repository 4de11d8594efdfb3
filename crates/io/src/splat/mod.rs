//! Splat files: one file per format, recognised by content.
//!
//! [`FORMATS`] is the table of formats; a new one is a module with a row in it. [`load`] and [`save`] are the two doors:
//! nobody outside calls the code of a format by name. Readers keep the bits of the values as far as the format has
//! them. Only what cannot be drawn is touched, and counted in the [`ReadReport`]: NaN, infinities and zero rotations.

mod compressed_ply;
mod document;
mod dot_splat;
mod error;
mod facts;
mod format;
mod frame;
mod gltf;
mod html;
mod ksplat;
mod memory;
mod order;
mod ply;
mod report;
mod rounding;
mod save;
mod sog;
mod source;
mod spz;
mod usable;
mod values;

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

pub use document::{Document, Initial, PointCloud};
pub use error::SplatError;
pub use format::{FORMATS, Format, FormatRow};
pub use report::ReadReport;
pub use save::{SaveOptions, Saved, save, write};
pub use spz::{SpzFrame, SpzOptions};

use crate::input;
use format::Start;
use memory::Account;
use source::Source;

/// Limits while reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes of memory that reading may take: the splats, and what of the file is held beside them meanwhile.
    pub memory_bytes: u64,
}

/// What may be taken where the system does not say how much there is.
const UNKNOWN_MEMORY: u64 = 2 << 30;

impl Default for ReadLimits {
    /// Half of the machine's memory.
    fn default() -> Self {
        Self { memory_bytes: gausset_compute::machine::memory_bytes().map_or(UNKNOWN_MEMORY, |all| all / 2) }
    }
}

/// How files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Limits.
    pub limits: ReadLimits,
    /// Axes of SPZ files that do not name them; `None` = those of a PLY, and a word about it.
    pub spz_frame: Option<SpzFrame>,
}

/// Reads a splat file of any known format.
///
/// # Errors
/// A file that is not a splat file, holds points only, is damaged or would take more memory than allowed.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Document, SplatError> {
    match read_file(path, options)? {
        Initial::Splats(document) => Ok(document),
        Initial::Points(_) => Err(SplatError::PointCloud { path: path.to_owned() }),
    }
}

/// Reads splats or a point cloud.
///
/// # Errors
/// A file that holds neither, is damaged or would take more memory than allowed.
pub fn load_initial(path: &Path, limits: &ReadLimits) -> Result<Initial, SplatError> {
    read_file(path, &LoadOptions { limits: *limits, ..LoadOptions::default() })
}

/// [`load_initial`] from bytes in memory; `path` is for messages.
///
/// # Errors
/// As [`load_initial`].
pub fn parse_initial(bytes: &[u8], path: &Path, limits: &ReadLimits) -> Result<Initial, SplatError> {
    parse(bytes, path, &LoadOptions { limits: *limits, ..LoadOptions::default() })
}

/// [`parse_initial`] with options.
///
/// # Errors
/// As [`load_initial`].
pub fn parse(bytes: &[u8], path: &Path, options: &LoadOptions) -> Result<Initial, SplatError> {
    let stream = &mut io::Cursor::new(bytes);
    let memory = &Account::new(path, &options.limits);
    read(&mut Source { stream, bytes: bytes.len() as u64, path, folder: None, options, memory })
}

/// The format of a file, or of the folder of an unpacked SOG; `None` when it is not one of splats.
#[must_use]
pub fn recognise(path: &Path) -> Option<Format> {
    let path = &file_of(path);
    let file = input::open(path, input::STREAMED).ok()?;
    let bytes = file.metadata().ok()?.len();
    let (stream, options) = (&mut BufReader::new(file), &LoadOptions::default());
    let memory = &Account::new(path, &options.limits);
    let mut source = Source { stream, bytes, path, folder: None, options, memory };
    Start { bytes: source.start().ok()?, file_bytes: bytes }.format(path).ok()
}

/// The file to begin with: the description of a folder that holds a SOG.
fn file_of(path: &Path) -> PathBuf {
    let description = path.join("meta.json");
    if path.is_dir() && description.is_file() { description } else { path.to_owned() }
}

fn read_file(path: &Path, options: &LoadOptions) -> Result<Initial, SplatError> {
    let path = &file_of(path);
    let io_error = |source| SplatError::Io { path: path.to_owned(), action: "open", source };
    let file = input::open(path, input::STREAMED).map_err(io_error)?;
    let bytes = file.metadata().map_err(io_error)?.len();
    let stream = &mut BufReader::with_capacity(1 << 18, file);
    let (folder, memory) =
        (Some(path.parent().unwrap_or(Path::new(""))), &Account::new(path, &options.limits));
    read(&mut Source { stream, bytes, path, folder, options, memory })
}

/// Reads a file of any format.
fn read(source: &mut Source<'_>) -> Result<Initial, SplatError> {
    let _span = gausset_prof::span("read_splats");
    let start = Start { bytes: source.start()?, file_bytes: source.bytes };
    let format = start.format(source.path)?;
    (format.row().read)(source)
}
