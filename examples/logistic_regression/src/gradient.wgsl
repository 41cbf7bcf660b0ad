// One invocation a sample: its part of the gradient, and its loss. The host form is in `kernel.rs`.

struct Arguments { samples: u32 }

@group(0) @binding(0) var<storage, read> x_i: array<f32>;
@group(0) @binding(1) var<storage, read> x_j: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
// Three rows of a number a sample: along the first weight, the second weight, the bias.
@group(0) @binding(5) var<storage, read_write> gradients: array<f32>;
@group(0) @binding(6) var<storage, read_write> losses: array<f32>;
@group(0) @binding(7) var<storage, read> arguments: Arguments;

@compute @workgroup_size(64)
fn gradient(@builtin(global_invocation_id) id: vec3<u32>) {
    let at = id.x;
    let samples = arguments.samples;
    if at >= samples {
        return;
    }
    let z = weights[0] * x_i[at] + weights[1] * x_j[at] + bias[0];
    // Only powers of e up to 1: nothing overflows.
    let small = exp(-abs(z));
    let predicted = select(small, 1.0, z >= 0.0) / (1.0 + small);
    let slope = (predicted - y[at]) / f32(samples);
    gradients[at] = slope * x_i[at];
    gradients[samples + at] = slope * x_j[at];
    gradients[2u * samples + at] = slope;
    losses[at] = max(z, 0.0) - z * y[at] + log(1.0 + small);
}
