//! Features that `wgpu` offers only through unsafe functions: the size of device-local memory, queried from its
//! backends, compiled kernels of an earlier run, and kernels without guards against endless loops. The only unsafe code
//! of this crate.
#![allow(
    unsafe_code,
    reason = "handles of a backend are only asked; compiled kernels come from files that are checked; loops count"
)]

/// Creates a cache of compiled kernels from `data` that a driver returned earlier, if any; a device error if the driver
/// refuses them.
pub(super) fn pipeline_cache(device: &wgpu::Device, data: Option<&[u8]>) -> wgpu::PipelineCache {
    let descriptor = wgpu::PipelineCacheDescriptor { label: Some("kernels"), data, fallback: false };
    // SAFETY: data has to come from `PipelineCache::get_data`. It does: `kernel_cache` passes only data with the
    // checksum that was written with it, for this program and this driver, and wgpu checks its own header in addition.
    unsafe { device.create_pipeline_cache(&descriptor) }
}

/// Creates a shader module. Accesses are checked as usual, but loops are not counted: the counter that `wgpu` adds to
/// each loop keeps drivers from unrolling it (a training step takes 15 to 33 % longer).
pub(super) fn shader_module(
    device: &wgpu::Device,
    descriptor: wgpu::ShaderModuleDescriptor<'_>,
) -> wgpu::ShaderModule {
    let checks =
        wgpu::ShaderRuntimeChecks { force_loop_bounding: false, ..wgpu::ShaderRuntimeChecks::checked() };
    // SAFETY: every loop has to end. It does: the kernels are part of this program, and each loop counts to a bound
    // (`translation_tests::every_loop_counts`).
    unsafe { device.create_shader_module_trusted(descriptor, checks) }
}

/// The flag of a device-local Vulkan heap (`VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`).
#[cfg(not(target_vendor = "apple"))]
const DEVICE_LOCAL: u32 = 1;

/// Bytes of the largest device-local heap; `None` if the backend does not report it. Metal is not queried: its devices
/// share the machine's memory.
#[cfg(not(target_vendor = "apple"))]
pub(super) fn device_memory_bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: the handles are only used to query properties of the adapter, and dropped before it.
    let heaps = unsafe {
        adapter.as_hal::<wgpu::hal::api::Vulkan>().map(|adapter| {
            let instance = adapter.shared_instance().raw_instance();
            instance.get_physical_device_memory_properties(adapter.raw_physical_device())
        })
    };
    if let Some(heaps) = heaps {
        let own = heaps.memory_heaps.iter().take(heaps.memory_heap_count as usize);
        let own = own.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0);
        return own.map(|heap| heap.size).max();
    }
    of_directx(adapter)
}

/// The same through DirectX 12.
#[cfg(windows)]
fn of_directx(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: as above.
    let description = unsafe {
        let adapter = adapter.as_hal::<wgpu::hal::api::Dx12>()?;
        adapter.as_raw().GetDesc().ok()?
    };
    u64::try_from(description.DedicatedVideoMemory).ok().filter(|&bytes| bytes > 0)
}

#[cfg(not(any(windows, target_vendor = "apple")))]
fn of_directx(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}

#[cfg(target_vendor = "apple")]
pub(super) fn device_memory_bytes(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use gausset_testkit::skip_for_gpu;

    use crate::device::{AdapterChoice, Gpu};

    #[test]
    fn a_device_says_how_much_memory_it_has() {
        let gpu = match Gpu::open(&AdapterChoice::Best) {
            Ok(gpu) => gpu,
            Err(reason) => return skip_for_gpu("a_device_says_how_much_memory_it_has", &reason.to_string()),
        };
        if gpu.info().backend == "Vulkan" {
            let bytes = gpu.info().memory_bytes.expect("Vulkan tells");
            assert!((64 << 20..1 << 50).contains(&bytes), "{bytes} bytes");
        }
    }
}
