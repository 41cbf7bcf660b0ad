//! From a kernel's program to SPIR-V words, checked: WGSL by naga, SPIR-V as it is.
//!
//! Not here: pipelines (`kernel.rs`).

use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, GlobalUse, ModuleInfo, ValidationFlags, Validator};
use tenure_core::kernel::{DeviceKernel, DeviceProgram};
use tenure_core::{Access, BackendError, KernelSource};

use crate::error::compile;

const MAGIC: u32 = 0x0723_0203;
/// Words before the first instruction.
const HEADER_WORDS: usize = 5;
const OP_ENTRY_POINT: u32 = 15;
const EXECUTION_MODEL_KERNEL: u32 = 5;

/// The words of a program for `source`.
pub(crate) fn words(source: &KernelSource, kernel: &DeviceKernel) -> Result<Option<Vec<u32>>, BackendError> {
    match &kernel.program {
        DeviceProgram::Wgsl(text) => from_wgsl(source, text, &kernel.entry).map(Some),
        DeviceProgram::SpirV(words) => {
            check_spirv(source.label(), words, &kernel.entry)?;
            Ok(Some(words.to_vec()))
        }
        // A language of a later version of core.
        _ => Ok(None),
    }
}

fn from_wgsl(source: &KernelSource, text: &str, entry: &str) -> Result<Vec<u32>, BackendError> {
    let label = source.label();
    let path = format!("{label}.wgsl");
    let module = naga::front::wgsl::parse_str(text)
        .map_err(|error| compile(label, error.emit_to_string_with_path(text, &path)))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::default())
        .validate(&module)
        .map_err(|error| compile(label, error.emit_to_string_with_path(text, &path)))?;
    check_bindings(source, &module, &info, entry)?;
    // A user's text is not trusted with the memory beside its bindings; the end of a buffer is where the last workgroup
    // reaches beyond. Nothing is read there and nothing written.
    // Atomics cannot be skipped by naga: where there are some, an index beyond the end is the last one.
    let atomics = module.types.iter().any(|(_, known)| matches!(known.inner, naga::TypeInner::Atomic(_)));
    let checked = if atomics { BoundsCheckPolicy::Restrict } else { BoundsCheckPolicy::ReadZeroSkipWrite };
    let options = spv::Options {
        lang_version: (1, 3),
        bounds_check_policies: BoundsCheckPolicies {
            index: checked,
            buffer: checked,
            image_load: checked,
            binding_array: checked,
        },
        ..spv::Options::default()
    };
    let pipeline =
        spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: entry.to_owned() };
    spv::write_vec(&module, &info, &options, Some(&pipeline)).map_err(|error| compile(label, error))
}

/// Refuses an entry point that is not there, and bindings that are used otherwise than declared: barriers come from
/// what is declared.
fn check_bindings(
    source: &KernelSource,
    module: &naga::Module,
    info: &ModuleInfo,
    entry: &str,
) -> Result<(), BackendError> {
    let label = source.label();
    let points = &module.entry_points;
    let is_wanted =
        |point: &naga::EntryPoint| point.name == entry && matches!(point.stage, naga::ShaderStage::Compute);
    let Some(index) = points.iter().position(is_wanted) else {
        let names: Vec<String> = points.iter().map(|point| format!("`{}`", point.name)).collect();
        return Err(compile(
            label,
            format!("no compute entry point `{entry}`; there is: {}", names.join(", ")),
        ));
    };
    let uses = info.get_entry_point(index);
    let declared = source.bindings();
    for (handle, variable) in module.global_variables.iter() {
        let used = uses[handle];
        let Some(binding) = &variable.binding else { continue };
        if used.is_empty() {
            continue;
        }
        let name = variable.name.as_deref().unwrap_or("a variable");
        let place = format!("`{name}` at group {}, binding {}", binding.group, binding.binding);
        if !matches!(variable.space, naga::AddressSpace::Storage { .. }) {
            return Err(compile(label, format!("{place} is no storage buffer")));
        }
        // One more than declared: the parameters.
        if binding.group != 0 || binding.binding as usize > declared.len() {
            let count = declared.len();
            return Err(compile(label, format!("{place}: the kernel declares {count} bindings")));
        }
        let access = declared.get(binding.binding as usize).copied().unwrap_or(Access::Read);
        if used.intersects(GlobalUse::WRITE | GlobalUse::ATOMIC) && !access.writes() {
            return Err(compile(label, format!("{place} is written and was declared for reading only")));
        }
    }
    Ok(())
}

