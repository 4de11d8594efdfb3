//! A bounded background loader: pictures as the trainer sees them, within a byte budget.
//!
//! Each picture of the dataset has a slot: empty, being made, ready, or failed. [`Loader::get`] takes what is
//! ready, waits for what another thread is making, and makes anything else itself, so it never waits for a thread
//! that does nothing. Background threads make the pictures that [`Loader::prefetch`] named. Ready pictures leave in
//! the order of their last use when the budget needs room; those still wanted leave last. A failure is a value and
//! stays one.
//!
//! Bytes: a ready picture counts what it holds; one being made counts file, decoded picture and result.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use gausset_core::TargetImage;

use super::report::Skipped;
use super::target;
use super::{Dataset, ImageEntry};

/// Most hints that are kept; more are cut off.
const MAX_HINTS: usize = 64;

/// Budget and threads of a [`Loader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Bytes for ready pictures and for those being made; raised to what two pictures need.
    pub budget_bytes: usize,
    /// Background threads; 0 = every picture is made by the caller of [`Loader::get`].
    pub threads: usize,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self { budget_bytes: 1 << 30, threads: 1 }
    }
}

/// What a [`Loader`] holds at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoaderStats {
    /// Bytes of ready pictures and of those being made.
    pub bytes: usize,
    /// Largest value that `bytes` ever had.
    pub peak_bytes: usize,
    /// Ready pictures.
    pub ready: usize,
    /// Pictures made so far.
    pub made: u64,
}

enum Slot {
    Empty,
    /// Being made, with the bytes counted for that.
    Making(usize),
    Ready {
        image: Arc<TargetImage>,
        last_use: u64,
    },
    Failed(Box<Skipped>),
}

struct State {
    slots: Vec<Slot>,
    /// Pictures wanted next, soonest first.
    hints: Vec<usize>,
    clock: u64,
    /// Slots being made.
    making: usize,
    stats: LoaderStats,
    stop: bool,
}

struct Shared {
    dataset: Arc<Dataset>,
    budget: usize,
    state: Mutex<State>,
    /// A slot, the hints or `stop` changed.
    changed: Condvar,
}

/// Makes and keeps training pictures; see the module documentation. Shared by reference between threads.
pub struct Loader {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Loader {
    /// A loader for the pictures of a dataset. If the system refuses a thread, it goes on with those it has.
    #[must_use]
    pub fn new(dataset: Arc<Dataset>, options: LoaderOptions) -> Self {
        let largest = dataset.images.iter().map(|i| making_bytes(i) + result_bytes(i)).max().unwrap_or(0);
        let shared = Arc::new(Shared {
            budget: options.budget_bytes.max(largest),
            state: Mutex::new(State {
                slots: dataset.images.iter().map(|_| Slot::Empty).collect(),
                hints: Vec::new(),
                clock: 0,
                making: 0,
                stats: LoaderStats::default(),
                stop: false,
            }),
            changed: Condvar::new(),
            dataset,
        });
        let threads = (0..options.threads)
            .map_while(|i| {
                let shared = Arc::clone(&shared);
                let name = format!("gausset-load-{i}");
                std::thread::Builder::new().name(name).spawn(move || shared.work()).ok()
            })
            .collect();
        Self { shared, threads }
    }

    /// The dataset.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.shared.dataset
    }

    /// Bytes that the loader may hold: the option, or what two pictures need if that is more.
    #[must_use]
    pub fn budget_bytes(&self) -> usize {
        self.shared.budget
    }

    /// What the loader holds now.
    #[must_use]
    pub fn stats(&self) -> LoaderStats {
        self.shared.lock().stats
    }

    /// The training picture of `dataset.images[index]`; makes it, or waits for the thread that is making it.
    ///
    /// # Errors
    /// The picture cannot be used; the same answer each time.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn get(&self, index: usize) -> Result<Arc<TargetImage>, Skipped> {
        let shared = &*self.shared;
        let mut state = shared.lock();
        let hints = state.hints.len();
        state.hints.retain(|&hint| hint != index);
        if state.hints.len() < hints {
            // One picture fewer to hold on to: there may be room for the next.
            shared.changed.notify_all();
        }
        loop {
            state.clock += 1;
            let now = state.clock;
            match &mut state.slots[index] {
                Slot::Ready { image, last_use } => {
                    *last_use = now;
                    return Ok(Arc::clone(image));
                }
                Slot::Failed(skipped) => return Err((**skipped).clone()),
                Slot::Making(_) => {
                    // Whoever makes it finishes, or empties the slot when it panics.
                    state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Slot::Empty => {
                    let needed = making_bytes(&shared.dataset.images[index]);
                    let fits = state.make_room(shared.budget, needed, true);
                    state = if fits || state.making == 0 {
                        shared.make(state, index)
                    } else {
                        // Another thread is making a picture: when it is done, its room is free.
                        shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                    };
                }
            }
        }
    }

