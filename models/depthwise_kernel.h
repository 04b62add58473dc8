// The gradients of a depthwise convolution for a few channels, on plain memory: compiled for several processors,
// without torch. Pixels are N×H×W×C, filters k×k×C.
#pragma once

#include <cstdint>

namespace dtrain::models {

inline constexpr int64_t kDepthwiseLanes = 8;    // the number of channels is a multiple of it
inline constexpr int64_t kDepthwiseGroup = 128;  // channels of a call at most: its sums stay in the first cache

struct DepthwiseShape {
  int64_t samples, channels, height, width, out_height, out_width, kernel, stride;
  int64_t padding() const { return kernel / 2; }
};

// Adds to `sums` (k·k rows of kDepthwiseGroup) what samples [begin, end) give for the group of channels from `channel`.
void AddDepthwiseWeightGradient(const DepthwiseShape& shape, const float* x, const float* dy, int64_t channel,
                                int64_t begin, int64_t end, float* sums);

// Writes the gradient of the pixels of sample `n` for the group of channels from `channel` into `dx`.
void WriteDepthwiseInputGradient(const DepthwiseShape& shape, const float* weight, const float* dy, int64_t channel,
                                 int64_t n, float* dx);

}  // namespace dtrain::models
