// Tensors as the kernels of this folder see them: `rows` (images × height × width) × `channels`. A thread works on
// eight neighbouring channels, whose constants it loads once, in every `step`-th row. It loads and stores 16 bytes of a
// half type at once. The work of one thread is an ordinary function, so that a test runs it on the CPU, thread by
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

// Marks functions that nvcc compiles for the GPU as well, and other compilers for the CPU alone; and loops that a GPU's
// code must unroll, because arrays stay in registers only if their indices are constants.
#ifdef __CUDACC__
#define DTRAIN_HOST_DEVICE __host__ __device__
#else
#define DTRAIN_HOST_DEVICE
#endif

#ifdef __CUDA_ARCH__
#define DTRAIN_UNROLL _Pragma("unroll")
#else
#define DTRAIN_UNROLL
#endif

namespace dtrain::models::kernels {

enum class Element { kFloat, kHalf, kBFloat16 };

constexpr int kWidth = 8;  // channels per thread; `channels` is a multiple of it

template <typename T>
struct alignas(kWidth * sizeof(T) < 16 ? kWidth * sizeof(T) : 16) Eight {
  T values[kWidth];
};

template <typename T>
DTRAIN_HOST_DEVICE inline Eight<T> LoadEight(const void* tensor, int64_t at) {
  return *reinterpret_cast<const Eight<T>*>(static_cast<const T*>(tensor) + at);
}

#ifdef __CUDA_ARCH__
// The instruction is named, because nvcc splits some of these stores into four.
__device__ inline void Store(void* to, const uint4& value) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.x), "r"(value.y), "r"(value.z),
               "r"(value.w)
               : "memory");
}
#endif

template <typename T>
DTRAIN_HOST_DEVICE inline void StoreEight(void* tensor, int64_t at, const Eight<T>& eight) {
  T* const to = static_cast<T*>(tensor) + at;
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(eight) % sizeof(uint4) == 0) {
    const auto* from = reinterpret_cast<const uint4*>(&eight);
    for (size_t i = 0; i < sizeof(eight) / sizeof(uint4); ++i) Store(reinterpret_cast<uint4*>(to) + i, from[i]);
    return;
  }
#endif
  *reinterpret_cast<Eight<T>*>(to) = eight;
}

// The rows `first`, `first` + `step`, … and the eight channels from `channel` on, on which one of `threads` threads
// works. Threads beyond the last whole row have no rows.
struct Rows {
  int64_t first, step, channel;

  DTRAIN_HOST_DEVICE Rows(int64_t channels, int64_t rows, int64_t thread, int64_t threads) {
    const int64_t groups = channels / kWidth;
    step = threads / groups;
    first = thread / groups;
    if (first >= step) first = rows;
    channel = thread % groups * kWidth;
  }
};

}  // namespace dtrain::models::kernels