/// Refuses words that are no SPIR-V module with that entry point. What the module does is the promise of its author.
fn check_spirv(label: &str, words: &[u32], entry: &str) -> Result<(), BackendError> {
    if words.len() < HEADER_WORDS || words[0] != MAGIC {
        return Err(compile(label, "these words are no SPIR-V module"));
    }
    let mut rest = &words[HEADER_WORDS..];
    let mut names = Vec::new();
    while let Some(first) = rest.first() {
        let length = (first >> 16) as usize;
        if length == 0 || length > rest.len() {
            return Err(compile(label, "the SPIR-V module is cut off"));
        }
        let (instruction, after) = rest.split_at(length);
        if first & 0xffff == OP_ENTRY_POINT && length > 3 && instruction[1] == EXECUTION_MODEL_KERNEL {
            names.push(text_of(&instruction[3..]));
        }
        rest = after;
    }
    if names.iter().any(|name| name == entry) {
        return Ok(());
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Err(compile(label, format!("no compute entry point `{entry}`; there is: {}", names.join(", "))))
}

/// The text that begins at these words and ends with a zero.
fn text_of(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

#[cfg(test)]
mod tests {
    use tenure_core::BackendErrorKind;

    use super::*;

    const DOUBLE: &str = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64)
fn double(@builtin(global_invocation_id) id: vec3<u32>) {
    x[id.x] = x[id.x] * 2u;
}";

    fn compiled(source: &KernelSource) -> Result<Vec<u32>, BackendError> {
        let kernel = source.device_forms().next().expect("it has a form");
        words(source, kernel).map(|words| words.expect("a known language"))
    }

    fn refusal(source: &KernelSource) -> String {
        let error = compiled(source).expect_err("it is wrong");
        assert_eq!(error.kind, BackendErrorKind::Compile);
        error.message.to_string()
    }

    #[test]
    fn wgsl_becomes_spirv_with_its_entry_point() {
        let source = KernelSource::new("double", &[Access::ReadWrite]).wgsl(DOUBLE, "double");
        let words = compiled(&source).expect("it compiles");
        assert!(check_spirv("double", &words, "double").is_ok());
        let refusal = |words: &[u32], entry| {
            check_spirv("double", words, entry).expect_err("it is wrong").message.to_string()
        };
        assert!(refusal(&words, "triple").contains("no compute entry point `triple`; there is: `double`"));
        assert!(refusal(&words[..HEADER_WORDS + 3], "double").contains("cut off"));
        assert!(refusal(&[1, 2, 3], "double").contains("no SPIR-V"));
    }

    #[test]
    fn an_error_shows_the_label_and_the_line() {
        let wrong = DOUBLE.replace("* 2u", "* 2.0f");
        let text = refusal(&KernelSource::new("double", &[Access::ReadWrite]).wgsl(wrong, "double"));
        assert!(text.contains("kernel `double`") && text.contains("double.wgsl:4"), "{text}");
        assert!(text.contains("x[id.x] * 2.0f"), "{text}");
        let text = refusal(&KernelSource::new("double", &[]).wgsl("fn (", "double"));
        assert!(text.contains("double.wgsl:1"), "{text}");
    }

    #[test]
    fn bindings_are_used_as_declared() {
        let reading = KernelSource::new("double", &[Access::Read]).wgsl(DOUBLE, "double");
        assert!(refusal(&reading).contains("`x` at group 0, binding 0 is written"));
        let moved = DOUBLE.replace("@binding(0)", "@binding(3)");
        let far = KernelSource::new("double", &[Access::ReadWrite]).wgsl(moved, "double");
        assert!(refusal(&far).contains("the kernel declares 1 bindings"));
        let absent = KernelSource::new("double", &[Access::ReadWrite]).wgsl(DOUBLE, "main");
        assert!(refusal(&absent).contains("no compute entry point `main`; there is: `double`"));
    }
}
