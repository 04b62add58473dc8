// Reads and writes little-endian numbers, as the record formats store them, at any address.
#pragma once

#include <bit>
#include <cstring>
#include <string>

namespace dtrain::data {

static_assert(std::endian::native == std::endian::little, "record files and the index are read without conversion");

template <typename T>
T LoadLittleEndian(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename T>
void AppendLittleEndian(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace dtrain::data
