//! A background image loader with a byte budget.
//!
//! Each image of the dataset is empty, loading, ready, or failed. [`Loader::get`] returns a ready image, waits for one
//! that another thread is loading, or else loads it itself, so it never waits for an idle thread. Background threads
//! load the images named by [`Loader::prefetch`]. When the budget is exhausted, ready images are evicted in the order
//! of their last use, prefetched ones last. A failure is stored and returned each time.
//!
//! `schedule` decides which thread loads what and when; it knows no threads and is tested without them. This module
//! runs the threads: they query the schedule, load images without holding the lock, report back, and sleep until it
//! changes.
//!
//! Bytes: a ready image counts the bytes it holds, a loading one [`ImageEntry::loading_bytes`].

mod schedule;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use gausset_core::TargetImage;

use self::schedule::{CallerAction, Schedule};
use super::training_image;
use super::warning::SkippedImage;
use super::{Dataset, ImageEntry};

/// Largest number of prefetch hints; further ones are dropped.
const MAX_HINTS: usize = 64;

/// Budget and threads of a [`Loader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Bytes for ready and loading images. Raised to what the largest image needs.
    pub budget_bytes: usize,
    /// Number of background threads; with 0, the caller of [`Loader::get`] loads every image.
    pub threads: usize,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self { budget_bytes: 1 << 30, threads: 1 }
    }
}

/// Current state of a [`Loader`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoaderStats {
    /// Bytes of ready and loading images.
    pub bytes: usize,
    /// Maximum of `bytes` so far.
    pub peak_bytes: usize,
    /// Number of ready images.
    pub ready: usize,
    /// Number of images loaded so far.
    pub loaded: u64,
}

/// A training image, or why it was skipped.
type LoadResult = Result<TargetImage, SkippedImage>;

struct LoaderState {
    schedule: Schedule<Arc<TargetImage>, Box<SkippedImage>>,
    peak_bytes: usize,
    made: u64,
    stop: bool,
}

struct LoaderShared {
    /// Loads the image of an index.
    make: Box<dyn Fn(usize) -> LoadResult + Send + Sync>,
    state: Mutex<LoaderState>,
    /// Signals a change of the schedule or of `stop`.
    changed: Condvar,
}

/// Loads and caches training images; see the module documentation. Threads share it by reference.
pub struct Loader {
    dataset: Arc<Dataset>,
    shared: Arc<LoaderShared>,
    threads: Vec<JoinHandle<()>>,
}

impl Loader {
    /// Creates a loader for a dataset. If the system cannot start a thread, it uses the threads that it has.
    #[must_use]
    pub fn new(dataset: Arc<Dataset>, options: LoaderOptions) -> Self {
        let pictures = Arc::clone(&dataset);
        let make = move |index: usize| {
            let skipped = |reason| SkippedImage { name: pictures.images[index].name.to_string(), reason };
            training_image::create(&pictures, index).map_err(skipped)
        };
        Self::with_load_fn(dataset, options, Box::new(make))
    }

    fn with_load_fn(
        dataset: Arc<Dataset>,
        options: LoaderOptions,
        make: Box<dyn Fn(usize) -> LoadResult + Send + Sync>,
    ) -> Self {
        let needs = dataset.images.iter().map(ImageEntry::loading_bytes).collect();
        let shared = Arc::new(LoaderShared {
            make,
            state: Mutex::new(LoaderState {
                schedule: Schedule::new(options.budget_bytes, needs),
                peak_bytes: 0,
                made: 0,
                stop: false,
            }),
            changed: Condvar::new(),
        });
        let threads = (0..options.threads)
            .map_while(|i| {
                let shared = Arc::clone(&shared);
                let name = format!("gausset-load-{i}");
                std::thread::Builder::new().name(name).spawn(move || shared.run_background()).ok()
            })
            .collect();
        Self { dataset, shared, threads }
    }

    /// The dataset whose images are loaded.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// Byte budget: the option, or what the largest image needs if that is more.
    #[must_use]
    pub fn budget_bytes(&self) -> usize {
        self.shared.lock().schedule.budget()
    }

    /// Statistics of the loader so far.
    #[must_use]
    pub fn stats(&self) -> LoaderStats {
        let LoaderState { schedule, peak_bytes, made, .. } = &*self.shared.lock();
        let (bytes, ready) = (schedule.bytes(), schedule.ready());
        LoaderStats { bytes, peak_bytes: *peak_bytes, ready, loaded: *made }
    }

