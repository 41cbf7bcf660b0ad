//! Kernels as users write them: [`KernelSource`] in the forms that are at hand, and the host form's view of
//! its arguments. Also [`Kernel`], the handle of a compiled one.
//!
//! Not here: compiling (a backend's work) and recording a dispatch (`operation.rs`).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytemuck::Pod;

use crate::engine::kernels::KernelEntry;
use crate::engine::quiet::panic_text;

/// How a kernel uses one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only reads.
    Read,
    /// Only writes; what is not written keeps its old contents.
    Write,
    /// Reads and writes.
    ReadWrite,
}

impl Access {
    /// True for [`Access::Write`] and [`Access::ReadWrite`].
    pub fn writes(self) -> bool {
        !matches!(self, Access::Read)
    }

    /// True for [`Access::Read`] and [`Access::ReadWrite`].
    pub fn reads(self) -> bool {
        !matches!(self, Access::Write)
    }
}

/// One form of a kernel. A backend takes the first form that it understands.
#[derive(Clone)]
#[non_exhaustive]
pub enum KernelForm {
    /// A closure for the host backend, called once per dispatch on the queue's thread.
    Host(HostKernel),
    /// A program for a device.
    Device(DeviceKernel),
}

impl KernelForm {
    /// The form's name, for messages.
    pub fn name(&self) -> String {
        match self {
            KernelForm::Host(_) => "a host closure".to_owned(),
            KernelForm::Device(kernel) => kernel.program.name().to_owned(),
        }
    }
}

impl fmt::Debug for KernelForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A kernel as a program for a device.
///
/// In WGSL and SPIR-V its bindings are storage buffers of group (descriptor set) 0, in the order of the source's
/// bindings. Where a dispatch has parameters, their bytes, padded to a multiple of four, are one more read-only storage
/// buffer after them. An invocation tells from a buffer's length whether it has an element: the last workgroup may reach
/// beyond.
///
/// In CUDA C++ and PTX the function takes one pointer a binding and, where a dispatch has parameters, one more to their
/// bytes. Pointers have no length: what a kernel needs to know of its bindings' lengths travels in the parameters, or comes
/// by one more pointer, the last, to the number of bytes of each binding in 64 bits: see [`CudaProgram::lengths`].
#[derive(Clone, Debug)]
pub struct DeviceKernel {
    /// The program.
    pub program: DeviceProgram,
    /// The function to start, as the program names it.
    pub entry: Arc<str>,
}

/// The languages of [`DeviceKernel`]s.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DeviceProgram {
    /// WGSL text.
    Wgsl(Arc<str>),
    /// SPIR-V words.
    SpirV(Arc<[u32]>),
    /// CUDA C++ text, compiled on the machine that runs it.
    CudaCpp(CudaProgram),
    /// PTX text.
    Ptx(CudaProgram),
}

impl DeviceProgram {
    /// The language's name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            DeviceProgram::Wgsl(_) => "WGSL",
            DeviceProgram::SpirV(_) => "SPIR-V",
            DeviceProgram::CudaCpp(_) => "CUDA C++",
            DeviceProgram::Ptx(_) => "PTX",
        }
    }
}

/// A program for CUDA: its text, and what a launch needs to know that the text does not say.
#[derive(Clone, Debug)]
pub struct CudaProgram {
    /// CUDA C++ or PTX.
    pub text: Arc<str>,
    /// Threads of a block (a workgroup) in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes; 0 where the program has none.
    pub shared_bytes: u32,
    /// Whether the function's last pointer is to the bindings' lengths.
    pub lengths: bool,
}

impl CudaProgram {
    /// A program whose blocks have `block` threads and no dynamic shared memory.
    pub fn new(text: impl Into<Arc<str>>, block: [u32; 3]) -> Self {
        CudaProgram { text: text.into(), block, shared_bytes: 0, lengths: false }
    }