    /// Says which pictures will be wanted next, soonest first; replaces earlier hints. Never blocks on pictures.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn prefetch(&self, indices: &[usize]) {
        assert!(indices.iter().all(|&i| i < self.shared.dataset.images.len()));
        if self.threads.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        state.hints.clear();
        state.hints.extend(indices.iter().take(MAX_HINTS));
        drop(state);
        self.shared.changed.notify_all();
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
            .field("budget_bytes", &self.shared.budget)
            .field("threads", &self.threads.len())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Poison only says that a maker panicked; its slot was emptied on the way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A background thread: makes hinted pictures as long as they fit beside what is wanted.
    fn work(&self) {
        let mut state = self.lock();
        while !state.stop {
            let next = state.hints.iter().copied().find(|&i| matches!(state.slots[i], Slot::Empty));
            let fits = next.filter(|&index| {
                let needed = making_bytes(&self.dataset.images[index]);
                state.make_room(self.budget, needed, false)
            });
            state = match fits {
                Some(index) => self.make(state, index),
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Makes a picture whose slot is empty, without the lock, and fills the slot.
    fn make<'a>(&'a self, mut state: MutexGuard<'a, State>, index: usize) -> MutexGuard<'a, State> {
        /// Empties the slot if making panics, so that nobody waits for it.
        struct Reset<'s>(&'s Shared, usize);
        impl Drop for Reset<'_> {
            fn drop(&mut self) {
                let mut state = self.0.lock();
                state.replace(self.1, Slot::Empty);
                drop(state);
                self.0.changed.notify_all();
            }
        }

        state.replace(index, Slot::Making(making_bytes(&self.dataset.images[index])));
        drop(state);
        let reset = Reset(self, index);
        let made = target::make(&self.dataset, index);
        std::mem::forget(reset);

        let mut state = self.lock();
        state.stats.made += 1;
        state.clock += 1;
        let slot = match made {
            Ok(image) => Slot::Ready { image: Arc::new(image), last_use: state.clock },
            Err(reason) => {
                let name = self.dataset.images[index].name.to_string();
                Slot::Failed(Box::new(Skipped { name, reason }))
            }
        };
        state.replace(index, slot);
        self.changed.notify_all();
        state
    }
}

impl State {
    fn replace(&mut self, index: usize, slot: Slot) {
        // Bytes, being made, ready.
        let count = |slot: &Slot| match slot {
            Slot::Empty | Slot::Failed(_) => (0, 0, 0),
            Slot::Making(bytes) => (*bytes, 1, 0),
            Slot::Ready { image, .. } => (image.bytes(), 0, 1),
        };
        let old = std::mem::replace(&mut self.slots[index], slot);
        let (old, new) = (count(&old), count(&self.slots[index]));
        self.stats.bytes = self.stats.bytes - old.0 + new.0;
        self.making = self.making - old.1 + new.1;
        self.stats.ready = self.stats.ready - old.2 + new.2;
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.bytes);
    }

    /// Lets ready pictures go until `needed` bytes fit: least recently used first, hinted ones only if `urgent`,
    /// the last hint first. Whether they fit in the end.
    fn make_room(&mut self, budget: usize, needed: usize, urgent: bool) -> bool {
        while self.stats.bytes + needed > budget {
            let ready = self.slots.iter().enumerate().filter_map(|(i, slot)| match slot {
                Slot::Ready { last_use, .. } => Some((i, *last_use)),
                _ => None,
            });
            let idle = ready.filter(|(i, _)| !self.hints.contains(i)).min_by_key(|&(_, last_use)| last_use);
            let hinted = || {
                let is_ready = |&&i: &&usize| matches!(self.slots[i], Slot::Ready { .. });
                self.hints.iter().rev().find(is_ready).copied().filter(|_| urgent)
            };
            match idle.map(|(i, _)| i).or_else(hinted) {
                Some(index) => self.replace(index, Slot::Empty),
                None => return false,
            }
        }
        true
    }
}

/// Bytes of a finished picture, at most.
fn result_bytes(image: &ImageEntry) -> usize {
    // Colour, alpha, mask.
    image.camera.pixels() * 5
}

/// Bytes while a picture is being made: the file, the decoded picture (twice, while channels are rearranged), the
/// result.
fn making_bytes(image: &ImageEntry) -> usize {
    let stored = image.stored_size[0] as usize * image.stored_size[1] as usize;
    image.file_bytes as usize + stored * 8 + result_bytes(image)
}
