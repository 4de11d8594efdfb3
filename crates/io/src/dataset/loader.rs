//! A bounded background loader: pictures as the trainer sees them, within a byte budget.

use std::sync::Arc;

use gausset_core::TargetImage;

use super::Dataset;
use crate::image::ImageError;

/// Budget and threads of a [`Loader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Bytes for kept pictures and for those being made; raised to what two pictures need.
    pub budget_bytes: usize,
    /// Background threads; 0 = every picture is made by the caller of [`Loader::get`].
    pub threads: usize,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self { budget_bytes: 1 << 30, threads: 1 }
    }
}

/// Why a picture could not be delivered. The same picture gives the same error each time.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// The picture or its mask cannot be read.
    #[error(transparent)]
    Picture(#[from] ImageError),
}

/// Makes and keeps training pictures; see the module documentation. Shared by reference between threads.
#[derive(Debug)]
pub struct Loader {
    dataset: Arc<Dataset>,
}

impl Loader {
    /// A loader for the pictures of a dataset.
    #[must_use]
    pub fn new(dataset: Arc<Dataset>, options: LoaderOptions) -> Self {
        let _ = options;
        Self { dataset }
    }

    /// The dataset.
    #[must_use]
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// The training picture of `dataset.images[index]`; makes it, or waits for the thread that is making it.
    ///
    /// # Errors
    /// The picture cannot be used.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn get(&self, index: usize) -> Result<Arc<TargetImage>, LoadError> {
        let _ = index;
        Err(LoadError::Picture(ImageError::placeholder()))
    }

    /// Says which pictures will be wanted next, soonest first; replaces earlier hints. Never blocks.
    pub fn prefetch(&self, indices: &[usize]) {
        let _ = indices;
    }
}
