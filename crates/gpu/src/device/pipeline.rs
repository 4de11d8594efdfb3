//! Kernels, compiled on first use and cached.

use std::sync::PoisonError;

use gausset_core::engine::EngineError;

use super::{Gpu, backend};
use crate::kernels::{Access, Kernel};

/// A compiled kernel.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) layout: wgpu::BindGroupLayout,
}

fn entry(binding: usize, access: Access) -> wgpu::BindGroupLayoutEntry {
    let ty = match access {
        Access::Uniform => wgpu::BufferBindingType::Uniform,
        Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
        Access::Write => wgpu::BufferBindingType::Storage { read_only: false },
    };
    wgpu::BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}

impl Gpu {
    /// The compiled kernel; compiles it on first use.
    pub(super) fn pipeline(&self, kernel: Kernel) -> Result<Pipeline, EngineError> {
        let mut pipelines = self.shared.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = pipelines.get(&kernel) {
            return Ok(pipeline.clone());
        }
        let module = self.module(kernel)?;
        let (label, source, constants) = (kernel.label(), kernel.source(), kernel.constants());
        let what = format!("kernel {label}");
        let entries: Vec<_> =
            source.bindings.iter().enumerate().map(|(binding, &access)| entry(binding, access)).collect();
        let pipeline = self.guarded(&what, 0, |device, _| {
            let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some(&label),
                entries: &entries,
            });
            let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(&label),
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&label),
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some(source.entry),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &constants,
                    // Kernels write workgroup memory before they read it.
                    zero_initialize_workgroup_memory: false,
                },
                cache: self.shared.kernel_cache.get().and_then(Option::as_ref).map(|kept| &kept.pipelines),
            });
            Pipeline { pipeline, layout }
        })?;
        pipelines.insert(kernel, pipeline.clone());
        Ok(pipeline)
    }

    /// The shader module of a kernel, validated and cached: several kernels share one source.
    fn module(&self, kernel: Kernel) -> Result<wgpu::ShaderModule, EngineError> {
        let text = kernel.source().text();
        let mut modules = self.shared.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&text) {
            return Ok(module.clone());
        }
        let label = kernel.label();
        let what = format!("kernel {label}");
        let module = self.guarded(&what, 0, |device, _| {
            let source = wgpu::ShaderSource::Wgsl(text.as_str().into());
            backend::shader_module(device, wgpu::ShaderModuleDescriptor { label: Some(&label), source })
        })?;
        modules.insert(text, module.clone());
        Ok(module)
    }
}
