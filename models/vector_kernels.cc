#include "models/vector_kernels.h"

#include <algorithm>

// Marks functions that are compiled for several processors; one version is chosen when the program is loaded. The names
// are those of instruction sets and not of processors, which other makers' processors with the same sets would not be.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DTRAIN_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DTRAIN_VECTOR_CLONES  // ifunc resolvers run before a sanitizer is ready
#endif

namespace dtrain::models {
namespace {

// Each bit of the result depends on all bits of x (Wellons 2018, "Prospecting for hash functions": lowbias32).
inline __attribute__((always_inline)) uint32_t Mixed(uint32_t x) {
  x = (x ^ x >> 16U) * 0x7FEB352DU;
  x = (x ^ x >> 15U) * 0x846CA68BU;
  return x ^ x >> 16U;
}

}  // namespace

// The numbers are a hash of seed and place, of products that every processor has for whole registers. LibTorch's
// generator makes one number after the other, which takes ten times as long.
DTRAIN_VECTOR_CLONES void DropElements(const float* x, float* y, int64_t first, int64_t count, uint32_t threshold,
                                       float scale, uint64_t seed) {
  const auto low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32U);
  const auto place = static_cast<uint32_t>(first);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t number = Mixed(Mixed((place + static_cast<uint32_t>(i)) ^ low) + high);
    y[i] = x[i] * (number < threshold ? 0.0F : scale);
  }
}

DTRAIN_VECTOR_CLONES void AddDepthwiseWeightGradient(const DepthwiseShape& s, const float* x, const float* dy,
                                                     int64_t channel, int64_t begin, int64_t end, float* sums) {
  const int64_t channels = std::min(kDepthwiseGroup, s.channels - channel);
  const auto add_pixel = [&](int64_t n, int64_t oh, int64_t ow, int64_t tap) {
    const int64_t h = oh * s.stride + tap / s.kernel - s.padding(), w = ow * s.stride + tap % s.kernel - s.padding();
    if (h < 0 || h >= s.height || w < 0 || w >= s.width) return;
    const float* from = x + ((n * s.height + h) * s.width + w) * s.channels + channel;
    const float* by = dy + ((n * s.out_height + oh) * s.out_width + ow) * s.channels + channel;
    float* sum = sums + tap * kDepthwiseGroup;
    for (int64_t c = 0; c < channels; ++c) sum[c] += by[c] * from[c];
  };
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t oh = 0; oh < s.out_height; ++oh) {
      for (int64_t ow = 0; ow < s.out_width; ++ow) {
        for (int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) add_pixel(n, oh, ow, tap);
      }
    }
  }
}

}  // namespace dtrain::models
