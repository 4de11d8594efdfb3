//! Every kernel translated to all shading languages, within the limits that all devices have.
//!
//! The translator does not check workgroup memory or the number of buffers: the tests count them here.

use naga::back::{hlsl, msl, pipeline_constants, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

use crate::kernels::{Access, Kernel};

pub(crate) fn parsed(kernel: Kernel) -> (naga::Module, ModuleInfo) {
    let text = kernel.source().text();
    let module = naga::front::wgsl::parse_str(&text)
        .unwrap_or_else(|err| panic!("{kernel:?}: {}", err.emit_to_string(&text)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::default())
        .validate(&module)
        .unwrap_or_else(|err| panic!("{kernel:?}: {}", err.emit_to_string(&text)));
    let constants = kernel.constants().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let (module, info) = pipeline_constants::process_overrides(&module, &info, None, &constants)
        .unwrap_or_else(|err| panic!("{kernel:?}: {err}"));
    (module.into_owned(), info.into_owned())
}

#[test]
fn every_kernel_keeps_to_what_all_devices_have() {
    for kernel in Kernel::all() {
        let (module, info) = parsed(kernel);
        let source = kernel.source();
        let storage = source.bindings.iter().filter(|&&access| access != Access::Uniform).count();
        assert!(storage <= 8, "{kernel:?}: {storage} storage buffers");
        let place = module.entry_points.iter().position(|entry| entry.name == source.entry);
        let place = place.unwrap_or_else(|| panic!("{kernel:?}: no entry point {}", source.entry));
        let [x, y, z] = module.entry_points[place].workgroup_size;
        assert!((64..=256).contains(&(x * y * z)), "{kernel:?}: {x}x{y}x{z} threads");
        let mut layouter = naga::proc::Layouter::default();
        layouter.update(module.to_ctx()).expect("a layout");
        let used = info.get_entry_point(place);
        let bytes: u32 = module
            .global_variables
            .iter()
            .filter(|(handle, variable)| {
                variable.space == naga::AddressSpace::WorkGroup && !used[*handle].is_empty()
            })
            .map(|(_, variable)| layouter[variable.ty].size)
            .sum();
        assert!(bytes <= 16_384, "{kernel:?}: {bytes} bytes of workgroup memory");
        for (_, ty) in module.types.iter() {
            let is_float_atomic = matches!(ty.inner, naga::TypeInner::Atomic(scalar)
                if scalar.kind == naga::ScalarKind::Float);
            assert!(!is_float_atomic, "{kernel:?}: a float atomic");
        }
        let text = source.text();
        for word in ["num_workgroups", "subgroup"] {
            assert!(!text.contains(word), "{kernel:?}: {word}");
        }
    }
}

#[test]
fn every_kernel_can_be_written_for_metal_directx_and_vulkan() {
    for kernel in Kernel::all() {
        let (module, info) = parsed(kernel);
        let entry = kernel.source().entry;
        let words = spv::write_vec(&module, &info, &spv::Options::default(), None);
        assert!(words.is_ok_and(|words| words.len() > 100), "{kernel:?}: SPIR-V");
        let options =
            msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..msl::Options::default() };
        let text = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default());
        let text = text.unwrap_or_else(|err| panic!("{kernel:?}: Metal: {err}")).0;
        assert!(text.contains("kernel void"), "{kernel:?}: Metal");
        let mut text = String::new();
        let options = hlsl::Options { shader_model: hlsl::ShaderModel::V6_0, ..hlsl::Options::default() };
        let pipeline =
            hlsl::PipelineOptions { entry_point: Some((naga::ShaderStage::Compute, entry.to_owned())) };
        hlsl::Writer::new(&mut text, &options, &pipeline)
            .write(&module, &info, None)
            .unwrap_or_else(|err| panic!("{kernel:?}: HLSL: {err}"));
        assert!(text.contains("numthreads"), "{kernel:?}: HLSL");
    }
}

/// The device does not guard against endless loops: every loop changes its counter by a constant, as its last action.
#[test]
fn every_loop_counts() {
    for kernel in Kernel::all() {
        let text = kernel.source().text();
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        for line in code {
            let is_other = ["while (", "loop {"].iter().any(|word| line.contains(word));
            assert!(!is_other, "{kernel:?}: {line}");
            let Some((_, head)) = line.split_once("for (var ") else { continue };
            let (name, rest) = head.split_once(" = ").unwrap_or_else(|| panic!("{kernel:?}: {line}"));
            let parts: Vec<&str> = rest.splitn(3, "; ").collect();
            let &[_, condition, update] = &parts[..] else { panic!("{kernel:?}: {line}") };
            let update = update.strip_prefix(name).unwrap_or_else(|| panic!("{kernel:?}: {line}"));
            let counts = ["++", "--", " += ", " -= "].iter().any(|step| update.starts_with(step))
                || [" >> 1u", " << 1u"].iter().any(|step| update.starts_with(&format!(" = {name}{step}")));
            assert!(counts && condition.contains(name), "{kernel:?}: {line}");
        }
    }
}
