//! Splat files: one file per format, detected by content.

pub mod ply;

use std::path::{Path, PathBuf};

use gausset_core::Splats;

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
}

/// A splat file in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct SplatFile {
    /// The splats, bits as in the file.
    pub splats: Splats,
    /// SH degree that the file stores; 4 when a top band was dropped to fit [`gausset_core::sh::MAX_DEGREE`].
    pub sh_degree: u8,
    /// Format.
    pub format: SplatFormat,
    /// Whether the splats were trained with opacity compensation and should be drawn with it.
    pub antialiased: bool,
    /// Whether the splats are flat discs (2DGS).
    pub flat: bool,
    /// Direction that is up, if the file tells.
    pub vertical_axis: Option<[f32; 3]>,
    /// What was dropped, repaired or noticed.
    pub report: ReadReport,
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

/// What a reader dropped, repaired or noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Splats or points in the file.
    pub found: u64,
    /// Splats left out, with reasons.
    pub dropped: Vec<(&'static str, u64)>,
    /// Values replaced in splats that were kept, with reasons.
    pub repaired: Vec<(&'static str, u64)>,
    /// Other things worth a line, each whole: `file.ply: trailing data: …`.
    pub notes: Vec<String>,
}

/// Limits while reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes of memory that the result may take.
    pub memory_bytes: u64,
}

/// Why a splat file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SplatError {
    /// A call to the system failed.
    #[error("{}: {action}: {}", path.display(), crate::atomic::plain_reason(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Reads a splat file of any known format.
///
/// # Errors
/// A file that is not a splat file, is damaged or would take more memory than allowed.
pub fn read_splats(path: &Path) -> Result<SplatFile, SplatError> {
    let _ = path;
    unimplemented!()
}

/// Reads splats or a point cloud.
///
/// # Errors
/// As [`read_splats`].
pub fn read_initial(path: &Path) -> Result<Initial, SplatError> {
    let _ = path;
    unimplemented!()
}
