//! Writes the PLY layout of the released 3DGS code.

use std::io::{self, Write};
use std::path::Path;

use gausset_core::Splats;

use crate::atomic::{FileSystem, WriteError, WriteOptions};

/// What stands in the header besides the columns.
#[derive(Clone, Debug, PartialEq)]
pub struct PlyOptions {
    /// Write `nx ny nz` (all zero) as the released code does, which some viewers insist on.
    pub normals: bool,
    /// The splats were trained with opacity compensation: `comment SplatRenderMode: mip`.
    pub antialiased: bool,
    /// Direction that is up: `comment Vertical axis: x y z`.
    pub vertical_axis: Option<[f32; 3]>,
}

impl Default for PlyOptions {
    fn default() -> Self {
        Self { normals: true, antialiased: false, vertical_axis: None }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlyWritten {
    /// Splats in the file.
    pub splats: u64,
    /// Splats left out because a parameter is not finite or the rotation is zero.
    pub dropped: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Seconds spent in bringing it to the device.
    pub sync_seconds: f64,
}

/// Saves splats atomically.
///
/// # Errors
/// A failed write; a name that is taken, with [`crate::atomic::Overwrite::Refuse`].
pub fn save_ply(
    fs: &dyn FileSystem,
    path: &Path,
    splats: &Splats,
    options: &PlyOptions,
    write: &WriteOptions,
) -> Result<PlyWritten, WriteError> {
    let _ = (fs, path, splats, options, write);
    unimplemented!()
}

/// Writes splats to a stream.
///
/// # Errors
/// The writer failed.
pub fn write_ply(writer: &mut dyn Write, splats: &Splats, options: &PlyOptions) -> io::Result<PlyWritten> {
    let _ = (writer, splats, options);
    unimplemented!()
}