    /// The training image of `dataset.images[index]`. Loads it, or waits for the thread that is loading it.
    ///
    /// # Errors
    /// The image is unusable. The error is the same each time.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn get(&self, index: usize) -> Result<Arc<TargetImage>, SkippedImage> {
        assert!(index < self.dataset.images.len());
        let shared = &*self.shared;
        let mut state = shared.lock();
        let ticket = shared.update(&mut state, |state| state.schedule.register(index));
        loop {
            state = match shared.update(&mut state, |state| state.schedule.next_action(ticket)) {
                CallerAction::Take(taken) => return taken.map_err(|skipped| *skipped),
                CallerAction::Make => {
                    drop(state);
                    return shared.load(index);
                }
                CallerAction::Wait => shared.wait(state),
            };
        }
    }

    /// Sets the images that will be needed next, soonest first, and replaces earlier hints. Never waits for an image.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn prefetch(&self, indices: &[usize]) {
        assert!(indices.iter().all(|&i| i < self.dataset.images.len()));
        if self.threads.is_empty() {
            return;
        }
        let hints = indices.iter().copied().take(MAX_HINTS);
        self.shared.update(&mut self.shared.lock(), |state| state.schedule.set_hints(hints));
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("budget_bytes", &self.budget_bytes())
            .field("threads", &self.threads.len())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl LoaderShared {
    fn lock(&self) -> MutexGuard<'_, LoaderState> {
        // A poisoned lock only means that a load panicked; `ResetOnPanic` has reset its image.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, LoaderState>) -> MutexGuard<'a, LoaderState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `act` to the schedule, and wakes all threads if that changes anything they wait for.
    fn update<T>(&self, state: &mut LoaderState, act: impl FnOnce(&mut LoaderState) -> T) -> T {
        let before = state.schedule.change_count();
        let value = act(state);
        state.peak_bytes = state.peak_bytes.max(state.schedule.bytes());
        if state.schedule.change_count() != before {
            self.changed.notify_all();
        }
        value
    }

    /// Runs a background thread: loads hinted images while they fit into the budget.
    fn run_background(&self) {
        let mut state = self.lock();
        while !state.stop {
            state = match self.update(&mut state, |state| state.schedule.next_in_background()) {
                Some(index) => {
                    drop(state);
                    // The schedule keeps the error for later calls of `get`.
                    let _ = self.load(index);
                    self.lock()
                }
                None => self.wait(state),
            };
        }
    }

    /// Loads an image for which the budget is reserved, without holding the lock, and stores it.
    fn load(&self, index: usize) -> Result<Arc<TargetImage>, SkippedImage> {
        /// Resets the image if loading panics, so that no thread waits for it for ever.
        struct ResetOnPanic<'s>(&'s LoaderShared, usize);
        impl Drop for ResetOnPanic<'_> {
            fn drop(&mut self) {
                self.0.update(&mut self.0.lock(), |state| state.schedule.abandon(self.1));
            }
        }

        let abandon = ResetOnPanic(self, index);
        let made = (self.make)(index).map(Arc::new);
        std::mem::forget(abandon);
        let told = match &made {
            Ok(image) => Ok((Arc::clone(image), image.bytes())),
            Err(skipped) => Err(Box::new(skipped.clone())),
        };
        self.update(&mut self.lock(), |state| {
            state.made += 1;
            state.schedule.finish(index, told);
        });
        made
    }
}

impl ImageEntry {
    /// Upper bound on the bytes of the training image.
    #[must_use]
    pub fn result_bytes(&self) -> usize {
        // Colour, alpha, mask.
        self.camera.pixels() * 5
    }

