//! Splat files: one module per format, detected by content.
//!
//! [`FORMATS`] is the table of formats; a new format is a module with a row in it. [`load`] and [`save`] are the entry
//! points; no other code calls a format by name. Readers keep values bit by bit as far as the format stores them. Only
//! values that cannot be rendered (NaN, infinities and zero rotations) are changed or dropped, and counted in the
//! [`ReadReport`].

mod axes;
mod compressed_ply;
mod document;
mod dot_splat;
mod error;
mod format;
mod gltf;
mod html;
mod ksplat;
mod memory;
mod metadata;
mod order;
mod ply;
mod position_steps;
mod report;
mod rounding;
mod save;
mod save_options;
mod sky_image;
mod sog;
mod source;
mod spz;
mod streamed;
mod table;
mod usable;
mod values;

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

pub use document::{Initial, PointCloud, SplatFile};
pub use error::SplatError;
pub use format::Format;
pub use position_steps::PositionSteps;
pub use report::ReadReport;
pub use save::{save, save_ply_in_parts, write};
pub use save_options::{SaveOptions, SaveReport};
pub use sky_image::sky_image;
pub use spz::{SpzAxes, SpzOptions};
pub use table::{FORMATS, FormatRow};

use crate::input;
use format::FileStart;
use memory::MemoryAccount;
use source::SourceFile;

/// Limits while reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Memory limit of a reader, bytes: the splats, and file content held at the same time.
    pub memory_bytes: u64,
}

/// Name of the splats in an iteration's folder of the released 3DGS code.
const EXPORTED_NAME: &str = "point_cloud.ply";
/// Memory limit if the system does not report its memory.
const UNKNOWN_MEMORY: u64 = 2 << 30;

impl Default for ReadLimits {
    /// Half of the system memory.
    fn default() -> Self {
        Self { memory_bytes: gausset_compute::machine::memory_bytes().map_or(UNKNOWN_MEMORY, |all| all / 2) }
    }
}

/// Options of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Memory that the reader may use.
    pub limits: ReadLimits,
    /// Axes of SPZ files that do not specify them; `None` = those of a PLY, with a note in the report.
    pub spz_frame: Option<SpzAxes>,
}

/// Reads a splat file of any known format.
///
/// ```
/// use gausset_io::splat::{LoadOptions, load};
///
/// let error = load("no-such-scene.ply".as_ref(), &LoadOptions::default()).unwrap_err();
/// assert!(error.to_string().starts_with("no-such-scene.ply: "));
/// ```
///
/// # Errors
/// The file is not a splat file, contains only points, is damaged, or exceeds the memory limit.
pub fn load(path: &Path, options: &LoadOptions) -> Result<SplatFile, SplatError> {
    match read_file(path, options)? {
        Initial::Splats(document) => Ok(document),
        Initial::Points(_) => Err(SplatError::PointCloud { path: path.to_owned() }),
    }
}

/// Reads splats or a point cloud.
///
/// # Errors
/// The file contains neither, is damaged, or exceeds the memory limit.
pub fn load_initial(path: &Path, limits: &ReadLimits) -> Result<Initial, SplatError> {
    load_initial_with(path, &LoadOptions { limits: *limits, ..LoadOptions::default() })
}

/// As [`load_initial`], with options.
///
/// # Errors
/// As [`load_initial`].
pub fn load_initial_with(path: &Path, options: &LoadOptions) -> Result<Initial, SplatError> {
    read_file(path, options)
}

/// As [`load_initial`], from bytes in memory; `path` is for messages.
///
/// # Errors
/// As [`load_initial`].
pub fn parse_initial(bytes: &[u8], path: &Path, limits: &ReadLimits) -> Result<Initial, SplatError> {
    parse(bytes, path, &LoadOptions { limits: *limits, ..LoadOptions::default() })
}

