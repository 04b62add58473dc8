// The numbers are a hash of seed and place, of products that every processor has for whole registers. LibTorch's
// generator makes one number after the other, which takes ten times as long.
#include "models/dropout_kernel.h"

#include "models/vector_clones.h"

namespace dtrain::models {
namespace {

// Each bit of the result depends on all bits of x (Wellons 2018, "Prospecting for hash functions": lowbias32).
inline __attribute__((always_inline)) uint32_t Mixed(uint32_t x) {
  x = (x ^ x >> 16U) * 0x7FEB352DU;
  x = (x ^ x >> 15U) * 0x846CA68BU;
  return x ^ x >> 16U;
}

}  // namespace

DTRAIN_VECTOR_CLONES void DropElements(const float* x, float* y, int64_t first, int64_t count, uint32_t threshold,
                                       float scale, uint64_t seed) {
  const auto low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32U);
  const auto place = static_cast<uint32_t>(first);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t number = Mixed(Mixed((place + static_cast<uint32_t>(i)) ^ low) + high);
    y[i] = x[i] * (number < threshold ? 0.0F : scale);
  }
}

}  // namespace dtrain::models
