//! What a model masked of panoramas.

use serde::Serialize;

/// What a model masked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MaskShare {
    /// Frames that were looked at.
    pub frames: usize,
    /// Those in which something was found.
    pub with_finds: usize,
    /// Mean over the frames of the share of the sphere that is removed.
    pub removed_mean: f64,
    /// The largest of these shares.
    pub removed_worst: f64,
    /// Frames without a mask because they cannot be used.
    pub skipped: usize,
}
