//! Predicts the memory of a run before step 0, and divides the limit between its parts.
//!
//! ```text
//! total = splats + pictures + points + working + beside + viewer <= --max-memory, or the run is refused
//! device: splats + working, and whatever of the limit is left    refuses a view whose lists do not fit
//! loader: a part of the limit, or as much as its largest image needs
//! ```
//! The tile lists of a view depend on the visible splats, which are unknown before projection. So `working` contains an
//! estimate by the engine, and the device checks again before it allocates them ([`Self::device_bytes`]).
//!
//! [`Self::device_bytes`]: MemoryPlan::device_bytes

use gausset_core::engine::{Engine, EngineError, MemoryBytes, MemoryEstimate, SceneSize, TrainState};
use gausset_io::dataset::{Dataset, ImageEntry, Point};
use gausset_io::text;
use serde::Serialize;

use crate::contact_sheet;
use crate::eval::depth_map_bytes;
use crate::option_values::FreeSpace;
use crate::recipe::Recipe;
use crate::view_pairs::max_pair_bytes;

/// Decoded images may use 1 / this of the limit.
const IMAGE_DIVISOR: u64 = 4;
/// Downsampled images may use 1 / this of the limit.
const DOWNSAMPLED_DIVISOR: u64 = 16;
/// Maximum bytes of downsampled images; beyond it, downsampling again costs little compared with a step.
const MAX_DOWNSAMPLED_BYTES: u64 = 256 << 20;
/// Tracks may use 1 / this of the limit.
const TRACKS_DIVISOR: u64 = 16;
/// Images that a run holds independently of the loader's cache: the views on which the time is predicted.
const HELD_IMAGES: u64 = 4;

/// Bytes per pixel of a view during scoring, in f32: the render with depth and counts (32), and 12 each for the clamped
/// colours, their planes, the SSIM map, the ground truth and the colour-corrected render. Once planes and map are
/// freed, their memory is enough for depths and their queries.
const EVALUATION_BYTES_PER_PIXEL: u64 = 32 + 5 * 12;

/// Bytes per point while cameras and points are written with refined poses: a record and its place in the file.
const WRITTEN_BYTES_PER_POINT: u64 = 140;

/// A viewer may use 1 / this of the limit.
const VIEWER_DIVISOR: u64 = 8;
/// Maximum bytes of a viewer.
const MAX_VIEWER_BYTES: u64 = 1 << 30;
/// Images that a viewer holds independently of the loader's cache: one that is shown, one that becomes a thumbnail, and
/// as much again for smaller copies of both, which are at most a quarter.
const VIEWER_IMAGES: u64 = 3;

/// The program itself, its stacks, and memory retained by the allocator.
const PROGRAM_BYTES: u64 = 24 << 20;

/// Name of the setting that limits the machine's memory.
const MEMORY_SETTING: &str = "⟨max-memory⟩";
/// Name of the setting that limits the device's own memory.
const GPU_MEMORY_SETTING: &str = "⟨max-gpu-memory⟩";

/// Memory that a run needs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryPlan {
    /// Maximum number of splats of the run.
    pub splat_count: u64,
    /// Parameters and moments of all splats, unless they are in the device's own memory.
    pub splats: u64,
    /// Temporary memory besides a step, the larger of two: a copy of the state while a checkpoint is written (a change
    /// of the set of splats moves the state array by array and needs less), or the buffers of an evaluation.
    pub beside: u64,
    /// Decoded images, and images that are being decoded.
    pub pictures: u64,
    /// Points of the dataset, and those that neighbouring images share.
    pub points: u64,
    /// A viewer, if one is attached: its part of the limit, and the images that it holds.
    pub viewer: u64,
    /// Buffers of a step: screen splats, tile lists, images; and the program.
    pub working: u64,
    /// The limit (`--max-memory`).
    pub limit: u64,
    /// The device's own memory that the run will need; 0 if the device has none.
    pub device: u64,
    /// Part of [`Self::beside`] that does not depend on the number of splats: an evaluation.
    #[serde(skip)]
    evaluation: u64,
    /// Part of the checkpoint copy that does not depend on the number of splats: points that are written.
    #[serde(skip)]
    written_points: u64,
    /// Memory of the engine without splats, and per splat.
    #[serde(skip)]
    fixed: MemoryEstimate,
    #[serde(skip)]
    per_splat: MemoryEstimate,
    /// Bytes per splat in the copy of the state.
    #[serde(skip)]
    copy_per_splat: u64,
}

