#include "data/random.h"

#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace dtrain::data {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

RandomGenerator::RandomGenerator(const RandomKey& key) {
  const auto seed = static_cast<uint64_t>(key.seed);
  const auto sample = static_cast<uint64_t>(key.sample);
  key_ = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  counter_ = {0, static_cast<uint32_t>(sample),
              (static_cast<uint32_t>(sample >> 32) & 0xFFFF) << 16 | (static_cast<uint32_t>(key.repeat) & 0xFFFF),
              (static_cast<uint32_t>(key.epoch) & 0xFFFFFF) << 8 | static_cast<uint32_t>(key.stream)};
}

uint32_t RandomGenerator::Next32() {
  if (used_ == 4) {
    block_ = Philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<size_t>(used_++)];
}

uint64_t RandomGenerator::Next64() {
  const uint64_t low = Next32();
  return uint64_t{Next32()} << 32 | low;
}

float RandomGenerator::UniformFloat() { return static_cast<float>(Next32() >> 8) * 0x1p-24F; }

double RandomGenerator::Uniform(double low, double high) {
  const double value = low + (high - low) * (static_cast<double>(Next64() >> 11) * 0x1p-53);
  return value < high ? value : low;  // rounding may give `high`
}

double RandomGenerator::Normal() {
  // Box–Muller. The second value of the pair is discarded, so that every draw takes the same number of words.
  const double radius = std::sqrt(-2 * std::log(1 - Uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * Uniform(0, 1));
}

int64_t RandomGenerator::Below(int64_t n) {
  if (n < 1) throw std::invalid_argument("RandomGenerator::Below(" + std::to_string(n) + "): there is no such number");
  // Lemire, "Fast random integer generation in an interval" (2019): returns the high half of a product and rejects the
  // few products that would bias it.
  const auto range = static_cast<uint64_t>(n);
  if (range <= uint64_t{1} << 32) {
    const auto threshold = static_cast<uint32_t>((uint64_t{1} << 32) % range);
    uint64_t product = Next32() * range;
    while (static_cast<uint32_t>(product) < threshold) product = Next32() * range;
    return static_cast<int64_t>(product >> 32);
  }
  const uint64_t threshold = (0 - range) % range;  // 2^64 mod range
  uint64_t draw = Next64();
  while (draw < threshold) draw = Next64();
  return static_cast<int64_t>(draw % range);
}

void RandomGenerator::Shuffle(std::span<int64_t> elements) {
  for (auto last = static_cast<int64_t>(elements.size()) - 1; last > 0; --last) {
    std::swap(elements[static_cast<size_t>(last)], elements[static_cast<size_t>(Below(last + 1))]);
  }
}

std::vector<int64_t> Permutation(int64_t n, int64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  RandomGenerator random({.seed = seed, .epoch = epoch, .stream = RandomStream::kPermutation});
  random.Shuffle(order);
  return order;
}

}  // namespace dtrain::data
