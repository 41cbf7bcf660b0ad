//! The device code, each kernel as a host closure, as WGSL and as PTX: elementwise operations, a matrix product, a sum.
//!
//! Every kernel writes one element of its last binding an invocation. Parameters are four 32-bit words. Not here: the text
//! for CUDA (`kernels.cu`).

use bytemuck::{Pod, Zeroable};
use tenure::{Access, Dispatch, Error, HostArguments, Kernel, KernelSource, Manager, Tensor, op};

use crate::ffi::with_cuda;

/// Invocations in a workgroup, as the text for CUDA has it too.
pub(crate) const WORKGROUP: u32 = 64;

/// What every kernel gets; each uses what it needs.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Parameters {
    /// A factor.
    pub factor: f32,
    /// Columns of the result.
    pub columns: u32,
    /// Terms of each element's sum.
    pub inner: u32,
    /// Bit 0: the first factor is transposed; bit 1: the second.
    pub transposed: u32,
}

/// All kernels, compiled.
#[derive(Clone, Debug)]
pub struct Kernels {
    /// `z = x + y`.
    pub add: Kernel,
    /// `z = x * y`, element by element.
    pub multiply: Kernel,
    /// `y = factor * x`.
    pub scale: Kernel,
    /// `y = max(x, 0)`.
    pub relu: Kernel,
    /// `y = 1` where `x > 0`, else 0.
    pub step: Kernel,
    /// `y[0]` is the sum of `x`.
    pub sum: Kernel,
    /// `y = x[0]` everywhere.
    pub broadcast: Kernel,
    /// `z = x * y` as matrices, each of them transposed or not.
    pub matmul: Kernel,
    /// `y += factor * x`, in place.
    pub axpy: Kernel,
}

const UNARY: &[Access] = &[Access::Read, Access::Write];
const BINARY: &[Access] = &[Access::Read, Access::Read, Access::Write];

impl Kernels {
    /// Compiles them for the manager's device.
    ///
    /// # Errors
    /// What the backend's compiler said.
    pub fn new(manager: &Manager) -> Result<Self, Error> {
        let unary = |label: &str, host: fn(&mut HostArguments<'_>), body: &str| {
            manager.kernel(&source(label, UNARY, host, body))
        };
        let binary = |label: &str, host: fn(&mut HostArguments<'_>), body: &str| {
            manager.kernel(&source(label, BINARY, host, body))
        };
        Ok(Kernels {
            add: binary("add", |host| zip(host, |x, y| x + y), "z[i] = x[i] + y[i];")?,
            multiply: binary("multiply", |host| zip(host, |x, y| x * y), "z[i] = x[i] * y[i];")?,
            scale: unary(
                "scale",
                |host| {
                    let factor = host.parameters::<Parameters>().factor;
                    map(host, |x| factor * x);
                },
                "y[i] = parameters.factor * x[i];",
            )?,
            relu: unary("relu", |host| map(host, |x| x.max(0.0)), "y[i] = max(x[i], 0.0);")?,
            step: unary(
                "step",
                |host| map(host, |x| if x > 0.0 { 1.0 } else { 0.0 }),
                "y[i] = select(0.0, 1.0, x[i] > 0.0);",
            )?,
            sum: unary("sum", sum, SUM)?,
            broadcast: unary(
                "broadcast",
                |host| {
                    let ([x], [y]) = host.slices::<f32, 1, 1>([0], [1]);
                    y.fill(x[0]);
                },
                "y[i] = x[0];",
            )?,
            matmul: manager.kernel(&source("matmul", BINARY, matmul, MATMUL))?,
            axpy: manager.kernel(&source(
                "axpy",
                &[Access::Read, Access::ReadWrite],
                |host| {
                    let factor = host.parameters::<Parameters>().factor;
                    let ([x], [y]) = host.slices::<f32, 1, 1>([0], [1]);
                    y.iter_mut().zip(x).for_each(|(y, x)| *y += factor * x);
                },
                "y[i] = y[i] + parameters.factor * x[i];",
            ))?,
        })
    }
}

