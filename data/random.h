// Random draws that depend on their purpose, not on when they are made: Philox4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011), keyed by the seed and counted by (epoch, sample, repeat, stream). So any
// thread on any rank draws the same numbers for the same sample, and a resumed run needs no saved state.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace dtrain::data {

// The Philox bijection: ten rounds over a counter of four words with a key of two.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The purpose of a draw. The values are part of the reproducibility contract: append new ones, never renumber.
enum class RandomStream : uint8_t {
  kPermutation = 0,  // the order of samples in an epoch
  kAugment = 1,      // crop and flip of one sample
  kReplacement = 2,  // which sample stands in for an unreadable one
  kSynthetic = 3,    // pixels and labels of synthetic data
  kPolicy = 4,       // the operators of RandAugment and similar policies
  kPhotometric = 5,  // jitter, lighting, blur, erasing
  kMix = 6,          // mixup and CutMix; RandomKey::sample is the micro-step, repeat the shard
  kMask = 7,         // which tokens a masked language model has to guess
  kTask = 8,         // seeds of a task's own draws; epoch is the micro-step, sample the step, repeat the shard
  kSubset = 9,       // which samples a limited evaluation takes
  kFilter = 10,      // the filter that one sample is resized with
  kBalance = 11,     // the order of a class under --sampling=balanced; epoch is the pass over it, sample the class
};

// The key of one generator. Values are taken modulo 2^24 (epoch), 2^48 (sample) and 2^16 (repeat).
struct RandomKey {
  int64_t seed = 0;
  int64_t epoch = 0;
  int64_t sample = 0;
  int64_t repeat = 0;
  RandomStream stream = RandomStream::kAugment;
};

// A sequence of 2^34 words for one key. Cheap to construct and to copy. Not safe for concurrent use.
class RandomGenerator {
 public:
  explicit RandomGenerator(const RandomKey& key);

  uint32_t Next32();
  uint64_t Next64();
  float UniformFloat();                     // [0, 1), 24 bits
  double Uniform(double low, double high);  // [low, high), 53 bits
  double Normal();                          // mean 0, standard deviation 1
  // [0, n) without bias. Throws std::invalid_argument if n is below 1.
  int64_t Below(int64_t n);
  // Brings the elements into a random order (Fisher–Yates).
  void Shuffle(std::span<int64_t> elements);

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;  // word 0 counts the blocks
  std::array<uint32_t, 4> block_{};
  int used_ = 4;  // number of words of block_ already returned
};

// Returns a random order of the indices 0 to n - 1 for one epoch (Fisher–Yates).
std::vector<int64_t> Permutation(int64_t n, int64_t seed, int64_t epoch);

}  // namespace dtrain::data
