//! The training views of a run, in order: one loaded ahead, downsampled while the run is coarse. Images that cannot be
//! read are skipped.
//!
//! A downsampled image is a pure function of the image, so caching it while its size is in use does not change results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::TargetImage;
use gausset_core::engine::TrainView;
use gausset_io::dataset::{Dataset, Loader};

use super::TrainError;
use super::corrections::Corrections;
use crate::recipe::Recipe;
use crate::views::{Cursor, ViewOrder};
use crate::warning::{RunWarning, SkippedImage};

/// Images announced to the loader in advance.
const LOOKAHEAD: usize = 8;

/// At most one in this many images may be unreadable.
const MIN_IMAGES_PER_UNREADABLE: usize = 10;

/// The training views in training order.
pub(super) struct Feed {
    loader: Arc<Loader>,
    order: ViewOrder,
    /// The next view, already loaded, and its position in the order.
    prefetched: Option<(Cursor, TrainView)>,
    skipped: Vec<SkippedImage>,
    unreadable: usize,
    downsampled: DownsampledCache,
}

impl Feed {
    /// The views from `cursor` on; at most `cache_bytes` of downsampled images are kept.
    pub(super) fn new(loader: Arc<Loader>, seed: u64, cursor: Cursor, cache_bytes: u64) -> Self {
        let order = ViewOrder::new(seed, loader.dataset().split.train.len(), cursor);
        let downsampled = DownsampledCache::new(cache_bytes);
        Self { order, prefetched: None, skipped: Vec::new(), unreadable: 0, downsampled, loader }
    }

    /// Skips images that were found unusable earlier in the run.
    pub(super) fn with_skipped(mut self, skipped: Vec<SkippedImage>, unreadable: usize) -> Self {
        for picture in &skipped {
            if let Some(view) = train_index(self.loader.dataset(), &picture.name) {
                self.order.skip(view);
            }
        }
        (self.skipped, self.unreadable) = (skipped, unreadable);
        self
    }

    /// The loader of the images, those of held-out views included.
    pub(super) fn loader(&self) -> &Arc<Loader> {
        &self.loader
    }

    /// The next view, at the size that the recipe gives it at step `scheduled` of the schedules; the view after it is
    /// then loaded.
    ///
    /// # Errors
    /// Too many images cannot be read, or none can be used.
    pub(super) fn take(
        &mut self,
        recipe: &Recipe,
        scheduled: u64,
        corrections: &Corrections,
        warn: &mut dyn FnMut(RunWarning),
    ) -> Result<TrainView, TrainError> {
        let _span = gausset_prof::span("next_view");
        let (_, view) = match self.prefetched.take() {
            Some(ahead) => ahead,
            None => self.load(corrections, warn)?,
        };
        self.prefetched = Some(self.load(corrections, warn)?);
        let factor = reduction(recipe, scheduled, &view);
        Ok(self.downsampled.reduce(view, factor))
    }

    /// Up to `count` of the next views at the size of step `scheduled`, without taking them: repeated calls return the
    /// same views. Unreadable images are left out; stops early once `stop` is set.
    pub(super) fn preview(
        &mut self,
        count: usize,
        recipe: &Recipe,
        scheduled: u64,
        corrections: &Corrections,
        stop: &AtomicBool,
    ) -> Vec<TrainView> {
        let views: Vec<usize> = self.order.upcoming(count).collect();
        let wanted = |view: &usize| self.loader.dataset().split.train[*view];
        self.loader.prefetch(&views.iter().map(wanted).collect::<Vec<_>>());
        let in_time = views.iter().take_while(|_| !stop.load(Ordering::Relaxed));
        let readable = in_time.filter_map(|view| {
            let target = self.loader.get(wanted(view)).ok()?;
            Some(self.view(*view, target, corrections))
        });
        let readable: Vec<TrainView> = readable.collect();
        let mut reduce = |view| {
            let factor = reduction(recipe, scheduled, &view);
            self.downsampled.reduce(view, factor)
        };
        readable.into_iter().map(&mut reduce).collect()
    }

    /// A training view with its image.
    fn view(&self, train_index: usize, target: Arc<TargetImage>, corrections: &Corrections) -> TrainView {
        let dataset = self.loader.dataset();
        let index = dataset.split.train[train_index];
        let image = &dataset.images[index];
        TrainView {
            index: index as u32,
            downscale: 1,
            name: Arc::clone(&image.name),
            camera: image.camera,
            pose: image.pose,
            target,
            exposure_row: corrections.exposure_row(train_index),
            vignetting_row: corrections.vignetting_row(train_index),
            pose_row: corrections.pose_row(train_index),
            camera_from_rig: corrections.camera_from_rig(train_index),
        }
    }

    /// The view that [`Self::take`] will return at step `scheduled` of the schedules, for a device that prefetches it;
    /// `None` if it will be downsampled, because its whole image is then useless to the device.
    pub(super) fn next_for_device(&self, recipe: &Recipe, scheduled: u64) -> Option<&TrainView> {
        let (_, next) = self.prefetched.as_ref()?;
        (reduction(recipe, scheduled, next) == 1).then_some(next)
    }

    /// Position in the order of the view that [`Self::take`] will return next.
    pub(super) fn cursor(&self) -> Cursor {
        self.prefetched.as_ref().map_or(self.order.cursor(), |(cursor, _)| *cursor)
    }

    /// Images that are unusable.
    pub(super) fn skipped(&self) -> &[SkippedImage] {
        &self.skipped
    }