    /// The same with `bytes` of dynamic shared memory a block.
    pub fn shared_bytes(self, bytes: u32) -> Self {
        CudaProgram { shared_bytes: bytes, ..self }
    }

    /// The same for a function that takes the bindings' lengths: its last pointer is to one `unsigned long long` a
    /// binding, the number of its bytes.
    pub fn lengths(self) -> Self {
        CudaProgram { lengths: true, ..self }
    }
}

type HostClosure = dyn Fn(&mut HostArguments<'_>) -> Result<(), String> + Send + Sync;

/// A kernel as a host closure.
///
/// The closure runs once per dispatch and has each binding to itself for that time: tensors that it names
/// are safe by the declared access. What it shares by other ways (captured atomics, locks, statics) tenure
/// cannot see, and does not order.
#[derive(Clone)]
pub struct HostKernel {
    run: Arc<HostClosure>,
}

impl HostKernel {
    /// Runs the closure. For backends.
    ///
    /// # Errors
    /// What the closure returned, or the text of its panic: this execution has failed, and nothing else.
    pub fn run(&self, arguments: &mut HostArguments<'_>) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| (self.run)(arguments)))
            .unwrap_or_else(|panic| Err(format!("panicked: {}", panic_text(panic))))
    }
}

/// One binding of a host kernel: the bytes of its range.
#[derive(Debug)]
pub enum HostBinding<'a> {
    /// For [`Access::Read`].
    Read(&'a [u8]),
    /// For [`Access::Write`] and [`Access::ReadWrite`].
    Write(&'a mut [u8]),
}

/// What a host kernel sees: bindings as typed slices, the dispatch size and the parameters.
#[derive(Debug)]
pub struct HostArguments<'a> {
    groups: [u32; 3],
    parameters: &'a [u8],
    bindings: Vec<HostBinding<'a>>,
}

impl<'a> HostArguments<'a> {
    /// Puts the arguments of one dispatch together. For backends.
    pub fn new(groups: [u32; 3], parameters: &'a [u8], bindings: Vec<HostBinding<'a>>) -> Self {
        HostArguments { groups, parameters, bindings }
    }

    /// Number of workgroups in x, y, z, as dispatched.
    pub fn groups(&self) -> [u32; 3] {
        self.groups
    }

    /// The parameters as a value of type `P`.
    ///
    /// # Panics
    /// If the dispatch passed another number of bytes. The execution then fails with this message.
    pub fn parameters<P: Pod>(&self) -> P {
        bytemuck::try_pod_read_unaligned(self.parameters).unwrap_or_else(|_| {
            panic!(
                "the kernel wants {} bytes of parameters, the dispatch passed {}",
                size_of::<P>(),
                self.parameters.len()
            )
        })
    }

    /// The elements of binding `index`, to read.
    ///
    /// # Panics
    /// If there is no such binding or its bytes are no whole number of `T`. The execution then fails with this message.
    pub fn read<T: Pod>(&self, index: usize) -> &[T] {
        match self.bindings.get(index) {
            Some(HostBinding::Read(bytes)) => cast(bytes, index),
            Some(HostBinding::Write(bytes)) => cast(bytes, index),
            None => panic!("the kernel reads binding {index}, the dispatch has {}", self.bindings.len()),
        }
    }

    /// The elements of binding `index`, to write.
    ///
    /// # Panics
    /// As [`HostArguments::read`], and if the binding was declared [`Access::Read`].
    pub fn write<T: Pod>(&mut self, index: usize) -> &mut [T] {
        let count = self.bindings.len();
        match self.bindings.get_mut(index) {
            Some(HostBinding::Write(bytes)) => cast_mut(bytes, index),
            Some(HostBinding::Read(_)) => panic!("binding {index} was declared Read and is written"),
            None => panic!("the kernel writes binding {index}, the dispatch has {count}"),
        }
    }

    /// Several bindings at a time: read-only slices in `reads`, and writable ones in `writes`, each in the
    /// order asked for.
    ///
    /// # Panics
    /// As [`HostArguments::write`], and if one index is asked for twice.
    pub fn slices<T: Pod, const R: usize, const W: usize>(
        &mut self,
        reads: [usize; R],
        writes: [usize; W],
    ) -> ([&[T]; R], [&mut [T]; W]) {
        let count = self.bindings.len();
        for index in reads.iter().chain(&writes) {
            assert!(*index < count, "the kernel uses binding {index}, the dispatch has {count}");
        }
        for (at, index) in writes.iter().enumerate() {
            let twice = reads.contains(index) || writes[..at].contains(index);
            assert!(!twice, "binding {index} is asked for twice");
        }
        let mut read_slices: [&[T]; R] = [&[]; R];
        let mut write_slices: [&mut [T]; W] = std::array::from_fn(|_| -> &mut [T] { &mut [] });
        for (index, binding) in self.bindings.iter_mut().enumerate() {
            if let Some(slot) = writes.iter().position(|wanted| *wanted == index) {
                match binding {
                    HostBinding::Write(bytes) => write_slices[slot] = cast_mut(bytes, index),
                    HostBinding::Read(_) => panic!("binding {index} was declared Read and is written"),
                }
                continue;
            }
            let bytes: &[u8] = match binding {
                HostBinding::Read(bytes) => bytes,
                HostBinding::Write(bytes) => bytes,
            };
            for (slot, _) in reads.iter().enumerate().filter(|(_, wanted)| **wanted == index) {
                read_slices[slot] = cast(bytes, index);
            }
        }
        (read_slices, write_slices)
    }
}

fn cast<T: Pod>(bytes: &[u8], index: usize) -> &[T] {
    // An empty tensor's range has no place in memory, so none that is aligned (L22).
    if bytes.is_empty() {
        return &[];
    }
    bytemuck::try_cast_slice(bytes)
        .unwrap_or_else(|error| panic!("binding {index} as {}: {error}", std::any::type_name::<T>()))
}

fn cast_mut<T: Pod>(bytes: &mut [u8], index: usize) -> &mut [T] {
    if bytes.is_empty() {
        return &mut [];
    }
    bytemuck::try_cast_slice_mut(bytes)
        .unwrap_or_else(|error| panic!("binding {index} as {}: {error}", std::any::type_name::<T>()))
}

/// A kernel as its author has it: a label, the access of each binding, and one or more forms.
#[derive(Clone, Debug)]
pub struct KernelSource {
    label: Arc<str>,
    bindings: Arc<[Access]>,
    forms: Vec<KernelForm>,
}

impl KernelSource {
    /// A kernel with no form yet. `bindings` gives the access of bindings 0, 1, 2, ...
    pub fn new(label: impl Into<Arc<str>>, bindings: &[Access]) -> Self {
        KernelSource { label: label.into(), bindings: bindings.into(), forms: Vec::new() }
    }

    /// Adds a host closure that cannot fail.
    ///
    /// ```
    /// use tenure_core::{Access, KernelSource};
    /// let double = KernelSource::new("double", &[Access::ReadWrite]).host(|arguments| {
    ///     for value in arguments.write::<f32>(0) {
    ///         *value *= 2.0;
    ///     }
    /// });
    /// assert_eq!(double.label(), "double");
    /// ```
    pub fn host(self, run: impl Fn(&mut HostArguments<'_>) + Send + Sync + 'static) -> Self {
        self.host_fallible(move |arguments| {
            run(arguments);
            Ok(())
        })
    }

    /// Adds a host closure whose error fails the execution.
    pub fn host_fallible(
        mut self,
        run: impl Fn(&mut HostArguments<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.forms.push(KernelForm::Host(HostKernel { run: Arc::new(run) }));
        self
    }

    /// Adds WGSL text, with the name of its entry point.
    ///
    /// ```
    /// use tenure_core::{Access, KernelSource};
    /// let double = KernelSource::new("double", &[Access::ReadWrite]).wgsl(
    ///     "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
    ///     @compute @workgroup_size(64)
    ///     fn double(@builtin(global_invocation_id) id: vec3<u32>) {
    ///         if id.x < arrayLength(&x) { x[id.x] *= 2.0; }
    ///     }",
    ///     "double",
    /// );
    /// assert_eq!(double.forms().len(), 1);
    /// ```
    pub fn wgsl(self, text: impl Into<Arc<str>>, entry: impl Into<Arc<str>>) -> Self {
        self.device(DeviceProgram::Wgsl(text.into()), entry)
    }

    /// Adds SPIR-V words, with the name of their entry point.
    ///
    /// # Safety
    /// No check stands between this program and the device. Whatever a dispatch binds, it accesses its bindings only,
    /// inside their lengths, and as the source's bindings declare: barriers and reuse follow from that declaration.
    pub unsafe fn spirv(self, words: impl Into<Arc<[u32]>>, entry: impl Into<Arc<str>>) -> Self {
        self.device(DeviceProgram::SpirV(words.into()), entry)
    }

    /// Adds CUDA C++, with the name of its entry point (`extern "C"`). It is compiled with NVIDIA's run-time compiler
    /// where the machine has it.
    ///
    /// # Safety
    /// As [`KernelSource::spirv`]; the lengths come from the dispatch's parameters, so those that a dispatch passes must
    /// be true of what it binds.
    pub unsafe fn cuda_cpp(self, program: CudaProgram, entry: impl Into<Arc<str>>) -> Self {
        self.device(DeviceProgram::CudaCpp(program), entry)
    }

    /// Adds PTX, with the name of its entry point.
    ///
    /// # Safety
    /// As [`KernelSource::cuda_cpp`].
    pub unsafe fn ptx(self, program: CudaProgram, entry: impl Into<Arc<str>>) -> Self {
        self.device(DeviceProgram::Ptx(program), entry)
    }

    fn device(mut self, program: DeviceProgram, entry: impl Into<Arc<str>>) -> Self {
        self.forms.push(KernelForm::Device(DeviceKernel { program, entry: entry.into() }));
        self
    }

    /// The label, for errors, events and the driver's debug names.
    pub fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn shared_label(&self) -> Arc<str> {
        self.label.clone()
    }

    /// The access of each binding.
    pub fn bindings(&self) -> &[Access] {
        &self.bindings
    }

    pub(crate) fn shared_bindings(&self) -> Arc<[Access]> {
        self.bindings.clone()
    }

    /// The forms at hand, in the order in which they were added.
    pub fn forms(&self) -> &[KernelForm] {
        &self.forms
    }

    /// The host form, if there is one.
    pub fn host_form(&self) -> Option<&HostKernel> {
        self.forms.iter().find_map(|form| match form {
            KernelForm::Host(kernel) => Some(kernel),
            KernelForm::Device(_) => None,
        })
    }

    /// The forms for devices, in the order in which they were added: a backend takes the first that it can compile.
    pub fn device_forms(&self) -> impl Iterator<Item = &DeviceKernel> {
        self.forms.iter().filter_map(|form| match form {
            KernelForm::Host(_) => None,
            KernelForm::Device(kernel) => Some(kernel),
        })
    }
}

/// Handle of a compiled kernel. Cheap to clone; the native kernel is destroyed after the last handle and the
/// last recording that names it are gone, or when the manager closes.
#[derive(Clone)]
pub struct Kernel {
    pub(crate) entry: Arc<KernelEntry>,
}

impl Kernel {
    /// The label from its source.
    pub fn label(&self) -> &str {
        self.entry.label()
    }

    /// The access of each binding.
    pub fn bindings(&self) -> &[Access] {
        self.entry.bindings()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("label", &self.label()).finish_non_exhaustive()
    }
}
