//! The kernel: each sample's part of the gradient, and its loss.
//!
//! Not here: the tensors that it is bound to (`device.rs`).

use tenure::{Access, HostArguments, KernelSource};

use crate::ffi::with_cuda;
use crate::model::{loss, sigmoid};

/// The kernel's label, and its entry point.
const NAME: &str = "gradient";

/// Invocations in a workgroup, as the text has it.
pub(crate) const WORKGROUP: u32 = 64;

/// The kernel. Bindings, `f32`: 0, 1: inputs; 2: classes; 3: the two weights; 4: the bias; all read. 5: gradients, three
/// rows of a number a sample: along the first weight, the second weight, the bias; 6: losses; both written. Parameters:
/// the number of samples, `u32`.
///
/// Eight buffers, with the parameters: so many every WebGPU device takes.
pub fn source() -> KernelSource {
    const BINDINGS: [Access; 7] = {
        use Access::{Read, Write};
        [Read, Read, Read, Read, Read, Write, Write]
    };
    // A line a form; a backend takes the first that it understands.
    let source = KernelSource::new(NAME, &BINDINGS).host(gradient).wgsl(include_str!("gradient.wgsl"), NAME);
    with_cuda(source, NAME)
}

/// The workgroups for so many samples.
pub fn groups(samples: u32) -> [u32; 3] {
    [samples.div_ceil(WORKGROUP).max(1), 1, 1]
}

fn gradient(arguments: &mut HostArguments<'_>) {
    let samples = arguments.parameters::<u32>() as usize;
    let ([x_i, x_j, y, weights, bias], [gradients, losses]) =
        arguments.slices::<f32, 5, 2>([0, 1, 2, 3, 4], [5, 6]);
    for at in 0..samples {
        let z = weights[0] * x_i[at] + weights[1] * x_j[at] + bias[0];
        let slope = (sigmoid(z) - y[at]) / samples as f32;
        gradients[at] = slope * x_i[at];
        gradients[samples + at] = slope * x_j[at];
        gradients[2 * samples + at] = slope;
        losses[at] = loss(z, y[at]);
    }
}
