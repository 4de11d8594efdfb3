//! Streamed SOG (PlayCanvas, version 1): a scene in parts of space at several levels of detail, which viewers load as
//! they need them.
//!
//! ```text
//! lod-meta.json        counts, names of the files, and a tree of boxes; each leaf: its rows of a file at each level
//! 0_0/ 0_1/ … 1_0/ …   level_number: SOGs that are not packed; rows leaf after leaf
//! env/                 splats of the sky, without levels
//! ```
//! Level 0 has all splats; each further level has half as many ([`levels`]). Source: *The Streamed SOG Format*,
//! developer.playcanvas.com.

mod index;
mod levels;
mod read;
mod write;

use std::path::Path;

pub(super) use read::{part_files, read, sniff};
pub(super) use write::save;

/// Name of the index, by which viewers recognise the format.
pub(super) const INDEX: &str = "lod-meta.json";
/// Whether a path has the name of an index.
pub(super) fn is_index(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == INDEX)
}

/// Version of the format.
const VERSION: u32 = 1;
