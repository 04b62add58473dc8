// A vector register holds several channels of one pixel, so lanes are never combined. Sums stay in registers while a
// task walks along a row.
#include "models/depthwise_kernel.h"

#include <algorithm>

// Functions are compiled for several processors; one version is chosen when the program is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DTRAIN_VECTOR_CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define DTRAIN_VECTOR_CLONES  // ifunc resolvers run before a sanitizer is ready
#endif

namespace dtrain::models {
namespace {

constexpr int64_t kLanes = kDepthwiseLanes;
constexpr int64_t kGroup = kDepthwiseGroup;
using Vector = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

inline const Vector& At(const float* place) { return *reinterpret_cast<const Vector*>(place); }
inline Vector& At(float* place) { return *reinterpret_cast<Vector*>(place); }

// The outputs o with 0 ≤ o·stride + tap − padding < size.
struct Range {
  int64_t begin, end;
};
inline Range OutputsUnder(int64_t tap, int64_t size, int64_t outputs, const DepthwiseShape& shape) {
  const int64_t first = shape.padding() - tap;  // the smallest o·stride
  const int64_t last = size - 1 + shape.padding() - tap;
  return {first > 0 ? (first + shape.stride - 1) / shape.stride : 0,
          last < 0 ? 0 : std::min(outputs, last / shape.stride + 1)};
}

// Adds a row of outputs to the sums of `kVectors` vectors of channels. `x` points to the sample's pixels of these
// channels.
template <int kVectors>
inline __attribute__((always_inline)) void AddRow(const DepthwiseShape& s, const float* x, const float* dy_row,
                                                  int64_t oh, float* sums) {
  for (int64_t kh = 0; kh < s.kernel; ++kh) {
    const int64_t h = oh * s.stride + kh - s.padding();
    if (h < 0 || h >= s.height) continue;
    for (int64_t kw = 0; kw < s.kernel; ++kw) {
      const Range wide = OutputsUnder(kw, s.width, s.out_width, s);
      const float* x_tap = x + (h * s.width + kw - s.padding()) * s.channels;
      float* sum = sums + (kh * s.kernel + kw) * kGroup;
      Vector total[kVectors];
      for (int v = 0; v < kVectors; ++v) total[v] = At(sum + v * kLanes);
      for (int64_t ow = wide.begin; ow < wide.end; ++ow) {
        for (int v = 0; v < kVectors; ++v) {
          total[v] += At(dy_row + ow * s.channels + v * kLanes) * At(x_tap + ow * s.stride * s.channels + v * kLanes);
        }
      }
      for (int v = 0; v < kVectors; ++v) At(sum + v * kLanes) = total[v];
    }
  }
}

// Adds to the gradients of pixel row `h` for `kVectors` vectors of channels. `dy` points to the sample's outputs of
// these channels.
template <int kVectors>
inline __attribute__((always_inline)) void AddToRow(const DepthwiseShape& s, const float* weight, const float* dy,
                                                    int64_t h, float* dx_row) {
  for (int64_t kh = 0; kh < s.kernel; ++kh) {
    const int64_t from_h = h + s.padding() - kh;
    if (from_h < 0 || from_h % s.stride != 0 || from_h / s.stride >= s.out_height) continue;
    const float* dy_row = dy + from_h / s.stride * s.out_width * s.channels;
    for (int64_t kw = 0; kw < s.kernel; ++kw) {
      const Range wide = OutputsUnder(kw, s.width, s.out_width, s);
      float* dx_tap = dx_row + (kw - s.padding()) * s.channels;
      Vector filter[kVectors];
      for (int v = 0; v < kVectors; ++v) filter[v] = At(weight + (kh * s.kernel + kw) * s.channels + v * kLanes);
      for (int64_t ow = wide.begin; ow < wide.end; ++ow) {
        for (int v = 0; v < kVectors; ++v) {
          At(dx_tap + ow * s.stride * s.channels + v * kLanes) += At(dy_row + ow * s.channels + v * kLanes) * filter[v];
        }
      }
    }
  }
}

}  // namespace

// Rows are the outer loop, so that their data stay in a cache while all of the group's channels are processed.
DTRAIN_VECTOR_CLONES void AddDepthwiseWeightGradient(const DepthwiseShape& s, const float* x, const float* dy,
                                                     int64_t channel, int64_t begin, int64_t end, float* sums) {
  const int64_t last = std::min(s.channels, channel + kGroup);
  for (int64_t n = begin; n < end; ++n) {
    const float* x_sample = x + n * s.height * s.width * s.channels;
    for (int64_t oh = 0; oh < s.out_height; ++oh) {
      const float* dy_row = dy + (n * s.out_height + oh) * s.out_width * s.channels;
      int64_t c = channel;
      for (; c + 4 * kLanes <= last; c += 4 * kLanes) AddRow<4>(s, x_sample + c, dy_row + c, oh, sums + c - channel);
      for (; c < last; c += kLanes) AddRow<1>(s, x_sample + c, dy_row + c, oh, sums + c - channel);
    }
  }
}

DTRAIN_VECTOR_CLONES void WriteDepthwiseInputGradient(const DepthwiseShape& s, const float* weight, const float* dy,
                                                      int64_t channel, int64_t n, float* dx) {
  const int64_t last = std::min(s.channels, channel + kGroup);
  const float* dy_sample = dy + n * s.out_height * s.out_width * s.channels;
  for (int64_t h = 0; h < s.height; ++h) {
    float* dx_row = dx + (n * s.height + h) * s.width * s.channels;
    for (int64_t w = 0; w < s.width; ++w) std::fill_n(dx_row + w * s.channels + channel, last - channel, 0.0F);
    int64_t c = channel;
    for (; c + 4 * kLanes <= last; c += 4 * kLanes) AddToRow<4>(s, weight + c, dy_sample + c, h, dx_row + c);
    for (; c < last; c += kLanes) AddToRow<1>(s, weight + c, dy_sample + c, h, dx_row + c);
  }
}

}  // namespace dtrain::models
