// The kernels for CUDA: as kernels.rs has them in WGSL. `cargo xtask kernels` compiles them to kernels.ptx.
//
// Pointers in the order of the bindings, then one to the parameters, and one to the number of bytes of each binding.

typedef unsigned int u32;
typedef unsigned long long u64;

struct Parameters {
    float factor;
    u32 columns, inner, transposed;
};

static __device__ u64 position() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

// Elements of a binding.
static __device__ u64 elements(const u64 *bytes, u32 binding) { return bytes[binding] / sizeof(float); }

#define KERNEL extern "C" __global__ void __launch_bounds__(64)

// y[i] is something of x[i].
#define UNARY(name, value)                                                                              \
    KERNEL name##_kernel(const float *x, float *y, const Parameters *parameters, const u64 *bytes) {    \
        u64 i = position();                                                                             \
        if (i < elements(bytes, 0) && i < elements(bytes, 1)) y[i] = value;                             \
    }

// z[i] is something of x[i] and y[i].
#define BINARY(name, value)                                                                             \
    KERNEL name##_kernel(const float *x, const float *y, float *z, const Parameters *parameters, const u64 *bytes) { \
        u64 i = position();                                                                             \
        if (i < elements(bytes, 0) && i < elements(bytes, 1) && i < elements(bytes, 2)) z[i] = value;   \
    }

BINARY(add, x[i] + y[i])
BINARY(multiply, x[i] * y[i])
UNARY(scale, parameters->factor * x[i])
UNARY(relu, x[i] > 0.0f ? x[i] : 0.0f)
UNARY(step, x[i] > 0.0f ? 1.0f : 0.0f)
UNARY(axpy, y[i] + parameters->factor * x[i])

KERNEL sum_kernel(const float *x, float *y, const Parameters *parameters, const u64 *bytes) {
    u64 i = position();
    if (i >= elements(bytes, 1)) return;
    float sum = 0.0f;
    for (u64 k = 0; k < elements(bytes, 0); k++) sum += x[k];
    y[i] = sum;
}

KERNEL broadcast_kernel(const float *x, float *y, const Parameters *parameters, const u64 *bytes) {
    u64 i = position();
    if (i < elements(bytes, 1) && elements(bytes, 0) > 0) y[i] = x[0];
}

KERNEL matmul_kernel(const float *x, const float *y, float *z, const Parameters *parameters, const u64 *bytes) {
    u64 i = position(), columns = parameters->columns, inner = parameters->inner;
    if (i >= elements(bytes, 2) || columns == 0) return;
    u64 row = i / columns, column = i % columns, rows = elements(bytes, 2) / columns;
    // Whoever asks for more than the factors have gets nothing.
    if (row >= rows || rows * inner > elements(bytes, 0) || inner * columns > elements(bytes, 1)) return;
    float sum = 0.0f;
    for (u64 k = 0; k < inner; k++) {
        u64 at_x = parameters->transposed & 1 ? k * rows + row : row * inner + k;
        u64 at_y = parameters->transposed & 2 ? column * inner + k : k * columns + column;
        sum += x[at_x] * y[at_y];
    }
    z[i] = sum;
}
