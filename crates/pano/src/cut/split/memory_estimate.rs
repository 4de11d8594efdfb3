//! Memory per frame, estimated from its header, and the number of workers that the budget allows.

use std::path::PathBuf;

use super::error::SplitError;
use super::masks;
use super::settings::SplitSettings;
use super::shared::SharedState;
use crate::cut::cutter::Format;
use crate::source::load::{self, LoadError};
use crate::source::sphere_video::SphereVideo;
use crate::sphere::projection::Projection;

/// Why a frame cannot be cut within the budget.
#[derive(Debug, thiserror::Error)]
pub(super) enum EstimateError {
    /// A file of the frame cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The frame needs more memory than the budget.
    #[error(
        "{}: memory: cutting it takes {} (expected at most {}); raise ⟨max-memory⟩, or make it smaller: {}x{side} px of this kind fit",
        file.display(), gausset_io::text::format_bytes(*bytes), gausset_io::text::format_bytes(*available), 2 * side
    )]
    TooLarge {
        /// The first file of the frame.
        file: PathBuf,
        /// Bytes that the frame needs.
        bytes: u64,
        /// Bytes that are available.
        available: u64,
        /// Height (px) of the largest panorama of this kind that fits.
        side: u64,
    },
}

/// Frames of a folder whose headers are read before the work begins.
const SAMPLED_FRAMES: usize = 4;

/// Number of workers that the budget allows, estimated from the first frames. If a later frame needs more, workers wait
/// for each other.
pub(super) fn threads_within_budget(shared: &SharedState<'_>, todo: &[usize]) -> Result<usize, SplitError> {
    let (settings, work) = (shared.settings, shared.work);
    let Some(SphereVideo { video, .. }) = &settings.video else {
        let first = todo.iter().take(SAMPLED_FRAMES);
        // An unreadable frame is reported when it is processed.
        let each = first.filter_map(|&index| frame_bytes(shared, index).ok()).max();
        return Ok(
            each.map_or(work.threads, |each| work.threads.min((work.memory_budget / each.max(1)) as usize))
        );
    };
    let [width, height] = video.size.map(u64::from);
    // The pipe buffer, and the sharpest frame so far of a window.
    let shared = 3 * width * height;
    let each = video_frame_bytes(settings, video.size);
    if work.memory_budget < shared + each {
        return Err(SplitError::Input(format!(
            "{}: memory: cutting frames of {width}x{height} px takes {} (expected at most {}); raise ⟨max-memory⟩",
            video.path.display(),
            gausset_io::text::format_bytes(shared + each),
            gausset_io::text::format_bytes(work.memory_budget),
        )));
    }
    Ok(work.threads.min(((work.memory_budget - shared) / each) as usize))
}

/// Bytes that a frame in files needs, from reading to its encoded views.
pub(super) fn frame_bytes(shared: &SharedState<'_>, index: usize) -> Result<u64, EstimateError> {
    let (settings, frame) = (shared.settings, &shared.frames[index]);
    let (mut bytes, mut planes, mut pixels) = (0, 0, 0);
    for file in &frame.files {
        let demand = load::estimate_memory(file, &settings.limits)?;
        bytes += demand.peak_bytes;
        planes += demand.all_planes_bytes;
        pixels += demand.pixels;
    }
    if frame.files.len() > 1 {
        // The parts stay allocated next to the stacked frame.
        bytes += planes;
    }
    if matches!(settings.projection, Some(Projection::Cube(_))) {
        // The image stays allocated next to its folded faces.
        bytes += planes + planes / 8;
    }
    bytes += masks::mask_bytes(settings, frame, pixels) + view_bytes(settings);
    let largest = shared.budget.available();
    if bytes <= largest {
        return Ok(bytes);
    }
    // Memory is proportional to the number of pixels.
    let side = (pixels as f64 * largest as f64 / bytes as f64 / 2.0).sqrt() as u64 / 16 * 16;
    let file = frame.files.first().cloned().unwrap_or_default();
    Err(EstimateError::TooLarge { file, bytes, available: largest, side })
}

/// Bytes of the buffers of one view: pixels and encoded file.
fn view_bytes(settings: &SplitSettings) -> u64 {
    let pixels = settings.views.iter().map(|v| u64::from(v.width) * u64::from(v.height)).max().unwrap_or(0);
    let each = if settings.format == Format::Png { 9 } else { 3 };
    each * pixels + (1 << 20)
}

/// Bytes that a worker needs for frames of a video.
fn video_frame_bytes(settings: &SplitSettings, [width, height]: [u32; 2]) -> u64 {
    let pixels = u64::from(width) * u64::from(height);
    let mask = if settings.mask_command.is_some() { masks::COMMAND_MASK_BYTES * pixels } else { 0 };
    // A cube is stored twice: as decoded, and folded with padding.
    let stored = if matches!(settings.projection(), Some(Projection::Cube(_))) { pixels * 7 / 4 } else { 0 };
    // Planes of 4:2:0 with their padding, and their halved copies.
    pixels * 17 / 8 + stored + mask + view_bytes(settings)
}
