//! Delivers training views in order, one loaded ahead, and skips images that cannot be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gausset_core::TargetImage;
use gausset_core::engine::TrainView;
use gausset_io::dataset::{Dataset, Loader};

use super::TrainError;
use super::corrections::Corrections;
use crate::views::{Cursor, ViewOrder};
use crate::warning::{RunWarning, SkippedImage};

/// Images announced to the loader in advance.
const LOOKAHEAD: usize = 8;

/// At most one in this many images may be unreadable.
const MIN_IMAGES_PER_UNREADABLE: usize = 10;

/// The training views in training order.
pub(super) struct ViewFeed {
    loader: Arc<Loader>,
    order: ViewOrder,
    corrections: Corrections,
    /// The next view, already loaded, and its position in the order.
    prefetched: Option<(Cursor, TrainView)>,
    skipped: Vec<SkippedImage>,
    unreadable: usize,
}

impl ViewFeed {
    /// The views from `cursor` on.
    pub(super) fn new(loader: Arc<Loader>, seed: u64, cursor: Cursor, corrections: Corrections) -> Self {
        let order = ViewOrder::new(seed, loader.dataset().split.train.len(), cursor);
        Self { order, corrections, prefetched: None, skipped: Vec::new(), unreadable: 0, loader }
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

    /// The next view; the view after it is then loaded.
    ///
    /// # Errors
    /// Too many images cannot be read.
    pub(super) fn take(&mut self, warn: &mut dyn FnMut(RunWarning)) -> Result<TrainView, TrainError> {
        let (_, view) = match self.prefetched.take() {
            Some(ahead) => ahead,
            None => self.load(warn)?,
        };
        self.prefetched = Some(self.load(warn)?);
        Ok(view)
    }

    /// Up to `count` of the next views, without taking them: repeated calls return the same views. Unreadable images
    /// are left out; stops early once `stop` is set.
    pub(super) fn preview(&self, count: usize, stop: &AtomicBool) -> Vec<TrainView> {
        let views: Vec<usize> = self.order.upcoming(count).collect();
        let wanted = |view: &usize| self.loader.dataset().split.train[*view];
        self.loader.prefetch(&views.iter().map(wanted).collect::<Vec<_>>());
        let in_time = views.iter().take_while(|_| !stop.load(Ordering::Relaxed));
        let readable = in_time.filter_map(|view| {
            let target = self.loader.get(wanted(view)).ok()?;
            Some(self.view(*view, target))
        });
        readable.collect()
    }

    /// A training view with its image.
    fn view(&self, train_index: usize, target: Arc<TargetImage>) -> TrainView {
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
            exposure_row: self.corrections.exposure_row(train_index),
            vignetting_row: self.corrections.vignetting_row(train_index),
            pose_row: self.corrections.pose_row(train_index),
            camera_from_rig: self.corrections.camera_from_rig(train_index),
        }
    }

    /// The view that [`Self::take`] will return next.
    pub(super) fn next(&self) -> Option<&TrainView> {
        self.prefetched.as_ref().map(|(_, view)| view)
    }

    /// Position in the order of the view that [`Self::take`] will return next.
    pub(super) fn cursor(&self) -> Cursor {
        self.prefetched.as_ref().map_or(self.order.cursor(), |(cursor, _)| *cursor)
    }

    /// The corrections of the views.
    pub(super) fn corrections(&self) -> &Corrections {
        &self.corrections
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
    fn load(&mut self, warn: &mut dyn FnMut(RunWarning)) -> Result<(Cursor, TrainView), TrainError> {
        let dataset = Arc::clone(self.loader.dataset());
        loop {
            let Some(train_index) = self.order.current() else {
                return Err(self.too_many_unreadable(&dataset));
            };
            let wanted: Vec<usize> =
                self.order.upcoming(LOOKAHEAD).map(|view| dataset.split.train[view]).collect();
            self.loader.prefetch(&wanted);
            let index = dataset.split.train[train_index];
            match self.loader.get(index) {
                Ok(target) => {
                    let cursor = self.order.cursor();
                    self.order.advance();
                    let view = self.view(train_index, target);
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

    fn too_many_unreadable(&self, dataset: &Dataset) -> TrainError {
        TrainError::UnreadableImages {
            folder: dataset.images_folder.clone(),
            unreadable: self.unreadable,
            present: dataset.split.train.len(),
            first: self.skipped.first().map_or_else(String::new, |p| format!("{}: {}", p.name, p.reason)),
        }
    }
}

/// Index in the training split of an image name.
fn train_index(dataset: &Dataset, name: &str) -> Option<usize> {
    dataset.split.train.iter().position(|&index| *dataset.images[index].name == *name)
}
