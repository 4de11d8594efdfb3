//! Thumbnails of the photographs, for the list of cameras: made on request by a thread of the server, and kept in a
//! bounded cache.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gausset_io::dataset::Loader;

use crate::colours;
use crate::encode::Codec;

/// Longer side, px.
const SIDE: u32 = 96;
/// JPEG quality.
const QUALITY: u8 = 70;
/// Capacity of the cache, bytes: about 3,000 thumbnails.
const CAPACITY_BYTES: usize = 8 << 20;

/// Thumbnails of a dataset.
pub struct Thumbnails {
    loader: Arc<Loader>,
    /// Image index in the dataset for each camera of the scene.
    images: Vec<usize>,
    kept: Mutex<ThumbnailCache>,
    /// Current capacity of the cache, bytes.
    capacity: AtomicUsize,
}

/// Cached thumbnails; the oldest are evicted first.
#[derive(Default)]
struct ThumbnailCache {
    pictures: BTreeMap<usize, Arc<[u8]>>,
    order: VecDeque<usize>,
    bytes: usize,
}

impl ThumbnailCache {
    fn keep(&mut self, camera: usize, picture: Arc<[u8]>, most: usize) {
        if self.pictures.contains_key(&camera) {
            return;
        }
        self.bytes += picture.len();
        self.order.push_back(camera);
        self.pictures.insert(camera, picture);
        while self.bytes > most
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.pictures.remove(&oldest).map_or(0, |picture| picture.len());
        }
    }
}

impl Thumbnails {
    pub(crate) fn new(loader: Arc<Loader>, images: Vec<usize>) -> Self {
        Self { loader, images, kept: Mutex::default(), capacity: AtomicUsize::new(CAPACITY_BYTES) }
    }

    /// Limits the cache to this many bytes.
    pub(crate) fn limit_memory(&self, bytes: u64) {
        let most = usize::try_from(bytes).unwrap_or(CAPACITY_BYTES).min(CAPACITY_BYTES);
        self.capacity.store(most, Ordering::Relaxed);
    }

    fn kept(&self) -> MutexGuard<'_, ThumbnailCache> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached thumbnail of a camera.
    pub(crate) fn cached(&self, camera: usize) -> Option<Arc<[u8]>> {
        self.kept().pictures.get(&camera).cloned()
    }

    /// Makes the thumbnail of a camera, a JPEG; `None` if there is no such photograph or it cannot be read.
    pub(crate) fn make(&self, camera: usize, background: [f32; 3]) -> Option<Arc<[u8]>> {
        if let Some(made) = self.cached(camera) {
            return Some(made);
        }
        let photo = self.loader.get(*self.images.get(camera)?).ok()?;
        let factor = photo.width.max(photo.height).div_ceil(SIDE);
        let factor = factor.clamp(1, photo.width.min(photo.height).max(1));
        let picture = colours::composite_photo(&photo.downscaled(factor), background);
        drop(photo);
        let bytes: Arc<[u8]> = Codec::JpegMoving(QUALITY).encode(&picture).ok()?.into();
        self.kept().keep(camera, Arc::clone(&bytes), self.capacity.load(Ordering::Relaxed));
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let mut kept = ThumbnailCache::default();
        (0..10).for_each(|camera| kept.keep(camera, vec![0; 10].into(), 35));
        assert_eq!((kept.pictures.keys().copied().collect::<Vec<_>>(), kept.bytes), (vec![7, 8, 9], 30));
        kept.keep(7, vec![0; 10].into(), 35);
        assert_eq!((kept.pictures.len(), kept.order.len(), kept.bytes), (3, 3, 30));
    }
}
