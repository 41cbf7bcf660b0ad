//! What the tests share: a process for each, kernels, managers.
//!
//! Not here: unsafe code (`ffi.rs`).

use std::process::{Command, Output};

use tenure_backend_cuda::{CudaBackend, CudaOptions};
use tenure_core::kernel::CudaProgram;
use tenure_core::{Access, KernelSource, Manager, ManagerOptions, TrimPolicy};

use crate::ffi::with_ptx;

/// Names the test that a process is there for.
const ALONE: &str = "TENURE_CUDA_ALONE";

/// Runs a test in a process of its own, on the driver in software: what the driver counts is of this test alone, and what
/// ends CUDA ends it there. The driver finds nothing left at the end, and no use out of order.
pub fn alone(test: &str, body: impl FnOnce()) {
    alone_with(test, &[], body);
}

/// As [`alone`], with variables.
pub fn alone_with(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if let Some(output) = in_child(test, &[&[("TENURE_SOFTCUDA", "1")], variables].concat(), body) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("leaks") && !said.contains("violation"), "{said}");
    }
}

/// Runs `body` in a process for it; there, nothing is returned.
pub fn in_child(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<Output> {
    if std::env::var_os(ALONE).is_some_and(|name| name == test) {
        body();
        return None;
    }
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env_remove("TENURE_SOFTCUDA")
        .env(ALONE, test)
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert!(out.contains("1 passed"), "no test is named `{test}`:\n{out}");
    Some(output)
}

pub fn backend() -> CudaBackend {
    CudaBackend::new().unwrap_or_else(|error| panic!("the driver in software opens: {error}"))
}

/// A backend on one of several devices in software.
pub fn backend_of(index: u32) -> CudaBackend {
    let options = CudaOptions::builder().index(index).build();
    CudaBackend::with_options(&options).unwrap_or_else(|error| panic!("device {index} opens: {error}"))
}

/// A manager that trims when it is told to.
pub fn manager() -> Manager {
    manager_on(backend())
}

pub fn manager_on(backend: CudaBackend) -> Manager {
    let options = ManagerOptions::builder().trim(TrimPolicy::Never).build();
    Manager::open_with(backend, options).expect("a manager")
}

/// Adds 1 to every element. Binding 0: `u32`, read and write.
pub fn increment() -> KernelSource {
    let source = KernelSource::new("increment", &[Access::ReadWrite]);
    with_ptx(source, CudaProgram::new(INCREMENT, [64, 1, 1]).lengths(), "increment")
}

const INCREMENT: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry increment(.param .u64 values, .param .u64 lengths)
{
	.reg .pred %p<2>;
	.reg .b32 %r<6>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [values];
	ld.param.u64 %rd2, [lengths];
	cvta.to.global.u64 %rd3, %rd1;
	cvta.to.global.u64 %rd4, %rd2;
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	mul.wide.u32 %rd5, %r4, 4;
	ld.global.u64 %rd6, [%rd4];
	setp.ge.u64 %p1, %rd5, %rd6;
	@%p1 bra DONE;
	add.s64 %rd7, %rd3, %rd5;
	ld.global.u32 %r5, [%rd7];
	add.s32 %r5, %r5, 1;
	st.global.u32 [%rd7], %r5;
DONE:
	ret;
}
";

/// Writes where nothing is.
pub fn wild() -> KernelSource {
    let source = KernelSource::new("wild", &[Access::ReadWrite]);
    with_ptx(source, CudaProgram::new(WILD, [1, 1, 1]), "wild")
}

const WILD: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry wild(.param .u64 values)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	mov.u64 %rd1, 64;
	mov.u32 %r1, 7;
	st.global.u32 [%rd1], %r1;
	ret;
}
";