/// A kernel in all its forms. `body` is WGSL for element `i` of the last binding; bindings are `x`, `y`, `z` in order.
fn source(label: &str, bindings: &[Access], host: fn(&mut HostArguments<'_>), body: &str) -> KernelSource {
    let names = &["x", "y", "z"][..bindings.len()];
    let mut text =
        String::from("struct Parameters { factor: f32, columns: u32, inner: u32, transposed: u32 }\n");
    for (at, (name, access)) in names.iter().zip(bindings).enumerate() {
        let access = if access.writes() { "read_write" } else { "read" };
        text += &format!("@group(0) @binding({at}) var<storage, {access}> {name}: array<f32>;\n");
    }
    let (at, last) = (names.len(), names[names.len() - 1]);
    text += &format!(
        "@group(0) @binding({at}) var<storage, read> parameters: Parameters;\n\
         @compute @workgroup_size({WORKGROUP})\n\
         fn {label}_kernel(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
             let i = id.x;\n\
             let unused = parameters.factor;\n\
             if i < arrayLength(&{last}) {{ {body} }}\n\
         }}\n"
    );
    let entry = format!("{label}_kernel");
    with_cuda(KernelSource::new(label, bindings).host(host).wgsl(text, entry.clone()), &entry)
}

/// A dispatch of `kernel` that writes every element of `result`.
pub fn dispatch(
    kernel: &Kernel,
    inputs: &[&Tensor<f32>],
    result: &Tensor<f32>,
    parameters: Parameters,
) -> Dispatch {
    let groups = result.len().div_ceil(WORKGROUP.into()).max(1);
    let groups = u32::try_from(groups).expect("the models here are small");
    inputs
        .iter()
        .fold(op::dispatch(kernel), |dispatch, input| dispatch.bind(*input))
        .bind(result)
        .groups([groups, 1, 1])
        .parameters(parameters)
}

fn map(host: &mut HostArguments<'_>, run: impl Fn(f32) -> f32) {
    let ([x], [y]) = host.slices::<f32, 1, 1>([0], [1]);
    y.iter_mut().zip(x).for_each(|(y, x)| *y = run(*x));
}

fn zip(host: &mut HostArguments<'_>, run: impl Fn(f32, f32) -> f32) {
    let ([x, y], [z]) = host.slices::<f32, 2, 1>([0, 1], [2]);
    z.iter_mut().zip(x.iter().zip(y)).for_each(|(z, (x, y))| *z = run(*x, *y));
}

fn sum(host: &mut HostArguments<'_>) {
    let ([x], [y]) = host.slices::<f32, 1, 1>([0], [1]);
    y[0] = x.iter().sum();
}

fn matmul(host: &mut HostArguments<'_>) {
    let Parameters { columns, inner, transposed, .. } = host.parameters();
    let (columns, inner) = (columns as usize, inner as usize);
    let ([x, y], [z]) = host.slices::<f32, 2, 1>([0, 1], [2]);
    let rows = z.len() / columns.max(1);
    for (i, z) in z.iter_mut().enumerate() {
        let (row, column) = (i / columns, i % columns);
        *z = (0..inner)
            .map(|k| {
                let at_x = if transposed & 1 == 0 { row * inner + k } else { k * rows + row };
                let at_y = if transposed & 2 == 0 { k * columns + column } else { column * inner + k };
                x[at_x] * y[at_y]
            })
            .sum();
    }
}

const SUM: &str = "
        var sum = 0.0;
        for (var k = 0u; k < arrayLength(&x); k++) {
            sum += x[k];
        }
        y[i] = sum;";

const MATMUL: &str = "
        let row = i / parameters.columns;
        let column = i % parameters.columns;
        let rows = arrayLength(&z) / parameters.columns;
        let inner = parameters.inner;
        var sum = 0.0;
        for (var k = 0u; k < inner; k++) {
            let at_x = select(k * rows + row, row * inner + k, (parameters.transposed & 1u) == 0u);
            let at_y = select(column * inner + k, k * parameters.columns + column, (parameters.transposed & 2u) == 0u);
            sum += x[at_x] * y[at_y];
        }
        z[i] = sum;";
