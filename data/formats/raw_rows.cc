#include "data/formats/raw_rows.h"

#include <cstring>

#include "data/error.h"
#include "data/random.h"
#include "data/sha256.h"

namespace dtrain::data {

namespace {

constexpr int64_t kPoolRecords = 32;

}  // namespace

RawRowDecoder::RawRowDecoder(const RawRows& rows) : rows_(rows) {
  if (rows.type != ElementType::kUInt8 && !(rows.type == ElementType::kFloat32 && rows.planar)) {
    throw DataError("raw pixels are uint8, or float32 with the channels first");
  }
}

std::vector<Field> RawRowDecoder::fields(int64_t /*size*/) const {
  if (rows_.type == ElementType::kFloat32) {
    return {{.name = "images", .type = ElementType::kFloat32, .row_shape = {3, rows_.height, rows_.width}}};
  }
  return {{.name = "images", .type = ElementType::kUInt8, .row_shape = {rows_.height, rows_.width, 3}}};
}

void RawRowDecoder::Decode(std::span<const uint8_t> bytes, const SampleRef& /*sample*/,
                           std::span<const std::span<std::byte>> rows) const {
  if (bytes.size() != static_cast<size_t>(rows_.bytes()) || rows[0].size() != bytes.size()) {
    throw DataError("a record of " + std::to_string(bytes.size()) + " bytes, expected " +
                    std::to_string(rows_.bytes()));
  }
  if (rows_.type == ElementType::kUInt8 && rows_.planar) {
    PlanarToInterleaved(bytes.data(), rows_.height, rows_.width, reinterpret_cast<uint8_t*>(rows[0].data()));
  } else {
    std::memcpy(rows[0].data(), bytes.data(), bytes.size());
  }
}

void PlanarToInterleaved(const uint8_t* planar, int64_t height, int64_t width, uint8_t* interleaved) {
  const int64_t pixels = height * width;
  for (int64_t i = 0; i < pixels; ++i) {
    interleaved[3 * i] = planar[i];
    interleaved[3 * i + 1] = planar[pixels + i];
    interleaved[3 * i + 2] = planar[2 * pixels + i];
  }
}

Synthetic::Synthetic(int64_t size, int64_t num_classes, int64_t height, int64_t width, int64_t seed)
    : size_(size), num_classes_(num_classes), seed_(seed) {
  if (size < 1 || num_classes < 1 || height < 1 || width < 1) {
    throw DataError("synthetic data needs at least one record, class and pixel");
  }
  rows_ = {.type = ElementType::kUInt8, .height = height, .width = width, .planar = false};
}

int64_t Synthetic::Label(int64_t index) const {
  return RandomGenerator({.seed = seed_, .sample = index, .stream = RandomStream::kSynthetic}).Below(num_classes_);
}

std::vector<uint8_t> Synthetic::Read(int64_t index) const {
  std::call_once(is_drawn_, [this] {  // not before, because a plan needs no pixels
    pool_.resize(static_cast<size_t>(kPoolRecords * rows_.bytes()));
    RandomGenerator random({.seed = seed_, .sample = -1, .stream = RandomStream::kSynthetic});
    for (uint8_t& pixel : pool_) pixel = static_cast<uint8_t>(random.Next32() >> 24);
  });
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
