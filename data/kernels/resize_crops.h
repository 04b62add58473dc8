// Resizes crops of any size to square rows of a batch, antialiased, in one pass. The work of one thread is an ordinary
// function here, so that a test compares it on the CPU, thread by thread, with the resize of the CPU's decoders.
//
// Each pixel is the weighted mean of the pixels under its filter, in float32. The CPU's resize also rounds to whole
// numbers after the first of the two axes.
#pragma once

#include <cstdint>

#include "data/kernels/host_device.h"

namespace dtrain::data::kernels {

struct Crop {
  const uint8_t* pixels;  // height × width × 3, dense
  int32_t width, height;
  int32_t mirror;  // 0 or 1
  uint8_t* to;     // side × side × 3
};

struct ResizeArguments {
  const Crop* crops;
  int64_t count;
  int32_t side;
  bool cubic;  // otherwise bilinear

  DTRAIN_HOST_DEVICE int64_t pixels() const { return count * side * side; }
};

// The source samples along one axis from which target sample `i` is computed: from `first` to before `end`.
struct ResizeTaps {
  int32_t first, end;
  float centre, widening;
  bool cubic;

  DTRAIN_HOST_DEVICE ResizeTaps(int32_t length, int32_t target, int32_t i, bool is_cubic) : cubic(is_cubic) {
    const float scale = static_cast<float>(length) / static_cast<float>(target);
    widening = scale > 1 ? scale : 1;
    const float support = (cubic ? 2.0F : 1.0F) * widening;
    centre = (static_cast<float>(i) + 0.5F) * scale;
    const auto from = static_cast<int32_t>(centre - support + 0.5F), to = static_cast<int32_t>(centre + support + 0.5F);
    first = from < 0 ? 0 : from;
    end = to > length ? length : to;
  }

  DTRAIN_HOST_DEVICE float Weight(int32_t source) const {
    float x = (static_cast<float>(source) + 0.5F - centre) / widening;
    x = x < 0 ? -x : x;
    if (!cubic) return x < 1 ? 1 - x : 0;
    constexpr float kA = -0.5F;  // Keys's a, as in Pillow and torchvision's antialiased bicubic
    if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
    return 0;
  }
};

DTRAIN_HOST_DEVICE inline uint8_t RoundedByte(float value) {
  return value <= 0 ? uint8_t{0} : value >= 255 ? uint8_t{255} : static_cast<uint8_t>(value + 0.5F);
}

// Each thread computes one pixel. Threads are numbered in the order in which pixels are stored.
DTRAIN_HOST_DEVICE inline void ResizePixel(const ResizeArguments& arguments, int64_t thread) {
  if (thread >= arguments.pixels()) return;
  const int32_t side = arguments.side;
  const Crop& crop = arguments.crops[thread / (int64_t{side} * side)];
  const auto pixel = static_cast<int32_t>(thread % (int64_t{side} * side));
  const int32_t x = pixel % side;
  const ResizeTaps across(crop.width, side, crop.mirror != 0 ? side - 1 - x : x, arguments.cubic);
  const ResizeTaps down(crop.height, side, pixel / side, arguments.cubic);

  float sums[3] = {0, 0, 0}, total = 0;
  for (int32_t row = down.first; row < down.end; ++row) {
    const float row_weight = down.Weight(row);
    const uint8_t* from = crop.pixels + 3 * (int64_t{row} * crop.width + across.first);
    for (int32_t column = across.first; column < across.end; ++column, from += 3) {
      const float weight = row_weight * across.Weight(column);
      total += weight;
      for (int channel = 0; channel < 3; ++channel) sums[channel] += weight * static_cast<float>(from[channel]);
    }
  }
  for (int channel = 0; channel < 3; ++channel) crop.to[3 * pixel + channel] = RoundedByte(sums[channel] / total);
}

// A decoder may report success without writing anything, so memory is filled with this value before.
constexpr uint8_t kUntouched = 0xA5;

// Returns whether a sample of bytes, spread over the crop, has no other value. An image that really looks so is taken
// for untouched: it is then decoded again elsewhere, which does no harm.
DTRAIN_HOST_DEVICE inline bool IsUntouched(const Crop& crop) {
  constexpr int64_t kLooks = 64;
  const int64_t bytes = int64_t{3} * crop.width * crop.height;
  for (int64_t look = 0; look < kLooks; ++look) {
    if (crop.pixels[look * (bytes - 1) / (kLooks - 1)] != kUntouched) return false;
  }
  return true;
}

// Start a kernel on `stream` (a cudaStream_t) of the current device. `crops`, the memory that they point to, and
// `untouched` (one element for each crop) are in the device's memory. Return a cudaError_t.
int LaunchResize(const ResizeArguments& arguments, void* stream);
int LaunchFindUntouched(const Crop* crops, int64_t count, bool* untouched, void* stream);

}  // namespace dtrain::data::kernels
