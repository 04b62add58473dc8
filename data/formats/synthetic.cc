#include "data/formats/synthetic.h"

#include "data/error.h"
#include "data/random.h"
#include "data/sha256.h"

namespace dtrain::data {
namespace {

constexpr int64_t kPoolRecords = 32;

}  // namespace

Synthetic::Synthetic(int64_t size, int64_t num_classes, int64_t height, int64_t width, int64_t seed)
    : size_(size), num_classes_(num_classes), seed_(seed) {
  if (size < 1 || num_classes < 1 || height < 1 || width < 1) {
    throw DataError("synthetic data needs at least one record, class and pixel");
  }
  rows_ = {.type = ElementType::kUInt8, .height = height, .width = width, .planar = false};
  pool_.resize(static_cast<size_t>(kPoolRecords * rows_.bytes()));
  RandomGenerator random({.seed = seed, .sample = -1, .stream = RandomStream::kSynthetic});
  for (uint8_t& pixel : pool_) pixel = static_cast<uint8_t>(random.Next32() >> 24);
}

int64_t Synthetic::Label(int64_t index) const {
  return RandomGenerator({.seed = seed_, .sample = index, .stream = RandomStream::kSynthetic}).Below(num_classes_);
}

std::vector<uint8_t> Synthetic::Read(int64_t index) const {
  const auto begin = pool_.begin() + index % kPoolRecords * rows_.bytes();
  return {begin, begin + rows_.bytes()};
}

RecordPlace Synthetic::Place(int64_t index) const { return {"synthetic data", index * rows_.bytes()}; }

std::string Synthetic::fingerprint() const {
  Sha256 hash;
  hash.UpdateText("synthetic");
  for (const int64_t value : {size_, num_classes_, rows_.height, rows_.width, seed_}) hash.UpdateInteger(value);
  return hash.Hex();
}

}  // namespace dtrain::data
