// The gradient of a depthwise convolution's weights for a group of channels, on plain memory. Compiled for several
// processors and without torch. Pixels are float32 N×H×W×C, filters k×k×C.
#pragma once

#include <cstdint>

namespace dtrain::models {

inline constexpr int64_t kDepthwiseLanes = 8;    // the number of channels is a multiple of this
inline constexpr int64_t kDepthwiseGroup = 128;  // most channels of a call, whose sums then stay in the first cache

struct DepthwiseShape {
  int64_t samples, channels, height, width, out_height, out_width, kernel, stride;  // kernel: 3, 5 or 7
  int64_t padding() const { return kernel / 2; }
};

// Adds the contribution of samples [begin, end) to `sums` (k·k rows of kDepthwiseGroup), for the group of channels from
// `channel` on.
void AddDepthwiseWeightGradient(const DepthwiseShape& shape, const float* x, const float* dy, int64_t channel,
                                int64_t begin, int64_t end, float* sums);

}  // namespace dtrain::models
