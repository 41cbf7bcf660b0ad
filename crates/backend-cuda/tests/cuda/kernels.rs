//! Kernels: forms, errors of compilers, limits, arguments.
//!
//! Not here: what kernels compute, which the suite compares.

use tenure_core::kernel::CudaProgram;
use tenure_core::{Access, BackendErrorKind, Error, KernelSource, Manager, op};

use crate::ffi::{with_cuda_cpp, with_ptx};
use crate::support::{alone, increment, manager};

fn refusal(manager: &Manager, source: &KernelSource) -> tenure_core::BackendError {
    match manager.kernel(source).map(|_| ()) {
        Err(Error::Backend(error)) => error,
        other => panic!("the kernel is refused: {other:?}"),
    }
}

fn source() -> KernelSource {
    KernelSource::new("kernel", &[Access::ReadWrite])
}

const HEAD: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

fn body(parameters: &str) -> String {
    format!("{HEAD}.visible .entry kernel({parameters})\n{{\n\tret;\n}}\n")
}

/// What cannot be loaded says why, with the kernel's label, and by the right kind.
#[test]
fn what_does_not_compile_says_why() {
    alone("kernels::what_does_not_compile_says_why", || {
        let manager = manager();
        let ptx = |text: &str| with_ptx(source(), CudaProgram::new(text, [64, 1, 1]), "kernel");
        for (text, kind, parts) in [
            ("this is no PTX", BackendErrorKind::Compile, ["kernel", ""]),
            (
                &*format!("{HEAD}.visible .entry kernel()\n{{\n\tfrobnicate.u32 %r1;\n}}\n"),
                BackendErrorKind::Compile,
                ["kernel", "frobnicate"],
            ),
            (
                &*body(".param .u64 a").replace("entry kernel", "entry other"),
                BackendErrorKind::Compile,
                ["kernel", "no function"],
            ),
            (&*body(".param .u32 a"), BackendErrorKind::Compile, ["kernel", "pointers"]),
            (
                &*body(".param .u64 a").replace("sm_80", "sm_999"),
                BackendErrorKind::Unsupported,
                ["kernel", "999"],
            ),
            ("with\0zero", BackendErrorKind::Compile, ["kernel", "zero"]),
        ] {
            let error = refusal(&manager, &ptx(text));
            assert_eq!(error.kind, kind, "{error}");
            assert!(parts.iter().all(|part| error.message.contains(part)), "{error}");
        }
        assert!(manager.close().unwrap().is_clean());
    });
}

/// Forms that this device does not take: nothing fits, or another form does.
#[test]
fn the_first_form_that_fits_is_taken() {
    alone("kernels::the_first_form_that_fits_is_taken", || {
        let manager = manager();
        let error = refusal(&manager, &source());
        assert_eq!(error.kind, BackendErrorKind::Unsupported);
        assert!(error.message.contains("no form at all"), "{error}");
        let error = refusal(&manager, &source().wgsl("nothing", "kernel").host(|_| ()));
        assert!(error.message.contains("WGSL") && error.message.contains("a host closure"), "{error}");
        let cuda_cpp = || CudaProgram::new("extern \"C\" __global__ void kernel(float *x) {}", [1, 1, 1]);
        let error = refusal(&manager, &with_cuda_cpp(source(), cuda_cpp(), "kernel"));
        assert_eq!(error.kind, BackendErrorKind::Unsupported);
        assert!(error.message.contains("CUDA C++: the driver in software takes PTX only"), "{error}");
        let newer = body(".param .u64 a").replace("sm_80", "sm_120");
        let both = with_ptx(source(), CudaProgram::new(newer, [1, 1, 1]), "kernel");
        let both = with_cuda_cpp(both, cuda_cpp(), "kernel");
        let fits = with_ptx(both, CudaProgram::new(body(".param .u64 a"), [1, 1, 1]), "kernel");
        manager.kernel(&fits).unwrap();
        assert!(manager.close().unwrap().is_clean());
    });
}

