//! Tests of the backend on a device, through a manager. Without an adapter they say so and test nothing.
//!
//! Not here: the contract, which the conformance suite tests, and tests without a device, which stand beside the code.

use tenure_core::{Access, BackendErrorKind, Error, KernelSource, Manager, ManagerOptions, Tensor, op};

use super::*;

/// A manager, and its backend's typed view, if there is an adapter.
fn open(options: WgpuOptions) -> Option<Manager> {
    match WgpuBackend::with_options(options) {
        Ok(backend) => Some(manager(backend)),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn manager(backend: WgpuBackend) -> Manager {
    Manager::open_with(backend, ManagerOptions::default()).expect("a manager opens")
}

/// `y[i] = x[i] + 1`.
fn add_one() -> KernelSource {
    KernelSource::new("add one", &[Access::Read, Access::Write]).wgsl(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(64)
        fn add_one(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < min(arrayLength(&x), arrayLength(&y)) { y[id.x] = x[id.x] + 1u; }
        }",
        "add_one",
    )
}

fn compile_error(manager: &Manager, source: &KernelSource) -> String {
    match manager.kernel(source) {
        Err(Error::Backend(error)) => {
            assert_eq!(error.kind, BackendErrorKind::Compile, "{error}");
            error.message.to_string()
        }
        other => panic!("it does not compile: {other:?}"),
    }
}

#[test]
fn a_software_adapter_says_so() {
    let options = WgpuOptions::builder().software(true).build();
    let Some(manager) = open(options) else { return };
    assert!(manager.info().software);
    assert_eq!(manager.info().name, "wgpu");
    manager.close().expect("it closes");
}

#[test]
fn an_adapter_that_is_not_there_is_unavailable_and_names_those_that_are() {
    let options = WgpuOptions::builder().adapter("no such adapter").build();
    let error = WgpuBackend::with_options(options).err().expect("there is none of that name");
    assert_eq!(error.kind, BackendErrorKind::Unavailable);
    assert!(error.message.contains("`no such adapter`"), "{error}");
}

#[test]
fn compile_errors_have_the_label_and_the_line() {
    let Some(manager) = open(WgpuOptions::default()) else { return };
    let wgsl = |text: &'static str| KernelSource::new("broken", &[Access::ReadWrite]).wgsl(text, "main");
    let parse = compile_error(&manager, &wgsl("\n\nfn main( {"));
    assert!(parse.contains("kernel `broken`") && parse.contains("broken:3:"), "{parse}");
    let types = compile_error(
        &manager,
        &wgsl("@compute @workgroup_size(1)\nfn main() {\n    let x: u32 = 1.0;\n    _ = x;\n}"),
    );
    assert!(types.contains("kernel `broken`") && types.contains("3"), "{types}");
    let valid = compile_error(
        &manager,
        &wgsl("@compute @workgroup_size(1)\nfn main() {\n    return;\n}\nfn f() -> u32 {\n}"),
    );
    assert!(valid.contains("kernel `broken`"), "{valid}");
    let entry = compile_error(&manager, &wgsl("@compute @workgroup_size(1)\nfn other() {}"));
    assert!(entry.contains("main"), "{entry}");
    manager.close().expect("it closes");
}

#[test]
fn a_kernel_compiled_again_is_the_same() {
    let Ok(backend) = WgpuBackend::new() else { return println!("skipped: no adapter") };
    let device = backend.device("test").expect("it is open");
    let first = device.compile(&add_one()).expect("it compiles");
    let second = device.compile(&add_one()).expect("it compiles");
    assert_eq!(first.compiled.id, second.compiled.id);
    device.trim();
    let third = device.compile(&add_one()).expect("it compiles");
    assert_ne!(first.compiled.id, third.compiled.id);
}

#[test]
fn dispatches_between_parts_of_one_tensor_at_any_element() {
    let Some(manager) = open(WgpuOptions::default()) else { return };
    let kernel = manager.kernel(&add_one()).expect("it compiles");
    let scope = manager.scope("s").expect("a scope");
    for (from, to, count) in [(0, 64, 64), (1, 65, 7), (100, 3, 50), (5, 200, 56)] {
        let mut expected: Vec<u32> = (0..256).collect();
        let tensor = manager.tensor_from("row", &expected).expect("room");
        let dispatch = op::dispatch(&kernel)
            .bind(tensor.view(from..from + count).expect("inside"))
            .bind(tensor.view(to..to + count).expect("inside"));
        scope.evaluate([dispatch]).expect("submitted").wait().expect("done");
        for at in 0..count {
            expected[(to + at) as usize] = (from + at) as u32 + 1;
        }
        assert_eq!(tensor.read().expect("read"), expected, "{from} to {to}");
    }
    scope.finish_blocking().expect("it finishes");
}

#[test]
fn bytes_of_any_place_to_any_place() {
    let Some(manager) = open(WgpuOptions::default()) else { return };
    let scope = manager.scope("s").expect("a scope");
    let tensor: Tensor<u8> = manager.tensor(64).expect("room");
    for from in 0..6_u64 {
        for to in 20..26_u64 {
            for count in [1, 2, 3, 4, 5, 8, 11] {
                let mut expected: Vec<u8> = (0..64).map(|at: u8| at.wrapping_mul(7)).collect();
                tensor.write(&expected).expect("written");
                let source = tensor.view(from..from + count).expect("inside");
                let target = tensor.view(to..to + count).expect("inside");
                scope.evaluate([op::copy(source, target)]).expect("submitted").wait().expect("done");
                expected.copy_within(from as usize..(from + count) as usize, to as usize);
                assert_eq!(tensor.read().expect("read"), expected, "{count} from {from} to {to}");
            }
        }
    }
    scope.finish_blocking().expect("it finishes");
}

#[test]
fn fills_of_any_size_at_any_byte() {
    let Some(manager) = open(WgpuOptions::default()) else { return };
    let scope = manager.scope("s").expect("a scope");
    const LEN: usize = 100_003;
    let tensor: Tensor<[u8; 3]> = manager.tensor(LEN as u64).expect("room");
    for (from, to, value) in
        [(0, LEN, [1, 2, 3]), (1, LEN - 2, [0; 3]), (3, 40_000, [7; 3]), (5, 9, [4, 5, 6])]
    {
        let mut expected: Vec<[u8; 3]> = (0..LEN).map(|at| [at as u8, 1, 2]).collect();
        tensor.write(&expected).expect("written");
        let view = tensor.view(from as u64..to as u64).expect("inside");
        scope.evaluate([op::fill(view, value)]).expect("submitted").wait().expect("done");
        expected[from..to].fill(value);
        assert!(tensor.read().expect("read") == expected, "{value:?} from {from} to {to}");
    }
    scope.finish_blocking().expect("it finishes");
}

#[test]
fn more_than_the_pool_goes_up_and_back() {
    let options = WgpuOptions::builder().staging_bytes(1 << 20).build();
    let Some(manager) = open(options) else { return };
    let data: Vec<u32> = (0..6 << 20).collect();
    let tensor = manager.tensor_from("large", &data).expect("room");
    assert_eq!(tensor.read().expect("read"), data);
    let scope = manager.scope("s").expect("a scope");
    let (download, values) = op::download(&tensor);
    scope.evaluate([op::upload(&tensor, &data), download]).expect("submitted").wait().expect("done");
    assert_eq!(values.get().expect("delivered"), data);
    scope.finish_blocking().expect("it finishes");
}

#[test]
fn an_engines_device_outlives_us_and_its_loss_is_ours() {
    let Ok(own) = WgpuBackend::new() else { return println!("skipped: no adapter") };
    drop(own);
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.request_adapter(&Default::default())).expect("there is one");
    let (device, queue) = pollster::block_on(adapter.request_device(&Default::default())).expect("a device");
    let embed = || {
        let handles = (instance.clone(), device.clone(), queue.clone());
        manager(WgpuBackend::from_device(handles.0, &adapter, handles.1, handles.2))
    };
    for _ in 0..2 {
        let manager = embed();
        let tensor = manager.tensor_from("row", &[1_u32; 64]).expect("room");
        assert_eq!(tensor.read().expect("read"), [1; 64]);
        drop(tensor);
        assert!(manager.close().expect("it closes").is_clean());
    }
    let manager = embed();
    let tensor = manager.tensor_from("row", &[1_u32; 64]).expect("room");
    device.destroy();
    let error = tensor.read().expect_err("the device is gone");
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    let told = embed();
    told.backend::<WgpuBackend>().expect("the type that was opened").notify_lost("the engine says so");
    let error = told.tensor::<u32>(64).expect_err("the device is gone");
    assert!(error.to_string().contains("the engine says so"), "{error}");
    manager.close().expect("it closes");
    told.close().expect("it closes");
}

#[test]
fn destroying_our_device_from_outside_is_a_loss() {
    let Some(manager) = open(WgpuOptions::default()) else { return };
    let tensor = manager.tensor_from("row", &[1_u32; 64]).expect("room");
    let (device, _) = manager.backend::<WgpuBackend>().and_then(WgpuBackend::handles).expect("it is open");
    device.destroy();
    let error = tensor.read().expect_err("the device is gone");
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    manager.close().expect("it closes");
}
