//! Pictures that stay on the device.

use std::collections::BTreeMap;

/// (index, reduction) of a view, which names the bytes of its picture.
pub(crate) type PictureName = (u32, u32);

/// Pictures that stay, as far as there is room.
#[derive(Debug)]
pub(super) struct Pictures {
    kept: BTreeMap<PictureName, wgpu::Buffer>,
    bytes: u64,
    /// Bytes that all together may take.
    limit: u64,
}

/// Where nothing is known of the device's memory.
const UNKNOWN_LIMIT: u64 = 1 << 30;

impl Default for Pictures {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), bytes: 0, limit: UNKNOWN_LIMIT }
    }
}

impl Pictures {
    /// Keeps to a quarter of so many bytes.
    pub(super) fn limit(&mut self, memory: u64) {
        self.limit = if memory == u64::MAX { UNKNOWN_LIMIT } else { memory / 4 };
        if self.bytes > self.limit {
            self.forget();
        }
    }

    /// The picture, if it is there.
    pub(super) fn get(&self, name: PictureName) -> Option<&wgpu::Buffer> {
        self.kept.get(&name)
    }

    /// Whether one more of so many bytes has room.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.bytes + bytes <= self.limit
    }

    /// Keeps a picture.
    pub(super) fn keep(&mut self, name: PictureName, picture: wgpu::Buffer) {
        self.bytes += picture.size();
        self.kept.insert(name, picture);
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lets all of them go.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
        self.bytes = 0;
    }
}
