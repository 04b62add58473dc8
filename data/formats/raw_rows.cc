#include "data/formats/raw_rows.h"

#include <cstring>
#include <string>

#include "data/error.h"

namespace dtrain::data {

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

}  // namespace dtrain::data
