// Loops on plain memory, on the CPU, that are compiled for several processors and without torch.
#pragma once

#include <cstdint>

namespace dtrain::models {

// Writes y = x · factor. The factor is zero where the element's random number, uniform in [0, 2³²), is below the
// threshold, else the scale. A number depends on the seed and on the place of its element alone. x and y point to the
// element at place `first`, and have `count` elements from there on.
void DropElements(const float* x, float* y, int64_t first, int64_t count, uint32_t threshold, float scale,
                  uint64_t seed);

inline constexpr int64_t kDepthwiseGroup = 128;  // most channels of a call, whose sums then stay in the first cache

struct DepthwiseShape {
  int64_t samples, channels, height, width, out_height, out_width, kernel, stride;
  int64_t padding() const { return kernel / 2; }
};

// Adds the contribution of samples [begin, end) to the gradient of a depthwise convolution's weights, `sums` (k·k rows
// of kDepthwiseGroup), for the group of channels from `channel` on. Pixels are float32 N×H×W×C, filters k×k×C.
void AddDepthwiseWeightGradient(const DepthwiseShape& shape, const float* x, const float* dy, int64_t channel,
                                int64_t begin, int64_t end, float* sums);

}  // namespace dtrain::models
