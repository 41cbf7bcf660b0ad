//! The kernels that cases dispatch, each with one form for every backend that can run it.
//!
//! A host form works on whole slices and ignores the number of workgroups; forms for devices work on one element an
//! invocation and check the bound. So cases dispatch [`groups_for`] the number of elements. Not here: kernels of one
//! case alone.

mod ffi;

use tenure_core::{Access, KernelSource};

use self::ffi::WithCuda;

/// Invocations in a workgroup of every form for devices.
pub const WORKGROUP: u32 = 64;

/// The number of workgroups that covers `elements`.
///
/// # Panics
/// If that number does not fit 32 bits.
pub fn groups_for(elements: u64) -> [u32; 3] {
    let groups = elements.div_ceil(u64::from(WORKGROUP)).max(1);
    [u32::try_from(groups).expect("cases dispatch fewer than 2^32 workgroups"), 1, 1]
}

/// All kernels of the suite.
#[derive(Clone, Debug)]
pub struct KernelSet {
    /// `x[i] *= factor`. Binding 0: x, read and write, f32. Parameters: factor, f32.
    pub scale: KernelSource,
    /// `z[i] = x[i] + y[i]`. Bindings 0 and 1: x and y, read, f32; 2: z, write, f32.
    pub add: KernelSource,
    /// `y[i] += a * x[i]`. Binding 0: x, read, f32; 1: y, read and write, f32. Parameters: a, f32.
    pub saxpy: KernelSource,
    /// `x[i] += 1`, wrapping. Binding 0: x, read and write, u32.
    pub increment: KernelSource,
    /// `x[i] = i`. Binding 0: x, write, u32.
    pub iota: KernelSource,
    /// `y[i] = x[i]`. Binding 0: x, read, u32; 1: y, write, u32.
    pub copy_u32: KernelSource,
    /// Always fails, by a panic. Binding 0: anything, read and write. Host form only: on a device a kernel cannot
    /// fail alone, see [`Requirement::HostKernels`](crate::Requirement::HostKernels).
    pub fail: KernelSource,
}

impl KernelSet {
    /// The set.
    pub fn new() -> Self {
        KernelSet {
            scale: scale(),
            add: add(),
            saxpy: saxpy(),
            increment: increment(),
            iota: iota(),
            copy_u32: copy_u32(),
            fail: fail(),
        }
    }

    /// The kernels that every backend with kernels compiles: all but [`KernelSet::fail`].
    pub fn portable(&self) -> [&KernelSource; 6] {
        [&self.scale, &self.add, &self.saxpy, &self.increment, &self.iota, &self.copy_u32]
    }
}

impl Default for KernelSet {
    fn default() -> Self {
        KernelSet::new()
    }
}

fn scale() -> KernelSource {
    KernelSource::new("scale", &[Access::ReadWrite])
        .host(|arguments| {
            let factor: f32 = arguments.parameters();
            for value in arguments.write::<f32>(0) {
                *value *= factor;
            }
        })
        .wgsl(include_str!("kernels/scale.wgsl"), "scale")
        .cuda("scale")
}

fn add() -> KernelSource {
    KernelSource::new("add", &[Access::Read, Access::Read, Access::Write])
        .host(|arguments| {
            let ([x, y], [z]) = arguments.slices::<f32, 2, 1>([0, 1], [2]);
            for ((z, x), y) in z.iter_mut().zip(x).zip(y) {
                *z = x + y;
            }
        })
        .wgsl(include_str!("kernels/add.wgsl"), "add")
        .cuda("add")
}

fn saxpy() -> KernelSource {
    KernelSource::new("saxpy", &[Access::Read, Access::ReadWrite])
        .host(|arguments| {
            let a: f32 = arguments.parameters();
            let ([x], [y]) = arguments.slices::<f32, 1, 1>([0], [1]);
            for (y, x) in y.iter_mut().zip(x) {
                *y += a * x;
            }
        })
        .wgsl(include_str!("kernels/saxpy.wgsl"), "saxpy")
        .cuda("saxpy")
}

fn increment() -> KernelSource {
    KernelSource::new("increment", &[Access::ReadWrite])
        .host(|arguments| {
            for value in arguments.write::<u32>(0) {
                *value = value.wrapping_add(1);
            }
        })
        .wgsl(include_str!("kernels/increment.wgsl"), "increment")
        .cuda("increment")
}

fn iota() -> KernelSource {
    KernelSource::new("iota", &[Access::Write])
        .host(|arguments| {
            for (value, index) in arguments.write::<u32>(0).iter_mut().zip(0..) {
                *value = index;
            }
        })
        .wgsl(include_str!("kernels/iota.wgsl"), "iota")
        .cuda("iota")
}

fn copy_u32() -> KernelSource {
    KernelSource::new("copy_u32", &[Access::Read, Access::Write])
        .host(|arguments| {
            let ([x], [y]) = arguments.slices::<u32, 1, 1>([0], [1]);
            y.copy_from_slice(x);
        })
        .wgsl(include_str!("kernels/copy_u32.wgsl"), "copy_u32")
        .cuda("copy_u32")
}

fn fail() -> KernelSource {
    KernelSource::new("fail", &[Access::ReadWrite]).host(|_| panic!("the kernel `fail` always fails"))
}

#[cfg(test)]
mod tests {
    use tenure_core::kernel::DeviceProgram;

    use super::*;

    #[test]
    fn every_portable_kernel_has_a_function_in_the_text_for_cuda() {
        for source in KernelSet::new().portable() {
            let label = source.label();
            let texts: Vec<_> = source
                .device_forms()
                .filter_map(|form| match &form.program {
                    DeviceProgram::Ptx(program) => Some(program),
                    _ => None,
                })
                .collect();
            let [program] = texts[..] else { panic!("`{label}` has {} PTX texts", texts.len()) };
            assert!(program.text.contains(&format!(".visible .entry {label}(")), "{label}");
            // A pointer a binding, one to the lengths, and one to the parameters where there are some.
            let pointers = program.text.matches(&format!(".param .u64 {label}_param_")).count();
            let parameters = usize::from(matches!(label, "scale" | "saxpy"));
            assert_eq!(pointers, source.bindings().len() + 1 + parameters, "{label}");
            assert_eq!(program.block, [WORKGROUP, 1, 1]);
        }
    }

    #[test]
    fn groups_cover_every_element() {
        assert_eq!(groups_for(0), [1, 1, 1]);
        assert_eq!(groups_for(64), [1, 1, 1]);
        assert_eq!(groups_for(65), [2, 1, 1]);
    }
}
