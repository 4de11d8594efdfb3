//! Number of frames processed concurrently: as many as there are threads, if everything fits in memory: the model, its
//! tensors, decoded images, tables, masks, and frames that wait for their neighbours.

use std::path::{Path, PathBuf};

use gausset_io::image::read_header;
use gausset_io::text;
use gausset_pano::load::{self, ImageLimits};
use gausset_pano::projection::Projection;
use gausset_segment::{ModelMemory, Segmenter};

use super::direction::MAX_SECOND_PASS_VIEWS;
use super::frame::{MAX_WIDTH, ROTATION_WIDTH, model_view_side};
use super::input::MaskInput;
use super::{MaskOptions, OutputModes};
use crate::memory::budget;
use crate::panos::source::Footage;
use crate::panos::static_foreground::ANALYSIS_BYTES;
use crate::{Failure, device};

/// Bytes per pixel of the mask panorama during refinement: the mask, the planes for its edges, dilation buffers.
const SPHERE_PIXEL: u64 = 32;
/// Bytes per pixel of a view's sampling table.
const TABLE_PIXEL: u64 = 8;
/// Bytes per pixel of an image's mask until it is written: soft and hard.
const MASK_PIXEL: u64 = 2;
/// Bytes per pixel of a photograph's mask, including the separate detections.
const PHOTO_PIXEL: u64 = 4;
/// Bytes per pixel of a cut-out until it is written: pixels and the growing file.
const CUTOUT_PIXEL: u64 = 12;
/// Bytes per pixel of an image that is kept for a cut-out.
const RGB_PIXEL: u64 = 3;

/// Limits on concurrent frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Concurrency {
    /// Number of frames processed at a time.
    pub(super) workers: usize,
    /// Number of frames from the oldest unfinished to the newest, if frames wait for neighbours.
    pub(super) ahead: usize,
}

/// Memory needs of the job in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MemoryDemand {
    /// Shared by all frames.
    shared: u64,
    /// Per frame being processed.
    each: u64,
    /// Per waiting frame.
    waiting: u64,
}

impl MemoryDemand {
    /// Total memory. Frames wait only for temporal consistency: those ahead, and those that the oldest one needs.
    fn total(self, Concurrency { workers, ahead }: Concurrency, reach: usize) -> u64 {
        let waiting = if reach > 0 { ahead + 2 * reach } else { 0 };
        self.shared + workers as u64 * self.each + waiting as u64 * self.waiting
    }

    /// The largest limits that fit; `None` if not even one frame fits.
    fn largest_fitting(self, budget: u64, threads: usize, reach: usize) -> Option<Concurrency> {
        let roomy = (1..=threads).rev().map(|workers| Concurrency { workers, ahead: 2 * (workers + reach) });
        let mut all = roomy.chain([SEQUENTIAL]);
        all.find(|bounds| self.total(*bounds, reach) <= budget)
    }
}

/// One frame at a time.
const SEQUENTIAL: Concurrency = Concurrency { workers: 1, ahead: 1 };

/// Memory needs of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct FrameMemory {
    /// Bytes during decoding and detection.
    decoded: u64,
    /// Number of pixels of its masks.
    pixels: u64,
}

/// Determines the limits on concurrent frames.
pub(super) fn bounds(
    options: &MaskOptions,
    input: &MaskInput,
    segmenter: Option<&Segmenter>,
    reach: usize,
) -> Result<Concurrency, Failure> {
    let threads = device::thread_count(options.threads).max(1);
    let budget = budget(options.max_memory)?;
    let model = segmenter.map(Segmenter::memory).unwrap_or_default();
    let picture = largest(input);
    let is_photograph = matches!(input, MaskInput::Photographs(..));
    let sphere = if is_photograph { 0 } else { (MAX_WIDTH * MAX_WIDTH / 2) as u64 };
    let tables = segmenter.map_or(0, |segmenter| TABLE_PIXEL * u64::from(model_view_side(segmenter)).pow(2));
    let views = match input {
        MaskInput::Panoramas(_) => options.layout.views(16, 16, None).len() as u64,
        _ => 0,
    };
    let looks = if views > 0 && options.passes > 1 { MAX_SECOND_PASS_VIEWS as u64 } else { 0 };
    let wants_pictures = options.modes != OutputModes::Masks;
    let (kept, written) = if wants_pictures { (RGB_PIXEL, CUTOUT_PIXEL) } else { (0, 0) };
    let mask = if is_photograph { PHOTO_PIXEL } else { MASK_PIXEL };
    let frame = picture.decoded.max(picture.pixels * (mask + written)) + picture.pixels * kept;
    let pipe = match input {
        MaskInput::Panoramas(source) => source.film.as_ref().map_or(0, |_| 3 * picture.pixels),
        _ => 0,
    };
    let demand = MemoryDemand {
        shared: model.shared + views * tables + pipe,
        each: model.per_run + frame + sphere * SPHERE_PIXEL + looks * tables,
        waiting: sphere + (ROTATION_WIDTH * ROTATION_WIDTH / 2) as u64 + picture.pixels * kept,
    };
    let fitting = demand.largest_fitting(budget, threads, reach);
    let bounds = fitting.ok_or_else(|| too_large(options, model, demand.total(SEQUENTIAL, reach), budget))?;
    // The static foreground is detected before, one frame at a time.
    let looking = model.shared + picture.decoded + ANALYSIS_BYTES;
    if options.still_patch && looking > budget {
        return Err(too_large(options, ModelMemory { per_run: 0, ..model }, looking, budget));
    }
    Ok(bounds)
}

