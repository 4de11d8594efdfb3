//! Inria PLY.

mod write;

pub use write::{PlyOptions, PlyWritten, save_ply, write_ply};
