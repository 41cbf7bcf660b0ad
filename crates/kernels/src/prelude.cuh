// What CUDA's own headers would declare, for clang without them: as much as the kernels use.
//
// `cargo xtask kernels` includes it before each text that it compiles to PTX. NVRTC has all of this built in.

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(bytes) __attribute__((aligned(bytes)))

#include <__clang_cuda_builtin_vars.h>

typedef __SIZE_TYPE__ size_t;

__device__ __forceinline__ float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__device__ __forceinline__ double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__device__ __forceinline__ float fabs(float a) { return __builtin_fabsf(a); }
__device__ __forceinline__ double fabs(double a) { return __builtin_fabs(a); }

// The device's own powers of 2 and logarithms to base 2, as CUDA's functions of these names use them.
__device__ __forceinline__ float __expf(float a) { return __nvvm_ex2_approx_f(a * 1.4426950408889634f); }
__device__ __forceinline__ float __logf(float a) { return __nvvm_lg2_approx_f(a) * 0.6931471805599453f; }
