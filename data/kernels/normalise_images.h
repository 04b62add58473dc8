// Turns uint8 images into normalised values of the network's type and layout, in one pass. The work of one thread is an
// ordinary function here, so that a test runs it on the CPU, thread by thread, for every shape that it may meet.
#pragma once

#include <cstdint>

// Marks functions that nvcc compiles for the GPU as well, and other compilers for the CPU alone.
#ifdef __CUDACC__
#define DTRAIN_HOST_DEVICE __host__ __device__
#else
#define DTRAIN_HOST_DEVICE
#endif

namespace dtrain::data::kernels {

enum class Element { kFloat, kHalf, kBFloat16 };

enum class Layout {
  kPlanar,       // a plane for each channel
  kInterleaved,  // channels last, like the input
};

struct NormaliseArguments {
  const uint8_t* from;  // images × pixels × 3, aligned to 4 bytes
  int64_t images;
  int64_t pixels;  // height × width
  float mean[3];
  float std[3];  // (x/255 − mean)/std by channel

  DTRAIN_HOST_DEVICE int64_t values() const { return images * pixels * 3; }

  // Returns (x/255 − mean)/std in float32, each operation rounded: the bits of torchvision's ToTensor and Normalize.
  DTRAIN_HOST_DEVICE float Normalised(int64_t index, int64_t channel) const {
    const float scaled = static_cast<float>(from[index]) / 255.0F;
    return (scaled - mean[channel]) / std[channel];
  }
};

constexpr int64_t kValuesPerThread = 4;

// Channels last: each thread loads and stores four neighbouring values at once. `to` is aligned to four elements.
template <typename T>
DTRAIN_HOST_DEVICE void NormaliseInterleaved(const NormaliseArguments& arguments, T* to, int64_t thread) {
  struct alignas(kValuesPerThread * sizeof(T)) Four {
    T values[kValuesPerThread];
  };
  const int64_t begin = kValuesPerThread * thread;
  if (begin + kValuesPerThread <= arguments.values()) {
    Four four;
    for (int64_t i = 0; i < kValuesPerThread; ++i) {
      four.values[i] = static_cast<T>(arguments.Normalised(begin + i, (begin + i) % 3));
    }
    *reinterpret_cast<Four*>(to + begin) = four;
    return;
  }
  for (int64_t i = begin; i < arguments.values(); ++i) to[i] = static_cast<T>(arguments.Normalised(i, i % 3));
}

// A plane for each channel: each thread writes one value. Threads are numbered in the order of `to`.
template <typename T>
DTRAIN_HOST_DEVICE void NormalisePlanar(const NormaliseArguments& arguments, T* to, int64_t thread) {
  if (thread >= arguments.values()) return;
  const int64_t plane = thread / arguments.pixels, pixel = thread % arguments.pixels;
  const int64_t image = plane / 3, channel = plane % 3;
  to[thread] = static_cast<T>(arguments.Normalised((image * arguments.pixels + pixel) * 3 + channel, channel));
}

// Starts the kernel on `stream` (a cudaStream_t) of the current device. `to` has arguments.values() elements.
// Returns a cudaError_t.
int LaunchNormalise(const NormaliseArguments& arguments, void* to, Element element, Layout layout, void* stream);

}  // namespace dtrain::data::kernels
