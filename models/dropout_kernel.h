// Dropout on plain memory, on the CPU. Compiled for several processors and without torch.
#pragma once

#include <cstdint>

namespace dtrain::models {

// Writes y = x · factor. The factor is zero where the element's random number, uniform in [0, 2³²), is below the
// threshold, else the scale. A number depends on the seed and on the place of its element alone. x and y point to the
// element at place `first`, and have `count` elements from there on.
void DropElements(const float* x, float* y, int64_t first, int64_t count, uint32_t threshold, float scale,
                  uint64_t seed);

}  // namespace dtrain::models
