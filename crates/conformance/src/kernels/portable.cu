// The suite's kernels for CUDA. `cargo xtask kernels` compiles them to portable.ptx.
//
// Pointers in the order of the bindings, then one to the parameters where there are some, then one to the number of bytes
// of each binding. The last block may reach beyond the last element.

typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ u64 position() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void __launch_bounds__(64) scale(float *x, const float *factor, const u64 *bytes) {
    u64 i = position();
    if (i < bytes[0] / 4) x[i] = x[i] * *factor;
}

extern "C" __global__ void __launch_bounds__(64) add(const float *x, const float *y, float *z, const u64 *bytes) {
    u64 i = position();
    if (i < bytes[0] / 4 && i < bytes[1] / 4 && i < bytes[2] / 4) z[i] = x[i] + y[i];
}

extern "C" __global__ void __launch_bounds__(64) saxpy(const float *x, float *y, const float *a, const u64 *bytes) {
    u64 i = position();
    if (i < bytes[0] / 4 && i < bytes[1] / 4) y[i] = y[i] + *a * x[i];
}

extern "C" __global__ void __launch_bounds__(64) increment(u32 *x, const u64 *bytes) {
    u64 i = position();
    if (i < bytes[0] / 4) x[i] = x[i] + 1;
}

extern "C" __global__ void __launch_bounds__(64) iota(u32 *x, const u64 *bytes) {
    u64 i = position();
    if (i < bytes[0] / 4) x[i] = (u32)i;
}

extern "C" __global__ void __launch_bounds__(64) copy_u32(const u32 *x, u32 *y, const u64 *bytes) {
    u64 i = position();
    if (i < bytes[0] / 4 && i < bytes[1] / 4) y[i] = x[i];
}