/// Blocks and shared memory that the device does not have are refused when the kernel is compiled.
#[test]
fn blocks_beyond_the_device_are_refused() {
    alone("kernels::blocks_beyond_the_device_are_refused", || {
        let manager = manager();
        for (block, shared, part) in [
            ([1025, 1, 1], 0, "1025"),
            ([32, 32, 2], 0, "[32, 32, 2]"),
            ([1, 1, 65], 0, "65"),
            ([0, 1, 1], 0, "[0, 1, 1]"),
            ([64, 1, 1], 1 << 20, "1048576 bytes of shared memory"),
            ([64, 1, 1], u32::MAX, "shared memory"),
        ] {
            let program = CudaProgram::new(body(".param .u64 a"), block).shared_bytes(shared);
            let error = refusal(&manager, &with_ptx(source(), program, "kernel"));
            assert_eq!(error.kind, BackendErrorKind::Unsupported);
            assert!(error.message.contains(part), "{error}");
        }
        // More than a block has without asking, and no more than it may have.
        let program = CudaProgram::new(body(".param .u64 a"), [64, 1, 1]).shared_bytes(64 << 10);
        manager.kernel(&with_ptx(source(), program, "kernel")).unwrap();
        assert!(manager.close().unwrap().is_clean());
    });
}

/// A dispatch passes what the function takes, or is refused: the driver reads as many arguments as the function has.
#[test]
fn a_dispatch_has_the_arguments_of_its_function() {
    alone("kernels::a_dispatch_has_the_arguments_of_its_function", || {
        let manager = manager();
        let scope = manager.scope("s").unwrap();
        let tensor = scope.tensor_from("t", &[1_u32; 100]).unwrap();
        let two = CudaProgram::new(body(".param .u64 a, .param .u64 b"), [1, 1, 1]);
        let kernel = manager.kernel(&with_ptx(source(), two, "kernel")).unwrap();
        let error = scope.evaluate([op::dispatch(&kernel).bind(&tensor)]).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("takes 2 pointers, the dispatch has 1"), "{error}");
        scope.evaluate([op::dispatch(&kernel).bind(&tensor).parameters(1_u32)]).unwrap().wait().unwrap();

        // Lengths come last, and keep the last block within the tensor, or within a view of it.
        let kernel = manager.kernel(&increment()).unwrap();
        scope.evaluate([op::dispatch(&kernel).bind(&tensor).groups([50, 1, 1])]).unwrap().wait().unwrap();
        let part = tensor.view(3..70).unwrap();
        scope.evaluate([op::dispatch(&kernel).bind(&part).groups([50, 1, 1])]).unwrap().wait().unwrap();
        let expected: Vec<u32> = (0..100).map(|at| if (3..70).contains(&at) { 3 } else { 2 }).collect();
        assert_eq!(tensor.read().unwrap(), expected);
        let empty = manager.tensor::<u32>(0).unwrap();
        scope.evaluate([op::dispatch(&kernel).bind(&empty)]).unwrap().wait().unwrap();

        // No block at all is no work; more than the device runs is refused.
        scope.evaluate([op::dispatch(&kernel).bind(&tensor).groups([0, 1, 1])]).unwrap().wait().unwrap();
        assert_eq!(tensor.read().unwrap(), expected);
        let error = scope
            .evaluate([op::dispatch(&kernel).bind(&tensor).groups([1, 70_000, 1])])
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains("70000"), "{error}");
        scope.finish_blocking().unwrap();
        drop((scope, tensor, kernel, empty, part));
        assert!(manager.close().unwrap().is_clean());
    });
}

/// Elements of any size fill, wherever the range begins.
#[test]
fn elements_of_any_size_fill() {
    alone("kernels::elements_of_any_size_fill", || {
        let manager = manager();
        fills::<1>(&manager, 101);
        fills::<2>(&manager, 101);
        fills::<3>(&manager, 101);
        fills::<4>(&manager, 101);
        fills::<5>(&manager, 10_007);
        fills::<8>(&manager, 10_007);
        fills::<12>(&manager, 10_007);
        fills::<64>(&manager, 1_009);
        assert!(manager.close().unwrap().is_clean());
    });
}

fn fills<const N: usize>(manager: &Manager, elements: usize)
where
    [u8; N]: tenure_core::Element,
{
    let value: [u8; N] = std::array::from_fn(|at| at as u8 + 1);
    let scope = manager.scope("fills").unwrap();
    let tensor = scope.tensor_from("fill", &vec![[0_u8; N]; elements]).unwrap();
    for start in 0..3 {
        let part = tensor.view(start as u64..elements as u64).unwrap();
        scope.evaluate([op::fill(&tensor, [0_u8; N]), op::fill(&part, value)]).unwrap().wait().unwrap();
        let mut expected = vec![value; elements];
        expected[..start].fill([0; N]);
        assert!(tensor.read().unwrap() == expected, "{elements} elements of {N} bytes from {start}");
    }
    scope.finish_blocking().unwrap();
}