    /// Number of images that cannot be read.
    pub(super) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Loads the view at the order's cursor, or the next usable one, and advances the cursor.
    fn load(
        &mut self,
        corrections: &Corrections,
        warn: &mut dyn FnMut(RunWarning),
    ) -> Result<(Cursor, TrainView), TrainError> {
        let dataset = Arc::clone(self.loader.dataset());
        loop {
            let Some(train_index) = self.order.current() else {
                return Err(self.none_usable(&dataset));
            };
            let wanted: Vec<usize> =
                self.order.upcoming(LOOKAHEAD).map(|view| dataset.split.train[view]).collect();
            self.loader.prefetch(&wanted);
            let index = dataset.split.train[train_index];
            match self.loader.get(index) {
                Ok(target) => {
                    let cursor = self.order.cursor();
                    self.order.advance();
                    let view = self.view(train_index, target, corrections);
                    return Ok((cursor, view));
                }
                Err(skipped) => {
                    self.order.skip(train_index);
                    self.unreadable += usize::from(skipped.reason.is_unreadable());
                    let picture = SkippedImage { name: skipped.name, reason: skipped.reason.to_string() };
                    self.skipped.push(picture.clone());
                    if self.unreadable * MIN_IMAGES_PER_UNREADABLE > dataset.split.train.len() {
                        return Err(self.too_many_unreadable(&dataset));
                    }
                    warn(RunWarning::UnreadableImage(picture));
                }
            }
        }
    }

    fn none_usable(&self, dataset: &Dataset) -> TrainError {
        TrainError::NoUsableImages {
            folder: dataset.images_folder.clone(),
            present: dataset.split.train.len(),
            first: self.first_skipped(),
        }
    }

    fn too_many_unreadable(&self, dataset: &Dataset) -> TrainError {
        TrainError::UnreadableImages {
            folder: dataset.images_folder.clone(),
            unreadable: self.unreadable,
            present: dataset.split.train.len(),
            first: self.first_skipped(),
        }
    }

    /// The first image that was skipped, with the reason.
    fn first_skipped(&self) -> String {
        self.skipped.first().map_or_else(String::new, |p| format!("{}: {}", p.name, p.reason))
    }
}

/// Index in the training split of an image name.
fn train_index(dataset: &Dataset, name: &str) -> Option<usize> {
    dataset.split.train.iter().position(|&index| *dataset.images[index].name == *name)
}

/// The factor by which the recipe downsamples a view at step `scheduled` of the schedules.
fn reduction(recipe: &Recipe, scheduled: u64, view: &TrainView) -> u32 {
    recipe.reduction_at(scheduled, view.camera.width, view.camera.height)
}

/// Downsamples views and keeps the images of the current size.
#[derive(Debug)]
struct DownsampledCache {
    /// Maximum bytes of cached images; others are downsampled each time.
    budget: u64,
    factor: u32,
    /// By index of the image in the dataset.
    cached: Vec<Option<Arc<TargetImage>>>,
    bytes: u64,
}

impl DownsampledCache {
    /// A cache of at most `budget` bytes.
    fn new(budget: u64) -> Self {
        Self { budget, factor: 1, cached: Vec::new(), bytes: 0 }
    }

    /// The view at `1 / factor` of its size.
    fn reduce(&mut self, mut view: TrainView, factor: u32) -> TrainView {
        if self.factor != factor {
            *self = Self { factor, ..Self::new(self.budget) };
        }
        if factor <= 1 {
            return view;
        }
        let index = view.index as usize;
        view.downscale = factor;
        view.camera = view.camera.downscaled(factor);
        view.target = match self.cached.get(index) {
            Some(Some(kept)) => Arc::clone(kept),
            _ => self.downsample(index, &view.target),
        };
        view
    }

    fn downsample(&mut self, index: usize, target: &TargetImage) -> Arc<TargetImage> {
        let _span = gausset_prof::span("reduce");
        let reduced = Arc::new(target.downscaled(self.factor));
        let bytes = reduced.bytes() as u64;
        if self.bytes + bytes <= self.budget {
            self.bytes += bytes;
            if self.cached.len() <= index {
                self.cached.resize(index + 1, None);
            }
            self.cached[index] = Some(Arc::clone(&reduced));
        }
        reduced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gausset_core::{Camera, Pose};

    #[test]
    fn views_keep_their_geometry_and_get_each_picture_once_per_size() {
        let camera = Camera {
            projection: gausset_core::Projection::Pinhole,
            width: 9,
            height: 6,
            fx: 8.0,
            fy: 6.0,
            cx: 4.5,
            cy: 3.0,
        };
        let rgb = (0..9 * 6 * 3).map(|v| v as u8).collect();
        let view = TrainView {
            index: 3,
            downscale: 1,
            name: "view".into(),
            camera,
            pose: Pose::IDENTITY,
            target: Arc::new(TargetImage { width: 9, height: 6, rgb, alpha: None, mask: None }),
            exposure_row: None,
            vignetting_row: None,
            pose_row: None,
            camera_from_rig: None,
        };
        let mut coarse = DownsampledCache::new(1 << 20);
        let half = coarse.reduce(view.clone(), 2);
        assert_eq!((half.camera.width, half.camera.height), (4, 3));
        assert_eq!((half.target.width, half.target.height), (4, 3));
        assert_eq!((half.index, half.downscale), (3, 2), "the index of the image");
        // The same point of the scene projects to the same relative position in the image.
        assert_eq!((half.camera.fx, half.camera.cy), (4.0, 1.5));
        assert!(Arc::ptr_eq(&half.target, &coarse.reduce(view.clone(), 2).target));
        let whole = coarse.reduce(view.clone(), 1);
        assert!(whole.downscale == 1 && Arc::ptr_eq(&view.target, &whole.target));
        assert!(!Arc::ptr_eq(&half.target, &coarse.reduce(view, 2).target));
    }
}
