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

// A vector register holds several channels of one pixel, so lanes are never combined. Sums stay in registers while a
// task walks along a row.
constexpr int64_t kLanes = kDepthwiseLanes;
constexpr int64_t kGroup = kDepthwiseGroup;

using Lanes = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

inline const Lanes& At(const float* place) { return *reinterpret_cast<const Lanes*>(place); }
inline Lanes& At(float* place) { return *reinterpret_cast<Lanes*>(place); }

// Adds a row of outputs to the sums of `kVectors` vectors of channels. `x` points to the sample's pixels of these
// channels.
template <int kVectors, int kKernel>
inline __attribute__((always_inline)) void AddRow(const DepthwiseShape& s, const float* x, const float* dy_row,
                                                  int64_t oh, float* sums) {
  for (int64_t kh = 0; kh < kKernel; ++kh) {
    const int64_t h = oh * s.stride + kh - s.padding();
    if (h < 0 || h >= s.height) continue;
    const float* x_row = x + h * s.width * s.channels;
    float* sums_row = sums + kh * kKernel * kGroup;
    Lanes total[kKernel][kVectors];
    for (int kw = 0; kw < kKernel; ++kw) {
      for (int v = 0; v < kVectors; ++v) total[kw][v] = At(sums_row + kw * kGroup + v * kLanes);
    }
    for (int64_t ow = 0; ow < s.out_width; ++ow) {
      const int64_t first = ow * s.stride - s.padding();
      const float* dy = dy_row + ow * s.channels;
      const auto add = [&](int kw) __attribute__((always_inline)) {
        const float* pixel = x_row + (first + kw) * s.channels;
        for (int v = 0; v < kVectors; ++v) {
          total[kw][v] += At(dy + v * kLanes) * At(pixel + v * kLanes);
        }
      };
      if (first >= 0 && first + kKernel <= s.width) {
#pragma GCC unroll 7
        for (int kw = 0; kw < kKernel; ++kw) add(kw);
      } else {
#pragma GCC unroll 7
        for (int kw = 0; kw < kKernel; ++kw) {
          if (first + kw >= 0 && first + kw < s.width) add(kw);
        }
      }
    }
    for (int kw = 0; kw < kKernel; ++kw) {
      for (int v = 0; v < kVectors; ++v) At(sums_row + kw * kGroup + v * kLanes) = total[kw][v];
    }
  }
}

// Rows are the outer loop, so that their data stay in a cache while all of the group's channels are processed.
template <int kKernel>
inline __attribute__((always_inline)) void AddSamples(const DepthwiseShape& s, const float* x, const float* dy,
                                                      int64_t channel, int64_t begin, int64_t end, float* sums) {
  const int64_t last = std::min(s.channels, channel + kGroup);
  for (int64_t n = begin; n < end; ++n) {
    const float* x_sample = x + n * s.height * s.width * s.channels;
    for (int64_t oh = 0; oh < s.out_height; ++oh) {
      const float* dy_row = dy + (n * s.out_height + oh) * s.out_width * s.channels;
      int64_t c = channel;
      for (; c + 2 * kLanes <= last; c += 2 * kLanes)
        AddRow<2, kKernel>(s, x_sample + c, dy_row + c, oh, sums + c - channel);
      for (; c < last; c += kLanes) AddRow<1, kKernel>(s, x_sample + c, dy_row + c, oh, sums + c - channel);
    }
  }
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
  if (s.kernel == 3) return AddSamples<3>(s, x, dy, channel, begin, end, sums);
  if (s.kernel == 5) return AddSamples<5>(s, x, dy, channel, begin, end, sums);
  AddSamples<7>(s, x, dy, channel, begin, end, sums);
}

}  // namespace dtrain::models
