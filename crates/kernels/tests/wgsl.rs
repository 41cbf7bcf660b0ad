//! The generated WGSL is valid, without any extension, and its bindings are what the kernels declare: access, and the
//! size of the parameters.
//!
//! Not here: what the kernels compute.

use naga::proc::{Layouter, TypeLayout};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ShaderStage, StorageAccess, TypeInner};
use tenure_core::kernel::{DeviceKernel, DeviceProgram};
use tenure_core::{Access, KernelSource};
use tenure_kernels::sources;

/// Bytes of parameters that the builders of dispatches pass, as the documentation of the sources says.
const PARAMETERS: [(&str, u32); 12] = [
    ("fill", 16),
    ("copy", 8),
    ("saxpy", 16),
    ("sum", 8),
    ("matmul", 32),
    ("resize", 32),
    ("blur", 24),
    ("unsharp", 32),
    ("histogram", 8),
    ("scan_blocks", 16),
    ("scan_totals", 8),
    ("scan_add", 8),
];

fn wgsl(source: &KernelSource) -> (&DeviceKernel, &str) {
    let mut forms = source.device_forms().filter_map(|form| match &form.program {
        DeviceProgram::Wgsl(text) => Some((form, &**text)),
        _ => None,
    });
    forms.next().unwrap_or_else(|| panic!("`{}` has no WGSL", source.label()))
}

fn parse(label: &str, text: &str) -> Module {
    let module = naga::front::wgsl::parse_str(text)
        .unwrap_or_else(|error| panic!("{label}: {}", error.emit_to_string(text)));
    if let Err(error) = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module) {
        panic!("{label}: {}", error.emit_to_string(text));
    }
    module
}

/// Access and layout of the storage buffer at a binding of group 0.
fn binding(module: &Module, index: u32) -> Option<(StorageAccess, TypeLayout)> {
    let place = Some(naga::ResourceBinding { group: 0, binding: index });
    let (_, variable) = module.global_variables.iter().find(|(_, variable)| variable.binding == place)?;
    let mut layouter = Layouter::default();
    layouter.update(module.to_ctx()).unwrap();
    match variable.space {
        AddressSpace::Storage { access } => Some((access, layouter[variable.ty])),
        other => panic!("binding {index} is no storage buffer but {other:?}"),
    }
}

#[test]
fn every_text_is_valid_and_starts_at_its_entry() {
    for source in sources() {
        let (form, text) = wgsl(&source);
        let module = parse(source.label(), text);
        assert_eq!(module.entry_points.len(), 1, "{}", source.label());
        let entry = &module.entry_points[0];
        assert_eq!((entry.stage, &*entry.name), (ShaderStage::Compute, &*form.entry));
        // What WebGPU guarantees.
        let [x, y, z] = entry.workgroup_size;
        assert!(x * y * z <= 256 && x <= 256 && y <= 256 && z <= 64, "{}", source.label());
    }
}

#[test]
fn bindings_have_the_access_that_is_declared() {
    for source in sources() {
        let module = parse(source.label(), wgsl(&source).1);
        for (index, access) in (0..).zip(source.bindings()) {
            let (has, _) = binding(&module, index)
                .unwrap_or_else(|| panic!("`{}` has no binding {index}", source.label()));
            let expected = match access {
                Access::Read => StorageAccess::LOAD,
                // WGSL has no storage buffer that is only written.
                Access::Write | Access::ReadWrite => StorageAccess::LOAD | StorageAccess::STORE,
            };
            assert_eq!(has, expected, "binding {index} of `{}`", source.label());
        }
    }
}

#[test]
fn parameters_are_one_more_buffer_of_the_size_that_is_passed() {
    for source in sources() {
        let module = parse(source.label(), wgsl(&source).1);
        let index = source.bindings().len() as u32;
        let (access, layout) = binding(&module, index).expect("there are parameters");
        assert_eq!(access, StorageAccess::LOAD, "{}", source.label());
        let passed = PARAMETERS.iter().find(|(label, _)| *label == source.label()).unwrap().1;
        assert_eq!(layout.size, passed, "parameters of `{}`", source.label());
        assert!(binding(&module, index + 1).is_none(), "{}", source.label());
        let buffers = module.global_variables.iter().filter(|(_, variable)| variable.binding.is_some());
        assert_eq!(buffers.count(), source.bindings().len() + 1, "{}", source.label());
    }
}

#[test]
fn arrays_have_elements_of_four_bytes() {
    for source in sources() {
        let module = parse(source.label(), wgsl(&source).1);
        for (_, variable) in module.global_variables.iter().filter(|(_, variable)| variable.binding.is_some())
        {
            if let TypeInner::Array { stride, .. } = module.types[variable.ty].inner {
                assert_eq!(stride, 4, "{}", source.label());
            }
        }
    }
}