/// As [`parse_initial`], with options.
///
/// ```
/// use gausset_core::Splats;
/// use gausset_io::splat::{Format, Initial, LoadOptions, SaveOptions, SplatFile, parse, write};
///
/// // A `.splat` file has 32 bytes per splat, and no magic number: the name is only for messages.
/// let mut splats = Splats::zeros(0, 2);
/// splats.quats.fill([1.0, 0.0, 0.0, 0.0]);
/// let mut bytes = Vec::new();
/// write(&mut bytes, &SplatFile::new(splats), Format::Splat, &SaveOptions::default())?;
/// let found = parse(&bytes, "a.splat".as_ref(), &LoadOptions::default())?;
/// assert!(matches!(found, Initial::Splats(file) if file.format == Format::Splat && file.splats.len() == 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`load_initial`].
pub fn parse(bytes: &[u8], path: &Path, options: &LoadOptions) -> Result<Initial, SplatError> {
    let stream = &mut io::Cursor::new(bytes);
    let memory = &MemoryAccount::new(path, &options.limits);
    read(&mut SourceFile { stream, bytes: bytes.len() as u64, path, folder: None, options, memory })
}

/// Format of a file, or of the file of a folder ([`file_at`]); `None` if it is not a splat file. The index of a streamed SOG
/// is one by its name, so that its faults are reported.
#[must_use]
pub fn recognise(path: &Path) -> Option<Format> {
    let path = &file_at(path);
    recognise_content(path).or_else(|| streamed::is_index(path).then_some(Format::StreamedSog))
}

fn recognise_content(path: &Path) -> Option<Format> {
    let file = input::open(path, input::NO_LIMIT).ok()?;
    let bytes = file.metadata().ok()?.len();
    let (stream, options) = (&mut BufReader::new(file), &LoadOptions::default());
    let memory = &MemoryAccount::new(path, &options.limits);
    let mut source = SourceFile { stream, bytes, path, folder: None, options, memory };
    Format::detect(&FileStart { bytes: source.start().ok()?, file_bytes: bytes }, path).ok()
}

/// The file that is read for a path: for the folder of a streamed or unpacked SOG its `lod-meta.json` or `meta.json`, for
/// the output folder of the released 3DGS code the `point_cloud/iteration_*/point_cloud.ply` of the last iteration;
/// otherwise the path itself.
#[must_use]
pub fn file_at(path: &Path) -> PathBuf {
    if !path.is_dir() {
        return path.to_owned();
    }
    let is_file = |path: &PathBuf| path.is_file();
    let description = [streamed::INDEX, "meta.json"].map(|name| path.join(name)).into_iter().find(is_file);
    let exported = || Some(path.join(EXPORTED_NAME)).filter(is_file);
    let last = || last_iteration(&path.join("point_cloud")).or_else(|| last_iteration(path));
    description.or_else(exported).or_else(last).unwrap_or_else(|| path.to_owned())
}

/// All files that are read for a path: the file itself, of an unpacked SOG its images, of a streamed one its parts.
///
/// ```
/// let files = gausset_io::splat::files_of("scene.ply".as_ref());
/// assert_eq!(files, ["scene.ply".as_ref() as &std::path::Path]);
/// ```
#[must_use]
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    let path = file_at(path);
    let mut files = Vec::new();
    if streamed::is_index(&path) {
        files.extend(streamed::part_files(&path));
    } else if path.file_name().is_some_and(|name| name == sog::META) {
        files.extend(sog::image_files(&path));
    }
    files.push(path);
    files
}

/// The splats of the highest iteration in a folder of the released 3DGS code.
fn last_iteration(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let iterations = entries.filter_map(|entry| {
        let iteration: u64 = entry.file_name().to_str()?.strip_prefix("iteration_")?.parse().ok()?;
        let file = entry.path().join(EXPORTED_NAME);
        file.is_file().then_some((iteration, file))
    });
    iterations.max().map(|(_, file)| file)
}

fn read_file(path: &Path, options: &LoadOptions) -> Result<Initial, SplatError> {
    let path = &file_at(path);
    let io_error = |source| SplatError::Io { path: path.to_owned(), action: "open", source };
    let file = input::open(path, input::NO_LIMIT).map_err(io_error)?;
    let bytes = file.metadata().map_err(io_error)?.len();
    let stream = &mut BufReader::with_capacity(1 << 18, file);
    let (folder, memory) =
        (Some(path.parent().unwrap_or(Path::new(""))), &MemoryAccount::new(path, &options.limits));
    read(&mut SourceFile { stream, bytes, path, folder, options, memory })
}

/// Detects the format of a file and reads it.
fn read(source: &mut SourceFile<'_>) -> Result<Initial, SplatError> {
    let _span = gausset_prof::span("read_splats");
    let start = FileStart { bytes: source.start()?, file_bytes: source.bytes };
    let format = Format::detect(&start, source.path)?;
    (format.row().read)(source)
}
