//! How much memory a run will need, predicted before step 0, and who may take how much of the limit.
//!
//! ```text
//! total = splats + pictures + points + working + beside + viewer <= --max-memory, or the run is refused
//! device: splats + working, and whatever of the limit is left    refuses a view whose lists do not fit
//! loader: a part of the limit, or what its largest picture needs
//! ```
//! What a view takes in lists follows from the splats that are seen, which nobody knows before they are projected: so
//! `working` has an estimate of them by the engine, and the device looks again before it makes them ([`Self::device_bytes`]).
//!
//! [`Self::device_bytes`]: MemoryPlan::device_bytes

use gausset_core::engine::{Engine, EngineError, MemoryNeed, MemoryUse, SceneSize, TrainState};
use gausset_io::dataset::{Dataset, ImageEntry, Point};
use gausset_io::units;
use serde::Serialize;

use crate::eval::depth_map_bytes;
use crate::recipe::Recipe;
use crate::sheet;

/// Pictures may take one part in so many of the limit.
const PICTURE_SHARE: u64 = 4;
/// Reduced pictures may take one part in so many of the limit …
const REDUCED_SHARE: u64 = 16;
/// … and not more than this, beyond which making them anew costs little beside a step.
const MOST_REDUCED_BYTES: u64 = 256 << 20;
/// Tracks may take one part in so many of the limit.
const TRACKS_SHARE: u64 = 16;
/// Pictures that a run holds on to whatever the loader thinks of them: the views that are timed beforehand.
const HELD_PICTURES: u64 = 4;

/// Bytes per pixel of a view while it is scored, in f32: the render with depth and counts (32), and of the colours the
/// clamped ones, their planes, the map of SSIM, the truth and the render with corrected colours (12 each). Once planes
/// and map are gone, their place is enough for depths and queries about them.
const EVALUATION_BYTES_PER_PIXEL: u64 = 32 + 5 * 12;

/// Bytes per point while cameras and points are written beside refined poses: a record and its place in the file.
const WRITTEN_BYTES_PER_POINT: u64 = 140;

/// A viewer may take one part in so many of the limit …
const VIEWER_SHARE: u64 = 8;
/// … and not more than this.
const MOST_VIEWER_BYTES: u64 = 1 << 30;
/// Pictures that a viewer holds on to whatever the loader thinks of them: one that is shown, one that becomes a thumbnail,
/// and as much again for smaller copies of both, which are at most a quarter.
const VIEWER_PICTURES: u64 = 3;

/// The program itself, its stacks and what the allocator keeps.
const PROGRAM_BYTES: u64 = 24 << 20;

/// The limit of the machine's memory, …
const SETTING: &str = "⟨max-memory⟩";
/// … and that of a device's own.
const GPU_SETTING: &str = "⟨max-gpu-memory⟩";

/// Memory that a run needs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryPlan {
    /// Most splats that the run will have.
    pub splat_count: u64,
    /// Parameters and moments of all splats.
    pub splats: u64,
    /// What is there from time to time beside a step, the larger of two: a copy of the state while a checkpoint is
    /// written (a change of the set of splats moves the state array by array and needs less), or the buffers of an
    /// evaluation.
    pub beside: u64,
    /// Decoded pictures and those being decoded.
    pub pictures: u64,
    /// Points of the dataset.
    pub points: u64,
    /// A viewer, where the run may be looked at: its share, and the pictures in its hands.
    pub viewer: u64,
    /// Buffers of a step: screen splats, tile lists, images; and the program.
    pub working: u64,
    /// The limit (`--max-memory`).
    pub limit: u64,
    /// Memory of the device's own that the run will need; 0 where it has none.
    pub device: u64,
    /// Part of [`Self::beside`] that does not depend on the number of splats: an evaluation.
    #[serde(skip)]
    evaluation: u64,
    /// Part of the other that does not: points that are written.
    #[serde(skip)]
    written_points: u64,
    /// What the engine needs without splats, and for each of them.
    #[serde(skip)]
    fixed: MemoryNeed,
    #[serde(skip)]
    per_splat: MemoryNeed,
    /// Bytes of a splat in the copy of the state.
    #[serde(skip)]
    copy_per_splat: u64,
}

/// By how much each kind of memory grows with a splat.
fn difference(more: MemoryNeed, less: MemoryNeed) -> MemoryNeed {
    let of = |more: MemoryUse, less: MemoryUse| MemoryUse {
        state: more.state - less.state,
        working: more.working - less.working,
    };
    MemoryNeed { host: of(more.host, less.host), device: of(more.device, less.device), limit: more.limit }
}