/// Growth of each kind of memory per splat.
fn memory_difference(more: MemoryEstimate, less: MemoryEstimate) -> MemoryEstimate {
    let of = |more: MemoryBytes, less: MemoryBytes| MemoryBytes {
        state: more.state - less.state,
        working: more.working - less.working,
    };
    MemoryEstimate { host: of(more.host, less.host), device: of(more.device, less.device), limit: more.limit }
}

impl MemoryPlan {
    /// Predicts the memory of a recipe on a dataset with an engine.
    #[must_use]
    pub fn predict(
        recipe: &Recipe,
        dataset: &Dataset,
        start_splats: u64,
        limit: u64,
        engine: &dyn Engine,
    ) -> Self {
        let largest = dataset.images.iter().map(|image| image.camera.pixels() as u64).max().unwrap_or(0);
        // Training views are scored even if none are held out.
        let evaluation = largest * EVALUATION_BYTES_PER_PIXEL
            + sheet_bytes(dataset, dataset.split.test.len())
            + depth_map_bytes(dataset);
        let points = dataset.points.len() as u64;
        let needs =
            |splats| engine.memory_needs(&SceneSize { splats, sh_degree: recipe.sh_degree, pixels: largest });
        let fixed = needs(0);
        let plan = Self {
            pictures: image_bytes(dataset, limit, loader_threads(engine.describe().threads))
                + downsampled_bytes(recipe, dataset, limit),
            points: points * size_of::<Point>() as u64
                + if recipe.free_space == FreeSpace::Off { 0 } else { max_pair_bytes(dataset) },
            written_points: if recipe.poses.is_some() { points * WRITTEN_BYTES_PER_POINT } else { 0 },
            limit,
            evaluation,
            fixed,
            per_splat: memory_difference(needs(1), fixed),
            copy_per_splat: TrainState::bytes_per_splat(recipe.sh_degree),
            ..Self::default()
        };
        // Without density control the set stays as it starts, once that is known.
        let is_fixed = recipe.density.until == 0.0 && start_splats > 0;
        plan.with_splats(if is_fixed { start_splats } else { recipe.max_splats.max(start_splats) })
    }

    /// Predicts the memory for rendering and evaluating `splats` splats that are not trained any more: their parameters on
    /// the device, and once more while they are written.
    #[must_use]
    pub fn predict_rendering(
        recipe: &Recipe,
        dataset: &Dataset,
        splats: u64,
        limit: u64,
        engine: &dyn Engine,
    ) -> Self {
        let mut plan = Self::predict(recipe, dataset, splats, limit, engine);
        let bytes = parameter_bytes(recipe.sh_degree);
        plan.per_splat.host.state = plan.per_splat.host.state.min(bytes);
        plan.per_splat.device.state = plan.per_splat.device.state.min(bytes);
        plan.copy_per_splat = bytes;
        plan.with_splats(splats)
    }

    /// The plan of a run that evaluates nothing, as that of a block.
    #[must_use]
    pub fn without_evaluation(self) -> Self {
        Self { evaluation: 0, ..self }.with_splats(self.splat_count)
    }

    /// Adds a viewer to the plan.
    #[must_use]
    pub fn with_viewer(self, dataset: &Dataset) -> Self {
        let largest = dataset.images.iter().map(ImageEntry::result_bytes).max().unwrap_or(0) as u64;
        Self { viewer: Self::viewer_budget(self.limit) + VIEWER_IMAGES * largest, ..self }
    }

