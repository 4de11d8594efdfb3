//! Limits of a dataset, so that a damaged or hostile file cannot exhaust memory or time.

/// Largest number of images.
pub(super) const MAX_IMAGES: u64 = 200_000;
/// Largest number of points.
pub(super) const MAX_POINTS: u64 = 100_000_000;
/// Longest image name, bytes.
pub(super) const MAX_NAME_BYTES: usize = 4096;
/// Longest `transforms.json`, bytes.
pub(super) const MAX_JSON_BYTES: u64 = 256 << 20;
/// Deepest nesting of a `transforms.json`.
pub(super) const MAX_JSON_DEPTH: usize = 64;
/// Largest distance of a camera from the origin in scene units: far beyond geocentric coordinates in metres.
pub(super) const MAX_DISTANCE: f64 = 1e9;