impl MemoryPlan {
    /// Prediction for a recipe on a dataset with an engine.
    #[must_use]
    pub fn predict(
        recipe: &Recipe,
        dataset: &Dataset,
        start_splats: u64,
        limit: u64,
        engine: &dyn Engine,
    ) -> Self {
        let largest = dataset.images.iter().map(|image| image.camera.pixels() as u64).max().unwrap_or(0);
        let evaluation = match dataset.split.test.len() {
            0 => 0,
            views => {
                let pictures = largest * EVALUATION_BYTES_PER_PIXEL + sheet_bytes(dataset, views);
                pictures + depth_map_bytes(dataset)
            }
        };
        let points = dataset.points.len() as u64;
        let needs =
            |splats| engine.needs(&SceneSize { splats, sh_degree: recipe.sh_degree, pixels: largest });
        let fixed = needs(0);
        let plan = Self {
            pictures: picture_bytes(dataset, limit) + reduced_bytes(recipe, dataset, limit),
            points: points * size_of::<Point>() as u64,
            written_points: if recipe.poses.is_some() { points * WRITTEN_BYTES_PER_POINT } else { 0 },
            limit,
            evaluation,
            fixed,
            per_splat: difference(needs(1), fixed),
            copy_per_splat: TrainState::bytes_per_splat(recipe.sh_degree),
            ..Self::default()
        };
        plan.with_splats(recipe.max_splats.max(start_splats))
    }

    /// The plan of a run that may be looked at while it goes on.
    #[must_use]
    pub fn with_viewer(self, dataset: &Dataset) -> Self {
        let largest = dataset.images.iter().map(ImageEntry::result_bytes).max().unwrap_or(0) as u64;
        Self { viewer: Self::viewer_budget(self.limit) + VIEWER_PICTURES * largest, ..self }
    }

    /// Bytes that the frames, thumbnails and packed splats of a viewer may take.
    #[must_use]
    pub fn viewer_budget(limit: u64) -> u64 {
        (limit / VIEWER_SHARE).min(MOST_VIEWER_BYTES)
    }

    /// The plan of a run with so many splats.
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

    /// Bytes that points may take while a dataset is opened. A limit that is too small for the program is refused with the plan.
    #[must_use]
    pub fn opening_budget(limit: u64) -> u64 {
        limit.saturating_sub(PROGRAM_BYTES).max(1 << 20)
    }

    /// Bytes that a file of first splats may take: the state of a run has three floats for each of them, twice while a
    /// checkpoint is written.
    #[must_use]
    pub fn start_budget(limit: u64) -> u64 {
        limit / 6
    }

    /// Bytes that decoded pictures may take.
    #[must_use]
    pub fn picture_budget(limit: u64) -> u64 {
        limit / PICTURE_SHARE
    }

    /// Bytes that reduced pictures may take.
    #[must_use]
    pub fn reduced_budget(limit: u64) -> u64 {
        (limit / REDUCED_SHARE).min(MOST_REDUCED_BYTES)
    }

    /// Bytes that depth maps may take before the first step, when there are no buffers of a step, no moments and no copies
    /// of the state. Of the points there is a copy, with the pictures that see them.
    #[must_use]
    pub fn stereo_budget(&self) -> u64 {
        let others = self.splats + self.pictures + 2 * self.points + PROGRAM_BYTES;
        self.limit.saturating_sub(others + self.limit / TRACKS_SHARE)
    }

    /// Bytes that tracks may take.
    #[must_use]
    pub fn tracks_budget(limit: u64) -> u64 {
        limit / TRACKS_SHARE
    }

