//! Kernels: the first form that this device takes, loaded.
//!
//! PTX is translated by the driver. CUDA C++ is compiled by NVRTC where the machine has it; on a driver in software it is not
//! looked for. Not here: launching (`encode.rs`).

pub(crate) mod ffi;
mod ptx;

use std::sync::Arc;

use cudarc::driver::sys;
use tenure_core::kernel::{CudaProgram, DeviceProgram, KernelForm};
use tenure_core::{BackendError, KernelSource};

use crate::device::Device;
use crate::error::{compile, unsupported};
use crate::ffi::Current;
use crate::kernel::ffi::{Refusal, has_compiler, ptx_of};
use crate::kernel::ptx::Ptx;

pub(crate) use crate::kernel::ffi::Program;

/// A compiled kernel.
pub struct CudaKernel {
    pub(crate) program: Arc<Program>,
}

impl CudaKernel {
    /// The driver's function. Valid while the kernel is not destroyed.
    pub fn function(&self) -> sys::CUfunction {
        self.program.function.0
    }

    /// Threads of a block in x, y, z.
    pub fn block(&self) -> [u32; 3] {
        self.program.block
    }
}

impl std::fmt::Debug for CudaKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaKernel").field("block", &self.program.block).finish_non_exhaustive()
    }
}

impl Device {
    pub(crate) fn compile(&self, source: &KernelSource) -> Result<CudaKernel, BackendError> {
        let current = self.context.enter()?;
        let label = source.label();
        // Why the forms before were not taken.
        let mut passed_over = Vec::new();
        for kernel in source.device_forms() {
            let taken = match &kernel.program {
                DeviceProgram::Ptx(program) => {
                    self.load(&current, label, &program.text, &kernel.entry, program)?
                }
                DeviceProgram::CudaCpp(program) => match self.translate(label, program)? {
                    Ok(text) => self.load(&current, label, &text, &kernel.entry, program)?,
                    Err(reason) => Err(reason),
                },
                _ => continue,
            };
            match taken {
                Ok(program) => return Ok(CudaKernel { program: Arc::new(program) }),
                Err(reason) => passed_over.push(format!("{}: {reason}", kernel.program.name())),
            }
        }
        if !passed_over.is_empty() {
            let reasons = passed_over.join("; ");
            return Err(unsupported(
                "compile",
                format!("kernel `{label}` has no form for this device. {reasons}"),
            ));
        }
        let forms: Vec<String> = source.forms().iter().map(KernelForm::name).collect();
        let forms = if forms.is_empty() { "no form at all".to_owned() } else { forms.join(", ") };
        Err(unsupported("compile", format!("kernel `{label}` has no PTX and no CUDA C++; it has {forms}")))
    }

    /// CUDA C++ as PTX for this device, or why that cannot be had here.
    fn translate(&self, label: &str, program: &CudaProgram) -> Result<Result<String, String>, BackendError> {
        if self.facts.software {
            return Ok(Err("the driver in software takes PTX only".to_owned()));
        }
        if !has_compiler() {
            let reason = "NVRTC is not installed here; it is part of the CUDA toolkit";
            return Ok(Err(reason.to_owned()));
        }
        let (major, minor) = self.facts.compute;
        let text = ptx_of(&program.text, &format!("--gpu-architecture=compute_{major}{minor}"));
        text.map(Ok).map_err(|log| compile(label, log))
    }

    /// Loads PTX; or why the driver does not take it, where another form may do.
    fn load(
        &self,
        current: &Current<'_>,
        label: &str,
        text: &str,
        entry: &str,
        program: &CudaProgram,
    ) -> Result<Result<Program, String>, BackendError> {
        self.check_block(label, program.block)?;
        let ptx = Ptx::of(text);
        let (major, minor) = self.facts.compute;
        if let Some(target) = ptx.target().filter(|target| *target > major * 10 + minor) {
            return Ok(Err(format!(
                "it is for devices of compute capability {target}, this one has {major}{minor}"
            )));
        }
        let pointers = ptx.parameters(entry);
        match Program::load(current, text, entry, pointers, program) {
            Ok(loaded) => {
                self.check_program(label, &loaded)?;
                Ok(Ok(loaded))
            }
            Err(Refusal::Kind(reason)) => Ok(Err(reason)),
            Err(Refusal::Text(log)) => Err(compile(label, log)),
            Err(Refusal::Driver(error)) => Err(error),
        }
    }

    fn check_block(&self, label: &str, block: [u32; 3]) -> Result<(), BackendError> {
        let facts = &self.facts;
        let threads: u64 = block.iter().map(|threads| u64::from(*threads)).product();
        let fits = block.iter().zip(&facts.max_block).all(|(threads, most)| threads <= most);
        if threads == 0 || threads > facts.max_threads.into() || !fits {
            let message = format!(
                "kernel `{label}` has blocks of {block:?} threads, the device takes 1 to {} of them, {:?} at most",
                facts.max_threads, facts.max_block
            );
            return Err(unsupported("compile", message));
        }
        Ok(())
    }

    /// What is known once the function is.
    fn check_program(&self, label: &str, program: &Program) -> Result<(), BackendError> {
        let threads: u32 = program.block.iter().product();
        if threads > program.most_threads {
            let message = format!(
                "kernel `{label}` has blocks of {threads} threads, as compiled it runs with {} at most",
                program.most_threads
            );
            return Err(unsupported("compile", message));
        }
        let shared = u64::from(program.shared_bytes) + u64::from(program.static_shared_bytes);
        if shared > self.facts.max_shared_bytes.into() {
            let message = format!(
                "kernel `{label}` wants {shared} bytes of shared memory a block, the device has {}",
                self.facts.max_shared_bytes
            );
            return Err(unsupported("compile", message));
        }
        program.allow_shared(self.facts.usual_shared_bytes, &self.context.enter()?)
    }
}