    /// Bytes that a viewer may use for frames, thumbnails and packed splats.
    #[must_use]
    pub fn viewer_budget(limit: u64) -> u64 {
        (limit / VIEWER_DIVISOR).min(MAX_VIEWER_BYTES)
    }

    /// The plan with `count` splats.
    fn with_splats(self, count: u64) -> Self {
        let (fixed, each) = (&self.fixed, &self.per_splat);
        Self {
            splat_count: count,
            splats: fixed.host.state + count * each.host.state,
            beside: self.evaluation.max(count * self.copy_per_splat + self.written_points),
            working: PROGRAM_BYTES + fixed.host.working + count * each.host.working,
            device: fixed.device.total() + count * each.device.total(),
            ..self
        }
    }

    /// Bytes that points may use while a dataset is opened. A limit that is too small for the program is refused later,
    /// with the plan.
    #[must_use]
    pub fn opening_budget(limit: u64) -> u64 {
        limit.saturating_sub(PROGRAM_BYTES).max(1 << 20)
    }

    /// Bytes that an `--init` file may use: the state of a run has three floats for each of its values, twice while a
    /// checkpoint is written.
    #[must_use]
    pub fn start_budget(limit: u64) -> u64 {
        limit / 6
    }

    /// Bytes that decoded images may use.
    #[must_use]
    pub fn image_budget(limit: u64) -> u64 {
        limit / IMAGE_DIVISOR
    }

    /// Bytes that downsampled images may use.
    #[must_use]
    pub fn downsampled_budget(limit: u64) -> u64 {
        (limit / DOWNSAMPLED_DIVISOR).min(MAX_DOWNSAMPLED_BYTES)
    }

    /// Bytes that depth maps may use before the first step, when step buffers, moments and copies of the state do not
    /// exist yet, and the host has the splats of any device. The points are copied, together with the images that see
    /// them.
    #[must_use]
    pub fn stereo_budget(&self) -> u64 {
        let splats = self.splats.max(self.splat_count * self.copy_per_splat);
        let others = splats + self.pictures + 2 * self.points + PROGRAM_BYTES;
        self.limit.saturating_sub(others + self.limit / TRACKS_DIVISOR)
    }

    /// Bytes that tracks may use. If those of a dataset need more, some are left out.
    #[must_use]
    pub fn tracks_budget(limit: u64) -> u64 {
        limit / TRACKS_DIVISOR
    }

    /// The limit with which tracks may use this many bytes.
    #[must_use]
    pub fn limit_for_tracks(bytes: u64) -> u64 {
        bytes * TRACKS_DIVISOR
    }

