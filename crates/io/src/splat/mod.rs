//! Splat files: one file per format, recognised by content.
//!
//! A new format is one module with a reader, a variant of [`SplatFormat`] and its arm in `detect` and `read`.
//! Readers keep the bits of the values as they are. Only what cannot be drawn is touched, and counted in the
//! [`ReadReport`]: NaN, infinities and zero rotations.

mod error;
pub mod ply;
mod report;
mod sift;

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use gausset_core::{Region, Splats};

pub use error::SplatError;
pub use report::ReadReport;

use crate::input;

/// Bytes looked at to recognise a format.
const MAGIC_BYTES: usize = 16;

/// A file format for splats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplatFormat {
    /// The `.ply` of the released 3DGS code (Kerbl et al. 2023): raw parameters, f32.
    InriaPly,
}

impl SplatFormat {
    /// Stable name, for `info --json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InriaPly => "ply",
        }
    }

    /// The format of a file that begins with `start`.
    fn detect(start: &[u8], path: &Path) -> Result<Self, SplatError> {
        if start.starts_with(b"ply\n") || start.starts_with(b"ply\r") {
            return Ok(Self::InriaPly);
        }
        let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let known = if start.starts_with(b"NGSP") || start.starts_with(&[0x1f, 0x8b]) {
            "SPZ"
        } else if start.starts_with(b"PK\x03\x04") {
            "SOG (a zip archive)"
        } else if start.starts_with(b"glTF") {
            "binary glTF"
        } else if start.starts_with(b"{") {
            "JSON, perhaps the meta.json of a SOG"
        } else if ending == "splat" {
            ".splat"
        } else if ending == "ksplat" {
            ".ksplat"
        } else {
            let found = start.escape_ascii().to_string();
            return Err(SplatError::UnknownFormat { path: path.to_owned(), found });
        };
        Err(SplatError::UnsupportedFormat { path: path.to_owned(), found: known })
    }
}

/// A splat file in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct SplatFile {
    /// The splats, bits as in the file.
    pub splats: Splats,
    /// SH degree that the file stores; 4 when its top band was dropped ([`gausset_core::sh::MAX_DEGREE`] is 3).
    pub sh_degree: u8,
    /// Format.
    pub format: SplatFormat,
    /// Whether the splats were trained with opacity compensation and should be drawn with it.
    pub antialiased: bool,
    /// Whether the splats are flat discs (2DGS).
    pub flat: bool,
    /// Direction that is up, if the file tells.
    pub vertical_axis: Option<[f32; 3]>,
    /// How many of the last splats are a sky far behind the scene, as Gausset exports it.
    pub sky: usize,
    /// What was dropped, repaired or noticed.
    pub report: ReadReport,
}

impl SplatFile {
    /// Number of splats of the scene, which come before those of the sky.
    #[must_use]
    pub fn scene_len(&self) -> usize {
        self.splats.len() - self.sky
    }

    /// The splats of the scene, without those of the sky.
    #[must_use]
    pub fn scene(&self) -> Cow<'_, Splats> {
        match self.sky {
            0 => Cow::Borrowed(&self.splats),
            _ => Cow::Owned(self.splats.select(&(0..self.scene_len()).collect::<Vec<_>>())),
        }
    }

    /// Leaves out the splats whose mean lies outside a part of space, those of the sky, too.
    pub fn crop(&mut self, region: &Region) {
        let stays: Vec<usize> =
            (0..self.splats.len()).filter(|&i| region.contains(self.splats.means[i])).collect();
        let scene_len = self.scene_len();
        self.sky = stays.iter().filter(|&&i| i >= scene_len).count();
        self.splats = self.splats.select(&stays);
    }
}

/// Points with colours, for a start of training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointCloud {
    /// Positions in world space.
    pub positions: Vec<[f32; 3]>,
    /// Colours in 0..1, one per position; `None` when the file has none.
    pub colours: Option<Vec<[f32; 3]>>,
    /// What was dropped or noticed.
    pub report: ReadReport,
}

/// What a file holds that training can start from.
#[derive(Clone, Debug, PartialEq)]
pub enum Initial {
    /// Splats.
    Splats(SplatFile),
    /// Points.
    Points(PointCloud),
}

/// Limits while reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes of memory that the splats may take.
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

/// Reads a splat file of any known format.
///
/// # Errors
/// A file that is not a splat file, holds points only, is damaged or would take more than half of the memory.
pub fn read_splats(path: &Path) -> Result<SplatFile, SplatError> {
    match read_initial(path, &ReadLimits::default())? {
        Initial::Splats(file) => Ok(file),
        Initial::Points(_) => Err(SplatError::PointCloud { path: path.to_owned() }),
    }
}

/// Reads splats or a point cloud.
///
/// # Errors
/// A file that holds neither, is damaged or would take more memory than allowed.
pub fn read_initial(path: &Path, limits: &ReadLimits) -> Result<Initial, SplatError> {
    let io_error = |source| SplatError::Io { path: path.to_owned(), action: "open", source };
    let file = input::open(path, input::STREAMED).map_err(io_error)?;
    let bytes = file.metadata().map_err(io_error)?.len();
    read(&mut BufReader::with_capacity(1 << 18, file), bytes, path, limits)
}

/// [`read_initial`] from bytes in memory; `path` is for messages.
///
/// # Errors
/// As [`read_initial`].
pub fn parse_initial(bytes: &[u8], path: &Path, limits: &ReadLimits) -> Result<Initial, SplatError> {
    read(&mut io::Cursor::new(bytes), bytes.len() as u64, path, limits)
}

/// Reads `bytes` bytes of any format.
fn read(
    source: &mut dyn BufRead,
    bytes: u64,
    path: &Path,
    limits: &ReadLimits,
) -> Result<Initial, SplatError> {
    let _span = gausset_prof::span("read_splats");
    let mut start = Vec::with_capacity(MAGIC_BYTES);
    (&mut *source).take(MAGIC_BYTES as u64).read_to_end(&mut start).map_err(|e| SplatError::Io {
        path: path.to_owned(),
        action: "read",
        source: e,
    })?;
    let format = SplatFormat::detect(&start, path)?;
    let mut source = io::Cursor::new(start).chain(source);
    match format {
        SplatFormat::InriaPly => ply::read_ply(&mut source, bytes, path, limits),
    }
}
