//! How much a dataset may hold, so that a damaged or hostile file costs neither memory nor time.

/// Most pictures of a dataset.
pub(super) const MAX_IMAGES: u64 = 200_000;
/// Most points of a dataset.
pub(super) const MAX_POINTS: u64 = 100_000_000;
/// Longest name of a picture in bytes.
pub(super) const MAX_NAME_BYTES: usize = 4096;
/// Longest `transforms.json` in bytes.
pub(super) const MAX_JSON_BYTES: u64 = 256 << 20;
/// Deepest nesting of a `transforms.json`.
pub(super) const MAX_JSON_DEPTH: usize = 64;
/// Largest distance of a camera from the origin in scene units: far beyond geocentric coordinates in metres.
pub(super) const MAX_DISTANCE: f64 = 1e9;