fn too_large(options: &MaskOptions, model: ModelMemory, all: u64, budget: u64) -> Failure {
    let text = text::format_bytes;
    Failure::new(
        "memory",
        format!(
            "{}: memory: masking a frame takes {} (the model {}, its tensors {}, images and masks {}; expected at most {}); raise ⟨max-memory⟩, or use a smaller model",
            options.input.display(),
            text(all),
            text(model.shared),
            text(model.per_run),
            text(all - model.shared - model.per_run),
            text(budget),
        ),
    )
}

/// Needs of the largest frame. Unreadable frames count as nothing; they are skipped later with a reason.
fn largest(input: &MaskInput) -> FrameMemory {
    match input {
        MaskInput::Panoramas(source) => match &source.film {
            Some(film) => {
                let pixels: u64 = film.video.size.map(u64::from).iter().product();
                // A cube map is in memory twice for a moment: as stored, and as faces with their margins.
                let folded = if film.cube.is_some() { pixels * 7 / 4 } else { 0 };
                // Padded 4:2:0 planes and half-size planes.
                FrameMemory { decoded: pixels * 17 / 8 + folded, pixels }
            }
            None => {
                source.frames.iter().map(|frame| of_files(source, &frame.files)).max().unwrap_or_default()
            }
        },
        MaskInput::Photographs(_, frames) => {
            let files = frames.iter().flat_map(|frame| &frame.files);
            files.map(|file| of_photograph(file)).max().unwrap_or_default()
        }
        // One view is decoded at a time; the masks of all views are written together.
        MaskInput::Views(_, description, _) => {
            let pixels = description.views.iter().map(|view| u64::from(view.width) * u64::from(view.height));
            FrameMemory { decoded: 3 * RGB_PIXEL * pixels.clone().max().unwrap_or(0), pixels: pixels.sum() }
        }
    }
}

/// Needs of a panorama in one or more files.
fn of_files(source: &Footage, files: &[PathBuf]) -> FrameMemory {
    let (mut all, mut planes) = (FrameMemory::default(), 0);
    for (picture, own) in files.iter().map(|file| of_file(file, &source.limits)) {
        all.decoded += picture.decoded;
        all.pixels += picture.pixels;
        planes += own;
    }
    if files.len() > 1 {
        // The parts stay in memory together with the whole frame.
        all.decoded += planes;
    }
    if matches!(source.projection, Some(Projection::Cube(_))) {
        // So does the image together with its faces.
        all.decoded += planes + planes / 8;
    }
    all
}

/// Needs of a photograph.
fn of_photograph(file: &Path) -> FrameMemory {
    let Ok(header) = read_header(file) else { return FrameMemory::default() };
    let bytes = file.metadata().map_or(0, |info| info.len());
    let pixels = header.pixels();
    // The upright picture is a copy.
    let turned = if header.orientation > 1 { RGB_PIXEL + 1 } else { 0 };
    FrameMemory { decoded: 2 * bytes + pixels * (header.decoding_bytes_per_pixel() + turned), pixels }
}

/// Needs of a file, and the bytes of its planes.
fn of_file(file: &Path, limits: &ImageLimits) -> (FrameMemory, u64) {
    load::estimate_memory(file, limits).map_or_else(
        |_| (FrameMemory::default(), 0),
        |demand| (FrameMemory { decoded: demand.peak_bytes, pixels: demand.pixels }, demand.all_planes_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_at_once_are_as_many_as_fit_beside_the_model() {
        let demand = MemoryDemand { shared: 90 << 20, each: 100 << 20, waiting: 10 << 20 };
        for (mebibytes, expected) in
            [(189, None), (190, Some(1)), (389, Some(2)), (390, Some(3)), (89, None), (9999, Some(4))]
        {
            let fitting = demand.largest_fitting(mebibytes << 20, 4, 0).map(|bounds| bounds.workers);
            assert_eq!(fitting, expected, "{mebibytes} MiB");
        }
    }

    #[test]
    fn frames_that_wait_for_others_count() {
        let demand = MemoryDemand { shared: 0, each: 100 << 20, waiting: 10 << 20 };
        let fitting = |mebibytes: u64| demand.largest_fitting(mebibytes << 20, 2, 1);
        // Two workers, six frames in progress and two that the oldest needs.
        assert_eq!(fitting(280), Some(Concurrency { workers: 2, ahead: 6 }));
        assert_eq!(fitting(279), Some(Concurrency { workers: 1, ahead: 4 }));
        assert_eq!(fitting(159), Some(SEQUENTIAL));
        assert_eq!((fitting(130), fitting(129)), (Some(SEQUENTIAL), None));
    }
}
