// The kernel for CUDA: as gradient.wgsl has it. `cargo xtask kernels` compiles it to gradient.ptx.
//
// Pointers in the order of the bindings, then one to the number of samples, and one to the number of bytes of each binding.

typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(64)
gradient(const float *x_i, const float *x_j, const float *y, const float *weights, const float *bias, float *gradients,
         float *losses, const u32 *count, const u64 *bytes) {
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 samples = *count;
    if (at >= samples || bytes[3] < 2 * 4 || bytes[4] < 4 || bytes[5] / 4 < 3 * samples) return;
    if (bytes[0] / 4 < samples || bytes[1] / 4 < samples || bytes[2] / 4 < samples || bytes[6] / 4 < samples) return;
    float z = weights[0] * x_i[at] + weights[1] * x_j[at] + bias[0];
    // Only powers of e up to 1: nothing overflows.
    float small = __expf(z < 0.0f ? z : -z);
    float predicted = (z >= 0.0f ? 1.0f : small) / (1.0f + small);
    float slope = (predicted - y[at]) / (float)samples;
    gradients[at] = slope * x_i[at];
    gradients[samples + at] = slope * x_j[at];
    gradients[2 * samples + at] = slope;
    losses[at] = (z > 0.0f ? z : 0.0f) - z * y[at] + __logf(1.0f + small);
}