    /// Bytes that the device may take: everything that nothing else needs.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.limit.saturating_sub(self.beside + self.pictures + self.points + self.viewer + PROGRAM_BYTES)
    }

    /// Everything together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.splats + self.beside + self.pictures + self.points + self.viewer + self.working
    }

    /// Whether it fits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.total() <= self.limit && self.device <= self.device_limit()
    }

    /// Bytes of the device's own memory that may be used.
    fn device_limit(&self) -> u64 {
        self.fixed.limit.unwrap_or(u64::MAX)
    }

    /// Whether only the device's own memory is short.
    #[must_use]
    pub fn is_short_of_device(&self) -> bool {
        self.device > self.device_limit() && self.total() <= self.limit
    }

    /// Needed and allowed bytes of the memory that is short.
    #[must_use]
    pub fn shortage(&self) -> [u64; 2] {
        if self.is_short_of_device() {
            return [self.device, self.device_limit()];
        }
        [self.total(), self.limit]
    }

    /// The setting that would have to be raised.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        if self.is_short_of_device() { GPU_SETTING } else { SETTING }
    }

    /// The setting behind a refusal of the device.
    #[must_use]
    pub fn setting_behind(&self, refused: &EngineError) -> &'static str {
        let is_own = |limit: u64| self.fixed.limit == Some(limit);
        match refused {
            EngineError::OutOfMemory { limit, .. } if is_own(*limit) => GPU_SETTING,
            _ => SETTING,
        }
    }

    /// Most splats that would fit with everything else as it is, if any would.
    #[must_use]
    pub fn possible_splats(&self) -> Option<u64> {
        let empty = self.with_splats(0);
        let left = |fixed: u64| self.limit.checked_sub(empty.total() - empty.beside + fixed);
        let in_step = self.per_splat.host.total();
        let with_copy = left(self.written_points)? / (in_step + self.copy_per_splat);
        let with_evaluation = left(self.evaluation)?.checked_div(in_step).unwrap_or(u64::MAX);
        let left_on_device = self.device_limit().checked_sub(empty.device)?;
        let on_device = left_on_device.checked_div(self.per_splat.device.total()).unwrap_or(u64::MAX);
        Some(with_copy.min(with_evaluation).min(on_device)).filter(|&possible| possible > 0)
    }

    /// What makes a run too large that no number of splats would make small enough, and what helps.
    #[must_use]
    pub fn advice(&self, dataset: &Dataset, start_splats: u64) -> String {
        if let Some(possible) = self.possible_splats().filter(|&possible| possible >= start_splats) {
            return format!("lower ⟨max-splats⟩ to {possible} or less, or raise {}", self.setting());
        }
        let least = self.with_splats(start_splats);
        if least.is_short_of_device() {
            return format!("lower ⟨max-resolution⟩, or raise {GPU_SETTING}");
        }
        let neediest = dataset.images.iter().max_by_key(|image| image.making_bytes());
        let neediest =
            neediest.filter(|image| image.making_bytes() as u64 > Self::picture_budget(self.limit));
        // What is left for pictures when all the rest has its own.
        match (neediest, self.limit.checked_sub(least.total() - least.pictures)) {
            (Some(image), Some(left)) => {
                let [width, height] = image.stored_size;
                let pixels = u64::from(width) * u64::from(height);
                let needed = image.making_bytes() as u64;
                let possible =
                    (u128::from(pixels) * u128::from(left) / u128::from(needed.max(1))) as f64 / 1e6;
                let (path, needed, left) = (image.path.display(), units::bytes(needed), units::bytes(left));
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

/// Pictures that are there at once: those of the loader, and those that it let go while somebody still holds them.
fn picture_bytes(dataset: &Dataset, limit: u64) -> u64 {
    let most = |bytes: fn(&ImageEntry) -> usize| dataset.images.iter().map(bytes).max().unwrap_or(0) as u64;
    let (making, result) = (most(ImageEntry::making_bytes), most(ImageEntry::result_bytes));
    let all: u64 = dataset.images.iter().map(|image| image.result_bytes() as u64).sum();
    let budget = MemoryPlan::picture_budget(limit).max(making);
    (all + making).min(budget + HELD_PICTURES * result)
}

/// Pictures at a part of their size, for the coarse part of a run.
fn reduced_bytes(recipe: &Recipe, dataset: &Dataset, limit: u64) -> u64 {
    if recipe.coarse.factor <= 1 {
        return 0;
    }
    // The last reduction, to half of the sides, is the largest.
    let train = dataset.split.train.iter().map(|&index| dataset.images[index].result_bytes() as u64 / 4);
    let largest = train.clone().max().unwrap_or(0);
    train.sum::<u64>().min(MemoryPlan::reduced_budget(limit) + HELD_PICTURES * largest)
}

/// The contact sheet of an evaluation: its views, the sheet, the encoded sheet.
fn sheet_bytes(dataset: &Dataset, views: usize) -> u64 {
    let view = |image: &ImageEntry| sheet::view_bytes(image.camera.width, image.camera.height);
    let largest = dataset.split.test.iter().map(|&index| view(&dataset.images[index])).max().unwrap_or(0);
    3 * views.min(sheet::SHEET_VIEWS) as u64 * largest
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
            fixed: MemoryNeed { host: MemoryUse { state: 0, working: 5 * MIB }, ..MemoryNeed::default() },
            per_splat: MemoryNeed { host: MemoryUse { state: 728, working: 200 }, ..MemoryNeed::default() },
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
                    let Some(possible) = plan.possible_splats() else {
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
        plan.fixed.device = MemoryUse { state: 0, working: 10 * MIB };
        plan.per_splat.device = MemoryUse { state: 1000, working: 24 };
        plan.fixed.limit = Some(20 * MIB);
        let plan = plan.with_splats(1_000_000);
        assert!(plan.total() <= plan.limit && !plan.fits());
        assert_eq!(plan.shortage(), [10 * MIB + 1_024_000_000, 20 * MIB]);
        assert_eq!(plan.possible_splats(), Some(10 * MIB / 1024));
        assert!(plan.with_splats(10 * MIB / 1024).fits() && !plan.with_splats(10 * MIB / 1024 + 1).fits());
    }
}