    /// Bytes that the device may use: the limit minus all other parts.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.limit.saturating_sub(self.beside + self.pictures + self.points + self.viewer + PROGRAM_BYTES)
    }

    /// Sum of all parts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.splats + self.beside + self.pictures + self.points + self.viewer + self.working
    }

    /// Whether the run fits into the limits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.total() <= self.limit && self.device <= self.device_limit()
    }

    /// Bytes of the device's own memory that may be used.
    fn device_limit(&self) -> u64 {
        self.fixed.limit.unwrap_or(u64::MAX)
    }

    /// Whether only the device's own memory is insufficient.
    #[must_use]
    pub fn lacks_device_memory(&self) -> bool {
        self.device > self.device_limit() && self.total() <= self.limit
    }

    /// Needed and allowed bytes of the memory that is insufficient.
    #[must_use]
    pub fn shortage(&self) -> [u64; 2] {
        if self.lacks_device_memory() {
            return [self.device, self.device_limit()];
        }
        [self.total(), self.limit]
    }

    /// The setting to raise.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        if self.lacks_device_memory() { GPU_MEMORY_SETTING } else { MEMORY_SETTING }
    }

    /// The setting that caused an error of the device.
    #[must_use]
    pub fn setting_for(&self, refused: &EngineError) -> &'static str {
        let is_own = |limit: u64| self.fixed.limit == Some(limit);
        match refused {
            EngineError::OutOfMemory { limit, .. } if is_own(*limit) => GPU_MEMORY_SETTING,
            _ => MEMORY_SETTING,
        }
    }

    /// Maximum number of splats that would fit with everything else unchanged; `None` if none would.
    #[must_use]
    pub fn max_fitting_splats(&self) -> Option<u64> {
        let empty = self.with_splats(0);
        let left = |fixed: u64| self.limit.checked_sub(empty.total() - empty.beside + fixed);
        let in_step = self.per_splat.host.total();
        let with_copy = left(self.written_points)? / (in_step + self.copy_per_splat);
        let with_evaluation = left(self.evaluation)?.checked_div(in_step).unwrap_or(u64::MAX);
        let left_on_device = self.device_limit().checked_sub(empty.device)?;
        let on_device = left_on_device.checked_div(self.per_splat.device.total()).unwrap_or(u64::MAX);
        Some(with_copy.min(with_evaluation).min(on_device)).filter(|&possible| possible > 0)
    }

    /// Advice for a run that does not fit: the settings to change.
    #[must_use]
    pub fn advice(&self, dataset: &Dataset, start_splats: u64) -> String {
        if let Some(possible) = self.max_fitting_splats().filter(|&possible| possible >= start_splats) {
            return format!("lower ⟨max-splats⟩ to {possible} or less, or raise {}", self.setting());
        }
        let least = self.with_splats(start_splats);
        if least.lacks_device_memory() {
            return format!("lower ⟨max-resolution⟩, or raise {GPU_MEMORY_SETTING}");
        }
        let neediest = dataset.images.iter().max_by_key(|image| image.loading_bytes());
        let neediest = neediest.filter(|image| image.loading_bytes() as u64 > Self::image_budget(self.limit));
        // Memory left for images after all other parts.
        match (neediest, self.limit.checked_sub(least.total() - least.pictures)) {
            (Some(image), Some(left)) => {
                let [width, height] = image.stored_size;
                let pixels = u64::from(width) * u64::from(height);
                let needed = image.loading_bytes() as u64;
                let possible =
                    (u128::from(pixels) * u128::from(left) / u128::from(needed.max(1))) as f64 / 1e6;
                let (path, needed, left) =
                    (image.path.display(), text::format_bytes(needed), text::format_bytes(left));
                match image.mask {
                    None => format!(
                        "decoding {path} ({width}x{height} px) takes {needed} (at most {left} or {possible:.1} \
                         megapixels fit): make the pictures smaller, or raise ⟨max-memory⟩"
                    ),
                    Some(_) => format!(
                        "decoding {path} ({width}x{height} px) and its mask takes {needed} (at most {left} fit): make \
                         pictures and masks smaller, or raise ⟨max-memory⟩"
                    ),
                }
            }
            _ if least.working > 2 * PROGRAM_BYTES => {
                "lower ⟨max-resolution⟩, or raise ⟨max-memory⟩".to_owned()
            }
            _ => "raise ⟨max-memory⟩".to_owned(),
        }
    }
}

/// Bytes of the parameters of a splat.
fn parameter_bytes(sh_degree: u8) -> u64 {
    4 * (11 + 3 * gausset_core::sh::coefficients(sh_degree) as u64)
}

/// Number of background threads of the loader of a training that uses `threads`: one in four, up to four.
pub(crate) fn loader_threads(threads: usize) -> usize {
    (threads / 4).clamp(1, 4)
}

/// Images in memory at once: those of the loader's cache, and those evicted from it but still in use.
fn image_bytes(dataset: &Dataset, limit: u64, loading: usize) -> u64 {
    let most = |bytes: fn(&ImageEntry) -> usize| dataset.images.iter().map(bytes).max().unwrap_or(0) as u64;
    let (making, result) = (most(ImageEntry::loading_bytes), most(ImageEntry::result_bytes));
    let all: u64 = dataset.images.iter().map(|image| image.result_bytes() as u64).sum();
    let budget = MemoryPlan::image_budget(limit).max(making);
    (all + loading as u64 * making).min(budget + HELD_IMAGES * result)
}

