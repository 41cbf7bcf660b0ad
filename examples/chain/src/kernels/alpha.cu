// Alpha for CUDA: as alpha.wgsl has it. `cargo xtask kernels` compiles it to alpha.ptx.
//
// Pointers to the picture, to the parameters, and to the number of bytes of the picture.

typedef unsigned int u32;
typedef unsigned long long u64;

struct __align__(16) Pixel {
    float red, green, blue, alpha;
};

// Whether an invocation has a pixel, and which: blocks are numbered through x and y.
static __device__ bool place(u64 *at, const u32 *pixels, const u64 *bytes) {
    *at = ((u64)blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    return *at < *pixels && *at < bytes[0] / sizeof(Pixel);
}

static __device__ float unit(float value) { return value < 0.0f ? 0.0f : value > 1.0f ? 1.0f : value; }

extern "C" __global__ void __launch_bounds__(256) premultiply(Pixel *picture, const u32 *pixels, const u64 *bytes) {
    u64 at;
    if (!place(&at, pixels, bytes)) return;
    Pixel pixel = picture[at];
    picture[at] = {pixel.red * pixel.alpha, pixel.green * pixel.alpha, pixel.blue * pixel.alpha, pixel.alpha};
}

extern "C" __global__ void __launch_bounds__(256) unpremultiply(Pixel *picture, const u32 *pixels, const u64 *bytes) {
    u64 at;
    if (!place(&at, pixels, bytes)) return;
    Pixel pixel = picture[at];
    float alpha = unit(pixel.alpha);
    if (alpha * 255.0f < 0.5f) {
        picture[at] = {0.0f, 0.0f, 0.0f, 0.0f};
    } else {
        picture[at] = {unit(pixel.red / alpha), unit(pixel.green / alpha), unit(pixel.blue / alpha), alpha};
    }
}