    /// Upper bound on the bytes while the training image is being loaded.
    #[must_use]
    pub fn loading_bytes(&self) -> usize {
        usize::try_from(self.decode_bytes).unwrap_or(usize::MAX).saturating_add(self.result_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::mpsc;
    use std::time::Duration;

    use gausset_core::{Camera, Pose};

    use super::super::{AlphaMode, DatasetKind, Split};
    use super::*;

    const SIDE: u32 = 4;

    /// `count` images of 4x4 px without files.
    fn pictures(count: u32) -> Arc<Dataset> {
        let camera = Camera::new(SIDE, SIDE, 4.0, 4.0, 2.0, 2.0).unwrap();
        let image = |id: u32| ImageEntry {
            name: format!("{id}.png").into(),
            path: PathBuf::new(),
            id,
            frame: None,
            source_camera: 0,
            stored_size: [SIDE; 2],
            has_alpha_channel: false,
            turn: crate::dataset::Turn::None,
            file_bytes: 0,
            decode_bytes: 1000,
            camera,
            pose: Pose::IDENTITY,
            mask: None,
            mask_content: None,
            sample: crate::dataset::Sample::fingerprint(&[]),
            face: None,
        };
        Arc::new(Dataset {
            root: PathBuf::new(),
            source: PathBuf::new(),
            model: None,
            images_folder: PathBuf::new(),
            kind: DatasetKind::Colmap,
            cameras: Vec::new(),
            images: (0..count).map(image).collect(),
            points: Vec::new(),
            split: Split { train: (0..count as usize).collect(), test: Vec::new() },
            background: [0.0; 3],
            alpha: AlphaMode::Composite,
            invert_masks: false,
            scene_extent: 1.0,
            applied_transform: None,
            georeference: None,
            offset: None,
            normalisation: crate::dataset::Normalisation::default(),
            warnings: Vec::new(),
            skipped: Vec::new(),
            fingerprint: crate::dataset::Fingerprint::default(),
            reading: Arc::default(),
        })
    }

    /// A loader in which each image takes a time of `micros`.
    fn slow_loader(
        count: u32,
        options: LoaderOptions,
        micros: impl Fn(usize) -> u64 + Send + Sync + 'static,
    ) -> Loader {
        let make = move |index: usize| {
            std::thread::sleep(Duration::from_micros(micros(index)));
            let rgb = vec![index as u8; 3 * (SIDE * SIDE) as usize];
            Ok(TargetImage { width: SIDE, height: SIDE, rgb, alpha: None, mask: None })
        };
        Loader::with_load_fn(pictures(count), options, Box::new(make))
    }

    /// Fails if `work` takes longer than anything here should.
    fn in_time(work: impl FnOnce() + Send + 'static) {
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            work();
            let _ = done.send(());
        });
        is_done.recv_timeout(Duration::from_secs(120)).expect("finishes in time without a panic");
    }

    #[test]
    fn with_slow_makers_and_room_for_one_picture_every_call_ends() {
        for (threads, callers) in [(1, 1), (2, 1), (1, 3), (2, 3)] {
            in_time(move || {
                let options = LoaderOptions { budget_bytes: 0, threads };
                let loader = slow_loader(6, options, |index| 20 * (index as u64 * 7 % 5));
                let one = loader.dataset().images[0].loading_bytes();
                assert_eq!(loader.budget_bytes(), one);
                std::thread::scope(|scope| {
                    for caller in 0..callers {
                        let loader = &loader;
                        scope.spawn(move || {
                            for k in 0..300usize {
                                let index = (k * (caller + 1) + caller) % 6;
                                // Hints as a training run gives them: the image itself, then the next ones.
                                loader.prefetch(&[index, (index + 1) % 6, (index + 2) % 6]);
                                assert_eq!(loader.get(index).unwrap().rgb[0], index as u8);
                            }
                        });
                    }
                });
                assert!(loader.stats().peak_bytes <= one, "{:?}", loader.stats());
            });
        }
    }

    #[test]
    fn a_loader_that_is_dropped_while_pictures_are_made_ends_its_threads() {
        for _ in 0..20 {
            in_time(|| {
                let options = LoaderOptions { budget_bytes: 0, threads: 3 };
                let loader = slow_loader(6, options, |_| 500);
                loader.prefetch(&[0, 1, 2, 3]);
                let _ = loader.get(4);
            });
        }
    }

    #[test]
    fn a_panic_while_a_picture_is_made_does_not_keep_others_waiting() {
        in_time(|| {
            let first = std::sync::atomic::AtomicBool::new(true);
            let make = move |_| -> LoadResult {
                assert!(!first.swap(false, std::sync::atomic::Ordering::Relaxed), "the first time fails");
                Ok(TargetImage { width: 1, height: 1, rgb: vec![0; 3], alpha: None, mask: None })
            };
            let options = LoaderOptions { budget_bytes: 0, threads: 0 };
            let loader = Loader::with_load_fn(pictures(2), options, Box::new(make));
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loader.get(0).is_ok()));
            assert!(caught.is_err());
            assert!(loader.get(1).is_ok() && loader.get(0).is_ok());
        });
    }
}
