//! The device: the only module that uses `wgpu`.
//!
//! | file | contents |
//! |---|---|
//! | `adapter` | selecting and opening an adapter |
//! | `failure` | failures as values: error scopes, handlers, panics |
//! | `pipeline` | kernels, compiled on first use |
//! | `mapping` | buffers mapped by the host, and waiting |
//! | `ring` | the slots of units in flight |
//! | `image_cache` | images cached on the device |
//! | `copy` | measures its copy rate |
//! | `memory` | the buffers of an engine: allocation, writing, reading |
//! | `backend` | unsafe queries: memory size of a device, compiled kernels of an earlier run |
//! | `kernel_cache` | compiled kernels kept between runs |
//! | `timer` | stage times on the device |
//! | `queue` | recording, submitting and awaiting units |
//!
//! No failure of wgpu panics: every creation and submission is between error scopes, other errors go to a handler that
//! only stores them, and all are returned as [`EngineError`](gausset_core::engine::EngineError).

mod adapter;
mod backend;
mod copy;
mod failure;
mod image_cache;
mod kernel_cache;
mod mapping;
mod memory;
mod pipeline;
mod queue;
mod ring;
mod timer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub use adapter::{AdapterChoice, AdapterKind, AdapterReport, AutomaticDevice, GpuInfo};
pub(crate) use image_cache::ImageKey;
pub use kernel_cache::KernelCache;
pub(crate) use memory::DeviceMemory;
pub(crate) use queue::Upload;

use crate::kernels::Kernel;
use failure::FailureNote;
use kernel_cache::KernelCacheCell;
use pipeline::Pipeline;

/// An open adapter with its compiled kernels. Engines share it: a clone is the same device.
#[derive(Clone, Debug)]
pub struct Gpu {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: GpuInfo,
    limits: wgpu::Limits,
    /// Duration of a timestamp tick, ns; `None` without timestamps.
    tick_ns: Option<f32>,
    /// Failures outside of any error scope.
    notes: Arc<FailureNote>,
    modules: Mutex<BTreeMap<String, wgpu::ShaderModule>>,
    pipelines: Mutex<BTreeMap<Kernel, Pipeline>>,
    kernel_cache: KernelCacheCell,
    /// Number of allocations until one is made to fail, counted from 1; 0 = none is: for tests.
    refused: std::sync::atomic::AtomicU64,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.save_kernels();
    }
}

impl Shared {
    fn save_kernels(&self) {
        if let Some(Some(kept)) = self.kernel_cache.get() {
            kept.write();
        }
    }
}

impl Gpu {
    /// Description of the device.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        &self.shared.info
    }

    /// Writes the compiled kernels to their file, if there is a cache; also done when the last clone is dropped.
    pub fn keep_kernels(&self) {
        self.shared.save_kernels();
    }

    /// Whether it has timestamps for its passes.
    fn has_timestamps(&self) -> bool {
        self.shared.tick_ns.is_some()
    }

    /// Largest number of bytes of a buffer that can be bound to a kernel.
    pub(crate) fn max_binding_bytes(&self) -> u64 {
        let limits = &self.shared.limits;
        limits.max_storage_buffer_binding_size.min(limits.max_buffer_size)
    }

    /// Largest number of bytes of a buffer.
    pub(crate) fn max_buffer_bytes(&self) -> u64 {
        self.shared.limits.max_buffer_size
    }
}
