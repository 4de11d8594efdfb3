//! The device: the only folder that names `wgpu`.
//!
//! | file | what |
//! |---|---|
//! | `adapter` | which adapter, and opening it |
//! | `failure` | what goes wrong as values: error scopes, handlers, panics |
//! | `pipeline` | kernels, compiled when they are first used |
//! | `mapping` | buffers that the host gets hold of, and waiting |
//! | `ring` | the places of units under way |
//! | `pictures` | pictures that stay on the device |
//! | `copy` | how fast it copies |
//! | `memory` | the buffers of an engine: made, written, read |
//! | `backend` | what is unsafe to ask: memory of a device, compiled kernels of an earlier run |
//! | `kernel_cache` | compiled kernels from run to run |
//! | `timer` | how long stages take on the device |
//! | `queue` | units: recorded, submitted, awaited |
//!
//! Nothing of wgpu panics in the face of a user: every creation and submission stands between error scopes, what escapes
//! them goes to a handler that only takes notes, and all comes out as [`EngineError`](gausset_core::engine::EngineError).

mod adapter;
mod backend;
mod copy;
mod failure;
mod kernel_cache;
mod mapping;
mod memory;
mod pictures;
mod pipeline;
mod queue;
mod ring;
mod timer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub use adapter::{AdapterChoice, AdapterKind, AdapterReport, Automatic, GpuInfo};
pub use kernel_cache::KernelCache;
pub(crate) use memory::Memory;
pub(crate) use pictures::PictureName;
pub(crate) use queue::Upload;

use crate::kernels::Kernel;
use failure::Notes;
use kernel_cache::MaybeKept;
use pipeline::Pipeline;

/// An opened adapter with its compiled kernels. Engines share it: a clone is the same device.
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
    /// Length of a tick of its timestamps, ns, if it has any.
    tick: Option<f32>,
    /// What went wrong outside of any scope.
    notes: Arc<Notes>,
    modules: Mutex<BTreeMap<String, wgpu::ShaderModule>>,
    pipelines: Mutex<BTreeMap<Kernel, Pipeline>>,
    kept: MaybeKept,
    /// Allocations until one is refused, from 1 on; 0 = none is: for tests.
    refused: std::sync::atomic::AtomicU64,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.keep_kernels();
    }
}

impl Shared {
    fn keep_kernels(&self) {
        if let Some(Some(kept)) = self.kept.get() {
            kept.write();
        }
    }
}

impl Gpu {
    /// What it is.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        &self.shared.info
    }

    /// Writes the compiled kernels to their file, if they are kept; so does whoever lets go of the device last.
    pub fn keep_kernels(&self) {
        self.shared.keep_kernels();
    }

    /// Whether it can say how long its passes take.
    fn has_timestamps(&self) -> bool {
        self.shared.tick.is_some()
    }

    /// The most bytes of a buffer that a kernel may be bound to.
    pub(crate) fn most_bytes_of_a_binding(&self) -> u64 {
        let limits = &self.shared.limits;
        limits.max_storage_buffer_binding_size.min(limits.max_buffer_size)
    }

    /// The most bytes that a buffer may have.
    pub(crate) fn most_bytes_of_a_buffer(&self) -> u64 {
        self.shared.limits.max_buffer_size
    }
}
