//! The training views of a run, in order: one loaded ahead, downsampled while the run is coarse. Images that cannot be
//! read are skipped.
//!
//! A downsampled image is a pure function of the image, so caching it while its size is in use does not change results.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::engine::TrainView;
use gausset_core::{Camera, TargetImage};
use gausset_io::dataset::{self, Dataset, Loader};

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
    /// The next view, already loaded, and its position in the order. If its downsampled image is cached, it holds that
    /// one, with the camera of the whole image.
    prefetched: Option<(Cursor, TrainView)>,
    skipped: Vec<SkippedImage>,
    unreadable: usize,
    downsampled: DownsampledCache,
    /// Whether an image that cannot be read is an error: in a block, results would depend on the machine.
    pub(super) reads_all: bool,
}

impl Feed {
    /// The views from `cursor` on; at most `cache_bytes` of downsampled images are kept.
    pub(super) fn new(loader: Arc<Loader>, seed: u64, cursor: Cursor, cache_bytes: u64) -> Self {
        let order = ViewOrder::new(seed, loader.dataset().split.train.len(), cursor);
        let downsampled = DownsampledCache::new(cache_bytes);
        Self {
            loader,
            order,
            prefetched: None,
            skipped: Vec::new(),
            unreadable: 0,
            downsampled,
            reads_all: false,
        }
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

    /// The next view, at the size that the recipe gives it at step `now` of the schedules; the view after it is then
    /// loaded for step `next`.
    ///
    /// # Errors
    /// Too many images cannot be read, or none can be used.
    pub(super) fn take(
        &mut self,
        recipe: &Recipe,
        [now, next]: [u64; 2],
        corrections: &Corrections,
        warn: &mut dyn FnMut(RunWarning),
    ) -> Result<TrainView, TrainError> {
        let _span = gausset_prof::span("next_view");
        let mut view = match self.prefetched.take() {
            Some((_, view)) => view,
            None => self.load(recipe, now, corrections, warn)?.1,
        };
        // The size may differ from the one that was expected when the view was loaded.
        if !is_whole(&view) && self.cached(view.index as usize, recipe, now).is_none() {
            match self.loader.get(view.index as usize) {
                Ok(target) => view.target = target,
                Err(skipped) => {
                    let train = &self.loader.dataset().split.train;
                    let train_index = train.iter().position(|&index| index == view.index as usize);
                    self.skip(train_index, skipped, warn)?;
                    view = self.load(recipe, now, corrections, warn)?.1;
                }
            }
        }
        self.prefetched = Some(self.load(recipe, next, corrections, warn)?);
        let factor = reduction(recipe, now, &view.camera);
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
        let reduce = |view: TrainView| {
            let factor = reduction(recipe, scheduled, &view.camera);
            self.downsampled.reduce(view, factor)
        };
        readable.into_iter().map(reduce).collect()
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
        (is_whole(next) && reduction(recipe, scheduled, &next.camera) == 1).then_some(next)
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

    /// Loads the view at the order's cursor, or the next usable one, for step `scheduled` of the schedules, and advances
    /// the cursor.
    fn load(
        &mut self,
        recipe: &Recipe,
        scheduled: u64,
        corrections: &Corrections,
        warn: &mut dyn FnMut(RunWarning),
    ) -> Result<(Cursor, TrainView), TrainError> {
        let dataset = Arc::clone(self.loader.dataset());
        loop {
            let Some(train_index) = self.order.current() else {
                return Err(self.none_usable(&dataset));
            };
            let upcoming = self.order.upcoming(LOOKAHEAD).map(|view| dataset.split.train[view]);
            let wanted = upcoming.filter(|&index| self.cached(index, recipe, scheduled).is_none());
            self.loader.prefetch(&wanted.collect::<Vec<_>>());
            let index = dataset.split.train[train_index];
            let target = self.cached(index, recipe, scheduled).cloned();
            match target.map_or_else(|| self.loader.get(index), Ok) {
                Ok(target) => {
                    let cursor = self.order.cursor();
                    self.order.advance();
                    let view = self.view(train_index, target, corrections);
                    return Ok((cursor, view));
                }
                Err(skipped) => self.skip(Some(train_index), skipped, warn)?,
            }
        }
    }

    /// The downsampled image of `dataset.images[index]` for step `scheduled` of the schedules, if it is kept.
    fn cached(&self, index: usize, recipe: &Recipe, scheduled: u64) -> Option<&Arc<TargetImage>> {
        let factor = reduction(recipe, scheduled, &self.loader.dataset().images[index].camera);
        self.downsampled.get(index, factor)
    }

    /// Skips an image from now on.
    ///
    /// # Errors
    /// Too many images cannot be read.
    fn skip(
        &mut self,
        train_index: Option<usize>,
        image: dataset::SkippedImage,
        warn: &mut dyn FnMut(RunWarning),
    ) -> Result<(), TrainError> {
        let dataset = Arc::clone(self.loader.dataset());
        if self.reads_all && image.reason.is_unreadable() {
            return Err(TrainError::unreadable_in_block(&dataset, &image));
        }
        train_index.into_iter().for_each(|view| self.order.skip(view));
        self.unreadable += usize::from(image.reason.is_unreadable());
        let picture = SkippedImage { name: image.name, reason: image.reason.to_string() };
        self.skipped.push(picture.clone());
        if self.unreadable * MIN_IMAGES_PER_UNREADABLE > dataset.split.train.len() {
            return Err(self.too_many_unreadable(&dataset));
        }
        warn(RunWarning::UnreadableImage(picture));
        Ok(())
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

/// The factor by which the recipe downsamples an image at step `scheduled` of the schedules.
fn reduction(recipe: &Recipe, scheduled: u64, camera: &Camera) -> u32 {
    recipe.reduction_at(scheduled, camera.width, camera.height)
}

/// Whether a view has the whole image.
fn is_whole(view: &TrainView) -> bool {
    (view.target.width, view.target.height) == (view.camera.width, view.camera.height)
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
        view.target = match self.get(index, factor) {
            Some(kept) => Arc::clone(kept),
            None => self.downsample(index, &view.target),
        };
        view
    }

    /// The image of a view at `1 / factor` of its size, if it is kept.
    fn get(&self, index: usize, factor: u32) -> Option<&Arc<TargetImage>> {
        self.cached.get(index)?.as_ref().filter(|_| self.factor == factor)
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
    use crate::{TrainConfig, TrainOptions, option_values::Colours};
    use gausset_core::Pose;
    use gausset_io::dataset::LoaderOptions;

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

    #[test]
    fn an_image_is_not_decoded_while_its_small_copy_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let frame = |i: u32| {
            let rgb = (0..3 * 96 * 96).map(|v| (v * (i + 1)) as u8).collect();
            let picture = gausset_core::image::RgbImage8 { width: 96, height: 96, data: rgb };
            let name = format!("{i}.png");
            std::fs::write(folder.path().join(&name), gausset_io::image::encode::png_rgb8(&picture).unwrap())
                .unwrap();
            format!(
                r#"{{"file_path": "{name}", "transform_matrix":
                    [[1, 0, 0, {i}], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]]}}"#
            )
        };
        let frames = [0, 1, 2].map(frame).join(", ");
        let text = format!(r#"{{"fl_x": 90, "fl_y": 90, "w": 96, "h": 96, "frames": [{frames}]}}"#);
        std::fs::write(folder.path().join("transforms.json"), text).unwrap();
        let data = Some(folder.path().to_owned());
        let given =
            TrainOptions { data, steps: Some(100), coarse_factor: Some(2), ..TrainOptions::default() };
        let config = TrainConfig::resolve(&given, None).unwrap();
        let dataset = Arc::new(dataset::open(folder.path(), &config.open_options()).unwrap());
        let recipe = &config.recipe;
        let fine = (0..100).find(|&step| recipe.reduction_at(step, 96, 96) == 1).unwrap();
        let corrections = Corrections::new(recipe, Colours::None, &dataset, false);
        let taken = |cache_bytes, steps: &[[u64; 2]]| {
            // Holds one image.
            let options = LoaderOptions { budget_bytes: 0, threads: 0 };
            let loader = Arc::new(Loader::new(Arc::clone(&dataset), options));
            let mut feed = Feed::new(Arc::clone(&loader), 1, Cursor::default(), cache_bytes);
            let views = steps.iter().map(|&step| feed.take(recipe, step, &corrections, &mut |_| {}).unwrap());
            let views: Vec<_> = views.map(|v| (v.index, v.downscale, v.camera, v.target)).collect();
            (views, loader.stats().loaded)
        };
        let steps: Vec<[u64; 2]> = (0..12).map(|i| if i < 9 { [0, 0] } else { [fine, fine] }).collect();
        let (views, loaded) = taken(1 << 20, &steps);
        let (expected, without) = taken(0, &steps);
        assert!(views == expected && views[8].1 == 2 && views[9].1 == 1);
        assert!(loaded <= 3 + 4 && without > 9, "{loaded} {without}");
    }
}