/// Downsampled images for the coarse part of a run.
fn downsampled_bytes(recipe: &Recipe, dataset: &Dataset, limit: u64) -> u64 {
    if recipe.coarse.factor <= 1 {
        return 0;
    }
    // The last reduction, to half of the sides, is the largest.
    let train = dataset.split.train.iter().map(|&index| dataset.images[index].result_bytes() as u64 / 4);
    let largest = train.clone().max().unwrap_or(0);
    train.sum::<u64>().min(MemoryPlan::downsampled_budget(limit) + HELD_IMAGES * largest)
}

/// The contact sheet of an evaluation: its views, the sheet, and the encoded sheet.
fn sheet_bytes(dataset: &Dataset, views: usize) -> u64 {
    let view = |image: &ImageEntry| contact_sheet::view_bytes(image.camera.width, image.camera.height);
    let largest = dataset.split.test.iter().map(|&index| view(&dataset.images[index])).max().unwrap_or(0);
    3 * views.min(contact_sheet::MAX_SHEET_VIEWS) as u64 * largest
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn plan(evaluation: u64, written_points: u64, limit: u64) -> MemoryPlan {
        let plan = MemoryPlan {
            pictures: 3 * MIB,
            points: 2 * MIB,
            limit,
            evaluation,
            written_points,
            fixed: MemoryEstimate {
                host: MemoryBytes { state: 0, working: 5 * MIB },
                ..MemoryEstimate::default()
            },
            per_splat: MemoryEstimate {
                host: MemoryBytes { state: 728, working: 200 },
                ..MemoryEstimate::default()
            },
            copy_per_splat: 728,
            ..MemoryPlan::default()
        };
        plan.with_splats(1_000_000)
    }

    #[test]
    fn as_many_splats_as_are_possible_fit_and_not_one_more() {
        for evaluation in [0, MIB, 40 * MIB, 60 * MIB] {
            for written_points in [0, 7 * MIB] {
                for limit in [64 * MIB, 160 * MIB, 1000 * MIB] {
                    let plan = plan(evaluation, written_points, limit);
                    let Some(possible) = plan.max_fitting_splats() else {
                        assert!(!plan.with_splats(1).fits());
                        continue;
                    };
                    assert!(plan.with_splats(possible).fits(), "{possible} of {plan:?}");
                    assert!(!plan.with_splats(possible + 1).fits(), "{possible} of {plan:?}");
                }
            }
        }
    }

    #[test]
    fn the_device_gets_what_nothing_else_needs_and_no_less_than_was_expected_of_it() {
        let plan = plan(0, 0, 2000 * MIB);
        assert!(plan.fits());
        let others = plan.beside + plan.pictures + plan.points + PROGRAM_BYTES;
        assert_eq!(plan.device_bytes() + others, plan.limit);
        assert!(plan.device_bytes() >= plan.splats + plan.working - PROGRAM_BYTES);
    }

    #[test]
    fn a_device_with_memory_of_its_own_decides_how_many_splats_fit_there() {
        let mut plan = plan(MIB, 0, 2000 * MIB);
        plan.fixed.device = MemoryBytes { state: 0, working: 10 * MIB };
        plan.per_splat.device = MemoryBytes { state: 1000, working: 24 };
        plan.fixed.limit = Some(20 * MIB);
        let plan = plan.with_splats(1_000_000);
        assert!(plan.total() <= plan.limit && !plan.fits());
        assert_eq!(plan.shortage(), [10 * MIB + 1_024_000_000, 20 * MIB]);
        assert_eq!(plan.max_fitting_splats(), Some(10 * MIB / 1024));
        assert!(plan.with_splats(10 * MIB / 1024).fits() && !plan.with_splats(10 * MIB / 1024 + 1).fits());
    }
}
