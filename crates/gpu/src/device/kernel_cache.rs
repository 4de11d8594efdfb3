//! A cache of compiled kernels between runs, on backends that support it (Vulkan).
//!
//! A driver trusts the data that it is given, so a file is only used if it is unchanged: of the same version of the
//! program, of the same driver of the same device, of the full length, with the correct checksum. Any other file is
//! removed, as is one that the driver itself refuses. The caller decides where the files are stored: see
//! [`KernelCache`].

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::backend;
use super::{Gpu, GpuInfo};

/// Storage for compiled kernels. Failures only cost time, so they are not reported.
pub trait KernelCache: fmt::Debug + Send + Sync {
    /// Reads the whole file with this name, if it exists.
    fn read(&self, name: &str) -> Option<Vec<u8>>;
    /// Replaces the file with this name.
    fn write(&self, name: &str, bytes: &[u8]);
    /// Removes the file with this name.
    fn remove(&self, name: &str);
}

/// First bytes of a file; the number is the format version.
const MAGIC: &[u8; 8] = b"GSTKRN\x001";
/// Bytes before the driver's data.
const HEADER: usize = 8 + 8 + 8 + 8;

/// The cache of an open device.
#[derive(Debug)]
pub(super) struct OpenKernelCache {
    pub(super) pipelines: wgpu::PipelineCache,
    files: Arc<dyn KernelCache>,
    name: String,
    key: u64,
    /// Checksum of the content of the file; `None` if there is no valid file.
    written: Mutex<Option<u64>>,
}

/// FNV-1a in 64 bits (Fowler, Noll, Vo): detects damage, not malice.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The properties that must be equal for compiled kernels to be reused, as a hash.
fn cache_key(info: &GpuInfo) -> u64 {
    let GpuInfo { name, backend, driver, .. } = info;
    checksum(format!("{} {name} {backend} {driver}", env!("CARGO_PKG_VERSION")).as_bytes())
}

/// The content of a file: magic, key, length and checksum of the data, data of the driver.
fn encode(key: u64, data: &[u8]) -> Vec<u8> {
    let numbers = [key, data.len() as u64, checksum(data)].map(u64::to_le_bytes);
    [MAGIC.as_slice(), numbers.as_flattened(), data].concat()
}

/// The driver's data; `None` if the file is damaged, or was not written by this program for this driver.
fn decode(key: u64, bytes: &[u8]) -> Option<&[u8]> {
    let (head, data) = bytes.split_at_checked(HEADER)?;
    let (magic, numbers) = head.split_at(MAGIC.len());
    let [found, length, digest] =
        <[[u8; 8]; 3]>::try_from(numbers.as_chunks::<8>().0).ok()?.map(u64::from_le_bytes);
    let is_whole = magic == MAGIC && found == key && length == data.len() as u64 && digest == checksum(data);
    is_whole.then_some(data)
}

/// Opens the cache of a device that was just opened, and fills it from its file if that is valid.
pub(super) fn open(
    gpu: &Gpu,
    adapter: &wgpu::AdapterInfo,
    files: Arc<dyn KernelCache>,
) -> Option<OpenKernelCache> {
    let device = &gpu.shared.device;
    if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
        return None;
    }
    // Vendor and device; the driver is part of the key.
    let name = format!("{}.bin", wgpu::util::pipeline_cache_key(adapter)?);
    let key = cache_key(gpu.info());
    let bytes = files.read(&name);
    let data = bytes.as_deref().and_then(|bytes| decode(key, bytes));
    let make = |data: Option<&[u8]>| {
        gpu.guarded("compiled kernels", 0, |device, _| backend::pipeline_cache(device, data)).ok()
    };
    let filled = data.and_then(|data| make(Some(data)));
    if bytes.is_some() && filled.is_none() {
        files.remove(&name);
    }
    let written = Mutex::new(filled.as_ref().and(data).map(checksum));
    let pipelines = filled.or_else(|| make(None))?;
    Some(OpenKernelCache { pipelines, files, name, key, written })
}

impl OpenKernelCache {
    /// Writes the compiled kernels, unless the file is up to date.
    pub(super) fn write(&self) {
        let Some(data) = self.pipelines.get_data() else { return };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written != Some(checksum(&data)) {
            self.files.write(&self.name, &encode(self.key, &data));
            *written = Some(checksum(&data));
        }
    }
}

