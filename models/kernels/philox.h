// Random numbers of Philox 4×32 with ten rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"),
// which LibTorch's generator for GPUs uses, too. A number depends on its place in a tensor alone, not on the thread
// that draws it, so every device draws the same.
#pragma once

#include <cmath>
#include <cstdint>

#include "models/kernels/channels_last.h"

namespace dtrain::models::kernels {

// Where a launch's numbers begin. While a graph is recorded, seed and beginning of the offset are in the device's
// memory, where each replay finds others.
struct RandomState {
  uint64_t seed = 0, offset = 0;
  const int64_t *seed_at = nullptr, *offset_at = nullptr;  // null: there is only what is above
};

// How far a launch moves the generator's offset: each counter below gives this many numbers.
constexpr uint64_t kNumbersOfCounter = 4;

struct FourNumbers {
  uint32_t values[kNumbersOfCounter];
};

inline DTRAIN_HOST_DEVICE FourNumbers Philox(FourNumbers counter, uint32_t key, uint32_t more_key) {
  uint32_t(&c)[kNumbersOfCounter] = counter.values;
  DTRAIN_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * c[0], second = uint64_t{0xCD9E8D57} * c[2];
    const auto high = [](uint64_t product) { return static_cast<uint32_t>(product >> 32U); };
    counter = {{high(second) ^ c[1] ^ key, static_cast<uint32_t>(second), high(first) ^ c[3] ^ more_key,
                static_cast<uint32_t>(first)}};
    key += 0x9E3779B9;
    more_key += 0xBB67AE85;
  }
  return counter;
}

// The numbers of a launch, as a thread sees them.
class RandomNumbers {
 public:
  explicit DTRAIN_HOST_DEVICE RandomNumbers(const RandomState& state) : seed_(state.seed), offset_(state.offset) {
    if (state.seed_at == nullptr) return;
    seed_ = static_cast<uint64_t>(*state.seed_at);
    offset_ += static_cast<uint64_t>(*state.offset_at);
  }

  DTRAIN_HOST_DEVICE FourNumbers operator()(int64_t place) const {
    const uint64_t offset = offset_ / kNumbersOfCounter, at = static_cast<uint64_t>(place);
    const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
    return Philox({{low(offset), low(offset >> 32U), low(at), low(at >> 32U)}}, low(seed_), low(seed_ >> 32U));
  }

 private:
  uint64_t seed_, offset_;
};

// Dropout with a probability that is rounded to a multiple of 2⁻¹⁶: an element is kept if its 16 random bits are not
// below the threshold. `scale` is for the rounded probability.
struct Dropout {
  uint32_t threshold = 0;
  float scale = 1;

  Dropout() = default;
  explicit Dropout(double probability) : threshold(static_cast<uint32_t>(std::lround(probability * kNumBits))) {
    scale = threshold < kNumBits ? static_cast<float>(kNumBits) / static_cast<float>(kNumBits - threshold) : 0.0F;
  }

  static constexpr uint32_t kNumBits = 1U << 16U;
};

// Returns eight bits: bit i is set if element 8 · `group` + i is kept.
inline DTRAIN_HOST_DEVICE unsigned KeptBits(const RandomNumbers& random, int64_t group, uint32_t threshold) {
  const FourNumbers numbers = random(group);
  unsigned bits = 0;
  DTRAIN_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    const uint32_t number = numbers.values[i / 2] >> (i % 2 * 16) & 0xFFFFU;
    bits |= static_cast<unsigned>(number >= threshold) << i;
  }
  return bits;
}

}  // namespace dtrain::models::kernels
