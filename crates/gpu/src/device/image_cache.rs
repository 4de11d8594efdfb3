//! Images cached on the device.

use std::collections::BTreeMap;

/// (index, reduction) of a view, which identifies the bytes of its image.
pub(crate) type ImageKey = (u32, u32);

/// The cache of images, within a memory limit.
#[derive(Debug)]
pub(super) struct ImageCache {
    kept: BTreeMap<ImageKey, wgpu::Buffer>,
    bytes: u64,
    /// Limit of the bytes of all images together.
    limit: u64,
}

/// The limit if the memory of the device is unknown.
const UNKNOWN_LIMIT: u64 = 1 << 30;

impl Default for ImageCache {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), bytes: 0, limit: UNKNOWN_LIMIT }
    }
}

impl ImageCache {
    /// Limits the cache to a quarter of this memory.
    pub(super) fn limit(&mut self, memory: u64) {
        self.limit = if memory == u64::MAX { UNKNOWN_LIMIT } else { memory / 4 };
        if self.bytes > self.limit {
            self.clear();
        }
    }

    /// The image, if it is cached.
    pub(super) fn get(&self, name: ImageKey) -> Option<&wgpu::Buffer> {
        self.kept.get(&name)
    }

    /// Whether another image of this size fits.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.bytes + bytes <= self.limit
    }

    /// Adds an image.
    pub(super) fn insert(&mut self, name: ImageKey, picture: wgpu::Buffer) {
        self.bytes += picture.size();
        self.kept.insert(name, picture);
    }

    /// Bytes of all images.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Frees all images.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.bytes = 0;
    }
}