/// The cache, if there is one; set once, when the device is opened.
pub(super) type KernelCacheCell = OnceLock<Option<OpenKernelCache>>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gausset_testkit::skip_for_gpu;

    use super::*;
    use crate::device::AdapterChoice;
    use crate::kernels::Kernel;

    /// Files in memory, with a count of removals.
    #[derive(Debug, Default)]
    struct Files {
        held: Mutex<BTreeMap<String, Vec<u8>>>,
        removed: Mutex<u32>,
    }

    impl KernelCache for Files {
        fn read(&self, name: &str) -> Option<Vec<u8>> {
            self.held.lock().unwrap().get(name).cloned()
        }
        fn write(&self, name: &str, bytes: &[u8]) {
            self.held.lock().unwrap().insert(name.to_owned(), bytes.to_owned());
        }
        fn remove(&self, name: &str) {
            self.held.lock().unwrap().remove(name);
            *self.removed.lock().unwrap() += 1;
        }
    }

    #[test]
    fn a_file_that_is_cut_changed_or_of_another_driver_is_refused() {
        let data: Vec<u8> = (0..=255).collect();
        let file = encode(7, &data);
        assert_eq!(decode(7, &file), Some(&data[..]));
        assert_eq!(decode(7, &encode(7, &[])), Some(&[][..]));
        assert_eq!(decode(8, &file), None, "of another driver or version");
        for length in 0..file.len() {
            assert_eq!(decode(7, &file[..length]), None, "cut to {length} bytes");
        }
        for place in 0..file.len() {
            for bit in 0..8 {
                let mut flipped = file.clone();
                flipped[place] ^= 1 << bit;
                assert_eq!(decode(7, &flipped), None, "bit {bit} of byte {place}");
            }
        }
        assert_eq!(decode(7, &[&file[..], &[0]].concat()), None, "longer");
    }

    #[test]
    fn the_key_is_of_the_device_and_its_driver() {
        let info = GpuInfo {
            name: "a card".to_owned(),
            kind: crate::AdapterKind::Discrete,
            backend: "Vulkan".to_owned(),
            driver: "1.2".to_owned(),
            memory_bytes: None,
        };
        assert_eq!(cache_key(&info), cache_key(&GpuInfo { memory_bytes: Some(1), ..info.clone() }));
        assert_ne!(cache_key(&info), cache_key(&GpuInfo { driver: "1.3".to_owned(), ..info.clone() }));
        assert_ne!(cache_key(&info), cache_key(&GpuInfo { name: "another card".to_owned(), ..info.clone() }));
    }

    #[test]
    fn kernels_are_kept_and_a_damaged_file_makes_way() {
        let test = "kernels_are_kept_and_a_damaged_file_makes_way";
        let files = Arc::new(Files::default());
        let opened =
            || Gpu::open_with(&AdapterChoice::Best, Some(Arc::clone(&files) as Arc<dyn KernelCache>));
        let gpu = match opened() {
            Ok(gpu) => gpu,
            Err(reason) => return skip_for_gpu(test, &reason.to_string()),
        };
        if gpu.info().backend != "Vulkan" {
            return;
        }
        let held = || files.held.lock().unwrap().clone();
        let removed = || *files.removed.lock().unwrap();
        gpu.pipeline(Kernel::Keys).expect("a kernel");
        gpu.keep_kernels();
        let kept = held();
        assert_eq!((kept.len(), removed()), (1, 0));
        let (name, good) = kept.iter().next().expect("a file");
        drop(gpu);
        // A valid file is used, and not written again.
        let again = opened().expect("opened");
        assert_eq!((held(), removed()), (kept.clone(), 0));
        again.pipeline(Kernel::Keys).expect("a kernel");
        drop(again);
        assert_eq!(removed(), 0);
        let mut flipped = good.clone();
        flipped[HEADER + 3] ^= 0x10;
        // A valid file whose data the driver does not know.
        let nonsense =
            encode(cache_key(opened().expect("opened").info()), b"nothing that a driver would know");
        let damaged =
            [flipped, good[..good.len() / 2].to_vec(), Vec::new(), encode(1, b"of another"), nonsense];
        for (number, bytes) in (1..).zip(damaged) {
            files.held.lock().unwrap().insert(name.clone(), bytes);
            let gpu = opened().expect("opened");
            assert_eq!((held().len(), removed()), (0, number), "removed");
            gpu.pipeline(Kernel::Keys).expect("a kernel");
            drop(gpu);
            assert!(
                decode(cache_key(opened().expect("opened").info()), &held()[name]).is_some(),
                "written anew"
            );
        }
    }
}
