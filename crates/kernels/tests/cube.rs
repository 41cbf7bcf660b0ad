//! A user's own `#[cube]` kernel: its WGSL, its bindings, and the info buffer that a dispatch passes, read back by a host
//! form.
//!
//! Not here: devices.
#![cfg(feature = "cubecl")]
#![allow(missing_docs, reason = "`#[cube]` makes public items without documentation")]

use std::sync::{Arc, Mutex};

use cubecl::prelude::*;
use tenure_backend_host::HostBackend;
use tenure_core::kernel::DeviceProgram;
use tenure_core::{Access, Manager, ManagerOptions};
use tenure_kernels::cube::{self, CubeError, CubeSource};

#[cube(launch)]
fn mix(x: &[f32], offset: i32, factor: f32, y: &mut [f32], step: u32, other: f32) {
    if ABSOLUTE_POS < y.len() {
        let at = ABSOLUTE_POS * step as usize;
        if at < x.len() {
            y[ABSOLUTE_POS] = x[at] * factor + other + offset as f32;
        }
    }
}

#[cube(launch)]
fn refuses(x: &mut [f32], #[comptime] wanted: bool) {
    comptime!(assert!(wanted, "this kernel is not wanted"));
    x[ABSOLUTE_POS] = 1.0;
}

#[cube(launch)]
fn with_shapes(x: &mut Tensor<f32>) {
    if ABSOLUTE_POS < x.len() {
        x[ABSOLUTE_POS] = x.shape(0) as f32;
    }
}

fn compile_mix() -> CubeSource {
    let kernel = mix::Mix::new(
        cube::settings([64, 1, 1]),
        cube::device(),
        cube::target(),
        cube::buffer(),
        (),
        (),
        cube::buffer(),
        (),
        (),
    );
    cube::compile("mix it", &kernel).unwrap()
}

#[test]
fn a_kernel_of_ones_own_becomes_a_source() {
    let compiled = compile_mix();
    let source = compiled.source();
    assert_eq!(source.label(), "mix it");
    assert_eq!(source.bindings(), [Access::Read, Access::Write]);
    let form = source.device_forms().next().unwrap();
    assert_eq!(&*form.entry, "mix_it");
    let DeviceProgram::Wgsl(text) = &form.program else { panic!("the form is WGSL") };
    let module = naga::front::wgsl::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(module.entry_points[0].name, "mix_it");
    assert!(text.contains("@binding(0) var<storage, read>"), "{text}");
    assert!(text.contains("@binding(1) var<storage, read_write>"), "{text}");
}

#[test]
fn the_info_buffer_has_scalars_by_type_and_then_lengths() {
    let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
    let store = seen.clone();
    let compiled = compile_mix().map(|source| {
        source.host(move |arguments| *store.lock().unwrap() = arguments.parameters::<[u32; 8]>().to_vec())
    });
    let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default()).unwrap();
    let kernel = manager.kernel(compiled.source()).unwrap();
    let x = manager.tensor_from("x", &[0_f32; 30]).unwrap();
    let y = manager.tensor_from("y", &[0_f32; 10]).unwrap();
    let scope = manager.scope("s").unwrap();
    let dispatch = compiled.dispatch(&kernel).bind(&x).scalar(-2_i32).scalar(0.5_f32);
    let dispatch = dispatch.bind(&y).scalar(3_u32).scalar(0.25_f32).groups([1, 1, 1]);
    scope.evaluate([dispatch.finish().unwrap()]).unwrap().wait().unwrap();
    let expected = [0.5_f32.to_bits(), 0.25_f32.to_bits(), -2_i32 as u32, 0, 3, 0, 30, 10];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn wrong_arguments_are_errors_that_name_both() {
    let compiled = compile_mix().map(|source| source.host(|_| ()));
    let manager = Manager::open_with(HostBackend::new(), ManagerOptions::default()).unwrap();
    let kernel = manager.kernel(compiled.source()).unwrap();
    let x = manager.tensor_from("x", &[0_f32; 4]).unwrap();
    let error = compiled.dispatch(&kernel).bind(&x).finish().unwrap_err().to_string();
    assert!(
        error.contains("`mix it`") && error.contains("2 buffers") && error.contains("gives 1"),
        "{error}"
    );
    let both = || compiled.dispatch(&kernel).bind(&x).bind(&x);
    let error = both().finish().unwrap_err().to_string();
    assert!(error.contains("2 of f32") && error.contains("no scalars"), "{error}");
    let scalars = both().scalar(1_u32).scalar(2_u32).scalar(0.5_f32).scalar(0.5_f32);
    let error = scalars.finish().unwrap_err().to_string();
    assert!(error.contains("1 of i32") && error.contains("2 of u32"), "{error}");
}

#[test]
fn what_does_not_compile_is_an_error() {
    let kernel = refuses::Refuses::new(
        cube::settings([64, 1, 1]),
        cube::device(),
        cube::target(),
        cube::buffer(),
        false,
    );
    match cube::compile("refuses", &kernel) {
        Err(CubeError::Compile { kernel, source }) => {
            assert_eq!(&*kernel, "refuses");
            assert!(source.to_string().contains("not wanted"), "{source}");
        }
        other => panic!("the kernel panics while it is expanded: {other:?}"),
    }
}

#[test]
fn shapes_are_refused() {
    let argument =
        TensorCompilationArg { meta: TensorMetaCompilationArg { len: (), rank: () }, buffer: cube::buffer() };
    let kernel =
        with_shapes::WithShapes::new(cube::settings([64, 1, 1]), cube::device(), cube::target(), argument);
    let answer = cube::compile("with shapes", &kernel);
    assert!(matches!(answer, Err(CubeError::Shapes { .. })), "{answer:?}");
}

#[test]
fn shipped_kernels_do_what_they_declare() {
    for shipped in cube::shipped::all() {
        let compiled = cube::compile(shipped.source.label(), &*shipped.kernel).unwrap();
        assert_eq!(compiled.source().bindings(), shipped.source.bindings(), "{}", shipped.source.label());
    }
    assert_eq!(cube::shipped::all().len(), tenure_kernels::sources().len());
}
