//! Kernels: the host form of a source, and running it over bindings.

use tenure_core::kernel::{HostArguments, HostKernel, KernelForm};
use tenure_core::{Access, BackendError, BackendErrorKind, KernelSource};

use crate::error::execution;
use crate::ffi::Range;

/// A compiled kernel: the closure, shared with the recordings that name it.
#[derive(Clone)]
pub struct HostKernelObject {
    pub(crate) run: HostKernel,
}

pub(crate) fn compile(source: &KernelSource) -> Result<HostKernelObject, BackendError> {
    let Some(run) = source.host_form() else {
        let forms: Vec<String> = source.forms().iter().map(KernelForm::name).collect();
        let forms = if forms.is_empty() { "no form at all".to_owned() } else { forms.join(", ") };
        let message = format!("kernel `{}` has no host closure; it has {forms}", source.label());
        return Err(BackendError::new(BackendErrorKind::Unsupported, "compile", message));
    };
    Ok(HostKernelObject { run: run.clone() })
}

/// One dispatch, with everything it names.
#[derive(Clone)]
pub(crate) struct Dispatch {
    pub kernel: HostKernel,
    pub bindings: Vec<(Range, Access)>,
    pub groups: [u32; 3],
    pub parameters: Vec<u8>,
    pub label: String,
}

impl Dispatch {
    /// Runs the closure; a panic fails the execution and nothing else.
    pub(crate) fn run(&self) -> Result<(), BackendError> {
        let bindings = self.bindings.iter().map(|(range, access)| range.bind(*access)).collect();
        let mut arguments = HostArguments::new(self.groups, &self.parameters, bindings);
        self.kernel.run(&mut arguments).map_err(|message| execution(&self.label, &message))
    }
}
